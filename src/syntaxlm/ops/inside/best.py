"""The most probable derivation of a sentence: the inside algorithm with maxima instead of sums, in logarithms.

Back-pointers and not gradients of the maximum lead to the derivation: the backward of a maximum over pairs of symbols
would fill an array of all pairs. The oracle is `log_partition_reference` with `torch.amax`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from syntaxlm.ops.backend import parts
from syntaxlm.ops.inside.rules import FactoredRules, Layout, Rules

_CANDIDATES_TOGETHER = 1 << 22  # candidates that are compared at once

Back = Callable[[int, int, int], tuple[int, int, int]]
"""(first word, last word, symbol) of a span -> last word of its left child, symbols of both children; preterminals
start at m."""


@dataclass(frozen=True)
class Derivation:
    """The most probable derivation of one sentence.

    Attributes:
        log_prob: joint log-probability of derivation and sentence.
        spans: (first word, last word, symbol) in pre-order, of spans of two or more words, both words inclusive,
            symbols from 0 to m - 1.
        preterminals: (n,) of the words, from 0.
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
    lengths = torch.empty_like(layout.lengths)
    lengths[layout.order] = layout.lengths
    derivations = []
    for number, log_probs in enumerate(emissions[words].split(lengths.tolist())):
        if isinstance(rules, FactoredRules) and rules.parent is None:
            whole, back = _best_of_independent(rules, log_probs)
        else:
            rules_of_sentence = rules if isinstance(rules, FactoredRules) else rules.of(number)
            whole, back = _best_of_table(rules_of_sentence.table().log(), log_probs)
        root = rules.root if rules.root.ndim == 1 else rules.root[number]
        derivations.append(_derivation(root.log() + whole, back, len(log_probs)))
    return derivations


def _derivation(scores: Tensor, back: Back, length: int) -> Derivation:
    """Return the derivation from the best symbol of the whole sentence.

    Args:
        scores: (m,), of these symbols.
    """
    nonterminals = len(scores)
    spans, preterminals = [], [0] * length
    open_spans = [(0, length - 1, int(scores.argmax()))]
    while open_spans:
        first, last, symbol = open_spans.pop()
        if first == last:
            preterminals[first] = symbol - nonterminals
            continue
        spans.append((first, last, symbol))
        split, left, right = back(first, last, symbol)
        open_spans += [(split + 1, last, right), (first, split, left)]
    return Derivation(float(scores.max()), tuple(spans), tuple(preterminals))


def _best_of_independent(rules: FactoredRules, emissions: Tensor) -> tuple[Tensor, Back]:
    """Return the log-probabilities of the whole sentence by symbol, (m,), and back-pointers.

    Children are independent: the best symbol of a child is found per span, not per pair of spans.
    """
    n, count, device = len(emissions), rules.nonterminals, emissions.device
    sides = torch.stack([rules.left, rules.right]).log()
    splits = torch.zeros(n, n, count, dtype=torch.int64, device=device)
    children = emissions.new_full((2, n, n, count), -torch.inf)  # as left and as right child, by first and last word
    symbols = torch.zeros(2, n, n, count, dtype=torch.int64, device=device)

    def choose(sides: Tensor, values: Tensor, first: Tensor, last: Tensor, offset: int) -> None:
        """Find the best symbols of spans as children, for every parent.

        Args:
            sides: (2, m, symbols) log-rules.
            values: (spans, symbols), of the spans.
            first: (spans,) first word of each span.
            last: (spans,) last word of each span.
            offset: of the number of a symbol.
        """
        for side in range(2):
            for part in parts(len(values), max(1, _CANDIDATES_TOGETHER // sides[0].numel())):
                best, symbol = (values[part, None] + sides[side]).max(2)
                children[side, first[part], last[part]] = best
                symbols[side, first[part], last[part]] = symbol + offset

    best, diagonal = emissions.new_empty(0), torch.arange(n, device=device)
    choose(sides[:, :, count:], emissions, diagonal, diagonal, count)
    # V_A(i, j) = max over k of L_A(i, k) + R_A(k + 1, j), with L_A(i, k) = max over B of left_AB + V_B(i, k)
    for width in range(2, n + 1):
        first = torch.arange(n - width + 1, device=device)
        last = first + width - 1
        split = first[:, None] + torch.arange(width - 1, device=device)
        best, best_split = (children[0, first[:, None], split] + children[1, split + 1, last[:, None]]).max(1)
        splits[first, last] = best_split + first[:, None]
        if width < n:
            choose(sides[:, :, :count], best, first, last, 0)

    def back(first: int, last: int, symbol: int) -> tuple[int, int, int]:
        split = int(splits[first, last, symbol])
        return split, int(symbols[0, first, split, symbol]), int(symbols[1, split + 1, last, symbol])

    return best[0], back


def _best_of_table(table: Tensor, emissions: Tensor) -> tuple[Tensor, Back]:
    """Return the same for a table of log-rules, (m, m + t, m + t)."""
    n, (count, symbols, _) = len(emissions), table.shape
    best: dict[tuple[int, int], Tensor] = {}
    backs: dict[tuple[int, int], tuple[Tensor, Tensor, Tensor]] = {}
    no_nonterminal = emissions.new_full((count,), -torch.inf)
    no_preterminal = emissions.new_full((symbols - count,), -torch.inf)
    for word in range(n):
        best[word, word] = torch.cat([no_nonterminal, emissions[word]])
    # V_A(i, j) = max over B, C and k of rule_ABC + V_B(i, k) + V_C(k + 1, j)
    for width in range(2, n + 1):
        for first in range(n - width + 1):
            last = first + width - 1
            pairs = torch.stack([best[first, k][:, None] + best[k + 1, last] for k in range(first, last)])
            pair, split = pairs.max(0)  # for each pair of symbols
            scores, best_pair = (table + pair).flatten(1).max(1)
            best[first, last] = torch.cat([scores, no_preterminal])
            backs[first, last] = split.flatten()[best_pair] + first, best_pair // symbols, best_pair % symbols

    def back(first: int, last: int, symbol: int) -> tuple[int, int, int]:
        split, left, right = (int(part[symbol]) for part in backs[first, last])
        return split, left, right

    return best[0, n - 1][:count], back
