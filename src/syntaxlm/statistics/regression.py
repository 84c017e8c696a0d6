"""Linear regressions, their held-out log-likelihood and spline terms."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from syntaxlm.core.arrays import Integers, Numbers
from syntaxlm.core.errors import InputError

Predictors = Mapping[str, Numbers]


_TOLERANCE = 1e-7  # share of a predictor's variation that earlier ones must leave unexplained


@dataclass(frozen=True)
class Coefficient:
    """A coefficient of a regression of all rows.

    Attributes:
        p_value: two-sided, of a t-test.
    """

    name: str
    value: float
    standard_error: float
    t: float
    p_value: float


@dataclass(frozen=True)
class Regression:
    """A regression of all rows.

    Attributes:
        log_likelihood: in-sample, natural, summed over rows.
        r_squared: explained share of the variance.
        collinear: predictors that were left out because they are constant or linear combinations of earlier ones.
    """

    log_likelihood: float
    r_squared: float
    collinear: tuple[str, ...]
    coefficients: tuple[Coefficient, ...]

    def coefficient(self, name: str) -> Coefficient | None:
        return next((coefficient for coefficient in self.coefficients if coefficient.name == name), None)


def require_statsmodels() -> Any:
    """Return the class OLS of statsmodels. Raises InputError if the library is not installed."""
    try:
        from statsmodels.regression.linear_model import OLS
    except ModuleNotFoundError as error:
        raise InputError(
            f"regressions of reading times need statsmodels ({error.name} is not installed): pip install"
            " 'syntaxlm[stats]'"
        ) from None
    return OLS


def independent(predictors: Predictors) -> tuple[dict[str, Numbers], tuple[str, ...]]:
    """Return an intercept and the predictors that are neither constant nor linear combinations of earlier ones.

    Also returns the names of the other predictors.
    """
    kept = {"intercept": np.ones_like(next(iter(predictors.values())))}
    left_out: list[str] = []
    basis: list[Numbers] = []
    for name, values in predictors.items():
        rest = centred = values - values.mean()
        scale = float(np.linalg.norm(centred))
        for direction in basis * 2:  # twice, against rounding
            rest = rest - (direction @ rest) * direction
        if scale <= 1e-12 * max(1.0, float(np.abs(values).max())) or np.linalg.norm(rest) <= _TOLERANCE * scale:
            left_out.append(name)
        else:
            kept[name] = values
            basis.append(rest / np.linalg.norm(rest))
    return kept, tuple(left_out)


def fit(times: Numbers, predictors: Predictors) -> Regression:
    """Return the regression of all rows, with an intercept.

    Args:
        times: (r,).
        predictors: (r,) each.
    """
    kept, left_out = independent(predictors)
    result = require_statsmodels()(times, np.column_stack(list(kept.values()))).fit()
    columns = zip(kept, result.params, result.bse, result.tvalues, result.pvalues, strict=True)
    coefficients = tuple(Coefficient(name, *map(float, values)) for name, *values in columns)
    return Regression(float(result.llf), float(result.rsquared), left_out, coefficients)


def held_out_log_likelihood(times: Numbers, predictors: Predictors, folds: Integers) -> Numbers:
    """Return the natural log-likelihood of each row under the regression of the rows of all other folds: (r,).

    Args:
        folds: (r,) the fold of each row.
    """
    regression = require_statsmodels()
    design = np.column_stack(list(independent(predictors)[0].values()))
    log_likelihoods = np.empty(len(times))
    for fold in np.unique(folds).tolist():
        inside = folds == fold
        result = regression(times[~inside], design[~inside]).fit()
        variance = float(result.scale)
        error = times[inside] - design[inside] @ result.params
        log_likelihoods[inside] = -0.5 * (np.log(2 * math.pi * variance) + error**2 / variance)
    return log_likelihoods


def spline_terms(values: Numbers, knots: Numbers) -> list[Numbers]:
    """Return the nonlinear terms of a natural cubic spline, which is linear outside the knots: (r,) each.

    Args:
        knots: (k,) ascending.

    Returns:
        K - 2 terms; with the values themselves they span all such splines. Divided by the square of the range of the
        knots, they have the unit of the values. Harrell 2015, section 2.4.5.
    """
    first, last, before_last = knots[0], knots[-1], knots[-2]

    def cube(knot: float) -> Numbers:
        return np.maximum(values - knot, 0.0) ** 3

    return [
        (
            cube(knot)
            - cube(before_last) * (last - knot) / (last - before_last)
            + cube(last) * (before_last - knot) / (last - before_last)
        )
        / (last - first) ** 2
        for knot in knots[:-2].tolist()
    ]


def assigned_folds(units: Integers, count: int, seed: int) -> Integers:
    """Return the fold, from 0, of each row; all rows of a unit (sentence or group) are in one fold.

    Units are assigned at random, so that the folds have nearly equal numbers of units; with fewer units than `count`,
    each unit is a fold.
    """
    distinct, index = np.unique(units, return_inverse=True)
    order = np.random.default_rng(seed).permutation(len(distinct))
    return (order % min(count, len(distinct)))[index]
