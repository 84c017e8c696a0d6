"""The best trees of weighted spans, by dynamic programming over all spans of a sentence (CYK).

Sentences of equal length are done together and stand side by side in the last axis, so that each step, one split of all
spans of one width, adds long rows.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from syntaxlm.trees.decoding import DecodingRule
from syntaxlm.trees.spans import Integers, SpanSets, gathered

_CHART_BYTES = 2_000_000  # of sentences done together: what stays near the core

Splits = npt.NDArray[np.int16]
Weights = npt.NDArray[np.integer]


def best_trees(spans: SpanSets, weights: Weights, rule: DecodingRule) -> SpanSets:
    """Of the binary trees that a decoding rule can give, for each sentence one whose spans weigh most together.

    spans: distinct in each sentence, crossing or not; any other weighs 0.  weights: (N,) one for each, 0 or more.
    rule: `unbiased` can give every binary tree, see `decode` for `biased`.
    Of equal splits of a span the first is taken.  O(n^3) time, O(n^2) memory.
    Returns all spans of two words or more, the whole sentence among them: n - 1 for n words.
    """
    found: list[tuple[Integers, Integers, Integers]] = []
    for length in np.unique(spans.lengths).tolist():
        indices = np.flatnonzero(spans.lengths == length)
        together = max(1, _CHART_BYTES // (4 * (length + 1) ** 2))
        for low in range(0, len(indices), together):
            chosen = indices[low : low + together]
            splits = _best_splits(spans.select(chosen), weights[spans.places(chosen)], length, rule)
            found += [(chosen[sentence], start, end) for sentence, start, end in _followed(splits, rule)]
    return gathered(spans.lengths, found)


def _best_splits(spans: SpanSets, weights: Weights, length: int, rule: DecodingRule) -> Splits:
    """For sentences of one length: (n + 1, n, B), at [w, l, b] how far into the span [l, l + w) its best split lies.

    With `inside` the most that the spans of a tree over [l, r) weigh, and `tail` that of [i, r) behind a split at i:
        inside(l, r) = weight(l, r) + max over l < i < r of inside(l, i) + tail(i, r)
    Unbiased, tail is inside.  Biased, [i, r) becomes (word i, [i + 1, r)), and a span may split so at its own start:
        tail(i, r)   = weight(i, r) + inside(i + 1, r)
        inside(l, r) = max(tail(l, r), the above)
    """
    size = len(spans)
    # All are multiples of `unit`. The bits below it hold the split while a maximum is taken; the first is the greatest.
    unit = 1 << (length + 1).bit_length()
    greatest = int(weights.max(initial=0)) * length * unit
    number_type = np.int32 if greatest + unit < 2**31 else np.int64
    weight = np.zeros((length + 1, length, size), number_type)
    weight[spans.ends - spans.starts, spans.starts, spans.sentences()] = weights.astype(number_type) * unit
    weight[:2] = 0
    inside = np.zeros_like(weight)
    tail = np.zeros_like(weight) if rule == "biased" else inside
    splits = np.zeros_like(weight, np.int16)
    for width in range(2, length + 1):
        count = length - width + 1
        here = weight[width, :count]
        best, both = np.zeros_like(here), np.empty_like(here)
        for left in range(1, width):
            np.add(inside[left, :count], tail[width - left, left : left + count], out=both)
            both += unit - 1 - left
            np.maximum(best, both, out=best)
        split = unit - 1 - (best & (unit - 1))
        best = (best & -unit) + here
        if rule == "biased":
            first = here + inside[width - 1, 1 : count + 1]
            split = np.where(best > first, split, 0)
            best = np.maximum(best, first)
            tail[width, :count] = first
        inside[width, :count] = best
        splits[width, :count] = split
    return splits


def _followed(splits: Splits, rule: DecodingRule) -> list[tuple[Integers, Integers, Integers]]:
    """Follows the best splits from the whole sentences down: (sentence, start, end) of all spans, level by level."""
    _, length, size = splits.shape
    sentence = np.arange(size)
    start, end = np.zeros(size, np.int64), np.full(size, length)
    levels: list[tuple[Integers, Integers, Integers]] = []
    while len(sentence):
        long = end - start > 1
        sentence, start, end = sentence[long], start[long], end[long]
        levels.append((sentence, start, end))
        split = start + splits[end - start, start, sentence]
        behind = split
        if rule == "biased":
            second = (split > start) & (end - split > 1)  # (w_i, w_>i), where it is not the span itself
            levels.append((sentence[second], split[second], end[second]))
            behind = split + 1
        sentence = np.concatenate([sentence, sentence])
        start, end = np.concatenate([start, behind]), np.concatenate([split, end])
    return levels
