"""The stored results, reports of commands as JSON in results/, and how their figures are written."""

from __future__ import annotations

import json
import re
import statistics
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parents[1] / "results"
EN_SEEDS = "2, averaged"  # of `en`: its span parser and its grammar, one seed each


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


def percent(figure: Figure | float) -> str:
    """A fraction as percent with one decimal place, with the standard deviation where there is one."""
    if isinstance(figure, float):
        return f"{100 * figure:.1f}"
    return f"{100 * figure.mean:.1f}" + (f" ± {100 * figure.std:.1f}" if figure.std is not None else "")


def perplexity(figure: Figure) -> str:
    """With one decimal place, or none if the standard deviation is 5 or more."""
    places = 0 if figure.std is not None and figure.std >= 5 else 1
    return f"{figure.mean:.{places}f}" + (f" ± {figure.std:.{places}f}" if figure.std is not None else "")


def stored(name: str) -> dict[str, Any]:
    """A stored report: its path in results, without the ending."""
    report: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    return report


def all_stored(pattern: str) -> dict[str, dict[str, Any]]:
    """The stored reports whose paths in results, without the ending, match a pattern: by the names of their files."""
    paths = sorted(RESULTS.glob(f"{pattern}.json"))
    return {path.stem: stored(str(path.relative_to(RESULTS).with_suffix(""))) for path in paths}


def baselines(name: str) -> dict[str, Any]:
    """A report in results/baselines, of `evaluate trees` of a treebank against itself: its baselines are used."""
    return stored(f"baselines/{name}")


def of_baseline(report: dict[str, Any], name: str) -> Figure:
    """F1 of a baseline of a report; of random trees with the standard deviation over seeds."""
    found = report["baselines"][name]
    return Figure(found["mean"], found["std"]) if isinstance(found, dict) else Figure(found)


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
    def count(self) -> int:
        """The number of seeds, or of the members of an average."""
        return self.first.get("averaged_models") or len(self.reports)

    @property
    def shown_seeds(self) -> str:
        """The cell of a table: "5", or "5, averaged" for one tree per sentence of all of them."""
        return f"{self.count}, averaged" if "averaged_models" in self.first else str(self.count)

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
    """F1 with what it depends on, whichever file it comes from. seeds: as a table shows them."""

    f1: Figure
    right_branching: float
    sentences: int
    protocol: str
    decoder: str
    seeds: str


_ENDINGS = {"WSJ sample": "wsj", "GUM test": "gum"}  # of the files with the reports on a treebank, all lengths


def trees(recipe: str, treebank: str, decoder: str, name: str = "") -> Trees:
    """F1 over all lengths, from the stored reports of the recipe. Raises KeyError where nothing is stored of it."""
    one = run(recipe, _ENDINGS[treebank], name)
    sentences, protocol = one.first["sentences"], one.first["protocol"]
    return Trees(one.f1_by(decoder), one.right_branching, sentences, protocol, decoder, one.shown_seeds)


def perplexity_of_test(recipe: str, name: str = "") -> tuple[Figure, int]:
    """Perplexity of the test text, and the number of seeds: 0 for a model without random weights."""
    one = run(recipe, "training", name)
    return one.perplexity("test"), len(one.seeds)
