"""Ctrl-C and SIGTERM as requests to save and stop."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

_received: list[int] = []


def received_signal() -> int | None:
    """The last signal that asked a run to save and stop in this process; None: there was none."""
    return _received[-1] if _received else None


@contextmanager
def on_stop_signals(ask: Callable[[], None]) -> Iterator[None]:
    """Turns SIGTERM and Ctrl-C into a request; a second Ctrl-C interrupts at once. Outside the main thread: nothing."""
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
