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
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import linear
from torch.utils.checkpoint import checkpoint

from syntaxlm.ops.backend import applied, c_struct, call, filled, kernels, parts, with_reference
from syntaxlm.ops.products import RepeatedProduct, large_product, product_dtype

# Features of spans that are computed at a time: as many as fit in a core's cache; on other devices, enough for few
# calls.
FEATURES_IN_CACHE = 1 << 19
FEATURES_ON_DEVICE = 1 << 25

Form = Literal["released", "paper"]


@dataclass(frozen=True)
class SpanWeights:
    """The weights of spans and of their scorer. H features of an input, R of a span, A neurons of the scorer.

    The first R / 2 features of a span are those of the forward run over its tokens, the others of the backward run.

    Attributes:
        input: (F, H), applied to an input; its rows are the update (R) and the forget gate (R) of a token in a span, in
            the released form the gate of the attending token (R), then the attending token's side of the scorer (A).
        bias: (F - R,), for all rows except the update, which has no bias.
        span: (A, R), the span's side of the scorer.
        score: (A,), its last layer. None if scores are given, not learned: then `input` and `bias` have no rows for the
            scorer.
        form: released: spans are tanh(gate * runs), the update is linear; paper: spans are the runs, the update has a
            tanh.
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

    Attributes:
        context: (n, R), the mean of the spans weighted by attention.
        scores: (n, m).
        attention: (n, m).
    """

    context: Tensor
    scores: Tensor
    attention: Tensor


def span_attention_reference(
    inputs: Tensor,
    carried: Tensor | None,
    weights: SpanWeights,
    maximum: int,
    counts: Sequence[int],
    mask: Tensor | None = None,
    scores: Tensor | None = None,
) -> SpanReading:
    """Return `span_attention` as its equations, differentiated by autograd."""
    size = weights.size
    given_scores = None if scores is None else scores.expand(len(inputs), -1).split(list(counts))
    if carried is None:
        carried = inputs.new_zeros(maximum, counts[0], inputs.shape[1])
    bias = torch.cat([weights.bias.new_zeros(size), weights.bias])
    steps = linear(inputs, weights.input, bias).split(list(counts))
    before = linear(carried, weights.input[: 2 * size], bias[: 2 * size])
    tokens = [_token(features[:, : 2 * size], weights) for features in (*before, *steps)]
    if mask is not None:
        tokens = [(mask[: len(update)] * update, forget) for update, forget in tokens]
    contexts = []
    all_scores = []
    attentions = []
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
        if given_scores is not None:
            step_scores = given_scores[step]
        else:
            assert weights.span is not None
            assert weights.score is not None
            token = features[:, -len(weights.score) :]
            step_scores = torch.tanh(linear(spans, weights.span) + token[:, None]) @ weights.score
        attention = torch.softmax(step_scores, dim=-1)
        contexts.append((attention[:, :, None] * spans).sum(1))
        all_scores.append(step_scores)
        attentions.append(attention)
    return SpanReading(torch.cat(contexts), torch.cat(all_scores), torch.cat(attentions))


def _token(features: Tensor, weights: SpanWeights) -> tuple[Tensor, Tensor]:
    """Return u and f of a token, (B, R) each, from its features (B, 2R)."""
    update, forget = features.chunk(2, dim=-1)
    if weights.form == "paper":
        update = torch.tanh(update)
    return torch.sigmoid(-forget) * update, torch.sigmoid(forget)


def _span(tokens: Sequence[tuple[Tensor, Tensor]], columns: int) -> Tensor:
    """Return spans of the tokens of the first columns, (B, R): the last states of the forward and the backward run.

    The runs are rational RNNs, from c = 0.
    """
    half = tokens[0][0].shape[1] // 2
    forward = backward = tokens[0][0].new_zeros(columns, half)
    # c_j = f_j c_{j-1} + u_j, over the tokens of the span in both directions
    for (u, f), (mirrored_u, mirrored_f) in zip(tokens, reversed(tokens), strict=True):
        forward = f[:columns, :half] * forward + u[:columns, :half]
        backward = mirrored_f[:columns, half:] * backward + mirrored_u[:columns, half:]
    return torch.cat([forward, backward], dim=-1)


