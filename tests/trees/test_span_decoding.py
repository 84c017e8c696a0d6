import tracemalloc
from collections.abc import Callable
from itertools import product

import numpy as np
import pytest

from syntaxlm.core.errors import InputError
from syntaxlm.trees.bounds import left, right
from syntaxlm.trees.decoding import SPAN_RULES, SpanTable, decode_spans
from syntaxlm.trees.spans import trees_of

from .enumeration import Spans, all_binary_trees

Score = Callable[[int, int], float]


def all_spans(length: int) -> list[tuple[int, int]]:
    """All spans in the order of the scores: by end, shortest first."""
    return [(start, end) for end in range(1, length + 1) for start in range(end - 1, -1, -1)]


def drawn(lengths: list[int], seed: int, greatest: int | None = None) -> SpanTable:
    """Random scores; with `greatest`, integers up to it, so that many are equal."""
    source = np.random.default_rng(seed)
    count = sum(length * (length + 1) // 2 for length in lengths)
    values = source.standard_normal(count) if greatest is None else source.integers(0, greatest + 1, count)
    return SpanTable(np.array(lengths, np.int64), values.astype(np.float64))


def score_of(scores: SpanTable, index: int) -> Score:
    values = scores.values[scores.offsets[index] : scores.offsets[index + 1]].tolist()
    by_span = dict(zip(all_spans(int(scores.lengths[index])), values, strict=True))
    return lambda start, end: by_span[start, end]


def greedy_by_definition(score: Score, length: int, rule: str) -> Spans:
    """Equation 4 of Peng et al. 2019, one span after the other; max() gives the first of equal ones."""
    spans, agenda = set(), [(0, length)]
    while agenda:
        start, end = agenda.pop()
        if end - start < 2:
            continue
        spans.add((start, end))
        both = rule == "greedy-sum"
        split = max(range(start + 1, end), key=lambda k: (score(start, k) if both else 0) + score(k, end))
        agenda += [(start, split), (split, end)]
    return frozenset(spans)


def best_of_all_trees(score: Score, length: int, rule: str = "cky") -> Spans:
    """The enumeration is sorted by the first split, recursively, so ties are broken correctly."""
    return max(all_binary_trees(0, length), key=lambda tree: sum(score(*span) for span in tree))


ORACLES = {"greedy-right": greedy_by_definition, "greedy-sum": greedy_by_definition, "cky": best_of_all_trees}


@pytest.mark.parametrize("greatest", [None, 1, 3])
@pytest.mark.parametrize("rule", SPAN_RULES)
@pytest.mark.parametrize("length", range(1, 7))
def test_a_rule_gives_the_tree_of_its_definition(rule, length, greatest):
    scores = drawn([length] * 200, length, greatest)
    spans = decode_spans(scores, rule)
    for index in range(200):
        assert spans.sentence(index) == ORACLES[rule](score_of(scores, index), length, rule)
    assert np.diff(spans.offsets).tolist() == [length - 1] * 200


@pytest.mark.parametrize("rule", SPAN_RULES)
def test_every_tie_of_four_words_goes_to_the_first_split(rule):
    assert set(ORACLES) == set(SPAN_RULES)
    rows = list(product(range(2), repeat=10))
    scores = SpanTable(np.full(len(rows), 4), np.array(rows, np.float64).ravel())
    spans = decode_spans(scores, rule)
    for index in range(len(rows)):
        assert spans.sentence(index) == ORACLES[rule](score_of(scores, index), 4, rule)


@pytest.mark.parametrize("rule", SPAN_RULES)
def test_every_binary_tree_can_be_decoded(rule):
    """Scores are 1 for the spans and words of a tree and 0 for all others."""
    for length in range(1, 7):
        trees = all_binary_trees(0, length)
        values = [[float(span in tree or span[1] - span[0] == 1) for span in all_spans(length)] for tree in trees]
        spans = decode_spans(SpanTable(np.full(len(trees), length), np.array(values).ravel()), rule)
        if rule == "greedy-right":  # sees left parts only once it has come to them
            values = np.random.default_rng(0).random(3000 * length * (length + 1) // 2)
            spans = decode_spans(SpanTable(np.full(3000, length), values), rule)
        assert {frozenset(spans.sentence(index)) for index in range(len(spans))} == set(trees)


@pytest.mark.parametrize("rule", SPAN_RULES)
def test_sentences_of_any_length_are_independent(rule, monkeypatch):
    lengths = np.random.default_rng(1).integers(1, 25, 40).tolist()
    scores = drawn(lengths, 2)
    together = decode_spans(scores, rule)
    monkeypatch.setattr("syntaxlm.trees.charts._CHART_BYTES", 1)
    for index, length in enumerate(lengths):
        alone = SpanTable(np.array([length]), scores.values[scores.offsets[index] : scores.offsets[index + 1]])
        assert decode_spans(alone, rule).sentence(0) == together.sentence(index)
        if rule != "cky":
            assert together.sentence(index) == greedy_by_definition(score_of(scores, index), length, rule)
    again = decode_spans(scores, rule)
    assert np.array_equal(again.starts, together.starts)
    assert np.array_equal(again.ends, together.ends)


def test_the_total_of_cky_is_at_least_that_of_any_other_tree():
    scores = drawn([25] * 50, 3)
    charts = [scores.chart(index) for index in range(50)]
    totals = {}
    for rule in SPAN_RULES:
        spans = decode_spans(scores, rule)
        totals[rule] = [
            sum(charts[index][start, end - 1] for start, end in spans.sentence(index)) for index in range(50)
        ]
    for rule in ("greedy-right", "greedy-sum"):
        assert all(best > other for best, other in zip(totals["cky"], totals[rule], strict=True))


def test_what_every_tree_has_does_not_change_the_total():
    scores = drawn([2, 9, 15], 4)
    changed = scores.values.copy()
    for index, length in enumerate((2, 9, 15)):
        for place, (start, end) in enumerate(all_spans(length), scores.offsets[index]):
            if end - start in (1, length):
                changed[place] += 100 * (1 + start)
    one, other = (decode_spans(SpanTable(scores.lengths, values), "cky") for values in (scores.values, changed))
    assert [one.sentence(index) for index in range(3)] == [other.sentence(index) for index in range(3)]


@pytest.mark.parametrize("rule", ["greedy-right", "greedy-sum"])
def test_the_score_of_a_single_word_counts_where_parts_are_compared(rule):
    """(a, b) against (b): split off the last word where that scores more."""
    values = dict.fromkeys(all_spans(3), 0.0)
    values[2, 3], values[1, 3] = 1.0, 0.5
    scores = SpanTable(np.array([3]), np.array(list(values.values())))
    assert decode_spans(scores, rule).sentence(0) == {(0, 3), (0, 2)}


@pytest.mark.parametrize("rule", ["greedy-right", "greedy-sum"])
def test_longest_spans_first_are_right_branching_and_shortest_first_left_branching(rule):
    """Like PaLM's fixed scores, but squared, because the sum of the lengths of two parts is constant."""
    spans = all_spans(40)
    for sign, expected in ((1, right([40])), (-1, left([40]))):
        values = np.array([sign * (end - start) ** 2 for start, end in spans], np.float64)
        if rule == "greedy-sum":
            values *= [start > 0 for start, _ in spans]
        assert decode_spans(SpanTable(np.array([40]), values), rule).sentence(0) == expected.sentence(0)


@pytest.mark.parametrize("rule", SPAN_RULES)
def test_long_sentences_need_memory_of_their_spans_alone(rule):
    scores = drawn([150] * 10 + [1, 2], 5)
    tracemalloc.start()
    try:
        spans = decode_spans(scores, rule)
        assert tracemalloc.get_traced_memory()[1] < 20e6
    finally:
        tracemalloc.stop()
    assert np.diff(spans.offsets).tolist() == [149] * 10 + [0, 1]
    trees_of(spans, [["w"] * length for length in scores.lengths])  # nested


def test_a_chart_has_each_score_at_first_and_last_word():
    scores = drawn([3, 1, 5], 6)
    for index in range(3):
        chart, score = scores.chart(index), score_of(scores, index)
        length = int(scores.lengths[index])
        for first, last in product(range(length), repeat=2):
            assert np.isnan(chart[first, last]) if first > last else chart[first, last] == score(first, last + 1)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_non_finite_score_raises_an_error_with_its_words(value):
    scores = drawn([2, 4], 7)
    scores.values[3 + all_spans(4).index((1, 3))] = value
    with pytest.raises(InputError, match=f"sentence 2, words 2 to 3: the score of the span is {value}; expected"):
        decode_spans(scores, "greedy-right")


def test_inconsistent_arguments_raise_an_error():
    with pytest.raises(ValueError, match="expected one for each of the 9 spans"):
        SpanTable(np.array([2, 3]), np.zeros(8))
    with pytest.raises(ValueError, match="at least one word"):
        SpanTable(np.array([2, 0]), np.zeros(3))
    with pytest.raises(ValueError, match="'biased': expected one of greedy-right, greedy-sum, cky"):
        decode_spans(drawn([2], 0), "biased")


@pytest.mark.parametrize("rule", SPAN_RULES)
def test_no_sentences_and_one_word_sentences_are_accepted(rule):
    assert len(decode_spans(drawn([], 0), rule)) == 0
    assert decode_spans(drawn([1, 1], 0), rule).offsets.tolist() == [0, 0, 0]
