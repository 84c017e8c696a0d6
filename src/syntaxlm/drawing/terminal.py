"""Trees drawn with box characters."""

from __future__ import annotations

from collections.abc import Sequence

from nltk.tree.prettyprinter import TreePrettyPrinter

from syntaxlm.drawing.text import UNKNOWN, UNKNOWN_MARK, marked
from syntaxlm.trees import Tree, to_nltk

DEEPEST = 200  # constituents, of which there are more than words only in chains of single children
WIDEST = 40  # words; wider trees do not fit a terminal, and nltk's printer is recursive


def draw_tree(tree: Tree, known: Sequence[bool] = ()) -> str:
    """The tree, top down, in box characters; for more than 40 words or 200 constituents, a note instead.

    known: whether a model's vocabulary has each word; the others are marked with *. Empty: no marks.
    """
    if len(tree.constituents) > DEEPEST:
        return f"(a tree of {len(tree.constituents)} constituents is too deep to draw here)"
    if len(tree) > WIDEST:
        return f"(a tree over {len(tree)} words is too wide to draw here)"
    drawn = to_nltk(tree)
    for number, place in enumerate(drawn.treepositions("leaves")):
        drawn[place] = number  # nltk sorts leaves and misplaces strings next to subtrees; numbers keep their order
    words = marked(tree.words, known) if known else list(tree.words)
    text: str = TreePrettyPrinter(drawn, words).text(unicodelines=True)
    return text.rstrip() + ("" if all(known) else f"\n{UNKNOWN_MARK} {UNKNOWN}")
