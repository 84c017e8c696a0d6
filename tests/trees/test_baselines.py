import random
from collections import Counter
from functools import cache

import numpy as np
import pytest

from syntaxlm.trees import decoding
from syntaxlm.trees.baselines import baseline_scores
from syntaxlm.trees.bounds import (
    balanced,
    biased_upper_bound,
    binary_upper_bound,
    left,
    random_binary_trees,
    random_trees,
    right,
)
from syntaxlm.trees.decoding import DECODING_RULES, decode
from syntaxlm.trees.f1 import PROTOCOLS
from syntaxlm.trees.spans import SpanSets, trees_of
from syntaxlm.trees.tree import Constituent, Tree

from .enumeration import all_biased_trees, all_binary_trees, decode_by_definition, random_tree


def gold_trees(count, longest, seed):
    source = random.Random(seed)
    return SpanSets.of([random_tree(source.randint(1, longest), source) for _ in range(count)])


def inner(spans):
    return {(start, end) for start, end in spans if end - start > 1}


def test_branching_baselines_branch_to_their_side():
    assert left([4, 1, 2]).sentence(0) == {(0, 2), (0, 3), (0, 4)}
    assert right([4, 1, 2]).sentence(0) == {(0, 4), (1, 4), (2, 4)}
    assert balanced([5, 1, 2]).sentence(0) == {(0, 5), (0, 2), (2, 5), (3, 5)}
    for baseline in (left, right, balanced):
        assert baseline([4, 1, 2]).sentence(1) == set()
        assert baseline([4, 1, 2]).sentence(2) == {(0, 2)}
        assert len(baseline([])) == 0


RANDOM = [
    lambda lengths: random_trees(lengths, 0),
    lambda lengths: random_trees(lengths, 0, "biased"),
    lambda lengths: random_binary_trees(lengths, 0),
]


@pytest.mark.parametrize("baseline", [left, right, balanced, *RANDOM])
def test_baselines_are_binary_trees(baseline):
    lengths = np.random.default_rng(0).integers(1, 60, 100)
    spans = baseline(lengths)
    assert np.diff(spans.offsets).tolist() == (lengths - 1).tolist()
    trees_of(spans, [["w"] * length for length in lengths])


def test_random_trees_split_uniformly_and_depend_on_the_seed():
    spans = random_trees(np.full(6000, 4), 1)
    shapes = Counter(frozenset(spans.sentence(i)) for i in range(6000))
    assert set(shapes) == set(all_binary_trees(0, 4))
    # One of three first splits gives the balanced tree; the others leave two words or three to split.
    assert shapes[frozenset({(0, 4), (0, 2), (2, 4)})] == pytest.approx(2000, abs=150)
    assert shapes[frozenset({(0, 4), (1, 4), (2, 4)})] == pytest.approx(1000, abs=120)
    assert np.array_equal(spans.starts, random_trees(np.full(6000, 4), 1).starts)
    assert not np.array_equal(spans.starts, random_trees(np.full(6000, 4), 2).starts)


def test_random_binary_trees_are_all_equally_frequent():
    spans = random_binary_trees(np.full(7000, 5), 1)
    shapes = Counter(frozenset(spans.sentence(i)) for i in range(7000))
    assert set(shapes) == set(all_binary_trees(0, 5))  # 14 trees, 500 of each in expectation
    assert max(abs(count - 500) for count in shapes.values()) < 90
    assert len(random_binary_trees([], 0)) == 0
    assert random_binary_trees([1, 2, 1], 0).sentence(1) == {(0, 2)}


def test_the_biased_rule_leans_random_distances_to_the_right():
    lengths = np.full(300, 20)
    gold = right(lengths)
    scores = baseline_scores(gold, PROTOCOLS["wsj-test"], biased_bound=False)
    assert scores.random_biased.mean > scores.random.mean + 0.05
    rows = scores.random_rows()
    assert rows["random distances, biased"] is scores.random_biased
    assert len({scores["mean"] for scores in scores.to_dict().values() if isinstance(scores, dict)}) == 3


def test_binary_bound_is_the_best_of_all_binary_trees():
    gold = gold_trees(400, 6, 0)
    bound = binary_upper_bound(gold)
    for index, length in enumerate(gold.lengths):
        wanted = inner(gold.sentence(index))
        best = max(len(wanted & tree) for tree in all_binary_trees(0, int(length)))
        assert frozenset(bound.sentence(index)) in all_binary_trees(0, int(length))
        assert len(wanted & bound.sentence(index)) == best == len(wanted)


