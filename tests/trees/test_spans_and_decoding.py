import random
import tracemalloc
from itertools import permutations, product

import numpy as np
import pytest

from syntaxlm.core.errors import InputError
from syntaxlm.trees.bounds import left, right
from syntaxlm.trees.decoding import DECODING_RULES, decode
from syntaxlm.trees.spans import SpanSets, format_spans, trees_of
from syntaxlm.trees.tree import Tree, parse_brackets

from .enumeration import all_biased_trees, all_binary_trees, decode_by_definition, random_tree, spans_of_lists


@pytest.mark.parametrize("rule", DECODING_RULES)
@pytest.mark.parametrize("length", range(1, 7))
def test_decoding_follows_the_definition_for_every_order_and_every_tie(rule, length):
    rows = [*permutations(range(length)), *product(range(min(3, length)), repeat=length)]
    spans = decode(np.array(rows, np.float64).ravel(), np.full(len(rows), length), rule)
    assert [spans.sentence(i) for i in range(len(rows))] == [decode_by_definition(row, rule) for row in rows]
    assert np.diff(spans.offsets).tolist() == [length - 1] * len(rows)


@pytest.mark.parametrize("rule", DECODING_RULES)
def test_sentences_of_any_length_are_independent(rule):
    source = np.random.default_rng(0)
    lengths = source.integers(1, 40, 200)
    distances = source.integers(0, 9, lengths.sum()).astype(np.float32)
    distances[source.random(len(distances)) < 0.05] = np.inf
    distances[source.random(len(distances)) < 0.05] = -np.inf
    spans = decode(distances, lengths, rule)
    for index, row in enumerate(np.split(distances, np.cumsum(lengths)[:-1])):
        assert spans.sentence(index) == decode_by_definition(row.tolist(), rule)


@pytest.mark.parametrize(("rule", "trees"), [("biased", all_biased_trees), ("unbiased", all_binary_trees)])
def test_each_rule_reaches_exactly_its_possible_trees(rule, trees):
    for length in range(1, 7):
        rows = list(permutations(range(length)))
        spans = decode(np.array(rows, np.float64).ravel(), np.full(len(rows), length), rule)
        assert {frozenset(spans.sentence(i)) for i in range(len(rows))} == set(trees(0, length))


@pytest.mark.parametrize("rule", DECODING_RULES)
@pytest.mark.parametrize("shape", ["rising", "falling", "valley", "random", "flat"])
def test_long_sentences_decode(rule, shape):
    length = 5000
    ramp = np.arange(length, dtype=np.float64)
    distances = {
        "rising": ramp,
        "falling": -ramp,
        "valley": np.abs(ramp - length / 2),
        "random": np.random.default_rng(0).random(length),
        "flat": 0 * ramp,
    }[shape]
    spans = decode(distances, np.array([length]), rule)
    assert len(spans.sentence(0)) == length - 1
    assert trees_of(spans, [["w"] * length])  # nested
    if shape == "falling":
        assert spans.sentence(0) == right([length]).sentence(0)
    if shape == "rising" and rule == "unbiased":
        assert spans.sentence(0) == left([length]).sentence(0)


def test_a_nan_distance_raises_an_error_with_its_position():
    with pytest.raises(InputError, match="sentence 2, word 3"):
        decode(np.array([1, 2, 3, 4, np.nan]), np.array([2, 3]), "biased")


@pytest.mark.parametrize(("lengths", "rule"), [([2, 2], "biased"), ([3, 0], "biased"), ([3], "greedy")])
def test_inconsistent_arguments_raise_an_error(lengths, rule):
    with pytest.raises(ValueError, match=r"expected|at least one word"):
        decode(np.zeros(3), np.array(lengths), rule)


def test_spans_of_trees_and_of_lists_are_the_same():
    source = random.Random(0)
    trees = [random_tree(source.randint(1, 9), source) for _ in range(50)]
    spans = SpanSets.of(trees)
    again = spans_of_lists([[span[1:] for span in tree.constituents] for tree in trees], [len(t) for t in trees])
    for index, tree in enumerate(trees):
        assert spans.sentence(index) == again.sentence(index) == {span[1:] for span in tree.constituents}
    assert [spans.label_names[code] for code in spans.labels] == [s.label for tree in trees for s in tree.constituents]


def test_selected_sentences_keep_order_and_labels():
    source = random.Random(1)
    trees = [random_tree(source.randint(1, 9), source) for _ in range(30)]
    indices = [7, 3, 3, 29, 0]
    selected = SpanSets.of(trees).select(indices)
    blank = [Tree(trees[i].words, ("",) * len(trees[i]), trees[i].constituents) for i in indices]
    assert trees_of(selected, [tree.words for tree in blank]) == blank
    assert len(SpanSets.of(trees).select(np.zeros(30, bool))) == 0


def test_no_sentences_are_accepted():
    empty = SpanSets.of([])
    assert len(empty) == 0
    assert trees_of(empty, []) == []
    assert len(decode(np.zeros(0), np.zeros(0, np.int64), "biased")) == 0


def test_crossing_spans_and_wrong_words_raise_an_error():
    with pytest.raises(InputError, match=r"sentence 2: found spans \(0, 2\) and \(1, 3\), which cross"):
        trees_of(spans_of_lists([[], [(0, 2), (1, 3)]], [1, 3]), [["a"], ["a", "b", "c"]])
    with pytest.raises(InputError, match="sentence 1: found 2 words; expected 3"):
        trees_of(right([3]), [["a", "b"]])


def test_spans_in_any_order_make_a_tree():
    spans = spans_of_lists([[(2, 4), (0, 2), (0, 4)]], [4])
    assert trees_of(spans, [list("abcd")]) == parse_brackets("(X (X a b) (X c d))")


@pytest.mark.parametrize("branching", [left, right])
def test_the_deepest_tree_of_a_long_sentence_is_written_in_memory_of_its_size(branching):
    words = [str(place) for place in range(30_000)]
    tracemalloc.start()
    try:
        (line,) = format_spans(branching([len(words)]), [words])
        assert tracemalloc.get_traced_memory()[1] < 50e6  # one string per depth would take 450 MB
    finally:
        tracemalloc.stop()
    assert line.count("(X ") == line.count(")") == len(words) - 1
