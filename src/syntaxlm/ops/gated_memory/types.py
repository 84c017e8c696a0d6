"""What the gated memory's two forms share: constants, the comparison of distances, a layer's weights."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

ATTENTION_EPSILON = 1e-8  # keeps a memory whose gates are all 0 from dividing by 0


@dataclass(frozen=True)
class Comparison:
    """alpha, how much larger one distance is than another, in [0, 1]: equation (6).

    hard: (hardtanh(scale * difference + shift) + 1) / 2; soft: sigmoid(scale * difference + shift).
    An infinite scale is the limit: 0 or 1 by the sign of the difference, and at a tie what the shift alone gives.
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
    """One reading layer's weights on the recurrent side, and the masks of this forward pass (None: no dropout).

    key: (H, H), on h_{t-1}, None where keys do not read it; recurrent: (4H, H), on the attended h, rows i, f, g, o;
    recurrent_bias, gain, bias: (4H,); cell_gain, cell_bias: (H,). Masks are divided by the rate kept: key_input_mask,
    key_output_mask: (n, H), row by row; recurrent_mask: (H,), one for the whole batch and chunk.
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
