"""Top-down sampling of sentences from a grammar."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from torch import Tensor

from syntaxlm.core.errors import InputError
from syntaxlm.ops.inside import Rules, TableRules

_TRIES = 1000  # attempts to sample a sentence that is short enough
_KEPT = 1 << 25  # most cumulative probabilities in memory (256 MiB)

Sums = npt.NDArray[np.float64]


class Sample(NamedTuple):
    """A sentence sampled from a grammar.

    spans: (first word, last word, nonterminal) in pre-order, both words inclusive.
    word_labels: the preterminal of each word, numbered after the nonterminals; empty for a sentence of one word, which
    the grammar does not generate.
    """

    words: tuple[int, ...]
    spans: tuple[tuple[int, int, int], ...]
    word_labels: tuple[int, ...] = ()


class Sampler:
    """Samples derivations from fixed rules, by inverse cumulative distributions.

    Cumulative distributions are computed on first use: a sentence needs few of those of a large grammar.
    """

    def __init__(self, rules: Rules, emissions: Tensor) -> None:
        self.rules, self.emissions = rules, emissions
        self.nonterminals = rules.nonterminals
        self._sums: dict[tuple[str, int], Sums] = {}
        self._size = 0

    def draw(self, longest: int, generator: np.random.Generator, omitted: int = 0) -> Sample | None:
        """Return a sentence, or None if it would be longer than the limit.

        omitted: number of the first words that are not sampled; the other words' probabilities are renormalised.
        """
        words: list[int] = []
        labels: list[int] = []
        spans: list[list[int]] = []
        root = self._cumulated("root", 0, lambda: self.rules.root)
        # Symbols to expand, from left to right; the index of a span marks its end.
        waiting: list[tuple[int, bool]] = [(draw_from(root, generator), False)]
        pending = 1  # symbols to expand, each into at least one word
        while waiting:
            symbol, is_end = waiting.pop()
            if is_end:
                spans[symbol][1] = len(words) - 1
                continue
            if symbol >= self.nonterminals:
                words.append(draw_from(self._words_of(symbol - self.nonterminals), generator, omitted))
                labels.append(symbol)
                pending -= 1
                continue
            pending += 1
            if len(words) + pending > longest:
                return None
            spans.append([len(words), -1, symbol])
            left, right = self._children(symbol, generator)
            waiting += [(len(spans) - 1, True), (right, False), (left, False)]
        closed = tuple((first, last, symbol) for first, last, symbol in spans)
        return Sample(tuple(words), closed, tuple(labels))

    def _words_of(self, preterminal: int) -> Sums:
        return self._cumulated("words", preterminal, lambda: self.emissions[:, preterminal].double().exp())

    def _children(self, symbol: int, generator: np.random.Generator) -> tuple[int, int]:
        rules = self.rules
        if isinstance(rules, TableRules):
            pairs = self._cumulated("pairs", symbol, lambda: rules.binary[symbol].flatten())
            return divmod(draw_from(pairs, generator), rules.binary.shape[-1])
        factor, parent = symbol, rules.parent
        if parent is not None:
            factor = draw_from(self._cumulated("parent", symbol, lambda: parent[symbol]), generator)
        left = self._cumulated("left", factor, lambda: rules.left[factor])
        right = self._cumulated("right", factor, lambda: rules.right[factor])
        return draw_from(left, generator), draw_from(right, generator)

    def _cumulated(self, name: str, row: int, shares: Callable[[], Tensor]) -> Sums:
        """Return the cumulative sums of a distribution, (n,). Raises InputError for NaN."""
        found = self._sums.get((name, row))
        if found is None:
            found = np.cumsum(shares().double().cpu().numpy())
            if np.isnan(found[-1]):
                raise InputError("the model returned NaN; its weights are unusable")
            if self._size + len(found) > _KEPT:
                self._sums.clear()
                self._size = 0
            self._sums[name, row] = found
            self._size += len(found)
        return found


def draw_short(
    sampler: Callable[[], Sampler], longest: int, generator: np.random.Generator, omitted: int = 0
) -> Sample:
    """Return a sentence of at most `longest` words; longer ones are resampled, each from a new sampler.

    Raises InputError if none of 1,000 attempts is short enough.
    """
    for _ in range(_TRIES):
        found = sampler().draw(longest, generator, omitted)
        if found is not None:
            return found
    raise InputError(f"none of {_TRIES:,} sampled sentences has at most {longest} words; allow longer sentences")


def draw_from(sums: Sums, generator: np.random.Generator, omitted: int = 0) -> int:
    """Sample an index from a distribution's cumulative sums. omitted: number of the first indices not allowed."""
    below = float(sums[omitted - 1]) if omitted else 0.0
    point = below + generator.random() * (float(sums[-1]) - below)
    return min(int(np.searchsorted(sums, point, side="right")), len(sums) - 1)
