"""PaLM: AWD-LSTM with attention to the spans before each word. Spans are parsed by their attention scores.

Peng, Schwartz, Smith 2019, "PaLM: A Hybrid Parser and Language Model". PaLM-U is trained on text alone; PaLM-S also
on gold spans (`supervision`); PaLM-RB always prefers the longest span, whatever the words, and a parser can choose the
spans (`scores`). `form` selects the paper's equations (section 2) or those of the authors' released program where
they differ.
Shapes: T time, B batch, E embedding size, H features of a state, R of a span, A neurons of the scorer, m longest span,
n real tokens of a batch.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate
from typing import Annotated, Literal, cast

import torch
from torch import Tensor, nn

from syntaxlm.core.errors import InputError
from syntaxlm.core.settings import Bounds, Layers, NonNegative, Positive, Size
from syntaxlm.models.abilities import Maps
from syntaxlm.models.backbone import AWDBackbone, AWDConfig, BackboneOutput, Embedding, neural_model
from syntaxlm.models.batches import State, TokenBatch
from syntaxlm.models.layers import Rows, locked_dropout
from syntaxlm.models.recurrent import LSTMLayer, RecurrentStack
from syntaxlm.models.structures import SpanScores
from syntaxlm.ops.dropout import dropout_mask
from syntaxlm.ops.span_attention import Form, SpanReading, SpanWeights, span_attention

Scores = Literal["learned", "right-branching", "left-branching", "trees"]


class SpanAttention(nn.Module):
    """Representations of spans of 1 to `maximum` tokens, their scorer, and the gate that mixes them into the state.

    Initial weights are those of the released program: uniform, by Xavier's rule, with the fans that it gives to each
    part; biases are 0.

    Args:
        size: H.
        span_size: R, even.
        scores: of spans: learned, by length, or given.
        scorer_size: A, if scores are learned.
        maximum: m, the longest span attended to.
        form: the paper's equations, or those of the released program.
        dropout: rate on the states that spans are made of, on the spans' runs, their mean, and what is mixed in.
    """

    def __init__(
        self,
        size: int,
        span_size: int,
        scorer_size: int,
        maximum: int,
        form: Form,
        scores: Scores = "learned",
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.scores = scores
        self.maximum = maximum
        self.form = form
        self.dropout = dropout
        learned = scores == "learned"
        biases = (2 if form == "released" else 1) * span_size + (scorer_size if learned else 0)
        self.input_weight = nn.Parameter(torch.empty(span_size + biases, size))
        self.input_bias = nn.Parameter(torch.zeros(biases))
        self.span_weight = self.score_weight = None
        if learned:
            self.span_weight = nn.Parameter(torch.empty(scorer_size, span_size))
            self.score_weight = nn.Parameter(torch.empty(scorer_size))
        self.gate = nn.Linear(size + span_size, size)
        self.mixture = nn.Linear(span_size if form == "released" else size + span_size, size)
        self._initialise()

    def _initialise(self) -> None:
        size, span_size = self.input_weight.shape[1], len(self.input_weight) - len(self.input_bias)
        _xavier(self.input_weight[: 2 * span_size], size, span_size // 2, gain=5 / 3)  # a tanh's, which is not there
        if self.form == "released":
            _xavier(self.input_weight[2 * span_size : 3 * span_size], size, span_size // 2)
        if self.span_weight is not None and self.score_weight is not None:
            scorer_size = len(self.score_weight)
            _xavier(self.span_weight, span_size + size, scorer_size)
            _xavier(self.input_weight[-scorer_size:], span_size + size, scorer_size)
            _xavier(self.score_weight, scorer_size, 1)
        for layer in (self.gate, self.mixture):
            _xavier(layer.weight, layer.in_features, layer.out_features)
            nn.init.zeros_(layer.bias)

    def forward(
        self, states: Tensor, rows: Rows, carried: Tensor | None, given_scores: Tensor | None = None
    ) -> tuple[Tensor, Tensor, SpanReading]:
        """Return the mixed states, (n, H), earlier states for the next chunk, (m, B, H), and the output of the op.

        Dropout is that of the released program: the spans, the gate and the mixture read dropped states; the state
        itself is mixed without dropout.

        Args:
            states: (n, H), real tokens in the order of `rows`.
            carried: earlier states; None at the start of a text, for zeros. Those of columns that have ended are
                undefined.
            given_scores: scores of spans, (n, m), if they are neither learned nor by length.
        """
        drop = partial(locked_dropout, rate=self.dropout, rows=rows, training=self.training)
        dropped = drop(states)
        mask = None
        if self.training and self.dropout:
            span_size = len(self.input_weight) - len(self.input_bias)
            mask = dropout_mask((rows.columns, span_size), self.dropout, self.input_bias)
        spans = self.spans(dropped, rows, carried, self.maximum, mask, given_scores)

        # Equation (6). In the paper's form the gate is the weight of the mixture, in the released form of the state.
        context = drop(spans.context)
        states_and_spans = torch.cat([dropped, context], dim=-1)
        gate = torch.sigmoid(self.gate(states_and_spans).to(states.dtype))
        mixture = self.mixture(states_and_spans if self.form == "paper" else context)
        mixture = drop(torch.tanh(mixture.to(states.dtype)))
        mixed = torch.lerp(states, mixture, gate if self.form == "paper" else 1 - gate)

        # Spans of the next chunk can start in this one.
        steps = rows.padded(dropped.detach())
        if carried is None:
            carried = steps.new_zeros(self.maximum, *steps.shape[1:])
        return mixed, torch.cat([carried, steps])[-self.maximum :], spans

    def spans(
        self,
        states: Tensor,
        rows: Rows,
        carried: Tensor | None,
        maximum: int,
        mask: Tensor | None = None,
        given_scores: Tensor | None = None,
    ) -> SpanReading:
        """Return the spans of 1 to `maximum` tokens, without the mixing: their attended mean, scores and attention."""
        weights = SpanWeights(self.input_weight, self.input_bias, self.span_weight, self.score_weight, self.form)
        if self.scores in ("right-branching", "left-branching"):
            given_scores = self.length_scores(maximum)
        return span_attention(states, carried, weights, maximum, rows.counts, mask, given_scores)

    def length_scores(self, maximum: int) -> Tensor:
        """Return the scores of spans of 1 to `maximum` tokens that are not learned, (maximum,).

        Right branching prefers the longest span, left branching the shortest. The released program's scores are a tenth
        of the paper's, so its attention is softer.
        """
        lengths = torch.arange(1, maximum + 1, device=self.input_bias.device).to(self.input_bias)
        scale = 0.1 if self.form == "released" else 1.0
        return scale * (lengths if self.scores == "right-branching" else -lengths)


def _xavier(weight: Tensor, inputs: int, outputs: int, gain: float = 1.0) -> None:
    """Draw a weight by Xavier's rule: uniform in +-gain sqrt(6 / (inputs + outputs))."""
    limit = gain * math.sqrt(6 / (inputs + outputs))
    nn.init.uniform_(weight, -limit, limit)


