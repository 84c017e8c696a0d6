"""The recurrence of ordered neurons, and of a plain LSTM, fast.

`recurrence` differentiates by hand. The input side of all steps is one product; a step is one product with a weight
that is packed once, and one pointwise pass, in compiled C on a processor and in torch elsewhere. It builds no graph,
and keeps the gate gradients of all steps, so that each weight gradient is one product over the whole sequence:
per-step accumulation would rewrite an (F, D) matrix T times. Sequences that have ended take no part in later steps.

Shapes: B batch, D neurons, C neurons of a chunk, K = D / C master gates, F gates, n real tokens.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from syntaxlm.ops.native import address, usable
from syntaxlm.ops.on_lstm.types import CellWeights, Recurrence
from syntaxlm.ops.products import RepeatedProduct, large_product, product_dtype

_SOURCE = Path(__file__).with_name("on_lstm.c")


def recurrence(inputs: Tensor, weights: CellWeights, state: tuple[Tensor, Tensor], counts: Sequence[int]) -> Recurrence:
    """One layer over a sequence, equations (1) to (5) and (9) to (14) of Shen et al. 2019.

    Rows are real tokens, time-major: of step t, those of the first counts[t] columns; counts never rise.
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
    """A plain LSTM over sequences of one length, by the operator under nn.LSTM: on a GPU it is cuDNN's.

    On a processor the recurrence here is as fast, and its states stay in float32.
    """
    batch, kind = inputs.view(steps, -1, inputs.shape[1]), state[0].dtype
    parts = [weights.input, weights.recurrent, weights.bias, torch.zeros_like(weights.bias)]
    states, hidden, cell = torch.lstm(
        batch, [part[None] for part in state], parts, True, 1, 0.0, torch.is_grad_enabled(), False, False
    )
    return Recurrence(states.flatten(0, 1).to(kind), (hidden[0].to(kind), cell[0].to(kind)), None, None)


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
        (width, size), total, columns = recurrent_weight.shape, len(inputs), len(hidden)
        new = hidden.new_empty
        starts = (0, *accumulate(counts))
        befores = torch.empty(total, size, dtype=dtype, device=hidden.device)
        befores[: counts[0]] = hidden[: counts[0]]
        cells = new(columns + total, size)
        cells[:columns] = cell
        gates, states, distances, input_distances = new(total, width), new(total, size), new(total), new(total)
        input_gates = large_product(low_inputs, input_weight, bias.to(dtype))
        product = RepeatedProduct(recurrent_weight, columns)
        if library is None:
            for t, count in enumerate(counts):
                now, then, before = _places(starts, columns, t, count)
                gates[now].copy_(input_gates[now]).add_(product(befores[now]))
                masters = _forward_step(gates[now], cells[before], chunk, cells[then], states[now])
                if masters is not None:
                    torch.mean(masters[0], dim=-1, out=input_distances[now])
                    torch.mean(masters[1], dim=-1, out=distances[now])
                if t + 1 < len(counts):
                    befores[starts[t + 1] : starts[t + 2]] = states[now][: counts[t + 1]]
            distances = 1 - distances
        else:
            kept = {"starts": torch.tensor(starts), "gates": gates, "cells": cells, "befores": befores}
            made = {"states": states, "distances": distances, "input_distances": input_distances}
            layer = _layer(size, columns, chunk, dtype, kept | made | {"input_gates": input_gates})
            steps = ctypes.c_int64(len(counts))
            for t, (start, end) in enumerate(pairwise(starts)):
                result = product(befores[start:end])
                library.on_lstm_forward(ctypes.byref(layer), ctypes.c_int64(t), steps, address(result))
        ctx.save_for_backward(low_inputs, input_weight, recurrent_weight, befores, gates, cells)
        ctx.library, ctx.chunk, ctx.counts, ctx.starts, ctx.input_dtype = library, chunk, counts, starts, inputs.dtype
        ctx.mark_non_differentiable(distances, input_distances)
        ctx.set_materialize_grads(False)
        last = _last(hidden, states, counts, starts), _last(cell, cells[columns:], counts, starts)
        return states, *last, distances, input_distances

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        output_grads, last_hidden_grads, last_cell_grads, *_ = grads
        inputs, input_weight, recurrent_weight, befores, gates, cells = ctx.saved_tensors
        counts, starts, library, dtype = ctx.counts, ctx.starts, ctx.library, befores.dtype
        (total, size), columns = befores.shape, len(cells) - len(befores)
        output_grads = cells.new_zeros(total, size) if output_grads is None else output_grads.contiguous()
        if last_hidden_grads is not None:
            last_hidden_grads = last_hidden_grads.contiguous()
        cell_grads = cells.new_zeros(columns, size) if last_cell_grads is None else last_cell_grads.clone(
            memory_format=torch.contiguous_format
        )  # fmt: skip
        gate_grads = torch.empty(gates.shape, dtype=dtype, device=gates.device)
        product = RepeatedProduct(recurrent_weight.T, columns)
        through: Tensor | None = None
        if library is not None:
            kept = {"starts": torch.tensor(starts), "gates": gates, "cells": cells, "befores": befores}
            made = {"cell_grads": cell_grads, "gate_grads": gate_grads}
            given = {"output_grads": output_grads, "last_hidden_grads": last_hidden_grads}
            layer = _layer(size, columns, ctx.chunk, dtype, kept | made | given)
            steps = ctypes.c_int64(len(counts))
        for t in range(len(counts) - 1, -1, -1):
            now, then, before = _places(starts, columns, t, counts[t])
            if library is not None:
                library.on_lstm_backward(ctypes.byref(layer), ctypes.c_int64(t), steps, address(through))
            else:
                hidden_grad = output_grads[now].clone()
                next_count = 0 if through is None else len(through)
                if through is not None:
                    hidden_grad[:next_count] += through
                if last_hidden_grads is not None:
                    hidden_grad[next_count:] += last_hidden_grads[next_count : counts[t]]
                _backward_step(
                    gates[now], cells[before], cells[then], hidden_grad, ctx.chunk, cell_grads[: counts[t]],
                    gate_grads[now],
                )  # fmt: skip
            if t or ctx.needs_input_grad[4]:
                through = product(gate_grads[now])
        hidden_grads = None
        if ctx.needs_input_grad[4]:
            hidden_grads = torch.zeros_like(cell_grads) if last_hidden_grads is None else last_hidden_grads.clone()
            assert through is not None
            hidden_grads[: counts[0]] = through
        turned = gate_grads.T
        if dtype == torch.float32:
            turned = turned.contiguous()  # once for both products, which else would each do it
        return (
            large_product(gate_grads, input_weight.T).to(ctx.input_dtype) if ctx.needs_input_grad[0] else None,
            large_product(turned, inputs.T).to(cells.dtype),
            large_product(turned, befores.T).to(cells.dtype),
            gate_grads.sum(0, dtype=cells.dtype),
            hidden_grads,
            cell_grads,
            None,
            None,
        )


