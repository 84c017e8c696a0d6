"""Types shared by all versions of the recurrence: the order of steps, the four weight sets, the output."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

EDGES = 4  # number of edge types: LEFT, RIGHT, NX-LEFT, NX-RIGHT, in the order of their codes

Counts = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Levels:
    """The order of n steps of one or more trees: sorted by path depth, then by edge type.

    parents: (n,) int64, the state that each step continues, as an index into the m states before the first step (one,
        ROOT's, for trees read whole) followed by the states of the n steps. Steps of the first depth continue one of
        the m states, all others a step of the previous depth.
    counts: for each depth, the number of steps with each of the four edge types.
    by_edge: (n,) int64, the rows sorted by edge type, in their order within a type.
    """

    parents: Tensor
    counts: Counts
    by_edge: Tensor

    @classmethod
    def of(cls, parents: Tensor, counts: Counts) -> Levels:
        """Compute `by_edge` from the counts. Raises ValueError if they do not fit the parents."""
        if sum(map(sum, counts)) != len(parents):
            raise ValueError(f"found counts of {sum(map(sum, counts))} steps, but {len(parents)} parents")
        return cls(parents, counts, torch.argsort(_edges(counts), stable=True).to(parents.device))

    @property
    def sizes(self) -> list[int]:
        """Number of steps at each depth."""
        return [sum(counts) for counts in self.counts]

    @property
    def edge_sizes(self) -> list[int]:
        """Number of steps with each edge type."""
        return [sum(counts[edge] for counts in self.counts) for edge in range(EDGES)]

    def edges(self) -> Tensor:
        """(n,) int64, each step's edge type."""
        return _edges(self.counts).to(self.parents.device)

    def to(self, device: torch.device | str) -> Levels:
        """Return the same on another device. The counts stay on the CPU, for use in Python loops."""
        parents, by_edge = (tensor.to(device, non_blocking=True) for tensor in (self.parents, self.by_edge))
        return Levels(parents, self.counts, by_edge)


def _edges(counts: Counts) -> Tensor:
    sizes = torch.tensor(counts, dtype=torch.int64).flatten()
    return torch.arange(EDGES).repeat(len(counts)).repeat_interleave(sizes)


@dataclass(frozen=True)
class EdgeWeights:
    """One weight set for each edge type, in the order of their codes; E features of an input, D of a state.

    input: (4, F, E); recurrent: (4, F, D); bias: (4, F), or None. F is D for a tanh network, the cell of equation (6),
    and 4 D for an LSTM, with gates i, f, g, o as in nn.LSTM.
    """

    input: Tensor
    recurrent: Tensor
    bias: Tensor | None = None

    def __post_init__(self) -> None:
        edges, rows, size = self.recurrent.shape
        if edges != EDGES or rows not in (size, 4 * size):
            raise ValueError(
                f"recurrent weights: found shape {(edges, rows, size)}; expected {(EDGES, size, size)} for a tanh"
                f" network or {(EDGES, 4 * size, size)} for an LSTM"
            )
        for name, weight in (("input weights", self.input), ("bias", self.bias)):
            if weight is not None and weight.shape[:2] != (edges, rows):
                raise ValueError(f"{name}: found shape {tuple(weight.shape)}; expected {edges}, {rows} first")

    @property
    def is_lstm(self) -> bool:
        return self.recurrent.shape[1] != self.recurrent.shape[2]


class States(NamedTuple):
    """The states of steps. hidden: (n, D); cells: (n, D), None for a tanh network."""

    hidden: Tensor
    cells: Tensor | None
