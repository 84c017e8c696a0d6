"""Dynamic programming over the binary trees of a batch of sentences of one length.

A tree's weight is the sum of the weights of its spans. `total`, `best` and `marginals` return the log of the sum of
exp(weight) over all trees, a tree of maximal weight, and the probability of each span if trees have probabilities
proportional to exp(weight). `syntaxlm.ops.charts` has the same functions for torch, with gradients.

A chart of B sentences of n words is an array (n(n + 1)/2, B): one row per span, by width, then by start. Spans of one
width are therefore one block, and their left and right parts are slices of the blocks of narrower spans (`parts`).

Optional split weights, (C(n + 1, 3), B), are added where a tree splits a span: one row per span and split, by width,
then by the length of the left part, then by start.

All functions take O(n^3) time and O(n^2) memory per sentence. Sentences are processed in groups that fit the cache.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import cache, lru_cache, partial
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from syntaxlm.core.errors import InputError
from syntaxlm.trees.spans import Integers, SpanSets, gathered, offsets_of

# How a decoder breaks ties between equally good splits of a span.
#
# If the first split were always taken, trees would branch to the right wherever weights are equal. A pseudo-random
# choice is unbiased and still reproducible, because it is a hash instead of the state of a generator.


TieBreaking = Literal["first", "random"]
TIE_RULES: tuple[TieBreaking, ...] = get_args(TieBreaking)
Hashes: TypeAlias = npt.NDArray[np.uint64]


def tie_priorities(length: int, widths: Any, starts: Any, splits: Any, seeds: Hashes | None = None) -> Integers:
    """Return fixed pseudo-random numbers, 0 or more: with `ties="random"`, the tied split with the largest number is
    taken.

    They depend only on the sentence's length, the span's width and start, and the split, and on seeds if given.
    All arguments are broadcast.
    """
    parts = [np.asarray(length), widths, starts, *([] if seeds is None else [seeds]), splits]
    return (_mixed(*parts) >> np.uint64(1)).astype(np.int64)


def choose_at_random(
    split: Integers, sums: npt.NDArray[Any], length: int, starts: Integers, seeds: Hashes | None
) -> None:
    """For each span with several best splits, replaces the split by that of highest priority.

    split: (k,), modified in place.  sums: (k, width - 1) score of each split of k spans of one width.
    starts, seeds: (k,), of the spans and of their sentences.
    """
    best = sums == sums.max(1, keepdims=True)
    tied = np.flatnonzero(np.count_nonzero(best, axis=1) > 1)
    width = sums.shape[1] + 1
    own = None if seeds is None else seeds[tied, None]
    priorities = tie_priorities(length, width, starts[tied, None], np.arange(1, width), own)
    split[tied] = np.where(best[tied], priorities, -1).argmax(1)


def seeds_of(spans: SpanSets) -> Hashes:
    """(S,) a hash of each sentence's spans, so that different sentences of one length break ties differently.

    spans: distinct within a sentence; a hash does not depend on their order or on other sentences.
    """
    hashes = _mixed(spans.starts, spans.ends)
    with np.errstate(over="ignore"):
        sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(hashes, dtype=np.uint64)])
        return sums[spans.offsets[1:]] - sums[spans.offsets[:-1]]


def _mixed(*parts: Any) -> Hashes:
    """Return a hash of integers, broadcast: SplitMix64 (Steele et al. 2014) applied to one after another."""
    mixed = np.zeros((), np.uint64)
    with np.errstate(over="ignore"):
        for part in parts:
            mixed = mixed + np.asarray(part).astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
            mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            mixed ^= mixed >> np.uint64(31)
    return mixed


# imported by `ops.charts`

Chart: TypeAlias = npt.NDArray[Any]
Floats: TypeAlias = npt.NDArray[np.float64]

MAXIMUM_WORDS = 5000  # of a sentence whose tree is decoded: half a minute, and half a gigabyte of memory

_FEW_WORDS = 1000  # in a group of sentences; below this, the number of operations matters more than their size
_CHART_BYTES = 2_000_000  # for one group of sentences: about the size of a core's cache


class Marginals(NamedTuple):
    """log_totals: (B,) as returned by `total`.  spans: (n(n + 1)/2, B) the probability of each span, 0 to 1."""

    log_totals: Floats
    spans: Floats


class BestTrees(NamedTuple):
    """scores: (B,) the weight of the best tree.  spans: (n(n + 1)/2, B) whether the best tree has each span."""

    scores: Chart
    spans: npt.NDArray[np.bool_]


def total(weights: Chart, split_weights: Chart | None = None) -> Floats:
    """Log of the sum of exp(weight) over all binary trees: the inside algorithm.

    weights: (n(n + 1)/2, B), finite or -inf, including those of one-word spans and of the whole sentence.
    split_weights: (C(n + 1, 3), B) or None.
    Returns (B,); -inf if every tree has weight -inf.
    Raises ValueError for wrong shapes and for weights of NaN or infinity.
    """
    length = checked_length(weights, split_weights)
    result = np.empty(weights.shape[1])
    for columns in _groups(length, weights.shape[1]):
        result[columns] = _log_inside(*_columns(weights, split_weights, columns), length)[-1]
    _check_numbers(result)
    return result


def marginals(weights: Chart, split_weights: Chart | None = None) -> Marginals:
    """Return the probability of each span under P(tree) proportional to exp(weight): the inside-outside algorithm.

    These are expected counts, and the gradient of `total`. Arguments and errors: see `total`. If all trees of a
    sentence have weight -inf, its marginals are 0; otherwise one-word spans and the whole sentence have 1.
    """
    length = checked_length(weights, split_weights)
    result = Marginals(np.empty(weights.shape[1]), np.empty(weights.shape))
    for columns in _groups(length, weights.shape[1]):
        own, own_splits = _columns(weights, split_weights, columns)
        inside = _log_inside(own, own_splits, length)
        result.log_totals[columns] = inside[-1]
        result.spans[:, columns] = _span_probabilities(inside, own, own_splits, length)
    _check_numbers(result.log_totals)
    return result


def best(weights: Chart, split_weights: Chart | None = None, ties: TieBreaking = "first") -> BestTrees:
    """Return a binary tree of maximal weight: the CYK algorithm.

    `spans_of(best(marginals(weights).spans).spans)` is minimum Bayes risk decoding.
    weights, split_weights: see `total`. Integer weights are added exactly, so ties do not depend on rounding.
    ties: if several splits of a span are equally good, `first` takes the one with the shortest left part. `random`
    takes each with the same probability: a fixed pseudo-random choice that only depends on n, the span and the split,
    so results are reproducible and unbiased.
    Raises ValueError for wrong shapes, for weights of NaN or infinity, and for integers that overflow 64 bits.
    """
    length = checked_length(weights, split_weights)
    groups = [_columns(weights, split_weights, columns) for columns in _groups(length, weights.shape[1])]
    found = [_best(*group, length, ties, None) for group in groups]
    return BestTrees(np.concatenate([one.scores for one in found]), np.concatenate([one.spans for one in found], 1))


def spans_of(chart: npt.NDArray[np.bool_]) -> SpanSets:
    """Return the spans of two or more words from a boolean chart, (n(n + 1)/2, B), of the spans that each sentence
    has.
    """
    length = checked_length(chart)
    return gathered(np.full(chart.shape[1], length), [_listed(chart, length)])


def best_trees(spans: SpanSets, weights: npt.NDArray[np.integer], ties: TieBreaking = "first") -> SpanSets:
    """Return `best` for sentences of any lengths, given the spans whose weight is not 0.

    spans: distinct within a sentence; they may cross.  weights: (N,) integers, one per span.
    ties: see `best`; the choice of `random` also depends on the sentence's spans.
    Returns all spans of two or more words, including the whole sentence: n - 1 for n words.
    Raises InputError as `best_trees_of_charts`.
    """
    seeds = seeds_of(spans) if ties == "random" else None
    return best_trees_of_charts(spans.lengths, partial(chart_of_spans, spans, weights), ties, seeds)


def chart_of_spans(spans: SpanSets, weights: npt.NDArray[np.integer], chosen: Integers, length: int) -> Chart:
    """Return the chart of sentences of one length: the weights of their spans, (N,) as in `best_trees`, 0 elsewhere."""
    places = spans.places(chosen)
    sentence = np.repeat(np.arange(len(chosen)), np.diff(spans.offsets)[chosen])
    rows = positions(length, spans.starts[places], spans.ends[places])
    chart = np.zeros((length * (length + 1) // 2, len(chosen)), weights.dtype)
    chart.ravel()[rows * len(chosen) + sentence] = weights[places]
    return chart


def best_trees_of_charts(
    lengths: Integers,
    chart_of: Callable[[Integers, int], Chart],
    ties: TieBreaking = "first",
    seeds: Hashes | None = None,
) -> SpanSets:
    """Return `best` for sentences of any lengths, whose charts are computed one group at a time.

    lengths: (S,).  chart_of: maps the indices of sentences and their common length to their chart.
    seeds: (S,) a seed per sentence on which the choice of `random` also depends.  Returns trees like `best_trees`.
    Raises InputError for a sentence of more than `MAXIMUM_WORDS` words, before any chart is computed.
    """
    check_words(lengths)
    found = []
    for length, chosen in equal_lengths(lengths, group_size):
        own = None if seeds is None else seeds[chosen]
        sentence, start, end = _listed(_best(chart_of(chosen, length), None, length, ties, own).spans, length)
        found.append((chosen[sentence], start, end))
    return gathered(lengths, found)


def check_words(lengths: Integers) -> None:
    """Raise InputError naming the first sentence of more than `MAXIMUM_WORDS` words."""
    long = np.flatnonzero(lengths > MAXIMUM_WORDS)
    if len(long):
        raise InputError(
            f"sentence {long[0] + 1}: found {lengths[long[0]]:,} words; expected at most {MAXIMUM_WORDS:,}, because the"
            " time of this decoding grows with the cube of their number. Split the sentence"
        )


def group_size(length: int) -> int:
    """Return number of sentences of this length to process together: their charts of 8-byte numbers fit the cache."""
    return max(1, _CHART_BYTES // (4 * length * (length + 1)))


def equal_lengths(lengths: Integers, size: Callable[[int], int]) -> Iterator[tuple[int, Integers]]:
    """Group of sentences of one length: (length, indices of the sentences), shortest first.

    size: maps a length to the maximal number of sentences in a group.
    """
    order = np.argsort(lengths, kind="stable")
    values, first = np.unique(lengths[order], return_index=True)
    for length, chosen in zip(values.tolist(), np.split(order, first[1:]), strict=False):
        for low in range(0, len(chosen), size(length)):
            yield length, chosen[low : low + size(length)]


def checked_length(weights: Any, split_weights: Any = None) -> int:
    """Return the number of words of a chart's sentences.  Raises ValueError for wrong shapes (NumPy or torch
    arrays).
    """
    cells = weights.shape[0] if weights.ndim == 2 else 0
    length = (math.isqrt(8 * cells + 1) - 1) // 2
    if not cells or length * (length + 1) // 2 != cells:
        raise ValueError(f"weights of shape {tuple(weights.shape)}: expected (n(n + 1)/2, sentences) for n words")
    expected = (math.comb(length + 1, 3), weights.shape[1])
    if split_weights is not None and tuple(split_weights.shape) != expected:
        raise ValueError(f"split weights of shape {tuple(split_weights.shape)}: expected {expected} for {length} words")
    return length


def positions(length: int, starts: Chart, ends: Chart) -> Integers:
    """Return the rows of spans [start, end) in the chart of a sentence."""
    before = np.asarray(ends, np.int64) - starts - 1
    rows: Integers = before * length - before * (before - 1) // 2 + starts
    return rows


@lru_cache(maxsize=16)  # sentences of one length follow each other
def spans_in(length: int) -> tuple[Integers, Integers]:
    """Return the start and end of each row's span: (n(n + 1)/2,) both."""
    widths = np.repeat(np.arange(1, length + 1), np.arange(length, 0, -1))
    starts = np.concatenate([np.arange(length - width + 1) for width in range(1, length + 1)])
    ends = starts + widths
    starts.flags.writeable = ends.flags.writeable = False  # the arrays are cached and shared
    return starts, ends


