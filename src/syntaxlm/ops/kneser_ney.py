"""Modified Kneser-Ney: from a text to the n-grams of a back-off model.

Chen & Goodman 1998, "An Empirical Study of Smoothing Techniques for Language Modeling", equations (24) to (26).
`KneserNeyReference` is the equations, with dictionaries and recursion. `estimate` takes a whole text at once: an n-gram
is encoded as one integer, from the index of its context (an n-gram of the next lower order) and its last word, so
counting the n-grams of an order is sorting one array, whatever the order. The indices of the n-grams that end at each
position of the text lead from order to order: the index at the previous position is the context of the next order, that
at the same position its shorter form. There is no loop over words.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from syntaxlm.core.arrays import Integers, Numbers

Gram = tuple[int, ...]

# Discounts of counts 1, 2, and 3 or more for texts too small or irregular to estimate them, as in KenLM.
FALLBACK_DISCOUNTS = (0.5, 1.0, 1.5)


@dataclass(frozen=True)
class Grams:
    """The n-grams of one order, numbered by their sorted keys.

    Attributes:
        keys: (N,), increasing: the context's index among the n-grams of the next lower order, times the vocabulary
            size, plus the last word. In order 1, all words.
        probabilities: (N,), of the last word given the others.
        back_offs: (N,), the back-off weight: the probability mass after this n-gram that is left to shorter contexts, 1
            if nothing was observed after it. Empty in the highest order.
    """

    keys: Integers
    probabilities: Numbers
    back_offs: Numbers


@dataclass(frozen=True)
class Estimate:
    """A back-off model of orders 1, 2, ...

    Attributes:
        discounts: (orders, 3), of counts 1, 2, and 3 or more.
        fallbacks: the orders for which `FALLBACK_DISCOUNTS` was used.
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
    first = 1 - 2 * share * twos / ones
    second = 2 - 3 * share * threes / twos
    third = 3 - 4 * share * fours / threes
    within = 0 < first <= 1 and 0 < second <= 2 and 0 < third <= 3
    return (first, second, third) if within else None


class KneserNeyReference:
    """An interpolated model of order n, estimated from sequences whose first tokens are only used as context.

    Args:
        minimum_counts: least counts of n-grams of order 1, 2, ... that are kept; the last is used for all higher
            orders.
    """

    def __init__(
        self, sequences: Sequence[Sequence[int]], vocabulary_size: int, order: int, minimum_counts: Sequence[int] = (1,)
    ) -> None:
        self.sequences = sequences
        self.vocabulary_size = vocabulary_size
        self.order = order
        self.minimum_counts = minimum_counts

    @cached_property
    def occurrences(self) -> list[Counter[Gram]]:
        """c(w_1 ... w_k) for k = 1 ... n, including n-grams at the start of a sequence. Index 0 is empty."""
        counters: list[Counter[Gram]] = [Counter() for _ in range(self.order + 1)]
        for sequence in self.sequences:
            for last in range(1, len(sequence)):
                for length in range(1, min(self.order, last + 1) + 1):
                    counters[length][tuple(sequence[last + 1 - length : last + 1])] += 1
        return counters

    @cached_property
    def counts(self) -> list[Counter[Gram]]:
        """Counts of Kneser-Ney: occurrences in the highest order, below it the number of distinct words before.

        An n-gram at the start of a sequence has no word before it; each such occurrence counts as one.
        """
        counters = [*([Counter()] * self.order), self.occurrences[self.order]]
        for length in range(1, self.order):
            counters[length] = Counter(gram[1:] for gram in self.occurrences[length + 1])
            if length > 1:
                counters[length].update(tuple(part[:length]) for part in self.sequences if len(part) >= length)
        return counters

    def probability(self, word: int, context: Gram) -> float:
        """Return p(word | context), equation (24). A context that is too long is shortened to its last words."""
        context = context[len(context) - min(len(context), self.order - 1) :]
        length = len(context) + 1
        following = {gram: count for gram, count in self.counts[length].items() if gram[:-1] == context}
        if length == 1:  # order 0: uniform over all words, except those that only start sequences
            predicted = {word for sequence in self.sequences for word in sequence[1:]}
            first = {sequence[0] for sequence in self.sequences} - predicted
            lower = 0.0 if word in first else 1 / (self.vocabulary_size - len(first))
        else:
            lower = self.probability(word, context[1:])
        total = sum(following.values())
        if not total:
            return lower
        counts_of_counts = Counter(self.counts[length].values())
        least = least_count(self.minimum_counts, length)
        discounts = (
            discounts_of([counts_of_counts[number] for number in (1, 2, 3, 4)]) or FALLBACK_DISCOUNTS
        )  # d(c), equation (25)
        kept = {
            gram: count - discounts[min(count, 3) - 1]
            for gram, count in following.items()
            if self.occurrences[length][gram] >= least
        }
        left = total - sum(kept.values())
        return (kept.get((*context, word), 0.0) + left * lower) / total


