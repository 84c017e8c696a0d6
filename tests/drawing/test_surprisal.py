"""Surprisals as bars."""

from __future__ import annotations

import math
from typing import NamedTuple

import pytest

from syntaxlm.drawing.layout import MARGIN
from syntaxlm.drawing.surprisal import BAR_ZONE, BETWEEN, FULL, pair_picture, surprisal_bars
from syntaxlm.drawing.svg import TEXT_SIZES, text_width

from .reading import drawn, numbers, of_role, read_svg, tooltip


class Row(NamedTuple):
    word: str
    begin: int
    end: int
    surprisal: float | None
    in_vocabulary: bool | None = True
    surprisal_marks: float | None = 0.0


FIRST = [Row("the", 0, 3, 5.0), Row("cats", 4, 8, 10.0, False), Row("sleep", 9, 14, None), Row("", 14, 14, 2.0)]
SECOND = [Row("the", 0, 3, 5.0), Row("cat", 4, 7, 30.0), Row("", 7, 7, 1.0)]


def test_bars_hang_below_their_words_and_are_as_long_as_their_bits():
    places = [(0, 3), (4, 6), (6, 8), (9, 14)]  # a row of surprisals may have several words
    picture = surprisal_bars(FIRST, [20, 60, 100, 140], places, 200, False, 20.0)
    root = read_svg(picture.svg())
    bars = of_role(root, "area-1")
    assert [tooltip(bar) for bar in bars] == [
        "the: 5.00 bits",
        "cats: 10.00 bits, not in the model's vocabulary",
        "(end): 2.00 bits",
    ]
    assert [numbers(bar, "height")[0] for bar in bars] == pytest.approx([BAR_ZONE * bits / 20 for bits in (5, 10, 2)])
    assert len({bar.get("y") for bar in bars}) == 1
    middles = [x + width / 2 for x, width in (numbers(bar, "x", "width") for bar in bars)]
    assert middles[:2] == [20, 80]
    assert middles[2] > 200 - MARGIN  # beside all words
    assert [bar.get("fill-opacity") for bar in bars] == [None, "0.350", None]
    assert "surprisal in bits, 17.0 in total" in [drawn(note) for note in of_role(root, "note")]
    assert picture.description == "Surprisal in bits: the 5.0, cats 10.0, (end) 2.0."


def test_marks_that_are_rows_of_their_own_belong_to_the_bar_of_the_word_beside_them():
    rows = [
        Row('"', 0, 1, 3.0, surprisal_marks=3.0), Row("the", 2, 5, 5.0), Row("cat", 6, 9, 10.0, False),
        Row(".", 10, 11, 2.4, surprisal_marks=2.4), Row('"', 12, 13, 1.5, surprisal_marks=None), Row("", 13, 13, 1.0),
    ]  # fmt: skip
    root = read_svg(surprisal_bars(rows, [20, 60], [(2, 5), (6, 9)], 200, False, 20.0).svg())
    assert "surprisal in bits, 22.9 in total" in [drawn(note) for note in of_role(root, "note")]
    bars = of_role(root, "area-1")
    assert [numbers(bar, "height")[0] for bar in bars] == pytest.approx([BAR_ZONE * bits / 20 for bits in (5, 10, 1)])
    assert [bar.get("fill-opacity") for bar in bars] == [None, "0.350", None]
    assert [tooltip(bar) for bar in of_role(root, "area-6")] == [
        '" the: 8.00 bits, 3.00 of them for punctuation marks',
        "cat . \": 13.90 bits, 3.90 of them for punctuation marks, not in the model's vocabulary",
    ]
    assert [drawn(text) for text in of_role(root, "small")] == ["5.0", '+3.0 "', "10.0", '+3.9 ."', "1.0"]


