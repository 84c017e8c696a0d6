"""Pictures of constituency trees: their geometry, as read from SVG, and what they show."""

from __future__ import annotations

import math
import random
from itertools import pairwise

import numpy as np
import pytest

from syntaxlm.core.errors import InputError
from syntaxlm.drawing.svg import TEXT_SIZES, text_width
from syntaxlm.drawing.tree import WIDEST, SpanNote, scale_of, tree_picture
from syntaxlm.trees.decoding import decode
from syntaxlm.trees.spans import trees_of
from syntaxlm.trees.tree import Constituent, Tree, format_brackets, parse_brackets
from tests.trees.enumeration import random_tree

from .reading import drawn, numbers, of_role, read_svg, styled_roles, tooltip, used_roles

INDUCED = "(X (X the (X old cat)) (X sleeps (X on (X a (X red chair)))))"
GOLD = "(S (NP (DT the) (JJ old) (NN cat)) (VP (VBZ sleeps) (PP (IN on) (NP (DT a) (JJ red) (NN chair)))))"
DISTANCES = [0.9, 0.1, 0.2, 0.8, 0.5, 0.3, 0.25, 0.05]
WORDS = ("a", "of", "house", "grandfather", "的", "Ⅷ", "antidisestablishmentarianism")
LABELS = ("X", "S", "NP-SBJ-1", "a.long.label.of.a.phrase", "")


def tree_of(seed: int) -> Tree:
    source = random.Random(seed)
    return random_tree(source.randint(1, 14), source, ("", "NN", "VBD-X"), WORDS, LABELS)


every_tree = pytest.mark.parametrize("tree", [tree_of(seed) for seed in range(60)], ids=range(60))


def nodes(root) -> list[tuple[float, float]]:
    """Where each constituent is, in pre-order. The picture must have a note for every span."""
    groups = [group for group in root.iter() if group.get("data-start") is not None]
    return [tuple(numbers(group[0], "cx", "cy")) for group in groups]


def lines(root, role: str) -> list[list[float]]:
    """x1, y1, x2, y2 of each line of a role."""
    return [numbers(line, "x1", "y1", "x2", "y2") for line in of_role(root, role)]


@every_tree
def test_edges_never_cross(tree):
    edges = lines(read_svg(tree_picture(tree).svg()), "edge")
    horizontal = [line for line in edges if line[1] == line[3]]
    assert len(edges) > 0
    for x, top, _, bottom in (line for line in edges if line[0] == line[2]):
        for left, y, right, _ in horizontal:
            assert not (left + 0.2 < x < right - 0.2 and top + 0.2 < y < bottom - 0.2)


@every_tree
def test_labels_never_overlap(tree):
    boxes = []
    for label in of_role(read_svg(tree_picture(tree).svg()), "label"):
        half = text_width(drawn(label), TEXT_SIZES["label"]) / 2
        (x, y) = numbers(label, "x", "y")
        boxes.append((x - half, x + half, y))
    for place, (left, right, y) in enumerate(boxes):
        for other_left, other_right, other_y in boxes[:place]:
            apart = right <= other_left + 0.1 or other_right <= left + 0.1
            assert apart or abs(y - other_y) >= TEXT_SIZES["label"]


@every_tree
def test_everything_is_within_the_picture(tree):
    picture = tree_picture(tree, [0.5] * len(tree))
    root = read_svg(picture.svg())
    for x1, y1, x2, y2 in lines(root, "edge"):
        assert 0 <= min(x1, x2) <= max(x1, x2) <= picture.width
        assert 0 < y1 < picture.height
        assert 0 < y2 < picture.height
    assert all(float(bar.get("y", "")) > 0 for bar in of_role(root, "bar"))
    for word in of_role(root, "word"):
        x, y = numbers(word, "x", "y")
        reach = text_width(drawn(word), TEXT_SIZES["word"])
        assert 0 < y < picture.height
        if word.get("transform"):
            assert x + reach * math.cos(math.pi / 4) <= picture.width
        else:
            assert 0 <= x - reach / 2 < x + reach / 2 <= picture.width


