"""The layout of constituency trees."""

from __future__ import annotations

import math
import random
from itertools import pairwise

import numpy as np
import pytest

from syntaxlm.drawing.layout import WIDEST, columns_of, lay_out, parents_of, scale_of
from syntaxlm.drawing.svg import TEXT_SIZES, text_width
from syntaxlm.trees.decoding import decode
from syntaxlm.trees.spans import trees_of
from syntaxlm.trees.tree import Constituent, Tree, parse_brackets

WORDS = ("a", "of", "house", "grandfather", "的", "Ⅷ", "antidisestablishmentarianism")
LABELS = ("X", "S", "NP-SBJ-1", "a.long.label.of.a.phrase", "")


def random_tree(seed: int, most: int = 14) -> Tree:
    """A random tree: n-ary branches, unary chains, optional tags."""
    source = random.Random(seed)
    size = source.randint(1, most)
    parts: list[Constituent] = []

    def grow(start: int, end: int, depth: int) -> None:
        parts.append(Constituent(source.choice(LABELS), start, end))
        if end - start == 1:
            return
        if depth < 3 and source.random() < 0.2:
            grow(start, end, depth + 1)
            return
        cuts = sorted(source.sample(range(start + 1, end), min(source.randint(1, 3), end - start - 1)))
        for first, last in zip([start, *cuts], [*cuts, end], strict=True):
            if last - first > 1 or source.random() < 0.5:
                grow(first, last, 0)

    grow(0, size, 0)
    words, tags = source.choices(WORDS, k=size), source.choices(("", "NN", "VBD-X"), k=size)
    return Tree(tuple(words), tuple(tags), tuple(parts))


every_tree = pytest.mark.parametrize("tree", [random_tree(seed) for seed in range(60)], ids=range(60))


@every_tree
def test_edges_never_cross(tree):
    layout = lay_out(tree, tree.words)
    for edge in layout.edges:
        for node in layout.nodes:
            crosses = node.left + 0.01 < edge.x < node.right - 0.01 and edge.top + 0.01 < node.y < edge.bottom - 0.01
            assert not crosses


@every_tree
def test_labels_never_overlap_and_stay_within_their_words_columns(tree):
    columns = columns_of([tree], tree.words)
    layout = lay_out(tree, tree.words, columns=columns)
    offset = layout.words[0].x - columns.centre(0) if not columns.slanted else None
    boxes = []
    for node in layout.nodes:
        if node.label:
            half = text_width(node.label, TEXT_SIZES["label"]) / 2
            boxes.append((node.x - half, node.x + half, node.y))
            if offset is not None:
                assert node.x - half >= columns.edges[node.span[0]] + offset - 0.01
                assert node.x + half <= columns.edges[node.span[1]] + offset + 0.01
    for place, (left, right, y) in enumerate(boxes):
        for other_left, other_right, other_y in boxes[:place]:
            apart = right <= other_left + 0.01 or other_right <= left + 0.01
            assert apart or abs(y - other_y) >= TEXT_SIZES["label"]


@every_tree
def test_everything_is_within_the_picture(tree):
    layout = lay_out(tree, tree.words, [0.5] * len(tree))
    xs = (
        [node.left for node in layout.nodes] + [node.right for node in layout.nodes] + [word.x for word in layout.words]
    )
    ys = [node.y for node in layout.nodes] + [word.y for word in layout.words] + [bar.top for bar in layout.bars]
    assert min(xs) >= 0
    assert max(xs) <= layout.width
    assert min(ys) > 0
    assert max(ys) < layout.height
    for word in layout.words:
        reach = text_width(word.text, TEXT_SIZES["word"])
        if layout.slanted:
            assert word.x + reach * math.cos(math.pi / 4) <= layout.width
        else:
            assert word.x - reach / 2 >= 0
            assert word.x + reach / 2 <= layout.width


@every_tree
def test_a_parent_is_above_its_children_and_within_their_span(tree):
    layout = lay_out(tree, tree.words)
    parents, _ = parents_of(tree.constituents, len(tree))
    for child, parent in enumerate(parents):
        if parent < 0:
            assert tree.constituents[child][1:] == (0, len(tree))
            continue
        assert layout.nodes[parent].y < layout.nodes[child].y
        start, end = tree.constituents[child][1:]
        assert tree.constituents[parent].start <= start
        assert end <= tree.constituents[parent].end
        assert layout.nodes[parent].left - 0.01 <= layout.nodes[child].x <= layout.nodes[parent].right + 0.01


