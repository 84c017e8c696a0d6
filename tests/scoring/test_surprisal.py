"""Surprisal: rows for all words of the original text, with the sum of the sentence's log-probability."""

from __future__ import annotations

import copy
import math
import pickle
import warnings
from dataclasses import replace
from itertools import pairwise

import pandas
import pytest
from hypothesis import given
from hypothesis import strategies as st

from syntaxlm.core.errors import InputError, InputWarning
from syntaxlm.evaluation.perplexity import evaluate_text
from syntaxlm.scoring import engine, surprisal
from syntaxlm.scoring.options import ScoreOptions
from syntaxlm.scoring.reading_summary import ReadingSummary
from syntaxlm.scoring.surprisal import surprisals
from syntaxlm.scoring.word_table import word_table
from syntaxlm.text.doubts import warn_of_doubts
from syntaxlm.text.normaliser_settings import NormaliserSettings
from syntaxlm.text.options import AS_WRITTEN
from syntaxlm.text.reader import AS_TOKENISED, AUTO_STYLE, TextReader
from syntaxlm.text.vocabulary import OpenVocabulary, Vocabulary
from tests.fresh_models import OPEN, SENTENCES, STREAM, every_model, fresh, reading
from tests.normalisers import normaliser_with
from tests.scoring.by_hand import read_by_hand

LINES = ["the old dog sees a cat .", "", "cat", "xyzzy the plugh", " a  dog ", "the cat sees the cat , the dog"]
MODES = {"reset": SENTENCES, "carry": STREAM}


@every_model
@pytest.mark.parametrize("context", MODES)
def test_every_row_is_that_of_reading_token_by_token(name, context):
    stored = fresh(name)
    rows = list(surprisals(stored, LINES, ScoreOptions(context=context)))
    for line, words, read in zip(LINES, rows, read_by_hand(stored, LINES, MODES[context]), strict=True):
        expected = [-log_prob / math.log(2) for *_, log_prob in read]
        assert [word.word for word in words] == ([*line.split(), ""] if expected else [])
        assert [word.surprisal for word in words] == pytest.approx(expected, abs=1e-9)


@every_model
@pytest.mark.parametrize("context", MODES)
def test_the_rows_add_up_to_the_total_of_the_text(name, context, tmp_path):
    stored = fresh(name, splitting="punctuation", lower_case=True, drop_words=("a",))
    lines = ['The "old" dog sees a cat.', "a", "", "cats, dogs!"]
    (tmp_path / "text.txt").write_text("\n".join(lines) + "\n")
    total = sum(
        word.surprisal or 0 for words in surprisals(stored, lines, ScoreOptions(context=context)) for word in words
    )
    score = evaluate_text(stored, tmp_path / "text.txt", reading(MODES[context]))
    assert total == pytest.approx(score.nats / math.log(2), rel=1e-9)


@every_model
def test_open_sentences_have_the_rows_of_closed_ones_but_for_the_end(name, tmp_path):
    closed, opened = fresh(name), fresh(name, OPEN)
    rows = list(surprisals(opened, LINES))
    for words, expected in zip(rows, surprisals(closed, LINES), strict=True):
        assert [word.word for word in words] == [word.word for word in expected[:-1]]
        assert [word.surprisal for word in words] == pytest.approx([word.surprisal for word in expected[:-1]], abs=1e-9)
    (tmp_path / "text.txt").write_text("\n".join(LINES) + "\n")
    score = evaluate_text(opened, tmp_path / "text.txt")
    assert score.tokens == sum(map(len, rows))
    assert score.bits_per_token * score.tokens == pytest.approx(sum(word.surprisal for words in rows for word in words))


def test_each_sentence_is_read_by_itself_by_default():
    for mode in MODES.values():
        stored = fresh("lstm", mode)
        assert list(surprisals(stored, LINES)) == list(surprisals(stored, LINES, ScoreOptions(context="reset")))
    reset, carried = (
        list(surprisals(fresh("lstm"), LINES, ScoreOptions(context=context)))[2][0].surprisal for context in MODES
    )
    assert abs(reset - carried) > 1e-3


