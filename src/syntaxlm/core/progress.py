"""Progress bars on stderr. They are shown only on a terminal, and only for work that takes longer than two seconds.

All bars of a process share one display, so a bar inside another one adds a line instead of a second display.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sized
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, TypeVar

from syntaxlm.core.threads import hold_in_forks
from syntaxlm.core.work import Progress

if TYPE_CHECKING:
    from rich.console import Console

    from syntaxlm.core.display import Display, Lines

T = TypeVar("T")

PATIENCE = 2.0  # seconds

_lock = threading.RLock()
_bars: _Bars | None = None  # shared; None while there is no work
_is_quiet = False


def _begin_child() -> None:
    """Show none of the parent's bars in a forked process, where no thread updates them."""
    global _bars
    _bars = None


hold_in_forks(_lock)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_child)


def set_quiet(quiet: bool = True) -> None:
    """Turn progress bars and notes off or on. Errors and warnings are always printed."""
    global _is_quiet
    _is_quiet = quiet


def is_quiet() -> bool:
    """Return whether progress bars and notes are turned off."""
    return _is_quiet


def error_console() -> Console:
    """Return a console on stderr for progress and notes. It prints above the bars, and nothing after `set_quiet()`."""
    from rich.console import Console  # slow to import, and most commands print neither

    bars = _bars  # another thread may set it to None
    display = None if bars is None else bars.display
    return display.console if display is not None else Console(stderr=True, highlight=False, quiet=_is_quiet)


def print_above_bars(line: str) -> None:
    """Print a line on stderr, above the bars if some are shown. Unlike `error_console`, imports nothing for this."""
    with _lock:
        display = None if _bars is None else _bars.display
        if display is not None:
            display.console.print(line, markup=False, soft_wrap=True)
        elif sys.stderr is not None:
            print(line, file=sys.stderr)


def status(what: str) -> AbstractContextManager[Progress]:
    """Show a description and the elapsed time while the block runs."""
    return working(Progress(what, counted=False))


def progress_bar(
    items: Iterable[T],
    what: str,
    total: float | None = None,
    amount: Callable[[T], float] | None = None,
    percent: bool = False,
    everywhere: bool = False,
) -> Iterator[T]:
    """Yield the items while showing a progress bar with the remaining time.

    Args:
        what: description of the work.
        total: total amount of work; by default the number of items, if it is known. If the total is unknown, the
            elapsed time is shown instead of the remaining time.
        amount: returns the amount of work of an item; by default 1.
        percent: see `Progress`.
        everywhere: see `working`.
    """
    if total is None and isinstance(items, Sized):
        total = len(items)
    with working(Progress(what, total, percent), everywhere=everywhere) as work:
        for item in items:
            yield item
            work.done += 1 if amount is None else amount(item)


@contextmanager
def working(work: Progress, console: Console | None = None, everywhere: bool = False) -> Iterator[Progress]:
    """Show the progress of work while the block runs. The block sets `work.done`.

    Args:
        console: where to show the progress; None: stderr.
        everywhere: whether to print lines where there is no terminal, such as in a notebook.
    """
    global _bars
    with _lock:
        # If several processes share a terminal, only the first shows progress.
        is_shown = _is_terminal(console) or (everywhere and not _is_quiet and sys.stderr is not None)
        if _bars is None and is_shown and os.environ.get("RANK", "0") == "0":
            _bars = _Bars(console)
        bars = _bars
        if bars is not None:
            bars.add(work)
    try:
        yield work
    finally:
        if bars is not None:
            with _lock:
                bars.remove(work)
                is_last = not bars.works
                if is_last:
                    _bars = None
            if is_last:
                bars.end()


def _is_terminal(console: Console | None) -> bool:
    if console is not None:
        return console.is_terminal and not console.quiet
    return not _is_quiet and sys.stderr is not None and sys.stderr.isatty()


class _Bars:
    """The work in progress and, after `PATIENCE` seconds, its bars. Only then is rich imported.

    Args:
        console: where to show the bars; None: stderr.
    """

    def __init__(self, console: Console | None) -> None:
        self.works: list[Progress] = []
        self.display: Display | Lines | None = None
        self._console = console
        self._timer = threading.Timer(PATIENCE, self._show)
        self._timer.daemon = True
        self._timer.start()

    def add(self, work: Progress) -> None:
        self.works.append(work)
        if self.display is not None:
            self.display.add(work)

    def remove(self, work: Progress) -> None:
        self.works = [other for other in self.works if other is not work]
        if self.display is not None:
            self.display.remove(work)

    def end(self) -> None:
        """Remove the bars from the terminal."""
        self._timer.cancel()
        self._timer.join()
        if self.display is not None:
            self.display.stop()

    def _show(self) -> None:
        from syntaxlm.core.display import Display, Lines

        with _lock:
            if self.works:
                console = self._console or error_console()
                display = (Display if _is_terminal(self._console) else Lines)(console, PATIENCE)
                for work in self.works:
                    display.add(work)
                self.display = display
                display.start()
