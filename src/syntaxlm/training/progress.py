"""The progress of a run: events, the lines of metrics.jsonl, and a display for terminals."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

from rich.console import Console

from syntaxlm.core.files import append_stored, to_json, truncate_stored
from syntaxlm.core.progress import Progress, working
from syntaxlm.scoring.perplexity import perplexity_text
from syntaxlm.training.checkpoint import TrainerState
from syntaxlm.training.recipe import ScheduleSettings
from syntaxlm.training.run_folder import CHECKPOINT, METRICS


@dataclass(frozen=True)
class Event:
    """An event of a run.

    kind: "trees" (before training, for each source of trees), "step", "valid" or "round".
    trainer: the progress of the run.
    batches: number of batches of the epoch; of "round", the number of rounds.
    values: the values of the event, as in metrics.jsonl.
    """

    kind: str
    trainer: TrainerState
    batches: int
    values: dict[str, Any]


ProgressCallback = Callable[[Event], None]


class RunLog:
    """The progress of a run: where it is written, and the callback that receives it.

    folder: the folder of the weights.
    callback: called with every event.
    active: whether this process writes files and calls the callback.
    resumable: whether metrics and checkpoints are written to the folder, too.
    """

    def __init__(
        self, folder: Path, callback: ProgressCallback | None = None, active: bool = True, resumable: bool = True
    ) -> None:
        self.folder, self.active, self.resumable = folder, active, resumable
        self.trainer = TrainerState()
        self._callback = callback if callback and active else lambda event: None

    @property
    def has_checkpoint(self) -> bool:
        """Whether the run has written a checkpoint."""
        return self.resumable and (self.folder / CHECKPOINT).exists()

    def report(self, kind: str, batches: int, values: dict[str, Any]) -> None:
        """Call the progress display."""
        self._callback(Event(kind, self.trainer, batches, values))

    def write(self, kind: str, batches: int, values: dict[str, Any]) -> None:
        """Append a line to metrics.jsonl and call the progress display.

        Raises InputError if the file cannot be written.
        """
        if self.active and self.resumable:
            line = {"event": kind} | values | {"seconds": round(self.trainer.seconds, 1)}
            data = (to_json(line) + "\n").encode()
            append_stored(data, self.folder / METRICS)
            self.trainer.metrics_bytes += len(data)
        self.report(kind, batches, values)

    def cut(self) -> None:
        """Create metrics.jsonl or, in a resumed run, remove the lines of the steps that will be repeated."""
        append_stored(b"", self.folder / METRICS)
        truncate_stored(self.folder / METRICS, self.trainer.metrics_bytes)


class Scheduled(Protocol):
    """A recipe.  unit: what the loss is a mean over, such as "tokens", for the speed of training."""

    @property
    def schedule(self) -> ScheduleSettings: ...

    @property
    def unit(self) -> str: ...


class ProgressDisplay:
    """Shows a progress bar with the remaining time, and prints a line after each validation.

    Without a terminal, only the lines are printed.
    recipe: of the run.
    """

    def __init__(self, recipe: Scheduled, console: Console) -> None:
        self.schedule, self.console, self.unit = recipe.schedule, console, recipe.unit
        self._work = Progress("training")
        self._shown, self._started = ExitStack(), False
        self._counted, self._seconds = 0, 0.0  # at the last measurement of the speed

    def __enter__(self) -> ProgressDisplay:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._shown.close()

    def __call__(self, event: Event) -> None:
        if event.kind == "trees":
            self.console.print(str(event.values["supervision"]), soft_wrap=True, markup=False)
            return
        if event.kind in ("valid", "round"):
            self._print(event)
        if event.kind != "valid":
            self._move(event)

    def _print(self, event: Event) -> None:
        """Print the line of a validation."""
        place, values = event.trainer, event.values
        where = (
            f"epoch {place.epoch + place.batch / event.batches:.2f}"
            if event.kind == "valid"
            else f"round {place.epoch}"
        )
        parts = [where]
        parts += [f"{name.replace('_', ' ')} {_figure(name, values[name])}" for name in values if name in _SHOWN]
        minutes, seconds = divmod(round(place.seconds), 60)
        parts.append(f"{minutes}:{seconds:02d}")
        parts += [text for key, text in _MARKS.items() if values.get(key)]
        if change := values.get("averaging"):
            parts.append(_AVERAGING[change])
        self.console.print("  ".join(parts), soft_wrap=True)

    def _move(self, event: Event) -> None:
        """Update the progress bar, which counts batches or rounds."""
        place, work = event.trainer, self._work
        if event.kind == "round":
            work.done, work.total = place.epoch, event.batches
        else:
            work.done = place.epoch * event.batches + place.batch
            work.total = total = self.schedule.epochs * event.batches
            if self.schedule.minutes is not None and place.seconds:  # a time limit may end training earlier
                work.total = min(total, max(work.done, round(work.done * self.schedule.minutes * 60 / place.seconds)))
        if not self._started:
            self._shown.enter_context(working(work, self.console))
            self._started, self._seconds = True, place.seconds
        if not place.loss_count:
            return
        new = place.loss_count - self._counted
        speed = f"  {new / max(1e-9, place.seconds - self._seconds):,.0f} {self.unit}/s" if new > 0 else ""
        if new <= 0 or place.seconds - self._seconds > 10:
            self._counted, self._seconds = place.loss_count, place.seconds
        work.note = f"loss {place.loss_sum / place.loss_count:.3f}{speed}"


_MARKS = {"best": "best so far", "rate_fell": "learning rate reduced"}
_AVERAGING = {
    "begins": "weight averaging starts",
    "restarts": "weight averaging restarts (fine-tuning)",
    "ends": "fine-tuning ends",
}
_SHOWN = ("log_likelihood", "train_loss", "valid_loss", "valid_perplexity", "valid_accuracy")


def _figure(name: str, value: float) -> str:
    if name == "valid_perplexity":
        return perplexity_text(value)
    return f"{100 * value:.1f}%" if name == "valid_accuracy" else f"{value:.4f}"
