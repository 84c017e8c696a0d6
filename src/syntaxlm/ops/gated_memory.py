"""PRPN's gated memory: the gates of its slots, and attention to them.

Shen, Lin, Huang, Courville 2018, "Neural Language Modeling by Jointly Learning Syntax and Lexicon".
The references are the equations. `slot_gates` and `attend` have no recurrence and process all steps at once; in C,
`attend` goes column by column, because the windows of consecutive steps overlap. The recurrence that reads the memory
is in `memory_reader`.

Shapes: T time, B batch, H hidden size, N memory slots, n real tokens. Slot k of a gate or attention at step t is step
t-1-k. Tapes (N, B, ...) have the N steps before the chunk, oldest first.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from ctypes import CDLL
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import pad

from syntaxlm.ops.backend import call, kernels, parts, slices, with_reference
from syntaxlm.ops.memory_tensors import AttentionSteps, WindowShape, first_rows, layer_struct
from syntaxlm.ops.products import product_dtype

ATTENTION_EPSILON = 1e-8  # avoids division by 0 if all gates are 0
MAXIMUM_SLOTS = 64  # as in kernels/gated_memory.c


@dataclass(frozen=True)
class GateComparison:
    """alpha, how much larger one distance is than another, in [0, 1]: equation (6).

    If the scale is infinite, alpha is 0 or 1 by the sign of the difference. For equal distances it depends only on the
    shift: sigmoid(shift), for example.

    Attributes:
        hard: whether alpha is (hardtanh(x) + 1) / 2 instead of sigmoid(x), with x = scale * difference + shift.
    """

    scale: float
    shift: float
    hard: bool

    def __call__(self, query: Tensor, distance: Tensor) -> Tensor:
        difference = query - distance
        if math.isinf(self.scale):
            tie = torch.full_like(difference, self.shift)
            return torch.where(difference == 0, self._squash(tie), (difference > 0).to(difference.dtype))
        return self._squash(difference * self.scale + self.shift)

    def _squash(self, value: Tensor) -> Tensor:
        if self.hard:
            return (torch.nn.functional.hardtanh(value) + 1) / 2
        return torch.sigmoid(value)


def slot_gates_reference(
    queries: Tensor, distances: Tensor, tape: Tensor, slots: int, comparison: GateComparison, count_self: bool
) -> Tensor:
    """Return `slot_gates` as its equation: the gate of slot k is the product of alpha(query_t, d_{t-q}) over
    q = 0..k.
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


@with_reference(slot_gates_reference)
def slot_gates(
    queries: Tensor, distances: Tensor, tape: Tensor, slots: int, comparison: GateComparison, count_self: bool
) -> Tensor:
    """Return gates of the memory slots, equation (5), for all steps at once.

    Args:
        queries: (T, B).
        distances: (T, B).
        tape: (N, B) distances before the chunk, oldest first, +inf before the start.
        count_self: whether slot k's product over q starts at q = 0 (the step itself) or at q = 1.

    Returns:
        (T, B, N).
    """
    history = torch.cat([tape, distances])
    windows = history.unfold(0, slots, 1)[len(tape) - slots + 1 :].flip(-1)  # (T, B, N): d_t, d_{t-1}, ...
    first, *others = comparison(queries[:, :, None], windows).unbind(-1)
    # Multiplied slot by slot: the backward of torch's cumprod is slow for factors of 0, which most are here.
    gates = [first if count_self else torch.ones_like(first)]
    for factor in others:
        gates.append(gates[-1] * factor)
    return torch.stack(gates, -1)


def attention_weights(scores: Tensor, gates: Tensor) -> Tensor:
    """Return structured attention, equations (10) and (11): a softmax with a gate for each slot.

    Weights are divided by the sum of the gated softmax, not by the sum of the gates, as equation (11) is printed: its
    weights do not sum to 1, although the paper calls them a distribution.

    Args:
        scores: (..., N).
        gates: (..., N).

    Returns:
        (..., N).
    """
    weights = torch.exp(scores - scores.max(dim=-1, keepdim=True).values) * gates
    return weights / (weights.sum(dim=-1, keepdim=True) + ATTENTION_EPSILON)


def attend_reference(
    keys: Tensor, gates: Tensor, states: Tensor, tape: Tensor, counts: Sequence[int]
) -> tuple[Tensor, Tensor]:
    """Return `attend` step by step."""
    (slots, batch, hidden_size), history = tape.shape, list(tape)
    attended, attentions = [], []
    for count, now in zip(counts, slices(counts), strict=True):
        memory = torch.stack(history[: -slots - 1 : -1], dim=1)[:count]  # (B, N, H), most recent first
        scores = (memory * keys[now][:, None]).sum(-1) / math.sqrt(hidden_size)
        attention = attention_weights(scores, gates[now])
        attended.append((attention[:, :, None] * memory).sum(1))
        attentions.append(attention)
        history.append(pad(states[now], (0, 0, 0, batch - count)))
    return torch.cat(attended), torch.cat(attentions)