def _places(starts: Sequence[int], columns: int, t: int, count: int) -> tuple[slice, slice, slice]:
    """Of step t: its rows; the rows of its cells; the rows of the cells before it."""
    before = 0 if t == 0 else columns + starts[t - 1]
    then = columns + starts[t]
    return slice(starts[t], starts[t] + count), slice(then, then + count), slice(before, before + count)


def _last(before: Tensor, rows: Tensor, counts: Sequence[int], starts: Sequence[int]) -> Tensor:
    """Of every column the row of its last step, or what it had before the first one. (B, D)"""
    nexts = (*counts[1:], 0)
    parts = [rows[start + after : start + count] for start, count, after in zip(starts, counts, nexts, strict=False)]
    return torch.cat([*(part for part in reversed(parts) if len(part)), before[counts[0] :]])


def _named(gates: Tensor, size: int, chunk: int | None) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """o, g, i, f of rows of gates, as views."""
    if chunk is None:
        i, f, g, o = gates.chunk(4, dim=-1)
    else:
        o, g, i, f = gates[:, -4 * size :].chunk(4, dim=-1)
    return o, g, i, f


def _masters(gates: Tensor, size: int, chunk: int) -> tuple[Tensor, Tensor]:
    """The master gates i~ and f~, (count, K) each, from their softmaxes."""
    inputs, forgets = gates[:, : -4 * size].chunk(2, dim=-1)
    return 1 - inputs.cumsum(-1), forgets.cumsum(-1)


