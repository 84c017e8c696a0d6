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
_CONSTANT = 1e-12  # share of a predictor's largest value that the variation of a constant does not exceed
_SMALLEST_SHARE = 1e-5  # weight of a scaled predictor in a linear combination that is no rounding error


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
            f"regressions of reading times need statsmodels ({error.name} is not installed). Install it with: pip"
            " install 'syntaxlm[stats]'"
        ) from None
    return OLS


def independent(predictors: Predictors) -> tuple[dict[str, Numbers], tuple[str, ...]]:
    """Return an intercept and the predictors that are neither constant nor linear combinations of earlier ones.

    Also returns the names of the other predictors.
    """
    scaled = np.column_stack([_scaled(values) for values in predictors.values()])
    varies = scaled.any(0)

    # The diagonal of R is what earlier columns leave unexplained of each column.
    unexplained = np.zeros(len(predictors))
    unexplained[varies] = np.abs(np.diag(np.linalg.qr(scaled[:, varies], "r")))
    kept = {
        name: values
        for (name, values), share in zip(predictors.items(), unexplained.tolist(), strict=True)
        if share > _TOLERANCE
    }
    return {"intercept": np.ones(len(scaled))} | kept, tuple(name for name in predictors if name not in kept)


def dependences(predictors: Predictors) -> dict[str, list[str]]:
    """Return the predictors that `independent` leaves out, each with the earlier ones of which it is a linear
    combination; none for a constant.
    """
    kept, left_out = independent(predictors)
    names = list(predictors)
    scaled = {name: _scaled(predictors[name]) for name in predictors}
    found = dict[str, list[str]]()
    for name in left_out:
        earlier = [one for one in names[: names.index(name)] if one in kept]
        if not scaled[name].any() or not earlier:
            found[name] = []
            continue
        columns = np.column_stack([scaled[one] for one in earlier])
        shares = np.linalg.lstsq(columns, scaled[name], rcond=None)[0]
        found[name] = [one for one, share in zip(earlier, shares.tolist(), strict=True) if abs(share) > _SMALLEST_SHARE]
    return found


def _scaled(values: Numbers) -> Numbers:
    """Return values with the mean 0 and the length 1; 0 for a constant."""
    centred = values - values.mean()
    size = float(np.linalg.norm(centred))
    return centred / size if size > _CONSTANT * max(1.0, float(np.abs(values).max())) else np.zeros_like(centred)


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
    from scipy.stats import norm  # which statsmodels requires

    design = np.column_stack(list(independent(predictors)[0].values()))
    log_likelihoods = np.empty(len(times))
    for fold in np.unique(folds).tolist():
        inside = folds == fold
        result = regression(times[~inside], design[~inside]).fit()
        log_likelihoods[inside] = norm.logpdf(times[inside], result.predict(design[inside]), math.sqrt(result.scale))
    return log_likelihoods


def spline_terms(values: Numbers, knots: Numbers) -> list[Numbers]:
    """Return the terms that make a natural cubic spline of a linear function, which stays linear outside the knots.

    With a constant and the values themselves, the terms span all such splines. Each term is the spline that is 1 at one
    of the inner knots and 0 at all other knots.

    Args:
        values: (r,)
        knots: (k,) ascending, at least 3

    Returns:
        k - 2 terms, (r,) each.
    """
    from patsy import cr  # which statsmodels requires

    basis = cr(values, knots=knots[1:-1], lower_bound=knots[0], upper_bound=knots[-1])
    return list(np.asarray(basis).T[1:-1])


def assigned_folds(units: Integers, count: int, seed: int) -> Integers:
    """Return the fold, from 0, of each row; all rows of a unit (sentence or group) are in one fold.

    Units are assigned at random, so that the folds have nearly equal numbers of units; with fewer units than `count`,
    each unit is a fold.
    """
    distinct, index = np.unique(units, return_inverse=True)
    order = np.random.default_rng(seed).permutation(len(distinct))
    return (order % min(count, len(distinct)))[index]
