"""From syntactic distances, span scores and heads to trees, for all sentences at once.

Distances: the span split at a position extends to the nearest larger distances on both sides (of equal distances the
first counts as larger), so the trees follow from these neighbours. The neighbours of all positions are found together:
each position starts at the adjacent one and, while the distance there is smaller, jumps to that position's own current
neighbour. Few positions remain after the first rounds; those of sentences with thousands of words that remain after
many rounds are found word by word.

Span scores: greedy rules split all spans of all sentences at once, level by level; `cky` finds the trees of maximal
total score by dynamic programming (`charts`).
"""

from __future__ import annotations

import operator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from syntaxlm.core.arrays import Integers
from syntaxlm.core.errors import InputError
from syntaxlm.trees.charts import Chart, best_trees_of_charts, spans_in
from syntaxlm.trees.spans import AnyIntegers, SpanSets, offsets_of, sorted_by_sentence, top_down

DecodingRule = Literal["biased", "unbiased"]
DECODING_RULES: tuple[DecodingRule, ...] = get_args(DecodingRule)
SpanRule = Literal["greedy-right", "greedy-sum", "cky"]
SPAN_RULES: tuple[SpanRule, ...] = get_args(SpanRule)
HeadRule = Literal["heads", "heads-binary", "heads-binary-left"]
HEAD_RULES: tuple[HeadRule, ...] = get_args(HeadRule)
Distances = npt.NDArray[np.floating]
Scores = npt.NDArray[np.floating]

_ROUNDS = 200  # of jumps of all positions; more than the words of nearly all sentences


def decode(distances: Distances, lengths: Integers, rule: DecodingRule) -> SpanSets:
    """Return the binary trees for the distances of many sentences.

    Shen et al. 2018 (PRPN), section 4.2 and appendix A; Dyer et al. 2019 on the bias.

    Args:
        distances: (W,) one per word, all sentences concatenated; that of word i is between words i - 1 and i.
        lengths: (S,) number of words of each sentence, with sum W.
        rule: `biased` (as released with PRPN and ON-LSTM): a span splits at the first largest distance i, which may be
            at its first position, into `(w_<i, (w_i, w_>i))`. `unbiased`: at the first largest distance after its first
            position, into `(w_<i, w_>=i)`.

    Returns:
        All spans of two or more words, including the whole sentence: n - 1 for n words.

    Raises:
        ValueError: if the arguments do not fit.
        InputError: if a distance is NaN.
    """
    distances = np.asarray(distances)
    lengths = np.asarray(lengths, np.int64)
    if rule not in DECODING_RULES:
        raise ValueError(f"decoding rule {rule!r}: expected one of {', '.join(DECODING_RULES)}")
    if distances.ndim != 1 or lengths.ndim != 1 or lengths.sum() != len(distances):
        raise ValueError(f"found distances of shape {distances.shape} for {lengths.sum()} words; expected one per word")
    if (lengths < 1).any():
        raise ValueError("sentences must have at least one word")
    offsets = offsets_of(lengths)
    if np.isnan(distances).any():
        nan = int(np.flatnonzero(np.isnan(distances))[0])
        sentence = int(np.searchsorted(offsets, nan, side="right"))
        word = nan - int(offsets[sentence - 1]) + 1
        raise InputError(f"sentence {sentence}, word {word}: the distance is NaN; expected a number")
    first = np.repeat(offsets[:-1], lengths)  # for each word, the index of its sentence's first word
    position = np.arange(len(distances)) - first

    # The span that a position splits reaches to the nearest later position whose distance is larger, and to the nearest
    # earlier one whose distance is at least as large, which is the nearest later one of the mirror image. The first
    # position of an unbiased tree cannot be a split: it only bounds the search.
    end = nearest_larger_after(distances, np.repeat(offsets[1:], lengths)) - first
    bound = first if rule == "unbiased" else first - 1
    last = len(distances) - 1
    begin = last - nearest_larger_after(distances[::-1], last - bound[::-1], np.less)[::-1] - first

    if rule == "unbiased":
        starts = begin
        ends = end
        is_span = position > 0
    else:
        begin += 1
        starts = np.stack([begin, position], 1).ravel()  # the span of the position, then (w_i, w_>i) within it
        ends = np.repeat(end, 2)
        is_span = np.stack([end - begin > 1, (begin < position) & (end - position > 1)], 1).ravel()
    return SpanSets(
        lengths,
        offsets_of(lengths - 1),  # a binary tree over n words has n - 1 spans
        starts[is_span].astype(np.int32),
        ends[is_span].astype(np.int32),
    )


