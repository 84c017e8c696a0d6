"""Logistic regressions, fitted to the maximum of the likelihood by Newton's method."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from syntaxlm.core.arrays import Numbers
from syntaxlm.core.errors import InputError

MOST_STEPS = 30  # of Newton's method; about ten are enough if there is a maximum
_CONVERGED = 1e-8  # largest change of a log odds in the last step
_ROUNDING = 1e-9  # share of a log-likelihood by which a step may lower it
_SMALLEST_SHARE = 1e-9  # of a singular value, in the largest


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
    design = np.column_stack(list(columns.values()))
    sizes = np.linalg.norm(design, axis=0)
    sizes[sizes == 0] = 1
    basis, singular, directions = np.linalg.svd(design / sizes, full_matrices=False)
    kept = singular > _SMALLEST_SHARE * singular[0]
    basis = basis[:, kept]
    to_coefficients = (directions[kept].T / singular[kept]) / sizes[:, None]
    log_odds = np.zeros(len(shares))
    likelihood = float(trials @ log_likelihoods(log_odds, shares))
    for _ in range(MOST_STEPS):
        probabilities = np.exp(-np.logaddexp(0, -log_odds))
        information = (basis.T * (trials * probabilities * (1 - probabilities))) @ basis
        try:
            change = np.linalg.solve(information, basis.T @ (trials * (shares - probabilities)))
        except np.linalg.LinAlgError:
            break
        step = basis @ change
        while (after := float(trials @ log_likelihoods(log_odds + step, shares))) < likelihood * (1 + _ROUNDING):
            step = step / 2
        log_odds, likelihood = log_odds + step, after
        if np.abs(step).max() < _CONVERGED:
            coefficients = to_coefficients @ (basis.T @ log_odds)
            return LogisticFit(coefficients, to_coefficients @ np.linalg.inv(information) @ to_coefficients.T)
    # The predictor that changes the log odds most is the one whose coefficient grows without end.
    effects = np.ptp(design, axis=0) * np.abs(to_coefficients @ (basis.T @ log_odds))
    cause = f": mainly {list(columns)[int(effects.argmax())]}" if effects.any() else ""
    raise InputError(
        f"the predictors separate the words with 0 from the words with 1{cause}. The logistic regression has no"
        " largest likelihood; expected predictors whose values overlap. Use more words, or fewer predictors"
    )
