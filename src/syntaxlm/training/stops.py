"""Training the classifiers that end a tree, over the states of a dependency-tree model that stays as it is."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from syntaxlm.batches import TreeBatches
from syntaxlm.files import held
from syntaxlm.generation.stop_io import read_stops, write_stops
from syntaxlm.generation.stops import StopBatches, StopReport, score_stops, tree_corpus, tree_model
from syntaxlm.model_io import ModelBundle, read_model
from syntaxlm.models.stop_classifiers import Reads, Stops, StopSettings
from syntaxlm.settings import Count, Positive, Seed, Settings, Size
from syntaxlm.training.gradient import GradientLoop
from syntaxlm.training.processes import Processes, process_group
from syntaxlm.training.recipe import OptimiserSettings, RunSettings, ScheduleSettings
from syntaxlm.training.run_log import ProgressCallback, RunLog
from syntaxlm.training.task import Task, Validation


@dataclass(frozen=True)
class StopTraining(Settings):
    """Adam at a constant rate, until the validation loss no longer falls."""

    reads: Reads = StopSettings.reads  # what the classifiers read of each word
    hidden_size: Size | None = None  # neurons of their hidden layer; None: the size of the model's state
    batch_words: Count = 512  # words per batch of whole trees
    learning_rate: Positive = 1e-3  # of the optimiser
    patience: Count = 3  # epochs without a better validation loss after which training ends
    epochs: Count = 30  # passes over the training trees at most
    minutes: Positive | None = None  # training time after which training ends, after the batch; None: no limit
    seed: Seed = 1  # of initial weights and of the order of trees

    @property
    def optimiser(self) -> OptimiserSettings:
        """As the training loop wants it."""
        return OptimiserSettings(learning_rate=self.learning_rate, weight_decay=0.0, gradient_clip=1e9)

    @property
    def schedule(self) -> ScheduleSettings:
        """As the training loop wants it: the rate never falls."""
        return ScheduleSettings(
            plateau_factor=1.0, epochs=self.epochs, minutes=self.minutes, stop_patience=self.patience
        )

    @property
    def run(self) -> RunSettings:
        """As the training loop wants it."""
        return RunSettings(seed=self.seed, accelerator="cpu")

    def to_dict(self) -> dict[str, Any]:
        return dict(vars(self))


@dataclass(frozen=True)
class StopResult:
    """How training ended. epoch: of the weights kept, of `epochs`. test: None where no trees were given for it."""

    folder: Path
    reads: Reads
    weights: int
    epoch: int
    epochs: int
    seconds: float
    valid: StopReport
    test: StopReport | None = None

    def to_dict(self) -> dict[str, Any]:
        """All figures, for JSON."""
        reports = {name: report and report.to_dict() for name, report in (("valid", self.valid), ("test", self.test))}
        return vars(self) | {"folder": str(self.folder)} | reports

    def __str__(self) -> str:
        head = (
            f"{self.folder}: classifiers of {self.reads.replace('-', ' ')}, {self.weights:,} weights, of epoch"
            f" {self.epoch} of {self.epochs}"
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
    """Trains classifiers into the folder of their model; those kept are of the best validation loss.

    train, valid, test: dependency trees, each a file, a folder or a pattern; test is only measured, at the end.
    Earlier classifiers of the folder are replaced. The same seed gives the same weights, on one processor of a kind.
    Raises InputError for a model that reads no trees, for files of none, and where another process is at work in the
    folder, before anything is trained.
    """
    settings = settings or StopTraining()
    bundle = read_model(folder)
    torch.manual_seed(settings.seed)
    with process_group(), held(Path(folder)):
        task = StopTask(bundle, Path(folder), train, valid, settings)
        measured = None if test is None else tree_corpus(bundle, test)
        log = RunLog(None, callback, keep=lambda task: task.write_weights(Path(folder)))
        loop = GradientLoop(task, settings, Processes("cpu", "32"), log)
        loop.train()
        stops = read_stops(folder, bundle)
        return StopResult(
            Path(folder),
            settings.reads,
            stops.parameter_count,
            math.ceil(log.trainer.best_epoch),
            math.ceil(loop.epochs),
            log.trainer.seconds,
            score_stops(stops, task.tree_model, task.valid),
            None if measured is None else score_stops(stops, task.tree_model, measured),
        )


class StopTask(Task):
    """Stop classifiers, and the trees that a dependency-tree model reads for them. That model stays as it is."""

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