def heads_of(distances: Distances, heights: Distances, lengths: Integers) -> AnyIntegers:
    """Return the head of each word, from 1, 0 for the root, if a constituent's head is its highest word.

    Args:
        distances: see `decode`; constituents are those of the rule `unbiased`.
        lengths: see `decode`.
        heights: (W,) one per word. Every split joins two constituents: the head of one becomes the head of the other.
            Of equal heights the first wins.
    """
    trees = decode(distances, lengths, "unbiased")
    offsets = offsets_of(lengths)
    first = offsets[:-1][trees.sentences()]
    splits = np.delete(np.arange(len(heights)), offsets[:-1])  # one for each span, in the same order
    lefts = highest_words(heights, first + trees.starts, splits)
    rights = highest_words(heights, splits, first + trees.ends)
    right_wins = heights[rights] > heights[lefts]
    heads = np.zeros(len(heights), np.int32)
    heads[np.where(right_wins, lefts, rights)] = np.where(right_wins, rights, lefts) - first + 1
    return heads


def highest_words(heights: Distances, starts: Integers, ends: Integers) -> Integers:
    """Return the first highest word of each range [start, end) of one word or more.

    Ranges of 1, 2, 4, ... words are compared for all places together; any range is the union of two of these.
    """
    result = np.empty(len(starts), np.int64)
    size = 1
    highest = np.arange(len(heights))  # the first highest word of the `size` words from each place on
    while True:
        covered = np.flatnonzero((size <= ends - starts) & (ends - starts < 2 * size))
        result[covered] = _higher(heights, highest[starts[covered]], highest[ends[covered] - size])
        if len(highest) <= size or (ends - starts < 2 * size).all():
            return result
        highest = _higher(heights, highest[:-size], highest[size:])
        size *= 2


def _higher(heights: Distances, first: Integers, second: Integers) -> Integers:
    return np.where(heights[second] > heights[first], second, first)


def nearest_larger_after(distances: npt.NDArray[Any], bound: Integers, passes: np.ufunc = np.less_equal) -> Integers:
    """(W,) the nearest later position whose distance is larger; `bound` if there is none before it.

    Args:
        passes: `np.less` finds the nearest one whose distance is at least as large.
    """
    nearest = np.arange(1, len(distances) + 1)
    active = np.flatnonzero(nearest < bound)
    for _ in range(_ROUNDS):
        if not len(active):
            return nearest
        active = active[passes(distances[nearest[active]], distances[active])]
        nearest[active] = nearest[nearest[active]]
        active = active[nearest[active] < bound[active]]
    if len(active):
        nearest[active] = _nearest_by_stack(distances, bound, passes, active)
    return nearest


def _nearest_by_stack(distances: npt.NDArray[Any], bound: Integers, passes: np.ufunc, wanted: Integers) -> list[int]:
    """Return `nearest_larger_after` of the wanted positions in linear time, word by word.

    Positions step over each result that is already known one at a time, which would be quadratic for some trees.
    """
    first = int(wanted[0])
    last = int(bound[wanted[-1]])
    values = distances[first:last].tolist()
    bounds = bound[first:last].tolist()
    passed = operator.le if passes is np.less_equal else operator.lt
    nearest = [0] * len(values)
    later: list[int] = []  # candidates for earlier positions, the nearest last, with increasing distances
    for place in reversed(range(len(values))):
        value = values[place]
        while later and passed(values[later[-1]], value):
            later.pop()
        nearest[place] = min(first + later[-1], bounds[place]) if later else bounds[place]
        later.append(place)
    return [nearest[place - first] for place in wanted.tolist()]


