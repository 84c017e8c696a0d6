"""Which claims of a published experiment hold in the stored results, and the verdict that follows.

The rule (docs/papers.md states it, too): A claim says that one value is lower or higher than another, or that ours is
the published one. It holds if a 95% interval over seeds says so, fails if the interval says the opposite, and is open
otherwise, as is every claim about a model with one seed.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np

from laboratory.pages.experiments import Entry, Measured, measured
from laboratory.pages.stored_results import Figure
from syntaxlm.statistics.intervals import Interval, mean_interval, t_quantile

TOLERANCE = 2.0  # points of F1 or accuracy: about the 95% interval of the F1 of 500 sentences
_ROUNDING = 1e-9  # the largest difference of two numbers that are equal except for rounding errors
_PUBLISHED = re.compile(r"(\d+(?:\.\d+)?)(?: ± (\d+(?:\.\d+)?))?")


class Verdict(StrEnum):
    """The verdicts on a published experiment."""

    REPRODUCED = "reproduced"
    FOUND = "found at small size"
    MIXED = "mixed"
    NOT_FOUND = "not found"
    NOT_RUN = "not run"
    PICTURE = "picture"


class Result(StrEnum):
    """Whether a claim holds."""

    HOLDS = "holds"
    OPEN = "open"
    FAILS = "fails"


@dataclass(frozen=True)
class Sample:
    """A value of one model.

    Attributes:
        scores: its value for each seed.
        random: whether another seed could change it. Baselines, counts and timings have no seeds.
        part: what the value is called, if it is one of several of a model.
        source: experiment and run of the trained models.
        seeds: the seed of each value; () if they are not known.
    """

    scores: Figure
    random: bool = True
    part: str = ""
    source: tuple[str, str] | None = None
    seeds: tuple[int, ...] = ()

    @property
    def values(self) -> np.ndarray[Any, np.dtype[np.float64]]:
        """The value by seed; that of random trees is a mean."""
        return np.array(self.scores.values or (self.scores.mean,))


@dataclass(frozen=True)
class Decision:
    """A claim, and what the stored results say about it.

    Attributes:
        claim: in words.
        published: the published difference or value; "" if none is quoted.
        ours: our difference, or our value, with its interval.
        result: whether it holds.
        seeds: the smallest number of seeds among the models compared; None: nothing is random.
    """

    claim: str
    published: str
    ours: Interval
    result: Result
    seeds: int | None


def difference(larger: Sample, smaller: Sample) -> Interval:
    """Return a difference with its 95% interval over seeds, NaN if one seed is all there is.

    Two values of the same trained models are subtracted seed by seed. For other models, such as other seeds of the same
    run, it is Welch's interval.
    """
    first, second = larger.values, smaller.values
    value = float(first.mean() - second.mean())
    if not larger.random and not smaller.random:
        return Interval(value, value, value)
    if not smaller.random:
        return mean_interval(first - second.mean())
    if not larger.random:
        return mean_interval(first.mean() - second)
    are_same = larger.source is not None and (larger.source, larger.seeds) == (smaller.source, smaller.seeds)
    if are_same and larger.seeds:
        return mean_interval(first - second)
    return _welch(first, second)


def _welch(first: np.ndarray[Any, Any], second: np.ndarray[Any, Any]) -> Interval:
    """Return the difference of the means of two independent samples, with its interval (Welch 1947)."""
    value = float(first.mean() - second.mean())
    if min(len(first), len(second)) < 2:
        return Interval(value, math.nan, math.nan)
    errors = np.array([sample.var(ddof=1) / len(sample) for sample in (first, second)])
    if not errors.any():
        return Interval(value, value, value)
    degrees = errors.sum() ** 2 / (errors[0] ** 2 / (len(first) - 1) + errors[1] ** 2 / (len(second) - 1))
    reach = t_quantile(math.floor(degrees + _ROUNDING)) * math.sqrt(errors.sum())
    return Interval(value, value - reach, value + reach)


def sign(interval: Interval) -> Result:
    """Return whether a difference is certainly positive."""
    if interval.low > _ROUNDING:
        return Result.HOLDS
    return Result.FAILS if interval.high < -_ROUNDING else Result.OPEN


def agreement(interval: Interval, published: Figure, tolerance: float = TOLERANCE) -> Result:
    """Return whether a value is certainly near the published one.

    Args:
        interval: of our value.
        published: the published value; its standard deviation is the tolerance if it is larger.
        tolerance: the largest difference, in the unit of the value.
    """
    reach = max(tolerance, published.std or 0)
    if published.mean - reach <= interval.low and interval.high <= published.mean + reach:
        return Result.HOLDS
    outside = interval.high < published.mean - reach or interval.low > published.mean + reach
    return Result.FAILS if outside else Result.OPEN


def verdict(results: Sequence[Result], *, published_data: bool = False) -> Verdict:
    """Return the verdict on an experiment.

    Args:
        results: of its claims; none if nothing was run.
        published_data: whether our sentences are a part of the published ones, or of the same treebank.
    """
    held = results.count(Result.HOLDS)
    if not results:
        return Verdict.NOT_RUN
    if held == len(results):
        return Verdict.REPRODUCED if published_data else Verdict.FOUND
    return Verdict.MIXED if held else Verdict.NOT_FOUND


def verdict_on(row: Entry) -> Verdict:
    """Return the verdict on a row of published.yaml."""
    if row.get("picture"):
        return Verdict.PICTURE
    results = [decision.result for decision in decisions(row)]
    return verdict(results, published_data=row.get("published_data", False))


def decisions(row: Entry) -> list[Decision]:
    """Return what the stored results say about each claim of a row; a claim about several numbers has several."""
    return [decision for claim in row.get("claims", ()) for decision in _decided(row, claim)]


def _decided(row: Entry, claim: Entry) -> list[Decision]:
    """Return the decisions about one claim."""
    if "value" in claim:
        return _agreements(row, claim)
    direction = "higher" if "higher" in claim else "lower"
    sides = claim[direction], claim["than"]
    samples = [_samples(row, side) for side in sides]
    names = [_name(row, side) for side in sides]
    published = [_published(row, side) for side in sides]

    # A claim about systems with several numbers is decided for each pair of numbers.
    decided = []
    for place, (first, second) in enumerate(zip(*samples, strict=True)):
        larger, smaller = (first, second) if direction == "higher" else (second, first)
        ours = difference(larger, smaller)
        numbers = [figures[place].mean for figures in published if len(figures) > place]
        published_difference = f"{abs(numbers[0] - numbers[1]):.4g}" if len(numbers) == 2 else ""
        words = f"{names[0]} {'>' if direction == 'higher' else '<'} {names[1]}{_part(first)}"
        decided.append(Decision(words, published_difference, ours, sign(ours), _seeds(first, second)))
    return decided


def numbers_of_claim(row: Entry, claim: Entry) -> list[str]:
    """Return our values that a claim is about, with the names of the systems."""
    if "value" in claim:
        return [_measured(row, claim["value"]).value]
    sides = [claim["higher" if "higher" in claim else "lower"], claim["than"]]
    return [f"{_name(row, side)} {_measured(row, side).value}" for side in sides if not isinstance(side, int | float)]


def _agreements(row: Entry, claim: Entry) -> list[Decision]:
    """Return the decisions about a claim that our values are near the published ones."""
    system = _system(row, claim["value"])
    samples = _samples(row, claim.get("by", claim["value"]))
    numbers = _published(row, claim["value"])
    name = _name(row, claim["value"]) + (f" by {_name(row, claim['by'])}" if "by" in claim else "")
    if len(numbers) != len(samples):
        raise ValueError(f"{row['item']}: found {system.get('published')!r} published of {name!r}")
    decided = []
    for sample, number in zip(samples, numbers, strict=True):
        ours = difference(sample, Sample(Figure(0.0), random=False))
        result = agreement(ours, number, claim.get("within", TOLERANCE))
        words = f"{name}{_part(sample)} is near the published value"
        words += f" (within {claim['within']})" if "within" in claim else ""
        published = f"{number:.1f}" if "within" not in claim else f"{number:.4g}"
        decided.append(Decision(words, published, ours, result, _seeds(sample)))
    return decided


def _part(sample: Sample) -> str:
    return f", {sample.part}" if sample.part else ""


def _seeds(*samples: Sample) -> int | None:
    return min((len(sample.values) for sample in samples if sample.random), default=None)


def _system(row: Entry, name: str) -> Entry:
    """Return the first system of a row with a name."""
    systems: list[Entry] = row["systems"]
    for system in systems:
        if system["system"] == name:
            return system
    names = ", ".join(repr(system["system"]) for system in systems)
    raise ValueError(f"{row['item']}: a claim is about {name!r}; expected one of {names}")


def _name(row: Entry, side: Any) -> str:
    """Return what a side of a claim is called: a system, a number, or the name of stored runs."""
    if not isinstance(side, dict):
        return str(side)
    names = {"right": "right branching"}
    return str(side.get("title") or names.get(side.get("name", ""), side.get("run", "")))


def _published(row: Entry, side: Any) -> list[Figure]:
    """Return the published numbers of a side of a claim."""
    if isinstance(side, dict):
        return []
    text = str(_system(row, side).get("published", "")) if isinstance(side, str) else str(side)
    return [Figure(float(mean), float(std) if std else None) for mean, std in _PUBLISHED.findall(text)]


def _samples(row: Entry, side: Any) -> list[Sample]:
    """Return our values of a side of a claim, which may be a number."""
    if isinstance(side, int | float):
        return [Sample(Figure(float(side)), random=False)]
    ours = _measured(row, side)
    random = ours.seeds is not None and not row.get("deterministic", False)
    parts = ours.parts if len(ours.parts) > 1 else [""] * len(ours.scores)
    return [
        Sample(scores, random, part, ours.source, ours.numbers) for scores, part in zip(ours.scores, parts, strict=True)
    ]


def _measured(row: Entry, side: Any) -> Measured:
    return measured(side if isinstance(side, dict) else _system(row, side)["here"])
