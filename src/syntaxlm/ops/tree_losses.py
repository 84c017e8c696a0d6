"""Losses of given trees: of hidden states that should follow them (TreeReg), and of distances that should (ranking).

Nandi, Manning, Murty 2025, "Sneaking Syntax into Transformer Language Models with Tree Regularization": the state after
a constituent should say little about what precedes it, so its part that is orthogonal to the state before the
constituent should be long. Du et al. 2020, "Exploiting Syntactic Structure for Better Language Modeling: A Syntactic
Distance Approach": a gap that splits a larger constituent should have a larger distance.

Spans are (k, 3) int64: column, first and last word, both inclusive, without repetitions. A tree may have nodes with
more than two children: every gap between two children is a correct split. Gap g is between words g and g + 1.
Shapes: n words of the longest sentence, B sentences, S features, k spans, c pairs of a span and a gap in it.
"""

from __future__ import annotations

import torch
from torch import Tensor

from syntaxlm.ops.backend import with_reference

_SMALLEST_SQUARE = 1e-12  # smallest squared length, and smallest length by which a vector is divided


def orthogonal_lengths(states: Tensor) -> Tensor:
    """Return the length of the part of each state that is orthogonal to an earlier one: (n, B, S) -> (B, n, n).

    Entry [b, i, j], 1 <= i <= j: of state j, relative to state i - 1. Row 0 and entries with i > j are 0.
    """
    words = len(states)
    with torch.autocast(states.device.type, enabled=False):
        rows = states.to(torch.promote_types(states.dtype, torch.float32)).transpose(0, 1)
        before = rows / torch.linalg.vector_norm(rows, dim=-1, keepdim=True).clamp(min=_SMALLEST_SQUARE)
        along = before[:, :-1] @ rows.transpose(1, 2)
        squares = rows.square().sum(-1)[:, None] - along.square()
    inside = torch.ones(words, words, dtype=torch.bool, device=states.device).triu()[1:]
    lengths = squares.clamp(min=_SMALLEST_SQUARE).sqrt() * inside
    return torch.cat([lengths.new_zeros(len(lengths), 1, words), lengths], 1)


def split_scores_of_spans(orthogonal: Tensor) -> Tensor:
    """Return the score of each span by first and last word, whose sum over both parts of a split is the split's score.

    SCIN of the paper: orth(i, j) + orth(j + 1, j + 1), the second 0 for a last word.

    Args:
        orthogonal: (B, n, n), see `orthogonal_lengths`, of sentences of n words.
    """
    after = torch.diagonal(orthogonal, dim1=1, dim2=2)[:, 1:]
    return orthogonal + torch.nn.functional.pad(after, (0, 1))[:, None]


def tree_regularisation_reference(states: Tensor, spans: Tensor, word_starts: Tensor | None = None) -> Tensor:
    """Return `tree_regularisation` as its equations, span by span."""
    orthogonal, losses = orthogonal_lengths(states), []
    for column in range(states.shape[1]):
        span_losses = []
        here = {(first, last) for where, first, last in spans.tolist() if where == column}
        for first, last in here:
            gaps = [gap for gap in range(first, last) if word_starts is None or word_starts[gap + 1, column]]
            if len(gaps) < 2:
                continue
            inner = [span for span in here if span != (first, last) and first <= span[0] and span[1] <= last]
            scores = torch.stack(
                [orthogonal[column, first, gap] + orthogonal[column, gap + 1, [gap + 1, last]].sum() for gap in gaps]
            )
            correct = [not any(begin <= gap < end for begin, end in inner) for gap in gaps]
            span_losses.append(scores.logsumexp(0) - scores[torch.tensor(correct)].logsumexp(0))
        losses.append(torch.stack(span_losses).mean() if span_losses else 0 * orthogonal.sum())
    return torch.stack(losses).mean()