@cache
def blocks(length: int) -> list[slice]:
    """Return the rows of each width, from 0 (none) to n."""
    edges = offsets_of(np.arange(length, 0, -1)).tolist()
    return [slice(0, 0), *map(slice, edges, edges[1:])]


@cache
def split_blocks(length: int) -> list[slice]:
    """Return the rows of each width in an array of split weights, from 0 to n; the shape is (width - 1, n - width + 1,
    B).
    """
    widths = np.arange(1, length + 1)
    edges = offsets_of((widths - 1) * (length - widths + 1)).tolist()
    return [slice(0, 0), *map(slice, edges, edges[1:])]


def parts(
    lefts: Sequence[Chart], rights: Sequence[Chart], width: int, splits: Sequence[int] | None = None
) -> Iterator[tuple[Chart, Chart]]:
    """Yield the left and right parts of all spans of one width, one split at a time.

    lefts, rights: for each narrower width, (spans of that width, ...): values of spans as left and as right parts.
    splits: lengths of the left part, by default all.
    Yields two views (n - width + 1, ...) per split.
    """
    count = len(lefts[1]) - width + 1
    for left in range(1, width) if splits is None else splits:
        yield lefts[left][:count], rights[width - left][left : left + count]


def _listed(chart: npt.NDArray[np.bool_], length: int) -> tuple[Integers, Integers, Integers]:
    """(sentence, start, end) of the spans of two or more words that are True in a chart."""
    starts, ends = spans_in(length)
    sentence, place = np.nonzero(chart[length:].T)
    return sentence, starts[length + place], ends[length + place]


