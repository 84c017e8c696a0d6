"""The model index of a card: results in its YAML front matter, in the form that the Hugging Face hub displays."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import pydantic
from pydantic import AfterValidator

from syntaxlm.core.errors import InputError

PARSING, LANGUAGE_MODELLING = "constituency-parsing", "language-modeling"  # types of tasks
F1, PERPLEXITY = "f1", "perplexity"  # types of metrics


def printable(text: str) -> str:
    """Return a text with spaces in place of control characters and marks that change the direction of writing."""
    return text if text.isprintable() else "".join(sign if sign.isprintable() else " " for sign in text)


Text = Annotated[str, AfterValidator(printable)]
Facts = dict[Text, Text | int | float]


class EvaluatedTask(pydantic.BaseModel):
    """What the model was evaluated on."""

    type: Text


class DataSet(pydantic.BaseModel):
    """Test data.

    Attributes:
        type: identifier of the data set.
        name: for display.
        args: facts to read a result with: the number of sentences, the value of a baseline.
    """

    type: Text
    name: Text
    args: Facts = {}


class Metric(pydantic.BaseModel):
    """A value, and how it was measured.

    Attributes:
        type: identifier of the metric, such as `F1`.
        value: F1 in percent.
        name: for display.
        args: decoder, protocol and other settings.
    """

    type: Text
    value: float
    name: Text | None = None
    args: Facts = {}

    @property
    def title(self) -> str:
        return self.name or self.type


class Result(pydantic.BaseModel):
    """The metrics of a model on a data set."""

    task: EvaluatedTask
    dataset: DataSet
    metrics: list[Metric]

    @property
    def protocol(self) -> str:
        """How the first metric was measured, as text."""
        return ", ".join(f"{name} {value}" for name, value in self.metrics[0].args.items())

    def row(self) -> dict[str, str]:
        """Return data set, its facts and all metrics as text by heading; a repeated heading has a number after it."""
        row, seen = {"data": self.dataset.name}, Counter(["data"])
        values = [*self.dataset.args.items(), *((metric.title, metric.value) for metric in self.metrics)]
        for name, value in values:
            seen[name] += 1
            row[name if seen[name] == 1 else f"{name} ({seen[name]})"] = _shown(value)
        return row


def _shown(value: str | float) -> str:
    """Return a value for reading. A number below 10, such as an accuracy from 0 to 1, has up to four digits."""
    if isinstance(value, str):
        return value
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:,.1f}" if abs(value) >= 10 or value == round(value, 1) else f"{value:.4g}"


class _IndexEntry(pydantic.BaseModel):
    """The results of a model."""

    name: Text
    results: list[Result]


_INDEX = pydantic.TypeAdapter(list[_IndexEntry])


def index_of(name: str, results: Sequence[Result]) -> list[dict[str, Any]]:
    """Return the entry `model-index` of a front matter."""
    index: list[dict[str, Any]] = _INDEX.dump_python(
        [_IndexEntry(name=name, results=list(results))], exclude_defaults=True
    )
    return index


def results_of(front: Mapping[str, Any], source: str) -> list[Result]:
    """Return the results in a front matter.

    Args:
        front: the whole front matter; other programs may have written it.
        source: its name in messages.

    Raises:
        InputError: if its model index does not have the form of the hub.
    """
    try:
        entries = _INDEX.validate_python(front.get("model-index") or [])
    except pydantic.ValidationError as error:
        fault = error.errors()[0]
        place = ".".join(map(str, ("model-index", *fault["loc"])))
        raise InputError(f"{source}: {place}: {fault['msg']}; expected a model index of the Hugging Face hub") from None
    return [result for entry in entries for result in entry.results if result.metrics]
