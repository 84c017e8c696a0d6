"""Decoder of dependency-tree models: a softmax for each edge type, or one for all."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import torch
from torch import Tensor, nn

from syntaxlm.layers.softmax import Decoder
from syntaxlm.ops.tree_levels.types import EDGES, Levels

RowValues = Callable[[Decoder, Tensor, Tensor], Tensor]
"""Maps a decoder, its input rows and their targets to one or more values per row."""


class EdgeDecoder(nn.Module):
    """softmax(W_ho[a_t] h_t), with one decoder for each edge type or, if `shared`, one for all."""

    def __init__(self, size: int, vocabulary_size: int, shared: bool) -> None:
        super().__init__()
        self.shared = shared
        self.decoders = nn.ModuleList(Decoder(size, vocabulary_size) for _ in range(1 if shared else EDGES))

    def initialise(self, init_range: float) -> None:
        """Weights uniform in (-init_range, init_range), biases 0."""
        for decoder in self.decoders:
            cast(Decoder, decoder).initialise(init_range)

    def log_probs(self, rows: Tensor, targets: Tensor, levels: Levels) -> Tensor:
        """Log-probability of each row's target: (n, D), (n,) -> (n,). levels: of the rows."""
        return self.by_edge(rows, targets, levels, Decoder.log_probs)

    def all_log_probs(self, rows: Tensor, levels: Levels) -> Tensor:
        """Log-probability of every word at each row: (n, D) -> (n, V). levels: of the rows."""
        no_targets = levels.by_edge  # unused; any tensor with one entry per row
        return self.by_edge(rows, no_targets, levels, lambda decoder, some, _: decoder(some).log_softmax(-1))

    def by_edge(self, rows: Tensor, targets: Tensor, levels: Levels, values: RowValues) -> Tensor:
        """The result of `values` for the rows of each decoder, in the order of the rows: (n, ...)."""
        if self.shared:
            return values(cast(Decoder, self.decoders[0]), rows, targets)
        groups = zip(
            self.decoders,
            rows.index_select(0, levels.by_edge).split(levels.edge_sizes),
            targets.index_select(0, levels.by_edge).split(levels.edge_sizes),
            strict=True,
        )
        found = torch.cat([values(cast(Decoder, decoder), *group) for decoder, *group in groups])
        return torch.empty_like(found).index_copy(0, levels.by_edge, found)
