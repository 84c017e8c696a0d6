"""Runs the application with uvicorn, until it is interrupted or while a block runs."""

from __future__ import annotations

import asyncio
import ipaddress
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from syntaxlm.core.errors import InputError
from syntaxlm.core.settings import check_number
from syntaxlm.serve.site import Site

MAX_CONNECTIONS = 1000
KEEP_ALIVE = 15  # seconds
HEADER_SECONDS = 20.0  # until the headers of a request are received
READ_SECONDS = 60.0  # in which a client must read a part of an answer, up to a few megabytes


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that is bound.

    Args:
        port: 0 for any free one.

    Raises:
        InputError: if host or port cannot be used.
    """
    check_number("port", port, 0, 65_535)
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        bound = socket.socket(family, kind)
        # A port is free again as soon as a server ends. On Windows this option would share the port with a running one.
        reuse = getattr(socket, "SO_EXCLUSIVEADDRUSE", socket.SO_REUSEADDR)
        bound.setsockopt(socket.SOL_SOCKET, reuse, 1)
        bound.bind(address)
        bound.listen()  # now, because several sockets may be bound to a port until one of them listens
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(
            f"cannot listen on {host}, port {port}: {reason}. Choose an address of this machine with --host, and a free"
            " port with --port (0: any free port)"
        ) from None
    return bound


def address_of(bound: socket.socket) -> str:
    """Return the address of the page, for a browser on this machine."""
    host, port = bound.getsockname()[:2]
    address = ipaddress.ip_address(host.partition("%")[0])
    if address.is_unspecified:
        host = "127.0.0.1"
    elif address.version == 6:
        host = f"[{host}]"
    return f"http://{host}:{port}"


def is_loopback(bound: socket.socket) -> bool:
    """Return whether only this machine can connect."""
    return ipaddress.ip_address(bound.getsockname()[0].partition("%")[0]).is_loopback


class _Protocol(H11Protocol):
    """Closes connections whose clients do not send the headers of a request in time, or do not read an answer.

    uvicorn waits forever, with the answers in memory.
    """

    _timer: asyncio.TimerHandle | None = None
    _reading: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        for timer in (self._timer, self._reading):
            if timer is not None:
                timer.cancel()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._check_reading(None)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._reading is not None:
            self._reading.cancel()

    def _check_reading(self, unread: int | None) -> None:
        """End a connection whose client has read nothing since the last check.

        Args:
            unread: bytes at that time.
        """
        now = self.transport.get_write_buffer_size()
        if unread is not None and now >= unread:
            self.transport.abort()
        else:
            self._reading = self.loop.call_later(READ_SECONDS, self._check_reading, now)

    def _watch(self) -> None:
        """Start the timer if no request is being answered; stop it otherwise."""
        is_waiting = self.cycle is None or self.cycle.response_complete
        if is_waiting and self._timer is None:
            self._timer = self.loop.call_later(HEADER_SECONDS, self.transport.close)
        elif not is_waiting and self._timer is not None:
            self._timer.cancel()
            self._timer = None


class Server(uvicorn.Server):
    """A server that ends if its models cannot be loaded.

    Args:
        on_start: called when they are.
    """

    def __init__(self, app: Site, on_start: Callable[[], None] = lambda: None) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                http=_Protocol,
                log_level="warning",
                access_log=False,
                server_header=False,
                limit_concurrency=MAX_CONNECTIONS,
                timeout_keep_alive=KEEP_ALIVE,
                timeout_graceful_shutdown=5,
            )
        )
        self._on_start, self._site = on_start, app
        self._failure: BaseException | None = None

    def run(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve until a signal. Raises the error with which the models could not be loaded."""
        super().run(sockets)
        if self._failure is not None:
            raise self._failure

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Let SIGHUP end the server as SIGTERM does, unless it is ignored."""
        number = getattr(signal, "SIGHUP", None)
        with super().capture_signals():
            in_main_thread = threading.current_thread() is threading.main_thread()
            if number is None or not in_main_thread or signal.getsignal(number) == signal.SIG_IGN:
                yield
                return
            before = signal.signal(number, self.handle_exit)
            try:
                yield
            finally:
                signal.signal(number, before)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for thread in self._site.threads:  # their requests are answered at once
            thread.stop()
        await super().shutdown(sockets)
        if self.force_exit:  # a second signal; otherwise the application's end is logged as its interruption
            await self.lifespan.shutdown()

    async def main_loop(self) -> None:
        serving: asyncio.Future[Any] = asyncio.ensure_future(super().main_loop())
        loading: asyncio.Future[Any] = asyncio.gather(asyncio.wrap_future(self._site.loading), return_exceptions=True)
        await asyncio.wait({serving, loading}, return_when=asyncio.FIRST_COMPLETED)
        if not serving.done():
            (loaded,) = loading.result()
            if isinstance(loaded, BaseException):
                self._failure, self.should_exit = loaded, True
            else:
                self._on_start()
        await serving


@contextmanager
def running(app: Site) -> Iterator[str]:
    """Serve an application in a thread while the block runs, on a free port of this machine. Yields its address."""
    started = threading.Event()
    with listen("127.0.0.1", 0) as bound:
        server = Server(app, started.set)
        thread = threading.Thread(target=server.run, args=([bound],), daemon=True)
        thread.start()
        try:
            while not started.wait(0.1):
                if not thread.is_alive():
                    raise RuntimeError("the server did not start; its log has the reason")
            yield address_of(bound)
        finally:
            server.should_exit = True
            thread.join()
