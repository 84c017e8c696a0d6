"""What a loop trains: a task, with its model and data; and the log of its run."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from syntaxlm.batches import Batches
from syntaxlm.core.errors import InputError
from syntaxlm.core.files import append_stored, to_json, truncate_stored
from syntaxlm.data.supervision import Supervision
from syntaxlm.text.vocabulary import Vocabulary
from syntaxlm.training.checkpoint import TrainerState
from syntaxlm.training.progress import Event, ProgressCallback, log_event
from syntaxlm.training.result import CHECKPOINT, METRICS, TrainingResult, Validation

_REPORT_SLOW_AFTER = 3.0  # seconds after which work before the estimate of the duration is reported
NO_REPORT = nullcontext()


class Task(ABC):
    """A model with its training and validation data.

    Attributes:
        model: `TrainsByGradient` or `TrainsByCounting`, on the device of the run.
        supervision: trees that the model learns from, one entry for each source.
        remedies: the settings to lower if training diverges, for messages.
    """

    model: Any
    supervision: Sequence[Supervision] = ()
    remedies = "optimiser.learning_rate or optimiser.gradient_clip"

    @abstractmethod
    def batches(self, rank: int, ranks: int) -> Batches:
        """Return the training batches of one process.

        Args:
            rank: number of this process, from 0.
            ranks: number of processes.
        """

    @abstractmethod
    def validate(self) -> Validation:
        """Evaluate the present model on the validation data."""

    @abstractmethod
    def write_weights(self, folder: Path) -> None:
        """Write the model's weights to its folder, atomically. Called when they are the best so far."""

    def write_settings(self, folder: Path) -> None:  # noqa: B027
        """Write all other files of the model folder, before training."""

    def check_resumable(self, folder: Path) -> None:  # noqa: B027
        """Raise InputError if the data differs from that at the start of the run in the folder."""

    def full_pass(self) -> Iterable[Any]:
        """Return large batches of the whole training data, for models that are trained by counting."""
        return self.batches(0, 1).iterate(0)

    def set_epoch(self, epochs: float) -> None:  # noqa: B027
        """Set the number of epochs so far, for a model whose loss changes during training."""

    def rate_factor(self, batch: Any) -> float:
        """Return the factor of the learning rate for a batch."""
        return 1.0

    def limit_evaluation(self, words: int) -> None:  # noqa: B027
        """Limit the validation and test data to about so many words, so that their evaluation fits into a time."""

    def figures(self) -> dict[str, Any]:
        """Return additional figures for the log of every validation."""
        return {}

    def treebank_figures(self) -> dict[str, float]:
        """Return F1 of the present model on gold trees that the recipe names, and of baselines, for the log only."""
        return {}

    def evaluated(self, result: TrainingResult) -> TrainingResult:
        """Return the result of a finished run with the scores of the kept weights."""
        return result


def check_vocabulary(path: Path, vocabulary: Vocabulary, source: str, what: str = "words") -> None:
    """Raise InputError if a run in progress has another vocabulary: its weights would belong to other words.

    Args:
        path: the vocabulary of the run, if it exists.
        vocabulary: that of the present training data.
        source: the training data.
        what: the name of the tokens in messages.
    """
    if path.exists() and Vocabulary.read(path) != vocabulary:
        raise InputError(
            f"{source}: changed since the run started: its {what} differ from those in {path}. Restore the file and the"
            f" settings of its {what} to resume the run, or start a new run."
        )


class RunLog:
    """The progress of a run: where it is written, and the callback that receives it.

    Args:
        folder: the folder of the weights.
        callback: called with every event.
        active: whether this process writes files and calls the callback.
        resumable: whether metrics and checkpoints are written to the folder, too.

    Attributes:
        began: when this part of the run began, before its data was read.
    """

    def __init__(
        self, folder: Path, callback: ProgressCallback | None = None, active: bool = True, resumable: bool = True
    ) -> None:
        self.folder = folder
        self.active = active
        self.resumable = resumable
        self.began = time.monotonic()
        self.trainer = TrainerState()
        self._callback = callback

    @property
    def has_checkpoint(self) -> bool:
        """Whether the run has written a checkpoint."""
        return self.resumable and (self.folder / CHECKPOINT).exists()

    def report(self, kind: str, batches: int, values: dict[str, Any]) -> None:
        """Call the progress display, and write to the log."""
        if self.active:
            event = Event(kind, self.trainer, batches, values, self.folder)
            log_event(event, self.folder)
            if self._callback is not None:
                self._callback(event)

    def write(self, kind: str, batches: int, values: dict[str, Any]) -> None:
        """Append a line to metrics.jsonl and call the progress display.

        Raises:
            InputError: if the file cannot be written.
        """
        if self.active and self.resumable:
            line = {"event": kind} | values | {"seconds": round(self.trainer.seconds, 1)}
            data = (to_json(line) + "\n").encode()
            append_stored(data, self.folder / METRICS)
            self.trainer.metrics_bytes += len(data)
        self.report(kind, batches, values)

    def cut(self) -> None:
        """Create metrics.jsonl or, in a resumed run, remove the lines of the steps that will be repeated."""
        path = self.folder / METRICS
        append_stored(b"", path)
        truncate_stored(path, self.trainer.metrics_bytes)
        self.trainer.metrics_bytes = path.stat().st_size  # smaller if the file was removed in the meantime


@contextmanager
def if_slow(report: Callable[[], None]) -> Iterator[None]:
    """Call a function, in another thread, if the block takes longer than 3 seconds."""
    timer = threading.Timer(_REPORT_SLOW_AFTER, report)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()  # a thread that still runs when Python ends can abort it
