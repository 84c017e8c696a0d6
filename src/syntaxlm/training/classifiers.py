"""The tasks of classifiers: of pairs, and of the states of a dependency-tree model (stop classifiers)."""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch

from syntaxlm.batches import TreeBatches
from syntaxlm.core.errors import InputError
from syntaxlm.core.files import locked, remove_unfinished
from syntaxlm.core.settings import Count, Settings, Size
from syntaxlm.data.labelled_pairs import RELATIONS, LabelledPair
from syntaxlm.evaluation.pair_classification import (
    EncodedPairs,
    classes_of,
    evaluate_classifier,
    evaluate_inference,
    read_pairs,
)
from syntaxlm.generation.stops import (
    StopBatches,
    StopReport,
    read_stops,
    score_stops,
    tree_corpus,
    tree_model,
    write_stops,
)
from syntaxlm.models.classifiers import PairBatch, StopInputs, Stops, StopSettings
from syntaxlm.storage.folder import (
    VOCABULARY,
    ModelBundle,
    PairClassifierSettings,
    logic_vocabulary,
    read_classifier,
    read_model,
    write_settings,
    write_weights,
)
from syntaxlm.text.normaliser import Normaliser
from syntaxlm.text.vocabulary import Vocabulary
from syntaxlm.training.loop import GradientLoop
from syntaxlm.training.processes import Processes, process_group
from syntaxlm.training.progress import ProgressCallback
from syntaxlm.training.recipe import OptimiserSettings, PairRecipe, PairSettings, RunSettings, ScheduleSettings
from syntaxlm.training.result import CriterionValue, TrainingResult, Validation
from syntaxlm.training.task import NO_REPORT, RunLog, Task, check_vocabulary


class PairTask(Task):
    """A pair classifier with its training and validation pairs. The kept weights have the best validation accuracy."""

    def __init__(
        self, recipe: PairRecipe, device: torch.device, building: AbstractContextManager[None] = NO_REPORT
    ) -> None:
        self.recipe, files = recipe, recipe.pairs
        normaliser = Normaliser(files.normaliser)
        train = _read_for_training(files, files.train, normaliser)
        labels = tuple(RELATIONS) if files.task == "logic" else tuple(sorted({pair.label for pair in train}))
        if len(labels) < 2:
            raise InputError(f"{files.train}: found only the label {labels[0]}; expected two labels or more")
        if files.task == "logic":
            self.vocabulary = logic_vocabulary()
        else:
            sentences = (sentence for pair in train for sentence in (pair.left, pair.right))
            counts = Counter(token for sentence in sentences for token in normaliser.tokens(sentence))
            self.vocabulary = Vocabulary.build(counts, **vars(files.vocabulary))
        self.settings = PairClassifierSettings(
            recipe.model, recipe.classifier, files.task, labels, files.normaliser, files.maximum_operators
        )
        self.train, self.valid = (
            EncodedPairs(pairs, self.settings, self.vocabulary)
            for pairs in (train, _read_for_training(files, files.valid, normaliser, labels))
        )
        if files.test:  # reports an error in the file before training
            read_pairs(files.test, files.task, normaliser, labels)
        with building:
            self.model = self.settings.build(len(self.vocabulary)).to(device)

    def batches(self, rank: int, ranks: int) -> PairBatches:
        return PairBatches(self.train, self.recipe.batches.batch_size, self.recipe.run.seed, rank, ranks)

    def validate(self) -> Validation:
        predicted = torch.tensor(classes_of(self.model, self.valid, self.model.device))
        accuracy = float((predicted == self.valid.classes).double().mean())
        return Validation(self.model.criterion, accuracy, {"valid_accuracy": accuracy})

    def check_resumable(self, folder: Path) -> None:
        check_vocabulary(folder / VOCABULARY, self.vocabulary, self.recipe.pairs.train)

    def write_settings(self, folder: Path) -> None:
        write_settings(folder, self.settings, self.vocabulary)

    def write_weights(self, folder: Path) -> None:
        write_weights(folder, self.model, self.vocabulary)

    def evaluated(self, result: TrainingResult) -> TrainingResult:
        classifier = read_classifier(result.folder)
        test = self.recipe.pairs.test
        self.model = classifier.classifier.to(self.model.device)
        evaluate = evaluate_inference if self.recipe.pairs.task == "logic" else evaluate_classifier
        return dataclasses.replace(
            result,
            parameters=self.model.parameter_count,
            criterion=CriterionValue.of(self.validate()),
            answers=evaluate(classifier, test) if test else None,
        )


