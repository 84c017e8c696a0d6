"""Random dependency trees, and what is wrong with one: an oracle of tests."""

from __future__ import annotations

import random

import numpy as np

from syntaxlm.trees.tree import DependencyTree


def is_projective(tree: DependencyTree) -> bool:
    """Whether no two arcs cross, including the arcs from ROOT (position 0) to each root."""
    open_ends: list[int] = []  # right ends of the arcs around the current position, inner ones last
    for left, negative_right in sorted((min(pair), -max(pair)) for pair in enumerate(tree.heads, 1)):
        while open_ends and open_ends[-1] <= left:
            open_ends.pop()
        if open_ends and open_ends[-1] < -negative_right:
            return False
        open_ends.append(-negative_right)
    return True


def dependency_faults(tree: DependencyTree) -> list[str]:
    """Why a tree is not a projective tree with one root: the number of its roots, a cycle, crossing arcs."""
    above = np.array([0, *tree.heads])
    for _ in range(len(tree).bit_length()):  # twice as far up each time; words of a cycle never get to 0
        above = above[above]
    roots = tree.heads.count(0)
    faults = {f"{roots} roots": roots != 1, "a cycle": above.any(), "non-projective": not is_projective(tree)}
    return [fault for fault, is_there in faults.items() if is_there]


def random_heads(words: int, source: random.Random) -> tuple[int, ...]:
    """Heads of one or more projective trees: the words of a range depend on one of them or on the head outside."""
    heads = [0] * (words + 1)
    stretches = [(1, words + 1, 0)]
    while stretches:
        start, end, head = stretches.pop()
        if start < end:
            cut = source.randint(start + 1, end)  # end of the first dependent's part of the range
            word = source.randrange(start, cut)
            heads[word] = head
            stretches += [(start, word, word), (word + 1, cut, word), (cut, end, head)]
    return tuple(heads[1:])
