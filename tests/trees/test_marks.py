"""Punctuation marks as evidence of constituents."""

from __future__ import annotations

import numpy as np
import pytest

from syntaxlm.trees.averaging import average
from syntaxlm.trees.bounds import random_trees
from syntaxlm.trees.marks import MarkClass, Marks, is_mark, violations
from syntaxlm.trees.spans import SpanSets, offsets_of
from syntaxlm.trees.tree import read_brackets

from .enumeration import all_binary_trees


def by_definition(marks, start, end, length, side):
    """1 if a span has a mark inside, but no mark or edge of the sentence at its side; 1/4 if only one of both."""
    at_start, at_end = start == 0 or marks[start], end == length or marks[end]
    missing = {
        "start": not at_start,
        "end": not at_end,
        "either": not (at_start or at_end),
        "both": (0, 1 / 4, 1)[(not at_start) + (not at_end)],
    }[side]
    return any(marks[start + 1 : end]) * missing


@pytest.mark.parametrize("side", ["either", "end", "start", "both"])
def test_violations_are_those_of_the_definition_at_any_length(side):
    random = np.random.default_rng(1)
    lengths = np.array([7, 5, 2, 1])
    marks = random.random((4, 7)) < 0.4
    marks[np.arange(7) >= lengths[:, None]] = False
    starts, ends = np.array([(i, j) for i in range(7) for j in range(i + 1, 8)]).T
    found = violations(marks, starts, ends, lengths, side)
    for sentence, length in enumerate(lengths):
        for place, (start, end) in enumerate(zip(starts, ends, strict=True)):
            if end <= length:
                assert found[sentence, place] == by_definition(marks[sentence], start, end, length, side)


def test_words_currency_and_signs_for_words_are_no_marks():
    assert all(map(is_mark, (",", "--", "``", "''", "...", "-", "(", "“", "、", "»", "!\u200f")))
    assert not any(map(is_mark, ("", "$", "%", "&", "#", "'s", "a,", "+", "1", "\u200f")))


def test_an_average_avoids_spans_that_cross_a_mark_and_end_at_none(tmp_path):
    path = tmp_path / "trees.mrg"
    path.write_text(
        "(a (b ((c d) e)))\n"
    )  # with a comma between b and c: (b c d e) ends the sentence, (b c d) does not
    trees = SpanSets.of(read_brackets(path))
    gaps = np.array([0, 0, MarkClass.COMMA, 0, 0, 0], np.int16)
    kept = average([trees], marks=Marks(gaps, trees.lengths, "end"))
    assert set(zip(kept.starts, kept.ends, strict=True)) == {(0, 5), (1, 5), (2, 5), (2, 4)}
    wrong = tmp_path / "wrong.mrg"
    wrong.write_text("(a ((b (c d)) e))\n")
    trees = SpanSets.of(read_brackets(wrong))
    fixed = average([trees], marks=Marks(gaps, trees.lengths, "either"))
    spans = set(zip(fixed.starts.tolist(), fixed.ends.tolist(), strict=True))
    assert (1, 4) not in spans
    assert {(0, 5), (1, 5), (2, 4)} <= spans


@pytest.mark.parametrize("count", [1, 2, 3])
def test_an_average_with_marks_is_the_best_tree_of_an_enumeration(count):
    lengths = np.array([5, 6] * 40)
    predictions = [random_trees(lengths, seed) for seed in range(count)]
    gaps = (np.random.default_rng(count).random(lengths.sum() + len(lengths)) < 0.3).astype(np.int16)
    averaged = average(predictions, marks=Marks(gaps, lengths, "both"))
    for sentence, (length, first) in enumerate(zip(lengths, offsets_of(lengths + 1), strict=False)):
        marks = gaps[first : first + length] != 0
        trees = [prediction.sentence(sentence) for prediction in predictions]

        def value(tree, trees=trees, marks=marks, length=length):
            """The mean probability of the spans of a tree minus their violations."""
            shared = sum(len(tree & other) for other in trees) / count
            return shared - sum(by_definition(marks, *span, length, "both") for span in tree)

        best = max(map(value, all_binary_trees(0, int(length))))
        assert value(averaged.sentence(sentence)) == pytest.approx(best)
