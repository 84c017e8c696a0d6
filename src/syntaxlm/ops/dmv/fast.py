"""Sums and maxima over the projective dependency trees of sentences of one length, in O(n^3).

A head generates its left and right dependents independently, so each half of a subtree is a chart item of its own: an
item is a span and the end of it that is the head (Eisner 1996). For the half of head h that reaches to j:

    attached[h, a] = arcs[h, a] + sum_k ready[h, k] + complete[a, k + 1]      the half of a towards h
    open[h, j] = sum_a attached[h, a] + complete[a, j]
    ready[h, j] = open[h, j] + go[h, 0]            ready[h, h] = go[h, ADJACENT]
    complete[h, j] = open[h, j] + stop[h, 0]       complete[h, h] = stop[h, ADJACENT]

All spans of one width are computed at once, and so are both directions: left halves are right halves of the reversed
sentence. Charts are [direction, sentence, position, width]; the wider the one part of a span, the narrower the other,
so the sum over all divisions of all spans is a sum over the last dimension of a chart and a reversed chart. Counts and
best trees are gradients of the sum and of the maximum, which autograd computes by the outside pass.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from syntaxlm.ops.dmv.types import ADJACENT, LEFT, RIGHT, Decisions

Reduction = Callable[[Tensor], Tensor]


def log_partition(decisions: Decisions) -> Tensor:
    """Return natural log-probability of the words of each sentence, summed over its trees: (B,). Differentiable.

    decisions: natural log-probabilities, finite: `ZERO` for impossible decisions.
    """
    return _reduced(decisions, log_sum)


def expected_counts(decisions: Decisions) -> tuple[Tensor, Decisions]:
    """Return `log_partition`, (B,), and how often each decision is expected under the posterior of the trees."""
    values, counts = with_gradients(lambda *parts: _reduced(Decisions(*parts), log_sum), *decisions)
    return values, Decisions(*counts)


def best_heads(decisions: Decisions) -> tuple[Tensor, Tensor]:
    """Return the most probable tree (Viterbi): its log-probability, (B,), and the head of each word, (B, n).

    Heads are counted from 1; that of the root is 0. Of equally probable trees, any one.
    """
    log_probs, chosen = with_gradients(lambda *parts: _reduced(Decisions(*parts), largest), *decisions)
    return log_probs, Decisions(*chosen).attached.argmax(1)


def log_sum(values: Tensor) -> Tensor:
    return values.logsumexp(-1)


def largest(values: Tensor) -> Tensor:
    return values.max(-1).values


def with_gradients(function: Callable[..., Tensor], *inputs: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
    """Return the values of a function, and the gradients of their sum with respect to each input. Both are detached."""
    with torch.enable_grad():
        leaves = [one.detach().requires_grad_() for one in inputs]
        values = function(*leaves)
        gradients = torch.autograd.grad(values.sum(), leaves, materialize_grads=True)
    return values.detach(), gradients


def _reduced(decisions: Decisions, reduced: Reduction) -> Tensor:
    """Return the sum or maximum over all trees. reduced: of the last dimension."""
    root, arcs, stop, go = decisions
    words = root.shape[1]
    arcs = torch.stack([arcs, arcs.flip(1, 2)])
    stop, go = (torch.stack([part[:, :, RIGHT], part[:, :, LEFT].flip(1)]) for part in (stop, go))
    # Indexed by the head's position, or by the position that the half subtree reaches to. Each width appends a column;
    # a wider span fits in fewer places, so the last or first row is dropped.
    ready, complete = go[..., ADJACENT, None], stop[..., ADJACENT, None]
    complete_by_end, attached = complete, complete[..., :0]
    to_end = [complete[:, :, -1, 0]]
    for width in range(1, words):
        ready, complete, attached = ready[:, :, :-1], complete[:, :, :-1], attached[:, :, :-1]
        complete_by_end = complete_by_end[:, :, 1:]
        # Both reversals of the other direction: its positions count from the other end of the sentence.
        new = arcs.diagonal(width, 2, 3) + reduced(ready + complete.flip(0, 2, 3))
        attached = appended(attached, new)
        still_open = reduced(attached + complete_by_end.flip(-1))
        ready = appended(ready, still_open + go[:, :, :-width, 0])
        stopped = still_open + stop[:, :, :-width, 0]
        complete, complete_by_end = appended(complete, stopped), appended(complete_by_end, stopped)
        to_end.append(stopped[:, :, -1])
    to_last, to_first = torch.stack(to_end, -1)  # (B, n) by width: of the heads n - 1, n - 2, ... and 0, 1, ...
    return reduced(root + to_last.flip(-1) + to_first)


def appended(chart: Tensor, column: Tensor) -> Tensor:
    return torch.cat([chart, column[..., None]], -1)
