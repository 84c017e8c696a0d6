"""The softmax over the vocabulary: log-probabilities of targets, the logits never standing whole in memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from syntaxlm.ops.products import product_dtype

# Logits made at a time, in elements. Forward, what a processor's caches hold is fastest; backward, every part adds to
# the whole weight gradient, so that few and large ones are.
FORWARD_CHUNK = 1 << 21
BACKWARD_CHUNK = 1 << 23


class _TargetLogProbs(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, weight: Tensor, bias: Tensor, targets: Tensor) -> Tensor:
        dtype = product_dtype(weight)
        low_rows, low_weight, low_bias = rows.to(dtype), weight.to(dtype), bias.to(dtype)
        result = torch.empty(len(rows), dtype=weight.dtype, device=rows.device)
        keep = any(ctx.needs_input_grad[:3])
        kept = torch.empty(len(rows) if keep else 0, len(weight), dtype=dtype, device=rows.device)
        for part in _parts(len(rows), len(weight), FORWARD_CHUNK):
            log_probs = torch.log_softmax(linear(low_rows[part], low_weight, low_bias).to(weight.dtype), dim=-1)
            result[part] = log_probs.gather(1, targets[part, None])[:, 0]
            if keep:
                kept[part] = log_probs
        ctx.save_for_backward(low_rows, low_weight, targets, kept)
        ctx.row_dtype, ctx.weight_dtype = rows.dtype, weight.dtype
        return result

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (grad,) = grads
        rows, weight, targets, kept = ctx.saved_tensors
        rows_grad = torch.empty_like(rows)
        weight_grad = torch.zeros(weight.shape, dtype=ctx.weight_dtype, device=weight.device)
        bias_grad = torch.zeros(len(weight), dtype=ctx.weight_dtype, device=weight.device)
        for part in _parts(len(rows), len(weight), BACKWARD_CHUNK):
            scale = grad[part, None].to(rows.dtype)
            logit_grad = kept[part].exp().mul_(-scale)
            logit_grad.scatter_add_(1, targets[part, None], scale)
            torch.mm(logit_grad, weight, out=rows_grad[part])
            weight_grad += logit_grad.T @ rows[part]
            bias_grad += logit_grad.sum(0, dtype=ctx.weight_dtype)
        return rows_grad.to(ctx.row_dtype), weight_grad, bias_grad, None


def _parts(rows: int, width: int, elements: int) -> Iterator[slice]:
    """Slices of rows, `elements` entries of a (rows, width) matrix each."""
    size = max(1, elements // width)
    return (slice(start, start + size) for start in range(0, rows, size))


def target_log_probs(rows: Tensor, weight: Tensor, bias: Tensor, targets: Tensor) -> Tensor:
    """Natural log-probability of each row's target under softmax(rows weight^T + bias).

    rows: (n, E); weight: (V, E); bias: (V,); targets: (n,) int64. Returns (n,) in the weight's type.
    """
    result: Tensor = _TargetLogProbs.apply(rows, weight, bias, targets)
    return result


class Decoder(nn.Module):
    """From hidden rows to words: a linear layer and a softmax, its weight the embedding's where `tied_to` is given."""

    def __init__(self, size: int, vocabulary_size: int, tied_to: nn.Embedding | None = None) -> None:
        super().__init__()
        if tied_to is not None and tied_to.embedding_dim != size:
            raise ValueError(f"tied weights need rows of the embedding's size {tied_to.embedding_dim}, not {size}")
        self.weight = tied_to.weight if tied_to is not None else nn.Parameter(torch.empty(vocabulary_size, size))
        self.bias = nn.Parameter(torch.zeros(vocabulary_size))

    def initialise(self, spread: float) -> None:
        """Weights uniform in (-spread, spread), bias 0."""
        nn.init.uniform_(self.weight, -spread, spread)
        nn.init.zeros_(self.bias)

    def forward(self, rows: Tensor) -> Tensor:
        """Logits. (..., E) -> (..., V)."""
        return linear(rows, self.weight, self.bias)

    def log_probs(self, rows: Tensor, targets: Tensor) -> Tensor:
        """Log-probability of each row's target. (n, E), (n,) -> (n,)."""
        return target_log_probs(rows, self.weight, self.bias, targets)
