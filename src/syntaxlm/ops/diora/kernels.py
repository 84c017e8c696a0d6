"""What the passes compute between matrix products, for all pairs of one width: in torch, and by the C functions.

Shapes: B sentences, S spans, D features, K pairs of each of m spans. Charts are (B, S, ...), pairs (B, K * m, ...).
"""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from syntaxlm.ops.diora.levels import Level
from syntaxlm.ops.native import address, usable

SOURCE = Path(__file__).with_name("diora.c")


class Operands(NamedTuple):
    """What pairs of one pass are composed from.

    first: (B, S, 2D), of a span as the first of a pair: F = W_1 h + b, then Q = S^T h.  first_scores: (B, S).
    second: (B, S, D), of a span as the second of a pair: G = W_2 h.  vectors: (B, S, D), h of the second span.
    second_scores: (B, S).
    The same class has their gradients; those of `vectors` are from the scores alone.
    """

    first: Tensor
    first_scores: Tensor
    second: Tensor
    vectors: Tensor
    second_scores: Tensor


class Kernels(Protocol):
    """The functions of one level."""

    def combine(self, level: Level, operands: Operands) -> tuple[Tensor, Tensor]:
        """relu(F + G) of all pairs, (B, K * m, D), and their scores Q . h + scores of both spans, (B, K * m)."""

    def mix(self, level: Level, product: Tensor, weights: Tensor) -> Tensor:
        """The weighted sum of relu(product) over the pairs of each span: (B, K * m, D), (B, K * m) -> (B, m, D)."""

    def mix_backward(self, level: Level, product: Tensor, weights: Tensor, grads: Tensor) -> tuple[Tensor, Tensor]:
        """Gradients of `product`, which may be overwritten by them, and of `weights`."""

    def combine_backward(
        self, level: Level, operands: Operands, hidden: Tensor, hidden_grads: Tensor, score_grads: Tensor, into: Operands
    ) -> None:
        """Adds the gradients of the operands to `into`."""


class EagerKernels:
    """In torch, on any device and in any dtype."""

    def combine(self, level: Level, operands: Operands) -> tuple[Tensor, Tensor]:
        size = operands.vectors.shape[2]
        first = operands.first[:, level.firsts]
        hidden = (first[..., :size] + operands.second[:, level.seconds]).relu_()
        scores = (first[..., size:] * operands.vectors[:, level.seconds]).sum(-1)
        scores += operands.first_scores[:, level.firsts] + operands.second_scores[:, level.seconds]
        return hidden, scores

    def mix(self, level: Level, product: Tensor, weights: Tensor) -> Tensor:
        split = level.ways, level.cells
        return (product.relu().unflatten(1, split) * weights.unflatten(1, split)[..., None]).sum(1)

    def mix_backward(self, level: Level, product: Tensor, weights: Tensor, grads: Tensor) -> tuple[Tensor, Tensor]:
        positive = product.unflatten(1, (level.ways, level.cells)).relu()
        weight_grads = (positive * grads[:, None]).sum(-1).flatten(1)
        products = weights.view(positive.shape[:-1])[..., None] * grads[:, None] * (positive > 0)
        return products.flatten(1, 2).to(product.dtype), weight_grads

    def combine_backward(
        self, level: Level, operands: Operands, hidden: Tensor, hidden_grads: Tensor, score_grads: Tensor, into: Operands
    ) -> None:
        size = operands.vectors.shape[2]
        grads = hidden_grads.to(into.second.dtype) * (hidden > 0)
        into.first[..., :size].index_add_(1, level.firsts, grads)
        into.second.index_add_(1, level.seconds, grads)
        scores = score_grads[..., None]
        into.first[..., size:].index_add_(1, level.firsts, scores * operands.vectors[:, level.seconds])
        into.vectors.index_add_(1, level.seconds, scores * operands.first[:, level.firsts, size:])
        into.first_scores.index_add_(1, level.firsts, score_grads)
        into.second_scores.index_add_(1, level.seconds, score_grads)


class _Level(ctypes.Structure):
    """The struct `Level` of diora.c."""

    _fields_ = (
        *((name, ctypes.c_int64) for name in ("columns", "spans", "size", "pairs", "ways", "cells")),
        ("half", ctypes.c_int),
        ("threads", ctypes.c_int),
        ("firsts", ctypes.c_void_p),
        ("seconds", ctypes.c_void_p),
    )


class NativeKernels:
    """The functions of diora.c: float32 on the CPU, products in float32 or bfloat16."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self.library = library

    def combine(self, level: Level, operands: Operands) -> tuple[Tensor, Tensor]:
        columns, _, size = operands.vectors.shape
        hidden = operands.first.new_empty(columns, level.pairs, size)
        scores = operands.vectors.new_empty(columns, level.pairs)
        first, first_scores, second, vectors, second_scores = operands
        self._call(
            "diora_combine", level, operands.vectors, hidden.dtype,
            first, second, vectors, first_scores, second_scores, hidden, scores,
        )  # fmt: skip
        return hidden, scores

    def mix(self, level: Level, product: Tensor, weights: Tensor) -> Tensor:
        mixed = weights.new_empty(len(product), level.cells, product.shape[2])
        self._call("diora_mix", level, product, product.dtype, product, weights.contiguous(), mixed)
        return mixed

    def mix_backward(self, level: Level, product: Tensor, weights: Tensor, grads: Tensor) -> tuple[Tensor, Tensor]:
        weight_grads = torch.empty_like(weights)
        self._call(
            "diora_mix_backward", level, product, product.dtype, product, weights, grads.contiguous(), weight_grads
        )
        return product, weight_grads

    def combine_backward(
        self, level: Level, operands: Operands, hidden: Tensor, hidden_grads: Tensor, score_grads: Tensor, into: Operands
    ) -> None:
        self._call(
            "diora_combine_backward", level, operands.vectors, hidden.dtype,
            operands.first, operands.vectors, hidden, hidden_grads, score_grads,
            into.first, into.second, into.vectors, into.first_scores, into.second_scores,
        )  # fmt: skip

    def _call(self, name: str, level: Level, like: Tensor, dtype: torch.dtype, *tensors: Tensor) -> None:
        """like: a tensor (B, S, D), or (B, pairs, D) for functions that read no charts."""
        columns, spans, size = like.shape
        given = _Level(
            columns, spans, size, level.pairs, level.ways, level.cells, dtype == torch.bfloat16, torch.get_num_threads(),
            address(level.firsts), address(level.seconds),
        )  # fmt: skip
        getattr(self.library, name)(ctypes.byref(given), *map(address, tensors))


def kernels_for(product: torch.dtype, leaves: Tensor) -> Kernels:
    """The C functions if they can be used, otherwise torch.  product: dtype of the products."""
    library = usable(SOURCE, product, leaves)
    return EagerKernels() if library is None else NativeKernels(library)
