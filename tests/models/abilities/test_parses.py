"""Models that parse: type and shape of the structure, independence of other sentences, and trees."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

from syntaxlm.models.abilities import FindsBestTrees, LabelsSpans, ParsesDependencies, ParsesSentences, ScoresTrees
from syntaxlm.models.backbone import NeuralModel
from syntaxlm.models.batches import TokenBatch
from syntaxlm.models.structures import Distances, Heads, SpanMarginals, SpanScores, SplitScores
from syntaxlm.parsing.structure import structure_of
from syntaxlm.trees.tree import DependencyTree
from tests.fresh_models import KNOWN, fresh
from tests.models.variants import (
    BOS,
    SENTENCE_VARIANTS,
    VARIANTS,
    WORDS,
    built,
    closed_sentences,
    every,
    marked,
    names_with,
    ragged,
    read,
)
from tests.parsing.span_models import bracketing
from tests.trees.faults import dependency_faults

BRACKETS = {"brackets": True, "brackets without labels": False}  # test models that give span probabilities
NAMES = [*names_with(ParsesSentences), *BRACKETS]
OF_MARGINALS = [name for name in NAMES if name in BRACKETS or built(name).structure_type is SpanMarginals]
OF_HEADS = [name for name in names_with(ParsesDependencies) if built(name).structure_type is Heads]
every_model = pytest.mark.parametrize("name", list(map(marked, NAMES)))
every_dependency_model = every(ParsesDependencies)
every_left_to_right_model = every(NeuralModel, ParsesSentences)
SENTENCES = [KNOWN["words"].split()[:length] for length in (1, 2, 3, 4, 6, 10)] + [["old"] * 7]


def parser(name):
    """A variant or a test model."""
    return bracketing(BRACKETS[name]).model if name in BRACKETS else built(name)


def real_values(structure, batch):
    """The values at real steps, (layers, n) or (n, m); of spans and heads, all values."""
    if isinstance(structure, SpanMarginals | Heads):
        return structure.values
    mask = batch.mask()
    return structure.values[:, mask] if isinstance(structure, Distances) else structure.values[mask]


@pytest.mark.parametrize("name", [marked(name) for name in NAMES if name not in (*OF_MARGINALS, *OF_HEADS)])
@pytest.mark.parametrize(("steps", "columns"), [(1, 1), (7, 3), (20, 2)])
def test_structure_has_the_type_and_shape_that_the_model_declares(name, steps, columns):
    model = built(name)
    found = model.structure(read(steps, columns))
    assert type(found) is model.structure_type
    if isinstance(found, Distances):
        assert model.distance_layers > 0
        assert 1 <= model.default_layer <= model.distance_layers
        assert found.values.shape == (model.distance_layers, steps, columns)
        assert torch.isfinite(found.values).all()
    else:
        assert model.distance_layers == 0
        assert found.values.shape[:2] == (steps, columns)
        assert found.values.shape[2] >= steps - 1, "spans of every length are scored"


@every_model
def test_padding_and_other_sentences_never_change_the_structure_of_a_sentence(name):
    lengths = (9, 7, 5, 3) if name in (*OF_MARGINALS, *OF_HEADS) else (9, 7, 5, 1)
    model, batch = parser(name), ragged(9, lengths)
    read = model.labelled_structure if isinstance(model, LabelsSpans) else model.structure
    structure = read(batch)
    together = structure.values
    for column, length in enumerate(batch.lengths.tolist()):
        part = slice(length), slice(column, column + 1)
        own = read(TokenBatch(batch.tokens[part], batch.targets[part]))
        alone = own.values
        if isinstance(model, LabelsSpans):
            assert torch.equal(structure.labels[column, : length - 2, : length - 2], own.labels[0])
        if issubclass(model.structure_type, Distances):
            found, expected = together[:, :length, column], alone[:, :, 0]
        elif model.structure_type is SpanMarginals:
            found, expected = together[column, : length - 2, : length - 2], alone[0]
        elif name in OF_HEADS:
            found, expected = together[column, : length - 2], alone[0]
        else:
            longest = alone.shape[2]
            found, expected = together[:length, column, :longest], alone[:, 0]
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)


@every_model
def test_results_do_not_depend_on_targets_or_padding(name):
    model, batch = parser(name), ragged()
    tokens = batch.tokens.masked_fill(~batch.mask(), BOS)
    other = dataclasses.replace(batch, tokens=tokens, targets=batch.tokens)
    found, expected = (real_values(model.structure(each), batch) for each in (other, batch))
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    "name",
    [name for name in names_with(ParsesSentences, among=list(VARIANTS)) if built(name).structure_type is SpanScores],
)
def test_span_scores_are_log_probabilities_among_the_spans_that_end_at_the_same_word(name):
    values = built(name).structure(read(8, 2)).values
    lengths = torch.arange(1, values.shape[2] + 1)
    for step in range(8):
        of_words = lengths <= step - 1  # token 0 is BOS
        assert (values[step][:, ~of_words] == -torch.inf).all()
        if of_words.any():
            sums = values[step].exp().sum(-1)
            torch.testing.assert_close(sums, torch.ones(2, dtype=torch.float64), rtol=0, atol=1e-12)


@every_left_to_right_model
def test_later_tokens_never_change_the_structure_before_them(name):
    model, batch = built(name), read(10, 2)
    tokens = batch.tokens.clone()
    tokens[6:] = (tokens[6:] + 1) % WORDS
    one, other = (model.structure(each).values for each in (batch, TokenBatch(tokens, batch.targets)))
    if issubclass(model.structure_type, SpanScores):
        torch.testing.assert_close(one[:6], other[:6], rtol=0, atol=1e-12)
        changes = (one[6:] - other[6:]).nan_to_num().abs().max()
        assert (changes > 1e-6) == (name != "palm, right-branching")
    else:
        torch.testing.assert_close(one[:, :6], other[:, :6], rtol=0, atol=1e-12)
        assert (one - other).abs().max() > 1e-6


@every_left_to_right_model
def test_structure_equals_that_of_a_full_forward_pass(name):
    """Distances that gate memory; scores of attended spans, without those that include BOS; scores of states."""
    model, batch = built(name), ragged(9, (9, 4, 1))
    read, alone = model.read(batch), model.structure(batch)
    if isinstance(alone, Distances):
        found, expected = alone.values[:, batch.mask()], read.distances[:, batch.mask()]
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)
        return
    if isinstance(alone, SplitScores):
        assert torch.equal(alone.values, SplitScores.of(read.tree_states, batch.lengths).values)
        return
    attention = read.maps.earlier_tokens["span attention"]
    for step, column in batch.mask().nonzero().tolist():
        words = min(step - 1, attention.shape[2], alone.values.shape[2])
        if words > 0:
            found = torch.log_softmax(alone.values[step, column, :words], dim=-1)
            expected = attention[step, column, :words].log().log_softmax(dim=-1)
            torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)


EVERY_LENGTHS = pytest.mark.parametrize("lengths", [(5, 3, 2, 1), (4,), (1, 1), (2, 0)], ids=str)


@pytest.mark.parametrize("name", list(map(marked, OF_MARGINALS)))
@EVERY_LENGTHS
def test_marginals_are_probabilities_of_spans_that_add_up_to_those_of_a_binary_tree(name, lengths):
    lengths = [max(length, int(name in BRACKETS)) for length in lengths]  # test models need words
    model, batch = parser(name), closed_sentences(tuple(lengths))
    found = model.structure(batch)
    assert type(found) is model.structure_type is SpanMarginals
    assert model.distance_layers == 0
    assert found.values.shape == (len(lengths), max(lengths), max(lengths))
    assert not found.values.requires_grad
    labelled = model.labelled_structure(batch) if isinstance(model, LabelsSpans) else None
    assert labelled is None or torch.equal(labelled.values, found.values)
    for column, length in enumerate(lengths):
        spans = torch.zeros(max(lengths), max(lengths), dtype=torch.bool)
        spans[:length, :length] = True
        spans, values = spans.triu(), found.values[column].double()
        assert not values[~spans.triu(1)].any(), "single words are no spans here"
        assert ((values >= 0) & (values <= 1 + 1e-5)).all()
        assert float(values.sum()) == pytest.approx(max(0, length - 1), rel=1e-5)
        assert length < 2 or float(values[0, length - 1]) == pytest.approx(1, rel=1e-5)
        if labelled is not None:
            labels = labelled.labels[column]
            assert labels.dtype == torch.int64
            assert (labels[~spans] == -1).all()
            assert (labels[spans] < len(model.labels)).all()
            assert length < 2 or (labels[spans] >= 0).all()
            assert len(set(model.labels)) == len(model.labels)


@every_dependency_model
def test_the_heads_of_a_corpus_are_projective_trees(name):
    heads = structure_of(dataclasses.replace(fresh("lstm"), model=built(name)), SENTENCES).word_values(1)["heads"]
    for sentence in SENTENCES:
        own, heads = heads[: len(sentence)], heads[len(sentence) :]
        blank = ("",) * len(sentence)
        assert dependency_faults(DependencyTree(blank, blank, tuple(own), blank)) == []
    assert not heads


@pytest.mark.parametrize("name", OF_HEADS)
@EVERY_LENGTHS
def test_heads_are_projective_trees(name, lengths):
    model, batch = built(name), closed_sentences(lengths)
    found = model.structure(batch)
    assert type(found) is model.structure_type is Heads
    assert model.distance_layers == 0
    assert found.values.shape == (len(lengths), max(lengths))
    assert found.values.dtype == torch.int64
    for heads, length in zip(found.values, lengths, strict=True):
        blank = ("",) * length
        tree = DependencyTree(blank, blank, tuple(heads[:length].tolist()), blank)
        assert not length or dependency_faults(tree) == []
        assert (heads[length:] == -1).all()


@every(FindsBestTrees)
def test_best_trees_are_binary_and_independent_of_other_sentences(name):
    model, batch = built(name), closed_sentences()
    found = model.best_trees(batch)
    for column, length in enumerate(batch.lengths.tolist()):
        part, words = (slice(length), slice(column, column + 1)), length - 2
        assert model.best_trees(TokenBatch(batch.tokens[part], batch.targets[part])) == [found[column]]
        spans = {(first, last + 1) for first, last, _ in found[column]}
        assert len(spans) == len(found[column]) == 2 * words - 1
        assert {(0, words), *((word, word + 1) for word in range(words))} <= spans
        assert not crossing(spans)
        labels = range(len(model.labels)) if isinstance(model, LabelsSpans) else [-1]
        assert all(label in labels for _, _, label in found[column])


def crossing(spans: set[tuple[int, int]]) -> bool:
    return any(start < other < end < other_end for start, end in spans for other, other_end in spans)


@every_model
def test_every_decoder_gives_a_tree_of_every_sentence_and_all_but_one_a_binary_tree(name):
    stored = dataclasses.replace(fresh("lstm"), model=parser(name))
    found = structure_of(stored, SENTENCES)
    more = ("viterbi",) if isinstance(stored.model, FindsBestTrees) else ()
    assert stored.model.decoders == (*stored.model.structure_type.corpus.decoders, *more)
    layers = range(1, stored.model.distance_layers + 1) or [1]
    for layer in layers:
        for rule in stored.model.decoders:
            trees = found.decode(rule, layer)
            assert trees.lengths.tolist() == [len(sentence) for sentence in SENTENCES]
            for number, sentence in enumerate(SENTENCES):
                spans = {(start, end) for start, end in trees.sentence(number) if end - start > 1}
                binary = len(sentence) - 1  # a binary tree has one constituent fewer than words
                assert len(spans) == binary or (rule == "heads" and len(spans) < binary)
                assert len(sentence) == 1 or (0, len(sentence)) in spans
                assert all(0 <= start < end <= len(sentence) for start, end in spans)
                assert not crossing(spans)


@pytest.mark.parametrize(
    "name", ["lstm", "awd-lstm", "ngram", *(name for name in VARIANTS if "without parsing" in name)]
)
def test_settings_without_structure_make_a_model_that_does_not_parse(name):
    assert not isinstance(built(name), ParsesSentences)


@every(ParsesSentences, among=list(SENTENCE_VARIANTS))
def test_sentences_of_one_word_have_a_structure_in_batches_of_their_own(name):
    bundle, words = fresh(name), [["old"], ["dog"], ["cat"]]
    for text in (words, [*words, ["the", "old", "dog"]]):
        found = structure_of(bundle, text)
        for decoder in bundle.model.decoders:
            trees = found.decode(decoder)
            assert not any(end - start > 1 for number in range(3) for start, end in trees.sentence(number))
    batch = closed_sentences((1, 1))
    if isinstance(bundle.model, FindsBestTrees):
        assert all(tree in ([], [(0, 0, tree[0][2] if tree else 0)]) for tree in bundle.model.best_trees(batch))
    if isinstance(bundle.model, ScoresTrees):
        log_probs = bundle.model.tree_log_probs(batch, torch.zeros(2, 1, 1, dtype=torch.bool))
        torch.testing.assert_close(log_probs, torch.zeros(2, dtype=torch.float64))
        drawn = bundle.model.sample_trees(batch, 2, np.random.default_rng(1))
        assert all(len(spans) <= 1 for of_sentence in drawn for spans in of_sentence)
