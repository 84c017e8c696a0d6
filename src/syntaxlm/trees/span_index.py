"""Spans of many sentences as sorted numbers: what makes sets of spans fast to count and compare."""

from __future__ import annotations

import numpy as np

from syntaxlm.trees.spans import Flags, Integers, SpanSets, offsets_of


def key_bases(lengths: Integers) -> Integers:
    """(S + 1,) where each sentence's keys begin: it has (n + 1)^2 of them, one for each start and end."""
    return offsets_of((lengths + 1) ** 2)


def span_keys(spans: SpanSets, keep_whole: bool) -> tuple[Integers, Integers]:
    """Sorted keys of the distinct spans of two words or more, and (S,) how many each sentence has.

    keep_whole: with those of whole sentences.
    """
    sentences = spans.sentences()
    lengths = spans.lengths[sentences]
    starts, ends = spans.starts.astype(np.int64), spans.ends.astype(np.int64)
    widths = ends - starts
    kept = widths > 1
    if not keep_whole:
        kept &= widths < lengths
    keys: Integers = (key_bases(spans.lengths)[:-1][sentences] + starts * (lengths + 1) + ends)[kept]
    keys.sort()
    if len(keys):
        keys = keys[np.concatenate([[True], keys[1:] != keys[:-1]])]
    return keys, counts_of(keys, spans.lengths)


def spans_of_keys(keys: Integers, lengths: Integers) -> SpanSets:
    """The spans whose sorted keys these are."""
    bases = key_bases(lengths)
    sentences = np.searchsorted(bases, keys, side="right") - 1
    starts, ends = np.divmod(keys - bases[sentences], lengths[sentences] + 1)
    return SpanSets(lengths, offsets_of(counts_of(keys, lengths)), starts.astype(np.int32), ends.astype(np.int32))


def counts_of(keys: Integers, lengths: Integers) -> Integers:
    """(S,) how many of the sorted keys each sentence has."""
    return np.diff(np.searchsorted(keys, key_bases(lengths)))


def common(first: Integers, second: Integers, lengths: Integers) -> Integers:
    """(S,) how many keys two sorted arrays of distinct keys share in each sentence."""
    both = np.concatenate([first, second])
    both.sort(kind="stable")  # merges two sorted runs
    return counts_of(both[1:][both[1:] == both[:-1]], lengths)


def contained(keys: Integers, among: Integers) -> Flags:
    """Which keys are among others, sorted."""
    if not len(among):
        return np.zeros(len(keys), np.bool_)
    places = np.minimum(np.searchsorted(among, keys), len(among) - 1)
    return among[places] == keys
