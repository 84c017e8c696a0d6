"""The best derivation: the inside algorithm with maxima instead of sums, in logarithms."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from syntaxlm.ops.inside.types import FactoredRules, Layout, Rules, TableRules

_CACHED = 1 << 22  # candidates compared at once


@dataclass(frozen=True)
class Derivation:
    """The most probable derivation of one sentence.

    log_prob: joint log-probability of derivation and sentence.  spans: (first word, last word, symbol) in pre-order,
    of spans of two or more words, both words inclusive, symbols from 0 to m - 1.  preterminals: (n,) of the words,
    from 0.
    """

    log_prob: float
    spans: tuple[tuple[int, int, int], ...]
    preterminals: tuple[int, ...]


@torch.no_grad()
def best_derivations(rules: Rules, emissions: Tensor, words: Tensor, layout: Layout) -> list[Derivation]:
    """Return the best derivation of each sentence, in the caller's order. Arguments: see `log_partition`.

    O(n^2 m^2 + n^3 m) for independent children. Rules with a parent factor, and one table per sentence, are expanded
    to full tables: O(n^3 m (m + t)^2), for small grammars.
    """
    sentences = emissions[words].split(_given_lengths(layout))
    found = []
    for number, own in enumerate(sentences):
        if isinstance(rules, FactoredRules) and rules.parent is None:
            found.append(_Independent(rules, own).derivation())
        else:
            each = rules.of(number) if isinstance(rules, TableRules) else rules
            found.append(_Table(each, own).derivation())
    return found


def _given_lengths(layout: Layout) -> list[int]:
    lengths = torch.empty_like(layout.lengths)
    lengths[layout.order] = layout.lengths
    return [int(length) for length in lengths.tolist()]


class _Chart(ABC):
    """best: log-probabilities by (first, last), (m,) of spans, (t,) of words. `back` maps a span to its children."""

    def __init__(self, rules: Rules, emissions: Tensor) -> None:
        self.rules, self.emissions, self.length = rules, emissions, len(emissions)
        self.fill()

    @abstractmethod
    def fill(self) -> None:
        """Compute `best` of all spans, short ones first."""

    @abstractmethod
    def back(self, first: int, last: int, symbol: int) -> tuple[int, int, int]:
        """Return the last word of the left child, and the symbols of both children; preterminals start at m."""

    @abstractmethod
    def whole(self) -> Tensor:
        """(m,) log-probabilities of the whole sentence."""

    def derivation(self) -> Derivation:
        scores = self.rules.root.log() + self.whole()
        spans, preterminals = [], [0] * self.length
        open_spans = [(0, self.length - 1, int(scores.argmax()))]
        while open_spans:
            first, last, symbol = open_spans.pop()
            if first == last:
                preterminals[first] = symbol - self.rules.nonterminals
                continue
            spans.append((first, last, symbol))
            split, left, right = self.back(first, last, symbol)
            open_spans += [(split + 1, last, right), (first, split, left)]
        return Derivation(float(scores.max()), tuple(spans), tuple(preterminals))


class _Independent(_Chart):
    """Rules with independent children: the best symbol of a child is found per span, not per pair of spans."""

    def fill(self) -> None:
        assert isinstance(self.rules, FactoredRules)
        n, count = self.length, self.rules.nonterminals
        sides = torch.stack([self.rules.left, self.rules.right]).log()
        shape = n, n, count
        self.best = self.emissions.new_full(shape, -torch.inf)
        self.splits = torch.zeros(shape, dtype=torch.int64)
        self.children = self.emissions.new_full((2, *shape), -torch.inf)
        self.symbols = torch.zeros((2, *shape), dtype=torch.int64)
        diagonal = torch.arange(n)
        self._choose(sides[:, :, count:], self.emissions, diagonal, diagonal, count)
        for width in range(2, n + 1):
            first = torch.arange(n - width + 1)
            last = first + width - 1
            split = first[:, None] + torch.arange(width - 1)
            both = self.children[0, first[:, None], split] + self.children[1, split + 1, last[:, None]]
            best, which = both.max(1)
            self.best[first, last], self.splits[first, last] = best, which + first[:, None]
            if width < n:
                self._choose(sides[:, :, :count], best, first, last, 0)

    def _choose(self, sides: Tensor, values: Tensor, first: Tensor, last: Tensor, offset: int) -> None:
        """sides: (2, m, symbols) log-rules; values: (spans, symbols)."""
        together = max(1, _CACHED // sides[0].numel())
        for side in range(2):
            for low in range(0, len(values), together):
                part = slice(low, low + together)
                best, which = (values[part, None] + sides[side]).max(2)
                self.children[side, first[part], last[part]] = best
                self.symbols[side, first[part], last[part]] = which + offset

    def back(self, first: int, last: int, symbol: int) -> tuple[int, int, int]:
        split = int(self.splits[first, last, symbol])
        return split, int(self.symbols[0, first, split, symbol]), int(self.symbols[1, split + 1, last, symbol])

    def whole(self) -> Tensor:
        return self.best[0, self.length - 1]


class _Table(_Chart):
    def fill(self) -> None:
        n, count = self.length, self.rules.nonterminals
        table = self.rules.table().log()
        symbols = table.shape[-1]
        self.best: dict[tuple[int, int], Tensor] = {}
        self.backs: dict[tuple[int, int], tuple[Tensor, Tensor, Tensor]] = {}
        for word in range(n):
            nowhere = self.emissions.new_full((count,), -torch.inf)
            self.best[word, word] = torch.cat([nowhere, self.emissions[word]])
        nowhere = self.emissions.new_full((symbols - count,), -torch.inf)
        for width in range(2, n + 1):
            for first in range(n - width + 1):
                last = first + width - 1
                pairs = torch.stack([self.best[first, k][:, None] + self.best[k + 1, last] for k in range(first, last)])
                pair, split = pairs.max(0)  # for each pair of symbols
                best, which = (table + pair).flatten(1).max(1)
                self.best[first, last] = torch.cat([best, nowhere])
                self.backs[first, last] = split.flatten()[which] + first, which // symbols, which % symbols

    def back(self, first: int, last: int, symbol: int) -> tuple[int, int, int]:
        split, left, right = (int(part[symbol]) for part in self.backs[first, last])
        return split, left, right

    def whole(self) -> Tensor:
        return self.best[0, self.length - 1][: self.rules.nonterminals]
