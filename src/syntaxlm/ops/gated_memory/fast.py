"""A fast version of PRPN's gated memory.

`read` has a hand-written backward. Each step is two matrix products (key, gates) and a few pointwise passes. No graph
is built, and the gate gradients of all steps are stored, so that every weight gradient is one product over the whole
sequence: per-step accumulation would rewrite a (4H, H) matrix T times. The memory is a window on one growing history
that is never copied. Its gradient is gathered over the N later steps that read it instead of scattered into it.
Sequences that have ended are excluded from later steps.
`slot_gates` and `attend` have no recurrence and process all steps at once.

Shapes: T time, B batch, H hidden size, N memory slots. Slot k of a gate or attention at step t is step t-1-k.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from syntaxlm.ops.gated_memory import native
from syntaxlm.ops.gated_memory.types import ATTENTION_EPSILON, Comparison, ReaderWeights
from syntaxlm.ops.layer_norm.fast import normalise, normalise_backward
from syntaxlm.ops.products import RepeatedProduct, product_dtype, product_of_sums, product_or_zeros


def slot_gates(
    queries: Tensor, distances: Tensor, tape: Tensor, slots: int, comparison: Comparison, count_self: bool
) -> Tensor:
    """Return gates of the memory slots, equation (5), for all steps at once.

    queries, distances: (T, B); tape: (N, B) distances before the chunk, oldest first, +inf before the start.
    count_self: whether slot k's product over q starts at q = 0 (the step itself) or at q = 1.
    Returns (T, B, N).
    """
    history = torch.cat([tape, distances])
    windows = history.unfold(0, slots, 1)[len(tape) - slots + 1 :].flip(-1)  # (T, B, N): d_t, d_{t-1}, ...
    comparisons = comparison(queries[:, :, None], windows)
    if not count_self:
        comparisons = torch.cat([torch.ones_like(comparisons[..., :1]), comparisons[..., 1:]], dim=-1)
    return _CumulativeProduct.apply(comparisons)


class _CumulativeProduct(torch.autograd.Function):
    """cumprod over a short last axis. torch's own backward is slow for factors of 0, which most are here."""

    @staticmethod
    def forward(ctx: Any, factors: Tensor) -> Tensor:
        products = factors.cumprod(-1)
        ctx.save_for_backward(factors, products)
        return products

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        (grad,) = grads
        factors, products = ctx.saved_tensors
        result = torch.empty_like(factors)
        later = torch.zeros_like(grad[..., 0])
        for slot in range(factors.shape[-1] - 1, -1, -1):
            later = grad[..., slot] + (later * factors[..., slot + 1] if slot + 1 < factors.shape[-1] else 0)
            result[..., slot] = later * products[..., slot - 1] if slot else later
        return result


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
    Returns hidden states (n, H); the tapes after the chunk, detached, undefined for columns that ended earlier;
    attention (n, N), detached.
    """
    recurrent = weights.recurrent
    if weights.recurrent_mask is not None:  # one mask for all steps, so it can be applied to the weight
        recurrent = recurrent * weights.recurrent_mask
    tensors = (
        input_gates,
        input_keys,
        gates,
        torch.cat(tapes, dim=-1),
        weights.key,
        recurrent,
        weights.recurrent_bias,
        weights.gain,
        weights.bias,
        weights.cell_gain,
        weights.cell_bias,
        weights.key_input_mask,
        weights.key_output_mask,
    )
    library = native.library_for(gates.shape[-1], input_keys.shape[-1], *tensors)
    if library is None:
        hidden, tape, attention = _Read.apply(*tensors, list(counts))
    else:
        hidden, tape, attention = native.NativeRead.apply(library, *tensors, list(counts))
    hidden_tape, cell_tape = tape.chunk(2, dim=-1)
    return hidden, (hidden_tape, cell_tape), attention


class _Read(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        input_gates: Tensor,
        input_keys: Tensor,
        gates: Tensor,
        tape: Tensor,
        key_weight: Tensor | None,
        recurrent_weight: Tensor,
        recurrent_bias: Tensor,
        gain: Tensor,
        bias: Tensor,
        cell_gain: Tensor,
        cell_bias: Tensor,
        key_input_mask: Tensor | None,
        key_output_mask: Tensor | None,
        counts: list[int],
    ) -> tuple[Tensor, Tensor, Tensor]:
        dtype = product_dtype(input_gates)
        total, width = input_gates.shape
        (slots, batch, _), steps, hidden = tape.shape, len(counts), width // 4
        new = input_gates.new_empty
        recurrent_weight = recurrent_weight.to(dtype)
        key_weight = None if key_weight is None else key_weight.to(dtype)
        key_product = product_or_zeros(key_weight, batch, recurrent_weight)
        recurrent_product = RepeatedProduct(recurrent_weight, batch, recurrent_bias.to(dtype))
        oldest_first = gates.flip(-1)

        # history[:, slots + t] is [h_t ; c_t]; batch-major, so that each sequence's window is one contiguous block.
        history = tape.new_zeros(batch, slots + steps, 2 * hidden)
        history[:, :slots] = tape.transpose(0, 1)
        keys, attentions, exponentials = new(total, hidden), new(total, slots), new(total, slots)
        totals, largest = new(total, 1), torch.empty(total, 1, dtype=torch.int64, device=tape.device)
        reads, activations, states = new(total, 2 * hidden), torch.add(input_gates, bias), new(total, hidden)
        normals, cell_normals, cell_tanhs = new(total, width), new(total, hidden), new(total, hidden)
        scales, factors, cell_scales, cell_factors = new(4, total, 1).unbind()
        root = math.sqrt(hidden)

        end = 0
        for t, count in enumerate(counts):
            now = slice(end, end := end + count)
            window = history[:count, t : t + slots]
            before = history[:count, t + slots - 1, :hidden]
            if key_input_mask is not None:
                before = before * key_input_mask[now]
            key = torch.add(input_keys[now], key_product(before.to(dtype)), out=keys[now])
            if key_output_mask is not None:
                key *= key_output_mask[now]
            scores = (window[..., :hidden] * key[:, None]).sum(-1).div_(root)
            top, largest[now] = scores.max(dim=-1, keepdim=True)
            exponential = torch.exp(scores.sub_(top), out=exponentials[now])
            weighted = exponential * oldest_first[now]
            torch.sum(weighted, dim=-1, keepdim=True, out=totals[now]).add_(ATTENTION_EPSILON)
            attention = torch.div(weighted, totals[now], out=attentions[now])
            torch.bmm(attention[:, None], window, out=reads[now][:, None])
            hidden_read, cell_read = reads[now].chunk(2, dim=-1)

            recurrent = recurrent_product(hidden_read.to(dtype)).to(tape.dtype)
            normals[now], scales[now], factors[now] = normalise(recurrent)
            activation = activations[now].addcmul_(normals[now], gain)
            activation[:, : 2 * hidden].sigmoid_()
            activation[:, 2 * hidden : 3 * hidden].tanh_()
            activation[:, 3 * hidden :].sigmoid_()
            i, f, g, o = activation.chunk(4, dim=-1)
            cell = torch.addcmul(f * cell_read, i, g)
            cell_normals[now], cell_scales[now], cell_factors[now] = normalise(cell)
            torch.addcmul(cell_bias, cell_normals[now], cell_gain, out=cell_tanhs[now]).tanh_()
            history[:count, t + slots, :hidden] = torch.mul(o, cell_tanhs[now], out=states[now])
            history[:count, t + slots, hidden:] = cell

        ctx.save_for_backward(
            history, keys, attentions, exponentials, totals, largest, reads, activations, normals, scales, factors,
            cell_normals, cell_scales, cell_factors, cell_tanhs, oldest_first, key_weight, recurrent_weight,
            gain, cell_gain, key_input_mask, key_output_mask,
        )  # fmt: skip
        ctx.counts = counts
        new_tape = history[:, steps:].transpose(0, 1).contiguous()
        newest_first = attentions.flip(-1)
        ctx.mark_non_differentiable(new_tape, newest_first)
        return states, new_tape, newest_first

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        output_grad = grads[0]
        (
            history, keys, attentions, exponentials, totals, largest, reads, activations, normals, scales, factors,
            cell_normals, cell_scales, cell_factors, cell_tanhs, oldest_first, key_weight, recurrent_weight,
            gain, cell_gain, key_input_mask, key_output_mask,
        ) = ctx.saved_tensors  # fmt: skip
        counts, (total, slots), (batch, _, _) = ctx.counts, attentions.shape, history.shape
        steps, hidden = len(counts), keys.shape[-1]
        dtype, root = recurrent_weight.dtype, math.sqrt(hidden)
        key_product = product_or_zeros(None if key_weight is None else key_weight.T, batch, recurrent_weight)
        recurrent_product = RepeatedProduct(recurrent_weight.T, batch)
        new = history.new_empty

        gate_grads, recurrent_grads, befores = new(total, 4 * hidden), new(total, 4 * hidden), new(total, hidden)
        key_grads, slot_grads, cell_norm_grads = new(total, hidden), new(total, slots), new(total, hidden)
        # Step t + q reads history position t through entry slots - q of its row. Gradients are stored skewed, so that
        # the later readers of a position are one contiguous window. Rows past the end stay 0: nothing is read there.
        read_grads = history.new_zeros(batch, slots + steps + slots, 2 * hidden)
        later_keys = history.new_zeros(batch, slots + steps + slots, hidden)
        read_weights = history.new_zeros(batch, slots + steps, slots)
        key_weights = history.new_zeros(batch, slots + steps, slots)
        readers = _skewed(read_weights), _skewed(key_weights)
        recurrent_hidden_grad = history.new_zeros(batch, hidden)

        def memory_grad(position: int, count: int) -> Tensor:
            """Return gradient of [h ; c] at a history position, from the attention of all later steps: (count, 2H)."""
            row, later = slice(position, position + 1), slice(position + 1, position + 1 + slots)
            reading = torch.bmm(read_weights[:count, row], read_grads[:count, later])[:, 0]
            reading[:, :hidden] += torch.bmm(key_weights[:count, row], later_keys[:count, later])[:, 0]
            return reading

        start = total
        for t in range(steps - 1, -1, -1):
            count = counts[t]
            now = slice(start := start - count, start + count)
            grad = memory_grad(t + slots, count)
            hidden_grad = grad[:, :hidden].add_(output_grad[now]).add_(recurrent_hidden_grad[:count])
            i, f, g, o = activations[now].chunk(4, dim=-1)
            tanh = cell_tanhs[now]
            gate_grad = gate_grads[now]
            i_grad, f_grad, g_grad, o_grad = gate_grad.chunk(4, dim=-1)
            torch.mul(hidden_grad * tanh, o.square().sub_(o).neg_(), out=o_grad)
            norm_grad = torch.mul(hidden_grad * o, tanh.square().neg_().add_(1), out=cell_norm_grads[now])
            cell_grad = normalise_backward(
                norm_grad * cell_gain, cell_normals[now], cell_scales[now], cell_factors[now]
            )
            cell_grad += grad[:, hidden:]
            torch.mul(cell_grad * g, i.square().sub_(i).neg_(), out=i_grad)
            torch.mul(cell_grad * reads[now, hidden:], f.square().sub_(f).neg_(), out=f_grad)
            torch.mul(cell_grad * i, g.square().neg_().add_(1), out=g_grad)

            recurrent_grads[now] = normalise_backward(gate_grad * gain, normals[now], scales[now], factors[now])
            read_grad = read_grads[:count, t + slots]
            read_grad[:, :hidden] = recurrent_product(recurrent_grads[now].to(dtype))
            torch.mul(cell_grad, f, out=read_grad[:, hidden:])

            window, attention = history[:count, t : t + slots], attentions[now]
            attention_grad = (window * read_grad[:, None]).sum(-1)
            mean = (attention_grad * attention).sum(-1, keepdim=True)
            weighted_grad = attention_grad.sub_(mean).div_(totals[now])
            exponential_grad = torch.mul(weighted_grad, exponentials[now], out=slot_grads[now])
            score_grad = exponential_grad * oldest_first[now]
            score_grad.scatter_add_(-1, largest[now], mean.mul_(-ATTENTION_EPSILON).div_(totals[now])).div_(root)
            key_grad = torch.bmm(score_grad[:, None], window[..., :hidden])[:, 0]
            if key_output_mask is not None:
                key_grad *= key_output_mask[now]
            key_grads[now] = key_grad
            readers[0][:count, t], readers[1][:count, t] = attention, score_grad
            later_keys[:count, t + slots] = keys[now]
            befores[now] = history[:count, t + slots - 1, :hidden]
            recurrent_hidden_grad[:count] = key_product(key_grad.to(dtype))
            if key_input_mask is not None:
                recurrent_hidden_grad[:count] *= key_input_mask[now]

        tape_grad = None
        if ctx.needs_input_grad[3]:
            tape_grad = torch.stack([memory_grad(position, batch) for position in range(slots)])
            tape_grad[-1, :, :hidden] += recurrent_hidden_grad

        if key_input_mask is not None:
            befores *= key_input_mask
        return (
            gate_grads,
            key_grads,
            slot_grads.flip(-1),
            tape_grad,
            None if key_weight is None else product_of_sums(key_grads.to(dtype), befores),
            product_of_sums(recurrent_grads.to(dtype), reads[:, :hidden]),
            recurrent_grads.sum(0),
            (gate_grads * normals).sum(0),
            gate_grads.sum(0),
            (cell_norm_grads * cell_normals).sum(0),
            cell_norm_grads.sum(0),
            *(None,) * 3,
        )


def _skewed(rows: Tensor) -> Tensor:
    """Return a view (B, T, N) of rows (B, N + T, N): entry (t, k) is entry N - 1 - k of row t + k.

    Step t reads history position t + k in its window's place k; position p is then read by step p + 1 + (N - 1 - k).
    """
    batch, length, slots = rows.shape
    stride = rows.stride()
    return rows.as_strided(
        (batch, length - slots, slots), (stride[0], stride[1], stride[1] - 1), rows.storage_offset() + slots - 1
    )


def attend(keys: Tensor, gates: Tensor, states: Tensor, tape: Tensor) -> tuple[Tensor, Tensor]:
    """Return the predict network's attention over the hidden states before each step, for all steps at once.

    keys, states: (T, B, H); gates: (T, B, N); tape: (N, B, H), oldest first.
    Returns attended (T, B, H) and attention (T, B, N).
    """
    attended, attentions = [], []
    history = torch.cat([tape, states])
    slots = len(tape)
    # A block's scores for all steps it can see are one product, of which only a band is used: short blocks waste less.
    block = max(32, slots)
    for start in range(0, len(keys), block):
        part = slice(start, min(start + block, len(keys)))
        out, attention = _attend_block(keys[part], gates[part], history[start : part.stop + slots - 1])
        attended.append(out)
        attentions.append(attention)
    return torch.cat(attended), torch.cat(attentions)


def _attend_block(keys: Tensor, gates: Tensor, history: Tensor) -> tuple[Tensor, Tensor]:
    """Return `attend` over a few steps; history (T + N - 1, B, H) starts with the oldest state that the first step
    reads.
    """
    hidden, slots = keys.shape[-1], gates.shape[-1]
    memory = history.transpose(0, 1)
    scores = torch.bmm(keys.transpose(0, 1), memory.transpose(1, 2)).to(gates.dtype) / math.sqrt(hidden)
    band = _band(scores, slots)
    weights = torch.exp(band - band.max(dim=-1, keepdim=True).values) * gates.transpose(0, 1).flip(-1)
    weights = weights / (weights.sum(dim=-1, keepdim=True) + ATTENTION_EPSILON)
    attended = torch.bmm(_unband(weights).to(memory.dtype), memory)
    return attended.transpose(0, 1), weights.transpose(0, 1).flip(-1)


def _band(matrix: Tensor, width: int) -> Tensor:
    """(B, T, T + W - 1) -> (B, T, W): entry (t, k) is (t, t + k)."""
    batch, steps, columns = matrix.shape
    flat = matrix.flatten(1)
    padded = torch.nn.functional.pad(flat, (0, steps))
    return padded.view(batch, steps, columns + 1)[..., :width]


def _unband(band: Tensor) -> Tensor:
    """Return the inverse of `_band`, 0 outside the band: (B, T, W) -> (B, T, T + W - 1)."""
    batch, steps, width = band.shape
    columns = steps + width - 1
    padded = torch.nn.functional.pad(band, (0, columns + 1 - width)).flatten(1)
    return padded[:, : steps * columns].view(batch, steps, columns)
