"""Pictures of constituency trees, and marked spans."""

from __future__ import annotations

import pytest

from syntaxlm.core.errors import InputError
from syntaxlm.drawing.tree import SpanNote, compare, tree_picture
from syntaxlm.trees.tree import Constituent, Tree, format_brackets, parse_brackets

from .reading import drawn, of_role, read_svg, styled_roles, tooltip, used_roles

INDUCED = "(X (X the (X old cat)) (X sleeps (X on (X a (X red chair)))))"
GOLD = "(S (NP (DT the) (JJ old) (NN cat)) (VP (VBZ sleeps) (PP (IN on) (NP (DT a) (JJ red) (NN chair)))))"
DISTANCES = [0.9, 0.1, 0.2, 0.8, 0.5, 0.3, 0.25, 0.05]


@pytest.fixture
def induced() -> Tree:
    return parse_brackets(INDUCED)[0]


@pytest.fixture
def gold() -> Tree:
    return parse_brackets(GOLD)[0]


def test_words_are_in_order_and_bars_show_their_distances(induced):
    root = read_svg(tree_picture(induced, DISTANCES).svg())
    words = of_role(root, "word")
    assert [drawn(word) for word in words] == list(induced.words)
    assert [float(word.get("x", "")) for word in words] == sorted(float(word.get("x", "")) for word in words)
    bars = of_role(root, "bar")
    assert [tooltip(bar) for bar in bars][:2] == ["the | old: 0.1", "old | cat: 0.2"]
    heights = [float(bar.get("height", "")) for bar in bars]
    assert max(heights) == heights[2]
    assert [height / heights[2] for height in heights] == pytest.approx([d / 0.8 for d in DISTANCES[1:]], abs=0.01)


def test_without_distances_there_are_no_bars(induced):
    assert of_role(read_svg(tree_picture(induced).svg()), "bar") == []


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


def test_marks_agree_with_the_comparison(induced, gold):
    comparison = compare(induced, gold)
    assert (comparison.shared, comparison.induced, comparison.gold) == (4, 6, 4)
    same = compare(gold, gold)
    assert (same.shared, same.induced, same.gold) == (4, 4, 4)


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
    assert of_role(read_svg(Tree((), (), ())._repr_svg_()), "word") == []


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
