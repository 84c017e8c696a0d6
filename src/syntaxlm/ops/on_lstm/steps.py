"""The steps of the recurrence in torch, forward and backward, except their matrix products.

A step is a pure function of tensors, so that it can be compiled into one or two kernels: on a GPU every torch operator
launches its own kernel, about thirty per step, and the launches dominate the time of a step.

Shapes: B batch, D neurons, C neurons per chunk, K = D / C master gates, F gates; n real tokens; r rows, the columns
that are real at a step.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

import torch
from torch import Tensor

from syntaxlm.ops.fused import fused
from syntaxlm.ops.on_lstm.types import Gradients, Kept, Made


class TorchForward:
    """See `types.Forward`. input_gates: (n, F); hidden, cell: (B, D); chunk: C; counts: columns of each step."""

    def __init__(
        self, input_gates: Tensor, hidden: Tensor, cell: Tensor, chunk: int | None, counts: Sequence[int]
    ) -> None:
        self._input_gates, self._chunk, self._counts = input_gates, chunk, counts
        self._starts = (0, *accumulate(counts))
        self._low, self._cell, self._first = hidden.to(input_gates.dtype), cell.detach(), cell
        self._befores: list[Tensor] = []
        self._steps: list[Step] = []

    def before(self, t: int) -> Tensor:
        return self._low[: self._counts[t]]

    def step(self, t: int, product: Tensor) -> None:
        gates = self._input_gates[self._starts[t] : self._starts[t + 1]]
        self._befores.append(self.before(t))
        step = forward_step(gates, product, self._cell[: self._counts[t]], self._chunk, gates.dtype)
        self._steps.append(step)
        self._low, self._cell = step.low, step.cell

    def made(self) -> Made:
        cells = torch.cat([self._first, *(step.cell for step in self._steps)])
        kept, none = Kept(torch.cat(self._befores), cells, self._joined("gates")), cells.new_empty(0)
        if self._chunk is None:
            return Made(kept, self._joined("hidden"), none, none)
        kept, means = (
            kept._replace(softmaxes=self._joined("softmaxes"), sums=self._joined("sums")),
            self._joined("means"),
        )
        return Made(kept, self._joined("hidden"), 1 - means[:, 1], 1 - means[:, 0])

    def _joined(self, name: str) -> Tensor:
        return torch.cat([getattr(step, name) for step in self._steps])


class TorchBackward:
    """See `types.Backward`."""

    def __init__(self, kept: Kept, grads: Gradients, counts: Sequence[int]) -> None:
        self._kept, self._grads, self._counts = kept, grads, counts
        self._starts, self._columns = (0, *accumulate(counts)), len(grads.cells)
        self._gate_grads: list[Tensor] = []
        self._cell_grads: Tensor | None = None

    def step(self, t: int, product: Tensor | None) -> Tensor:
        kept, columns, count = self._kept, self._columns, self._counts[t]
        now = slice(self._starts[t], self._starts[t + 1])
        then = slice(columns + now.start, columns + now.stop)
        earlier = 0 if t == 0 else columns + self._starts[t - 1]
        gate_grad, self._cell_grads = backward_step(
            kept.cells[earlier : earlier + count],
            kept.cells[then],
            kept.gates[now],
            None if kept.softmaxes is None else kept.softmaxes[now],
            None if kept.sums is None else kept.sums[now],
            self._grads.states[now],
            with_ended(product, self._grads.hidden, count),
            with_ended(self._cell_grads, self._grads.cells, count),
            kept.befores.dtype,
        )
        self._gate_grads.append(gate_grad)
        return gate_grad

    def ended(self) -> tuple[Tensor, Tensor]:
        return torch.cat(self._gate_grads[::-1]), with_ended(self._cell_grads, self._grads.cells, self._columns)


def with_ended(rows: Tensor | None, ended: Tensor, count: int) -> Tensor:
    """Rows of the columns that continue, followed by those of columns that ended, up to `count` rows."""
    if rows is None:
        return ended[:count]
    return rows if len(rows) == count else torch.cat([rows, ended[len(rows) : count]])


class Step(NamedTuple):
    """Results of a step.

    cell, hidden: (r, D).  low: `hidden` in the dtype of products.
    gates: (r, 4D), o, g, i, f after activation; i, f, g, o for a plain LSTM.
    softmaxes: (r, 2, K), of the input and the forget master gate; sums: (r, 2, K), their cumulative sums, so that the
    gates are 1 - the first and the second; means: (r, 2), of the sums. None for a plain LSTM.
    """

    cell: Tensor
    hidden: Tensor
    low: Tensor
    gates: Tensor
    softmaxes: Tensor | None = None
    sums: Tensor | None = None
    means: Tensor | None = None


@fused
def forward_step(
    input_logits: Tensor, recurrent_logits: Tensor, before: Tensor, chunk: int | None, low: torch.dtype
) -> Step:
    """Return equations (1) to (5) and (9) to (14) of Shen et al. 2019, after the matrix products.

    input_logits, recurrent_logits: (r, F); before: the previous cell, (r, D); low: the dtype of products.
    """
    rows, size = before.shape
    logits = input_logits.to(before.dtype) + recurrent_logits
    if chunk is None:
        i, f, g, o = logits.chunk(4, dim=-1)
        i, f, g, o = torch.sigmoid(i), torch.sigmoid(f), torch.tanh(g), torch.sigmoid(o)
        cell = f * before + i * g
        hidden = o * torch.tanh(cell)
        return Step(cell, hidden, hidden.to(low), torch.cat([i, f, g, o], dim=-1))
    softmaxes = torch.softmax(logits[:, : -4 * size].view(rows, 2, -1), dim=-1)
    sums = softmaxes.cumsum(-1)
    o, g, i, f = logits[:, -4 * size :].view(rows, 4, -1, chunk).unbind(1)
    o, g, i, f = torch.sigmoid(o), torch.tanh(g), torch.sigmoid(i), torch.sigmoid(f)
    forget, write, _ = _acting(f, i, *_masters(sums))
    cell = forget * before.view(f.shape) + write * g  # (14)
    hidden = o * torch.tanh(cell)
    gates = torch.stack([o, g, i, f], dim=1)
    cell, hidden = cell.flatten(1), hidden.flatten(1)
    return Step(cell, hidden, hidden.to(low), gates.flatten(1), softmaxes, sums, sums.mean(-1))


@fused
def backward_step(
    before: Tensor,
    cell: Tensor,
    gates: Tensor,
    softmaxes: Tensor | None,
    sums: Tensor | None,
    output_grad: Tensor,
    later_grad: Tensor,
    cell_grad: Tensor,
    low: torch.dtype,
) -> tuple[Tensor, Tensor]:
    """Return the gradients of the step's logits, (r, F) in the dtype of products, and of the previous cell, (r, D).

    before: the previous cell; cell, gates, softmaxes, sums: as in `Step`.
    output_grad, later_grad: gradients of the hidden state as output and through the next step's product, (r, D);
    cell_grad: gradient of the cell through the next step's cell, (r, D).
    """
    if softmaxes is None or sums is None:
        i, f, g, o = gates.chunk(4, dim=-1)
        forget, write = f, i
    else:
        rows, _, masters = sums.shape
        o, g, i, f = gates.view(rows, 4, masters, -1).unbind(1)
        input_master, forget_master = _masters(sums)
        forget, write, overlap = _acting(f, i, input_master, forget_master)
        before, cell, output_grad, later_grad, cell_grad = (
            part.reshape(f.shape) for part in (before, cell, output_grad, later_grad, cell_grad)
        )
    hidden_grad, tanh = output_grad + later_grad, torch.tanh(cell)
    cell_grad = cell_grad + hidden_grad * o * (1 - tanh * tanh)
    forget_grad, write_grad = cell_grad * before, cell_grad * g
    o_grad, g_grad = hidden_grad * tanh * (o - o * o), cell_grad * write * (1 - g * g)
    i_grad, f_grad = write_grad * (i - i * i), forget_grad * (f - f * f)
    if softmaxes is None or sums is None:
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
