"""The structures from which trees are decoded: distances, scores and probabilities of spans, or heads."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class Distances:
    """Syntactic distances between each token and the preceding one; large at constituent boundaries.

    values: (layers, T, B).
    """

    values: Tensor


@dataclass(frozen=True)
class SpanScores:
    """Log-probability of each span among the spans that end at the same token.

    values: (T, B, m); row t has the spans of 1 to m tokens that end at token t - 1, -inf where there is no such span.
    """

    values: Tensor


@dataclass(frozen=True)
class SpanMarginals:
    """The posterior probability of each span of two or more words, and its most probable label.

    values: (B, n, n), indexed by first and last word, both inclusive; n is the longest sentence's number of words. 0
        where there is no span.
    labels: (B, n, n) int64, indices into `LabelsSpans.labels`, including those of single words; -1 where there is no
        span; None unless requested.
    """

    values: Tensor
    labels: Tensor | None = None


@dataclass(frozen=True)
class Heads:
    """The most probable dependency tree.

    values: (B, n) int64, position of each word's head, counted from 1; 0 for the root, -1 on padding.
    """

    values: Tensor


Structure = Distances | SpanScores | SpanMarginals | Heads
"""A parser's output for a batch. The decoders of each type are in `parsing.structure`."""
