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
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import linear, normalize

from syntaxlm.ops.backend import c_struct, call, filled, kernels
from syntaxlm.ops.products import product_dtype

Span = tuple[int, int]
TINY = 1e-8  # smallest norm by which a vector is divided


class Composition(NamedTuple):
    """A network of two layers that composes two vectors, and the bilinear score of composing them.

    first: (D, 2D) and first_bias: (D,), the first layer, applied to both vectors concatenated.
    second: (D, D) and second_bias: (D,), the second layer.
    score: (D, D), S of the score a^T S b.
    """

    first: Tensor
    first_bias: Tensor
    second: Tensor
    second_bias: Tensor
    score: Tensor


class ChartCell(NamedTuple):
    """A span's entry in a chart. vector: (D,), of norm 1.  score: scalar."""

    vector: Tensor
    score: Tensor


class SentenceCharts(NamedTuple):
    """Charts of one sentence. Spans are [start, end).

    inside, outside: the cells of all spans.
    splits: the scores of the splits of each span of two or more words, (width - 1,), shortest left part first.
    """

    inside: dict[Span, ChartCell]
    splits: dict[Span, Tensor]
    outside: dict[Span, ChartCell]


def inside_outside_reference(
    leaves: Tensor, root: Tensor, composition: Composition, outside: Composition | None = None
) -> SentenceCharts:
    """Return charts of one sentence.

    leaves: (n, D), the inside vectors of the words, of norm 1.  root: (D,), the outside vector of the sentence, of norm
    1.  composition: of the inside pass.  outside: of the outside pass; None: the same one.
    Drozdov et al. 2019, section 2.
    """
    length, outside = len(leaves), outside or composition
    zero = leaves.new_zeros(())
    inner = {(word, word + 1): ChartCell(leaves[word], zero) for word in range(length)}
    splits: dict[Span, Tensor] = {}
    for width in range(2, length + 1):
        for start in range(length - width + 1):
            end = start + width
            parts = [(inner[start, split], inner[split, end]) for split in range(start + 1, end)]
            inner[start, end], splits[start, end] = _combined(parts, composition)
    outer = {(0, length): ChartCell(root, zero)}
    for width in range(length - 1, 0, -1):
        for start in range(length - width + 1):
            end = start + width
            of_left_siblings = [(inner[other, start], outer[other, end]) for other in range(start)]
            of_right_siblings = [(inner[end, other], outer[start, other]) for other in range(end + 1, length + 1)]
            outer[start, end], _ = _combined(of_left_siblings + of_right_siblings, outside)
    return SentenceCharts(inner, splits, outer)


def _combined(parts: list[tuple[ChartCell, ChartCell]], composition: Composition) -> tuple[ChartCell, Tensor]:
    """Return the mean of the compositions of pairs of cells, weighted by the softmax of their scores, and the
    scores.
    """
    scores = torch.stack(
        [left.vector @ composition.score @ right.vector + left.score + right.score for left, right in parts]
    )
    vectors = torch.stack([_composed(left.vector, right.vector, composition) for left, right in parts])
    weights = scores.softmax(0)
    return ChartCell(normalize(weights @ vectors, dim=0, eps=TINY), weights @ scores), scores


def _composed(left: Tensor, right: Tensor, composition: Composition) -> Tensor:
    hidden = linear(torch.cat([left, right]), composition.first, composition.first_bias).relu()
    return linear(hidden, composition.second, composition.second_bias).relu()


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


@dataclass(frozen=True)
class PairLevel:
    """The spans of one width, and the pairs that each is composed from.

    begin, end: the spans are begin .. end - 1.  ways: K, number of pairs of each span.
    firsts, seconds: (K * m,) int64, the spans of the first and the second vector of each pair, by way, then by span.
    """

    begin: int
    end: int
    ways: int
    firsts: Tensor
    seconds: Tensor

    @property
    def spans(self) -> slice:
        """The spans, as a slice of a chart."""
        return slice(self.begin, self.end)

    @property
    def cells(self) -> int:
        """m, number of spans."""
        return self.end - self.begin

    @property
    def pairs(self) -> int:
        """Number of pairs of all spans."""
        return self.ways * self.cells


def _numbers(start: Tensor, end: Tensor, length: int) -> Tensor:
    """Return the numbers of the spans [start, end)."""
    narrower = end - start - 1
    return narrower * length - narrower * (narrower - 1) // 2 + start


def _level(width: int, length: int, ways: int, firsts: Tensor, seconds: Tensor, device: torch.device) -> PairLevel:
    begin = int(_numbers(torch.tensor(0), torch.tensor(width), length))
    return PairLevel(begin, begin + length - width + 1, ways, firsts.flatten().to(device), seconds.flatten().to(device))


