"""Training a pair classifier on logical inference. Not the language models' program: nothing here predicts words."""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
import yaml
from pydantic import Field
from torch import nn

from syntaxlm.data.logic import TRAINED_OPERATORS, FormulaPair, read_formula_pairs
from syntaxlm.errors import InputError
from syntaxlm.evaluation.logical_inference import (
    CLASSIFIER,
    EncodedPairs,
    InferenceReport,
    InferenceSettings,
    Operators,
    answers,
    evaluate_inference,
    read_classifier,
    write_classifier_settings,
    write_classifier_weights,
)
from syntaxlm.files import write_text
from syntaxlm.model_io import WEIGHTS
from syntaxlm.models.pair_classifier import ClassifierSettings, PairClassifier
from syntaxlm.models.registry import ModelConfig
from syntaxlm.settings import Count, NonNegative, Positive, Seed, Settings, Size, read_sections, read_settings
from syntaxlm.training.recipe import find_recipe, shipped_recipes
from syntaxlm.training.result import RESULT
from syntaxlm.training.trainer import METRICS, RECIPE


@dataclass(frozen=True)
class PairFiles(Settings, section="pairs"):
    """The files of formula pairs, as `syntaxlm data logic` writes them; paths are relative to the working folder."""

    train: str  # file
    valid: str  # file; the weights with the highest accuracy on it are kept
    test: str | None = None  # file; only measured, at the end
    maximum_operators: Operators = TRAINED_OPERATORS  # longer pairs of train and valid are left out


@dataclass(frozen=True)
class TrainingSettings(Settings, section="training"):
    """Adam, at a rate that falls when accuracy on the validation pairs no longer improves."""

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
class InferenceRecipe(Settings):
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
    return read_settings(InferenceRecipe, read_sections(path, overrides or [], "model, pairs"), str(path))


def _found(name: str | Path) -> Path:
    shipped = [f"logic/{path.stem}" for path in sorted((shipped_recipes() / "logic").glob("*.yaml"))]
    if str(name) not in shipped and not Path(name).exists():
        raise InputError(f"{name}: no such recipe file. Shipped recipes of logical inference: {', '.join(shipped)}")
    return find_recipe(name)


def train_inference(
    recipe: InferenceRecipe, folder: str | Path, watcher: Callable[[EpochEvent], None] = lambda event: None
) -> InferenceResult:
    """Trains a pair classifier into a new folder; the weights kept are those of the best validation accuracy.

    The same recipe gives the same weights, on one processor of the same kind.
    Raises InputError when the folder holds a classifier or a model already, or cannot be written, and for files that
    are no pairs, before anything is trained.
    """
    return _Training(recipe, Path(folder), watcher).run()


class _Training:
    def __init__(self, recipe: InferenceRecipe, folder: Path, watcher: Callable[[EpochEvent], None]) -> None:
        self.recipe, self.folder, self.watcher = recipe, folder, watcher
        wanted = recipe.training.accelerator
        if wanted == "cuda" and not torch.cuda.is_available():
            raise InputError("training.accelerator: found cuda; this machine has none that torch can use")
        self.device = torch.device("cuda" if wanted != "cpu" and torch.cuda.is_available() else "cpu")
        _refuse(folder)
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
        recipe = yaml.safe_dump(json.loads(json.dumps(dataclasses.asdict(self.recipe))), sort_keys=False)
        write_text(recipe, self.folder / RECIPE)
        self.started = time.monotonic()
        events: list[EpochEvent] = []
        while not events or (len(events) < self.recipe.training.epochs and not self._is_late()):
            events.append(self._epoch(events))
            lines = [json.dumps(dataclasses.asdict(event)) for event in events]
            write_text("\n".join(lines) + "\n", self.folder / METRICS)
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
            nn.utils.clip_grad_norm_(self.classifier.parameters(), settings.gradient_clip)
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
        write_text(json.dumps(result.as_dict(), indent=2) + "\n", self.folder / RESULT)
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
