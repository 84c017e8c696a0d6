"""Types shared by both versions of modified Kneser-Ney: discounts, and the result of an estimation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.float64]

# Discounts of counts 1, 2, and 3 or more for texts too small or irregular to estimate them, as in KenLM.
FALLBACK = (0.5, 1.0, 1.5)


@dataclass(frozen=True)
class Grams:
    """The n-grams of one order, numbered by their sorted keys.

    keys: (N,), increasing: the context's index among the n-grams of the next lower order, times the vocabulary size,
        plus the last word. In order 1, all words.
    probabilities: (N,), of the last word given the others.
    back_offs: (N,), the back-off weight: the probability mass after this n-gram that is left to shorter contexts, 1 if
        nothing was observed after it. Empty in the highest order.
    """

    keys: Integers
    probabilities: Numbers
    back_offs: Numbers


@dataclass(frozen=True)
class Estimate:
    """A back-off model of orders 1, 2, ...

    discounts: (orders, 3), of counts 1, 2, and 3 or more.
    fallbacks: the orders for which `FALLBACK` was used.
    """

    grams: list[Grams]
    discounts: Numbers
    fallbacks: list[int]


def least_count(minimum_counts: Sequence[int], order: int) -> int:
    """Return the least count of n-grams of this order that are kept; the last minimum is used for all higher orders."""
    return minimum_counts[min(order, len(minimum_counts)) - 1]


def discounts_of(counts_of_counts: Sequence[int]) -> tuple[float, float, float] | None:
    """Return d1, D2, D3+ from the numbers of n-grams with counts 1, 2, 3, 4. Chen & Goodman 1998, equation (26).

    None if undefined: if no n-gram has one of the counts, or a discount is 0 or less, or larger than its count.
    """
    ones, twos, threes, fours = counts_of_counts
    if not (ones and twos and threes):
        return None
    share = ones / (ones + 2 * twos)
    first, second, third = 1 - 2 * share * twos / ones, 2 - 3 * share * threes / twos, 3 - 4 * share * fours / threes
    within = 0 < first <= 1 and 0 < second <= 2 and 0 < third <= 3
    return (first, second, third) if within else None
