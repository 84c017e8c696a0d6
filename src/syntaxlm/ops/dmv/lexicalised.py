"""Dependency trees whose constituents have weights: sums and maxima in O(n^4) for sentences of one length.

The constituents are those of the binary tree in which a head joins its right dependents first, closest first, then its
left ones. The weight of a constituent depends on both of its ends, so a chart item is a span with its head, and halves
of subtrees (see `fast`) are not enough. For the span from i to j with head h:

    right[i, j] = weight[i, j] + sum_k right[i, k] + go[i] + given[i; k + 1, j]
    item[i, j, i] = right[i, j] + stop[i, RIGHT]
    item[i, j, h] = weight[i, j] + sum_k given[h; i, k] + item[k + 1, j, h] + go[h]      h > i
    given[h; i, j] = sum_a arcs[h, a] + item[i, j, a] + stop[a, LEFT]

All spans of one width and all heads are computed at once. Counts and best trees are gradients, as in `fast`.
"""

from __future__ import annotations

import torch
from torch import Tensor

from syntaxlm.ops.dmv.fast import Reduction, appended, largest, log_sum, with_gradients
from syntaxlm.ops.dmv.types import ADJACENT, LEFT, RIGHT, ZERO, Decisions

_NEVER = 1e4 * ZERO  # of what is no item; lower than any number of impossible decisions


def expected_counts_with_spans(decisions: Decisions, weights: Tensor) -> tuple[Tensor, Decisions, Tensor]:
    """Return the log of the sum over trees, (B,), and expected counts under the distribution of the weighted trees.

    weights: (B, n, n + 1) natural logarithms, by first word and by the word after the last; those of spans of one word
        are in every tree.
    Returns the sums, the counts of decisions, and the probability that each span is a constituent, like `weights`.
    """
    values, (posteriors, *counts) = with_gradients(
        lambda weights, *parts: _reduced(Decisions(*parts), weights, log_sum), weights, *decisions
    )
    return values, Decisions(*counts), posteriors


def log_partition_with_spans(decisions: Decisions, weights: Tensor) -> Tensor:
    """Return the log of the sum over trees alone, (B,)."""
    return _reduced(decisions, weights, log_sum)


def best_heads_with_spans(decisions: Decisions, weights: Tensor) -> Tensor:
    """Return the heads of the tree with the largest weight (Viterbi): (B, n), from 1, 0 for the root."""
    _, chosen = with_gradients(lambda *parts: _reduced(Decisions(*parts), weights, largest), *decisions)
    return Decisions(*chosen).attached.argmax(1)


def _reduced(decisions: Decisions, weights: Tensor, reduced: Reduction) -> Tensor:
    """Return the sum or maximum over all trees. reduced: of the last dimension."""
    root, arcs, stop, go = decisions
    words = root.shape[1]
    is_start = torch.eye(words, dtype=torch.bool, device=root.device)  # whether a head, the column, is the first word

    def left_decisions(log_probs: Tensor, rows: int) -> Tensor:
        """Return of each head of a span: adjacent if it is the first word. (B, rows, n)."""
        return torch.where(is_start[:rows], log_probs[:, None, :, LEFT, ADJACENT], log_probs[:, None, :, LEFT, 0])

    def given_to_heads(items: Tensor) -> Tensor:
        """(B, rows, n) by head within the span -> (B, rows, n) by head outside of it."""
        done = items + left_decisions(stop, items.shape[1])
        return reduced(done[:, :, None] + arcs[:, None])

    right = weights.diagonal(1, 1, 2)
    items = torch.where(is_start, (right + stop[:, :, RIGHT, ADJACENT])[..., None], _NEVER)
    # Indexed by the first or the last word of the span, then by width; see `fast`.
    right_ready = (right + go[:, :, RIGHT, ADJACENT])[..., None]
    ready_by_end = (items + left_decisions(go, words))[:, :, None]
    given_by_start = given_by_end = given_to_heads(items)[:, :, None]
    for width in range(1, words):
        rows = words - width
        right_ready, given_by_start = right_ready[:, :-1], given_by_start[:, :-1]
        ready_by_end, given_by_end = ready_by_end[:, 1:], given_by_end[:, 1:]
        weight = weights.diagonal(width + 1, 1, 2)
        to_first = given_by_end.diagonal(0, 1, 3).transpose(1, 2)  # row i has head i, the first word
        right = weight + reduced(right_ready + to_first.flip(-1))
        left = weight[..., None] + reduced((given_by_start + ready_by_end.flip(2)).transpose(2, 3))
        items = torch.where(is_start[:rows], (right + stop[:, :rows, RIGHT, 0])[..., None], left)
        right_ready = appended(right_ready, right + go[:, :rows, RIGHT, 0])
        given = given_to_heads(items)[:, :, None]
        ready_by_end = torch.cat([ready_by_end, (items + left_decisions(go, rows))[:, :, None]], 2)
        given_by_start, given_by_end = (torch.cat([chart, given], 2) for chart in (given_by_start, given_by_end))
    return reduced(root + (items + left_decisions(stop, 1))[:, 0])
