"""Trees drawn with characters."""

from __future__ import annotations

import re

import pytest

from syntaxlm.drawing.terminal import WIDEST, draw_tree
from syntaxlm.trees.tree import parse_brackets


@pytest.mark.parametrize(
    "brackets",
    [
        "(X the (X (X old cat) sleeps))",
        "(X (X the (X old cat)) (X sleeps (X on (X a (X red chair)))))",
        "(X (X (X a b) c) d)",
        "(X a (X (X b (X c d)) (X (X e f) g)))",
    ],
)
def test_words_are_in_sentence_order(brackets):
    (tree,) = parse_brackets(brackets)
    drawn = draw_tree(tree).splitlines()
    found = ([re.search(rf"(?<!\S){word}(?!\S)", line) for line in drawn] for word in tree.words)
    columns = [next(place.start() for place in places if place) for places in found]
    assert columns == sorted(columns)
    assert len(set(columns)) == len(columns)


def test_a_tree_too_wide_for_a_terminal_is_replaced_by_a_note():
    words = [f"w{number}" for number in range(WIDEST + 1)]
    brackets = "(X " + " ".join(words) + ")"
    assert draw_tree(*parse_brackets(brackets)) == f"(a tree over {WIDEST + 1} words is too wide to draw here)"
