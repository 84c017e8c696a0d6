"""PRPN's gated memory.

Shen, Lin, Huang, Courville 2018, "Neural Language Modeling by Jointly Learning Syntax and Lexicon".
The references are the equations. `read` has a hand-written backward. Each step is two matrix products (key, gates) and
pointwise work, one pass over each row while it is in cache in C, otherwise in torch. No graph is built, and the gate
gradients of all steps are stored, so that every weight gradient is one product over the whole sequence: per-step
accumulation would rewrite a (4H, H) matrix T times. The memory is a window on one growing history that is never copied.
Its gradient is gathered over the N later steps that read it instead of scattered into it. Sequences that have ended are
excluded from later steps. The rows of a step are read once: their layer norms, the sums of the weights' gradients and
the inputs of products are computed with them. `slot_gates` and `attend` have no recurrence and process all steps at
once; in C, `attend` goes column by column, because the windows of consecutive steps overlap.

Shapes: T time, B batch, H hidden size, N memory slots, n real tokens. Slot k of a gate or attention at step t is step
t-1-k. Tapes (N, B, ...) have the N steps before the chunk, oldest first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from ctypes import CDLL, Structure
from dataclasses import dataclass
from itertools import pairwise
from types import SimpleNamespace
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from syntaxlm.ops.backend import c_struct, call, filled, kernels, parts, slices, with_reference
from syntaxlm.ops.layer_norm import layer_norm_reference, normalise, normalise_backward
from syntaxlm.ops.products import RepeatedProduct, product_dtype, weight_gradient

ATTENTION_EPSILON = 1e-8  # avoids division by 0 if all gates are 0
_MAXIMUM_SLOTS = 64  # as in kernels/gated_memory.c


@dataclass(frozen=True)
class GateComparison:
    """alpha, how much larger one distance is than another, in [0, 1]: equation (6).

    hard: (hardtanh(scale * difference + shift) + 1) / 2; soft: sigmoid(scale * difference + shift).
    An infinite scale is the limit: 0 or 1 by the sign of the difference; for equal distances, that of the shift.
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

    queries, distances: (T, B); tape: (N, B) distances before the chunk, oldest first, +inf before the start.
    count_self: whether slot k's product over q starts at q = 0 (the step itself) or at q = 1.
    Returns (T, B, N).
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
    """Return structured attention, equations (9) and (10): a softmax with a gate for each slot. (..., N) each."""
    weights = torch.exp(scores - scores.max(dim=-1, keepdim=True).values) * gates
    return weights / (weights.sum(dim=-1, keepdim=True) + ATTENTION_EPSILON)


class ReaderWeights(NamedTuple):
    """One reading layer's recurrent weights, and the dropout masks of a forward pass (None: no dropout).

    key: (H, H), applied to h_{t-1}, None if keys do not read it; recurrent: (4H, H), applied to the attended h, rows i,
    f, g, o; recurrent_bias, input_gain, gain, bias: (4H,), bias of both sides of the gates; cell_gain, cell_bias: (H,).
    Masks are scaled by 1 / (1 - rate).
    key_input_mask, key_output_mask: (n, H), one per row; recurrent_mask: (H,), one for the whole batch and chunk.
    """

    key: Tensor | None
    recurrent: Tensor
    recurrent_bias: Tensor
    input_gain: Tensor
    gain: Tensor
    bias: Tensor
    cell_gain: Tensor
    cell_bias: Tensor
    key_input_mask: Tensor | None = None
    key_output_mask: Tensor | None = None
    recurrent_mask: Tensor | None = None


def read_reference(
    input_gates: Tensor,
    input_keys: Tensor,
    gates: Tensor,
    tapes: tuple[Tensor, Tensor],
    weights: ReaderWeights,
    counts: Sequence[int],
) -> tuple[Tensor, tuple[Tensor, Tensor], Tensor]:
    """Return `read` as its equations, differentiated by autograd; the tapes and attention are not detached."""
    slots, batch, hidden_size = tapes[0].shape
    hidden_tape, cell_tape = list(tapes[0]), list(tapes[1])
    states, attentions = [], []
    for count, now in zip(counts, slices(counts), strict=True):
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
        recurrent = hidden_read @ weights.recurrent.T + weights.recurrent_bias
        gate = layer_norm_reference(input_gates[now].to(recurrent.dtype), weights.input_gain, weights.bias)
        gate = gate + layer_norm_reference(recurrent, weights.gain, torch.zeros_like(weights.bias))
        i, f, g, o = gate.chunk(4, dim=-1)
        cell = torch.sigmoid(f) * cell_read + torch.sigmoid(i) * torch.tanh(g)
        hidden = torch.sigmoid(o) * torch.tanh(layer_norm_reference(cell, weights.cell_gain, weights.cell_bias))
        states.append(hidden)
        attentions.append(attention)
        ended = (0, 0, 0, batch - count)  # zeros replace the rows of columns that have ended
        hidden_tape.append(pad(hidden, ended))
        cell_tape.append(pad(cell, ended))
    new_tapes = torch.stack(hidden_tape[-slots:]), torch.stack(cell_tape[-slots:])
    return torch.cat(states), new_tapes, torch.cat(attentions)


