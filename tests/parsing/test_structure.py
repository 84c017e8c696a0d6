"""The structure of sentences, computed in batches, and its decoders."""

from __future__ import annotations

import dataclasses
import random

import numpy as np
import pytest
import torch

from syntaxlm.core.errors import InputError
from syntaxlm.models.abilities import Model
from syntaxlm.models.batches import TokenBatch
from syntaxlm.models.structures import SpanScores
from syntaxlm.parsing import structure
from syntaxlm.parsing.structure import layers_for, rules_for, rules_of, structure_of
from syntaxlm.trees.decoding import DECODING_RULES, SPAN_RULES, decode, decode_spans
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
            expected = stored.model.structure(TokenBatch(ids, ids)).values[:, 0]
        chart = scores.chart(index)
        for last in range(len(sentence)):
            # The step of word `last` is one later because of BOS; the step after it is one more.
            shares = expected[last + 2, : last + 1].log_softmax(0).flip(0)
            np.testing.assert_allclose(expected[last + 2, : last + 1].flip(0), shares, rtol=0, atol=1e-6)
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
    of_batch = stored.model.structure
    monkeypatch.setattr(stored.model, "structure", lambda batch: read.append(batch.tokens.shape) or of_batch(batch))
    monkeypatch.setattr(structure, "SPAN_BUDGET", 200)
    sentences = [["cat"] * length for length in [1] * 50 + [2] * 9 + [8] * 3 + [30]]
    structure_of(stored, sentences)
    assert sum(columns for _, columns in read) == len(sentences)
    assert all(steps**2 * columns <= 200 or columns == 1 for steps, columns in read)
    assert max(columns for _, columns in read) > 10


def test_a_model_without_scores_of_all_lengths_is_reported(monkeypatch):
    stored = scoring()
    of_batch = stored.model.structure
    monkeypatch.setattr(stored.model, "structure", lambda batch: SpanScores(of_batch(batch).values[..., :4]))
    structure_of(stored, [["cat"] * 4])
    with pytest.raises(ValueError, match="scores of spans of up to 4 words, expected those of up to 5"):
        structure_of(stored, [["cat"] * 5])


@pytest.mark.parametrize("kind", ["distances", "spans"])
def test_a_model_is_read_once_for_all_decoders_and_layers(monkeypatch, kind):
    stored, readings = scoring() if kind == "spans" else layered(), []
    of_batch = stored.model.structure
    monkeypatch.setattr(stored.model, "structure", lambda batch: readings.append(batch) or of_batch(batch))
    found = structure_of(stored, SENTENCES)
    assert len(readings) == 1
    if kind == "spans":
        assert rules_of(stored.model) == SPAN_RULES
        assert found.distances.shape == (0, sum(map(len, SENTENCES)))
        for rule in SPAN_RULES:
            assert np.array_equal(found.decode(rule).starts, decode_spans(found.span_scores, rule).starts)
        return
    assert rules_of(stored.model) == DECODING_RULES
    assert found.span_scores is None
    for layer in (1, 2, 3):
        for rule in DECODING_RULES:
            expected = decode(found.distances[layer - 1], found.lengths, rule)
            assert np.array_equal(found.decode(rule, layer).starts, expected.starts)


def test_the_decoders_of_a_model_are_those_of_its_structure_and_the_first_is_the_default():
    assert rules_of(fresh("prpn").model) == DECODING_RULES == ("biased", "unbiased")
    assert rules_of(scoring().model) == SPAN_RULES == ("greedy-right", "greedy-sum", "cky")
    assert rules_of(fresh("lstm").model) == rules_of(Model()) == ()
    prpn, spans = fresh("prpn"), scoring()
    assert rules_for([prpn, spans, prpn], None) == ("biased", "greedy-right", "biased")
    assert rules_for([prpn, spans], "unbiased") == ("unbiased", "greedy-right")
    assert rules_for([prpn, spans], "cky") == ("biased", "cky")


def test_an_unknown_decoder_is_reported_with_those_of_the_models():
    prpn, spans = fresh("prpn"), scoring()
    with pytest.raises(InputError, match=r"^decoder cky: prpn models have biased, unbiased$"):
        rules_for([prpn, prpn], "cky")
    with pytest.raises(InputError, match=r"^decoder biased: lstm models have greedy-right, greedy-sum, cky$"):
        rules_for([spans], "biased")
    with pytest.raises(InputError, match=r"^decoder best: prpn models have biased, unbiased; lstm models have greedy"):
        rules_for([prpn, spans], "best")
    with pytest.raises(InputError, match="this lstm model does not parse, so parsing cannot use it"):
        rules_for([prpn, fresh("lstm")], None)


def test_layers_are_of_distances_alone():
    three, spans = layered(), scoring()
    assert layers_for([three, spans], None) == (2, 1)
    assert layers_for([three, spans], 3)[0] == 3
    with pytest.raises(InputError, match="layer 4: the model has distances of layers 1 to 3"):
        layers_for([spans, three], 4)
    with pytest.raises(InputError, match="layer 1: no model has distances"):
        layers_for([spans, dataclasses.replace(spans)], 1)