def _forward_step(
    gates: Tensor, before: Tensor, chunk: int | None, cell: Tensor, state: Tensor
) -> tuple[Tensor, Tensor] | None:
    """From logits, which it turns into gates in place, to `cell` and `state`. Returns the master gates."""
    size = before.shape[1]
    o, g, i, f = _named(gates, size, chunk)
    for part in (o, i, f):
        part.sigmoid_()
    g.tanh_()
    masters = None
    if chunk is not None:
        for part in gates[:, : -4 * size].chunk(2, dim=-1):
            part.copy_(torch.softmax(part, dim=-1))
        masters = _masters(gates, size, chunk)
        f, i = _acting(f, i, masters, chunk)
    torch.addcmul(f * before, i, g, out=cell)
    torch.mul(o, cell.tanh(), out=state)
    return masters


def _acting(f: Tensor, i: Tensor, masters: tuple[Tensor, Tensor], chunk: int) -> tuple[Tensor, Tensor]:
    """f^ and i^, equations (12) and (13), (count, D) each."""
    input_master, forget_master = masters
    overlap = input_master * forget_master
    parts = overlap, forget_master - overlap, input_master - overlap
    overlap, keep, take = (part.repeat_interleave(chunk, dim=-1) for part in parts)
    return torch.addcmul(keep, f, overlap), torch.addcmul(take, i, overlap)


def _backward_step(
    gates: Tensor,
    before: Tensor,
    cell: Tensor,
    hidden_grad: Tensor,
    chunk: int | None,
    cell_grad: Tensor,
    gate_grad: Tensor,
) -> None:
    """The gradient of the logits into `gate_grad`; that of the cell before in the place of `cell_grad`."""
    size = before.shape[1]
    o, g, i, f = _named(gates, size, chunk)
    o_grad, g_grad, i_grad, f_grad = _named(gate_grad, size, chunk)
    tanh = cell.tanh()
    o_grad.copy_(hidden_grad * tanh * (o - o * o))
    cell_grad += hidden_grad * o * (1 - tanh * tanh)
    forget, write, forget_grad, write_grad = f, i, cell_grad * before, cell_grad * g
    i_slope, f_slope = i - i * i, f - f * f
    if chunk is not None:
        masters = input_master, forget_master = _masters(gates, size, chunk)
        forget, write = _acting(f, i, masters, chunk)
        overlap = (input_master * forget_master).repeat_interleave(chunk, dim=-1)
        i_slope, f_slope = i_slope * overlap, f_slope * overlap
        chunks = -1, size // chunk, chunk
        overlap_grad = (forget_grad * (f - 1) + write_grad * (i - 1)).view(chunks).sum(-1)
        input_grad = write_grad.view(chunks).sum(-1) + overlap_grad * forget_master
        forget_master_grad = forget_grad.view(chunks).sum(-1) + overlap_grad * input_master
        softmaxes = gates[:, : -4 * size].chunk(2, dim=-1)
        places = gate_grad[:, : -4 * size].chunk(2, dim=-1)
        for softmax, grad, place in zip(softmaxes, (-input_grad, forget_master_grad), places, strict=True):
            place.copy_(_cumax_backward(softmax, grad))
    g_grad.copy_(cell_grad * write * (1 - g * g))
    i_grad.copy_(write_grad * i_slope)
    f_grad.copy_(forget_grad * f_slope)
    cell_grad *= forget


def _cumax_backward(softmax: Tensor, grad: Tensor) -> Tensor:
    """The gradient of logits, from that of their cumulative softmax. (count, K) each."""
    inner = grad.flip(-1).cumsum(-1).flip(-1)
    return softmax * (inner - (softmax * inner).sum(-1, keepdim=True))


_INTEGERS = ("size", "masters", "chunk", "columns")
_POINTERS = (
    "starts", "input_gates", "gates", "cells", "befores", "states", "distances", "input_distances", "output_grads",
    "last_hidden_grads", "cell_grads", "gate_grads",
)  # fmt: skip


class _Layer(ctypes.Structure):
    """What the C functions read and write: `Layer` of on_lstm.c, field by field."""

    _fields_ = (
        *((name, ctypes.c_int64) for name in _INTEGERS),
        ("half", ctypes.c_int),
        ("threads", ctypes.c_int),
        *((name, ctypes.c_void_p) for name in _POINTERS),
    )


def _layer(
    size: int, columns: int, chunk: int | None, dtype: torch.dtype, tensors: Mapping[str, Tensor | None]
) -> _Layer:
    """The structure over tensors, which must outlive it; contiguous."""
    return _Layer(
        size=size,
        masters=0 if chunk is None else size // chunk,
        chunk=chunk or 0,
        columns=columns,
        half=dtype == torch.bfloat16,
        threads=torch.get_num_threads(),
        **{name: address(tensor) for name, tensor in tensors.items()},
    )
