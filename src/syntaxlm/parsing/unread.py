"""Adds words and punctuation marks that a model does not read to its tree."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import NamedTuple

from syntaxlm.trees.tree import Constituent, Tree

UNREAD = "UNREAD"  # tag of words and punctuation marks that the model does not read


class NotRead(NamedTuple):
    """A part of a line that the model does not read, line[start:end].  start, end: code points."""

    text: str
    start: int
    end: int


def with_unread(tree: Tree, offsets: Sequence[tuple[int, int]], not_read: Sequence[NotRead]) -> Tree:
    """Returns a tree with additional words, see `Parse.complete_tree`.

    offsets: start and end of each word of the tree, in code points.  not_read: the parts of the line to add.
    """
    starts = [start for start, _ in offsets]
    before = [bisect_left(starts, part.start) for part in not_read]  # number of words before each part
    size = len(tree)
    leaves = [(start, word, tag) for start, word, tag in zip(starts, tree.words, tree.tags, strict=True)]
    leaves += [(part.start, part.text, UNREAD) for part in not_read]
    leaves.sort(key=lambda leaf: leaf[0])
    constituents = [
        Constituent(label, start + bisect_right(before, start), end + bisect_left(before, end))
        for label, start, end in tree.constituents
    ]
    if not constituents or (constituents[0].end - constituents[0].start < size + len(not_read)):
        top = constituents.pop(0).label if constituents and tree.constituents[0][1:] == (0, size) else "X"
        constituents.insert(0, Constituent(top, 0, size + len(not_read)))
    return Tree(tuple(leaf[1] for leaf in leaves), tuple(leaf[2] for leaf in leaves), tuple(constituents))
