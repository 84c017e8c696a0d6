"""A common interface for all types of rules."""

from __future__ import annotations

import torch
from torch import Tensor

from syntaxlm.ops.inside import fast, table
from syntaxlm.ops.inside.fast import Posteriors
from syntaxlm.ops.inside.types import FactoredRules, Layout, Rules


def log_partition(
    rules: Rules, emissions: Tensor, words: Tensor, layout: Layout, weights: Tensor | None = None
) -> Tensor:
    """Return log P(sentence) of each sentence: (B,) natural logarithms, in the order given to `layout`.

    emissions: (u, t) natural log p(word | T) of the distinct words of the batch or, if each sentence has its own rules,
        one row for every word of the batch. The gradient is the expected number of times that T emits the word.
    words: (N,) int64, rows of `emissions`, for the words of all sentences, concatenated.
    weights: (B, n, n) log-weights by which derivations are multiplied, of spans by first and last word, both inclusive;
        they get no gradient, and those of single words are ignored. None: no weights.
    Factored rules: products in autocast's dtype, sums at least in float32. Tables: in the dtype of `emissions`.
    """
    if isinstance(rules, FactoredRules):
        return fast.log_partition(rules, emissions, words, layout, weights)
    return table.log_partition(rules, emissions, words, layout, weights)


@torch.no_grad()
def posteriors(
    rules: Rules, emissions: Tensor, words: Tensor, layout: Layout, weights: Tensor | None = None, labels: bool = True
) -> Posteriors:
    """Return span marginals, d log Z / d log weight of the span, and, with `labels`, the most probable symbol of every
    span.

    Other arguments: see `log_partition`.
    """
    if isinstance(rules, FactoredRules):
        return fast.posteriors(rules, emissions, words, layout, weights, labels)
    return Posteriors(*table.posteriors(rules, emissions, words, layout, weights, labels))
