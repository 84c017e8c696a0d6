"""Training runs: `train` starts a run in a new folder, `resume` continues one. All recipes are trained by both.

The hashes of the files that a run reads are stored at its start and compared when it is resumed, in the middle of its
training data. If the data has changed, the run would train on parts of two texts, and its scores would be meaningless.
"""

from __future__ import annotations

import dataclasses
import glob
import hashlib
import json
import os
import stat
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any

import torch

from syntaxlm.core.errors import InputError, warn_caller
from syntaxlm.core.files import (
    holds_model,
    locked,
    make_and_lock,
    named_path,
    parse_json,
    read_stored,
    read_stored_text,
    remove_empty,
    remove_unfinished,
    system_error,
    to_json,
    write_text,
)
from syntaxlm.core.option_names import option_name
from syntaxlm.core.reading import keeps_readings
from syntaxlm.core.remote_files import address_of
from syntaxlm.core.run_head import RunHead, invocation, run_head, training_recipe
from syntaxlm.core.text_files import STANDARD_INPUT, open_raw, text_files_of
from syntaxlm.core.yaml_files import parse_yaml, yaml_text
from syntaxlm.data.treebank_files import treebank_files
from syntaxlm.models.abilities import TrainsByCounting
from syntaxlm.storage.bundled import check_folder, find_model
from syntaxlm.storage.folder import WEIGHTS
from syntaxlm.training.checkpoint import read_trainer_state
from syntaxlm.training.classifiers import PairTask
from syntaxlm.training.language_model import TextTask, TreeTask
from syntaxlm.training.loop import CountingLoop, GradientLoop
from syntaxlm.training.processes import Processes, on_stop_signals, process_group
from syntaxlm.training.progress import Event, ProgressCallback
from syntaxlm.training.recipe import PairRecipe, Recipe, TextRecipe, TreeRecipe, recipe_from, sections_of
from syntaxlm.training.recipe_files import ABOUT
from syntaxlm.training.result import CHECKPOINT, INPUTS, METRICS, RECIPE, RESULT, TrainingResult
from syntaxlm.training.task import RunLog, Task, if_slow

__all__ = ["METRICS", "RECIPE", "Event", "ProgressCallback", "read_run_recipe", "refuse_run", "resume", "train"]

TASKS: dict[type[Recipe], Callable[[Any, torch.device, AbstractContextManager[None]], Task]] = {
    TextRecipe: TextTask,
    TreeRecipe: TreeTask,
    PairRecipe: PairTask,
}
LARGEST_RECIPE = 1 << 20  # bytes

_BEFORE_TRAINING = frozenset(  # files that are written before the first step
    {RECIPE, INPUTS, METRICS, "config.json", "vocabulary.json", "labels.json", "classifier.json"}
)

Fingerprints = dict[str, dict[str, str | None]]
"""SHA-256 hashes by setting ("text.train"), then by file; None for standard input and pipes."""


def train(recipe: Recipe, folder: str | Path, callback: ProgressCallback | None = None) -> TrainingResult:
    """Train the model of a recipe in a new folder, and keep the best weights.

    The same recipe gives the same weights on one device of the same type.

    Args:
        callback: called with the progress of the run.

    Raises:
        InputError: before anything is read if the folder already holds a run or cannot be written, so that no training
            is lost.
    """
    with process_group():
        run = Run(recipe, named_path(folder), callback)
        with run.start():
            return run.train()


@keeps_readings
def resume(folder: str | Path, callback: ProgressCallback | None = None) -> TrainingResult:
    """Resume a run from its last checkpoint, or from its start if it has none.

    Args:
        callback: called with the progress of the run.

    Raises:
        InputError: if the folder holds no run, or if its files have changed.
    """
    recipe = read_run_recipe(folder)
    name, overrides = _recipe_of_start(folder)
    with process_group(), training_recipe(name, overrides):
        run = Run(recipe, named_path(folder), callback)
        with run.resume():
            return run.train()


def _recipe_of_start(folder: str | Path) -> tuple[str | None, Iterable[tuple[str, Any]] | None]:
    """Return the name of the recipe with which a run was started, and its overrides; None where they are not stored."""
    about = _stored_recipe(folder).get(ABOUT)
    if not isinstance(about, dict):
        return None, None
    recipe = about.get("recipe")
    overrides = about.get("overrides")
    return (recipe if isinstance(recipe, str) else None), (overrides.items() if isinstance(overrides, dict) else None)


def read_run_recipe(folder: str | Path) -> Recipe:
    """Read the recipe of the run in a folder.

    Raises:
        InputError: if there is none, and for a file that is not a regular one, too large or not a recipe.
    """
    return recipe_from(_stored_recipe(folder), str(Path(folder) / RECIPE))


