"""The generation of dependency trees: its steps, the paths of all words at once, and sentences from steps."""

import random
from itertools import product

import numpy as np
import pytest

from syntaxlm.core.errors import InputError
from syntaxlm.trees.dependencies import Edge, in_order, paths_of, tree_of_steps
from syntaxlm.trees.tree import DependencyTree

from .faults import dependency_faults, is_projective, random_heads
from .steps import Step, steps_of


def tree_of(heads, words=None, name=""):
    blank = ("",) * len(heads)
    return DependencyTree(tuple(words or (f"w{i}" for i in range(1, len(heads) + 1))), blank, tuple(heads), blank, name)


def any_heads(words, source):
    """Heads of any tree: each word depends on ROOT or on a word that precedes it in some order."""
    order = source.sample(range(1, words + 1), words)
    heads = {word: source.choice([0, *order[:place]]) for place, word in enumerate(order)}
    return tuple(heads[word] for word in sorted(order))


def every_tree(length):
    """Every tree with this number of words, with one or more roots, projective or not."""
    for heads in product(range(length + 1), repeat=length):
        tree = tree_of(heads)
        if "a cycle" not in dependency_faults(tree):
            yield tree


def test_the_steps_of_a_sentence_are_those_of_breadth_first_generation():
    words = ["the", "old", "cat", "sleeps", "on", "a", "red", "chair", "."]
    steps = steps_of(tree_of((3, 3, 4, 0, 8, 8, 8, 4, 4), words))
    named = [(["ROOT", *words][s.source], str(s.edge), s.parent, s.number, words[s.word - 1]) for s in steps]
    assert named == [
        ("ROOT", "RIGHT", 0, 1, "sleeps"),
        ("sleeps", "LEFT", 1, 2, "cat"),
        ("sleeps", "RIGHT", 1, 3, "chair"),
        ("chair", "NX-RIGHT", 3, 4, "."),
        ("cat", "LEFT", 2, 5, "old"),
        ("old", "NX-LEFT", 5, 6, "the"),
        ("chair", "LEFT", 3, 7, "red"),
        ("red", "NX-LEFT", 7, 8, "a"),
        ("a", "NX-LEFT", 8, 9, "on"),
    ]
    assert [int(edge) for edge in Edge] == [0, 1, 2, 3]


def test_several_roots_are_right_dependents_of_root_from_first_to_last():
    assert steps_of(tree_of((0, 1, 0, 0))) == [
        Step(0, Edge.RIGHT, 0, 1, 1),
        Step(1, Edge.NX_RIGHT, 1, 2, 3),
        Step(3, Edge.NX_RIGHT, 2, 3, 4),
        Step(1, Edge.RIGHT, 1, 4, 2),
    ]


@pytest.mark.parametrize("length", [1, 2, 3, 4, 5])
def test_every_word_is_generated_once_from_one_that_is_there_with_one_child_of_a_type(length):
    for tree in every_tree(length):
        steps = steps_of(tree)
        assert sorted(step.word for step in steps) == list(range(1, length + 1))
        assert [step.number for step in steps] == list(range(1, length + 1))
        there = {0: 0}
        for step in steps:
            assert there[step.parent] == step.source
            there[step.number] = step.word
        assert len({(step.parent, step.edge) for step in steps}) == length


@pytest.mark.parametrize("length", [1, 2, 3, 4, 5])
def test_in_order_traversal_gives_the_sentence_back_exactly_where_no_arcs_cross(length):
    for tree in every_tree(length):
        steps = steps_of(tree)
        order = in_order([step.edge for step in steps], [step.parent for step in steps])
        assert ([steps[number - 1].word for number in order] == list(range(1, length + 1))) == is_projective(tree)


@pytest.mark.parametrize("seed", range(100))
def test_the_steps_of_a_projective_tree_make_it_again(seed):
    source = random.Random(seed)
    heads = random_heads(source.randint(1, 12), source)
    tree = tree_of(heads)
    assert is_projective(tree)
    steps = steps_of(tree)
    words = [tree.words[step.word - 1] for step in steps]
    labels = [f"label of {word}" for word in words]
    made = tree_of_steps(words, [s.edge for s in steps], [s.parent for s in steps], labels)
    assert (made.words, made.heads) == (tree.words, heads)
    assert made.labels == tuple(f"label of {word}" for word in tree.words)