def _start_from_orthogonal_gates(layer: LSTMLayer) -> None:
    """Draw each gate's weights as an orthogonal matrix and set biases to 0, as the released program does."""
    for weight in (layer.input_weight, layer.recurrent_weight):
        for gate in weight.detach().chunk(4):
            nn.init.orthogonal_(gate)
    nn.init.zeros_(layer.input_bias)
    nn.init.zeros_(layer.recurrent_bias)


def _attended(spans: Tensor, rows: Rows, longest: int) -> tuple[Tensor, Tensor]:
    """Return row and length of the constituents that have 2 to `longest` tokens, (k,) each.

    Args:
        spans: (k, 3), as in `TokenBatch.spans`.
    """
    step, column, length = spans.unbind(1)
    starts = torch.tensor([0, *accumulate(rows.counts)], device=spans.device)
    is_attended = (length >= 2) & (length <= longest)
    return (starts[step] + column)[is_attended], length[is_attended]


def tree_scores(spans: Tensor, rows: Rows, maximum: int, like: Tensor) -> Tensor:
    """Return scores of spans by given trees, (n, m): 0 for constituents, minus infinity for other spans.

    A step before which no constituent of 2 to m tokens ends attends to the token before it.

    Args:
        spans: (k, 3), as in `TokenBatch.spans`.
        maximum: m.
        like: has the dtype and the device of the scores.
    """
    row, length = _attended(spans, rows, maximum)
    scores = like.new_full((sum(rows.counts), maximum), -torch.inf)
    scores[:, 0] = 0.0
    scores[row, 0] = -torch.inf
    scores[row, length - 1] = 0.0
    return scores


