"""All small trees, and random trees: the reference of the tests in this folder."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from functools import cache

import numpy as np

from syntaxlm.trees.spans import SpanSets, offsets_of
from syntaxlm.trees.tree import Constituent, Tree

Spans = frozenset[tuple[int, int]]


@cache
def all_binary_trees(start: int, end: int) -> tuple[Spans, ...]:
    """The spans of two or more words of every binary tree over [start, end)."""
    if end - start == 1:
        return (frozenset(),)
    return tuple(
        left | right | {(start, end)}
        for split in range(start + 1, end)
        for left in all_binary_trees(start, split)
        for right in all_binary_trees(split, end)
    )


@cache
def all_biased_trees(start: int, end: int) -> tuple[Spans, ...]:
    """The same for every tree that the biased rule can return."""
    if end - start < 2:
        return (frozenset(),)
    return tuple(
        left | right | {(start, end)} | ({(split, end)} if end - split > 1 else set())
        for split in range(start, end)
        for left in all_biased_trees(start, split)
        for right in all_biased_trees(split + 1, end)
    )


FORMS = ("the", "cat", "(", "}", "a/b", "\\/", "é", "1.5", "*", "no\u00a0break")


def random_tree(
    words: int,
    source: random.Random,
    tags: Sequence[str] | bool = True,
    forms: Sequence[str] = FORMS,
    labels: Sequence[str] = ("S", "NP", "VP-1", "PP"),
) -> Tree:
    """A tree with unary chains and n-ary branches, some leaves tagged."""
    tags = tags if isinstance(tags, Sequence) else ("NN", "-LRB-", "$") if tags else ("",)
    constituents: list[Constituent] = []
    agenda = [(0, words)]
    while agenda:
        start, end = agenda.pop()
        for _ in range(source.choice([1, 1, 1, 2])):
            constituents.append(Constituent(source.choice(labels), start, end))
        if end - start > 1:
            cuts = sorted(source.sample(range(start + 1, end), source.randint(1, min(3, end - start - 1))))
            parts = list(zip([start, *cuts], [*cuts, end], strict=True))
            kept = [part for part in parts if part[1] - part[0] > 1 or source.random() < 0.2]
            agenda.extend(reversed(kept))
    chosen = tuple(source.choice(forms) for _ in range(words))
    return Tree(chosen, tuple(source.choice(tags) for _ in range(words)), tuple(constituents))


def decode_by_definition(distances: Sequence[float], rule: str) -> set[tuple[int, int]]:
    """The spans of two or more words of one sentence's tree, split by split as decoders are defined."""
    spans: set[tuple[int, int]] = set()
    agenda = [(0, len(distances))]
    while agenda:
        start, end = agenda.pop()
        if end - start < 2:
            continue
        spans.add((start, end))
        choices = range(start if rule == "biased" else start + 1, end)
        split = max(choices, key=lambda position: distances[position])  # max() returns the first of equal ones
        if rule == "biased":
            if end - split > 1:
                spans.add((split, end))
            agenda += [(start, split), (split + 1, end)]
        else:
            agenda += [(start, split), (split, end)]
    return spans


def spans_of_lists(spans: Iterable[Iterable[tuple[int, int]]], lengths: Sequence[int]) -> SpanSets:
    """Spans from the (start, end) pairs of each sentence."""
    lists = [list(sentence) for sentence in spans]
    pairs = np.array([pair for sentence in lists for pair in sentence], np.int32).reshape(-1, 2)
    offsets = offsets_of(np.array([len(sentence) for sentence in lists], np.int64))
    return SpanSets(np.asarray(lengths, np.int64), offsets, pairs[:, 0].copy(), pairs[:, 1].copy())
