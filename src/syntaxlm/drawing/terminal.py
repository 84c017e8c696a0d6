"""Trees drawn with characters."""

from __future__ import annotations

from nltk.tree.prettyprinter import TreePrettyPrinter

from syntaxlm.trees import Tree, to_nltk

WIDEST = 40  # words; nltk's drawing is recursive and a wider one fits no terminal


def draw_tree(tree: Tree) -> str:
    """The tree top-down in box characters; past 40 words, only how long it is."""
    if len(tree) > WIDEST:
        return f"(a tree over {len(tree)} words is too wide to draw here)"
    drawn = to_nltk(tree)
    for number, place in enumerate(drawn.treepositions("leaves")):
        drawn[place] = number  # the printer orders words by itself, and wrongly beside subtrees; not numbers
    text: str = TreePrettyPrinter(drawn, list(tree.words)).text(unicodelines=True)
    return text.rstrip()
