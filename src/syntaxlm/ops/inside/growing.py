"""A prefix chart that grows by one word at a time, for sampling: O(n R^2 + n^2 R) for the n-th word.

The formulas are those of `prefix`. The column of new spans (i, n) is computed from the last word to the first: as soon
as b(k + 1, n) is known, its products with a(i, k) are added to all spans that begin at i <= k. Emissions of a word are
divided by its probability given the words before it, as in `incremental`, so spans need no scale.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from syntaxlm.ops.inside.prefix import NextWords, closure_of
from syntaxlm.ops.inside.rules import FactoredRules


class GrowingChart(NamedTuple):
    """The chart of B prefixes of n words. R factors of the rules, t preterminals; float64.

    Attributes:
        closure: (R, R), of the rules.
        lefts: (B, n(n + 1)/2, R), each span as a left child, ordered by its last word, then by its first word.
        reached: (B, n + 1, R), H of `prefix`.
        weights: (B, t), of the next word's emissions.
        prefixes: (B,), natural log P(the words followed by anything).
        wholes: (B,), natural log P(the sentence is exactly these words); -inf for less than two words.
    """

    closure: Tensor
    lefts: Tensor
    reached: Tensor
    weights: Tensor
    prefixes: Tensor
    wholes: Tensor

    @property
    def next_words(self) -> NextWords:
        return NextWords(self.weights, self.prefixes)

    @property
    def is_finite(self) -> bool:
        """Whether all values are within the range of float64. After improbable words they may not be."""
        return all(bool(values.isfinite().all()) for values in (self.lefts, self.reached, self.weights, self.prefixes))


@torch.no_grad()
def empty_chart(rules: FactoredRules, prefixes: int) -> GrowingChart:
    """Return the chart of this number of prefixes without words."""
    root, left, _ = rules.double().over_factors()
    count = len(root)
    closure = closure_of(left[:, :count])
    reached = (root @ closure).expand(prefixes, 1, count)
    return GrowingChart(
        closure,
        lefts=root.new_empty(prefixes, 0, count),
        reached=reached,
        weights=reached[:, 0] @ left[:, count:],
        prefixes=root.new_zeros(prefixes),
        wholes=root.new_full((prefixes,), -torch.inf),
    )


@torch.no_grad()
def extended_chart(chart: GrowingChart, rules: FactoredRules, emissions: Tensor) -> GrowingChart:
    """Return the chart of the prefixes with one more word each.

    Args:
        rules: those of `chart`.
        emissions: (B, t) log p(word | T).
    """
    root, left, right = rules.double().over_factors()
    count, before = len(root), chart.reached.shape[1] - 1

    # Divide the emissions by the word's probability. The largest is taken out first, because all may be tiny.
    top = emissions.double().amax(1, keepdim=True)
    probabilities = (emissions.double() - top).exp()
    probability = (chart.weights * probabilities).sum(1, keepdim=True)
    probabilities = probabilities / probability

    # Complete spans that end at the new word, those with few words first.
    sums = root.new_zeros(len(emissions), before + 1, count)
    as_left = [probabilities @ left[:, count:].T]
    as_right = probabilities @ right[:, count:].T
    for first in range(before - 1, -1, -1):
        ends_before = chart.lefts[:, first * (first + 1) // 2 : (first + 1) * (first + 2) // 2]
        sums[:, : first + 1] += ends_before * as_right[:, None]
        span = sums[:, first]
        as_left.append(span @ left[:, :count].T)
        as_right = span @ right[:, :count].T
    column = torch.stack(as_left[::-1], 1)

    # The next word, after every complete span that ends here.
    opened = torch.einsum("bim,bim->bm", chart.reached, column)
    reached = opened @ right[:, :count] @ chart.closure
    prefixes = chart.prefixes + (probability.log() + top)[:, 0]
    return GrowingChart(
        chart.closure,
        lefts=torch.cat([chart.lefts, column], 1),
        reached=torch.cat([chart.reached, reached[:, None]], 1),
        weights=reached @ left[:, count:] + opened @ right[:, count:],
        prefixes=prefixes,
        wholes=prefixes + (sums[:, 0] @ root).log() if before else chart.wholes,
    )
