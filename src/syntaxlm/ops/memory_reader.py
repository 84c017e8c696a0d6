"""The recurrence of PRPN's reading network: an LSTM whose recurrent input is attended from the gated memory.

Shen, Lin, Huang, Courville 2018, "Neural Language Modeling by Jointly Learning Syntax and Lexicon".
`read_reference` is the equations. `read` has a hand-written backward. Each step is two matrix products (key, gates) and
pointwise work, one pass over each row while it is in cache in C, otherwise in torch. No graph is built, and the gate
gradients of all steps are stored, so that every weight gradient is one product over the whole sequence: per-step
accumulation would rewrite a (4H, H) matrix T times. The memory is a window on one growing history that is never copied.
Its gradient is gathered over the N later steps that read it instead of scattered into it. Sequences that have ended are
excluded from later steps. The rows of a step are read once: their layer norms, the sums of the weights' gradients and
the inputs of products are computed with them.

Shapes: T time, B batch, H hidden size, N memory slots, n real tokens, r rows: the columns that are real at a step. Slot
k of a gate or attention at step t is step t-1-k. Tapes (N, B, ...) have the N steps before the chunk, oldest first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from ctypes import CDLL
from itertools import pairwise
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import pad

from syntaxlm.ops.backend import call, kernels, slices, with_reference
from syntaxlm.ops.gated_memory import ATTENTION_EPSILON, MAXIMUM_SLOTS, attention_weights
from syntaxlm.ops.layer_norm import layer_norm_reference, normalise, normalise_backward
from syntaxlm.ops.memory_tensors import (
    ChunkGradients,
    CompiledNorms,
    ForwardTensors,
    ReadGradients,
    ReadSteps,
    TorchNorms,
    WindowShape,
    first_rows,
    layer_struct,
)
from syntaxlm.ops.products import RepeatedProduct, product_dtype, weight_gradient


class ReaderWeights(NamedTuple):
    """One reading layer's recurrent weights, and the dropout masks of a forward pass (None: no dropout).

    Masks are scaled by 1 / (1 - rate).

    Attributes:
        key: (H, H), applied to h_{t-1}, None if keys do not read it.
        recurrent: (4H, H), applied to the attended h, rows i, f, g, o.
        recurrent_bias: (4H,).
        input_gain: (4H,).
        gain: (4H,).
        bias: (4H,), bias of both sides of the gates.
        cell_gain: (H,).
        cell_bias: (H,).
        key_input_mask: (n, H), one per row.
        key_output_mask: (n, H), one per row.
        recurrent_mask: (H,), one for the whole batch and chunk.
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
    # c_t = f c~_t + i g and h_t = o tanh(LN(c_t)), where h~_t and c~_t are attended from h and c of N earlier steps
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

    Args:
        input_gates: (n, 4H), the input side of the gates i, f, g, o before its layer norm.
        input_keys: (n, H), that of the key.
        gates: (n, N).
        tapes: hidden and cell, each (N, B, H), oldest first.

    Returns:
        Hidden states (n, H); the tapes after the chunk, detached, undefined for columns that ended earlier; attention
        (n, N), detached.
    """
    if weights.recurrent_mask is not None:  # one mask for all steps, so it can be applied to the weight
        weights = weights._replace(recurrent=weights.recurrent * weights.recurrent_mask, recurrent_mask=None)
    hidden, tape, attention = _MemoryRead.apply(
        input_gates, input_keys, gates, torch.cat(tapes, dim=-1), tuple(counts), *weights
    )
    hidden_tape, cell_tape = tape.chunk(2, dim=-1)
    return hidden, (hidden_tape, cell_tape), attention


class _Products(NamedTuple):
    """The two matrix products of a step, which have the same weights at all steps.

    Attributes:
        key: the recurrent side of the key, (r, H) -> (r, H).
        gates: the recurrent side of the gates, (r, H) -> (r, 4H).
    """

    key: Callable[[Tensor], Tensor]
    gates: RepeatedProduct


class _MemoryRead(torch.autograd.Function):
    """The steps between their two products are two functions of C (kernels/gated_memory.c), or the same in torch."""

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
        (slots, batch, _) = tape.shape
        steps = len(counts)
        (total, hidden) = input_keys.shape
        library = None
        if slots <= MAXIMUM_SLOTS and hidden > 1:
            library = kernels("gated_memory", dtype, input_keys, gates, tape, *weights)

        # Batch-major, so that each sequence's window is one contiguous block; zeros for steps after a sequence's end.
        history = tape.new_empty(batch, slots + steps, 2 * hidden)
        history[:, :slots] = tape.transpose(0, 1)
        for t, (before, count) in enumerate(pairwise((batch, *counts))):
            history[count:before, slots + t :] = 0

        # The layer norm of the input side is computed for all steps at once in torch, and step by step in C.
        new = tape.new_empty
        norms: TorchNorms | CompiledNorms
        if library is None:
            input_normals, input_scales, input_factors = normalise(input_gates.to(tape.dtype))
            norms = TorchNorms(input_normals, new(total, 4 * hidden), new(total, hidden))
        else:
            input_scales, input_factors, *means = new(5, total).unbind()
            norms = CompiledNorms(input_gates.to(dtype).contiguous(), *means)
        saved = _new_steps(history, gates, w, dtype, input_scales, input_factors)
        passing = ForwardTensors(
            states=new(total, hidden),
            input_keys=input_keys.contiguous(),
            bias=w.bias.contiguous(),
            cell_bias=w.cell_bias.contiguous(),
        )

        key_weight = None if w.key is None else w.key.to(dtype)
        recurrent_weight = w.recurrent.to(dtype)
        products = _Products(
            _product_or_zeros(key_weight, batch, recurrent_weight),
            RepeatedProduct(recurrent_weight, batch, w.recurrent_bias.to(dtype)),
        )
        outputs: list[Tensor] = []
        if isinstance(norms, TorchNorms):
            _forward_in_torch(saved, norms, passing, counts, products)
        else:
            assert library is not None
            outputs = _forward_in_c(library, saved, norms, passing, counts, products)
        ctx.save_for_backward(key_weight, recurrent_weight, *saved, *norms, *outputs)
        ctx.library = library
        ctx.counts = counts
        ctx.input_dtype = input_gates.dtype
        new_tape = history[:, steps:].transpose(0, 1).clone(memory_format=torch.contiguous_format)
        attention = saved.attentions.flip(-1)
        ctx.mark_non_differentiable(new_tape, attention)
        return passing.states, new_tape, attention

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        key_weight, recurrent_weight, *tensors = ctx.saved_tensors
        saved = ReadSteps(*tensors[: len(ReadSteps._fields)])
        rest = tensors[len(ReadSteps._fields) :]
        (total, hidden) = saved.keys.shape
        batch = len(saved.history)
        dtype = recurrent_weight.dtype
        new, like = saved.keys.new_empty, saved.keys.dtype
        key_grads = new(total, hidden)
        row_grads = ReadGradients(
            output_grads=grads[0].contiguous(),
            key_grads=key_grads,
            key_grads_half=key_grads if dtype == like else new(total, hidden, dtype=dtype),
            slot_grads=torch.empty_like(saved.attentions),
            recurrent_grads=new(total, 4 * hidden, dtype=dtype),
        )
        products = _Products(
            _product_or_zeros(None if key_weight is None else key_weight.T, batch, recurrent_weight),
            RepeatedProduct(recurrent_weight.T, batch),
        )
        if ctx.library is None:
            chunk_grads = _backward_in_torch(saved, TorchNorms(*rest), row_grads, ctx.counts, products)
        else:
            norms = CompiledNorms(*rest[: len(CompiledNorms._fields)])
            outputs = rest[len(CompiledNorms._fields) :]
            chunk_grads = _backward_in_c(
                ctx.library, saved, norms, row_grads, ctx.counts, products, outputs, needs_tape=ctx.needs_input_grad[3]
            )

        sizes = *(4 * hidden,) * 4, hidden, hidden
        weight_grads = chunk_grads.weight_rows.sum(0).split(sizes)
        input_gain_grad, gain_grad, bias_grad, recurrent_bias_grad, *cell_grads = weight_grads
        key_grad = None
        if key_weight is not None:
            key_grad = weight_gradient(row_grads.key_grads_half, saved.befores).to(like)
        return (
            chunk_grads.inputs.to(ctx.input_dtype),
            row_grads.key_grads,
            row_grads.slot_grads.flip(-1),
            None if chunk_grads.tape is None else chunk_grads.tape.transpose(0, 1),
            None,
            key_grad,
            weight_gradient(row_grads.recurrent_grads, saved.attended).to(like),
            recurrent_bias_grad,
            input_gain_grad,
            gain_grad,
            bias_grad,
            *cell_grads,
            *(None,) * 3,
        )


def _new_steps(
    history: Tensor,
    gates: Tensor,
    weights: ReaderWeights,
    dtype: torch.dtype,
    input_scales: Tensor,
    input_factors: Tensor,
) -> ReadSteps:
    """Return tensors for forward to fill, and those that it only reads.

    Args:
        dtype: the dtype of the products.
    """
    (total, slots) = gates.shape
    hidden = history.shape[2] // 2
    new = history.new_empty
    return ReadSteps(
        history=history,
        keys=new(total, hidden),
        attentions=new(total, slots),
        exponentials=new(total, slots),
        totals=new(total),
        largest=torch.empty(total, dtype=torch.int64, device=history.device),
        cell_reads=new(total, hidden),
        befores=new(total, hidden, dtype=dtype),
        attended=new(total, hidden, dtype=dtype),
        activations=new(total, 4 * hidden),
        scales=new(total),
        factors=new(total),
        cell_scales=new(total),
        cell_factors=new(total),
        cell_tanhs=new(total, hidden),
        gates=gates.flip(-1).contiguous(),  # oldest first
        input_gain=weights.input_gain.contiguous(),
        gain=weights.gain.contiguous(),
        cell_gain=weights.cell_gain.contiguous(),
        key_input_mask=None if weights.key_input_mask is None else weights.key_input_mask.contiguous(),
        key_output_mask=None if weights.key_output_mask is None else weights.key_output_mask.contiguous(),
        input_scales=input_scales,
        input_factors=input_factors,
    )


def _before(saved: ReadSteps, t: int, now: slice) -> Tensor:
    """Return the input of step t's key product, the masked hidden state of the step before: (r, H)."""
    (_, slots), hidden = saved.attentions.shape, saved.keys.shape[1]
    before = saved.history[: now.stop - now.start, t + slots - 1, :hidden]
    return before if saved.key_input_mask is None else before * saved.key_input_mask[now]


