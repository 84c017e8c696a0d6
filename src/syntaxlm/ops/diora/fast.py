"""DIORA's inside and outside passes over a batch of sentences of one length.

All splits of all spans of one width are composed together, with one product. What depends on one span only is computed
once per span and not once per split: both halves of the first layer, and S^T h of the bilinear scores. Only the ReLU of
their sums, the second layer and the weighted mean are per split. `_Passes` has its own backward pass: an autograd
graph per width would copy the charts and add up weight gradients in small products.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import linear

from syntaxlm.ops.diora.kernels import Operands, kernels_for
from syntaxlm.ops.diora.levels import Level, inside_levels, outside_levels, span_count
from syntaxlm.ops.diora.reference import TINY
from syntaxlm.ops.diora.types import Composition
from syntaxlm.ops.products import product_dtype


def inside(leaves: Tensor, composition: Composition) -> Tensor:
    """Return the inside vectors of whole sentences: (B, D).

    leaves: (B, n, D), the inside vectors of the words, of norm 1.
    """
    vectors: Tensor = _Passes.apply(leaves, None, *composition)
    return vectors


def outside(leaves: Tensor, root: Tensor, composition: Composition, outer: Composition | None = None) -> Tensor:
    """Return the outside vectors of words, from the inside and the outside pass: (B, n, D).

    leaves: (B, n, D), the inside vectors of the words, of norm 1.
    root: (D,), the outside vector of a sentence, of norm 1.
    composition: of the inside pass.  outer: of the outside pass; None: the same one.
    """
    vectors: Tensor = _Passes.apply(leaves, root, *composition, *(outer or ()))
    return vectors


@torch.no_grad()
def split_scores(leaves: Tensor, composition: Composition) -> Tensor:
    """Return the scores of all splits of all spans in the inside pass: (C(n + 1, 3), B), in the order of
    `ops.charts`.
    """
    steps = _inside(leaves, _Composer(composition, leaves), keep=False).steps
    return torch.cat([step.scores for step in steps], 1).T if steps else leaves.new_empty(0, len(leaves))


class _Step(NamedTuple):
    """What a level's backward pass needs, for K pairs of each of m spans.

    hidden: (R, D), the second layer's input; product: (R, D), its output before the ReLU. The first B * K * m rows are
        pairs, the others are padding. Both are empty if no backward pass follows.
    scores, weights: (B, K * m).  norms: (B, m, 1).
    """

    hidden: Tensor
    product: Tensor
    scores: Tensor
    weights: Tensor
    norms: Tensor


class _Chart(NamedTuple):
    """The results of a pass. vectors: (B, S, D).  scores: (B, S).  operands: of its pairs.  steps: one per level."""

    vectors: Tensor
    scores: Tensor
    operands: Operands
    steps: list[_Step]


def _rows(count: int, size: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Return room for `count` rows, and for padding, which is 0: (R, size).

    oneDNN, which computes bfloat16 products on the CPU, compiles a kernel for every number of rows. This takes
    milliseconds, and every length, width and number of sentences has its own number. So there are few: 8 per doubling.
    """
    padded = count
    if dtype == torch.bfloat16 and device.type == "cpu":
        step = max(16, 1 << max(0, count.bit_length() - 4))
        padded = -(-count // step) * step
    rows = torch.empty(padded, size, dtype=dtype, device=device)
    rows[count:] = 0
    return rows


def _flat(vectors: Tensor, dtype: torch.dtype) -> Tensor:
    """Return the vectors as rows, with padding: (B, m, D) -> (R, D)."""
    columns, cells, size = vectors.shape
    rows = _rows(columns * cells, size, dtype, vectors.device)
    rows[: columns * cells].view(vectors.shape).copy_(vectors)
    return rows


def _per_row(product: Callable[[Tensor], Tensor], vectors: Tensor, dtype: torch.dtype) -> Tensor:
    """Return a product with every vector: (B, m, D) -> (B, m, F)."""
    columns, cells, _ = vectors.shape
    return product(_flat(vectors, dtype))[: columns * cells].view(columns, cells, -1)


def _weight_grads(grads: Tensor, vectors: Tensor, dtype: torch.dtype) -> Tensor:
    """Return the gradient of a product's weight: (B, S, F), (B, S, D) -> (F, D)."""
    return (_flat(grads, dtype).T @ _flat(vectors, dtype)).to(grads.dtype)


class _Composer:
    """Composes vectors with one set of weights.

    first: (2D, D), with its bias, and second: (D, D): the weights of `Operands.first` and `Operands.second`.
    """

    def __init__(self, composition: Composition, leaves: Tensor) -> None:
        self.dtype = product_dtype(leaves)
        self.kernels = kernels_for(self.dtype, leaves)
        left, right = composition.first.chunk(2, 1)
        first_bias = torch.cat([composition.first_bias, torch.zeros_like(composition.first_bias)])
        self.first, self.first_bias = torch.cat([left, composition.score.T]).to(self.dtype), first_bias.to(self.dtype)
        self.second = right.contiguous().to(self.dtype)
        self.weight, self.bias = composition.second.to(self.dtype), composition.second_bias.to(self.dtype)

    def as_first(self, vectors: Tensor) -> Tensor:
        """Return `Operands.first` of spans: (B, m, D) -> (B, m, 2D)."""
        return _per_row(lambda rows: linear(rows, self.first, self.first_bias), vectors, self.dtype)

    def as_second(self, vectors: Tensor) -> Tensor:
        """Return `Operands.second` of spans: (B, m, D) -> (B, m, D)."""
        return _per_row(lambda rows: linear(rows, self.second), vectors, self.dtype)

    def compose(self, level: Level, operands: Operands, keep: bool) -> tuple[Tensor, Tensor, _Step]:
        """Return the vectors, (B, m, D), and the scores, (B, m), of a level's spans.

        keep: whether a backward pass follows.
        """
        columns, _, size = operands.vectors.shape
        hidden = _rows(columns * level.pairs, size, self.dtype, operands.vectors.device)
        scores = self.kernels.combine(level, operands, hidden)
        product = linear(hidden, self.weight, self.bias)
        weights = scores.unflatten(1, (level.ways, level.cells)).softmax(1).flatten(1)
        mixed = self.kernels.mix(level, product, weights)
        norms = mixed.norm(dim=-1, keepdim=True).clamp_(min=TINY)
        totals = (weights * scores).unflatten(1, (level.ways, level.cells)).sum(1)
        kept = (hidden, product) if keep else (hidden.new_empty(0), product.new_empty(0))
        return mixed.div_(norms), totals, _Step(*kept, scores, weights, norms)


class _Gradients:
    """The gradients of one composition, added up by the passes that use it.

    first: (B, S, 2D), of the inside spans' `Operands.first`.
    """

    def __init__(self, composer: _Composer, inner: _Chart) -> None:
        self.composer = composer
        size = inner.vectors.shape[2]
        self.first = inner.vectors.new_zeros(*inner.vectors.shape[:2], 2 * size)
        self.second_half, self.second_layer = inner.vectors.new_zeros(2, size, size)
        self.second_bias = inner.vectors.new_zeros(size)

    def of_vectors(self, first: Tensor | None, second: Tensor) -> Tensor:
        """Return gradients of spans' vectors, (B, m, D), from those of `Operands.first` and `Operands.second`."""
        composer = self.composer
        found = _per_row(lambda rows: rows @ composer.second, second, composer.dtype)
        if first is None:
            return found
        return found + _per_row(lambda rows: rows @ composer.first, first, composer.dtype)

    def add_level(
        self,
        level: Level,
        step: _Step,
        operands: Operands,
        vectors: Tensor,
        grads: Tensor,
        totals: Tensor,
        into: Operands,
    ) -> None:
        """Add the gradients of the level's operands to `into`, and those of the second layer to their sums.

        vectors: (B, m, D), of the level.  grads: of these.  totals: gradients of the spans' scores, (B, m).
        """
        kernels, split = self.composer.kernels, (level.ways, level.cells)
        grads = (grads - vectors * (vectors * grads).sum(-1, keepdim=True)) / step.norms
        rows = step.product
        of_weights = kernels.mix_backward(level, rows, step.weights, grads)
        rows[step.weights.numel() :] = 0
        weights = step.weights.unflatten(1, split)
        of_weights = of_weights.unflatten(1, split) + totals[:, None] * step.scores.unflatten(1, split)
        of_scores = weights * (of_weights - (weights * of_weights).sum(1, keepdim=True) + totals[:, None])
        self.second_layer += rows.T @ step.hidden
        self.second_bias += rows.new_ones(len(rows)) @ rows
        kernels.combine_backward(level, operands, step.hidden, rows @ self.composer.weight, of_scores.flatten(1), into)

    def add_second_half(self, second: Tensor, vectors: Tensor) -> None:
        """Add the gradients of the first layer's half for second vectors. (B, S, D) each."""
        self.second_half += _weight_grads(second, vectors, self.composer.dtype)

    def of_composition(self, inner: _Chart) -> Composition:
        """Return the gradients of the weights, after all passes."""
        size = inner.vectors.shape[2]
        first = _weight_grads(self.first, inner.vectors, self.composer.dtype)
        return Composition(
            torch.cat([first[:size], self.second_half], 1),
            self.first[..., :size].sum((0, 1)),
            self.second_layer,
            self.second_bias,
            first[size:].T,
        )


def _inside(leaves: Tensor, composer: _Composer, keep: bool) -> _Chart:
    columns, length, size = leaves.shape
    spans = span_count(length)
    vectors, scores = leaves.new_empty(columns, spans, size), leaves.new_zeros(columns, spans)
    first = leaves.new_empty(columns, spans, 2 * size, dtype=composer.dtype)
    second = leaves.new_empty(columns, spans, size, dtype=composer.dtype)
    operands = Operands(first, scores, second, vectors, scores)

    def place(own: slice, found: Tensor) -> None:
        vectors[:, own], first[:, own], second[:, own] = found, composer.as_first(found), composer.as_second(found)

    place(slice(length), leaves)
    steps = []
    for level in inside_levels(length, leaves.device):
        found, scores[:, level.own], step = composer.compose(level, operands, keep)
        place(level.own, found)
        steps.append(step)
    return _Chart(vectors, scores, operands, steps)


def _outside(inner: _Chart, length: int, root: Tensor, composer: _Composer, shared: bool, keep: bool) -> _Chart:
    """Return shared: whether the inside pass has the same composition."""
    first = inner.operands.first if shared else composer.as_first(inner.vectors)
    vectors, scores = torch.empty_like(inner.vectors), torch.zeros_like(inner.scores)
    second = torch.empty_like(inner.operands.second)
    operands = Operands(first, inner.scores, second, vectors, scores)

    def place(own: slice, found: Tensor) -> None:
        vectors[:, own], second[:, own] = found, composer.as_second(found)

    place(slice(-1, None), root.expand(len(vectors), 1, -1))
    steps = []
    for level in outside_levels(length, root.device):
        found, scores[:, level.own], step = composer.compose(level, operands, keep)
        place(level.own, found)
        steps.append(step)
    return _Chart(vectors, scores, operands, steps)


class _Passes(torch.autograd.Function):
    """The inside pass and, with a root vector, the outside pass.

    Arguments: leaves, root or None, the inside composition and, if it has its own, the outside composition.
    """

    @staticmethod
    def forward(ctx: Any, leaves: Tensor, root: Tensor | None, *weights: Tensor) -> Tensor:
        keep, length = any(ctx.needs_input_grad), leaves.shape[1]
        composers = [_Composer(Composition(*weights[at : at + 5]), leaves) for at in range(0, len(weights), 5)]
        inner, outer = _inside(leaves, composers[0], keep), None
        if root is not None:
            outer = _outside(inner, length, root, composers[-1], len(composers) == 1, keep)
        if keep:
            ctx.length, ctx.composers, ctx.charts = length, composers, (inner, outer)
        return (inner.vectors[:, -1] if outer is None else outer.vectors[:, :length]).clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        (inner, outer), ctx.charts = ctx.charts, None  # freed, because the kernels overwrite its products
        gradients = [_Gradients(composer, inner) for composer in ctx.composers]
        own, other = gradients[0], gradients[-1]
        vectors, scores = torch.zeros_like(inner.vectors), torch.zeros_like(inner.scores)
        root = None
        if outer is None:
            vectors[:, -1] = grad
        else:
            root = _outside_backward(ctx.length, inner, outer, grad, other, scores)
            if other is not own:
                vectors += _per_row(lambda rows: rows @ other.composer.first, other.first, other.composer.dtype)
        second = torch.zeros_like(vectors)
        into = Operands(own.first, scores, second, vectors, scores)
        levels = inside_levels(ctx.length, grad.device)
        for level, step in zip(reversed(levels), reversed(inner.steps), strict=True):
            at = level.own
            vectors[:, at] += own.of_vectors(own.first[:, at], second[:, at])
            own.add_level(level, step, inner.operands, inner.vectors[:, at], vectors[:, at], scores[:, at], into)
        leaves = slice(ctx.length)
        vectors[:, leaves] += own.of_vectors(own.first[:, leaves], second[:, leaves])
        own.add_second_half(second, inner.vectors)
        return vectors[:, leaves], root, *chain.from_iterable(one.of_composition(inner) for one in gradients)


def _outside_backward(
    length: int, inner: _Chart, outer: _Chart, grad: Tensor, gradients: _Gradients, inner_scores: Tensor
) -> Tensor:
    """Go back through the outside pass: adds to `gradients` and to those of the inside spans' scores, (B, S).

    grad: of the outside vectors of the words, (B, n, D).  Returns that of the root vector, (D,).
    """
    vectors, scores = torch.zeros_like(outer.vectors), torch.zeros_like(outer.scores)
    vectors[:, :length] = grad
    second = torch.zeros_like(vectors)
    into = Operands(gradients.first, inner_scores, second, vectors, scores)
    levels = outside_levels(length, grad.device)
    for level, step in zip(reversed(levels), reversed(outer.steps), strict=True):
        at = level.own
        vectors[:, at] += gradients.of_vectors(None, second[:, at])
        gradients.add_level(level, step, outer.operands, outer.vectors[:, at], vectors[:, at], scores[:, at], into)
    vectors[:, -1:] += gradients.of_vectors(None, second[:, -1:])
    gradients.add_second_half(second, outer.vectors)
    return vectors[:, -1].sum(0)
