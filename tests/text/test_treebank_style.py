"""Conversion of untokenised English to the style of treebanks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syntaxlm.core.errors import InputError
from syntaxlm.text.treebank_style import TreebankStyle


@pytest.mark.parametrize(
    ("raw", "split", "dropped"),
    [
        ("The cat sleeps.", "The cat sleeps .", "The cat sleeps"),
        ('"Who," he said, "is Mr. Lee?"', '" Who , " he said , " is Mr. Lee ? "', "Who he said is Mr. Lee"),
        ('He said "no."', 'He said " no . "', "He said no"),
        ("(He left the U.S.).", "( He left the U.S. ) .", "He left the U.S."),
        ('"(Mr. Lee)." Then', '" ( Mr. Lee ) . " Then', "Mr. Lee Then"),
        ("She left the U.S.", "She left the U.S.", "She left the U.S."),
        ("It rose 5.5%.", "It rose 5.5 % .", "It rose 5.5 %"),
        ("It costs $3.50.", "It costs $ 3.50 .", "It costs $ 3.50"),
        ("Well... it's (so-called) 1,000!", "Well ... it's ( so-called ) 1,000 !", "Well it's so-called 1,000"),
        ("<unk> ?", "<unk> ?", "<unk>"),
    ],
)
def test_punctuation_at_the_ends_of_words(raw, split, dropped):
    assert TreebankStyle(punctuation="split")(raw) == split
    assert TreebankStyle(punctuation="drop")(raw) == dropped


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ("She doesn't", "She does n't"),
        ("Can't won't CAN'T", "Ca n't wo n't CA N'T"),
        ("It's Lee's", "It 's Lee 's"),
        ("they’re I'll we've he'd I'm", "they 're I 'll we 've he 'd I 'm"),
        ("shouldn't've", "should n't 've"),
        ("the girls' books", "the girls ' books"),
        ("Cannot cannot", "Can not can not"),
        ("n't 's o'clock ain't.", "n't 's o'clock ain't."),  # not an ending if it has a full stop
    ],
)
def test_contractions_are_split_as_in_the_penn_treebank(raw, expected):
    assert TreebankStyle(contractions="split")(raw) == expected


def test_both_together_see_the_contraction_behind_the_punctuation():
    style = TreebankStyle("drop", "split")
    assert style('"It isn\'t."') == "It is n't"
    assert str(style) == "punctuation dropped, contractions split off"


@given(st.text(st.sampled_from("a b's.n't\"(?U’"), max_size=20))
def test_only_punctuation_marks_are_lost(raw):
    def letters(text):
        return [character for character in text if character.isalpha()]

    def without_spaces(text):
        return text.replace("’", "'").replace(" ", "")

    assert TreebankStyle()(raw) == raw
    assert without_spaces(TreebankStyle("split", "split")(raw)) == without_spaces(raw)
    assert letters(TreebankStyle("drop", "split")(raw)) == letters(raw)


def test_an_unknown_choice_is_reported():
    with pytest.raises(InputError, match="punctuation: found 'no'; expected auto, keep, split or drop"):
        TreebankStyle("no")  # type: ignore[arg-type]