@pytest.mark.parametrize("together", [1, 2, 5])
@pytest.mark.parametrize("context", MODES)
def test_reading_in_chunks_changes_nothing(monkeypatch, together, context):
    stored = fresh("prpn")
    whole = list(surprisals(stored, LINES, ScoreOptions(context=context)))
    monkeypatch.setattr(surprisal, "LINES_TOGETHER", together)
    for name in ("TOKENS", "STREAM_STEPS", "TOKEN_BUDGET"):
        monkeypatch.setattr(engine, name, together)
    for words, others in zip(whole, surprisals(stored, iter(LINES), ScoreOptions(context=context)), strict=True):
        assert [word[:7] for word in words] == [word[:7] for word in others]
        assert [word.surprisal for word in words] == pytest.approx([word.surprisal for word in others], abs=1e-9)


def test_lines_are_read_lazily(monkeypatch):
    monkeypatch.setattr(surprisal, "LINES_TOGETHER", 2)
    endless = surprisals(fresh("lstm"), iter(lambda: "the cat", None))
    assert [next(endless)[0].sentence for _ in range(5)] == [1, 2, 3, 4, 5]


def test_a_word_of_several_tokens_is_one_row_and_a_dropped_one_has_no_surprisal():
    stored = fresh("lstm", splitting="punctuation", lower_case=True, drop_words=("$",), numbers="whole")
    (rows,) = surprisals(stored, ["The $ dog,  xyzzy! $5"])
    assert [tuple(row)[:7] for row in rows] == [
        (1, 1, "The", 0, 3, "the", True),
        (1, 2, "$", 4, 5, "", None),
        (1, 3, "dog,", 6, 10, "dog ,", True),
        (1, 4, "xyzzy!", 12, 18, "<unk> !", False),
        (1, 5, "$5", 19, 21, "N", True),
        (1, 6, "", 21, 21, "</s>", True),
    ]
    (tokens,) = surprisals(fresh("lstm"), ["the dog , xyzzy ! N"])
    bits = [row.surprisal for row in tokens]
    expected = [bits[0], bits[1] + bits[2], bits[3] + bits[4], bits[5], bits[6]]
    assert [row.surprisal for row in rows if row.surprisal is not None] == pytest.approx(expected)
    assert rows[1].surprisal is None


def test_a_sentence_of_dropped_words_has_no_end():
    stored = fresh("lstm", drop_words=("$",))
    dropped, following = surprisals(stored, ["$ $", "cat"])
    assert [(row.word, row.surprisal) for row in dropped] == [("$", None), ("$", None)]
    assert [row.sentence for row in following] == [2, 2]


def test_a_row_is_a_character_of_a_model_of_characters():
    stored = fresh("prpn", units="characters", numbers="runs", unicode_form="NFC")
    line = "the\t_e\u0301 19"
    (rows,) = surprisals(stored, [line])
    assert [row.word for row in rows] == ["t", "h", "e", "\t", "_", "e\u0301", " ", "19", ""]
    assert [row.token for row in rows] == ["t", "h", "e", "_", "\\_", "é", "_", "N", "</s>"]
    (parted,) = surprisals(fresh("prpn", units="characters", unicode_form="NFD"), ["é"])
    assert [(row.word, row.token) for row in parted] == [("é", "e <unk>"), ("", "</s>")]


