"""Training runs: `train` starts a run in a new folder, `resume` continues one. All recipes are trained by both."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import yaml

from syntaxlm.core.errors import InputError
from syntaxlm.core.files import locked, named_path, read_stored, remove_unfinished, to_json, write_text
from syntaxlm.core.settings import parse_yaml
from syntaxlm.models.abilities import TrainsByCounting
from syntaxlm.storage.folder import WEIGHTS
from syntaxlm.training.classifiers import PairTask
from syntaxlm.training.language_model import TextTask, TreeTask
from syntaxlm.training.loop import CountingLoop, GradientLoop, Task
from syntaxlm.training.processes import Processes, on_stop_signals, process_group
from syntaxlm.training.progress import Event, ProgressCallback, RunLog
from syntaxlm.training.recipe import PairRecipe, Recipe, TextRecipe, TreeRecipe, recipe_from
from syntaxlm.training.result import RESULT, TrainingResult
from syntaxlm.training.run_folder import (
    CHECKPOINT,
    INPUTS,
    METRICS,
    RECIPE,
    Fingerprints,
    check_fingerprints,
    claimed,
    fingerprint,
    read_recipe_text,
    refuse_run,
    write_fingerprints,
)

__all__ = ["METRICS", "RECIPE", "Event", "ProgressCallback", "read_run_recipe", "refuse_run", "resume", "train"]

TASKS: dict[type[Recipe], Callable[[Any, torch.device], Task]] = {
    TextRecipe: TextTask,
    TreeRecipe: TreeTask,
    PairRecipe: PairTask,
}


def train(recipe: Recipe, folder: str | Path, callback: ProgressCallback | None = None) -> TrainingResult:
    """Train the model of a recipe in a new folder, and keep the best weights.

    callback: called with the progress of the run.
    The same recipe gives the same weights on one device of the same type.
    Raises InputError before anything is read if the folder already holds a run or cannot be written, so that no
    training is lost.
    """
    with process_group():
        run = Run(recipe, named_path(folder), callback)
        with run.start():
            return run.train()


def resume(folder: str | Path, callback: ProgressCallback | None = None) -> TrainingResult:
    """Resume a run from its last checkpoint, or from its start if it has none.

    callback: called with the progress of the run.
    Raises InputError if the folder holds no run, or if its files have changed.

    >>> result = syntaxlm.resume("my-run")
    """
    recipe = read_run_recipe(folder)
    with process_group():
        run = Run(recipe, named_path(folder), callback)
        with run.resume():
            return run.train()


def read_run_recipe(folder: str | Path) -> Recipe:
    """Read the recipe of the run in a folder. Raises InputError if there is none."""
    path = Path(folder) / RECIPE
    return recipe_from(parse_yaml(read_recipe_text(Path(folder)), path), str(path))


def fingerprints_of(recipe: Recipe) -> Fingerprints:
    """Return the hashes of all files that a run reads.

    Raises InputError for a file that cannot be read, and for training data that can be read only once.
    """
    section = recipe.data_section
    paths = {f"{section}.{name}": path for name, path in recipe.data.files.items()}
    fingerprints = fingerprint(paths, [f"{section}.{name}" for name in recipe.data.treebanks])
    if None in fingerprints[f"{section}.train"].values():
        raise InputError(
            f"{section}.train: found {recipe.data.train}, standard input or a pipe, which can be read only once;"
            " expected a file, because training reads its data several times. Write the data to a file first."
        )
    return fingerprints


class Run:
    """A run in a folder. `start` or `resume` lock the folder and prepare data, model and loop; `train` trains."""

    def __init__(self, recipe: Recipe, folder: Path, callback: ProgressCallback | None = None) -> None:
        self.recipe, self.folder = recipe, folder
        self.processes = Processes(recipe.run.accelerator, recipe.run.precision, recipe.run.process_timeout)
        self.log = RunLog(folder, callback, self.processes.is_first)

    @contextmanager
    def start(self) -> Iterator[None]:
        """Start a new run in a folder without one."""
        text = yaml.safe_dump(_plain(self.recipe.to_dict()), sort_keys=False, allow_unicode=True)
        with self.processes.holding(lambda: claimed(self.folder, text)) as claim:
            try:
                self._prepare(new=True)
            except BaseException:  # for instance, the data cannot be read: leave the folder as it was
                if claim is not None:
                    claim.abandon()
                raise
            yield

    @contextmanager
    def resume(self) -> Iterator[None]:
        """Resume the run from the checkpoint of its folder, or from the start if there is none."""
        with self.processes.holding(lambda: locked(self.folder)):
            self.processes.on_rank_zero(lambda: remove_unfinished(self.folder))
            self._prepare(new=False)
            yield

    def _prepare(self, new: bool) -> None:
        """Prepare data, model and loop. Settings are written only if this succeeds."""
        recipe, processes, log = self.recipe, self.processes, self.log
        processes.on_rank_zero(lambda: self._check_inputs(new))
        torch.manual_seed(recipe.run.seed)
        self.task = task = TASKS[type(recipe)](recipe, processes.device)
        task.check_resumable(self.folder)
        self.loop: GradientLoop | CountingLoop = (
            CountingLoop(task, recipe.schedule, processes, log)
            if isinstance(task.model, TrainsByCounting)
            else GradientLoop(task, recipe.optimiser, recipe.schedule, recipe.run, processes, log)
        )
        processes.on_rank_zero(lambda: task.write_settings(self.folder))
        if not new:
            processes.on_rank_zero(self._check_checkpoint)
            self.loop.restore()
        processes.on_rank_zero(log.cut)

    def train(self) -> TrainingResult:
        """Train until the run is finished or interrupted. Of a finished run, evaluate the kept weights."""
        loop, trainer = self.loop, self.log.trainer

        def request_stop() -> None:
            loop.stop_requested = True

        if not trainer.finished:
            for supervision in self.task.supervision:
                self.log.report("trees", 1, {"supervision": supervision})
            with on_stop_signals(request_stop):
                loop.train()
        self.processes.wait()
        trainer = self.log.trainer
        result = TrainingResult(self.folder, trainer.steps, loop.epochs, trainer.seconds, stopped=not trainer.finished)
        if result.stopped:
            return result
        result = self.task.evaluated(
            dataclasses.replace(
                result,
                averaged=trainer.averaging.is_averaged(trainer.best_step),
                counted=trainer.round_figures if isinstance(loop, CountingLoop) else None,
            )
        )
        if self.processes.is_first:
            write_text(to_json(result.to_dict(), indent=2) + "\n", self.folder / RESULT, stored=True)
        return result

    def _check_inputs(self, new: bool) -> None:
        """Store the hashes of the files that the task reads or, if the run is resumed, compare them."""
        fingerprints = fingerprints_of(self.recipe)
        if new or not any(os.path.lexists(self.folder / name) for name in (INPUTS, CHECKPOINT)):
            write_fingerprints(self.folder, fingerprints)
        else:
            check_fingerprints(self.folder, fingerprints)

    def _check_checkpoint(self) -> None:
        """Raise InputError if resuming would overwrite weights: a run without a checkpoint starts from the beginning.

        Counting runs and those without further validations may do so, because they give the same weights again.
        """
        has_weights, has_checkpoint = ((self.folder / name).exists() for name in (WEIGHTS, CHECKPOINT))
        if isinstance(self.task.model, TrainsByCounting) or has_checkpoint or not has_weights:
            return
        metrics = self.folder / METRICS
        validations = read_stored(metrics).count(b'"event": "valid"') if metrics.exists() else None
        # A process may be killed after it has written the first weights, and before the first checkpoint.
        if validations is None or validations > 1 or (self.folder / RESULT).exists():
            raise InputError(
                f"{self.folder}: cannot be resumed: {CHECKPOINT} is missing. The folder has {WEIGHTS}, so the model can"
                " be used; to train again, name another folder."
            )


def _plain(value: Any) -> Any:
    """Replace tuples by lists, because safe YAML has no tuples."""
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    return [_plain(inner) for inner in value] if isinstance(value, (list, tuple)) else value