def _stored_recipe(folder: str | Path) -> dict[str, Any]:
    """Return the content of recipe.yaml. Raises InputError as `read_run_recipe` does."""
    path = Path(folder) / RECIPE
    if not os.path.lexists(path):
        raise InputError(f"{folder}: no run to resume: {RECIPE} is missing")
    return sections_of(parse_yaml(read_stored_text(path, LARGEST_RECIPE), path), path)


class Run:
    """A run in a folder. `start` or `resume` lock the folder and prepare data, model and loop; `train` trains."""

    def __init__(self, recipe: Recipe, folder: Path, callback: ProgressCallback | None = None) -> None:
        self.recipe, self.folder = recipe, folder
        self.processes = Processes(recipe.run.accelerator, recipe.run.precision, recipe.run.process_timeout)
        self.log = RunLog(folder, callback, self.processes.is_first)

    @contextmanager
    def start(self) -> Iterator[None]:
        """Start a new run in a folder without one."""
        start = invocation()
        about = {"recipe": start.recipe, "overrides": start.overrides}
        settings = json.loads(to_json(self.recipe.to_dict() | {ABOUT: about}))  # without tuples, which YAML lacks
        text = yaml_text(settings)
        with self.processes.holding(lambda: claimed(self.folder, text)) as abandon:
            try:
                self._prepare(new=True)
            except BaseException:  # for instance, the data cannot be read: leave the folder as it was
                if abandon is not None:
                    abandon()
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
        recipe = self.recipe
        folder = self.folder
        processes = self.processes
        log = self.log

        def check_inputs() -> None:
            fingerprints = self.fingerprints = fingerprints_of(recipe, folder)
            if new or not any(os.path.lexists(folder / name) for name in (INPUTS, CHECKPOINT)):
                write_fingerprints(folder, fingerprints, _fixed_settings(recipe))
            else:
                check_fingerprints(folder, fingerprints)

        processes.on_rank_zero(check_inputs)
        self._check_shared(new)
        torch.manual_seed(recipe.run.seed)
        building = if_slow(lambda: log.report("building", 1, {}))
        self.task = task = TASKS[type(recipe)](recipe, processes.device, building)
        task.check_resumable(folder)
        loop_type = CountingLoop if isinstance(task.model, TrainsByCounting) else GradientLoop
        self.loop = loop_type(task, recipe, processes, log)
        if not new:
            processes.on_rank_zero(self._check_checkpoint)
            self.loop.restore()
            processes.on_rank_zero(lambda: _check_settings(folder, _fixed_settings(recipe)))
        processes.on_rank_zero(lambda: task.write_settings(folder))
        processes.on_rank_zero(log.cut)

    def _check_shared(self, new: bool) -> None:
        """Raise InputError in all processes if one of them finds other texts or another checkpoint than the first.

        Processes with different weights or vocabularies would train without an error.
        """
        if self.processes.count == 1:
            return
        found: Any
        try:
            progress = None if new or not self.log.has_checkpoint else read_trainer_state(self.folder)
            found = fingerprints_of(self.recipe, self.folder), progress
        except InputError as error:
            found = str(error)
        first, *others = self.processes.gathered(found)
        for rank, other in enumerate(others, 1):
            if other != first:
                reason = other if isinstance(other, str) else "found other texts, or another checkpoint, than process 0"
                raise InputError(
                    f"{self.folder}: process {rank} of {self.processes.count}: {reason}. The folder of the run and its"
                    " texts must be on a file system that all machines share, under the same paths"
                )

    def train(self) -> TrainingResult:
        """Train until the run is finished or interrupted. Of a finished run, evaluate the kept weights."""
        loop = self.loop
        trained = not self.log.trainer.finished
        if trained:
            for supervision in self.task.supervision:
                self.log.report("trees", 1, {"supervision": supervision})
            with on_stop_signals(loop.request_stop):
                loop.train()
        self.processes.wait()
        trainer = self.log.trainer
        result = TrainingResult(self.folder, trainer.steps, loop.epochs, trainer.seconds, stopped=not trainer.finished)
        if result.stopped:
            self._report_end(result)
            return result
        result = self.task.evaluated(
            dataclasses.replace(
                result,
                averaged=trainer.averaging.is_averaged(trainer.best_step),
                counted=trainer.round_figures if isinstance(loop, CountingLoop) else None,
            )
        )
        if self.processes.is_first:
            result = dataclasses.replace(result, run=self._head(result.seconds).to_dict())
            write_text(to_json(result.to_dict(), indent=2) + "\n", self.folder / RESULT, stored=True)
        if trained:
            self._report_end(result)
        return result

    def _report_end(self, result: TrainingResult) -> None:
        """Report the end of training, with the scores on the test data."""
        place = {"step": result.steps or self.log.trainer.epoch, "stopped": result.stopped}
        self.log.report("end", 1, place | result.test_figures)

    def _head(self, seconds: float) -> RunHead:
        """Return the head of result.json.

        Args:
            seconds: the seconds of training.
        """
        hashes = {file: digest for files in self.fingerprints.values() for file, digest in files.items()}
        return run_head(self.recipe.run.seed, seconds / 60, hashes)

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


