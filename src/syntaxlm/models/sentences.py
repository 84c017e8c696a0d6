"""Models of whole sentences: their vocabulary ids, parsing by charts of span weights, and sampling.

Their vocabularies are those of `Vocabulary.build`: unknown, BOS, EOS, then words. Sentences are sampled as words
without BOS and EOS, numbered from 0, the unknown word.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from syntaxlm.core.errors import InputError, amount
from syntaxlm.core.threads import check_wanted
from syntaxlm.models.abilities import FindsBestTrees, LabelledSpans, SampledSentence, ScoresTrees
from syntaxlm.models.batches import TokenBatch
from syntaxlm.models.structures import SpanMarginals
from syntaxlm.ops import charts
from syntaxlm.ops.sampling import TreeSpans
from syntaxlm.trees.charts import spans_in

BOS, EOS = 1, 2
SPECIALS = 2  # BOS and EOS, which are not words

_MOST_DRAWS = 1000  # of a sentence, until one is short enough


def token_of(word: int) -> int:
    """Return the vocabulary id of a word."""
    return word + SPECIALS if word else 0


@lru_cache(maxsize=64)
def chart_spans(length: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Return the start and end of each row's span in a chart of n words, see `syntaxlm.trees.charts`."""
    starts, ends = (torch.from_numpy(places.copy()).to(device) for places in spans_in(length))
    return starts, ends


class ChartParser(FindsBestTrees, ScoresTrees):
    """Parses by weights of spans and of their splits; a tree's probability is proportional to exp(sum of weights)."""

    structure_type = SpanMarginals

    @abstractmethod
    def chart_weights(self, batch: TokenBatch) -> Iterator[tuple[slice, int, Tensor, Tensor | None]]:
        """Yield sentences of n words, between BOS and EOS: columns, n, and the weights of their spans and splits.

        Weights are arguments of `ops.charts`, in float64: the sums of many are not exact enough in float32.
        """

    @torch.no_grad()
    def structure(self, batch: TokenBatch) -> SpanMarginals:
        longest = max(1, len(batch.tokens) - 2)
        device = batch.tokens.device
        values = torch.zeros(batch.sentence_count(), longest, longest, dtype=torch.float64, device=device)
        for columns, length, spans, splits in self.chart_weights(batch):
            starts, ends = chart_spans(length, device)
            marginals = charts.marginals(spans, splits).spans[length:]
            values[columns, starts[length:], ends[length:] - 1] = marginals.T.clamp(0, 1).double()
        return SpanMarginals(values)

    @torch.no_grad()
    def best_trees(self, batch: TokenBatch) -> list[LabelledSpans]:
        trees: list[LabelledSpans] = [[] for _ in range(batch.sentence_count())]
        for columns, length, spans, splits in self.chart_weights(batch):
            starts, ends = chart_spans(length, batch.tokens.device)
            for column, is_in_tree in enumerate(charts.best(spans, splits).spans.T, columns.start):
                places = zip(starts[is_in_tree].tolist(), ends[is_in_tree].tolist(), strict=True)
                trees[column] = [(start, end - 1, -1) for start, end in places]
        return trees

    @torch.no_grad()
    def tree_log_probs(self, batch: TokenBatch, spans: Tensor) -> Tensor:
        result = torch.zeros(batch.sentence_count(), dtype=torch.float64, device=spans.device)
        for columns, length, weights, splits in self.chart_weights(batch):
            starts, ends = chart_spans(length, spans.device)
            is_in_tree = spans[columns, starts, ends - 1].T | (ends - starts == 1)[:, None]
            tree_weights = charts.total(weights.masked_fill(~is_in_tree, -torch.inf), splits)
            result[columns] = (tree_weights - charts.total(weights, splits)).double()
        return result

    @torch.no_grad()
    def sample_trees(self, batch: TokenBatch, count: int, generator: np.random.Generator) -> list[list[TreeSpans]]:
        trees: list[list[TreeSpans]] = [[] for _ in range(batch.sentence_count())]
        for columns, _, weights, splits in self.chart_weights(batch):
            trees[columns] = charts.sample(weights, splits, count, generator)
        return trees


def draw_short(draw: Callable[[], SampledSentence | None], longest: int) -> SampledSentence:
    """Return the first sample that is not None.

    Args:
        longest: the limit of `draw`, in words, for the message.

    Raises:
        InputError: if none of 1,000 samples is short enough.
    """
    for _ in range(_MOST_DRAWS):
        check_wanted()
        sample = draw()
        if sample is not None:
            return sample
    most = amount(longest, "word")
    raise InputError(f"none of {_MOST_DRAWS:,} sampled sentences has at most {most}; allow longer sentences")