@with_reference(read_reference)
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
    input_gates: (n, 4H), the input side of the gates i, f, g, o before its layer norm; input_keys: (n, H), that of the
    key; gates: (n, N); tapes: hidden and cell, each (N, B, H), oldest first.
    Returns hidden states (n, H); the tapes after the chunk, detached, undefined for columns that ended earlier;
    attention (n, N), detached.
    """
    if weights.recurrent_mask is not None:  # one mask for all steps, so it can be applied to the weight
        weights = weights._replace(recurrent=weights.recurrent * weights.recurrent_mask, recurrent_mask=None)
    hidden, tape, attention = _MemoryRead.apply(
        input_gates, input_keys, gates, torch.cat(tapes, dim=-1), tuple(counts), *weights
    )
    hidden_tape, cell_tape = tape.chunk(2, dim=-1)
    return hidden, (hidden_tape, cell_tape), attention


_Products = tuple[Callable[[Tensor], Tensor], RepeatedProduct]  # of the keys and of the gates


class _MemoryRead(torch.autograd.Function):
    """The steps between their two products are two functions of C (kernels/gated_memory.c), or the same in torch.

    kept: what backward needs, one row per token; the steps of forward write it.
    """

    @staticmethod
    def forward(
        ctx: Any,
        input_gates: Tensor,
        input_keys: Tensor,
        gates: Tensor,
        tape: Tensor,
        counts: Sequence[int],
        *weights: Any,
    ) -> tuple[Tensor, Tensor, Tensor]:
        w, dtype = ReaderWeights(*weights), product_dtype(tape)
        (slots, batch, _), steps, (total, hidden) = tape.shape, len(counts), input_keys.shape
        library = None
        if slots <= _MAXIMUM_SLOTS and hidden > 1:
            library = kernels("gated_memory", dtype, input_keys, gates, tape, *weights)
        # Batch-major, so that each sequence's window is one contiguous block; zeros for steps after a sequence's end.
        history = tape.new_empty(batch, slots + steps, 2 * hidden)
        history[:, :slots] = tape.transpose(0, 1)
        for t, (before, count) in enumerate(pairwise((batch, *counts))):
            history[count:before, slots + t :] = 0
        new = tape.new_empty
        kept = SimpleNamespace(
            history=history,
            keys=new(total, hidden),
            attentions=new(total, slots),
            exponentials=new(total, slots),
            totals=new(total),
            largest=torch.empty(total, dtype=torch.int64, device=tape.device),
            cell_reads=new(total, hidden),
            befores=new(total, hidden, dtype=dtype),
            attended=new(total, hidden, dtype=dtype),
            activations=new(total, 4 * hidden),
            scales=new(total),
            factors=new(total),
            cell_scales=new(total),
            cell_factors=new(total),
            cell_tanhs=new(total, hidden),
            gates=gates.flip(-1),  # oldest first
            input_gain=w.input_gain.contiguous(),
            gain=w.gain.contiguous(),
            cell_gain=w.cell_gain.contiguous(),
            key_input_mask=w.key_input_mask,
            key_output_mask=w.key_output_mask,
        )
        once = SimpleNamespace(
            states=new(total, hidden),
            input_keys=input_keys.contiguous(),
            bias=w.bias.contiguous(),
            cell_bias=w.cell_bias.contiguous(),
        )
        key_weight, recurrent_weight = None if w.key is None else w.key.to(dtype), w.recurrent.to(dtype)
        products = (
            _product_or_zeros(key_weight, batch, recurrent_weight),
            RepeatedProduct(recurrent_weight, batch, w.recurrent_bias.to(dtype)),
        )
        outputs: list[Tensor] = []
        if library is None:
            kept.input_normals, kept.input_scales, kept.input_factors = normalise(input_gates.to(tape.dtype))
            kept.normals, kept.cell_normals = new(total, 4 * hidden), new(total, hidden)
            _forward_in_torch(kept, once, counts, products)
        else:
            kept.inputs = input_gates.to(dtype).contiguous()
            names = "input_means", "input_scales", "input_factors", "means", "cell_means"
            vars(kept).update(zip(names, new(len(names), total), strict=True))
            outputs = _forward_in_c(library, kept, once, counts, products)
        ctx.save_for_backward(key_weight, recurrent_weight, *vars(kept).values(), *outputs)
        ctx.library, ctx.counts, ctx.names = library, counts, list(vars(kept))
        ctx.input_dtype = input_gates.dtype
        new_tape, attention = history[:, steps:].transpose(0, 1).contiguous(), kept.attentions.flip(-1)
        ctx.mark_non_differentiable(new_tape, attention)
        return once.states, new_tape, attention

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        key_weight, recurrent_weight, *values = ctx.saved_tensors
        kept, outputs = SimpleNamespace(**dict(zip(ctx.names, values, strict=False))), values[len(ctx.names) :]
        (total, hidden), batch, dtype = kept.keys.shape, len(kept.history), recurrent_weight.dtype
        new, like = kept.keys.new_empty, kept.keys.dtype
        made = SimpleNamespace(
            output_grads=grads[0].contiguous(),
            key_grads=new(total, hidden),
            slot_grads=torch.empty_like(kept.attentions),
            recurrent_grads=new(total, 4 * hidden, dtype=dtype),
        )
        made.key_grads_half = made.key_grads if dtype == like else new(total, hidden, dtype=dtype)
        products = (
            _product_or_zeros(None if key_weight is None else key_weight.T, batch, recurrent_weight),
            RepeatedProduct(recurrent_weight.T, batch),
        )
        if ctx.library is None:
            tape_grad: Tensor | None = _backward_in_torch(kept, made, ctx.counts, products)
        else:
            to_tape = ctx.needs_input_grad[3]
            tape_grad = _backward_in_c(ctx.library, kept, made, ctx.counts, products, outputs, to_tape)
        sizes = *(4 * hidden,) * 4, hidden, hidden
        input_gain_grad, gain_grad, bias_grad, recurrent_bias_grad, *cell_grads = made.sums.sum(0).split(sizes)
        key_grad = None
        if key_weight is not None:
            key_grad = weight_gradient(made.key_grads_half, kept.befores).to(like)
        return (
            made.input_grads.to(ctx.input_dtype),
            made.key_grads,
            made.slot_grads.flip(-1),
            None if tape_grad is None else tape_grad.transpose(0, 1),
            None,
            key_grad,
            weight_gradient(made.recurrent_grads, kept.attended).to(like),
            recurrent_bias_grad,
            input_gain_grad,
            gain_grad,
            bias_grad,
            *cell_grads,
            *(None,) * 3,
        )


def _before(kept: SimpleNamespace, t: int, now: slice) -> Tensor:
    """Return the input of step t's key product, the masked hidden state of the step before: (r, H)."""
    (_, slots), hidden = kept.attentions.shape, kept.keys.shape[1]
    before: Tensor = kept.history[: now.stop - now.start, t + slots - 1, :hidden]
    return before if kept.key_input_mask is None else before * kept.key_input_mask[now]


