"""Span attention as a layer: each step attends to the spans that end before it and mixes the result into its state.

Peng, Schwartz, Smith 2019, "PaLM: A Hybrid Parser and Language Model", section 2. `form` selects the paper's equations
or those of the authors' released program where they differ.
Shapes: T time, B batch, H features of a state, R of a span, A neurons of the scorer, m longest span, n real tokens.
"""

from __future__ import annotations

import math
from itertools import accumulate
from types import ModuleType
from typing import NamedTuple

import torch
from torch import Tensor, nn

from syntaxlm.layers.rows import Rows
from syntaxlm.ops import span_attention
from syntaxlm.ops.span_attention import Form, SpanReading, SpanWeights


class MixedReading(NamedTuple):
    """hidden: (n, H).  carried: (m, B, H), earlier states for the next chunk, detached.  spans: output of the op."""

    hidden: Tensor
    carried: Tensor
    spans: SpanReading


class SpanAttention(nn.Module):
    """Representations of spans of 1 to `maximum` tokens, their scorer, and the gate that mixes them into the state.

    size: H; span_size: R, even; scorer_size: A, or None if a span's score is its length.
    Initial weights and biases of the mixture are uniform in (-1/sqrt(fan-in), 1/sqrt(fan-in)), other biases 0.
    """

    def __init__(self, size: int, span_size: int, scorer_size: int | None, maximum: int, form: Form) -> None:
        super().__init__()
        self.maximum, self.form = maximum, form
        biases = (2 if form == "released" else 1) * span_size + (scorer_size or 0)
        self.input_weight = nn.Parameter(torch.empty(span_size + biases, size))
        self.input_bias = nn.Parameter(torch.zeros(biases))
        self.span_weight = self.score_weight = None
        if scorer_size is not None:
            self.span_weight = nn.Parameter(torch.empty(scorer_size, span_size))
            self.score_weight = nn.Parameter(torch.empty(scorer_size))
        for weight in self.parameters(recurse=False):
            if weight is not self.input_bias:
                nn.init.uniform_(weight, -1 / math.sqrt(weight.shape[-1]), 1 / math.sqrt(weight.shape[-1]))
        self.gate = nn.Linear(size + span_size, size)
        self.mixture = nn.Linear(span_size if form == "released" else size + span_size, size)
        self.ops: ModuleType = span_attention  # benchmarks replace it by the reference

    def forward(self, states: Tensor, rows: Rows, carried: Tensor | None) -> MixedReading:
        """states: (n, H), real tokens in the order of `rows`; carried: None at the start of a text, for zeros."""
        spans = self.spans(states, rows, carried, self.maximum)
        return MixedReading(self._mixed(states, spans.context), self._carried(states, rows, carried), spans)

    def spans(self, states: Tensor, rows: Rows, carried: Tensor | None, maximum: int) -> SpanReading:
        """The spans of 1 to `maximum` tokens, without the mixing: their attended mean, scores and attention."""
        weights = SpanWeights(self.input_weight, self.input_bias, self.span_weight, self.score_weight, self.form)
        reading: SpanReading = self.ops.span_attention(states, carried, weights, maximum, rows.counts)
        return reading

    def _mixed(self, states: Tensor, context: Tensor) -> Tensor:
        """Equation (6). In the released form the gate is the weight of the state, in the paper's of the mixture."""
        both = torch.cat([states, context], dim=-1)
        gate = torch.sigmoid(self.gate(both).to(states.dtype))
        if self.form == "paper":
            return torch.lerp(states, torch.tanh(self.mixture(both).to(states.dtype)), gate)
        return torch.lerp(torch.tanh(self.mixture(context).to(states.dtype)), states, gate)

    def _carried(self, states: Tensor, rows: Rows, before: Tensor | None) -> Tensor:
        """The states of the last m steps, including earlier ones and zeros; undefined for columns that have ended."""
        steps = rows.padded(states.detach())
        missing = self.maximum - len(steps)
        if missing <= 0:
            return steps[-self.maximum :]
        if before is None:
            before = steps.new_zeros(self.maximum, *steps.shape[1:])
        return torch.cat([before[-missing:], steps])


def supervision_loss(scores: Tensor, spans: Tensor, rows: Rows) -> Tensor:
    """Cross-entropy of the attention relative to that of gold trees, averaged over all n tokens: equation (5).

    scores: (n, m). spans: (k, 3), as in `TokenBatch.spans`. A step's constituents share its gold attention equally,
    without those of one token or of more than m; a step without constituents adds 0.
    """
    step, column, length = spans.unbind(1)
    starts = torch.tensor([0, *accumulate(rows.counts)], device=scores.device)
    kept = (length >= 2) & (length <= scores.shape[1])
    row = (starts[step] + column)[kept]
    shares = 1 / torch.bincount(row, minlength=len(scores)).clamp(min=1).to(scores.dtype)
    log_attention = torch.log_softmax(scores, dim=-1)[row, length[kept] - 1]
    return -(log_attention * shares[row]).sum() / len(scores)
