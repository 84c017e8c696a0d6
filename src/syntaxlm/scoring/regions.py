"""How the measures of several words become one of a region, in the same way as those of tokens become one of a word."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Literal

Combination = Literal["sum", "first", "last"]

# What is known before a region, or around its start, is that of its first word; what holds after it, of its last word.
# Other measures are of what each word adds.
_OF_FIRST = frozenset({"entropy", "rank", "depth", "distance", "expected_depth", "low_attachment"})
_OF_LAST = frozenset({"prefix_surprisal", "expected_open", "derivation_entropy"})


def combination(measure: str) -> Combination:
    """Return how the values of words become one of a region: their sum, that of the first word, or of the last one."""
    if measure in _OF_FIRST:
        return "first"
    return "last" if measure in _OF_LAST else "sum"


def combined(measure: str, values: Iterable[float | None]) -> float:
    """Return the measure of a region. Words without a value do not count; without any, it is NaN."""
    kept = [value for value in values if value is not None and not math.isnan(value)]
    if not kept:
        return math.nan
    how = combination(measure)
    if how == "sum":
        return math.fsum(kept) if all(map(math.isfinite, kept)) else sum(kept)
    return kept[0] if how == "first" else kept[-1]
