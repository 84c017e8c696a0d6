"""Gumbel Tree-LSTM and RL-SPINN: what is true of them alone."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from syntaxlm.models.abilities import Decisions
from syntaxlm.models.batches import TokenBatch
from syntaxlm.models.tree_encoders import RLSPINN, GumbelTreeLSTM, GumbelTreeLSTMConfig, RLSPINNConfig
from tests.models.variants import WORDS, built, ragged


def root_of(model, tokens, spans):
    """The root's state: the model's cell applied to a tree, child by child."""
    leaves = model._leaves(TokenBatch(tokens[:, None], tokens[:, None]))[-1][:, 0]

    def of(start, end):
        if end - start == 1:
            return leaves[start]
        (middle,) = [at for at in range(start + 1, end) if {(start, at), (at, end)} <= spans]
        return model.cell(of(start, middle), of(middle, end))

    return of(0, len(tokens))


@pytest.mark.parametrize("leaf_lstm", [True, False])
def test_the_root_is_composed_along_the_tree_of_the_greedy_merges(leaf_lstm):
    model, batch = built("gumbel-tree-lstm", leaf_lstm=leaf_lstm), ragged()
    features = model.encode(batch).features
    charts = model._best_roots(model._leaves(batch))[1]
    for column, length in enumerate(batch.lengths.tolist()):
        spans = {(start, last + 1) for start, last in charts[column].nonzero().tolist()}
        assert len(spans) == length - 1
        spans |= {(word, word + 1) for word in range(length)}
        expected = root_of(model, batch.tokens[:length, column], spans).chunk(2)[0]
        torch.testing.assert_close(features[column], expected)


def test_without_noise_training_gives_the_vectors_of_evaluation(monkeypatch):
    """Training recomputes all parents; evaluation only those that change."""
    model, batch = built("gumbel-tree-lstm", dropout=0.0), ragged()
    expected = model.encode(batch).features

    def best(scores, tau, hard, dim):
        return torch.nn.functional.one_hot(scores.argmax(dim), len(scores)).T.to(scores)

    monkeypatch.setattr("syntaxlm.models.tree_encoders.gumbel_softmax", best)
    torch.testing.assert_close(model.train().encode(batch).features, expected)


def test_training_samples_trees_and_every_weight_gets_a_gradient():
    torch.manual_seed(1)
    model = GumbelTreeLSTM(GumbelTreeLSTMConfig(embedding_size=6, hidden_size=8, dropout=0.0), WORDS).train()
    first, other = (model.encode(ragged()).features for _ in range(2))
    assert not torch.equal(first[0], other[0])
    first.sum().backward()
    assert all(weight.grad is not None and weight.grad.abs().sum() > 0 for weight in model.parameters())


def test_log_probabilities_of_actions_are_the_frequencies_of_the_sampled_trees():
    torch.manual_seed(1)
    model = RLSPINN(RLSPINNConfig(embedding_size=6, hidden_size=8, tracking_size=5, dropout=0.0), WORDS).double()
    tokens = torch.tensor([3, 4, 5, 6])[:, None].expand(-1, 20_000)
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(3)
        encoding, spans = model.train()._trees(TokenBatch(tokens, tokens))
    kinds, places, counts = spans.flatten(1).unique(dim=0, return_inverse=True, return_counts=True)
    assert len(kinds) == 5, "the binary trees of four words"
    log_probs = torch.stack([encoding.decisions.log_probs[places == kind][0] for kind in range(5)])
    assert float(log_probs.exp().sum()) == pytest.approx(1)
    torch.testing.assert_close(counts / 20_000, log_probs.exp(), rtol=0, atol=0.015, check_dtype=False)
    entropy = float(encoding.decisions.entropies.mean())
    assert entropy == pytest.approx(float(-(log_probs * log_probs.exp()).sum()), abs=0.02)


def test_rewards_above_their_average_make_the_actions_more_probable():
    model = RLSPINN(RLSPINNConfig(embedding_size=6, hidden_size=8, tracking_size=5, entropy_weight=0.5), WORDS)
    log_probs = torch.tensor([-1.0, -2.0], requires_grad=True)
    terms = model.policy_terms(Decisions(log_probs, torch.tensor([0.2, 0.4])), torch.tensor([-1.0, -3.0]))
    terms["policy"].backward()
    assert log_probs.grad.tolist() == [-0.5, 0.5]  # the average of the first batch is -2
    assert float(terms["entropy"]) == pytest.approx(-0.15)
    model.policy_terms(Decisions(log_probs.detach(), torch.zeros(2)), torch.tensor([0.0, 0.0]))
    assert float(model.baseline) == -1, "the mean of the first batches, before the moving average takes over"


def test_the_policy_learns_the_branching_that_is_rewarded():
    torch.manual_seed(2)
    config = RLSPINNConfig(embedding_size=6, hidden_size=8, tracking_size=8, dropout=0.0, entropy_weight=0.0)
    model, batch = RLSPINN(config, WORDS).train(), ragged(6, (6,) * 16)
    optimiser = torch.optim.Adam(model.parameters(), 0.03)
    for _ in range(40):
        encoding, spans = model._trees(batch)
        left_spans = spans[:, 0].sum(-1)  # spans that start at the first word
        sum(model.policy_terms(encoding.decisions, left_spans).values()).backward()
        optimiser.step()
        optimiser.zero_grad()
    spans = model.eval()._trees(batch)[1]
    assert float(spans[:, 0].sum(-1).mean()) == 5, "left-branching trees"


def test_padding_is_not_read():
    model, batch = built("rl-spinn"), ragged()
    tokens = torch.where(batch.mask(), batch.tokens, (batch.tokens + 1) % WORDS)
    expected = model.encode(batch).features
    torch.testing.assert_close(model.encode(dataclasses.replace(batch, tokens=tokens)).features, expected)
