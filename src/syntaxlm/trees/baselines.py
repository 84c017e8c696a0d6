"""Baselines and upper bounds: trees that need no model, and the best trees for given gold trees.

Each function gives one binary tree per sentence: its spans of two words or more, the whole sentence included.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from syntaxlm.trees.charts import best_trees
from syntaxlm.trees.decoding import decode
from syntaxlm.trees.span_index import span_keys, spans_of_keys
from syntaxlm.trees.spans import Integers, SpanSets, offsets_of, top_down


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
    lengths, _, _ = _binary(lengths)
    return top_down(lengths, lambda _, start, end: start + (end - start) // 2)


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
    """A tree that shares the most spans with gold, of those that the `biased` decoding rule can give.  O(n^3) time."""
    keys, _ = span_keys(gold, keep_whole=True)
    return best_trees(spans_of_keys(keys, gold.lengths), np.ones(len(keys), np.int64), "biased")


def _binary(lengths: Sequence[int] | Integers) -> tuple[Integers, Integers, Integers]:
    """Lengths, spans of two words or more in a binary tree of each, their offsets."""
    lengths = np.asarray(lengths, np.int64)
    if lengths.ndim != 1 or (lengths < 1).any():
        raise ValueError("lengths are one number for each sentence, 1 or more")
    return lengths, lengths - 1, offsets_of(lengths - 1)
