"""Softmax of a matrix product, whose backward only keeps the probabilities: used for the rules of a grammar."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from syntaxlm.ops.products import product_dtype


def product_softmax(rows: Tensor, columns: Tensor) -> Tensor:
    """Return softmax over k of rows . columns_k: (n, d), (k, d) -> (n, k), in the dtype of `rows`.

    The product is computed in autocast's dtype.
    """
    dtype = product_dtype(rows)
    with torch.autocast(rows.device.type, enabled=False):
        result: Tensor = _ProductSoftmax.apply(rows, columns, dtype)
    return result


class _ProductSoftmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, columns: Tensor, dtype: torch.dtype) -> Tensor:
        low_rows, low_columns = rows.to(dtype), columns.to(dtype)
        shares = torch.softmax(torch.mm(low_rows, low_columns.T).to(rows.dtype), dim=1)
        ctx.save_for_backward(low_rows, low_columns, shares)
        return shares

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        rows, columns, shares = ctx.saved_tensors
        logits = torch._softmax_backward_data(grads[0], shares, 1, shares.dtype).to(rows.dtype)
        dtype = shares.dtype
        return torch.mm(logits, columns).to(dtype), torch.mm(logits.T, rows).to(dtype), None
