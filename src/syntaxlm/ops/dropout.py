"""Dropout. Four entries share one 64-bit random number: Bernoulli sampling would take a twelfth of a PRPN step.

So rates are rounded to multiples of 2^-16; scales use the rounded rate, and the expected value of a mask is exactly 1.
Compiled, forward and backward are one pass each, and backward keeps the random bits instead of a mask.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from syntaxlm.ops.backend import applied, call, kernels

_LEVELS = 1 << 16


def dropout_mask(shape: tuple[int, ...], rate: float, like: Tensor) -> Tensor:
    """Return a mask that is 0 with probability `rate`, else 1 / (1 - rate), with the dtype and device of `like`."""
    kept = round((1 - rate) * _LEVELS)
    if kept in (0, _LEVELS):
        return like.new_full(shape, kept / _LEVELS)
    return _masked(None, _random_bits(math.prod(shape), like.device), kept, like.new_empty(shape))


def drop(values: Tensor, rate: float) -> Tensor:
    """Set entries to 0 with probability `rate` and scale the others to keep the mean."""
    kept = round((1 - rate) * _LEVELS)
    if kept in (0, _LEVELS):
        return values * (kept / _LEVELS)
    result: Tensor = applied(_Dropout, values, kept)
    return result


class _Dropout(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor, kept: int) -> Tensor:
        bits = _random_bits(values.numel(), values.device)
        ctx.save_for_backward(bits)
        ctx.kept = kept
        values = values.contiguous()
        return _masked(values, bits, kept, torch.empty_like(values))

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        (bits,), grad = ctx.saved_tensors, grads[0].contiguous()
        return _masked(grad, bits, ctx.kept, torch.empty_like(grad)), None


def _random_bits(count: int, device: torch.device) -> Tensor:
    """Return random numbers from -2^15 to 2^15 - 1: (count,) int16."""
    bits = torch.empty((count + 3) // 4, dtype=torch.int64, device=device).random_(-(1 << 63), None)
    return bits.view(torch.int16)[:count]


def _masked(values: Tensor | None, bits: Tensor, kept: int, results: Tensor) -> Tensor:
    """Write values times the mask, or the mask itself, to `results`, which has the same dtype and is contiguous."""
    library = kernels("dropout", results.dtype) if results.device.type == "cpu" else None
    if library is not None:
        half, threads = results.dtype == torch.bfloat16, torch.get_num_threads()
        call(library.dropout, bits, kept, values, half, len(bits), results, threads)
        return results
    mask = (bits < kept - _LEVELS // 2).to(results.dtype).mul_(_LEVELS / kept).view(results.shape)
    return mask if values is None else torch.mul(values, mask, out=results)
