"""The progress bars on a terminal, drawn by rich. Imported by `syntaxlm.core.progress` only where they are shown."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from datetime import timedelta

from rich import progress as rich_progress
from rich.console import Console, RenderableType
from rich.progress import BarColumn, Task, TextColumn, TimeRemainingColumn
from rich.text import Text

from syntaxlm.core.errors import escaped
from syntaxlm.core.work import Progress

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
