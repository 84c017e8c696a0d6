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


@pytest.mark.parametrize(
    ("values", "largest", "reason"),
    [
        (np.full(5, 0.3), 0.0, "no variation"),
        (np.array([1.0]), 20.0, "too few items"),
        (3 + 1e-5 * np.arange(6), 20.0, "no variation"),  # rounding errors of surprisals of 20 bits
        (3 + 1e-3 * np.arange(6), 20.0, "paired"),
        (1e-6 * np.array([3.0, 4, 6]), 1e-5, "paired"),  # of a measure with small values
    ],
)
def test_values_that_vary_by_rounding_errors_have_no_t_and_the_reason(values, largest, reason):
    found = t_test(values, largest=largest)
    assert (found.test, found.estimate, found.n) == (reason, pytest.approx(values.mean()), len(values))
    has_test = reason == "paired"
    assert [np.isfinite(number) for number in (found.t, found.df, found.p)] == [has_test] * 3


def test_a_mean_of_many_standard_deviations_hardly_varies():
    values = 4.3 + 1e-3 * np.arange(12)
    assert t_test(values, largest=20).t > 4000
    assert t_test(values, largest=20).hardly_varies
    assert not t_test(values - 4.3 + 1e-3, largest=20).hardly_varies
    assert not t_test(4.3 + 0.1 * np.arange(12), largest=20).hardly_varies
    assert not t_test(np.full(12, 4.3)).hardly_varies  # which has no test
    assert not t_test(np.array([4.3, 4.32])).hardly_varies  # two items may agree by chance
    assert t_test(values, -values - 1).hardly_varies


FIRST = np.array([12.1, 9.4, 15.3, 11.0, 13.7, 10.2])
SECOND = np.array([8.8, 9.9, 7.3, 14.6])


def test_two_groups_have_the_test_of_welch_as_in_r():
    """t.test(x, y) of R 4.2.2."""
    found = t_test(FIRST, -SECOND)
    expected = (1.8, -2.878181631443729, 6.478181631443727, 0.9893694778727622, 4.99496644521952, 0.3679562078118426)
    assert found[:6] == pytest.approx(expected, rel=1e-10)
    assert (found.n, found.test) == (10, "Welch")
    assert t_test(FIRST, np.array([1.0])).test == "too few items"
    assert t_test(np.full(3, 2.0), np.full(3, -1.0)).test == "no variation"


def test_more_groups_have_the_degrees_of_freedom_of_satterthwaite():
    third = FIRST[:3] * 2
    variances, sizes = np.array([[each.var(ddof=1) / len(each), len(each) - 1] for each in (FIRST, SECOND, third)]).T
    found = t_test(FIRST, SECOND, third)
    assert found.df == pytest.approx(variances.sum() ** 2 / (variances**2 / sizes).sum())
    assert found.t == pytest.approx((FIRST.mean() + SECOND.mean() + third.mean()) / np.sqrt(variances.sum()))


def test_intervals_within_units_of_two_conditions_are_those_of_their_difference():
    # Morey 2008: with two conditions, the interval is that of the difference, divided by the square root of 2.
    values = np.random.default_rng(3).normal(size=(2, 9)) + 10 * np.arange(9)
    difference = t_test(values[1] - values[0])
    for interval in intervals_within_units(values):
        assert interval.high - interval.low == pytest.approx((difference.high - difference.low) / np.sqrt(2))