@contextmanager
def claimed(folder: Path, recipe: str) -> Iterator[Callable[[], None]]:
    """Lock a folder for a new run while the block runs, and write recipe.yaml into it.

    Yields a function that withdraws the claim before training: it removes the files and folders that were made. If
    several processes claim the same folder, exactly one succeeds.

    Args:
        recipe: the content of recipe.yaml.

    Raises:
        InputError: if the folder already has a run or a file of such a name, or cannot be written; the folder is
            unchanged then.
    """
    with ExitStack() as stack:
        made = make_and_lock(folder, stack)
        before = frozenset(os.listdir(folder))

        def abandon() -> None:
            for name in sorted(_BEFORE_TRAINING - before, key=RECIPE.__eq__):  # without the recipe, it is not a run
                (folder / name).unlink(missing_ok=True)
            remove_empty(made)

        try:
            refuse_run(folder)
            if taken := sorted({*_BEFORE_TRAINING, RESULT} & before):
                raise InputError(
                    f"{folder}: already holds {', '.join(taken)}, which training would replace. Name another folder."
                )
            remove_unfinished(folder)  # of a process that was killed before it had claimed the folder
            write_text(recipe, folder / RECIPE, stored=True)
        except BaseException:
            abandon()
            raise
        yield abandon


def refuse_run(folder: Path) -> None:
    """Raise InputError if a folder holds a run or a model."""
    if any(os.path.lexists(folder / name) for name in (CHECKPOINT, RECIPE)):
        resuming = option_name("syntaxlm train --resume", str(folder))
        raise InputError(f"{folder}: already holds a run. Resume it with {resuming}, or name another folder.")
    if holds_model(folder):  # also one that was exported for transformers
        raise InputError(f"{folder}: already holds a model. Name another folder.")


def fingerprints_of(recipe: Recipe, folder: Path | None = None) -> Fingerprints:
    """Return the hashes of all files that a run reads.

    Args:
        folder: the folder of the run, if it is known.

    Raises:
        InputError: for a file that cannot be read, for a model that does not exist, for data that is read again but can
            be read only once, and for a pattern that matches a folder, or the files of a run.
    """
    section = recipe.data_section
    for name in recipe.data.models:
        check_folder(find_model(name))
    paths = {f"{section}.{name}": path for name, path in recipe.data.files.items()}
    treebanks = [f"{section}.{name}" for name in recipe.data.treebanks]
    for setting, path in paths.items():
        if path is not None:
            _refuse_other_matches(setting, path, folder, setting in treebanks)
    fingerprints = fingerprint(paths, treebanks)
    for name in recipe.data.read_again:
        setting = f"{section}.{name}"
        if None in fingerprints.get(setting, {}).values():
            raise InputError(
                f"{setting}: found {paths[setting]}, standard input or a pipe, which can be read only once; expected a"
                " file, because training reads its data several times. Write the data to a file first."
            )
    return fingerprints


def _refuse_other_matches(setting: str, path: str, folder: Path | None, is_treebank: bool) -> None:
    """Raise InputError for a folder in place of a file, and for a pattern that matches a folder or files of a run.

    Args:
        setting: the name of the setting, for messages.
        path: its file, folder or pattern.
        folder: the folder of the run.
        is_treebank: whether the path may be a folder.
    """
    if os.path.exists(path) or address_of(path):
        if os.path.isdir(path) and not is_treebank:
            raise InputError(f"{setting}: found {path}, a folder; expected a file")
        return
    output = None if folder is None else Path(os.path.realpath(folder))
    for file in sorted(glob.glob(path, recursive=True)):
        real = Path(os.path.realpath(file))
        if real == output:
            found = f"{file}, the output folder of this run"
        elif output in real.parents:
            found = f"{file}, a file of the output folder of this run"
        elif holds_model(Path(file).parent):
            found = f"{file}, a file of another run or model"
        elif os.path.isdir(file) and not is_treebank:
            found = f"{file}, a folder"
        else:
            continue
        raise InputError(
            f"{setting}: the pattern {path} matches {found}; expected only files of text. Choose a pattern that matches"
            " only these, such as *.txt, or another output folder"
        )


