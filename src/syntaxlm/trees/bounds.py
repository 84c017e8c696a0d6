"""Baselines and upper bounds: trees that need no model, and the best trees for given gold trees.

Each function returns one binary tree per sentence: its spans of two or more words, including the whole sentence.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from syntaxlm.trees.decoding import DecodingRule, decode, nearest_larger_after
from syntaxlm.trees.spans import Flags, Integers, SpanSets, offsets_of, span_keys, spans_of_keys, top_down


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

    rule: the decoder.  `unbiased`: every span splits at a uniformly random position, because the largest of identically
    distributed distances is equally likely at each position: the usual random baseline, uniform over splits.
    `biased`: what this decoder scores without any information about the sentence; it leans to the right.
    """
    lengths, _, _ = _binary(lengths)
    return decode(np.random.default_rng(seed).random(int(lengths.sum())), lengths, rule)


def random_binary_trees(lengths: Sequence[int] | Integers, seed: int) -> SpanSets:
    """Return random trees that are uniform over binary trees: deeper than `random_trees`.

    The random baseline of Shen et al. 2018 (PRPN), appendix.  In prefix order, a tree over n words is a sequence of
    n - 1 spans (+1) and n words (-1). Exactly one rotation of any arrangement of these steps is the sequence of a tree:
    the one that starts after the first minimum of the sums (cycle lemma, Dvoretzky & Motzkin 1947).
    """
    lengths, _, _ = _binary(lengths)
    sizes = 2 * lengths - 1
    offsets = offsets_of(sizes)
    first, tree = np.repeat(offsets[:-1], sizes), np.repeat(np.arange(len(lengths)), sizes)
    place = np.arange(offsets[-1]) - first
    order = np.lexsort((np.random.default_rng(seed).random(offsets[-1]), tree))
    steps = np.where(place < lengths[tree] - 1, 1, -1)[order]
    sums = np.cumsum(steps) + tree  # every tree sums to -1, so sums start at 0 in each
    minimum = np.minimum.reduceat(sums, offsets[:-1]) if len(lengths) else sums
    start = np.flatnonzero(sums == minimum[tree])
    start = start[np.unique(tree[start], return_index=True)[1]] + 1 - offsets[:-1]
    steps = steps[first + (place + start[tree]) % sizes[tree]]
    before = np.cumsum(steps) + tree - steps  # the sum before each step
    # The span of a step ends where the sum first falls below that before the step.
    end = nearest_larger_after(-before, np.repeat(offsets[1:], sizes))
    words = np.append(np.cumsum(steps < 0), 0)  # up to and including each step; index -1: none
    of_tree = words[first - 1]
    starts, ends = words[np.arange(offsets[-1]) - 1] - of_tree, words[end - 1] - of_tree
    spans = steps > 0
    return SpanSets(lengths, offsets_of(lengths - 1), starts[spans].astype(np.int32), ends[spans].astype(np.int32))


def binary_upper_bound(gold: SpanSets) -> SpanSets:
    """Return the best binary tree: all gold spans, right branching within those of more than two children.

    The fewer gold spans contain a position between two words, the earlier it splits, so each gold span is separated
    from its context before it is split.  gold: nested spans.
    """
    offsets = offsets_of(gold.lengths)
    first = offsets[:-1][gold.sentences()]
    # Spans that contain the position before word i: one more from start + 1 on, one less from end on.
    change = np.bincount(first + gold.starts + 1, minlength=offsets[-1] + 1)
    change = change - np.bincount(first + gold.ends, minlength=offsets[-1] + 1)
    return decode(-np.cumsum(change)[:-1].astype(np.float64), gold.lengths, "unbiased")


def biased_upper_bound(gold: SpanSets) -> SpanSets:
    """Return a tree that shares the most spans with gold, among the possible trees of the `biased` decoder.

    gold: nested spans.  See `syntaxlm.trees.bounds`.  O(N log N) time for N words and spans.
    """
    return decode(distances_of_biased_bound(gold), gold.lengths, "biased")


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
_State = int

_Reached = dict[_State, int]
"""The most spans before a position, by the state of the position."""


def distances_of_biased_bound(gold: SpanSets) -> npt.NDArray[np.float64]:
    """(W,) distances whose `biased` trees share the most spans with gold.  gold: nested spans."""
    spans = spans_of_keys(span_keys(gold, keep_whole=True)[0], gold.lengths)
    offsets = offsets_of(gold.lengths)
    first = offsets[:-1][spans.sentences()]
    order = np.lexsort((-spans.ends, first + spans.starts))  # pre-order
    starts, ends = (first + spans.starts)[order], (first + spans.ends)[order]
    words = int(offsets[-1])
    starting, ending = np.bincount(starts, minlength=words + 1), np.bincount(ends, minlength=words + 1)
    is_open = ending == 0
    contested = (ending > 0) & (starting > 1)
    is_open[offsets] = contested[offsets] = False
    before = np.concatenate([[0], np.cumsum(contested)])
    touching = contested[starts] | contested[ends]  # all others are in the tree
    some_starts, some_ends = starts[touching], ends[touching]
    for sentence in np.flatnonzero(np.diff(before[offsets])).tolist():
        begin, end = offsets[sentence : sentence + 2].tolist()
        here, gaps = slice(*np.searchsorted(some_starts, [begin, end]).tolist()), slice(begin, end + 1)
        lows, highs = some_starts[here] - begin, some_ends[here] - begin
        tree = _GoldTree(lows.tolist(), highs.tolist(), is_open[gaps].tolist(), contested[gaps].tolist())
        opened = tree.opened()
        is_open[begin + np.array(opened, np.int64)] = True
    return _distances(starts, ends, is_open, offsets)


