"""The definition: sums over all projective dependency trees of a sentence, one tree at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from syntaxlm.ops.dmv.types import ADJACENT, LEFT, RIGHT, Decisions

Heads = tuple[int, ...]


def tree_log_prob(decisions: Decisions, heads: Sequence[int]) -> Tensor:
    """Return log-probability of a tree and its words. decisions: of one sentence, B = 1. heads: from 1, 0 for the root.

    P(tree) = P(root) prod_h prod_side prod_a P(go | h, side, adjacent) P(a | h, side) * P(stop | h, side, adjacent),
    where a are the dependents of h on the side, closest first. Klein & Manning 2004, section 4.
    """
    root, arcs, stop, go = (part[0] for part in decisions)
    result = root[heads.index(0)]
    for head in range(len(heads)):
        dependents = [word for word, own in enumerate(heads) if own == head + 1]
        for side, on_side in (
            (LEFT, [word for word in dependents[::-1] if word < head]),
            (RIGHT, [word for word in dependents if word > head]),
        ):
            adjacent = ADJACENT
            for dependent in on_side:
                result = result + go[head, side, adjacent] + arcs[head, dependent]
                adjacent = 0
            result = result + stop[head, side, adjacent]
    return result


def projective_trees(words: int) -> Iterator[Heads]:
    """Yield the heads of all projective trees with one root over a number of words."""
    for tree in _trees(0, words):
        yield tuple(tree[word] for word in range(words))


def log_partition(decisions: Decisions) -> Tensor:
    """Return log-probability of the words of one sentence: (1,)."""
    trees = projective_trees(decisions.root.shape[1])
    return torch.stack([tree_log_prob(decisions, heads) for heads in trees]).logsumexp(0)[None]


def best_heads(decisions: Decisions) -> Heads:
    """Return the most probable tree of one sentence."""
    return max(projective_trees(decisions.root.shape[1]), key=lambda heads: float(tree_log_prob(decisions, heads)))


def _trees(start: int, end: int, head: int = 0) -> Iterator[dict[int, int]]:
    """Yield the trees over the words from `start` to before `end`, as the head of each word; `head` is the root's."""
    for root in range(start, end):
        for before in _rows_of_trees(start, root, root + 1):
            for after in _rows_of_trees(root + 1, end, root + 1):
                yield {root: head, **before, **after}


def _rows_of_trees(start: int, end: int, head: int) -> Iterator[dict[int, int]]:
    """Yield all ways to cover the words from `start` to before `end` with trees whose roots depend on `head`."""
    if start == end:
        yield {}
    for middle in range(start + 1, end + 1):
        for first in _trees(start, middle, head):
            for others in _rows_of_trees(middle, end, head):
                yield first | others
