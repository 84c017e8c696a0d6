"""The span parser against the enumeration of all trees."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from syntaxlm.models.batches import TokenBatch
from syntaxlm.models.sentences import chart_spans
from tests.models.variants import built, closed_sentences, sentences
from tests.trees.enumeration import Spans, all_binary_trees

TREES: tuple[Spans, ...] = (
    frozenset({(0, 5), (0, 2), (2, 5), (3, 5)}),
    frozenset({(0, 5), (1, 5), (1, 3), (3, 5)}),
)


def with_trees(*trees: Spans) -> TokenBatch:
    """A sentence of five words that has trees, and one of three words without."""
    spans = [[end + 1, 0, end - start] for tree in trees for start, end in tree]
    return dataclasses.replace(sentences((5, 3)), spans=torch.tensor(spans))


def log_probability(model, tree: Spans) -> float:
    """The logarithm of a tree's share among all trees of the first sentence."""
    columns, length, weights, _ = next(model.chart_weights(closed_sentences((5, 3))))
    assert (columns, length) == (slice(0, 1), 5)
    starts, ends = chart_spans(length, weights.device)
    places = zip(starts.tolist(), ends.tolist(), strict=True)
    of_span = dict(zip(places, weights[:, 0].tolist(), strict=True))
    totals = {each: sum(of_span[span] for span in each) for each in all_binary_trees(0, 5)}
    return totals[tree] - float(torch.tensor(list(totals.values())).double().logsumexp(0))


@pytest.mark.parametrize("trees", [TREES[:1], TREES])
def test_the_loss_is_the_mean_over_the_trees_of_all_binary_trees_of_the_sentence(trees):
    model = built("span-parser")
    found = model.loss(with_trees(*trees))
    expected = -sum(log_probability(model, tree) for tree in trees) / len(trees)
    assert found.total.item() == pytest.approx(expected, rel=1e-9)
    assert (found.count, found.items) == (5, 2), "the sentence without a tree does not count"


def test_it_learns_a_tree():
    model = built("span-parser").train()
    optimiser = torch.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(60):
        optimiser.zero_grad()
        model.loss(with_trees(TREES[0])).total.backward()
        optimiser.step()
    marginals = model.eval().structure(closed_sentences((5, 3))).values[0]
    assert all(marginals[start, end - 1] > 0.9 for start, end in TREES[0])
    assert (0, 1, -1) in model.best_trees(closed_sentences((5, 3)))[0]
