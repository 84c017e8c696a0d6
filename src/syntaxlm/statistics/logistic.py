"""Logistic regressions of statsmodels, which are refused if predictors separate 0 and 1."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from syntaxlm.core.arrays import Numbers
from syntaxlm.core.errors import InputError

MOST_STEPS = 30  # of Newton's method; about ten are enough if there is a maximum
_CONVERGED = 1e-8  # largest change of a coefficient of scaled predictors in the last step


class LogisticFit(NamedTuple):
    """A logistic regression.

    Attributes:
        coefficients: (k,) change of the log odds of 1.
        covariance: (k, k) of the coefficients, the inverse of the Fisher information.
    """

    coefficients: Numbers
    covariance: Numbers


def log_likelihoods(log_odds: Numbers, shares: Numbers) -> Numbers:
    """Return the mean natural log-likelihood of the observations of each row: (r,).

    Args:
        log_odds: (r,) of 1.
        shares: (r,) of 1 among the observations.
    """
    return np.asarray(shares * log_odds - np.logaddexp(0, log_odds))


def fit_logistic(columns: Mapping[str, Numbers], shares: Numbers, trials: Numbers) -> LogisticFit:
    """Return the logistic regression of rows with one or several observations of 0 or 1 each.

    Args:
        columns: (r,) each, by name, one of ones first. If they are dependent, the coefficients are the smallest ones.
        shares: (r,) of 1 among the observations of a row.
        trials: (r,) number of observations.

    Raises:
        InputError: if predictors separate 0 and 1, so that no coefficients have the largest likelihood.
    """
    from statsmodels.genmod.families import Binomial
    from statsmodels.genmod.generalized_linear_model import GLM

    # Predictors have very different sizes, such as shares and numbers of words.
    design = np.column_stack(list(columns.values()))
    sizes = np.linalg.norm(design, axis=0)
    sizes[sizes == 0] = 1
    model = GLM(shares, design / sizes, family=Binomial(), freq_weights=trials)

    # If predictors separate 0 and 1, coefficients grow without end. The deviance converges nevertheless.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # also about separation, which is an error below
        fitted = model.fit(maxiter=MOST_STEPS, tol=_CONVERGED, tol_criterion="params")
    coefficients = fitted.params / sizes
    if fitted.converged and np.isfinite(coefficients).all():
        return LogisticFit(coefficients, fitted.cov_params() / np.outer(sizes, sizes))

    # The predictor that changes the log odds most is the one whose coefficient grows.
    effects = np.nan_to_num(np.ptp(design, axis=0) * np.abs(coefficients))
    cause = f": mainly {list(columns)[int(effects.argmax())]}" if effects.any() else ""
    raise InputError(
        f"the predictors separate the words with 0 from the words with 1{cause}. The logistic regression has no"
        " largest likelihood; expected predictors whose values overlap. Use more words, or fewer predictors"
    )
