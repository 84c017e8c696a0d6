"""Batches of dependency trees: steps, order, and processes."""

from __future__ import annotations

from collections import Counter

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from syntaxlm.batches import TreeBatches
from syntaxlm.data.dependencies import ROOT, UNKNOWN, count_dependencies, label_vocabulary
from syntaxlm.models.batches import TreeBatch
from syntaxlm.text.vocabulary import Vocabulary
from tests.batches.forests import CAT, GO, LOWER, corpus_of, forests, many_trees
from tests.trees.steps import steps_of


def rows_of(batch, corpus, vocabulary, labels):
    """For each generated word, by name: the source word, its label, and the edge."""
    words, targets = vocabulary.decode(batch.words.tolist()), vocabulary.decode(batch.targets.tolist())
    found = zip(words, labels.decode(batch.labels.tolist()), batch.levels.edges().tolist(), strict=True)
    return dict(zip(targets, found, strict=True))


@given(forests(), st.integers(1, 40), st.booleans(), st.booleans(), st.sampled_from([None, 1, 3]))
def test_every_word_is_generated_once_by_the_step_of_its_tree_and_no_row_is_padding(
    trees, budget, shuffle, mixed, most
):
    counts, names = count_dependencies(trees, LOWER)
    vocabulary, labels = Vocabulary.build(counts, UNKNOWN, ROOT, ROOT), label_vocabulary(names)
    corpus = corpus_of(trees, vocabulary, labels)
    seen = Counter()
    expected = {}
    for tree in trees:
        for step in steps_of(tree):
            source = (tree.words[step.source - 1], tree.labels[step.source - 1]) if step.source else (ROOT, ROOT)
            expected[tree.words[step.word - 1]] = (*source, step.edge)
    for batch in TreeBatches(corpus, budget, shuffle, 0, mixed, most).iterate(3):
        indices = batch.indices.tolist()
        seen.update(indices)
        assert batch.sentence_count() == len(indices) == 1 or batch.token_count() <= budget
        assert most is None or len(indices) <= most
        assert batch.token_count() == sum(len(trees[index]) for index in indices)
        found = rows_of(batch, corpus, vocabulary, labels)
        assert found == {word: expected[word] for index in indices for word in trees[index].words}
    assert seen == Counter(range(len(trees)))


@given(forests())
def test_steps_continue_the_row_that_generated_the_source_word(trees):
    corpus = corpus_of(trees)
    batches = TreeBatches(corpus, 10_000, False, 0)
    (batch,) = batches.iterate(0)
    parents = batch.levels.parents.tolist()
    level_of = np.repeat(np.arange(len(batch.levels.counts)), batch.levels.sizes)
    for row, parent in enumerate(parents):
        if parent:
            assert batch.words[row] == batch.targets[parent - 1]
            assert batch.trees[row] == batch.trees[parent - 1]
            assert level_of[parent - 1] == level_of[row] - 1
        else:
            assert level_of[row] == 0
            assert batch.words[row] == corpus.root_id
    edges = batch.levels.edges().tolist()
    pairs = {(parent, edge) for parent, edge in zip(parents, edges, strict=True) if parent}
    leaving = batch.continuations()
    assert {(row + 1, edge) for row, edge in leaving.nonzero().tolist()} == pairs
    assert leaving.shape == (len(parents), 4)


@settings(max_examples=30, deadline=None)
@given(forests(), st.integers(1, 40))
def test_places_map_batches_back_to_text_order(trees, budget):
    corpus = corpus_of(trees)
    batches = TreeBatches(corpus, budget, True, 0)
    read = np.full(corpus.text.word_count, -1)
    for batch in batches.iterate(0):
        read[batches.places(batch)] = batch.targets
    assert read.tolist() == corpus.text.ids.tolist()


def test_batches_have_the_batch_interface():
    (batch,) = TreeBatches(corpus_of([CAT, GO]), 100, False, 0).iterate(0)
    assert batch.carries is False
    assert batch.targets.shape == (6,)
    moved = batch.to("meta")
    assert isinstance(moved, TreeBatch)
    assert {moved.words.device.type, moved.levels.parents.device.type, moved.trees.device.type} == {"meta"}
    assert moved.token_count() == 6
    assert moved.indices.device.type == "cpu"
    assert all(
        getattr(batch, name).dtype == torch.int64 for name in ("words", "targets", "labels", "trees", "positions")
    )


def test_batches_of_like_depth_have_fewer_levels_than_mixed_ones():
    corpus = corpus_of(many_trees(1000))

    def levels(mixed):
        return np.mean([len(batch.levels.counts) for batch in TreeBatches(corpus, 256, True, 0, mixed).iterate(0)])

    assert levels(mixed=False) < 0.9 * levels(mixed=True)
