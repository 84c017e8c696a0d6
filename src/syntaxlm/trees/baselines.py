"""Trees that need no model, and the best trees there are: what a parser's figure is read against.

Each gives the spans of two words or more of one binary tree a sentence, the whole sentence among them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from syntaxlm.trees.decoding import decode
from syntaxlm.trees.spans import Integers, Positions, SpanSets, offsets_of

# Chart cells that one step of the biased bound's dynamic programme holds at once: keeps its memory to tens of MB.
_CELLS = 4_000_000

Counts = npt.NDArray[np.int16]


def left(lengths: Sequence[int] | Integers) -> SpanSets:
    """Left branching: every span begins at the first word."""
    lengths, spans, offsets = _binary(lengths)
    rank = np.arange(offsets[-1]) - np.repeat(offsets[:-1], spans)
    ends = np.repeat(lengths, spans) - rank
    return SpanSets(lengths, offsets, np.zeros(offsets[-1], np.int32), ends.astype(np.int32))


def right(lengths: Sequence[int] | Integers) -> SpanSets:
    """Right branching: every span ends at the last word."""
    lengths, spans, offsets = _binary(lengths)
    rank = np.arange(offsets[-1]) - np.repeat(offsets[:-1], spans)
    return SpanSets(lengths, offsets, rank.astype(np.int32), np.repeat(lengths, spans).astype(np.int32))


def balanced(lengths: Sequence[int] | Integers) -> SpanSets:
    """Every span splits in the middle; of an odd number of words the right part has one more."""
    lengths, _, offsets = _binary(lengths)
    sentence, start, end = np.arange(len(lengths)), np.zeros_like(lengths), lengths
    levels: list[tuple[Integers, Integers, Integers]] = []
    while len(sentence):
        long = end - start > 1
        sentence, start, end = sentence[long], start[long], end[long]
        levels.append((sentence, start, end))
        middle = start + (end - start) // 2
        sentence = np.concatenate([sentence, sentence])
        start, end = np.concatenate([start, middle]), np.concatenate([middle, end])
    return _gathered(lengths, offsets, levels)


def random_trees(lengths: Sequence[int] | Integers, seed: int) -> SpanSets:
    """Every span splits at a place drawn uniformly from all its places: the random baseline of the field.

    (Not uniform over binary trees, which would be much deeper.)  The greatest of equally distributed distances lies
    at each place with the same probability, so these are the trees of random distances.
    """
    lengths, _, _ = _binary(lengths)
    return decode(np.random.default_rng(seed).random(int(lengths.sum())), lengths, "unbiased")


def binary_upper_bound(gold: SpanSets) -> SpanSets:
    """The best binary tree: all gold spans, and right branching among the parts of a gold span that has more than two.

    A place between two words splits the earlier, the fewer gold spans hold it inside; so each gold span is split from
    its surroundings before anything splits it.  gold: nested spans.
    """
    offsets = offsets_of(gold.lengths)
    first = offsets[:-1][gold.sentences()]
    # Spans that hold the place before word i: one more from start + 1 on, one less from end on.
    change = np.bincount(first + gold.starts + 1, minlength=offsets[-1] + 1)
    change = change - np.bincount(first + gold.ends, minlength=offsets[-1] + 1)
    return decode(-np.cumsum(change)[:-1].astype(np.float64), gold.lengths, "unbiased")


def biased_upper_bound(gold: SpanSets) -> SpanSets:
    """Of the trees that the `biased` decoding rule can give, one that shares the most spans with gold.

    By dynamic programming over spans: O(n^3) time, O(n^2) memory; sentences of equal length are done together.
    """
    lengths, _, offsets = _binary(gold.lengths)
    found: list[tuple[Integers, Integers, Integers]] = []
    for length in np.unique(lengths).tolist():
        indices = np.flatnonzero(lengths == length)
        together = max(1, 2 * _CELLS // (length + 1) ** 2)
        for low in range(0, len(indices), together):
            chosen = indices[low : low + together]
            splits = _best_biased_splits(gold.select(chosen), length)
            found += [(chosen[sentence], start, end) for sentence, start, end in _biased_spans(splits)]
    return _gathered(lengths, offsets, found)


def _best_biased_splits(gold: SpanSets, length: int) -> Counts:
    """For sentences of one length: (B, n, n + 1), at [b, l, w] how far into the span [l, l + w) its best split lies.

    A span [l, r) that splits at i becomes ([l, i), [i, r)), and [i, r) becomes (word i, [i + 1, r)).  With `inside` the
    most gold spans of a tree over [l, r), and `tail` those over [i, r) when it splits at i:
        tail(i, r)   = gold(i, r) + inside(i + 1, r)
        inside(l, r) = max(tail(l, r), gold(l, r) + max over l < i < r of inside(l, i) + tail(i, r))
    `inside` stands by start and width, `tail` by end and width, so that the maximum over i runs along two rows.
    """
    size = len(gold)
    is_gold = np.zeros((size, length + 1, length + 1), np.int16)
    is_gold[gold.sentences(), gold.starts, gold.ends - gold.starts] = 1
    is_gold[:, :, :2] = 0
    inside = np.zeros((size, length + 2, length + 1), np.int16)
    tail = np.zeros((size, length + 1, length + 1), np.int16)
    splits = np.zeros((size, length, length + 1), np.int16)
    for width in range(2, length + 1):
        spans = length - width + 1
        here = is_gold[:, :spans, width]
        tail[:, width:, width] = here + inside[:, 1 : spans + 1, width - 1]
        step = max(1, _CELLS // (size * width))
        for low in range(0, spans, step):
            high = min(low + step, spans)
            both = inside[:, low:high, 1:width] + tail[:, low + width : high + width, width - 1 : 0 : -1]
            split = both.argmax(-1)
            inner = np.take_along_axis(both, split[..., None], -1)[..., 0] + here[:, low:high]
            first = tail[:, low + width : high + width, width]
            splits[:, low:high, width] = np.where(inner > first, split + 1, 0)
            inside[:, low:high, width] = np.maximum(inner, first)
    return splits


def _biased_spans(splits: Counts) -> list[tuple[Integers, Integers, Integers]]:
    """Follows the best splits from the whole sentences down: (sentence, start, end) of all spans, level by level."""
    size, length, _ = splits.shape
    sentence = np.arange(size)
    start, end = np.zeros(size, np.int64), np.full(size, length)
    levels: list[tuple[Integers, Integers, Integers]] = []
    while len(sentence):
        long = end - start > 1
        sentence, start, end = sentence[long], start[long], end[long]
        split = start + splits[sentence, start, end - start]
        second = (split > start) & (end - split > 1)  # (w_i, w_>i), where it is not the span itself
        levels += [(sentence, start, end), (sentence[second], split[second], end[second])]
        sentence = np.concatenate([sentence, sentence])
        start, end = np.concatenate([start, split + 1]), np.concatenate([split, end])
    return levels


def _binary(lengths: Sequence[int] | Integers) -> tuple[Integers, Integers, Integers]:
    """Lengths, spans of two words or more in a binary tree of each, their offsets."""
    lengths = np.asarray(lengths, np.int64)
    if lengths.ndim != 1 or (lengths < 1).any():
        raise ValueError("lengths are one number for each sentence, 1 or more")
    return lengths, lengths - 1, offsets_of(lengths - 1)


def _gathered(lengths: Integers, offsets: Integers, found: list[tuple[Integers, Integers, Integers]]) -> SpanSets:
    """Spans found in any order, as sentence after sentence."""
    if not found:
        return SpanSets(lengths, offsets, np.zeros(0, np.int32), np.zeros(0, np.int32))
    sentences, starts, ends = (np.concatenate(part) for part in zip(*found, strict=True))
    order = np.argsort(sentences, kind="stable")
    return SpanSets(lengths, offsets, _positions(starts, order), _positions(ends, order))


def _positions(values: Integers, order: Integers) -> Positions:
    return values[order].astype(np.int32)
