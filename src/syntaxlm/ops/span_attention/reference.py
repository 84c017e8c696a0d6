"""Span attention as its equations: slow, differentiated by autograd, the reference of all tests.

Peng, Schwartz, Smith 2019, "PaLM: A Hybrid Parser and Language Model", section 2. A run over a span's tokens replaces
the difference in the paper, c_j minus c_{i-1} times the product of f_i to f_j, and never leaves the span.
Shapes: T time, B batch, H features of an input, R of a span, A neurons of the scorer, m longest span, n real tokens.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor
from torch.nn.functional import linear

from syntaxlm.ops.span_attention.types import SpanReading, SpanWeights


def span_attention(
    inputs: Tensor, carried: Tensor | None, weights: SpanWeights, maximum: int, counts: Sequence[int]
) -> SpanReading:
    """Return every step attends to the spans that end at the step before, of lengths 1 to m = `maximum`.

    Rows are real tokens, time-major: step t has the first counts[t] columns; counts never increase.
    inputs: (n, H); carried: (m, B, H), the inputs before the first step, oldest first; None for zeros.
    """
    size = weights.size
    if carried is None:
        carried = inputs.new_zeros(maximum, counts[0], inputs.shape[1])
    bias = torch.cat([weights.bias.new_zeros(size), weights.bias])
    steps = linear(inputs, weights.input, bias).split(list(counts))
    before = linear(carried, weights.input[: 2 * size], bias[: 2 * size])
    tokens = [_update_and_forget(features[:, : 2 * size], weights) for features in (*before, *steps)]
    contexts, all_scores, attentions = [], [], []
    for step, features in enumerate(steps):
        spans = torch.stack(
            [
                _span(tokens[maximum + step - length : maximum + step], len(features))
                for length in range(1, maximum + 1)
            ],
            dim=1,
        )  # (B, m, R)
        if weights.form == "released":
            gate = torch.sigmoid(features[:, 2 * size : 3 * size])
            spans = torch.tanh(gate[:, None] * spans)
        if weights.span is None or weights.score is None:
            scores = torch.arange(1, maximum + 1).to(spans).expand(len(features), -1)
        else:
            token = features[:, -len(weights.score) :]
            scores = torch.tanh(linear(spans, weights.span) + token[:, None]) @ weights.score
        attention = torch.softmax(scores, dim=-1)
        contexts.append((attention[:, :, None] * spans).sum(1))
        all_scores.append(scores)
        attentions.append(attention)
    return SpanReading(torch.cat(contexts), torch.cat(all_scores), torch.cat(attentions))


def _update_and_forget(features: Tensor, weights: SpanWeights) -> tuple[Tensor, Tensor]:
    """Return u and f of a token, (B, R) each, from its features (B, 2R)."""
    update, forget = features.chunk(2, dim=-1)
    if weights.form == "paper":
        update = torch.tanh(update)
    return torch.sigmoid(-forget) * update, torch.sigmoid(forget)


def _span(tokens: Sequence[tuple[Tensor, Tensor]], columns: int) -> Tensor:
    """Return spans of the tokens of the first columns: the last states of the forward and of the backward run. (B,
    R)
    """
    half = tokens[0][0].shape[1] // 2
    forward = _run((u[:columns, :half], f[:columns, :half]) for u, f in tokens)
    backward = _run((u[:columns, half:], f[:columns, half:]) for u, f in reversed(tokens))
    return torch.cat([forward, backward], dim=-1)


def _run(tokens: Iterable[tuple[Tensor, Tensor]]) -> Tensor:
    """Return the last state of a rational RNN, c = f * c + u, over the tokens in order, from c = 0."""
    state: Tensor | float = 0.0
    for update, forget in tokens:
        state = forget * state + update
    assert isinstance(state, Tensor)
    return state
