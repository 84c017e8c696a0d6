"""Attention of each step to the spans that end before it.

Peng, Schwartz, Smith 2019, "PaLM: A Hybrid Parser and Language Model", section 2. A run over a span's tokens replaces
the difference in the paper, c_j minus c_{i-1} times the product of f_i to f_j, and never leaves the span.

In the fast form, spans are built by length, for all steps at once. Going back from a step by one token, the forward run
gains the token's update times all later forget gates, and the backward run reads one more token. No state goes from
step to step, so there is no loop over time; nothing is a difference of long sums, so no precision is lost; and a span
never depends on tokens outside it. The m spans per step take twenty times the memory of the rest of the layer, so they
are never all in memory: the spans of some steps at a time go through the scorer's product while they are in cache, and
backward recomputes them. Stored are the features of tokens and the scorer's neurons.

Shapes: T time, B batch, H features of an input, R of a span, A neurons of the scorer, F features computed from an
input, m longest span, n real tokens, N positions of the tape.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import linear

from syntaxlm.ops.backend import c_struct, call, filled, kernels, with_reference
from syntaxlm.ops.products import RepeatedProduct, large_product, product_dtype

# Features of spans computed at a time: as many as fit in a core's cache; on other devices, enough for few calls.
CACHED = 1 << 19
ON_DEVICE = 1 << 25

Form = Literal["released", "paper"]


@dataclass(frozen=True)
class SpanWeights:
    """The weights of spans and of their scorer. H features of an input, R of a span, A neurons of the scorer.

    The first R / 2 features of a span are those of the forward run over its tokens, the others of the backward run.
    input: (F, H), applied to an input; its rows are the update (R) and the forget gate (R) of a token in a span, in the
        released form the gate of the attending token (R), then the attending token's side of the scorer (A).
    bias: (F - R,), for all rows except the update, which has no bias.
    span: (A, R), the span's side of the scorer; score: (A,), its last layer. None if scores are not learned: then the
        score of a span is its length, and `input` and `bias` have no rows for the scorer.
    form: released: spans are tanh(gate * runs), the update is linear; paper: spans are the runs, the update has a tanh.
    """

    input: Tensor
    bias: Tensor
    span: Tensor | None = None
    score: Tensor | None = None
    form: Form = "released"

    def __post_init__(self) -> None:
        if (self.span is None) != (self.score is None):
            raise ValueError("span and score: expected both, or neither")
        if self.size % 2 or (self.span is not None and self.span.shape[1] != self.size):
            raise ValueError(f"found {self.size} span features; expected an even number, the columns of `span`")
        scorer = 0 if self.score is None else len(self.score)
        rows = (3 if self.form == "released" else 2) * self.size + scorer
        if len(self.input) != rows:
            raise ValueError(f"the input weight has {len(self.input)} rows; expected {rows}")

    @property
    def size(self) -> int:
        """R, the features of a span."""
        return len(self.input) - len(self.bias)


class SpanReading(NamedTuple):
    """Output of span attention for n real tokens; m the longest span. Index k of m is the span of length k + 1.

    context: (n, R), the mean of the spans weighted by attention.  scores, attention: (n, m).
    """

    context: Tensor
    scores: Tensor
    attention: Tensor


def span_attention_reference(
    inputs: Tensor, carried: Tensor | None, weights: SpanWeights, maximum: int, counts: Sequence[int]
) -> SpanReading:
    """Return `span_attention` as its equations, differentiated by autograd."""
    size = weights.size
    if carried is None:
        carried = inputs.new_zeros(maximum, counts[0], inputs.shape[1])
    bias = torch.cat([weights.bias.new_zeros(size), weights.bias])
    steps = linear(inputs, weights.input, bias).split(list(counts))
    before = linear(carried, weights.input[: 2 * size], bias[: 2 * size])
    tokens = [_token(features[:, : 2 * size], weights) for features in (*before, *steps)]
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


def _token(features: Tensor, weights: SpanWeights) -> tuple[Tensor, Tensor]:
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


@with_reference(span_attention_reference)
def span_attention(
    inputs: Tensor, carried: Tensor | None, weights: SpanWeights, maximum: int, counts: Sequence[int]
) -> SpanReading:
    """Let every step attend to the spans that end at the step before, of lengths 1 to m = `maximum`.

    Rows are real tokens, time-major: step t has the first counts[t] columns; counts never increase.
    inputs: (n, H); carried: (m, B, H), the inputs before the first step, oldest first; None for zeros.
    Peng, Schwartz, Smith 2019, section 2.
    """
    if sum(counts) != len(inputs) or (carried is not None and len(carried) != maximum):
        before = "" if carried is None else f" after {len(carried)} steps"
        raise ValueError(f"found {len(inputs)} rows{before}; expected {sum(counts)} rows after {maximum} steps or none")
    dtype = product_dtype(weights.input)
    with torch.autocast(inputs.device.type, enabled=False):  # the products that use `dtype` are chosen individually
        context, scores, attention = _SpanAttention.apply(
            inputs, carried, weights.input, weights.bias, weights.span, weights.score, maximum, tuple(counts),
            weights.form == "released", dtype,
        )  # fmt: skip
    return SpanReading(context, scores, attention)


@dataclass(frozen=True)
class _TapeLayout:
    """Positions of time-major rows on the tape, where each column's tokens are contiguous.

    The m carried tokens of a column come before its first step.
    places, rows: (n,) int64, position and row of each query, in the order of the tape.
    of_rows: (n,), the position of each row; of_carried: (m * B,), of each carried token. length: N.
    """

    places: Tensor
    rows: Tensor
    of_rows: Tensor
    of_carried: Tensor
    length: int

    @classmethod
    def of(cls, counts: tuple[int, ...], columns: int, maximum: int, device: torch.device) -> _TapeLayout:
        per_step = torch.tensor(counts)
        starts = per_step.cumsum(0) - per_step
        steps = torch.arange(len(counts)).repeat_interleave(per_step)
        column = torch.arange(len(steps)) - starts[steps]
        lengths = (per_step[:, None] > torch.arange(columns)).sum(0) + maximum
        begins = lengths.cumsum(0) - lengths
        of_rows = begins[column] + maximum + steps
        of_carried = (begins + torch.arange(maximum)[:, None]).flatten()
        rows = of_rows.argsort()
        places = of_rows[rows]
        places, rows, of_rows, of_carried = (part.to(device) for part in (places, rows, of_rows, of_carried))
        return cls(places, rows, of_rows, of_carried, int(lengths.sum()))


class _SpanAttention(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        inputs: Tensor,
        carried: Tensor | None,
        input_weight: Tensor,
        bias: Tensor,
        span_weight: Tensor | None,
        score_weight: Tensor | None,
        maximum: int,
        counts: tuple[int, ...],
        released: bool,
        dtype: torch.dtype,
    ) -> tuple[Tensor, Tensor, Tensor]:
        library = kernels("span_attention", dtype, input_weight, bias, span_weight, score_weight)
        size = len(input_weight) - len(bias)
        layout = _TapeLayout.of(counts, counts[0] if carried is None else carried.shape[1], maximum, inputs.device)
        low_inputs, low_weight = inputs.to(dtype), input_weight.to(dtype)
        low_bias = torch.cat([bias.new_zeros(size), bias]).to(dtype)
        low_carried = carried_features = None
        if carried is not None:
            low_carried = carried.flatten(0, 1).to(dtype)
            carried_features = large_product(low_carried, low_weight[: 2 * size], low_bias[: 2 * size])
        features = large_product(low_inputs, low_weight, low_bias)
        scores = torch.arange(1, maximum + 1).to(bias).repeat(len(inputs), 1)
        attentions = torch.softmax(scores, dim=-1)
        contexts = bias.new_empty(len(inputs), size)
        if score_weight is not None:
            score_weight = score_weight.contiguous()
        tape = _Tape(
            layout.places, layout.rows, features, bias.new_empty(layout.length, 2 * size), score_weight, attentions,
            scores, contexts,
        )  # fmt: skip
        spans_of = _spans(library, tape, released)
        spans_of.fill(layout, carried_features, bias)
        at_a_time = _queries_at_a_time(tape)
        low_span = product = None
        if span_weight is not None:
            low_span = span_weight.to(dtype)
            product = RepeatedProduct(low_span, at_a_time * maximum)
        keep, kept = any(ctx.needs_input_grad), []
        for first, last in _parts(len(inputs), at_a_time):
            spans = spans_of.represent(first, last)
            hidden = None if product is None else product(spans.flatten(0, 1)).view(last - first, maximum, -1)
            spans_of.attend(first, last, spans, hidden)
            if keep and hidden is not None:
                kept.append(hidden)
        ctx.save_for_backward(
            low_inputs, low_carried, low_weight, bias, low_span, score_weight, carried_features, features, attentions,
            *kept,
        )  # fmt: skip
        ctx.layout, ctx.library, ctx.released, ctx.at_a_time = layout, library, released, at_a_time
        ctx.input_dtype, ctx.carried_dtype = inputs.dtype, None if carried is None else carried.dtype
        ctx.set_materialize_grads(False)
        if score_weight is None:
            ctx.mark_non_differentiable(scores, attentions)
        return contexts, scores, attentions

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        inputs, carried, input_weight, bias, span_weight, score_weight, *rest = ctx.saved_tensors
        carried_features, features, attentions, *kept = rest
        layout: _TapeLayout = ctx.layout
        size, maximum, dtype = len(input_weight) - len(bias), attentions.shape[1], bias.dtype
        context_grads, score_grads, attention_grads = (None if grad is None else grad.contiguous() for grad in grads)
        tape = _Tape(
            layout.places,
            layout.rows,
            features,
            bias.new_empty(layout.length, 2 * size),
            score_weight,
            attentions,
            tape_grads=bias.new_zeros(layout.length, 2 * size),
            feature_grads=torch.empty_like(features),
            context_grads=bias.new_zeros(len(features), size) if context_grads is None else context_grads,
            score_grads=score_grads,
            attention_grads=attention_grads,
        )
        spans_of = _spans(ctx.library, tape, ctx.released)
        spans_of.fill(layout, carried_features, bias)
        span_grad, score_grad = bias.new_zeros(tape.scorer, size), bias.new_zeros(tape.scorer)
        product = None
        if span_weight is not None:
            product = RepeatedProduct(span_weight.T, ctx.at_a_time * maximum)
        for number, (first, last) in enumerate(_parts(len(inputs), ctx.at_a_time)):
            spans = spans_of.represent(first, last)
            through = None
            if product is not None:
                hidden = kept[number]
                scores_grad, hidden_grad = spans_of.attend_backward(first, last, spans, hidden)
                through = product(hidden_grad.flatten(0, 1)).view_as(spans)
                span_grad += hidden_grad.flatten(0, 1).T @ spans.flatten(0, 1)
                score_grad += hidden.flatten(0, 1).to(dtype).T @ scores_grad.flatten()
            spans_of.represent_backward(first, last, spans, through)
        feature_grads = tape.feature_grads
        spans_of.tokens_backward(features, feature_grads, layout.of_rows)
        input_grad = large_product(feature_grads.T, inputs.T).to(dtype)
        bias_grad = feature_grads[:, size:].sum(0, dtype=dtype)
        carried_grad = None
        if carried is None:  # u is 0, and f the same everywhere
            forget = bias[:size]
            total = tape.tape_grads[layout.of_carried, size:].sum(0)
            bias_grad[:size] += total * torch.sigmoid(forget) * torch.sigmoid(-forget)
        else:
            carried_grads = torch.empty_like(carried_features)
            spans_of.tokens_backward(carried_features, carried_grads, layout.of_carried)
            input_grad[: 2 * size] += large_product(carried_grads.T, carried.T)
            bias_grad[:size] += carried_grads[:, size:].sum(0, dtype=dtype)
            if ctx.needs_input_grad[1]:
                carried_grad = large_product(carried_grads, input_weight[: 2 * size].T).to(ctx.carried_dtype)
                carried_grad = carried_grad.unflatten(0, (maximum, -1))
        return (
            large_product(feature_grads, input_weight.T).to(ctx.input_dtype) if ctx.needs_input_grad[0] else None,
            carried_grad,
            input_grad,
            bias_grad,
            None if product is None else span_grad,
            None if product is None else score_grad,
            *(None,) * 4,
        )


@dataclass(frozen=True)
class _Tape:
    """What the functions between the products read and write; names as in kernels/span_attention.c.

    places, rows: as in `_TapeLayout`. features: (n, F), of every row, in the dtype of products. tape: (N, 2R), u and f
    of every token. score_weight: (A,), None if the attention is given. attentions, scores: (n, m). contexts: (n, R).
    Computed in backward: tape_grads (N, 2R), by adding to it; feature_grads (n, F), in the dtype of products. Given:
    context_grads (n, R); score_grads and attention_grads (n, m), None for zeros.
    """

    places: Tensor
    rows: Tensor
    features: Tensor
    tape: Tensor
    score_weight: Tensor | None
    attentions: Tensor
    scores: Tensor | None = None
    contexts: Tensor | None = None
    tape_grads: Any = None  # a tensor in backward
    feature_grads: Any = None
    context_grads: Any = None
    score_grads: Tensor | None = None
    attention_grads: Tensor | None = None

    @property
    def size(self) -> int:
        """R, features of a span."""
        return self.tape.shape[1] // 2

    @property
    def scorer(self) -> int:
        """A, neurons of the scorer."""
        return 0 if self.score_weight is None else len(self.score_weight)

    @property
    def maximum(self) -> int:
        """m, the longest span."""
        return self.attentions.shape[1]


def _queries_at_a_time(tape: _Tape) -> int:
    """Return number of queries whose spans are in memory at a time."""
    elements = CACHED * torch.get_num_threads() if tape.tape.device.type == "cpu" else ON_DEVICE
    return max(1, elements // (tape.maximum * tape.size))


def _parts(total: int, size: int) -> Iterator[tuple[int, int]]:
    """(first, end) of each group of `size` queries."""
    return ((first, min(first + size, total)) for first in range(0, total, size))


class _TorchSpans:
    """Everything between the products, for some queries at a time, in torch."""

    def __init__(self, tape: _Tape, released: bool) -> None:
        self.tape, self.released = tape, released

    def fill(self, layout: _TapeLayout, carried_features: Tensor | None, bias: Tensor) -> None:
        """Compute u and f of all tokens. If nothing is carried, the tokens before the first step are zeros.

        carried_features: (m * B, 2R), of the carried tokens, or None.
        """
        self.tokens(self.tape.features, layout.of_rows)
        if carried_features is not None:
            self.tokens(carried_features, layout.of_carried)
        else:
            forget = bias[: self.tape.size]
            self.tape.tape[layout.of_carried] = torch.cat([torch.zeros_like(forget), torch.sigmoid(forget)])

    def tokens(self, features: Tensor, places: Tensor) -> None:
        """Write u and f of tokens to the tape, from their features, (k, 2R or more). places: (k,)."""
        update, forget = self._update_and_forget(features)
        if not self.released:
            update = update.tanh()
        # If f is nearly 1, 1 - f loses precision, so it is computed by its own sigmoid.
        self.tape.tape[places] = torch.cat([torch.sigmoid(-forget) * update, torch.sigmoid(forget)], dim=-1)

    def tokens_backward(self, features: Tensor, grads: Tensor, places: Tensor) -> None:
        """Write the gradients of the first 2R features of tokens to `grads`."""
        tape, size = self.tape, self.tape.size
        u, f = tape.tape[places].chunk(2, dim=-1)
        u_grad, f_grad = tape.tape_grads[places].chunk(2, dim=-1)
        update, forget = self._update_and_forget(features)
        left = torch.sigmoid(-forget)
        grads[:, size : 2 * size] = f * (f_grad * left - u_grad * u)
        grads[:, :size] = u_grad * left if self.released else u_grad * left * (1 - update.tanh().square())

    def represent(self, first: int, last: int) -> Tensor:
        """Return the spans of some queries, in the dtype of products: (k, m, R)."""
        runs = self._runs(first, last)[0][:, 1:]
        spans = torch.tanh(self._gate(first, last)[:, None] * runs) if self.released else runs
        return spans.to(self.tape.features.dtype)

    def attend(self, first: int, last: int, spans: Tensor, hidden: Tensor | None) -> None:
        """Write scores, attention and context of some queries.

        hidden: (k, m, A), the product of the spans, replaced by the scorer's neurons; None: the attention is given.
        """
        tape, rows = self.tape, self.tape.rows[first:last]
        assert tape.scores is not None
        assert tape.contexts is not None
        if hidden is not None:
            assert tape.score_weight is not None
            neurons = torch.tanh(hidden.to(tape.tape.dtype) + self._token_side(rows)[:, None])
            hidden.copy_(neurons)
            scores = neurons @ tape.score_weight
            tape.scores[rows] = scores
            tape.attentions[rows] = torch.softmax(scores, dim=-1)
        tape.contexts[rows] = torch.einsum("qm,qmr->qr", tape.attentions[rows], spans.to(tape.tape.dtype))

    def attend_backward(self, first: int, last: int, spans: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """Return the gradients of the scores, (k, m), and of the product of the spans, (k, m, A)."""
        tape, rows = self.tape, self.tape.rows[first:last]
        assert tape.score_weight is not None
        attention, dtype = tape.attentions[rows], tape.tape.dtype
        grads = torch.einsum("qr,qmr->qm", tape.context_grads[rows], spans.to(dtype))
        if tape.attention_grads is not None:
            grads = grads + tape.attention_grads[rows]
        grads = attention * (grads - (grads * attention).sum(-1, keepdim=True))
        if tape.score_grads is not None:
            grads = grads + tape.score_grads[rows]
        neuron_grads = grads[..., None] * tape.score_weight * (1 - hidden.to(dtype).square())
        tape.feature_grads[rows, -tape.scorer :] = neuron_grads.sum(1).to(tape.feature_grads.dtype)
        return grads, neuron_grads.to(tape.features.dtype)

    def represent_backward(self, first: int, last: int, spans: Tensor, product: Tensor | None) -> None:
        """Add the gradients of the tape, and write those of the gates.

        product: (k, m, R), the gradients of the spans through the scorer.
        """
        tape, rows = self.tape, self.tape.rows[first:last]
        size, half, dtype = tape.size, tape.size // 2, tape.tape.dtype
        runs, kept = self._runs(first, last)
        grads = tape.attentions[rows][..., None] * tape.context_grads[rows][:, None]
        if product is not None:
            grads = grads + product.to(dtype)
        if self.released:
            gate = self._gate(first, last)
            grads = grads * (1 - spans.to(dtype).square())
            gate_grad = (grads * runs[:, 1:]).sum(1) * (gate - gate * gate)
            tape.feature_grads[rows, 2 * size : 3 * size] = gate_grad.to(tape.feature_grads.dtype)
            grads = grads * gate[:, None]
        carried = grads.new_zeros(last - first, half)  # the gradient of the forward run's product of forget gates
        longer, through = torch.zeros_like(carried), torch.zeros_like(carried)
        for length in range(tape.maximum, 0, -1):
            places = tape.places[first:last] - length
            u, f = tape.tape[places].chunk(2, dim=-1)
            longer = longer + grads[:, length - 1, :half]
            through = through + grads[:, length - 1, half:]
            before = kept[length - 1]
            parts = before * longer, through, before * carried, through * runs[:, length - 1, half:]
            tape.tape_grads.index_add_(0, places, torch.cat(parts, dim=-1))
            carried = u[:, :half] * longer + f[:, :half] * carried
            through = through * f[:, half:]

    def _runs(self, first: int, last: int) -> tuple[Tensor, list[Tensor]]:
        """Return the runs over spans of lengths 0 to m, (k, m + 1, R); for each length, the product of forget gates."""
        tape, half = self.tape, self.tape.size // 2
        places = tape.places[first:last]
        runs = tape.tape.new_zeros(last - first, tape.maximum + 1, tape.size)
        kept = [tape.tape.new_ones(last - first, half)]
        for length in range(1, tape.maximum + 1):
            u, f = tape.tape[places - length].chunk(2, dim=-1)
            before, now = runs[:, length - 1], runs[:, length]
            torch.addcmul(before[:, :half], kept[-1], u[:, :half], out=now[:, :half])
            torch.addcmul(u[:, half:], f[:, half:], before[:, half:], out=now[:, half:])
            kept.append(kept[-1] * f[:, :half])
        return runs, kept

    def _update_and_forget(self, features: Tensor) -> tuple[Tensor, Tensor]:
        update, forget = features[:, : 2 * self.tape.size].to(self.tape.tape.dtype).chunk(2, dim=-1)
        return update, forget

    def _gate(self, first: int, last: int) -> Tensor:
        size = self.tape.size
        logits = self.tape.features[self.tape.rows[first:last], 2 * size : 3 * size]
        return torch.sigmoid(logits.to(self.tape.tape.dtype))

    def _token_side(self, rows: Tensor) -> Tensor:
        """Return the attending token's side of the scorer: (k, A)."""
        return self.tape.features[rows, -self.tape.scorer :].to(self.tape.tape.dtype)


