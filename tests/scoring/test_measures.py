"""Measures beside surprisal: entropy, rank, next words, prefixes, and sentences that continue a given beginning."""

from __future__ import annotations

import math

import pytest
import torch

from syntaxlm.core.errors import InputError
from syntaxlm.models.abilities import PredictsNextToken
from syntaxlm.models.batches import TokenBatch
from syntaxlm.scoring.options import ScoreOptions
from syntaxlm.scoring.surprisal import SURPRISALS, surprisals, word_columns
from tests.fresh_models import OPEN, fresh
from tests.models.variants import TOKEN_SCORERS, names_with

LINES = ["the old dog sees a cat .", "", "cat", "xyzzy the plugh", " a  dog ", "the cat sees the cat , the dog"]
ALL = ("entropy", "entropy_reduction", "rank", "prefix_surprisal")
every_predictor = pytest.mark.parametrize("name", names_with(PredictsNextToken, among=list(TOKEN_SCORERS)))


def distributions_by_hand(stored, words):
    """The distribution before each word of a sentence and before its end: (n + 1, V), from its whole beginning."""
    read = [stored.vocabulary.begin_id, *stored.vocabulary.encode(words)]
    rows = []
    for end in range(1, len(read) + 1):
        tokens = torch.tensor(read[:end])[:, None]
        rows.append(stored.model.next_log_probs(TokenBatch(tokens, tokens))[0][0])
    return torch.stack(rows)


@every_predictor
def test_measures_are_those_of_the_distribution_before_the_word(name):
    stored = fresh(name)
    options = ScoreOptions(measures=ALL, next_words=2)
    for line, words in zip(LINES, surprisals(stored, LINES, options), strict=True):
        if not words:
            continue
        expected = distributions_by_hand(stored, line.split())
        entropies = torch.special.entr(expected.exp()).sum(1) / math.log(2)
        targets = [*stored.vocabulary.encode(line.split()), stored.vocabulary.end_id]
        for place, (word, target) in enumerate(zip(words, targets, strict=True)):
            found, row = word.measures, expected[place]
            assert word.surprisal == pytest.approx(-row[target].item() / math.log(2), abs=1e-6)
            assert found["entropy"] == pytest.approx(entropies[place].item(), abs=1e-5)
            assert found["rank"] == 1 + sum(other > row[target] for other in row)
            best = [part.rsplit(" ", 1) for part in found["next_words"].split("; ")]
            shares = [float(share) for _, share in best]
            assert shares == pytest.approx(row.exp().sort(descending=True).values[:2].tolist(), rel=1e-3)
            if place < len(words) - 1:
                reduction = (entropies[place] - entropies[place + 1]).item()
                assert found["entropy_reduction"] == pytest.approx(reduction, abs=1e-5)
        assert words[-1].measures["entropy_reduction"] is None
        sums = [sum(word.surprisal for word in words[: place + 1]) for place in range(len(words))]
        assert [word.measures["prefix_surprisal"] for word in words] == pytest.approx(sums)


@every_predictor
def test_sentences_of_any_order_and_number_have_the_same_measures(name):
    stored, options = fresh(name), ScoreOptions(measures=ALL, next_words=1)
    together = list(surprisals(stored, LINES * 2, options))
    for number, line in enumerate(LINES * 2):
        (alone,) = surprisals(stored, [line], options)
        for word, expected in zip(together[number], alone, strict=True):
            assert word.measures["entropy"] == pytest.approx(expected.measures["entropy"], abs=1e-5)


@pytest.mark.parametrize("name", ["lstm", "on-lstm", "ngram"])
def test_a_stream_is_predicted_from_all_that_was_read(name):
    stored = fresh(name)
    reset = list(surprisals(stored, LINES, ScoreOptions(measures=["entropy", "rank"])))
    with pytest.warns(match="carries its state"):
        carried = list(surprisals(stored, LINES, ScoreOptions(measures=["entropy", "rank"], context="carry")))
    assert carried[0][0].measures["entropy"] == pytest.approx(reset[0][0].measures["entropy"], abs=1e-5)
    assert all(word.measures["rank"] >= 1 for words in carried for word in words)
    # The rank is that of a distribution in which the word has the probability of its surprisal.
    for word in carried[3]:
        assert word.measures["rank"] <= 2**word.surprisal + 1e-6


