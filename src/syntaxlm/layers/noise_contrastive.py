"""Noise-contrastive estimation (NCE): words are distinguished from noise, so a step computes k + 1 scores instead of V.

Mnih, Teh 2012, with the normalising constant fixed as in Zhang, Lu, Lapata 2016, section 3.4. The trained scores are
only roughly normalised; perplexity uses their softmax.
"""

from __future__ import annotations

import math
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding, softplus

from syntaxlm.layers.value_ranges import LOG_WEIGHTS, PROBABILITIES

NOISE_POWER = 0.75  # exponent of word frequencies, before they are normalised


class NoiseContrastive(nn.Module):
    """The NCE loss, with noise words sampled by their frequency.

    words: k, noise words per step.  log_normaliser: ln Z, fixed: the model's p is exp(score - ln Z).
    shared: whether all steps of a call share their noise words, so that the scores are one matrix product; otherwise
    each step has its own.
    log_expected: (V,), ln(k P_n(w)), -inf for words that are never noise.
    cumulative: (V,), cumulative sums of P_n.
    """

    value_ranges: ClassVar = {"log_expected": LOG_WEIGHTS, "cumulative": PROBABILITIES}
    log_expected: Tensor
    cumulative: Tensor

    def __init__(self, vocabulary_size: int, words: int, log_normaliser: float, shared: bool) -> None:
        super().__init__()
        self.words, self.log_normaliser, self.shared = words, log_normaliser, shared
        self.register_buffer("log_expected", torch.empty(vocabulary_size))
        self.register_buffer("cumulative", torch.empty(vocabulary_size, dtype=torch.float64))
        self.learn(torch.ones(vocabulary_size))

    def learn(self, counts: Tensor) -> None:
        """Sets the noise distribution from word counts, (V,): non-negative, not all 0."""
        powers = counts.double() ** NOISE_POWER
        powers /= powers.sum()
        self.log_expected.copy_((powers * self.words).log())
        self.cumulative.copy_(powers.cumsum(0))

    def draw(self, steps: int) -> Tensor:
        """Samples noise words: (k,) int64 if shared, else (steps, k)."""
        shape = (self.words,) if self.shared else (steps, self.words)
        drawn = torch.rand(shape, dtype=self.cumulative.dtype, device=self.cumulative.device) * self.cumulative[-1]
        return torch.searchsorted(self.cumulative, drawn, right=True).clamp_(max=len(self.cumulative) - 1)

    def loss(self, rows: Tensor, weight: Tensor, bias: Tensor, targets: Tensor, noise: Tensor) -> Tensor:
        """-ln P(D = 1 | target) - sum over noise words of ln P(D = 0 | noise word), for each row, in nats: (n,).

        P(D = 1 | w) = p(w) / (p(w) + k P_n(w)) with p(w) = exp(row . weight_w + bias_w - ln Z).
        rows: (n, D); weight: (V, D); bias: (V,); targets: (n,) int64; noise: (k,) or (n, k), from `draw`.
        """
        # One lookup, so the gradient is one matrix: a second would cost another pass over all V rows.
        count, words = len(targets), torch.cat([targets, noise.flatten()])
        weights = embedding(words, weight)
        shift = bias.index_select(0, words) - self.log_normaliser - self.log_expected[words].to(bias.dtype)
        of_targets = (rows * weights[:count]).sum(1) + shift[:count]
        if noise.dim() == 1:
            of_noise = (rows @ weights[count:].T).to(weight.dtype) + shift[count:]
        else:
            others = weights[count:].view(*noise.shape, weight.shape[1])
            of_noise = torch.bmm(others, rows[:, :, None])[:, :, 0].to(weight.dtype) + shift[count:].view(noise.shape)
        return softplus(-of_targets) + softplus(of_noise).sum(1)


def reference_loss(
    rows: Tensor, weight: Tensor, bias: Tensor, targets: Tensor, noise: Tensor, noise_probabilities: Tensor, ln_z: float
) -> Tensor:
    """`NoiseContrastive.loss`, written one word at a time: slow, the reference of tests. noise: (n, k)."""
    losses = []
    for row, target, drawn in zip(rows, targets.tolist(), noise.tolist(), strict=True):
        expected = len(drawn) * noise_probabilities
        model = torch.exp(weight @ row + bias) / math.exp(ln_z)
        loss = -torch.log(model[target] / (model[target] + expected[target]))
        for word in drawn:
            loss = loss - torch.log(expected[word] / (model[word] + expected[word]))
        losses.append(loss)
    return torch.stack(losses)