def _groups(length: int, count: int) -> Iterator[slice]:
    """Yield columns to process together; one empty group for an empty chart."""
    size = group_size(length)
    for low in range(0, max(1, count), size):
        yield slice(low, min(low + size, count))


def _columns(weights: Chart, split_weights: Chart | None, columns: slice) -> tuple[Chart, Chart | None]:
    return np.ascontiguousarray(weights[:, columns]), None if split_weights is None else split_weights[:, columns]


def _check_numbers(totals: Chart) -> None:
    if totals.dtype.kind == "f" and not (totals < np.inf).all():
        raise ValueError("weights include NaN or infinity: expected finite numbers or -inf")


def _split_sums(
    lefts: Sequence[Chart], rights: Sequence[Chart], width: int, length: int, split_weights: Chart | None
) -> Iterator[Chart]:
    """Yield left + right (+ split weight) of all spans of one width, one split at a time, in one reused array."""
    sums = np.empty((length - width + 1, lefts[1].shape[1]), lefts[1].dtype)
    by_split = None
    if split_weights is not None:
        by_split = split_weights[split_blocks(length)[width]].reshape(width - 1, *sums.shape)
    for place, (left, right) in enumerate(parts(lefts, rights, width)):
        np.add(left, right, out=sums)
        if by_split is not None:
            sums += by_split[place]
        yield sums