def _product_or_zeros(weight: Tensor | None, rows: int, like: Tensor) -> Callable[[Tensor], Tensor]:
    """Return a `RepeatedProduct` with a square weight; without a weight, a function that returns zeros, (n, G).

    Args:
        weight: (G, G), or None.
        rows: number of rows of the products.
        like: (_, G), in the dtype of the products.
    """
    if weight is not None:
        return RepeatedProduct(weight, rows)
    zeros = like.new_zeros(rows, like.shape[1])
    return lambda inputs: zeros[: len(inputs)]


def _normalised(values: Tensor, normals: Tensor, scales: Tensor, factors: Tensor) -> Tensor:
    """Return normalised rows, and write what backward needs of them, see `normalise`, to the other arguments."""
    results = normalise(values)
    for rows, result in zip((normals, scales, factors), results, strict=True):
        rows.copy_(result.view_as(rows))
    return results[0]


def _forward_in_torch(
    saved: ReadSteps, norms: TorchNorms, passing: ForwardTensors, counts: Sequence[int], products: _Products
) -> None:
    """Compute all steps, as in `read_reference`; write them to `saved`, `norms` and `passing.states`."""
    (_, slots), hidden = saved.attentions.shape, saved.keys.shape[1]
    inputs = torch.addcmul(passing.bias, norms.inputs, saved.input_gain)
    for t, now in enumerate(slices(counts)):
        window = saved.history[: counts[t], t : t + slots]

        # key_t = input_key_t + K h_{t-1}
        saved.befores[now] = _before(saved, t, now)
        product = products.key(saved.befores[now])
        key = torch.add(passing.input_keys[now], product, out=saved.keys[now])
        if saved.key_output_mask is not None:
            key *= saved.key_output_mask[now]

        # a_t(s) = gate_t(s) exp(key_t . h_s / sqrt(H)) / sum;  [h~_t ; c~_t] = sum over s of a_t(s) [h_s ; c_s]
        scores = (window[..., :hidden] * key[:, None]).sum(-1).div_(math.sqrt(hidden))
        top, saved.largest[now, None] = scores.max(dim=-1, keepdim=True)
        exponential = torch.exp(scores.sub_(top), out=saved.exponentials[now])
        weighted = exponential * saved.gates[now]
        total = torch.sum(weighted, dim=-1, out=saved.totals[now]).add_(ATTENTION_EPSILON)
        attention = torch.div(weighted, total[:, None], out=saved.attentions[now])
        saved.attended[now], saved.cell_reads[now] = torch.bmm(attention[:, None], window)[:, 0].chunk(2, dim=-1)

        # i, f, g, o = sigmoid, sigmoid, tanh, sigmoid of LN(inputs_t) + LN(R h~_t + b)
        product = products.gates(saved.attended[now])
        normal = _normalised(product.to(key.dtype), norms.gates[now], saved.scales[now], saved.factors[now])
        activation = torch.addcmul(inputs[now], normal, saved.gain, out=saved.activations[now])
        activation[:, : 2 * hidden].sigmoid_()
        activation[:, 2 * hidden : 3 * hidden].tanh_()
        activation[:, 3 * hidden :].sigmoid_()
        i, f, g, o = activation.chunk(4, dim=-1)

        # c_t = f c~_t + i g;  h_t = o tanh(LN(c_t))
        cell = torch.addcmul(f * saved.cell_reads[now], i, g)
        normal = _normalised(cell, norms.cells[now], saved.cell_scales[now], saved.cell_factors[now])
        tanh = torch.addcmul(passing.cell_bias, normal, saved.cell_gain, out=saved.cell_tanhs[now]).tanh_()
        state = saved.history[: counts[t], t + slots]
        state[:, :hidden] = torch.mul(o, tanh, out=passing.states[now])
        state[:, hidden:] = cell


