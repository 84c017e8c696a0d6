"""Common code of models with AWD-LSTM's regularisation: dropout before and after the layers, activation penalties.

Merity, Keskar, Socher 2018, "Regularizing and Optimizing LSTM Language Models".
Shapes: T time, B batch, E embedding size, D neurons of the last layer, n real tokens of a batch.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated

from pydantic import Field
from torch import Tensor, nn

from syntaxlm.layers.dropout import embed_with_dropout, locked_dropout
from syntaxlm.layers.rows import Rows
from syntaxlm.models.abilities import Maps
from syntaxlm.models.backbone import Backbone, BackboneOutput
from syntaxlm.models.batches import State, TokenBatch
from syntaxlm.settings import Size

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
        """inputs: (n, E), real tokens in the order of `rows`; state: None at the start of a text."""

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
        """The first layer's input: the rows of the real tokens of (T, B, E), and their embeddings, (n, E)."""
        steps, columns, _ = embedded.shape
        rows = Rows(steps, columns, batch.lengths, embedded.device)
        return rows, locked_dropout(rows.of(embedded), self.regularisation.input_dropout, rows, self.training)

    def _penalties(self, states: Tensor, dropped: Tensor, rows: Rows) -> dict[str, Tensor]:
        """AR and TAR (section 4.6) as means; TAR always applies to the states before dropout."""
        penalties = {}
        if self.regularisation.ar:
            active = dropped if self.regularisation.after_dropout else states
            penalties["ar"] = self.regularisation.ar * active.square().mean()
        if self.regularisation.tar and len(rows.counts) > 1:
            penalties["tar"] = self.regularisation.tar * rows.changes(states).square().mean()
        return penalties


def tied_faults(embedding_size: int, layer_sizes: Sequence[int]) -> list[str]:
    """The error if the last layer's size does not fit tied weights."""
    if layer_sizes[-1] == embedding_size:
        return []
    return [f"layer_sizes: the last is {layer_sizes[-1]}; tied weights need embedding_size, {embedding_size}"]
