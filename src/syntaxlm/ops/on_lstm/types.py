"""Types shared by all versions of the recurrence: a layer's weights and its output."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from torch import Tensor


@dataclass(frozen=True)
class CellWeights:
    """One layer's weights; E features of its input, D of its state.

    chunk: C, number of adjacent neurons that share a master gate, K = D / C; None for a plain LSTM.
    input: (F, E); recurrent: (F, D); bias: (F,), the sum of both sides' biases. The F rows are, for ordered neurons,
    input master (K), forget master (K), o, g, i, f (D each), as in the released weights; for a plain LSTM i, f, g, o,
    as in nn.LSTM.
    """

    input: Tensor
    recurrent: Tensor
    bias: Tensor
    chunk: int | None

    def __post_init__(self) -> None:
        size, chunk = self.recurrent.shape[1], self.chunk
        if chunk is not None and size % chunk:
            raise ValueError(f"{size} neurons cannot be divided into chunks of {chunk}")
        rows = 4 * size + (0 if chunk is None else 2 * (size // chunk))
        if len(self.recurrent) != rows:
            raise ValueError(f"the recurrent weight has {len(self.recurrent)} rows; expected {rows}")


class Recurrence(NamedTuple):
    """A layer's output for a sequence of n real tokens.

    hidden: (n, D).  state: hidden and cell, each (B, D), of every column after its own last step.
    distances: (n,), 1 - mean of the forget master gate.  input_distances: (n,), mean of the input master gate. Both
    are detached, and None for a plain LSTM.
    """

    hidden: Tensor
    state: tuple[Tensor, Tensor]
    distances: Tensor | None
    input_distances: Tensor | None
