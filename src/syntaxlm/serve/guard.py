"""Refuses requests before the application reads them, and adds security headers to all answers."""

from __future__ import annotations

import asyncio
import ipaddress
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress

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
# A name or an address, and perhaps a port: RFC 9110, section 7.2. A name with other characters is of another host.
_HOST = re.compile(r"(?a)(?:\[(?P<address>[\da-fA-F:.]+)\]|(?P<name>[\w.-]+))(?::\d{0,5})?")
RETRY_AFTER = "2"  # seconds
CLOSING = {"Connection": "close"}
MOST_DISCARDED = 100 * 2**20  # bytes of a body that is too large that are read, so that the client reads the answer


class Guard:
    """Refuses requests for other hosts, too large ones, and slow ones; adds security headers to all answers.

    A page of another site can make a browser send requests here under its own host name (DNS rebinding), so a name
    must be known. An address in the header shows that no name was looked up.
    """

    def __init__(self, app: ASGIApp, hosts: Sequence[str], max_body: int, max_seconds: float) -> None:
        """Wrap an application.

        Args:
            hosts: names, besides localhost.
            max_body: bytes.
            max_seconds: until the body is received.
        """
        self._app, self._hosts = app, {"localhost", *map(str.lower, hosts)}
        self._max_body, self._max_seconds = max_body, max_seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        answered, started = asyncio.Event(), False

        async def send_with_headers(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                headers = MutableHeaders(scope=message)
                for name, value in SECURITY_HEADERS.items():
                    headers.setdefault(name, value)
            if message["type"] == "http.response.body" and not message.get("more_body", False):
                answered.set()
            await send(message)

        try:
            await self._answer(scope, receive, send_with_headers, answered)
        except asyncio.CancelledError:  # the server ends, and does not wait for this request
            if not started:
                await error_answer(503, "the server is stopping", CLOSING)(scope, receive, send_with_headers)

    async def _answer(self, scope: Scope, receive: Receive, send: Send, answered: asyncio.Event) -> None:
        """Refuse a request, or let the application answer it.

        Args:
            answered: set when the answer is complete.
        """
        refusal = body = None
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        if scope["http_version"] not in ("1.0", "1.1"):
            refusal = error_answer(505, f"found HTTP {scope['http_version']}; expected HTTP/1.1", CLOSING)
        elif "content-length" in headers and "transfer-encoding" in headers:  # a proxy may read another end
            refusal = error_answer(400, "found Content-Length and Transfer-Encoding; expected one of them", CLOSING)
        elif not self._knows(host):
            refusal = error_answer(
                400, f"the host {host!r} is not one of this server's names. Start it with --allow-host NAME to allow it"
            )
        else:
            try:
                async with asyncio.timeout(self._max_seconds):
                    body = await self._body(receive)
            except TimeoutError:
                reason = f"the request was not received within {self._max_seconds} seconds"
                refusal = error_answer(408, reason, CLOSING)
            else:
                if body is None:
                    refusal = error_answer(413, f"the request is too large; expected at most {self._max_body:,} bytes")
        if refusal is not None:
            await refusal(scope, receive, send)
            return
        messages = iter([{"type": "http.request", "body": body, "more_body": False}])

        async def receive_body() -> Message:
            return next(messages, None) or await receive()

        answering = asyncio.ensure_future(self._app(scope, receive_body, send))
        gone = asyncio.ensure_future(self._gone(receive, answered))
        await asyncio.wait({answering, gone}, return_when=asyncio.FIRST_COMPLETED)
        for task in (answering, gone):
            if not task.done():
                task.cancel()
        with suppress(asyncio.CancelledError):
            await answering

    async def _gone(self, receive: Receive, answered: asyncio.Event) -> None:
        """Return when the client has gone before its answer is complete."""
        while (await receive())["type"] != "http.disconnect":
            pass
        if answered.is_set():  # this also ends the connection
            await asyncio.Event().wait()

    def _knows(self, host: str) -> bool:
        parts = _HOST.fullmatch(host)
        if parts is None:
            return False
        try:
            ipaddress.ip_address(parts["address"] or parts["name"])
        except ValueError:
            return parts["name"] is not None and parts["name"].lower() in self._hosts
        return True

    async def _body(self, receive: Receive) -> bytes | None:
        """Return the body of a request; None if it is too large."""
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


def error_answer(status: int, detail: str, headers: Mapping[str, str] | None = None) -> JSONResponse:
    return JSONResponse({"detail": detail.encode("utf-8", "backslashreplace").decode()}, status, headers)
