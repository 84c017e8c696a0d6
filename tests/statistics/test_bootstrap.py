"""Comparison of runs by a bootstrap."""

from __future__ import annotations

import numpy as np
import pytest

from syntaxlm.statistics import bootstrap
from syntaxlm.statistics.bootstrap import RunScores, compare_runs


@pytest.mark.parametrize("together", [1, 7, 20, 33])
def test_samples_are_drawn_in_parts(monkeypatch, together):
    first, second = map(RunScores.of_means, np.random.default_rng(7).normal(size=(2, 1, 20)))
    whole = compare_runs(first, second, samples=100, seed=2)
    monkeypatch.setattr(bootstrap, "_ITEMS_AT_A_TIME", 20 * together)
    parts = compare_runs(first, second, samples=100, seed=2)
    assert (parts.low, parts.high, parts.p_value) == pytest.approx((whole.low, whole.high, whole.p_value))