def _product_or_zeros(weight: Tensor | None, rows: int, like: Tensor) -> Callable[[Tensor], Tensor]:
    """Return a `RepeatedProduct` with a square weight; without a weight, a function that returns zeros, (n, G).

    like: (_, G), in the dtype of the products.
    """
    if weight is not None:
        return RepeatedProduct(weight, rows)
    zeros = like.new_zeros(rows, like.shape[1])
    return lambda inputs: zeros[: len(inputs)]


def _normalised(kept: SimpleNamespace, prefix: str, now: slice, values: Tensor) -> Tensor:
    """Return normalised rows; they are kept with the numbers that backward needs."""
    results = normalise(values)
    for name, result in zip(("normals", "scales", "factors"), results, strict=True):
        rows = getattr(kept, prefix + name)[now]
        rows.copy_(result.view_as(rows))
    return results[0]


def _forward_in_torch(kept: SimpleNamespace, once: SimpleNamespace, counts: Sequence[int], products: _Products) -> None:
    key_product, recurrent_product = products
    (_, slots), hidden = kept.attentions.shape, kept.keys.shape[1]
    inputs = torch.addcmul(once.bias, kept.input_normals, kept.input_gain)
    for t, now in enumerate(slices(counts)):
        window = kept.history[: counts[t], t : t + slots]
        kept.befores[now] = _before(kept, t, now)
        product = key_product(kept.befores[now])
        key = torch.add(once.input_keys[now], product, out=kept.keys[now])
        if kept.key_output_mask is not None:
            key *= kept.key_output_mask[now]
        scores = (window[..., :hidden] * key[:, None]).sum(-1).div_(math.sqrt(hidden))
        top, kept.largest[now, None] = scores.max(dim=-1, keepdim=True)
        exponential = torch.exp(scores.sub_(top), out=kept.exponentials[now])
        weighted = exponential * kept.gates[now]
        total = torch.sum(weighted, dim=-1, out=kept.totals[now]).add_(ATTENTION_EPSILON)
        attention = torch.div(weighted, total[:, None], out=kept.attentions[now])
        kept.attended[now], kept.cell_reads[now] = torch.bmm(attention[:, None], window)[:, 0].chunk(2, dim=-1)
        product = recurrent_product(kept.attended[now])
        normal = _normalised(kept, "", now, product.to(key.dtype))
        activation = torch.addcmul(inputs[now], normal, kept.gain, out=kept.activations[now])
        activation[:, : 2 * hidden].sigmoid_()
        activation[:, 2 * hidden : 3 * hidden].tanh_()
        activation[:, 3 * hidden :].sigmoid_()
        i, f, g, o = activation.chunk(4, dim=-1)
        cell = torch.addcmul(f * kept.cell_reads[now], i, g)
        normal = _normalised(kept, "cell_", now, cell)
        tanh = torch.addcmul(once.cell_bias, normal, kept.cell_gain, out=kept.cell_tanhs[now]).tanh_()
        state = kept.history[: counts[t], t + slots]
        state[:, :hidden] = torch.mul(o, tanh, out=once.states[now])
        state[:, hidden:] = cell


