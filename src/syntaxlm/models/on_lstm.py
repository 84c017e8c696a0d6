"""ON-LSTM (ordered neurons); with a plain LSTM cell, AWD-LSTM.

Shen, Tan, Sordoni, Courville 2019, "Ordered Neurons: Integrating Tree Structures into Recurrent Neural Networks";
Merity, Keskar, Socher 2018, "Regularizing and Optimizing LSTM Language Models".
Shapes: T time, B batch, E embedding size, n real tokens of a batch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from syntaxlm.core.settings import Fraction, NonNegative, Positive, Settings, Size
from syntaxlm.models.abilities import Maps
from syntaxlm.models.backbone import neural_model
from syntaxlm.models.batches import State, TokenBatch
from syntaxlm.models.layers import Cell, RecurrentStack, Rows, chunk_fault
from syntaxlm.models.lstm import AWDBackbone, LayerSizes, LayersOutput, Regularisation, tied_faults
from syntaxlm.models.structures import Distances


@dataclass(frozen=True)
class ONLSTMConfig(Settings, section="model"):
    """Settings of ON-LSTM and AWD-LSTM."""

    name: Literal["on-lstm"] = "on-lstm"
    cell: Cell = "on-lstm"  # lstm: plain LSTM (AWD-LSTM), without distances
    embedding_size: Size = 200  # features of a token's embedding
    layer_sizes: LayerSizes = (400, 400, 200)  # neurons of each layer; if tied, the last equals embedding_size
    chunk_size: Size = 10  # neurons that share one master gate; divides every layer's size
    tied: bool = True  # the decoder shares the embedding's weight
    dropout: Fraction = 0.3  # rate on the decoder's input; this and the next two use one mask for all steps
    layer_dropout: Fraction = 0.2  # rate between layers
    input_dropout: Fraction = 0.3  # rate on the embeddings that the first layer reads
    embedding_dropout: Fraction = 0.05  # rate of word types whose embedding is 0 for a batch
    weight_drop: Fraction = 0.2  # rate on the recurrent weights
    weight_drop_rescaled: bool = False  # true: kept weights are divided by 1 - rate, as in AWD-LSTM
    ar: NonNegative = 2.0  # activation regularisation, alpha: weight of the mean square of the last layer's states
    ar_after_dropout: bool = False  # true: the penalty applies after the output dropout, as in AWD-LSTM
    tar: NonNegative = 1.0  # temporal AR, beta: weight of the mean square of their change per step
    init_range: Positive = 0.1  # initial weights of embedding and decoder: uniform in (-init_range, init_range)

    def contradictions(self) -> list[str]:
        faults = tied_faults(self.embedding_size, self.layer_sizes) if self.tied else []
        fault = chunk_fault(self.layer_sizes, self.chunk_size) if self.cell == "on-lstm" else None
        return [*faults, f"chunk_size: {fault}"] if fault else faults


@neural_model("on-lstm", ONLSTMConfig)
class ONLSTMBackbone(AWDBackbone):
    """A stack of recurrent layers."""

    def __init__(self, config: ONLSTMConfig) -> None:
        super().__init__(
            Regularisation(
                config.embedding_dropout,
                config.input_dropout,
                config.dropout,
                config.ar,
                config.ar_after_dropout,
                config.tar,
            ),
            config.layer_sizes[-1],
        )
        self.config = config
        if config.cell == "on-lstm":
            self.structure_type, self.has_maps, self.distance_layers = Distances, True, len(config.layer_sizes)
        self.default_layer = min(2, len(config.layer_sizes))  # the published trees use layer 2 of 3, section 5.2
        self.stack = RecurrentStack(
            config.embedding_size,
            config.layer_sizes,
            config.cell,
            config.chunk_size,
            config.layer_dropout,
            config.weight_drop,
            config.weight_drop_rescaled,
        )

    def read_layers(self, inputs: Tensor, rows: Rows, batch: TokenBatch, state: State) -> LayersOutput:
        read = self.stack(inputs, rows, state)
        if read.distances is None or read.input_distances is None:
            return LayersOutput(read.layers[-1], read.state)
        distances, overwritten = (rows.padded(part.T) for part in (read.distances, read.input_distances))
        maps = Maps(units={"input master gate by layer": overwritten})  # the fraction of memory that a word overwrites
        return LayersOutput(read.layers[-1], read.state, distances=distances.movedim(-1, 0), maps=maps)
