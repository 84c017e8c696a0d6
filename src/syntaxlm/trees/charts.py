"""The best binary trees of many sentences, given a weight for each span: dynamic programming in NumPy.

A tree's weight is the sum of the weights of its spans. `syntaxlm.ops.charts` has sums, marginals and best trees in
torch; this module decodes without torch, adds integers exactly and is 3 to 5 times as fast on a CPU.

A chart of B sentences of n words is an array (n(n + 1)/2, B): one row per span, by width, then by start. Spans of one
width are therefore one block, and their left and right parts are slices of the blocks of narrower spans (`parts`).
Split weights, which only `ops.charts` has, are an array (C(n + 1, 3), B): one row per span and split, by width, then by
the length of the left part, then by start.

Decoding takes O(n^3) time and O(n^2) memory per sentence. Sentences are processed in groups that fit the cache.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import cache, lru_cache
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from syntaxlm.core.arrays import Flags, Integers, Numbers
from syntaxlm.core.errors import InputError
from syntaxlm.core.threads import check_wanted
from syntaxlm.trees.spans import SpanSets, item_indices, offsets_of, sorted_by_sentence

TieBreaking = Literal["first", "random"]
TIE_RULES: tuple[TieBreaking, ...] = get_args(TieBreaking)

Chart: TypeAlias = npt.NDArray[Any]
Hashes: TypeAlias = npt.NDArray[np.uint64]

MAXIMUM_WORDS = 5000  # of a sentence whose tree is decoded: half a minute, and half a gigabyte of memory

_FEW_WORDS = 1000  # of a group of sentences; below this, the number of operations matters more than their size
_CHART_BYTES = 2_000_000  # of the charts of one group of sentences: about the size of a core's cache


def best_trees_of_charts(
    lengths: Integers,
    chart_of: Callable[[Integers, int], Chart],
    ties: TieBreaking = "first",
    seeds: Hashes | None = None,
) -> SpanSets:
    """Return the best trees of sentences of any lengths, whose charts are computed one group at a time.

    Args:
        lengths: (S,).
        chart_of: maps the indices of sentences and their common length to their chart.
        ties: see `best`.
        seeds: (S,) a seed per sentence on which the choice of `random` also depends.

    Returns:
        All spans of two or more words, including the whole sentence: n - 1 for n words.

    Raises:
        InputError: for a sentence of more than `MAXIMUM_WORDS` words, before any chart is computed.
    """
    too_long = np.flatnonzero(lengths > MAXIMUM_WORDS)
    if len(too_long):
        raise InputError(
            f"sentence {too_long[0] + 1}: found {lengths[too_long[0]]:,} words; expected at most {MAXIMUM_WORDS:,},"
            " because the time of this decoding grows with the cube of their number. Split the sentence"
        )
    groups = []
    # As many sentences together as charts of 8-byte numbers fit the cache.
    for length, chosen in equal_lengths(lengths, lambda length: max(1, _CHART_BYTES // (4 * length * (length + 1)))):
        _, spans = best(chart_of(chosen, length), ties, None if seeds is None else seeds[chosen])
        starts, ends = spans_in(length)
        sentence, place = np.nonzero(spans[length:].T)  # spans of two or more words
        groups.append((chosen[sentence], starts[length + place], ends[length + place]))
    return sorted_by_sentence(lengths, groups)


def best(weights: Chart, ties: TieBreaking = "first", seeds: Hashes | None = None) -> tuple[Chart, Flags]:
    """Return a binary tree of maximal weight for each sentence: the CYK algorithm.

    Args:
        weights: (n(n + 1)/2, B), finite or -inf, including those of one-word spans and of the whole sentence. Integers
            are added exactly, so ties do not depend on rounding.
        ties: if several splits of a span are equally good, `first` takes the one with the shortest left part. `random`
            takes each with the same probability: a fixed pseudo-random choice that only depends on n, the span and the
            split, and on seeds, (B,), if given, so results are reproducible and unbiased.

    Returns:
        (B,), the weights of the trees, and (n(n + 1)/2, B), whether each tree has each span.

    Raises:
        ValueError: for wrong shapes, for weights of NaN or +infinity, and for integers that overflow 64 bits.
    """
    length = checked_length(weights)
    number_type: np.dtype[Any] = np.dtype(np.float64)
    if weights.dtype.kind in "iub":  # the smallest integer type that can represent the weight of every tree
        greatest = max(abs(int(weights.max(initial=0))), abs(int(weights.min(initial=0)))) * 2 * length
        if greatest >= 2**63:
            raise ValueError(f"integer weights of trees reach {greatest}; expected less than 2^63")
        number_type = np.dtype(np.int32 if greatest < 2**31 else np.int64)
    inside = _best_inside(weights.astype(number_type, copy=False), length)
    scores = inside[-1] + weights[:length].sum(0)
    if scores.dtype.kind == "f" and not (scores < np.inf).all():
        raise ValueError("weights include NaN or infinity: expected finite numbers or -inf")
    return scores, _best_spans(inside, length, ties, seeds)


def k_best(weights: Chart, count: int) -> tuple[Numbers, Flags]:
    """Return the `count` different trees of the largest weight for each sentence, the best first.

    Of trees of equal weight, those with shorter left parts come first.

    Args:
        weights: (n(n + 1)/2, B), finite.

    Returns:
        (count, B), the weights of the trees, -inf where a sentence has no more trees, and (n(n + 1)/2, count, B),
        whether each tree has each span. Huang & Chiang 2005, "Better k-best parsing", algorithm 1.
    """
    length = checked_length(weights)
    columns = weights.shape[1]
    # The parts of the k-th best tree of a split have ranks i and j with (i + 1)(j + 1) <= k, counted from 0.
    ranks = np.arange(count)
    left_ranks, right_ranks = np.nonzero(np.outer(ranks + 1, ranks + 1) <= count)
    single = np.full((length, columns, count), -np.inf)
    single[..., 0] = 0
    # By width: the k best values of each span, (n - width + 1, B, k), and the split and the pair of ranks of each.
    values = [single[:0], single]
    origins = [single[:0].astype(np.int64)] * 2
    # V_k(l, r) = weight(l, r) + the k-th largest of V_i(l, m) + V_j(m, r) over l < m < r and ranks i, j
    for width, block in enumerate(blocks(length)[2:], 2):
        check_wanted()
        # (n - width + 1, B, pairs of ranks) for each split
        sums = [left[..., left_ranks] + right[..., right_ranks] for left, right in parts(values, values, width)]
        candidates = np.concatenate(sums, -1)
        order = np.argsort(-candidates, axis=-1, kind="stable")[..., :count]
        best_sums = np.full((len(candidates), columns, count), -np.inf)
        best_sums[..., : order.shape[-1]] = np.take_along_axis(candidates, order, -1)
        values.append(best_sums + weights[block][..., None])
        origins.append(order)

    # Follow the origins of each tree from the whole sentence down.
    spans = np.zeros((len(weights), count, columns), np.bool_)
    scores = values[length][0].T + weights[:length].sum(0)
    for rank, column in zip(*np.nonzero(scores > -np.inf), strict=True):
        open_spans = [(0, length, rank)]
        while open_spans:
            start, width, span_rank = open_spans.pop()
            spans[blocks(length)[width].start + start, rank, column] = True
            if width > 1:
                left, pair = divmod(int(origins[width][start, column, span_rank]), len(left_ranks))
                open_spans.append((start, left + 1, left_ranks[pair]))
                open_spans.append((start + left + 1, width - left - 1, right_ranks[pair]))
    return scores, spans


def _best_inside(weights: Chart, length: int) -> Chart:
    """Return the maximal weight of a tree over each span, without the weights of one-word spans."""
    inside = np.empty_like(weights)
    inside[:length] = 0
    span_weights = [weights[block] for block in blocks(length)]
    rows = [inside[block] for block in blocks(length)]
    columns = weights.shape[1]
    if columns == 1 or columns * length < _FEW_WORDS:
        # All splits of all spans of one width in one operation: n operations take the place of n^2. The parts of spans
        # are read from square tables, by start or end and by width, where those of one width are slices.
        lefts = np.zeros((length + 1, length + 1, columns), weights.dtype)  # by start and width
        rights = np.zeros_like(lefts)  # by end and width
        # inside(l, r) = weight(l, r) + max over l < i < r of inside(l, i) + inside(i, r)
        for width in range(2, length + 1):
            count = length - width + 1
            sums = lefts[:count, 1:width] + rights[width:, width - 1 : 0 : -1]
            np.add(sums.max(1), span_weights[width], out=rows[width])
            lefts[:count, width] = rights[width:, width] = rows[width]
        return inside

    # The same recurrence, one split of all spans of a width at a time.
    lowest = -np.inf if weights.dtype.kind == "f" else np.iinfo(weights.dtype).min
    for width in range(2, length + 1):
        row = rows[width]
        row[...] = lowest
        sums = np.empty_like(row)
        for left, right in parts(rows, rows, width):
            np.add(left, right, out=sums)
            np.maximum(row, sums, out=row)
        row += span_weights[width]
    return inside


def _best_spans(inside: Chart, length: int, ties: TieBreaking, seeds: Hashes | None) -> Flags:
    """Return the chart of the best trees' spans, computed from the widest spans down.

    Best splits are only computed for spans of these trees, so no chart of splits is needed.
    """
    count = inside.shape[1]
    values = inside.ravel()
    spans = np.zeros(inside.shape, np.bool_)
    spans[:length] = spans[-1] = True
    marks = spans.ravel()
    first_rows = np.array([block.start for block in blocks(length)])
    # split(l, r) = the i, l < i < r, with the largest inside(l, i) + inside(i, r)
    for width in range(length, 2, -1):  # spans of two words have only one split, and all words are marked
        start, sentence = np.nonzero(spans[blocks(length)[width]])
        if not len(start):
            continue
        # In the flat arrays, the parts of a span are at fixed distances from the place of its start and sentence.
        place = start * count + sentence
        splits = np.arange(1, width)
        lefts = first_rows[1:width] * count
        rights = (first_rows[width - 1 : 0 : -1] + splits) * count
        sums = values.take(place[:, None] + lefts)
        sums += values.take(place[:, None] + rights)
        split = sums.argmax(1)  # the first, if several are equal
        if ties == "random":
            # If the first split were always taken, trees would branch to the right wherever weights are equal. A hash
            # is unbiased, and unlike the state of a generator it does not depend on other sentences.
            is_best = sums == sums.max(1, keepdims=True)
            tied = np.flatnonzero(np.count_nonzero(is_best, axis=1) > 1)
            tied_seeds = [] if seeds is None else [seeds[sentence[tied], None]]
            hashes = _hashed(np.asarray(length), width, start[tied, None], *tied_seeds, splits)
            priorities = (hashes >> np.uint64(1)).astype(np.int64)
            split[tied] = np.where(is_best[tied], priorities, -1).argmax(1)
        marks[place + lefts[split]] = True
        marks[place + rights[split]] = True
    return spans


def seeds_of(spans: SpanSets) -> Hashes:
    """(S,) a hash of each sentence's spans, so that different sentences of one length break ties differently.

    Args:
        spans: distinct within a sentence; a hash does not depend on their order or on other sentences.
    """
    hashes = _hashed(spans.starts, spans.ends)
    with np.errstate(over="ignore"):
        sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(hashes, dtype=np.uint64)])
        return sums[spans.offsets[1:]] - sums[spans.offsets[:-1]]


def _hashed(*parts: Any) -> Hashes:
    """Return a hash of integers, broadcast: SplitMix64 (Steele et al. 2014) applied to one after another."""
    mixed = np.zeros((), np.uint64)
    with np.errstate(over="ignore"):
        for part in parts:
            mixed = mixed + np.asarray(part).astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
            mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            mixed ^= mixed >> np.uint64(31)
    return mixed


def equal_lengths(lengths: Integers, size: Callable[[int], int]) -> Iterator[tuple[int, Integers]]:
    """Yield groups of sentences of one length: (length, indices of the sentences), shortest first.

    Args:
        size: maps a length to the maximal number of sentences in a group.
    """
    order = np.argsort(lengths, kind="stable")
    values, first = np.unique(lengths[order], return_index=True)
    for length, chosen in zip(values.tolist(), np.split(order, first[1:]), strict=False):
        for low in range(0, len(chosen), size(length)):
            yield length, chosen[low : low + size(length)]


def checked_length(weights: Any, split_weights: Any = None) -> int:
    """Return the number of words of a chart's sentences. Raises ValueError for wrong shapes.

    Args:
        weights: array of NumPy or torch.
        split_weights: array of NumPy or torch.
    """
    cells = weights.shape[0] if weights.ndim == 2 else 0
    length = (math.isqrt(8 * cells + 1) - 1) // 2
    if not cells or length * (length + 1) // 2 != cells:
        raise ValueError(f"weights of shape {tuple(weights.shape)}: expected (n(n + 1)/2, sentences) for n words")
    expected = (math.comb(length + 1, 3), weights.shape[1])
    if split_weights is not None and tuple(split_weights.shape) != expected:
        raise ValueError(f"split weights of shape {tuple(split_weights.shape)}: expected {expected} for {length} words")
    return length


def chart_of_spans(spans: SpanSets, weights: npt.NDArray[np.integer], chosen: Integers, length: int) -> Chart:
    """Return the chart of sentences of one length: the weights of their spans, (N,), and 0 for all others.

    Args:
        spans: distinct within a sentence; they may cross.
        chosen: the indices of the sentences.
    """
    indices = item_indices(spans.offsets, chosen)
    sentence = np.repeat(np.arange(len(chosen)), np.diff(spans.offsets)[chosen])
    starts = spans.starts[indices]
    narrower = spans.ends[indices].astype(np.int64) - starts - 1  # number of widths below that of the span
    rows = narrower * length - narrower * (narrower - 1) // 2 + starts
    chart = np.zeros((length * (length + 1) // 2, len(chosen)), weights.dtype)
    chart.ravel()[rows * len(chosen) + sentence] = weights[indices]
    return chart


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
    """Return the rows of each width in an array of split weights, from 0 to n: (width - 1)(n - width + 1) rows."""
    widths = np.arange(1, length + 1)
    edges = offsets_of((widths - 1) * (length - widths + 1)).tolist()
    return [slice(0, 0), *map(slice, edges, edges[1:])]


def parts(
    lefts: Sequence[Chart], rights: Sequence[Chart], width: int, splits: Sequence[int] | None = None
) -> Iterator[tuple[Chart, Chart]]:
    """Yield the left and right parts of all spans of one width, one split at a time: two views (n - width + 1, ...).

    Args:
        lefts: lefts[w], (n - w + 1, ...), has the values of the spans of w words as left parts; lefts[0] is not used.
        rights: the same as right parts.
        splits: lengths of the left part, by default all.
    """
    count = len(lefts[1]) - width + 1
    for left in range(1, width) if splits is None else splits:
        yield lefts[left][:count], rights[width - left][left : left + count]
