"""Sentences drawn from a grammar, top down."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from torch import Tensor

from syntaxlm.ops.inside import Rules, TableRules


class Sample(NamedTuple):
    """A sentence drawn from a grammar: its words, and its spans (first, last, nonterminal), a span before its parts."""

    words: tuple[int, ...]
    spans: tuple[tuple[int, int, int], ...]


class Sampler:
    """Draws derivations from fixed rules, by inverse cumulative distributions."""

    def __init__(self, rules: Rules, emissions: Tensor) -> None:
        def cumulated(shares: Tensor) -> np.ndarray:
            sums: np.ndarray = shares.double().cumsum(-1).cpu().numpy()
            return sums

        self.nonterminals = rules.nonterminals
        self.symbols = rules.nonterminals + rules.preterminals
        self.root, self.words = cumulated(rules.root), cumulated(emissions.T.exp())
        self.parent = self.pairs = None
        if isinstance(rules, TableRules):
            self.pairs = cumulated(rules.binary.flatten(1))
        else:
            self.left, self.right = cumulated(rules.left), cumulated(rules.right)
            self.parent = None if rules.parent is None else cumulated(rules.parent)

    def draw(self, longest: int, generator: np.random.Generator) -> Sample | None:
        """A sentence, or None where it would be longer than the limit."""
        words: list[int] = []
        spans: list[list[int]] = []
        # Symbols to expand, from left to right; a span's number stands for its end.
        waiting: list[tuple[int, bool]] = [(self._one(self.root, generator), False)]
        pending = 1  # symbols that will be words or more
        while waiting:
            symbol, is_end = waiting.pop()
            if is_end:
                spans[symbol][1] = len(words) - 1
                continue
            if symbol >= self.nonterminals:
                words.append(self._one(self.words[symbol - self.nonterminals], generator))
                pending -= 1
                continue
            pending += 1
            if len(words) + pending > longest:
                return None
            spans.append([len(words), -1, symbol])
            left, right = self._children(symbol, generator)
            waiting += [(len(spans) - 1, True), (right, False), (left, False)]
        return Sample(tuple(words), tuple((first, last, symbol) for first, last, symbol in spans))

    def _children(self, symbol: int, generator: np.random.Generator) -> tuple[int, int]:
        if self.pairs is not None:
            return divmod(self._one(self.pairs[symbol], generator), self.symbols)
        factor = symbol if self.parent is None else self._one(self.parent[symbol], generator)
        return self._one(self.left[factor], generator), self._one(self.right[factor], generator)

    @staticmethod
    def _one(sums: np.ndarray, generator: np.random.Generator) -> int:
        return int(np.searchsorted(sums, generator.random() * sums[-1], side="right").clip(max=len(sums) - 1))
