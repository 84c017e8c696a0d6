"""The ON-LSTM as its equations: slow, differentiated by autograd, the reference of all tests.

Shen, Tan, Sordoni, Courville 2019, "Ordered Neurons: Integrating Tree Structures into Recurrent Neural Networks".
Shapes: B batch, D neurons, C neurons per chunk, K = D / C master gates, n real tokens.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import linear

from syntaxlm.ops.on_lstm.types import CellWeights, Recurrence


def cumax(logits: Tensor) -> Tensor:
    """Return cumulative softmax, section 4.1: (..., K) -> (..., K), increasing from near 0 to 1 along the last axis."""
    return torch.cumsum(torch.softmax(logits, dim=-1), dim=-1)


def recurrence(inputs: Tensor, weights: CellWeights, state: tuple[Tensor, Tensor], counts: Sequence[int]) -> Recurrence:
    """Return one layer over a sequence, equations (1) to (5) and (9) to (14).

    Rows are real tokens, time-major: step t has the first counts[t] columns; counts never increase.
    inputs: (n, E); state: hidden and cell before the first step, each (B, D).
    """
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
