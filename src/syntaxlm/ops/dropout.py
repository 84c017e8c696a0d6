"""Dropout. Four entries share one 64-bit random number: Bernoulli sampling would take a twelfth of a PRPN step.

So rates are rounded to multiples of 2^-16; scales use the rounded rate, and the expected value of a mask is exactly 1.
Compiled, forward and backward are one pass each, and backward keeps the random bits instead of a mask.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from syntaxlm.ops.backend import applied, call, kernels

_RATE_LEVELS = 1 << 16  # rates are multiples of 1 / _RATE_LEVELS


def dropout_mask(shape: tuple[int, ...], rate: float, like: Tensor) -> Tensor:
    """Return a mask that is 0 with probability `rate`, else 1 / (1 - rate), with the dtype and device of `like`."""
    kept_levels = round((1 - rate) * _RATE_LEVELS)
    if kept_levels in (0, _RATE_LEVELS):
        return like.new_full(shape, kept_levels / _RATE_LEVELS)
    return _masked(None, _random_bits(math.prod(shape), like.device), kept_levels, like.new_empty(shape))


def drop(values: Tensor, rate: float) -> Tensor:
    """Set entries to 0 with probability `rate` and scale the others to keep the mean."""
    kept_levels = round((1 - rate) * _RATE_LEVELS)
    if kept_levels in (0, _RATE_LEVELS):
        return values * (kept_levels / _RATE_LEVELS)
    result: Tensor = applied(_Dropout, values, kept_levels)
    return result


class _Dropout(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor, kept_levels: int) -> Tensor:
        bits = _random_bits(values.numel(), values.device)
        ctx.save_for_backward(bits)
        ctx.kept_levels = kept_levels
        values = values.contiguous()
        return _masked(values, bits, kept_levels, torch.empty_like(values))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        (bits,), grad = ctx.saved_tensors, grads[0].contiguous()
        return _masked(grad, bits, ctx.kept_levels, torch.empty_like(grad)), None


def _random_bits(count: int, device: torch.device) -> Tensor:
    """Return random numbers from -2^15 to 2^15 - 1: (count,) int16."""
    bits = torch.empty((count + 3) // 4, dtype=torch.int64, device=device).random_(-(1 << 63), None)
    return bits.view(torch.int16)[:count]


def _masked(values: Tensor | None, bits: Tensor, kept_levels: int, results: Tensor) -> Tensor:
    """Write values times the mask, or the mask itself, to `results`.

    Args:
        values: any shape; None for the mask.
        bits: random numbers, one for each entry.
        kept_levels: of an entry that is kept; the rate is 1 - kept_levels / _RATE_LEVELS.
        results: of the same dtype, contiguous.
    """
    library = kernels("dropout", results.dtype) if results.device.type == "cpu" else None
    if library is not None:
        half = results.dtype == torch.bfloat16
        threads = torch.get_num_threads()
        call(library.dropout, bits, kept_levels, values, half, len(bits), results, threads)
        return results
    is_kept = bits < kept_levels - _RATE_LEVELS // 2
    mask = is_kept.to(results.dtype).mul_(_RATE_LEVELS / kept_levels).view(results.shape)
    return mask if values is None else torch.mul(values, mask, out=results)
