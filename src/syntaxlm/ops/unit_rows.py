"""Rows divided by their length.

The backward of torch's `normalize` passes over the rows about eight times, which is slow for the embeddings of all
words. `unit_rows` keeps the result and the inverse lengths, and needs three passes.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import normalize

from syntaxlm.ops.backend import applied, with_reference

_LEAST_LENGTH = 1e-12


def unit_rows_reference(rows: Tensor) -> Tensor:
    """Return `unit_rows`, differentiated by autograd."""
    return normalize(rows, dim=-1, eps=_LEAST_LENGTH)


@with_reference(unit_rows_reference)
def unit_rows(rows: Tensor) -> Tensor:
    """Divide vectors by their Euclidean length, or by 1e-12 if that is more: (..., d) -> (..., d)."""
    result: Tensor = applied(_UnitRows, rows)
    return result


class _UnitRows(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor) -> Tensor:
        inverse = torch.linalg.vector_norm(rows, dim=-1, keepdim=True).clamp_min(_LEAST_LENGTH).reciprocal()
        result = rows * inverse
        ctx.save_for_backward(result, inverse)
        return result

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        result, inverse = ctx.saved_tensors
        along = (grads[0] * result).sum(-1, keepdim=True)
        return torch.addcmul(grads[0], result, along, value=-1).mul_(inverse)
