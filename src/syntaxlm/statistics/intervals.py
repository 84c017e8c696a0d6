"""Intervals of means, from Student's t distribution."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from syntaxlm.core.arrays import Integers, Numbers

CONFIDENCE = 0.95


class Interval(NamedTuple):
    """A value with its 95% interval."""

    value: float
    low: float
    high: float

    def ends(self, factor: float = 1) -> str:
        """Return the ends of the interval, times a factor, for tables."""
        return "-" if math.isnan(self.low) else f"{factor * self.low:.2f} to {factor * self.high:.2f}"


def mean_interval(values: Numbers, units: Integers | None = None) -> Interval:
    """Return the mean of values with its 95% t interval over units, such as items or sentences.

    The values of a unit may depend on each other, so the standard error is that of a ratio of two sums over units
    (Cochran 1977, section 2.11). If every value is a unit, the interval is the usual one of a mean.

    Args:
        values: (r,)
        units: (r,) the unit of each value; None if every value is a unit

    Returns:
        The interval, NaN for fewer than two units.
    """
    _, index = np.unique(np.arange(len(values)) if units is None else units, return_inverse=True)
    sums = np.bincount(index, weights=values)
    sizes = np.bincount(index)
    count, mean = len(sizes), float(np.mean(values))
    if count < 2:
        return Interval(mean, math.nan, math.nan)

    deviations = sums - mean * sizes
    error = math.sqrt(count / (count - 1) * float(deviations @ deviations)) / len(values)
    reach = t_quantile(count - 1) * error
    return Interval(mean, mean - reach, mean + reach)


@lru_cache(maxsize=2**12)
def t_quantile(degrees: int, confidence: float = CONFIDENCE) -> float:
    """Return the t for which a value of Student's t distribution is between -t and t with a probability.

    The probability is a finite sum of powers of cos(angle), where t = sqrt(degrees) * tan(angle): Abramowitz and
    Stegun 1964, 26.7.3 and 26.7.4. It grows with the angle, which is found by bisection.

    Args:
        degrees: degrees of freedom, at least 1
        confidence: the probability, above 0 and below 1
    """
    odd = degrees % 2
    factors = np.arange(1 + odd, degrees - 1, 2) / np.arange(2 + odd, degrees, 2)
    low, high = 0.0, math.pi / 2
    for _ in range(60):
        angle = (low + high) / 2
        cosine = math.cos(angle)
        powers = 1 + float(np.cumprod(factors * cosine**2).sum())
        probability = math.sin(angle) * powers
        if odd:
            probability = 2 / math.pi * (angle + probability * cosine * (degrees > 1))
        low, high = (angle, high) if probability < confidence else (low, angle)
    return math.sqrt(degrees) * math.tan(low)
