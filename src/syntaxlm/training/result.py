"""The files of a run, its result, and statistics over several runs."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from pydantic import AfterValidator, BaseModel

from syntaxlm.core.declarations import LARGEST_COUNT, Bounds
from syntaxlm.core.errors import InputError, amount
from syntaxlm.core.files import parse_json, read_stored
from syntaxlm.core.option_names import option_name
from syntaxlm.core.settings import read_settings
from syntaxlm.evaluation.collapse import TreeFigures
from syntaxlm.evaluation.pair_classification import ClassificationReport, InferenceReport
from syntaxlm.evaluation.perplexity import LanguageModelScore
from syntaxlm.models.abilities import Criterion
from syntaxlm.statistics.intervals import sample_std
from syntaxlm.training.learning_curves import plot_learning_curves, read_metrics

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from syntaxlm.drawing.plots import Plot

RECIPE = "recipe.yaml"
METRICS = "metrics.jsonl"
INPUTS = "inputs.json"
CHECKPOINT = "checkpoint.safetensors"
RESULT = "result.json"


def _check_numbers(value: Any) -> Any:
    if isinstance(value, list):
        return [_check_numbers(entry) for entry in value]
    if value is not None and type(value) not in (int, float):
        raise ValueError(f"found {str(value)[:40]}; expected numbers, or nested lists of numbers")
    return value


Numbers = Annotated[Any, AfterValidator(_check_numbers)]
"""A number or a nested list of numbers. None stands for a number that is not finite."""


@dataclass(frozen=True)
class Validation:
    """The value of a model's criterion on the validation data.

    Attributes:
        figures: values for metrics.jsonl, by key: "valid_loss", "valid_perplexity".
    """

    criterion: Criterion
    value: float
    figures: dict[str, float] = field(default_factory=dict)

    @property
    def cost(self) -> float:
        """The value, negated if the criterion is maximised, so that lower is better."""
        return -self.value if self.criterion.maximise else self.value

    @property
    def logged(self) -> dict[str, Any]:
        """The values of a line of metrics.jsonl."""
        return self.figures | {"criterion": f"{self.criterion.name}, {self.criterion.unit}"}


@dataclass(frozen=True)
class CriterionValue:
    """The value of a model's own criterion on the validation text.

    Attributes:
        name: such as "negative log-likelihood".
        unit: such as "nats per token".
    """

    name: str
    unit: str
    value: float

    @classmethod
    def of(cls, validation: Validation) -> CriterionValue:
        """Return the name and the value of a validation."""
        return cls(validation.criterion.name, validation.criterion.unit, validation.value)

    def __str__(self) -> str:
        return f"{self.name} {self.value:.4f} {self.unit}"


@dataclass(frozen=True)
class TrainingResult:
    """The result of a training run: its folder, its length, and the scores of the weights that are kept.

    Attributes:
        parameters: number of trainable parameters; None for models that are trained by counting and interrupted runs.
        valid: scores on the validation text; None if there are none.
        test: scores on the test text; None if there are none.
        answers: answers of a pair classifier to the test pairs; None for other models, and without test pairs.
        run: the head of result.json, see `syntaxlm.core.run_head`; None for interrupted runs.
        criterion: for a model without probabilities, its own criterion on the validation data; None for other models.
        stopped: whether the run was interrupted before its end.
        averaged: whether these weights are an average over optimiser steps.
        supervised: number of training sentences with a gold tree, and number of all training sentences; None for
            training without gold trees.
        counted: figures of a model that is trained by counting, by name; each is a number or a nested list of numbers.
        trees: statistics of a grammar's trees on the validation text; None for other models.
    """

    folder: Path
    steps: int
    epochs: float
    seconds: float
    valid: LanguageModelScore | None = None
    test: LanguageModelScore | None = None
    stopped: bool = False
    averaged: bool = False
    supervised: tuple[int, int] | None = None
    counted: dict[str, Any] | None = None
    trees: TreeFigures | None = None
    criterion: CriterionValue | None = None
    parameters: int | None = None
    answers: ClassificationReport | InferenceReport | None = None
    run: dict[str, Any] | None = None

    @property
    def perplexity(self) -> float:
        """The perplexity on the validation text. Raises InputError if there is none, see `criterion`.

        A run with a time limit may validate on a part of the text, which `valid.source` names.
        """
        if self.valid is None:
            raise InputError(f"{self.folder}: the run has no validation perplexity")
        return self.valid.perplexity

    @property
    def test_figures(self) -> dict[str, float]:
        """The scores on the test data, named as those on the validation data in metrics.jsonl."""
        if self.answers is not None:
            return {"test_accuracy": self.answers.score().to_dict()["accuracy"]}
        return {} if self.test is None else {"test_loss": self.test.loss, "test_perplexity": self.test.perplexity}

    def to_dict(self) -> dict[str, Any]:
        test = self.test or self.answers
        return {
            "folder": str(self.folder),
            "parameters": self.parameters,
            "valid": self.valid and self.valid.to_dict(),
            "test": test and test.to_dict(),
            **{name: getattr(self, name) for name in ("steps", "epochs", "seconds", "stopped", "averaged")},
            "supervised": self.supervised and dict(zip(("sentences", "of"), self.supervised, strict=True)),
            "counted": self.counted,
            "trees": self.trees and dataclasses.asdict(self.trees) | {"warning": self.trees.warning},
            "criterion": self.criterion and dataclasses.asdict(self.criterion),
            **({"run": self.run} if self.run else {}),
        }

    def plot(self, ax: Axes | None = None) -> Plot:
        """Return the learning curves: losses of training and validation over epochs, with their perplexities.

        A new figure also shows F1 on the treebank of the recipe, if it names one.

        Args:
            ax: axes of matplotlib to draw the losses on, instead of a new figure

        Raises:
            InputError: the run has no losses, as of a model that is trained by counting, or matplotlib is missing.
        """
        plot = plot_learning_curves(read_metrics(self.folder / METRICS), ax)
        plot.add_note(
            "Training: mean over the steps since the last validation, with dropout. Validation: without dropout."
        )
        return plot

    def __str__(self) -> str:
        if self.stopped:
            # A model that is trained by counting takes no steps.
            done = amount(self.steps, "step") if self.steps else amount(round(self.epochs), "round")
            return (
                f"Training stopped after {done}; a checkpoint is saved."
                f" Resume with: {option_name('syntaxlm train --resume', str(self.folder))}"
            )
        averaged = ", averaged weights" if self.averaged else ""
        spent = f"{amount(self.steps, 'step')}, {self.epochs:.2f} epochs, {self.seconds / 60:.1f} minutes"
        if self.counted is not None:
            rounds = f"{self.epochs:.0f} rounds" if self.epochs > 1 else "counted"
            spent = f"{rounds} in {self.seconds:.1f} seconds"
        parameters = "" if self.parameters is None else f"{self.parameters:,} parameters, "
        lines = [f"{self.folder}: {parameters}{spent}{averaged}"]
        counted = {name.replace("_", " "): values for name, values in (self.counted or {}).items() if values}
        lines += [f"{name}: {_numbers(values)}" for name, values in counted.items()]
        if self.supervised is not None:
            lines.append("{:,} of {:,} training sentences have a tree".format(*self.supervised))
        for name, score in (("valid", self.valid), ("test", self.test)):
            if score is not None:
                lines.append(f"{name}: " + str(score).replace("\n", "\n  "))
        if self.criterion is not None:
            lines.append(f"valid: {self.criterion}")
        lines += [str(part) for part in (self.trees, self.answers) if part is not None]
        return "\n".join(lines)

    __repr__ = __str__


def _numbers(values: Any) -> str:
    """Format numbers as a row; rows are separated by commas."""
    if values is None:
        return "-"
    if not isinstance(values, list):
        return f"{values:,}" if isinstance(values, int) or abs(values) < 1 else f"{values:,.4f}"
    return (", " if values and isinstance(values[0], list) else "  ").join(map(_numbers, values))


def _or_infinity(value: float | None) -> float:
    """Return infinity for null: JSON has none, and a model may give a token zero probability."""
    return math.inf if value is None else value


_Count = Annotated[int, Bounds(ge=0, lt=2**62)]
_Amount = Annotated[float, Bounds(ge=0, le=1e300)]  # arithmetic on larger numbers overflows


class _Stored(BaseModel, strict=True):
    """Base class of what is read again of result.json: the entries from which the others follow."""


class _StoredScore(_Stored):
    nats: Annotated[_Amount | None, AfterValidator(_or_infinity)]
    tokens: Annotated[int, Bounds(ge=1, lt=2**62)]
    sentences: _Count
    unknown: _Count
    characters: _Count
    carry_state: bool
    predict_eos: bool
    given_trees: bool
    source: str
    likelihood_estimate: str | None


class _StoredCriterion(_Stored):
    name: str
    unit: str
    value: Annotated[float | None, AfterValidator(_or_infinity)]


class _StoredTrees(_Stored):
    right_branching: _Amount
    left_branching: _Amount
    symbols: _Amount | None
    sentences: _Count


class _StoredSupervision(_Stored):
    sentences: _Count
    of: _Count


_Score = Annotated[_StoredScore, AfterValidator(lambda score: LanguageModelScore.from_dict(vars(score)))]


class _StoredResult(_Stored):
    steps: _Count
    epochs: _Amount
    seconds: _Amount
    averaged: bool
    parameters: _Count | None
    valid: _Score | None
    test: _Score | None
    supervised: Annotated[_StoredSupervision, AfterValidator(lambda counts: (counts.sentences, counts.of))] | None
    counted: dict[str, Numbers] | None
    trees: Annotated[_StoredTrees, AfterValidator(lambda figures: TreeFigures(**vars(figures)))] | None
    criterion: Annotated[_StoredCriterion, AfterValidator(lambda figures: CriterionValue(**vars(figures)))] | None
    run: dict[str, Any] | None = None


def read_result(folder: Path) -> TrainingResult:
    """Read the result of the finished run in a folder. Raises InputError if the file is missing or damaged."""
    path = folder / RESULT
    content = read_stored(path)
    try:
        # The head has the hashes of all files that the run read.
        stored = read_settings(_StoredResult, parse_json(content, "JSON"), "JSON", most=LARGEST_COUNT)
        return TrainingResult(folder, **vars(stored))
    except InputError as error:
        raise InputError(
            f"{path}: not a valid training result: {error}. Remove the file, and it will be written again."
        ) from error


@dataclass(frozen=True)
class Figure:
    """Mean of a figure over several seeds.

    Attributes:
        std: sample standard deviation; None for a single run.
        count: number of runs.
    """

    mean: float
    std: float | None
    count: int

    @classmethod
    def of(cls, values: Sequence[float]) -> Figure | None:
        """Return None if there are no values."""
        if not values:
            return None
        return cls(float(np.mean(values)), sample_std(np.array(values)), len(values))

    def shown(self, decimals: int) -> str:
        spread = "" if self.std is None else f" ± {self.std:.{decimals}f}"
        return f"{self.mean:,.{decimals}f}{spread}"