def _backward_in_torch(
    kept: SimpleNamespace, made: SimpleNamespace, counts: Sequence[int], products: _Products
) -> Tensor:
    """Fill `made`; return the gradient of the tape, (B, N, 2H). `sums`: rows whose sum are the gradients of input gain,
    gain, bias, recurrent bias, cell gain and cell bias, (_, 18H).
    """
    key_product, recurrent_product = products
    (_, slots), hidden, root = kept.attentions.shape, kept.keys.shape[1], math.sqrt(kept.keys.shape[1])
    history_grads = torch.zeros_like(kept.history)  # each step adds to those that it reads
    cell_norm_grads, gate_grads = torch.empty_like(kept.keys), torch.empty_like(kept.normals)
    for t, now in reversed(list(enumerate(slices(counts)))):
        window, grad = kept.history[: counts[t], t : t + slots], history_grads[: counts[t], t + slots]
        hidden_grad, tanh = grad[:, :hidden] + made.output_grads[now], kept.cell_tanhs[now]
        i, f, g, o = kept.activations[now].chunk(4, dim=-1)
        i_grad, f_grad, g_grad, o_grad = gate_grads[now].chunk(4, dim=-1)
        torch.mul(hidden_grad * tanh, o.square().sub_(o).neg_(), out=o_grad)
        norm_grad = torch.mul(hidden_grad * o, tanh.square().neg_().add_(1), out=cell_norm_grads[now])
        scale, factor = kept.cell_scales[now, None], kept.cell_factors[now, None]
        cell_grad = normalise_backward(norm_grad * kept.cell_gain, kept.cell_normals[now], scale, factor)
        cell_grad += grad[:, hidden:]
        torch.mul(cell_grad * g, i.square().sub_(i).neg_(), out=i_grad)
        torch.mul(cell_grad * kept.cell_reads[now], f.square().sub_(f).neg_(), out=f_grad)
        torch.mul(cell_grad * i, g.square().neg_().add_(1), out=g_grad)
        scale, factor = kept.scales[now, None], kept.factors[now, None]
        recurrent_grads = normalise_backward(gate_grads[now] * kept.gain, kept.normals[now], scale, factor)
        made.recurrent_grads[now] = recurrent_grads
        read_grad = torch.cat([recurrent_product(made.recurrent_grads[now]).to(grad.dtype), cell_grad * f], dim=-1)
        attention, total = kept.attentions[now], kept.totals[now, None]
        attention_grad = (window * read_grad[:, None]).sum(-1)
        mean = (attention_grad * attention).sum(-1, keepdim=True)
        slot_grad = attention_grad.sub_(mean).div_(total).mul_(kept.exponentials[now])
        made.slot_grads[now] = slot_grad
        score_grad = slot_grad * kept.gates[now]
        score_grad.scatter_add_(-1, kept.largest[now, None], mean.mul_(-ATTENTION_EPSILON).div_(total)).div_(root)
        key_grad = torch.bmm(score_grad[:, None], window[..., :hidden])[:, 0]
        if kept.key_output_mask is not None:
            key_grad *= kept.key_output_mask[now]
        made.key_grads[now] = made.key_grads_half[now] = key_grad
        window_grads = history_grads[: counts[t], t : t + slots]
        window_grads.addcmul_(attention[:, :, None], read_grad[:, None])
        window_grads[..., :hidden].addcmul_(score_grad[:, :, None], kept.keys[now, None])
        before = key_product(made.key_grads_half[now])
        window_grads[:, -1, :hidden] += before if kept.key_input_mask is None else before * kept.key_input_mask[now]
    scales, factors = kept.input_scales, kept.input_factors
    made.input_grads = normalise_backward(gate_grads * kept.input_gain, kept.input_normals, scales, factors)
    of_gains = gate_grads * kept.input_normals, gate_grads * kept.normals
    of_biases = gate_grads, made.recurrent_grads.to(kept.keys.dtype)
    made.sums = torch.cat([*of_gains, *of_biases, cell_norm_grads * kept.cell_normals, cell_norm_grads], dim=1)
    return history_grads[:, :slots]


