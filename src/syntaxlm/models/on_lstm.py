"""ON-LSTM (ordered neurons), and the models it is compared with: AWD-LSTM, recurrent highway network, NAS cell.

Shen, Tan, Sordoni, Courville 2019, "Ordered Neurons: Integrating Tree Structures into Recurrent Neural Networks";
Merity, Keskar, Socher 2018, "Regularizing and Optimizing LSTM Language Models";
Melis, Dyer, Blunsom 2017, "On the State of the Art of Evaluation in Neural Language Models" (skip connections).
The other cells: `ops/cells`.
Shapes: T time, B batch, E embedding size, n real tokens of a batch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor

from syntaxlm.core.settings import Layers, NonNegative, Positive, Size
from syntaxlm.models.abilities import Maps
from syntaxlm.models.backbone import (
    AWDBackbone,
    AWDConfig,
    BackboneOutput,
    neural_model,
    ranking_penalty,
    with_tree_states,
)
from syntaxlm.models.batches import State, TokenBatch
from syntaxlm.models.config import TreeLoss
from syntaxlm.models.layers import Rows
from syntaxlm.models.recurrent import HighwayLayer, LSTMLayer, NASLayer, RecurrentLayer, RecurrentStack
from syntaxlm.models.structures import Distances, SplitScores


@dataclass(frozen=True)
class ONLSTMConfig(AWDConfig):
    """Settings of ON-LSTM (Shen et al. 2019, tables 1 and 2) and the other recurrent models of its table 1.

    Attributes:
        cell: type of the recurrent cell; only on-lstm computes distances, and lstm is the AWD-LSTM
        highway_depth: highway layers that a state passes at each step, with cell highway
        skip: whether the output is the sum of all layers' states, which needs equal layer_sizes
        chunk_size: neurons that share one master gate; divides every layer's size
        weight_drop_rescaled: whether kept weights are divided by 1 - rate, as in AWD-LSTM
        supervision: weight of the loss on text.trees; the loss ranks distances, and with other cells it is TreeReg
        margin: with supervision, by how much a distance must exceed the distances inside the neighbouring constituents
        ar_after_dropout: whether the AR penalty applies after the output dropout, as in AWD-LSTM
    """

    name: Literal["on-lstm"] = "on-lstm"
    cell: Literal["on-lstm", "lstm", "highway", "nas"] = "on-lstm"
    highway_depth: Layers = 5
    skip: bool = False
    chunk_size: Size = 10
    weight_drop_rescaled: bool = False
    supervision: NonNegative = 0.0
    margin: Positive = 0.1
    ar_after_dropout: bool = False

    @property
    def tree_loss(self) -> TreeLoss:
        return "distances" if self.cell == "on-lstm" else "states"

    def contradictions(self) -> list[str]:
        faults = super().contradictions()
        if self.cell == "on-lstm" and any(size % self.chunk_size for size in self.layer_sizes):
            faults.append(
                f"chunk_size: layers of {', '.join(map(str, self.layer_sizes))} neurons with chunks of"
                f" {self.chunk_size}: every size must be a multiple of the chunk's"
            )
        if self.skip and len(set(self.layer_sizes)) > 1:
            faults.append(
                f"skip: layers of {', '.join(map(str, self.layer_sizes))} neurons; expected equal layer_sizes, because"
                " the states of all layers are added"
            )
        return faults


def _layer_maker(config: ONLSTMConfig) -> Callable[[int, int], RecurrentLayer]:
    """Return a function that makes a layer: (features of its input, number of neurons) -> layer."""
    drop: dict[str, Any] = {"weight_drop": config.weight_drop, "rescaled": config.weight_drop_rescaled}
    if config.cell == "highway":
        return partial(HighwayLayer, depth=config.highway_depth, **drop)
    if config.cell == "nas":
        return partial(NASLayer, **drop)
    return partial(LSTMLayer, chunk=config.chunk_size if config.cell == "on-lstm" else None, **drop)


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
            self.structure_type = SplitScores if config.supervision else None
            self.has_maps = False
        self.default_layer = min(2, len(config.layer_sizes))  # the published trees use layer 2 of 3, section 5.2
        self.stack = RecurrentStack(
            config.embedding_size, config.layer_sizes, _layer_maker(config), config.layer_dropout
        )
        if config.cell == "on-lstm" and config.supervision:
            layer = self.stack.layers[self.default_layer - 1]
            assert isinstance(layer, LSTMLayer)
            layer.learns_distances = True

    def read_layers(self, inputs: Tensor, rows: Rows, batch: TokenBatch, state: State) -> BackboneOutput:
        layers, after = self.stack(inputs, rows, state)
        config, hidden = self.config, layers[-1].hidden
        if config.skip:
            hidden = torch.stack([layer.hidden for layer in layers]).sum(0)
        if config.cell != "on-lstm":
            padded = rows.padded(hidden) if config.supervision else hidden
            return with_tree_states(BackboneOutput(hidden, after), padded, batch, config.supervision, self.training)

        # Given trees order the distances of the layer by which the model parses.
        distances = torch.stack([rows.padded(layer.distances) for layer in layers])
        weight = config.supervision if self.training else 0.0
        penalties = ranking_penalty(distances[self.default_layer - 1], batch, weight, config.margin)

        # The fraction of memory that a word overwrites, for drawing.
        overwritten = torch.stack([rows.padded(layer.input_distances) for layer in layers], -1)
        maps = Maps(units={"input master gate by layer": overwritten})
        return BackboneOutput(hidden, after, penalties, distances=distances.detach(), maps=maps)
