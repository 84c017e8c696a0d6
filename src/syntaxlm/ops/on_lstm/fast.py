"""A fast recurrence of ordered neurons and of a plain LSTM.

`recurrence` has a hand-written backward. The input side of all steps is one product. A step is one product with a
weight that is packed once, and one pointwise pass: in C on the CPU, otherwise in torch, compiled on a GPU. No graph is
built, and the gate gradients of all steps are stored, so that each weight gradient is one product over the whole
sequence: per-step accumulation would rewrite an (F, D) matrix T times. Sequences that have ended are excluded from
later steps.

Shapes: B batch, D neurons, C neurons per chunk, K = D / C master gates, F gates, n real tokens.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from syntaxlm.ops.native import address, usable
from syntaxlm.ops.on_lstm.steps import Step, backward_step, forward_step
from syntaxlm.ops.on_lstm.types import CellWeights, Recurrence
from syntaxlm.ops.products import RepeatedProduct, large_product, product_dtype

_SOURCE = Path(__file__).with_name("on_lstm.c")


def recurrence(inputs: Tensor, weights: CellWeights, state: tuple[Tensor, Tensor], counts: Sequence[int]) -> Recurrence:
    """One layer over a sequence, equations (1) to (5) and (9) to (14) of Shen et al. 2019.

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
    """A plain LSTM over sequences of one length, by the operator of nn.LSTM, which uses cuDNN on a GPU.

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
        library = usable(_SOURCE, dtype, recurrent_weight, bias, hidden, cell)
        low_inputs, input_weight, recurrent_weight = (
            tensor.to(dtype) for tensor in (inputs, input_weight, recurrent_weight)
        )
        input_gates = large_product(low_inputs, input_weight, bias.to(dtype))
        product = RepeatedProduct(recurrent_weight, len(hidden))
        given = input_gates, product, hidden, cell, chunk, counts
        made = _forward_torch(*given) if library is None else _forward_native(library, *given)
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
        kept = _Kept(*tensors)
        total, columns, cells = len(inputs), len(kept.cells) - len(inputs), kept.cells
        given = (
            cells.new_zeros(rows, cells.shape[1]) if grad is None else grad.contiguous()
            for grad, rows in ((output_grads, total), (last_hidden_grads, columns), (last_cell_grads, columns))
        )
        output_grads, last_hidden_grads, last_cell_grads = given
        product = RepeatedProduct(recurrent_weight.T, columns)
        shared = kept, product, output_grads, last_hidden_grads, last_cell_grads, ctx.counts, ctx.needs_input_grad[4]
        if ctx.library is None:
            gate_grads, through, cell_grads = _backward_torch(*shared)
        else:
            gate_grads, through, cell_grads = _backward_native(ctx.library, ctx.chunk, *shared)
        turned = gate_grads.T
        if gate_grads.dtype == torch.float32:
            turned = turned.contiguous()  # once, instead of in each of the two products
        return (
            large_product(gate_grads, input_weight.T).to(ctx.input_dtype) if ctx.needs_input_grad[0] else None,
            large_product(turned, inputs.T).to(cells.dtype),
            large_product(turned, kept.befores.T).to(cells.dtype),
            gate_grads.sum(0, dtype=cells.dtype),
            _with_ended(through, last_hidden_grads, columns) if ctx.needs_input_grad[4] else None,
            cell_grads,
            None,
            None,
        )


class _Kept(NamedTuple):
    """Tensors for backward. befores: (n, D), hidden state before each row's step, in the dtype of products.

    cells: (B + n, D), starting with those before the first step. gates: activated, (n, F) from C, (n, 4D) from torch,
    which stores softmaxes and sums of the master gates, (n, 2, K) each, separately.
    """

    befores: Tensor
    cells: Tensor
    gates: Tensor
    softmaxes: Tensor | None = None
    sums: Tensor | None = None


class _Made(NamedTuple):
    """Results of the steps of a sequence; other fields as in `Recurrence`."""

    kept: _Kept
    states: Tensor
    distances: Tensor
    input_distances: Tensor


def _forward_torch(
    input_gates: Tensor,
    product: RepeatedProduct,
    hidden: Tensor,
    cell: Tensor,
    chunk: int | None,
    counts: Sequence[int],
) -> _Made:
    low, before = hidden.to(input_gates.dtype), cell.detach()
    befores: list[Tensor] = []
    steps: list[Step] = []
    end = 0
    for count in counts:
        now = slice(end, end := end + count)
        befores.append(low[:count])
        steps.append(forward_step(input_gates[now], product(befores[-1]), before[:count], chunk, input_gates.dtype))
        low, before = steps[-1].low, steps[-1].cell

    def joined(name: str) -> Tensor:
        return torch.cat([getattr(step, name) for step in steps])

    cells = torch.cat([cell, *(step.cell for step in steps)])
    kept, none = _Kept(torch.cat(befores), cells, joined("gates")), cell.new_empty(0)
    if chunk is None:
        return _Made(kept, joined("hidden"), none, none)
    kept, means = kept._replace(softmaxes=joined("softmaxes"), sums=joined("sums")), joined("means")
    return _Made(kept, joined("hidden"), 1 - means[:, 1], 1 - means[:, 0])


def _backward_torch(
    kept: _Kept,
    product: RepeatedProduct,
    output_grads: Tensor,
    last_hidden_grads: Tensor,
    last_cell_grads: Tensor,
    counts: Sequence[int],
    to_begin: bool,
) -> tuple[Tensor, Tensor | None, Tensor]:
    """Gradients of all logits, of the first step's hidden state through its product, and of the first cell.

    to_begin: whether the second is needed.
    """
    starts, columns = (0, *accumulate(counts)), len(last_cell_grads)
    gate_grads: list[Tensor] = []
    through: Tensor | None = None
    cell_grads: Tensor | None = None
    for t in range(len(counts) - 1, -1, -1):
        now, then, before = _places(starts, columns, t, counts[t])
        masters = None if kept.softmaxes is None else kept.softmaxes[now], None if kept.sums is None else kept.sums[now]
        gate_grad, cell_grads = backward_step(
            kept.cells[before], kept.cells[then], kept.gates[now], *masters, output_grads[now],
            _with_ended(through, last_hidden_grads, counts[t]), _with_ended(cell_grads, last_cell_grads, counts[t]),
            kept.befores.dtype,
        )  # fmt: skip
        gate_grads.append(gate_grad)
        if t or to_begin:
            through = product(gate_grad)
    return torch.cat(gate_grads[::-1]), through, _with_ended(cell_grads, last_cell_grads, columns)


def _with_ended(rows: Tensor | None, ended: Tensor, count: int) -> Tensor:
    """Rows of the columns that continue, followed by those of columns that ended, up to `count` rows."""
    if rows is None:
        return ended[:count]
    return rows if len(rows) == count else torch.cat([rows, ended[len(rows) : count]])


def _forward_native(
    library: ctypes.CDLL,
    input_gates: Tensor,
    product: RepeatedProduct,
    hidden: Tensor,
    cell: Tensor,
    chunk: int | None,
    counts: Sequence[int],
) -> _Made:
    (total, width), (columns, size), starts = input_gates.shape, hidden.shape, (0, *accumulate(counts))
    new = hidden.new_empty
    befores = torch.empty(total, size, dtype=input_gates.dtype)
    befores[: counts[0]] = hidden[: counts[0]]
    cells = new(columns + total, size)
    cells[:columns] = cell
    kept = _Kept(befores, cells, new(total, width))
    made = _Made(kept, new(total, size), new(total), new(total))
    places = {"starts": torch.tensor(starts), "befores": befores, "cells": cells, "gates": kept.gates}
    outputs = {"states": made.states, "distances": made.distances, "input_distances": made.input_distances}
    layer = _layer(size, columns, chunk, befores.dtype, places | outputs | {"input_gates": input_gates})
    steps = ctypes.c_int64(len(counts))
    for t, (start, end) in enumerate(pairwise(starts)):
        result = product(befores[start:end])
        library.on_lstm_forward(ctypes.byref(layer), ctypes.c_int64(t), steps, address(result))
    return made


def _backward_native(
    library: ctypes.CDLL,
    chunk: int | None,
    kept: _Kept,
    product: RepeatedProduct,
    output_grads: Tensor,
    last_hidden_grads: Tensor,
    last_cell_grads: Tensor,
    counts: Sequence[int],
    to_begin: bool,
) -> tuple[Tensor, Tensor | None, Tensor]:
    """Like `_backward_torch`."""
    (total, size), columns, starts = kept.befores.shape, len(last_cell_grads), (0, *accumulate(counts))
    cell_grads, dtype = last_cell_grads.clone(), kept.befores.dtype
    gate_grads = torch.empty(total, kept.gates.shape[1], dtype=dtype)
    places = {"starts": torch.tensor(starts), "befores": kept.befores, "cells": kept.cells, "gates": kept.gates}
    given = {"output_grads": output_grads, "last_hidden_grads": last_hidden_grads}
    layer = _layer(size, columns, chunk, dtype, places | given | {"cell_grads": cell_grads, "gate_grads": gate_grads})
    steps = ctypes.c_int64(len(counts))
    through: Tensor | None = None
    for t in range(len(counts) - 1, -1, -1):
        library.on_lstm_backward(ctypes.byref(layer), ctypes.c_int64(t), steps, address(through))
        if t or to_begin:
            through = product(gate_grads[starts[t] : starts[t + 1]])
    return gate_grads, through, cell_grads


def _places(starts: Sequence[int], columns: int, t: int, count: int) -> tuple[slice, slice, slice]:
    """The rows of step t; the rows of its cells; the rows of the previous cells."""
    before = 0 if t == 0 else columns + starts[t - 1]
    then = columns + starts[t]
    return slice(starts[t], starts[t] + count), slice(then, then + count), slice(before, before + count)


def _last(before: Tensor, rows: Tensor, counts: Sequence[int], starts: Sequence[int]) -> Tensor:
    """For every column, the row of its last step, or its initial row if it has no step. (B, D)"""
    nexts = (*counts[1:], 0)
    parts = [rows[start + after : start + count] for start, count, after in zip(starts, counts, nexts, strict=False)]
    return torch.cat([*(part for part in reversed(parts) if len(part)), before[counts[0] :]])


_INTEGERS = ("size", "masters", "chunk", "columns")
_POINTERS = (
    "starts", "input_gates", "gates", "cells", "befores", "states", "distances", "input_distances", "output_grads",
    "last_hidden_grads", "cell_grads", "gate_grads",
)  # fmt: skip


class _Layer(ctypes.Structure):
    """The struct `Layer` of on_lstm.c, which the C functions read and write."""

    _fields_ = (
        *((name, ctypes.c_int64) for name in _INTEGERS),
        ("half", ctypes.c_int),
        ("threads", ctypes.c_int),
        *((name, ctypes.c_void_p) for name in _POINTERS),
    )


def _layer(
    size: int, columns: int, chunk: int | None, dtype: torch.dtype, tensors: Mapping[str, Tensor | None]
) -> _Layer:
    """The struct over contiguous tensors, which must outlive it."""
    return _Layer(
        size=size,
        masters=0 if chunk is None else size // chunk,
        chunk=chunk or 0,
        columns=columns,
        half=dtype == torch.bfloat16,
        threads=torch.get_num_threads(),
        **{name: address(tensor) for name, tensor in tensors.items()},
    )