@every_tree
def test_a_parent_is_above_its_children_and_within_their_span(tree):
    spans = [(start, end) for _, start, end in tree.constituents]
    root = read_svg(tree_picture(tree, span_notes={span: SpanNote("") for span in spans}).svg())
    places, words = nodes(root), [numbers(word, "x")[0] for word in of_role(root, "word")]
    assert len(places) == len(spans)
    for number, ((start, end), (x, y)) in enumerate(zip(spans, places, strict=True)):
        for (inner_start, inner_end), (inner_x, inner_y) in zip(spans[number + 1 :], places[number + 1 :], strict=True):
            if start <= inner_start and inner_end <= end:
                assert y < inner_y
            elif inner_start >= end:
                assert x < inner_x
        assert words[start] - 60 <= x <= words[end - 1] + 60


def test_horizontal_words_do_not_touch():
    (tree,) = parse_brackets("(S (NP the grandfather) (VP (X mumbles 一些 話) again))")
    words = of_role(read_svg(tree_picture(tree).svg()), "word")
    halves = [text_width(drawn(word), 15) / 2 for word in words]
    xs = [numbers(word, "x")[0] for word in words]
    assert not any(word.get("transform") for word in words)
    ends = [(x - half, x + half) for x, half in zip(xs, halves, strict=True)]
    assert all(before[1] + 5 < after[0] for before, after in pairwise(ends))


def test_a_bar_is_between_its_words_and_as_high_as_its_distance():
    values = [9.0, 0.1, 0.4, 0.2, 0.3]
    (tree,) = trees_of(decode(np.array(values), np.array([5]), "unbiased"), [list("abcde")])
    root = read_svg(tree_picture(tree, values).svg())
    xs = [numbers(word, "x")[0] for word in of_role(root, "word")]
    bars = of_role(root, "bar")
    assert [tooltip(bar) for bar in bars] == ["a | b: 0.1", "b | c: 0.4", "c | d: 0.2", "d | e: 0.3"]
    for (x, width), (before, after) in zip((numbers(bar, "x", "width") for bar in bars), pairwise(xs), strict=True):
        assert before < x + width / 2 < after
    heights = [numbers(bar, "height")[0] for bar in bars]
    assert [height / heights[1] for height in heights] == pytest.approx([0.25, 1, 0.5, 0.75])
    (axis,) = [line for line in lines(root, "axis") if line[0] == line[2]]
    assert (axis[1], axis[3]) == (numbers(bars[1], "y")[0], numbers(bars[1], "y")[0] + heights[1])
    assert {"0", "0.40"} <= {drawn(text) for text in of_role(root, "small")}
    equal = lines(read_svg(tree_picture(tree, [0.0] * 5).svg()), "axis")  # an axis from 0 to 1
    assert [bottom - top for left, top, right, bottom in equal if left == right] == [axis[3] - axis[1]]


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
    notes = {(0, 3): SpanNote(""), (1, 3): SpanNote("")}
    turned, plain = (
        tree_picture(Tree(words, ("",) * 3, spans), [0, 1, 2], span_notes=notes)
        for words in (("אב", "גד", "הו"), ("ab", "cd", "eg"))
    )
    xs = [numbers(word, "x")[0] for word in of_role(read_svg(turned.svg()), "word")]
    assert xs == sorted(xs, reverse=True)
    for (x, y), (other_x, other_y) in zip(
        *(nodes(read_svg(picture.svg())) for picture in (turned, plain)), strict=True
    ):
        assert (x, y) == (pytest.approx(plain.width - other_x, abs=0.2), other_y)
    horizontal, others = (
        sorted(abs(x2 - x1) for x1, _, x2, _ in lines(read_svg(picture.svg()), "edge")) for picture in (turned, plain)
    )
    assert horizontal == pytest.approx(others, abs=0.2)


def test_forty_words_stay_on_a_page_at_full_size():
    words = ["remaining", "of", "directors", "the"] * 10
    (tree,) = trees_of(decode(np.arange(40.0), np.array([40]), "unbiased"), [words])
    picture = tree_picture(tree, np.arange(40.0).tolist())
    drawn_words = of_role(read_svg(picture.svg()), "word")
    assert all(word.get("transform", "").startswith("rotate(45 ") for word in drawn_words)
    assert picture.width <= WIDEST
    assert picture.height < 800
    # The lines of slanted words are further apart than letters are high.
    first, second = (numbers(word, "x")[0] for word in drawn_words[:2])
    assert {bar.get("width") for bar in of_role(read_svg(picture.svg()), "bar")} == {"13.8"}  # of columns of 25 pixels
    assert (second - first) * math.sin(math.pi / 4) > TEXT_SIZES["word"]