@with_reference(tree_regularisation_reference)
def tree_regularisation(states: Tensor, spans: Tensor, word_starts: Tensor | None = None) -> Tensor:
    """Return the loss of TreeReg: -ln P(correct split) by a softmax over the splits of a span, as a scalar.

    The score of splitting i..j after word k is orth(i, k) + orth(k + 1, j) + orth(k + 1, k + 1). The mean over the
    spans of a sentence with two possible splits or more, then over all sentences, 0 for those without such spans.

    Args:
        states: (n, B, S), those after each word.
        spans: (k, 3), with whole sentences.
        word_starts: (n, B) bool, for tokens that are pieces of words: whether a token begins a word, before which spans
            may be split; None if all do.
    """
    orthogonal = orthogonal_lengths(states)
    (column, first, last) = spans.unbind(1)

    # All pairs of a span and a possible split, and whether the split is correct.
    span, gap = gaps_of(first, last)
    if word_starts is not None:
        is_possible = word_starts[gap + 1, column[span]]
        span, gap = span[is_possible], gap[is_possible]
    correct = _lowest_spans(spans, span, gap, states.shape[:2])

    # Spans with a single possible split have no loss.
    splits = torch.bincount(span, minlength=len(spans))
    has_choice = splits[span] > 1
    span = span[has_choice]
    gap = gap[has_choice]
    correct = correct[has_choice]

    # -ln P(correct split) of each span, then means over the spans of a sentence and over sentences.
    here = column[span]
    start = first[span]
    end = last[span]
    scores = orthogonal[here, start, gap] + orthogonal[here, gap + 1, end] + orthogonal[here, gap + 1, gap + 1]
    losses = _log_sums(scores, span, len(spans)) - _log_sums(scores[correct], span[correct], len(spans))
    counted = torch.bincount(column[splits > 1], minlength=states.shape[1])
    return (losses[splits > 1] / counted[column[splits > 1]]).sum() / states.shape[1]


def gaps_of(first: Tensor, last: Tensor) -> tuple[Tensor, Tensor]:
    """Return the gaps within all spans: the index of the span, and the gap, (c,) each."""
    counts = last - first
    span = torch.repeat_interleave(counts)
    before = (counts.cumsum(0) - counts)[span]
    return span, first[span] + torch.arange(len(span), device=span.device) - before


def _lowest_spans(spans: Tensor, span: Tensor, gap: Tensor, shape: torch.Size) -> Tensor:
    """Return whether the span of each pair is the smallest one with the gap, so that a split there is correct: (c,)."""
    column, first, last = spans.unbind(1)
    ranks = (last - first) * len(spans) + torch.arange(len(spans), device=spans.device)
    places = gap * shape[1] + column[span]
    lowest = ranks.new_full((shape.numel(),), torch.iinfo(torch.int64).max)
    lowest.scatter_reduce_(0, places, ranks[span], "amin")
    return lowest[places] == ranks[span]


def _log_sums(values: Tensor, groups: Tensor, count: int) -> Tensor:
    """Return ln of the sum of exp(values) of each group: (c,), (c,) -> (count,); -inf for an empty group."""
    most = values.detach().new_full((count,), -torch.inf).scatter_reduce_(0, groups, values.detach(), "amax")
    sums = values.new_zeros(count).index_add(0, groups, (values - most[groups]).exp())
    return most + sums.log()


def distance_ranking_reference(distances: Tensor, lengths: Tensor, spans: Tensor, margin: float) -> Tensor:
    """Return `distance_ranking` as its equations, pair by pair."""
    pairs = {
        (outer, inner, column)
        for column, first, last in spans.tolist()
        for outer in (first, last + 1)  # the distance of a word belongs to the gap before it
        if outer < lengths[column]
        for inner in range(first + 1, last + 1)
    }
    if not pairs:
        return 0 * distances.sum()
    terms = [margin - (distances[outer, column] - distances[inner, column]) for outer, inner, column in pairs]
    return torch.stack(terms).clamp(min=0).mean()


@with_reference(distance_ranking_reference)
def distance_ranking(distances: Tensor, lengths: Tensor, spans: Tensor, margin: float) -> Tensor:
    """Return the mean over pairs of gaps of max(0, margin - (d_outer - d_inner)), as a scalar; 0 without pairs.

    A pair is a gap in a span and one of the two gaps beside the span, which splits a larger constituent. Pairs of gaps
    that split two constituents of which neither holds the other do not affect the tree. They are left out; the authors'
    program has them, too.

    Args:
        distances: (n, B); that of a word belongs to the gap before it.
        lengths: (B,), words of each sentence; the gap after its last word has no distance.
        spans: (k, 3).
    """
    words, (column, first, last) = len(distances), spans.unbind(1)

    # A key for each pair: column, outer gap, inner gap, each as the word after it.
    span, inner = gaps_of(first, last)
    inner, keys = inner + 1, []
    for outer in (first, last + 1):
        has_distance = (outer < lengths[column])[span]
        keys.append((((column * words + outer)[span]) * words + inner)[has_distance])
    pairs = torch.unique(torch.cat(keys))  # nested spans with a common side share pairs
    if not len(pairs):
        return 0 * distances.sum()
    places, inner = pairs // words, pairs % words
    column, outer = places // words, places % words
    return (margin - (distances[outer, column] - distances[inner, column])).clamp(min=0).mean()
