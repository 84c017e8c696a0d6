"""Training of a pair classifier: of sentence pairs with labels, or of pairs of formulas (logical inference)."""

from __future__ import annotations

import dataclasses
import math
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import torch
from pydantic import Field

from syntaxlm.core.errors import InputError
from syntaxlm.core.files import named_path, to_json
from syntaxlm.core.settings import (
    Count,
    NonNegative,
    Overrides,
    Positive,
    Seed,
    Settings,
    Size,
    parse_yaml,
    read_sections,
    read_settings,
)
from syntaxlm.data.labelled_pairs import RELATIONS, TRAINED_OPERATORS, FormulaPair
from syntaxlm.evaluation.pair_classification import (
    ClassificationReport,
    EncodedPairs,
    InferenceReport,
    Pair,
    classes_of,
    evaluate_classifier,
    evaluate_inference,
    read_pairs,
)
from syntaxlm.models.pair_classifier import ClassifierSettings, PairBatch
from syntaxlm.models.registry import ModelConfig
from syntaxlm.storage.folder import (
    CLASSIFIER,
    Operators,
    PairClassifierSettings,
    PairTask,
    logic_vocabulary,
    read_classifier,
    write_classifier_settings,
    write_classifier_weights,
)
from syntaxlm.text.normaliser import Normaliser
from syntaxlm.text.vocabulary import Vocabulary
from syntaxlm.training.processes import process_group
from syntaxlm.training.recipe import OptimiserSettings, RunSettings, ScheduleSettings, VocabularySettings
from syntaxlm.training.recipe_files import find_recipe
from syntaxlm.training.result import RESULT
from syntaxlm.training.run import Run
from syntaxlm.training.run_folder import RECIPE, fingerprint, read_recipe_text
from syntaxlm.training.run_log import ProgressCallback
from syntaxlm.training.task import Task, Validation


@dataclass(frozen=True)
class PairFiles(Settings, section="pairs"):
    """Files of pairs, and how they are read. Paths are relative to the working directory.

    Labels and vocabulary are those of the training file; for formulas they are fixed.
    """

    train: str  # file
    valid: str  # file; the weights with the highest accuracy on it are kept
    test: str | None = None  # file; only measured, at the end
    task: PairTask = "logic"  # format: logic: as written by data logic; sentences: sentence1, sentence2, label
    maximum_operators: Operators = TRAINED_OPERATORS  # logic: longer pairs of train and valid are left out
    normaliser: Normaliser = field(default_factory=Normaliser)  # sentences: how words are read
    vocabulary: VocabularySettings = field(default_factory=VocabularySettings)  # sentences

    def contradictions(self) -> list[str]:
        if self.task == "logic" and self.normaliser != Normaliser():
            return ["normaliser: found settings; expected none, or pairs.task: sentences: formulas have fixed tokens"]
        return []


@dataclass(frozen=True)
class TrainingSettings(Settings, section="training"):
    """Adam, with a learning rate that is reduced when the validation accuracy no longer improves."""

    batch_size: Size = 128  # pairs
    learning_rate: Positive = 1e-3  # at the first step
    weight_decay: NonNegative = 1.2e-6  # L2, added to the gradient
    gradient_clip: Positive = 1.0  # largest norm of the gradient; larger ones are scaled down to it
    plateau_patience: Count = 3  # epochs without a better accuracy before the rate falls
    plateau_factor: Annotated[float, Field(gt=0, lt=1)] = 0.5  # the rate is multiplied by this
    epochs: Count = 50  # passes over the training pairs
    minutes: Positive | None = None  # training time after which training ends, after the batch; null: no limit
    seed: Seed = 1  # of everything drawn at random: initial weights, dropout, order of pairs
    accelerator: Literal["auto", "cpu", "cuda"] = "auto"  # auto: a GPU if torch finds one


