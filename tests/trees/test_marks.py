"""Punctuation marks as evidence of constituents."""

from __future__ import annotations

import numpy as np
import pytest

from syntaxlm.trees.averaging import average
from syntaxlm.trees.marks import MarkClass, Marks, is_mark, violations
from syntaxlm.trees.spans import SpanSets
from syntaxlm.trees.tree import read_brackets


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
