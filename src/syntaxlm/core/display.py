"""The progress bars on a terminal, drawn by rich. Imported by `syntaxlm.core.progress` only where they are shown."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from datetime import timedelta

from rich import progress as rich_progress
from rich.console import Console, RenderableType
from rich.progress import BarColumn, ProgressColumn, Task, TextColumn
from rich.text import Text

from syntaxlm.core.errors import escaped
from syntaxlm.core.progress import Progress


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


class Display(rich_progress.Progress):
    """Display of all bars. It reads the amounts of work only when it is drawn, so updates have no cost.

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
            # Output to a pipe or file must not be printed above the bars on the terminal.
            redirect_stdout=bool(sys.stdout is not None and sys.stdout.isatty()),
        )
        self._patience = patience

    def add(self, work: Progress) -> None:
        """Add a bar."""
        task = self.add_task(
            escaped(work.what), total=work.total, completed=int(work.done), work=work, first=work.done, moved=0.0
        )
        self._tasks[task].start_time = work.started

    def remove(self, work: Progress) -> None:
        """Remove a bar."""
        for task in self.tasks:
            if task.fields["work"] is work:
                self.remove_task(task.id)

    def get_renderables(self) -> Iterable[RenderableType]:
        for task in self.tasks:
            work: Progress = task.fields["work"]
            if work.done != task.completed:
                task.fields["moved"] = task.elapsed
            self.update(task.id, completed=work.done, total=work.total, description=escaped(work.what))
        yield self.make_tasks_table([task for task in self.tasks if (task.elapsed or 0) >= self._patience])