def _backward_in_torch(
    saved: ReadSteps, norms: TorchNorms, row_grads: ReadGradients, counts: Sequence[int], products: _Products
) -> ChunkGradients:
    """Fill `row_grads`, from the last step to the first; return the gradients of the chunk."""
    (_, slots) = saved.attentions.shape
    hidden = saved.keys.shape[1]
    root = math.sqrt(saved.keys.shape[1])
    history_grads = torch.zeros_like(saved.history)  # each step adds to those that it reads
    cell_norm_grads = torch.empty_like(saved.keys)
    gate_grads = torch.empty_like(norms.gates)
    for t, now in reversed(list(enumerate(slices(counts)))):
        window = saved.history[: counts[t], t : t + slots]
        grad = history_grads[: counts[t], t + slots]

        # h_t = o tanh(LN(c_t)): the output gate and the cell
        hidden_grad = grad[:, :hidden] + row_grads.output_grads[now]
        tanh = saved.cell_tanhs[now]
        i, f, g, o = saved.activations[now].chunk(4, dim=-1)
        i_grad, f_grad, g_grad, o_grad = gate_grads[now].chunk(4, dim=-1)
        torch.mul(hidden_grad * tanh, o.square().sub_(o).neg_(), out=o_grad)
        norm_grad = torch.mul(hidden_grad * o, tanh.square().neg_().add_(1), out=cell_norm_grads[now])
        scale = saved.cell_scales[now, None]
        factor = saved.cell_factors[now, None]
        cell_grad = normalise_backward(norm_grad * saved.cell_gain, norms.cells[now], scale, factor)
        cell_grad += grad[:, hidden:]

        # c_t = f c~_t + i g: the other gates, and through their product the attended states
        torch.mul(cell_grad * g, i.square().sub_(i).neg_(), out=i_grad)
        torch.mul(cell_grad * saved.cell_reads[now], f.square().sub_(f).neg_(), out=f_grad)
        torch.mul(cell_grad * i, g.square().neg_().add_(1), out=g_grad)
        scale = saved.scales[now, None]
        factor = saved.factors[now, None]
        recurrent_grads = normalise_backward(gate_grads[now] * saved.gain, norms.gates[now], scale, factor)
        row_grads.recurrent_grads[now] = recurrent_grads
        read_grad = torch.cat([products.gates(row_grads.recurrent_grads[now]).to(grad.dtype), cell_grad * f], dim=-1)

        # The attention: its gates, its scores, and the key.
        attention = saved.attentions[now]
        total = saved.totals[now, None]
        attention_grad = (window * read_grad[:, None]).sum(-1)
        mean = (attention_grad * attention).sum(-1, keepdim=True)
        slot_grad = attention_grad.sub_(mean).div_(total).mul_(saved.exponentials[now])
        row_grads.slot_grads[now] = slot_grad
        score_grad = slot_grad * saved.gates[now]
        score_grad.scatter_add_(-1, saved.largest[now, None], mean.mul_(-ATTENTION_EPSILON).div_(total)).div_(root)
        key_grad = torch.bmm(score_grad[:, None], window[..., :hidden])[:, 0]
        if saved.key_output_mask is not None:
            key_grad *= saved.key_output_mask[now]
        row_grads.key_grads[now] = row_grads.key_grads_half[now] = key_grad

        # The states that the step reads: as memory of the attention, and h_{t-1} as input of the key.
        window_grads = history_grads[: counts[t], t : t + slots]
        window_grads.addcmul_(attention[:, :, None], read_grad[:, None])
        window_grads[..., :hidden].addcmul_(score_grad[:, :, None], saved.keys[now, None])
        before = products.key(row_grads.key_grads_half[now])
        mask = saved.key_input_mask
        window_grads[:, -1, :hidden] += before if mask is None else before * mask[now]

    scales, factors = saved.input_scales, saved.input_factors
    input_grads = normalise_backward(gate_grads * saved.input_gain, norms.inputs, scales, factors)
    gain_rows = gate_grads * norms.inputs, gate_grads * norms.gates
    bias_rows = gate_grads, row_grads.recurrent_grads.to(saved.keys.dtype)
    cell_rows = cell_norm_grads * norms.cells, cell_norm_grads
    weight_rows = torch.cat([*gain_rows, *bias_rows, *cell_rows], dim=1)
    return ChunkGradients(history_grads[:, :slots], input_grads, weight_rows)


