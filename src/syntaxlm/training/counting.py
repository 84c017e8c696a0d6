"""Training by counting or EM: each round computes expected counts on all data and sets the parameters from them."""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import Any

import torch

from syntaxlm.core.errors import InputError
from syntaxlm.core.progress import progress_bar, status
from syntaxlm.models.abilities import TrainsByCounting
from syntaxlm.training.checkpoint import CHECKPOINT, own_tensors, read_checkpoint, write_checkpoint
from syntaxlm.training.processes import Processes
from syntaxlm.training.run_log import RunLog
from syntaxlm.training.task import Task, TaskRecipe


class CountingLoop:
    """Trains in rounds until the model needs no more, the schedule ends, or a stop is requested.

    Only the first process counts.
    """

    def __init__(self, task: Task, recipe: TaskRecipe, processes: Processes, log: RunLog) -> None:
        self.task, self.recipe, self.processes, self.log = task, recipe, processes, log
        self.model: TrainsByCounting = task.model
        self.stop_requested = False

    @property
    def rounds(self) -> int:
        """The maximum number of rounds."""
        limit = self.recipe.schedule.epochs
        return limit if self.model.rounds is None else min(limit, self.model.rounds)

    @property
    def epochs(self) -> float:
        """The number of finished rounds."""
        return float(self.log.trainer.epoch)

    @property
    def figures(self) -> dict[str, Any]:
        """The figures that `maximise` returned in the last round."""
        return self.log.trainer.round_figures

    def restore(self) -> None:
        """Restore the state of the checkpoint, if there is one. It is written after every round."""
        folder = self.log.folder
        if folder is not None and (folder / CHECKPOINT).exists():
            _, self.log.trainer = read_checkpoint(folder, self.task.model, None)

    def train(self) -> None:
        """Train in the first process, while the others wait."""
        self.processes.on_rank_zero(self._rounds)
        self.log.trainer = self.processes.from_first(self.log.trainer)

    def _rounds(self) -> None:
        trainer = self.log.trainer
        started = time.monotonic() - trainer.seconds
        while not trainer.finished and not self.stop_requested:
            counted = 0
            with torch.no_grad():
                for counted, batch in enumerate(progress_bar(self.task.full_pass(), "counting, batches"), 1):  # noqa: B007
                    self.model.accumulate(batch)
                if not counted:
                    raise InputError(
                        f"{self._place}: found nothing to count; expected training text with one word or more"
                    )
                with status("estimating"):
                    trainer.round_figures = self.model.maximise()
            trainer.epoch += 1
            trainer.seconds = time.monotonic() - started
            minutes = self.recipe.schedule.minutes
            out_of_time = minutes is not None and trainer.seconds > 60 * minutes
            trainer.finished = trainer.epoch >= self.rounds or out_of_time
            self._after_round()

    @property
    def _place(self) -> Path | str:
        return self.log.folder or "training"

    def _after_round(self) -> None:
        """Validate, keeps the weights if they are the best or the recipe keeps the last ones, and write the log.

        If there are several rounds, it also writes a checkpoint.
        """
        trainer, log, patience = self.log.trainer, self.log, self.recipe.schedule.stop_patience
        found = self.task.validate()
        if not math.isfinite(found.cost):
            raise InputError(
                f"{self._place}: the {found.criterion.name} of the validation data is {found.cost} after round"
                f" {trainer.epoch}; expected a finite number. Earlier checkpoints are intact: resume the run from the"
                " last one with other data or settings."
            )
        lowest = trainer.best_loss if trainer.lowest_loss is None else trainer.lowest_loss
        best = lowest is None or found.cost < lowest
        trainer.without_best = 0 if best else trainer.without_best + 1
        if best:
            trainer.lowest_loss = found.cost
        if best or self.recipe.schedule.keep == "last":
            trainer.best_loss, trainer.best_step, trainer.best_epoch = found.cost, trainer.epoch, self.epochs
            log.keep_weights(self.task)
        if patience is not None and trainer.without_best >= patience:
            trainer.finished = True
        criterion = f"{found.criterion.name}, {found.criterion.unit}"
        values = self.figures | found.figures | {"criterion": criterion, "best": best}
        log.write("round", {"step": trainer.epoch, "epoch": trainer.epoch}, values, None, self.rounds)
        if log.folder is not None and self.rounds > 1:
            write_checkpoint(log.folder, self.task.model, None, [own_tensors(None)], trainer)