@lru_cache(maxsize=128)
def inside_levels(length: int, device: torch.device) -> tuple[PairLevel, ...]:
    """Return widths 2 to n: pairs of left and right part, shortest left part first."""
    levels = []
    for width in range(2, length + 1):
        start, split = torch.arange(length - width + 1), torch.arange(1, width)[:, None]
        middle = start + split
        pairs = _numbers(start.expand_as(middle), middle, length), _numbers(middle, start + width, length)
        levels.append(_level(width, length, width - 1, *pairs, device))
    return tuple(levels)


@lru_cache(maxsize=128)
def outside_levels(length: int, device: torch.device) -> tuple[PairLevel, ...]:
    """Return widths n - 1 to 1: pairs of sibling and parent.

    Each span [s, e) has n - width pairs. Pair r has the left sibling [r, s) if r < s, otherwise the right sibling that
    starts at e and ends at r + width + 1.
    """
    levels = []
    for width in range(length - 1, 0, -1):
        start, way = torch.arange(length - width + 1), torch.arange(length - width)[:, None]
        end, of_left = start + width, way < start
        far = torch.where(of_left, way, way + width + 1)
        siblings = torch.where(of_left, _numbers(way, start, length), _numbers(end, far, length))
        parents = torch.where(of_left, _numbers(far, end, length), _numbers(start, far, length))
        levels.append(_level(width, length, length - width, siblings, parents, device))
    return tuple(levels)


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


class _LevelStep(NamedTuple):
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
        library = kernels("diora", self.dtype, leaves)
        self.pairs = _TorchPairs() if library is None else _CompiledPairs(library)
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

    def compose(self, level: PairLevel, operands: Operands, keep: bool) -> tuple[Tensor, Tensor, _LevelStep]:
        """Return the vectors, (B, m, D), and the scores, (B, m), of a level's spans.

        keep: whether a backward pass follows.
        """
        columns, _, size = operands.vectors.shape
        hidden = _rows(columns * level.pairs, size, self.dtype, operands.vectors.device)
        scores = self.pairs.combine(level, operands, hidden)
        product = linear(hidden, self.weight, self.bias)
        weights = scores.unflatten(1, (level.ways, level.cells)).softmax(1).flatten(1)
        mixed = self.pairs.mix(level, product, weights)
        norms = mixed.norm(dim=-1, keepdim=True).clamp_(min=TINY)
        totals = (weights * scores).unflatten(1, (level.ways, level.cells)).sum(1)
        kept = (hidden, product) if keep else (hidden.new_empty(0), product.new_empty(0))
        return mixed.div_(norms), totals, _LevelStep(*kept, scores, weights, norms)


class _Gradients:
    """The gradients of one composition, added up by the passes that use it.

    first: (B, S, 2D), of the inside spans' `Operands.first`.
    """

    def __init__(self, composer: _Composer, vectors: Tensor) -> None:
        columns, spans, size = vectors.shape
        self.composer, new = composer, vectors.new_zeros
        self.first, self.second_bias = new(columns, spans, 2 * size), new(size)
        self.second_half, self.second_layer = new(2, size, size).unbind()

    def of_vectors(self, first: Tensor | None, second: Tensor) -> Tensor:
        """Return gradients of spans' vectors, (B, m, D), from those of `Operands.first` and `Operands.second`."""
        composer = self.composer
        grads = _per_row(lambda rows: rows @ composer.second, second, composer.dtype)
        if first is None:
            return grads
        return grads + _per_row(lambda rows: rows @ composer.first, first, composer.dtype)

    def add_level(
        self,
        level: PairLevel,
        step: _LevelStep,
        operands: Operands,
        vectors: Tensor,
        grads: Tensor,
        totals: Tensor,
        into: Operands,
    ) -> None:
        """Add the gradients of the level's operands to `into`, and those of the second layer to their sums.

        vectors: (B, m, D), of the level.  grads: of these.  totals: gradients of the spans' scores, (B, m).
        """
        pairs, split = self.composer.pairs, (level.ways, level.cells)
        grads = (grads - vectors * (vectors * grads).sum(-1, keepdim=True)) / step.norms
        rows = step.product
        of_weights = pairs.mix_backward(level, rows, step.weights, grads)
        rows[step.weights.numel() :] = 0
        weights = step.weights.unflatten(1, split)
        of_weights = of_weights.unflatten(1, split) + totals[:, None] * step.scores.unflatten(1, split)
        of_scores = weights * (of_weights - (weights * of_weights).sum(1, keepdim=True) + totals[:, None])
        self.second_layer += rows.T @ step.hidden
        self.second_bias += rows.new_ones(len(rows)) @ rows
        pairs.combine_backward(level, operands, step.hidden, rows @ self.composer.weight, of_scores.flatten(1), into)

    def of_composition(self, vectors: Tensor) -> Composition:
        """Return the gradients of the weights, after all passes. vectors: of the inside pass, (B, S, D)."""
        size = vectors.shape[2]
        first = _weight_grads(self.first, vectors, self.composer.dtype)
        return Composition(
            torch.cat([first[:size], self.second_half], 1),
            self.first[..., :size].sum((0, 1)),
            self.second_layer,
            self.second_bias,
            first[size:].T,
        )


