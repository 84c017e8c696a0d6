"""Epochs of independent sentences and of trees: order, processes, resuming."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial

import numpy as np
import pytest

from syntaxlm.batches import SentenceBatches, StreamBatches, TreeBatches
from syntaxlm.core.errors import InputError
from syntaxlm.trees.spans import top_down
from tests.batches import corpora, forests
from tests.batches.corpora import VOCABULARY, plain


@cache
def many_sentences():
    return corpora.corpus_of(np.random.default_rng(0).integers(1, 30, 300))


@cache
def many_trees():
    return forests.corpus_of(forests.many_trees())


def sentences(shuffle, seed, **options):
    return SentenceBatches(many_sentences(), VOCABULARY, 128, shuffle, seed, **options)


def trees(shuffle, seed, **options):
    return TreeBatches(many_trees(), 128, shuffle, seed, **options)


KINDS: dict[str, Callable] = {
    "sentences": sentences,
    "mixed sentences": partial(sentences, mixed=True),
    "sentences with a curriculum": partial(sentences, curriculum=(10, 20, 10, 20, 10, 20, 10, 20)),
    "trees": trees,
    "mixed trees": partial(trees, mixed=True),
}
every_kind = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)


@every_kind
def test_an_interrupted_epoch_resumes_with_the_same_batches_and_no_state(kind):
    expected = list(kind(True, 11).iterate(4))
    again = kind(True, 11)
    assert not again.carries_state
    assert again.count(4) == len(expected)
    list(again.iterate(0))
    assert plain(list(again.iterate(4, start=4))) == plain(expected[4:])
    assert len(expected) > 5


@every_kind
def test_epochs_and_seeds_differ_in_order_and_composition_of_batches(kind):
    def batches(seed, epoch):
        return {frozenset(batch.tolist()) for batch in kind(True, seed).epoch(epoch)}

    first = batches(0, 0)
    assert batches(0, 0) == first
    for other in (batches(0, 1), batches(1, 0)):
        assert len(first & other) < len(first) / 4


@pytest.mark.parametrize(("kind", "size"), [("sentences", "lengths"), ("trees", "depths")])
def test_evaluation_comes_in_the_same_order_from_the_longest_or_deepest_on(kind, size):
    batches = KINDS[kind](False, 0)
    first = [batch.tolist() for batch in batches.epoch(0)]
    assert first == [batch.tolist() for batch in batches.epoch(1)]
    assert (np.diff(getattr(batches.corpus, size)[np.concatenate(first)]) <= 0).all()


@every_kind
@pytest.mark.parametrize("shuffle", [True, False])
@pytest.mark.parametrize("ranks", [1, 2, 3, 7])
def test_processes_share_the_batches(kind, ranks, shuffle):
    whole = kind(shuffle, 3).epoch(7)
    shares = [kind(shuffle, 3, rank=rank, ranks=ranks).epoch(7) for rank in range(ranks)]
    if shuffle:
        assert {len(share) for share in shares} == {len(whole) // ranks}
    else:
        assert sum(map(len, shares)) == len(whole)
    found = [tuple(batch) for share in shares for batch in share]
    assert set(found) <= {tuple(batch) for batch in whole}
    assert len(set(found)) == len(found)


LENGTHS = [3, 9, 4, 10]
FEW = {
    "sentences": (
        partial(SentenceBatches, corpora.corpus_of(LENGTHS), VOCABULARY),
        "found only sentences of more than 2 words",
    ),
    "trees": (
        partial(TreeBatches, forests.corpus_of([forests.tree_of(range(n), place) for place, n in enumerate(LENGTHS)])),
        "found only trees of more than 2 words",
    ),
}


@pytest.mark.parametrize("unit", FEW)
def test_too_long_ones_are_excluded_and_counted_and_each_process_needs_a_batch(unit):
    kind, fault = FEW[unit]
    batches = kind(100, True, 0, maximum_words=4)
    assert batches.skipped == 2
    assert sorted(np.concatenate(batches.epoch(0)).tolist()) == [0, 2]
    with pytest.raises(InputError, match=rf"{fault} \(4 {unit}\)"):
        kind(100, True, 0, maximum_words=2)
    with pytest.raises(InputError, match=f"found too few {unit} for 5 processes; expected at least one batch for each"):
        kind(100, True, 0, ranks=5).epoch(0)


@pytest.mark.parametrize("kind", [FEW[unit][0] for unit in FEW], ids=FEW)
def test_invalid_sizes_raise_an_error_with_their_names(kind):
    for arguments, message in (
        ({"token_budget": 0}, "^token_budget: found 0; expected 1 or more$"),
        ({"maximum_words": 0, "seed": -1}, r"^maximum_words: found 0; expected 1 or more\nseed: found -1; expected 0"),
        ({"rank": 2, "ranks": 2}, "^rank: found 2; expected 0 to 1$"),
    ):
        with pytest.raises(InputError, match=message):
            kind(**{"token_budget": 10, "shuffle": True, "seed": 0} | arguments)


def test_spans_of_other_sentences_raise_an_error():
    corpus, spans = corpora.corpus_of([3, 2]), top_down(np.array([3, 3]), lambda _, starts, ends: starts + 1)
    for build in (
        lambda: SentenceBatches(corpus, VOCABULARY, 100, True, 0, spans=spans),
        lambda: StreamBatches(corpus, VOCABULARY, 2, 2, spans=spans),
    ):
        with pytest.raises(ValueError, match="the spans do not fit the sentences of the corpus"):
            build()
