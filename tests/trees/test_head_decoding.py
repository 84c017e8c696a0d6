"""Constituents of dependency trees."""

from __future__ import annotations

import numpy as np

from syntaxlm.ops.dmv import projective_trees
from syntaxlm.trees.decoding import HEAD_RULES, decode_heads


def test_constituents_of_a_sentence():
    """The old cat sees a dog here."""
    heads = np.array([3, 3, 4, 0, 6, 4, 4])
    flat, binary, left = (decode_heads(heads, np.array([7]), rule) for rule in HEAD_RULES)
    assert flat.sentence(0) == {(0, 7), (0, 3), (4, 6)}
    # The verb joins the object, then the adverb, then the subject.
    assert binary.sentence(0) == {(0, 7), (3, 7), (3, 6), (4, 6), (0, 3), (1, 3)}
    # The verb joins the subject, then the object, then the adverb.
    assert left.sentence(0) == {(0, 7), (0, 6), (0, 4), (4, 6), (0, 3), (1, 3)}


def test_all_trees_of_many_sentences_at_once():
    trees = [tree for words in (1, 3, 5) for tree in projective_trees(words)]
    lengths = np.array([len(tree) for tree in trees])
    flat, *both = (decode_heads(np.concatenate(trees), lengths, rule) for rule in HEAD_RULES)
    for number, tree in enumerate(trees):
        expected = set()
        for word in range(1, len(tree) + 1):
            own = [one for one in range(1, len(tree) + 1) if word in ancestors(tree, one)]
            if len(own) > 1:
                expected.add((own[0] - 1, own[-1]))
        assert flat.sentence(number) == expected
        for spans in (binary.sentence(number) for binary in both):
            assert expected <= spans
            assert len(spans) == len(tree) - 1
            assert not any(a < c < b < d for a, b in spans for c, d in spans)


def ancestors(tree: tuple[int, ...], word: int) -> set[int]:
    """The word and all words above it."""
    found = {word}
    while tree[word - 1]:
        word = tree[word - 1]
        found.add(word)
    return found
