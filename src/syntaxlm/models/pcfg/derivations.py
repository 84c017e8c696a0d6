"""Derivations sampled from the rules of a grammar, top-down, and its most probable rules."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from syntaxlm.core.errors import InputError
from syntaxlm.core.threads import publishing
from syntaxlm.models.abilities import SampledSentence, SymbolRule
from syntaxlm.ops.inside import Rules, TableRules
from syntaxlm.ops.sampling import Values, draw_from

_REMEMBERED_PROBABILITIES = 1 << 25  # most cumulative probabilities of a sampler in memory: 256 MiB
_PAIRS_TOGETHER = 1 << 20  # most probabilities of pairs of children in memory at a time


class Sampler:
    """Samples derivations from fixed rules, by inverse cumulative distributions.

    Cumulative distributions are computed on first use: a sentence needs few of those of a large grammar.
    """

    def __init__(self, rules: Rules, emissions: Tensor) -> None:
        self.rules = rules
        self._tables = {"root": rules.root[None], "words": emissions.T}  # a distribution in each row; words: logarithms
        if isinstance(rules, TableRules):
            self._tables["pairs"] = rules.binary.flatten(1)
        else:
            self._tables |= {"left": rules.left, "right": rules.right}
            if rules.parent is not None:
                self._tables["parent"] = rules.parent
        self._sums: dict[tuple[str, int], Values] = {}
        self._size = 0

    def draw(self, longest: int, generator: np.random.Generator, omitted: int = 0) -> SampledSentence | None:
        """Return a sentence, or None if it would be longer than the limit.

        Args:
            omitted: number of the first words that are not sampled; the other words' probabilities are renormalised.
        """
        words: list[int] = []
        labels: list[int] = []
        spans: list[list[int]] = []

        # Symbols to expand, from left to right; the index of a span marks its end.
        waiting: list[tuple[int, bool]] = [(self._draw_index("root", 0, generator), False)]
        pending = 1  # symbols to expand, each into at least one word
        while waiting:
            symbol, is_end = waiting.pop()
            if is_end:
                spans[symbol][1] = len(words) - 1
                continue
            if symbol >= self.rules.nonterminals:
                words.append(self._draw_index("words", symbol - self.rules.nonterminals, generator, omitted))
                labels.append(symbol)
                pending -= 1
                continue

            # A nonterminal becomes two symbols.
            pending += 1
            if len(words) + pending > longest:
                return None
            spans.append([len(words), -1, symbol])
            if "pairs" in self._tables:
                symbols = self.rules.nonterminals + self.rules.preterminals
                left, right = divmod(self._draw_index("pairs", symbol, generator), symbols)
            else:
                factor = self._draw_index("parent", symbol, generator) if "parent" in self._tables else symbol
                left = self._draw_index("left", factor, generator)
                right = self._draw_index("right", factor, generator)
            waiting += [(len(spans) - 1, True), (right, False), (left, False)]

        closed = tuple((first, last, symbol) for first, last, symbol in spans)
        return SampledSentence(tuple(words), closed, tuple(labels))

    def _draw_index(self, name: str, row: int, generator: np.random.Generator, omitted: int = 0) -> int:
        """Return an index drawn from a row of a table. Raises InputError for NaN."""
        sums = self._sums.get((name, row))
        if sums is None:
            shares = self._tables[name][row].double()
            sums = np.cumsum((shares.exp() if name == "words" else shares).cpu().numpy())
            if np.isnan(sums[-1]):
                raise InputError("the model returned NaN; its weights are unusable")
            with publishing:
                if self._size + len(sums) > _REMEMBERED_PROBABILITIES:
                    self._sums.clear()
                    self._size = 0
                self._sums[name, row] = sums
                self._size += len(sums)
        return draw_from(sums, generator, omitted)


@torch.no_grad()
def top_rules(rules: Rules, nonterminal: int, count: int) -> list[SymbolRule]:
    """Return the most probable binary rules of a nonterminal, in descending order.

    Exact, in O(m + t) memory for factored rules. p(A -> B C) = sum_l parent_Al left_lB right_lC is at most
    sum_l parent_Al left_lB max_C right_lC, so left children are tried in descending order of this bound until no other
    left child can be among the best.
    """
    if isinstance(rules, TableRules):
        symbols = rules.binary.shape[-1]
        values, places = rules.binary[nonterminal].flatten().topk(min(count, symbols**2))
        pairs = zip(places.tolist(), values.tolist(), strict=True)
        return [SymbolRule(place // symbols, place % symbols, probability) for place, probability in pairs]
    if rules.parent is None:
        left = rules.left[nonterminal, None].double()
        right = rules.right[nonterminal, None].double()
    else:
        left = rules.parent[nonterminal, :, None].double() * rules.left.double()
        right = rules.right.double()
    symbols = left.shape[1]
    bounds, order = (right.amax(1) @ left).sort(descending=True)
    size = max(1, _PAIRS_TOGETHER // symbols)
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
