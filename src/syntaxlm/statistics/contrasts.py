"""Contrasts of factorial designs: main effects and interactions, each tested over items by a one-sample t test.

A contrast is a weighted sum of the cells of a design. The weights of a main effect compare two levels of a factor,
averaged over the other factors. Those of an interaction are differences of differences: in a 2 x 2 design,
(b2 - b1 at a2) minus (b2 - b1 at a1). The estimates are the coefficients of a linear model of the cells whose factors
are coded -0.5 and 0.5.

Each item has a value of the contrast, so the test does not depend on how much items differ in general, nor on how much
their main effects differ. Its error has n - 1 degrees of freedom for n items.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import combinations, product
from typing import NamedTuple

import numpy as np

from syntaxlm.core.arrays import Numbers
from syntaxlm.core.declarations import Coding
from syntaxlm.statistics.intervals import mean_interval, t_p_value

TIMES = " x "  # between the factors of an interaction
ROUNDING = 1e-6  # smaller standard deviations over items are rounding errors


@dataclass(frozen=True, eq=False)
class Contrast:
    """Weights of the cells of a design.

    Attributes:
        name: the factors that it compares, such as "head x attractor".
        levels: the levels that it compares, such as "(pl - sg) x (pl - sg)".
        weights: one per cell, (L1, L2, ...) for factors with L1, L2, ... levels.
    """

    name: str
    levels: str
    weights: Numbers


class TTest(NamedTuple):
    """The mean of values with its 95% interval, and a two-sided t test of whether it is 0.

    Attributes:
        t: NaN, like p, for fewer than two values, and for values that do not vary.
        df: degrees of freedom.
        n: number of values.
    """

    estimate: float
    low: float
    high: float
    t: float
    df: int
    p: float
    n: int


def factorial_contrasts(factors: Mapping[str, Sequence[str]], coding: Coding = "treatment") -> list[Contrast]:
    """Return the contrasts of a crossed design: all main effects, then all interactions, those of few factors first.

    Args:
        factors: the levels of each factor, in order.
        coding: what is compared for a factor with more than two levels: each other level with the first one
            (treatment), or with the level before it (successive).
    """
    found = []
    for size in range(1, len(factors) + 1):
        for compared in combinations(factors, size):
            pairs = [_compared_levels(len(factors[name]), coding) for name in compared]
            for chosen in product(*pairs):
                of_factor = dict(zip(compared, chosen, strict=True))
                weights = [_weights(len(factors[name]), of_factor.get(name)) for name in factors]
                named = [f"{factors[name][high]} - {factors[name][low]}" for name, (low, high) in of_factor.items()]
                levels = named[0] if size == 1 else TIMES.join(f"({each})" for each in named)
                found.append(Contrast(TIMES.join(compared), levels, reduce(np.multiply.outer, weights)))
    return found


def _compared_levels(count: int, coding: Coding) -> list[tuple[int, int]]:
    """Return the places of the levels that are compared: the second one minus the first one."""
    return [(0 if coding == "treatment" else place - 1, place) for place in range(1, count)]


def _weights(count: int, compared: tuple[int, int] | None) -> Numbers:
    """Return the weights of the levels of a factor: -1 and 1, or the same for all if it is averaged."""
    if compared is None:
        return np.full(count, 1 / count)
    weights = np.zeros(count)
    weights[list(compared)] = -1, 1
    return weights


def contrast_values(cells: Numbers, weights: Numbers) -> Numbers:
    """Return the value of a contrast for each item, NaN for an item that lacks one of its cells.

    Args:
        cells: (C, I), the value of each cell and item, NaN where there is none.
        weights: (C,).
    """
    used = weights != 0
    values: Numbers = weights[used] @ cells[used]
    return values


def t_test(values: Numbers) -> TTest:
    """Return the mean of values, its t interval and its t test.

    Args:
        values: (n,), at least one.
    """
    count = len(values)
    interval = mean_interval(values)
    spread = float(np.std(values, ddof=1)) if count > 1 else math.nan
    if not spread > ROUNDING:
        return TTest(*interval, math.nan, count - 1, math.nan, count)
    t = interval.value / (spread / math.sqrt(count))
    return TTest(*interval, t, count - 1, t_p_value(t, count - 1), count)
