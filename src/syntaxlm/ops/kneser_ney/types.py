"""What both forms of modified Kneser-Ney share: the discounts, and what an estimate is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.float64]

# Discounts of counts 1, 2, 3 and more where a text is too small, or too odd, to estimate them: those that KenLM offers.
FALLBACK = (0.5, 1.0, 1.5)


@dataclass(frozen=True)
class Grams:
    """The n-grams of one order, numbered in the order of their keys.

    keys: (N,), rising: the number of the context among the n-grams of the order below, times the vocabulary's size,
        plus the last word. Of order 1, all words.
    probabilities: (N,), of the last word after the others.
    back_offs: (N,), what share of the probability after this n-gram is left to shorter contexts: 1 where nothing was
        seen after it. Of the highest order empty.
    """

    keys: Integers
    probabilities: Numbers
    back_offs: Numbers


@dataclass(frozen=True)
class Estimate:
    """A back-off model of the orders 1, 2, ...

    discounts: (orders, 3), of counts 1, 2, 3 and more.
    fallbacks: the orders whose discounts are `FALLBACK`.
    """

    grams: list[Grams]
    discounts: Numbers
    fallbacks: list[int]


def least_count(minimum_counts: Sequence[int], order: int) -> int:
    """The occurrences that an n-gram of so many words needs to be kept: the last minimum is for all longer ones."""
    return minimum_counts[min(order, len(minimum_counts)) - 1]


def discounts_of(counts_of_counts: Sequence[int]) -> tuple[float, float, float] | None:
    """D1, D2, D3+ by how many n-grams have the counts 1, 2, 3, 4. Chen & Goodman 1998, equation (26).

    None where they are undefined: for a count that no n-gram has, or a discount of 0 or larger than its count.
    """
    ones, twos, threes, fours = counts_of_counts
    if not (ones and twos and threes):
        return None
    share = ones / (ones + 2 * twos)
    first, second, third = 1 - 2 * share * twos / ones, 2 - 3 * share * threes / twos, 3 - 4 * share * fours / threes
    within = 0 < first <= 1 and 0 < second <= 2 and 0 < third <= 3
    return (first, second, third) if within else None
