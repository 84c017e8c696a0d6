"""Trees drawn with characters."""

from __future__ import annotations

import random

import pytest
from nltk.tree.prettyprinter import TreePrettyPrinter

from syntaxlm.drawing.layout import INDUCED_LABEL
from syntaxlm.drawing.terminal import DEEPEST, WIDEST, draw_tree
from syntaxlm.trees import tree as trees
from syntaxlm.trees.tree import Constituent, Tree, parse_brackets
from tests.trees.enumeration import random_tree

LONG = ("Donaudampfschifffahrtsgesellschaft", "very-long-hyphenated-word", "a b c d e f g h i j k")


def by_nltk(tree: Tree) -> list[str]:
    """The lines of nltk's drawing; its leaves are numbers, because it sorts them."""
    drawn = tree.to_nltk()
    for number, place in enumerate(drawn.treepositions("leaves")):
        drawn[place] = number
    text = TreePrettyPrinter(drawn, list(tree.words)).text(unicodelines=True)
    return [line.rstrip() for line in text.rstrip().split("\n")]


@pytest.mark.parametrize("has_tags", [False, True])
def test_the_drawing_is_that_of_nltk(has_tags):
    source = random.Random(0)
    for number in range(300):
        tree = random_tree(source.randint(1, 14), source, has_tags)
        words = tuple(source.choice([word, word, *LONG]) for word in tree.words)
        # Some trees have no constituent over all words.
        tree = Tree(words, tree.tags, tree.constituents[number % 4 == 0 :])
        assert draw_tree(tree).split("\n") == by_nltk(tree)


def test_words_that_a_model_does_not_know_are_marked():
    drawn = draw_tree(parse_brackets("(X the (X old cat))")[0], [True, False, True])
    assert drawn.splitlines() == [
        "     X",
        " ┌───┴────┐",
        " │        X",
        " │   ┌────┴───┐",
        "the old*     cat",
        "* not in the model's vocabulary",
    ]


def test_trees_too_large_for_a_terminal_are_replaced_by_a_note():
    words = ("w",) * (WIDEST + 1)
    wide = Tree(words, ("",) * len(words), ())
    assert draw_tree(wide) == f"(a tree over {WIDEST + 1} words is too wide to draw here)"
    deep = Tree(("a",), ("",), (Constituent("X", 0, 1),) * (DEEPEST + 1))
    assert draw_tree(deep) == f"(a tree of {DEEPEST + 1} constituents is too deep to draw here)"
    assert draw_tree(Tree((), (), ())) == ""


def test_pictures_and_trees_agree_on_the_label_of_induced_constituents():
    assert INDUCED_LABEL == trees.INDUCED_LABEL


def test_wide_characters_have_two_columns_and_combining_marks_none():
    drawn = draw_tree(parse_brackets("(S (NP 这只 小猫) (VP cafe\u0301 鱼))")[0]).splitlines()
    assert drawn == [
        "               S",
        "      ┌────────┴────────┐",
        "      NP                VP",
        " ┌────┴───┐        ┌────┴───┐",
        "这只     小猫     cafe\u0301      鱼",
    ]
