"""How the measures of several words become one of a region, in the same way as those of tokens become one of a word."""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import compress
from typing import Literal

Combination = Literal["sum", "first", "last"]

# What is known before a region, or around its start, is that of its first word; what holds after it, of its last word.
# Other measures are of what each word adds.
_OF_FIRST = frozenset({"entropy", "rank", "depth", "distance", "expected_depth", "low_attachment"})
_OF_LAST = frozenset({"prefix_surprisal", "expected_open", "derivation_entropy"})
# Missing for the first or last word of a sentence, because they compare the word with one beside it. A region with such
# a word has none either: the value of its other words would be that of a smaller region.
_OF_NEIGHBOURS = frozenset({"distance", "entropy_reduction", "derivation_entropy_reduction"})


def combination(measure: str) -> Combination:
    """Return how the values of words become one of a region: their sum, that of the first word, or of the last one."""
    if measure in _OF_FIRST:
        return "first"
    return "last" if measure in _OF_LAST else "sum"


def combined(measure: str, values: Iterable[float], is_read: Iterable[bool]) -> float:
    """Return the measure of a region, NaN if it has none.

    Args:
        values: of its words; NaN for a word without a value.
        is_read: whether each word is read for this measure, see `WordScores.read_for`. Other words do not count.
    """
    values = list(values)
    how = combination(measure)
    if measure in _OF_NEIGHBOURS:
        of_read_words = list(compress(values, is_read))
        if any(map(math.isnan, of_read_words[:1] if how == "first" else of_read_words)):
            return math.nan
    kept = [value for value in values if not math.isnan(value)]
    if not kept:
        return math.nan
    if how == "sum":
        return math.fsum(kept) if all(map(math.isfinite, kept)) else sum(kept)
    return kept[0] if how == "first" else kept[-1]