@dataclass(frozen=True, eq=False)
class SpanTable:
    """The score of every span [start, end) of S sentences, including one-word spans and whole sentences.

    Attributes:
        lengths: (S,) number of words of each sentence.
        values: (N,) n(n + 1)/2 for a sentence of n words, all sentences concatenated; within a sentence ordered by the
            span's end, then by its length, shortest first, which is the order of a model that reads word by word.
            Scores must be comparable: rules add those of different ends.

    Raises:
        ValueError: if these do not fit.
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

    def charts(self, sentences: Integers, length: int) -> Chart:
        """Return the scores of sentences of one length as a chart of `trees.charts`: (n(n + 1)/2, B)."""
        chart: Chart = self.values[self.offsets[sentences] + table_indices(0, *spans_in(length))[:, None]]
        return chart

    def check_finite(self) -> None:
        """Raise InputError naming the first span whose score is not a finite number."""
        wrong = np.flatnonzero(~np.isfinite(self.values))
        if not len(wrong):
            return
        sentence = int(np.searchsorted(self.offsets, wrong[0], side="right")) - 1
        last_words, widths = np.tril_indices(self.lengths[sentence])
        last = last_words[wrong[0] - self.offsets[sentence]]
        width = widths[wrong[0] - self.offsets[sentence]]
        raise InputError(
            f"sentence {sentence + 1}, words {last - width + 1} to {last + 1}: the score of the span is"
            f" {self.values[wrong[0]]}; expected a finite number"
        )

    def of_spans(self, sentences: Integers, starts: AnyIntegers, ends: AnyIntegers) -> Scores:
        """Return the scores of spans: (k,).

        Args:
            sentences: (k,), the sentence of each span.
            starts: (k,), its first word.
            ends: (k,), the word after its last.
        """
        return self.values[table_indices(self.offsets[sentences], starts, ends)]

    def chart(self, index: int) -> Scores:
        """(n, n) the scores of one sentence, by first and last word of the span; NaN where there is no span."""
        length = int(self.lengths[index])
        last, width = np.tril_indices(length)  # in the order of the values
        chart = np.full((length, length), np.nan, self.values.dtype)
        chart[last - width, last] = self.values[self.offsets[index] : self.offsets[index + 1]]
        return chart


def decode_spans(scores: SpanTable, rule: SpanRule) -> SpanSets:
    """Return the binary trees for the span scores of many sentences.

    Peng, Schwartz, Smith 2019 (PaLM), equation 4: `greedy-right`.

    Args:
        rule: `greedy-right` and `greedy-sum` split each span, starting from the whole sentence, where the score of the
            right part, or the sum of the scores of both parts, is largest; one-word parts count. `cky` returns the tree
            whose spans have the largest total score. (Every tree has the one-word spans and the whole sentence, so
            their scores do not matter.) Of equally good splits of a span, the first is taken.

    Returns:
        All spans of two or more words, including the whole sentence: n - 1 for n words. O(n^2) time for `greedy-right`
        and `greedy-sum`, O(n^3) for `cky`, O(n^2) memory.

    Raises:
        ValueError: for an unknown rule.
        InputError: if a score is not a finite number, and if a sentence has more than `charts.MAXIMUM_WORDS` words for
            `cky`.
    """
    if rule not in SPAN_RULES:
        raise ValueError(f"decoding rule {rule!r}: expected one of {', '.join(SPAN_RULES)}")
    scores.check_finite()
    if rule == "cky":
        return best_trees_of_charts(scores.lengths, scores.charts)

    def best_splits(sentence: Integers, start: Integers, end: Integers) -> Integers:
        # All splits of all spans in one array, span after span.
        counts = end - start - 1
        first = offsets_of(counts)[:-1]  # index of each span's first split
        span = np.repeat(np.arange(len(counts)), counts)
        split = start[span] + 1 + np.arange(len(span)) - first[span]

        begin = scores.offsets[sentence[span]]
        sums = scores.values[table_indices(begin, split, end[span])].astype(np.float64)
        if rule == "greedy-sum":
            sums += scores.values[table_indices(begin, start[span], split)]

        # The first of each span's best splits.
        best = np.flatnonzero(sums == np.maximum.reduceat(sums, first)[span])
        return split[best[np.searchsorted(best, first)]]

    return top_down(scores.lengths, best_splits)


def table_indices(begin: Integers | int, start: Chart, end: Chart) -> Integers:
    """Return indices of the scores of spans [start, end) in a sentence whose first score has index `begin`."""
    end = np.asarray(end, np.int64)
    return begin + (end - 1) * end // 2 + end - start - 1


def decode_heads(heads: AnyIntegers, lengths: Integers, rule: HeadRule = "heads") -> SpanSets:
    """Return the constituents of two or more words of projective dependency trees.

    For trees that are not projective, a constituent reaches from the first to the last descendant.

    Args:
        heads: (words,) position of each word's head in its sentence, from 1, 0 for the root; sentence after sentence.
        rule: `heads`: each head with all its descendants. `heads-binary`: a binary tree, in which a head first joins
            its right dependents, closest first, then its left ones. `heads-binary-left`: the left ones first.
    """
    offsets = offsets_of(lengths)
    sentences = np.repeat(np.arange(len(lengths)), lengths)
    first = offsets[:-1][sentences]
    places = np.arange(offsets[-1]) - first
    (dependents,) = np.nonzero(heads)
    head_places = first[dependents] + heads[dependents] - 1  # indices of words, like `dependents`

    # The constituent of each head: from its first to its last descendant. Each pass takes these one level up.
    starts = places.copy()
    ends = places + 1
    for _ in range(int(lengths.max(initial=0))):
        starts_before = starts.copy()
        ends_before = ends.copy()
        np.minimum.at(starts, head_places, starts[dependents])
        np.maximum.at(ends, head_places, ends[dependents])
        if np.array_equal(starts, starts_before) and np.array_equal(ends, ends_before):
            break
    if rule == "heads":
        (heads_of_several,) = np.nonzero(ends - starts > 1)
        constituents = sentences[heads_of_several], starts[heads_of_several], ends[heads_of_several]
        return sorted_by_sentence(lengths, [constituents])

    # One constituent for each arc: a dependent on the side that is joined first, up to the head; or a dependent on the
    # other side, up to the far end of the head's constituent.
    head_starts = places if rule == "heads-binary" else starts
    head_ends = ends if rule == "heads-binary" else places + 1
    on_right = dependents > head_places
    lows = np.where(on_right, head_starts[head_places], starts[dependents])
    highs = np.where(on_right, ends[dependents], head_ends[head_places])
    return sorted_by_sentence(lengths, [(sentences[dependents], lows, highs)])
