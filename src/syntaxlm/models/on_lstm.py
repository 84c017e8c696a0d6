"""ON-LSTM, ordered neurons, and the same model with a plain LSTM cell, AWD-LSTM.

Shen, Tan, Sordoni, Courville 2019, "Ordered Neurons: Integrating Tree Structures into Recurrent Neural Networks";
Merity, Keskar, Socher 2018, "Regularizing and Optimizing LSTM Language Models".
Shapes: T time, B batch, E embedding size, n real tokens of a batch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from syntaxlm.layers.recurrent_stack import Cell, RecurrentStack, chunk_fault
from syntaxlm.layers.rows import Rows
from syntaxlm.models.abilities import Distances, Maps
from syntaxlm.models.awd import AWDBackbone, LayersOutput, Regularisation, tied_fault
from syntaxlm.models.backbone import NeuralModel, neural_model
from syntaxlm.models.batches import State, TokenBatch


@dataclass(frozen=True)
class ONLSTMConfig:
    """Settings of ON-LSTM, and of AWD-LSTM."""

    name: Literal["on-lstm"] = "on-lstm"
    cell: Cell = "on-lstm"  # lstm: a plain LSTM's, which has no distances
    embedding_size: int = 200  # features of a token's embedding
    layer_sizes: tuple[int, ...] = (400, 400, 200)  # neurons of each layer; the last as the embedding where tied
    chunk_size: int = 10  # neurons that one master gate serves; every layer's size is a multiple of it
    tied: bool = True  # the decoder's weight is the embedding's
    dropout: float = 0.3  # rate on what the decoder reads; this one, and the next two, one mask for all steps
    layer_dropout: float = 0.2  # rate between layers
    input_dropout: float = 0.3  # rate on the embeddings that the first layer reads
    embedding_dropout: float = 0.05  # rate of word types whose embedding is 0 for a batch
    weight_drop: float = 0.2  # rate on the recurrent weights
    weight_drop_rescaled: bool = False  # true: kept weights are divided by 1 - rate, as in AWD-LSTM
    ar: float = 2.0  # alpha: weight of the last layer's mean square, added to the training loss
    ar_after_dropout: bool = False  # true: of that layer after the output dropout, as in AWD-LSTM
    tar: float = 1.0  # beta: weight of the mean square of that layer's change from step to step
    init_range: float = 0.1  # embedding and decoder start uniform in (-spread, spread)

    def __post_init__(self) -> None:
        sizes = self.layer_sizes
        if min((self.embedding_size, self.chunk_size, *sizes)) < 1 or not sizes:
            return  # told with the limits of all settings
        fault = tied_fault(self.embedding_size, sizes) if self.tied else None
        if fault:
            raise ValueError(fault)
        fault = chunk_fault(sizes, self.chunk_size) if self.cell == "on-lstm" else None
        if fault:
            raise ValueError(f"layer_sizes, chunk_size: {fault}")


class ONLSTMBackbone(AWDBackbone):
    """A recurrent stack."""

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
        self.default_layer = min(2, len(config.layer_sizes))  # published trees: the second of three, section 5.2
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
        maps = Maps(units={"input master gate by layer": overwritten})  # the share of memory that a word overwrites
        return LayersOutput(read.layers[-1], read.state, distances=distances.movedim(-1, 0), maps=maps)


def build(config: ONLSTMConfig, vocabulary_size: int) -> NeuralModel:
    return neural_model(ONLSTMBackbone(config), config, vocabulary_size)