def fingerprint(paths: Mapping[str, str | None], treebanks: Collection[str] = ()) -> Fingerprints:
    """Return the hashes of files.

    Args:
        paths: files by setting; None: no file.
        treebanks: settings whose path may also be a folder. All files of folders and patterns are hashed, in sorted
            order. The hash of standard input and of pipes is None.

    Raises:
        InputError: for a file that cannot be read.
    """
    fingerprints: Fingerprints = {}
    for setting, path in paths.items():
        if path is None:
            continue
        fingerprints[setting] = {}
        for file in treebank_files(path) if setting in treebanks else text_files_of(path):
            digest = None
            try:
                if str(file) != STANDARD_INPUT and (address_of(file) or stat.S_ISREG(os.stat(file).st_mode)):
                    with open_raw(file) as content:
                        digest = hashlib.file_digest(content, "sha256").hexdigest()
            except OSError as error:
                hint = f" ({setting} of the recipe; --{setting} FILE names another file)" if "." in setting else ""
                raise InputError(f"{system_error(file, 'read', error)}{hint}") from error
            fingerprints[setting][str(file)] = digest
    return fingerprints


def write_fingerprints(folder: Path, fingerprints: Fingerprints, settings: Mapping[str, Any]) -> None:
    """Store the hashes of a new run in its folder. Warns if the run cannot be resumed: it reads standard input.

    Args:
        settings: those that a resumed run must have.
    """
    for setting in _read_once(fingerprints):
        warn_caller(f"{setting} is standard input or a pipe: this run cannot be resumed")
    content = {"format": 1, "sha256": fingerprints, "settings": dict(settings)}
    write_text(to_json(content, indent=2) + "\n", folder / INPUTS, stored=True)


def check_fingerprints(folder: Path, fingerprints: Fingerprints) -> None:
    """Compare the present hashes of a run's files with those at its start.

    Raises:
        InputError: with every file that was changed, added or removed, for standard input and pipes, and if the stored
            hashes are missing or damaged.
    """
    if once := _read_once(fingerprints):
        raise InputError(
            f"{folder}: cannot be resumed: {', '.join(once)} was read from standard input or a pipe, which cannot be"
            " read again. Start a new run with a file."
        )
    path = folder / INPUTS
    content = parse_json(read_stored(path), str(path))
    before = content.get("sha256") if isinstance(content, dict) else None
    if not isinstance(before, dict) or not all(isinstance(files, dict) for files in before.values()):
        raise InputError(f'{path}: expected the entry "sha256", with the hashes of files by setting')
    faults = []
    for setting in before | fingerprints:
        then = before.get(setting, {})
        now = fingerprints.get(setting, {})
        changes = {file: "changed" if file in now else "removed" for file in then if then[file] != now.get(file)}
        faults += [f"{file}: {change} since the run started ({setting})" for file, change in changes.items()]
        faults += [f"{file}: added since the run started ({setting})" for file in now if file not in then]
    if faults:
        raise InputError(
            "\n".join(
                [*faults, f"{folder}: restore the files and their settings to resume the run, or start a new run."]
            )
        )


def _fixed_settings(recipe: Recipe) -> dict[str, Any]:
    """Return the settings that a resumed run must have, with the values that JSON has: model, texts, batches and seed.

    The optimiser, the schedule and the other settings of a run may be changed.
    """
    sections = {name: values for name, values in recipe.to_dict().items() if name not in ("optimiser", "schedule")}
    sections["run"] = {"seed": recipe.run.seed}
    # Other values of a recipe than sections cannot be set in a file, so they are not compared.
    fixed = {
        f"{section}.{name}": value
        for section, values in sections.items()
        if isinstance(values, dict)
        for name, value in values.items()
    }
    settings: dict[str, Any] = json.loads(to_json(fixed))
    return settings


def _check_settings(folder: Path, settings: Mapping[str, Any]) -> None:
    """Raise InputError if a setting has changed that a resumed run must have.

    With another order of the data, the run would train on some sentences twice and on others not at all. Some settings
    of a model, such as its number of heads, change what it computes, but not the shapes of its weights.
    """
    content = parse_json(read_stored(folder / INPUTS), str(folder / INPUTS))
    before = content.get("settings")
    if not isinstance(before, dict):  # runs of earlier versions have none
        return
    faults = [
        f"{folder / RECIPE}: {name}: found {to_json(settings.get(name))}; expected {to_json(value)}, as at the start"
        for name, value in before.items()
        if settings.get(name) != value
    ]
    if faults:
        advice = (
            "A resumed run keeps the model, the texts, the batches and the seed of its start. Restore these settings,"
            " or start a new run."
        )
        raise InputError("\n".join([*faults, advice]))


def _read_once(fingerprints: Fingerprints) -> list[str]:
    return [
        f"{setting} ({file})" for setting, files in fingerprints.items() for file, digest in files.items() if not digest
    ]
