"""Fast span attention.

Spans are built by length, for all steps at once. Going back from a step by one token, the forward run gains the token's
update times all later forget gates, and the backward run reads one more token. No state goes from step to step, so
there is no loop over time; nothing is a difference of long sums, so no precision is lost; and a span never depends on
tokens outside it. The m spans per step take twenty times the memory of the rest of the layer, so they are never all in
memory: the spans of some steps at a time go through the scorer's product while they are in cache, and backward
recomputes them. Stored are the features of tokens and the scorer's neurons.

Shapes: B batch, H features of an input, R of a span, A neurons of the scorer, F features computed from an input, m
longest span, n real tokens.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from syntaxlm.ops.native import usable
from syntaxlm.ops.products import RepeatedProduct, large_product, product_dtype
from syntaxlm.ops.span_attention.eager import EagerKernels
from syntaxlm.ops.span_attention.native import NativeKernels
from syntaxlm.ops.span_attention.types import SpanReading, SpanWeights
from syntaxlm.ops.span_attention.work import Gradients, Layout, Work

_SOURCE = Path(__file__).with_name("span_attention.c")

# Features of spans computed at a time: as many as fit in a core's cache; on other devices, enough for few calls.
CACHED = 1 << 19
ON_DEVICE = 1 << 25


def span_attention(
    inputs: Tensor, carried: Tensor | None, weights: SpanWeights, maximum: int, counts: Sequence[int]
) -> SpanReading:
    """Return every step attends to the spans that end at the step before, of lengths 1 to m = `maximum`.

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
        library = usable(_SOURCE, dtype, input_weight, bias, span_weight, score_weight)
        size = len(input_weight) - len(bias)
        layout = Layout.of(counts, counts[0] if carried is None else carried.shape[1], maximum, inputs.device)
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
        work = _work(layout, released, features, bias, score_weight, attentions, scores, contexts)
        kernels = EagerKernels(work) if library is None else NativeKernels(library, work)
        _fill_tape(kernels, layout, carried_features, bias)
        at_a_time = _queries_at_a_time(work)
        low_span = product = None
        if span_weight is not None:
            low_span = span_weight.to(dtype)
            product = RepeatedProduct(low_span, at_a_time * maximum)
        keep, kept = any(ctx.needs_input_grad), []
        for first, last in _parts(len(inputs), at_a_time):
            spans = kernels.represent(first, last)
            hidden = None if product is None else product(spans.flatten(0, 1)).view(last - first, maximum, -1)
            kernels.attend(first, last, spans, hidden)
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
        layout: Layout = ctx.layout
        library: ctypes.CDLL | None = ctx.library
        size, maximum, kind = len(input_weight) - len(bias), attentions.shape[1], bias.dtype
        context_grads, score_grads, attention_grads = (None if grad is None else grad.contiguous() for grad in grads)
        work = _work(layout, ctx.released, features, bias, score_weight, attentions)
        gradients = Gradients(
            tape=torch.zeros_like(work.tape),
            features=torch.empty_like(features),
            contexts=bias.new_zeros(len(features), size) if context_grads is None else context_grads,
            scores=score_grads,
            attentions=attention_grads,
        )
        kernels = EagerKernels(work, gradients) if library is None else NativeKernels(library, work, gradients)
        _fill_tape(kernels, layout, carried_features, bias)
        span_grad, score_grad = bias.new_zeros(work.scorer, size), bias.new_zeros(work.scorer)
        product = None
        if span_weight is not None:
            product = RepeatedProduct(span_weight.T, ctx.at_a_time * maximum)
        for number, (first, last) in enumerate(_parts(len(inputs), ctx.at_a_time)):
            spans = kernels.represent(first, last)
            through = None
            if product is not None:
                hidden = kept[number]
                scores_grad, hidden_grad = kernels.attend_backward(first, last, spans, hidden)
                through = product(hidden_grad.flatten(0, 1)).view_as(spans)
                span_grad += hidden_grad.flatten(0, 1).T @ spans.flatten(0, 1)
                score_grad += hidden.flatten(0, 1).to(kind).T @ scores_grad.flatten()
            kernels.represent_backward(first, last, spans, through)
        kernels.tape_backward(features, gradients.features, layout.of_rows)
        input_grad = large_product(gradients.features.T, inputs.T).to(kind)
        bias_grad = gradients.features[:, size:].sum(0, dtype=kind)
        carried_grad = None
        if carried is None:  # u is 0, and f the same everywhere
            forget = bias[:size]
            total = gradients.tape[layout.of_carried, size:].sum(0)
            bias_grad[:size] += total * torch.sigmoid(forget) * torch.sigmoid(-forget)
        else:
            carried_grads = torch.empty_like(carried_features)
            kernels.tape_backward(carried_features, carried_grads, layout.of_carried)
            input_grad[: 2 * size] += large_product(carried_grads.T, carried.T)
            bias_grad[:size] += carried_grads[:, size:].sum(0, dtype=kind)
            if ctx.needs_input_grad[1]:
                carried_grad = large_product(carried_grads, input_weight[: 2 * size].T).to(ctx.carried_dtype)
                carried_grad = carried_grad.unflatten(0, (maximum, -1))
        return (
            large_product(gradients.features, input_weight.T).to(ctx.input_dtype) if ctx.needs_input_grad[0] else None,
            carried_grad,
            input_grad,
            bias_grad,
            None if product is None else span_grad,
            None if product is None else score_grad,
            None,
            None,
            None,
            None,
        )


def _work(
    layout: Layout,
    released: bool,
    features: Tensor,
    bias: Tensor,
    score_weight: Tensor | None,
    attentions: Tensor,
    scores: Tensor | None = None,
    contexts: Tensor | None = None,
) -> Work:
    """Return a `Work` with an empty tape."""
    scorer = 0 if score_weight is None else len(score_weight)
    size = (features.shape[1] - scorer) // (3 if released else 2)
    return Work(
        size,
        scorer,
        attentions.shape[1],
        released,
        layout.places,
        layout.rows,
        features,
        bias.new_empty(layout.length, 2 * size),
        score_weight,
        attentions,
        scores,
        contexts,
    )


def _fill_tape(
    kernels: EagerKernels | NativeKernels, layout: Layout, carried_features: Tensor | None, bias: Tensor
) -> None:
    """Compute u and f of all tokens. If nothing is carried, the tokens before the first step are zeros."""
    work = kernels.work
    kernels.tape(work.features, layout.of_rows)
    if carried_features is not None:
        kernels.tape(carried_features, layout.of_carried)
    else:
        forget = bias[: work.size]
        work.tape[layout.of_carried] = torch.cat([torch.zeros_like(forget), torch.sigmoid(forget)])


def _queries_at_a_time(work: Work) -> int:
    """Return number of queries whose spans are in memory at a time."""
    elements = CACHED * torch.get_num_threads() if work.tape.device.type == "cpu" else ON_DEVICE
    return max(1, elements // (work.maximum * work.size))


def _parts(total: int, size: int) -> Iterator[tuple[int, int]]:
    """(first, end) of each group of `size` queries."""
    return ((first, min(first + size, total)) for first in range(0, total, size))
