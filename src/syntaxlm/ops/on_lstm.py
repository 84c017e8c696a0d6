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

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import linear

from syntaxlm.ops.backend import c_struct, call, filled, fused, kernels, with_reference
from syntaxlm.ops.products import RepeatedProduct, large_product, product_dtype


@dataclass(frozen=True)
class CellWeights:
    """One layer's weights; E features of its input, D of its state.

    chunk: C, number of adjacent neurons that share a master gate, K = D / C; None for a plain LSTM.
    input: (F, E); recurrent: (F, D); bias: (F,), the sum of both sides' biases. The F rows are, for ordered neurons,
    input master (K), forget master (K), o, g, i, f (D each), as in the released weights; for a plain LSTM i, f, g, o,
    as in nn.LSTM.
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

    hidden: (n, D).  state: hidden and cell, each (B, D), of every column after its own last step.
    distances: (n,), 1 - mean of the forget master gate.  input_distances: (n,), mean of the input master gate. Both
    are detached, and None for a plain LSTM.
    """

    hidden: Tensor
    state: tuple[Tensor, Tensor]
    distances: Tensor | None
    input_distances: Tensor | None


def cumax(logits: Tensor) -> Tensor:
    """Return cumulative softmax, section 4.1: (..., K) -> (..., K), increasing from near 0 to 1 along the last axis."""
    return torch.cumsum(torch.softmax(logits, dim=-1), dim=-1)


def recurrence_reference(
    inputs: Tensor, weights: CellWeights, state: tuple[Tensor, Tensor], counts: Sequence[int]
) -> Recurrence:
    """Return `recurrence` as its equations, differentiated by autograd."""
    input_gates = linear(inputs, weights.input, weights.bias)
    hidden, cell = state
    states, distances, input_distances = [], [], []
    end = 0
    for count in counts:
        now = slice(end, end := end + count)
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
        hidden, cell = torch.cat([new_hidden, hidden[count:]]), torch.cat([new_cell, cell[count:]])
    if weights.chunk is None:
        return Recurrence(torch.cat(states), (hidden, cell), None, None)
    return Recurrence(
        torch.cat(states), (hidden, cell), torch.cat(distances).detach(), torch.cat(input_distances).detach()
    )