@with_reference(attend_reference)
def attend(keys: Tensor, gates: Tensor, states: Tensor, tape: Tensor, counts: Sequence[int]) -> tuple[Tensor, Tensor]:
    """Return the predict network's attention over the hidden states before each step, for all steps at once.

    Rows are real tokens, time-major, as in `memory_reader.read`: step t has the first counts[t] columns.

    Args:
        keys: (n, H).
        states: (n, H).
        gates: (n, N).
        tape: (N, B, H), oldest first.

    Returns:
        Attended states (n, H), and attention (n, N), detached.
    """
    (slots, columns, _), counts = tape.shape, tuple(counts)
    library = kernels("gated_memory", product_dtype(tape), gates, states, tape) if slots <= MAXIMUM_SLOTS else None
    if library is not None:
        compiled: tuple[Tensor, Tensor] = _PredictAttention.apply(keys.float(), gates, states, tape, counts, library)
        return compiled
    index = None
    if counts[-1] < columns:
        index = (torch.arange(columns) < torch.tensor(counts)[:, None]).flatten().nonzero()[:, 0].to(tape.device)

    def padded(rows: Tensor) -> Tensor:
        if index is None:
            return rows.view(len(counts), columns, -1)
        flat = rows.new_zeros(len(counts) * columns, rows.shape[1]).index_copy(0, index, rows)
        return flat.view(len(counts), columns, -1)

    attended, attentions = [], []
    keys = padded(keys)
    gates = padded(gates).flip(-1)
    history = torch.cat([tape, padded(states)])
    # A block's scores for all steps it can see are one product, of which only a band is used: short blocks waste less.
    for part in parts(len(counts), max(32, slots)):
        memory = history[part.start : part.stop + slots - 1].transpose(0, 1)
        scores = torch.bmm(keys[part].transpose(0, 1), memory.transpose(1, 2)).to(gates.dtype)
        weights = attention_weights(_band(scores / math.sqrt(keys.shape[-1]), slots), gates[part].transpose(0, 1))
        attended.append(torch.bmm(_unband(weights).to(memory.dtype), memory).transpose(0, 1))
        attentions.append(weights.transpose(0, 1).flip(-1))
    rows, attention = (torch.cat(parts_of_steps).flatten(0, 1) for parts_of_steps in (attended, attentions))
    if index is not None:
        rows, attention = rows[index], attention[index]
    return rows.to(states.dtype), attention.detach()


class _PredictAttention(torch.autograd.Function):
    """`attend` in C: one column at a time, with the same attention code as `memory_reader` (kernels/gated_memory.c)."""

    @staticmethod
    def forward(
        ctx: Any, keys: Tensor, gates: Tensor, states: Tensor, tape: Tensor, counts: Sequence[int], library: CDLL
    ) -> tuple[Tensor, Tensor]:
        (slots, batch, hidden), total = tape.shape, len(states)
        history = tape.new_empty(batch, slots + len(counts), hidden)
        history[:, :slots] = tape.transpose(0, 1)
        saved = AttentionSteps(
            history=history,
            keys=keys.contiguous(),
            attentions=torch.empty(total, slots),
            exponentials=torch.empty(total, slots),
            totals=torch.empty(total),
            largest=torch.empty(total, dtype=torch.int64),
            gates=gates.flip(-1).contiguous(),  # oldest first
        )
        attended = torch.empty_like(saved.keys)
        tensors = {"starts": first_rows(counts), **saved._asdict()}
        tensors |= {"states": states.contiguous(), "attended": attended}
        shape = WindowShape.of(history, saved.keys, saved.attentions)
        call(library.predict_attend, layer_struct(tensors, shape, torch.float32), len(counts))
        ctx.save_for_backward(*saved)
        ctx.library, ctx.counts = library, counts
        attention = saved.attentions.flip(-1)
        ctx.mark_non_differentiable(attention)
        return attended, attention

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        saved = AttentionSteps(*ctx.saved_tensors)
        key_grads = torch.empty_like(saved.keys)
        state_grads = torch.empty_like(saved.keys)
        slot_grads = torch.empty_like(saved.attentions)
        history_grads = torch.zeros_like(saved.history)
        tensors = {"starts": first_rows(ctx.counts), **saved._asdict(), "output_grads": grads[0].contiguous()}
        tensors |= {"key_grads": key_grads, "slot_grads": slot_grads}
        tensors |= {"state_grads": state_grads, "history_grads": history_grads}
        shape = WindowShape.of(saved.history, saved.keys, saved.attentions)
        call(ctx.library.predict_attend_backward, layer_struct(tensors, shape, torch.float32), len(ctx.counts))
        tape_grad = history_grads[:, : shape.slots].transpose(0, 1)
        return key_grads, slot_grads.flip(-1), state_grads, tape_grad, None, None


def _band(matrix: Tensor, width: int) -> Tensor:
    """(B, T, T + W - 1) -> (B, T, W): entry (t, k) is (t, t + k)."""
    batch, steps, columns = matrix.shape
    return pad(matrix.flatten(1), (0, steps)).view(batch, steps, columns + 1)[..., :width]


def _unband(band: Tensor) -> Tensor:
    """Return the inverse of `_band`, 0 outside the band: (B, T, W) -> (B, T, T + W - 1)."""
    batch, steps, width = band.shape
    columns = steps + width - 1
    padded = pad(band, (0, columns + 1 - width)).flatten(1)
    return padded[:, : steps * columns].view(batch, steps, columns)
