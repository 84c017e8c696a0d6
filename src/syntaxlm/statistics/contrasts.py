"""Contrasts of factorial designs: main effects and interactions, each tested over items by a t test.

A contrast is a weighted sum of the cells of a design. The weights of a main effect compare two levels of a factor,
averaged over the other factors. Those of an interaction are differences of differences: in a 2 x 2 design,
(b2 - b1 at a2) minus (b2 - b1 at a1). The estimates are the coefficients of a linear model of the cells whose factors
are coded -0.5 and 0.5.

Each item has a value of a contrast within items, so the test does not depend on how much items differ in general, nor
on how much their main effects differ. It is a one-sample test, whose error has n - 1 degrees of freedom for n items. If
each item has only one level of a factor, the contrast compares groups of items by Welch's test.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import combinations, product
from typing import Literal, NamedTuple

import numpy as np

from syntaxlm.core.arrays import Numbers
from syntaxlm.core.declarations import Coding
from syntaxlm.statistics.intervals import t_p_value, t_quantile

TIMES = " x "  # between the factors of an interaction
# Models compute in single precision: the surprisal of a word under `en` differs by up to 4e-7 of its value between two
# batches, and a region has several words. A smaller standard deviation is one of rounding errors.
ROUNDING = 1e-5  # share of the largest value
# Values hardly differ between items if their mean is so many standard deviations, where experiments have a few, and p
# shows that this is no accident of two or three items.
_LARGEST_EFFECT, _LARGEST_P = 50, 1e-5
Test = Literal["paired", "Welch", "no variation", "too few items"]


@dataclass(frozen=True, eq=False)
class Contrast:
    """Weights of the cells of a design.

    Attributes:
        factors: the names of the factors that it compares.
        levels: the levels that it compares, such as "(pl - sg) x (pl - sg)".
        weights: one per cell, (L1, L2, ...) for factors with L1, L2, ... levels.
    """

    factors: tuple[str, ...]
    levels: str
    weights: Numbers

    @property
    def name(self) -> str:
        """Its factors in one text, such as "head x attractor"."""
        return TIMES.join(self.factors)


class TTest(NamedTuple):
    """The mean of values with its 95% interval, and a two-sided t test of whether it is 0.

    Attributes:
        estimate: the mean; for several groups, the sum of their means.
        low: lower end of the interval; equal to the estimate if the values do not vary.
        high: upper end of the interval, likewise.
        t: NaN, like df and p, if there is no test.
        df: degrees of freedom, the number of values minus 1; for several groups, by Welch and Satterthwaite.
        n: number of values.
        test: which test it is, or why there is none.
    """

    estimate: float
    low: float
    high: float
    t: float
    df: float
    p: float
    n: int
    test: Test

    @property
    def hardly_varies(self) -> bool:
        """Whether the mean is so many times the standard deviation that the values are probably of the same words."""
        return abs(self.t) > _LARGEST_EFFECT * math.sqrt(self.n) and self.p < _LARGEST_P


def factorial_contrasts(factors: Mapping[str, Sequence[str]], coding: Coding = "treatment") -> list[Contrast]:
    """Return the contrasts of a crossed design: all main effects, then all interactions, those of few factors first.

    Args:
        factors: the levels of each factor, in order.
        coding: what is compared for a factor with more than two levels: each other level with the first one
            (treatment), or with the level before it (successive).
    """
    contrasts = []
    for size in range(1, len(factors) + 1):
        for compared in combinations(factors, size):
            pairs = [_compared_levels(len(factors[name]), coding) for name in compared]
            for chosen in product(*pairs):
                compared_levels = dict(zip(compared, chosen, strict=True))
                contrasts.append(_contrast(factors, compared_levels))
    return contrasts


def _contrast(factors: Mapping[str, Sequence[str]], compared: Mapping[str, tuple[int, int]]) -> Contrast:
    """Return the contrast of two levels of each compared factor, averaged over the other factors.

    Args:
        factors: the levels of each factor.
        compared: the places of the two levels, by factor.
    """
    weights = [_weights(len(levels), compared.get(name)) for name, levels in factors.items()]
    differences = [f"{factors[name][high]} - {factors[name][low]}" for name, (low, high) in compared.items()]
    levels = differences[0] if len(compared) == 1 else TIMES.join(f"({difference})" for difference in differences)
    return Contrast(tuple(compared), levels, reduce(np.multiply.outer, weights))


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
    """Return the value of a contrast for each item, NaN for an item that lacks one of its cells, or needs none.

    Args:
        cells: (C, I), the value of each cell and item, NaN where there is none.
        weights: (C,), or (C, I) if items need different cells; 0 for a cell that is not needed.
    """
    weights = np.broadcast_to(weights.reshape(len(cells), -1), cells.shape)
    is_needed = weights != 0
    sums = np.where(is_needed, weights * cells, 0.0).sum(0)
    return np.where(is_needed.any(0), sums, np.nan)


def t_test(*groups: Numbers, largest: float = 0.0) -> TTest:
    """Return the mean of values, its t interval and its t test, or those of the sum of the means of several groups.

    The test of several groups does not assume equal variances (Welch 1947, "The generalization of 'Student's' problem
    when several different population variances are involved"). To compare two groups, negate the values of one.

    Args:
        groups: (n,) each, at least one value.
        largest: the largest absolute value from which the values were computed. Values whose standard deviation is
            less than `ROUNDING` of it do not vary.
    """
    nan = math.nan
    count = sum(map(len, groups))
    estimate = math.fsum(float(values.mean()) for values in groups)
    if min(map(len, groups)) < 2:
        return TTest(estimate, nan, nan, nan, nan, nan, count, "too few items")

    spreads = [float(values.std(ddof=1)) for values in groups]
    largest = max(largest, *(float(np.abs(values).max()) for values in groups))
    if max(spreads) <= ROUNDING * largest:
        return TTest(estimate, estimate, estimate, nan, nan, nan, count, "no variation")

    variances = [spread**2 / len(values) for spread, values in zip(spreads, groups, strict=True)]
    error = math.sqrt(sum(variances))
    df = count - 1.0
    if len(groups) > 1:  # Welch and Satterthwaite
        terms = [variance**2 / (len(values) - 1) for variance, values in zip(variances, groups, strict=True)]
        df = sum(variances) ** 2 / sum(terms)
    reach = t_quantile(df) * error
    p = t_p_value(estimate / error, df)
    test: Test = "paired" if len(groups) == 1 else "Welch"
    return TTest(estimate, estimate - reach, estimate + reach, estimate / error, df, p, count, test)