def test_a_word_of_several_tokens_has_the_measures_of_its_first():
    stored = fresh("lstm", splitting="punctuation")
    options = ScoreOptions(measures=["entropy", "rank"], punctuation="keep")
    (together,) = surprisals(stored, ["the dog."], options)
    (apart,) = surprisals(stored, ["the dog ."], options)
    assert [word.word for word in together] == ["the", "dog.", ""]
    assert together[1].measures == pytest.approx(apart[1].measures)
    assert together[1].surprisal == pytest.approx(apart[1].surprisal + apart[2].surprisal)
    assert together[2].measures == pytest.approx(apart[3].measures)


def test_the_last_word_without_a_predicted_end_reduces_no_entropy():
    (words,) = surprisals(fresh("lstm", OPEN), ["the cat"], ScoreOptions(measures=ALL))
    assert [word.measures["entropy_reduction"] is None for word in words] == [False, True]


def test_words_that_are_dropped_have_no_measures():
    stored = fresh("lstm", drop_words=("a",))
    (words,) = surprisals(stored, ["the a cat"], ScoreOptions(measures=ALL, next_words=3))
    assert set(words[1].measures.values()) == {None}
    assert None not in words[0].measures.values()


@pytest.mark.parametrize("name", ["lstm", "simple-pcfg"])
def test_a_given_beginning_is_read_but_has_no_rows(name):
    stored = fresh(name)
    options = ScoreOptions(given="the old dog", measures=["entropy", "prefix_surprisal"])
    (words,) = surprisals(stored, ["sees a cat"], options)
    (whole,) = surprisals(stored, ["the old dog sees a cat"], ScoreOptions(measures=["entropy"]))
    assert [word.word for word in words] == ["sees", "a", "cat", ""]
    assert [(word.position, word.begin) for word in words] == [(1, 0), (2, 5), (3, 7), (4, 10)]
    assert [word.surprisal for word in words] == pytest.approx([word.surprisal for word in whole[3:]])
    assert words[0].measures["entropy"] == pytest.approx(whole[3].measures["entropy"])
    assert words[0].measures["prefix_surprisal"] == pytest.approx(words[0].surprisal)


@pytest.mark.parametrize("space", ["_", None])
def test_a_text_of_characters_continues_a_given_beginning_after_white_space(space):
    stored = fresh("lstm", units="characters", space=space)
    (words,) = surprisals(stored, ["cat"], ScoreOptions(given=" the "))
    (whole,) = surprisals(stored, ["the cat"])
    assert [word.token for word in words] == ["c", "a", "t", "</s>"]
    assert [word.surprisal for word in words] == pytest.approx([word.surprisal for word in whole[-4:]])


def test_a_given_beginning_is_that_of_sentences_that_are_read_by_themselves():
    with pytest.raises(InputError, match='given: found with the context "carry"'):
        ScoreOptions(given="the", context="carry")


def test_columns_are_in_a_fixed_order_and_each_measure_once():
    options = ScoreOptions(measures=["rank", "entropy", "rank"], next_words=1)
    assert list(word_columns(options))[len(SURPRISALS) :] == ["entropy", "rank", "next_words"]
    (words,) = surprisals(fresh("lstm"), ["the cat"], options)
    assert list(words[0].row()) == list(word_columns(options))
    assert isinstance(words[0].to_dict()["entropy"], float)


def test_wrong_measures_are_refused():
    with pytest.raises(InputError, match=r"measures: found .*; expected a list of: entropy, entropy_reduction"):
        ScoreOptions(measures=["surprise"])
    with pytest.raises(InputError, match="next_words: found -1"):
        ScoreOptions(next_words=-1)