class _Pass:
    """The inside or the outside pass: from the spans in `start`, (B, ., D), through its levels.

    is_inside: whether the vectors are the first of pairs, too; in the outside pass these are those of the inside pass.
    operands: charts; `vectors` and `second_scores` are the results.  keep: whether a backward pass follows.
    """

    def __init__(
        self, composer: _Composer, levels: Sequence[PairLevel], operands: Operands, is_inside: bool, start: slice,
        values: Tensor, keep: bool,
    ) -> None:  # fmt: skip
        self.composer, self.levels, self.operands = composer, levels, operands
        self.is_inside, self.start = is_inside, start
        self.steps: list[_LevelStep] = []
        self._place(start, values)
        for level in levels:
            values, operands.second_scores[:, level.spans], step = composer.compose(level, operands, keep)
            self._place(level.spans, values)
            self.steps.append(step)

    @property
    def vectors(self) -> Tensor:
        """(B, S, D)."""
        return self.operands.vectors

    def _place(self, spans: slice, values: Tensor) -> None:
        self.vectors[:, spans], self.operands.second[:, spans] = values, self.composer.as_second(values)
        if self.is_inside:
            self.operands.first[:, spans] = self.composer.as_first(values)

    def backward(self, gradients: _Gradients, vectors: Tensor, first_scores: Tensor, scores: Tensor) -> Tensor:
        """Return the gradients of the vectors at the start; add others to `gradients` and to those of scores.

        vectors: gradients of the vectors as results, (B, S, D); modified.  first_scores, scores: (B, S).
        """
        second = torch.zeros_like(vectors)
        into = Operands(gradients.first, first_scores, second, vectors, scores)

        def complete(spans: slice) -> Tensor:
            first = gradients.first[:, spans] if self.is_inside else None
            vectors[:, spans] += gradients.of_vectors(first, second[:, spans])
            return vectors[:, spans]

        for level, step in zip(reversed(self.levels), reversed(self.steps), strict=True):
            spans, grads = level.spans, complete(level.spans)
            gradients.add_level(level, step, self.operands, self.vectors[:, spans], grads, scores[:, spans], into)
        start = complete(self.start)
        gradients.second_half += _weight_grads(second, self.vectors, self.composer.dtype)
        return start


def _inside(leaves: Tensor, composer: _Composer, keep: bool) -> _Pass:
    columns, length, size = leaves.shape
    spans = length * (length + 1) // 2
    vectors, scores = leaves.new_empty(columns, spans, size), leaves.new_zeros(columns, spans)
    first, second = (leaves.new_empty(columns, spans, width, dtype=composer.dtype) for width in (2 * size, size))
    operands = Operands(first, scores, second, vectors, scores)
    return _Pass(composer, inside_levels(length, leaves.device), operands, True, slice(length), leaves, keep)


def _outside(inner: _Pass, length: int, root: Tensor, composer: _Composer, keep: bool) -> _Pass:
    first, scores, second, vectors, _ = inner.operands
    if composer is not inner.composer:
        first = composer.as_first(vectors)
    results = torch.empty_like(second), torch.empty_like(vectors), torch.zeros_like(scores)
    operands = Operands(first, scores, *results)
    levels, values = outside_levels(length, root.device), root.expand(len(vectors), 1, -1)
    return _Pass(composer, levels, operands, False, slice(-1, None), values, keep)


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
            outer = _outside(inner, length, root, composers[-1], keep)
        if keep:
            ctx.length, ctx.composers, ctx.passes = length, composers, (inner, outer)
        return (inner.vectors[:, -1] if outer is None else outer.vectors[:, :length]).clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        (inner, outer), ctx.passes = ctx.passes, None  # freed, because the kernels overwrite its products
        gradients = [_Gradients(composer, inner.vectors) for composer in ctx.composers]
        vectors, scores, root = torch.zeros_like(inner.vectors), torch.zeros_like(inner.operands.first_scores), None
        if outer is None:
            vectors[:, -1] = grad
        else:
            vectors[:, : ctx.length] = grad
            root = outer.backward(gradients[-1], vectors, scores, torch.zeros_like(scores))[:, 0].sum(0)
            vectors = torch.zeros_like(vectors)
            if len(gradients) > 1:
                composer, first = gradients[1].composer, gradients[1].first
                vectors += _per_row(lambda rows: rows @ composer.first, first, composer.dtype)
        leaves = inner.backward(gradients[0], vectors, scores, scores)
        return leaves, root, *chain.from_iterable(part.of_composition(inner.vectors) for part in gradients)


