"""Intervals of means."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from syntaxlm.core.arrays import Integers, Numbers
from syntaxlm.statistics.bootstrap import RunScores, compare_runs

SAMPLES = 10_000  # of the bootstrap


class Interval(NamedTuple):
    """A value with its 95% interval."""

    value: float
    low: float
    high: float

    def ends(self, factor: float = 1) -> str:
        """Return the ends of the interval, times a factor, for tables."""
        return "-" if math.isnan(self.low) else f"{factor * self.low:.2f} to {factor * self.high:.2f}"


def bootstrap_mean(values: Numbers, units: Integers, seed: int, samples: int = SAMPLES) -> Interval:
    """Return the mean of the values with a 95% percentile interval, by a bootstrap over units (sentences).

    The interval is NaN for too few units, see `BootstrapResult`.

    Args:
        values: (r,).
        units: (r,), the unit of each value.
    """
    _, index = np.unique(units, return_inverse=True)
    sums = np.bincount(index, weights=values)[None].astype(float)
    sizes = np.bincount(index)[None].astype(float)
    result = compare_runs(RunScores(sums, sizes), RunScores(0 * sums, sizes), "mean", samples, seed)
    return Interval(float(values.mean()), result.low, result.high)
