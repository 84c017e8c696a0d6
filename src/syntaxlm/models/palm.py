"""PaLM: AWD-LSTM with attention to the spans before each word. Spans are parsed by their attention scores.

Peng, Schwartz, Smith 2019, "PaLM: A Hybrid Parser and Language Model". PaLM-U is trained on text alone; PaLM-S also
on gold spans (`supervision`); PaLM-RB always prefers the longest span, whatever the words (`scores`). `form` selects
the paper's equations (section 2) or those of the authors' released program where they differ.
Shapes: T time, B batch, E embedding size, H features of a state, R of a span, A neurons of the scorer, m longest span,
n real tokens of a batch.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from typing import Annotated, Literal

import torch
from torch import Tensor, nn

from syntaxlm.core.settings import Bounds, Layers, NonNegative, Size
from syntaxlm.models.abilities import Maps
from syntaxlm.models.backbone import AWDBackbone, AWDConfig, BackboneOutput, Embedding, neural_model
from syntaxlm.models.batches import State, TokenBatch
from syntaxlm.models.layers import Rows, locked_dropout
from syntaxlm.models.recurrent import LSTMLayer, RecurrentStack
from syntaxlm.models.structures import SpanScores
from syntaxlm.ops.span_attention import Form, SpanReading, SpanWeights, span_attention


class SpanAttention(nn.Module):
    """Representations of spans of 1 to `maximum` tokens, their scorer, and the gate that mixes them into the state.

    Initial weights and biases of the mixture are uniform in (-1/sqrt(fan-in), 1/sqrt(fan-in)), other biases 0.

    Args:
        size: H.
        span_size: R, even.
        scorer_size: A; None if a span's score is its length.
        maximum: m, the longest span attended to.
        form: the paper's equations, or those of the released program.
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

    def forward(self, states: Tensor, rows: Rows, carried: Tensor | None) -> tuple[Tensor, Tensor, SpanReading]:
        """Return the mixed states, (n, H), earlier states for the next chunk, (m, B, H), and the output of the op.

        Args:
            states: (n, H), real tokens in the order of `rows`.
            carried: earlier states; None at the start of a text, for zeros. Those of columns that have ended are
                undefined.
        """
        spans = self.spans(states, rows, carried, self.maximum)
        states_and_spans = torch.cat([states, spans.context], dim=-1)  # equation (6)
        gate = torch.sigmoid(self.gate(states_and_spans).to(states.dtype))
        if self.form == "paper":  # the gate is the weight of the mixture
            mixed = torch.lerp(states, torch.tanh(self.mixture(states_and_spans).to(states.dtype)), gate)
        else:  # the gate is the weight of the state
            mixed = torch.lerp(torch.tanh(self.mixture(spans.context).to(states.dtype)), states, gate)
        steps = rows.padded(states.detach())
        if carried is None:
            carried = steps.new_zeros(self.maximum, *steps.shape[1:])
        return mixed, torch.cat([carried, steps])[-self.maximum :], spans

    def spans(self, states: Tensor, rows: Rows, carried: Tensor | None, maximum: int) -> SpanReading:
        """Return the spans of 1 to `maximum` tokens, without the mixing: their attended mean, scores and attention."""
        weights = SpanWeights(self.input_weight, self.input_bias, self.span_weight, self.score_weight, self.form)
        return span_attention(states, carried, weights, maximum, rows.counts)


def supervision_loss(scores: Tensor, spans: Tensor, rows: Rows) -> Tensor:
    """Return cross-entropy of the attention relative to that of gold trees, averaged over all n tokens: equation (5).

    Args:
        scores: (n, m).
        spans: (k, 3), as in `TokenBatch.spans`. A step's constituents share its gold attention equally, without those
            of one token or of more than m; a step without constituents adds 0.
    """
    step, column, length = spans.unbind(1)
    starts = torch.tensor([0, *accumulate(rows.counts)], device=scores.device)
    is_scored = (length >= 2) & (length <= scores.shape[1])
    row = (starts[step] + column)[is_scored]
    shares = 1 / torch.bincount(row, minlength=len(scores)).clamp(min=1).to(scores.dtype)
    log_attention = torch.log_softmax(scores, dim=-1)[row, length[is_scored] - 1]
    return -(log_attention * shares[row]).sum() / len(scores)


