"""From span scores to trees, by three rules.

Scores of all sentences stand in one flat array. The trees of all grow together, level by level: every open span of
every sentence is split, then all parts are. Two rules look at the scores of the parts when they split (greedy, no chart
is needed); `cky` has found each span's best split before, by dynamic programming over sentences of equal length.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from syntaxlm.errors import InputError
from syntaxlm.trees.spans import Integers, SpanSets, gathered, offsets_of

SpanRule = Literal["greedy-right", "greedy-sum", "cky"]
SPAN_RULES: tuple[SpanRule, ...] = get_args(SpanRule)
Scores = npt.NDArray[np.floating]
Splits = npt.NDArray[np.int16]

_CHART_BYTES = 2_000_000  # of sentences done together: what stays near the core


@dataclass(frozen=True, eq=False)
class SpanScores:
    """The score of every span [start, end) of S sentences, those of one word and the whole sentence among them.

    lengths: (S,) words of each sentence.  values: (N,) n(n + 1)/2 for a sentence of n words, sentence after sentence;
    within it by the span's end, then by its length, shortest first: as a model gives them that reads word by word.
    On one scale: rules add those of different ends up.
    Raises ValueError where these do not fit.
    """

    lengths: Integers
    values: Scores

    def __post_init__(self) -> None:
        spans = int(self.offsets[-1])
        if self.values.shape != (spans,):
            raise ValueError(f"{self.values.shape} scores, expected one for each of the {spans} spans")
        if (self.lengths < 1).any():
            raise ValueError("a sentence without words has no spans")

    @property
    def offsets(self) -> Integers:
        """(S + 1,) where the scores of each sentence begin."""
        return offsets_of(self.lengths * (self.lengths + 1) // 2)

    def places(self, sentences: Integers) -> Integers:
        """Where the scores of these sentences stand in the flat array, sentence after sentence."""
        counts = np.diff(self.offsets)[sentences]
        offsets = offsets_of(counts)
        places: Integers = np.repeat(self.offsets[sentences] - offsets[:-1], counts) + np.arange(offsets[-1])
        return places

    def chart(self, index: int) -> Scores:
        """(n, n) the scores of one sentence, by first and last word of the span; not a number where there is none."""
        length = int(self.lengths[index])
        last, width = np.tril_indices(length)  # in the order of the values
        chart = np.full((length, length), np.nan, self.values.dtype)
        chart[last - width, last] = self.values[self.offsets[index] : self.offsets[index + 1]]
        return chart


def decode_spans(scores: SpanScores, rule: SpanRule) -> SpanSets:
    """The binary trees that the span scores of many sentences stand for.

    rule: `greedy-right` and `greedy-sum` go from the whole sentence down and split each span where the score of its
    right part, or the sum of the scores of both parts, is greatest, parts of one word included.  `cky`: the tree whose
    spans have the greatest total score (spans of one word and the whole sentence are in every tree, so theirs do not
    matter).
    Of equal splits of a span the first is taken.
    Returns all spans of two words or more, the whole sentence among them: n - 1 for n words.
    O(n^2) time for `greedy-right` and `greedy-sum`, O(n^3) for `cky`, O(n^2) memory.
    Raises ValueError for a rule there is not, InputError where a score is not a finite number.
    Peng, Schwartz, Smith 2019 (PaLM), equation 4: `greedy-right`.
    """
    if rule not in SPAN_RULES:
        raise ValueError(f"decoding rule {rule!r}: expected one of {', '.join(SPAN_RULES)}")
    _check_finite(scores)
    offsets, values = scores.offsets, scores.values
    if rule == "cky":
        splits = _best_splits(scores)
        return _grown(
            scores.lengths, lambda sentence, start, end: start + splits[_places(offsets[sentence], start, end)]
        )

    def greedy(sentence: Integers, start: Integers, end: Integers) -> Integers:
        counts = end - start - 1
        first = offsets_of(counts)[:-1]  # of each span, where its splits begin among those of all
        span = np.repeat(np.arange(len(counts)), counts)
        split = start[span] + 1 + np.arange(len(span)) - first[span]
        begin = offsets[sentence[span]]
        found = values[_places(begin, split, end[span])].astype(np.float64)
        if rule == "greedy-sum":
            found += values[_places(begin, start[span], split)]
        best = np.flatnonzero(found == np.maximum.reduceat(found, first)[span])
        return split[best[np.searchsorted(best, first)]]

    return _grown(scores.lengths, greedy)


def _places(begin: Integers, start: Integers, end: Integers) -> Integers:
    """Where the scores of spans stand among those of a sentence whose first stands at `begin`."""
    return begin + (end - 1) * end // 2 + end - start - 1


def _check_finite(scores: SpanScores) -> None:
    wrong = np.flatnonzero(~np.isfinite(scores.values))
    if not len(wrong):
        return
    sentence = int(np.searchsorted(scores.offsets, wrong[0], side="right")) - 1
    last, width = (part[wrong[0] - scores.offsets[sentence]] for part in np.tril_indices(scores.lengths[sentence]))
    raise InputError(
        f"sentence {sentence + 1}, words {last - width + 1} to {last + 1}: the score of the span is"
        f" {scores.values[wrong[0]]}; expected a finite number"
    )


def _grown(lengths: Integers, split_of: Callable[[Integers, Integers, Integers], Integers]) -> SpanSets:
    """Trees from whole sentences down. split_of: (sentence, start, end) of spans, (k,) each, to where they split."""
    sentence, start, end = np.arange(len(lengths)), np.zeros_like(lengths), lengths
    levels: list[tuple[Integers, Integers, Integers]] = []
    while len(sentence):
        long = end - start > 1
        sentence, start, end = sentence[long], start[long], end[long]
        if not len(sentence):
            break
        levels.append((sentence, start, end))
        split = split_of(sentence, start, end)
        sentence = np.concatenate([sentence, sentence])
        start, end = np.concatenate([start, split]), np.concatenate([split, end])
    return gathered(lengths, levels)


def _best_splits(scores: SpanScores) -> Splits:
    """(N,) how far into each span its best split lies, in the order of the scores; 0 for spans of one word."""
    splits = np.zeros(len(scores.values), np.int16)
    offsets = scores.offsets
    for length in np.unique(scores.lengths).tolist():
        indices = np.flatnonzero(scores.lengths == length)
        spans = np.arange(length * (length + 1) // 2)
        together = max(1, _CHART_BYTES // (8 * len(spans)))
        for low in range(0, len(indices), together):
            places = offsets[indices[low : low + together]] + spans[:, None]
            splits[places] = _best_of_equal_length(scores.values[places], length)
    return splits


def _best_of_equal_length(scores: Scores, length: int) -> Splits:
    """The same for B sentences of n words. scores: (n(n + 1)/2, B).  Returns as many splits.

    With `inside` the most that the spans of a tree over [l, r) score together, its own included (CYK):
        inside(l, r) = score(l, r) + max over l < i < r of inside(l, i) + inside(i, r)
    Sentences stand side by side in the last axis, so that each step, one split of all spans of one width, adds long
    rows.
    """
    splits = np.zeros(scores.shape, np.int16)
    size = scores.shape[1]
    # By width, (spans of it, B). Of one word: nothing, for they are in every tree.
    inside = [np.zeros((0, size)), np.zeros((length, size))]
    for width in range(2, length + 1):
        ends = np.arange(width, length + 1)
        here = (ends - 1) * ends // 2 + width - 1
        count = len(ends)
        best = inside[1][:count] + inside[width - 1][1 : count + 1]
        split = np.ones(best.shape, np.int16)
        both, better = np.empty_like(best), np.empty(best.shape, np.bool_)
        for left in range(2, width):
            np.add(inside[left][:count], inside[width - left][left : left + count], out=both)
            np.greater(both, best, out=better)
            np.maximum(best, both, out=best)
            np.copyto(split, left, where=better)
        inside.append(best + scores[here])
        splits[here] = split
    return splits
