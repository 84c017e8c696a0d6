"""Modified Kneser-Ney: agreement with the reference, and distributions."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from syntaxlm.ops import kneser_ney
from syntaxlm.ops.kneser_ney import FALLBACK_DISCOUNTS, KneserNeyReference, discounts_of

BEGIN, END, UNKNOWN, WORDS = 0, 1, 2, 6  # ids 3, 4, 5 are words


def concatenated(sequences):
    """The arguments of the fast form."""
    words = np.array([word for sequence in sequences for word in sequence], np.int64)
    return words, np.concatenate([np.arange(len(sequence)) for sequence in sequences])


class Table:
    """A back-off model from an estimate, with dictionaries."""

    def __init__(self, estimate, vocabulary_size):
        self.order = len(estimate.grams)
        self.probabilities, self.back_offs = {}, {}
        below = [()]
        for grams in estimate.grams:
            names = [(*below[key // vocabulary_size], key % vocabulary_size) for key in grams.keys.tolist()]
            self.probabilities |= dict(zip(names, grams.probabilities.tolist(), strict=True))
            if len(grams.back_offs):
                self.back_offs |= dict(zip(names, grams.back_offs.tolist(), strict=True))
            below = names

    def probability(self, word, context):
        context = context[len(context) - min(len(context), self.order - 1) :]
        if (*context, word) in self.probabilities:
            return self.probabilities[(*context, word)]
        return self.back_offs.get(context, 1.0) * self.probability(word, context[1:])


sentences = st.lists(st.lists(st.integers(3, WORDS - 1), max_size=7), min_size=1, max_size=25)
minimum_counts = st.sampled_from([(1,), (1, 2), (1, 1, 2), (1, 2, 3), (1, 3)])


@given(sentences, st.integers(1, 5), minimum_counts, st.lists(st.integers(0, WORDS - 1), max_size=5))
def test_fast_form_equals_reference_in_every_probability_and_sums_to_one(found, order, least, context):
    sequences = [[BEGIN, *sentence, END] for sentence in found]
    estimate = kneser_ney.estimate(*concatenated(sequences), WORDS, order, least)
    table, reference = Table(estimate, WORDS), KneserNeyReference(sequences, WORDS, order, least)
    for known in (tuple(context), tuple(sequences[0][: order - 1])):
        values = [table.probability(word, known) for word in range(WORDS)]
        assert values == pytest.approx([reference.probability(word, known) for word in range(WORDS)], rel=1e-12)
        assert sum(values) == pytest.approx(1, abs=1e-12)
        assert values[BEGIN] == 0
        assert min(values[END:]) > 0, "every word that can come may come"


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 3), min_size=2, max_size=60), st.integers(1, 4))
def test_a_stream_whose_first_token_ends_sentences_too_predicts_it(stream, order):
    sequences = [[0, *stream, 0]]
    table = Table(kneser_ney.estimate(*concatenated(sequences), 4, order), 4)
    reference = KneserNeyReference(sequences, 4, order)
    for context in product(range(4), repeat=order - 1):
        values = [table.probability(word, context) for word in range(4)]
        assert values == pytest.approx([reference.probability(word, context) for word in range(4)], rel=1e-12)
        assert sum(values) == pytest.approx(1, abs=1e-12)
        assert values[0] > 0


def test_counts_are_those_of_the_paper():
    """For `a b a b` and `b`: distinct previous words below the highest order; occurrences at the start."""
    reference = KneserNeyReference([[BEGIN, 3, 4, 3, 4, END], [BEGIN, 4, END], [BEGIN, 4, END]], WORDS, 3)
    assert reference.counts[1] == {(3,): 2, (4,): 2, (END,): 1}
    assert reference.counts[2] == {(BEGIN, 3): 1, (BEGIN, 4): 2, (3, 4): 2, (4, 3): 1, (4, END): 2}
    assert reference.counts[3][3, 4, 3] == 1
    assert reference.counts[3][BEGIN, 4, END] == 2


def test_discounts_by_hand():
    assert discounts_of([6, 3, 2, 1]) == pytest.approx((0.5, 1.0, 2.0))
    assert discounts_of([6, 3, 2, 0]) == pytest.approx((0.5, 1.0, 3.0))


@pytest.mark.parametrize("counts", [(0, 3, 2, 1), (6, 0, 2, 1), (6, 3, 0, 1), (9, 1, 9, 1), (9, 9, 1, 9)])
def test_insufficient_counts_of_counts_give_no_discounts(counts):
    assert discounts_of(counts) is None


def test_orders_with_fallback_discounts_are_reported():
    sequences = [[BEGIN, 3, 4, END]] * 2
    estimate = kneser_ney.estimate(*concatenated(sequences), WORDS, 2)
    assert estimate.fallbacks == [1, 2]
    assert estimate.discounts.tolist() == [list(FALLBACK_DISCOUNTS)] * 2
    rest = FALLBACK_DISCOUNTS[1] / 2  # of `a b`, seen twice
    assert Table(estimate, WORDS).back_offs[3,] == rest


def test_rare_n_grams_are_removed_and_their_probability_goes_to_shorter_contexts():
    generator = np.random.default_rng(1)
    sequences = [[BEGIN, *generator.integers(3, WORDS, 6), END] for _ in range(12)]
    arrays = concatenated(sequences)
    full, cut = (kneser_ney.estimate(*arrays, WORDS, 4, least) for least in ((1,), (1, 1, 3, 4)))
    assert full.discounts.tolist() == cut.discounts.tolist()
    occurrences = KneserNeyReference(sequences, WORDS, 4).occurrences
    for order, least in enumerate((1, 3, 4), 2):
        expected = sum(count >= least for count in occurrences[order].values())
        assert len(cut.grams[order - 1].keys) == expected <= len(full.grams[order - 1].keys)
    assert (np.diff(cut.grams[2].keys) > 0).all()
    contexts, kept = (set((one.grams[2].keys // WORDS).tolist()) for one in (full, cut))
    gone = sorted(contexts - kept)
    assert gone
    assert (cut.grams[1].back_offs[gone] == 1).all()
    assert (full.grams[1].back_offs[gone] < 1).all()
