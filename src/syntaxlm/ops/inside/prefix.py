"""Prefix probabilities: the probability that a sentence starts with the given words; surprisals follow from them.

An inside algorithm over spans that may be continued, in float64 with a scale per span, because the left-corner closure
is nearly singular for left-branching grammars. Jelinek & Lafferty 1991; Stolcke 1995.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from syntaxlm.ops.inside.types import FactoredRules, Layout, Rules, TableRules

_CACHED = 1 << 18  # products of children computed at a time


class PrefixLogProbs(NamedTuple):
    """Natural logarithms for B sentences of at most n words; -inf after a sentence's last word.

    prefixes: (B, n) log P(w_1 .. w_j followed by anything), including derivations that never end.
    sentences: (B, n) log P(the sentence is exactly w_1 .. w_j), from j = 2; -inf for j = 1.
    """

    prefixes: Tensor
    sentences: Tensor


@torch.no_grad()
def prefix_log_probs(rules: Rules, emissions: Tensor, words: Tensor, layout: Layout) -> PrefixLogProbs:
    """Return arguments: see `log_partition`. For independent children the cost is twice that of the inside algorithm.

        a_A(i, k) = sum_X left_AX beta_X(i, k),  c_A(i, j) = sum_X right_AX pi_X(i, j)
        pi(i, j) = Q sum_k a(i, k) * c(k + 1, j),  pi(i, i) = Q a(i, i) in nonterminals, e(w_i) in preterminals
    Q = (I - L)^-1, L_AB = left_AB. If the rules have a parent factor, factors replace nonterminals.
    """
    if isinstance(rules, TableRules):
        return _of_tables(rules, emissions, words, layout)
    root, left, right = composed(rules)
    count = len(root)
    closure = closure_of(left[:, :count])
    chart = complete_chart(root, left, right, emissions, words, layout)
    given = words[layout.words_order]
    top, probabilities = _scaled(emissions)
    begun, scales = torch.empty_like(chart.lefts), torch.empty_like(chart.scales)  # incomplete right children
    prefixes = root.new_full((layout.rows,), -torch.inf)
    opened = probabilities @ left[:, count:].T @ closure.T
    of_words = probabilities @ right[:, count:].T + opened @ right[:, :count].T
    begun[: len(given)], scales[: len(given)] = of_words[given], top[given]
    prefixes[: len(given)] = (opened @ root).log()[given] + top[given]
    for width in range(2, layout.longest + 1):
        span = layout.of_width(width)
        value, scales[span] = _split_sum(layout, width, chart.lefts, chart.scales, begun, scales, closure)
        prefixes[span] = (value @ root).log() + scales[span]
        begun[span] = value @ right[:, :count].T
    return _of_first_words(layout, prefixes, chart.wholes)


class CompleteChart(NamedTuple):
    """Complete spans, one row each as in `Layout`, in float64.

    lefts: (rows, R) inside probability of each span as a left child, divided by exp(scale).  scales: (rows,) natural
    logarithms.  wholes: (rows,) log P(S => span); -inf for single words.
    """

    lefts: Tensor
    scales: Tensor
    wholes: Tensor


def complete_chart(
    root: Tensor, left: Tensor, right: Tensor, emissions: Tensor, words: Tensor, layout: Layout | None
) -> CompleteChart:
    """Return the inside algorithm in float64. root, left, right: see `composed`.  layout: None if all have one word."""
    count = len(root)
    given = words if layout is None else words[layout.words_order]
    rows, single = len(given) if layout is None else layout.rows, len(given)
    top, probabilities = _scaled(emissions)
    lefts, rights = (root.new_empty(rows, count) for _ in range(2))
    scales, wholes = root.new_empty(rows), root.new_full((rows,), -torch.inf)
    lefts[:single], rights[:single] = ((probabilities @ side[:, count:].T)[given] for side in (left, right))
    scales[:single] = top[given]
    for width in range(2, 1 if layout is None else layout.longest + 1):
        assert layout is not None
        span = layout.of_width(width)
        value, scales[span] = _split_sum(layout, width, lefts, scales, rights, scales)
        wholes[span] = (value @ root).log() + scales[span]
        lefts[span], rights[span] = value @ left[:, :count].T, value @ right[:, :count].T
    return CompleteChart(lefts, scales, wholes)


def _split_sum(
    layout: Layout,
    width: int,
    lefts: Tensor,
    left_scales: Tensor,
    rights: Tensor,
    right_scales: Tensor,
    closure: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Return the sums over splits of all spans of one width: (spans, R) scaled to a maximum of 1, and the scales.

    closure: multiplied with the sums, if given.
    """
    left_rows, right_rows = layout.splits(width, range(1, width))
    logs = left_scales[left_rows] + right_scales[right_rows]
    top, factors = split_factors(logs)
    value = lefts.new_zeros(len(left_rows), lefts.shape[1])
    together = max(1, _CACHED // value.numel())
    for first in range(0, width - 1, together):
        part = slice(first, first + together)
        products = lefts[left_rows[:, part]] * rights[right_rows[:, part]]
        value += torch.einsum("sk,skr->sr", factors[:, part], products)
    if closure is not None:
        value = value @ closure.T
    value, scale = rescaled(value)
    return value, top + scale


def split_factors(logs: Tensor) -> tuple[Tensor, Tensor]:
    """Return the largest of the splits' logarithms, or 0 if no split is possible, and all relative to it,
    exponentiated.

    (..., k) -> (...), (..., k).
    """
    top = logs.amax(-1)
    top = top.where(top > -torch.inf, 0)
    return top, torch.exp(logs - top[..., None])


def rescaled(value: Tensor) -> tuple[Tensor, Tensor]:
    """(..., R) divided by its maximum, and the maximum's logarithm; zeros (impossible spans) are unchanged."""
    most = value.amax(-1)
    return value / most.where(most > 0, 1)[..., None], most.log()


def composed(rules: FactoredRules) -> tuple[Tensor, Tensor, Tensor]:
    """Return rules over factors instead of nonterminals, float64: (R,), (R, R + t), (R, R + t)."""
    root, left, right = rules.root.double(), rules.left.double(), rules.right.double()
    if rules.parent is not None:
        parent, count = rules.parent.double(), rules.nonterminals
        left, right = (torch.cat([side[:, :count] @ parent, side[:, count:]], 1) for side in (left, right))
        root = root @ parent
    return root, left, right


def closure_of(corners: Tensor) -> Tensor:
    """(I - L)^-1, the left-corner closure."""
    inverse: Tensor = torch.linalg.inv(torch.eye(len(corners)).to(corners) - corners)
    return inverse


def _scaled(emissions: Tensor) -> tuple[Tensor, Tensor]:
    """(u,) the largest log-probability of each word, and its probabilities divided by the largest: (u, t)."""
    top = emissions.double().amax(1)
    return top, torch.exp(emissions.double() - top[:, None])


def _of_first_words(layout: Layout, prefixes: Tensor, wholes: Tensor) -> PrefixLogProbs:
    """Select the spans that start at the first word."""
    return PrefixLogProbs(*(layout.squares(part, -torch.inf)[:, 0] for part in (prefixes, wholes)))


def _of_tables(rules: TableRules, emissions: Tensor, words: Tensor, layout: Layout) -> PrefixLogProbs:
    """Like `prefix_log_probs`, with a full rule table, one sentence at a time, for small grammars."""
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
    """Return prefixes and whole sentences of one sentence, (n,) each; emissions: (n, t) float64."""
    length, count = len(emissions), rules.nonterminals
    table, root = rules.binary.double(), rules.root.double()
    corners = table.sum(-1)
    closure = closure_of(corners[:, :count])
    inside = inside_of_table(rules, emissions)
    top, probabilities = _scaled(emissions)
    no_word = table.new_zeros(emissions.shape[1])
    begun: TableChart = {}
    prefixes, wholes = table.new_full((length,), -torch.inf), table.new_full((length,), -torch.inf)
    for word, own in enumerate(probabilities):
        begun[word, word] = torch.cat([closure @ (corners[:, count:] @ own), own]), top[word]
    for last in range(length):
        for first in range(last - 1, -1, -1):
            value, scale = _table_sum(table, inside, begun, first, last)
            value = closure @ value
            begun[first, last] = torch.cat([value, no_word]), scale
        value, scale = begun[0, last]
        prefixes[last] = (root @ value[:count]).log() + scale
        if last:
            value, scale = inside[0, last]
            wholes[last] = (root @ value[:count]).log() + scale
    return prefixes, wholes


TableChart = dict[tuple[int, int], tuple[Tensor, Tensor]]
"""(first, last) -> the probabilities of all symbols, (m + t,), divided by exp(scale), and the scale."""


def inside_of_table(rules: TableRules, emissions: Tensor) -> TableChart:
    """Return the inside algorithm for one sentence with a full rule table, in float64; emissions: (n, t)."""
    table, length = rules.binary.double(), len(emissions)
    top, probabilities = _scaled(emissions)
    no_span, no_word = table.new_zeros(rules.nonterminals), table.new_zeros(emissions.shape[1])
    inside: TableChart = {}
    for word, own in enumerate(probabilities):
        inside[word, word] = torch.cat([no_span, own]), top[word]
    for width in range(2, length + 1):
        for first in range(length - width + 1):
            value, scale = _table_sum(table, inside, inside, first, first + width - 1)
            inside[first, first + width - 1] = torch.cat([value, no_word]), scale
    return inside


def _table_sum(table: Tensor, left: TableChart, right: TableChart, first: int, last: int) -> tuple[Tensor, Tensor]:
    """Return the sum over splits of one span: (m,) scaled to a maximum of 1, and the scale."""
    pairs = [(left[first, k], right[k + 1, last]) for k in range(first, last)]
    top, factors = split_factors(torch.stack([one[1] + other[1] for one, other in pairs]))
    lefts = torch.stack([one[0] for one, _ in pairs]) * factors[:, None]
    value, scale = rescaled((table * (lefts.T @ torch.stack([other[0] for _, other in pairs]))).sum((1, 2)))
    return value, top + scale