def _forward_in_c(
    library: CDLL,
    saved: ReadSteps,
    norms: CompiledNorms,
    passing: ForwardTensors,
    counts: Sequence[int],
    products: _Products,
) -> list[Tensor]:
    """Compute all steps, as in `_forward_in_torch`; return the product of the gates of each step."""
    tensors = {"starts": first_rows(counts), **saved._asdict(), **norms._asdict(), **passing._asdict()}
    shape = WindowShape.of(saved.history, saved.keys, saved.attentions)
    layer = layer_struct(tensors, shape, products.gates.dtype)
    saved.befores[: counts[0]] = _before(saved, 0, slice(0, counts[0]))
    outputs = []
    for t, (before, attended) in enumerate(zip(saved.befores.split(counts), saved.attended.split(counts), strict=True)):
        call(library.read_attend, layer, t, products.key(before))
        outputs.append(products.gates(attended))
        call(library.read_cell, layer, t, len(counts), outputs[-1])
    return outputs


def _backward_in_c(
    library: CDLL,
    saved: ReadSteps,
    norms: CompiledNorms,
    row_grads: ReadGradients,
    counts: Sequence[int],
    products: _Products,
    outputs: Sequence[Tensor],
    needs_tape: bool,
) -> ChunkGradients:
    """Fill `row_grads`, from the last step to the first; return the gradients of the chunk.

    Args:
        outputs: of `_forward_in_c`.
        needs_tape: whether the gradient of the tape is needed.
    """
    shape = WindowShape.of(saved.history, saved.keys, saved.attentions)
    hidden = shape.hidden
    (total, slots) = saved.attentions.shape
    columns = shape.columns
    input_grads = torch.empty_like(row_grads.recurrent_grads)
    weight_rows = saved.keys.new_zeros(torch.get_num_threads(), 18 * hidden)
    tensors = {"starts": first_rows(counts), **saved._asdict(), **norms._asdict(), **row_grads._asdict()}
    tensors |= {"input_grads": input_grads, "sums": weight_rows}
    # What the two functions of a step pass to each other, and to the step before.
    tensors |= {"score_grads": torch.empty_like(row_grads.slot_grads)}
    tensors |= {"read_grads": saved.keys.new_empty(total, 2 * hidden)}
    tensors |= {"carried": saved.keys.new_empty(columns, 2 * hidden)}
    layer = layer_struct(tensors, shape, products.gates.dtype)

    through: Tensor | None = None
    for t, now in reversed(list(enumerate(slices(counts)))):
        call(library.read_cell_backward, layer, t, len(counts), outputs[t], through)
        call(library.read_attend_backward, layer, t, products.gates(row_grads.recurrent_grads[now]))
        through = products.key(row_grads.key_grads_half[now])
    if through is None or not needs_tape:
        return ChunkGradients(None, input_grads, weight_rows)
    tape_grads = saved.keys.new_empty(columns, slots, 2 * hidden)
    call(library.read_tape_backward, layer, len(counts), tape_grads)
    mask = saved.key_input_mask
    tape_grads[: counts[0], -1, :hidden] += through if mask is None else through * mask[: counts[0]]
    return ChunkGradients(tape_grads, input_grads, weight_rows)
