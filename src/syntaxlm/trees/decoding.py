"""From syntactic distances to trees, by two decoding rules.

`decode_by_definition` splits one sentence recursively as in the definition of the rules: slow, used as test reference.
`decode` processes all sentences at once. The span split at a position extends to the nearest larger distances on both
sides (of equal distances the first counts as larger), so the trees follow from these neighbours. The neighbours of all
positions are found together: each position starts at the adjacent one and, while the distance there is smaller, jumps
to that position's own current neighbour. Few positions remain after the first rounds; those of sentences with
thousands of words that remain after many rounds are found word by word.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from syntaxlm.errors import InputError
from syntaxlm.trees.spans import Integers, SpanSets, offsets_of

DecodingRule = Literal["biased", "unbiased"]
DECODING_RULES: tuple[DecodingRule, ...] = get_args(DecodingRule)
Distances = npt.NDArray[np.floating]

_ROUNDS = 200  # of jumps of all positions; more than the words of nearly all sentences


def decode(distances: Distances, lengths: Integers, rule: DecodingRule) -> SpanSets:
    """The binary trees for the distances of many sentences.

    distances: (W,) one per word, all sentences concatenated; that of word i is between words i - 1 and i.
    lengths: (S,) number of words of each sentence, with sum W.
    rule: `biased` (as released with PRPN and ON-LSTM): a span splits at the first largest distance i, which may be at
    its first position, into (w_<i, (w_i, w_>i)).  `unbiased`: at the first largest distance after its first position,
    into (w_<i, w_>=i).
    Returns all spans of two or more words, including the whole sentence: n - 1 for n words.
    Raises ValueError if the arguments do not fit, InputError if a distance is NaN.
    Shen et al. 2018 (PRPN), section 3; Dyer et al. 2019 on the bias.
    """
    distances, lengths = _checked(distances, lengths, rule)
    offsets = offsets_of(lengths)
    first = np.repeat(offsets[:-1], lengths)  # for each word, the index of its sentence's first word
    last = np.repeat(offsets[1:], lengths)
    place = np.arange(len(distances))
    if rule == "unbiased":
        # The first position cannot be a split: it only bounds the search.
        starts = _nearest_before(distances, first) - first
        ends = nearest_larger_after(distances, last) - first
        kept = place > first
    else:
        begin = _nearest_before(distances, first - 1) + 1 - first
        end = nearest_larger_after(distances, last) - first
        position = place - first
        starts = np.stack([begin, position], 1).ravel()  # the span of the position, then (w_i, w_>i) within it
        ends = np.repeat(end, 2)
        kept = np.stack([end - begin > 1, (begin < position) & (end - position > 1)], 1).ravel()
    return SpanSets(
        lengths,
        offsets_of(lengths - 1),  # a binary tree over n words has n - 1 spans
        starts[kept].astype(np.int32),
        ends[kept].astype(np.int32),
    )


def _checked(distances: Distances, lengths: Integers, rule: DecodingRule) -> tuple[Distances, Integers]:
    distances, lengths = np.asarray(distances), np.asarray(lengths, np.int64)
    if rule not in DECODING_RULES:
        raise ValueError(f"decoding rule {rule!r}: expected one of {', '.join(DECODING_RULES)}")
    if distances.ndim != 1 or lengths.ndim != 1 or lengths.sum() != len(distances):
        raise ValueError(f"found distances of shape {distances.shape} for {lengths.sum()} words; expected one per word")
    if (lengths < 1).any():
        raise ValueError("sentences must have at least one word")
    if np.isnan(distances).any():
        place = int(np.flatnonzero(np.isnan(distances))[0])
        sentence = int(np.searchsorted(np.cumsum(lengths), place, side="right"))
        word = place - int(lengths[:sentence].sum())
        raise InputError(f"sentence {sentence + 1}, word {word + 1}: the distance is NaN, expected a number")
    return distances, lengths


def _nearest_before(distances: Distances, bound: Integers) -> Integers:
    """(W,) the nearest earlier position whose distance is at least as large; `bound` if there is none after it."""
    last = len(distances) - 1
    return last - _nearest_after(distances[::-1], last - bound[::-1], np.less)[::-1]


def nearest_larger_after(distances: npt.NDArray[Any], bound: Integers) -> Integers:
    """(W,) the nearest later position whose distance is larger; `bound` if there is none before it."""
    return _nearest_after(distances, bound, np.less_equal)


def _nearest_after(distances: npt.NDArray[Any], bound: Integers, passes: np.ufunc) -> Integers:
    """(W,) the nearest later position that does not pass; `bound` if there is none before it.

    passes: compares the distances of a later position and of the position itself.
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
    """`_nearest_after` of the wanted positions in linear time, word by word.

    Positions step over each result that is already known one at a time, which would be quadratic for some trees.
    """
    first, last = int(wanted[0]), int(bound[wanted[-1]])
    values, bounds = distances[first:last].tolist(), bound[first:last].tolist()
    passed = operator.le if passes is np.less_equal else operator.lt
    found = [0] * len(values)
    later: list[int] = []
    for place in reversed(range(len(values))):
        value = values[place]
        while later and passed(values[later[-1]], value):
            later.pop()
        found[place] = min(first + later[-1], bounds[place]) if later else bounds[place]
        later.append(place)
    return [found[place - first] for place in wanted.tolist()]


def decode_by_definition(distances: Sequence[float], rule: DecodingRule) -> set[tuple[int, int]]:
    """The spans of two or more words of one sentence's tree, by definition: quadratic, for tests."""
    spans: set[tuple[int, int]] = set()
    agenda = [(0, len(distances))]
    while agenda:
        start, end = agenda.pop()
        if end - start < 2:
            continue
        spans.add((start, end))
        choices = range(start if rule == "biased" else start + 1, end)
        split = max(choices, key=lambda position: distances[position])  # max() returns the first of equal ones
        if rule == "biased":
            if end - split > 1:
                spans.add((split, end))
            agenda += [(start, split), (split + 1, end)]
        else:
            agenda += [(start, split), (split, end)]
    return spans
