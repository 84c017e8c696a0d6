"""Dropout."""

from __future__ import annotations

import math

import torch
from torch import Tensor

_LEVELS = 1 << 16


def dropout_mask(shape: tuple[int, ...], rate: float, like: Tensor) -> Tensor:
    """A mask that is 0 with probability `rate`, else 1 / (1 - rate), in the type and on the device of `like`.

    Four entries share one 64-bit random number (Bernoulli draws cost a twelfth of a PRPN step otherwise), so the rate
    is rounded to a multiple of 2^-16; the scale is that of the rounded rate, so that the mask's mean is exactly 1.
    """
    kept = round((1 - rate) * _LEVELS)
    if kept == _LEVELS:
        return like.new_ones(shape)
    if kept == 0:
        return like.new_zeros(shape)
    count = math.prod(shape)
    bits = torch.empty((count + 3) // 4, dtype=torch.int64, device=like.device).random_(-(1 << 63), None)
    below = bits.view(torch.int16)[:count] < kept - _LEVELS // 2
    return below.to(like.dtype).mul_(_LEVELS / kept).view(shape)


def dropout(values: Tensor, rate: float, training: bool) -> Tensor:
    """Each entry 0 with probability `rate`, the others scaled so that the mean stays; the identity in evaluation."""
    if not training or rate == 0:
        return values
    return values * dropout_mask(tuple(values.shape), rate, values)
