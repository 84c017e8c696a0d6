"""Normalisation layers."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn

from syntaxlm.layers.value_ranges import NON_NEGATIVE
from syntaxlm.ops.layer_norm import layer_norm


class LayerNorm(nn.Module):
    """gain (x - mean) / (std + 1e-6) + bias, std with Bessel's correction, as in PRPN. nn.LayerNorm has neither."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.ones(size))
        self.bias = nn.Parameter(torch.zeros(size))

    def forward(self, rows: Tensor) -> Tensor:
        """(..., size) -> (..., size), in the dtype of the weights."""
        return layer_norm(rows, self.gain, self.bias)


class RowBatchNorm(nn.BatchNorm1d):
    """Batch normalisation over rows, (n, size) -> (n, size), in the dtype of the weights.

    Rows are real tokens only, as padding must not affect the statistics. A single row has no variance: it is normalised
    with the running statistics and does not update them.
    """

    value_ranges: ClassVar = {"running_var": NON_NEGATIVE}

    def forward(self, input: Tensor) -> Tensor:
        rows = input.to(self.weight.dtype)
        if self.training and len(rows) < 2:
            return nn.functional.batch_norm(
                rows, self.running_mean, self.running_var, self.weight, self.bias, False, 0.0, self.eps
            )
        return super().forward(rows)
