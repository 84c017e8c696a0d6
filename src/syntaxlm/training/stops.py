"""Training of stop classifiers on the states of a dependency-tree model, whose weights are not changed."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from syntaxlm.batches import TreeBatches
from syntaxlm.core.files import locked, remove_unfinished
from syntaxlm.core.settings import Count, Positive, Seed, Settings, Size
from syntaxlm.generation.stops import (
    StopBatches,
    StopReport,
    read_stops,
    score_stops,
    tree_corpus,
    tree_model,
    write_stops,
)
from syntaxlm.models.stop_classifiers import Reads, Stops, StopSettings
from syntaxlm.storage.folder import ModelBundle, read_model
from syntaxlm.training.gradient import GradientLoop
from syntaxlm.training.processes import Processes, process_group
from syntaxlm.training.recipe import OptimiserSettings, RunSettings, ScheduleSettings
from syntaxlm.training.run_folder import not_training
from syntaxlm.training.run_log import ProgressCallback, RunLog
from syntaxlm.training.task import Task, Validation


@dataclass(frozen=True)
class StopTraining(Settings):
    """Adam with a constant learning rate, until the validation loss no longer improves."""

    reads: Reads = StopSettings.reads  # input of the classifiers for each word
    hidden_size: Size | None = None  # neurons of the hidden layer; None: the size of the model's state
    batch_words: Count = 512  # words per batch of whole trees
    learning_rate: Positive = 1e-3  # learning rate of the optimiser
    patience: Count = 3  # epochs without a better validation loss before training ends
    epochs: Count = 30  # maximum number of passes over the training trees
    minutes: Positive | None = None  # training time after which training ends, after the batch; None: no limit
    seed: Seed = 1  # random seed of initial weights and order of trees

    @property
    def optimiser(self) -> OptimiserSettings:
        """The settings of the training loop."""
        return OptimiserSettings(learning_rate=self.learning_rate, weight_decay=0.0, gradient_clip=1e9)

    @property
    def schedule(self) -> ScheduleSettings:
        """The settings of the training loop; the learning rate is constant."""
        return ScheduleSettings(
            plateau_factor=1.0, epochs=self.epochs, minutes=self.minutes, stop_patience=self.patience
        )

    @property
    def run(self) -> RunSettings:
        """The settings of the training loop."""
        return RunSettings(seed=self.seed, accelerator="cpu")

    def to_dict(self) -> dict[str, Any]:
        return dict(vars(self))


@dataclass(frozen=True)
class StopResult:
    """The result of training stop classifiers.

    reads: input of the classifiers for each word.  weights: number of parameters.
    epoch: the epoch of the weights that are kept.  epochs: number of epochs.
    valid, test: scores on validation and test trees; `test` is None if no test trees were given.
    """

    folder: Path
    reads: Reads
    weights: int
    epoch: int
    epochs: int
    seconds: float
    valid: StopReport
    test: StopReport | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return all figures for JSON."""
        reports = {name: report and report.to_dict() for name, report in (("valid", self.valid), ("test", self.test))}
        rest = {name: value for name, value in vars(self).items() if name not in ("folder", "weights")}
        head = {"schema_version": 2, "folder": str(self.folder), "parameters": self.weights}  # 1 had "weights"
        return head | rest | reports

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
    settings: StopTraining | None = None,
    callback: ProgressCallback | None = None,
) -> StopResult:
    """Train stop classifiers for a model, keeps those with the best validation loss, and write them to its folder.

    folder: the folder of a dependency-tree model. Existing stop classifiers are replaced.
    train, valid, test: dependency trees, each a file, a folder or a pattern. `test` is evaluated once, at the end.
    settings: None: the default settings.  callback: called with the progress of training.
    The same seed gives the same weights on processors of the same type.
    Raises InputError before training if the model does not read trees, if a file has no trees, and if another process
    uses the folder.
    """
    settings = settings or StopTraining()
    folder = Path(folder)
    bundle = read_model(folder)
    torch.manual_seed(settings.seed)
    with process_group(), locked(folder), not_training(folder):
        remove_unfinished(folder)
        task = StopTask(bundle, folder, train, valid, settings)
        measured = None if test is None else tree_corpus(bundle, test)
        log = RunLog(None, callback, keep=lambda task: task.write_weights(folder))
        loop = GradientLoop(task, settings, Processes("cpu", "32"), log)
        loop.train()
        stops = read_stops(folder, bundle)
        return StopResult(
            folder,
            settings.reads,
            stops.parameter_count,
            math.ceil(log.trainer.best_epoch),
            math.ceil(loop.epochs),
            log.trainer.seconds,
            score_stops(stops, task.tree_model, task.valid),
            None if measured is None else score_stops(stops, task.tree_model, measured),
        )


class StopTask(Task):
    """Stop classifiers with their training trees. The weights of the dependency-tree model are not changed."""

    rate_setting = "learning rate"
    clip_setting = ""

    def __init__(
        self, bundle: ModelBundle, folder: Path, train: str | Path, valid: str | Path, settings: StopTraining
    ) -> None:
        self.tree_model = model = tree_model(bundle).requires_grad_(False)
        corpus, self.valid = (tree_corpus(bundle, path) for path in (train, valid))
        trees = TreeBatches(corpus, settings.batch_words, shuffle=True, seed=settings.seed, mixed=True)
        self._batches = StopBatches(model, trees)
        sizes = model.state_size, model.word_size, model.input_size, settings.hidden_size or model.state_size
        self.model = Stops(StopSettings(*sizes, model.label_count or 0, settings.reads)).to(model.device)

    def batches(self, rank: int, ranks: int) -> StopBatches:
        return self._batches

    def validate(self) -> Validation:
        loss = score_stops(self.model, self.tree_model, self.valid).loss
        return Validation(self.model.criterion, loss, {"valid_loss": loss})

    def write_weights(self, folder: Path) -> None:
        write_stops(folder, self.model, self.tree_model)
