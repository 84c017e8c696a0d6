"""Best trees in NumPy: ties, the order of rows, errors, memory. Values are compared in tests/ops/test_charts.py."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from syntaxlm.trees import charts
from syntaxlm.trees.spans import SpanSets


def test_random_ties_give_unbiased_best_trees():
    for length in range(1, 7):
        weights = np.random.default_rng(length).integers(0, 2, (length * (length + 1) // 2, 200))
        first, tied = (charts.best(weights, ties=ties) for ties in ("first", "random"))
        assert np.array_equal(first[0], tied[0])
        assert np.array_equal((weights * tied[1]).sum(0), tied[0])
        alone = charts.best(np.ascontiguousarray(weights[:, :1]), ties="random")
        assert np.array_equal(alone[1][:, 0], tied[1][:, 0])
    at_first = at_last = 0
    for length in range(3, 60):
        starts, ends = charts.spans_in(length)
        inner = charts.best(np.zeros((len(starts), 1), np.int64), ties="random")[1][:, 0]
        inner &= (ends - starts > 1) & (ends - starts < length)
        at_first += (inner & (starts == 0)).sum()
        at_last += (inner & (ends == length)).sum()
    # Right branching has 0 and 1,653, left branching the reverse; here both have ln(n) - 1 per sentence on average.
    assert at_first == pytest.approx(at_last, rel=0.25)
    assert 100 < at_first < 300


def test_random_ties_take_each_split_of_a_span_with_the_same_probability():
    starts, ends = charts.spans_in(5)
    _, spans = charts.best(np.zeros((15, 4000), np.int64), "random", np.arange(4000, dtype=np.uint64))
    parts = [spans[(starts == 0) & (ends == at)][0] & spans[(starts == at) & (ends == 5)][0] for at in range(1, 5)]
    assert np.mean(parts, axis=1) == pytest.approx([0.25] * 4, abs=0.02)


def test_integers_that_overflow_raise_an_error():
    with pytest.raises(ValueError, match=r"reach 24000000000000000000; expected less than 2\^63"):
        charts.best(np.full((6, 1), 4 * 10**18))


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_nan_and_infinite_weights_raise_an_error(value):
    weights = np.random.default_rng(0).standard_normal((10, 3))
    weights[5, 1] = value
    with pytest.raises(ValueError, match="weights include NaN or infinity: expected finite numbers or -inf"):
        charts.best(weights)


def test_the_rows_of_a_chart_are_in_the_documented_order():
    for length in range(1, 8):
        starts, ends = charts.spans_in(length)
        every = SpanSets(np.array([length]), np.array([0, len(starts)]), starts[::-1], ends[::-1])
        rows = charts.chart_of_spans(every, np.arange(len(starts))[::-1], np.array([0]), length)
        assert rows[:, 0].tolist() == list(range(len(starts)))
        spans = list(zip(starts.tolist(), ends.tolist(), strict=True))
        assert spans == sorted(spans, key=lambda span: (span[1] - span[0], span[0]))
        by_width = [np.array(spans)[block] for block in charts.blocks(length)]
        for width in range(2, length + 1):
            for split, (lefts, rights) in enumerate(charts.parts(by_width, by_width, width), 1):
                assert np.array_equal(lefts[:, 0], by_width[width][:, 0])
                assert np.array_equal(lefts[:, 1], by_width[width][:, 0] + split)
                assert np.array_equal(rights[:, 0], by_width[width][:, 0] + split)
                assert np.array_equal(rights[:, 1], by_width[width][:, 1])


def test_memory_is_limited_to_a_few_charts():
    weights = np.random.default_rng(0).standard_normal((100 * 101 // 2, 20))
    charts.spans_in(100)
    tracemalloc.start()
    try:
        charts.best(weights)
        assert tracemalloc.get_traced_memory()[1] < 5 * weights.nbytes
    finally:
        tracemalloc.stop()