@dataclass(frozen=True)
class PairRecipe(Settings):
    """A recipe for a pair classifier. Its sections are model (the encoder), pairs, classifier and training."""

    model: ModelConfig
    pairs: PairFiles
    classifier: ClassifierSettings = field(default_factory=ClassifierSettings)
    training: TrainingSettings = field(default_factory=TrainingSettings)

    @property
    def optimiser(self) -> OptimiserSettings:
        """The settings of the training loop."""
        training = self.training
        return OptimiserSettings(
            learning_rate=training.learning_rate,
            weight_decay=training.weight_decay,
            gradient_clip=training.gradient_clip,
        )

    @property
    def schedule(self) -> ScheduleSettings:
        """The settings of the training loop."""
        training = self.training
        return ScheduleSettings(
            plateau_patience=training.plateau_patience,
            plateau_factor=training.plateau_factor,
            epochs=training.epochs,
            minutes=training.minutes,
        )

    @property
    def run(self) -> RunSettings:
        """The settings of the training loop."""
        return RunSettings(seed=self.training.seed, accelerator=self.training.accelerator)

    def to_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    def folder_settings(self, labels: Sequence[str]) -> PairClassifierSettings:
        """Return the settings that are stored with the classifier. labels: in the order of the classes."""
        files = self.pairs
        return PairClassifierSettings(
            self.model, self.classifier, files.task, tuple(labels), files.normaliser, files.maximum_operators
        )


@dataclass(frozen=True)
class ClassifierResult:
    """The result of training.

    weights: number of parameters.  valid: validation accuracy of the weights that are kept, 0 to 1.
    test: results on the test pairs; None if the recipe has none.  stopped: whether training was interrupted.
    """

    folder: Path
    weights: int
    epochs: int
    seconds: float
    valid: float
    test: InferenceReport | ClassificationReport | None = None
    stopped: bool = False

    def to_dict(self) -> dict[str, Any]:
        rest = {name: getattr(self, name) for name in ("epochs", "seconds", "valid")}
        head = {"schema_version": 2, "folder": str(self.folder), "parameters": self.weights}  # 1 had "weights"
        return head | rest | {"test": self.test and self.test.to_dict()}

    def __str__(self) -> str:
        lines = [
            f"{self.folder}: {self.weights:,} parameters, {self.epochs} epochs, {self.seconds / 60:.1f} minutes",
            f"valid: accuracy {100 * self.valid:.1f}",
        ]
        return "\n".join([*lines, str(self.test)] if self.test else lines)


def read_pair_recipe(path: str | Path, overrides: Overrides | None = None) -> PairRecipe:
    """Read a recipe: a YAML file, or the name of a shipped recipe ("logic/on-lstm").

    overrides: settings that replace those of the recipe, by dotted names.
    Raises InputError with all errors of the recipe.
    """
    path = find_recipe(path)
    return read_settings(PairRecipe, read_sections(path, overrides or [], "model, pairs"), str(path))


def read_pair_run(folder: str | Path) -> PairRecipe:
    """Read the recipe of the run in a folder. Raises InputError if there is none."""
    path = Path(folder) / RECIPE
    if not os.path.lexists(path):
        raise InputError(f"{folder}: no run to resume: {RECIPE} is missing")
    return read_settings(PairRecipe, parse_yaml(read_recipe_text(path), path), str(path))


def train_classifier(
    recipe: PairRecipe, folder: str | Path, callback: ProgressCallback | None = None
) -> ClassifierResult:
    """Train a pair classifier in a new folder and keep the weights with the best validation accuracy.

    folder: the new folder.  callback: called with the progress of the run.
    The same recipe gives the same weights on one device of the same type.
    Raises InputError before training if the folder already holds a classifier or a model, if it cannot be written, and
    if a file has no pairs.
    """
    with process_group():
        folder = named_path(folder)
        run = _run(recipe, folder, callback)
        if (folder / CLASSIFIER).exists():
            raise InputError(f"{folder}: already holds a classifier ({CLASSIFIER}). Name another folder.")
        with run.start():
            return _trained(run, recipe)


def resume_classifier(folder: str | Path, callback: ProgressCallback | None = None) -> ClassifierResult:
    """Resume a run from its last checkpoint, or from its start if it has none."""
    recipe = read_pair_run(folder)
    with process_group():
        run = _run(recipe, Path(folder), callback)
        with run.resume():
            return _trained(run, recipe)


