"""Projective dependency trees under the dependency model with valence: sums, expected counts and the best trees.

Klein & Manning 2004, section 4. The reference adds up all trees. The fast forms take sentences of one length together,
in O(n^3): a head generates its left and right dependents independently, so each half of a subtree is a chart item of
its own, a span and the end of it that is the head (Eisner 1996). For the half of head h that reaches to j:

    attached[h, a] = arcs[h, a] + sum_k ready[h, k] + complete[a, k + 1]      the half of a towards h
    open[h, j] = sum_a attached[h, a] + complete[a, j]
    ready[h, j] = open[h, j] + go[h, 0]            ready[h, h] = go[h, ADJACENT]
    complete[h, j] = open[h, j] + stop[h, 0]       complete[h, h] = stop[h, ADJACENT]

All spans of one width are computed at once, and so are both directions: left halves are right halves of the reversed
sentence. Charts are [direction, sentence, position, width]; the wider the one part of a span, the narrower the other,
so the sum over all divisions of all spans is a sum over the last dimension of a chart and a reversed chart. Counts and
best trees are gradients of the sum and of the maximum, which autograd computes by the outside pass.

With weights of constituents, it takes O(n^4). The constituents are those of the binary tree in which
a head joins its right dependents first, closest first, then its left ones. The weight of a constituent depends on both
of its ends, so a chart item is a span with its head. For the span from i to j with head h:

    right[i, j] = weight[i, j] + sum_k right[i, k] + go[i] + given[i; k + 1, j]
    item[i, j, i] = right[i, j] + stop[i, RIGHT]
    item[i, j, h] = weight[i, j] + sum_k given[h; i, k] + item[k + 1, j, h] + go[h]      h > i
    given[h; i, j] = sum_a arcs[h, a] + item[i, j, a] + stop[a, LEFT]
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

Reduction = Callable[[Tensor], Tensor]
HeadsTuple = tuple[int, ...]

LEFT, RIGHT = 0, 1  # the side of a head
ADJACENT = 1  # no dependent on this side yet; 0: one or more

ZERO = -1e5
"""The natural logarithm that stands for probability 0. It is finite, so that gradients are numbers, and so low that no
tree of real probabilities reaches half of it. Trees of a sentence that is impossible are compared by their number of
impossible decisions first."""

_NO_ITEM = 1e4 * ZERO  # the logarithm of what is no chart item; lower than any number of impossible decisions


class TreeDecisions(NamedTuple):
    """A number for each decision in the trees of B sentences of n words: natural log-probabilities, or counts.

    Attributes:
        root: (B, n), that a word is the root.
        arcs: (B, n, n), that a head, the second index, chooses a dependent, the third; the diagonal is not used.
        stop: (B, n, 2, 2), that a head takes no more dependents, by side (LEFT, RIGHT) and by whether it has none there
            yet (ADJACENT) or some (0).
        go: (B, n, 2, 2), that it takes another one.
    """

    root: Tensor
    arcs: Tensor
    stop: Tensor
    go: Tensor

    @property
    def attached(self) -> Tensor:
        """(B, n + 1, n), by head and dependent; row 0 is the root, row h + 1 the head h."""
        return torch.cat([self.root[:, None], self.arcs], 1)


def tree_log_prob(decisions: TreeDecisions, heads: Sequence[int]) -> Tensor:
    """Return the log-probability of a tree and its words.

    P(tree) = P(root) prod_h prod_side prod_a P(go | h, side, adjacent) P(a | h, side) * P(stop | h, side, adjacent),
    where a are the dependents of h on the side, closest first. Klein & Manning 2004, section 4.

    Args:
        decisions: the decisions of one sentence, B = 1.
        heads: from 1, 0 for the root.
    """
    root, arcs, stop, go = (part[0] for part in decisions)
    result = root[heads.index(0)]
    for head in range(len(heads)):
        dependents = [word for word, chosen in enumerate(heads) if chosen == head + 1]
        before = [word for word in reversed(dependents) if word < head]
        after = [word for word in dependents if word > head]
        for side, closest_first in ((LEFT, before), (RIGHT, after)):
            adjacent = ADJACENT
            for dependent in closest_first:
                result = result + go[head, side, adjacent] + arcs[head, dependent]
                adjacent = 0
            result = result + stop[head, side, adjacent]
    return result


def projective_trees(words: int) -> Iterator[HeadsTuple]:
    """Yield the heads of all projective trees with one root over a number of words."""
    for tree in _trees(0, words):
        yield tuple(tree[word] for word in range(words))


def log_partition_reference(decisions: TreeDecisions) -> Tensor:
    """Return the log-probability of the words of one sentence: (1,)."""
    trees = projective_trees(decisions.root.shape[1])
    return torch.stack([tree_log_prob(decisions, heads) for heads in trees]).logsumexp(0)[None]


def best_heads_reference(decisions: TreeDecisions) -> HeadsTuple:
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


def log_partition(decisions: TreeDecisions, weights: Tensor | None = None) -> Tensor:
    """Return natural log-probability of the words of each sentence, summed over its trees: (B,). Differentiable.

    Args:
        decisions: natural log-probabilities, finite: `ZERO` for impossible decisions.
        weights: (B, n, n + 1) natural logarithms by which trees are weighted, of constituents by first word and by the
            word after the last; those of one word are in every tree. None: no weights, and O(n^3) instead of O(n^4).
    """
    return _reduced(_log_sum, *decisions, weights)


class Expectations(NamedTuple):
    """Expected counts under the posterior of the trees.

    Attributes:
        log_totals: (B,), as `log_partition`.
        counts: the counts of each decision.
        spans: the probability that each span is a constituent, in the shape of the weights; None without weights.
    """

    log_totals: Tensor
    counts: TreeDecisions
    spans: Tensor | None


def expected_counts(decisions: TreeDecisions, weights: Tensor | None = None) -> Expectations:
    """Return how often each decision is expected, and which spans if they have weights.

    Arguments: see `log_partition`.
    """
    values, (root, arcs, stop, go, *spans) = _with_gradients(_log_sum, decisions, weights)
    return Expectations(values, TreeDecisions(root, arcs, stop, go), spans[0] if spans else None)


def best_heads(decisions: TreeDecisions, weights: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Return the most probable tree (Viterbi): its log-probability, (B,), and the head of each word, (B, n).

    Heads are counted from 1; that of the root is 0. Of equally probable trees, any one. Arguments: see `log_partition`.
    """
    log_probs, chosen = _with_gradients(_largest, decisions, weights)
    return log_probs, TreeDecisions(*chosen[:4]).attached.argmax(1)


