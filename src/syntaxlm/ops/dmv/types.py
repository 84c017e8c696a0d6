"""The decisions that generate a dependency tree."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

LEFT, RIGHT = 0, 1  # the side of a head
ADJACENT = 1  # no dependent on this side yet; 0: one or more

ZERO = -1e5
"""The natural logarithm that stands for probability 0. It is finite, so that gradients are numbers, and so low that no
tree of real probabilities reaches half of it. Trees of a sentence that is impossible are compared by their number of
impossible decisions first."""


class Decisions(NamedTuple):
    """A number for each decision in the trees of B sentences of n words: natural log-probabilities, or counts.

    root: (B, n), that a word is the root.
    arcs: (B, n, n), that a head, the second index, chooses a dependent, the third; the diagonal is not used.
    stop: (B, n, 2, 2), that a head takes no more dependents, by side (LEFT, RIGHT) and by whether it has none there yet
        (ADJACENT) or some (0).
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