@pytest.mark.parametrize("seed", range(100))
def test_the_steps_of_any_tree_make_one_of_the_same_heads_in_projective_order(seed):
    source = random.Random(seed)
    heads = any_heads(source.randint(1, 12), source)
    tree = tree_of(heads)
    steps = steps_of(tree)
    made = tree_of_steps(
        [tree.words[step.word - 1] for step in steps], [s.edge for s in steps], [s.parent for s in steps]
    )
    assert is_projective(made)
    assert sorted(made.words) == sorted(tree.words)

    def head_of(of, word):
        head = of.heads[of.words.index(word)]
        return of.words[head - 1] if head else None

    assert all(head_of(made, word) == head_of(tree, word) for word in tree.words)


@pytest.mark.parametrize("seed", range(50))
def test_paths_of_a_corpus_are_those_of_its_trees_one_by_one(seed):
    source = random.Random(seed)
    trees = [any_heads(source.randint(1, 8), source) for _ in range(source.randint(1, 4))]
    offsets = np.cumsum([0, *map(len, trees)])
    paths = paths_of(np.array([head for heads in trees for head in heads], np.int32), offsets)
    for begin, heads in zip(offsets.tolist(), trees, strict=False):
        depths = {0: 0}
        for step in steps_of(tree_of(heads)):
            depths[step.number] = depths[step.parent] + 1
            place = begin + step.word - 1
            found = paths.parents[place], paths.edges[place], paths.depths[place]
            assert found == (step.source, step.edge, depths[step.number])


@pytest.mark.parametrize(
    ("heads", "message"),
    [
        ((2, 1, 0), "words 1, 2 have no path to a root: their heads form a cycle"),
        ((0, 2, 2), "words 2, 3 have no path to a root"),
        ((2, 3, 1), "words 1, 2, 3 have no path to a root"),
        ((0, 4, 1), "word 2 has head 4; expected 0 to 3"),
        ((0, -1, 1), "word 2 has no head; expected 0 to 3"),
    ],
)
def test_words_without_a_path_to_a_root_raise_an_error_with_sentence_and_reason(heads, message):
    several, offsets = np.array([0, 1, *heads, 0]), np.array([0, 2, 5, 6])
    with pytest.raises(InputError, match=rf"^some\.conllu, line 4, sentence b: {message}"):
        paths_of(
            several,
            offsets,
            [f"some.conllu, line {line}, sentence {name}" for line, name in zip((1, 4, 8), "abc", strict=True)],
        )
    with pytest.raises(InputError, match=f"^sentence 2: {message}"):
        paths_of(several, offsets)


@pytest.mark.parametrize(
    ("edges", "parents"),
    [
        ((Edge.LEFT,), (0,)),  # nothing is before the sentence
        ((Edge.NX_RIGHT,), (0,)),
        ((Edge.RIGHT, Edge.RIGHT), (0, 0)),  # a second closest one
        ((Edge.RIGHT, Edge.NX_LEFT), (0, 1)),  # on another side
        ((Edge.RIGHT, Edge.RIGHT), (0, 2)),  # of itself
        ((Edge.RIGHT, Edge.RIGHT, Edge.NX_RIGHT, Edge.NX_RIGHT), (0, 1, 2, 2)),
    ],
)
def test_steps_that_form_no_tree_raise_an_error(edges, parents):
    with pytest.raises(ValueError, match=rf"^step {len(edges)} leaves step {parents[-1]} by {edges[-1]}"):
        in_order(edges, parents)


def test_long_chains_and_flat_trees_need_no_recursion():
    length = 5_000
    for heads in (tuple(range(length)), (0, *(1,) * (length - 1)), (*range(2, length + 1), 0)):
        steps = steps_of(tree_of(heads))
        order = in_order([step.edge for step in steps], [step.parent for step in steps])
        assert [steps[number - 1].word for number in order] == list(range(1, length + 1))
        assert paths_of(np.array(heads), np.array([0, length])).depths.max() == length
