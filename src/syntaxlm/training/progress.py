"""The progress of a run: events, a line in the log after each validation, and a display for terminals."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from syntaxlm.core.files import parse_json, read_stored_text
from syntaxlm.core.progress import working
from syntaxlm.core.work import Progress
from syntaxlm.evaluation.perplexity import perplexity_text
from syntaxlm.training.checkpoint import TrainerState
from syntaxlm.training.learning_curves import terminal_curves
from syntaxlm.training.result import METRICS

if TYPE_CHECKING:
    from syntaxlm.training.recipe import TrainingSettings


@dataclass(frozen=True)
class Event:
    """An event of a run.

    Attributes:
        kind: "building": building the weights takes long. "trees": before training, for each source of gold trees.
            "slow": the first step takes long. "plan": after the first seconds, how long training will take. "step":
            some steps were taken; it has values every `run.log_steps` steps. "valid": the model was measured on the
            validation data, at least once per epoch. "round": a round of a model that is trained by counting ended.
            "end": training ended, with the scores on the test data, or was stopped.
        trainer: the progress of the run, such as its `epoch`, `batch`, `steps` and `seconds`.
        batches: number of batches of the epoch; of "round", the number of rounds.
        values: the values of the event, as in metrics.jsonl.
        folder: the folder of the run.
    """

    kind: str
    trainer: TrainerState
    batches: int
    values: dict[str, Any]
    folder: Path


ProgressCallback = Callable[[Event], object]


@contextmanager
def calling(callbacks: ProgressCallback | Sequence[ProgressCallback]) -> Iterator[ProgressCallback]:
    """Return a callback that calls one or several, in order. Those that are context managers are entered.

    Raises:
        TypeError: for anything else.
    """
    several = [callbacks] if callable(callbacks) else callbacks
    if isinstance(several, str) or not isinstance(several, Sequence) or not all(map(callable, several)):
        raise TypeError(f"callbacks: found {callbacks!r}; expected a function of an event, or a list of functions")

    def call(event: Event) -> None:
        for callback in several:
            callback(event)

    with ExitStack() as stack:
        for callback in several:
            if isinstance(callback, AbstractContextManager):
                stack.enter_context(callback)
        yield call


_log = logging.getLogger("syntaxlm")

_FORMATS: dict[str, Callable[[float], str]] = {
    "log_likelihood": "{:.4f}".format,
    "train_loss": "{:.4f}".format,
    "valid_loss": "{:.4f}".format,
    "valid_perplexity": perplexity_text,
    "valid_accuracy": "{:.1%}".format,
}
_MARKS = {"best": "best so far", "rate_fell": "learning rate reduced"}
_AVERAGING = {
    "begins": "weight averaging starts",
    "restarts": "weight averaging restarts (fine-tuning)",
    "ends": "fine-tuning ends",
}


def log_event(event: Event, folder: Path) -> None:
    """Write a line to the logger `syntaxlm` after each validation, at the level INFO.

    Args:
        folder: the folder of the run, with which the line starts.
    """
    if event.kind in ("valid", "round") and _log.isEnabledFor(logging.INFO):
        _log.info("%s: %s", folder, validation_line(event))


def validation_line(event: Event) -> str:
    """Return what a validation found, and how long training has taken."""
    trainer, values = event.trainer, event.values
    epoch = trainer.epoch + trainer.batch / event.batches
    parts = [f"round {trainer.epoch}" if event.kind == "round" else f"epoch {epoch:.2f}"]
    parts += [f"{name.replace('_', ' ')} {_FORMATS[name](value)}" for name, value in values.items() if name in _FORMATS]
    if "treebank_f1" in values:
        f1, on_right, on_left = (
            f"{values[f'treebank_{name}']:.1%}" for name in ("f1", "right_branching", "left_branching")
        )
        parts.append(f"treebank F1 {f1} (right branching {on_right}, left branching {on_left})")
    minutes, seconds = divmod(round(trainer.seconds), 60)
    parts.append(f"{minutes}:{seconds:02d}")
    parts += [text for name, text in _MARKS.items() if values.get(name)]
    if change := values.get("averaging"):
        parts.append(_AVERAGING[change])
    return "  ".join(parts)


class ProgressDisplay(ExitStack):
    """Shows a progress bar with the remaining time, and prints a line after each validation.

    At the end, the curves of the losses are drawn. Without a terminal, only the lines are printed.

    Args:
        recipe: the recipe of the run.
    """

    def __init__(self, recipe: TrainingSettings, console: Console) -> None:
        super().__init__()
        self.schedule = recipe.schedule
        self.console = console
        self.unit = recipe.unit
        self._work, self._started = Progress("training"), False
        self._counted, self._seconds = 0, 0.0  # at the last measurement of the speed

    def __call__(self, event: Event) -> None:
        if event.kind == "trees":
            self.console.print(str(event.values["supervision"]), soft_wrap=True, markup=False)
        if event.kind == "building":
            self.console.print("building the weights takes long; training starts after it", soft_wrap=True)
        if event.kind == "slow":
            left = event.values
            text = f"the first of about {left['steps']:,} steps takes long: the model has {left['parameters']:,}"
            text += " parameters; the duration is estimated after this step"
            self.console.print(text, soft_wrap=True, markup=False)
        if event.kind == "plan":
            left = event.values
            text = f"about {left['steps']:,} more steps, {left['count']:,} {self.unit}, {left['minutes']:,.1f} minutes"
            if not left["steps"]:
                text = "no more steps: the schedule ends here"
            self.console.print(text, soft_wrap=True, markup=False)
        if event.kind in ("valid", "round"):
            self.console.print(validation_line(event), soft_wrap=True)
        if event.kind in ("step", "round"):
            self._move(event)
        if event.kind == "end" and self.console.is_terminal and not self.console.quiet:
            self.close()
            lines = read_stored_text(event.folder / METRICS).splitlines()
            curve = terminal_curves([parse_json(line, METRICS) for line in lines], self.console.width)
            self.console.print(curve, end="\n" if curve else "", soft_wrap=True, markup=False, highlight=False)

    def _move(self, event: Event) -> None:
        """Update the progress bar, which counts batches or rounds."""
        trainer, work = event.trainer, self._work
        if event.kind == "round":
            work.done, work.total = trainer.epoch, event.batches
        else:
            work.done = trainer.epoch * event.batches + trainer.batch
            work.total = total = self.schedule.epochs * event.batches
            if self.schedule.minutes is not None and trainer.seconds:  # a time limit may end training earlier
                work.total = min(total, max(work.done, round(work.done * self.schedule.minutes * 60 / trainer.seconds)))
        if not self._started:
            self.enter_context(working(work, self.console))
            self._started, self._seconds = True, trainer.seconds
        if not trainer.loss_count:
            return
        new = trainer.loss_count - self._counted
        speed = f"  {new / max(1e-9, trainer.seconds - self._seconds):,.0f} {self.unit}/s" if new > 0 else ""
        if new <= 0 or trainer.seconds - self._seconds > 10:
            self._counted = trainer.loss_count
            self._seconds = trainer.seconds
        work.note = f"loss {trainer.loss_sum / trainer.loss_count:.3f}{speed}"
