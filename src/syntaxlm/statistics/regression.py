"""Linear and logistic regressions, their held-out log-likelihood and spline terms."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from syntaxlm.core.arrays import Integers, Numbers
from syntaxlm.core.errors import InputError
from syntaxlm.statistics.logistic import fit_logistic, log_likelihoods

Predictors = Mapping[str, Numbers]
RegressionKind = Literal["linear", "logistic"]

# Share of a predictor's variation that earlier ones must leave unexplained: measures are computed in single precision,
# or read from tables with six decimals, so a sum of others may differ from its parts by 1e-6.
_TOLERANCE = 1e-5
_CONSTANT = 1e-12  # share of a predictor's largest value that the variation of a constant does not exceed
_SMALLEST_SHARE = 1e-4  # weight of a scaled predictor in a linear combination that is no rounding error
INTERCEPT = "intercept"  # name of the coefficient; no predictor may have it


@dataclass(frozen=True)
class Coefficient:
    """A coefficient of a regression of all rows.

    Attributes:
        value: increase of the mean, or in a logistic regression of the log odds of 1, per unit of the predictor.
        t: the value divided by its standard error; in a logistic regression, Wald's z.
        p_value: two-sided, of the t-test, or in a logistic regression of the z-test.
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
        kind: "linear" (ordinary least squares) or "logistic" (maximum likelihood).
        observations: number of rows; in a logistic regression, of observations of 0 or 1, several of which can share a
            row.
        log_likelihood: in-sample, natural, summed over observations.
        r_squared: explained share of the variance; None for a logistic regression.
        collinear: predictors that were left out because they are constant or linear combinations of earlier ones.
    """

    kind: RegressionKind
    observations: int
    log_likelihood: float
    r_squared: float | None
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
    return {INTERCEPT: np.ones(len(scaled))} | kept, tuple(name for name in predictors if name not in kept)


def dependences(predictors: Predictors) -> dict[str, list[str]]:
    """Return the predictors that `independent` leaves out, each with the earlier ones of which it is a linear
    combination; none for a constant.
    """
    kept, left_out = independent(predictors)
    names = list(predictors)
    scaled = {name: _scaled(predictors[name]) for name in predictors}
    combined_from = dict[str, list[str]]()
    for name in left_out:
        earlier = [predictor for predictor in names[: names.index(name)] if predictor in kept]
        if not scaled[name].any() or not earlier:
            combined_from[name] = []
            continue
        columns = np.column_stack([scaled[predictor] for predictor in earlier])
        shares = np.linalg.lstsq(columns, scaled[name], rcond=None)[0].tolist()
        combined_from[name] = [
            predictor for predictor, share in zip(earlier, shares, strict=True) if abs(share) > _SMALLEST_SHARE
        ]
    return combined_from


def _scaled(values: Numbers) -> Numbers:
    """Return values with the mean 0 and the length 1; 0 for a constant."""
    centred = values - values.mean()
    size = float(np.linalg.norm(centred))
    return centred / size if size > _CONSTANT * max(1.0, float(np.abs(values).max())) else np.zeros_like(centred)


def fit(values: Numbers, predictors: Predictors, trials: Integers | None = None) -> Regression:
    """Return the regression of all rows, with an intercept.

    Args:
        values: (r,) to predict.
        predictors: (r,) each.
        trials: (r,) for a logistic regression: the number of observations of 0 or 1 whose mean is the value of each
            row; None: a linear regression.

    Raises:
        InputError: if the predictors of a logistic regression separate 0 and 1.
    """
    kept, left_out = independent(predictors)
    if trials is not None:
        return _logistic(values, kept, trials, left_out)
    result = require_statsmodels()(values, np.column_stack(list(kept.values()))).fit()
    columns = zip(kept, result.params, result.bse, result.tvalues, result.pvalues, strict=True)
    coefficients = tuple(Coefficient(name, *map(float, numbers)) for name, *numbers in columns)
    return Regression("linear", len(values), float(result.llf), float(result.rsquared), left_out, coefficients)


def _logistic(values: Numbers, kept: Predictors, trials: Integers, left_out: tuple[str, ...]) -> Regression:
    """Return the logistic regression of all rows, see `fit`."""
    from scipy.stats import norm  # which statsmodels requires

    logistic = fit_logistic(kept, values, trials.astype(float))
    errors = np.sqrt(np.diag(logistic.covariance))
    scores = logistic.coefficients / errors
    columns = zip(kept, logistic.coefficients, errors, scores, 2 * norm.sf(np.abs(scores)), strict=True)
    coefficients = tuple(Coefficient(name, *map(float, numbers)) for name, *numbers in columns)
    log_odds = np.column_stack(list(kept.values())) @ logistic.coefficients
    log_likelihood = float(trials @ log_likelihoods(log_odds, values))
    return Regression("logistic", int(trials.sum()), log_likelihood, None, left_out, coefficients)


def held_out_log_likelihood(
    values: Numbers, predictors: Predictors, folds: Integers, trials: Integers | None = None
) -> Numbers:
    """Return the natural log-likelihood of each row under the regression of the rows of all other folds: (r,).

    Args:
        values: see `fit`.
        predictors: see `fit`. Those that are dependent in the other folds, such as constants, predict nothing.
        folds: (r,) the fold of each row.
        trials: see `fit`; the log-likelihood of a row is then the mean over its observations.

    Raises:
        InputError: if the predictors of a logistic regression separate 0 and 1.
    """
    regression = require_statsmodels()
    from scipy.stats import norm  # which statsmodels requires

    columns = {INTERCEPT: np.ones(len(values)), **predictors}
    result = np.empty(len(values))
    for fold in np.unique(folds).tolist():
        inside = folds == fold
        kept = independent({name: column[~inside] for name, column in predictors.items()})[0]
        design = np.column_stack([columns[name][inside] for name in kept])
        if trials is not None:
            logistic = fit_logistic(kept, values[~inside], trials[~inside].astype(float))
            result[inside] = log_likelihoods(design @ logistic.coefficients, values[inside])
            continue
        fitted = regression(values[~inside], np.column_stack(list(kept.values()))).fit()
        result[inside] = norm.logpdf(values[inside], fitted.predict(design), math.sqrt(fitted.scale))
    return result


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
