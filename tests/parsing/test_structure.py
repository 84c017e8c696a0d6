"""What models say of sentences, read in batches, and which rules make trees of it."""

from __future__ import annotations

import dataclasses
import random

import numpy as np
import pytest
import torch

from syntaxlm.errors import InputError
from syntaxlm.models.batches import LanguageModel, Syntax, TokenBatch
from syntaxlm.parsing import structure
from syntaxlm.parsing.structure import RULES, layers_for, rules_for, rules_of, structure_of
from syntaxlm.trees import DECODING_RULES, decode
from syntaxlm.trees.span_decoding import SPAN_RULES, decode_spans
from tests.fresh_models import fresh, layered
from tests.parsing.span_models import NAMES, scoring

SENTENCES = [
    text.split()
    for text in ("the old cat sees a dog .", "dog", "cat , the old N sees", "a dog", "a b c d e f g h i j k l", "! !")
]


@pytest.mark.parametrize("name", NAMES)
def test_the_score_of_a_span_is_its_share_of_the_step_after_it_reading_the_sentence_alone(name):
    stored = scoring(name)
    scores, vocabulary = structure_of(stored, SENTENCES).span_scores, stored.vocabulary
    assert scores.lengths.tolist() == [len(sentence) for sentence in SENTENCES]
    for index, sentence in enumerate(SENTENCES):
        ids = torch.tensor([vocabulary.begin_id, *vocabulary.encode(sentence), vocabulary.end_id])[:, None]
        with torch.no_grad():
            expected = stored.model.syntax(TokenBatch(ids, ids)).span_scores[:, 0]
        chart = scores.chart(index)
        for last in range(len(sentence)):
            # The step of word `last` is one later, for begin comes first; the step after it one more.
            shares = expected[last + 2, : last + 1].log_softmax(0).flip(0)
            np.testing.assert_allclose(chart[: last + 1, last], shares.numpy(), rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("tokens", "spans"), [(1, 1 << 17), (1 << 15, 1), (1 << 15, 150), (40, 250)])
def test_neither_company_nor_order_nor_budget_changes_a_score(name, monkeypatch, tokens, spans):
    stored = scoring(name)
    expected = structure_of(stored, SENTENCES).span_scores
    monkeypatch.setattr(structure, "TOKEN_BUDGET", tokens)
    monkeypatch.setattr(structure, "SPAN_BUDGET", spans)
    order = random.Random(1).sample(range(len(SENTENCES)), len(SENTENCES))
    found = structure_of(stored, [SENTENCES[place] for place in order]).span_scores
    for index, place in enumerate(order):
        np.testing.assert_allclose(found.chart(index), expected.chart(place), rtol=0, atol=1e-5)


def test_no_batch_has_more_spans_than_the_budget(monkeypatch):
    stored, read = scoring(), []
    syntax = stored.model.syntax
    monkeypatch.setattr(stored.model, "syntax", lambda batch: read.append(batch.tokens.shape) or syntax(batch))
    monkeypatch.setattr(structure, "SPAN_BUDGET", 200)
    sentences = [["cat"] * length for length in [1] * 50 + [2] * 9 + [8] * 3 + [30]]
    structure_of(stored, sentences)
    assert sum(columns for _, columns in read) == len(sentences)
    assert all(steps**2 * columns <= 200 or columns == 1 for steps, columns in read)
    assert max(columns for _, columns in read) > 10


def test_a_model_that_does_not_give_all_lengths_is_told(monkeypatch):
    stored = scoring()
    syntax = stored.model.syntax
    monkeypatch.setattr(stored.model, "syntax", lambda batch: Syntax(span_scores=syntax(batch).span_scores[..., :4]))
    structure_of(stored, [["cat"] * 4])
    with pytest.raises(ValueError, match="scores of spans of up to 4 words, expected those of up to 5"):
        structure_of(stored, [["cat"] * 5])


def test_a_model_that_says_both_has_the_rules_of_both_and_is_read_once(monkeypatch):
    stored, readings = scoring(both=True), []
    syntax = stored.model.syntax
    monkeypatch.setattr(stored.model, "syntax", lambda batch: readings.append(batch) or syntax(batch))
    said = structure_of(stored, SENTENCES)
    assert len(readings) == 1
    assert rules_of(stored.model) == RULES
    for layer in (1, 2):
        for rule in DECODING_RULES:
            expected = decode(said.distances[layer - 1], said.lengths, rule)
            assert np.array_equal(said.decode(rule, layer).starts, expected.starts)
    for rule in SPAN_RULES:
        assert np.array_equal(said.decode(rule).starts, decode_spans(said.span_scores, rule).starts)


def test_the_rules_of_a_model_are_those_of_what_it_says_and_the_first_is_its_default():
    assert rules_of(fresh("prpn").model) == DECODING_RULES == ("biased", "unbiased")
    assert rules_of(scoring().model) == SPAN_RULES == ("greedy-right", "greedy-sum", "cky")
    assert rules_of(LanguageModel()) == ()
    prpn, spans = fresh("prpn"), scoring()
    assert rules_for([prpn, spans, prpn], None) == ("biased", "greedy-right", "biased")
    assert rules_for([prpn, spans], "unbiased") == ("unbiased", "greedy-right")
    assert rules_for([prpn, spans], "cky") == ("biased", "cky")


def test_a_rule_that_no_model_has_is_told_with_those_they_have():
    prpn, spans = fresh("prpn"), scoring()
    with pytest.raises(InputError, match=r"^decoder total: a model of the kind 'prpn' has biased, unbiased$"):
        rules_for([prpn, prpn], "cky")
    with pytest.raises(InputError, match=r"^decoder biased: a model of the kind 'lstm' has right, sum, total$"):
        rules_for([spans], "biased")
    with pytest.raises(InputError, match=r"^decoder best: .*'prpn' has biased, unbiased; .*'lstm' has right, sum"):
        rules_for([prpn, spans], "best")
    with pytest.raises(InputError, match="'lstm' has no distances or span scores: it does not parse"):
        rules_for([prpn, fresh("lstm")], None)


def test_layers_are_of_distances_alone():
    three, spans = layered(), scoring()
    assert layers_for([three, spans], None) == (2, 1)
    assert layers_for([three, spans], 3)[0] == 3
    with pytest.raises(InputError, match="layer 4: the model has distances of layers 1 to 3"):
        layers_for([spans, three], 4)
    with pytest.raises(InputError, match="layer 1: trees of span scores are of no layer"):
        layers_for([spans, dataclasses.replace(spans)], 1)
