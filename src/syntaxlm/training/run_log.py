"""The log of a run: lines of metrics.jsonl, events for a progress display, and the best weights."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from syntaxlm.core.files import append_stored, to_json, truncate_stored
from syntaxlm.training.checkpoint import TrainerState
from syntaxlm.training.run_folder import METRICS
from syntaxlm.training.task import Task


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
    """The log of a run.

    folder: folder of the log; None: no log and no checkpoints are written.
    callback: called with every event.
    active: whether this process writes the log and calls the callback.
    keep: writes the best weights; None: they are written to the folder.
    """

    def __init__(
        self,
        folder: Path | None,
        callback: ProgressCallback | None = None,
        active: bool = True,
        keep: Callable[[Task], None] | None = None,
    ) -> None:
        self.folder, self.active = folder, active
        self.trainer = TrainerState()
        self._callback = callback if callback and active else lambda event: None
        self._keep = keep

    def keep_weights(self, task: Task) -> None:
        """Write the weights of a task's model as the best so far."""
        if self._keep is not None:
            self._keep(task)
        elif self.folder is not None:
            task.write_weights(self.folder)

    def report(self, kind: str, batches: int, values: dict[str, Any]) -> None:
        """Call the progress display."""
        self._callback(Event(kind, self.trainer, batches, values))

    def write(self, kind: str, place: dict[str, Any], values: dict[str, Any], rate: float | None, batches: int) -> None:
        """Append a line to metrics.jsonl and calls the progress display.

        Raises InputError if the file cannot be written.
        """
        if self.active and self.folder is not None:
            rates = {} if rate is None else {"learning_rate": rate}
            line = {"event": kind} | place | values | rates | {"seconds": round(self.trainer.seconds, 1)}
            data = (to_json(line) + "\n").encode()
            append_stored(data, self.folder / METRICS)
            self.trainer.metrics_bytes += len(data)
        self.report(kind, batches, values)

    def cut(self) -> None:
        """Remove the lines of the steps after the checkpoint, because these steps will be repeated."""
        if self.folder is not None and os.path.lexists(self.folder / METRICS):
            truncate_stored(self.folder / METRICS, self.trainer.metrics_bytes)
