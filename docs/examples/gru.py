"""A GRU language model that also parses: where its state moves far, constituents part."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from syntaxlm.layers.dropout import dropout
from syntaxlm.models.backbone import Backbone, BackboneOutput, NeuralModel
from syntaxlm.models.contract import State, Syntax, TokenBatch
from syntaxlm.settings import Fraction, Positive, Settings, Size


@dataclass(frozen=True)
class GRUConfig(Settings, section="model"):
    """Settings of the GRU."""

    name: Literal["gru"] = "gru"
    embedding_size: Size = 100  # features of a token's embedding, and of the state
    tied: bool = True  # the decoder shares the embedding's weight
    dropout: Fraction = 0.1  # rate on embeddings and on what the decoder reads
    init_range: Positive = 0.1  # initial weights of embedding and decoder: uniform in (-init_range, init_range)


class GRUCore(Backbone):
    """One layer. The distance before a word is how far the state moves when the word is read."""

    distance_layers = 1

    def __init__(self, config: GRUConfig) -> None:
        super().__init__()
        self.rate = config.dropout
        self.gru = nn.GRU(config.embedding_size, config.embedding_size)
        self.output_size = config.embedding_size

    def forward(self, embedded: Tensor, batch: TokenBatch, state: State) -> BackboneOutput:
        before = embedded.new_zeros(1, *embedded.shape[1:]) if state is None else state["hidden"]
        hidden, last = self.gru(dropout(embedded, self.rate, self.training), before)  # (T, B, E), (1, B, E)
        moved = hidden - torch.cat([before, hidden[:-1]])
        rows = dropout(hidden, self.rate, self.training)[batch.mask()]  # real tokens only, no padding
        return BackboneOutput(
            rows, {"hidden": last.detach()}, syntax=Syntax(distances=moved.norm(dim=-1).detach()[None])
        )


def build(config: GRUConfig, vocabulary_size: int) -> NeuralModel:
    return NeuralModel(GRUCore(config), vocabulary_size, config.embedding_size, config.tied, config.init_range)
