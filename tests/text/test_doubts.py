"""Warnings of text that a model should not read: many unknown words, and marks between regions."""

from __future__ import annotations

import warnings

import pytest

from syntaxlm.core.errors import InputError, InputWarning
from syntaxlm.core.text_files import LINES_TOGETHER
from syntaxlm.text.doubts import checked, unknown_words, warn_of_doubts
from syntaxlm.text.options import TextOptions
from syntaxlm.text.reader import TextReader
from syntaxlm.text.vocabulary import Vocabulary
from tests.normalisers import normaliser_with

WORDS = ["the", "cat", "dog", "sees", "a", "old", "house", "in", "of", "is"]


def reader(**normalising) -> TextReader:
    marks = [".", ",", "|", "N"]
    vocabulary = Vocabulary(["<unk>", "<s>", "</s>", *WORDS, *marks])
    return TextReader.of(normaliser_with(**normalising), vocabulary, TextOptions())


def warned(lines, **names) -> list[str]:
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        warn_of_doubts(reader(), lines, **names)
    assert all(issubclass(warning.category, InputWarning) for warning in found)
    return [str(warning.message) for warning in found]


def test_text_in_another_language_is_warned_of_with_its_words():
    (message,) = warned(["el perro ve la casa .", "el perro is old ."], name="en", place="es.txt")
    assert message.startswith(
        "es.txt: 7 of 9 words with letters (78%) are not in the vocabulary of en: 'el', 'perro', 've', 'la',"
    )
    assert "expected text in the language" in message


@pytest.mark.parametrize(
    ("line", "is_warned"),
    [
        ("the cat sees a dog .", False),
        ("the cat sees a zebra in the old house of xyzzy .", False),  # a fifth
        ("the blorg frimped a zorgle in a dog", True),
        ("zebra", False),  # one word is no evidence
        ("zebra the", False),
        ("hola mundo", True),
        ("3 , 4 , 5 . . . zebra", False),
        ("", False),
        (". , .", False),
    ],
)
def test_the_share_of_unknown_words_decides(line, is_warned):
    assert bool(warned([line])) == is_warned


def test_numbers_and_marks_do_not_count_and_names_may_have_braces():
    assert (
        unknown_words([("the", False), ("x{0}", True), ("y", True), ("z", True), ("?", True), ("😀", True)])
        .format("en")
        .startswith("3 of 4 words with letters (75%) are not in the vocabulary of en: 'x{0}', 'y', 'z'. ")
    )


def test_only_the_first_lines_are_checked_and_said_so():
    lines = ["el perro ve la casa"] * LINES_TOGETHER + ["the cat | sees"]
    (message,) = warned(lines)
    assert f"10,000 of 10,000 words with letters in the first {LINES_TOGETHER:,} lines (100%)" in message
    assert not warned(["the cat sees a dog"] * LINES_TOGETHER + ["el perro ve la casa"])


def test_characters_and_models_without_unknown_words_are_not_checked():
    vocabulary = Vocabulary(["<unk>", "<s>", "</s>", "a", "b"])
    characters = TextReader.of(normaliser_with(units="characters"), vocabulary, TextOptions())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_of_doubts(characters, ["xyz xyz xyz"])


@pytest.mark.parametrize("mark", ["|", "¦", "｜", "│"])
@pytest.mark.parametrize("between", ["{}", " {} "])
def test_marks_between_regions_are_refused_if_all_sentences_have_them(mark, between):
    line = between.format(mark).join(["the cat", "sees", "a dog"])
    with pytest.raises(InputError, match=r"^items\.csv: found '.', a mark between regions, in 2 of 2 sentences.*items"):
        warn_of_doubts(reader(), [line, "", line], place="items.csv")


def test_marks_between_regions_in_some_sentences_or_in_one_are_warned_of():
    (message,) = warned(["the cat | sees"])
    assert "found '|', a mark between regions, in 1 of 1 sentence, such as 'the cat | sees'. It is read" in message
    assert "in 2 of 8 sentences" in warned(["the cat | sees"] * 2 + ["the cat sees"] * 6)[0]
    assert not warned(["the cat | sees"] + ["the cat sees"] * 20)


def test_lines_are_checked_when_the_first_is_asked_for():
    lines = iter(["the cat | sees"] * 3)
    found = checked(lines, reader())
    with pytest.raises(InputError, match="a mark between regions"):
        next(found)
    assert list(checked(iter(["a dog"] * 3), reader())) == ["a dog"] * 3
