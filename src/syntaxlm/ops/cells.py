"""The recurrences of other cells than the LSTM's: the recurrent highway network, and the cell of NAS.

Zilly, Srivastava, Koutník, Schmidhuber 2016, "Recurrent Highway Networks", section 4, with coupled gates;
Zoph, Le 2016, "Neural Architecture Search with Reinforcement Learning", in the form of TensorFlow's NASCell.
Both are their equations in a loop over the steps, differentiated by autograd. In autocast, products are in its dtype;
states and gates keep that of the state.

Shapes: B batch, D neurons, L highway layers of a step, n real tokens; r rows, the columns that are real at a step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.nn.functional import linear

from syntaxlm.ops.on_lstm import Recurrence
from syntaxlm.ops.products import product_dtype

States = tuple[Tensor, ...]


def highway(inputs: Tensor, recurrent: Tensor, bias: Tensor, state: States, counts: Sequence[int]) -> Recurrence:
    """Return a recurrent highway layer over a sequence: the state passes L highway layers at each step.

    For l = 1 to L, with s_0 the last state of the previous step and [x_h; x_t] read in the first of them only:
    h = tanh(x_h + R_h s_{l-1} + b_h), t = sigmoid(x_t + R_t s_{l-1} + b_t), s_l = h t + s_{l-1} (1 - t).

    Rows are real tokens, time-major: step t has the first counts[t] columns; counts never increase.
    inputs: (n, 2D), the products of the inputs, h before t.  recurrent: (L, 2D, D); bias: (L, 2D).
    state: the hidden state before the first step, (B, D).
    """
    low = product_dtype(recurrent)
    layers = list(zip(recurrent.to(low), bias, strict=True))

    def step(read: Tensor, hidden: Tensor) -> States:
        for number, (weight, added) in enumerate(layers):
            gates = linear(hidden.to(low), weight).to(hidden.dtype) + added
            h, t = (gates if number else gates + read).chunk(2, dim=-1)
            hidden = torch.lerp(hidden, torch.tanh(h), torch.sigmoid(t))
        return (hidden,)

    return _unrolled(step, inputs, state, counts)


def nas(inputs: Tensor, recurrent: Tensor, bias: Tensor, state: States, counts: Sequence[int]) -> Recurrence:
    """Return a layer of the cell found by neural architecture search over a sequence.

    With x_k the k-th of the eight products of the input, u_k that of the state, and z_k = x_k + u_k:
    c_t = tanh(tanh(sigmoid(z_0) relu(z_1)) + c_{t-1}) tanh(sigmoid(z_2) + relu(x_3 u_3)),
    h_t = tanh(c_t tanh(tanh(tanh(z_4) sigmoid(z_5)) + sigmoid(tanh(z_6) + sigmoid(z_7)))).

    inputs: (n, 8D), the products of the inputs.  recurrent: (8D, D); bias: (8D,), of u.
    state: hidden and cell before the first step, each (B, D).  counts: see `highway`.
    """
    low = product_dtype(recurrent)
    weight = recurrent.to(low)

    def step(read: Tensor, hidden: Tensor, cell: Tensor) -> States:
        own = linear(hidden.to(low), weight).to(hidden.dtype) + bias
        x, u, z = (part.chunk(8, dim=-1) for part in (read, own, read + own))
        kept = torch.tanh(torch.tanh(torch.sigmoid(z[0]) * torch.relu(z[1])) + cell)
        cell = kept * torch.tanh(torch.sigmoid(z[2]) + torch.relu(x[3] * u[3]))
        written = torch.tanh(torch.tanh(z[4]) * torch.sigmoid(z[5]))
        shown = torch.tanh(written + torch.sigmoid(torch.tanh(z[6]) + torch.sigmoid(z[7])))
        return torch.tanh(cell * shown), cell

    return _unrolled(step, inputs, state, counts)


def _unrolled(step: Callable[..., States], inputs: Tensor, state: States, counts: Sequence[int]) -> Recurrence:
    """Apply a step to the columns that have not ended. step: (inputs, *state) -> state, hidden first, (r, D) each."""
    outputs = []
    for count, read in zip(counts, inputs.to(state[0].dtype).split(list(counts)), strict=True):
        new = step(read, *(part[:count] for part in state))
        outputs.append(new[0])
        state = tuple(torch.cat([part, before[count:]]) for part, before in zip(new, state, strict=True))
    return Recurrence(torch.cat(outputs), state)