def test_horizontal_words_do_not_touch():
    (tree,) = parse_brackets("(S (NP the grandfather) (VP (X mumbles 一些 話) again))")
    layout = lay_out(tree, tree.words)
    ends = [(w.x - text_width(w.text, 15) / 2, w.x + text_width(w.text, 15) / 2) for w in layout.words]
    assert not layout.slanted
    assert all(before[1] + 5 < after[0] for before, after in pairwise(ends))


def test_a_bar_is_between_its_words_and_as_high_as_its_distance():
    values = [9.0, 0.1, 0.4, 0.2, 0.3]
    (tree,) = trees_of(decode(np.array(values), np.array([5]), "unbiased"), [list("abcde")])
    layout = lay_out(tree, tree.words, values)
    assert [bar.value for bar in layout.bars] == values[1:]
    for bar in layout.bars:
        assert layout.words[bar.after - 1].x < bar.x < layout.words[bar.after].x
    heights = [bar.bottom - bar.top for bar in layout.bars]
    assert [height / heights[1] for height in heights] == pytest.approx([0.25, 1, 0.5, 0.75])
    assert layout.scale == (0, 0.4)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([0.0, 1.0], (0, 1)), ([0.2, 0.9], (0, 0.9)), ([0.9, 1.0], (0.885, 1.0)), ([-1.0, 1.0], (-1.3, 1.0)),
        ([0.0, 0.0], (0, 1)), ([0.5, 0.5], (0, 0.5)), ([-2.0, -2.0], (-3, -2)),
    ],
)  # fmt: skip
def test_bars_start_at_0_if_differences_remain_visible(values, expected):
    assert scale_of(values) == pytest.approx(expected)


def test_a_right_to_left_sentence_is_the_mirror_of_a_left_to_right_one():
    spans = (Constituent("X", 0, 3), Constituent("X", 1, 3))
    layouts = [
        lay_out(Tree(words, ("",) * 3, spans), words, [0, 1, 2]) for words in (("אב", "גד", "הו"), ("ab", "cd", "eg"))
    ]
    turned, plain = layouts
    assert turned.mirrored
    assert not plain.mirrored
    assert [word.x for word in turned.words] == sorted((word.x for word in turned.words), reverse=True)
    for one, other in zip(turned.nodes, plain.nodes, strict=True):
        assert turned.width - one.x == pytest.approx(plain.width - (plain.width - other.x), abs=0.01)
        assert (one.y, one.right - one.left) == pytest.approx((other.y, other.right - other.left), abs=0.01)


def test_forty_words_stay_on_a_page_at_full_size():
    words = ["remaining", "of", "directors", "the"] * 10
    (tree,) = trees_of(decode(np.arange(40.0), np.array([40]), "unbiased"), [words])
    layout = lay_out(tree, words, np.arange(40.0).tolist())
    assert layout.slanted
    assert layout.width <= WIDEST
    assert layout.height < 800
    # The lines of slanted words are further apart than letters are high.
    pitch = layout.words[1].x - layout.words[0].x
    assert pitch * math.sin(math.pi / 4) > TEXT_SIZES["word"]


def test_a_long_word_is_shortened_and_kept_in_full_as_well():
    word = "x" * 30 + "y" * 200
    (tree,) = parse_brackets(f"(S {word} b)")
    layout = lay_out(tree, tree.words)
    assert layout.words[0].full == word
    assert len(layout.words[0].text) < 50
    assert layout.words[0].text[0] == "x"


def test_a_tree_of_five_thousand_words_is_laid_out():
    size = 5000
    tree = Tree(("w",) * size, ("",) * size, tuple(Constituent("X", start, size) for start in range(size - 1)))
    layout = lay_out(tree, tree.words, [0.5] * size)
    assert len(layout.nodes) == size - 1
    assert len(layout.edges) == 2 * size - 2


def test_trees_without_constituents_or_without_a_root_are_laid_out():
    alone = lay_out(Tree(("a",), ("",), ()), ["a"], [0.3])
    assert (alone.nodes, alone.edges, alone.bars, len(alone.words)) == ((), (), (), 1)
    halves = lay_out(Tree(tuple("abcd"), ("",) * 4, (Constituent("X", 0, 2), Constituent("X", 2, 4))), "abcd")
    assert len(halves.edges) == 4
    empty = lay_out(Tree((), (), ()), [])
    assert empty.words == ()


@pytest.mark.parametrize(
    ("words", "distances", "message"),
    [
        (["a"], None, "found 1 words for a tree over 2 words"),
        (["a", "b"], [0.1], "found 1 distances for 2 words"),
        (["a", "b"], [0.1, math.nan], "finite"),
    ],
)
def test_words_and_distances_that_do_not_fit_the_tree_raise_an_error(words, distances, message):
    with pytest.raises(ValueError, match=message):
        lay_out(Tree(("a", "b"), ("", ""), (Constituent("X", 0, 2),)), words, distances)
