"""The decoder: from hidden states to words."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from syntaxlm.ops.softmax import target_log_probs


class Decoder(nn.Module):
    """A linear layer and a softmax over words. tied_to: the embedding whose weight the layer shares."""

    def __init__(self, size: int, vocabulary_size: int, tied_to: nn.Embedding | None = None) -> None:
        super().__init__()
        if tied_to is not None and tied_to.embedding_dim != size:
            raise ValueError(f"tied weights need inputs of the embedding's size, {tied_to.embedding_dim}, not {size}")
        self.weight = tied_to.weight if tied_to is not None else nn.Parameter(torch.empty(vocabulary_size, size))
        self.bias = nn.Parameter(torch.zeros(vocabulary_size))

    def initialise(self, init_range: float) -> None:
        """Weights uniform in (-init_range, init_range), bias 0."""
        nn.init.uniform_(self.weight, -init_range, init_range)
        nn.init.zeros_(self.bias)

    def forward(self, rows: Tensor) -> Tensor:
        """Logits. (..., E) -> (..., V)."""
        return linear(rows, self.weight, self.bias)

    def log_probs(self, rows: Tensor, targets: Tensor) -> Tensor:
        """Log-probability of each row's target. (n, E), (n,) -> (n,)."""
        return target_log_probs(rows, self.weight, self.bias, targets)
