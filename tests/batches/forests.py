"""Dependency trees whose words encode sentence and position, and corpora of them."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from syntaxlm.data.dependencies import ROOT, UNKNOWN, DependencyCorpus, count_dependencies, label_vocabulary
from syntaxlm.text.vocabulary import Vocabulary
from syntaxlm.trees.tree import DependencyTree
from tests.normalisers import normaliser_with

LOWER = normaliser_with(lower_case=True)

CAT = DependencyTree(
    ("The", "cat", "sleeps", "."), ("DT", "NN", "VBZ", "."), (2, 3, 0, 3), ("det", "nsubj", "root", "punct"), "cat"
)
GO = DependencyTree(("Go", "!"), ("VB", "."), (0, 1), ("root", "punct"), "go")


def corpus_of(trees, vocabulary=None, labels=None, source=""):
    words, names = count_dependencies(trees, LOWER)
    vocabulary = vocabulary or Vocabulary.build(words, UNKNOWN, ROOT, ROOT)
    return DependencyCorpus.from_trees(trees, LOWER, vocabulary, labels or label_vocabulary(names), source)


def tree_of(heads, number):
    """A tree whose words and labels encode sentence and position."""
    words = tuple(f"s{number}w{place}" for place in range(1, len(heads) + 1))
    return DependencyTree(words, ("",) * len(heads), tuple(heads), tuple(f"to {word}" for word in words), str(number))


@st.composite
def forests(draw, most_trees=12, most_words=9):
    """Any trees: with one or more roots, projective or not."""
    trees = []
    for number in range(draw(st.integers(1, most_trees))):
        order = draw(st.permutations(range(1, draw(st.integers(1, most_words)) + 1)))
        heads = {word: draw(st.sampled_from([0, *order[:place]])) for place, word in enumerate(order)}
        trees.append(tree_of([heads[word] for word in sorted(order)], number))
    return trees


def many_trees(count=300, seed=0):
    random = np.random.default_rng(seed)
    return [
        tree_of([int(random.integers(0, word)) for word in range(1, random.integers(1, 25) + 1)], number)
        for number in range(count)
    ]