@dataclass(frozen=True)
class PaLMConfig(AWDConfig):
    """Settings of PaLM (Peng, Schwartz, Smith 2019): PaLM-U, PaLM-S and PaLM-RB.

    Attributes:
        attention_after: LSTM layers below the span attention; the others read its output
        span_size: features of a span, half for each direction; even
        scorer_size: hidden units of the network that scores a span for a word
        maximum_span: longest span attended to, in words; no limit in parsing
        scores: right-branching: a span's score is its length (PaLM-RB)
        supervision: lambda: weight of the cross-entropy of gold spans, with text.trees
        form: of span updates, span gates, and the mixing of attention into the state
    """

    name: Literal["palm"] = "palm"
    attention_after: Layers = 2
    span_size: Annotated[int, Bounds(ge=2, le=65_536)] = 200
    scorer_size: Size = 100
    maximum_span: Annotated[int, Bounds(ge=1, le=1024)] = 20
    scores: Literal["learned", "right-branching"] = "learned"
    supervision: NonNegative = 0.0
    form: Form = "released"

    def contradictions(self) -> list[str]:
        faults = super().contradictions()
        layers = len(self.layer_sizes)
        if self.attention_after > layers:
            faults.append(f"attention_after: found {self.attention_after}; expected at most {layers}, the LSTM layers")
        if self.span_size % 2:
            faults.append(f"span_size: found {self.span_size}; expected an even number, half for each direction")
        if self.supervision and self.scores != "learned":
            faults.append(f"supervision: found {self.supervision}; expected 0, or model.scores learned")
        return faults


@neural_model("palm", PaLMConfig)
class PaLMBackbone(AWDBackbone):
    """LSTM layers below and above span attention."""

    structure_type = SpanScores
    has_maps = True

    def __init__(self, config: PaLMConfig) -> None:
        super().__init__(config, ar_after_dropout=True)
        self.config = config
        below = config.layer_sizes[: config.attention_after]
        above = config.layer_sizes[config.attention_after :]
        layer = partial(LSTMLayer, chunk=None, weight_drop=config.weight_drop, rescaled=True)
        self.below = RecurrentStack(config.embedding_size, below, layer, config.layer_dropout)
        self.above = RecurrentStack(below[-1], above, layer, config.layer_dropout)
        scorer_size = config.scorer_size if config.scores == "learned" else None
        self.attention = SpanAttention(below[-1], config.span_size, scorer_size, config.maximum_span, config.form)

    def read_layers(self, inputs: Tensor, rows: Rows, batch: TokenBatch, state: State) -> BackboneOutput:
        rate = self.config.layer_dropout

        def part_of_state(prefix: str) -> State:
            """Return the state of one of the stacks, of both of which `state` has the parts."""
            return None if state is None else {name.removeprefix(prefix): part for name, part in state.items()}

        # LSTM layers, span attention, LSTM layers.
        layers, after_below = self.below(inputs, rows, part_of_state("below."))
        attended = locked_dropout(layers[-1].hidden, rate, rows, self.training)
        states, carried, spans = self.attention(attended, rows, None if state is None else state["carried.spans"])
        after = {f"below.{name}": part for name, part in after_below.items()} | {"carried.spans": carried}
        if self.above.layers:
            inputs_above = locked_dropout(states, rate, rows, self.training)
            layers, after_above = self.above(inputs_above, rows, part_of_state("above."))
            states = layers[-1].hidden
            after |= {f"above.{name}": part for name, part in after_above.items()}

        # Slot k of the attention at step t is the span of k + 1 words that starts at step t - 1 - k.
        maps = Maps({"span attention": rows.padded(spans.attention.detach())})
        penalties = {}
        if self.training and batch.spans is not None and self.config.supervision:  # PaLM-S
            penalties["spans"] = self.config.supervision * supervision_loss(spans.scores, batch.spans, rows)
        return BackboneOutput(states, after, penalties, maps=maps)

    def structure(self, batch: TokenBatch, embedding: Embedding) -> SpanScores:
        """Score of spans of all lengths up to the longest sentence. The layers above the attention are not run."""
        steps, columns = batch.tokens.shape
        longest = max(1, steps - 1)
        if self.config.scores != "learned":
            lengths = torch.arange(1, longest + 1, device=batch.tokens.device)
            return _normalised(lengths.to(embedding.weight).expand(steps, columns, -1))
        rows, inputs = self.enter(self.embed(embedding, batch.tokens), batch)
        layers, _ = self.below(inputs, rows, None)
        states = locked_dropout(layers[-1].hidden, self.config.layer_dropout, rows, self.training)
        return _normalised(rows.padded(self.attention.spans(states, rows, None, longest).scores))


def _normalised(scores: Tensor) -> SpanScores:
    """Return log-probabilities among the spans of words that end at the same word, in float64.

    Spans that end at different words are scored at different steps, on different scales. The softmax removes the
    scales, so that decoders may add scores. (T, B, m) -> (T, B, m), for sentences after BOS.
    """
    steps, _, longest = scores.shape
    # The span of k tokens at step t starts at token t - k; token 0 is BOS, which no span of words includes.
    starts = torch.arange(steps)[:, None] - torch.arange(1, longest + 1)
    outside = (starts < 1)[:, None].to(scores.device)
    values = scores.double().masked_fill(outside, -torch.inf).log_softmax(-1)
    return SpanScores(values.masked_fill(outside, -torch.inf))  # avoids NaN where a step has no span