def supervision_loss(scores: Tensor, spans: Tensor, rows: Rows) -> Tensor:
    """Return cross-entropy of the attention relative to that of gold trees, averaged over all n tokens: equation (5).

    Args:
        scores: (n, m).
        spans: (k, 3), as in `TokenBatch.spans`. A step's constituents share its gold attention equally, without those
            of one token or of more than m; a step without constituents adds 0.
    """
    row, length = _attended(spans, rows, scores.shape[1])
    shares = 1 / torch.bincount(row, minlength=len(scores)).clamp(min=1).to(scores.dtype)
    log_attention = torch.log_softmax(scores, dim=-1)[row, length - 1]
    return -(log_attention * shares[row]).sum() / len(scores)


@dataclass(frozen=True)
class PaLMConfig(AWDConfig):
    """Settings of PaLM (Peng, Schwartz, Smith 2019): PaLM-U, PaLM-S and PaLM-RB.

    Attributes:
        attention_after: number of LSTM layers below the span attention; the other layers read its output
        span_size: features of a span, an even number, half of them for each direction
        scorer_size: hidden units of the network that scores a span for a word
        maximum_span: longest span that receives attention, in words; parsing has no limit
        scores: learned scores, or the length of a span (right-branching, PaLM-RB), or minus its length
            (left-branching), or equal scores for the constituents of text.trees, text.valid_trees and text.test_trees,
            without attention to other spans (trees)
        supervision: lambda, the weight of the loss on gold spans; requires text.trees
        supervision_epochs: number of first epochs, which have only the loss on gold spans; the other epochs have only
            the loss of the language model; with 0, all epochs have both
        initial_weights: whether LSTM layers start with orthogonal matrices and biases of 0, as in the released program,
            or with uniform weights and biases, as in AWD-LSTM
        form: whether the equations follow the released program or the paper
        init_range: initial weights of embedding and decoder are uniform in (-init_range, init_range); the
            released program uses sqrt(3 / embedding_size)
    """

    name: Literal["palm"] = "palm"
    attention_after: Layers = 2
    span_size: Annotated[int, Bounds(ge=2, le=65_536)] = 200
    scorer_size: Size = 100
    maximum_span: Annotated[int, Bounds(ge=1, le=1024)] = 20
    scores: Scores = "learned"
    supervision: NonNegative = 0.0
    supervision_epochs: NonNegative = 0.0
    initial_weights: Literal["orthogonal", "uniform"] = "orthogonal"
    form: Form = "released"
    init_range: Positive = 0.1225

    @property
    def reads_trees(self) -> bool:
        return self.scores == "trees"

    def contradictions(self) -> list[str]:
        faults = super().contradictions()
        layers = len(self.layer_sizes)
        if self.attention_after > layers:
            faults.append(f"attention_after: found {self.attention_after}; expected at most {layers}, the LSTM layers")
        if self.span_size % 2:
            faults.append(f"span_size: found {self.span_size}; expected an even number, half for each direction")
        if self.supervision and self.scores != "learned":
            faults.append(f"supervision: found {self.supervision}; expected 0, or model.scores learned")
        if self.supervision_epochs and not self.supervision:
            found = f"found {self.supervision_epochs}; expected 0, or model.supervision above 0"
            faults.append(f"supervision_epochs: {found}")
        return faults


_WITHOUT_TREES = (
    "found text without trees; expected both, because this model predicts words given trees (model.scores: trees)."
    " Only its training reads trees; perplexities are in the result.json of its folder"
)


