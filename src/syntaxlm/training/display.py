"""What a person sees of a training run."""

from __future__ import annotations

from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from syntaxlm.scoring.perplexity import perplexity_text
from syntaxlm.training.recipe import Recipe
from syntaxlm.training.trainer import Event


class ProgressDisplay:
    """A progress bar with time left, and a line for each validation. Elsewhere than in a terminal, the lines alone."""

    def __init__(self, recipe: Recipe, console: Console) -> None:
        self.schedule, self.console = recipe.schedule, console
        self.progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("loss {task.fields[loss]}  {task.fields[speed]} tokens/s"),
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
        place = event.progress
        done = place.epoch * event.batches + place.batch
        if event.kind == "valid":
            values = event.values
            marks = ("  best so far" if values["best"] else "") + (
                "  learning rate falls" if values["rate_fell"] else ""
            )
            change = values.get("averaging")
            marks += f"  averaging {change}" if change else ""
            self.progress.console.print(
                f"epoch {done / event.batches:.2f}  train loss {values['train_loss']:.4f}  "
                f"valid loss {values['valid_loss']:.4f}  "
                f"valid perplexity {perplexity_text(values['valid_perplexity'])}  "
                f"{_clock(place.seconds)}{marks}",
                soft_wrap=True,
            )
            return
        total = self._total(done, event)
        if self.task is None:
            self.task = self.progress.add_task("training", total=total, loss="-", speed="-")
            self._seconds = place.seconds
        loss = f"{place.nats / place.tokens:.3f}" if place.tokens else "-"
        new = place.tokens - self._tokens
        speed = f"{new / max(1e-9, place.seconds - self._seconds):,.0f}" if new > 0 else "-"
        if new <= 0 or place.seconds - self._seconds > 10:
            self._tokens, self._seconds = place.tokens, place.seconds
        self.progress.update(self.task, completed=done, total=total, loss=loss, speed=speed)

    def _total(self, done: int, event: Event) -> int:
        """Batches until the end: of all epochs, or as many as the minutes left allow."""
        total = self.schedule.epochs * event.batches
        if self.schedule.minutes is None or not event.progress.seconds:
            return total
        return min(total, max(done, round(done * self.schedule.minutes * 60 / event.progress.seconds)))


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02d}"
