"""Training the classifiers that end a tree, over the states of a model of trees that stays as it is."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from syntaxlm.data.dependencies import TreeBatches
from syntaxlm.errors import InputError
from syntaxlm.files import held
from syntaxlm.generation.stop_io import read_stops, write_stops
from syntaxlm.generation.stops import StopReport, examples, score_stops, tree_corpus, tree_model
from syntaxlm.model_io import ModelBundle, read_model
from syntaxlm.models.stop_classifiers import Reads, Stops, StopSettings
from syntaxlm.settings import Limits, range_faults


@dataclass(frozen=True)
class StopTraining:
    """Adam at one rate, until the validation loss does not fall any more."""

    reads: Reads = StopSettings.reads  # what the classifiers read of each word
    hidden_size: int | None = None  # neurons of their hidden layer; None: as many as the model's state has
    batch_words: int = 512  # words of a batch, of whole trees
    learning_rate: float = 1e-3  # of the optimiser
    patience: int = 3  # epochs without a better validation loss after which training ends
    epochs: int = 30  # passes over the training trees at most
    minutes: float | None = None  # training time after which it ends, at the end of a batch; None for no limit
    seed: int = 1  # of first weights and of the order of trees

    def __post_init__(self) -> None:
        faults = range_faults(_LIMITS, lambda name: getattr(self, name))
        if faults:
            raise InputError("\n".join(faults))


_POSITIVE = "a positive number", lambda value: 0 < value < math.inf

_LIMITS: Limits = {
    "hidden_size": ("1 or more", lambda value: value >= 1),
    "batch_words": ("1 or more", lambda value: value >= 1),
    "learning_rate": _POSITIVE,
    "patience": ("1 or more", lambda value: value >= 1),
    "epochs": ("1 or more", lambda value: value >= 1),
    "minutes": _POSITIVE,
    "seed": (f"0 to {2**32 - 1}", lambda value: 0 <= value < 2**32),
}


@dataclass(frozen=True)
class StopEvent:
    """What training tells whoever watches, after every epoch. Losses are nats per word."""

    epoch: int
    loss: float
    valid_loss: float
    seconds: float
    best: bool

    def __str__(self) -> str:
        clock = f"{int(self.seconds) // 60}:{int(self.seconds) % 60:02d}"
        mark = "  best so far" if self.best else ""
        return f"epoch {self.epoch}  train loss {self.loss:.4f}  valid loss {self.valid_loss:.4f}  {clock}{mark}"


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

    def as_dict(self) -> dict[str, Any]:
        """All figures, for JSON."""
        reports = {name: report and report.as_dict() for name, report in (("valid", self.valid), ("test", self.test))}
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
    watcher: Callable[[StopEvent], None] = lambda event: None,
) -> StopResult:
    """Trains classifiers into the folder of their model; those kept are of the best validation loss.

    train, valid, test: dependency trees, each a file, a folder or a pattern; test is only measured, at the end.
    Earlier classifiers of the folder are replaced. The same seed gives the same weights, on one processor of a kind.
    Raises InputError for a model that reads no trees, for files of none, and where another process is at work in the
    folder, before anything is trained.
    """
    training = _Training(Path(folder), train, valid, test, settings or StopTraining())
    with held(Path(folder)):
        return training.run(watcher)


class _Training:
    def __init__(
        self, folder: Path, train: str | Path, valid: str | Path, test: str | Path | None, settings: StopTraining
    ) -> None:
        self.folder, self.settings = folder, settings
        self.stored: ModelBundle = read_model(folder)
        self.model = tree_model(self.stored).requires_grad_(False)
        corpus, self.valid = (tree_corpus(self.stored, path) for path in (train, valid))
        self.test = None if test is None else tree_corpus(self.stored, test)
        self.batches = TreeBatches(corpus, settings.batch_words, shuffle=True, seed=settings.seed, mixed=True)
        torch.manual_seed(settings.seed)
        model = self.model
        sizes = model.state_size, model.word_size, model.input_size, settings.hidden_size or model.state_size
        self.stops = Stops(StopSettings(*sizes, model.label_count or 0, settings.reads)).to(model.device)
        self.optimiser = torch.optim.Adam(self.stops.parameters(), lr=settings.learning_rate)
        self.started = time.monotonic()

    def run(self, watcher: Callable[[StopEvent], None]) -> StopResult:
        events: list[StopEvent] = []
        while not events or self._goes_on(events):
            events.append(self._epoch(events))
            watcher(events[-1])
        stops = read_stops(self.folder, self.stored)
        weights = sum(weight.numel() for weight in stops.parameters())
        return StopResult(
            self.folder,
            self.settings.reads,
            weights,
            max(event.epoch for event in events if event.best),
            len(events),
            events[-1].seconds,
            score_stops(stops, self.model, self.valid),
            None if self.test is None else score_stops(stops, self.model, self.test),
        )

    def _goes_on(self, events: list[StopEvent]) -> bool:
        recent = events[-self.settings.patience :]
        stands = len(recent) == self.settings.patience and not any(event.best for event in recent)
        return not stands and len(events) < self.settings.epochs and not self._is_late()

    def _epoch(self, before: list[StopEvent]) -> StopEvent:
        loss = self._pass(len(before))
        valid_loss = score_stops(self.stops, self.model, self.valid).loss
        best = all(valid_loss < event.valid_loss for event in before)
        if best:
            write_stops(self.folder, self.stops, self.model)
        return StopEvent(len(before) + 1, loss, valid_loss, time.monotonic() - self.started, best)

    def _pass(self, epoch: int) -> float:
        """One pass over the training trees in a new order, or until time is up. Returns the mean loss of a word."""
        total, words = 0.0, 0
        self.stops.train()
        for some in examples(self.model, self.batches, epoch):
            nats = some.nats(self.stops)
            self.optimiser.zero_grad()
            nats.mean().backward()
            self.optimiser.step()
            total, words = total + float(nats.detach().sum()), words + len(nats)
            if self._is_late():
                break
        return total / words

    def _is_late(self) -> bool:
        minutes = self.settings.minutes
        return minutes is not None and time.monotonic() - self.started > 60 * minutes
