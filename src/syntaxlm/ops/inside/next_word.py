"""The distribution of the next word after a prefix, by a reverse pass over prefix probabilities."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from syntaxlm.ops.inside.prefix import closure_of, complete_chart, composed, inside_of_table, rescaled, split_factors
from syntaxlm.ops.inside.types import FactoredRules, Layout, Rules, TableRules


class NextWords(NamedTuple):
    """P(prefix w ...) = exp(scale) * sum_T weights_T p(w | T) for a next word w, for each of B prefixes.

    weights: (B, t).  scales: (B,) natural logarithms. Both float64.
    """

    weights: Tensor
    scales: Tensor


@torch.no_grad()
def next_words(rules: Rules, emissions: Tensor, words: Tensor, lengths: tuple[int, ...]) -> NextWords:
    """For each prefix, the linear function of a next word's emissions that gives the probability of the longer prefix.

    emissions, words: as in `log_partition`; a prefix may have any number of words, including 0.
    This is the gradient of prefix probabilities (`prefix_log_probs`) with respect to the last word's emissions. With
    H_1 = root Q, for j = 2, ..., n + 1:
        C_j = sum_{i < j} H_i * a(i, j - 1),  G_j = C_j right,  H_j = G_j Q
    where a(i, k) is the inside probability of the span from i to k as a left child; the weights are H_n+1 left +
    C_n+1 right over preterminals. O(n^2 m + n m^2) for independent children, in addition to the inside algorithm.
    """
    preterminals = rules.preterminals
    weights = torch.zeros(len(lengths), preterminals, dtype=torch.float64, device=rules.root.device)
    scales = weights.new_zeros(len(lengths))
    parts = words.split(lengths)
    for length in sorted(set(lengths)):
        columns = [column for column, each in enumerate(lengths) if each == length]
        of_length = _of_factors if isinstance(rules, FactoredRules) else _of_tables
        chosen = torch.stack([parts[column] for column in columns])
        index = torch.tensor(columns, device=weights.device)
        weights[index], scales[index] = of_length(rules, emissions, chosen)  # type: ignore[arg-type]
    return NextWords(weights, scales)


def _of_factors(rules: FactoredRules, emissions: Tensor, words: Tensor) -> tuple[Tensor, Tensor]:
    """Return weights and scales of prefixes of one length: words (B, n) -> (B, t), (B,)."""
    root, left, right = composed(rules)
    count, (batch, length) = len(root), words.shape
    closure = closure_of(left[:, :count])
    reached = (root @ closure).expand(batch, 1, count)  # H, (B, j, R), and its scales
    scales = reached.new_zeros(batch, 1)
    if not length:
        return reached[:, 0] @ left[:, count:], scales[:, 0]
    layout = Layout([length] * batch, words.device) if length > 1 else None
    chart = complete_chart(root, left, right, emissions, words.flatten(), layout)
    sentence = torch.arange(batch)[:, None]
    opened = reached[:, 0]
    for end in range(1, length + 1):  # C of the position after `end` words
        first = torch.arange(end)[None]
        rows = sentence * length + first if layout is None else layout.row(sentence, first, end - first)
        top, factors = split_factors(scales + chart.scales[rows])
        opened, scale = rescaled(torch.einsum("bi,bim,bim->bm", factors, reached, chart.lefts[rows]))
        scales = torch.cat([scales, (top + scale)[:, None]], 1)
        reached = torch.cat([reached, (opened @ right[:, :count] @ closure)[:, None]], 1)
    return reached[:, -1] @ left[:, count:] + opened @ right[:, count:], scales[:, -1]


def _of_tables(rules: TableRules, emissions: Tensor, words: Tensor) -> tuple[Tensor, Tensor]:
    """Like `_of_factors`, with a full rule table, one prefix at a time, for small grammars."""
    found = [_of_table(rules.of(number), emissions[own].double()) for number, own in enumerate(words)]
    return torch.stack([one for one, _ in found]), torch.stack([scale for _, scale in found])


def _of_table(rules: TableRules, emissions: Tensor) -> tuple[Tensor, Tensor]:
    length, count = len(emissions), rules.nonterminals
    table, root = rules.binary.double(), rules.root.double()
    closure = closure_of(table.sum(-1)[:, :count])
    inside = inside_of_table(rules, emissions)
    reached, scales = [root @ closure], [root.new_zeros(())]
    opened = root.new_zeros(table.shape[-1])  # the next symbol as a right child
    for end in range(length):
        top, factors = split_factors(torch.stack([scales[first] + inside[first, end][1] for first in range(end + 1)]))
        pairs = torch.stack(reached).T * factors @ torch.stack([inside[first, end][0] for first in range(end + 1)])
        opened, scale = rescaled(torch.einsum("ab,abc->c", pairs, table))
        scales.append(top + scale)
        reached.append(opened[:count] @ closure)
    return reached[-1] @ table.sum(-1)[:, count:] + opened[count:], scales[-1]