def test_a_tree_of_five_thousand_words_is_drawn():
    size = 5000
    tree = Tree(("w",) * size, ("",) * size, tuple(Constituent("X", start, size) for start in range(size - 1)))
    edges = lines(read_svg(tree_picture(tree, [0.5] * size).svg()), "edge")
    assert len([line for line in edges if line[0] == line[2]]) == 2 * size - 2
    with pytest.raises(InputError, match=r"20,001 words and 0 constituents is too large .* at most 20,000 together"):
        tree_picture(Tree(("w",) * 20_001, ("",) * 20_001, ()))


def test_trees_without_constituents_or_without_a_root_are_drawn():
    alone = read_svg(tree_picture(Tree(("a",), ("",), ()), [0.3]).svg())
    assert used_roles(tree_picture(Tree(("a",), ("",), ()), [0.3]).svg()) == {"paper", "word"}
    assert len(of_role(alone, "word")) == 1
    halves = Tree(tuple("abcd"), ("",) * 4, (Constituent("X", 0, 2), Constituent("X", 2, 4)))
    assert len(of_role(read_svg(tree_picture(halves).svg()), "edge")) == 4 + 2
    assert of_role(read_svg(Tree((), (), ())._repr_svg_()), "word") == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"words": ["a"]}, "found 1 words for a tree over 2 words"),
        ({"notes": ["a"]}, "found 1 notes for 2 words"),
        ({"distances": [0.1]}, "found 1 distances for 2 words"),
        ({"distances": [0.1, math.nan]}, "finite"),
    ],
)
def test_words_notes_and_distances_that_do_not_fit_the_tree_raise_an_error(arguments, message):
    with pytest.raises(ValueError, match=message):
        tree_picture(Tree(("a", "b"), ("", ""), (Constituent("X", 0, 2),)), **arguments)


@pytest.fixture
def induced() -> Tree:
    return parse_brackets(INDUCED)[0]


@pytest.fixture
def gold() -> Tree:
    return parse_brackets(GOLD)[0]


def test_without_distances_there_are_no_bars(induced):
    root = read_svg(tree_picture(induced).svg())
    assert of_role(root, "bar") == of_role(root, "axis") == of_role(root, "guide") == []
    assert [drawn(word) for word in of_role(root, "word")] == list(induced.words)


def test_labels_and_tags_of_a_gold_tree_are_drawn_and_induced_labels_are_not(induced, gold):
    root = read_svg(tree_picture(gold).svg())
    assert [drawn(label) for label in of_role(root, "label")] == ["S", "NP", "VP", "PP", "NP"]
    assert [drawn(tag) for tag in of_role(root, "tag")] == list(gold.tags)
    assert of_role(read_svg(tree_picture(induced).svg()), "label") == []


def test_exactly_the_shared_spans_are_marked_in_both_trees(induced, gold):
    document = tree_picture(induced, DISTANCES, gold).svg()
    root = read_svg(document)
    in_both = {"the old cat", "sleeps on a red chair", "on a red chair", "a red chair", " ".join(gold.words)}
    marks = [tooltip(mark) for mark in of_role(root, "node-shared")]
    assert sorted(mark for mark in marks if mark) == sorted([*in_both, *in_both])
    others = [tooltip(mark) for mark in of_role(root, "node-other")]
    assert [mark for mark in others if mark] == ["old cat", "red chair"]
    assert "4 spans in both trees: of 6 induced and 4 gold" in document
    assert used_roles(document) <= styled_roles(document)


def test_identical_trees_share_all_spans(gold):
    assert "4 spans in both trees: of 4 induced and 4 gold" in tree_picture(gold, gold=gold).svg()


def test_trees_with_different_numbers_of_words_raise_an_error(induced):
    (other,) = parse_brackets("(S (NP the cat) sleeps)")
    with pytest.raises(InputError, match="the induced tree has 8 words, but the gold tree has 3"):
        tree_picture(induced, gold=other).svg()


