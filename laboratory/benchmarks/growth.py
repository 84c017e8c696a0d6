"""Growth: medians of the points of `laboratory.benchmarks.scale`, and slopes on logarithmic axes.

Time that is proportional to size ** s has the slope s: 1 for ten times the size in ten times the time, 2 for a hundred
times. The start of a job, a job of one sentence for each worker, is subtracted from the time of longer ones. Jobs that
take less than twice the start are left out.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from laboratory.results.store import StoredRun, select
from syntaxlm.statistics.intervals import Interval, t_quantile
from syntaxlm.statistics.regression import fit

LETTERS = 5.5  # characters per word of a text of training, with the space
THROUGH_RAY = "PRPN through Ray"
FEWEST = 3  # sizes that a slope is fitted to


class Key(NamedTuple):
    """What a point measures. repeat: its number, from 0."""

    kind: str
    task: str
    system: str
    size: int
    repeat: int

    def __str__(self) -> str:
        return f"{self.kind}, {self.task}, {self.system}, {self.size:,}, repeat {self.repeat + 1}"


@dataclass(frozen=True)
class Point:
    """One measurement in a process of its own.

    Attributes:
        kind: what grows, of `GROWING`.
        task: train, parse, surprisal or beliefs.
        system: the model.
        size: of what grows; 0 for the start of a job.
        seconds: wall-clock time of the whole process.
        tokens_per_second: tokens that were read per second: of processor time, but in training per second after the
            first steps, and in jobs per second of the whole job.
        memory: peak of resident memory in bytes; in jobs, of all processes together.
        repeat: number of the repeat, from 0.
        job: report of a job, with the name of its model.
    """

    kind: str
    task: str
    system: str
    size: int
    seconds: float
    tokens_per_second: float
    memory: int
    repeat: int = 0
    job: Mapping[str, Any] | None = None

    @property
    def key(self) -> Key:
        return Key(self.kind, self.task, self.system, self.size, self.repeat)

    @property
    def time(self) -> float:
        """Seconds of what `Growing.unit` names."""
        return GROWING[self.kind].time(self)


@dataclass(frozen=True)
class Growing:
    """What can grow.

    Attributes:
        axis: its name on an axis.
        more: what there is more of, in a sentence.
        unit: what `time` is the time of.
        time: function that returns the time of a point, in seconds.
    """

    axis: str
    more: str
    unit: str
    time: Callable[[Point], float]


def _thousand_words(point: Point) -> float:
    return 1000 / point.tokens_per_second


GROWING = {
    "sentences": Growing("sentences of a job", "sentences in a job", "the job", lambda point: point.seconds),
    "length": Growing(
        "words of a sentence", "words in a sentence", "a sentence", lambda point: point.size / point.tokens_per_second
    ),
    "symbols": Growing("nonterminals of a grammar", "nonterminals in a grammar", "1,000 words", _thousand_words),
    "text": Growing(
        "MB of training text", "training text", "the text",
        lambda point: point.size * 1e6 / LETTERS / point.tokens_per_second,
    ),
    "vocabulary": Growing("words of the vocabulary", "words in the vocabulary", "1,000 words", _thousand_words),
    "size": Growing("neurons of a layer", "neurons in a layer", "1,000 words", _thousand_words),
}  # fmt: skip


class Median(NamedTuple):
    """The median of the repeats of a size. time: in seconds, without the start; memory: in bytes."""

    size: int
    time: float
    memory: float


@dataclass(frozen=True)
class Line:
    """How one task of one model grows. medians: of sizes in ascending order."""

    kind: str
    task: str
    system: str
    medians: tuple[Median, ...]

    @cached_property
    def time_slope(self) -> Interval:
        return slope([(median.size, median.time) for median in self.medians])

    @cached_property
    def memory_slope(self) -> Interval:
        return slope([(median.size, median.memory) for median in self.medians])

    @property
    def last_time_slope(self) -> float:
        """The slope between the two largest sizes."""
        return slope([(median.size, median.time) for median in self.medians[-2:]]).value


def slope(points: Sequence[tuple[float, float]]) -> Interval:
    """Return the slope of a line through points on logarithmic axes, with its 95% t interval.

    Args:
        points: (x, y), all positive, of at least two different x. Of two points, the interval is NaN.
    """
    sizes, values = np.log(np.array(points, float)).T
    if len(points) < FEWEST:
        return Interval(float((values[-1] - values[0]) / (sizes[-1] - sizes[0])), math.nan, math.nan)
    with np.errstate(divide="ignore"):  # the share of explained variance of a constant
        fitted = fit(values, {"size": sizes}).coefficient("size")
    assert fitted is not None  # sizes differ
    reach = t_quantile(len(points) - 2) * fitted.standard_error
    return Interval(fitted.value, fitted.value - reach, fitted.value + reach)


def points_of(report: Mapping[str, Any]) -> list[Point]:
    """The points of a report of the benchmark."""
    return [Point(**point) for point in report["points"]]


def lines(points: Iterable[Point]) -> list[Line]:
    """The lines of everything that was measured with two sizes or more, in the order of `GROWING`."""
    measured: dict[tuple[str, str, str], dict[int, list[Point]]] = {}
    for point in points:
        by_size = measured.setdefault((point.kind, point.task, point.system), {})
        by_size.setdefault(point.size, []).append(point)
    measured_lines = []
    for series, by_size in measured.items():
        times = {size: statistics.median(point.time for point in repeats) for size, repeats in by_size.items()}
        memory = {size: statistics.median(point.memory for point in repeats) for size, repeats in by_size.items()}
        start = times.pop(0, 0.0)
        medians = [Median(size, times[size] - start, memory[size]) for size in sorted(times)]
        medians = [median for median in medians if median.time > start]  # starts differ, so shorter times mean little
        if len(medians) > 1:
            measured_lines.append(Line(*series, tuple(medians)))
    return sorted(measured_lines, key=lambda line: list(GROWING).index(line.kind))


def stored_runs_of_growth() -> dict[str, StoredRun]:
    """The stored run of each kind: the run of its name, or else the one of all kinds, if it has points of the kind."""
    by_name = {run.run: run for run in select("scale", what="growth")}
    of_kinds = {kind: by_name.get(kind, by_name.get("")) for kind in GROWING}
    return {
        kind: run
        for kind, run in of_kinds.items()
        if run is not None and any(point["kind"] == kind for point in run.report["points"])
    }


def stored_points() -> list[Point]:
    """The points of the stored runs of all kinds."""
    runs = stored_runs_of_growth()
    return [point for kind, run in runs.items() for point in points_of(run.report) if point.kind == kind]


COLUMNS = ("what grows", "task", "model", "sizes", "time", "of", "slope of time", "last step", "memory, GiB",
           "slope of memory")  # fmt: skip


def cells(line: Line) -> list[str]:
    """A line as `COLUMNS`, values at the smallest and the largest size."""
    first, last = line.medians[0], line.medians[-1]
    return [
        GROWING[line.kind].axis,
        line.task,
        line.system,
        f"{first.size:,} to {last.size:,}",
        f"{_seconds(first.time)} to {_seconds(last.time)}",
        GROWING[line.kind].unit,
        _slope(line.time_slope),
        f"{line.last_time_slope:.2f}",
        f"{first.memory / 2**30:.2f} to {last.memory / 2**30:.2f}",
        _slope(line.memory_slope),
    ]


def _seconds(seconds: float) -> str:
    """A time with two digits: 3.2 ms, 41 s, 12 min."""
    if seconds < 1:
        return f"{float(f'{1000 * seconds:.2g}'):g} ms"
    return f"{float(f'{seconds:.2g}'):g} s" if seconds < 600 else f"{seconds / 60:.0f} min"


def _slope(slope: Interval) -> str:
    value = round(slope.value, 2) + 0.0  # not -0.00
    return f"{value:.2f}" + ("" if math.isnan(slope.low) else f" ({slope.ends()})")
