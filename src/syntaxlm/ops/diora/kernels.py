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
    """The functions of one level. Rows of pairs are (R, D): B * K * m rows, and then rows of padding."""

    def combine(self, level: Level, operands: Operands, hidden: Tensor) -> Tensor:
        """Write relu(F + G) of all pairs into `hidden`, (R, D).

        Returns their scores Q . h + scores of both spans, (B, K * m).
        """

    def mix(self, level: Level, product: Tensor, weights: Tensor) -> Tensor:
        """Return the weighted sum of relu(product) over the pairs of each span: (R, D), (B, K * m) -> (B, m, D)."""

    def mix_backward(self, level: Level, product: Tensor, weights: Tensor, grads: Tensor) -> Tensor:
        """Replace `product` by its gradients, without padding. Returns those of `weights`."""

    def combine_backward(
        self,
        level: Level,
        operands: Operands,
        hidden: Tensor,
        hidden_grads: Tensor,
        score_grads: Tensor,
        into: Operands,
    ) -> None:
        """Add the gradients of the operands to `into`."""


class EagerKernels:
    """In torch, on any device and in any dtype."""

    def combine(self, level: Level, operands: Operands, hidden: Tensor) -> Tensor:
        size = operands.vectors.shape[2]
        first = operands.first[:, level.firsts]
        found = (first[..., :size] + operands.second[:, level.seconds]).relu_().flatten(0, 1)
        hidden[: len(found)] = found
        scores = (first[..., size:] * operands.vectors[:, level.seconds]).sum(-1)
        return scores + operands.first_scores[:, level.firsts] + operands.second_scores[:, level.seconds]

    def mix(self, level: Level, product: Tensor, weights: Tensor) -> Tensor:
        weights = weights.unflatten(1, (level.ways, level.cells))
        return (_of_pairs(product, weights).relu() * weights[..., None]).sum(1)

    def mix_backward(self, level: Level, product: Tensor, weights: Tensor, grads: Tensor) -> Tensor:
        weights = weights.unflatten(1, (level.ways, level.cells))
        rows = _of_pairs(product, weights)
        positive, grads = rows.relu(), grads[:, None]
        weight_grads = (positive * grads).sum(-1).flatten(1)
        rows.copy_(weights[..., None] * grads * (positive > 0))
        return weight_grads

    def combine_backward(
        self,
        level: Level,
        operands: Operands,
        hidden: Tensor,
        hidden_grads: Tensor,
        score_grads: Tensor,
        into: Operands,
    ) -> None:
        size = operands.vectors.shape[2]
        grads = _of_pairs(hidden_grads, score_grads).to(into.second.dtype) * (_of_pairs(hidden, score_grads) > 0)
        into.first[..., :size].index_add_(1, level.firsts, grads)
        into.second.index_add_(1, level.seconds, grads)
        scores = score_grads[..., None]
        into.first[..., size:].index_add_(1, level.firsts, scores * operands.vectors[:, level.seconds])
        into.vectors.index_add_(1, level.seconds, scores * operands.first[:, level.firsts, size:])
        into.first_scores.index_add_(1, level.firsts, score_grads)
        into.second_scores.index_add_(1, level.seconds, score_grads)


def _of_pairs(rows: Tensor, like: Tensor) -> Tensor:
    """Return a view of the rows of pairs, without padding: (R, D) -> (..., D), for pairs in the shape of `like`."""
    return rows[: like.numel()].view(*like.shape, -1)


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

    def combine(self, level: Level, operands: Operands, hidden: Tensor) -> Tensor:
        scores = operands.vectors.new_empty(len(operands.vectors), level.pairs)
        first, first_scores, second, vectors, second_scores = operands
        given = self._level(level, vectors, hidden.dtype)
        self._call("diora_combine", given, first, second, vectors, first_scores, second_scores, hidden, scores)
        return scores

    def mix(self, level: Level, product: Tensor, weights: Tensor) -> Tensor:
        mixed = weights.new_empty(len(weights), level.cells, product.shape[1])
        self._call("diora_mix", self._level(level, mixed, product.dtype), product, weights, mixed)
        return mixed

    def mix_backward(self, level: Level, product: Tensor, weights: Tensor, grads: Tensor) -> Tensor:
        weight_grads = torch.empty_like(weights)
        given = self._level(level, grads, product.dtype)
        self._call("diora_mix_backward", given, product, weights, grads.contiguous(), weight_grads)
        return weight_grads

    def combine_backward(
        self,
        level: Level,
        operands: Operands,
        hidden: Tensor,
        hidden_grads: Tensor,
        score_grads: Tensor,
        into: Operands,
    ) -> None:
        self._call(
            "diora_combine_backward", self._level(level, operands.vectors, hidden.dtype),
            operands.first, operands.vectors, hidden, hidden_grads, score_grads.contiguous(),
            into.first, into.second, into.vectors, into.first_scores, into.second_scores,
        )  # fmt: skip

    def _level(self, level: Level, like: Tensor, dtype: torch.dtype) -> _Level:
        """Return like: a chart, (B, S, D); any (B, _, D) for functions that read no chart.  dtype: of the products."""
        columns, spans, size = like.shape
        sizes = columns, spans, size, level.pairs, level.ways, level.cells
        pointers = address(level.firsts), address(level.seconds)
        return _Level(*sizes, dtype == torch.bfloat16, torch.get_num_threads(), *pointers)

    def _call(self, name: str, level: _Level, *tensors: Tensor) -> None:
        getattr(self.library, name)(ctypes.byref(level), *map(address, tensors))


def kernels_for(product: torch.dtype, leaves: Tensor) -> Kernels:
    """Return the C functions if they can be used, otherwise torch.  product: dtype of the products."""
    library = usable(SOURCE, product, leaves)
    return EagerKernels() if library is None else NativeKernels(library)