@given(
    st.text("aé.,1 _\t\u200b\u00ad\u0301$<unk>", max_size=20),
    st.sampled_from(["words", "characters"]),
    st.sampled_from(["whitespace", "punctuation"]),
    st.sampled_from(["keep", "whole", "runs"]),
    st.sampled_from(["NFC", "NFD"]),
    st.sampled_from(["_", None]),
)
def test_words_hold_every_token_once_in_order_and_are_parts_of_the_line(line, units, splitting, numbers, form, space):
    normaliser = normaliser_with(units, form, splitting, numbers=numbers, drop_words=("$",), space=space)
    vocabulary = OpenVocabulary()
    (words,) = TextReader(normaliser, vocabulary).read([line]).words()
    assert vocabulary.decode(token for word in words for token in word.ids) == normaliser.tokens(line)
    assert all(word.begin < word.end for word in words)
    assert all(one.end <= other.begin for one, other in pairwise(words))
    if units == "words":
        assert [line[word.begin : word.end] for word in words] == line.replace("\u200b", " ").split()


def test_a_word_converts_to_a_dict(prpn):
    (rows,) = surprisals(prpn, ["the cat"])
    row = rows[0].to_dict()
    assert row == {
        "sentence": 1, "position": 1, "word": "the", "begin": 0, "end": 3, "token": "the", "in_vocabulary": True,
        "surprisal": pytest.approx(rows[0].surprisal, abs=1e-6),
        "surprisal_word": pytest.approx(rows[0].surprisal, abs=1e-6), "surprisal_marks": 0, "tokens": 1,
    }  # fmt: skip


def test_the_surprisals_of_a_word_and_of_its_marks_are_apart():
    stored = fresh("lstm")
    words = [*stored.vocabulary.tokens[:3], ")", ",", ".", "“", "”", "'", "'s", "the", "dogs", "—", "N"]
    stored = replace(stored, vocabulary=Vocabulary(words))
    (rows,) = surprisals(stored, ["“the, dogs’ — 50%)."], ScoreOptions(punctuation="auto"))
    (apart,) = surprisals(stored, ["“ the , dogs ' — N N ) ."], ScoreOptions(punctuation="keep"))
    bits = [row.surprisal for row in apart]
    assert [row.surprisal_word for row in rows] == pytest.approx([bits[1], sum(bits[3:5]), None, sum(bits[6:8]), None])
    assert [row.surprisal_marks for row in rows] == pytest.approx(
        [bits[0] + bits[2], 0, bits[5], sum(bits[8:10]), None]
    )
    assert [row.tokens for row in rows] == [3, 2, 1, 4, 1]


def test_marks_inside_words_are_parts_of_them_for_models_of_characters_too():
    characters = fresh("prpn", units="characters")
    line = "don't (well-known, 3.5) dogs' . x"
    rows, other = surprisals(characters, [line, "-a"])
    marks = [row.begin for row in rows if row.surprisal_word is None and row.word]
    assert [line[place] for place in marks] == ["(", ",", ")", "."]
    assert marks == [6, 17, 22, 30]
    assert other[0].surprisal_word is None  # the last character of the line before is not beside it


def test_one_string_is_refused_at_once(lstm):
    with pytest.raises(TypeError, match="not one string"):
        surprisals(lstm, "the cat")


def test_a_row_is_a_word_as_written_with_the_sum_of_its_tokens():
    stored = fresh("lstm")
    line = "The cat’s, dog!"
    (rows,) = surprisals(stored, [line], ScoreOptions(punctuation="split", contractions="split"))
    assert [(row.word, row.token) for row in rows] == [
        ("The", "<unk>"),
        ("cat’s,", "cat <unk> ,"),
        ("dog!", "dog !"),
        ("", "</s>"),
    ]
    assert all(line[row.begin : row.end] == row.word for row in rows)
    (tokens,) = surprisals(stored, ["The cat 's , dog !"], ScoreOptions(**AS_WRITTEN))
    bits = [row.surprisal for row in tokens]
    assert rows[1].surprisal == pytest.approx(sum(bits[1:4]))
    (read,) = surprisals(stored, [line], ScoreOptions())
    assert [row.token for row in read] == ["the", "<unk> ,", "dog !", "</s>"]


