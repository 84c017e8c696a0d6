"""PRPN's layer norm: gain (x - mean) / (std + 1e-6) + bias, std with Bessel's correction.

nn.LayerNorm has no correction and adds its epsilon inside the square root. These are its parts in torch;
`memory_reader` computes it in C (kernels/norm.h).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

NORM_EPSILON = 1e-6
_VARIANCE_FLOOR = 1e-24  # avoids NaN from 0 * inf for a constant row


def layer_norm_reference(rows: Tensor, gain: Tensor, bias: Tensor) -> Tensor:
    """Return the layer norm of PRPN's released program over the last axis, differentiated by autograd.

    Args:
        rows: (..., F).
        gain: (F,).
        bias: (F,).
    """
    mean = rows.mean(dim=-1, keepdim=True)
    return gain * (rows - mean) / (rows.std(dim=-1, keepdim=True) + NORM_EPSILON) + bias


def normalise(rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """(x - mean) / (std + 1e-6) over the last axis, std with Bessel's correction.

    Args:
        rows: (B, F).

    Returns:
        The normalised rows; scale (B, 1), the factor of x - mean; and (B, 1) the factor of the backward's projection,
        (std + 1e-6) / (std (F - 1)).
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
