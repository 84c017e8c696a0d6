"""The frame of every training run: folder, recipe, processes, signals, and the training loop."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import torch
import yaml

from syntaxlm.core.errors import InputError
from syntaxlm.core.files import append_stored, read_stored, remove_unfinished, write_text
from syntaxlm.models.abilities import TrainsByCounting
from syntaxlm.storage.folder import WEIGHTS
from syntaxlm.training.checkpoint import CHECKPOINT
from syntaxlm.training.counting import CountingLoop
from syntaxlm.training.gradient import GradientLoop
from syntaxlm.training.processes import Processes
from syntaxlm.training.result import RESULT
from syntaxlm.training.run_folder import (
    INPUTS,
    METRICS,
    RECIPE,
    Fingerprints,
    HeldFolder,
    check_fingerprints,
    claim,
    held,
    write_fingerprints,
)
from syntaxlm.training.run_log import ProgressCallback, RunLog
from syntaxlm.training.task import Task, TaskRecipe

# Handling of Ctrl-C and SIGTERM: a run saves a checkpoint and stops.


_received: list[int] = []


def received_signal() -> int | None:
    """Return the last signal that stopped a run in this process, or None."""
    return _received[-1] if _received else None


@contextmanager
def on_stop_signals(ask: Callable[[], None]) -> Iterator[None]:
    """Call `ask` on SIGTERM and Ctrl-C; a second Ctrl-C raises KeyboardInterrupt.

    Does nothing outside the main thread, where Python has no signal handlers.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    _received.clear()
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}

    def handle(number: int, frame: FrameType | None) -> None:
        _received.append(number)
        ask()
        signal.signal(signal.SIGINT, signal.default_int_handler)

    for number in before:
        signal.signal(number, handle)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


MakeTask = Callable[[torch.device], Task]
"""Reads the data and builds the model on a device, with random weights from the recipe's seed."""


def refuse_run(folder: Path) -> None:
    """Raise InputError if a folder holds a run or a model."""
    if (folder / CHECKPOINT).exists() or (folder / RECIPE).exists():
        raise InputError(f"{folder}: already holds a run. Resume it with --resume {folder}, or name another folder.")
    if (folder / WEIGHTS).exists():
        raise InputError(f"{folder}: already holds a model. Name another folder.")


class Run:
    """A run in a folder. `start` or `resume` prepare it, and `train` trains until it is finished or interrupted.

    make_task: reads the data and builds the model.
    fingerprint: returns the hashes of all files that the task reads.
    callback: called with the progress of the run.
    """

    task: Task
    loop: GradientLoop | CountingLoop

    def __init__(
        self,
        recipe: TaskRecipe,
        folder: Path,
        make_task: MakeTask,
        fingerprint: Callable[[], Fingerprints],
        callback: ProgressCallback | None = None,
    ) -> None:
        self.recipe, self.folder, self._make_task, self._fingerprint = recipe, folder, make_task, fingerprint
        self.processes = Processes(recipe.run.accelerator, recipe.run.precision, recipe.run.process_timeout)
        self.log = RunLog(folder, callback, self.processes.is_first)
        self._held: HeldFolder | None = None  # in the first process, while the folder is locked

    @contextmanager
    def start(self) -> Iterator[None]:
        """Start a new run and locks its folder.

        Raises InputError before anything is read if the folder already holds a run or cannot be written, so that no
        training is lost.
        """
        with self._holding(self._claim):
            try:
                self._prepare(new=True)
                self.processes.on_rank_zero(lambda: append_stored(b"", self.folder / METRICS))
            except BaseException:  # for instance, the data cannot be read: leave the folder as it was
                if self._held is not None:
                    self._held.abandon()
                raise
            yield

    @contextmanager
    def resume(self) -> Iterator[None]:
        """Resume the run from the checkpoint of its folder, or from the start if there is none."""
        with self._holding(self._hold):
            self.processes.on_rank_zero(lambda: remove_unfinished(self.folder))
            self._prepare(new=False)
            self.processes.on_rank_zero(self._check_whole)
            self.loop.restore()
            self.processes.on_rank_zero(self.log.cut)
            yield

    def train(self) -> bool:
        """Train. Returns whether the run is finished; otherwise it was interrupted and saved."""
        loop = self.loop

        def request_stop() -> None:
            loop.stop_requested = True

        if not self.log.trainer.finished:
            with on_stop_signals(request_stop):
                loop.train()
        self.processes.wait()
        return self.log.trainer.finished

    @property
    def place(self) -> tuple[Path, int, float, float]:
        """The folder, steps, epochs and seconds of the run, the first fields of results."""
        trainer = self.log.trainer
        return self.folder, trainer.steps, self.loop.epochs, trainer.seconds

    def write(self, text: str, name: str) -> None:
        """Write a file in the folder, in the first process only."""
        if self.processes.is_first:
            write_text(text, self.folder / name, stored=True)

    def _prepare(self, new: bool) -> None:
        """Prepare data, model and loop. Settings are written only if this succeeds."""
        self.processes.on_rank_zero(lambda: self._check_inputs(new))
        torch.manual_seed(self.recipe.run.seed)
        self.task = task = self._make_task(self.processes.device)
        task.check_resumable(self.folder)
        kind = CountingLoop if isinstance(task.model, TrainsByCounting) else GradientLoop
        self.loop = kind(task, self.recipe, self.processes, self.log)
        self.processes.on_rank_zero(lambda: task.write_settings(self.folder))

    def _claim(self) -> None:
        refuse_run(self.folder)
        text = yaml.safe_dump(_plain(self.recipe.to_dict()), sort_keys=False, allow_unicode=True)
        self._held = claim(self.folder, text)
        remove_unfinished(self.folder)  # of a process that was killed before it had claimed the folder

    def _hold(self) -> None:
        self._held = held(self.folder)

    @contextmanager
    def _holding(self, take: Callable[[], None]) -> Iterator[None]:
        """Lock the folder against other runs."""
        try:
            self.processes.on_rank_zero(take)
            yield
        finally:
            if self._held is not None:
                self._held.release()

    def _check_inputs(self, new: bool) -> None:
        """Store the hashes of the files that the task reads or, if the run is resumed, compares them."""
        found = self._fingerprint()
        if new or not any(os.path.lexists(self.folder / name) for name in (INPUTS, CHECKPOINT)):
            write_fingerprints(self.folder, found)
        else:
            check_fingerprints(self.folder, found)

    def _check_whole(self) -> None:
        """Raise InputError if resuming would overwrite weights: a run without a checkpoint starts from the beginning.

        Counting runs and those without further validations may do so, because they give the same weights again.
        """
        if isinstance(self.task.model, TrainsByCounting):
            return
        has_weights, has_checkpoint = ((self.folder / name).exists() for name in (WEIGHTS, CHECKPOINT))
        if has_weights and not (has_checkpoint or self._killed_at_first_validation()):
            raise InputError(
                f"{self.folder}: cannot be resumed: {CHECKPOINT} is missing. The folder has {WEIGHTS}, so the model can"
                " be used; to train again, name another folder."
            )

    def _killed_at_first_validation(self) -> bool:
        """Return whether the process was killed after it had written the first weights, and before the first
        checkpoint.
        """
        if not (self.folder / METRICS).exists() or (self.folder / RESULT).exists():
            return False
        return read_stored(self.folder / METRICS).count(b'"event": "valid"') <= 1


def _plain(value: Any) -> Any:
    """Replace tuples by lists, because safe YAML has no tuples."""
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    return [_plain(inner) for inner in value] if isinstance(value, (list, tuple)) else value