_Layer = c_struct(
    "size scorer maximum width",
    "places rows features tape score_weight scores attentions contexts tape_grads feature_grads context_grads"
    " score_grads attention_grads",
    "half threads released",
)


class _CompiledSpans(_TorchSpans):
    """The same in C (kernels/span_attention.c)."""

    def __init__(self, library: ctypes.CDLL, tape: _Tape, released: bool) -> None:
        super().__init__(tape, released)
        self._library = library
        self._layer = filled(
            _Layer,
            {field.name: getattr(tape, field.name) for field in fields(tape)},
            size=tape.size,
            scorer=tape.scorer,
            maximum=tape.maximum,
            width=tape.features.shape[1],
            half=tape.features.dtype == torch.bfloat16,
            released=released,
        )

    def tokens(self, features: Tensor, places: Tensor) -> None:
        self._call("span_tape", features, features.shape[1], places, len(places))

    def tokens_backward(self, features: Tensor, grads: Tensor, places: Tensor) -> None:
        self._call("span_tape_backward", features, grads, features.shape[1], places, len(places))

    def represent(self, first: int, last: int) -> Tensor:
        spans = self.tape.features.new_empty(last - first, self.tape.maximum, self.tape.size)
        self._call("span_represent", first, last, spans)
        return spans

    def attend(self, first: int, last: int, spans: Tensor, hidden: Tensor | None) -> None:
        self._call("span_attend", first, last, spans, hidden)

    def attend_backward(self, first: int, last: int, spans: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor]:
        grads, hidden_grads = self.tape.tape.new_empty(last - first, self.tape.maximum), torch.empty_like(hidden)
        self._call("span_attend_backward", first, last, spans, hidden, grads, hidden_grads)
        return grads, hidden_grads

    def represent_backward(self, first: int, last: int, spans: Tensor, product: Tensor | None) -> None:
        self._call("span_represent_backward", first, last, spans, product)

    def _call(self, name: str, *arguments: Tensor | int | None) -> None:
        call(getattr(self._library, name), self._layer, *arguments)


def _spans(library: ctypes.CDLL | None, tape: _Tape, released: bool) -> _TorchSpans:
    return _TorchSpans(tape, released) if library is None else _CompiledSpans(library, tape, released)