def _distances(starts: Integers, ends: Integers, is_open: Flags, offsets: Integers) -> npt.NDArray[np.float64]:
    """Return distances whose `biased` trees have these open positions.

    starts, ends: of the gold spans, in pre-order.
    """
    is_start = np.zeros(len(is_open), np.bool_)
    is_start[offsets] = True
    kept = ~is_open[ends]
    starts, ends = starts[kept], ends[kept]
    outermost = np.concatenate([[True], starts[1:] != starts[:-1]])[: len(starts)]
    kept = outermost | is_open[starts] | is_start[starts]
    starts, ends = starts[kept], ends[kept]
    # The block of a word with descendants ends with the innermost span around the word.
    lengths = np.diff(offsets)
    place = np.arange(offsets[-1])
    around = _innermost(starts, ends, place)
    of_sentence = np.repeat(offsets[1:], lengths)
    block_ends = np.where(around < 0, of_sentence, ends[around] if len(ends) else of_sentence)
    block_ends = np.where(is_open[1:], block_ends, place + 1)
    # Largest is the last root, then its descendants, from right to left, then the root before it.
    first = np.repeat(offsets[:-1], lengths)
    distances: npt.NDArray[np.float64] = ((block_ends - first) * (of_sentence - first + 1.0)) - (place - first)
    return distances


def _innermost(starts: Integers, ends: Integers, words: Integers) -> Integers:
    """(W,) the index of the innermost span around each word, -1 for none. starts, ends: nested, in pre-order."""
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


class _GoldTree:
    """The choice of contested positions to open in one sentence, by dynamic programming over the gold spans.

    starts, ends: of the gold spans that start or end at a contested position, in pre-order.
    is_open, contested: (n + 1,), of each position.
    """

    def __init__(self, starts: list[int], ends: list[int], is_open: list[bool], contested: list[bool]) -> None:
        self.is_open, self.contested = is_open, contested
        self.root = len(starts)  # a span over the whole sentence, above all others
        self.starts, self.ends = [*starts, 0], [*ends, len(is_open) - 1]
        self.children: list[list[int]] = [[] for _ in self.ends]
        around = [self.root]
        for span in range(self.root):
            while self.ends[around[-1]] <= starts[span]:
                around.pop()
            self.children[around[-1]].append(span)
            around.append(span)
        # By span, the most spans among it and those below it, by the states of its start and its end.
        self.most: list[dict[tuple[_State, _State], int]] = [{} for _ in self.ends]

    def opened(self) -> list[int]:
        """Return the contested positions that are opened."""
        for span in reversed(range(self.root)):  # children come after their parents
            self._fill(span)
        positions = []
        agenda = [(self.root, _OPEN, _CLOSED)]
        while agenda:
            span, start, end = agenda.pop()
            if start == _OPEN and self.contested[self.starts[span]]:
                positions.append(self.starts[span])
            agenda += self._chosen_children(span, start, end)
        return positions

    def _fill(self, span: int) -> None:
        """Set `most` of a span, whose children are done. A span counts unless its end is open or its start is used."""
        starts = (_OPEN,) if self.starts[span] == 0 else self._states(self.starts[span])
        if _CLOSED in starts:
            starts = (*starts, _USED)
        for end in (_CLOSED,) if self.ends[span] == self.ends[self.root] else self._states(self.ends[span]):
            below: _Reached = {}
            for start in starts:
                inner = _inner_start(start, end)
                if inner not in below:
                    below[inner] = max(self._passed(span, inner, end)[-1].values())
                self.most[span][start, end] = below[inner] + (end == _CLOSED and start != _USED)

    def _states(self, position: int) -> tuple[_State, ...]:
        """Return the states that a position may have."""
        if self.contested[position]:
            return _CLOSED, _OPEN
        return (_OPEN if self.is_open[position] else _CLOSED,)

    def _passed(self, span: int, start: _State, end: _State) -> list[_Reached]:
        """Return the most spans below a span before its first child, and up to the end of each of its children.

        start, end: the states of the ends of the span, for the spans below it.
        """
        reached = [{start: 0}]
        position = self.starts[span]
        for child in self.children[span]:
            entered = self._entered(child, position, reached[-1])
            position = self.ends[child]
            states = (end,) if position == self.ends[span] else self._states(position)
            most = self.most[child]
            reached.append({at: max(value + most[entry, at] for entry, value in entered.items()) for at in states})
        return reached

    def _entered(self, child: int, position: int, reached: _Reached) -> _Reached:
        """Return the most spans before a child by the state of its start. position: where the child before it ends."""
        if self.starts[child] == position:
            return reached
        return dict.fromkeys(self._states(self.starts[child]), max(reached.values()))

    def _chosen_children(self, span: int, start: _State, end: _State) -> list[tuple[int, _State, _State]]:
        """Trace back the children of a span in a best tree, each with the states of its start and its end."""
        children = self.children[span]
        reached = self._passed(span, _inner_start(start, end), end)
        chosen = []
        state = _best(reached[-1])
        for place in reversed(range(len(children))):
            child, before = children[place], reached[place]
            position = self.ends[children[place - 1]] if place else self.starts[span]
            entered = self._entered(child, position, before)
            entry = _best({entry: value + self.most[child][entry, state] for entry, value in entered.items()})
            chosen.append((child, entry, state))
            state = entry if self.starts[child] == position else _best(before)
        return chosen


def _inner_start(start: _State, end: _State) -> _State:
    """Return the state of a span's start for the spans below it."""
    return _USED if start == end == _CLOSED else start


def _best(reached: _Reached) -> _State:
    """Return the state with the most spans; of several, the first."""
    return max(reached, key=reached.__getitem__)
