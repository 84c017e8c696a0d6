"""PRPN's layer norm: gain (x - mean) / (std + 1e-6) + bias, std with Bessel's correction.

nn.LayerNorm has no correction and adds its epsilon inside the square root. The fast form has one pass over each row in
forward and one in backward.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from syntaxlm.ops.backend import call, kernels, with_reference

NORM_EPSILON = 1e-6
_VARIANCE_FLOOR = 1e-24  # avoids NaN from 0 * inf for a constant row


def layer_norm_reference(rows: Tensor, gain: Tensor, bias: Tensor) -> Tensor:
    """Return `layer_norm` as in PRPN's released program, differentiated by autograd."""
    mean = rows.mean(dim=-1, keepdim=True)
    return gain * (rows - mean) / (rows.std(dim=-1, keepdim=True) + NORM_EPSILON) + bias


@with_reference(layer_norm_reference)
def layer_norm(rows: Tensor, gain: Tensor, bias: Tensor) -> Tensor:
    """Return gain * normalise(rows) + bias over the last axis. rows: (..., F), gain, bias: (F,). In the dtype of
    gain.
    """
    result: Tensor = _LayerNorm.apply(rows, gain, bias)
    return result


def normalise(rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """(x - mean) / (std + 1e-6) over the last axis, std with Bessel's correction.

    rows: (B, F). Returns the normalised rows; scale (B, 1), the factor of x - mean; and (B, 1) the factor of
    the backward's projection, (std + 1e-6) / (std (F - 1)).
    """
    size = rows.shape[-1]
    bessel = math.sqrt(size / (size - 1)) if size > 1 else math.nan
    normal, _, inverse = torch.native_layer_norm(rows, (size,), None, None, _VARIANCE_FLOOR)
    shrink = 1 / (bessel + NORM_EPSILON * inverse)
    return normal.mul_(shrink), inverse * shrink, 1 / (shrink * (bessel * (size - 1)))


def normalise_backward(grad: Tensor, normal: Tensor, scale: Tensor, factor: Tensor) -> Tensor:
    """Return the gradient of `normalise` with respect to its rows. (B, F), (B, F), (B, 1), (B, 1) -> (B, F)."""
    projection = (grad * normal).sum(-1, keepdim=True).mul_(factor)
    return torch.addcmul(grad - grad.mean(-1, keepdim=True), normal, projection, value=-1).mul_(scale)


class _LayerNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, gain: Tensor, bias: Tensor) -> Tensor:
        ctx.row_dtype = rows.dtype
        ctx.library = kernels("layer_norm", rows.dtype, gain, bias) if rows.shape[-1] > 1 else None
        if ctx.library is None:
            normal, scale, factor = normalise(rows.to(gain.dtype))
            ctx.save_for_backward(normal, scale, factor, gain)
            return torch.addcmul(bias, normal, gain)
        rows, gain, bias, threads = rows.contiguous(), gain.contiguous(), bias.contiguous(), torch.get_num_threads()
        result = torch.empty(rows.shape, dtype=gain.dtype)
        ctx.arguments = rows.dtype == torch.bfloat16, rows[..., 0].numel(), rows.shape[-1]
        kept = gain.new_empty(3, ctx.arguments[1]).unbind()  # means, scales, factors of the rows
        call(ctx.library.layer_norm_forward, rows, *ctx.arguments, gain, bias, result, *kept, threads)
        ctx.save_for_backward(rows, *kept, gain)
        return result

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        (grad,) = grads
        if ctx.library is None:
            normal, scale, factor, gain = ctx.saved_tensors
            flat = grad.flatten(0, -2)
            gain_grad = (flat * normal.flatten(0, -2)).sum(0)
            rows_grad = normalise_backward(grad * gain, normal, scale, factor)
            return rows_grad.to(ctx.row_dtype), gain_grad, flat.sum(0)
        rows, *kept, gain = ctx.saved_tensors
        threads = torch.get_num_threads()
        rows_grad, sums = torch.empty_like(rows), gain.new_zeros(threads, 2, len(gain))
        tensors = gain, grad.contiguous(), *kept, rows_grad, sums
        call(ctx.library.layer_norm_backward, rows, *ctx.arguments, *tensors, threads)
        gain_grad, bias_grad = sums.sum(0).unbind()
        return rows_grad, gain_grad, bias_grad
