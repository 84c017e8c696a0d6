"""Stacks of recurrent layers with the dropouts of AWD-LSTM. The cells differ, the stack does not.

Shapes: B batch, E input features, D neurons, F gates, L highway layers of a step, n real tokens of a batch.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import ClassVar, cast

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from syntaxlm.models.layers import Rows, drop_weights, locked_dropout
from syntaxlm.ops.cells import States, highway, nas
from syntaxlm.ops.on_lstm import CellWeights, Recurrence, distances_of, recurrence

_CARRY_BIAS = -2.0  # initial bias of transform gates: a new highway layer keeps most of its state


class RecurrentLayer(nn.Module, ABC):
    """One layer's weights, with dropout of the recurrent weights.

    Initial weights are uniform in (-1/sqrt(D), 1/sqrt(D)).

    Args:
        input_size: E.
        recurrent: shape of the recurrent weight, (..., F, D); both biases belong to gates.
        weight_drop: rate on recurrent weights.
        rescaled: see `drop_weights`.
    """

    state_names: ClassVar[tuple[str, ...]] = ("hidden", "cell")

    def __init__(self, input_size: int, recurrent: tuple[int, ...], weight_drop: float, rescaled: bool) -> None:
        super().__init__()
        self.weight_drop, self.rescaled = weight_drop, rescaled
        *_, gates, self.size = recurrent
        self.input_weight = nn.Parameter(torch.empty(gates, input_size))
        self.input_bias = nn.Parameter(torch.empty(gates))
        self.recurrent_weight = nn.Parameter(torch.empty(recurrent))
        self.recurrent_bias = nn.Parameter(torch.empty(recurrent[:-1]))
        for weight in self.parameters():
            nn.init.uniform_(weight, -1 / math.sqrt(self.size), 1 / math.sqrt(self.size))

    @abstractmethod
    def run(self, inputs: Tensor, recurrent: Tensor, state: States, counts: Sequence[int]) -> Recurrence:
        """Run over inputs with these recurrent weights, from a state: one tensor for each of `state_names`."""

    def forward(self, inputs: Tensor, state: States | None, rows: Rows) -> Recurrence:
        """Run over inputs (n, E), real tokens in the order of `rows`.

        Args:
            state: (B, D) each, None for zeros.
        """
        if state is None:
            state = (self.recurrent_weight.new_zeros(rows.columns, self.size),) * len(self.state_names)
        recurrent = drop_weights(self.recurrent_weight, self.weight_drop, self.rescaled, self.training)
        return self.run(inputs, recurrent, state, rows.counts)


class LSTMLayer(RecurrentLayer):
    """Ordered neurons, or a plain LSTM.

    Args:
        chunk: neurons per master gate; None for a plain LSTM.

    Attributes:
        learns_distances: whether the distances of training batches have gradients.
    """

    learns_distances = False

    def __init__(self, input_size: int, size: int, chunk: int | None, weight_drop: float, rescaled: bool) -> None:
        gates = 4 * size + (0 if chunk is None else 2 * (size // chunk))
        super().__init__(input_size, (gates, size), weight_drop, rescaled)
        self.chunk = chunk

    def run(self, inputs: Tensor, recurrent: Tensor, state: States, counts: Sequence[int]) -> Recurrence:
        weights = CellWeights(self.input_weight, recurrent, self.input_bias + self.recurrent_bias, self.chunk)
        hidden, cell = state
        result = recurrence(inputs, weights, (hidden, cell), counts)
        if not (self.training and self.learns_distances):
            return result
        return result._replace(distances=distances_of(inputs, weights, hidden, result.hidden, counts))


class HighwayLayer(RecurrentLayer):
    """A recurrent highway network with coupled gates.

    Args:
        depth: L.
    """

    state_names = ("hidden",)

    def __init__(self, input_size: int, size: int, depth: int, weight_drop: float, rescaled: bool) -> None:
        super().__init__(input_size, (depth, 2 * size, size), weight_drop, rescaled)
        nn.init.constant_(self.recurrent_bias[:, size:], _CARRY_BIAS)

    def run(self, inputs: Tensor, recurrent: Tensor, state: States, counts: Sequence[int]) -> Recurrence:
        read = linear(inputs, self.input_weight, self.input_bias)
        return highway(read, recurrent, self.recurrent_bias, state, counts)


class NASLayer(RecurrentLayer):
    """The cell found by neural architecture search."""

    def __init__(self, input_size: int, size: int, weight_drop: float, rescaled: bool) -> None:
        super().__init__(input_size, (8 * size, size), weight_drop, rescaled)

    def run(self, inputs: Tensor, recurrent: Tensor, state: States, counts: Sequence[int]) -> Recurrence:
        return nas(linear(inputs, self.input_weight, self.input_bias), recurrent, self.recurrent_bias, state, counts)


class RecurrentStack(nn.Module):
    """Stacked layers with locked dropout between them.

    Args:
        input_size: features of the first layer's input.
        layer_sizes: neurons of each layer.
        layer: makes a layer of its input size and its number of neurons.
        layer_dropout: rate between layers.
    """

    def __init__(
        self,
        input_size: int,
        layer_sizes: Sequence[int],
        layer: Callable[[int, int], RecurrentLayer],
        layer_dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.layer_dropout = layer_dropout
        self.layers = nn.ModuleList(layer(before, size) for before, size in pairwise((input_size, *layer_sizes)))

    def forward(
        self, inputs: Tensor, rows: Rows, state: dict[str, Tensor] | None
    ) -> tuple[list[Recurrence], dict[str, Tensor]]:
        """Run all layers.

        Args:
            inputs: (n, E), real tokens in the order of `rows`.
            state: None at the start of a text.

        Returns:
            The output of each layer, with states before the dropout that follows it, and the state of every column
            after its last step: hidden.0, cell.0, hidden.1, ..., each (B, D).
        """
        layers: list[Recurrence] = []
        after: dict[str, Tensor] = {}
        for number, layer in enumerate(self.layers):
            if number:
                inputs = locked_dropout(layers[-1].hidden, self.layer_dropout, rows, self.training)
            names = [f"{name}.{number}" for name in cast(RecurrentLayer, layer).state_names]
            before = None if state is None else tuple(state[name] for name in names)
            layers.append(layer(inputs, before, rows))
            after |= zip(names, layers[-1].state, strict=True)
        return layers, after
