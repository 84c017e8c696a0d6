"""Breadth-first generation of a dependency tree from its root, in steps along edges of four types.

Left dependents are generated from the closest to the farthest, then right dependents likewise. The first dependent on a
side is attached by its edge to the head, each further one to the previous one. So the edges form a tree in which a word
has at most one child of each type, and a word's probability only depends on its path from ROOT.
Zhang, Lu, Lapata 2016, "Top-down Tree Long Short-Term Memory Networks".

ROOT has position 0, before the first word. So the root word is its first right dependent, and further roots follow by
NX-RIGHT edges. Non-projective trees have steps like others; but steps have no positions, and `in_order` places every
word between its own left and right dependents, so the sentence is restored in a different order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from syntaxlm.core.arrays import Integers
from syntaxlm.core.errors import InputError
from syntaxlm.trees.tree import DependencyTree


class Edge(IntEnum):
    """The type of the edge from a word to a generated word."""

    LEFT = 0  # from a head to its closest left dependent
    RIGHT = 1  # from a head to its closest right dependent
    NX_LEFT = 2  # from a left dependent to the next one on its left
    NX_RIGHT = 3  # from a right dependent to the next one on its right

    def __str__(self) -> str:
        return self.name.replace("_", "-")


@dataclass(frozen=True)
class Paths:
    """The last edge of the path from ROOT to each word, for the words of many sentences, concatenated.

    Attributes:
        parents: (N,) int32, position in its sentence of the word that the edge leaves, 0 for ROOT.
        edges: (N,) int8, type of the edge.
        depths: (N,) int32, number of edges of the path, at least 1.
    """

    parents: npt.NDArray[np.int32]
    edges: npt.NDArray[np.int8]
    depths: npt.NDArray[np.int32]


def paths_of(heads: npt.NDArray[Any], offsets: Integers, places: Sequence[str] = ()) -> Paths:
    """Return the paths of all trees of a corpus at once.

    Args:
        heads: (N,), position in the sentence, 0 for the root.
        offsets: (S + 1,); sentence i is heads[offsets[i] : offsets[i + 1]].
        places: the file, line and name of each sentence, for messages.

    Raises:
        InputError: the message names the first sentence whose heads are out of range or do not lead to a root.
    """
    heads = heads.astype(np.int64)
    lengths = np.diff(offsets)
    sentences = np.repeat(np.arange(len(lengths)), lengths)
    starts = offsets[sentences]
    positions = np.arange(1, len(heads) + 1) - starts

    def place(word: int) -> str:
        sentence = int(sentences[word])
        return places[sentence] if places else f"sentence {sentence + 1}"

    outside = np.flatnonzero((heads < 0) | (heads > lengths[sentences]))
    if len(outside):
        word = int(outside[0])
        head = f"head {heads[word]}" if heads[word] >= 0 else "no head"
        expected = f"expected 0 to {lengths[sentences[word]]}"
        raise InputError(f"{place(word)}: word {positions[word]} has {head}; {expected}")

    # Sort the words by head, side and distance from the head. The first of each side is attached to the head, each
    # further one to the word before it.
    is_right = positions > heads
    sides = 2 * (starts + sentences + heads) + is_right  # one number for each side of each head
    order = np.lexsort((np.abs(positions - heads), sides))
    before = np.roll(order, 1)
    is_first = sides[order] != sides[before]
    is_first[:1] = True
    parents = np.empty(len(heads), np.int32)
    parents[order] = np.where(is_first, heads[order], positions[before])
    edges = np.empty(len(heads), np.int8)
    edges[order] = np.where(is_first, Edge.LEFT, Edge.NX_LEFT) + is_right[order]

    # Depths by pointer doubling. Words are numbered from 1 here; those without a path from ROOT get depth 0.
    ancestors = np.concatenate([np.zeros(1, np.int64), np.where(parents > 0, starts + parents, 0)])
    sums = np.ones(len(ancestors), np.int32)
    sums[0] = 0
    for _ in range(int(lengths.max(initial=0)).bit_length()):
        sums = sums + sums[ancestors]
        ancestors = ancestors[ancestors]
    depths = np.where(ancestors[1:] > 0, 0, sums[1:]).astype(np.int32)
    rootless = np.flatnonzero(depths == 0)
    if len(rootless):
        in_sentence = rootless[sentences[rootless] == sentences[rootless[0]]]
        named = ", ".join(map(str, positions[in_sentence[:10]])) + (", ..." if len(in_sentence) > 10 else "")
        raise InputError(
            f"{place(int(in_sentence[0]))}: words {named} have no path to a root: their heads form a cycle; expected"
            " heads that lead to 0"
        )
    return Paths(parents, edges, depths)


def in_order(edges: Sequence[int], parents: Sequence[int]) -> list[int]:
    """Return the numbers of steps, from 1, in sentence order: left dependents, the word, right dependents.

    Args:
        edges: the edge of every step, parents before their children, as in `Step`.
        parents: the parent of every step, as in `Step`.

    Raises:
        ValueError: for steps that do not form one tree.
    """
    dependents = _dependents(edges, parents)
    order: list[int] = []
    stack = [0]
    while stack:
        step = stack.pop()
        if step < 0:  # everything on its left is done
            order.append(-step)
            continue
        stack += dependents.right[step][::-1]
        if step:
            stack.append(-step)
        stack += dependents.left[step]
    return order


def tree_of_steps(
    words: Sequence[str], edges: Sequence[int], parents: Sequence[int], labels: Sequence[str] = (), name: str = ""
) -> DependencyTree:
    """Return the tree formed by steps, with the words in sentence order.

    Args:
        words: the words that the steps generate.
        labels: the labels that the steps generate; () for none.
        edges: as in `in_order`, which also describes the errors.
        parents: as in `in_order`.
    """
    order = in_order(edges, parents)
    heads = _dependents(edges, parents).heads
    position = {step: place for place, step in enumerate(order, 1)} | {0: 0}
    return DependencyTree(
        tuple(words[step - 1] for step in order),
        ("",) * len(order),
        tuple(position[heads[step]] for step in order),
        tuple(labels[step - 1] if labels else "" for step in order),
        name,
    )


class _Dependents(NamedTuple):
    """The tree that steps form; step 0 is ROOT.

    Attributes:
        left: the left dependents of each step, closest first.
        right: the right dependents of each step, closest first.
        heads: the step of each step's head.
    """

    left: list[list[int]]
    right: list[list[int]]
    heads: list[int]


def _dependents(edges: Sequence[int], parents: Sequence[int]) -> _Dependents:
    """Return the tree that steps form. Raises ValueError for a step that is not possible in a tree."""
    left: list[list[int]] = [[] for _ in range(len(edges) + 1)]
    right: list[list[int]] = [[] for _ in range(len(edges) + 1)]
    heads = [0] * (len(edges) + 1)
    for step, (edge, parent) in enumerate(zip(edges, parents, strict=True), 1):
        side = left if edge in (Edge.LEFT, Edge.NX_LEFT) else right
        is_first = edge in (Edge.LEFT, Edge.RIGHT)
        head = parent
        if not is_first:
            head = heads[parent] if 0 < parent < step else -1
        # A further dependent must follow the last one so far on its side; before the first there is none.
        last = side[head][-1:] if 0 <= head < step else []
        follows = not last if is_first else last == [parent]
        if not (0 <= head < step and follows) or (head == 0 and side is left):
            raise ValueError(f"step {step} leaves step {parent} by {Edge(edge)}, which is not possible there in a tree")
        side[head].append(step)
        heads[step] = head
    return _Dependents(left, right, heads)
