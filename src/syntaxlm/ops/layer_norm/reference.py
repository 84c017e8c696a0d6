"""PRPN's layer norm as in its authors' program, differentiated by autograd: the reference of the fast version."""

from __future__ import annotations

from torch import Tensor

NORM_EPSILON = 1e-6


def layer_norm(rows: Tensor, gain: Tensor, bias: Tensor) -> Tensor:
    """Return gain (x - mean) / (std + 1e-6) + bias, std with Bessel's correction, over the last axis."""
    mean = rows.mean(dim=-1, keepdim=True)
    return gain * (rows - mean) / (rows.std(dim=-1, keepdim=True) + NORM_EPSILON) + bias
