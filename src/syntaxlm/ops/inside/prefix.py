"""Prefix probabilities: how probable it is that a sentence begins with some words. Surprisals from a grammar.

The inside algorithm once more, over spans that may be continued, in float64 with a scale per span: the left-corner
closure is near singular for grammars that branch left. Jelinek & Lafferty 1991; Stolcke 1995.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from syntaxlm.ops.inside.types import Layout, Rules, TableRules


class PrefixLogProbs(NamedTuple):
    """Of B sentences of at most n words, natural logarithms; minus infinity behind a sentence's last word.

    prefixes: (B, n) log P(w_1 .. w_j followed by anything), derivations that never end included.
    sentences: (B, n) log P(the sentence is exactly w_1 .. w_j), from j = 2; minus infinity for j = 1.
    """

    prefixes: Tensor
    sentences: Tensor


@torch.no_grad()
def prefix_log_probs(rules: Rules, emissions: Tensor, words: Tensor, layout: Layout) -> PrefixLogProbs:
    """Arguments as of `log_partition`. For independent children the cost is twice that of the inside algorithm.

        a_A(i, k) = sum_X left_AX beta_X(i, k),  c_A(i, j) = sum_X right_AX pi_X(i, j)
        pi(i, j) = Q sum_k a(i, k) * c(k + 1, j),  pi(i, i) = Q a(i, i) in nonterminals, e(w_i) in preterminals
    Q = (I - L)^-1, L_AB = left_AB. Factors instead of nonterminals where the rules have a parent factor.
    """
    if isinstance(rules, TableRules):
        return _of_tables(rules, emissions, words, layout)
    left, right, root = rules.left.double(), rules.right.double(), rules.root.double()
    count = rules.nonterminals
    if rules.parent is not None:
        parent = rules.parent.double()
        left, right = (torch.cat([side[:, :count] @ parent, side[:, count:]], 1) for side in (left, right))
        root, count = root @ parent, rules.parent.shape[1]
    closure = torch.linalg.inv(torch.eye(count).to(left) - left[:, :count])
    scales = emissions.double().amax(1)
    probabilities = torch.exp(emissions.double() - scales[:, None])
    given = words[layout.words_order]
    rows, single = layout.rows, len(given)
    # As left child; as right child, complete and begun; and the scales of both.
    lefts, rights, begun = (root.new_empty(rows, count) for _ in range(3))
    inside_scales, begun_scales = (root.new_empty(rows) for _ in range(2))
    wholes, prefixes = (root.new_full((rows,), -torch.inf) for _ in range(2))
    by_word = probabilities @ left[:, count:].T
    lefts[:single] = by_word[given]
    rights[:single] = (probabilities @ right[:, count:].T)[given]
    opened = by_word @ closure.T
    begun[:single] = rights[:single] + (opened @ right[:, :count].T)[given]
    inside_scales[:single] = begun_scales[:single] = scales[given]
    prefixes[:single] = (opened @ root).log()[given] + scales[given]
    for width in range(2, layout.longest + 1):
        span = layout.of_width(width)
        left_rows, right_rows = layout.splits(width, range(1, width))
        for right_worth, right_scales, total, of_roots, worth, open_ in (
            (rights, inside_scales, inside_scales, wholes, rights, False),
            (begun, begun_scales, begun_scales, prefixes, begun, True),
        ):
            logs = inside_scales[left_rows] + right_scales[right_rows]
            top = logs.amax(1)
            factors = torch.exp(logs - top[:, None])
            value = torch.zeros(len(left_rows), count).to(left)
            for split in range(width - 1):
                value += factors[:, split, None] * lefts[left_rows[:, split]] * right_worth[right_rows[:, split]]
            if open_:
                value = value @ closure.T
            most = value.amax(1)
            value = value / most[:, None]
            total[span] = top + most.log()
            of_roots[span] = (value @ root).log() + total[span]
            worth[span] = value @ right[:, :count].T
            if not open_:
                lefts[span] = value @ left[:, :count].T
    return _of_first_words(layout, prefixes, wholes)


def _of_first_words(layout: Layout, prefixes: Tensor, wholes: Tensor) -> PrefixLogProbs:
    """From all spans to those that begin a sentence."""
    return PrefixLogProbs(*(layout.squares(part, -torch.inf)[:, 0] for part in (prefixes, wholes)))


def _of_tables(rules: TableRules, emissions: Tensor, words: Tensor, layout: Layout) -> PrefixLogProbs:
    """The same with a full table in the sum over splits: one sentence at a time, for small grammars."""
    order = layout.words_order
    given = torch.empty_like(order)
    given[order] = torch.arange(len(order), device=order.device)
    prefixes, wholes = (torch.full((layout.rows,), -torch.inf, dtype=torch.float64) for _ in range(2))
    for place, number in enumerate(layout.order.tolist()):
        length, begin = int(layout.lengths[place]), int(layout.begins[place])
        own = emissions[words[order[begin : begin + length]]].double()
        found = _of_table(rules.of(number), own)
        width = torch.arange(1, length + 1)
        rows = layout.row(torch.full_like(width, place), torch.zeros_like(width), width)
        prefixes[rows], wholes[rows] = (part.cpu() for part in found)
    return _of_first_words(layout, prefixes, wholes)


def _of_table(rules: TableRules, emissions: Tensor) -> tuple[Tensor, Tensor]:
    """(n,) each: prefixes and sentences of one sentence; emissions (n, t) float64."""
    length, count = len(emissions), rules.nonterminals
    table, root = rules.binary.double(), rules.root.double()
    corners = table.sum(-1)
    closure = torch.linalg.inv(torch.eye(count).to(corners) - corners[:, :count])
    tops = emissions.amax(1)
    probabilities = torch.exp(emissions - tops[:, None])
    inside, begun = {}, {}  # (symbols,) and the scale, by first and last word
    no_span, no_word = table.new_zeros(count), table.new_zeros(emissions.shape[1])
    prefixes, wholes = table.new_full((length,), -torch.inf), table.new_full((length,), -torch.inf)
    for word in range(length):
        own = probabilities[word]
        inside[word, word] = torch.cat([no_span, own]), tops[word]
        begun[word, word] = torch.cat([closure @ (corners[:, count:] @ own), own]), tops[word]
    prefixes[0] = (root @ begun[0, 0][0][:count]).log() + tops[0]
    for width in range(2, length + 1):
        for first in range(length - width + 1):
            last = first + width - 1
            for right, final in ((inside, None), (begun, closure)):
                pairs = [(inside[first, k], right[k + 1, last]) for k in range(first, last)]
                scale = torch.stack([one[1] + other[1] for one, other in pairs])
                top = scale.max()
                factors = torch.exp(scale - top)
                lefts = torch.stack([one[0] for one, _ in pairs]) * factors[:, None]
                both = lefts.T @ torch.stack([other[0] for _, other in pairs])
                value = (table * both).sum((1, 2))
                if final is not None:
                    value = final @ value
                most = value.max()
                right[first, last] = torch.cat([value / most, no_word]), top + most.log()
                if first == 0:
                    into = wholes if final is None else prefixes
                    into[last] = (root @ value).log() + top
    return prefixes, wholes