class PairClassifierTask(Task):
    """A pair classifier with its training and validation pairs."""

    rate_setting = "training.learning_rate"
    clip_setting = "training.gradient_clip"

    def __init__(self, recipe: PairRecipe, device: torch.device) -> None:
        self.recipe, files = recipe, recipe.pairs
        train = _read(files, files.train)
        self.labels = tuple(RELATIONS) if files.task == "logic" else tuple(sorted({pair.label for pair in train}))
        if len(self.labels) < 2:
            raise InputError(f"{files.train}: found the label {self.labels[0]} only; expected two labels or more")
        self.vocabulary = logic_vocabulary() if files.task == "logic" else _vocabulary(files, train)
        self.settings = recipe.folder_settings(self.labels)
        self.train, self.valid = (
            EncodedPairs(pairs, self.settings, self.vocabulary)
            for pairs in (train, _read(files, files.valid, self.labels))
        )
        if files.test:  # reports an error in the file before training
            read_pairs(files.test, files.task, files.normaliser, self.labels)
        self.model = self.settings.build(len(self.vocabulary)).to(device)

    def batches(self, rank: int, ranks: int) -> PairBatches:
        return PairBatches(self.train, self.recipe.training.batch_size, self.recipe.run.seed, rank, ranks)

    def validate(self) -> Validation:
        found = torch.tensor(classes_of(self.model, self.valid, self.model.device))
        accuracy = float((found == self.valid.classes).double().mean())
        return Validation(self.model.criterion, accuracy, {"valid_accuracy": accuracy})

    def write_settings(self, folder: Path) -> None:
        write_classifier_settings(folder, self.settings, self.vocabulary)

    def write_weights(self, folder: Path) -> None:
        write_classifier_weights(folder, self.model)


class PairBatches:
    """Batches of pairs. Each epoch has a new order, which depends only on seed and epoch."""

    carries_state = False

    def __init__(self, pairs: EncodedPairs, size: int, seed: int, rank: int, ranks: int) -> None:
        self.pairs, self.size, self.seed, self.rank, self.ranks = pairs, size, seed, rank, ranks
        if len(pairs) < ranks:
            raise InputError(f"found {len(pairs)} training pairs; expected at least one for each of {ranks} processes")

    def count(self, epoch: int = 0) -> int:
        """Return the number of batches of an epoch, which is the same in every process."""
        return -(-(len(self.pairs) // self.ranks) // self.size)

    def iterate(self, epoch: int = 0, start: int = 0) -> Iterator[PairBatch]:
        """Yield the batches of an epoch, starting with number `start`."""
        order = np.random.default_rng([self.seed, epoch]).permutation(len(self.pairs))
        mine = order[self.rank : len(order) // self.ranks * self.ranks : self.ranks]
        for number in range(start, self.count()):
            yield self.pairs.batch(mine[number * self.size : (number + 1) * self.size].tolist())


def _run(recipe: PairRecipe, folder: Path, callback: ProgressCallback | None) -> Run:
    files = {f"pairs.{name}": getattr(recipe.pairs, name) for name in ("train", "valid", "test")}
    return Run(recipe, folder, lambda device: PairClassifierTask(recipe, device), lambda: fingerprint(files), callback)


def _trained(run: Run, recipe: PairRecipe) -> ClassifierResult:
    """Train a prepared run. Unless it was interrupted, evaluates the best weights and write the result."""
    finished = run.train()
    folder, _, epochs, seconds = run.place
    stored, test = read_classifier(folder), recipe.pairs.test
    evaluate = evaluate_inference if stored.settings.task == "logic" else evaluate_classifier
    result = ClassifierResult(
        folder,
        stored.classifier.parameter_count,
        math.ceil(epochs),
        seconds,
        -(run.log.trainer.best_loss or 0.0),
        evaluate(stored, test) if test and finished else None,
        stopped=not finished,
    )
    if finished:
        run.write(to_json(result.to_dict(), indent=2) + "\n", RESULT)
    return result


def _read(files: PairFiles, path: str, labels: Sequence[str] | None = None) -> Sequence[Pair]:
    """Read pairs for training: of formulas, those with up to `maximum_operators`. Raises InputError if there are none.

    labels: allowed labels of sentence pairs; None: any.
    """
    most = files.maximum_operators
    found = read_pairs(path, files.task, files.normaliser, labels)
    pairs = [pair for pair in found if not isinstance(pair, FormulaPair) or pair.operators <= most]
    if not pairs:
        raise InputError(f"{path}: found no pair with {most} operators or fewer (pairs.maximum_operators)")
    return pairs


def _vocabulary(files: PairFiles, pairs: Sequence[Pair]) -> Vocabulary:
    counts: Counter[str] = Counter()
    for pair in pairs:
        counts.update(files.normaliser.tokens(pair.left))
        counts.update(files.normaliser.tokens(pair.right))
    return Vocabulary.build(counts, **vars(files.vocabulary))
