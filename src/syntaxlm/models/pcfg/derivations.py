"""Derivations of a grammar: sampled top-down, and its most probable rules and words."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from syntaxlm.core.errors import InputError
from syntaxlm.models.abilities import EmittedWord, SampledSentence, SymbolRule
from syntaxlm.models.sentences import Sums, draw_from, token_of
from syntaxlm.ops.inside import Rules, TableRules

_KEPT = 1 << 25  # most cumulative probabilities in memory (256 MiB)
_TOGETHER = 1 << 20  # most probabilities of pairs of children in memory


class Sampler:
    """Samples derivations from fixed rules, by inverse cumulative distributions.

    Cumulative distributions are computed on first use: a sentence needs few of those of a large grammar.
    """

    def __init__(self, rules: Rules, emissions: Tensor) -> None:
        self.rules, self.emissions = rules, emissions
        self.nonterminals = rules.nonterminals
        self._sums: dict[tuple[str, int], Sums] = {}
        self._size = 0

    def draw(self, longest: int, generator: np.random.Generator, omitted: int = 0) -> SampledSentence | None:
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
        return SampledSentence(tuple(words), closed, tuple(labels))

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


@torch.no_grad()
def top_rules(rules: Rules, nonterminal: int, count: int) -> list[SymbolRule]:
    """Return the most probable binary rules of a nonterminal, in descending order.

    Exact, in O(m + t) memory for factored rules. p(A -> B C) = sum_l parent_Al left_lB right_lC is at most
    sum_l parent_Al left_lB max_C right_lC, so left children are tried in descending order of this bound until no other
    left child can be among the best.
    """
    if isinstance(rules, TableRules):
        symbols = rules.binary.shape[-1]
        found = rules.binary[nonterminal].flatten().topk(min(count, symbols**2))
        pairs = zip(found.indices.tolist(), found.values.tolist(), strict=True)
        return [SymbolRule(place // symbols, place % symbols, probability) for place, probability in pairs]
    if rules.parent is None:
        left, right = rules.left[nonterminal, None].double(), rules.right[nonterminal, None].double()
    else:
        left, right = rules.parent[nonterminal, :, None].double() * rules.left.double(), rules.right.double()
    symbols = left.shape[1]
    bounds, order = (right.amax(1) @ left).sort(descending=True)
    size = max(1, _TOGETHER // symbols)
    best: list[SymbolRule] = []
    for low in range(0, symbols, size):
        if len(best) == count and float(bounds[low]) <= best[-1].probability:
            break
        chosen = order[low : low + size]
        table = left[:, chosen].T @ right
        values, places = table.flatten().topk(min(count, table.numel()))
        for value, place in zip(values.tolist(), places.tolist(), strict=True):
            best.append(SymbolRule(int(chosen[place // symbols]), place % symbols, value))
        best = sorted(best, key=lambda rule: -rule.probability)[:count]
    return best


@torch.no_grad()
def top_words(emissions: Tensor, preterminal: int, count: int) -> list[EmittedWord]:
    """Return the most probable words of a preterminal, in descending order. emissions: (V, t) natural log p(w | T)."""
    values, words = emissions[:, preterminal].double().exp().topk(min(count, len(emissions)))
    return [EmittedWord(token_of(word), p) for word, p in zip(words.tolist(), values.tolist(), strict=True)]
