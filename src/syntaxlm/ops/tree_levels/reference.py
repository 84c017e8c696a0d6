"""The recurrence along dependency paths as its equation, one step at a time: slow, the reference of all tests.

Zhang, Lu, Lapata 2016, "Top-down Tree Long Short-Term Memory Networks"; its first version of 2015 has the tanh network.
Shapes: n steps, m states before the first step, E features of an input, D of a state.
"""

from __future__ import annotations

import torch
from torch import Tensor

from syntaxlm.ops.tree_levels.types import EdgeWeights, Levels, States


def recurrence(inputs: Tensor, weights: EdgeWeights, levels: Levels, before: States) -> States:
    """Return h_t = tanh(W_ih[a_t] x_t + W_hh[a_t] H[:, t'] + b[a_t]), equation (6), or an LSTM with gates of that form.

    inputs: (n, E), x_t of every step.  before: m states, from which steps of the first depth continue.
    """
    hidden = list(before.hidden)
    input_weights, recurrent_weights = weights.input.unbind(), weights.recurrent.unbind()
    cells = [] if before.cells is None else list(before.cells)
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
