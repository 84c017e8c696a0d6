"""Modified Kneser-Ney over a whole text at once.

An n-gram is encoded as one integer, from the index of its context (an n-gram of the next lower order) and its last
word, so counting the n-grams of an order is sorting one array, whatever the order. The indices of the n-grams that end
at each position of the text lead from order to order: the index at the previous position is the context of the next
order, that at the same position its shorter form. There is no loop over words.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from syntaxlm.ops.kneser_ney.types import FALLBACK, Estimate, Grams, Integers, Numbers, discounts_of, least_count


@dataclass(frozen=True)
class _Counted:
    """The n-grams of one order, by index.

    occurrences: (N,), count of each in the text; beginnings: (N,), how many of these are at the start of a sequence.
    shorter: (N,), index in the next lower order of the n-gram without its first word; in order 1 the word itself, as
        order 0 has a probability for each word.
    """

    keys: Integers
    occurrences: Integers
    beginnings: Integers
    shorter: Integers


def estimate(
    words: Integers, places: Integers, vocabulary_size: int, order: int, minimum_counts: Sequence[int] = (1,)
) -> Estimate:
    """Return interpolated modified Kneser-Ney as a back-off model. Chen & Goodman 1998, equations (24) to (26).

    words: (T,), all sequences, concatenated.  places: (T,), position of each word in its sequence, from 0. A word at
        position 0 is only a context and is not predicted. Words that only occur there have probability 0.
    minimum_counts: least counts of n-grams of order 1, 2, ... that are kept; the last is used for all higher orders.
        They start with 1 and do not decrease. The probability of n-grams that are not kept goes to shorter contexts.
    """
    counted = _counted(words, places, vocabulary_size, order)
    probabilities = [_uniform(words, places, vocabulary_size)]  # of order 0, 1, ...
    back_offs, discounts, fallbacks = [], [], []
    for length, one in enumerate(counted, 1):
        counts = _counts(one, counted[length] if length < order else None)
        found = discounts_of(np.bincount(np.minimum(counts, 5), minlength=6)[1:5].tolist())
        discounts.append(found or FALLBACK)
        if found is None:
            fallbacks.append(length)
        is_kept = one.occurrences >= least_count(minimum_counts, length)
        shares = np.where(is_kept, counts - np.array([0.0, *discounts[-1]])[np.minimum(counts, 3)], 0.0)
        contexts = one.keys // vocabulary_size  # in order 1 the empty context, 0
        size = len(counted[length - 2].keys) if length > 1 else 1
        totals = np.bincount(contexts, counts, size)
        left = np.divide(np.bincount(contexts, counts - shares, size), totals, out=np.ones(size), where=totals > 0)
        back_offs.append(left)
        probabilities.append(shares / totals[contexts] + left[contexts] * probabilities[-1][one.shorter])
    parts = zip(counted, probabilities[1:], [*back_offs[1:], np.zeros(0)], strict=True)
    grams = [Grams(one.keys, *values) for one, *values in parts]
    if max(minimum_counts) > 1:
        grams = _kept(grams, [one.occurrences for one in counted], vocabulary_size, minimum_counts)
    return Estimate(grams, np.array(discounts), fallbacks)


def _counted(words: Integers, places: Integers, vocabulary_size: int, order: int) -> list[_Counted]:
    """Return the n-grams of every order."""
    predicted = words[places > 0]
    occurrences = np.bincount(predicted, minlength=vocabulary_size)
    words_alone = np.arange(vocabulary_size)
    counted = [_Counted(words_alone, occurrences, np.zeros_like(occurrences), words_alone)]
    numbers = words  # index of the n-gram that ends at each position; undefined where the sequence is too short
    for length in range(2, order + 1):
        ends = np.flatnonzero(places >= length - 1)
        keys = numbers[ends - 1] * vocabulary_size + words[ends]
        unique, first, inverse, occurrences = np.unique(
            keys, return_index=True, return_inverse=True, return_counts=True
        )
        begins = places[ends] == length - 1
        beginnings = np.bincount(inverse[begins], minlength=len(unique))
        counted.append(_Counted(unique, occurrences, beginnings, numbers[ends[first]]))
        numbers = np.zeros_like(words)
        numbers[ends] = inverse
    return counted


def _counts(one: _Counted, longer: _Counted | None) -> Integers:
    """Count of Kneser-Ney, (N,): the number of distinct words before an n-gram; in the highest order, occurrences.

    An n-gram at the start of a sequence has no word before it; each such occurrence counts as one.
    """
    if longer is None:
        return one.occurrences
    return np.bincount(longer.shorter, minlength=len(one.keys)) + one.beginnings


def _uniform(words: Integers, places: Integers, vocabulary_size: int) -> Numbers:
    """Return order 0, (V,): uniform over all words, except those that only start sequences."""
    possible = np.ones(vocabulary_size, bool)
    possible[words[places == 0]] = False
    possible[words[places > 0]] = True
    return possible / possible.sum()


def _kept(
    grams: list[Grams], occurrences: list[Integers], vocabulary_size: int, minimum_counts: Sequence[int]
) -> list[Grams]:
    """Remove n-grams that are too rare and renumbers the others. An n-gram is never more frequent than its parts."""
    result = [grams[0]]
    numbers = np.arange(vocabulary_size)  # new indices of the next lower order, by old index
    for length, one in enumerate(grams[1:], 2):
        places = np.flatnonzero(occurrences[length - 1] >= least_count(minimum_counts, length))
        contexts, words = np.divmod(one.keys[places], vocabulary_size)
        back_offs = one.back_offs[places] if len(one.back_offs) else one.back_offs
        result.append(Grams(numbers[contexts] * vocabulary_size + words, one.probabilities[places], back_offs))
        numbers = np.zeros_like(one.keys)
        numbers[places] = np.arange(len(places))
    return result
