"""Files of a training run in a model folder: recipe, metrics and result."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from syntaxlm.drawing.charts import Point
from syntaxlm.errors import InputError
from syntaxlm.files import parse_json, read_stored_text
from syntaxlm.training.recipe import Recipe
from syntaxlm.training.recipe_files import is_pair_run
from syntaxlm.training.result import RESULT, TrainingResult, read_result
from syntaxlm.training.trainer import METRICS, RECIPE, read_run_recipe

LARGEST_FIGURE = 1e15  # largest value of a curve: charts cannot show larger ones


@dataclass(frozen=True)
class Validation:
    """A validation in metrics.jsonl. Losses are in nats per token. best: whether its weights were saved."""

    epoch: float
    step: int
    train_loss: float
    valid_loss: float
    best: bool


@dataclass(frozen=True)
class Metrics:
    """The content of metrics.jsonl. training: (epoch, nats per token), one per line. rounds: number of rounds of a
    model that is trained by counting, which has no training loss.
    """

    training: tuple[Point, ...]
    validations: tuple[Validation, ...]
    rounds: int = 0


@dataclass(frozen=True)
class Run:
    """A training run in a model folder; None for a missing file."""

    folder: Path
    recipe: Recipe | None
    metrics: Metrics | None
    result: TrainingResult | None


def read_run(folder: Path) -> Run:
    """Read the files that exist. Raises InputError for a damaged file, but not for a missing one.

    Also raises it for the run of a pair classifier, whose files differ.
    """
    if is_pair_run(folder):
        raise InputError(
            f"{folder}: found the run of a classifier of sentence pairs; expected that of a language model or parser."
            " For its accuracy, use evaluate classifier"
        )
    return Run(
        folder,
        read_run_recipe(folder) if (folder / RECIPE).exists() else None,
        read_metrics(folder / METRICS) if (folder / METRICS).exists() else None,
        read_result(folder) if (folder / RESULT).exists() else None,
    )


def read_metrics(path: Path) -> Metrics:
    """Read metrics.jsonl. A last line without a line end is skipped: it is still being written.

    Raises InputError with file and line.
    """
    training: list[Point] = []
    validations: list[Validation] = []
    rounds = 0
    for number, line in enumerate(read_stored_text(path).split("\n")[:-1], 1):
        try:
            data = parse_json(line, "JSON")
            if data["event"] == "round":
                rounds += 1
                continue
            epoch, step, loss = _figure(data["epoch"]), int(_figure(data["step"])), _figure(data["train_loss"])
            training.append((epoch, loss))
            if data["event"] == "valid":
                validations.append(Validation(epoch, step, loss, _figure(data["valid_loss"]), bool(data["best"])))
        except (InputError, ValueError, KeyError, TypeError) as error:
            shown = line if len(line) <= 60 else line[:60] + " ..."
            raise InputError(
                f"{path}, line {number}: found {shown!r}; expected a JSON object with event, step, epoch and train_loss"
                f", and for a validation also valid_loss and best ({type(error).__name__}: {error})"
            ) from error
    return Metrics(tuple(training), tuple(validations), rounds)


def _figure(value: Any) -> float:
    """The value as a float. Raises ValueError if it is not a number or too large for charts."""
    if type(value) not in (int, float) or not abs(value) < LARGEST_FIGURE:
        raise ValueError(f"found {str(value)[:40]}; expected a number")
    return float(value)
