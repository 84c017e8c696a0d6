"""The softmax over the vocabulary, computed in parts: the logits are in memory once, in the dtype of the product.

Forward stores logits and log sum exp; backward computes the logits' gradient and the three products from it in parts.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from syntaxlm.ops.native import address, usable
from syntaxlm.ops.products import product_dtype

# Logits computed at a time. Forward is fastest if they fit in the processor's caches; in backward every part adds to
# the whole weight gradient, so few large parts are faster. Each part reads all weights: with few rows in a part, time
# would grow with the square of a large vocabulary.
FORWARD_CHUNK, FORWARD_ROWS = 1 << 21, 64
BACKWARD_CHUNK, BACKWARD_ROWS = 1 << 23, 256

_SOURCE = Path(__file__).with_name("softmax.c")


def target_log_probs(rows: Tensor, weight: Tensor, bias: Tensor, targets: Tensor) -> Tensor:
    """Return natural log-probability of each row's target under softmax(rows weight^T + bias).

    rows: (n, E); weight: (V, E); bias: (V,); targets: (n,) int64. Returns (n,) in the weight's dtype.
    """
    result: Tensor = _TargetLogProbs.apply(rows, weight, bias, targets)
    return result


class _TargetLogProbs(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, weight: Tensor, bias: Tensor, targets: Tensor) -> Tensor:
        dtype = product_dtype(weight)
        low_rows, low_weight = rows.to(dtype), weight.to(dtype)
        _check(targets, len(weight))
        library = usable(_SOURCE, dtype, weight)
        result, sums = (torch.empty(len(rows), dtype=weight.dtype, device=rows.device) for _ in range(2))
        keep = any(ctx.needs_input_grad[:3])
        kept = torch.empty(len(rows) if keep else 0, len(weight), dtype=dtype, device=rows.device)
        for part in _parts(len(rows), len(weight), FORWARD_CHUNK, FORWARD_ROWS):
            into = kept[part] if keep else torch.empty(0, dtype=dtype, device=rows.device)
            logits = torch.mm(low_rows[part], low_weight.T, out=into)
            if library is None:
                wide = logits + bias
                torch.logsumexp(wide, dim=-1, out=sums[part])
                torch.sub(wide.gather(1, targets[part, None])[:, 0], sums[part], out=result[part])
            else:
                library.softmax_forward(
                    *_shared(logits, bias, targets[part], sums[part]), address(result[part]), torch.get_num_threads()
                )
        ctx.save_for_backward(low_rows, low_weight, bias, targets, kept, sums)
        ctx.row_dtype, ctx.library = rows.dtype, library
        return result

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        grad = grads[0].contiguous()
        rows, weight, bias, targets, kept, sums = ctx.saved_tensors
        rows_grad = torch.empty_like(rows)
        weight_grad = torch.zeros(weight.shape, dtype=sums.dtype, device=weight.device)
        bias_grad = torch.zeros(len(weight), dtype=sums.dtype, device=weight.device)
        for part in _parts(len(rows), len(weight), BACKWARD_CHUNK, BACKWARD_ROWS):
            if ctx.library is None:
                logit_grad = torch.exp((kept[part] + bias).sub_(sums[part, None])).mul_(-grad[part, None])
                logit_grad.scatter_add_(1, targets[part, None], grad[part, None])
                bias_grad += logit_grad.sum(0)
                logit_grad = logit_grad.to(rows.dtype)
            else:
                logit_grad = torch.empty_like(kept[part])
                ctx.library.softmax_backward(
                    *_shared(kept[part], bias, targets[part], sums[part]), address(grad[part]), address(logit_grad),
                    address(bias_grad), torch.get_num_threads(),
                )  # fmt: skip
            torch.mm(logit_grad, weight, out=rows_grad[part])
            weight_grad += logit_grad.T @ rows[part]
        return rows_grad.to(ctx.row_dtype), weight_grad, bias_grad, None


def _parts(rows: int, width: int, elements: int, fewest: int) -> Iterator[slice]:
    """Return slices of rows, with `elements` entries each of a (rows, width) matrix, but at least `fewest` rows."""
    size = max(fewest, elements // width)
    return (slice(start, start + size) for start in range(0, rows, size))


def _check(targets: Tensor, size: int) -> None:
    """Raise IndexError for targets out of range, on the CPU: compiled code would read out of bounds. GPUs check it."""
    if targets.device.type == "cpu" and len(targets) and not 0 <= int(targets.min()) <= int(targets.max()) < size:
        raise IndexError(f"targets from {int(targets.min())} to {int(targets.max())}; expected 0 to {size - 1}")


def _shared(logits: Tensor, bias: Tensor, targets: Tensor, sums: Tensor) -> tuple[Any, ...]:
    """Return the first arguments of both C functions."""
    rows, size = (ctypes.c_int64(length) for length in logits.shape)
    half = ctypes.c_int(logits.dtype == torch.bfloat16)
    return address(logits), half, rows, size, address(bias), address(targets), address(sums)
