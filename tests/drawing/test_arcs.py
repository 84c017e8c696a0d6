"""The layout of dependency trees."""

from __future__ import annotations

import random
from itertools import combinations, pairwise

import pytest

from syntaxlm.core.errors import InputError
from syntaxlm.drawing.dependencies import Arc, lay_out_arcs
from syntaxlm.drawing.svg import TEXT_SIZES, text_width
from syntaxlm.trees.conllu import is_projective
from syntaxlm.trees.tree import DependencyTree

WORDS = ("a", "of", "house", "grandfather", "的", "Ⅷ", "antidisestablishmentarianism")
LABELS = ("det", "nsubj:pass", "", "a.long.label.of.an.arc", "x")


def random_tree(seed: int, projective: bool = True, most: int = 16) -> DependencyTree:
    """A random tree with one root; or random heads, with crossing arcs, several roots, or cycles."""
    source = random.Random(seed)
    size = source.randint(1, most)
    heads = [0] * size

    def grow(start: int, end: int, head: int) -> None:
        if start < end:
            root = source.randrange(start, end)
            heads[root] = head
            cuts = sorted({start, root, *source.choices(range(start, root + 1), k=2)})
            cuts_right = sorted({root + 1, end, *source.choices(range(root + 1, end + 1), k=2)})
            for first, last in [*pairwise(cuts), *pairwise(cuts_right)]:
                grow(first, last, root + 1)

    if projective:
        grow(0, size, 0)
    else:
        heads = [source.choice([head for head in range(size + 1) if head != word]) for word in range(1, size + 1)]
    words, tags, labels = (source.choices(kind, k=size) for kind in (WORDS, ("", "NN", "VBD-X"), LABELS))
    return DependencyTree(tuple(words), tuple(tags), tuple(heads), tuple(labels))


TREES = [random_tree(seed) for seed in range(40)]
every_tree = pytest.mark.parametrize("tree", TREES, ids=range(len(TREES)))
every_odd_tree = pytest.mark.parametrize(
    "tree", [*TREES[:10], *(random_tree(seed, projective=False) for seed in range(40))], ids=range(50)
)


def label_box(arc: Arc) -> tuple[float, float, float]:
    """Left, right, baseline."""
    half = text_width(arc.label, TEXT_SIZES["relation"]) / 2
    return arc.label_x - half, arc.label_x + half, arc.label_y


def meets(one: Arc, other: Arc, foot: float) -> bool:
    """Whether a leg of one crosses the horizontal line of the other."""
    low, high = sorted((other.start, other.end))
    return any(low < x < high and one.top < other.top < foot for x in {one.start, one.end})


@every_tree
def test_arcs_of_projective_trees_never_cross(tree):
    assert is_projective(tree)
    layout = lay_out_arcs(tree)
    assert not any(arc.crossing for arc in layout.arcs)
    for one, other in combinations(layout.arcs, 2):
        assert not meets(one, other, layout.foot)
        assert not meets(other, one, layout.foot)


@every_odd_tree
def test_no_two_legs_or_horizontal_lines_coincide(tree):
    layout = lay_out_arcs(tree)
    legs = sorted(x for arc in layout.arcs for x in {arc.start, arc.end})
    assert all(after - before > 2 for before, after in pairwise(legs))
    for one, other in combinations([arc for arc in layout.arcs if arc.head], 2):
        if one.top == other.top:
            assert max(min(one.start, one.end), min(other.start, other.end)) > min(
                max(one.start, one.end), max(other.start, other.end)
            )


@every_odd_tree
def test_labels_fit_over_their_arcs_and_never_overlap(tree):
    layout = lay_out_arcs(tree)
    for arc in layout.arcs:
        left, right, line = label_box(arc)
        assert line < arc.top
        assert left >= 0
        assert right <= layout.width
        if arc.head and not any(one.crossing for one in layout.arcs):
            assert min(arc.start, arc.end) <= left
            assert right <= max(arc.start, arc.end)
    labelled = [arc for arc in layout.arcs if arc.label and not arc.crossing]
    for one, other in combinations(labelled, 2):
        apart = abs(one.label_y - other.label_y) >= TEXT_SIZES["relation"]
        assert apart or label_box(one)[1] <= label_box(other)[0] or label_box(other)[1] <= label_box(one)[0]


@every_odd_tree
def test_words_are_in_order_within_the_picture_below_their_arcs(tree):
    layout = lay_out_arcs(tree)
    assert len(layout.words) == len(tree)
    edges = [
        (word.x - text_width(word.text, TEXT_SIZES["word"]) / 2, word.x + text_width(word.text, TEXT_SIZES["word"]) / 2)
        for word in layout.words
    ]
    assert edges[0][0] > 0
    assert edges[-1][1] < layout.width
    assert all(before[1] < after[0] for before, after in pairwise(edges))
    assert all(arc.label_y - 10 > 0 for arc in layout.arcs)
    assert all(layout.foot < word.y < layout.height for word in [*layout.words, *layout.tags])


def test_the_first_word_of_a_right_to_left_sentence_is_on_the_right():
    tree = DependencyTree(("הילד", "אכל", "!"), ("",) * 3, (2, 0, 2), ("nsubj", "root", "punct"))
    layout = lay_out_arcs(tree)
    assert layout.mirrored
    xs = [word.x for word in layout.words]
    assert xs == sorted(xs, reverse=True)
    assert layout.arcs[0].start < layout.arcs[0].end


def test_exactly_the_arcs_over_words_with_other_heads_cross():
    # "A hearing is scheduled on the issue today": hearing -> on reaches over is, the root; scheduled -> today over on.
    tree = DependencyTree(tuple("abcdefgh"), ("",) * 8, (2, 3, 0, 3, 2, 7, 5, 4), ("",) * 8)
    assert [arc.word for arc in lay_out_arcs(tree).arcs if arc.crossing] == [5, 8]


def test_a_crossed_label_is_next_to_the_leg_that_crosses_it():
    tree = DependencyTree(("a",) * 5, ("",) * 5, (3, 5, 5, 5, 0), ("label", "", "", "", "root"))
    layout = lay_out_arcs(tree)
    left, right, _ = label_box(layout.arcs[0])
    (leg,) = [arc.end for arc in layout.arcs if arc.word == 2]
    assert layout.arcs[1].top < layout.arcs[0].top
    assert leg < left or right < leg


def test_several_roots_have_an_arrow_each():
    tree = DependencyTree(("a", "b", "c"), ("",) * 3, (0, 0, 0), ("root", "parataxis", ""))
    arcs = lay_out_arcs(tree).arcs
    assert [arc.label for arc in arcs] == ["root", "parataxis", "root"]
    assert all(label_box(one)[1] < label_box(other)[0] for one, other in pairwise(arcs))


def test_a_word_that_is_its_own_head_raises_an_error():
    with pytest.raises(
        InputError, match=r"sentence here: word 2, 'b', has head 2; expected another word, 1 to 2, or 0"
    ):
        lay_out_arcs(DependencyTree(("a", "b"), ("", ""), (2, 2), ("", ""), "here"))


def test_a_tree_without_words_is_an_empty_picture():
    layout = lay_out_arcs(DependencyTree((), (), (), ()))
    assert (layout.words, layout.arcs) == ((), ())
    assert layout.width > 0
