"""The structure of sentences, computed in batches, and its decoders."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch

from syntaxlm.core.errors import InputError
from syntaxlm.models.batches import TokenBatch
from syntaxlm.models.structures import SpanScores
from syntaxlm.parsing import structure
from syntaxlm.parsing.options import DecodingOptions
from syntaxlm.parsing.structure import decodings, structure_of
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
    scores, vocabulary = structure_of(stored, SENTENCES).table, stored.vocabulary
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
    expected = structure_of(stored, SENTENCES).table
    monkeypatch.setattr(structure, "TOKEN_BUDGET", tokens)
    monkeypatch.setattr(structure, "SPAN_BUDGET", spans)
    order = random.Random(1).sample(range(len(SENTENCES)), len(SENTENCES))
    found = structure_of(stored, [SENTENCES[place] for place in order]).table
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
        assert stored.model.decoders == SPAN_RULES
        for rule in SPAN_RULES:
            assert np.array_equal(found.decode(rule).starts, decode_spans(found.table, rule).starts)
        return
    assert stored.model.decoders == DECODING_RULES
    for layer in (1, 2, 3):
        for rule in DECODING_RULES:
            expected = decode(found.values[layer - 1], found.lengths, rule)
            assert np.array_equal(found.decode(rule, layer).starts, expected.starts)


def test_the_decoders_of_a_model_are_those_of_its_structure_and_the_first_is_the_default():
    assert fresh("prpn").model.decoders == DECODING_RULES == ("biased", "unbiased")
    assert scoring().model.decoders == SPAN_RULES == ("greedy-right", "greedy-sum", "cky")


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, [("biased", 2), ("greedy-right", 1)]),
        ({"decoder": "unbiased"}, [("unbiased", 2), ("greedy-right", 1)]),
        ({"decoder": "cky", "layer": 3}, [("biased", 3), ("cky", 1)]),
    ],
)
def test_models_without_the_decoder_or_layer_use_their_defaults(options, expected):
    assert decodings([layered(), scoring()], DecodingOptions(**options)) == expected


@pytest.mark.parametrize(
    ("models", "options", "message"),
    [
        (
            ["prpn", "prpn"],
            {"decoder": "cky"},
            "^decoder: found 'cky'; expected biased, unbiased",
        ),
        (
            ["spans"],
            {"decoder": "biased"},
            "^decoder: found 'biased'; expected greedy-right, greedy-sum, cky",
        ),
        (
            ["prpn", "spans"],
            {"decoder": "mbr"},
            "^decoder: found 'mbr'; expected biased, unbiased .prpn models. or g",
        ),
        (["prpn", "lstm"], {}, "this lstm model with these settings does not parse, so parsing cannot use it"),
        (["spans", "layered"], {"layer": 4}, "layer: found 4; expected 1 to 3"),
        (["spans", "spans"], {"layer": 1}, "layer: found 1, but no model has distances"),
    ],
)
def test_decoders_and_layers_that_no_model_has_are_refused(models, options, message):
    made = {"spans": scoring, "layered": layered}
    with pytest.raises(InputError, match=message):
        decodings([made[name]() if name in made else fresh(name) for name in models], DecodingOptions(**options))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"decoder": "best"}, r"^decoder: found 'best'; expected biased, .* or heads-binary-left$"),
        *(({"layer": layer}, f"layer: found {layer!r}; expected an integer from 1 to 100") for layer in (0, -1, "1")),
    ],
)
def test_values_that_no_model_can_have_are_refused(options, message):
    with pytest.raises(InputError, match=message):
        DecodingOptions(**options)
