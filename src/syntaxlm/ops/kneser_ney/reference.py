"""Modified Kneser-Ney as its equations: dictionaries and recursion, slow, the reference of all tests.

Chen & Goodman 1998, "An Empirical Study of Smoothing Techniques for Language Modeling", equations (24) to (26).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cached_property

from syntaxlm.ops.kneser_ney.types import FALLBACK, discounts_of, least_count

Gram = tuple[int, ...]


class KneserNey:
    """An interpolated model of order n, estimated from sequences whose first tokens are only used as context.

    minimum_counts: least counts of n-grams of order 1, 2, ... that are kept; the last is used for all higher orders.
    """

    def __init__(
        self, sequences: Sequence[Sequence[int]], vocabulary_size: int, order: int, minimum_counts: Sequence[int] = (1,)
    ) -> None:
        self.sequences, self.vocabulary_size, self.order = sequences, vocabulary_size, order
        self.minimum_counts = minimum_counts

    @cached_property
    def occurrences(self) -> list[Counter[Gram]]:
        """c(w_1 ... w_k) for k = 1 ... n, including n-grams at the start of a sequence. Index 0 is empty."""
        found: list[Counter[Gram]] = [Counter() for _ in range(self.order + 1)]
        for sequence in self.sequences:
            for last in range(1, len(sequence)):
                for length in range(1, min(self.order, last + 1) + 1):
                    found[length][tuple(sequence[last + 1 - length : last + 1])] += 1
        return found

    @cached_property
    def counts(self) -> list[Counter[Gram]]:
        """Counts of Kneser-Ney: occurrences in the highest order, below it the number of distinct words before.

        An n-gram at the start of a sequence has no word before it; each such occurrence counts as one.
        """
        found = [*([Counter()] * self.order), self.occurrences[self.order]]
        for length in range(1, self.order):
            found[length] = Counter(gram[1:] for gram in self.occurrences[length + 1])
            if length > 1:
                found[length].update(tuple(one[:length]) for one in self.sequences if len(one) >= length)
        return found

    def discount(self, length: int, count: int) -> float:
        """Return d(c) of equation (25)."""
        of_counts = Counter(self.counts[length].values())
        discounts = discounts_of([of_counts[one] for one in (1, 2, 3, 4)]) or FALLBACK
        return 0.0 if count == 0 else discounts[min(count, 3) - 1]

    def is_kept(self, gram: Gram) -> bool:
        return self.occurrences[len(gram)][gram] >= least_count(self.minimum_counts, len(gram))

    def probability(self, word: int, context: Gram) -> float:
        """Return p(word | context), equation (24). A context that is too long is shortened to its last words."""
        context = context[len(context) - min(len(context), self.order - 1) :]
        length = len(context) + 1
        following = {gram: count for gram, count in self.counts[length].items() if gram[:-1] == context}
        lower = self._uniform(word) if length == 1 else self.probability(word, context[1:])
        total = sum(following.values())
        if not total:
            return lower
        kept = {gram: count - self.discount(length, count) for gram, count in following.items() if self.is_kept(gram)}
        left = total - sum(kept.values())
        return (kept.get((*context, word), 0.0) + left * lower) / total

    def _uniform(self, word: int) -> float:
        """Return order 0: uniform over all words, except those that only start sequences."""
        predicted = {word for sequence in self.sequences for word in sequence[1:]}
        first = {sequence[0] for sequence in self.sequences} - predicted
        return 0.0 if word in first else 1 / (self.vocabulary_size - len(first))
