"""PRPN's gated memory as its equations: slow, differentiated by autograd, the reference of all tests.

Shen, Lin, Huang, Courville 2018, "Neural Language Modeling by Jointly Learning Syntax and Lexicon".
Shapes: T time, B batch, H hidden size, N memory slots. Slot k of a gate or attention at step t is step t-1-k.
Tapes (N, B, ...) have the N steps before the chunk, oldest first.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import pad

from syntaxlm.ops.gated_memory.types import ATTENTION_EPSILON, Comparison, ReaderWeights
from syntaxlm.ops.layer_norm.reference import layer_norm


def slot_gates(
    queries: Tensor, distances: Tensor, tape: Tensor, slots: int, comparison: Comparison, count_self: bool
) -> Tensor:
    """Return gates of the memory slots, equation (5): slot k's is the product of alpha(query_t, d_{t-q}) over q = 0..k.

    queries, distances: (T, B); tape: (N, B) distances before the chunk, +inf before the start.
    count_self: whether the product starts at q = 0 (the step itself) or at q = 1.
    Returns (T, B, N).
    """
    history = torch.cat([tape, distances])
    rows = []
    for step in range(queries.shape[0]):
        gate = torch.ones_like(queries[step])
        row = []
        for back in range(slots):
            if back > 0 or count_self:
                gate = gate * comparison(queries[step], history[len(tape) + step - back])
            row.append(gate)
        rows.append(torch.stack(row, dim=-1))
    return torch.stack(rows)


def attention_weights(scores: Tensor, gates: Tensor) -> Tensor:
    """Return structured attention, equations (9) and (10): a softmax with a gate for each slot. scores, gates: (...,
    N).
    """
    weights = torch.exp(scores - scores.max(dim=-1, keepdim=True).values) * gates
    return weights / (weights.sum(dim=-1, keepdim=True) + ATTENTION_EPSILON)


def read(
    input_gates: Tensor,
    input_keys: Tensor,
    gates: Tensor,
    tapes: tuple[Tensor, Tensor],
    weights: ReaderWeights,
    counts: Sequence[int],
) -> tuple[Tensor, tuple[Tensor, Tensor], Tensor]:
    """Return one layer of the reading network over a sequence, equations (9) to (12) and the layer-normalised LSTM.

    Rows are real tokens, time-major: step t has the first counts[t] columns; counts never increase.
    input_gates: (n, 4H), the layer-normalised input side of the gates i, f, g, o; input_keys: (n, H), the input side
    of the key; gates: (n, N); tapes: hidden and cell, each (N, B, H), oldest first.
    Returns hidden states (n, H), the tapes after the chunk (undefined for columns that ended), attention (n, N).
    """
    slots, batch, hidden_size = tapes[0].shape
    hidden_tape, cell_tape = list(tapes[0]), list(tapes[1])
    states, attentions = [], []
    end = 0
    for count in counts:
        now = slice(end, end := end + count)
        before = hidden_tape[-1][:count]
        if weights.key_input_mask is not None:
            before = before * weights.key_input_mask[now]
        key = input_keys[now]
        if weights.key is not None:
            key = key + before @ weights.key.T
        if weights.key_output_mask is not None:
            key = key * weights.key_output_mask[now]
        hidden_memory = torch.stack(hidden_tape[: -slots - 1 : -1], dim=1)[:count]  # (B, N, H), most recent first
        cell_memory = torch.stack(cell_tape[: -slots - 1 : -1], dim=1)[:count]
        scores = (hidden_memory * key[:, None]).sum(-1) / math.sqrt(hidden_size)
        attention = attention_weights(scores, gates[now])
        hidden_read = (attention[:, :, None] * hidden_memory).sum(1)
        cell_read = (attention[:, :, None] * cell_memory).sum(1)
        if weights.recurrent_mask is not None:
            hidden_read = hidden_read * weights.recurrent_mask
        recurrent = layer_norm(hidden_read @ weights.recurrent.T + weights.recurrent_bias, weights.gain, weights.bias)
        i, f, g, o = (input_gates[now] + recurrent).chunk(4, dim=-1)
        cell = torch.sigmoid(f) * cell_read + torch.sigmoid(i) * torch.tanh(g)
        hidden = torch.sigmoid(o) * torch.tanh(layer_norm(cell, weights.cell_gain, weights.cell_bias))
        states.append(hidden)
        attentions.append(attention)
        ended = (0, 0, 0, batch - count)  # zeros replace the rows of columns that have ended
        hidden_tape.append(pad(hidden, ended))
        cell_tape.append(pad(cell, ended))
    new_tapes = torch.stack(hidden_tape[-slots:]), torch.stack(cell_tape[-slots:])
    return torch.cat(states), new_tapes, torch.cat(attentions)


def attend(keys: Tensor, gates: Tensor, states: Tensor, tape: Tensor) -> tuple[Tensor, Tensor]:
    """Return the predict network's attention over the hidden states before each step.

    keys, states: (T, B, H); gates: (T, B, N); tape: (N, B, H). Returns attended (T, B, H) and attention (T, B, N).
    """
    slots, _, hidden_size = tape.shape
    history = torch.cat([tape, states])
    attended, attentions = [], []
    for step in range(keys.shape[0]):
        memory = history[step : step + slots].flip(0).transpose(0, 1)  # (B, N, H), most recent first
        scores = (memory * keys[step][:, None]).sum(-1) / math.sqrt(hidden_size)
        attention = attention_weights(scores, gates[step])
        attended.append((attention[:, :, None] * memory).sum(1))
        attentions.append(attention)
    return torch.stack(attended), torch.stack(attentions)
