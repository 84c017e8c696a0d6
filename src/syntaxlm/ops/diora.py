"""DIORA's inside and outside passes over a batch of sentences of one length.

Drozdov, Verga, Yadav, Iyyer, McCallum 2019, "Unsupervised Latent Tree Induction with Deep Inside-Outside Recursive
Autoencoders". `inside_outside_reference` is the recursion, one split at a time.
In the fast form, all splits of all spans of one width are composed together, with one product. What depends on one span
only is computed once per span and not once per split: both halves of the first layer, and S^T h of the bilinear scores.
Only the ReLU of their sums, the second layer and the weighted mean are per split. `_Passes` has its own backward pass:
an autograd graph per width would copy the charts and add up weight gradients in small products.

Shapes: B sentences, n words, S spans, by width, then by start, as in `trees.charts`; D features; K pairs of each of m
spans of one width; R rows of a product. Charts are (B, S, ...), pairs (B, K * m, ...).
"""

from __future__ import annotations

import ctypes
from functools import lru_cache
from itertools import chain
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import linear, normalize

from syntaxlm.ops.backend import applied, c_struct, call, filled, kernels
from syntaxlm.ops.products import product_dtype

Span = tuple[int, int]
SMALLEST_NORM = 1e-8  # smallest norm by which a vector is divided


class Composition(NamedTuple):
    """A network of two layers that composes two vectors, and the bilinear score of composing them.

    Attributes:
        first: (D, 2D), weight of the first layer, which is applied to both vectors concatenated.
        first_bias: (D,).
        second: (D, D), weight of the second layer.
        second_bias: (D,).
        score: (D, D), S of the score a^T S b.
    """

    first: Tensor
    first_bias: Tensor
    second: Tensor
    second_bias: Tensor
    score: Tensor


class ChartCell(NamedTuple):
    """A span's entry in a chart.

    Attributes:
        vector: (D,), of norm 1.
        score: scalar.
    """

    vector: Tensor
    score: Tensor


class SentenceCharts(NamedTuple):
    """Charts of one sentence. Spans are [start, end).

    Attributes:
        inside: the inside cells of all spans.
        outside: the outside cells of all spans.
        splits: the scores of the splits of each span of two or more words, (width - 1,), shortest left part first.
    """

    inside: dict[Span, ChartCell]
    splits: dict[Span, Tensor]
    outside: dict[Span, ChartCell]


def inside_outside_reference(
    leaves: Tensor, root: Tensor, composition: Composition, outside: Composition | None = None
) -> SentenceCharts:
    """Return charts of one sentence.

    Drozdov et al. 2019, section 2.

    Args:
        leaves: (n, D), the inside vectors of the words, of norm 1.
        root: (D,), the outside vector of the sentence, of norm 1.
        composition: the composition of the inside pass.
        outside: of the outside pass; None: the same one.
    """
    length, outside = len(leaves), outside or composition
    zero = leaves.new_zeros(())
    inner = {(word, word + 1): ChartCell(leaves[word], zero) for word in range(length)}
    splits: dict[Span, Tensor] = {}
    # h(l, r) = normalised sum over l < i < r of softmax(score(i)) compose(h(l, i), h(i, r))
    for width in range(2, length + 1):
        for start in range(length - width + 1):
            end = start + width
            parts = [(inner[start, split], inner[split, end]) for split in range(start + 1, end)]
            inner[start, end], splits[start, end] = _combined(parts, composition)
    outer = {(0, length): ChartCell(root, zero)}
    # o(l, r) = normalised sum over siblings, [k, l) or [r, k), of softmax(score(k)) compose(h(sibling), o(parent))
    for width in range(length - 1, 0, -1):
        for start in range(length - width + 1):
            end = start + width
            left = [(inner[first, start], outer[first, end]) for first in range(start)]
            right = [(inner[end, last], outer[start, last]) for last in range(end + 1, length + 1)]
            outer[start, end], _ = _combined(left + right, outside)
    return SentenceCharts(inner, splits, outer)


def _combined(parts: list[tuple[ChartCell, ChartCell]], composition: Composition) -> tuple[ChartCell, Tensor]:
    """Return the mean of the compositions of pairs, weighted by the softmax of their scores, and the scores."""
    scores = torch.stack(
        [left.vector @ composition.score @ right.vector + left.score + right.score for left, right in parts]
    )
    pairs = torch.stack([torch.cat([left.vector, right.vector]) for left, right in parts])
    hidden = linear(pairs, composition.first, composition.first_bias).relu()
    vectors = linear(hidden, composition.second, composition.second_bias).relu()
    weights = scores.softmax(0)
    return ChartCell(normalize(weights @ vectors, dim=0, eps=SMALLEST_NORM), weights @ scores), scores