def test_words_that_are_not_in_the_tree_are_no_marks():
    rows = [Row("😀", 0, 1, 4.0, False), Row("he", 2, 4, 5.0), Row("said", 5, 9, 6.0), Row("😀", 10, 11, 12.3, False),
            Row("&", 12, 13, 2.0), Row(".", 14, 15, 2.4, True, 2.4)]  # fmt: skip
    root = read_svg(surprisal_bars(rows, [20, 60], [(2, 4), (5, 9)], 200, False, 20.0).svg())
    bars = of_role(root, "area-1")
    assert [numbers(bar, "height")[0] for bar in bars] == pytest.approx(
        [BAR_ZONE * bits / 20 for bits in (5, 4, 6, 12.3, 2)], abs=0.05
    )
    assert [bar.get("fill-opacity") for bar in bars] == [None, "0.350", None, "0.350", None]
    assert tooltip(bars[3]) == "😀: 12.30 bits, not in the model's vocabulary"
    (mark,) = of_role(root, "area-6")
    assert numbers(mark, "height")[0] == pytest.approx(BAR_ZONE * 2.4 / 20, abs=0.05)
    assert numbers(mark, "y")[0] == pytest.approx(MARGIN + BAR_ZONE * 20.3 / 20, abs=0.1)
    values = [drawn(text) for text in of_role(root, "small")]
    assert values == ["5.0", "+4.0 😀", "6.0", "+12.3 😀 +2.0 & +2.4 ."]


@pytest.mark.parametrize("mirrored", [False, True])
def test_the_end_is_beside_all_words_and_inside_the_picture(mirrored):
    centres = [140, 100, 60, 20] if mirrored else [20, 60, 100, 140]
    places = [(0, 3), (4, 6), (6, 8), (9, 14)]
    picture = surprisal_bars(FIRST, centres, places, 160, mirrored, 20.0)
    root = read_svg(picture.svg())
    moved = picture.width - 160 if mirrored else 0  # words are aligned with the side where the sentence starts
    (end,) = [note for note in of_role(root, "note") if drawn(note) == "(end)"]
    x, half = numbers(end, "x")[0], text_width("(end)", TEXT_SIZES["note"]) / 2
    assert MARGIN - 0.1 <= x - half < x + half <= picture.width - MARGIN + 0.1
    edge = moved + MARGIN if mirrored else 160 - MARGIN
    assert x + half < edge if mirrored else x - half > edge
    first, width = numbers(of_role(root, "area-1")[0], "x", "width")
    assert first + width / 2 == pytest.approx(moved + centres[0], abs=0.1)


def test_a_pair_has_rising_and_hanging_bars_of_one_scale_in_aligned_columns():
    columns = [(0, 0), (1, 1), (2, None), (3, 2)]
    root = read_svg(pair_picture(FIRST, SECOND, columns, decisive=1).svg())
    bars = [numbers(bar, "x", "y", "height") for bar in of_role(root, "area-1")]
    heights = [height for _, _, height in bars]
    scale = BAR_ZONE / FULL["words"]  # also of bars that are longer
    assert heights == pytest.approx([bits * scale for bits in (5, 5, 10, 30, 2, 1)], abs=0.1)
    axis, lower = sorted({numbers(line, "y1")[0] for line in of_role(root, "axis")})
    assert lower - axis == BETWEEN
    feet = [y + height for _, y, height in bars[::2]]
    assert feet == pytest.approx([axis] * 3, abs=0.1)
    assert [y for _, y, _ in bars[1::2]] == [lower] * 3
    assert [x for x, *_ in bars[::2]] == [x for x, *_ in bars[1::2]]
    (mark,) = of_role(root, "bar")
    left, width = numbers(mark, "x", "width")
    assert left < bars[2][0] < left + width
    assert [drawn(word) for word in of_role(root, "word")] == ["the", "the", "cat", "sleep"]
    assert [drawn(word) for word in of_role(root, "unknown")] == ["cats"]