def _log_inside(weights: Chart, split_weights: Chart | None, length: int) -> Floats:
    """Return log inside(l, r) = weight(l, r) + log sum over l < i < r of inside(l, i) inside(i, r), as a chart."""
    inside = np.empty(weights.shape)
    inside[:length] = weights[:length]
    rows = [inside[block] for block in blocks(length)]
    with np.errstate(divide="ignore", invalid="ignore"):
        for width in range(2, length + 1):
            greatest, row = np.full_like(rows[width], -np.inf), rows[width]
            for sums in _split_sums(rows, rows, width, length, split_weights):
                np.maximum(greatest, sums, out=greatest)
            greatest[np.isneginf(greatest)] = 0
            row[...] = 0
            for sums in _split_sums(rows, rows, width, length, split_weights):
                sums -= greatest
                row += np.exp(sums, out=sums)
            np.log(row, out=row)
            row += greatest
            row += weights[blocks(length)[width]]
    return inside


def _span_probabilities(inside: Floats, weights: Chart, split_weights: Chart | None, length: int) -> Floats:
    """Go from the widest spans to the narrowest; each distributes its probability to the parts of its splits."""
    probabilities = np.zeros_like(inside)
    probabilities[-1] = inside[-1] > -np.inf
    rows = [inside[block] for block in blocks(length)]
    shares = [probabilities[block] for block in blocks(length)]
    for width in range(length, 1, -1):
        with np.errstate(invalid="ignore"):
            of_splits = rows[width] - weights[blocks(length)[width]]
        of_splits[np.isneginf(rows[width])] = np.inf  # a span that is in no tree distributes nothing
        splits = _split_sums(rows, rows, width, length, split_weights)
        for sums, (left, right) in zip(splits, parts(shares, shares, width), strict=True):
            sums -= of_splits
            np.exp(sums, out=sums)
            sums *= shares[width]
            left += sums
            right += sums
    return probabilities


def _best(weights: Chart, splits: Chart | None, length: int, ties: TieBreaking, seeds: Hashes | None) -> BestTrees:
    inside = _best_inside(weights, splits, length)
    scores = inside[-1] + weights[:length].sum(0)
    _check_numbers(scores)
    return BestTrees(scores, _best_spans(inside, splits, length, ties, seeds))


