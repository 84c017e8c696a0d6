"""The stored results: reports of commands as JSON in results/, and earlier figures in results/earlier."""

from __future__ import annotations

import json
import re
import statistics
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from pydantic import ConfigDict, TypeAdapter
from pydantic.dataclasses import dataclass as checked_dataclass

RESULTS = Path(__file__).parents[2] / "results"
_STRICT = ConfigDict(extra="forbid")


@dataclass(frozen=True)
class Figure:
    """A quantity, or its mean over seeds and sample standard deviation. values: by seed, where they are known."""

    mean: float
    std: float | None = None
    values: tuple[float, ...] = ()

    @classmethod
    def of(cls, values: Iterable[float]) -> Figure:
        values = tuple(values)
        return cls(statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else None, values)


@checked_dataclass(frozen=True, config=_STRICT)
class EarlierTrees:
    """F1 of the trees of one model type by seed, as fractions, on one treebank with one decoder."""

    treebank: str
    preprocessing: str
    sentences: int
    maximum_words: int | None
    protocol: str
    decoder: str
    layer: int | None
    f1: list[float]
    mean: float | None  # of f1, where it was recorded; computed before the values were rounded
    std: float | None
    right_branching: float
    averaged_f1: float | None  # of the averaged trees of all seeds

    @property
    def figure(self) -> Figure:
        computed = Figure.of(self.f1)
        return computed if self.mean is None else Figure(self.mean, self.std, computed.values)


@checked_dataclass(frozen=True, config=_STRICT)
class EarlierPerplexity:
    """Perplexity by seed; where these were not recorded, their mean and standard deviation."""

    text: str
    part: Literal["valid", "test"]
    reading: str  # "as a stream", "sentence by sentence" ...
    tokens: int | None
    given_trees: bool  # P(S | T), words given their trees
    values: list[float] | None
    mean: float | None
    std: float | None

    @property
    def figure(self) -> Figure:
        if self.values:
            return Figure.of(self.values)
        if self.mean is None:
            raise ValueError(f"perplexity of {self.text}: found neither values nor a mean")
        return Figure(self.mean, self.std)


@checked_dataclass(frozen=True, config=_STRICT)
class Earlier:
    """Measurements of one recipe, copied from the laboratory notebook; the output of the commands was not stored."""

    schema_version: Literal[1]
    source: Literal["transcribed from the laboratory notebook"]
    notebook: list[str]  # page and headings of the measurement
    date: str
    machine: str
    model: str
    recipe: str
    commands: list[str]
    training_text: str
    seeds: list[int]
    trees: list[EarlierTrees]
    perplexity: list[EarlierPerplexity]


def earlier(name: str) -> Earlier:
    """results/earlier/NAME.json. Raises pydantic's ValidationError for a file of another form."""
    return TypeAdapter(Earlier).validate_json((RESULTS / "earlier" / f"{name}.json").read_bytes())


def all_earlier() -> dict[str, Earlier]:
    return {path.stem: earlier(path.stem) for path in sorted((RESULTS / "earlier").glob("*.json"))}


@dataclass(frozen=True)
class Runs:
    """The stored reports of one experiment: seed (0 where a file has none) to the report of a command."""

    name: str  # the files' common name, "seed-" and number left out
    reports: dict[int, dict[str, Any]]

    @cached_property
    def first(self) -> dict[str, Any]:
        return next(iter(self.reports.values()))

    @property
    def seeds(self) -> list[int]:
        return [seed for seed in self.reports if seed]

    @property
    def f1(self) -> Figure:
        return Figure.of(report["f1"] for report in self.reports.values())

    def f1_by(self, decoder: str) -> Figure:
        return Figure.of(report["f1_by_decoder"][decoder] for report in self.reports.values())

    @property
    def preprocessing(self) -> str:
        return str(self.first.get("preprocessing", self.first.get("clean_up")))

    @property
    def right_branching(self) -> float:
        return float(self.first["baselines"]["right"])

    def perplexity(self, part: str) -> Figure:
        """Of the validation or test text; the reports are those of `train` (result.json)."""
        return Figure.of(report[part]["perplexity"] for report in self.reports.values())


_SEED = re.compile(r"(?:^|-)seed-(\d+)")


def runs(folder: str, ending: str) -> list[Runs]:
    """The reports below a folder of results/ whose names end with -ENDING.json, seeds of one run together.

    "average-wsj.json" is the run "average", "focused/seed-1-wsj.json" is one of "focused"; "without-seed-5" is no seed.
    """
    found: dict[str, dict[int, dict[str, Any]]] = {}
    for path in sorted((RESULTS / folder).rglob(f"*-{ending}.json")):
        stem = path.stem.removesuffix(f"-{ending}")
        seed = None if "without-seed" in stem else _SEED.search(stem)
        stem = stem.replace(seed.group(), "", 1).strip("-") if seed else stem
        name = "/".join([*path.parent.relative_to(RESULTS / folder).parts, *filter(None, [stem])])
        report = json.loads(path.read_text(encoding="utf-8"))
        number = int(seed.group(1)) if seed else 0
        if number in found.setdefault(name, {}):
            raise ValueError(f"{path}: a second file of the run {name!r} with the same seed")
        found[name][number] = report
    return [Runs(name, dict(sorted(reports.items()))) for name, reports in sorted(found.items())]


def run(folder: str, ending: str, name: str = "") -> Runs:
    """The one run of this name. Raises KeyError where nothing is stored of it."""
    return {one.name: one for one in runs(folder, ending)}[name]


@dataclass(frozen=True)
class Trees:
    """F1 with what it depends on, whichever file it comes from. count: of the seeds, or of the averaged models."""

    f1: Figure
    right_branching: float
    sentences: int
    protocol: str
    decoder: str
    count: int


_ENDINGS = {"WSJ sample": "wsj", "GUM test": "gum"}  # of the files with the reports on a treebank, all lengths


def trees(recipe: str, treebank: str, decoder: str, name: str = "") -> Trees:
    """F1 over all lengths, from the stored reports of the recipe, or else from its earlier figures."""
    for one in runs(recipe, _ENDINGS[treebank]):
        if one.name == name:
            f1 = one.f1_by(decoder)
            count = one.first.get("averaged_models") or len(one.reports)
            return Trees(f1, one.right_branching, one.first["sentences"], one.first["protocol"], decoder, count)
    found = earlier(recipe)
    for old in found.trees:
        if (old.treebank, old.decoder, old.maximum_words) == (treebank, decoder, None):
            return Trees(old.figure, old.right_branching, old.sentences, old.protocol, decoder, len(found.seeds))
    raise ValueError(f"results: no F1 of {recipe} on {treebank} with decoder {decoder}")


def perplexity_of_test(recipe: str, reading: str) -> tuple[Figure, int]:
    """Perplexity of the test text and the number of seeds, from the stored reports or else from the earlier figures."""
    for one in runs(recipe, "training"):
        if not one.name:
            return one.perplexity("test"), len(one.reports)
    found = earlier(recipe)
    for old in found.perplexity:
        if (old.part, old.reading) == ("test", reading):
            return old.figure, len(found.seeds)
    raise ValueError(f"results: no test perplexity of {recipe}, read {reading}")
