"""Intervals of means."""

from __future__ import annotations

import numpy as np
import pytest

from syntaxlm.statistics.intervals import mean_interval, t_quantile


@pytest.fixture
def generator():
    return np.random.default_rng(7)


@pytest.mark.parametrize("confidence", [0.5, 0.9, 0.95, 0.99])
def test_quantiles_are_those_of_scipy(confidence):
    stats = pytest.importorskip("scipy.stats", reason="the extra stats is not installed")
    degrees = [*range(1, 60), 99, 1000, 48_788]
    expected = stats.t.ppf((1 + confidence) / 2, degrees)
    np.testing.assert_allclose([t_quantile(number, confidence) for number in degrees], expected, rtol=1e-10)


@pytest.mark.parametrize("items", [2, 6, 30])
def test_intervals_contain_the_true_mean_in_95_of_100_samples(generator, items):
    """A percentile bootstrap over 6 items contains it in 85."""
    intervals = [mean_interval(sample) for sample in generator.normal(3.0, 2.0, (4000, items))]
    covering = np.mean([interval.low <= 3.0 <= interval.high for interval in intervals])
    assert covering == pytest.approx(0.95, abs=0.012)


def test_values_of_a_unit_count_together(generator):
    means = generator.normal(size=50)
    repeated = mean_interval(np.repeat(means, 5), np.repeat(np.arange(50), 5))
    assert repeated == pytest.approx(mean_interval(means))
    assert np.isnan(mean_interval(np.ones(5), np.zeros(5, int)).low)


def test_the_interval_over_units_is_that_of_a_regression_with_clusters(generator):
    linear_model = pytest.importorskip("statsmodels.api", reason="the extra stats is not installed")
    units = generator.integers(0, 15, 90)
    values = generator.normal(size=90) + generator.normal(size=15)[units]
    clusters = {"cov_type": "cluster", "cov_kwds": {"groups": units}, "use_t": True}
    expected = linear_model.OLS(values, np.ones(90)).fit(**clusters).conf_int()[0]
    assert mean_interval(values, units)[1:] == pytest.approx(tuple(expected))