def test_wide_trees_are_stacked_with_their_words_in_the_same_columns():
    words = tuple(f"word{number}" for number in range(12))
    tree = Tree(words, ("",) * 12, tuple(Constituent("X", start, 12) for start in range(11)))
    labelled = Tree(words, ("NN",) * 12, (Constituent("S", 0, 12), Constituent("A-VERY-LONG-LABEL", 3, 4)))
    picture = tree_picture(tree, [0.5] * 12, labelled)
    both = read_svg(picture.svg())
    words_drawn = of_role(both, "word")
    assert len(words_drawn) == 24
    shift = 48  # of the second tree, by the room of the first one's scale
    assert f'<g transform="translate({shift} 0)">' in picture.svg()
    first, second = ([float(word.get("x", "")) for word in part] for part in (words_drawn[:12], words_drawn[12:]))
    assert [x - shift for x in first] == pytest.approx(second, abs=0.15)


def test_a_narrow_gold_tree_is_drawn_next_to_the_tree(induced, gold):
    alone = tree_picture(induced, DISTANCES)
    both = tree_picture(induced, DISTANCES, gold)
    assert both.width > alone.width + 200
    assert both.height < 2 * alone.height


def test_words_are_drawn_as_given_with_notes_as_tooltips(induced):
    words = ["The", "OLD", "cat", "sleeps", "on", "a", "red", "chair"]
    root = read_svg(tree_picture(induced, words=words, notes=["", "unknown", "", "", "", "", "", ""]).svg())
    assert [drawn(word) for word in of_role(root, "word")] == [word for word in words if word != "OLD"]
    (noted,) = of_role(root, "unknown")
    assert (drawn(noted), tooltip(noted)) == ("OLD", "OLD: unknown")


def test_a_shortened_word_has_its_full_form_as_tooltip():
    word = "x" * 300
    (drawn_word,) = of_role(read_svg(tree_picture(Tree((word,), ("",), ())).svg()), "word")
    assert tooltip(drawn_word) == word
    assert len(drawn(drawn_word)) < 60


@pytest.mark.parametrize(
    "words",
    [
        ("<b>", "&amp;", "\"'", "]]>"), ("\x00", "\ud800", "\u202e", "\u200b"), (" ", "\t", "a b", "("),
        ("ذهب", "الولد", "!", "("), ("我", "媽媽", "👩‍👩‍👧", "🇫🇷"),
    ],
)  # fmt: skip
def test_any_words_can_be_drawn(words):
    tree = Tree(words, ("",) * 4, (Constituent("X", 0, 4), Constituent("<NP>", 1, 4), Constituent("X", 2, 4)))
    root = read_svg(tree_picture(tree, [0.1, 0.2, 0.3, 0.4], tree).svg())
    assert len(of_role(root, "word")) == 8
    assert all(drawn(word) for word in of_role(root, "word"))


def test_the_brackets_are_described_for_screen_readers(gold):
    root = read_svg(tree_picture(gold).svg())
    assert root.findtext("{http://www.w3.org/2000/svg}desc") == format_brackets(gold)
    assert root.get("aria-label") == "Tree: the old cat sleeps on a red chair"


def test_a_tree_is_displayed_in_a_notebook(gold):
    assert gold._repr_svg_() == tree_picture(gold).svg()


def test_brackets_in_a_right_to_left_sentence_are_mirrored_by_direction_marks():
    words = ("הילד", "(", "cat")
    root = read_svg(tree_picture(Tree(words, ("",) * 3, (Constituent("X", 0, 3),))).svg())
    assert [word.text for word in of_role(root, "word")] == ["\u200fהילד\u200f", "\u200f(\u200f", "cat"]


def test_noted_spans_have_a_marker_with_their_place_and_tooltip(induced):
    document = tree_picture(induced, span_notes={(1, 3): SpanNote("probability 0.250", 0.25)}).svg()
    root = read_svg(document)
    (group,) = [one for one in root.iter() if one.get("data-start") is not None]
    assert (group.get("data-start"), group.get("data-end")) == ("1", "3")
    assert [tooltip(mark) for mark in of_role(root, "target")] == ["old cat: probability 0.250"]
    assert [mark.get("fill-opacity") for mark in of_role(root, "node-score")] == ["0.250"]
    assert used_roles(document) <= styled_roles(document)
