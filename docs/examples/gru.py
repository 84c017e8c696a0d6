"""A GRU language model that also parses: a constituent starts where its state moves far."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from syntaxlm.models.backbone import Backbone, BackboneOutput, NeuralConfig, neural_model
from syntaxlm.models.batches import State, TokenBatch
from syntaxlm.models.layers import dropout
from syntaxlm.models.structures import Distances


@dataclass(frozen=True)
class GRUConfig(NeuralConfig):
    """Settings of the GRU.

    Attributes:
        embedding_size: features of a token's embedding, and of the state
        tied: the decoder's weight is the embedding's
        dropout: rate on embeddings and on the decoder's input
        init_range: embedding and decoder start uniform in (-init_range, init_range)
    """

    name: Literal["gru"] = "gru"
    embedding_size: int = 100
    tied: bool = True
    dropout: float = 0.1
    init_range: float = 0.1


@neural_model("gru", GRUConfig)
class GRUBackbone(Backbone):
    """One layer. The distance before a word is how far the state moves when the word is read."""

    structure_type = Distances
    distance_layers = 1

    def __init__(self, config: GRUConfig) -> None:
        super().__init__()
        self.rate = config.dropout
        self.gru = nn.GRU(config.embedding_size, config.embedding_size)
        self.output_size = config.embedding_size

    def forward(self, embedded: Tensor, batch: TokenBatch, state: State) -> BackboneOutput:
        before = embedded.new_zeros(1, *embedded.shape[1:]) if state is None else state["hidden"]
        hidden, last = self.gru(dropout(embedded, self.rate, self.training), before)  # (T, B, E), (1, B, E)
        moved = (hidden - torch.cat([before, hidden[:-1]])).norm(dim=-1)
        rows = dropout(hidden, self.rate, self.training)[batch.mask()]  # real tokens only, no padding
        return BackboneOutput(rows, {"hidden": last.detach()}, distances=moved.detach()[None])
