"""A prefix chart that grows by one word at a time, for sampling: O(n R^2 + n^2 R) for the n-th word.

The formulas are those of `prefix`. The column of new spans (i, n) is computed from the last word to the first: as soon
as b(k + 1, n) is known, its products with a(i, k) are added to all spans that begin at i <= k. Emissions of a word are
divided by its probability given the words before it, as in `incremental`, so spans need no scale.

A chart has the tables of its grammar, so that a step neither converts them nor depends on later changes of weights.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from syntaxlm.ops.inside.prefix import NextWords, closure_of
from syntaxlm.ops.inside.rules import FactoredRules


class GrowingChart(NamedTuple):
    """The chart of B prefixes of n words. R factors of the rules, t preterminals, u words; float64.

    Attributes:
        root: (R,), rules over factors, as are the next two.
        left: (R, R + t).
        right: (R, R + t).
        closure: (R, R), of the rules.
        emissions: (u, t), log p(word | T), in the precision of the grammar.
        probabilities: (u, t), p(word | T), in the same precision.
        lefts: (B, n(n + 1)/2, R), each span as a left child, ordered by its last word, then by its first word.
        reached: (B, n + 1, R), H of `prefix`.
        weights: (B, t), of the next word's emissions.
        prefixes: (B,), natural log P(the words followed by anything).
        wholes: (B,), natural log P(the sentence is exactly these words); -inf for less than two words.
    """

    root: Tensor
    left: Tensor
    right: Tensor
    closure: Tensor
    emissions: Tensor
    probabilities: Tensor
    lefts: Tensor
    reached: Tensor
    weights: Tensor
    prefixes: Tensor
    wholes: Tensor

    @property
    def length(self) -> int:
        """Number of words of each prefix."""
        return self.reached.shape[1] - 1

    @property
    def is_finite(self) -> bool:
        """Whether all values are within the range of float64. After improbable words they may not be."""
        return all(bool(values.isfinite().all()) for values in (self.lefts, self.reached, self.weights, self.prefixes))

    @torch.no_grad()
    def next_words(self) -> Tensor:
        """Return log P(prefix w followed by anything) for each word w: (B, u)."""
        return NextWords(self.weights, self.prefixes).log_probs(self.emissions, self.probabilities)

    @torch.no_grad()
    def with_words(self, words: Tensor) -> GrowingChart:
        """Return the chart of the prefixes with one more word each, (B,)."""
        left, right, factors = self.left, self.right, len(self.root)
        # Divide the emissions by the word's probability. The largest is taken out first, because all may be tiny.
        emissions = self.emissions[words].double()
        top = emissions.amax(1, keepdim=True)
        probabilities = (emissions - top).exp()
        probability = (self.weights * probabilities).sum(1, keepdim=True)
        probabilities = probabilities / probability

        # Complete spans that end at the new word, those with few words first.
        sums = emissions.new_zeros(len(words), self.length + 1, factors)
        as_left = [probabilities @ left[:, factors:].T]
        as_right = probabilities @ right[:, factors:].T
        for first in range(self.length - 1, -1, -1):
            ends_before = self.lefts[:, first * (first + 1) // 2 : (first + 1) * (first + 2) // 2]
            sums[:, : first + 1] += ends_before * as_right[:, None]
            span = sums[:, first]
            as_left.append(span @ left[:, :factors].T)
            as_right = span @ right[:, :factors].T
        column = torch.stack(as_left[::-1], 1)

        # The next word, after every complete span that ends here.
        opened = torch.einsum("bim,bim->bm", self.reached, column)
        reached = opened @ right[:, :factors] @ self.closure
        prefixes = self.prefixes + (probability.log() + top)[:, 0]
        return self._replace(
            lefts=torch.cat([self.lefts, column], 1),
            reached=torch.cat([self.reached, reached[:, None]], 1),
            weights=reached @ left[:, factors:] + opened @ right[:, factors:],
            prefixes=prefixes,
            wholes=prefixes + (sums[:, 0] @ self.root).log() if self.length else self.wholes,
        )


@torch.no_grad()
def empty_chart(rules: FactoredRules, emissions: Tensor, probabilities: Tensor, prefixes: int) -> GrowingChart:
    """Return the chart of this number of prefixes without words.

    Args:
        emissions: (u, t) log p(word | T) of all words.
        probabilities: (u, t) p(word | T), in the same precision. The caller computes them once for many charts.
    """
    root, left, right = rules.double().over_factors()
    factors = len(root)
    closure = closure_of(left[:, :factors])
    reached = (root @ closure).expand(prefixes, 1, factors)
    return GrowingChart(
        root,
        left,
        right,
        closure,
        emissions,
        probabilities,
        lefts=root.new_empty(prefixes, 0, factors),
        reached=reached,
        weights=reached[:, 0] @ left[:, factors:],
        prefixes=root.new_zeros(prefixes),
        wholes=root.new_full((prefixes,), -torch.inf),
    )