class _TorchPairs:
    """What the passes compute between matrix products, for all pairs of one width, in torch.

    Rows of pairs are (R, D): B * K * m rows, and then rows of padding.
    """

    def combine(self, level: PairLevel, operands: Operands, hidden: Tensor) -> Tensor:
        """Write relu(F + G) of all pairs into `hidden`, (R, D).

        Returns their scores Q . h + scores of both spans, (B, K * m).
        """
        size = operands.vectors.shape[2]
        first = operands.first[:, level.firsts]
        rows = (first[..., :size] + operands.second[:, level.seconds]).relu_().flatten(0, 1)
        hidden[: len(rows)] = rows
        scores = (first[..., size:] * operands.vectors[:, level.seconds]).sum(-1)
        return scores + operands.first_scores[:, level.firsts] + operands.second_scores[:, level.seconds]

    def mix(self, level: PairLevel, product: Tensor, weights: Tensor) -> Tensor:
        """Return the weighted sum of relu(product) over the pairs of each span: (R, D), (B, K * m) -> (B, m, D)."""
        weights = weights.unflatten(1, (level.ways, level.cells))
        return (_of_pairs(product, weights).relu() * weights[..., None]).sum(1)

    def mix_backward(self, level: PairLevel, product: Tensor, weights: Tensor, grads: Tensor) -> Tensor:
        """Replace `product` by its gradients, without padding. Returns those of `weights`."""
        weights = weights.unflatten(1, (level.ways, level.cells))
        rows = _of_pairs(product, weights)
        positive, grads = rows.relu(), grads[:, None]
        weight_grads = (positive * grads).sum(-1).flatten(1)
        rows.copy_(weights[..., None] * grads * (positive > 0))
        return weight_grads

    def combine_backward(
        self,
        level: PairLevel,
        operands: Operands,
        hidden: Tensor,
        hidden_grads: Tensor,
        score_grads: Tensor,
        into: Operands,
    ) -> None:
        """Add the gradients of the operands to `into`."""
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


_LevelStruct = c_struct("columns spans size pairs ways cells", "firsts seconds")


class _CompiledPairs(_TorchPairs):
    """The same in C (kernels/diora.c)."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self.library = library

    def combine(self, level: PairLevel, operands: Operands, hidden: Tensor) -> Tensor:
        scores = operands.vectors.new_empty(len(operands.vectors), level.pairs)
        first, first_scores, second, vectors, second_scores = operands
        struct = _struct(level, vectors, hidden.dtype)
        call(self.library.diora_combine, struct, first, second, vectors, first_scores, second_scores, hidden, scores)
        return scores

    def mix(self, level: PairLevel, product: Tensor, weights: Tensor) -> Tensor:
        mixed = weights.new_empty(len(weights), level.cells, product.shape[1])
        call(self.library.diora_mix, _struct(level, mixed, product.dtype), product, weights, mixed)
        return mixed

    def mix_backward(self, level: PairLevel, product: Tensor, weights: Tensor, grads: Tensor) -> Tensor:
        weight_grads, struct = torch.empty_like(weights), _struct(level, grads, product.dtype)
        call(self.library.diora_mix_backward, struct, product, weights, grads.contiguous(), weight_grads)
        return weight_grads

    def combine_backward(
        self,
        level: PairLevel,
        operands: Operands,
        hidden: Tensor,
        hidden_grads: Tensor,
        score_grads: Tensor,
        into: Operands,
    ) -> None:
        call(
            self.library.diora_combine_backward, _struct(level, operands.vectors, hidden.dtype),
            operands.first, operands.vectors, hidden, hidden_grads, score_grads.contiguous(),
            into.first, into.second, into.vectors, into.first_scores, into.second_scores,
        )  # fmt: skip


def _struct(level: PairLevel, like: Tensor, dtype: torch.dtype) -> ctypes.Structure:
    """Return the struct of C for a level.

    like: a chart, (B, S, D); any (B, _, D) for functions that read no chart.  dtype: of the products.
    """
    columns, spans, size = like.shape
    sizes = {"columns": columns, "spans": spans, "size": size}
    sizes |= {"pairs": level.pairs, "ways": level.ways, "cells": level.cells}
    tensors = {"firsts": level.firsts, "seconds": level.seconds}
    return filled(_LevelStruct, tensors, **sizes, half=dtype == torch.bfloat16)
