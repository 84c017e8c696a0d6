"""The geometry of pictures of dependency trees, as read from SVG."""

from __future__ import annotations

import random
from itertools import combinations, pairwise
from typing import NamedTuple

import pytest

from syntaxlm.core.errors import InputError
from syntaxlm.drawing.dependencies import dependency_picture, write_dependencies
from syntaxlm.drawing.svg import TEXT_SIZES, Picture, text_width
from syntaxlm.trees.tree import DependencyTree
from tests.trees.faults import is_projective, random_heads

from .reading import drawn, numbers, of_role, read_svg, used_roles

WORDS = ("a", "of", "house", "grandfather", "的", "Ⅷ", "antidisestablishmentarianism")
LABELS = ("det", "nsubj:pass", "", "a.long.label.of.an.arc", "x")


def random_tree(seed: int, projective: bool = True, most: int = 16) -> DependencyTree:
    """A random projective tree; or random heads, with crossing arcs, several roots, or cycles."""
    source = random.Random(seed)
    size = source.randint(1, most)
    heads = random_heads(size, source)
    if not projective:
        heads = tuple(source.choice([head for head in range(size + 1) if head != word]) for word in range(1, size + 1))
    words, tags, labels = (source.choices(kind, k=size) for kind in (WORDS, ("", "NN", "VBD-X"), LABELS))
    return DependencyTree(tuple(words), tuple(tags), heads, tuple(labels))


class Arc(NamedTuple):
    """x of its legs at the head and at the dependent (equal for ROOT's arrow), y of its top."""

    start: float
    end: float
    top: float
    crossing: bool


class Label(NamedTuple):
    left: float
    right: float
    y: float
    text: str


def read(picture: Picture) -> tuple[list[Arc], list[Label], list[Label]]:
    """The arcs, the labels of arcs, and the words of a picture."""
    root = read_svg(picture.svg())
    arcs = []
    for role in ("arc", "arc-crossing", "arc-root"):
        for path in of_role(root, role):
            steps = path.get("d", "").split()
            x, y = float(steps[1]), float(steps[2])
            end = x if role == "arc-root" else float(steps[steps.index("H") + 3])
            top = y if role == "arc-root" else float(steps[steps.index("Q") + 2])
            arcs.append(Arc(x, end, top, role == "arc-crossing"))
    texts = []
    for roles in (("relation", "relation-root"), ("word",)):
        texts.append([])
        for role in roles:
            for text in of_role(root, role):
                (x, y), half = numbers(text, "x", "y"), text_width(drawn(text), TEXT_SIZES[role]) / 2
                texts[-1].append(Label(x - half, x + half, y, drawn(text)))
    return arcs, texts[0], texts[1]


TREES = [random_tree(seed) for seed in range(40)]
every_tree = pytest.mark.parametrize("tree", TREES, ids=range(len(TREES)))
every_odd_tree = pytest.mark.parametrize(
    "tree", [*TREES[:10], *(random_tree(seed, projective=False) for seed in range(40))], ids=range(50)
)


@every_tree
def test_arcs_of_projective_trees_never_cross(tree):
    assert is_projective(tree)
    arcs, *_ = read(dependency_picture(tree))
    assert not any(arc.crossing for arc in arcs)
    for arc in arcs:
        for other in arcs:  # no leg of one crosses the horizontal line of another
            low, high = sorted((other.start, other.end))
            assert not any(low < x < high and arc.top < other.top for x in (arc.start, arc.end))


@every_odd_tree
def test_no_two_legs_or_horizontal_lines_coincide(tree):
    arcs, *_ = read(dependency_picture(tree))
    legs = sorted(x for arc in arcs for x in {arc.start, arc.end})
    assert all(after - before > 2 for before, after in pairwise(legs))
    for (low, high, y), (other_low, other_high, other_y) in combinations(
        [(*sorted((arc.start, arc.end)), arc.top) for arc in arcs if arc.start != arc.end], 2
    ):
        assert y != other_y or max(low, other_low) > min(high, other_high)


@every_odd_tree
def test_labels_are_over_their_arcs_and_never_overlap(tree):
    picture = dependency_picture(tree)
    arcs, labels, _ = read(picture)
    has_crossing = any(arc.crossing for arc in arcs)
    for label in labels:
        assert 0 <= label.left <= label.right <= picture.width
        below = [sorted((arc.start, arc.end)) for arc in arcs if 0 < arc.top - label.y < 6]
        assert below
        if not has_crossing:  # ROOT's arrow has no width, its label any
            assert any(x == end or (x - 0.1 <= label.left and label.right <= end + 0.1) for x, end in below)
    if not has_crossing:
        for label, other in combinations(labels, 2):
            apart = abs(label.y - other.y) >= TEXT_SIZES["relation"]
            assert apart or label.right <= other.left + 0.1 or other.right <= label.left + 0.1


