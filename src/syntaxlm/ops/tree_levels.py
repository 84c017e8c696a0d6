"""The recurrence along dependency paths, level by level.

Zhang, Lu, Lapata 2016, "Top-down Tree Long Short-Term Memory Networks"; its first version of 2015 has the tanh network.
`recurrence_reference` is the equation, one step at a time. In the fast form, steps of one path depth, over all trees of
a batch, are independent: a level is one gather, one product for each edge type, and one pointwise pass. Rows are sorted
by depth and edge type, so the rows of a product are contiguous and there is no padding. The hand-written backward takes
half the time of autograd over the same levels: the input side and all weight gradients, which do not depend on other
steps, are one product for each edge type over all levels.

Shapes: n steps, m states before the first one, E features of an input, D of a state, F gates.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from syntaxlm.ops.backend import slices, with_reference
from syntaxlm.ops.products import RepeatedProduct, large_product, product_dtype

EDGES = 4  # number of edge types: LEFT, RIGHT, NX-LEFT, NX-RIGHT, in the order of their codes

Counts = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Levels:
    """The order of n steps of one or more trees: sorted by path depth, then by edge type.

    Attributes:
        parents: (n,) int64, the state that each step continues, as an index into the m states before the first step
            (one, ROOT's, for trees read whole) followed by the states of the n steps. Steps of the first depth continue
            one of the m states, all others a step of the previous depth.
        counts: for each depth, the number of steps with each of the four edge types.
        by_edge: (n,) int64, the rows sorted by edge type, in their order within a type.
    """

    parents: Tensor
    counts: Counts
    by_edge: Tensor

    @classmethod
    def of(cls, parents: Tensor, counts: Counts) -> Levels:
        """Compute `by_edge` from the counts. Raises ValueError if they do not fit the parents."""
        if sum(map(sum, counts)) != len(parents):
            raise ValueError(f"found counts of {sum(map(sum, counts))} steps, but {len(parents)} parents")
        return cls(parents, counts, torch.argsort(_edges(counts), stable=True).to(parents.device))

    @property
    def sizes(self) -> list[int]:
        """Number of steps at each depth."""
        return [sum(counts) for counts in self.counts]

    @property
    def edge_sizes(self) -> list[int]:
        """Number of steps with each edge type."""
        return [sum(counts[edge] for counts in self.counts) for edge in range(EDGES)]

    def edges(self) -> Tensor:
        """(n,) int64, each step's edge type."""
        return _edges(self.counts).to(self.parents.device)

    def to(self, device: torch.device | str) -> Levels:
        """Return the same on another device. The counts stay on the CPU, for use in Python loops."""
        parents, by_edge = (tensor.to(device, non_blocking=True) for tensor in (self.parents, self.by_edge))
        return Levels(parents, self.counts, by_edge)


def _edges(counts: Counts) -> Tensor:
    sizes = torch.tensor(counts, dtype=torch.int64).flatten()
    return torch.arange(EDGES).repeat(len(counts)).repeat_interleave(sizes)


@dataclass(frozen=True)
class EdgeWeights:
    """One weight set for each edge type, in the order of their codes; E features of an input, D of a state.

    Attributes:
        input: (4, F, E).
        recurrent: (4, F, D).
        bias: (4, F), or None. F is D for a tanh network, the cell of equation (6), and 4 D for an LSTM, with gates i,
            f, g, o as in nn.LSTM.
    """

    input: Tensor
    recurrent: Tensor
    bias: Tensor | None = None

    def __post_init__(self) -> None:
        edges, rows, size = self.recurrent.shape
        if edges != EDGES or rows not in (size, 4 * size):
            raise ValueError(
                f"recurrent weights: found shape {(edges, rows, size)}; expected {(EDGES, size, size)} for a tanh"
                f" network or {(EDGES, 4 * size, size)} for an LSTM"
            )
        for name, weight in (("input weights", self.input), ("bias", self.bias)):
            if weight is not None and weight.shape[:2] != (edges, rows):
                raise ValueError(f"{name}: found shape {tuple(weight.shape)}; expected {edges}, {rows} first")

    @property
    def is_lstm(self) -> bool:
        return self.recurrent.shape[1] != self.recurrent.shape[2]


class States(NamedTuple):
    """The states of steps.

    Attributes:
        hidden: (n, D).
        cells: (n, D), None for a tanh network.
    """

    hidden: Tensor
    cells: Tensor | None


def recurrence_reference(inputs: Tensor, weights: EdgeWeights, levels: Levels, before: States) -> States:
    """Return `recurrence` as its equation, h_t = tanh(W_ih[a_t] x_t + W_hh[a_t] H[:, t'] + b[a_t]), or an LSTM.

    Differentiated by autograd.
    """
    hidden = list(before.hidden)
    input_weights = weights.input.unbind()
    recurrent_weights = weights.recurrent.unbind()
    cells = [] if before.cells is None else list(before.cells)
    # h_t = tanh(W_a x_t + R_a h_parent + b_a), or an LSTM with gates of this form, by edge type a
    for x, edge, parent in zip(inputs, levels.edges().tolist(), levels.parents.tolist(), strict=True):
        gates = input_weights[edge] @ x + recurrent_weights[edge] @ hidden[parent]
        if weights.bias is not None:
            gates = gates + weights.bias[edge]
        if weights.is_lstm:
            i, f, g, o = gates.chunk(4)
            cells.append(torch.sigmoid(f) * cells[parent] + torch.sigmoid(i) * torch.tanh(g))
            hidden.append(torch.sigmoid(o) * torch.tanh(cells[-1]))
        else:
            hidden.append(torch.tanh(gates))
    first = len(before.hidden)
    return States(torch.stack(hidden[first:]), torch.stack(cells[first:]) if weights.is_lstm else None)


@with_reference(recurrence_reference)
def recurrence(inputs: Tensor, weights: EdgeWeights, levels: Levels, before: States) -> States:
    """Return the states of all steps: equation (6) of Zhang, Lu, Lapata, or an LSTM with gates of that form.

    Args:
        inputs: (n, E), x_t of every step.
        before: the m states that steps of the first depth continue from.
    """
    hidden, cells = _AlongPaths.apply(inputs, weights.input, weights.recurrent, weights.bias, *before, levels)
    return States(hidden, cells)


class _AlongPaths(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, inputs: Tensor, *arguments: Any) -> tuple[Tensor, Tensor | None]:
        input_weight, recurrent_weight, bias, hidden, cell, levels = arguments
        dtype, first = product_dtype(recurrent_weight), len(hidden)
        input_weight = input_weight.to(dtype)
        recurrent_weight = recurrent_weight.to(dtype)
        inputs_by_edge = inputs.to(dtype).index_select(0, levels.by_edge)

        # The states of all steps, after those before the first step.
        states = _pool(hidden, len(inputs))
        read = states if dtype == states.dtype else _pool(hidden.to(dtype), len(inputs))  # input of the products
        cells = None if cell is None else _pool(cell, len(inputs))

        # The input side of all gates: one product for each edge type. The gates of a tanh network become its states in
        # place.
        gates = states[first:] if cells is None else hidden.new_empty(len(inputs), recurrent_weight.shape[1])
        biases = [None] * EDGES if bias is None else bias.to(dtype)
        arguments_by_edge = zip(inputs_by_edge.split(levels.edge_sizes), input_weight, biases, strict=True)
        input_gates = torch.cat([large_product(*edge_arguments) for edge_arguments in arguments_by_edge])
        gates.index_copy_(0, levels.by_edge, input_gates.to(gates.dtype))

        products = [_product(weight, levels) for weight in recurrent_weight]
        # H(depth) = tanh(W_a X(depth) + R_a H(parents at depth - 1) + b_a), by edge type a
        for counts, rows in zip(levels.counts, slices(levels.sizes), strict=True):
            parents = levels.parents[rows]
            now = slice(first + rows.start, first + rows.stop)
            parts = gates[rows].split(counts), read.index_select(0, parents).split(counts)
            for product, block, above in zip(products, *parts, strict=True):
                if len(block):
                    block += product(above)
            if cells is None:
                states[now].tanh_()
            else:
                i, f, g, o = gates[rows].chunk(4, dim=-1)
                for part in (i, f, o):
                    part.sigmoid_()
                g.tanh_()
                torch.addcmul(f * cells.index_select(0, parents), i, g, out=cells[now])
                torch.mul(o, cells[now].tanh(), out=states[now])
            if read is not states:
                read[now] = states[now]
        ctx.save_for_backward(inputs_by_edge, input_weight, recurrent_weight, read, gates, states, cells)
        ctx.levels = levels
        ctx.first = first
        ctx.input_dtype = inputs.dtype
        ctx.set_materialize_grads(False)
        return states[first:], None if cells is None else cells[first:]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        inputs, input_weight, recurrent_weight, read, gates, states, cells = ctx.saved_tensors
        levels = ctx.levels
        first = ctx.first
        needed = ctx.needs_input_grad
        state_grads = torch.zeros_like(states)
        cell_grads = None if cells is None else torch.zeros_like(cells)
        for pool, grad in zip((state_grads, cell_grads), grads, strict=True):
            if pool is not None and grad is not None:
                pool[first:] = grad

        gate_grads = read.new_empty(gates.shape)
        products = [_product(weight.T, levels) for weight in recurrent_weight]
        # dH(parents at depth - 1) += R_a^T dgates(depth), from the deepest level to the first
        for counts, rows in reversed(list(zip(levels.counts, slices(levels.sizes), strict=True))):
            parents = levels.parents[rows]
            now = slice(first + rows.start, first + rows.stop)
            if cells is None or cell_grads is None:
                gate_grads[rows] = torch.ops.aten.tanh_backward(state_grads[now], states[now])
            else:
                i, f, g, o = gates[rows].chunk(4, dim=-1)
                i_grad, f_grad, g_grad, o_grad = gate_grads[rows].chunk(4, dim=-1)
                tanh = cells[now].tanh()
                o_grad.copy_(state_grads[now] * tanh * (o - o * o))
                cell_grad = torch.addcmul(cell_grads[now], state_grads[now] * o, 1 - tanh * tanh)
                i_grad.copy_(cell_grad * g * (i - i * i))
                f_grad.copy_(cell_grad * cells.index_select(0, parents) * (f - f * f))
                g_grad.copy_(cell_grad * i * (1 - g * g))
                _add_up(cell_grads, parents, counts, (cell_grad * f).split(counts))
            if rows.start or needed[4]:
                blocks = zip(products, gate_grads[rows].split(counts), strict=True)
                _add_up(state_grads, parents, counts, [product(block).to(states.dtype) for product, block in blocks])

        # The input side and the weights: one product for each edge type, over all levels.
        sizes = levels.edge_sizes
        by_edge = gate_grads.index_select(0, levels.by_edge).split(sizes)
        above = read.index_select(0, levels.parents.index_select(0, levels.by_edge)).split(sizes)
        input_grads = None
        if needed[0]:
            edge_grads = [large_product(grad, weight.T) for grad, weight in zip(by_edge, input_weight, strict=True)]
            input_grads = torch.empty_like(inputs).index_copy_(0, levels.by_edge, torch.cat(edge_grads))
        weight_grads = (
            torch.stack([grad.T @ row for grad, row in zip(by_edge, rows_by_edge, strict=True)]).to(states.dtype)
            for rows_by_edge in (inputs.split(sizes), above)
        )
        return (
            None if input_grads is None else input_grads.to(ctx.input_dtype),
            *weight_grads,
            torch.stack([grad.sum(0, dtype=states.dtype) for grad in by_edge]) if needed[3] else None,
            state_grads[:first] if needed[4] else None,
            cell_grads[:first] if cell_grads is not None and needed[5] else None,
            None,
        )


def _product(weight: Tensor, levels: Levels) -> Callable[[Tensor], Tensor]:
    """Return x -> x W^T for the rows of one edge type, level by level; most levels have few rows.

    In float32, calls of oneDNN cost more than its packed weight saves: with 100 features, both passes take twice as
    long.
    """
    if weight.dtype == torch.bfloat16:
        return RepeatedProduct(weight, max(map(max, levels.counts)))
    transposed = weight.T.contiguous()
    return lambda rows: rows @ transposed


def _pool(before: Tensor, steps: int) -> Tensor:
    """Allocate the states of all steps after those before the first step. (m, D) -> (m + n, D)"""
    pool = before.new_empty(len(before) + steps, before.shape[1])
    pool[: len(before)] = before
    return pool


def _add_up(grads: Tensor, parents: Tensor, counts: Sequence[int], parts: Sequence[Tensor]) -> None:
    """Add to the rows of parents, one edge type at a time.

    A word has one child of each type, so no row occurs twice in a part: the order of sums is fixed, also on a GPU.
    """
    for places, part in zip(parents.split(counts), parts, strict=True):
        if len(part):
            grads.index_add_(0, places, part)
