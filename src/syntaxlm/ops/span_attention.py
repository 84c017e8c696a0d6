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
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import linear
from torch.utils.checkpoint import checkpoint

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
    """
    if sum(counts) != len(inputs) or (carried is not None and len(carried) != maximum):
        before = "" if carried is None else f" after {len(carried)} steps"
        raise ValueError(f"found {len(inputs)} rows{before}; expected {sum(counts)} rows after {maximum} steps or none")
    dtype = product_dtype(weights.input)
    layout = _TapeLayout.of(counts, counts[0] if carried is None else carried.shape[1], maximum, inputs.device)
    library = kernels("span_attention", dtype, weights.input, weights.bias, weights.span, weights.score)
    with torch.autocast(inputs.device.type, enabled=False):  # the products that use `dtype` are chosen individually
        if library is None:
            return _in_torch(inputs, carried, weights, maximum, layout, dtype)
        context, scores, attention = _Compiled.apply(
            inputs, carried, weights.input, weights.bias, weights.span, weights.score, maximum, layout,
            weights.form == "released", dtype, library,
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
    def of(cls, counts: Sequence[int], columns: int, maximum: int, device: torch.device) -> _TapeLayout:
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


def _features(
    inputs: Tensor, carried: Tensor | None, weight: Tensor, bias: Tensor, layout: _TapeLayout
) -> tuple[Tensor, Tensor]:
    """Return the features of all rows, (n, F), and update and forget gate of the carried tokens, (m * B, 2R)."""
    size = len(weight) - len(bias)
    bias = torch.cat([bias.new_zeros(size), bias]).to(weight.dtype)
    features = large_product(inputs, weight, bias)
    if carried is None:
        return features, bias[: 2 * size].repeat(len(layout.of_carried), 1)
    return features, large_product(carried, weight[: 2 * size], bias[: 2 * size])


def _parts(total: int, elements: int, device: torch.device) -> Iterator[tuple[int, int]]:
    """(first, end) of each group of queries whose spans, of `elements` features each, are in memory together."""
    most = CACHED * torch.get_num_threads() if device.type == "cpu" else ON_DEVICE
    size = max(1, most // elements)
    return ((first, min(first + size, total)) for first in range(0, total, size))


def _in_torch(
    inputs: Tensor, carried: Tensor | None, weights: SpanWeights, maximum: int, layout: _TapeLayout, dtype: torch.dtype
) -> SpanReading:
    """Return the same in torch, differentiated by autograd; the spans of some queries at a time are recomputed."""
    wide, size = weights.bias.dtype, weights.size
    bias = torch.cat([weights.bias.new_zeros(size), weights.bias]).to(dtype)
    low_weight = weights.input.to(dtype)
    features = linear(inputs.to(dtype), low_weight, bias)
    if carried is None:
        before = bias[: 2 * size].expand(len(layout.of_carried), -1)
    else:
        before = linear(carried.flatten(0, 1).to(dtype), low_weight[: 2 * size], bias[: 2 * size])
    tokens = torch.cat([before, features[:, : 2 * size]]).to(wide)
    order = torch.cat([layout.of_carried, layout.of_rows]).argsort()
    update, forget = _token(tokens[order], weights)
    span_weight = None if weights.span is None else weights.span.to(dtype)

    def attend(first: int, last: int, update: Tensor, forget: Tensor, features: Tensor) -> tuple[Tensor, ...]:
        runs = _runs(update, forget, layout.places[first:last], maximum)
        rows = layout.rows[first:last]
        spans = runs
        if weights.form == "released":
            spans = torch.tanh(torch.sigmoid(features[rows, 2 * size : 3 * size].to(wide))[:, None] * runs)
        spans = spans.to(dtype)
        if span_weight is None or weights.score is None:
            scores = torch.arange(1, maximum + 1).to(update).expand(last - first, -1)
        else:
            token = features[rows, -len(weights.score) :].to(wide)
            scores = torch.tanh(linear(spans, span_weight).to(wide) + token[:, None]) @ weights.score
        attention = torch.softmax(scores, dim=-1)
        return torch.einsum("qm,qmr->qr", attention, spans.to(wide)), scores, attention

    parts = [
        checkpoint(attend, first, last, update, forget, features, use_reentrant=False, preserve_rng_state=False)
        for first, last in _parts(len(inputs), maximum * size, inputs.device)
    ]
    by_row = layout.rows.argsort()
    context, scores, attention = (torch.cat(part)[by_row] for part in zip(*parts, strict=True))
    return SpanReading(context, scores, attention)


def _runs(update: Tensor, forget: Tensor, places: Tensor, maximum: int) -> Tensor:
    """Return the runs over the spans of lengths 1 to m before some places on the tape: (k, m, R)."""
    half = update.shape[1] // 2
    forward = backward = update.new_zeros(len(places), half)
    kept = update.new_ones(len(places), half)  # the product of the forget gates of a span
    runs = []
    for length in range(1, maximum + 1):
        u, f = update[places - length], forget[places - length]
        forward = torch.addcmul(forward, kept, u[:, :half])
        backward = torch.addcmul(u[:, half:], f[:, half:], backward)
        kept = kept * f[:, :half]
        runs.append(torch.cat([forward, backward], dim=-1))
    return torch.stack(runs, dim=1)


_Layer = c_struct(
    "size scorer maximum width",
    "places rows features tape score_weight scores attentions contexts tape_grads feature_grads context_grads"
    " score_grads attention_grads",
    "half threads released",
)


class _Compiled(torch.autograd.Function):
    """The same with everything between the products in C (kernels/span_attention.c)."""

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
        layout: _TapeLayout,
        released: bool,
        dtype: torch.dtype,
        library: ctypes.CDLL,
    ) -> tuple[Tensor, Tensor, Tensor]:
        size = len(input_weight) - len(bias)
        low_inputs, low_weight = inputs.to(dtype), input_weight.to(dtype)
        low_carried = None if carried is None else carried.flatten(0, 1).to(dtype)
        features, carried_features = _features(low_inputs, low_carried, low_weight, bias, layout)
        scores = torch.arange(1, maximum + 1).to(bias).repeat(len(inputs), 1)
        attentions, contexts = torch.softmax(scores, dim=-1), bias.new_empty(len(inputs), size)
        score_weight = None if score_weight is None else score_weight.contiguous()
        tensors = {"features": features, "score_weight": score_weight, "scores": scores, "attentions": attentions}
        tensors["contexts"] = contexts
        kernel = _Kernel(library, layout, released, size, tensors, carried_features)
        low_span = product = None
        parts = list(_parts(len(inputs), maximum * size, inputs.device))
        if span_weight is not None:
            low_span = span_weight.to(dtype)
            product = RepeatedProduct(low_span, parts[0][1] * maximum)
        keep, kept = any(ctx.needs_input_grad), []
        for first, last in parts:
            spans = kernel.represent(first, last)
            hidden = None if product is None else product(spans.flatten(0, 1))
            kernel.call("span_attend", first, last, spans, hidden)  # replaces hidden by the scorer's neurons
            if keep and hidden is not None:
                kept.append(hidden)
        ctx.save_for_backward(
            low_inputs, low_carried, low_weight, low_span, score_weight, carried_features, features, attentions, *kept,
        )  # fmt: skip
        ctx.layout, ctx.library, ctx.released, ctx.parts = layout, library, released, parts
        ctx.input_dtype, ctx.carried_dtype = inputs.dtype, None if carried is None else carried.dtype
        ctx.set_materialize_grads(False)
        if score_weight is None:
            ctx.mark_non_differentiable(scores, attentions)
        return contexts, scores, attentions

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        inputs, carried, input_weight, span_weight, score_weight, *rest = ctx.saved_tensors
        carried_features, features, attentions, *kept = rest
        (total, maximum), size, new = attentions.shape, carried_features.shape[1] // 2, attentions.new_zeros
        context_grads, score_grads, attention_grads = (None if grad is None else grad.contiguous() for grad in grads)
        feature_grads = torch.empty_like(features)
        tensors = {
            "features": features,
            "score_weight": score_weight,
            "attentions": attentions,
            "tape_grads": new(ctx.layout.length, 2 * size),
            "feature_grads": feature_grads,
            "context_grads": new(total, size) if context_grads is None else context_grads,
            "score_grads": score_grads,
            "attention_grads": attention_grads,
        }
        kernel = _Kernel(ctx.library, ctx.layout, ctx.released, size, tensors, carried_features)
        scorer = 0 if span_weight is None else len(span_weight)
        span_grad, score_grad, product = new(scorer, size), new(scorer), None
        if span_weight is not None:
            product = RepeatedProduct(span_weight.T, ctx.parts[0][1] * maximum)
        for number, (first, last) in enumerate(ctx.parts):
            spans = kernel.represent(first, last)
            through = None
            if product is not None:
                hidden = kept[number]
                scores_grad, hidden_grad = new(last - first, maximum), torch.empty_like(hidden)
                kernel.call("span_attend_backward", first, last, spans, hidden, scores_grad, hidden_grad)
                through = product(hidden_grad)
                span_grad += hidden_grad.T @ spans.flatten(0, 1)
                score_grad += hidden.to(attentions.dtype).T @ scores_grad.flatten()
            kernel.call("span_represent_backward", first, last, spans, through)
        carried_grads = torch.empty_like(carried_features)
        kernel.tokens("span_tape_backward", features, feature_grads, places=ctx.layout.of_rows)
        kernel.tokens("span_tape_backward", carried_features, carried_grads, places=ctx.layout.of_carried)
        input_grad = large_product(feature_grads.T, inputs.T).to(attentions.dtype)
        bias_grad = feature_grads[:, size:].sum(0, dtype=attentions.dtype)
        bias_grad[:size] += carried_grads[:, size:].sum(0, dtype=attentions.dtype)
        carried_grad = None
        if carried is not None:
            input_grad[: 2 * size] += large_product(carried_grads.T, carried.T)
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
            *(None,) * 5,
        )


class _Kernel:
    """The functions of kernels/span_attention.c over tensors, whose names and shapes are in its struct `Layer`.

    Creation computes u and f of all tokens.  carried_features: (m * B, 2R).
    """

    def __init__(
        self,
        library: ctypes.CDLL,
        layout: _TapeLayout,
        released: bool,
        size: int,
        tensors: dict[str, Tensor | None],
        carried_features: Tensor,
    ) -> None:
        features, attentions, score_weight = (tensors[name] for name in ("features", "attentions", "score_weight"))
        assert features is not None
        assert attentions is not None
        self.library, self.features, self.shape = library, features, (attentions.shape[1], size)
        tape = attentions.new_empty(layout.length, 2 * size)
        self.tensors = {"places": layout.places, "rows": layout.rows, "tape": tape, **tensors}
        self.layer = filled(
            _Layer,
            self.tensors,
            size=size,
            scorer=0 if score_weight is None else len(score_weight),
            maximum=attentions.shape[1],
            width=features.shape[1],
            half=features.dtype == torch.bfloat16,
            released=released,
        )
        self.tokens("span_tape", features, places=layout.of_rows)
        self.tokens("span_tape", carried_features, places=layout.of_carried)

    def tokens(self, name: str, *features: Tensor, places: Tensor) -> None:
        """Call a function of tokens, given by their features and places on the tape."""
        self.call(name, *features, features[0].shape[1], places, len(places))

    def represent(self, first: int, last: int) -> Tensor:
        """Return the spans of some queries: (k, m, R), in the dtype of products."""
        spans = self.features.new_empty(last - first, *self.shape)
        self.call("span_represent", first, last, spans)
        return spans

    def call(self, name: str, *arguments: Tensor | int | None) -> None:
        call(getattr(self.library, name), self.layer, *arguments)
