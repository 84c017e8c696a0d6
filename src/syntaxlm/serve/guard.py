"""What every request passes before the application: checks of host and size, and the headers of the answer."""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Sequence
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

SECURITY_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; connect-src 'self';"
        " base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-cache",
}
MOST_DISCARDED = 100 * 2**20  # bytes of a body that is too large that are read, so that the client reads the answer


class Guard:
    """Refuses requests for other hosts, too large ones, and slow ones; adds security headers to all answers.

    A page of another site can make a browser send requests here under its own host name (DNS rebinding), so a name
    must be known. An address in the header shows that no name was looked up.
    """

    def __init__(self, app: ASGIApp, hosts: Sequence[str], max_body: int, max_seconds: float) -> None:
        """hosts: names, besides localhost.  max_body: bytes.  max_seconds: until the body is received."""
        self._app, self._hosts = app, {"localhost", *map(str.lower, hosts)}
        self._max_body, self._max_seconds = max_body, max_seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in SECURITY_HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        headers = Headers(scope=scope)
        host = headers.get("host", "")
        if not self._knows(host):
            answer = _refusal(
                400, f"the host {host!r} is not one of this server's names. Start it with --allow-host NAME to allow it"
            )
            await answer(scope, receive, send_with_headers)
            return
        try:
            body = await asyncio.wait_for(self._body(receive), self._max_seconds)
        except TimeoutError:
            answer = _refusal(408, f"the request was not received within {self._max_seconds} seconds")
            answer.headers["Connection"] = "close"
            await answer(scope, receive, send_with_headers)
            return
        if body is None:
            answer = _refusal(413, f"the request is too large; expected at most {self._max_body:,} bytes")
            await answer(scope, receive, send_with_headers)
            return
        await self._app(scope, _received(body, receive), send_with_headers)

    def _knows(self, host: str) -> bool:
        try:
            name = urlsplit(f"//{host}").hostname or ""
        except ValueError:
            return False
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return name in self._hosts
        return True

    async def _body(self, receive: Receive) -> bytes | None:
        """The body of a request; None if it is too large."""
        parts: list[bytes] = []
        size = 0
        more = True
        while more and size <= MOST_DISCARDED:
            message = await receive()
            if message["type"] == "http.disconnect":
                break
            part = message.get("body", b"")
            size += len(part)
            if size <= self._max_body:
                parts.append(part)
            more = message.get("more_body", False)
        return b"".join(parts) if size <= self._max_body else None


def _received(body: bytes, receive: Receive) -> Receive:
    """A `receive` that gives a body that was read, and then what follows."""
    sent = False

    async def receive_body() -> Message:
        nonlocal sent
        if sent:
            return await receive()
        sent = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receive_body


def _refusal(status: int, detail: str) -> JSONResponse:
    return JSONResponse({"detail": detail}, status)
