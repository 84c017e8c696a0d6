"""Samples of trees given a sentence: splits and symbols are drawn from the inside charts, from the root down."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from syntaxlm.ops.inside.partition import InsideCharts, TableGroup, table_groups
from syntaxlm.ops.inside.rules import FactoredRules, Layout, Rules
from syntaxlm.ops.sampling import TreeSpans, Values, draw, top_down_tree


@torch.no_grad()
def sample_trees(
    rules: Rules, emissions: Tensor, words: Tensor, layout: Layout, count: int, generator: np.random.Generator
) -> list[list[TreeSpans]]:
    """Return `count` trees of each sentence, in the caller's order, without the labels of their derivations.

    Other arguments: see `log_partition`. Charts of factored rules have the dtype of the rules.
    """
    samples: list[list[TreeSpans]] = [[] for _ in range(len(layout))]
    if isinstance(rules, FactoredRules):
        factor_choices = _FactorChoices(rules, emissions, words, layout, generator)
        for number, sentence in enumerate(layout.order.tolist()):
            samples[sentence] = [factor_choices.tree(number) for _ in range(count)]
        return samples
    for group in table_groups(rules, words, layout):
        table_choices = _TableChoices(group, emissions, generator)
        for number, sentence in enumerate(group.sentences.tolist()):
            samples[sentence] = [table_choices.tree(number) for _ in range(count)]
    return samples


class _FactorChoices:
    """Children are independent given a factor: a split is drawn first, then the factor of each part."""

    def __init__(
        self, rules: FactoredRules, emissions: Tensor, words: Tensor, layout: Layout, generator: np.random.Generator
    ) -> None:
        root, left, right = rules.over_factors()
        with torch.autocast(left.device.type, enabled=False):
            charts = InsideCharts(root, left, right, emissions, words, layout, None, left.dtype)
            charts.inside()
        self.layout, self.generator, self.root = layout, generator, root.cpu().numpy()
        self.left, self.right = (side[:, : charts.factors].cpu().numpy() for side in (left, right))
        self.values, self.scales = charts.values[:, : charts.factors].cpu().numpy(), charts.scales.cpu().numpy()
        self.as_left, self.as_right = (part.cpu().numpy() for part in charts.children.chunk(2, 1))

    def tree(self, number: int) -> TreeSpans:
        """Return a tree of a sorted sentence."""
        sentence = torch.tensor(number)
        length = int(self.layout.lengths[number])

        # P(k | i, j, factor) is proportional to a(i, k) b(k + 1, j)
        def split(start: int, width: int, factor: int) -> tuple[int, int, int]:
            widths = torch.arange(1, width)
            lefts = self.layout.row(sentence, start, widths).numpy()
            rights = self.layout.row(sentence, start + widths, width - widths).numpy()
            factors = _relative(self.scales[lefts] + self.scales[rights])
            chosen = draw(factors * self.as_left[lefts, factor] * self.as_right[rights, factor], self.generator)
            left = self._factor(self.left[factor], lefts[chosen]) if chosen > 0 else 0
            right = self._factor(self.right[factor], rights[chosen]) if chosen < width - 2 else 0
            return chosen + 1, left, right

        return top_down_tree(length, self._factor(self.root, int(self.layout.whole_rows[number])), split)

    def _factor(self, probabilities: Values, row: int) -> int:
        """Draw the factor of a span."""
        return draw(probabilities * self.values[row], self.generator)


class _TableChoices:
    """A split is drawn first, then the pair of symbols of its parts."""

    def __init__(self, group: TableGroup, emissions: Tensor, generator: np.random.Generator) -> None:
        chart = group.chart(emissions)
        self.rules = group.rules
        self.generator = generator
        self.symbols = [spans.symbols for spans in chart]
        self.values = [spans.values.cpu().numpy() for spans in chart]
        self.scales = [spans.scales.cpu().numpy() for spans in chart]

    def tree(self, number: int) -> TreeSpans:
        """Return a tree of a sentence of the group."""
        rules = self.rules.of(number)
        root = rules.root.cpu().numpy()
        table = rules.binary.cpu().numpy()

        # P(k, B, C | i, j, A) is proportional to p(A -> B C) beta_B(i, k) beta_C(k + 1, j)
        def split(start: int, width: int, symbol: int) -> tuple[int, int, int]:
            pairs, logs = [], []
            for first, second in zip(range(width - 1), reversed(range(width - 1)), strict=True):  # widths minus 1
                place = start + first + 1
                pair = table[symbol, self.symbols[first], self.symbols[second]]
                pairs.append(pair * self.values[first][number, start, :, None] * self.values[second][number, place])
                logs.append(self.scales[first][number, start] + self.scales[second][number, place])
            sums = np.array([pair.sum() for pair in pairs])
            chosen = draw(_relative(np.array(logs)) * sums, self.generator)
            return chosen + 1, *divmod(draw(pairs[chosen], self.generator), pairs[chosen].shape[1])

        return top_down_tree(len(self.values), draw(root * self.values[-1][number, 0], self.generator), split)


def _relative(logs: Values) -> Values:
    """Return exponentials relative to the largest."""
    return np.exp(logs - logs.max())
