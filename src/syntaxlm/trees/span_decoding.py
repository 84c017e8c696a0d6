"""Decoding of span scores into binary trees.

The scores of all sentences are one flat array. Greedy rules split all spans of all sentences at once, level by level.
`cky` finds the trees of maximal total score by dynamic programming (`charts`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from syntaxlm.errors import InputError
from syntaxlm.trees.charts import Chart, best_trees_of_charts, spans_in
from syntaxlm.trees.spans import Integers, SpanSets, offsets_of, top_down

SpanRule = Literal["greedy-right", "greedy-sum", "cky"]
SPAN_RULES: tuple[SpanRule, ...] = get_args(SpanRule)
Scores = npt.NDArray[np.floating]


@dataclass(frozen=True, eq=False)
class SpanScores:
    """The score of every span [start, end) of S sentences, including one-word spans and whole sentences.

    lengths: (S,) number of words of each sentence.  values: (N,) n(n + 1)/2 for a sentence of n words, all sentences
    concatenated; within a sentence ordered by the span's end, then by its length, shortest first, which is the order of
    a model that reads word by word. Scores must be comparable: rules add those of different ends.
    Raises ValueError if these do not fit.
    """

    lengths: Integers
    values: Scores

    def __post_init__(self) -> None:
        spans = int(self.offsets[-1])
        if self.values.shape != (spans,):
            raise ValueError(f"found scores of shape {self.values.shape}, expected one for each of the {spans} spans")
        if (self.lengths < 1).any():
            raise ValueError("sentences must have at least one word")

    def __len__(self) -> int:
        return len(self.lengths)

    @cached_property
    def offsets(self) -> Integers:
        """(S + 1,) index of the first score of each sentence."""
        return offsets_of(self.lengths * (self.lengths + 1) // 2)

    def places(self, sentences: Integers) -> Integers:
        """Indices of the scores of these sentences in the flat array, concatenated."""
        counts = np.diff(self.offsets)[sentences]
        offsets = offsets_of(counts)
        places: Integers = np.repeat(self.offsets[sentences] - offsets[:-1], counts) + np.arange(offsets[-1])
        return places

    def charts(self, sentences: Integers, length: int) -> Chart:
        """The scores of sentences of one length as a chart of `trees.charts`: (n(n + 1)/2, B)."""
        chart: Chart = self.values[self.offsets[sentences] + places_of(0, *spans_in(length))[:, None]]
        return chart

    def check_finite(self) -> None:
        """Raises InputError naming the first span whose score is not a finite number."""
        wrong = np.flatnonzero(~np.isfinite(self.values))
        if not len(wrong):
            return
        sentence = int(np.searchsorted(self.offsets, wrong[0], side="right")) - 1
        last, width = (part[wrong[0] - self.offsets[sentence]] for part in np.tril_indices(self.lengths[sentence]))
        raise InputError(
            f"sentence {sentence + 1}, words {last - width + 1} to {last + 1}: the score of the span is"
            f" {self.values[wrong[0]]}; expected a finite number"
        )

    def chart(self, index: int) -> Scores:
        """(n, n) the scores of one sentence, by first and last word of the span; NaN where there is no span."""
        length = int(self.lengths[index])
        last, width = np.tril_indices(length)  # in the order of the values
        chart = np.full((length, length), np.nan, self.values.dtype)
        chart[last - width, last] = self.values[self.offsets[index] : self.offsets[index + 1]]
        return chart


def decode_spans(scores: SpanScores, rule: SpanRule) -> SpanSets:
    """The binary trees for the span scores of many sentences.

    rule: `greedy-right` and `greedy-sum` split each span, starting from the whole sentence, where the score of the
    right part, or the sum of the scores of both parts, is largest; one-word parts count. `cky` returns the tree whose
    spans have the largest total score. (Every tree has the one-word spans and the whole sentence, so their scores do
    not matter.)  Of equally good splits of a span, the first is taken.
    Returns all spans of two or more words, including the whole sentence: n - 1 for n words.
    O(n^2) time for `greedy-right` and `greedy-sum`, O(n^3) for `cky`, O(n^2) memory.
    Raises ValueError for an unknown rule, InputError if a score is not a finite number, and if a sentence has more
    than `charts.MAXIMUM_WORDS` words for `cky`.
    Peng, Schwartz, Smith 2019 (PaLM), equation 4: `greedy-right`.
    """
    if rule not in SPAN_RULES:
        raise ValueError(f"decoding rule {rule!r}: expected one of {', '.join(SPAN_RULES)}")
    scores.check_finite()
    offsets, values = scores.offsets, scores.values

    if rule == "cky":
        return best_trees_of_charts(scores.lengths, scores.charts)

    def greedy(sentence: Integers, start: Integers, end: Integers) -> Integers:
        counts = end - start - 1
        first = offsets_of(counts)[:-1]  # index of each span's first split among all splits
        span = np.repeat(np.arange(len(counts)), counts)
        split = start[span] + 1 + np.arange(len(span)) - first[span]
        begin = offsets[sentence[span]]
        found = values[places_of(begin, split, end[span])].astype(np.float64)
        if rule == "greedy-sum":
            found += values[places_of(begin, start[span], split)]
        best = np.flatnonzero(found == np.maximum.reduceat(found, first)[span])
        return split[best[np.searchsorted(best, first)]]

    return top_down(scores.lengths, greedy)


def places_of(begin: Integers | int, start: Chart, end: Chart) -> Integers:
    """Indices of the scores of spans [start, end) in a sentence whose first score has index `begin`."""
    end = np.asarray(end, np.int64)
    return begin + (end - 1) * end // 2 + end - start - 1