@neural_model("palm", PaLMConfig)
class PaLMBackbone(AWDBackbone):
    """LSTM layers below and above span attention."""

    structure_type: type[SpanScores] | None = SpanScores
    has_maps = True
    changes_loss = True

    def __init__(self, config: PaLMConfig) -> None:
        super().__init__(config, ar_after_dropout=True)
        self.config = config
        below = config.layer_sizes[: config.attention_after]
        above = config.layer_sizes[config.attention_after :]
        layer = partial(LSTMLayer, chunk=None, weight_drop=config.weight_drop, rescaled=True)
        self.below = RecurrentStack(config.embedding_size, below, layer, config.layer_dropout)
        self.above = RecurrentStack(below[-1], above, layer, config.layer_dropout)
        self.attention = SpanAttention(
            below[-1],
            config.span_size,
            config.scorer_size,
            config.maximum_span,
            config.form,
            config.scores,
            config.layer_dropout,
        )
        if config.reads_trees:
            self.structure_type = None
        self.changes_loss = config.supervision_epochs > 0
        self._learns_spans = config.supervision > 0
        self._learns_words = True

        if config.initial_weights == "orthogonal":
            for module in (*self.below.layers, *self.above.layers):
                _start_from_orthogonal_gates(cast(LSTMLayer, module))

    def set_epoch(self, epochs: float) -> None:
        if self.changes_loss:
            self._learns_spans = epochs < self.config.supervision_epochs
            self._learns_words = not self._learns_spans

    def forward(self, embedded: Tensor, batch: TokenBatch, state: State) -> BackboneOutput:
        output = super().forward(embedded, batch, state)
        if self._learns_words:
            return output
        spans = {name: penalty for name, penalty in output.penalties.items() if name == "spans"}
        return replace(output, penalties=spans, learns_words=False)

    def read_layers(self, inputs: Tensor, rows: Rows, batch: TokenBatch, state: State) -> BackboneOutput:
        rate = self.config.layer_dropout

        def part_of_state(prefix: str) -> State:
            """Return the state of one of the two stacks, whose names in `state` have this prefix."""
            return None if state is None else {name.removeprefix(prefix): part for name, part in state.items()}

        # LSTM layers, span attention, LSTM layers.
        layers, after_below = self.below(inputs, rows, part_of_state("below."))
        carried_before = None if state is None else state["carried.spans"]
        given_scores = None
        if self.config.reads_trees:
            if batch.spans is None:
                raise InputError(_WITHOUT_TREES)
            given_scores = tree_scores(batch.spans, rows, self.config.maximum_span, layers[-1].hidden)
        states, carried, spans = self.attention(layers[-1].hidden, rows, carried_before, given_scores)
        after = {f"below.{name}": part for name, part in after_below.items()} | {"carried.spans": carried}
        if self.above.layers:
            inputs_above = locked_dropout(states, rate, rows, self.training)
            layers, after_above = self.above(inputs_above, rows, part_of_state("above."))
            states = layers[-1].hidden
            after |= {f"above.{name}": part for name, part in after_above.items()}

        # Slot k of the attention at step t is the span of k + 1 words that starts at step t - 1 - k.
        maps = Maps({"span attention": rows.padded(spans.attention.detach())})
        penalties = {}
        if self.training and batch.spans is not None and self._learns_spans:  # PaLM-S
            penalties["spans"] = self.config.supervision * supervision_loss(spans.scores, batch.spans, rows)
        return BackboneOutput(states, after, penalties, maps=maps)

    def parser_weights(self) -> list[nn.Parameter]:
        return list(self.attention.parameters(recurse=False))

    def structure(self, batch: TokenBatch, embedding: Embedding) -> SpanScores:
        """Score of spans of all lengths up to the longest sentence. The layers above the attention are not run."""
        steps, columns = batch.tokens.shape
        longest = max(1, steps - 1)
        if self.config.scores != "learned":
            return _normalised(self.attention.length_scores(longest).expand(steps, columns, -1))
        rows, inputs = self.enter(self.embed(embedding, batch.tokens), batch)
        layers, _ = self.below(inputs, rows, None)
        return _normalised(rows.padded(self.attention.spans(layers[-1].hidden, rows, None, longest).scores))


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
