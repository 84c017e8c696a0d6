"""The recurrence of ordered neurons and of a plain LSTM.

Shen, Tan, Sordoni, Courville 2019, "Ordered Neurons: Integrating Tree Structures into Recurrent Neural Networks".
`recurrence_reference` is the paper's cell in a loop. `recurrence` has a hand-written backward. The input side of all
steps is one product. A step is one product with a weight that is packed once, and one pointwise pass: in C on the CPU,
otherwise in torch, compiled on a GPU. No graph is built, and the gate gradients of all steps are stored, so that each
weight gradient is one product over the whole sequence: per-step accumulation would rewrite an (F, D) matrix T times.
Sequences that have ended are excluded from later steps.

Shapes: B batch, D neurons, C neurons per chunk, K = D / C master gates, F gates, n real tokens; r rows, the columns
that are real at a step.
"""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import CDLL, Structure
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import linear

from syntaxlm.ops.backend import c_struct, call, filled, fused, kernels, slices, with_reference
from syntaxlm.ops.products import RepeatedProduct, large_product, product_dtype


@dataclass(frozen=True)
class CellWeights:
    """One layer's weights; E features of its input, D of its state.

    Attributes:
        chunk: C, number of adjacent neurons that share a master gate, K = D / C; None for a plain LSTM.
        input: (F, E).
        recurrent: (F, D).
        bias: (F,), the sum of both sides' biases. The F rows are, for ordered neurons, input master (K), forget master
            (K), o, g, i, f (D each), as in the released weights; for a plain LSTM i, f, g, o, as in nn.LSTM.
    """

    input: Tensor
    recurrent: Tensor
    bias: Tensor
    chunk: int | None

    def __post_init__(self) -> None:
        size, chunk = self.recurrent.shape[1], self.chunk
        if chunk is not None and size % chunk:
            raise ValueError(f"{size} neurons cannot be divided into chunks of {chunk}")
        rows = 4 * size + (0 if chunk is None else 2 * (size // chunk))
        if len(self.recurrent) != rows:
            raise ValueError(f"the recurrent weight has {len(self.recurrent)} rows; expected {rows}")


class Recurrence(NamedTuple):
    """A layer's output for a sequence of n real tokens.

    Attributes:
        hidden: (n, D).
        state: hidden and perhaps cell, each (B, D), of every column after its own last step.
        distances: (n,), 1 - mean of the forget master gate; detached. None for other cells than ordered neurons.
        input_distances: (n,), mean of the input master gate; detached. None for other cells than ordered neurons.
    """

    hidden: Tensor
    state: tuple[Tensor, ...]
    distances: Tensor | None = None
    input_distances: Tensor | None = None


def cumax(logits: Tensor) -> Tensor:
    """Return cumulative softmax, section 4.1: (..., K) -> (..., K), increasing from near 0 to 1 along the last axis."""
    return torch.cumsum(torch.softmax(logits, dim=-1), dim=-1)


def recurrence_reference(
    inputs: Tensor, weights: CellWeights, state: tuple[Tensor, Tensor], counts: Sequence[int]
) -> Recurrence:
    """Return `recurrence` as its equations, differentiated by autograd."""
    input_gates = linear(inputs, weights.input, weights.bias)
    hidden, cell = state
    states = []
    distances = []
    input_distances = []
    # c_t = f^ c_{t-1} + i^ tanh(g);  h_t = sigmoid(o) tanh(c_t), where master gates act on f^ and i^
    for count, now in zip(counts, slices(counts), strict=True):
        gates = input_gates[now] + linear(hidden[:count], weights.recurrent)
        if weights.chunk is None:
            i, f, g, o = gates.chunk(4, dim=-1)
            forget, write = torch.sigmoid(f), torch.sigmoid(i)
        else:
            size = hidden.shape[1]
            master = size // weights.chunk
            input_logits, forget_logits, o, g, i, f = gates.split([master, master, size, size, size, size], dim=-1)
            input_master, forget_master = 1 - cumax(input_logits), cumax(forget_logits)  # (9), (10)
            distances.append(1 - forget_master.mean(-1))
            input_distances.append(input_master.mean(-1))
            input_master, forget_master = (
                part.repeat_interleave(weights.chunk, dim=-1) for part in (input_master, forget_master)
            )
            overlap = forget_master * input_master  # (11)
            forget = torch.sigmoid(f) * overlap + (forget_master - overlap)  # (12)
            write = torch.sigmoid(i) * overlap + (input_master - overlap)  # (13)
        new_cell = forget * cell[:count] + write * torch.tanh(g)  # (14)
        new_hidden = torch.sigmoid(o) * torch.tanh(new_cell)
        states.append(new_hidden)
        hidden = torch.cat([new_hidden, hidden[count:]])
        cell = torch.cat([new_cell, cell[count:]])
    if weights.chunk is None:
        return Recurrence(torch.cat(states), (hidden, cell))
    return Recurrence(
        torch.cat(states), (hidden, cell), torch.cat(distances).detach(), torch.cat(input_distances).detach()
    )


@with_reference(recurrence_reference)
def recurrence(inputs: Tensor, weights: CellWeights, state: tuple[Tensor, Tensor], counts: Sequence[int]) -> Recurrence:
    """Return one layer over a sequence, equations (1) to (5) and (9) to (14).

    Rows are real tokens, time-major: step t has the first counts[t] columns; counts never increase.

    Args:
        inputs: (n, E).
        state: hidden and cell before the first step, each (B, D).
    """
    if weights.chunk is None and inputs.is_cuda and counts[0] == counts[-1] == len(state[0]):
        return lstm_of_torch(inputs, weights, state, len(counts))
    hidden, last_hidden, last_cell, distances, input_distances = _OrderedNeurons.apply(
        inputs, weights.input, weights.recurrent, weights.bias, *state, weights.chunk, tuple(counts)
    )
    if weights.chunk is None:
        return Recurrence(hidden, (last_hidden, last_cell))
    return Recurrence(hidden, (last_hidden, last_cell), distances, input_distances)


def distances_of(inputs: Tensor, weights: CellWeights, before: Tensor, hidden: Tensor, counts: Sequence[int]) -> Tensor:
    """Return `Recurrence.distances` with gradients, from the states: (n,).

    Args:
        inputs: as in `recurrence`.
        weights: of ordered neurons.
        before: hidden state before the first step, (B, D).
        hidden: hidden states of all steps, (n, D).
        counts: as in `recurrence`.
    """
    assert weights.chunk is not None
    steps = zip(slices(counts), counts[1:], strict=False)
    befores = torch.cat([before[: counts[0]], *(hidden[now.start : now.start + after] for now, after in steps)])
    masters = weights.recurrent.shape[1] // weights.chunk
    forget_rows = slice(masters, 2 * masters)
    logits = linear(inputs, weights.input[forget_rows], weights.bias[forget_rows])
    logits = logits + linear(befores, weights.recurrent[forget_rows])
    return 1 - cumax(logits.to(hidden.dtype)).mean(-1)


def lstm_of_torch(inputs: Tensor, weights: CellWeights, state: tuple[Tensor, Tensor], steps: int) -> Recurrence:
    """Return a plain LSTM over sequences of one length, by the operator of nn.LSTM, which uses cuDNN on a GPU.

    On the CPU, `recurrence` is as fast and keeps states in float32.
    """
    batch = inputs.view(steps, -1, inputs.shape[1])
    dtype = state[0].dtype
    parts = [weights.input, weights.recurrent, weights.bias, torch.zeros_like(weights.bias)]
    states, hidden, cell = torch.lstm(
        batch, [part[None] for part in state], parts, True, 1, 0.0, torch.is_grad_enabled(), False, False
    )
    return Recurrence(states.flatten(0, 1).to(dtype), (hidden[0].to(dtype), cell[0].to(dtype)))


State = tuple[Tensor, Tensor]  # hidden and cell


class _SavedSteps(NamedTuple):
    """What backward needs of all steps.

    Attributes:
        befores: (n, D), the hidden state before each row's step, in the dtype of products.
        cells: (B + n, D), starting with those before the first step.
        gates: (n, F), the softmaxes of the two master gates, and the other gates after activation.
    """

    befores: Tensor
    cells: Tensor
    gates: Tensor


class _Steps(NamedTuple):
    """The result of all steps. The names, and those of `_SavedSteps`, are those of the struct in kernels/on_lstm.c.

    Attributes:
        states: (n, D), hidden states.
        distances: (n,), as in `Recurrence`; undefined for a plain LSTM.
        input_distances: (n,), as in `Recurrence`; undefined for a plain LSTM.
        saved: what backward needs.
    """

    states: Tensor
    distances: Tensor
    input_distances: Tensor
    saved: _SavedSteps


class _StateGradients(NamedTuple):
    """Gradients of the results.

    Attributes:
        outputs: (n, D), of all hidden states as outputs.
        last_hidden: (B, D), of each column's hidden state after its last step.
        last_cell: (B, D), of each column's cell after its last step.
    """

    outputs: Tensor
    last_hidden: Tensor
    last_cell: Tensor


class _StepsGradients(NamedTuple):
    """Gradients of what the steps read.

    Attributes:
        logits: (n, F), of the gates of all steps, in the dtype of products.
        first_cell: (B, D), of the cells before the first step.
        through: (r, D), of the hidden states before the first step, for its columns; None if it is not needed.
    """

    logits: Tensor
    first_cell: Tensor
    through: Tensor | None


class _OrderedNeurons(torch.autograd.Function):
    """A step after its product is a function of C (kernels/on_lstm.c), or the same in torch."""

    @staticmethod
    def forward(ctx: Any, inputs: Tensor, *arguments: Any) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        input_weight, recurrent_weight, bias, hidden, cell, chunk, counts = arguments
        dtype = product_dtype(recurrent_weight)
        library = kernels("on_lstm", dtype, recurrent_weight, bias, hidden, cell)
        low_inputs, low_input_weight, low_recurrent_weight = (
            tensor.to(dtype) for tensor in (inputs, input_weight, recurrent_weight)
        )
        product = RepeatedProduct(low_recurrent_weight, len(hidden))
        input_gates = large_product(low_inputs, low_input_weight, bias.to(dtype))
        steps = _steps_in_torch if library is None else partial(_steps_in_c, library)
        states, distances, input_distances, saved = steps(input_gates, (hidden, cell.detach()), chunk, counts, product)
        ctx.save_for_backward(low_inputs, low_input_weight, low_recurrent_weight, *saved)
        ctx.library = library
        ctx.chunk = chunk
        ctx.counts = counts
        ctx.input_dtype = inputs.dtype
        ctx.mark_non_differentiable(distances, input_distances)
        ctx.set_materialize_grads(False)
        last_hidden = _last(hidden, states, counts)
        last_cell = _last(cell, saved.cells[len(hidden) :], counts)
        return states, last_hidden, last_cell, distances, input_distances

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        inputs, input_weight, recurrent_weight, *tensors = ctx.saved_tensors
        saved = _SavedSteps(*tensors)
        (total, size), dtype = saved.befores.shape, saved.cells.dtype
        columns = len(saved.cells) - total
        state_grads = _StateGradients(
            *(
                saved.cells.new_zeros(rows, size) if grad is None else grad.contiguous()
                for grad, rows in zip(grads[:3], (total, columns, columns), strict=True)
            )
        )
        product = RepeatedProduct(recurrent_weight.T, columns)
        backward = _backward_in_torch if ctx.library is None else _backward_in_c
        logits, first_cell, through = backward(ctx, saved, state_grads, product)
        transposed = logits.T
        if logits.dtype == torch.float32:
            transposed = transposed.contiguous()  # once, instead of in each of the two products
        return (
            large_product(logits, input_weight.T).to(ctx.input_dtype) if ctx.needs_input_grad[0] else None,
            large_product(transposed, inputs.T).to(dtype),
            large_product(transposed, saved.befores.T).to(dtype),
            logits.sum(0, dtype=dtype),
            _with_ended(through, state_grads.last_hidden, columns) if ctx.needs_input_grad[4] else None,
            first_cell,
            None,
            None,
        )


def _last(before: Tensor, rows: Tensor, counts: Sequence[int]) -> Tensor:
    """Return the row of every column's last step, or its initial row if it has no step: (B, D)."""
    ended = zip(slices(counts), (*counts[1:], 0), strict=True)
    parts = [rows[now.start + after : now.stop] for now, after in ended]
    return torch.cat([*(part for part in reversed(parts) if len(part)), before[counts[0] :]])


def _with_ended(rows: Tensor | None, ended: Tensor, count: int) -> Tensor:
    """Return the rows of the columns that continue, then of columns that ended, up to `count` rows."""
    if rows is None:
        return ended[:count]
    return rows if len(rows) == count else torch.cat([rows, ended[len(rows) : count]])


def _steps_in_torch(
    input_gates: Tensor, state: State, chunk: int | None, counts: Sequence[int], product: RepeatedProduct
) -> _Steps:
    """Return the results of all steps.

    Results are collected and joined at the end: on a GPU, copies into one tensor would be more launches.
    """
    hidden, cell = state
    low_hidden = hidden.to(input_gates.dtype)
    before = cell
    befores = []
    steps = []
    # c_t, h_t = step(x_t + R h_{t-1}, c_{t-1})
    for count, now in zip(counts, slices(counts), strict=True):
        befores.append(low_hidden[:count])
        step = forward_step(input_gates[now], product(low_hidden[:count]), before[:count], chunk, input_gates.dtype)
        before, low_hidden = step.cell, step.low_hidden
        steps.append(step)
    cells, states, _, gates, means = (torch.cat(part) for part in zip(*steps, strict=True))
    saved = _SavedSteps(torch.cat(befores), torch.cat([cell, cells]), gates)
    return _Steps(states, 1 - means[:, 1], 1 - means[:, 0], saved)


def _backward_in_torch(
    ctx: Any, saved: _SavedSteps, state_grads: _StateGradients, product: RepeatedProduct
) -> _StepsGradients:
    """Return the gradients of what the steps read, from the last step to the first."""
    counts = ctx.counts
    columns = len(state_grads.last_cell)
    logit_grads = []
    through: Tensor | None = None
    cell_grads: Tensor | None = None
    rows = slices(counts)
    for t in range(len(counts) - 1, -1, -1):
        earlier = 0 if t == 0 else columns + rows[t - 1].start
        count = counts[t]
        now = rows[t]
        logit_grad, cell_grads = backward_step(
            saved.cells[earlier : earlier + count],
            saved.cells[columns + now.start : columns + now.stop],
            saved.gates[now],
            state_grads.outputs[now],
            _with_ended(through, state_grads.last_hidden, count),
            _with_ended(cell_grads, state_grads.last_cell, count),
            ctx.chunk,
            saved.befores.dtype,
        )
        logit_grads.append(logit_grad)
        if t or ctx.needs_input_grad[4]:
            through = product(logit_grad)
    first_cell = _with_ended(cell_grads, state_grads.last_cell, columns)
    return _StepsGradients(torch.cat(logit_grads[::-1]), first_cell, through)


_Layer = c_struct(
    "size masters chunk columns",
    "starts input_gates gates cells befores states distances input_distances output_grads last_hidden_grads cell_grads"
    " gate_grads",
)


def _layer(chunk: int | None, counts: Sequence[int], tensors: dict[str, Tensor]) -> Structure:
    """Return the struct of all tensors, which must outlive it."""
    (total, size) = tensors["befores"].shape
    dtype = tensors["befores"].dtype
    tensors["starts"] = torch.tensor([0, *accumulate(counts)])
    sizes = {"size": size, "masters": 0 if chunk is None else size // chunk, "chunk": chunk or 0}
    return filled(_Layer, tensors, **sizes, columns=len(tensors["cells"]) - total, half=dtype == torch.bfloat16)


def _steps_in_c(
    library: CDLL, input_gates: Tensor, state: State, chunk: int | None, counts: Sequence[int], product: RepeatedProduct
) -> _Steps:
    """Return the same as `_steps_in_torch`."""
    hidden, cell = state
    (total, width) = input_gates.shape
    (columns, size) = hidden.shape
    new = hidden.new_empty
    befores = torch.empty(total, size, dtype=input_gates.dtype)
    cells = new(columns + total, size)
    befores[: counts[0]], cells[:columns] = hidden[: counts[0]], cell
    states, distances, input_distances = new(total, size), new(total), new(total)
    saved = _SavedSteps(befores, cells, new(total, width))
    tensors = {"input_gates": input_gates, "states": states, **saved._asdict()}
    tensors |= {"distances": distances, "input_distances": input_distances}
    layer = _layer(chunk, counts, tensors)
    for t, now in enumerate(slices(counts)):
        call(library.on_lstm_forward, layer, t, len(counts), product(befores[now]))
    return _Steps(states, distances, input_distances, saved)


def _backward_in_c(
    ctx: Any, saved: _SavedSteps, state_grads: _StateGradients, product: RepeatedProduct
) -> _StepsGradients:
    """Return the same as `_backward_in_torch`."""
    counts, logit_grads = ctx.counts, torch.empty_like(saved.gates, dtype=saved.befores.dtype)
    cell_grads = state_grads.last_cell.clone()
    tensors = {**saved._asdict(), "output_grads": state_grads.outputs, "last_hidden_grads": state_grads.last_hidden}
    tensors |= {"cell_grads": cell_grads, "gate_grads": logit_grads}
    layer, through = _layer(ctx.chunk, counts, tensors), None
    for t, now in reversed(list(enumerate(slices(counts)))):
        call(ctx.library.on_lstm_backward, layer, t, len(counts), through)
        if t or ctx.needs_input_grad[4]:
            through = product(logit_grads[now])
    return _StepsGradients(logit_grads, cell_grads, through)


class StepOutputs(NamedTuple):
    """The outputs of a step for its r rows.

    Attributes:
        cell: (r, D).
        hidden: (r, D), the hidden state.
        low_hidden: (r, D), the hidden state in the dtype of products.
        gates: (r, F), the softmaxes of the two master gates, and the other gates after activation.
        master_means: (r, 2), means of the cumulative softmaxes of the input and the forget master gate; zeros for a
            plain LSTM.
    """

    cell: Tensor
    hidden: Tensor
    low_hidden: Tensor
    gates: Tensor
    master_means: Tensor


@fused
def forward_step(
    input_logits: Tensor, recurrent_logits: Tensor, before: Tensor, chunk: int | None, low: torch.dtype
) -> StepOutputs:
    """Return a step after the matrix products, equations (1) to (5) and (9) to (14).

    A step is a pure function, so that it can be compiled into one or two kernels: on a GPU every torch operator
    launches its own kernel, about thirty per step, and the launches dominate the time of a step.

    Args:
        input_logits: (r, F).
        recurrent_logits: (r, F).
        before: the previous cell, (r, D).
        chunk: neurons per master gate; None for a plain LSTM.
        low: the dtype of products.
    """
    rows, size = before.shape
    logits = input_logits.to(before.dtype) + recurrent_logits
    if chunk is None:
        i, f, g, o = logits.chunk(4, dim=-1)
        i = torch.sigmoid(i)
        f = torch.sigmoid(f)
        g = torch.tanh(g)
        o = torch.sigmoid(o)
        cell = f * before + i * g
        hidden = o * torch.tanh(cell)
        return StepOutputs(cell, hidden, hidden.to(low), torch.cat([i, f, g, o], dim=-1), cell.new_zeros(rows, 2))
    softmaxes = torch.softmax(logits[:, : -4 * size].view(rows, 2, -1), dim=-1)
    sums = softmaxes.cumsum(-1)
    o, g, i, f = logits[:, -4 * size :].view(rows, 4, -1, chunk).unbind(1)
    o = torch.sigmoid(o)
    g = torch.tanh(g)
    i = torch.sigmoid(i)
    f = torch.sigmoid(f)
    forget, write, _ = _acting(f, i, 1 - sums[:, 0], sums[:, 1])
    cell = forget * before.view(f.shape) + write * g  # (14)
    hidden = o * torch.tanh(cell)
    gates = torch.cat([softmaxes.flatten(1), *(part.flatten(1) for part in (o, g, i, f))], dim=-1)
    cell, hidden = cell.flatten(1), hidden.flatten(1)
    return StepOutputs(cell, hidden, hidden.to(low), gates, sums.mean(-1))


@fused
def backward_step(
    before: Tensor,
    cell: Tensor,
    gates: Tensor,
    output_grad: Tensor,
    later_grad: Tensor,
    cell_grad: Tensor,
    chunk: int | None,
    low: torch.dtype,
) -> tuple[Tensor, Tensor]:
    """Return the gradients of the step's logits, (r, F) in the dtype of products, and of the previous cell, (r, D).

    Args:
        before: the previous cell, (r, D).
        cell: of `forward_step`.
        gates: of `forward_step`.
        output_grad: gradient of the hidden state as output, (r, D).
        later_grad: gradient of the hidden state through the next step's product, (r, D).
        cell_grad: gradient of the cell through the next step's cell, (r, D).
        chunk: neurons per master gate; None for a plain LSTM.
        low: the dtype of products.
    """
    rows, size = cell.shape
    if chunk is None:
        i, f, g, o = gates.chunk(4, dim=-1)
        forget, write = f, i
    else:
        softmaxes = gates[:, : -4 * size].view(rows, 2, -1)
        o, g, i, f = gates[:, -4 * size :].view(rows, 4, -1, chunk).unbind(1)
        sums = softmaxes.cumsum(-1)
        input_master, forget_master = 1 - sums[:, 0], sums[:, 1]  # (9), (10)
        forget, write, overlap = _acting(f, i, input_master, forget_master)
        before, cell, output_grad, later_grad, cell_grad = (
            part.reshape(f.shape) for part in (before, cell, output_grad, later_grad, cell_grad)
        )
    hidden_grad, tanh = output_grad + later_grad, torch.tanh(cell)
    cell_grad = cell_grad + hidden_grad * o * (1 - tanh * tanh)
    forget_grad, write_grad = cell_grad * before, cell_grad * g
    o_grad = hidden_grad * tanh * (o - o * o)
    g_grad = cell_grad * write * (1 - g * g)
    i_grad = write_grad * (i - i * i)
    f_grad = forget_grad * (f - f * f)
    if chunk is None:
        grads = [i_grad, f_grad, g_grad, o_grad]
    else:
        overlap_grad = (forget_grad * (f - 1) + write_grad * (i - 1)).sum(-1)
        input_grad = write_grad.sum(-1) + overlap_grad * forget_master
        forget_master_grad = forget_grad.sum(-1) + overlap_grad * input_master
        grads = [_cumax_backward(softmaxes[:, 0], -input_grad), _cumax_backward(softmaxes[:, 1], forget_master_grad)]
        grads += [part.flatten(1) for part in (o_grad, g_grad, i_grad * overlap, f_grad * overlap)]
    return torch.cat([grad.to(low) for grad in grads], dim=-1), (cell_grad * forget).flatten(1)


def _acting(f: Tensor, i: Tensor, input_master: Tensor, forget_master: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return f^, i^ and the overlap, equations (11) to (13), for gates (r, K, C) and master gates (r, K)."""
    input_master = input_master[..., None]
    forget_master = forget_master[..., None]
    overlap = input_master * forget_master
    return f * overlap + (forget_master - overlap), i * overlap + (input_master - overlap), overlap


def _cumax_backward(softmax: Tensor, grad: Tensor) -> Tensor:
    """Return the gradient of logits from that of their cumulative softmax. (r, K) each.

    Element j of the softmax is in all sums from j on. Adding a constant to the gradients of all j has no effect, so
    they may be computed from the sums without j.
    """
    without = grad.cumsum(-1) - grad
    return softmax * ((softmax * without).sum(-1, keepdim=True) - without)