@with_reference(span_attention_reference)
def span_attention(
    inputs: Tensor,
    carried: Tensor | None,
    weights: SpanWeights,
    maximum: int,
    counts: Sequence[int],
    mask: Tensor | None = None,
    scores: Tensor | None = None,
) -> SpanReading:
    """Let every step attend to the spans that end at the step before, of lengths 1 to m = `maximum`.

    Rows are real tokens, time-major: step t has the first counts[t] columns; counts never increase.

    Args:
        inputs: (n, H).
        carried: (m, B, H), the inputs before the first step, oldest first; None for zeros.
        mask: (B, R), multiplied with the runs of a column's spans, such as a mask of dropout; None for ones.
        scores: given scores of the spans of every step, (n, m), or of spans by length, (m,), if the weights have no
            scorer; a step attends to no span whose score is -inf.
    """
    if (scores is None) == (weights.score is None):
        raise ValueError("expected either given scores of spans, or weights of a scorer")
    if sum(counts) != len(inputs) or (carried is not None and len(carried) != maximum):
        before = "" if carried is None else f" after {len(carried)} steps"
        raise ValueError(f"found {len(inputs)} rows{before}; expected {sum(counts)} rows after {maximum} steps or none")
    dtype = product_dtype(weights.input)
    layout = _tape_layout(counts, counts[0] if carried is None else carried.shape[1], maximum, inputs.device)
    library = kernels("span_attention", dtype, weights.input, weights.bias, weights.span, weights.score)
    with torch.autocast(inputs.device.type, enabled=False):  # the products that use `dtype` are chosen individually
        if library is None:
            return _in_torch(inputs, carried, weights, maximum, layout, dtype, mask, scores)
        return SpanReading(
            *applied(
                _InC, inputs, carried, weights.input, weights.bias, weights.span, weights.score, weights, maximum,
                layout, mask, scores, dtype, library,
            )
        )  # fmt: skip


class _TapeLayout(NamedTuple):
    """Positions of time-major rows on the tape, where each column's tokens are contiguous.

    The m carried tokens of a column come before its first step.

    Attributes:
        places: (n,) int64, position of each query, in the order of the tape.
        rows: (n,) int64, row of each query.
        of_rows: (n,), the position of each row.
        of_carried: (m * B,), of each carried token.
        columns_of_rows: (n,), the column of each row.
        columns_of_carried: (m * B,), of each carried token.
        length: N.
    """

    places: Tensor
    rows: Tensor
    of_rows: Tensor
    of_carried: Tensor
    columns_of_rows: Tensor
    columns_of_carried: Tensor
    length: int


def _tape_layout(counts: Sequence[int], columns: int, maximum: int, device: torch.device) -> _TapeLayout:
    # Step and column of each row, in time-major order.
    per_step = torch.tensor(counts)
    starts = per_step.cumsum(0) - per_step
    steps = torch.arange(len(counts)).repeat_interleave(per_step)
    column = torch.arange(len(steps)) - starts[steps]

    # Where the tokens of each column begin on the tape.
    lengths = (per_step[:, None] > torch.arange(columns)).sum(0) + maximum
    begins = lengths.cumsum(0) - lengths
    of_rows = begins[column] + maximum + steps
    of_carried = (begins + torch.arange(maximum)[:, None]).flatten()
    rows = of_rows.argsort()
    return _TapeLayout(
        places=of_rows[rows].to(device),
        rows=rows.to(device),
        of_rows=of_rows.to(device),
        of_carried=of_carried.to(device),
        columns_of_rows=column.to(device),
        columns_of_carried=torch.arange(columns).repeat(maximum).to(device),
        length=int(lengths.sum()),
    )


