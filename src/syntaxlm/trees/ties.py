"""How a decoder breaks ties between equally good splits of a span.

If the first split were always taken, trees would branch to the right wherever weights are equal. A pseudo-random choice
is unbiased and still reproducible, because it is a hash instead of the state of a generator.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from syntaxlm.trees.spans import Integers, SpanSets

TieBreaking = Literal["first", "random"]
TIE_RULES: tuple[TieBreaking, ...] = get_args(TieBreaking)
Hashes: TypeAlias = npt.NDArray[np.uint64]


def tie_priorities(length: int, widths: Any, starts: Any, splits: Any, seeds: Hashes | None = None) -> Integers:
    """Fixed pseudo-random numbers, 0 or more: with `ties="random"`, the tied split with the largest number is taken.

    They depend only on the sentence's length, the span's width and start, and the split, and on seeds if given.
    All arguments are broadcast.
    """
    parts = [np.asarray(length), widths, starts, *([] if seeds is None else [seeds]), splits]
    return (_mixed(*parts) >> np.uint64(1)).astype(np.int64)


def choose_at_random(
    split: Integers, sums: npt.NDArray[Any], length: int, starts: Integers, seeds: Hashes | None
) -> None:
    """For each span with several best splits, replaces the split by that of highest priority.

    split: (k,), modified in place.  sums: (k, width - 1) score of each split of k spans of one width.
    starts, seeds: (k,), of the spans and of their sentences.
    """
    best = sums == sums.max(1, keepdims=True)
    tied = np.flatnonzero(np.count_nonzero(best, axis=1) > 1)
    width = sums.shape[1] + 1
    own = None if seeds is None else seeds[tied, None]
    priorities = tie_priorities(length, width, starts[tied, None], np.arange(1, width), own)
    split[tied] = np.where(best[tied], priorities, -1).argmax(1)


def seeds_of(spans: SpanSets) -> Hashes:
    """(S,) a hash of each sentence's spans, so that different sentences of one length break ties differently.

    spans: distinct within a sentence; a hash does not depend on their order or on other sentences.
    """
    hashes = _mixed(spans.starts, spans.ends)
    with np.errstate(over="ignore"):
        sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(hashes, dtype=np.uint64)])
        return sums[spans.offsets[1:]] - sums[spans.offsets[:-1]]


def _mixed(*parts: Any) -> Hashes:
    """A hash of integers, broadcast: SplitMix64 (Steele et al. 2014) applied to one after another."""
    mixed = np.zeros((), np.uint64)
    with np.errstate(over="ignore"):
        for part in parts:
            mixed = mixed + np.asarray(part).astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
            mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            mixed ^= mixed >> np.uint64(31)
    return mixed
