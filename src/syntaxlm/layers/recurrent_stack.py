"""A stack of ON-LSTM or plain LSTM layers of any sizes, with the dropouts of AWD-LSTM."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from types import ModuleType
from typing import Literal

import torch
from torch import Tensor, nn

from syntaxlm.errors import InputError
from syntaxlm.layers.dropout import drop_weights, locked_dropout
from syntaxlm.layers.rows import Rows
from syntaxlm.ops import on_lstm
from syntaxlm.ops.on_lstm import CellWeights, Recurrence

Cell = Literal["on-lstm", "lstm"]


def chunk_fault(layer_sizes: Sequence[int], chunk_size: int) -> str | None:
    """The error if the chunk size does not divide every layer's size."""
    if all(size % chunk_size == 0 for size in layer_sizes):
        return None
    sizes = ", ".join(map(str, layer_sizes))
    return f"layers of {sizes} neurons with chunks of {chunk_size}: every size must be a multiple of the chunk's"


@dataclass(frozen=True)
class StackOutput:
    """Output of a stack for a batch of n real tokens.

    layers: states of each layer, (n, D), before the dropout that follows it.
    state: hidden.0, cell.0, hidden.1, ..., each (B, D), of every column after its last step.
    distances, input_distances: (layers, n), detached; None for plain LSTMs.
    """

    layers: list[Tensor]
    state: dict[str, Tensor]
    distances: Tensor | None
    input_distances: Tensor | None


class RecurrentLayer(nn.Module):
    """One layer's weights, with dropout of the recurrent weights. E inputs, D neurons, F gates.

    Initial weights are uniform in (-1/sqrt(D), 1/sqrt(D)). chunk: neurons per master gate; None for a plain LSTM.
    """

    def __init__(self, input_size: int, size: int, chunk: int | None, weight_drop: float, rescaled: bool) -> None:
        super().__init__()
        self.size, self.chunk, self.weight_drop, self.rescaled = size, chunk, weight_drop, rescaled
        width = 4 * size + (0 if chunk is None else 2 * (size // chunk))
        self.input_weight = nn.Parameter(torch.empty(width, input_size))
        self.input_bias = nn.Parameter(torch.empty(width))
        self.recurrent_weight = nn.Parameter(torch.empty(width, size))
        self.recurrent_bias = nn.Parameter(torch.empty(width))
        for weight in self.parameters():
            nn.init.uniform_(weight, -1 / math.sqrt(size), 1 / math.sqrt(size))

    def forward(self, inputs: Tensor, state: tuple[Tensor, Tensor] | None, rows: Rows, ops: ModuleType) -> Recurrence:
        """inputs: (n, E), real tokens in the order of `rows`; state: hidden and cell, (B, D) each, None for zeros."""
        if state is None:
            zeros = self.recurrent_weight.new_zeros(rows.columns, self.size)
            state = zeros, zeros
        weights = CellWeights(
            self.input_weight,
            drop_weights(self.recurrent_weight, self.weight_drop, self.rescaled, self.training),
            self.input_bias + self.recurrent_bias,
            self.chunk,
        )
        result: Recurrence = ops.recurrence(inputs, weights, state, rows.counts)
        return result


class RecurrentStack(nn.Module):
    """Stacked layers with locked dropout between them.

    input_size: features of the first layer's input; layer_sizes: neurons of each layer.
    chunk_size: neurons per master gate.
    layer_dropout: rate between layers; weight_drop: rate on recurrent weights; rescaled: see `drop_weights`.
    Raises InputError if the chunk size does not divide every layer's size.
    """

    def __init__(
        self,
        input_size: int,
        layer_sizes: Sequence[int],
        cell: Cell = "on-lstm",
        chunk_size: int = 10,
        layer_dropout: float = 0.0,
        weight_drop: float = 0.0,
        rescaled: bool = False,
    ) -> None:
        super().__init__()
        fault = chunk_fault(layer_sizes, chunk_size) if cell == "on-lstm" else None
        if fault:
            raise InputError(fault)
        chunk = chunk_size if cell == "on-lstm" else None
        self.layer_dropout = layer_dropout
        self.layers = nn.ModuleList(
            RecurrentLayer(before, size, chunk, weight_drop, rescaled)
            for before, size in pairwise((input_size, *layer_sizes))
        )
        self.ops: ModuleType = on_lstm  # benchmarks replace it by the reference

    def forward(self, inputs: Tensor, rows: Rows, state: dict[str, Tensor] | None) -> StackOutput:
        """inputs: (n, E), real tokens in the order of `rows`; state: None at the start of a text."""
        readings: list[Recurrence] = []
        after: dict[str, Tensor] = {}
        for number, layer in enumerate(self.layers):
            if number:
                inputs = locked_dropout(readings[-1].hidden, self.layer_dropout, rows, self.training)
            names = f"hidden.{number}", f"cell.{number}"
            before = None if state is None else (state[names[0]], state[names[1]])
            readings.append(layer(inputs, before, rows, self.ops))
            after |= zip(names, readings[-1].state, strict=True)
        return StackOutput(
            [reading.hidden for reading in readings],
            after,
            _stacked([reading.distances for reading in readings]),
            _stacked([reading.input_distances for reading in readings]),
        )


def _stacked(parts: list[Tensor | None]) -> Tensor | None:
    there = [part for part in parts if part is not None]
    return torch.stack(there) if there else None
