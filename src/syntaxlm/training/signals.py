"""Handling of Ctrl-C and SIGTERM: a run saves a checkpoint and stops."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

_received: list[int] = []


def received_signal() -> int | None:
    """Returns the last signal that stopped a run in this process, or None."""
    return _received[-1] if _received else None


@contextmanager
def on_stop_signals(ask: Callable[[], None]) -> Iterator[None]:
    """Calls `ask` on SIGTERM and Ctrl-C; a second Ctrl-C raises KeyboardInterrupt.

    Does nothing outside the main thread, where Python has no signal handlers.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    _received.clear()
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}

    def handle(number: int, frame: FrameType | None) -> None:
        _received.append(number)
        ask()
        signal.signal(signal.SIGINT, signal.default_int_handler)

    for number in before:
        signal.signal(number, handle)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
