"""A plain LSTM language model, nn.LSTM inside: the baseline of every table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from torch import Tensor, nn

from syntaxlm.layers.dropout import dropout
from syntaxlm.models.backbone import Backbone, BackboneOutput, NeuralModel, neural_model
from syntaxlm.models.batches import State, TokenBatch
from syntaxlm.settings import Fraction, Layers, Positive, Settings, Size


@dataclass(frozen=True)
class LSTMConfig(Settings, section="model"):
    """Settings of the LSTM language model."""

    name: Literal["lstm"] = "lstm"
    embedding_size: Size = 200  # features of a token's embedding
    hidden_size: Size = 400  # features of each layer's state
    layers: Layers = 2  # stacked LSTM layers
    tied: bool = True  # the decoder shares the embedding's weight; a projection is added if sizes differ
    dropout: Fraction = 0.2  # rate on embeddings and on the decoder's input
    layer_dropout: Fraction = 0.2  # rate between layers
    init_range: Positive = 0.1  # initial weights of embedding and decoder: uniform in (-init_range, init_range)


class LSTMBackbone(Backbone):
    """Stacked LSTM layers, and a projection to the embedding size if tied weights need one."""

    def __init__(self, config: LSTMConfig) -> None:
        super().__init__()
        self.config = config
        self.lstm = nn.LSTM(
            config.embedding_size,
            config.hidden_size,
            config.layers,
            dropout=config.layer_dropout if config.layers > 1 else 0.0,
        )
        projected = config.tied and config.hidden_size != config.embedding_size
        self.projection = nn.Linear(config.hidden_size, config.embedding_size) if projected else nn.Identity()
        self.output_size = config.embedding_size if config.tied else config.hidden_size

    def forward(self, embedded: Tensor, batch: TokenBatch, state: State) -> BackboneOutput:
        rate = self.config.dropout
        before = None if state is None else (state["hidden"], state["cell"])
        hidden, (last_hidden, last_cell) = self.lstm(dropout(embedded, rate, self.training), before)
        rows = hidden.flatten(0, 1) if batch.lengths is None else hidden[batch.mask()]
        rows = self.projection(dropout(rows, rate, self.training))
        return BackboneOutput(rows, {"hidden": last_hidden.detach(), "cell": last_cell.detach()})


def build(config: LSTMConfig, vocabulary_size: int) -> NeuralModel:
    return neural_model(LSTMBackbone(config), config, vocabulary_size)
