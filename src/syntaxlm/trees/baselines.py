"""Baselines and upper bounds: trees that need no model, and the best trees for given gold trees.

Each function returns one binary tree per sentence: its spans of two or more words, including the whole sentence.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from syntaxlm.trees.biased_bound import distances_of_biased_bound
from syntaxlm.trees.decoding import DecodingRule, decode, nearest_larger_after
from syntaxlm.trees.spans import Integers, SpanSets, offsets_of, top_down


def left(lengths: Sequence[int] | Integers) -> SpanSets:
    """Left branching: every span starts at the first word."""
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
    """Every span splits in the middle; with an odd number of words, the right part is longer by one."""
    lengths, _, _ = _binary(lengths)
    return top_down(lengths, lambda _, start, end: start + (end - start) // 2)


def random_trees(lengths: Sequence[int] | Integers, seed: int, rule: DecodingRule = "unbiased") -> SpanSets:
    """The trees of random distances: independent and uniform in [0, 1).

    rule: the decoder.  `unbiased`: every span splits at a uniformly random position, because the largest of identically
    distributed distances is equally likely at each position: the usual random baseline, uniform over splits.
    `biased`: what this decoder scores without any information about the sentence; it leans to the right.
    """
    lengths, _, _ = _binary(lengths)
    return decode(np.random.default_rng(seed).random(int(lengths.sum())), lengths, rule)


def random_binary_trees(lengths: Sequence[int] | Integers, seed: int) -> SpanSets:
    """Every binary tree over the words has the same probability: deeper than `random_trees`.

    The random baseline of Shen et al. 2018 (PRPN), appendix.  In prefix order, a tree over n words is a sequence of
    n - 1 spans (+1) and n words (-1). Exactly one rotation of any arrangement of these steps is the sequence of a tree:
    the one that starts after the first minimum of the sums (cycle lemma, Dvoretzky & Motzkin 1947).
    """
    lengths, _, _ = _binary(lengths)
    sizes = 2 * lengths - 1
    offsets = offsets_of(sizes)
    first, tree = np.repeat(offsets[:-1], sizes), np.repeat(np.arange(len(lengths)), sizes)
    place = np.arange(offsets[-1]) - first
    order = np.lexsort((np.random.default_rng(seed).random(offsets[-1]), tree))
    steps = np.where(place < lengths[tree] - 1, 1, -1)[order]
    sums = np.cumsum(steps) + tree  # every tree sums to -1, so sums start at 0 in each
    minimum = np.minimum.reduceat(sums, offsets[:-1]) if len(lengths) else sums
    start = np.flatnonzero(sums == minimum[tree])
    start = start[np.unique(tree[start], return_index=True)[1]] + 1 - offsets[:-1]
    steps = steps[first + (place + start[tree]) % sizes[tree]]
    before = np.cumsum(steps) + tree - steps  # the sum before each step
    # The span of a step ends where the sum first falls below that before the step.
    end = nearest_larger_after(-before, np.repeat(offsets[1:], sizes))
    words = np.append(np.cumsum(steps < 0), 0)  # up to and including each step; index -1: none
    of_tree = words[first - 1]
    starts, ends = words[np.arange(offsets[-1]) - 1] - of_tree, words[end - 1] - of_tree
    spans = steps > 0
    return SpanSets(lengths, offsets_of(lengths - 1), starts[spans].astype(np.int32), ends[spans].astype(np.int32))


def binary_upper_bound(gold: SpanSets) -> SpanSets:
    """The best binary tree: all gold spans, and right branching within gold spans that have more than two children.

    The fewer gold spans contain a position between two words, the earlier it splits, so each gold span is separated
    from its context before it is split.  gold: nested spans.
    """
    offsets = offsets_of(gold.lengths)
    first = offsets[:-1][gold.sentences()]
    # Spans that contain the position before word i: one more from start + 1 on, one less from end on.
    change = np.bincount(first + gold.starts + 1, minlength=offsets[-1] + 1)
    change = change - np.bincount(first + gold.ends, minlength=offsets[-1] + 1)
    return decode(-np.cumsum(change)[:-1].astype(np.float64), gold.lengths, "unbiased")


def biased_upper_bound(gold: SpanSets) -> SpanSets:
    """A tree that shares the most spans with gold, among the possible trees of the `biased` decoder.

    gold: nested spans.  See `syntaxlm.trees.biased_bound`.  O(N log N) time for N words and spans.
    """
    return decode(distances_of_biased_bound(gold), gold.lengths, "biased")


def _binary(lengths: Sequence[int] | Integers) -> tuple[Integers, Integers, Integers]:
    """Lengths, the spans of two or more words of a binary tree of each length, and their offsets."""
    lengths = np.asarray(lengths, np.int64)
    if lengths.ndim != 1 or (lengths < 1).any():
        raise ValueError("expected one length per sentence, each at least 1")
    return lengths, lengths - 1, offsets_of(lengths - 1)
