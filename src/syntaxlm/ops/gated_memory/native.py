"""`read` on the CPU, in float32, with everything but the matrix products in compiled C (read.c).

The equations and the two products per step are those of `fast`; the work between the products is one pass over each row
while it is in cache, instead of about thirty torch calls.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from syntaxlm.ops.native import address, usable
from syntaxlm.ops.products import RepeatedProduct, product_dtype, product_of_sums, product_or_zeros

_SOURCE = Path(__file__).with_name("read.c")
_MAXIMUM_SLOTS = 64  # as in read.c

_INTEGERS = ("hidden", "slots", "columns", "length")
_POINTERS = (
    "starts", "history", "keys", "attentions", "exponentials", "totals", "largest", "reads", "activations", "normals",
    "scales", "factors", "cell_normals", "cell_scales", "cell_factors", "cell_tanhs", "states", "gates", "gain", "bias",
    "cell_gain", "cell_bias", "key_input_mask", "key_output_mask", "input_gates", "input_keys", "output_grads",
    "gate_grads", "cell_norm_grads", "key_grads", "slot_grads", "score_grads", "read_grads", "recurrent_grads",
    "key_grads_half", "carried",
)  # fmt: skip


class _Layer(ctypes.Structure):
    """The struct `Layer` of read.c, which the C functions read and write."""

    _fields_ = (
        *((name, ctypes.c_int64) for name in _INTEGERS),
        ("half", ctypes.c_int),
        ("threads", ctypes.c_int),
        *((name, ctypes.c_void_p) for name in _POINTERS),
    )


def _layer(half: bool, tensors: dict[str, Any]) -> _Layer:
    """Return the struct over contiguous tensors, which must outlive it."""
    columns, length, width = tensors["history"].shape
    return _Layer(
        hidden=width // 2,
        slots=tensors["gates"].shape[1],
        columns=columns,
        length=length,
        half=half,
        threads=torch.get_num_threads(),
        **{name: address(tensor) for name, tensor in tensors.items()},
    )


def library_for(slots: int, hidden: int, inputs: Tensor, *others: Tensor | None) -> ctypes.CDLL | None:
    """Return the compiled functions if they support these tensors; else None."""
    if slots > _MAXIMUM_SLOTS or hidden < 2:
        return None
    return usable(_SOURCE, product_dtype(inputs), inputs, *others)


class NativeRead(torch.autograd.Function):
    """Like `fast._Read`, with the library as an additional first argument."""

    @staticmethod
    def forward(
        ctx: Any,
        library: ctypes.CDLL,
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
        counts: Sequence[int],
    ) -> tuple[Tensor, Tensor, Tensor]:
        dtype = product_dtype(input_gates)
        total, width = input_gates.shape
        (slots, batch, _), steps, hidden = tape.shape, len(counts), width // 4
        new = input_gates.new_empty
        recurrent_weight = recurrent_weight.to(dtype)
        key_weight = None if key_weight is None else key_weight.to(dtype)
        key_product = product_or_zeros(key_weight, batch, recurrent_weight)
        recurrent_product = RepeatedProduct(recurrent_weight, batch, recurrent_bias.to(dtype))

        history = new(batch, slots + steps, 2 * hidden)
        history[:, :slots] = tape.transpose(0, 1)
        for t in range(1, steps):
            history[counts[t] : counts[t - 1], slots + t :] = 0  # sequences that have ended
        starts = torch.tensor([0, *counts]).cumsum(0)
        kept: dict[str, Any] = {  # the masks may be None
            "starts": starts,
            "history": history,
            "keys": new(total, hidden),
            "attentions": new(total, slots),
            "exponentials": new(total, slots),
            "totals": new(total),
            "largest": starts.new_empty(total),
            "reads": new(total, 2 * hidden),
            "activations": new(total, width),
            "normals": new(total, width),
            "scales": new(total),
            "factors": new(total),
            "cell_normals": new(total, hidden),
            "cell_scales": new(total),
            "cell_factors": new(total),
            "cell_tanhs": new(total, hidden),
            "gates": gates.flip(-1),
            "gain": gain.contiguous(),
            "cell_gain": cell_gain.contiguous(),
            "key_input_mask": key_input_mask,
            "key_output_mask": key_output_mask,
        }
        states = new(total, hidden)
        once = {
            "states": states,
            "bias": bias.contiguous(),
            "cell_bias": cell_bias.contiguous(),
            "input_gates": input_gates.contiguous(),
            "input_keys": input_keys.contiguous(),
        }
        layer = _layer(dtype == torch.bfloat16, kept | once)
        at = ctypes.byref(layer)
        before, attended = (torch.empty(batch, hidden, dtype=dtype) for _ in range(2))
        library.read_before(at, ctypes.c_int64(0), address(before))
        for t, count in enumerate(counts):
            step = ctypes.c_int64(t)
            product = key_product(before[:count])
            library.read_attend(at, step, address(product), address(attended))
            product = recurrent_product(attended[:count])
            library.read_cell(at, step, ctypes.c_int64(t == steps - 1), address(product), address(before))

        ctx.library, ctx.counts, ctx.kept_names = library, counts, list(kept)
        ctx.save_for_backward(*kept.values(), key_weight, recurrent_weight)
        new_tape = history[:, steps:].transpose(0, 1).contiguous()
        newest_first = kept["attentions"].flip(-1)
        ctx.mark_non_differentiable(new_tape, newest_first)
        return states, new_tape, newest_first

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        *values, key_weight, recurrent_weight = ctx.saved_tensors
        kept = dict(zip(ctx.kept_names, values, strict=True))
        library, counts, dtype = ctx.library, ctx.counts, recurrent_weight.dtype
        history, reads, normals = kept["history"], kept["reads"], kept["normals"]
        steps, batch = len(counts), len(history)
        (total, hidden), slots = kept["keys"].shape, kept["attentions"].shape[1]
        new, half = history.new_empty, dtype == torch.bfloat16
        key_product = product_or_zeros(None if key_weight is None else key_weight.T, batch, recurrent_weight)
        recurrent_product = RepeatedProduct(recurrent_weight.T, batch)

        key_grads, gate_grads = new(total, hidden), new(total, 4 * hidden)
        made = {
            "gate_grads": gate_grads,
            "cell_norm_grads": new(total, hidden),
            "key_grads": key_grads,
            "slot_grads": new(total, slots),
            "score_grads": new(total, slots),
            "read_grads": new(total, 2 * hidden),
            "recurrent_grads": torch.empty(total, 4 * hidden, dtype=dtype),
            "key_grads_half": torch.empty(total, hidden, dtype=dtype) if half else key_grads,
            "carried": new(batch, 2 * hidden),
        }
        once = {"output_grads": grads[0].contiguous()}
        layer = _layer(half, kept | made | once)
        at, size = ctypes.byref(layer), ctypes.c_int64(steps)
        recurrent_grads, key_grads_half = made["recurrent_grads"], made["key_grads_half"]
        product: Tensor | None = None
        start = total
        for t in range(steps - 1, -1, -1):
            now = slice(start := start - counts[t], start + counts[t])
            step = ctypes.c_int64(t)
            library.read_cell_backward(at, step, size, address(product))
            read_grad = recurrent_product(recurrent_grads[now])
            library.read_attend_backward(at, step, address(read_grad))
            product = key_product(key_grads_half[now])

        tape_grad = None
        if ctx.needs_input_grad[4]:
            tape_grads = new(batch, slots, 2 * hidden)
            library.read_tape_backward(at, size, address(tape_grads))
            assert product is not None
            last = product.to(new(0).dtype)
            if kept["key_input_mask"] is not None:
                last = last * kept["key_input_mask"][: counts[0]]
            tape_grads[: counts[0], -1, :hidden] += last
            tape_grad = tape_grads.transpose(0, 1)

        befores = _befores(history, kept["starts"], slots, hidden)
        if kept["key_input_mask"] is not None:
            befores = befores * kept["key_input_mask"]
        bias_grad, gain_grad = _sums(library, gate_grads, normals)
        cell_bias_grad, cell_gain_grad = _sums(library, made["cell_norm_grads"], kept["cell_normals"])
        return (
            None,
            gate_grads,
            key_grads,
            made["slot_grads"].flip(-1),
            tape_grad,
            None if key_weight is None else product_of_sums(key_grads_half, befores),
            product_of_sums(recurrent_grads, reads[:, :hidden]),
            _sums(library, recurrent_grads)[0],
            gain_grad,
            bias_grad,
            cell_gain_grad,
            cell_bias_grad,
            *(None,) * 3,
        )


def _befores(history: Tensor, starts: Tensor, slots: int, hidden: int) -> Tensor:
    """Return h of the step before each row: (n, H)."""
    steps = torch.repeat_interleave(torch.arange(len(starts) - 1), starts.diff())
    columns = torch.arange(len(steps)) - starts[steps]
    return history[columns, steps + (slots - 1), :hidden]


def _sums(library: ctypes.CDLL, grads: Tensor, normals: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Return sums over rows of grads and of grads * normals, (n, F) -> (F,) each; the latter undefined without
    normals.
    """
    count, size = (ctypes.c_int64(length) for length in grads.shape)
    sums, products = torch.empty(2, grads.shape[1]).unbind()
    half = ctypes.c_int(grads.dtype == torch.bfloat16)
    addresses = address(normals), count, size, address(sums), address(products)
    library.read_sums(address(grads), half, *addresses, torch.get_num_threads())
    return sums, products
