"""Dependency trees with valence: the charts agree with the sum over all trees in value and in every gradient."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from syntaxlm.ops import dmv
from syntaxlm.ops.dmv import ZERO, TreeDecisions, projective_trees, tree_log_prob
from syntaxlm.trees.decoding import decode_heads


def random_decisions(sentences: int, words: int, seed: int = 1, impossible: float = 0.0) -> TreeDecisions:
    """impossible: share of impossible arcs."""
    generator = torch.Generator().manual_seed(seed)

    def values(*shape: int) -> torch.Tensor:
        return torch.rand(shape, generator=generator, dtype=torch.float64)

    go = values(sentences, words, 2, 2)
    arcs = values(sentences, words, words)
    arcs = torch.where(values(sentences, words, words) < impossible, ZERO, arcs.log())
    return TreeDecisions(values(sentences, words).log(), arcs, torch.log1p(-go), go.log())


def one(decisions: TreeDecisions, index: int) -> TreeDecisions:
    return TreeDecisions(*(part[index : index + 1].clone() for part in decisions))


@pytest.mark.parametrize(("words", "trees"), [(1, 1), (2, 2), (3, 7), (4, 30), (5, 143)])
def test_the_reference_sums_over_all_projective_trees(words, trees):
    """There are C(3n - 2, n - 1) / n of n words (OEIS A006013)."""
    found = list(projective_trees(words))
    assert len(set(found)) == len(found) == trees


@pytest.mark.parametrize("words", [1, 2, 3, 5])
@pytest.mark.parametrize("impossible", [0.0, 0.3])
def test_fast_form_equals_reference_in_value_and_every_gradient(words, impossible):
    decisions = random_decisions(3, words, impossible=impossible)
    values, counts, _ = dmv.expected_counts(decisions)
    torch.testing.assert_close(dmv.log_partition(decisions), values)
    for index in range(3):
        inputs = TreeDecisions(*(part.requires_grad_() for part in one(decisions, index)))
        expected = dmv.log_partition_reference(inputs)
        assert values[index].item() == pytest.approx(expected.item(), rel=1e-12)
        gradients = torch.autograd.grad(expected, inputs, materialize_grads=True)
        if expected > ZERO / 2:
            for found, gradient in zip(one(counts, index), gradients, strict=True):
                torch.testing.assert_close(found, gradient, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("words", [1, 2, 4, 5])
def test_the_best_tree_is_that_of_the_enumeration(words):
    decisions = random_decisions(4, words, seed=2)
    log_probs, heads = dmv.best_heads(decisions)
    for index in range(4):
        expected = dmv.best_heads_reference(one(decisions, index))
        assert tuple(heads[index].tolist()) == expected
        assert log_probs[index].item() == pytest.approx(tree_log_prob(one(decisions, index), expected).item())


def test_counts_are_those_of_trees():
    """One root; each word has one head; each side of each head stops once."""
    counts = dmv.expected_counts(random_decisions(2, 40)).counts
    torch.testing.assert_close(counts.root + counts.arcs.sum(1), torch.ones(2, 40, dtype=torch.float64))
    torch.testing.assert_close(counts.root.sum(1), torch.ones(2, dtype=torch.float64))
    torch.testing.assert_close(counts.stop.sum(-1), torch.ones(2, 40, 2, dtype=torch.float64))
    assert counts.go.sum() == pytest.approx(2 * 39)
    assert (counts.go <= 1 + 1e-9)[..., dmv.ADJACENT].all(), "at most one dependent is adjacent"


def test_an_impossible_sentence_has_the_tree_of_the_fewest_impossible_decisions():
    decisions = random_decisions(1, 4)
    decisions.arcs[:, :, 2] = ZERO
    decisions.arcs[:, 3] = ZERO
    decisions.root[:, 2] = ZERO
    log_probs, (heads,) = dmv.best_heads(decisions)
    assert log_probs < ZERO / 2
    assert tuple(heads.tolist()) == dmv.best_heads_reference(decisions)
    assert log_probs > 1.5 * ZERO


@pytest.mark.parametrize("words", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("impossible", [0.0, 0.2])
def test_trees_with_weighted_constituents_are_those_of_the_enumeration(words, impossible):
    decisions = random_decisions(3, words, seed=words, impossible=impossible)
    weights = torch.randn(3, words, words + 1, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    values, counts, posteriors = dmv.expected_counts(decisions, weights)
    _, heads = dmv.best_heads(decisions, weights)
    trees = list(projective_trees(words))
    binary = decode_heads(np.concatenate(trees), np.full(len(trees), words), "heads-binary")
    spans = [binary.sentence(number) | {(word, word + 1) for word in range(words)} for number in range(len(trees))]
    for index in range(3):
        own = one(decisions, index)
        totals = torch.stack(
            [
                tree_log_prob(own, tree) + sum(weights[index, start, end] for start, end in constituents)
                for tree, constituents in zip(trees, spans, strict=True)
            ]
        )
        assert values[index].item() == pytest.approx(totals.logsumexp(0).item(), rel=1e-12)
        assert tuple(heads[index].tolist()) == trees[int(totals.argmax())]
        shares = totals.softmax(0)
        expected = torch.zeros(words, words + 1, dtype=torch.float64)
        for share, constituents in zip(shares, spans, strict=True):
            for start, end in constituents:
                expected[start, end] += share
        torch.testing.assert_close(posteriors[index], expected, rtol=0, atol=1e-9)
        arcs = torch.zeros(words + 1, words, dtype=torch.float64)
        for share, tree in zip(shares, trees, strict=True):
            arcs[list(tree), range(words)] += share
        torch.testing.assert_close(counts.arcs[index], arcs[1:], rtol=0, atol=1e-9)
        torch.testing.assert_close(counts.root[index], arcs[0], rtol=0, atol=1e-9)


def test_without_weights_the_trees_are_those_of_the_halves():
    decisions = random_decisions(2, 9)
    values, counts, _ = dmv.expected_counts(decisions, torch.zeros(2, 9, 10, dtype=torch.float64))
    expected_values, expected, _ = dmv.expected_counts(decisions)
    torch.testing.assert_close(values, expected_values)
    for found, part in zip(counts, expected, strict=True):
        torch.testing.assert_close(found, part)