_Layer = c_struct(
    "hidden slots columns length",
    "starts history keys attentions exponentials totals largest cell_reads befores attended activations"
    " input_means input_scales input_factors means scales factors cell_means cell_scales cell_factors cell_tanhs"
    " states gates input_gain gain bias cell_gain cell_bias key_input_mask key_output_mask input_keys inputs"
    " output_grads key_grads slot_grads score_grads read_grads input_grads recurrent_grads key_grads_half carried"
    " history_grads state_grads sums",
)


def _layer(kept: SimpleNamespace, others: SimpleNamespace, counts: Sequence[int], dtype: torch.dtype) -> Structure:
    """Return the struct of all tensors, which must outlive it."""
    others.starts = torch.tensor([0, *counts]).cumsum(0)
    (columns, length, _), hidden, slots = kept.history.shape, kept.keys.shape[1], kept.attentions.shape[1]
    sizes = {"hidden": hidden, "slots": slots, "columns": columns, "length": length, "half": dtype == torch.bfloat16}
    return filled(_Layer, vars(kept) | vars(others), **sizes)


def _forward_in_c(
    library: CDLL, kept: SimpleNamespace, once: SimpleNamespace, counts: Sequence[int], products: _Products
) -> list[Tensor]:
    """Return the product of the gates of each step."""
    key_product, recurrent_product = products
    layer = _layer(kept, once, counts, recurrent_product.dtype)
    kept.befores[: counts[0]] = _before(kept, 0, slice(0, counts[0]))
    outputs = []
    for t, (before, attended) in enumerate(zip(kept.befores.split(counts), kept.attended.split(counts), strict=True)):
        call(library.read_attend, layer, t, key_product(before))
        outputs.append(recurrent_product(attended))
        call(library.read_cell, layer, t, len(counts), outputs[-1])
    return outputs


