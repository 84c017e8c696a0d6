"""PRPN's gated memory.

Shen, Lin, Huang, Courville 2018, "Neural Language Modeling by Jointly Learning Syntax and Lexicon".
The references are the equations. `read` has a hand-written backward. Each step is two matrix products (key, gates) and
pointwise work, one pass over each row while it is in cache in C, otherwise in torch. No graph is built, and the gate
gradients of all steps are stored, so that every weight gradient is one product over the whole sequence: per-step
accumulation would rewrite a (4H, H) matrix T times. The memory is a window on one growing history that is never copied.
Its gradient is gathered over the N later steps that read it instead of scattered into it. Sequences that have ended are
excluded from later steps. `slot_gates` and `attend` have no recurrence and process all steps at once.

Shapes: T time, B batch, H hidden size, N memory slots, n real tokens. Slot k of a gate or attention at step t is step
t-1-k. Tapes (N, B, ...) have the N steps before the chunk, oldest first.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from syntaxlm.ops.backend import c_struct, call, filled, kernels, threads, with_reference
from syntaxlm.ops.layer_norm import layer_norm_reference, normalise, normalise_backward
from syntaxlm.ops.products import RepeatedProduct, product_dtype

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
    comparisons = comparison(queries[:, :, None], windows)  # (T, B, N): d_t, d_{t-1}, ...
    if not count_self:
        comparisons = torch.cat([torch.ones_like(comparisons[..., :1]), comparisons[..., 1:]], dim=-1)
    result: Tensor = _CumulativeProduct.apply(comparisons)
    return result


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


def attention_weights(scores: Tensor, gates: Tensor) -> Tensor:
    """Return structured attention, equations (9) and (10): a softmax with a gate for each slot. (..., N) each."""
    weights = torch.exp(scores - scores.max(dim=-1, keepdim=True).values) * gates
    return weights / (weights.sum(dim=-1, keepdim=True) + ATTENTION_EPSILON)


@dataclass(frozen=True)
class ReaderWeights:
    """One reading layer's recurrent weights, and the dropout masks of a forward pass (None: no dropout).

    key: (H, H), applied to h_{t-1}, None if keys do not read it; recurrent: (4H, H), applied to the attended h, rows i,
    f, g, o; recurrent_bias, gain, bias: (4H,); cell_gain, cell_bias: (H,). Masks are scaled by 1 / (1 - rate).
    key_input_mask, key_output_mask: (n, H), one per row; recurrent_mask: (H,), one for the whole batch and chunk.
    """

    key: Tensor | None
    recurrent: Tensor
    recurrent_bias: Tensor
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
        recurrent = hidden_read @ weights.recurrent.T + weights.recurrent_bias
        i, f, g, o = (input_gates[now] + layer_norm_reference(recurrent, weights.gain, weights.bias)).chunk(4, dim=-1)
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
    input_gates: (n, 4H), the layer-normalised input side of the gates i, f, g, o; input_keys: (n, H), the input side
    of the key; gates: (n, N); tapes: hidden and cell, each (N, B, H), oldest first.
    Returns hidden states (n, H); the tapes after the chunk, detached, undefined for columns that ended earlier;
    attention (n, N), detached.
    """
    recurrent = weights.recurrent
    if weights.recurrent_mask is not None:  # one mask for all steps, so it can be applied to the weight
        recurrent = recurrent * weights.recurrent_mask
    hidden, tape, attention = _MemoryRead.apply(
        input_gates, input_keys, gates, torch.cat(tapes, dim=-1), weights.key, recurrent, weights.recurrent_bias,
        weights.gain, weights.bias, weights.cell_gain, weights.cell_bias, weights.key_input_mask,
        weights.key_output_mask, tuple(counts),
    )  # fmt: skip
    hidden_tape, cell_tape = tape.chunk(2, dim=-1)
    return hidden, (hidden_tape, cell_tape), attention