@every_odd_tree
def test_words_are_in_order_within_the_picture_below_their_arcs(tree):
    picture = dependency_picture(tree)
    _, labels, words = read(picture)
    assert len(words) == len(tree)
    assert words[0].left > 0
    assert words[-1].right < picture.width
    assert all(before.right < after.left for before, after in pairwise(words))
    assert all(label.y - 10 > 0 for label in labels)
    root = read_svg(picture.svg())
    tips = [tip for role in ("arrow", "arrow-crossing", "arrow-root") for tip in of_role(root, role)]
    assert len(tips) == len(tree)
    assert all(float(tip.get("d", "").split()[2]) < words[0].y for tip in tips)
    assert len({word.y for word in words}) == 1
    assert all(words[0].y < numbers(tag, "y")[0] < picture.height for tag in of_role(root, "tag"))


def test_the_first_word_of_a_right_to_left_sentence_is_on_the_right():
    tree = DependencyTree(("הילד", "אכל", "!"), ("",) * 3, (2, 0, 2), ("nsubj", "root", "punct"))
    arcs, labels, words = read(dependency_picture(tree))
    xs = [word.left for word in words]
    assert xs == sorted(xs, reverse=True)
    # Higher arcs come first, and of equally high ones that of the first word: from the verb to its right, to its left.
    assert [arc.start < arc.end for arc in arcs] == [True, False, False]
    assert [label.text for label in labels] == ["nsubj", "punct", "root"]


def test_exactly_the_arcs_over_words_with_other_heads_cross():
    # "A hearing is scheduled on the issue today": hearing -> on reaches over is, the root; scheduled -> today over on.
    tree = DependencyTree(tuple("abcdefgh"), ("",) * 8, (2, 3, 0, 3, 2, 7, 5, 4), ("",) * 8)
    root = read_svg(dependency_picture(tree).svg())
    assert sorted(arc[0].text or "" for arc in of_role(root, "arc-crossing")) == [
        "e: dependent of b",
        "h: dependent of d",
    ]


def test_a_crossed_label_is_next_to_the_leg_that_crosses_it():
    tree = DependencyTree(("a",) * 5, ("",) * 5, (3, 5, 5, 5, 0), ("label", "", "", "", "root"))
    arcs, labels, words = read(dependency_picture(tree))
    (label,) = (label for label in labels if label.text == "label")
    (leg,) = (arc.end for arc in arcs if words[1].left - 10 < arc.end < words[1].right + 10)
    assert label.left > words[0].left
    assert leg < label.left or label.right < leg


def test_several_roots_have_an_arrow_each():
    tree = DependencyTree(("a", "b", "c"), ("",) * 3, (0, 0, 0), ("root", "parataxis", ""))
    picture = dependency_picture(tree)
    _, labels, _ = read(picture)
    assert [label.text for label in labels] == ["root", "parataxis", "root"]
    assert all(label.right < other.left for label, other in pairwise(labels))


@pytest.mark.parametrize(
    ("heads", "message"),
    [
        ((2, 2), r"sentence here: word 2, 'b', has head 2; expected another word, 1 to 2, or 0"),
        ((3, 0), r"sentence here: word 1, 'a', has head 3; expected another word, 1 to 2, or 0"),
        ((0,) * 1001, r"sentence here: found 1,001 words; expected at most 1,000 in a picture of arcs"),
    ],
)
def test_heads_that_cannot_be_drawn_raise_an_error(heads, message):
    blank = ("",) * len(heads)
    with pytest.raises(InputError, match=message):
        dependency_picture(DependencyTree(("a", "b", *blank[2:]), blank, heads, blank, "here"))


def test_a_tree_without_words_is_an_empty_picture():
    picture = dependency_picture(DependencyTree((), (), (), ()))
    assert used_roles(picture.svg()) == {"paper"}
    assert picture.width > 0


def test_a_heading_wider_than_its_right_to_left_tree_is_complete(tmp_path):
    name = "an-identifier-that-is-longer-than-the-tree"
    trees = [DependencyTree(("שלום",), ("",), (0,), ("root",), name)] * 2
    write_dependencies(trees, tmp_path / "trees.svg")
    root = read_svg((tmp_path / "trees.svg").read_text(encoding="utf-8"))
    for heading in of_role(root, "heading"):
        assert numbers(heading, "x")[0] - text_width(name, TEXT_SIZES["heading"]) >= 0
