"""Training a pair classifier on logical inference. Not the language models' program: nothing here predicts words."""

from __future__ import annotations

import dataclasses
import json
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path
from typing import Any, Literal

import torch
import yaml
from torch import nn

from syntaxlm.data.logic import TRAINED_OPERATORS, FormulaPair, read_formula_pairs
from syntaxlm.errors import InputError
from syntaxlm.evaluation.logical_inference import (
    CLASSIFIER,
    EncodedPairs,
    InferenceReport,
    InferenceSettings,
    answers,
    evaluate_inference,
    read_classifier,
    write_classifier_settings,
    write_classifier_weights,
)
from syntaxlm.files import to_json, write_text
from syntaxlm.model_io import WEIGHTS
from syntaxlm.models.pair_classifier import ClassifierSettings, PairClassifier
from syntaxlm.models.registry import ModelConfig
from syntaxlm.settings import Limits, range_faults, read_sections, read_settings
from syntaxlm.training.fingerprints import fingerprint, write_fingerprints
from syntaxlm.training.recipe import find_recipe, shipped_recipes
from syntaxlm.training.result import RESULT
from syntaxlm.training.run_folder import METRICS, RECIPE, claim


@dataclass(frozen=True)
class PairFiles:
    """The files of formula pairs, as `syntaxlm data logic` writes them; relative to the working folder."""

    train: str  # file
    valid: str  # file; the weights kept are those of the highest accuracy on it
    test: str | None = None  # file; only measured, at the end
    maximum_operators: int = TRAINED_OPERATORS  # longer pairs of train and valid are left out


@dataclass(frozen=True)
class TrainingSettings:
    """Adam, at a rate that falls when accuracy on the validation pairs stays where it was."""

    batch_size: int = 128  # pairs
    learning_rate: float = 1e-3  # at the first step
    weight_decay: float = 1.2e-6  # L2, added to the gradient
    clip: float = 1.0  # norm that the gradient is scaled down to
    plateau_patience: int = 3  # epochs without a better accuracy before the rate falls
    plateau_factor: float = 0.5  # the rate is multiplied by this
    epochs: int = 50  # passes over the training pairs
    minutes: float | None = None  # training time after which it ends, at the end of a batch; None for no limit
    seed: int = 1  # of all that is drawn at random: first weights, dropout, order of pairs
    accelerator: Literal["auto", "cpu", "cuda"] = "auto"  # auto: a GPU where torch finds one


@dataclass(frozen=True)
class InferenceRecipe:
    """Encoder, layers above it, files, training: the sections of a recipe of logical inference."""

    model: ModelConfig
    pairs: PairFiles
    classifier: ClassifierSettings = field(default_factory=ClassifierSettings)
    training: TrainingSettings = field(default_factory=TrainingSettings)

    @property
    def settings(self) -> InferenceSettings:
        return InferenceSettings(self.model, self.classifier, self.pairs.maximum_operators)


@dataclass(frozen=True)
class EpochEvent:
    """What training tells whoever watches, after every epoch. loss: mean over pairs, in nats."""

    epoch: int
    loss: float
    accuracy: float  # on the validation pairs
    seconds: float
    best: bool

    def __str__(self) -> str:
        clock = f"{int(self.seconds) // 60}:{int(self.seconds) % 60:02d}"
        mark = "  best so far" if self.best else ""
        return (
            f"epoch {self.epoch}  train loss {self.loss:.4f}  valid accuracy {100 * self.accuracy:.1f}  {clock}{mark}"
        )


@dataclass(frozen=True)
class InferenceResult:
    """How a training ended. valid: accuracy of the weights kept; test: None where no file was given."""

    folder: Path
    weights: int
    epochs: int
    seconds: float
    valid: float
    test: InferenceReport | None = None

    def as_dict(self) -> dict[str, Any]:
        rest = {name: getattr(self, name) for name in ("weights", "epochs", "seconds", "valid")}
        return {"folder": str(self.folder)} | rest | {"test": self.test and self.test.as_dict()}

    def __str__(self) -> str:
        lines = [
            f"{self.folder}: {self.weights:,} weights, {self.epochs} epochs, {self.seconds / 60:.1f} minutes",
            f"valid: accuracy {100 * self.valid:.1f}",
        ]
        return "\n".join([*lines, str(self.test)] if self.test else lines)


def read_inference_recipe(path: str | Path, overrides: list[tuple[str, str]] | None = None) -> InferenceRecipe:
    """The recipe of a YAML file, or of a shipped one's name ("logic/on-lstm"), with dotted overrides.

    Raises InputError with every fault.
    """
    path = _found(path)
    recipe = read_settings(InferenceRecipe, read_sections(path, overrides or [], "model, pairs"), str(path))
    faults = [*recipe.settings.faults(), *range_faults(_LIMITS, lambda name: attrgetter(name)(recipe))]
    if faults:
        raise InputError("\n".join(f"{path}: {fault}" for fault in faults))
    return recipe


def _found(name: str | Path) -> Path:
    shipped = [f"logic/{path.stem}" for path in sorted((shipped_recipes() / "logic").glob("*.yaml"))]
    if str(name) not in shipped and not Path(name).exists():
        raise InputError(f"{name}: no such recipe file. Shipped recipes of logical inference: {', '.join(shipped)}")
    return find_recipe(name)


_POSITIVE = "a positive number", lambda value: 0 < value < math.inf

_LIMITS: Limits = {
    "pairs.maximum_operators": ("0 or more", lambda value: value >= 0),
    "training.batch_size": _POSITIVE,
    "training.learning_rate": _POSITIVE,
    "training.weight_decay": ("0 or more", lambda value: 0 <= value < math.inf),
    "training.clip": _POSITIVE,
    "training.plateau_patience": _POSITIVE,
    "training.plateau_factor": ("a number over 0, under 1", lambda value: 0 < value < 1),
    "training.epochs": _POSITIVE,
    "training.minutes": _POSITIVE,
    "training.seed": (f"0 to {2**32 - 1}", lambda value: 0 <= value < 2**32),
}