@pytest.mark.parametrize("mirrored", [False, True])
def test_the_part_of_marks_has_its_own_colour_and_value_below_that_of_the_word(mirrored):
    rows = [
        Row("(Did", 0, 4, 9.0, surprisal_marks=5.5), Row("didn't", 5, 11, 4.0), Row("the,", 12, 16, 5.0),
        Row("boats.", 17, 23, 20.0, surprisal_marks=6.2),
        Row("", 23, 23, 0.1),
    ]  # fmt: skip
    places = [(1, 4), (5, 8), (8, 11), (12, 15), (17, 22)]
    centres = [20, 60, 100, 140, 180][:: -1 if mirrored else 1]
    picture = surprisal_bars(rows, centres, places, 220, mirrored, 20.0)
    root = read_svg(picture.svg())
    names = [one for one in of_role(root, "small") if not drawn(one)[0].isdigit()]
    assert [drawn(name) for name in names] == ["+5.5 (", "+6.2 ."], "marks that the model does not read have no part"
    heights = [numbers(part, "height")[0] for part in of_role(root, "area-6")]
    assert heights == pytest.approx([BAR_ZONE * bits / 20 for bits in (5.5, 6.2)], abs=0.1)
    bars = [bar for bar in of_role(root, "area-1") if tooltip(bar).startswith(("(Did", "boats."))]
    values = [one for one in of_role(root, "small") if drawn(one) in ("3.5", "13.8")]
    for bar, name, value in zip(bars, names, values, strict=True):
        left, top, width, height = numbers(bar, "x", "y", "width", "height")
        assert numbers(name, "x")[0] == pytest.approx(left + width / 2, abs=0.1)
        assert top + height < numbers(value, "y")[0] < numbers(name, "y")[0] - 8
    total = next(note for note in of_role(root, "note") if drawn(note).startswith("surprisal in bits"))
    assert numbers(names[1], "y")[0] < numbers(total, "y")[0] - 10


def test_a_mark_that_is_a_word_of_the_tree_has_its_surprisal_as_the_number():
    rows = [Row("the", 0, 3, 5.0), Row("cat.", 4, 8, 9.0, True, 2.5), Row(".", 9, 10, 2.4, True, 2.4)]
    root = read_svg(surprisal_bars(rows, [20, 60, 100, 140], [(0, 3), (4, 7), (7, 8), (9, 10)], 200, False, 20.0).svg())
    assert [drawn(text) for text in of_role(root, "small")] == ["5.0", "6.5", "+2.5", "2.4"]


INFINITE = [Row("a", 0, 1, 3.0), Row("b.", 2, 4, math.inf, surprisal_marks=1.0), Row("", 4, 4, 1.0)]


def test_an_infinite_surprisal_has_a_number_but_no_bar():
    pictures = (
        surprisal_bars(INFINITE, [20, 60], [(0, 1), (2, 3)], 200, False, 20.0),
        pair_picture(INFINITE, INFINITE, [(0, 0), (1, 1), (2, 2)], decisive=1),
    )
    for sentences, picture in enumerate(pictures, 1):
        assert "nan" not in picture.svg()
        root = read_svg(picture.svg())
        assert sorted({tooltip(bar) for bar in of_role(root, "area-1")}) == ["(end): 1.00 bits", "a: 3.00 bits"]
        heights = [height for bar in of_role(root, "area-1") for height in numbers(bar, "height")]
        assert max(heights) == pytest.approx(BAR_ZONE * 3 / FULL["words"], abs=0.1)
        assert [drawn(value) for value in of_role(root, "small")].count("inf") == sentences


def test_brackets_in_a_pair_of_right_to_left_sentences_are_mirrored_by_direction_marks():
    rows = [Row("הילד", 0, 4, 5.0), Row("(", 5, 6, 10.0)]
    root = read_svg(pair_picture(rows, rows, [(0, 0), (1, 1)], None).svg())
    assert [word.text for word in of_role(root, "word")][2:] == ["\u200f(\u200f"] * 2
