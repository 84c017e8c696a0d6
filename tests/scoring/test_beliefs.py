"""Measures of a grammar's beliefs about the tree after each word."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from syntaxlm.core.errors import InputError
from syntaxlm.data.corpora import EncodedCorpus
from syntaxlm.models.abilities import HasTreeBeliefs
from syntaxlm.models.registry import model_types_with
from syntaxlm.scoring.beliefs import BeliefReader
from syntaxlm.scoring.options import BELIEF_MEASURES, ScoreOptions
from syntaxlm.scoring.surprisal import surprisals
from syntaxlm.storage.bundled import bundled_folder
from syntaxlm.storage.folder import ModelBundle, ModelSettings, read_model
from syntaxlm.text.normaliser_settings import NormaliserSettings
from tests.fresh_models import fresh
from tests.grammar_models import grammar

LINES = ["the old cat sees a dog", "cat", "the dog", "", "a cat sleeps", "the old cat sees a dog"]
ALL = ScoreOptions(measures=sorted(BELIEF_MEASURES))

every_type = pytest.mark.parametrize("name", model_types_with(HasTreeBeliefs))


@every_type
def test_lexical_and_structural_surprisal_add_up_to_the_surprisal_of_every_word_and_end(name):
    for words in surprisals(grammar(name), LINES, ALL):
        for word in words:
            parts = word.measures["lexical_surprisal"], word.measures["structural_surprisal"]
            assert min(parts) > -1e-9
            assert sum(parts) == pytest.approx(word.surprisal, abs=1e-9)
        assert not words or words[-1].measures["lexical_surprisal"] == 0


@every_type
def test_sentences_read_together_have_the_beliefs_of_each_alone(name):
    stored = grammar(name)
    for line, words in zip(LINES, surprisals(stored, LINES, ALL), strict=True):
        (alone,) = surprisals(stored, [line], ALL)
        assert [word.measures for word in words] == [pytest.approx(word.measures, abs=1e-9) for word in alone]


def test_probabilities_of_spans_of_few_sentences_are_in_memory_together(monkeypatch):
    stored = grammar("simple-pcfg")
    expected = list(surprisals(stored, LINES, ALL))
    sizes = []
    tree_beliefs = type(stored.model).tree_beliefs

    def counted(model, sentences, *options):
        sizes.append(len(sentences))
        return tree_beliefs(model, sentences, *options)

    monkeypatch.setattr(type(stored.model), "tree_beliefs", counted)
    monkeypatch.setattr("syntaxlm.scoring.beliefs._SPANS_TOGETHER", 30)
    for found, words in zip(surprisals(stored, LINES, ALL), expected, strict=True):
        assert [word.measures for word in found] == [pytest.approx(word.measures, abs=1e-9) for word in words]
    assert sizes == [2, 1, 1]


def test_after_the_first_word_the_sentence_may_be_this_word():
    """Then it has no constituents: expectations are those of a grammar without such sentences, times the rest."""
    without, shared = grammar("simple-pcfg", one_word_share=0.0), grammar("simple-pcfg", one_word_share=0.4)
    (expected,), (found,) = (surprisals(stored, ["the old cat"], ALL) for stored in (without, shared))
    word = 2 ** -expected[0].surprisal * 0.6
    more = word / (word + 0.4 / len(shared.model.unigrams))
    for name in ("expected_open", "expected_depth", "low_attachment"):
        assert found[0].measures[name] == pytest.approx(more * expected[0].measures[name])
        assert found[1].measures[name] == pytest.approx(expected[1].measures[name])
    assert found[1].measures["structural_surprisal"] == pytest.approx(
        expected[1].measures["structural_surprisal"] - np.log2(more)
    )


def test_words_of_several_tokens_add_up_and_ends_are_in_no_constituent():
    stored = grammar("simple-pcfg")
    settings = ModelSettings(stored.settings.model, NormaliserSettings(splitting="punctuation"))
    stored = ModelBundle(stored.model, settings, stored.vocabulary)
    options = dataclasses.replace(ALL, punctuation="keep")
    together, apart = (next(iter(surprisals(stored, [line], options))) for line in ("the old, cat", "the old , cat"))
    for name in ("belief_update", "belief_update_kl", "expected_ended", "lexical_surprisal"):
        assert together[1].measures[name] == pytest.approx(apart[1].measures[name] + apart[2].measures[name])
    assert together[1].measures["expected_open"] == pytest.approx(apart[2].measures["expected_open"])
    assert together[1].measures["expected_depth"] == pytest.approx(apart[1].measures["expected_depth"])
    assert together[-1].measures["expected_depth"] is None
    assert together[-1].measures["belief_update"] > 0
    assert together[0].measures["derivation_entropy_reduction"] is None


def test_the_reduction_of_an_infinite_entropy_is_missing():
    """As of a grammar whose derivations need not end; the end of the sentence ends them."""
    stored = grammar("simple-pcfg")
    corpus = EncodedCorpus.from_sentences([stored.vocabulary.encode(["the", "cat"])])
    reader = BeliefReader(stored.model, stored.vocabulary, stored.name)
    (found,) = reader.measures(corpus, ["derivation_entropy_reduction"]).values()
    infinite = dataclasses.replace(found.beliefs, entropies=np.array([np.inf, np.inf, 3.0]))
    measures = [dataclasses.replace(found, beliefs=infinite).of_tokens(place, place + 1) for place in range(3)]
    assert [of_word["derivation_entropy_reduction"] for of_word in measures] == [None, None, np.inf]


def test_a_line_continues_the_given_words():
    stored = grammar("simple-pcfg")
    (whole,) = surprisals(stored, ["the old cat sleeps"], ALL)
    (rest,) = surprisals(stored, ["cat sleeps"], ScoreOptions(measures=ALL.measures, given="the old"))
    assert [word.measures for word in rest] == [pytest.approx(word.measures) for word in whole[2:]]


def test_models_without_beliefs_and_streams_are_refused():
    with pytest.raises(
        InputError, match=r"so the measure belief_update cannot use it. Model types that can: .*simple-pcfg"
    ):
        list(surprisals(fresh("lstm"), LINES, ScoreOptions(measures=["belief_update"])))
    with pytest.raises(InputError, match='measure expected_open: found with the context "carry"'):
        ScoreOptions(measures=["expected_open"], context="carry")


def test_the_beliefs_of_a_combination_are_those_of_its_grammar_which_reads_no_marks():
    """The grammar in `en` is `en-fast`, which drops the comma that the language model of `en` reads."""
    own, grammars = (
        next(iter(surprisals(read_model(bundled_folder(name)), ["The old , man the boats ."], ALL)))
        for name in ("en", "en-fast")
    )
    assert [word.measures["belief_update"] for word in own if word.token in (",", ".")] == [None, None]
    read = [word.measures for word in own if word.token not in (",", ".")]
    expected = [word.measures for word in grammars if word.token]
    for name in ALL.measures:
        values, others = ([np.nan if row[name] is None else row[name] for row in rows] for rows in (read, expected))
        assert values == pytest.approx(others, rel=1e-5, abs=1e-6, nan_ok=True)


def test_what_no_measure_asks_for_is_not_computed(monkeypatch):
    stored = grammar("simple-pcfg")
    (expected,) = surprisals(stored, ["the old cat"], ALL)
    monkeypatch.setattr("syntaxlm.ops.inside.incremental._Chart._spans", None)
    monkeypatch.setattr("syntaxlm.models.pcfg.beliefs.derivation_entropies", None)
    (found,) = surprisals(stored, ["the old cat"], ScoreOptions(measures=["expected_open", "lexical_surprisal"]))
    assert found[1].measures["expected_open"] == pytest.approx(expected[1].measures["expected_open"])


def test_a_model_that_knows_ended_constituents_only_has_the_measures_of_these_and_refuses_others():
    stored = fresh("tree-transformer")
    line = "the old cat sees"
    (words,) = surprisals(
        stored, [line], ScoreOptions(measures=["belief_update", "belief_update_kl", "expected_ended"])
    )
    (beliefs,) = stored.model.span_beliefs([stored.vocabulary.encode(line.split())])
    ended = [word.measures["expected_ended"] for word in words]
    assert ended[:-1] == pytest.approx([beliefs[last, :, last].sum() for last in range(4)])
    assert [word.measures["belief_update"] for word in words[:2]] == [0, 0]
    assert words[2].measures["belief_update_kl"] > 0
    with pytest.raises(
        InputError, match="expected_open: a tree-transformer model does not have this measure; expected b"
    ):
        list(surprisals(stored, [line], ScoreOptions(measures=["expected_open"])))
