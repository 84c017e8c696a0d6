"""Samples of trees from their probabilities given the sentence: an inside pass, then choices from the root down.

Charts are in float64 and relative to the largest value of each span, whose logarithm is kept.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from syntaxlm.ops.inside.rules import FactoredRules, Layout, Rules

Values = npt.NDArray[np.float64]
Spans = list[tuple[int, int]]
"""Start and end of the spans of two words or more of a binary tree."""


@torch.no_grad()
def sample_trees(
    rules: Rules, emissions: Tensor, words: Tensor, layout: Layout, count: int, generator: np.random.Generator
) -> list[list[Spans]]:
    """Return `count` trees of each sentence, in the caller's order, without the labels of their derivations.

    Other arguments: see `log_partition`.
    """
    lengths = torch.empty_like(layout.lengths)
    lengths[layout.order] = layout.lengths
    samples = []
    for number, log_probs in enumerate(emissions[words].double().split(lengths.tolist())):
        # The scale of a word's probabilities does not matter.
        of_words = torch.exp(log_probs - log_probs.amax(1, keepdim=True)).cpu().numpy()
        if isinstance(rules, FactoredRules):
            chart: _Chart = _FactoredChart(rules, of_words)
        else:
            own = rules.of(number)
            chart = _TableChart(own.root.double().cpu().numpy(), own.binary.double().cpu().numpy(), of_words)
        draw = drawing(generator)
        samples.append([chart.sample(draw) for _ in range(count)])
    return samples


Draw = Callable[[Values], int]


def drawing(generator: np.random.Generator) -> Draw:
    """Return a function that draws an index in proportion to weights."""

    def draw(weights: Values) -> int:
        sums = weights.ravel().cumsum()
        return min(int(np.searchsorted(sums, generator.random() * sums[-1], side="right")), sums.size - 1)

    return draw


class _Chart(ABC):
    """values: by first and last word, of the symbols of a span, at most 1.  scales: their logarithms."""

    def __init__(self, root: Values, of_words: Values, size: int) -> None:
        self.root, self.length = root, len(of_words)
        self.values = np.zeros((self.length, self.length, size))
        self.scales = np.zeros((self.length, self.length))

    def _fill(self) -> None:
        for width in range(2, self.length + 1):
            for first in range(self.length - width + 1):
                last = first + width - 1
                sums, scale = self._sums(first, last)
                self.values[first, last] = sums / (most := sums.max())
                self.scales[first, last] = scale + np.log(most)
                self._complete(first, last)

    def _factors(self, first: int, last: int) -> tuple[Values, float]:
        """Return exp(scale) of the two parts of each split, relative to the largest, and its logarithm."""
        logs = self.scales[first, first:last] + self.scales[first + 1 : last + 1, last]
        return np.exp(logs - logs.max()), float(logs.max())

    def sample(self, draw: Draw) -> Spans:
        spans, open_spans = [], [(0, self.length - 1, draw(self.root * self.values[0, -1][: len(self.root)]))]
        while open_spans:
            first, last, symbol = open_spans.pop()
            spans.append((first, last + 1))
            split, left, right = self._choose(first, last, symbol, draw)
            open_spans += [(split + 1, last, right)] * (split + 1 < last) + [(first, split, left)] * (first < split)
        return spans

    @abstractmethod
    def _sums(self, first: int, last: int) -> tuple[Values, float]:
        """Return the values of a span, divided by exp of the second value."""

    @abstractmethod
    def _complete(self, first: int, last: int) -> None:
        """Compute what longer spans need of a span, besides its values."""

    @abstractmethod
    def _choose(self, first: int, last: int, symbol: int, draw: Draw) -> tuple[int, int, int]:
        """Draw the last word of the left part, and the symbols of both parts, which do not matter for words."""


class _FactoredChart(_Chart):
    """Children are independent given a factor, so spans have one value as the left and one as the right child of each.

    sides: left and right rules over factors, (R, R + t).
    """

    def __init__(self, rules: FactoredRules, of_words: Values) -> None:
        root, *self.sides = (part.double().cpu().numpy() for part in rules.over_factors())
        super().__init__(root, of_words, len(root))
        self.children = np.zeros((2, self.length, self.length, len(root)))
        words = np.arange(self.length)
        for side, of_side in enumerate(self.sides):
            self.children[side, words, words] = of_words @ of_side[:, len(root) :].T
        self._fill()

    def _sums(self, first: int, last: int) -> tuple[Values, float]:
        factors, scale = self._factors(first, last)
        lefts, rights = self.children[0, first, first:last], self.children[1, first + 1 : last + 1, last]
        return factors @ (lefts * rights), scale

    def _complete(self, first: int, last: int) -> None:
        for side, rules in enumerate(self.sides):
            self.children[side, first, last] = rules[:, : len(self.root)] @ self.values[first, last]

    def _choose(self, first: int, last: int, symbol: int, draw: Draw) -> tuple[int, int, int]:
        factors, _ = self._factors(first, last)
        lefts, rights = (
            self.children[0, first, first:last, symbol],
            self.children[1, first + 1 : last + 1, last, symbol],
        )
        split = first + draw(factors * lefts * rights)
        parts = (first, split), (split + 1, last)
        left, right = (
            draw(rules[symbol, : len(self.root)] * self.values[part]) if part[0] < part[1] else 0
            for rules, part in zip(self.sides, parts, strict=True)
        )
        return split, left, right


class _TableChart(_Chart):
    """A table of binary rules. root: (m,).  table: (m, m + t, m + t)."""

    def __init__(self, root: Values, table: Values, of_words: Values) -> None:
        super().__init__(root, of_words, table.shape[1])
        self.table = table
        words = np.arange(self.length)
        self.values[words, words, len(root) :] = of_words
        self._fill()

    def _sums(self, first: int, last: int) -> tuple[Values, float]:
        factors, scale = self._factors(first, last)
        pairs = self.values[first, first:last].T @ (factors[:, None] * self.values[first + 1 : last + 1, last])
        sums = np.zeros(self.table.shape[1])
        sums[: len(self.root)] = np.tensordot(self.table, pairs, 2)
        return sums, scale

    def _complete(self, first: int, last: int) -> None:
        """Nothing else is needed."""

    def _choose(self, first: int, last: int, symbol: int, draw: Draw) -> tuple[int, int, int]:
        factors, _ = self._factors(first, last)
        lefts, rights = self.values[first, first:last], self.values[first + 1 : last + 1, last]
        by_split = np.einsum("k,kb,bc,kc->k", factors, lefts, self.table[symbol], rights, optimize=True)
        number = draw(by_split)
        pair = draw(lefts[number, :, None] * self.table[symbol] * rights[number])
        return first + number, *divmod(pair, self.table.shape[1])