@with_reference(recurrence_reference)
def recurrence(inputs: Tensor, weights: CellWeights, state: tuple[Tensor, Tensor], counts: Sequence[int]) -> Recurrence:
    """Return one layer over a sequence, equations (1) to (5) and (9) to (14).

    Rows are real tokens, time-major: step t has the first counts[t] columns; counts never increase.
    inputs: (n, E); state: hidden and cell before the first step, each (B, D).
    """
    if weights.chunk is None and inputs.is_cuda and counts[0] == counts[-1] == len(state[0]):
        return lstm_of_torch(inputs, weights, state, len(counts))
    hidden, last_hidden, last_cell, distances, input_distances = _OrderedNeurons.apply(
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


class _OrderedNeurons(torch.autograd.Function):
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
        library = kernels("on_lstm", dtype, recurrent_weight, bias, hidden, cell)
        low_inputs, input_weight, recurrent_weight = (
            tensor.to(dtype) for tensor in (inputs, input_weight, recurrent_weight)
        )
        input_gates = large_product(low_inputs, input_weight, bias.to(dtype))
        product = RepeatedProduct(recurrent_weight, len(hidden))
        steps = _steps(library, chunk, counts)
        steps.start(input_gates, hidden, cell)
        for t in range(len(counts)):
            steps.forward(t, product(steps.before(t)))
        states, distances, input_distances, kept = steps.results()
        ctx.save_for_backward(low_inputs, input_weight, recurrent_weight, *kept)
        ctx.library, ctx.chunk, ctx.counts, ctx.input_dtype = library, chunk, counts, inputs.dtype
        ctx.mark_non_differentiable(distances, input_distances)
        ctx.set_materialize_grads(False)
        last_hidden = _last(hidden, states, counts, steps.starts)
        last_cell = _last(cell, kept.cells[len(hidden) :], counts, steps.starts)
        return states, last_hidden, last_cell, distances, input_distances

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        output_grads, last_hidden_grads, last_cell_grads, *_ = grads
        inputs, input_weight, recurrent_weight, *tensors = ctx.saved_tensors
        kept, to_begin = _Kept(*tensors), ctx.needs_input_grad[4]
        total, columns, cells = len(inputs), len(kept.cells) - len(inputs), kept.cells
        output_grads, last_hidden_grads, last_cell_grads = (
            cells.new_zeros(rows, cells.shape[1]) if grad is None else grad.contiguous()
            for grad, rows in ((output_grads, total), (last_hidden_grads, columns), (last_cell_grads, columns))
        )
        steps = _steps(ctx.library, ctx.chunk, ctx.counts)
        steps.start_backward(kept, output_grads, last_hidden_grads, last_cell_grads)
        product = RepeatedProduct(recurrent_weight.T, columns)
        through: Tensor | None = None
        for t in range(len(ctx.counts) - 1, -1, -1):
            gate_grad = steps.backward(t, through)
            if t or to_begin:
                through = product(gate_grad)
        gate_grads, cell_grads = steps.gradients()
        turned = gate_grads.T
        if gate_grads.dtype == torch.float32:
            turned = turned.contiguous()  # once, instead of in each of the two products
        return (
            large_product(gate_grads, input_weight.T).to(ctx.input_dtype) if ctx.needs_input_grad[0] else None,
            large_product(turned, inputs.T).to(cells.dtype),
            large_product(turned, kept.befores.T).to(cells.dtype),
            gate_grads.sum(0, dtype=cells.dtype),
            _with_ended(through, last_hidden_grads, columns) if to_begin else None,
            cell_grads,
            None,
            None,
        )


def _last(before: Tensor, rows: Tensor, counts: Sequence[int], starts: Sequence[int]) -> Tensor:
    """For every column, the row of its last step, or its initial row if it has no step. (B, D)"""
    nexts = (*counts[1:], 0)
    parts = [rows[start + after : start + count] for start, count, after in zip(starts, counts, nexts, strict=False)]
    return torch.cat([*(part for part in reversed(parts) if len(part)), before[counts[0] :]])


def _with_ended(rows: Tensor | None, ended: Tensor, count: int) -> Tensor:
    """Rows of the columns that continue, followed by those of columns that ended, up to `count` rows."""
    if rows is None:
        return ended[:count]
    return rows if len(rows) == count else torch.cat([rows, ended[len(rows) : count]])


class _Kept(NamedTuple):
    """Tensors for backward.

    befores: (n, D), the hidden state before each row's step, in the dtype of products.
    cells: (B + n, D), starting with those before the first step.
    gates: (n, F): the softmaxes of the two master gates, and the other gates after activation.
    """

    befores: Tensor
    cells: Tensor
    gates: Tensor


class _TorchSteps:
    """The steps of a sequence, forward and backward, without their matrix products, which the caller computes between
    them: one step at a time, in torch.

    Results of steps are collected and joined at the end: on a GPU, copies into one tensor would be more launches.
    """

    def __init__(self, chunk: int | None, counts: Sequence[int]) -> None:
        self.chunk, self.counts, self.starts = chunk, counts, (0, *accumulate(counts))

    def start(self, input_gates: Tensor, hidden: Tensor, cell: Tensor) -> None:
        """Start the forward steps. input_gates: (n, F), in the dtype of products; hidden, cell: (B, D)."""
        self._input_gates, self._low, self._cell = input_gates, hidden.to(input_gates.dtype), cell.detach()
        self._first_cell = cell
        self._befores: list[Tensor] = []
        self._results: list[_Step] = []

    def before(self, t: int) -> Tensor:
        """Return the hidden states before step t, (r, D), in the dtype of products."""
        return self._low[: self.counts[t]]

    def forward(self, t: int, product: Tensor) -> None:
        """Compute step t. product: the recurrent side of its logits, (r, F)."""
        gates = self._input_gates[self.starts[t] : self.starts[t + 1]]
        self._befores.append(self.before(t))
        step = forward_step(gates, product, self._cell[: self.counts[t]], self.chunk, gates.dtype)
        self._results.append(step)
        self._low, self._cell = step.low, step.cell

    def results(self) -> tuple[Tensor, Tensor, Tensor, _Kept]:
        """Return hidden states (n, D), distances and input distances (n,), empty for a plain LSTM, after the last
        step.
        """
        states, cells, gates, means = (
            torch.cat([getattr(step, name) for step in self._results]) for name in ("hidden", "cell", "gates", "means")
        )
        kept = _Kept(torch.cat(self._befores), torch.cat([self._first_cell, cells]), gates)
        return states, 1 - means[:, 1], 1 - means[:, 0], kept

    def start_backward(self, kept: _Kept, states: Tensor, hidden: Tensor, cells: Tensor) -> None:
        """Start the backward steps, with gradients of all states as outputs, (n, D), and of the last hidden states and
        cells of all columns, (B, D) each.
        """
        self._kept, self._output_grads, self._last_hidden_grads, self._last_cell_grads = kept, states, hidden, cells
        self._gate_grads: list[Tensor] = []
        self._cell_grads: Tensor | None = None

    def backward(self, t: int, product: Tensor | None) -> Tensor:
        """Return the gradient of the logits of step t, (r, F), in the dtype of products.

        product: the gradient of the hidden states through step t + 1; None at the last step.
        """
        kept, columns, count = self._kept, len(self._last_cell_grads), self.counts[t]
        now = slice(self.starts[t], self.starts[t + 1])
        earlier = 0 if t == 0 else columns + self.starts[t - 1]
        gate_grad, self._cell_grads = backward_step(
            kept.cells[earlier : earlier + count],
            kept.cells[columns + now.start : columns + now.stop],
            kept.gates[now],
            self._output_grads[now],
            _with_ended(product, self._last_hidden_grads, count),
            _with_ended(self._cell_grads, self._last_cell_grads, count),
            self.chunk,
            kept.befores.dtype,
        )
        self._gate_grads.append(gate_grad)
        return gate_grad

    def gradients(self) -> tuple[Tensor, Tensor]:
        """Return the gradients of all logits, (n, F), and of the first cells, (B, D), after the first step."""
        columns = len(self._last_cell_grads)
        return torch.cat(self._gate_grads[::-1]), _with_ended(self._cell_grads, self._last_cell_grads, columns)


_Layer = c_struct(
    "size masters chunk columns",
    "starts input_gates gates cells befores states distances input_distances output_grads last_hidden_grads cell_grads"
    " gate_grads",
)


class _CompiledSteps(_TorchSteps):
    """The same in C (kernels/on_lstm.c), over arrays of the whole sequence."""

    def __init__(self, library: ctypes.CDLL, chunk: int | None, counts: Sequence[int]) -> None:
        super().__init__(chunk, counts)
        self._library = library

    def start(self, input_gates: Tensor, hidden: Tensor, cell: Tensor) -> None:
        (total, width), (columns, size), new = input_gates.shape, hidden.shape, hidden.new_empty
        befores = torch.empty(total, size, dtype=input_gates.dtype)
        befores[: self.counts[0]] = hidden[: self.counts[0]]
        cells = new(columns + total, size)
        cells[:columns] = cell
        self._kept = _Kept(befores, cells, new(total, width))
        self._outputs = {"states": new(total, size), "distances": new(total), "input_distances": new(total)}
        self._layer = self._struct(columns, {"input_gates": input_gates, **self._outputs})

    def before(self, t: int) -> Tensor:
        return self._kept.befores[self.starts[t] : self.starts[t + 1]]

    def forward(self, t: int, product: Tensor) -> None:
        call(self._library.on_lstm_forward, self._layer, t, len(self.counts), product)

    def results(self) -> tuple[Tensor, Tensor, Tensor, _Kept]:
        return self._outputs["states"], self._outputs["distances"], self._outputs["input_distances"], self._kept

    def start_backward(self, kept: _Kept, states: Tensor, hidden: Tensor, cells: Tensor) -> None:
        self._kept = kept
        self._made = {
            "cell_grads": cells.clone(),
            "gate_grads": torch.empty(kept.gates.shape, dtype=kept.befores.dtype),
        }
        self._layer = self._struct(len(cells), {"output_grads": states, "last_hidden_grads": hidden, **self._made})

    def backward(self, t: int, product: Tensor | None) -> Tensor:
        call(self._library.on_lstm_backward, self._layer, t, len(self.counts), product)
        return self._made["gate_grads"][self.starts[t] : self.starts[t + 1]]

    def gradients(self) -> tuple[Tensor, Tensor]:
        return self._made["gate_grads"], self._made["cell_grads"]

    def _struct(self, columns: int, tensors: dict[str, Tensor]) -> ctypes.Structure:
        befores, chunk = self._kept.befores, self.chunk
        size = befores.shape[1]
        masters = 0 if chunk is None else size // chunk
        self._tensors = {"starts": torch.tensor(self.starts), **self._kept._asdict(), **tensors}
        half = befores.dtype == torch.bfloat16
        return filled(_Layer, self._tensors, size=size, masters=masters, chunk=chunk or 0, columns=columns, half=half)


def _steps(library: ctypes.CDLL | None, chunk: int | None, counts: Sequence[int]) -> _TorchSteps:
    return _TorchSteps(chunk, counts) if library is None else _CompiledSteps(library, chunk, counts)


class _Step(NamedTuple):
    """Results of a step.

    cell, hidden: (r, D).  low: `hidden` in the dtype of products.  gates: (r, F), as in `_Kept`.
    means: (r, 2), of the cumulative softmaxes of the input and the forget master gate; of zeros for a plain LSTM.
    """

    cell: Tensor
    hidden: Tensor
    low: Tensor
    gates: Tensor
    means: Tensor


@fused
def forward_step(
    input_logits: Tensor, recurrent_logits: Tensor, before: Tensor, chunk: int | None, low: torch.dtype
) -> _Step:
    """Return equations (1) to (5) and (9) to (14), after the matrix products.

    A step is a pure function, so that it can be compiled into one or two kernels: on a GPU every torch operator
    launches its own kernel, about thirty per step, and the launches dominate the time of a step.
    input_logits, recurrent_logits: (r, F); before: the previous cell, (r, D); low: the dtype of products.
    """
    rows, size = before.shape
    logits = input_logits.to(before.dtype) + recurrent_logits
    if chunk is None:
        i, f, g, o = logits.chunk(4, dim=-1)
        i, f, g, o = torch.sigmoid(i), torch.sigmoid(f), torch.tanh(g), torch.sigmoid(o)
        cell = f * before + i * g
        hidden = o * torch.tanh(cell)
        return _Step(cell, hidden, hidden.to(low), torch.cat([i, f, g, o], dim=-1), cell.new_zeros(rows, 2))
    softmaxes = torch.softmax(logits[:, : -4 * size].view(rows, 2, -1), dim=-1)
    sums = softmaxes.cumsum(-1)
    o, g, i, f = logits[:, -4 * size :].view(rows, 4, -1, chunk).unbind(1)
    o, g, i, f = torch.sigmoid(o), torch.tanh(g), torch.sigmoid(i), torch.sigmoid(f)
    forget, write, _ = _acting(f, i, *_masters(sums))
    cell = forget * before.view(f.shape) + write * g  # (14)
    hidden = o * torch.tanh(cell)
    gates = torch.cat([softmaxes.flatten(1), *(part.flatten(1) for part in (o, g, i, f))], dim=-1)
    cell, hidden = cell.flatten(1), hidden.flatten(1)
    return _Step(cell, hidden, hidden.to(low), gates, sums.mean(-1))


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

    before: the previous cell; cell, gates: as in `_Step`.
    output_grad, later_grad: gradients of the hidden state as output and through the next step's product, (r, D);
    cell_grad: gradient of the cell through the next step's cell, (r, D).
    """
    rows, size = cell.shape
    if chunk is None:
        i, f, g, o = gates.chunk(4, dim=-1)
        forget, write = f, i
    else:
        softmaxes = gates[:, : -4 * size].view(rows, 2, -1)
        o, g, i, f = gates[:, -4 * size :].view(rows, 4, -1, chunk).unbind(1)
        input_master, forget_master = _masters(softmaxes.cumsum(-1))
        forget, write, overlap = _acting(f, i, input_master, forget_master)
        before, cell, output_grad, later_grad, cell_grad = (
            part.reshape(f.shape) for part in (before, cell, output_grad, later_grad, cell_grad)
        )
    hidden_grad, tanh = output_grad + later_grad, torch.tanh(cell)
    cell_grad = cell_grad + hidden_grad * o * (1 - tanh * tanh)
    forget_grad, write_grad = cell_grad * before, cell_grad * g
    o_grad, g_grad = hidden_grad * tanh * (o - o * o), cell_grad * write * (1 - g * g)
    i_grad, f_grad = write_grad * (i - i * i), forget_grad * (f - f * f)
    if chunk is None:
        grads = [i_grad, f_grad, g_grad, o_grad]
    else:
        overlap_grad = (forget_grad * (f - 1) + write_grad * (i - 1)).sum(-1)
        input_grad = write_grad.sum(-1) + overlap_grad * forget_master
        forget_master_grad = forget_grad.sum(-1) + overlap_grad * input_master
        grads = [_cumax_backward(softmaxes[:, 0], -input_grad), _cumax_backward(softmaxes[:, 1], forget_master_grad)]
        grads += [part.flatten(1) for part in (o_grad, g_grad, i_grad * overlap, f_grad * overlap)]
    return torch.cat([grad.to(low) for grad in grads], dim=-1), (cell_grad * forget).flatten(1)


def _masters(sums: Tensor) -> tuple[Tensor, Tensor]:
    """Return the master gates i~ and f~, equations (9) and (10), (r, K) each, from cumulative softmaxes, (r, 2, K)."""
    return 1 - sums[:, 0], sums[:, 1]


def _acting(f: Tensor, i: Tensor, input_master: Tensor, forget_master: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return f^, i^ and the overlap, equations (11) to (13), for gates (r, K, C) and master gates (r, K)."""
    input_master, forget_master = input_master[..., None], forget_master[..., None]
    overlap = input_master * forget_master
    return f * overlap + (forget_master - overlap), i * overlap + (input_master - overlap), overlap


def _cumax_backward(softmax: Tensor, grad: Tensor) -> Tensor:
    """Return the gradient of logits from that of their cumulative softmax. (r, K) each.

    Element j of the softmax is in all sums from j on. Adding a constant to the gradients of all j has no effect, so
    they may be computed from the sums without j.
    """
    without = grad.cumsum(-1) - grad
    return softmax * ((softmax * without).sum(-1, keepdim=True) - without)
