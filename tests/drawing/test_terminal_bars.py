"""Surprisals drawn with characters."""

from __future__ import annotations

import math

import pytest

from syntaxlm.drawing.terminal_bars import NARROWEST, draw_surprisals
from syntaxlm.scoring.surprisal import WordSurprisal

FORMATS = {"word": "", "surprisal": ".2f"}
WORDS = [
    WordSurprisal(1, 1, "The", 0, 3, "the", True, 3.26, 3.26, 0.0, 1),
    WordSurprisal(1, 2, "blorgs", 4, 10, "<unk>", False, 12.4, 12.4, 0.0, 1),
    WordSurprisal(1, 3, "«", 11, 12, "", None, None),
    WordSurprisal(1, 4, "ran.", 13, 17, "ran .", True, 8.8, 6.4, 2.4, 2),
    WordSurprisal(1, 5, "", 17, 17, "<eos>", True, 0.02),
]


def drawn(words=WORDS, full=20.0, width=80):
    return draw_surprisals(words, [word.row() for word in words], FORMATS, full, width).split("\n")


def test_each_word_has_a_bar_in_which_punctuation_marks_have_another_sign():
    assert drawn() == [
        "word      surprisal",
        "The            3.26   ███",
        "blorgs*       12.40   ████████████",
        "«",
        "ran.           8.80   ██████░░░",
        "               0.02",
        "surprisal in bits, 24.5 in total, █ is 1 bit",
        "░ punctuation marks",
        "* not in the model's vocabulary",
    ]


@pytest.mark.parametrize(("full", "width", "scale"), [(8.0, 80, 0.4), (20.0, 31, 12.4 / 9)])
def test_the_scale_is_that_of_pictures_unless_the_terminal_is_narrow(full, width, scale):
    lines = drawn(full=full, width=width)
    assert lines[2].count("█") == round(12.4 / scale)
    assert max(map(len, lines[:6])) <= width
    assert f"█ is {scale:.2g} bits" in lines[6]


def test_without_room_or_surprisals_there_are_no_bars():
    narrow = len("blorgs*       12.40   ") + NARROWEST - 1
    assert "█" not in "".join(drawn(width=narrow))
    assert "█" in "".join(drawn(width=narrow + 1))
    assert drawn([WORDS[2]]) == ["word   surprisal", "«", "surprisal in bits, 0.0 in total"]


def test_an_infinite_surprisal_has_no_bar():
    lines = drawn([WORDS[0], WordSurprisal(1, 2, "b.", 4, 6, "b .", True, math.inf, math.inf, 1.0, 2)])
    assert lines == ["word   surprisal", "The         3.26   ███", "b.           inf", lines[3]]
    assert lines[3] == "surprisal in bits, inf in total, █ is 1 bit"


def test_a_scale_of_1_after_rounding_is_one_bit():
    assert drawn(width=34)[6].endswith(", █ is 1 bit"), "a sign is 12.4 / 12 bits"
