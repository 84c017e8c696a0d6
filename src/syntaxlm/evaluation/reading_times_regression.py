"""Regressions of reading times on surprisal, and the gain in log-likelihood on held-out words.

The baseline regression has all predictors except surprisal. Delta log-likelihood is the mean, over held-out words, of
the difference between the log-likelihood of a word's reading time under the regression with surprisal and under the
baseline (Frank & Bod 2011; Goodkind & Bicknell 2018). Both are ordinary least squares with normal errors.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from syntaxlm.errors import InputError

Integers = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.float64]
Predictors = Mapping[str, Numbers]
FoldUnit = Literal["sentence", "group"]

SAMPLES = 10_000  # of the bootstrap
_DRAWN = 2_000_000  # resampled sentences in memory at a time
_TOLERANCE = 1e-7  # share of a predictor's variation that earlier ones must leave unexplained


@dataclass(frozen=True)
class Interval:
    """A value with its 95% interval."""

    value: float
    low: float
    high: float

    def to_dict(self) -> dict[str, float]:
        return asdict(self)


@dataclass(frozen=True)
class Coefficient:
    """A coefficient of a regression of all rows. p_value: two-sided, of a t-test."""

    name: str
    value: float
    standard_error: float
    t: float
    p_value: float

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Regression:
    """A regression of all rows.

    log_likelihood: in-sample, natural, summed over rows.  r_squared: explained share of the variance.
    collinear: predictors that were left out because they are constant or linear combinations of earlier ones.
    """

    coefficients: tuple[Coefficient, ...]
    log_likelihood: float
    r_squared: float
    collinear: tuple[str, ...] = ()

    def coefficient(self, name: str) -> Coefficient | None:
        return next((one for one in self.coefficients if one.name == name), None)

    def to_dict(self) -> dict[str, Any]:
        return {
            "log_likelihood": self.log_likelihood,
            "r_squared": self.r_squared,
            "collinear": list(self.collinear),
            "coefficients": [one.to_dict() for one in self.coefficients],
        }


def require_statsmodels() -> Any:
    """The class OLS of statsmodels. Raises InputError if the library is not installed."""
    try:
        from statsmodels.regression.linear_model import OLS
    except ModuleNotFoundError as error:
        raise InputError(
            f"regressions of reading times need statsmodels ({error.name} is not installed): pip install"
            " 'syntaxlm[stats]'"
        ) from None
    return OLS


def independent(predictors: Predictors) -> tuple[dict[str, Numbers], tuple[str, ...]]:
    """The predictors that are neither constant nor linear combinations of earlier ones, and the names of the others."""
    kept: dict[str, Numbers] = {}
    left_out: list[str] = []
    basis: list[Numbers] = []
    for name, values in predictors.items():
        centred = values - values.mean()
        scale = float(np.linalg.norm(centred))
        rest = centred
        for one in basis * 2:  # twice, against rounding
            rest = rest - (one @ rest) * one
        if scale <= 1e-12 * max(1.0, float(np.abs(values).max())) or np.linalg.norm(rest) <= _TOLERANCE * scale:
            left_out.append(name)
        else:
            kept[name] = values
            basis.append(rest / np.linalg.norm(rest))
    return kept, tuple(left_out)


def fit(times: Numbers, predictors: Predictors) -> Regression:
    """The regression of all rows, with an intercept. times: (r,).  predictors: (r,) each."""
    kept, left_out = independent(predictors)
    result = require_statsmodels()(times, _design(kept)).fit()
    columns = zip(result.params, result.bse, result.tvalues, result.pvalues, strict=True)
    coefficients = tuple(
        Coefficient(name, *map(float, values)) for name, values in zip(["intercept", *kept], columns, strict=True)
    )
    return Regression(coefficients, float(result.llf), float(result.rsquared), left_out)


def held_out_log_likelihood(times: Numbers, predictors: Predictors, folds: Integers) -> Numbers:
    """The natural log-likelihood of each row under the regression of the rows of all other folds: (r,).

    folds: (r,) the fold of each row.
    """
    regression = require_statsmodels()
    design = _design(independent(predictors)[0])
    found = np.empty(len(times))
    for fold in np.unique(folds).tolist():
        inside = folds == fold
        result = regression(times[~inside], design[~inside]).fit()
        variance = float(result.scale)
        error = times[inside] - design[inside] @ result.params
        found[inside] = -0.5 * (np.log(2 * math.pi * variance) + error**2 / variance)
    return found


def _design(predictors: Predictors) -> Numbers:
    count = len(next(iter(predictors.values())))
    return np.column_stack([np.ones(count), *predictors.values()])


def assigned_folds(units: Integers, count: int, seed: int) -> Integers:
    """The fold, from 0, of each row; all rows of a unit (sentence or group) are in one fold.

    Units are assigned at random, so that the folds have nearly equal numbers of units; with fewer units than `count`,
    each unit is a fold.
    """
    distinct, index = np.unique(units, return_inverse=True)
    order = np.random.default_rng(seed).permutation(len(distinct))
    return (order % min(count, len(distinct)))[index]


def bootstrap_mean(values: Numbers, units: Integers, seed: int, samples: int = SAMPLES) -> Interval:
    """The mean of the values with a 95% percentile interval, by a bootstrap over units (sentences).

    values, units: (r,).  The interval is NaN for fewer than 2 units.
    """
    mean = float(values.mean())
    _, index = np.unique(units, return_inverse=True)
    sums, sizes = np.bincount(index, weights=values), np.bincount(index).astype(float)
    count = len(sums)
    if count < 2:
        return Interval(mean, math.nan, math.nan)
    generator = np.random.default_rng(seed)
    step = max(1, _DRAWN // count)
    drawn = []
    for first in range(0, samples, step):
        places = generator.integers(count, size=(min(step, samples - first), count), dtype=np.int32)
        drawn.append(sums[places].sum(1) / sizes[places].sum(1))
    low, high = np.quantile(np.concatenate(drawn), [0.025, 0.975]).tolist()
    return Interval(mean, low, high)


def means_of_folds(values: Numbers, folds: Integers) -> list[float]:
    return [float(values[folds == fold].mean()) for fold in np.unique(folds).tolist()]


def check_rows(rows: int, predictors: int, folds: Sequence[int] | Integers) -> None:
    """Raises InputError if there are too few rows for the regressions, or fewer than two folds."""
    fewest = 5 * (predictors + 1)
    if rows < fewest:
        raise InputError(
            f"found {rows:,} words for the regression with {predictors} predictors; expected at least {fewest}. Words"
            " are left out if they have no time, follow too few words, or if a model does not know them or a previous"
            " word"
        )
    if len(set(folds)) < 2:
        raise InputError("found one fold; expected at least 2 sentences, or 2 groups with --fold-unit group")