def test_biased_bound_is_the_best_of_all_trees_the_rule_reaches():
    gold = gold_trees(400, 6, 1)
    bound = biased_upper_bound(gold)
    for index, length in enumerate(gold.lengths):
        wanted = inner(gold.sentence(index))
        best = max(len(wanted & tree) for tree in all_biased_trees(0, int(length)))
        assert frozenset(bound.sentence(index)) in all_biased_trees(0, int(length))
        assert len(wanted & bound.sentence(index)) == best


def most_shared(wanted, length):
    """The most wanted spans that a tree of the biased rule has, by dynamic programming over all spans."""

    @cache
    def free(start, end):  # any tree of the rule
        here = (start, end) in wanted
        splits = (free(start, split) + right_part(split, end) + here for split in range(start + 1, end))
        return max([right_part(start, end), *splits])

    @cache
    def right_part(start, end):  # splits after its first word
        return ((start, end) in wanted) + (free(start + 1, end) if end - start > 1 else 0)

    return free(0, length)


def test_biased_bound_of_longer_sentences_equals_the_chart():
    """Some of these trees have positions where spans end and several start, of which only some can be kept."""
    gold = SpanSets.of([*(random_tree(length, random.Random(length)) for length in range(7, 60)), wide(40, "both")])
    bound = biased_upper_bound(gold)
    shares = []
    for index, length in enumerate(gold.lengths.tolist()):
        wanted = inner(gold.sentence(index))
        shares.append(len(wanted & bound.sentence(index)))
        assert shares[-1] == most_shared(frozenset(wanted), length)
        assert len(bound.sentence(index)) == length - 1
    assert 0 < sum(shares) < sum(len(inner(gold.sentence(index))) for index in range(len(gold)))


def wide(words, shape):
    """A tree whose form is hard for algorithms that compare all spans, or step along them."""
    half = words // 2
    spans = {
        "flat": [(0, words)],
        "right": [(start, words) for start in range(words - 1)],
        "left": [(0, end) for end in range(words, 1, -1)],
        "right, then left": [*((start, words) for start in range(half)), *((half, words - n) for n in range(half - 1))],
        "both": [(0, words)]
        + [
            (8 * place + start, 8 * place + end)
            for place in range(words // 8)
            for start, end in ((0, 8), (0, 4), (0, 3), (0, 2), (4, 8), (4, 7), (4, 6))
        ],
    }[shape]
    return Tree(("w",) * words, ("",) * words, tuple(Constituent("X", *span) for span in spans))


@pytest.mark.parametrize("shape", ["flat", "right", "left", "right, then left", "both"])
def test_trees_of_tens_of_thousands_of_words_are_scored(shape):
    """A table of n x n spans would take gigabytes, and a chart hours."""
    gold = SpanSets.of([wide(12_000, shape), wide(3, "flat")])
    scores = baseline_scores(gold, PROTOCOLS["wsj-test"], seeds=[0])
    assert scores.biased_bound is not None
    assert scores.binary_bound.by_sentence.matched_spans[0] == len(gold.sentence(0)) - 1
    matched = scores.biased_bound.by_sentence.matched_spans[0]
    of_two_groups = most_shared(frozenset(inner(SpanSets.of([wide(64, "both")]).sentence(0))), 64) // 4
    assert matched == {"flat": 0, "both": 750 * of_two_groups + 1}.get(shape, 11_998)


def test_decoding_in_linear_time_equals_the_definition(monkeypatch):
    """Few rounds of jumps leave most positions to the stack."""
    monkeypatch.setattr(decoding, "_ROUNDS", 1)
    source = np.random.default_rng(0)
    lengths = source.integers(1, 30, 200)
    distances = source.integers(0, 6, lengths.sum()).astype(float)
    parts = np.split(distances, np.cumsum(lengths)[:-1])
    for rule in DECODING_RULES:
        spans = decode(distances, lengths, rule)
        assert [spans.sentence(i) for i in range(200)] == [decode_by_definition(part.tolist(), rule) for part in parts]


def test_bounds_bound_every_baseline():
    gold = gold_trees(300, 12, 4)
    scores = baseline_scores(gold, PROTOCOLS["wsj-test"], seeds=range(2))
    assert scores.biased_bound is not None
    assert scores.binary_bound.recall == 1
    assert scores.binary_bound.f1 >= scores.biased_bound.f1 >= max(scores.left.f1, scores.right.f1, scores.random.max)
    assert "right branching" in str(scores)
    assert baseline_scores(gold, PROTOCOLS["wsj10"], biased_bound=False).to_dict()["biased_bound"] is None
