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


def sample_std(values: Numbers) -> float | None:
    """Return the sample standard deviation, which is not defined for a single value: None."""
    return float(values.std(ddof=1)) if len(values) > 1 else None


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


def intervals_within_units(values: Numbers) -> list[Interval]:
    """Return the mean of each condition with its 95% interval within units, such as items (Cousineau 2005, Morey 2008).

    Each value is reduced by the mean of its unit, and the variance is multiplied by C / (C - 1). So the interval does
    not contain what all conditions of a unit have in common, which no difference between conditions depends on.

    Args:
        values: (C, n) of conditions and units; NaN for missing values, and at least one value of each condition. A unit
            without one of them counts in the means only.

    Returns:
        The intervals, NaN for fewer than two units with all conditions. With one condition, those of `mean_interval`.
    """
    count = len(values)
    if count == 1:
        return [mean_interval(values[0][~np.isnan(values[0])])]

    means = np.nanmean(values, 1)
    complete = values[:, ~np.isnan(values).any(0)]
    units = complete.shape[1]
    if units < 2:
        return [Interval(float(mean), math.nan, math.nan) for mean in means]

    centred = complete - complete.mean(0)
    errors = centred.std(1, ddof=1) * math.sqrt(count / (count - 1) / units)
    reaches = t_quantile(units - 1) * errors
    ends = (means, means - reaches, means + reaches)
    return [Interval(*three) for three in zip(*(each.tolist() for each in ends), strict=True)]


@lru_cache(maxsize=2**12)
def t_quantile(degrees: float, confidence: float = CONFIDENCE) -> float:
    """Return the t for which a value of Student's t distribution is between -t and t with a probability.

    Args:
        degrees: degrees of freedom, at least 1
        confidence: the probability, above 0 and below 1
    """
    low, high = 0.0, math.pi / 2
    for _ in range(60):
        angle = (low + high) / 2
        low, high = (angle, high) if _tail(angle, degrees) < 1 - confidence else (low, angle)
    return math.sqrt(degrees) / math.tan(high)


def t_p_value(t: float, degrees: float) -> float:
    """Return the probability of a value at least as far from 0 as t under Student's t distribution.

    Args:
        t: a finite number.
        degrees: degrees of freedom, at least 1; those of Welch's test are not whole numbers.
    """
    return min(1.0, _tail(math.atan2(math.sqrt(degrees), abs(t)), degrees))


def _tail(angle: float, degrees: float) -> float:
    """Return the probability of a value at least as far from 0 as sqrt(degrees) / tan(angle).

    It is proportional to the integral of sin(x)^(degrees - 1) from 0 to the angle, which is computed by Gauss's
    quadrature over the part that is not negligible, so small values are exact, too. With x = y^4, the function is
    smooth at 0 also if the degrees are not a whole number.
    """
    begin = max(0.0, angle - 40 / math.sqrt(degrees)) ** 0.25  # 40 standard deviations at t = 0
    end = angle**0.25
    nodes, weights = _quadrature()
    places = begin + (end - begin) * (nodes + 1) / 2
    integral = (end - begin) / 2 * float(weights @ (np.sin(places**4) ** (degrees - 1) * 4 * places**3))
    factor = math.exp(math.lgamma((degrees + 1) / 2) - math.lgamma(degrees / 2))
    return 2 / math.sqrt(math.pi) * factor * integral


@lru_cache(maxsize=1)
def _quadrature() -> tuple[Numbers, Numbers]:
    """Return the nodes and weights of Gauss's quadrature from -1 to 1."""
    return np.polynomial.legendre.leggauss(200)