def test_the_share_of_unknown_words_is_reported_with_a_way_to_reduce_it():
    stored = fresh("lstm")
    lines = ["the cat sees a dog,", "the dog sees the cat!"]
    long_word = "x" * 10_000
    for style, text, expected in (
        (AUTO_STYLE, lines, "10 words, 0 unknown (0.0%)"),
        (
            AS_TOKENISED,
            lines,
            "10 words, 2 unknown (20.0%). 'dog,' is unknown, but 'dog ,' is known:"
            " use punctuation='auto' and contractions='auto'",
        ),
        (AUTO_STYLE, ["xyzzy xyzzy plugh cat"], "4 words, 3 unknown (75.0%). Most frequent: xyzzy, plugh. The"),
        (AUTO_STYLE, [long_word], f"1 words, 1 unknown (100.0%). Most frequent: {'x' * 40} .... The surprisal"),
    ):
        unknown = ReadingSummary(stored, style)
        options = ScoreOptions(punctuation=style.punctuation, contractions=style.contractions)
        for rows in surprisals(stored, text, options):
            unknown.add(rows)
        assert str(unknown).startswith(expected)
        assert str(unknown) == expected or "Most frequent" in expected


def test_the_numbers_of_unknown_words_agree_with_the_warning_which_counts_words_with_letters():
    stored, lines = fresh("lstm"), ["the glorfle sees 😀 zxqv .", "a blorp 👍🏽 12 sees"]
    with pytest.warns(InputWarning, match=r"^3 of 7 words with letters \(43%\) are not in the vocabulary"):
        warn_of_doubts(TextReader.of(stored.normaliser, stored.vocabulary, AUTO_STYLE), lines)
    summary = ReadingSummary(stored, AUTO_STYLE)
    for rows in surprisals(stored, lines, ScoreOptions()):
        summary.add(rows)
    assert str(summary).startswith("11 words, 5 unknown (45.5%), 2 of them without letters. Most frequent: ")
    words = pandas.DataFrame({"word": " ".join(lines).split()})
    with pytest.warns(InputWarning, match="3 of 7 words with letters"):
        summarised = word_table(stored, words).summary
    assert summarised.startswith("2 sentences, 11 words, 5 unknown (45.5%), 2 of them without letters: glorfle, 😀")


def test_what_a_model_does_not_read_or_distinguish_is_reported():
    stored = fresh("lstm")
    dropping = replace(stored.settings, normaliser=NormaliserSettings(drop_punctuation=True))
    stored = replace(stored, settings=dropping)
    unknown = ReadingSummary(stored, AUTO_STYLE)
    for rows in surprisals(stored, ["the cat, sees", "the dog", "the cat sees -", "the cat, sees"], ScoreOptions()):
        unknown.add(rows)
    assert str(unknown) == (
        "11 words, 0 unknown (0.0%), 3 not read (, -). Sentence 3 cannot be distinguished from another one, such as"
        " sentence 1"
    )


def test_carried_state_of_a_model_of_single_sentences_warns():
    with pytest.warns(InputWarning, match="trained on single sentences and now carries its state"):
        surprisals(fresh("lstm"), LINES, ScoreOptions(context="carry"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        surprisals(fresh("lstm", STREAM), LINES, ScoreOptions(context="carry"))
        surprisals(fresh("lstm"), LINES)


def test_measures_are_attributes_and_errors_say_how_to_ask_for_them():
    (words,) = surprisals(fresh("lstm"), ["the cat"], ScoreOptions(measures=["entropy"]))
    assert [word.entropy for word in words] == [word.measures["entropy"] for word in words]
    assert pickle.loads(pickle.dumps(words[0])) == copy.copy(words[0]) == words[0]
    with pytest.raises(AttributeError, match=r"^rank: not computed; expected measures=\['rank'\] in the call"):
        words[0].rank  # noqa: B018
    with pytest.raises(AttributeError, match="'WordSurprisal' object has no attribute 'entrpy'"):
        words[0].entrpy  # noqa: B018
    with pytest.raises(InputError, match=r"^measures: found 'entrpy'; expected .*\. Did you mean entropy\?$"):
        ScoreOptions(measures=["entrpy"])
