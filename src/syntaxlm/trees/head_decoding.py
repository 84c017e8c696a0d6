"""Constituents of projective dependency trees, for all sentences at once."""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np

from syntaxlm.trees.spans import AnyIntegers, Integers, SpanSets, gathered, offsets_of

HeadRule = Literal["heads", "heads-binary"]
HEAD_RULES: tuple[HeadRule, ...] = get_args(HeadRule)


def decode_heads(heads: AnyIntegers, lengths: Integers, rule: HeadRule = "heads") -> SpanSets:
    """The constituents of two or more words of projective dependency trees.

    heads: (words,) position of each word's head in its sentence, from 1, 0 for the root; sentence after sentence.
    rule: `heads`: each head with all its descendants. `heads-binary`: a binary tree, in which a head first joins its
        right dependents, closest first, then its left ones: the order of generation in Klein & Manning 2004.
    For trees that are not projective, a constituent reaches from the first to the last descendant.
    """
    offsets = offsets_of(lengths)
    sentences = np.repeat(np.arange(len(lengths)), lengths)
    first = offsets[:-1][sentences]
    places = np.arange(offsets[-1]) - first
    (dependents,) = np.nonzero(heads)
    own_heads = first[dependents] + heads[dependents] - 1  # indices of words, like `dependents`
    starts, ends = places.copy(), places + 1
    for _ in range(int(lengths.max(initial=0))):  # each pass takes the descendants one level up
        before = starts.copy(), ends.copy()
        np.minimum.at(starts, own_heads, starts[dependents])
        np.maximum.at(ends, own_heads, ends[dependents])
        if np.array_equal(starts, before[0]) and np.array_equal(ends, before[1]):
            break
    if rule == "heads":
        (kept,) = np.nonzero(ends - starts > 1)
        return gathered(lengths, [(sentences[kept], starts[kept], ends[kept])])
    # One constituent for each arc: from the head to the end of a right dependent, or from the start of a left one to
    # the end of the head's constituent.
    on_right = dependents > own_heads
    lows = np.where(on_right, places[own_heads], starts[dependents])
    highs = np.where(on_right, ends[dependents], ends[own_heads])
    return gathered(lengths, [(sentences[dependents], lows, highs)])
