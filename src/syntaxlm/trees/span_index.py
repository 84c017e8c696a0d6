"""Spans of many sentences as sorted integer keys, which makes sets of spans fast to count and compare."""

from __future__ import annotations

import numpy as np

from syntaxlm.trees.spans import Flags, Integers, SpanSets, offsets_of


def key_bases(lengths: Integers) -> Integers:
    """(S + 1,) the first key of each sentence, which has (n + 1)^2 keys, one per start and end."""
    return offsets_of((lengths + 1) ** 2)


def span_keys(spans: SpanSets, keep_whole: bool) -> tuple[Integers, Integers]:
    """Sorted keys of the distinct spans of two or more words, and their number in each sentence, (S,).

    keep_whole: whether spans of whole sentences are included.
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
    """The spans of sorted keys."""
    bases = key_bases(lengths)
    sentences = np.searchsorted(bases, keys, side="right") - 1
    starts, ends = np.divmod(keys - bases[sentences], lengths[sentences] + 1)
    return SpanSets(lengths, offsets_of(counts_of(keys, lengths)), starts.astype(np.int32), ends.astype(np.int32))


def counts_of(keys: Integers, lengths: Integers) -> Integers:
    """(S,) the number of sorted keys in each sentence."""
    return np.diff(np.searchsorted(keys, key_bases(lengths)))


def common(first: Integers, second: Integers, lengths: Integers) -> Integers:
    """(S,) the number of keys that two sorted arrays of distinct keys share in each sentence."""
    both = np.concatenate([first, second])
    both.sort(kind="stable")  # merges two sorted runs
    return counts_of(both[1:][both[1:] == both[:-1]], lengths)


def contained(keys: Integers, among: Integers) -> Flags:
    """Which keys are in `among`, which is sorted."""
    if not len(among):
        return np.zeros(len(keys), np.bool_)
    places = np.minimum(np.searchsorted(among, keys), len(among) - 1)
    return among[places] == keys