class PairBatches:
    """Batches of pairs. Each epoch has a new order, which depends only on seed and epoch."""

    carries_state = False

    def __init__(self, pairs: EncodedPairs, size: int, seed: int, rank: int, ranks: int) -> None:
        self.pairs = pairs
        self.size = size
        self.seed = seed
        self.rank = rank
        self.ranks = ranks
        if len(pairs) < ranks:
            raise InputError(f"found {len(pairs)} training pairs; expected at least one for each of {ranks} processes")

    def count(self, epoch: int = 0) -> int:
        """Return the number of batches of an epoch, which is the same in every process."""
        return -(-(len(self.pairs) // self.ranks) // self.size)

    def iterate(self, epoch: int = 0, start: int = 0) -> Iterator[PairBatch]:
        """Yield the batches of an epoch, starting with number `start`."""
        order = np.random.default_rng([self.seed, epoch]).permutation(len(self.pairs))
        share = order[self.rank : len(order) // self.ranks * self.ranks : self.ranks]
        for number in range(start, self.count()):
            yield self.pairs.batch(share[number * self.size : (number + 1) * self.size].tolist())


def _read_for_training(
    files: PairSettings, path: str, normaliser: Normaliser, labels: Sequence[str] | None = None
) -> Sequence[LabelledPair]:
    """Read pairs: of formulas, those with up to `maximum_operators`. Raises InputError if there are none.

    Args:
        labels: allowed labels of sentence pairs; None: any.
    """
    most = files.maximum_operators
    pairs = [pair for pair in read_pairs(path, files.task, normaliser, labels) if pair.operators <= most]
    if not pairs:
        raise InputError(f"{path}: found no pair with {most} operators or fewer (pairs.maximum_operators)")
    return pairs


@dataclass(frozen=True)
class StopRecipe(Settings):
    """Settings of training stop classifiers: Adam at a constant rate, until the validation loss stops improving.

    Attributes:
        reads: input of the classifiers for each word
        hidden_size: neurons of the hidden layer; None: the size of the model's state
        batch_words: words per batch of whole trees
    """

    reads: StopInputs = StopSettings.reads
    hidden_size: Size | None = None
    batch_words: Count = 512
    optimiser: OptimiserSettings = field(
        default_factory=partial(OptimiserSettings, learning_rate=1e-3, weight_decay=0.0, gradient_clip=1e9)
    )
    schedule: ScheduleSettings = field(
        default_factory=partial(ScheduleSettings, plateau_factor=1.0, epochs=30, stop_patience=3)
    )
    run: RunSettings = field(default_factory=partial(RunSettings, accelerator="cpu"))

    unit: ClassVar[str] = "words"


@dataclass(frozen=True)
class StopResult:
    """The result of training stop classifiers.

    Attributes:
        reads: input of the classifiers for each word.
        weights: number of parameters.
        epoch: the epoch of the weights that are kept.
        epochs: number of epochs.
        valid: scores on validation trees.
        test: scores on test trees; None if none were given.
    """

    folder: Path
    reads: StopInputs
    weights: int
    epoch: int
    epochs: int
    seconds: float
    valid: StopReport
    test: StopReport | None = None

    def to_dict(self) -> dict[str, Any]:
        plain = {name: getattr(self, name) for name in ("reads", "epoch", "epochs", "seconds")}
        reports = {"valid": self.valid.to_dict(), "test": self.test and self.test.to_dict()}
        return {"folder": str(self.folder), "parameters": self.weights} | plain | reports

    def __str__(self) -> str:
        head = (
            f"{self.folder}: stop classifiers (input: {self.reads.replace('-', ' ')}), {self.weights:,} parameters,"
            f" best epoch {self.epoch} of {self.epochs}"
        )
        return "\n\n".join([head, *(str(report) for report in (self.valid, self.test) if report is not None)])


def train_stops(
    folder: str | Path,
    train: str | Path,
    valid: str | Path,
    test: str | Path | None = None,
    recipe: StopRecipe | None = None,
    callback: ProgressCallback | None = None,
) -> StopResult:
    """Train stop classifiers for a model, keep those with the best validation loss, and write them to its folder.

    The same seed gives the same weights on processors of the same type.

    Args:
        folder: the folder of a dependency-tree model. Existing stop classifiers are replaced.
        train: dependency trees to learn from: a file, a folder or a pattern.
        valid: dependency trees for validation.
        test: dependency trees that are evaluated once, at the end.
        recipe: None: the default settings.
        callback: called with the progress of training.

    Raises:
        InputError: before training if the model does not read trees, if a file has no trees, and if another process
            uses the folder.
    """
    recipe = recipe or StopRecipe()
    folder = Path(folder)
    bundle = read_model(folder)
    torch.manual_seed(recipe.run.seed)
    with process_group(), locked(folder):
        remove_unfinished(folder)
        task = StopTask(bundle, train, valid, recipe)
        test_corpus = None if test is None else tree_corpus(bundle, test)
        log = RunLog(folder, callback, resumable=False)
        processes = Processes(recipe.run.accelerator, recipe.run.precision)
        loop = GradientLoop(task, recipe, processes, log)
        loop.train()
        stops = read_stops(folder, bundle)
        return StopResult(
            folder,
            recipe.reads,
            stops.parameter_count,
            math.ceil(log.trainer.best_epoch),
            math.ceil(loop.epochs),
            log.trainer.seconds,
            score_stops(stops, task.tree_model, task.valid),
            None if test_corpus is None else score_stops(stops, task.tree_model, test_corpus),
        )


class StopTask(Task):
    """Stop classifiers with their training trees. The weights of the dependency-tree model are not changed."""

    remedies = "learning rate"

    def __init__(self, bundle: ModelBundle, train: str | Path, valid: str | Path, recipe: StopRecipe) -> None:
        self.tree_model = model = tree_model(bundle).requires_grad_(False)
        corpus, self.valid = (tree_corpus(bundle, path) for path in (train, valid))
        trees = TreeBatches(corpus, recipe.batch_words, shuffle=True, seed=recipe.run.seed, mixed=True)
        self._batches = StopBatches(model, trees)
        sizes = model.state_size, model.word_size, model.input_size, recipe.hidden_size or model.state_size
        self.model = Stops(StopSettings(*sizes, model.label_count or 0, recipe.reads)).to(model.device)

    def batches(self, rank: int, ranks: int) -> StopBatches:
        return self._batches

    def validate(self) -> Validation:
        loss = score_stops(self.model, self.tree_model, self.valid).loss
        return Validation(self.model.criterion, loss, {"valid_loss": loss})

    def write_weights(self, folder: Path) -> None:
        write_stops(folder, self.model, self.tree_model)