def _log_sum(values: Tensor) -> Tensor:
    return values.logsumexp(-1)


def _largest(values: Tensor) -> Tensor:
    return values.max(-1).values


def _with_gradients(
    reduction: Reduction, decisions: TreeDecisions, weights: Tensor | None
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """Return the sums or maxima over trees, (B,), and the gradients of decisions and weights. All are detached."""
    with torch.enable_grad():
        inputs = decisions if weights is None else (*decisions, weights)
        leaves = [part.detach().requires_grad_() for part in inputs]
        values = _reduced(reduction, *leaves)
        gradients = torch.autograd.grad(values.sum(), leaves, materialize_grads=True)
    return values.detach(), gradients


def _reduced(
    reduced: Reduction, root: Tensor, arcs: Tensor, stop: Tensor, go: Tensor, weights: Tensor | None = None
) -> Tensor:
    """Return the sum or maximum over all trees.

    Args:
        reduced: of the last dimension.
    """
    if weights is not None:
        return _reduced_with_spans(reduced, root, arcs, stop, go, weights)
    words = root.shape[1]
    arcs = torch.stack([arcs, arcs.flip(1, 2)])
    stop, go = (torch.stack([part[:, :, RIGHT], part[:, :, LEFT].flip(1)]) for part in (stop, go))

    # Indexed by the head's position, or by the position that the half subtree reaches to. Each width appends a column;
    # a wider span fits in fewer places, so the last or first row is dropped.
    ready = go[..., ADJACENT, None]
    complete = stop[..., ADJACENT, None]
    complete_by_end, attached = complete, complete[..., :0]
    to_end = [complete[:, :, -1, 0]]
    # open(h, j) = sum over a of attached(h, a) + complete(a, j), with attached(h, a) = arc(h, a) + sum over k of
    # ready(h, k) + complete(a, k + 1); width = j - h
    for width in range(1, words):
        ready = ready[:, :, :-1]
        complete = complete[:, :, :-1]
        attached = attached[:, :, :-1]
        complete_by_end = complete_by_end[:, :, 1:]
        # Both reversals of the other direction: its positions count from the other end of the sentence.
        new = arcs.diagonal(width, 2, 3) + reduced(ready + complete.flip(0, 2, 3))
        attached = _appended(attached, new)
        still_open = reduced(attached + complete_by_end.flip(-1))
        ready = _appended(ready, still_open + go[:, :, :-width, 0])
        stopped = still_open + stop[:, :, :-width, 0]
        complete = _appended(complete, stopped)
        complete_by_end = _appended(complete_by_end, stopped)
        to_end.append(stopped[:, :, -1])
    to_last, to_first = torch.stack(to_end, -1)  # (B, n) by width: of the heads n - 1, n - 2, ... and 0, 1, ...
    return reduced(root + to_last.flip(-1) + to_first)


def _appended(chart: Tensor, column: Tensor) -> Tensor:
    return torch.cat([chart, column[..., None]], -1)


def _reduced_with_spans(
    reduced: Reduction, root: Tensor, arcs: Tensor, stop: Tensor, go: Tensor, weights: Tensor
) -> Tensor:
    """Return the sum or maximum over all trees with weighted constituents.

    Args:
        reduced: of the last dimension.
    """
    words = root.shape[1]
    is_start = torch.eye(words, dtype=torch.bool, device=root.device)  # whether a head, the column, is the first word

    def left_decisions(log_probs: Tensor, rows: int) -> Tensor:
        """Return the left decisions of each head of a span, adjacent for its first word: (B, rows, n)."""
        return torch.where(is_start[:rows], log_probs[:, None, :, LEFT, ADJACENT], log_probs[:, None, :, LEFT, 0])

    def given_to_heads(items: Tensor) -> Tensor:
        """(B, rows, n) by head within the span -> (B, rows, n) by head outside of it."""
        done = items + left_decisions(stop, items.shape[1])
        return reduced(done[:, :, None] + arcs[:, None])

    right = weights.diagonal(1, 1, 2)
    items = torch.where(is_start, (right + stop[:, :, RIGHT, ADJACENT])[..., None], _NO_ITEM)
    # Indexed by the first or the last word of the span, then by width; see `_reduced`.
    right_ready = (right + go[:, :, RIGHT, ADJACENT])[..., None]
    ready_by_end = (items + left_decisions(go, words))[:, :, None]
    given_by_start = given_by_end = given_to_heads(items)[:, :, None]
    # item(i, j, h) = weight(i, j) + sum over k of given(h; i, k) + item(k + 1, j, h) + go(h); width = j - i
    for width in range(1, words):
        rows = words - width
        right_ready = right_ready[:, :-1]
        given_by_start = given_by_start[:, :-1]
        ready_by_end = ready_by_end[:, 1:]
        given_by_end = given_by_end[:, 1:]
        weight = weights.diagonal(width + 1, 1, 2)
        to_first = given_by_end.diagonal(0, 1, 3).transpose(1, 2)  # row i has head i, the first word
        right = weight + reduced(right_ready + to_first.flip(-1))
        left = weight[..., None] + reduced((given_by_start + ready_by_end.flip(2)).transpose(2, 3))
        items = torch.where(is_start[:rows], (right + stop[:, :rows, RIGHT, 0])[..., None], left)
        right_ready = _appended(right_ready, right + go[:, :rows, RIGHT, 0])
        given = given_to_heads(items)[:, :, None]
        ready_by_end = torch.cat([ready_by_end, (items + left_decisions(go, rows))[:, :, None]], 2)
        given_by_start, given_by_end = (torch.cat([chart, given], 2) for chart in (given_by_start, given_by_end))
    return reduced(root + (items + left_decisions(stop, 1))[:, 0])
