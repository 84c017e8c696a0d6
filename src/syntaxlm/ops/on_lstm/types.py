"""Types shared by all versions of the recurrence: a layer's weights, its output, and what backward needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

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


class Kept(NamedTuple):
    """Tensors for backward. befores: (n, D), hidden state before each row's step, in the dtype of products.

    cells: (B + n, D), starting with those before the first step. gates: activated, (n, F) from C, (n, 4D) from torch,
    which stores softmaxes and sums of the master gates, (n, 2, K) each, separately.
    """

    befores: Tensor
    cells: Tensor
    gates: Tensor
    softmaxes: Tensor | None = None
    sums: Tensor | None = None


class Made(NamedTuple):
    """Results of the steps of a sequence; other fields as in `Recurrence`."""

    kept: Kept
    states: Tensor
    distances: Tensor
    input_distances: Tensor


class Gradients(NamedTuple):
    """Gradients that the steps of a sequence are given.

    states: of all hidden states as outputs, (n, D).  hidden, cells: of the last states of all columns, (B, D) each.
    """

    states: Tensor
    hidden: Tensor
    cells: Tensor


class Forward(Protocol):
    """The steps of a sequence, without their matrix products, which the caller computes between them."""

    def before(self, t: int) -> Tensor:
        """Return the hidden states before step t, (r, D), in the dtype of products."""
        ...

    def step(self, t: int, product: Tensor) -> None:
        """Step t. product: the recurrent side of its logits, (r, F)."""
        ...

    def made(self) -> Made:
        """Return the results, after the last step."""
        ...


class Backward(Protocol):
    """The steps of a sequence backward, from the last to the first."""

    def step(self, t: int, product: Tensor | None) -> Tensor:
        """Return the gradient of the logits of step t, (r, F), in the dtype of products.

        product: that of the hidden states through step t + 1; None at the last step.
        """
        ...

    def ended(self) -> tuple[Tensor, Tensor]:
        """Return after the first step: the gradients of all logits, (n, F), and of the first cells, (B, D)."""
        ...