def _groups(total: int, elements: int, device: torch.device) -> list[slice]:
    """Return groups of queries whose spans, of `elements` features each, are in memory together."""
    most = FEATURES_IN_CACHE * torch.get_num_threads() if device.type == "cpu" else FEATURES_ON_DEVICE
    return list(parts(total, max(1, most // elements)))


def _in_torch(
    inputs: Tensor,
    carried: Tensor | None,
    weights: SpanWeights,
    maximum: int,
    layout: _TapeLayout,
    dtype: torch.dtype,
    mask: Tensor | None,
    given_scores: Tensor | None,
) -> SpanReading:
    """Return the reading in torch, differentiated by autograd; the spans of some queries at a time are recomputed."""
    wide = weights.bias.dtype
    size = weights.size
    gates = slice(2 * weights.size)
    bias = torch.cat([weights.bias.new_zeros(size), weights.bias]).to(dtype)
    weight = weights.input.to(dtype)
    features = linear(inputs.to(dtype), weight, bias)
    if carried is None:
        before = bias[gates].expand(len(layout.of_carried), -1)
    else:
        before = linear(carried.flatten(0, 1).to(dtype), weight[gates], bias[gates])
    tokens = torch.cat([before, features[:, gates]]).to(wide)
    order = torch.cat([layout.of_carried, layout.of_rows]).argsort()
    update, forget = _token(tokens[order], weights)
    if mask is not None:
        update = update * mask[torch.cat([layout.columns_of_carried, layout.columns_of_rows])[order]]
    span_weight = None if weights.span is None else weights.span.to(dtype)
    if given_scores is not None:
        given_scores = given_scores.to(wide).expand(len(inputs), -1)

    def attend(part: slice, update: Tensor, forget: Tensor, features: Tensor) -> tuple[Tensor, ...]:
        spans = _runs(update, forget, layout.places[part], maximum)
        rows = layout.rows[part]
        if weights.form == "released":
            spans = torch.tanh(torch.sigmoid(features[rows, 2 * size : 3 * size].to(wide))[:, None] * spans)
        spans = spans.to(dtype)
        if given_scores is not None:
            scores = given_scores[rows]
        else:
            assert span_weight is not None
            assert weights.score is not None
            token = features[rows, -len(weights.score) :].to(wide)
            scores = torch.tanh(linear(spans, span_weight).to(wide) + token[:, None]) @ weights.score
        attention = torch.softmax(scores, dim=-1)
        return torch.einsum("qm,qmr->qr", attention, spans.to(wide)), scores, attention

    results = [
        checkpoint(attend, part, update, forget, features, use_reentrant=False, preserve_rng_state=False)
        for part in _groups(len(inputs), maximum * size, inputs.device)
    ]
    by_row = layout.rows.argsort()
    return SpanReading(*(torch.cat(part)[by_row] for part in zip(*results, strict=True)))


def _runs(update: Tensor, forget: Tensor, places: Tensor, maximum: int) -> Tensor:
    """Return the runs over the spans of lengths 1 to m before some places on the tape: (k, m, R)."""
    half = update.shape[1] // 2
    forward = backward = update.new_zeros(len(places), half)
    kept = update.new_ones(len(places), half)  # the product of the forget gates of a span
    runs = []
    # forward(l) = forward(l - 1) + (f_{t-1} ... f_{t-l+1}) u_{t-l};  backward(l) = u_{t-l} + f_{t-l} backward(l - 1)
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


class _InC(torch.autograd.Function):
    """The same with everything between the products in C (kernels/span_attention.c)."""

    @staticmethod
    def forward(ctx: Any, inputs: Tensor, carried: Tensor | None, *arguments: Any) -> tuple[Tensor, Tensor, Tensor]:
        input_weight, bias, span_weight, score_weight, weights, maximum, *others = arguments
        layout, mask, given_scores, dtype, library = others
        released = weights.form == "released"
        size = len(input_weight) - len(bias)
        gates = slice(2 * size)
        low_inputs, low_weight, low_bias = (
            tensor.to(dtype) for tensor in (inputs, input_weight, torch.cat([bias.new_zeros(size), bias]))
        )
        low_carried = None if carried is None else carried.flatten(0, 1).to(dtype)
        low_span = None if span_weight is None else span_weight.to(dtype)
        features = large_product(low_inputs, low_weight, low_bias)
        if low_carried is None:
            carried_features = low_bias[gates].repeat(len(layout.of_carried), 1)
        else:
            carried_features = large_product(low_carried, low_weight[gates], low_bias[gates])
        if given_scores is None:
            scores = bias.new_empty(len(inputs), maximum)
            attentions = torch.empty_like(scores)
        else:
            scores = given_scores.to(bias).expand(len(inputs), -1).contiguous()
            attentions = torch.softmax(scores, dim=-1)
        tensors: dict[str, Any] = {
            "features": features,
            "score_weight": None if score_weight is None else score_weight.contiguous(),
            "scores": scores,
            "attentions": attentions,
            "contexts": bias.new_empty(len(inputs), size),
            "tape": bias.new_empty(layout.length, 2 * size),
        }
        layer = _layer(layout, released, tensors)
        for rows, places in (features, layout.of_rows), (carried_features, layout.of_carried):
            call(library.span_tape, layer, rows, rows.shape[1], places, len(places))
        row_masks = carried_masks = None
        if mask is not None:  # runs are linear in the updates, so a mask of updates is one of runs
            row_masks, carried_masks = mask[layout.columns_of_rows], mask[layout.columns_of_carried]
            tensors["tape"][layout.of_rows, :size] *= row_masks
            tensors["tape"][layout.of_carried, :size] *= carried_masks
        groups = _groups(len(inputs), maximum * size, inputs.device)
        product = None if low_span is None else RepeatedProduct(low_span, groups[0].stop * maximum)
        neurons, hidden = [], None  # of the scorer, for backward
        for part in groups:
            spans = _represented(library, layer, part, features, maximum, size)
            if product is not None:
                neurons.append(hidden := product(spans.flatten(0, 1)))
            call(library.span_attend, layer, part.start, part.stop, spans, hidden)  # makes it the scorer's neurons
            if not any(ctx.needs_input_grad):
                neurons.clear()
        ctx.save_for_backward(
            low_inputs, low_carried, low_weight, low_span, tensors["score_weight"], carried_features, features,
            tensors["attentions"], tensors["tape"], row_masks, carried_masks, *neurons,
        )  # fmt: skip
        ctx.layout = layout
        ctx.library = library
        ctx.released = released
        ctx.groups = groups
        ctx.input_dtype = inputs.dtype
        ctx.carried_dtype = None if carried is None else carried.dtype
        ctx.set_materialize_grads(False)
        if score_weight is None:
            ctx.mark_non_differentiable(scores, tensors["attentions"])
        return tensors["contexts"], scores, tensors["attentions"]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        inputs, carried, input_weight, span_weight, score_weight, *rest = ctx.saved_tensors
        carried_features, features, attentions, tape, row_masks, carried_masks, *neurons = rest
        library, layout = ctx.library, ctx.layout
        (total, maximum) = attentions.shape
        size = tape.shape[1] // 2
        new = attentions.new_zeros
        context_grads, score_grads, attention_grads = (None if grad is None else grad.contiguous() for grad in grads)
        feature_grads = torch.empty_like(features)
        carried_grads = torch.empty_like(carried_features)
        tensors = {
            "features": features,
            "score_weight": score_weight,
            "attentions": attentions,
            "tape": tape,
            "tape_grads": torch.zeros_like(tape),
            "feature_grads": feature_grads,
            "context_grads": new(total, size) if context_grads is None else context_grads,
            "score_grads": score_grads,
            "attention_grads": attention_grads,
        }
        layer = _layer(layout, ctx.released, tensors)

        # The attention, the scorer and the spans of some queries at a time, which are computed again.
        span_grad: Any = None
        score_grad = product = None
        if span_weight is not None:
            product = RepeatedProduct(span_weight.T, ctx.groups[0].stop * maximum)
            span_grad = new(span_weight.shape)
            score_grad = new(len(span_weight))
        for number, part in enumerate(ctx.groups):
            spans = _represented(library, layer, part, features, maximum, size)
            through = None
            if product is not None:
                hidden = neurons[number]
                scores_grad = new(len(spans), maximum)
                hidden_grad = torch.empty_like(hidden)
                call(
                    library.span_attend_backward, layer, part.start, part.stop, spans, hidden, scores_grad, hidden_grad
                )
                through = product(hidden_grad)
                span_grad += hidden_grad.T @ spans.flatten(0, 1)
                score_grad += hidden.to(attentions.dtype).T @ scores_grad.flatten()
            call(library.span_represent_backward, layer, part.start, part.stop, spans, through)

        # The tokens on the tape, and the product of the inputs.
        for rows, row_grads, places, masks in (
            (features, feature_grads, layout.of_rows, row_masks),
            (carried_features, carried_grads, layout.of_carried, carried_masks),
        ):
            call(library.span_tape_backward, layer, rows, row_grads, rows.shape[1], places, len(places))
            if masks is not None:
                row_grads[:, :size] *= masks
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
            span_grad,
            score_grad,
            *(None,) * 7,
        )


def _layer(layout: _TapeLayout, released: bool, tensors: dict[str, Any]) -> ctypes.Structure:
    """Return the struct of tensors, which must outlive it."""
    features = tensors["features"]
    score_weight = tensors["score_weight"]
    return filled(
        _Layer,
        {"places": layout.places, "rows": layout.rows, **tensors},
        size=tensors["tape"].shape[1] // 2,
        scorer=0 if score_weight is None else len(score_weight),
        maximum=tensors["attentions"].shape[1],
        width=features.shape[1],
        half=features.dtype == torch.bfloat16,
        released=released,
    )


def _represented(
    library: ctypes.CDLL, layer: ctypes.Structure, part: slice, like: Tensor, maximum: int, size: int
) -> Tensor:
    """Return the spans of some queries: (k, m, R), in the dtype of products."""
    spans = like.new_empty(part.stop - part.start, maximum, size)
    call(library.span_represent, layer, part.start, part.stop, spans)
    return spans
