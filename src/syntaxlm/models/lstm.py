"""A plain LSTM or Elman RNN language model, nn.LSTM or nn.RNN inside: the baseline of every table."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Literal

from pydantic import Field
from torch import Tensor, nn

from syntaxlm.core.settings import Fraction, Layers, Positive, Settings, Size
from syntaxlm.models.abilities import Maps
from syntaxlm.models.backbone import Backbone, BackboneOutput, neural_model
from syntaxlm.models.batches import State, TokenBatch
from syntaxlm.models.layers import Rows, dropout, embed_with_dropout, locked_dropout

# Common code of models with AWD-LSTM's regularisation: dropout before and after the layers, activation penalties.
#
# Merity, Keskar, Socher 2018, "Regularizing and Optimizing LSTM Language Models".
# Shapes: T time, B batch, E embedding size, D neurons of the last layer, n real tokens of a batch.


LayerSizes = Annotated[tuple[Size, ...], Field(min_length=1, max_length=100)]


@dataclass(frozen=True)
class Regularisation:
    """Dropout rates of word types, of the first layer's input and of the decoder's input; weights of AR and TAR.

    after_dropout: whether AR applies to the last layer's states after the output dropout; otherwise before it.
    """

    embedding_dropout: float
    input_dropout: float
    dropout: float
    ar: float
    after_dropout: bool
    tar: float


@dataclass(frozen=True)
class LayersOutput:
    """Output of the layers. states: (n, D), of the last layer; state: for the next batch; others as in
    `BackboneOutput`.
    """

    states: Tensor
    state: dict[str, Tensor]
    penalties: dict[str, Tensor] = field(default_factory=dict)
    distances: Tensor | None = None
    maps: Maps = field(default_factory=Maps)


class AWDBackbone(Backbone):
    """Layers with locked dropout before and after them, and the activation penalties."""

    def __init__(self, regularisation: Regularisation, output_size: int) -> None:
        super().__init__()
        self.regularisation, self.output_size = regularisation, output_size

    @abstractmethod
    def read_layers(self, inputs: Tensor, rows: Rows, batch: TokenBatch, state: State) -> LayersOutput:
        """Return inputs: (n, E), real tokens in the order of `rows`; state: None at the start of a text."""

    def embed(self, embedding: nn.Embedding, tokens: Tensor) -> Tensor:
        return embed_with_dropout(embedding, tokens, self.regularisation.embedding_dropout, self.training)

    def forward(self, embedded: Tensor, batch: TokenBatch, state: State) -> BackboneOutput:
        rows, inputs = self.enter(embedded, batch)
        read = self.read_layers(inputs, rows, batch, state)
        hidden = locked_dropout(read.states, self.regularisation.dropout, rows, self.training)
        return BackboneOutput(
            hidden,
            {name: part.detach() for name, part in read.state.items()},
            self._penalties(read.states, hidden, rows) | read.penalties if self.training else {},
            read.distances,
            read.maps,
        )

    def enter(self, embedded: Tensor, batch: TokenBatch) -> tuple[Rows, Tensor]:
        """Return the first layer's input: the rows of the real tokens of (T, B, E), and their embeddings, (n, E)."""
        steps, columns, _ = embedded.shape
        rows = Rows(steps, columns, batch.lengths, embedded.device)
        return rows, locked_dropout(rows.of(embedded), self.regularisation.input_dropout, rows, self.training)

    def _penalties(self, states: Tensor, dropped: Tensor, rows: Rows) -> dict[str, Tensor]:
        """Return AR and TAR (section 4.6) as means; TAR always applies to the states before dropout."""
        penalties = {}
        if self.regularisation.ar:
            active = dropped if self.regularisation.after_dropout else states
            penalties["ar"] = self.regularisation.ar * active.square().mean()
        if self.regularisation.tar and len(rows.counts) > 1:
            penalties["tar"] = self.regularisation.tar * rows.changes(states).square().mean()
        return penalties


def tied_faults(embedding_size: int, layer_sizes: Sequence[int]) -> list[str]:
    """Return the error if the last layer's size does not fit tied weights."""
    if layer_sizes[-1] == embedding_size:
        return []
    return [f"layer_sizes: the last is {layer_sizes[-1]}; tied weights need embedding_size, {embedding_size}"]


@dataclass(frozen=True)
class LSTMConfig(Settings, section="model"):
    """Settings of the LSTM language model."""

    name: Literal["lstm"] = "lstm"
    cell: Literal["lstm", "rnn"] = "lstm"  # rnn: the tanh network of Elman 1990
    embedding_size: Size = 200  # features of a token's embedding
    hidden_size: Size = 400  # features of each layer's state
    layers: Layers = 2  # stacked layers
    tied: bool = True  # the decoder shares the embedding's weight; a projection is added if sizes differ
    dropout: Fraction = 0.2  # rate on embeddings and on the decoder's input
    layer_dropout: Fraction = 0.2  # rate between layers
    init_range: Positive = 0.1  # initial weights of embedding and decoder: uniform in (-init_range, init_range)


@neural_model("lstm", LSTMConfig)
class LSTMBackbone(Backbone):
    """Stacked recurrent layers, and a projection to the embedding size if tied weights need one."""

    def __init__(self, config: LSTMConfig) -> None:
        super().__init__()
        self.config = config
        cell = nn.RNN if config.cell == "rnn" else nn.LSTM
        self.lstm = cell(  # the name of the weights in stored models
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
        hidden, after = self._read(dropout(embedded, rate, self.training), state)
        rows = hidden.flatten(0, 1) if batch.lengths is None else hidden[batch.mask()]
        rows = self.projection(dropout(rows, rate, self.training))
        return BackboneOutput(rows, {name: part.detach() for name, part in after.items()})

    def _read(self, inputs: Tensor, state: State) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the states of the last layer, (T, B, D), and the state for the next batch."""
        if self.config.cell == "rnn":
            hidden, last = self.lstm(inputs, None if state is None else state["hidden"])
            return hidden, {"hidden": last}
        hidden, (last, cell) = self.lstm(inputs, None if state is None else (state["hidden"], state["cell"]))
        return hidden, {"hidden": last, "cell": cell}
