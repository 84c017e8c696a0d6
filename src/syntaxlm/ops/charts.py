"""Dynamic programming over the binary trees of a batch of sentences of one length, in torch.

The functions, arguments and chart layout are those of `syntaxlm.trees.charts`; computation stays on the device and in
the dtype of the weights. `total` and the scores of `best` are differentiable. Their gradients, the marginals and the
spans of the best trees, are computed by an outside pass instead of a graph of all splits: O(n^2) memory per sentence.

All splits of all spans of one width are added at once. Two dense charts turn this into a sum of two slices: one is
indexed by [width, start], the other by [n - width, end - 1], because the wider the left part, the narrower the right.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from syntaxlm.trees.charts import TieBreaking, blocks, checked_length, split_blocks, tie_priorities


class Marginals(NamedTuple):
    """log_totals: (B,) as returned by `total`.  spans: (n(n + 1)/2, B) the probability of each span, 0 to 1."""

    log_totals: Tensor
    spans: Tensor


class BestTrees(NamedTuple):
    """scores: (B,) the weight of the best tree.  spans: (n(n + 1)/2, B) whether the best tree has each span."""

    scores: Tensor
    spans: Tensor


def total(weights: Tensor, split_weights: Tensor | None = None) -> Tensor:
    """Log of the sum of exp(weight) over all binary trees: the inside algorithm.

    weights: (n(n + 1)/2, B), finite or -inf, including those of one-word spans and of the whole sentence.
    split_weights: (C(n + 1, 3), B) or None.
    Returns (B,); -inf, with gradients of 0, if every tree has weight -inf. No second derivatives. NaN and infinity are
    not checked for, because the check would make the CPU wait for the device.
    Raises ValueError for wrong shapes.
    """
    log_totals: Tensor = _Total.apply(weights, split_weights, checked_length(weights, split_weights))
    return log_totals


@torch.no_grad()
def marginals(weights: Tensor, split_weights: Tensor | None = None) -> Marginals:
    """Return the probability of each span under P(tree) proportional to exp(weight): the gradient of `total`.

    Arguments: see `total`. The result has no gradient. If all trees of a sentence have weight -inf, its marginals are
    0; otherwise one-word spans and the whole sentence have 1.
    """
    length = checked_length(weights, split_weights)
    inside = _inside(weights, split_weights, length, best=False)
    possible = (inside.lefts[length, 0] > -torch.inf).to(weights.dtype)
    spans, _ = _outside(weights, split_weights, inside, length, possible)
    return Marginals(inside.lefts[length, 0].clone(), spans)


def best(weights: Tensor, split_weights: Tensor | None = None, ties: TieBreaking = "first") -> BestTrees:
    """Return a binary tree of maximal weight: the CYK algorithm.

    Arguments: see `total`; integer weights are added exactly.  ties: see `syntaxlm.trees.charts.best`.
    The gradient of the scores is the spans (and splits) of the best trees.
    Raises ValueError for wrong shapes.
    """
    length = checked_length(weights, split_weights)
    with torch.no_grad():
        inside = _inside(weights, split_weights, length, best=True)
        spans, splits = _outside(weights, split_weights, inside, length, torch.ones_like(weights[0]), ties)
    scores = torch.where(spans > 0, weights, 0).sum(0)
    if split_weights is not None and splits is not None:
        scores = scores + torch.where(splits > 0, split_weights, 0).sum(0)
    return BestTrees(scores, spans > 0)


class _Inside(NamedTuple):
    """Inside values of all spans, (n + 1, n, B) each: indexed by [width, start] and by [n - width, end - 1]."""

    lefts: Tensor
    rights: Tensor


def _inside(weights: Tensor, split_weights: Tensor | None, length: int, best: bool) -> _Inside:
    """Return inside(l, r) = weight(l, r) + log-sum (or maximum) over l < i < r of inside(l, i) + inside(i, r).

    best: whether to take the maximum and ignore one-word spans.
    """
    inside = _Inside(*weights.new_empty(2, length + 1, length, weights.shape[1]))
    for width, block in enumerate(blocks(length)[1:], 1):
        row = weights[block]
        if width > 1:
            sums = _split_sums(inside, split_weights, width, length)
            row = row + (sums.amax(0) if best else sums.logsumexp(0))
        elif best:
            row = torch.zeros_like(row)
        _of_width(inside.lefts, width)[:] = row
        inside.rights[length - width, width - 1 :] = row
    return inside


def _outside(
    weights: Tensor,
    split_weights: Tensor | None,
    inside: _Inside,
    length: int,
    root: Tensor,
    ties: TieBreaking | None = None,
) -> tuple[Tensor, Tensor | None]:
    """Go from the widest spans to the narrowest; each distributes its share of `root`, (B,), to its splits'
    parts.

    Shares are the probabilities of the splits; with `ties`, the best split gets everything.
    Returns the shares of all spans, (n(n + 1)/2, B), and of all splits, (C(n + 1, 3), B), if these have weights.
    """
    shares = torch.empty_like(weights)
    split_shares = None if split_weights is None else torch.empty_like(split_weights)
    as_left, as_right = weights.new_zeros(2, length + 1, length, weights.shape[1])
    as_left[length, 0] = root
    for width in range(length, 0, -1):
        own = _of_width(as_left, width) + as_right[length - width, width - 1 :]
        shares[blocks(length)[width]] = own
        if width == 1:
            break
        sums = _split_sums(inside, split_weights, width, length)
        if ties is None:
            row = _of_width(inside.lefts, width)
            of_splits = torch.where(row == -torch.inf, torch.inf, row - weights[blocks(length)[width]])
            of_parts = sums.sub_(of_splits).exp_().mul_(own)  # exp(-inf) for a span that is in no tree
        else:
            of_parts = _best_splits(sums, width, length, ties) * own
        as_left[1:width, : length - width + 1] += of_parts
        as_right[length - width + 1 : length, width - 1 :] += of_parts
        if split_shares is not None:
            split_shares[split_blocks(length)[width]] = of_parts.flatten(0, 1)
    return shares, split_shares


def _of_width(chart: Tensor, width: int) -> Tensor:
    """Return the spans of one width in a chart indexed by [width, start]: (n - width + 1, B)."""
    return chart[width, : chart.shape[1] - width + 1]


def _split_sums(inside: _Inside, split_weights: Tensor | None, width: int, length: int) -> Tensor:
    """Return left + right (+ split weight) of all splits of all spans of one width: (width - 1, n - width + 1, B)."""
    sums = inside.lefts[1:width, : length - width + 1] + inside.rights[length - width + 1 : length, width - 1 :]
    if split_weights is not None:
        sums += split_weights[split_blocks(length)[width]].view_as(sums)
    return sums


def _best_splits(sums: Tensor, width: int, length: int, ties: TieBreaking) -> Tensor:
    """Return whether each split is the one chosen for its span. (width - 1, n - width + 1, B), like the sums of all
    splits.
    """
    splits = np.arange(1, width)[:, None, None]
    if ties == "first":
        priorities = width - splits
    else:
        priorities = tie_priorities(length, np.array(width), np.arange(length - width + 1)[:, None], splits)
    ranks = torch.where(sums == sums.amax(0), torch.from_numpy(priorities).to(sums.device), -1)
    return ranks == ranks.amax(0)


class _Total(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, weights: Tensor, split_weights: Tensor | None, length: int) -> Tensor:
        inside = _inside(weights, split_weights, length, best=False)
        ctx.save_for_backward(weights, split_weights, *inside)
        return inside.lefts[length, 0].clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        weights, split_weights, lefts, rights = ctx.saved_tensors
        length = lefts.shape[1]
        root = torch.where(lefts[length, 0] > -torch.inf, grad, 0)
        return *_outside(weights, split_weights, _Inside(lefts, rights), length, root), None
