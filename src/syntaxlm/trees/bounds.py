"""Baselines and upper bounds: trees that need no model, and the best trees for given gold trees.

Each function returns one binary tree per sentence: its spans of two or more words, including the whole sentence.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import NamedTuple

import numpy as np

from syntaxlm.core.arrays import Flags, Integers, Numbers
from syntaxlm.trees.decoding import DecodingRule, decode, nearest_larger_after
from syntaxlm.trees.spans import SpanSets, offsets_of, span_keys, spans_of_keys, top_down


def left(lengths: Sequence[int] | Integers) -> SpanSets:
    """Return left branching: every span starts at the first word."""
    lengths, spans, offsets = _binary(lengths)
    rank = np.arange(offsets[-1]) - np.repeat(offsets[:-1], spans)
    ends = np.repeat(lengths, spans) - rank
    return SpanSets(lengths, offsets, np.zeros(offsets[-1], np.int32), ends.astype(np.int32))


def right(lengths: Sequence[int] | Integers) -> SpanSets:
    """Return right branching: every span ends at the last word."""
    lengths, spans, offsets = _binary(lengths)
    rank = np.arange(offsets[-1]) - np.repeat(offsets[:-1], spans)
    return SpanSets(lengths, offsets, rank.astype(np.int32), np.repeat(lengths, spans).astype(np.int32))


def balanced(lengths: Sequence[int] | Integers) -> SpanSets:
    """Return balanced trees: every span splits in the middle; of an odd number of words, the right part is longer."""
    lengths, _, _ = _binary(lengths)
    return top_down(lengths, lambda _, start, end: start + (end - start) // 2)


def random_trees(lengths: Sequence[int] | Integers, seed: int, rule: DecodingRule = "unbiased") -> SpanSets:
    """Return the trees of random distances: independent and uniform in [0, 1).

    Args:
        rule: the decoder. `unbiased`: every span splits at a uniformly random position, because the largest of
            identically distributed distances is equally likely at each position: the usual random baseline, uniform
            over splits. `biased`: what this decoder scores without any information about the sentence; it leans to the
            right.
    """
    lengths, _, _ = _binary(lengths)
    return decode(np.random.default_rng(seed).random(int(lengths.sum())), lengths, rule)


def random_binary_trees(lengths: Sequence[int] | Integers, seed: int) -> SpanSets:
    """Return random trees that are uniform over binary trees: deeper than `random_trees`.

    The random baseline of Shen et al. 2018 (PRPN), appendix. In prefix order, a tree over n words is a sequence of
    n - 1 spans (+1) and n words (-1). Exactly one rotation of any arrangement of these steps is the sequence of a tree:
    the one that starts after the first minimum of the sums (cycle lemma, Dvoretzky & Motzkin 1947).
    """
    lengths, _, _ = _binary(lengths)
    sizes = 2 * lengths - 1
    offsets = offsets_of(sizes)
    tree = np.repeat(np.arange(len(lengths)), sizes)
    first = offsets[:-1][tree]
    place = np.arange(offsets[-1]) - first

    # Arrange the steps of each tree at random, then rotate them.
    is_span = np.zeros(offsets[-1], np.bool_)
    values = np.random.default_rng(seed).random(offsets[-1])
    for length in np.unique(lengths).tolist():
        of_length = offsets[:-1][lengths == length, None] + np.arange(2 * length - 1)
        is_span[of_length] = values[of_length].argsort(1) < length - 1
    steps = np.where(is_span, 1, -1)
    sums = np.cumsum(steps) + tree  # every tree sums to -1, so sums start at 0 in each
    minimum = np.minimum.reduceat(sums, offsets[:-1]) if len(lengths) else sums
    start = np.flatnonzero(sums == minimum[tree])
    start = start[np.unique(tree[start], return_index=True)[1]] + 1 - offsets[:-1]
    steps = steps[first + (place + start[tree]) % sizes[tree]]

    # The span of a step ends where the sum first falls below that before the step.
    before = np.cumsum(steps) + tree - steps  # the sum before each step
    end = nearest_larger_after(-before, np.repeat(offsets[1:], sizes))
    words = np.append(np.cumsum(steps < 0), 0)  # up to and including each step; index -1: none
    words_before_tree = words[first - 1]
    starts = words[np.arange(offsets[-1]) - 1] - words_before_tree
    ends = words[end - 1] - words_before_tree
    is_span = steps > 0
    return SpanSets(lengths, offsets_of(lengths - 1), starts[is_span].astype(np.int32), ends[is_span].astype(np.int32))


def binary_upper_bound(gold: SpanSets) -> SpanSets:
    """Return the best binary tree: all gold spans, right branching within those of more than two children.

    The fewer gold spans contain a position between two words, the earlier it splits, so each gold span is separated
    from its context before it is split.

    Args:
        gold: nested spans.
    """
    offsets = offsets_of(gold.lengths)
    first = offsets[:-1][gold.sentences()]
    # Spans that contain the position before word i: one more from start + 1 on, one less from end on.
    change = np.bincount(first + gold.starts + 1, minlength=offsets[-1] + 1)
    change = change - np.bincount(first + gold.ends, minlength=offsets[-1] + 1)
    return decode(-np.cumsum(change)[:-1].astype(np.float64), gold.lengths, "unbiased")


def biased_upper_bound(gold: SpanSets) -> SpanSets:
    """Return a tree that shares the most spans with gold, among the possible trees of the `biased` decoder.

    O(N log N) time for N words and spans.

    Args:
        gold: nested spans.
    """
    spans = spans_of_keys(span_keys(gold, keep_whole=True)[0], gold.lengths)
    offsets = offsets_of(gold.lengths)
    first = offsets[:-1][spans.sentences()]
    order = np.lexsort((-spans.ends, first + spans.starts))  # pre-order
    starts = (first + spans.starts)[order]
    ends = (first + spans.ends)[order]
    is_open = _open_positions(starts, ends, offsets)
    return decode(_distances(starts, ends, is_open, offsets), gold.lengths, "biased")


def _binary(lengths: Sequence[int] | Integers) -> tuple[Integers, Integers, Integers]:
    """Return lengths, the spans of two or more words of a binary tree of each length, and their offsets."""
    lengths = np.asarray(lengths, np.int64)
    if lengths.ndim != 1 or (lengths < 1).any():
        raise ValueError("expected one length per sentence, each at least 1")
    return lengths, lengths - 1, offsets_of(lengths - 1)


# The best tree of the `biased` decoder for gold spans, without a chart.
#
# The biased rule builds an ordered forest over the words: a word is followed by its descendants, so its block [i, e_i)
# ends where its subtree ends. The spans of the tree are the blocks and, for the children of one word (or the roots),
# the prefixes from the first child to the end of each block. Let a position g be "open" if word g - 1 has descendants,
# which means that a group of children starts at g. Then
#
# - a span that ends at an open position is not in the tree, because word g - 1 extends beyond it;
# - of the spans that start at a position that is not open, only one can be in the tree: the block of its first word;
# - all other gold spans can be in the tree at once, because gold spans do not cross.
#
# So only the set of open positions must be chosen. A position at which no gold span of two or more words ends is opened
# without loss. One at which spans end, and at most one starts, stays closed without loss. The others are chosen by
# dynamic programming over the gold tree, whose states are whether the start and the end of a span are open.


# The states of a position at which a span starts or ends. Used: closed, and an outer span that starts there is in the
# tree, so this span cannot be.
_CLOSED, _OPEN, _USED = range(3)


def _open_positions(starts: Integers, ends: Integers, offsets: Integers) -> Flags:
    """(W + 1,) which positions to open.

    Args:
        starts: starts of the gold spans, in pre-order.
        ends: the ends of these spans.
    """
    words = int(offsets[-1])
    starting = np.bincount(starts, minlength=words + 1)
    ending = np.bincount(ends, minlength=words + 1)
    is_open = ending == 0
    contested = (ending > 0) & (starting > 1)
    is_open[offsets] = contested[offsets] = False

    # Choose among the contested positions of each sentence that has any. Spans that touch none are in the tree.
    touching = contested[starts] | contested[ends]
    touching_starts = starts[touching]
    touching_ends = ends[touching]
    contested_before = np.concatenate([[0], np.cumsum(contested)])
    for sentence in np.flatnonzero(np.diff(contested_before[offsets])).tolist():
        begin, end = offsets[sentence : sentence + 2].tolist()
        spans = slice(*np.searchsorted(touching_starts, [begin, end]).tolist())
        positions = slice(begin, end + 1)
        opened = _positions_to_open(
            (touching_starts[spans] - begin).tolist(),
            (touching_ends[spans] - begin).tolist(),
            is_open[positions].tolist(),
            contested[positions].tolist(),
        )
        is_open[begin + np.array(opened, np.int64)] = True
    return is_open


def _distances(starts: Integers, ends: Integers, is_open: Flags, offsets: Integers) -> Numbers:
    """Return distances whose `biased` trees have these open positions.

    Args:
        starts: starts of the gold spans, in pre-order.
        ends: the ends of these spans.
    """
    # Drop the gold spans that are not in the tree: those that end at an open position, and all but the outermost of
    # those that start at a closed position inside the sentence.
    in_tree = ~is_open[ends]
    starts = starts[in_tree]
    ends = ends[in_tree]
    outermost = np.concatenate([[True], starts[1:] != starts[:-1]])[: len(starts)]
    starts_sentence = np.zeros(len(is_open), np.bool_)
    starts_sentence[offsets] = True
    in_tree = outermost | is_open[starts] | starts_sentence[starts]
    starts = starts[in_tree]
    ends = ends[in_tree]

    # The block of a word with descendants ends with the innermost span around the word.
    lengths = np.diff(offsets)
    place = np.arange(offsets[-1])
    around = _innermost(starts, ends, place)
    sentence_ends = np.repeat(offsets[1:], lengths)
    block_ends = np.where(around < 0, sentence_ends, ends[around] if len(ends) else sentence_ends)
    block_ends = np.where(is_open[1:], block_ends, place + 1)

    # Largest is the last root, then its descendants, from right to left, then the root before it.
    first = np.repeat(offsets[:-1], lengths)
    distances: Numbers = ((block_ends - first) * (sentence_ends - first + 1.0)) - (place - first)
    return distances


def _innermost(starts: Integers, ends: Integers, words: Integers) -> Integers:
    """(W,) the index of the innermost span around each word, -1 for none.

    Args:
        starts: starts of nested spans, in pre-order.
        ends: the ends of these spans.
    """
    sorted_ends = np.sort(ends)
    number = np.arange(len(starts))
    depths = number - np.searchsorted(sorted_ends, starts, side="right")
    opened = np.searchsorted(starts, words, side="right")
    depth = opened - np.searchsorted(sorted_ends, words, side="right") - 1
    # The innermost span is the last one of its depth that starts at or before the word.
    size = len(starts) + 1
    keys = np.sort(depths * size + number)
    innermost: Integers = np.full(len(words), -1)
    inside = depth >= 0
    innermost[inside] = keys[np.searchsorted(keys, (depth * size + opened)[inside]) - 1] % size
    return innermost


class _Best(NamedTuple):
    """The choice with the most spans in the tree, of a span's children up to `child`.

    Attributes:
        before: the choice up to the child before; None before the first.
        start: the state of the start of `child`.
        end: the state of its end.
    """

    spans: int = 0
    before: _Best | None = None
    child: int = 0
    start: int = _CLOSED
    end: int = _CLOSED


def _positions_to_open(starts: list[int], ends: list[int], is_open: list[bool], contested: list[bool]) -> list[int]:
    """Return the contested positions of a sentence to open, by dynamic programming over the gold spans.

    Args:
        starts: starts of the gold spans that start or end at a contested position, in pre-order.
        ends: the ends of these spans.
        is_open: (n + 1,), whether each position is open.
        contested: (n + 1,), whether each position is contested.
    """
    root = len(starts)  # a span over the whole sentence, above all others
    starts = [*starts, 0]
    ends = [*ends, len(is_open) - 1]
    children = _children(starts, ends)
    # By span and the states of its start and its end: the best choice for it and those below it.
    best: list[dict[tuple[int, int], _Best]] = [{} for _ in ends]
    most_spans = attrgetter("spans")

    def states(position: int) -> tuple[int, ...]:
        if contested[position]:
            return _CLOSED, _OPEN
        return (_OPEN if is_open[position] else _CLOSED,)

    def best_below(span: int, start: int, end: int) -> _Best:
        """Return the best choice of spans below a span.

        Args:
            start: the state of the start of the span, for the spans below it.
            end: the state of its end.
        """
        reached: dict[int, _Best] = {start: _Best()}  # by the state of the current position
        position = starts[span]
        for child in children[span]:
            if starts[child] != position:
                reached = dict.fromkeys(states(starts[child]), max(reached.values(), key=most_spans))
            position = ends[child]
            following: dict[int, _Best] = {}
            # best(.. child, state) = max over states s of its start: best(.. before child, s) + best(child, s, state)
            for state in (end,) if position == ends[span] else states(position):
                most = -1
                chosen = start
                for entry, before in reached.items():
                    spans = before.spans + best[child][entry, state].spans
                    if spans > most:
                        most = spans
                        chosen = entry
                following[state] = _Best(most, reached[chosen], child, chosen, state)
            reached = following
        return max(reached.values(), key=most_spans)

    for span in reversed(range(root)):  # children come after their parents
        start_states = (_OPEN,) if starts[span] == 0 else states(starts[span])
        if _CLOSED in start_states:
            start_states = (*start_states, _USED)
        for end in states(ends[span]):
            below: dict[int, _Best] = {}  # by the state of the start for the spans below
            for start in start_states:
                inner = _USED if start == end == _CLOSED else start
                if inner not in below:
                    below[inner] = best_below(span, inner, end)
                # A span counts unless its end is open or its start is used.
                counts = end == _CLOSED and start != _USED
                best[span][start, end] = below[inner]._replace(spans=below[inner].spans + counts)

    return [position for position in _opened(best_below(root, _OPEN, _CLOSED), best, starts) if contested[position]]


def _opened(root: _Best, best: list[dict[tuple[int, int], _Best]], starts: list[int]) -> Iterator[int]:
    """Yield the positions at which the choices, from the root down, open groups of children."""
    agenda = [root]
    while agenda:
        choice = agenda.pop()
        if choice.before is not None:
            if choice.start == _OPEN:
                yield starts[choice.child]
            agenda += [choice.before, best[choice.child][choice.start, choice.end]]


def _children(starts: list[int], ends: list[int]) -> list[list[int]]:
    """Return the children of each span.

    Args:
        starts: starts of nested spans, in pre-order, except that the last one is around all others.
        ends: the ends of these spans.
    """
    root = len(starts) - 1
    children: list[list[int]] = [[] for _ in ends]
    open_spans = [root]
    for span in range(root):
        while ends[open_spans[-1]] <= starts[span]:
            open_spans.pop()
        children[open_spans[-1]].append(span)
        open_spans.append(span)
    return children
