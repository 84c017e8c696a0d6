"""Progress bars on stderr. They are shown only on a terminal, and only for work that takes longer than two seconds.

All bars of a process share one display, so a bar inside another one adds a line instead of a second display.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sized
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, TypeVar

from rich import progress as rich_progress
from rich.console import Console, RenderableType
from rich.progress import BarColumn, ProgressColumn, Task, TaskID, TextColumn
from rich.text import Text

T = TypeVar("T")

PATIENCE = 2.0  # seconds

_settings = {"quiet": False}


def set_quiet(quiet: bool = True) -> None:
    """Turn progress bars and notes off or on. Errors and warnings are always printed."""
    _settings["quiet"] = quiet


def error_console() -> Console:
    """Return a console on stderr for progress and notes. It prints above the bars, and nothing after `set_quiet()`."""
    if _shown.display is not None:
        return _shown.display.console
    return Console(stderr=True, highlight=False, quiet=_settings["quiet"])


@dataclass
class Progress:
    """How far some work is, for display.

    what: description of the work.
    total: amount of work; None if it is unknown.
    percent: show the finished amount in percent instead of a number.
    done: finished amount.
    note: additional text.
    counted: show the finished amount.
    """

    what: str
    total: float | None = None
    percent: bool = False
    done: float = 0.0
    note: str = ""
    counted: bool = True

    @property
    def amount(self) -> str:
        """The finished amount: "1,200/5,000", "1,200" without a total, or "24%"."""
        if not self.counted or (self.percent and not self.total):
            return ""
        if self.percent:
            return f"{100 * min(1, self.done / (self.total or 1)):.0f}%"
        return f"{self.done:,.0f}" + ("" if self.total is None else f"/{self.total:,.0f}")


@contextmanager
def status(what: str) -> Iterator[Progress]:
    """Show a description and the elapsed time while the block runs."""
    with working(Progress(what, counted=False)) as work:
        yield work


def progress_bar(
    items: Iterable[T],
    what: str,
    total: float | None = None,
    amount: Callable[[T], float] | None = None,
    percent: bool = False,
) -> Iterator[T]:
    """Yield the items while showing a progress bar with the remaining time.

    what: description of the work.
    total: total amount of work; by default the number of items, if it is known. If the total is unknown, the elapsed
        time is shown instead of the remaining time.
    amount: returns the amount of work of an item; by default 1.
    percent: see `Progress`.
    """
    if total is None and isinstance(items, Sized):
        total = len(items)
    with working(Progress(what, total, percent)) as work:
        for item in items:
            yield item
            work.done += 1 if amount is None else amount(item)


@contextmanager
def working(work: Progress, console: Console | None = None) -> Iterator[Progress]:
    """Show the progress of work while the block runs. The block sets `work.done`.

    console: where to show the progress; None: stderr.
    """
    _add(work, console)
    try:
        yield work
    finally:
        _remove(work)


class _Time(ProgressColumn):
    """Column with the remaining time or, if the total is unknown, the elapsed time."""

    max_refresh = 0.5

    def render(self, task: Task) -> Text:
        elapsed = task.elapsed or 0.0
        if task.total is None:
            return Text(str(timedelta(seconds=int(elapsed))), style="progress.elapsed")
        first, moved = task.fields["first"], task.fields["moved"]  # amount at the start; time of the last change
        text = "-:--:--"
        if task.completed > first:
            # From the mean speed since the start, because work may be done in large portions.
            left = moved * (task.total - task.completed) / (task.completed - first) - (elapsed - moved)
            text = str(timedelta(seconds=round(max(0.0, left))))
        return Text(f"{text} left", style="progress.remaining")


class _Display(rich_progress.Progress):
    """Display of all bars. It reads the amounts of work only when it is drawn, so updates have no cost."""

    def __init__(self, console: Console) -> None:
        super().__init__(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TextColumn("{task.fields[work].amount}", markup=False),
            TextColumn("{task.fields[work].note}", markup=False),
            _Time(),
            console=console,
            transient=True,
            # Output to a pipe or file must not be printed above the bars on the terminal.
            redirect_stdout=bool(sys.stdout is not None and sys.stdout.isatty()),
        )
        self.timer: threading.Timer | None = None

    def get_renderables(self) -> Iterable[RenderableType]:
        for task in self.tasks:
            work: Progress = task.fields["work"]
            if work.done != task.completed:
                task.fields["moved"] = task.elapsed
            self.update(task.id, completed=work.done, total=work.total, description=work.what)
        yield self.make_tasks_table([task for task in self.tasks if (task.elapsed or 0) >= PATIENCE])


@dataclass
class _Shown:
    """The shared display; None while there is no work."""

    display: _Display | None = None
    tasks: dict[int, TaskID] = field(default_factory=dict)  # by the id of the work
    lock: Any = field(default_factory=threading.RLock)


_shown = _Shown()


def _add(work: Progress, console: Console | None = None) -> None:
    with _shown.lock:
        if _shown.display is None:
            console = console or error_console()
            # If several processes share a terminal, only the first shows progress.
            if not console.is_terminal or console.quiet or os.environ.get("RANK", "0") != "0":
                return
            display = _shown.display = _Display(console)
            display.timer = threading.Timer(PATIENCE, display.start)
            display.timer.daemon = True
            display.timer.start()
        _shown.tasks[id(work)] = _shown.display.add_task(
            work.what, total=work.total, completed=int(work.done), work=work, first=work.done, moved=0.0
        )


def _remove(work: Progress) -> None:
    with _shown.lock:
        task, display = _shown.tasks.pop(id(work), None), _shown.display
        if task is None or display is None:
            return
        display.remove_task(task)
        if _shown.tasks:
            return
        _shown.display = None
    assert display.timer is not None
    display.timer.cancel()
    display.timer.join()
    if display.live.is_started:  # otherwise it would print an empty line
        display.stop()