def _backward_in_c(
    library: CDLL,
    kept: SimpleNamespace,
    made: SimpleNamespace,
    counts: Sequence[int],
    products: _Products,
    outputs: Sequence[Tensor],
    tape: bool,
) -> Tensor | None:
    """Fill `made`; return the gradient of the tape, (B, N, 2H), if `tape` asks for it. outputs: of `_forward_in_c`."""
    key_product, recurrent_product = products
    dtype, (total, slots), hidden = recurrent_product.dtype, kept.attentions.shape, kept.keys.shape[1]
    made.score_grads, made.read_grads = torch.empty_like(made.slot_grads), kept.keys.new_empty(total, 2 * hidden)
    made.carried = kept.keys.new_empty(len(kept.history), 2 * hidden)
    made.sums = kept.keys.new_zeros(torch.get_num_threads(), 18 * hidden)
    made.input_grads = torch.empty_like(made.recurrent_grads)
    layer, through = _layer(kept, made, counts, dtype), None
    for t, now in reversed(list(enumerate(slices(counts)))):
        call(library.read_cell_backward, layer, t, len(counts), outputs[t], through)
        call(library.read_attend_backward, layer, t, recurrent_product(made.recurrent_grads[now]))
        through = key_product(made.key_grads_half[now])
    if through is None or not tape:
        return None
    tape_grads = made.carried.new_empty(len(kept.history), slots, 2 * hidden)
    call(library.read_tape_backward, layer, len(counts), tape_grads)
    before = tape_grads[: counts[0], -1, :hidden]
    before += through if kept.key_input_mask is None else through * kept.key_input_mask[: counts[0]]
    return tape_grads


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

    Rows as in `read`.  keys, states: (n, H); gates: (n, N); tape: (N, B, H), oldest first.
    Returns attended states (n, H), and attention (n, N), detached.
    """
    (slots, columns, _), counts = tape.shape, tuple(counts)
    library = kernels("gated_memory", product_dtype(tape), gates, states, tape) if slots <= _MAXIMUM_SLOTS else None
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
    keys, gates, history = padded(keys), padded(gates).flip(-1), torch.cat([tape, padded(states)])
    # A block's scores for all steps it can see are one product, of which only a band is used: short blocks waste less.
    for part in parts(len(counts), max(32, slots)):
        memory = history[part.start : part.stop + slots - 1].transpose(0, 1)
        scores = torch.bmm(keys[part].transpose(0, 1), memory.transpose(1, 2)).to(gates.dtype)
        weights = attention_weights(_band(scores / math.sqrt(keys.shape[-1]), slots), gates[part].transpose(0, 1))
        attended.append(torch.bmm(_unband(weights).to(memory.dtype), memory).transpose(0, 1))
        attentions.append(weights.transpose(0, 1).flip(-1))
    rows, attention = (torch.cat(found).flatten(0, 1) for found in (attended, attentions))
    if index is not None:
        rows, attention = rows[index], attention[index]
    return rows.to(states.dtype), attention.detach()


class _PredictAttention(torch.autograd.Function):
    """Each column in turn, with the attention of the reader (kernels/gated_memory.c)."""

    @staticmethod
    def forward(
        ctx: Any, keys: Tensor, gates: Tensor, states: Tensor, tape: Tensor, counts: Sequence[int], library: CDLL
    ) -> tuple[Tensor, Tensor]:
        (slots, batch, hidden), total = tape.shape, len(states)
        history = tape.new_empty(batch, slots + len(counts), hidden)
        history[:, :slots] = tape.transpose(0, 1)
        kept = SimpleNamespace(
            history=history,
            keys=keys.contiguous(),
            attentions=torch.empty(total, slots),
            exponentials=torch.empty(total, slots),
            totals=torch.empty(total),
            largest=torch.empty(total, dtype=torch.int64),
            gates=gates.flip(-1),  # oldest first
        )
        once = SimpleNamespace(states=states.contiguous(), attended=torch.empty_like(keys))
        call(library.predict_attend, _layer(kept, once, counts, torch.float32), len(counts))
        ctx.save_for_backward(*vars(kept).values())
        ctx.library, ctx.counts, ctx.names = library, counts, list(vars(kept))
        attention = kept.attentions.flip(-1)
        ctx.mark_non_differentiable(attention)
        return once.attended, attention

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        kept = SimpleNamespace(**dict(zip(ctx.names, ctx.saved_tensors, strict=True)))
        made = SimpleNamespace(
            output_grads=grads[0].contiguous(),
            key_grads=torch.empty_like(kept.keys),
            slot_grads=torch.empty_like(kept.attentions),
            state_grads=torch.empty_like(kept.keys),
            history_grads=torch.zeros_like(kept.history),
        )
        call(ctx.library.predict_attend_backward, _layer(kept, made, ctx.counts, torch.float32), len(ctx.counts))
        tape_grad = made.history_grads[:, : kept.attentions.shape[1]].transpose(0, 1)
        return made.key_grads, made.slot_grads.flip(-1), made.state_grads, tape_grad, None, None


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