def train_inference(
    recipe: InferenceRecipe, folder: str | Path, watcher: Callable[[EpochEvent], None] = lambda event: None
) -> InferenceResult:
    """Trains a pair classifier into a new folder; the weights kept are those of the best validation accuracy.

    The same recipe gives the same weights, on one processor of the same kind.
    Raises InputError when the folder holds a classifier or a model already, or cannot be written, and for files that
    are no pairs, before anything is trained.
    """
    folder = Path(folder)
    _refuse(folder)
    settings = yaml.safe_dump(json.loads(json.dumps(dataclasses.asdict(recipe))), sort_keys=False)
    taken = claim(folder, settings)
    try:
        try:
            files = {f"pairs.{name}": getattr(recipe.pairs, name) for name in ("train", "valid", "test")}
            inputs = fingerprint(files)
            training = _Training(recipe, folder, watcher)
            write_fingerprints(folder, inputs)
        except BaseException:  # the folder is as it was before
            taken.abandon()
            raise
        return training.run()
    finally:
        taken.release()


class _Training:
    def __init__(self, recipe: InferenceRecipe, folder: Path, watcher: Callable[[EpochEvent], None]) -> None:
        self.recipe, self.folder, self.watcher = recipe, folder, watcher
        wanted = recipe.training.accelerator
        if wanted == "cuda" and not torch.cuda.is_available():
            raise InputError("training.accelerator: found cuda; this machine has none that torch can use")
        self.device = torch.device("cuda" if wanted != "cpu" and torch.cuda.is_available() else "cpu")
        files, most = recipe.pairs, recipe.pairs.maximum_operators
        self.train, self.valid = (EncodedPairs(_short_pairs(path, most)) for path in (files.train, files.valid))
        if files.test:
            read_formula_pairs(files.test)  # a fault in it is told now
        torch.manual_seed(recipe.training.seed)
        self.classifier: PairClassifier = recipe.settings.build().to(self.device)
        settings = recipe.training
        self.optimiser = torch.optim.Adam(
            self.classifier.parameters(), lr=settings.learning_rate, weight_decay=settings.weight_decay
        )
        self.plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(
            # torch counts the epochs that are let pass, we those after which the rate falls
            self.optimiser, "max", settings.plateau_factor, settings.plateau_patience - 1, threshold=0.0
        )  # fmt: skip
        self.started = time.monotonic()

    def run(self) -> InferenceResult:
        write_classifier_settings(self.folder, self.recipe.settings)
        self.started = time.monotonic()
        events: list[EpochEvent] = []
        while not events or (len(events) < self.recipe.training.epochs and not self._is_late()):
            events.append(self._epoch(events))
            lines = [to_json(dataclasses.asdict(event)) for event in events]
            write_text("\n".join(lines) + "\n", self.folder / METRICS, stored=True)
            self.watcher(events[-1])
        return self._result(events)

    def _epoch(self, before: list[EpochEvent]) -> EpochEvent:
        loss = self._pass()
        found = torch.tensor(answers(self.classifier, self.valid, self.device))
        accuracy = float((found == self.valid.relations).double().mean())
        best = all(accuracy > event.accuracy for event in before)
        if best:
            write_classifier_weights(self.folder, self.classifier)
        self.plateau.step(accuracy)
        return EpochEvent(len(before) + 1, loss, accuracy, time.monotonic() - self.started, best)

    def _pass(self) -> float:
        """One pass over the training pairs in a new order, or until time is up. Returns the mean loss of a pair."""
        settings, total, seen = self.recipe.training, 0.0, 0
        self.classifier.train()
        for places in torch.randperm(len(self.train)).split(settings.batch_size):
            pairs, relations = self.train.batch(places.tolist())
            logits, penalties = self.classifier(pairs.to(self.device))
            loss = nn.functional.cross_entropy(logits, relations.to(self.device))
            self.optimiser.zero_grad()
            torch.stack([loss, *penalties.values()]).sum().backward()
            nn.utils.clip_grad_norm_(self.classifier.parameters(), settings.clip)
            self.optimiser.step()
            total, seen = total + loss.item() * len(places), seen + len(places)
            if self._is_late():
                break
        return total / seen

    def _is_late(self) -> bool:
        minutes = self.recipe.training.minutes
        return minutes is not None and time.monotonic() - self.started > 60 * minutes

    def _result(self, events: list[EpochEvent]) -> InferenceResult:
        stored, test = read_classifier(self.folder), self.recipe.pairs.test
        result = InferenceResult(
            self.folder,
            sum(weight.numel() for weight in stored.classifier.parameters()),
            len(events),
            events[-1].seconds,
            max(event.accuracy for event in events),
            evaluate_inference(stored, test) if test else None,
        )
        write_text(to_json(result.as_dict(), indent=2) + "\n", self.folder / RESULT, stored=True)
        return result


def _refuse(folder: Path) -> None:
    """Raises InputError when a folder holds a classifier, a model or a run."""
    for name in (CLASSIFIER, RECIPE, WEIGHTS):
        if (folder / name).exists():
            raise InputError(f"{folder}: has a {name} already. Name another folder.")


def _short_pairs(path: str, most: int) -> list[FormulaPair]:
    """The pairs of up to so many operators. Raises InputError where a file has none."""
    pairs = [pair for pair in read_formula_pairs(path) if pair.operators <= most]
    if not pairs:
        raise InputError(f"{path}: no pair of up to {most} operators (pairs.maximum_operators) in it")
    return pairs
