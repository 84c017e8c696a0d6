"""Trees drawn with box characters."""

from __future__ import annotations

from nltk.tree.prettyprinter import TreePrettyPrinter

from syntaxlm.trees import Tree, to_nltk

WIDEST = 40  # words; wider trees do not fit a terminal, and nltk's printer is recursive


def draw_tree(tree: Tree) -> str:
    """The tree, top down, in box characters; for more than 40 words, a note instead."""
    if len(tree) > WIDEST:
        return f"(a tree over {len(tree)} words is too wide to draw here)"
    drawn = to_nltk(tree)
    for number, place in enumerate(drawn.treepositions("leaves")):
        drawn[place] = number  # nltk sorts leaves and misplaces strings next to subtrees; numbers keep their order
    text: str = TreePrettyPrinter(drawn, list(tree.words)).text(unicodelines=True)
    return text.rstrip()
