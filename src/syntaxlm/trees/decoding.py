"""From syntactic distances to trees, by the two rules of the field.

`decode_by_definition` splits one sentence as in the definition of the rules: slow, and the oracle of the tests.
`decode` takes all sentences at once. A position heads the span that reaches to the nearest greater distances on both
sides (of equal ones the first is the greater), so the trees follow from those neighbours, and the neighbours of all
positions are found together: each looks at the place beside it and, while that one's distance is smaller, moves on to
the place it has reached itself. Few positions are still looking after the first rounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from syntaxlm.errors import InputError
from syntaxlm.trees.spans import Integers, SpanSets, offsets_of

DecodingRule = Literal["biased", "unbiased"]
DECODING_RULES: tuple[DecodingRule, ...] = get_args(DecodingRule)
Distances = npt.NDArray[np.floating]


def decode(distances: Distances, lengths: Integers, rule: DecodingRule) -> SpanSets:
    """The binary trees that the distances of many sentences stand for.

    distances: (W,) one for each word, sentence after sentence; that of word i lies between words i - 1 and i.
    lengths: (S,) words of each sentence, with sum W.
    rule: `biased` (as released with PRPN and ON-LSTM): a span splits at its first greatest distance i, its first
    position included, into (w_<i, (w_i, w_>i)).  `unbiased`: at the first greatest distance after its first position,
    into (w_<i, w_>=i).
    Returns all spans of two words or more, the whole sentence among them: n - 1 for n words.
    Raises ValueError where the arguments do not fit, InputError where a distance is not a number.
    Shen et al. 2018 (PRPN), section 3; Dyer et al. 2019 on the bias.
    """
    distances, lengths = _checked(distances, lengths, rule)
    offsets = offsets_of(lengths)
    first = np.repeat(offsets[:-1], lengths)  # of each word, the place of its sentence's first word
    last = np.repeat(offsets[1:], lengths)
    place = np.arange(len(distances))
    if rule == "unbiased":
        # The first position is no place to split: it only bounds the search.
        starts = _nearest_before(distances, first) - first
        ends = _nearest_after(distances, last) - first
        kept = place > first
    else:
        begin = _nearest_before(distances, first - 1) + 1 - first
        end = _nearest_after(distances, last) - first
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
        raise ValueError(
            f"{distances.shape} distances for sentences of {lengths.sum()} words: expected one for each word"
        )
    if (lengths < 1).any():
        raise ValueError("a sentence without words has no tree")
    if np.isnan(distances).any():
        place = int(np.flatnonzero(np.isnan(distances))[0])
        sentence = int(np.searchsorted(np.cumsum(lengths), place, side="right"))
        word = place - int(lengths[:sentence].sum())
        raise InputError(f"sentence {sentence + 1}, word {word + 1}: the distance is not a number, expected a number")
    return distances, lengths


def _nearest_before(distances: Distances, bound: Integers) -> Integers:
    """(W,) the nearest earlier place whose distance is as great or greater; `bound` where none lies behind it."""
    nearest = np.arange(-1, len(distances) - 1)
    active = np.flatnonzero(nearest > bound)
    while len(active):
        there = nearest[active]
        active = active[distances[there] < distances[active]]
        nearest[active] = nearest[nearest[active]]
        active = active[nearest[active] > bound[active]]
    return nearest


def _nearest_after(distances: Distances, bound: Integers) -> Integers:
    """(W,) the nearest later place whose distance is greater; `bound` where none lies before it."""
    nearest = np.arange(1, len(distances) + 1)
    active = np.flatnonzero(nearest < bound)
    while len(active):
        there = nearest[active]
        active = active[distances[there] <= distances[active]]
        nearest[active] = nearest[nearest[active]]
        active = active[nearest[active] < bound[active]]
    return nearest


def decode_by_definition(distances: Sequence[float], rule: DecodingRule) -> set[tuple[int, int]]:
    """The spans of two words or more of one sentence's tree, as defined: quadratic, for tests."""
    spans: set[tuple[int, int]] = set()
    agenda = [(0, len(distances))]
    while agenda:
        start, end = agenda.pop()
        if end - start < 2:
            continue
        spans.add((start, end))
        choices = range(start if rule == "biased" else start + 1, end)
        split = max(choices, key=lambda position: distances[position])  # max() gives the first of equal ones
        if rule == "biased":
            if end - split > 1:
                spans.add((split, end))
            agenda += [(start, split), (split + 1, end)]
        else:
            agenda += [(start, split), (split, end)]
    return spans
