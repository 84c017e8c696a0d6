"""A fast recurrence of ordered neurons and of a plain LSTM.

`recurrence` has a hand-written backward. The input side of all steps is one product. A step is one product with a
weight that is packed once, and one pointwise pass: in C on the CPU, otherwise in torch, compiled on a GPU. No graph is
built, and the gate gradients of all steps are stored, so that each weight gradient is one product over the whole
sequence: per-step accumulation would rewrite an (F, D) matrix T times. Sequences that have ended are excluded from
later steps.

Shapes: B batch, D neurons, C neurons per chunk, K = D / C master gates, F gates, n real tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor

from syntaxlm.ops.native import usable
from syntaxlm.ops.on_lstm.native import SOURCE, NativeBackward, NativeForward
from syntaxlm.ops.on_lstm.steps import TorchBackward, TorchForward, with_ended
from syntaxlm.ops.on_lstm.types import Backward, CellWeights, Forward, Gradients, Kept, Recurrence
from syntaxlm.ops.products import RepeatedProduct, large_product, product_dtype


def recurrence(inputs: Tensor, weights: CellWeights, state: tuple[Tensor, Tensor], counts: Sequence[int]) -> Recurrence:
    """Return one layer over a sequence, equations (1) to (5) and (9) to (14) of Shen et al. 2019.

    Rows are real tokens, time-major: step t has the first counts[t] columns; counts never increase.
    inputs: (n, E); state: hidden and cell before the first step, each (B, D).
    """
    if weights.chunk is None and inputs.is_cuda and counts[0] == counts[-1] == len(state[0]):
        return lstm_of_torch(inputs, weights, state, len(counts))
    hidden, last_hidden, last_cell, distances, input_distances = _Recurrence.apply(
        inputs, weights.input, weights.recurrent, weights.bias, *state, weights.chunk, tuple(counts)
    )
    if weights.chunk is None:
        return Recurrence(hidden, (last_hidden, last_cell), None, None)
    return Recurrence(hidden, (last_hidden, last_cell), distances, input_distances)


def lstm_of_torch(inputs: Tensor, weights: CellWeights, state: tuple[Tensor, Tensor], steps: int) -> Recurrence:
    """Return a plain LSTM over sequences of one length, by the operator of nn.LSTM, which uses cuDNN on a GPU.

    On the CPU, `recurrence` is as fast and keeps states in float32.
    """
    batch, dtype = inputs.view(steps, -1, inputs.shape[1]), state[0].dtype
    parts = [weights.input, weights.recurrent, weights.bias, torch.zeros_like(weights.bias)]
    states, hidden, cell = torch.lstm(
        batch, [part[None] for part in state], parts, True, 1, 0.0, torch.is_grad_enabled(), False, False
    )
    return Recurrence(states.flatten(0, 1).to(dtype), (hidden[0].to(dtype), cell[0].to(dtype)), None, None)


class _Recurrence(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        inputs: Tensor,
        input_weight: Tensor,
        recurrent_weight: Tensor,
        bias: Tensor,
        hidden: Tensor,
        cell: Tensor,
        chunk: int | None,
        counts: tuple[int, ...],
    ) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        dtype = product_dtype(recurrent_weight)
        library = usable(SOURCE, dtype, recurrent_weight, bias, hidden, cell)
        low_inputs, input_weight, recurrent_weight = (
            tensor.to(dtype) for tensor in (inputs, input_weight, recurrent_weight)
        )
        input_gates = large_product(low_inputs, input_weight, bias.to(dtype))
        product = RepeatedProduct(recurrent_weight, len(hidden))
        given = input_gates, hidden, cell, chunk, counts
        steps: Forward = TorchForward(*given) if library is None else NativeForward(library, *given)
        for t in range(len(counts)):
            steps.step(t, product(steps.before(t)))
        made = steps.made()
        ctx.save_for_backward(low_inputs, input_weight, recurrent_weight, *made.kept)
        ctx.library, ctx.chunk, ctx.counts, ctx.input_dtype = library, chunk, counts, inputs.dtype
        ctx.mark_non_differentiable(made.distances, made.input_distances)
        ctx.set_materialize_grads(False)
        starts = (0, *accumulate(counts))
        last_hidden = _last(hidden, made.states, counts, starts)
        last_cell = _last(cell, made.kept.cells[len(hidden) :], counts, starts)
        return made.states, last_hidden, last_cell, made.distances, made.input_distances

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        output_grads, last_hidden_grads, last_cell_grads, *_ = grads
        inputs, input_weight, recurrent_weight, *tensors = ctx.saved_tensors
        kept, counts, to_begin = Kept(*tensors), ctx.counts, ctx.needs_input_grad[4]
        total, columns, cells = len(inputs), len(kept.cells) - len(inputs), kept.cells
        given = Gradients(
            *(
                cells.new_zeros(rows, cells.shape[1]) if grad is None else grad.contiguous()
                for grad, rows in ((output_grads, total), (last_hidden_grads, columns), (last_cell_grads, columns))
            )
        )
        steps: Backward
        if ctx.library is None:
            steps = TorchBackward(kept, given, counts)
        else:
            steps = NativeBackward(ctx.library, kept, given, ctx.chunk, counts)
        product = RepeatedProduct(recurrent_weight.T, columns)
        through: Tensor | None = None
        for t in range(len(counts) - 1, -1, -1):
            gate_grad = steps.step(t, through)
            if t or to_begin:
                through = product(gate_grad)
        gate_grads, cell_grads = steps.ended()
        turned = gate_grads.T
        if gate_grads.dtype == torch.float32:
            turned = turned.contiguous()  # once, instead of in each of the two products
        return (
            large_product(gate_grads, input_weight.T).to(ctx.input_dtype) if ctx.needs_input_grad[0] else None,
            large_product(turned, inputs.T).to(cells.dtype),
            large_product(turned, kept.befores.T).to(cells.dtype),
            gate_grads.sum(0, dtype=cells.dtype),
            with_ended(through, given.hidden, columns) if to_begin else None,
            cell_grads,
            None,
            None,
        )


def _last(before: Tensor, rows: Tensor, counts: Sequence[int], starts: Sequence[int]) -> Tensor:
    """For every column, the row of its last step, or its initial row if it has no step. (B, D)"""
    nexts = (*counts[1:], 0)
    parts = [rows[start + after : start + count] for start, count, after in zip(starts, counts, nexts, strict=False)]
    return torch.cat([*(part for part in reversed(parts) if len(part)), before[counts[0] :]])