class _MemoryRead(torch.autograd.Function):
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
        counts: tuple[int, ...],
    ) -> tuple[Tensor, Tensor, Tensor]:
        dtype = product_dtype(input_gates)
        (slots, batch, _), steps, (total, hidden) = tape.shape, len(counts), input_keys.shape
        library = None
        if slots <= _MAXIMUM_SLOTS and hidden > 1:
            tensors = input_gates, input_keys, gates, tape, key_weight, recurrent_weight, gain, cell_gain
            library = kernels("gated_memory", dtype, *tensors, key_input_mask, key_output_mask)
        key_weight, recurrent_weight = None if key_weight is None else key_weight.to(dtype), recurrent_weight.to(dtype)
        key_product = _product_or_zeros(key_weight, batch, recurrent_weight)
        recurrent_product = RepeatedProduct(recurrent_weight, batch, recurrent_bias.to(dtype))

        history = _history(tape, counts)
        new = input_gates.new_empty
        # Kept for backward, one row per token; in forward the steps write them.
        kept: dict[str, Tensor | None] = {
            "history": history,
            "keys": new(total, hidden),
            "attentions": new(total, slots),
            "exponentials": new(total, slots),
            "totals": new(total),
            "largest": torch.empty(total, dtype=torch.int64, device=tape.device),
            "reads": new(total, 2 * hidden),
            "activations": new(total, 4 * hidden),
            "normals": new(total, 4 * hidden),
            "scales": new(total),
            "factors": new(total),
            "cell_normals": new(total, hidden),
            "cell_scales": new(total),
            "cell_factors": new(total),
            "cell_tanhs": new(total, hidden),
            "gates": gates.flip(-1),  # oldest first
            "gain": gain.contiguous(),
            "cell_gain": cell_gain.contiguous(),
            "key_input_mask": key_input_mask,
            "key_output_mask": key_output_mask,
        }
        states = new(total, hidden)
        once: dict[str, Tensor | None] = {
            "states": states,
            "bias": bias.contiguous(),
            "cell_bias": cell_bias.contiguous(),
            "input_gates": input_gates.contiguous(),
            "input_keys": input_keys.contiguous(),
        }
        step = _step(library, kept | once, counts, dtype)
        for t in range(steps):
            attended = step.attend(t, key_product(step.before(t)))
            step.cell(t, recurrent_product(attended))

        ctx.library, ctx.counts, ctx.names = library, counts, list(kept)
        ctx.save_for_backward(*kept.values(), key_weight, recurrent_weight)
        new_tape = history[:, steps:].transpose(0, 1).contiguous()
        attention = step.tensors["attentions"].flip(-1)
        ctx.mark_non_differentiable(new_tape, attention)
        return states, new_tape, attention

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        *values, key_weight, recurrent_weight = ctx.saved_tensors
        kept = dict(zip(ctx.names, values, strict=True))
        (total, hidden), batch, dtype = kept["keys"].shape, len(kept["history"]), recurrent_weight.dtype
        key_product = _product_or_zeros(None if key_weight is None else key_weight.T, batch, recurrent_weight)
        recurrent_product = RepeatedProduct(recurrent_weight.T, batch)
        new = kept["keys"].new_empty
        made = {
            "gate_grads": new(total, 4 * hidden),
            "cell_norm_grads": new(total, hidden),
            "key_grads": new(total, hidden),
            "slot_grads": new(total, kept["attentions"].shape[1]),
            "recurrent_grads": new(total, 4 * hidden, dtype=dtype),
        }
        step = _step(ctx.library, kept | made | {"output_grads": grads[0].contiguous()}, ctx.counts, dtype)
        step.start_backward()
        through: Tensor | None = None  # the gradient of the hidden state by the next step's key product
        for t in range(len(ctx.counts) - 1, -1, -1):
            recurrent_grad = step.cell_backward(t, through)
            through = key_product(step.attend_backward(t, recurrent_product(recurrent_grad)))

        tape_grad = None
        if ctx.needs_input_grad[3]:
            assert through is not None
            tape_grad = step.tape_backward(through).transpose(0, 1)
        key_grad = None
        if key_weight is not None:
            key_grad = (made["key_grads"].to(dtype).T @ step.all_befores()).to(made["key_grads"].dtype)
        reads = kept["reads"][:, :hidden]
        bias_grad, gain_grad = step.sums(made["gate_grads"], kept["normals"])
        cell_bias_grad, cell_gain_grad = step.sums(made["cell_norm_grads"], kept["cell_normals"])
        return (
            made["gate_grads"],
            made["key_grads"],
            made["slot_grads"].flip(-1),
            tape_grad,
            key_grad,
            (made["recurrent_grads"].T @ reads.to(dtype)).to(reads.dtype),
            step.sums(made["recurrent_grads"])[0],
            gain_grad,
            bias_grad,
            cell_gain_grad,
            cell_bias_grad,
            *(None,) * 3,
        )


