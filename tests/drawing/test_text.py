"""Text widths, writing direction, and replacements of invisible characters."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from syntaxlm.core.errors import printable
from syntaxlm.drawing.svg import (
    ELLIPSIS,
    RIGHT_TO_LEFT_MARK,
    directed,
    escaped,
    figure,
    right_to_left,
    shortened,
    text_width,
    visible,
)

from .reading import read_svg

ANY_TEXT = st.text(st.characters(codec=None), max_size=40)  # lone surrogates, controls, noncharacters


@pytest.mark.parametrize(
    ("narrower", "wider"),
    [("i", "n"), ("n", "m"), ("n", "中"), ("ㄱ", "ㄱㄴ"), ("中", "中文"), ("o", "O"), ("", "i"), ("中", "👍")],
)
def test_wider_letters_are_measured_wider(narrower, wider):
    assert text_width(narrower, 15) < text_width(wider, 15) == pytest.approx(text_width(wider, 30) / 2)


@pytest.mark.parametrize(
    ("one", "same"),
    [
        ("e", "e\u0301"), ("ب", "بَ"), ("👍", "👍🏽"), ("👩", "👩\u200d👩\u200d👧"), ("❤", "❤\ufe0f"),
        ("a", "\u200fa\u200f"),
    ],
)  # fmt: skip
def test_combining_and_invisible_characters_add_no_width(one, same):
    assert text_width(same, 15) == text_width(one, 15)


def test_letters_after_a_joiner_of_another_script_keep_their_width():
    assert text_width("क्\u200dष", 10) > text_width("क्\u200d", 10)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["ذهب", "الولد"], True), (["הילד", "(", "3", ")"], True), (["the", "old", "cat"], False),
        (["我", "們"], False), (["2024", "!"], False), ([], False),
        (["an", "English", "sentence", "with", "سلام"], False),
    ],
)  # fmt: skip
def test_the_direction_is_that_of_most_letters(words, expected):
    assert right_to_left(words) is expected


def test_words_of_a_right_to_left_script_keep_their_punctuation_on_their_side():
    assert directed("سلام!") == f"{RIGHT_TO_LEFT_MARK}سلام!{RIGHT_TO_LEFT_MARK}"
    assert directed("word!") == "word!"
    assert directed("(") == "("
    assert directed("(", within_right_to_left=True) == f"{RIGHT_TO_LEFT_MARK}({RIGHT_TO_LEFT_MARK}"
    assert directed("word!", within_right_to_left=True) == "word!"


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        (" ", "␣"), (" \u200b ", "␣"), ("\u3000", "␣"), ("\u0301", "◌\u0301"), ("\u200d", "U+200D"), ("a", "a"),
        ("\u200da", "\u200da"), ("\x07", "␇"), ("\x7f", "␡"), ("\x85x", "\ufffdx"), ("\ud800", "\ufffd"),
        ("", ""), ("U+0041", "U+0041"),
    ],
)  # fmt: skip
def test_invisible_characters_are_drawn_as_visible_ones(word, expected):
    assert visible(word) == expected


@given(ANY_TEXT)
def test_every_word_that_is_not_empty_has_a_width_when_drawn(word):
    assert not word or text_width(visible(word), 15) > 0 or visible(word).startswith("◌")


@given(ANY_TEXT)
def test_any_text_becomes_xml(text):
    root = read_svg(
        f'<svg xmlns="http://www.w3.org/2000/svg" note="{escaped(text)}"><desc>{escaped(text)}</desc></svg>'
    )
    assert (root[0].text or "") == root.get("note") == printable(text)


@settings(max_examples=40)
@given(st.text(max_size=80), st.integers(3, 60))
def test_a_shortened_text_is_its_beginning_and_its_end(text, most):
    short = shortened(text, most)
    if len(text) <= most:
        assert short == text
        return
    assert len(short) <= most
    head, _, tail = short.partition(ELLIPSIS) if ELLIPSIS not in text else (short[:1], "", "")
    assert text.startswith(head)
    assert text.endswith(tail)


def test_a_text_is_not_shortened_between_a_letter_and_its_accent():
    text = "e\u0301" * 30
    for most in range(4, 40):
        _, tail = shortened(text, most).split(ELLIPSIS)
        assert not tail or not unicodedata.combining(tail[0])
        head = shortened(text, most).split(ELLIPSIS)[0]
        assert head.endswith("\u0301")


@pytest.mark.parametrize(
    ("value", "scale", "expected"),
    [
        (0.6249, (0, 0.9), "0.62"), (0.0078, (0, 0.02), "0.008"), (0, (0, 5), "0"), (3.14159, (0, 5), "3.14"),
        (1234.5, (0, 2000), "1234"), (0.5412, (0.53, 0.545), "0.541"), (-0.25, (-1, 1), "-0.25"),
        (2e-6, (0, 5e-6), "2.0e-06"), (1.0, (1, 1), "1.00"),
    ],
)  # fmt: skip
def test_a_figure_has_the_digits_that_its_scale_needs(value, scale, expected):
    assert figure(value, scale) == expected
