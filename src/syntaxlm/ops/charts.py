"""Dynamic programming over the binary trees of a batch of sentences of one length, in torch.

A tree's weight is the sum of the weights of its spans and splits. Charts have the layout of `syntaxlm.trees.charts`;
computation stays on the device and in the dtype of the weights, without gradients. Marginals and the spans of the best
trees are computed by an outside pass: O(n^2) memory per sentence.

All splits of all spans of one width are added at once. Two dense charts turn this into a sum of two slices: one is
indexed by [width, start], the other by [n - width, end - 1], because the wider the left part, the narrower the right.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from syntaxlm.ops.sampling import TreeSpans, draw, top_down_tree
from syntaxlm.trees.charts import blocks, checked_length, split_blocks


class Marginals(NamedTuple):
    """The probabilities of spans.

    Attributes:
        log_totals: (B,) as returned by `total`.
        spans: (n(n + 1)/2, B) the probability of each span, 0 to 1.
    """

    log_totals: Tensor
    spans: Tensor


class MaximalTrees(NamedTuple):
    """The best trees.

    Attributes:
        scores: (B,) the weight of the best tree.
        spans: (n(n + 1)/2, B) whether the best tree has each span.
    """

    scores: Tensor
    spans: Tensor


@torch.no_grad()
def total(weights: Tensor, split_weights: Tensor | None = None) -> Tensor:
    """Return the log of the sum of exp(weight) over all binary trees, (B,): the inside algorithm.

    The result is -inf if every tree has weight -inf. NaN and infinity are not checked for, because the check would make
    the CPU wait for the device.

    Args:
        weights: (n(n + 1)/2, B), finite or -inf, including those of one-word spans and of the whole sentence.
        split_weights: (C(n + 1, 3), B) or None.

    Raises:
        ValueError: for wrong shapes.
    """
    return _InsideChart(weights, split_weights, best=False).totals


@torch.no_grad()
def marginals(weights: Tensor, split_weights: Tensor | None = None) -> Marginals:
    """Return the probability of each span under P(tree) proportional to exp(weight).

    Arguments: see `total`. If all trees of a sentence have weight -inf, its marginals are 0; otherwise one-word spans
    and the whole sentence have 1.
    """
    inside = _InsideChart(weights, split_weights, best=False)
    return Marginals(inside.totals, inside.outside((inside.totals > -torch.inf).to(weights.dtype)))


@torch.no_grad()
def best(weights: Tensor, split_weights: Tensor | None = None) -> MaximalTrees:
    """Return a binary tree of maximal weight for each sentence: the CYK algorithm.

    Arguments: see `total`; integer weights are added exactly. Of equally good splits of a span, the one with the
    shortest left part is taken.
    """
    inside = _InsideChart(weights, split_weights, best=True)
    spans = inside.outside(torch.ones_like(weights[0])) > 0
    return MaximalTrees(inside.totals + weights[: inside.length].sum(0), spans)


@torch.no_grad()
def sample(
    weights: Tensor, split_weights: Tensor | None, count: int, generator: np.random.Generator
) -> list[list[TreeSpans]]:
    """Return `count` trees of each sentence under P(tree) proportional to exp(weight): spans of two words or more.

    Other arguments: see `total`; not all trees of a sentence may have weight -inf.
    """
    inside = _InsideChart(weights, split_weights, best=False)
    length, lefts = inside.length, inside.lefts.cpu().numpy()
    weights_of_splits = None if split_weights is None else split_weights.cpu().numpy()

    def tree(column: int) -> TreeSpans:
        # P(i | l, r) is proportional to exp(I(l, i) + I(i, r) + s(l, i, r))
        def split(start: int, width: int, symbol: int) -> tuple[int, int, int]:
            widths = np.arange(1, width)
            sums = lefts[widths, start, column] + lefts[width - widths, start + widths, column]
            if weights_of_splits is not None:
                block = weights_of_splits[split_blocks(length)[width], column]
                sums = sums + block.reshape(width - 1, -1)[:, start]
            return 1 + draw(np.exp(sums - sums.max()), generator), symbol, symbol

        return top_down_tree(length, 0, split)

    return [[tree(column) for _ in range(count)] for column in range(weights.shape[1])]


class _InsideChart:
    """inside(l, r) = weight(l, r) + log-sum (or maximum) over l < i < r of inside(l, i) + inside(i, r).

    Attributes:
        best: whether to take the maximum and ignore one-word spans.
        lefts: inside of all spans by [width, start], (n + 1, n, B).
        rights: inside of all spans by [n - width, end - 1], (n + 1, n, B).
        totals: inside of whole sentences, (B,).
    """

    def __init__(self, weights: Tensor, split_weights: Tensor | None, best: bool) -> None:
        self.length = length = checked_length(weights, split_weights)
        self.weights = weights
        self.split_weights = split_weights
        self.best = best
        self.lefts, self.rights = weights.new_empty(2, length + 1, length, weights.shape[1]).unbind()
        # I(l, r) = w(l, r) + log-sum (or max) over l < i < r of I(l, i) + I(i, r) + s(l, i, r)
        for width, block in enumerate(blocks(length)[1:], 1):
            row = weights[block]
            if width > 1:
                sums = self._split_sums(width)
                row = row + (sums.amax(0) if best else sums.logsumexp(0))
            elif best:
                row = torch.zeros_like(row)
            self._of_width(self.lefts, width)[:] = row
            self.rights[length - width, width - 1 :] = row
        self.totals = self.lefts[length, 0].clone()

    def outside(self, root: Tensor) -> Tensor:
        """Return the shares of all spans in `root`, (B,): (n(n + 1)/2, B).

        From the widest spans to the narrowest, each distributes its share to its splits' parts, by the probabilities of
        the splits or all to the best one.
        """
        length, weights = self.length, self.weights
        shares = torch.empty_like(weights)
        as_left, as_right = weights.new_zeros(2, length + 1, length, weights.shape[1])
        as_left[length, 0] = root
        # O(l, i) = sum over r of O(l, r) P(i | l, r), as left part; O(i, r) = sum over l of the same, as right part
        for width in range(length, 0, -1):
            block = blocks(length)[width]
            shares[block] = self._of_width(as_left, width) + as_right[length - width, width - 1 :]
            if width == 1:
                break

            # The probabilities of the splits, given the span; 1 for the first best split.
            sums = self._split_sums(width)
            if self.best:
                is_best = sums == sums.amax(0)
                probabilities = (is_best & (is_best.cumsum(0) == 1)).to(weights.dtype)
            else:
                row = self._of_width(self.lefts, width)
                logs = torch.where(row == -torch.inf, torch.inf, row - weights[block])
                probabilities = sums.sub_(logs).exp_()  # exp(-inf) for a span that is in no tree
            part_shares = probabilities * shares[block]
            as_left[1:width, : length - width + 1] += part_shares
            as_right[length - width + 1 : length, width - 1 :] += part_shares
        return shares

    def _of_width(self, chart: Tensor, width: int) -> Tensor:
        """Return the spans of one width in a chart indexed by [width, start]: (n - width + 1, B)."""
        return chart[width, : self.length - width + 1]

    def _split_sums(self, width: int) -> Tensor:
        """Return left + right (+ split weight) of all splits of spans of one width: (width - 1, n - width + 1, B)."""
        length = self.length
        sums = self.lefts[1:width, : length - width + 1] + self.rights[length - width + 1 : length, width - 1 :]
        if self.split_weights is not None:
            sums += self.split_weights[split_blocks(length)[width]].view_as(sums)
        return sums