@dataclass(frozen=True)
class _Counted:
    """The n-grams of one order, by index.

    Attributes:
        occurrences: (N,), count of each in the text.
        beginnings: (N,), how many of these are at the start of a sequence.
        shorter: (N,), index in the next lower order of the n-gram without its first word; in order 1 the word itself,
            as order 0 has a probability for each word.
    """

    keys: Integers
    occurrences: Integers
    beginnings: Integers
    shorter: Integers


def estimate(
    words: Integers, places: Integers, vocabulary_size: int, order: int, minimum_counts: Sequence[int] = (1,)
) -> Estimate:
    """Return interpolated modified Kneser-Ney as a back-off model. Chen & Goodman 1998, equations (24) to (26).

    Args:
        words: (T,), all sequences, concatenated.
        places: (T,), position of each word in its sequence, from 0. A word at position 0 is only a context and is not
            predicted. Words that only occur there have probability 0.
        minimum_counts: least counts of n-grams of order 1, 2, ... that are kept; the last is used for all higher
            orders. They start with 1 and do not decrease. The probability of n-grams that are not kept goes to shorter
            contexts.
    """
    counted = _counted(words, places, vocabulary_size, order)

    # Order 0: uniform over all words, except those that only start sequences.
    possible = np.ones(vocabulary_size, bool)
    possible[words[places == 0]] = False
    possible[words[places > 0]] = True
    probabilities = [possible / possible.sum()]  # of orders 0, 1, ...
    back_offs = []
    discounts = []
    fallbacks = []
    # p(w | context) = (c(context w) - d(c)) / c(context) + back_off(context) p(w | shorter context)
    for length, grams_of_order in enumerate(counted, 1):
        # Counts of Kneser-Ney: occurrences in the highest order, below it the number of distinct words before. An
        # n-gram at the start of a sequence has no word before it; each such occurrence counts as one.
        counts = grams_of_order.occurrences
        if length < order:
            counts = np.bincount(counted[length].shorter, minlength=len(counts)) + grams_of_order.beginnings

        # The discounts of counts 1, 2, and 3 or more.
        estimated = discounts_of(np.bincount(np.minimum(counts, 5), minlength=6)[1:5].tolist())
        discounts.append(estimated or FALLBACK_DISCOUNTS)
        if estimated is None:
            fallbacks.append(length)

        # What the discounts, and n-grams that are too rare, leave to shorter contexts.
        is_kept = grams_of_order.occurrences >= least_count(minimum_counts, length)
        shares = np.where(is_kept, counts - np.array([0.0, *discounts[-1]])[np.minimum(counts, 3)], 0.0)
        contexts = grams_of_order.keys // vocabulary_size  # in order 1 the empty context, 0
        size = len(counted[length - 2].keys) if length > 1 else 1
        totals = np.bincount(contexts, counts, size)
        left = np.divide(np.bincount(contexts, counts - shares, size), totals, out=np.ones(size), where=totals > 0)
        back_offs.append(left)
        probabilities.append(shares / totals[contexts] + left[contexts] * probabilities[-1][grams_of_order.shorter])

    parts = zip(counted, probabilities[1:], [*back_offs[1:], np.zeros(0)], strict=True)
    grams = [Grams(part.keys, *values) for part, *values in parts]
    if max(minimum_counts) > 1:
        grams = _kept(grams, [part.occurrences for part in counted], vocabulary_size, minimum_counts)
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


def _kept(
    grams: list[Grams], occurrences: list[Integers], vocabulary_size: int, minimum_counts: Sequence[int]
) -> list[Grams]:
    """Remove n-grams that are too rare and renumber the others. An n-gram is never more frequent than its parts."""
    result = [grams[0]]
    numbers = np.arange(vocabulary_size)  # new indices of the next lower order, by old index
    for length, part in enumerate(grams[1:], 2):
        places = np.flatnonzero(occurrences[length - 1] >= least_count(minimum_counts, length))
        contexts, words = np.divmod(part.keys[places], vocabulary_size)
        back_offs = part.back_offs[places] if len(part.back_offs) else part.back_offs
        result.append(Grams(numbers[contexts] * vocabulary_size + words, part.probabilities[places], back_offs))
        numbers = np.zeros_like(part.keys)
        numbers[places] = np.arange(len(places))
    return result
