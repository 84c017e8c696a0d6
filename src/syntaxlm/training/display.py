"""The progress of a training run on a terminal."""

from __future__ import annotations

from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from syntaxlm.scoring.perplexity import perplexity_text
from syntaxlm.training.recipe import ScheduleSettings
from syntaxlm.training.run_log import Event


class ProgressDisplay:
    """A progress bar with time left, and a line for each validation. Elsewhere than in a terminal, the lines alone."""

    def __init__(self, schedule: ScheduleSettings, console: Console, unit: str = "tokens") -> None:
        self.schedule, self.console = schedule, console
        self.progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("loss {task.fields[loss]}  {task.fields[speed]} " + f"{unit}/s"),
            TimeRemainingColumn(elapsed_when_finished=True),
            console=console,
            disable=not console.is_terminal,
        )
        self.task: TaskID | None = None
        self._tokens, self._seconds = 0, 0.0

    def __enter__(self) -> ProgressDisplay:
        if self.console.is_terminal:
            self.progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.console.is_terminal:  # else it would print an empty line
            self.progress.stop()

    def __call__(self, event: Event) -> None:
        if event.kind == "trees":
            self.progress.console.print(str(event.values["supervision"]), soft_wrap=True, markup=False)
            return
        place = event.trainer
        done = place.epoch * event.batches + place.batch
        if event.kind == "valid":
            values = event.values
            marks = ("  best so far" if values["best"] else "") + (
                "  learning rate falls" if values["rate_fell"] else ""
            )
            change = values.get("averaging")
            marks += f"  averaging {change}" if change else ""
            figures = "  ".join(
                f"{name.replace('_', ' ')} {_figure(name, values[name])}" for name in values if name in _SHOWN
            )
            self.progress.console.print(
                f"epoch {done / event.batches:.2f}  {figures}  {_clock(place.seconds)}{marks}", soft_wrap=True
            )
            return
        total = self._total(done, event)
        if self.task is None:
            self.task = self.progress.add_task("training", total=total, loss="-", speed="-")
            self._seconds = place.seconds
        loss = f"{place.loss_sum / place.loss_count:.3f}" if place.loss_count else "-"
        new = place.loss_count - self._tokens
        speed = f"{new / max(1e-9, place.seconds - self._seconds):,.0f}" if new > 0 else "-"
        if new <= 0 or place.seconds - self._seconds > 10:
            self._tokens, self._seconds = place.loss_count, place.seconds
        self.progress.update(self.task, completed=done, total=total, loss=loss, speed=speed)

    def _total(self, done: int, event: Event) -> int:
        """Batches until the end: of all epochs, or as many as the minutes left allow."""
        total = self.schedule.epochs * event.batches
        if self.schedule.minutes is None or not event.trainer.seconds:
            return total
        return min(total, max(done, round(done * self.schedule.minutes * 60 / event.trainer.seconds)))


_SHOWN = ("train_loss", "valid_loss", "valid_perplexity", "valid_accuracy")


def _figure(name: str, value: float) -> str:
    if name == "valid_perplexity":
        return perplexity_text(value)
    return f"{100 * value:.1f}%" if name == "valid_accuracy" else f"{value:.4f}"


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02d}"
