"""Probabilities of spans: order, decoding, labels, averages."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch

from syntaxlm.core.errors import InputError
from syntaxlm.models.abilities import LabelsSpans, Model, ParsesSentences
from syntaxlm.models.registry import MODELS, ModelType, model_types_with
from syntaxlm.models.structures import SpanMarginals
from syntaxlm.parsing import structure
from syntaxlm.parsing.options import DecodingOptions, ParseOptions
from syntaxlm.parsing.parse import parse_lines
from syntaxlm.parsing.structure import decodings, structure_of
from syntaxlm.storage.folder import structure_name
from syntaxlm.trees.averaging import average
from syntaxlm.trees.charts import spans_in
from syntaxlm.trees.spans import item_indices
from tests.fresh_models import fresh
from tests.parsing.span_models import Brackets, bracketing
from tests.trees.enumeration import all_binary_trees

SENTENCES = [
    text.split()
    for text in ("the old cat sees a dog .", "dog", "cat , the old N sees", "a dog", "a b c d e f g h i", "! ! !")
]

WORDS = sorted({word for sentence in SENTENCES for word in sentence})


def weights_of_trees(stored, sentence):
    """Returns the sum of the weights of the spans of two words or more, by tree."""
    model, tokens = stored.model, stored.vocabulary.encode(sentence)
    chart = model.weights(tokens)[:, 0]
    by_span = dict(zip(zip(*spans_in(len(tokens)), strict=True), chart, strict=True))
    return {tree: sum(by_span[span] for span in tree) for tree in all_binary_trees(0, len(tokens))}


def probability(stored, sentence, span):
    """Returns the probability of a span by enumeration of all trees."""
    weights = weights_of_trees(stored, sentence)
    powers = {tree: np.exp(weight) for tree, weight in weights.items()}
    return sum(power for tree, power in powers.items() if span in tree) / sum(powers.values())


def test_marginals_are_placed_by_first_and_last_word_and_are_1_for_single_words():
    stored, returned = bracketing(), []
    of_batch = stored.model.structure
    stored.model.structure = lambda batch: returned.append(of_batch(batch)) or returned[-1]
    found = structure_of(stored, SENTENCES, labels=False)
    assert all((one.values.diagonal(dim1=1, dim2=2) == 0).all() for one in returned), "the model's values stay"
    for index, sentence in enumerate(SENTENCES):
        chart = found.table.chart(index)
        for last in range(len(sentence)):
            assert chart[last, last] == 1
            for first in range(last):
                expected = probability(stored, sentence, (first, last + 1))
                assert chart[first, last] == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(("tokens", "spans"), [(1, 1 << 17), (1 << 15, 1), (1 << 15, 150), (40, 250)])
def test_neither_company_nor_order_nor_budget_changes_marginals_and_labels(monkeypatch, tokens, spans):
    stored = bracketing()
    expected = structure_of(stored, SENTENCES)
    monkeypatch.setattr(structure, "TOKEN_BUDGET", tokens)
    monkeypatch.setattr(structure, "SPAN_BUDGET", spans)
    order = random.Random(1).sample(range(len(SENTENCES)), len(SENTENCES))
    found = structure_of(stored, [SENTENCES[place] for place in order])
    for index, place in enumerate(order):
        assert np.array_equal(found.table.chart(index), expected.table.chart(place), equal_nan=True)
        own, others = (
            one.codes[item_indices(one.table.offsets, np.array([at]))]
            for one, at in ((found, index), (expected, place))
        )
        assert np.array_equal(own, others)
    for rule in ("mbr", "viterbi"):
        trees, others = found.labelled(rule).select(np.argsort(order)), expected.labelled(rule)
        assert [trees.sentence(i) for i in range(len(order))] == [others.sentence(i) for i in range(len(order))]
        assert np.array_equal(np.sort(trees.labels), np.sort(others.labels))


def test_mbr_gives_the_tree_with_the_greatest_sum_of_marginals_and_viterbi_the_most_probable_one():
    stored, differ = bracketing(), 0
    source = random.Random(3)
    sentences = [source.choices(WORDS, k=1 + number % 7) for number in range(60)]
    found = structure_of(stored, sentences)
    trees = {rule: found.decode(rule) for rule in ("mbr", "viterbi")}
    for index, sentence in enumerate(sentences):
        weights, chart = weights_of_trees(stored, sentence), found.table.chart(index)
        sums = {tree: sum(chart[start, end - 1] for start, end in tree) for tree in weights}
        mbr, viterbi = (frozenset(trees[rule].sentence(index)) for rule in ("mbr", "viterbi"))
        assert sums[mbr] == pytest.approx(max(sums.values()), abs=1e-6)
        assert weights[viterbi] == pytest.approx(max(weights.values()), abs=1e-9)
        differ += mbr != viterbi
    assert differ > 1


def test_the_most_probable_trees_are_computed_once_and_on_request():
    stored = bracketing()
    found = structure_of(stored, SENTENCES)
    found.decode("mbr")
    found.labelled("mbr")
    assert stored.model.viterbi_calls == 0
    found.decode("viterbi")
    calls = stored.model.viterbi_calls
    assert calls > 0
    found.labelled("viterbi")
    found.decode("viterbi")
    assert stored.model.viterbi_calls == calls


@pytest.mark.parametrize("rule", ["mbr", "viterbi"])
def test_labelled_trees_have_the_spans_of_the_rule_and_a_label_for_each_span_and_word(rule):
    stored = bracketing()
    found = structure_of(stored, SENTENCES)
    labelled, trees = found.labelled(rule), found.decode(rule)
    for index, sentence in enumerate(SENTENCES):
        ids = stored.vocabulary.encode(sentence)
        here = slice(*labelled.offsets[index : index + 2])
        spans = list(zip(labelled.starts[here].tolist(), labelled.ends[here].tolist(), strict=True))
        labels = [labelled.label_names[code] for code in labelled.labels[here]]
        assert labels == [Brackets.labels[stored.model.label(ids, start, end - 1)] for start, end in spans]
        singles = set() if len(ids) == 1 else {(place, place + 1) for place in range(len(ids))}
        assert len(spans) == len(set(spans))
        assert set(spans) == trees.sentence(index) | singles


def test_a_span_without_a_label_is_labelled_x_and_a_word_without_one_is_left_out():
    stored = bracketing()
    found = structure_of(stored, [["the", "cat"], ["dog"]])
    found.codes[:] = -1
    labelled = found.labelled("mbr")
    assert labelled.offsets.tolist() == [0, 1, 1]
    assert [labelled.label_names[code] for code in labelled.labels] == ["X"]


def test_models_without_labels_and_rules_of_other_structures_have_no_labelled_trees():
    with pytest.raises(ValueError, match="trees of the decoder mbr have no labels"):
        structure_of(bracketing(labelled=False), SENTENCES).labelled("mbr")
    with pytest.raises(ValueError, match="trees of the decoder cky have no labels"):
        structure_of(bracketing(), SENTENCES).labelled("cky")


class WithoutBestTrees(Model, ParsesSentences):
    """A model with the same structure that cannot find the most probable trees."""

    structure_type = SpanMarginals

    def structure(self, batch):
        raise NotImplementedError


def test_the_rules_of_a_model_are_mbr_and_where_it_finds_best_trees_viterbi():
    stored = bracketing()
    assert stored.model.decoders == ("mbr", "viterbi")
    assert WithoutBestTrees().decoders == ("mbr",)
    models = [fresh("prpn"), stored]
    assert decodings(models, DecodingOptions(decoder="viterbi")) == [("biased", 1), ("viterbi", 1)]
    with pytest.raises(InputError, match=r"^decoder: found 'cky'; expected mbr, viterbi"):
        decodings([stored], DecodingOptions(decoder="cky"))
    assert structure_name(stored.model) == "span probabilities"


def test_a_model_that_does_not_label_spans_is_refused_with_the_model_types_that_do(monkeypatch):
    assert list(parse_lines(bracketing(), ["the cat"], ParseOptions(labels=True)))
    monkeypatch.setitem(MODELS._registered, "brackets", ModelType(object, Brackets, Brackets))
    types = model_types_with(LabelsSpans)
    assert types == ["simple-pcfg", "holographic-pcfg", "tensor-pcfg", "neural-pcfg", "compound-pcfg", "brackets"]
    for stored in (fresh("palm"), fresh("lstm"), bracketing(labelled=False)):
        fault = (
            rf"^this {stored.name} model does not label spans, so parsing with labels cannot use it\."
            rf" Model types that can: {', '.join(types)}\.$"
        )
        with pytest.raises(InputError, match=fault):
            parse_lines(stored, ["the cat"], ParseOptions(labels=True))


def test_labels_are_computed_on_request():
    stored = bracketing()
    assert structure_of(stored, SENTENCES, labels=False).labels == ()
    assert structure_of(stored, SENTENCES).labels == tuple(Brackets.labels)


def test_an_average_takes_marginals_for_mbr_and_trees_for_other_decoders():
    found, distances = structure_of(bracketing(), SENTENCES), structure_of(fresh("prpn"), SENTENCES)
    assert found.averaging_input("mbr") is found.table
    for one, rule in ((found, "viterbi"), (distances, "biased")):
        trees, expected = one.averaging_input(rule), one.decode(rule)
        assert np.array_equal(trees.starts, expected.starts)
        assert np.array_equal(trees.ends, expected.ends)
    assert np.array_equal(average([found.averaging_input("mbr")]).starts, found.decode("mbr").starts)


def test_charts_that_are_too_small_are_refused(monkeypatch):
    stored = bracketing(labelled=False)
    monkeypatch.setattr(stored.model, "structure", lambda batch: SpanMarginals(torch.zeros(1, 2, 2)))
    with pytest.raises(ValueError, match=r"charts of shape \(1, 2, 2\), expected \(B, n, n\) for up to 3 words"):
        structure_of(stored, [["a", "b", "c"]])


def test_probabilities_of_nan_are_reported_with_the_sentence(monkeypatch):
    stored = bracketing(labelled=False)
    of_batch = stored.model.structure
    monkeypatch.setattr(stored.model, "structure", lambda batch: SpanMarginals(of_batch(batch).values / 0))
    with pytest.raises(InputError, match="sentence 1, words 1 to 2: the score of the span is"):
        structure_of(stored, [["a", "b", "c"]]).decode("mbr")
