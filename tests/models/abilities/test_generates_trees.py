"""Dependency-tree models that process one level at a time: the results equal those of a whole batch."""

from __future__ import annotations

import torch

from syntaxlm.models.abilities import GeneratesTrees
from syntaxlm.ops.tree_levels import Levels
from syntaxlm.trees.dependencies import Edge
from tests.models.tree_variants import LABELS
from tests.models.variants import batch_for, built, every

every_model = every(GeneratesTrees)


@every_model
def test_levels_processed_one_by_one_give_the_same_states_and_probabilities_as_the_whole_batch(name):
    model, batch = built(name), batch_for(name)
    whole = model.token_log_probs(batch)
    left = model.left_states(*batch.left_dependents()) if model.reads_left_dependents else None
    right_steps = 0
    states = model.root_states()
    assert states.hidden.shape == (1, model.state_size)
    first = before = 0  # first rows of this and of the previous level; ROOT precedes all
    for size, counts in zip(batch.levels.sizes, batch.levels.counts, strict=True):
        rows = slice(first, first + size)
        parents = batch.levels.parents[rows]
        if first:
            parents = parents - 1 - before
        levels = Levels.of(parents, (counts,))
        inputs = model.inputs(batch.words[rows], batch.labels[rows])
        assert inputs.shape == (size, model.input_size)
        right = slice(right_steps, right_steps + counts[Edge.RIGHT])
        states = model.follow(inputs, levels, states, None if left is None else left[right])
        torch.testing.assert_close(states.hidden, whole.hidden[rows], rtol=0, atol=1e-12)
        every_word = model.all_log_probs(states.hidden, levels)
        assert every_word.shape == (size, model.vocabulary_size)
        found = every_word.gather(1, batch.targets[rows, None])[:, 0]
        torch.testing.assert_close(found, whole.log_probs[rows], rtol=0, atol=1e-12)
        before, first = first, first + size
        right_steps = right.stop
    assert first == batch.token_count()


@every_model
def test_declared_sizes_are_the_actual_sizes(name):
    model = built(name)
    words = torch.tensor([2, 3, 2])
    assert model.reads == "trees"
    assert model.embedded(words).shape == (3, model.word_size)
    assert model.label_count == (len(LABELS) if model.reads_labels else None)
    one, other = (model.inputs(words, torch.full((3,), label)) for label in (0, 1))
    assert torch.equal(one, other) != model.reads_labels
