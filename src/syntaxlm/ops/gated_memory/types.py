"""Types shared by all versions of the gated memory: constants, the comparison of distances, a layer's weights."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

ATTENTION_EPSILON = 1e-8  # avoids division by 0 if all gates are 0


@dataclass(frozen=True)
class Comparison:
    """alpha, how much larger one distance is than another, in [0, 1]: equation (6).

    hard: (hardtanh(scale * difference + shift) + 1) / 2; soft: sigmoid(scale * difference + shift).
    An infinite scale is the limit: 0 or 1 by the sign of the difference; for equal distances, that of the shift.
    """

    scale: float
    shift: float
    hard: bool

    def __call__(self, query: Tensor, distance: Tensor) -> Tensor:
        difference = query - distance
        if math.isinf(self.scale):
            tie = torch.full_like(difference, self.shift)
            return torch.where(difference == 0, self._squash(tie), (difference > 0).to(difference.dtype))
        return self._squash(difference * self.scale + self.shift)

    def _squash(self, value: Tensor) -> Tensor:
        if self.hard:
            return (torch.nn.functional.hardtanh(value) + 1) / 2
        return torch.sigmoid(value)


@dataclass(frozen=True)
class ReaderWeights:
    """One reading layer's recurrent weights, and the dropout masks of a forward pass (None: no dropout).

    key: (H, H), applied to h_{t-1}, None if keys do not read it; recurrent: (4H, H), applied to the attended h, rows i,
    f, g, o; recurrent_bias, gain, bias: (4H,); cell_gain, cell_bias: (H,). Masks are scaled by 1 / (1 - rate).
    key_input_mask, key_output_mask: (n, H), one per row; recurrent_mask: (H,), one for the whole batch and chunk.
    """

    key: Tensor | None
    recurrent: Tensor
    recurrent_bias: Tensor
    gain: Tensor
    bias: Tensor
    cell_gain: Tensor
    cell_bias: Tensor
    key_input_mask: Tensor | None = None
    key_output_mask: Tensor | None = None
    recurrent_mask: Tensor | None = None
