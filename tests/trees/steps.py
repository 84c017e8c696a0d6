"""The generation of a dependency tree step by step: the oracle of the paths of a whole corpus."""

from __future__ import annotations

from typing import NamedTuple

from syntaxlm.trees.dependencies import Edge
from syntaxlm.trees.tree import DependencyTree


class Step(NamedTuple):
    """A step, which generates one word.

    source: position of the word that the edge leaves, 0 for ROOT.  edge: its type.  parent: the step that generated
    the source word, 0 for ROOT.  number: of this step, from 1.  word: position of the generated word, from 1.
    """

    source: int
    edge: Edge
    parent: int
    number: int
    word: int


def steps_of(tree: DependencyTree) -> list[Step]:
    """The steps of a tree in breadth-first order."""
    left: list[list[int]] = [[] for _ in range(len(tree) + 1)]  # by head, in sentence order
    right: list[list[int]] = [[] for _ in range(len(tree) + 1)]
    for word, head in enumerate(tree.heads, 1):
        (right if word > head else left)[head].append(word)
    number_of = {0: 0}
    steps: list[Step] = []
    heads = [0]
    for head in heads:  # grows during the loop
        for edge, further, dependents in (
            (Edge.LEFT, Edge.NX_LEFT, left[head][::-1]),
            (Edge.RIGHT, Edge.NX_RIGHT, right[head]),
        ):
            source = head
            for word in dependents:
                steps.append(Step(source, edge, number_of[source], len(steps) + 1, word))
                number_of[word] = len(steps)
                source, edge = word, further
            heads += dependents
    return steps