def inside(leaves: Tensor, composition: Composition) -> Tensor:
    """Return the inside vectors of whole sentences: (B, D).

    Args:
        leaves: (B, n, D), the inside vectors of the words, of norm 1.
    """
    vectors: Tensor = applied(_Passes, leaves, None, *composition)
    return vectors


def outside(leaves: Tensor, root: Tensor, composition: Composition, outer: Composition | None = None) -> Tensor:
    """Return the outside vectors of words, from the inside and the outside pass: (B, n, D).

    Args:
        leaves: (B, n, D), the inside vectors of the words, of norm 1.
        root: (D,), the outside vector of a sentence, of norm 1.
        composition: the composition of the inside pass.
        outer: of the outside pass; None: the same one.
    """
    vectors: Tensor = applied(_Passes, leaves, root, *composition, *(outer or ()))
    return vectors


@torch.no_grad()
def split_scores(leaves: Tensor, composition: Composition) -> Tensor:
    """Return the scores of all splits in the inside pass: (C(n + 1, 3), B), in the order of `ops.charts`."""
    steps = _inside(leaves, _Network(composition, leaves), keep=False).steps
    scores = [step.scores.flatten(1) for step in steps]
    return torch.cat(scores, 1).T if scores else leaves.new_empty(0, len(leaves))


class _PairLevel(NamedTuple):
    """The spans of one width, and the pairs that each is composed from.

    Attributes:
        spans: the spans of a chart.
        firsts: (K, m) int64, the span of the first vector of each pair.
        seconds: (K, m) int64, the span of the second vector.
    """

    spans: slice
    firsts: Tensor
    seconds: Tensor


@lru_cache(maxsize=256)
def _levels(length: int, device: torch.device, inside: bool) -> tuple[_PairLevel, ...]:
    """Return the levels of a pass. Inside, widths 2 to n: pairs of left and right part, shortest left part first.

    Outside, widths n - 1 to 1: pairs of sibling and parent. Each span [s, e) has n - width pairs. Pair r has the left
    sibling [r, s) if r < s, otherwise the right sibling that starts at e and ends at r + width + 1.
    """

    def numbers(start: Tensor, end: Tensor) -> Tensor:
        """Return the numbers of the spans [start, end)."""
        narrower = end - start - 1
        return narrower * length - narrower * (narrower - 1) // 2 + start

    levels = []
    for width in range(2, length + 1) if inside else range(length - 1, 0, -1):
        start = torch.arange(length - width + 1)
        end = start + width
        spans = slice(int(numbers(start, end)[0]), int(numbers(start, end)[-1]) + 1)
        if inside:
            middle = start + torch.arange(1, width)[:, None]
            firsts = numbers(start, middle)
            seconds = numbers(middle, end)
        else:
            pair = torch.arange(length - width)[:, None]
            is_left = pair < start
            far = torch.where(is_left, pair, pair + width + 1)  # the end of the sibling that is away from the span
            firsts = torch.where(is_left, numbers(pair, start), numbers(end, far))
            seconds = torch.where(is_left, numbers(far, end), numbers(start, far))
        levels.append(_PairLevel(spans, firsts.to(device), seconds.to(device)))
    return tuple(levels)


class _Operands(NamedTuple):
    """What pairs of one pass are composed from.

    The same class has their gradients; those of `vectors` are from the scores alone.

    Attributes:
        first: (B, S, 2D), of a span as the first of a pair: F = W_1 h + b, then Q = S^T h.
        first_scores: (B, S).
        second: (B, S, D), of a span as the second of a pair: G = W_2 h.
        vectors: (B, S, D), h of the second span.
        second_scores: (B, S).
    """

    first: Tensor
    first_scores: Tensor
    second: Tensor
    vectors: Tensor
    second_scores: Tensor


class _LevelStep(NamedTuple):
    """What a level's backward pass needs, for K pairs of each of m spans.

    Attributes:
        hidden: (R, D), the second layer's input.
        product: (R, D), its output before the ReLU. The first B * K * m rows are pairs, the others are padding. Both
            are empty if no backward pass follows.
        scores: (B, K, m), of the pairs.
        weights: (B, K, m), softmax of the scores.
        norms: (B, m, 1).
    """

    hidden: Tensor
    product: Tensor
    scores: Tensor
    weights: Tensor
    norms: Tensor


