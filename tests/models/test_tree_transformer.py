"""The Transformer that builds a tree: its stack, its control without one, and its beam against all trees."""

from __future__ import annotations

import dataclasses
from itertools import pairwise, product

import numpy as np
import pytest
import torch

from syntaxlm.models.batches import TokenBatch
from syntaxlm.models.registry import build_model
from syntaxlm.ops.parse_stack import (
    begins_item,
    decisions_of_spans,
    merged,
    pushed,
    spans_of_decisions,
    stack_tables,
)
from tests.models.variants import BOS, EOS, WORDS, built, closed_sentences, config_of, sentences
from tests.trees.enumeration import all_binary_trees


def all_decisions(words: int) -> torch.Tensor:
    """Every sequence of decisions about a sentence: the first token of the item on top after each token, (N, n + 1)."""
    found: list[list[int]] = [[0]]
    stacks = [[0]]  # the first tokens of the items
    for token in range(1, words + 1):
        continued = [
            ([*decisions, first], [*stack[: stack.index(first)], first])
            for decisions, below in zip(found, stacks, strict=True)
            for stack in [[*below, token]]
            for first in stack[1:]
        ]
        found, stacks = ([one[part] for one in continued] for part in (0, 1))
    return torch.tensor(found)


def exact_log_probs(model, tokens: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """All decisions about one sentence, and ln P(words, decisions) by the forward pass of training."""
    firsts = all_decisions(len(tokens) - 2)
    repeated = tokens[:, None].repeat(1, len(firsts))
    batch = TokenBatch(repeated[:-1], repeated[1:])
    words, decisions = model.joint_log_probs(batch, firsts)
    return firsts, (words + decisions).view(batch.tokens.shape).sum(0)


@pytest.mark.parametrize("length", [1, 2, 4, 6])
def test_a_wide_beam_equals_the_sum_over_all_trees_in_words_trees_and_spans(length):
    model = built("tree-transformer", beam=500)
    closed = closed_sentences((length,))
    firsts, log_probs = exact_log_probs(model, closed.tokens[:, 0])
    assert len(firsts) == [1, 1, 2, 5, 14, 42, 132][length]
    found = model.sentence_log_probs(sentences((length,)))[0]
    torch.testing.assert_close(found, log_probs.logsumexp(0), rtol=0, atol=1e-11)
    torch.testing.assert_close(model.log_prob_bounds(closed)[0], found, rtol=0, atol=1e-11)

    # Sequences that differ in the last decision have the same tree.
    trees: dict[frozenset[tuple[int, int]], float] = {}
    for decisions, share in zip(firsts - 1, log_probs.softmax(0).tolist(), strict=True):
        spans = spans_of_decisions(torch.cat([decisions[1:-1], torch.zeros(1, dtype=torch.int64)]))
        tree = frozenset((first, last + 1) for first, last in spans.nonzero().tolist())
        trees[tree] = trees.get(tree, 0) + share
    assert set(trees) == set(all_binary_trees(0, length))
    marginals = model.structure(closed).values[0]
    for first, last in product(range(length), repeat=2):
        expected = sum(share for tree, share in trees.items() if (first, last + 1) in tree)
        assert marginals[first, last].item() == pytest.approx(expected, abs=1e-11)
    best = {(first, last + 1) for first, last, _ in model.best_trees(closed)[0] if first < last}
    assert best == max(trees, key=trees.__getitem__)


def test_beliefs_after_each_word_are_those_of_all_decisions_so_far():
    model, words = built("tree-transformer", beam=500), [3, 7, 4, 9, 5]
    (found,) = model.span_beliefs([words])
    for count in range(1, 6):
        firsts = all_decisions(count)
        tokens = torch.tensor([BOS, *words[:count]])[:, None].repeat(1, len(firsts))
        scores, decisions = model.joint_log_probs(TokenBatch(tokens, tokens.roll(-1, 0)), firsts)
        weights = (scores.view(tokens.shape)[:-1].sum(0) + decisions.view(tokens.shape).sum(0)).softmax(0)
        expected = (weights[:, None, None] * spans_of_decisions(firsts[:, 1:] - 1)).sum(0)
        torch.testing.assert_close(torch.from_numpy(found[count - 1, :count, :count]), expected, rtol=0, atol=1e-11)
    closed = torch.tensor([BOS, *words, EOS])[:, None]
    marginals = model.structure(TokenBatch(closed, closed)).values[0]
    torch.testing.assert_close(torch.from_numpy(found[5]), marginals, rtol=0, atol=1e-11)
    alone, together = model.span_beliefs([words[:2]])[0], model.span_beliefs([words, words[:2], words])
    np.testing.assert_allclose(together[1], alone, rtol=0, atol=1e-12)
    np.testing.assert_allclose(together[2], found, rtol=0, atol=1e-12)


def test_the_sum_over_a_narrow_beam_is_a_lower_bound_that_rises_with_its_width():
    batch = closed_sentences((6, 6, 5, 4))
    bounds = [built("tree-transformer", beam=beam).log_prob_bounds(batch) for beam in (1, 4, 16, 500)]
    for narrow, wide in pairwise(bounds):
        assert (narrow < wide + 1e-12).all()
        assert (narrow < wide - 1e-6).any()


def test_without_embeddings_of_places_words_have_the_probabilities_of_the_plain_transformer():
    batch, firsts = sentences((6, 4, 2, 1)), decisions_of_spans(TREES, torch.tensor([7, 5, 3, 2]), 7)
    for window in (256, 3):
        model = built("tree-transformer", heads=1, window=window, beam=3)
        plain = build_model(config_of("transformer", heads=1, window=window), WORDS).double().eval()
        weights = {}
        for name, weight in model.state_dict().items():
            if name.endswith(("blocks.0.index_keys", "blocks.1.index_keys", "depth_keys")):
                weight.zero_()
            elif not name.startswith("closing."):
                weights[f"backbone.{name}" if name.startswith(("blocks", "norm")) else name] = weight
        plain.load_state_dict(weights)
        expected = plain.token_log_probs(batch).log_probs
        words, decisions = model.joint_log_probs(batch, firsts)
        torch.testing.assert_close(words, expected[batch.mask()], rtol=0, atol=1e-12)
        assert decisions.min() < -0.01
        torch.testing.assert_close(model.token_log_probs(batch).log_probs, expected, rtol=0, atol=1e-12)


# ((1 2) ((3 4) (5 6))), (1 (2 3) 4) and (1 2): column, first and last token; whole sentences may be left out.
TREES = torch.tensor([[0, 1, 2], [0, 3, 4], [0, 5, 6], [0, 3, 6], [1, 2, 3], [1, 1, 4], [2, 1, 2]])
DECISIONS = [[0, 1, 1, 3, 3, 5, 1], [0, 1, 2, 2, 1, 5, 6], [0, 1, 1, 3, 4, 5, 6], [0, 1, 2, 3, 4, 5, 6]]


def test_given_trees_become_decisions_and_constituents_with_several_children_branch_to_the_right():
    firsts = decisions_of_spans(TREES, torch.tensor([7, 5, 3, 2]), 7)
    assert firsts.tolist() == DECISIONS
    found = [
        spans_of_decisions(row[1:length] - 1).nonzero().tolist() for row, length in zip(firsts, (7, 5, 3), strict=False)
    ]
    assert found == [[[0, 1], [0, 5], [2, 3], [2, 5], [4, 5]], [[0, 3], [1, 2], [1, 3]], [[0, 1]]]


def test_tables_of_whole_trees_equal_the_stack_built_word_by_word():
    firsts = all_decisions(6)
    tables = stack_tables(firsts)
    index = depth = firsts[:, :0]
    for token, decision in enumerate(firsts.T):
        index, depth = pushed(index, 1), pushed(depth, 0)
        begins = begins_item(index)
        begins[:, 0] = token == 0
        index_after, depth_after = merged(index, depth, decision)
        for table, expected in zip(tables, (index, depth, begins, index_after, depth_after), strict=True):
            assert torch.equal(table[:, token, : token + 1], expected)
            assert not table[:, token, token + 1 :].any()
        index, depth = index_after, depth_after
    assert depth.amax(1).unique().tolist() == [0, 1, 2, 3, 4, 5]


def test_the_depth_of_a_word_is_the_number_of_constituents_around_it():
    firsts = all_decisions(6)[:, 1:] - 1
    firsts[:, -1] = 0
    spans = spans_of_decisions(firsts).long()
    depth = stack_tables(torch.cat([firsts[:, :1], firsts + 1], 1)).depth_after[:, -1, 1:]
    around = torch.stack([spans[:, : word + 1, word:].sum((1, 2)) for word in range(6)], 1)
    assert torch.equal(depth, around)


def test_training_lowers_the_loss_of_words_and_of_decisions_and_the_trees_are_found_without_being_given():
    torch.manual_seed(1)
    model = build_model(config_of("tree-transformer", embedding_size=24, dropout=0.0, init_range=0.1), WORDS)
    left, right = torch.tensor([[3, 4, 5, 6, 7], [8, 9, 10, 11, 12]])
    tokens = torch.tensor([1, *left, EOS, 1, *right, EOS]).view(2, -1).T
    spans = torch.tensor([[3, 0, 2], [4, 0, 3], [5, 0, 4], [6, 0, 5], [6, 1, 5], [6, 1, 4], [6, 1, 3], [6, 1, 2]])
    batch = TokenBatch(tokens[:-1], tokens[1:], torch.tensor([6, 6]), spans=spans)
    optimiser = torch.optim.Adam(model.parameters(), lr=0.02)
    losses = []
    for _ in range(40):
        found = model.train().loss(batch)
        losses.append((found.total.item() / found.count, found.penalties["closings"].item()))
        optimiser.zero_grad()
        (found.total / found.count + found.penalties["closings"]).backward()
        optimiser.step()
    assert losses[0][0] > 2
    assert losses[0][1] > 0.3
    assert max(losses[-1]) < 0.2
    closed = TokenBatch(tokens, tokens, torch.tensor([7, 7]))
    trees = [{(first, last) for first, last, _ in tree if first < last} for tree in model.eval().best_trees(closed)]
    assert trees == [{(0, 1), (0, 2), (0, 3), (0, 4)}, {(3, 4), (2, 4), (1, 4), (0, 4)}]


def test_sentences_without_a_tree_are_left_out_of_training():
    model, batch = built("tree-transformer", dropout=0.0).train(), sentences((5, 4, 2))
    spans = torch.tensor([[6, 0, 2], [6, 0, 5]])
    whole = model.loss(dataclasses.replace(batch, spans=spans))
    assert (whole.count, whole.items) == (6 + 3, 3)
    kept = [0, 2]
    part = TokenBatch(batch.tokens[:, kept], batch.targets[:, kept], torch.tensor([6, 3]), spans=spans[:1])
    alone = model.loss(part)
    torch.testing.assert_close(whole.total, alone.total)
    torch.testing.assert_close(whole.penalties, alone.penalties)
    assert model.loss(sentences((5, 4))).count == 0


def test_sampled_sentences_have_binary_trees_and_no_omitted_word():
    model = built("tree-transformer")
    with torch.no_grad():
        model.decoder.bias[EOS] += 2
    drawn = model.sample(20, 8, np.random.default_rng(1), omitted=2)
    assert len({len(sentence.words) for sentence in drawn}) > 2
    for words, spans, labels in drawn:
        assert 0 < len(words) <= 8
        assert not {0, BOS, EOS, 3} & set(words)
        assert frozenset((first, last + 1) for first, last, _ in spans) in all_binary_trees(0, len(words))
        assert list(spans) == sorted(spans, key=lambda span: (span[0], -span[1]))
        assert labels == ()
    assert model.sample(20, 8, np.random.default_rng(1), omitted=2) == drawn