def _history(tape: Tensor, counts: Sequence[int]) -> Tensor:
    """Return [h ; c] of the steps before the chunk and, still undefined, of its steps: (B, N + T, 2H).

    Batch-major, so that each sequence's window is one contiguous block; zeros for steps after a sequence's end.
    """
    slots, batch, width = tape.shape
    history = tape.new_empty(batch, slots + len(counts), width)
    history[:, :slots] = tape.transpose(0, 1)
    for t in range(1, len(counts)):
        history[counts[t] : counts[t - 1], slots + t :] = 0
    history[counts[0] :, slots:] = 0
    return history


def _product_or_zeros(weight: Tensor | None, rows: int, like: Tensor) -> Callable[[Tensor], Tensor]:
    """Return a `RepeatedProduct` with a square weight; without a weight, a function that returns zeros, (n, G).

    like: (_, G), in the dtype of the products.
    """
    if weight is not None:
        return RepeatedProduct(weight, rows)
    zeros = like.new_zeros(rows, like.shape[1])
    return lambda inputs: zeros[: len(inputs)]


class _TorchStep:
    """The parts of a step between its products, forward and backward, in torch. tensors: of `_MemoryRead`, by name."""

    def __init__(self, tensors: dict[str, Any], counts: Sequence[int], dtype: torch.dtype) -> None:
        self.tensors: Any = tensors
        self.counts, self.dtype = counts, dtype
        self.starts = torch.tensor([0, *counts]).cumsum(0)
        starts = self.starts.tolist()
        self.rows = [slice(start, end) for start, end in pairwise(starts)]
        self.slots, self.hidden = (self.tensors[name].shape[1] for name in ("attentions", "keys"))
        self.root = math.sqrt(self.hidden)

    def before(self, t: int) -> Tensor:
        """Return the input of step t's key product, the masked hidden state of the step before: (r, H)."""
        before = self.tensors["history"][: self.counts[t], t + self.slots - 1, : self.hidden]
        mask = self.tensors["key_input_mask"]
        return (before if mask is None else before * mask[self.rows[t]]).to(self.dtype)

    def attend(self, t: int, product: Tensor) -> Tensor:
        """Return the attended hidden state, (r, H), input of the gates' product. product: the key's recurrent side."""
        tensors, now = self.tensors, self.rows[t]
        window = tensors["history"][: self.counts[t], t : t + self.slots]
        key = torch.add(tensors["input_keys"][now], product, out=tensors["keys"][now])
        if tensors["key_output_mask"] is not None:
            key *= tensors["key_output_mask"][now]
        scores = (window[..., : self.hidden] * key[:, None]).sum(-1).div_(self.root)
        top, tensors["largest"][now, None] = scores.max(dim=-1, keepdim=True)
        exponential = torch.exp(scores.sub_(top), out=tensors["exponentials"][now])
        weighted = exponential * tensors["gates"][now]
        total = torch.sum(weighted, dim=-1, out=tensors["totals"][now]).add_(ATTENTION_EPSILON)
        attention = torch.div(weighted, total[:, None], out=tensors["attentions"][now])
        read = tensors["reads"][now]
        torch.bmm(attention[:, None], window, out=read[:, None])
        return read[:, : self.hidden].to(self.dtype)

    def cell(self, t: int, product: Tensor) -> None:
        """Compute the LSTM of step t. product: the gates' recurrent side, (r, 4H)."""
        tensors, now, hidden = self.tensors, self.rows[t], self.hidden
        normal = self._normalise("", now, product.to(tensors["keys"].dtype))
        activation = torch.add(tensors["input_gates"][now], tensors["bias"], out=tensors["activations"][now])
        activation.addcmul_(normal, tensors["gain"])
        activation[:, : 2 * hidden].sigmoid_()
        activation[:, 2 * hidden : 3 * hidden].tanh_()
        activation[:, 3 * hidden :].sigmoid_()
        i, f, g, o = activation.chunk(4, dim=-1)
        cell = torch.addcmul(f * tensors["reads"][now, hidden:], i, g)
        normal = self._normalise("cell_", now, cell)
        tanh = torch.addcmul(tensors["cell_bias"], normal, tensors["cell_gain"], out=tensors["cell_tanhs"][now]).tanh_()
        state = tensors["history"][: self.counts[t], t + self.slots]
        state[:, :hidden] = torch.mul(o, tanh, out=tensors["states"][now])
        state[:, hidden:] = cell

    def _normalise(self, prefix: str, now: slice, values: Tensor) -> Tensor:
        """Return normalised rows; they are kept with the numbers that backward needs."""
        results = normalise(values)
        for name, result in zip(("normals", "scales", "factors"), results, strict=True):
            kept = self.tensors[prefix + name][now]
            kept.copy_(result.view_as(kept))
        return results[0]

    def _normalise_backward(self, prefix: str, now: slice, grad: Tensor) -> Tensor:
        normal, scale, factor = (self.tensors[prefix + name][now] for name in ("normals", "scales", "factors"))
        return normalise_backward(grad, normal, scale[:, None], factor[:, None])

    def start_backward(self) -> None:
        """Allocate what collects the gradients of the memory.

        Step t + q reads history position t through entry slots - q of its row. Gradients are stored skewed, so that the
        later readers of a position are one contiguous window. Rows past the end stay 0: nothing is read there.
        """
        history, slots, steps = self.tensors["history"], self.slots, len(self.counts)
        batch = len(history)
        self._read_grads = history.new_zeros(batch, slots + steps + slots, 2 * self.hidden)
        self._later_keys = history.new_zeros(batch, slots + steps + slots, self.hidden)
        self._read_weights, self._key_weights = history.new_zeros(2, batch, slots + steps, slots).unbind()
        self._readers = _skewed(self._read_weights), _skewed(self._key_weights)

    def _memory_grad(self, position: int, count: int) -> Tensor:
        """Return gradient of [h ; c] at a history position, from the attention of all later steps: (count, 2H)."""
        row, later = slice(position, position + 1), slice(position + 1, position + 1 + self.slots)
        grad = torch.bmm(self._read_weights[:count, row], self._read_grads[:count, later])[:, 0]
        grad[:, : self.hidden] += torch.bmm(self._key_weights[:count, row], self._later_keys[:count, later])[:, 0]
        return grad

    def cell_backward(self, t: int, product: Tensor | None) -> Tensor:
        """Return the gradient of the gates' recurrent side, (r, 4H), in the dtype of products.

        product: the gradient of the input of the next step's key product; None at the last step.
        """
        tensors, now, hidden, count = self.tensors, self.rows[t], self.hidden, self.counts[t]
        grad = self._memory_grad(t + self.slots, count)
        hidden_grad = grad[:, :hidden].add_(tensors["output_grads"][now])
        if product is not None:
            self._add_before(hidden_grad, t + 1, product)
        i, f, g, o = tensors["activations"][now].chunk(4, dim=-1)
        tanh, gate_grad = tensors["cell_tanhs"][now], tensors["gate_grads"][now]
        i_grad, f_grad, g_grad, o_grad = gate_grad.chunk(4, dim=-1)
        torch.mul(hidden_grad * tanh, o.square().sub_(o).neg_(), out=o_grad)
        norm_grad = torch.mul(hidden_grad * o, tanh.square().neg_().add_(1), out=tensors["cell_norm_grads"][now])
        cell_grad = self._normalise_backward("cell_", now, norm_grad * tensors["cell_gain"]).add_(grad[:, hidden:])
        torch.mul(cell_grad * g, i.square().sub_(i).neg_(), out=i_grad)
        torch.mul(cell_grad * tensors["reads"][now, hidden:], f.square().sub_(f).neg_(), out=f_grad)
        torch.mul(cell_grad * i, g.square().neg_().add_(1), out=g_grad)
        torch.mul(cell_grad, f, out=self._read_grads[:count, t + self.slots, hidden:])
        tensors["recurrent_grads"][now] = self._normalise_backward("", now, gate_grad * tensors["gain"])
        recurrent_grad: Tensor = tensors["recurrent_grads"][now]
        return recurrent_grad

    def attend_backward(self, t: int, product: Tensor) -> Tensor:
        """Return the gradient of the key's recurrent side, (r, H), in the dtype of products.

        product: the gradient of the attended hidden state.
        """
        tensors, now, count = self.tensors, self.rows[t], self.counts[t]
        window, attention, total = (
            tensors["history"][:count, t : t + self.slots], tensors["attentions"][now], tensors["totals"][now, None]
        )  # fmt: skip
        read_grad = self._read_grads[:count, t + self.slots]
        read_grad[:, : self.hidden] = product
        attention_grad = (window * read_grad[:, None]).sum(-1)
        mean = (attention_grad * attention).sum(-1, keepdim=True)
        weighted_grad = attention_grad.sub_(mean).div_(total)
        slot_grad = torch.mul(weighted_grad, tensors["exponentials"][now], out=tensors["slot_grads"][now])
        score_grad = slot_grad * tensors["gates"][now]
        largest, of_largest = tensors["largest"][now, None], mean.mul_(-ATTENTION_EPSILON).div_(total)
        score_grad.scatter_add_(-1, largest, of_largest).div_(self.root)
        key_grad = torch.bmm(score_grad[:, None], window[..., : self.hidden])[:, 0]
        if tensors["key_output_mask"] is not None:
            key_grad *= tensors["key_output_mask"][now]
        tensors["key_grads"][now] = key_grad
        self._readers[0][:count, t], self._readers[1][:count, t] = attention, score_grad
        self._later_keys[:count, t + self.slots] = tensors["keys"][now]
        return key_grad.to(self.dtype)

    def _add_before(self, grads: Tensor, t: int, product: Tensor) -> None:
        """Add the gradient of the input of step t's key product to that of hidden states. (at least r, H), (r, H)"""
        mask = self.tensors["key_input_mask"]
        grads[: len(product)] += product if mask is None else product * mask[self.rows[t]]

    def tape_backward(self, product: Tensor) -> Tensor:
        """Return the gradient of the tape, (B, N, 2H). product: as in `cell_backward`, of the first step."""
        batch = len(self.tensors["history"])
        grads = torch.stack([self._memory_grad(position, batch) for position in range(self.slots)], dim=1)
        self._add_before(grads[:, -1, : self.hidden], 0, product)
        return grads

    def all_befores(self) -> Tensor:
        """Return the inputs of all key products, (n, H), in the dtype of products."""
        return torch.cat([_TorchStep.before(self, t) for t in range(len(self.counts))])

    def sums(self, grads: Tensor, normals: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Return sums over rows of grads and of grads * normals, (n, F) -> (F,) each; undefined without normals."""
        dtype = self.tensors["keys"].dtype
        return grads.sum(0, dtype=dtype), grads[0] if normals is None else (grads * normals).sum(0)


def _skewed(rows: Tensor) -> Tensor:
    """Return a view (B, T, N) of rows (B, N + T, N): entry (t, k) is entry N - 1 - k of row t + k.

    Step t reads history position t + k in its window's place k; position p is then read by step p + 1 + (N - 1 - k).
    """
    batch, length, slots = rows.shape
    stride = rows.stride()
    return rows.as_strided(
        (batch, length - slots, slots), (stride[0], stride[1], stride[1] - 1), rows.storage_offset() + slots - 1
    )


_Layer = c_struct(
    "hidden slots columns length",
    "starts history keys attentions exponentials totals largest reads activations normals scales factors cell_normals"
    " cell_scales cell_factors cell_tanhs states gates gain bias cell_gain cell_bias key_input_mask key_output_mask"
    " input_gates input_keys output_grads gate_grads cell_norm_grads key_grads slot_grads score_grads read_grads"
    " recurrent_grads key_grads_half carried",
)


class _CompiledStep(_TorchStep):
    """The same in C (kernels/gated_memory.c)."""

    def __init__(
        self, library: ctypes.CDLL, tensors: dict[str, Any], counts: Sequence[int], dtype: torch.dtype
    ) -> None:
        super().__init__(tensors, counts, dtype)
        self._library = library
        self._fill()
        before, attended = torch.empty(2, len(self.tensors["history"]), self.hidden, dtype=dtype).unbind()
        self._before, self._attended = before, attended

    def _fill(self) -> None:
        columns, length, _ = self.tensors["history"].shape
        tensors = {"starts": self.starts, **self.tensors}
        sizes = {"hidden": self.hidden, "slots": self.slots, "columns": columns, "length": length}
        self._layer = filled(_Layer, tensors, **sizes, half=self.dtype == torch.bfloat16)

    def before(self, t: int) -> Tensor:
        if t == 0:  # `cell` writes those of later steps
            call(self._library.read_before, self._layer, t, self._before)
        return self._before[: self.counts[t]]

    def attend(self, t: int, product: Tensor) -> Tensor:
        call(self._library.read_attend, self._layer, t, product, self._attended)
        return self._attended[: self.counts[t]]

    def cell(self, t: int, product: Tensor) -> None:
        call(self._library.read_cell, self._layer, t, int(t == len(self.counts) - 1), product, self._before)

    def start_backward(self) -> None:
        tensors, dtype = self.tensors, self.dtype
        key_grads, slot_grads, reads = tensors["key_grads"], tensors["slot_grads"], tensors["reads"]
        tensors["score_grads"], tensors["read_grads"] = torch.empty_like(slot_grads), torch.empty_like(reads)
        low = torch.empty_like(key_grads, dtype=dtype) if dtype == torch.bfloat16 else key_grads
        tensors["key_grads_half"], tensors["carried"] = low, reads.new_empty(len(tensors["history"]), 2 * self.hidden)
        self._fill()

    def cell_backward(self, t: int, product: Tensor | None) -> Tensor:
        call(self._library.read_cell_backward, self._layer, t, len(self.counts), product)
        recurrent_grad: Tensor = self.tensors["recurrent_grads"][self.rows[t]]
        return recurrent_grad

    def attend_backward(self, t: int, product: Tensor) -> Tensor:
        call(self._library.read_attend_backward, self._layer, t, product)
        key_grad: Tensor = self.tensors["key_grads_half"][self.rows[t]]
        return key_grad

    def tape_backward(self, product: Tensor) -> Tensor:
        history = self.tensors["history"]
        grads = history.new_empty(len(history), self.slots, 2 * self.hidden)
        call(self._library.read_tape_backward, self._layer, len(self.counts), grads)
        self._add_before(grads[:, -1, : self.hidden], 0, product)
        return grads

    def sums(self, grads: Tensor, normals: Tensor | None = None) -> tuple[Tensor, Tensor]:
        sums, products = torch.empty(2, grads.shape[1]).unbind()
        half = grads.dtype == torch.bfloat16
        call(self._library.read_sums, grads, half, normals, *grads.shape, sums, products, threads())
        return sums, products


def _step(
    library: ctypes.CDLL | None, tensors: dict[str, Any], counts: Sequence[int], dtype: torch.dtype
) -> _TorchStep:
    return _TorchStep(tensors, counts, dtype) if library is None else _CompiledStep(library, tensors, counts, dtype)


def attend_reference(keys: Tensor, gates: Tensor, states: Tensor, tape: Tensor) -> tuple[Tensor, Tensor]:
    """Return `attend` step by step."""
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


@with_reference(attend_reference)
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
    weights = attention_weights(_band(scores, slots), gates.transpose(0, 1).flip(-1))
    attended = torch.bmm(_unband(weights).to(memory.dtype), memory)
    return attended.transpose(0, 1), weights.transpose(0, 1).flip(-1)


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
