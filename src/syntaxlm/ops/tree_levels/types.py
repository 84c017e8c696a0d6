"""What the two forms of the recurrence share: where steps stand, the four weight sets, what comes out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

EDGES = 4  # types: LEFT, RIGHT, NX-LEFT, NX-RIGHT, in the order of their codes

Counts = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Levels:
    """Where n steps of one or many trees stand: sorted by path depth and, within a depth, by edge type.

    parents: (n,) int64, the state that each step continues from, in a pool of the m states that there are before the
        first step (of trees read whole one, ROOT's) and then those of the n steps. Steps of the first depth continue
        from one of the m, every other from a step of the depth before its own.
    counts: of each depth, how many steps have an edge of each of the four types.
    by_edge: (n,) int64, the rows sorted by edge type, and within a type as they stand.
    """

    parents: Tensor
    counts: Counts
    by_edge: Tensor

    @classmethod
    def of(cls, parents: Tensor, counts: Counts) -> Levels:
        """With `by_edge`, made from the counts. Raises ValueError where these are not of as many steps as parents."""
        if sum(map(sum, counts)) != len(parents):
            raise ValueError(f"counts are of {sum(map(sum, counts))} steps, parents of {len(parents)}")
        return cls(parents, counts, torch.argsort(_edges(counts), stable=True).to(parents.device))

    @property
    def sizes(self) -> list[int]:
        """How many steps each depth has."""
        return [sum(counts) for counts in self.counts]

    @property
    def edge_sizes(self) -> list[int]:
        """How many steps have an edge of each type."""
        return [sum(counts[edge] for counts in self.counts) for edge in range(EDGES)]

    def edges(self) -> Tensor:
        """(n,) int64, each step's edge type."""
        return _edges(self.counts).to(self.parents.device)

    def to(self, device: torch.device | str) -> Levels:
        """The same on another device (counts stay where they are: loops read them on the host)."""
        parents, by_edge = (tensor.to(device, non_blocking=True) for tensor in (self.parents, self.by_edge))
        return Levels(parents, self.counts, by_edge)


def _edges(counts: Counts) -> Tensor:
    sizes = torch.tensor(counts, dtype=torch.int64).flatten()
    return torch.arange(EDGES).repeat(len(counts)).repeat_interleave(sizes)


@dataclass(frozen=True)
class EdgeWeights:
    """One weight set for each edge type, in the order of their codes; E features of an input, D of a state.

    input: (4, F, E); recurrent: (4, F, D); bias: (4, F), or None. F is D for a tanh network, the cell of equation (6),
    and 4 D for an LSTM: its gates are i, f, g, o, as nn.LSTM has them.
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
    """The states of steps. hidden: (n, D); cells: (n, D), or None of a tanh network."""

    hidden: Tensor
    cells: Tensor | None
