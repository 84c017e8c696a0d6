"""ON-LSTM (ordered neurons); with a plain LSTM cell, AWD-LSTM.

Shen, Tan, Sordoni, Courville 2019, "Ordered Neurons: Integrating Tree Structures into Recurrent Neural Networks";
Merity, Keskar, Socher 2018, "Regularizing and Optimizing LSTM Language Models".
Shapes: T time, B batch, E embedding size, n real tokens of a batch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from syntaxlm.core.settings import NonNegative, Positive, Size
from syntaxlm.models.abilities import Maps
from syntaxlm.models.backbone import (
    AWDBackbone,
    AWDConfig,
    BackboneOutput,
    TreeLoss,
    neural_model,
    ranking_penalty,
    with_tree_states,
)
from syntaxlm.models.batches import State, TokenBatch
from syntaxlm.models.layers import RecurrentLayer, RecurrentStack, Rows
from syntaxlm.models.structures import Distances, SplitScores


@dataclass(frozen=True)
class ONLSTMConfig(AWDConfig, section="model"):
    """Settings of ON-LSTM (Shen et al. 2019, tables 1 and 2) and AWD-LSTM (Merity et al. 2018, table 1)."""

    name: Literal["on-lstm"] = "on-lstm"
    cell: Literal["on-lstm", "lstm"] = "on-lstm"  # lstm: plain LSTM (AWD-LSTM), without distances
    chunk_size: Size = 10  # neurons that share one master gate; divides every layer's size
    weight_drop_rescaled: bool = False  # true: kept weights are divided by 1 - rate, as in AWD-LSTM
    supervision: NonNegative = 0.0  # weight of the loss of text.trees: a ranking of distances; TreeReg with cell lstm
    margin: Positive = 0.1  # by which a distance must exceed those within the constituents beside it, with supervision
    ar_after_dropout: bool = False  # true: the AR penalty applies after the output dropout, as in AWD-LSTM

    @property
    def tree_loss(self) -> TreeLoss:
        """How the model learns from trees."""
        return "distances" if self.cell == "on-lstm" else "states"

    def contradictions(self) -> list[str]:
        faults = super().contradictions()
        if self.cell == "on-lstm" and any(size % self.chunk_size for size in self.layer_sizes):
            faults.append(
                f"chunk_size: layers of {', '.join(map(str, self.layer_sizes))} neurons with chunks of"
                f" {self.chunk_size}: every size must be a multiple of the chunk's"
            )
        return faults


@neural_model("on-lstm", ONLSTMConfig)
class ONLSTMBackbone(AWDBackbone):
    """A stack of recurrent layers."""

    structure_type: type[Distances | SplitScores] | None = Distances
    has_maps = True

    def __init__(self, config: ONLSTMConfig) -> None:
        super().__init__(config, config.ar_after_dropout)
        self.config = config
        if config.cell == "on-lstm":
            self.distance_layers = len(config.layer_sizes)
        else:
            self.structure_type, self.has_maps = SplitScores if config.supervision else None, False
        self.default_layer = min(2, len(config.layer_sizes))  # the published trees use layer 2 of 3, section 5.2
        self.stack = RecurrentStack(
            config.embedding_size,
            config.layer_sizes,
            config.chunk_size if config.cell == "on-lstm" else None,
            config.layer_dropout,
            config.weight_drop,
            config.weight_drop_rescaled,
        )
        if config.cell == "on-lstm" and config.supervision:
            layer = self.stack.layers[self.default_layer - 1]
            assert isinstance(layer, RecurrentLayer)
            layer.learns_distances = True

    def read_layers(self, inputs: Tensor, rows: Rows, batch: TokenBatch, state: State) -> BackboneOutput:
        layers, after = self.stack(inputs, rows, state)
        config, hidden = self.config, layers[-1].hidden
        if config.cell == "lstm":
            padded = rows.padded(hidden) if config.supervision else hidden
            return with_tree_states(BackboneOutput(hidden, after), padded, batch, config.supervision, self.training)
        distances = torch.stack([rows.padded(layer.distances) for layer in layers])
        learned, weight = distances[self.default_layer - 1], config.supervision if self.training else 0.0
        penalties = ranking_penalty(learned, batch, weight, config.margin)
        # The fraction of memory that a word overwrites.
        overwritten = torch.stack([rows.padded(layer.input_distances) for layer in layers], -1)
        maps = Maps(units={"input master gate by layer": overwritten})
        return BackboneOutput(hidden, after, penalties, distances=distances.detach(), maps=maps)
