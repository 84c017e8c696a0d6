"""Noise-contrastive estimation; softmaxes by edge."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from syntaxlm.models.tree_rnn import EdgeDecoder, NoiseContrastive
from syntaxlm.ops.tree_levels import Levels

WORDS, SIZE = 11, 4
COUNTS = torch.tensor([0, 5, 1, 40, 7, 7, 300, 2, 2, 1, 90])


def random(*shape, seed):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)).requires_grad_()


def contrast(shared: bool, words: int = 3) -> NoiseContrastive:
    layer = NoiseContrastive(WORDS, words, log_normaliser=2.5, shared=shared)
    layer.learn(COUNTS)
    return layer.double()


def reference_loss(
    rows: Tensor, weight: Tensor, bias: Tensor, targets: Tensor, noise: Tensor, noise_probabilities: Tensor, ln_z: float
) -> Tensor:
    """Return `NoiseContrastive.loss`, written one word at a time. noise: (n, k)."""
    losses = []
    for row, target, drawn in zip(rows, targets.tolist(), noise.tolist(), strict=True):
        expected = len(drawn) * noise_probabilities
        model = torch.exp(weight @ row + bias) / math.exp(ln_z)
        loss = -torch.log(model[target] / (model[target] + expected[target]))
        for word in drawn:
            loss = loss - torch.log(expected[word] / (model[word] + expected[word]))
        losses.append(loss)
    return torch.stack(losses)


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("steps", [1, 6])
def test_the_loss_equals_the_reference_in_value_and_every_gradient(shared, steps):
    layer = contrast(shared)
    tensors = random(steps, SIZE, seed=1), random(WORDS, SIZE, seed=2), random(WORDS, seed=3)
    targets = torch.tensor([6, 3, 3, 10, 6, 1])[:steps]
    noise = torch.tensor([[6, 3, 1]]) if shared else torch.randint(1, WORDS, (steps, 3))
    probabilities = COUNTS.double() ** 0.75
    probabilities /= probabilities.sum()
    ours = layer.loss(*tensors, targets, noise[0] if shared else noise)
    expected = reference_loss(*tensors, targets, noise.expand(steps, 3), probabilities, 2.5)
    # The noise's logarithms are kept in float32.
    torch.testing.assert_close(ours, expected, rtol=1e-6, atol=1e-6)
    outer = random(steps, seed=4).detach()
    found = torch.autograd.grad((ours * outer).sum(), tensors)
    for one, other in zip(found, torch.autograd.grad((expected * outer).sum(), tensors), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)


def test_a_loss_without_steps_is_zero_with_zero_gradient():
    layer, weight = contrast(shared=True), random(WORDS, SIZE, seed=2)
    none = torch.zeros(0, dtype=torch.int64)
    loss = layer.loss(torch.zeros(0, SIZE, dtype=torch.float64), weight, weight[:, 0], none, layer.draw(0))
    assert loss.shape == (0,)
    loss.sum().backward()
    assert not weight.grad.any()


@pytest.mark.parametrize("shared", [True, False])
def test_a_batch_without_rows_has_no_loss(shared):
    """This happens if a small batch of trees has no edge of a type."""
    layer = contrast(shared, words=3)
    losses = layer.loss(
        torch.zeros(0, SIZE), torch.zeros(WORDS, SIZE), torch.zeros(WORDS), torch.arange(0), layer.draw(0)
    )
    assert losses.shape == (0,)


@pytest.mark.parametrize("shared", [True, False])
def test_noise_is_sampled_in_proportion_to_powers_of_counts(shared):
    torch.manual_seed(1)
    layer = contrast(shared, words=200_000 if shared else 20)
    drawn = layer.draw(10_000)
    assert drawn.shape == ((200_000,) if shared else (10_000, 20))
    shares = torch.bincount(drawn.flatten(), minlength=WORDS) / drawn.numel()
    expected = COUNTS**0.75 / (COUNTS**0.75).sum()
    assert shares[0] == 0
    torch.testing.assert_close(shares, expected, rtol=0, atol=0.005)


def test_with_much_noise_the_gradient_approaches_that_of_the_likelihood():
    """For normalised scores, which is the idea of NCE."""
    torch.manual_seed(2)
    layer = NoiseContrastive(WORDS, 100_000, log_normaliser=0.0, shared=True).double()
    layer.learn(COUNTS + 1)
    row = random(1, SIZE, seed=1)
    weight = (random(WORDS, SIZE, seed=2) * 0.3).detach()
    bias = -torch.logsumexp(weight @ row.detach()[0], 0).expand(WORDS)
    target = torch.tensor([4])
    (found,) = torch.autograd.grad(layer.loss(row, weight, bias, target, layer.draw(1)).sum(), row)
    (expected,) = torch.autograd.grad(-torch.log_softmax(row @ weight.T, 1)[0, 4], row)
    torch.testing.assert_close(found, expected, rtol=0, atol=0.02)


@pytest.mark.parametrize("shared", [True, False])
def test_each_row_is_decoded_by_the_softmax_of_its_edge(shared):
    levels = Levels.of(torch.zeros(9, dtype=torch.int64), ((1, 2, 0, 1), (2, 0, 0, 3)))
    decoder = EdgeDecoder(SIZE, WORDS, shared).double()
    decoder.initialise(0.5)
    rows, targets = random(9, SIZE, seed=1), torch.arange(9)
    found = decoder.log_probs(rows, targets, levels)
    for row, edge in enumerate([0, 1, 1, 3, 0, 0, 3, 3, 3]):
        own = decoder.decoders[0 if shared else edge]
        expected = torch.log_softmax(own(rows[row]), 0)[targets[row]]
        torch.testing.assert_close(found[row], expected, rtol=0, atol=1e-12)