def _best_inside(weights: Chart, split_weights: Chart | None, length: int) -> Chart:
    """Return the maximal weight of a tree over each span, ignoring one-word spans.

    inside(l, r) = weight(l, r) + max over l < i < r of inside(l, i) + inside(i, r)
    """
    number_type = _number_type(weights, split_weights, length)
    weights = weights.astype(number_type, copy=False)
    inside = np.empty(weights.shape, number_type)
    inside[:length] = 0
    own, rows = ([chart[block] for block in blocks(length)] for chart in (weights, inside))
    if split_weights is None and (weights.shape[1] == 1 or weights.shape[1] * length < _FEW_WORDS):
        _fill_by_width(own, rows, length)
        return inside
    lowest = -np.inf if number_type.kind == "f" else np.iinfo(number_type).min
    for width in range(2, length + 1):
        row = rows[width]
        row[...] = lowest
        for sums in _split_sums(rows, rows, width, length, split_weights):
            np.maximum(row, sums, out=row)
        row += own[width]
    return inside


def _fill_by_width(own: Sequence[Chart], rows: Sequence[Chart], length: int) -> None:
    """`_best_inside` of one sentence, or a few short ones: all splits of all spans of one width in one operation.

    own, rows: by width.  The parts of spans are read from square tables, by start or end and by width, where
    those of one width are slices; n operations then take the place of n^2.
    """
    columns = rows[1].shape[1]
    lefts = np.zeros((length + 1, length + 1, columns), rows[1].dtype)  # by start and width
    rights = np.zeros_like(lefts)  # by end and width
    for width in range(2, length + 1):
        count = length - width + 1
        sums = lefts[:count, 1:width] + rights[width:, width - 1 : 0 : -1]
        np.add(sums.max(1), own[width], out=rows[width])
        lefts[:count, width] = rights[width:, width] = rows[width]


def _best_spans(
    inside: Chart, split_weights: Chart | None, length: int, ties: TieBreaking, seeds: Hashes | None
) -> npt.NDArray[np.bool_]:
    """Return the chart of the best trees' spans, computed from the widest spans down.

    Best splits are only computed for spans of these trees, so no chart of splits is needed.
    """
    count = inside.shape[1]
    values = inside.ravel()
    spans = np.zeros(inside.shape, np.bool_)
    spans[:length] = spans[-1] = True
    marks = spans.ravel()
    left_rows, right_rows = (rows * count for rows in _part_rows(length))
    for width in range(length, 2, -1):  # spans of two words have only one split, and all words are marked
        start, sentence = np.nonzero(spans[blocks(length)[width]])
        if not len(start):
            continue
        place = start * count + sentence
        lefts, rights = left_rows[width, : width - 1], right_rows[width, : width - 1]
        sums = values.take(place[:, None] + lefts)
        sums += values.take(place[:, None] + rights)
        if split_weights is not None:
            by_split = split_weights[split_blocks(length)[width]].reshape(width - 1, length - width + 1, count)
            sums += by_split[:, start, sentence].T
        split = sums.argmax(1)  # the first, if several are equal
        if ties == "random":
            choose_at_random(split, sums, length, start, None if seeds is None else seeds[sentence])
        marks[place + lefts[split]] = True
        marks[place + rights[split]] = True
    return spans


@lru_cache(maxsize=4)
def _part_rows(length: int) -> tuple[Integers, Integers]:
    """(n + 1, n) each: at [width, split - 1] the rows of the left and right part of the first span of that width."""
    first = np.array([block.start for block in blocks(length)])
    width, split = np.arange(length + 1)[:, None], np.arange(1, length + 1)
    return np.broadcast_to(first[split], (length + 1, length)), first[np.maximum(width - split, 0)] + split


def _number_type(weights: Chart, split_weights: Chart | None, length: int) -> np.dtype[Any]:
    """Return float64, or the smallest integer type that can represent the weight of every tree."""
    given = [weights] if split_weights is None else [weights, split_weights]
    if any(part.dtype.kind not in "iub" for part in given):
        return np.dtype(np.float64)
    greatest = sum(max(abs(int(part.max(initial=0))), abs(int(part.min(initial=0)))) for part in given) * 2 * length
    if greatest >= 2**63:
        raise ValueError(f"integer weights of trees reach {greatest}; expected less than 2^63")
    return np.dtype(np.int32 if greatest < 2**31 else np.int64)
