"""Contrasts of factorial designs, against linear models and the t tests of scipy."""

from __future__ import annotations

import numpy as np
import pytest

from syntaxlm.statistics.contrasts import contrast_values, factorial_contrasts, t_test
from syntaxlm.statistics.intervals import intervals_within_units, t_p_value

FACTORS = {"head": ("sg", "pl"), "attractor": ("sg", "pl"), "type": ("a", "b", "c")}


def coded(levels: int, coding: str) -> np.ndarray:
    """Columns of a linear model whose coefficients are the compared differences: the inverse of their weights."""
    hypotheses = np.zeros((levels, levels))
    hypotheses[0] = 1 / levels
    for place in range(1, levels):
        hypotheses[place, [0 if coding == "treatment" else place - 1, place]] = -1, 1
    return np.linalg.inv(hypotheses)


@pytest.mark.parametrize("coding", ["treatment", "successive"])
def test_estimates_are_coefficients_of_a_linear_model_with_sum_coded_factors(coding):
    cells = np.random.default_rng(1).normal(size=(2, 2, 3))
    design = np.ones((1, 1))
    for levels in FACTORS.values():
        design = np.kron(design, coded(len(levels), coding))
    coefficients = np.linalg.solve(design, cells.ravel())[1:]  # without the intercept
    found = [
        contrast_values(cells.reshape(-1, 1), one.weights.ravel())[0] for one in factorial_contrasts(FACTORS, coding)
    ]
    assert sorted(found) == pytest.approx(sorted(coefficients))


def test_the_interaction_of_two_factors_is_a_difference_of_differences():
    head, attractor, interaction = factorial_contrasts({"head": ("sg", "pl"), "attractor": ("sg", "pl")})
    cells = np.array([[9.0], [7.0], [4.0], [3.0]])
    assert contrast_values(cells, head.weights.ravel()) == pytest.approx([(4 + 3) / 2 - (9 + 7) / 2])
    assert contrast_values(cells, attractor.weights.ravel()) == pytest.approx([(7 + 3) / 2 - (9 + 4) / 2])
    assert contrast_values(cells, interaction.weights.ravel()) == pytest.approx([(3 - 4) - (7 - 9)])
    assert (interaction.name, interaction.levels) == ("head x attractor", "(pl - sg) x (pl - sg)")


def test_an_item_without_a_cell_has_no_contrast_that_needs_it():
    cells = np.array([[1.0, 2], [3, np.nan], [5, 9]])
    first, second = factorial_contrasts({"type": ("a", "b", "c")})
    assert np.isnan(contrast_values(cells, first.weights)[1])
    assert contrast_values(cells, second.weights).tolist() == [4, 7]


def test_a_t_test_is_that_of_scipy():
    stats = pytest.importorskip("scipy.stats")
    values = np.random.default_rng(2).normal(0.4, 1, 12)
    expected = stats.ttest_1samp(values, 0)
    found = t_test(values)
    assert (found.t, found.p, found.df) == pytest.approx((expected.statistic, expected.pvalue, expected.df))
    assert found[1:3] == pytest.approx(tuple(expected.confidence_interval()))


@pytest.mark.parametrize("degrees", [1, 2, 15, 1000, 50_000])
def test_p_values_are_those_of_scipy_however_small(degrees):
    stats = pytest.importorskip("scipy.stats")
    for t in (0, 0.1, 2.2, -5.5, 15.8, 60):
        assert t_p_value(t, degrees) == pytest.approx(2 * stats.t.sf(abs(t), degrees), rel=1e-8, abs=1e-290)


def test_values_that_do_not_vary_have_no_t():
    for values in (np.full(5, 0.3), np.array([1.0])):
        assert np.isnan(t_test(values).t)
        assert np.isnan(t_test(values).p)


def test_intervals_within_units_of_two_conditions_are_those_of_their_difference():
    # Morey 2008: with two conditions, the interval is that of the difference, divided by the square root of 2.
    values = np.random.default_rng(3).normal(size=(2, 9)) + 10 * np.arange(9)
    difference = t_test(values[1] - values[0])
    for interval in intervals_within_units(values):
        assert interval.high - interval.low == pytest.approx((difference.high - difference.low) / np.sqrt(2))
