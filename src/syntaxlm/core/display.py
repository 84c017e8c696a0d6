"""Progress bars on a terminal, drawn by rich, and lines elsewhere.

Imported by `syntaxlm.core.progress` only where they are shown.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterable
from datetime import timedelta

from rich import progress as rich_progress
from rich.console import Console, RenderableType
from rich.progress import BarColumn, Task, TextColumn, TimeRemainingColumn
from rich.text import Text

from syntaxlm.core.errors import escaped
from syntaxlm.core.work import Progress

LINES_APART = 10.0  # seconds between the lines on work where there is no terminal
_SPEED_PERIOD = 600.0  # seconds; long, because work may be done in large portions


class _Time(TimeRemainingColumn):
    """Column with the remaining time or, if the total is unknown, the elapsed time."""

    def render(self, task: Task) -> Text:
        if task.total is None:
            return Text(str(timedelta(seconds=int(task.elapsed or 0))), style="progress.elapsed")
        return super().render(task).append(" left")


class Display(rich_progress.Progress):
    """Display of all bars. It reads the amounts of work only when it is drawn, so updates have no cost.

    Args:
        patience: seconds of work after which its bar is shown.
    """

    def __init__(self, console: Console, patience: float) -> None:
        super().__init__(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TextColumn("{task.fields[work].amount}", markup=False),
            TextColumn("{task.fields[work].note}", markup=False),
            _Time(),
            console=console,
            transient=True,
            speed_estimate_period=_SPEED_PERIOD,
            # Output to a pipe or file must not be printed above the bars on the terminal.
            redirect_stdout=bool(sys.stdout is not None and sys.stdout.isatty()),
        )
        self._patience = patience

    def add(self, work: Progress) -> None:
        """Add a bar."""
        task = self.add_task(escaped(work.what), total=work.total, completed=int(work.done), work=work)
        self._tasks[task].start_time = work.started

    def remove(self, work: Progress) -> None:
        """Remove a bar."""
        for task in self.tasks:
            if task.fields["work"] is work:
                self.remove_task(task.id)

    def get_renderables(self) -> Iterable[RenderableType]:
        for task in self.tasks:
            work: Progress = task.fields["work"]
            self.update(task.id, completed=work.done, total=work.total, description=escaped(work.what))
        yield self.make_tasks_table([task for task in self.tasks if (task.elapsed or 0) >= self._patience])


class Lines:
    """A line on each piece of work every ten seconds, for notebooks and files, which cannot redraw a bar.

    Args:
        patience: seconds of work after which its lines are printed.
    """

    def __init__(self, console: Console, patience: float) -> None:
        self.console = console
        self._patience = patience
        self._works: list[Progress] = []
        self._is_ended = threading.Event()
        self._thread = threading.Thread(target=self._print, daemon=True)

    def add(self, work: Progress) -> None:
        """Add a piece of work."""
        self._works = [*self._works, work]

    def remove(self, work: Progress) -> None:
        """Remove a piece of work."""
        self._works = [other for other in self._works if other is not work]

    def start(self) -> None:
        """Print the first lines, and then further ones."""
        self._thread.start()

    def stop(self) -> None:
        """Print no further lines."""
        self._is_ended.set()
        self._thread.join()

    def _print(self) -> None:
        while True:
            now = time.monotonic()
            for work in [work for work in self._works if now - work.started >= self._patience]:
                self.console.print(_line(work), markup=False, soft_wrap=True)
            if self._is_ended.wait(LINES_APART):
                return


def _line(work: Progress) -> str:
    """Return what a bar shows: the description, the finished amount, and the remaining or the elapsed time."""
    seconds = time.monotonic() - work.started
    ending = f"{timedelta(seconds=int(seconds))} so far"
    if work.total and work.done:
        ending = f"{timedelta(seconds=int(seconds * max(0, work.total - work.done) / work.done))} left"
    return "  ".join(filter(None, [escaped(work.what), work.amount, work.note, ending]))