def _rows(count: int, size: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Return an undefined matrix of `count` rows, and padding, which is 0: (R, size).

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


def _per_row(vectors: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return the product with every vector: (B, m, D), (F, D) -> (B, m, F)."""
    columns, cells, _ = vectors.shape
    return linear(_flat(vectors, weight.dtype), weight, bias)[: columns * cells].view(columns, cells, -1)


class _Network:
    """A composition in the dtype of products, with the gradients that are added up by the passes that use it.

    Attributes:
        first: (2D, D), with its bias, and second: (D, D): the weights of `_Operands.first` and `_Operands.second`.
        first_grads: (B, S, 2D), of the inside spans' `_Operands.first`.
    """

    def __init__(self, composition: Composition, leaves: Tensor) -> None:
        self.dtype = product_dtype(leaves)
        self.library = kernels("diora", self.dtype, leaves)
        left, right = composition.first.chunk(2, 1)
        first_bias = torch.cat([composition.first_bias, torch.zeros_like(composition.first_bias)])
        self.first, self.first_bias = torch.cat([left, composition.score.T]).to(self.dtype), first_bias.to(self.dtype)
        self.second = right.contiguous().to(self.dtype)
        self.weight, self.bias = composition.second.to(self.dtype), composition.second_bias.to(self.dtype)

    def start_backward(self, vectors: Tensor) -> None:
        columns, spans, size = vectors.shape
        self.first_grads, self.bias_grads = vectors.new_zeros(columns, spans, 2 * size), vectors.new_zeros(size)
        self.second_grads, self.weight_grads = vectors.new_zeros(2, size, size).unbind()

    def gradients(self, vectors: Tensor) -> Composition:
        """Return the gradients of the weights, after all passes.

        Args:
            vectors: the vectors of the inside pass, (B, S, D).
        """
        size = vectors.shape[2]
        first = self.weight_gradient(self.first_grads, vectors)
        first_bias = self.first_grads[..., :size].sum((0, 1))
        halves = torch.cat([first[:size], self.second_grads], 1)
        return Composition(halves, first_bias, self.weight_grads, self.bias_grads, first[size:].T)

    def weight_gradient(self, grads: Tensor, vectors: Tensor) -> Tensor:
        """Return the gradient of a product's weight: (B, S, F), (B, S, D) -> (F, D)."""
        return (_flat(grads, self.dtype).T @ _flat(vectors, self.dtype)).to(grads.dtype)


class _Pass:
    """The inside or the outside pass: from the spans in `start`, (B, ., D), through its levels.

    Args:
        is_inside: whether the vectors are the first of pairs, too; in the outside pass these are those of the inside
            pass.
        operands: charts; `vectors` and `second_scores` are the results.
        keep: whether a backward pass follows.
    """

    def __init__(
        self, network: _Network, length: int, operands: _Operands, is_inside: bool, start: slice, values: Tensor,
        keep: bool,
    ) -> None:  # fmt: skip
        self.network = network
        self.operands = operands
        self.is_inside = is_inside
        self.start = start
        self.levels = _levels(length, values.device, is_inside)
        self.steps: list[_LevelStep] = []
        self._place(start, values)
        columns, _, size = operands.vectors.shape
        # h(span) = normalised sum over its pairs of softmax(score) relu(W relu(F(first) + G(second)) + b)
        for level in self.levels:
            # All pairs of the spans of this width are composed; a span's vector is their weighted mean, of norm 1.
            hidden = _rows(columns * level.firsts.numel(), size, network.dtype, values.device)
            scores = _combine(network.library, level, operands, hidden)
            product = linear(hidden, network.weight, network.bias)
            weights = scores.softmax(1)
            mixed = _mix(network.library, level, product, weights)
            norms = mixed.norm(dim=-1, keepdim=True).clamp_(min=SMALLEST_NORM)
            operands.second_scores[:, level.spans] = (weights * scores).sum(1)
            if not keep:
                hidden = hidden.new_empty(0)
                product = product.new_empty(0)
            self.steps.append(_LevelStep(hidden, product, scores, weights, norms))
            self._place(level.spans, mixed.div_(norms))

    def _place(self, spans: slice, values: Tensor) -> None:
        operands, network = self.operands, self.network
        operands.vectors[:, spans], operands.second[:, spans] = values, _per_row(values, network.second)
        if self.is_inside:
            operands.first[:, spans] = _per_row(values, network.first, network.first_bias)

    def backward(self, vectors: Tensor, first_scores: Tensor, scores: Tensor) -> Tensor:
        """Return gradients of the leaves; accumulate those of weights and split scores.

        In the outside pass, the root takes the place of the leaves.

        Args:
            vectors: gradients of the vectors as results, (B, S, D); modified.
            first_scores: gradients of the scores of first spans, (B, S); modified.
            scores: gradients of the scores of second spans, (B, S); modified.
        """
        network = self.network
        operands = self.operands
        second = torch.zeros_like(vectors)
        into = _Operands(network.first_grads, first_scores, second, vectors, scores)

        def complete(spans: slice) -> Tensor:
            grads = _per_row(second[:, spans], network.second.T)
            if self.is_inside:
                grads = grads + _per_row(network.first_grads[:, spans], network.first.T)
            vectors[:, spans] += grads
            return vectors[:, spans]

        for level, step in zip(reversed(self.levels), reversed(self.steps), strict=True):
            # The norm, and the weighted mean of the pairs; `rows` becomes its gradient.
            grads = complete(level.spans)
            values = operands.vectors[:, level.spans]
            grads = (grads - values * (values * grads).sum(-1, keepdim=True)) / step.norms
            rows = step.product
            weights = step.weights
            score_sums = scores[:, None, level.spans]
            weight_grads = _mix_backward(network.library, level, rows, weights, grads) + score_sums * step.scores
            rows[weights.numel() :] = 0

            # The softmax of the scores, and the two layers.
            pair_grads = weights * (weight_grads - (weights * weight_grads).sum(1, keepdim=True) + score_sums)
            network.weight_grads += rows.T @ step.hidden
            network.bias_grads += rows.new_ones(len(rows)) @ rows
            _combine_backward(network.library, level, operands, step.hidden, rows @ network.weight, pair_grads, into)
        start = complete(self.start)
        network.second_grads += network.weight_gradient(second, operands.vectors)
        return start


def _inside(leaves: Tensor, network: _Network, keep: bool) -> _Pass:
    columns, length, size = leaves.shape
    spans = length * (length + 1) // 2
    vectors = leaves.new_empty(columns, spans, size)
    scores = leaves.new_zeros(columns, spans)
    first, second = (leaves.new_empty(columns, spans, width, dtype=network.dtype) for width in (2 * size, size))
    return _Pass(network, length, _Operands(first, scores, second, vectors, scores), True, slice(length), leaves, keep)


class _Passes(torch.autograd.Function):
    """The inside pass and, with a root vector, the outside pass.

    Arguments: leaves, root or None, the inside composition and, if it has its own, the outside composition.
    """

    @staticmethod
    def forward(ctx: Any, leaves: Tensor, root: Tensor | None, *weights: Tensor) -> Tensor:
        keep = any(ctx.needs_input_grad)
        (columns, length, _) = leaves.shape
        networks = [_Network(Composition(*weights[at : at + 5]), leaves) for at in range(0, len(weights), 5)]
        inner, outer = _inside(leaves, networks[0], keep), None
        if root is not None:
            first, scores, second, vectors, _ = inner.operands
            if len(networks) > 1:
                first = _per_row(vectors, networks[1].first, networks[1].first_bias)
            results = torch.empty_like(second), torch.empty_like(vectors), torch.zeros_like(scores)
            values = root.expand(columns, 1, -1)
            outer = _Pass(
                networks[-1], length, _Operands(first, scores, *results), False, slice(-1, None), values, keep
            )
        if keep:
            ctx.save_for_backward(*weights)
            ctx.length = length
            ctx.networks = networks
            ctx.passes = (inner, outer)
        result = inner.operands.vectors[:, -1] if outer is None else outer.operands.vectors[:, :length]
        return result.clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        _ = ctx.saved_tensors  # raises an error if a weight, which the networks keep, was modified
        if ctx.passes is None:
            raise RuntimeError("DIORA's passes have no second backward pass: the first one overwrites what it needs")
        (inner, outer), ctx.passes = ctx.passes, None  # freed, because the kernels overwrite its products
        charts = inner.operands.vectors
        for network in ctx.networks:
            network.start_backward(charts)
        vectors = torch.zeros_like(charts)
        scores = torch.zeros_like(inner.operands.first_scores)
        root = None
        if outer is None:
            vectors[:, -1] = grad
        else:
            vectors[:, : ctx.length] = grad
            root = outer.backward(vectors, scores, torch.zeros_like(scores))[:, 0].sum(0)
            vectors = torch.zeros_like(vectors)
            for network in ctx.networks[1:]:
                vectors += _per_row(network.first_grads, network.first.T)
        leaves = inner.backward(vectors, scores, scores)
        return leaves, root, *chain.from_iterable(network.gradients(charts) for network in ctx.networks)


# What the passes compute between matrix products, for all pairs of one width, in C (kernels/diora.c) or in torch. Rows
# of pairs are (R, D): B * K * m rows, and then rows of padding.


def _combine(library: ctypes.CDLL | None, level: _PairLevel, operands: _Operands, hidden: Tensor) -> Tensor:
    """Write relu(F + G) of all pairs into `hidden`, (R, D).

    Returns:
        Their scores Q . h + scores of both spans, (B, K, m).
    """
    first, first_scores, second, vectors, second_scores = operands
    if library is not None:
        scores = vectors.new_empty(len(vectors), *level.firsts.shape)
        struct = _struct(level, vectors, hidden.dtype)
        call(library.diora_combine, struct, first, second, vectors, first_scores, second_scores, hidden, scores)
        return scores
    size, pair_firsts = vectors.shape[2], first[:, level.firsts]
    rows = (pair_firsts[..., :size] + second[:, level.seconds]).relu_().flatten(0, 2)
    hidden[: len(rows)] = rows
    scores = (pair_firsts[..., size:] * vectors[:, level.seconds]).sum(-1)
    return scores + first_scores[:, level.firsts] + second_scores[:, level.seconds]


def _mix(library: ctypes.CDLL | None, level: _PairLevel, product: Tensor, weights: Tensor) -> Tensor:
    """Return the weighted sum of relu(product) over the pairs of each span: (R, D), (B, K, m) -> (B, m, D)."""
    if library is not None:
        mixed = weights.new_empty(len(weights), weights.shape[2], product.shape[1])
        call(library.diora_mix, _struct(level, mixed, product.dtype), product, weights, mixed)
        return mixed
    return (_of_pairs(product, weights).relu() * weights[..., None]).sum(1)


def _mix_backward(
    library: ctypes.CDLL | None, level: _PairLevel, product: Tensor, weights: Tensor, grads: Tensor
) -> Tensor:
    """Replace `product` by its gradients, without padding. Returns those of `weights`."""
    if library is not None:
        weight_grads = torch.empty_like(weights)
        struct = _struct(level, grads, product.dtype)
        call(library.diora_mix_backward, struct, product, weights, grads.contiguous(), weight_grads)
        return weight_grads
    rows, grads = _of_pairs(product, weights), grads[:, None]
    positive = rows.relu()
    weight_grads = (positive * grads).sum(-1)
    rows.copy_(weights[..., None] * grads * (positive > 0))
    return weight_grads


def _combine_backward(
    library: ctypes.CDLL | None, level: _PairLevel, operands: _Operands, hidden: Tensor, hidden_grads: Tensor,
    score_grads: Tensor, into: _Operands,
) -> None:  # fmt: skip
    """Add the gradients of the operands to `into`."""
    if library is not None:
        call(
            library.diora_combine_backward, _struct(level, operands.vectors, hidden.dtype),
            operands.first, operands.vectors, hidden, hidden_grads, score_grads.contiguous(),
            into.first, into.second, into.vectors, into.first_scores, into.second_scores,
        )  # fmt: skip
        return
    size = operands.vectors.shape[2]
    firsts = level.firsts.flatten()
    seconds = level.seconds.flatten()
    score_grads = score_grads.flatten(1)
    grads = _of_pairs(hidden_grads, score_grads).to(into.second.dtype) * (_of_pairs(hidden, score_grads) > 0)
    into.first[..., :size].index_add_(1, firsts, grads)
    into.second.index_add_(1, seconds, grads)
    scores = score_grads[..., None]
    into.first[..., size:].index_add_(1, firsts, scores * operands.vectors[:, seconds])
    into.vectors.index_add_(1, seconds, scores * operands.first[:, firsts, size:])
    into.first_scores.index_add_(1, firsts, score_grads)
    into.second_scores.index_add_(1, seconds, score_grads)


def _of_pairs(rows: Tensor, like: Tensor) -> Tensor:
    """Return a view of the rows of pairs, without padding: (R, D) -> (..., D), for pairs in the shape of `like`."""
    return rows[: like.numel()].view(*like.shape, -1)


_LevelStruct = c_struct("columns spans size pairs ways cells", "firsts seconds")


def _struct(level: _PairLevel, like: Tensor, dtype: torch.dtype) -> ctypes.Structure:
    """Return the struct of C for a level.

    Args:
        like: a chart, (B, S, D); any (B, _, D) for functions that read no chart.
        dtype: the dtype of the products.
    """
    (columns, spans, size) = like.shape
    (ways, cells) = level.firsts.shape
    sizes = {"columns": columns, "spans": spans, "size": size, "pairs": ways * cells, "ways": ways, "cells": cells}
    tensors = {"firsts": level.firsts, "seconds": level.seconds}
    return filled(_LevelStruct, tensors, **sizes, half=dtype == torch.bfloat16)
