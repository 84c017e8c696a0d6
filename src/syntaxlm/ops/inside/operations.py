"""One interface to all forms of rules."""

from __future__ import annotations

import torch
from torch import Tensor

from syntaxlm.ops.inside import fast, table
from syntaxlm.ops.inside.fast import Posteriors
from syntaxlm.ops.inside.types import FactoredRules, Layout, Rules


def log_partition(
    rules: Rules, emissions: Tensor, words: Tensor, layout: Layout, weights: Tensor | None = None
) -> Tensor:
    """log P(sentence) of each sentence: (B,) natural logarithms, in the order that `layout` was given.

    emissions: (u, t) natural log p(word | T), whose gradient is the expected number of times that T emits the word: of
        the distinct words of the batch, or a row for each of its words where every sentence has rules of its own.
    words: (N,) int64, rows of `emissions`, sentence after sentence.
    weights: (B, n, n) log-weights of spans by first and last word, both inclusive, which derivations are multiplied by;
        no gradient is made for them, and those of single words are not read. None: no weights.
    Factored rules: products in autocast's type, sums in float32 at least. Tables: in the type of `emissions`.
    """
    if isinstance(rules, FactoredRules):
        return fast.log_partition(rules, emissions, words, layout, weights)
    return table.log_partition(rules, emissions, words, layout, weights)


@torch.no_grad()
def posteriors(
    rules: Rules, emissions: Tensor, words: Tensor, layout: Layout, weights: Tensor | None = None, labels: bool = True
) -> Posteriors:
    """Span marginals, d log Z / d log weight of the span, and with `labels` the most probable symbol of every span.

    Other arguments as of `log_partition`.
    """
    if isinstance(rules, FactoredRules):
        return fast.posteriors(rules, emissions, words, layout, weights, labels)
    return Posteriors(*table.posteriors(rules, emissions, words, layout, weights, labels))
