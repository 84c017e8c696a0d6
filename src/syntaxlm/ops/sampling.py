"""Draws from distributions, and binary trees whose splits are drawn from the root down."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

Values = npt.NDArray[np.floating]
TreeSpans = list[tuple[int, int]]
"""Start and end of the spans of two words or more of a binary tree."""

Split = Callable[[int, int, int], tuple[int, int, int]]
"""(start, width, symbol) of a span -> width of its left part, symbols of both parts; those of words do not matter."""


def draw_from(sums: Values, generator: np.random.Generator, omitted: int = 0) -> int:
    """Sample an index from a distribution's cumulative sums.

    Args:
        omitted: number of the first indices not allowed.
    """
    below = float(sums[omitted - 1]) if omitted else 0.0
    point = below + generator.random() * (float(sums[-1]) - below)
    return min(int(np.searchsorted(sums, point, side="right")), len(sums) - 1)


def draw(weights: Values, generator: np.random.Generator) -> int:
    """Sample an index of flattened weights in proportion to them."""
    return draw_from(weights.ravel().cumsum(dtype=np.float64), generator)


def top_down_tree(length: int, symbol: int, split: Split) -> TreeSpans:
    """Return the tree over words [0, length) whose spans are split one after another.

    Args:
        symbol: the symbol of the whole span.
    """
    spans, open_spans = [], [(0, length, symbol)]
    while open_spans:
        start, width, of_span = open_spans.pop()
        if width > 1:
            spans.append((start, start + width))
            left, *symbols = split(start, width, of_span)
            open_spans += [(start + left, width - left, symbols[1]), (start, left, symbols[0])]
    return spans
