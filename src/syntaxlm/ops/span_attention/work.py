"""Arrays that the kernels of span attention read and write."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Layout:
    """Positions of time-major rows on the tape, where each column's tokens are contiguous.

    The m carried tokens of a column come before its first step.
    places, rows: (n,) int64, position and row of each query, in the order of the tape.
    of_rows: (n,), the position of each row; of_carried: (m * B,), of each carried token. length: of the tape.
    """

    places: Tensor
    rows: Tensor
    of_rows: Tensor
    of_carried: Tensor
    length: int

    @classmethod
    def of(cls, counts: tuple[int, ...], columns: int, maximum: int, device: torch.device) -> Layout:
        per_step = torch.tensor(counts)
        starts = per_step.cumsum(0) - per_step
        steps = torch.arange(len(counts)).repeat_interleave(per_step)
        column = torch.arange(len(steps)) - starts[steps]
        lengths = (per_step[:, None] > torch.arange(columns)).sum(0) + maximum
        begins = lengths.cumsum(0) - lengths
        of_rows = begins[column] + maximum + steps
        of_carried = (begins + torch.arange(maximum)[:, None]).flatten()
        rows = of_rows.argsort()
        return cls(
            of_rows[rows].to(device), rows.to(device), of_rows.to(device), of_carried.to(device), int(lengths.sum())
        )


@dataclass(frozen=True)
class Work:
    """R features of a span, A neurons of the scorer, m longest span, N positions of the tape, F of `SpanWeights`.

    places, rows: as in `Layout`. features: (n, F), of every row, in the dtype of products. tape: (N, 2R), u and f of
    every token. score_weight: (A,), None if the attention is given. attentions: (n, m).
    Only in forward: scores (n, m), contexts (n, R).
    """

    size: int
    scorer: int
    maximum: int
    released: bool
    places: Tensor
    rows: Tensor
    features: Tensor
    tape: Tensor
    score_weight: Tensor | None
    attentions: Tensor
    scores: Tensor | None = None
    contexts: Tensor | None = None


@dataclass(frozen=True)
class Gradients:
    """Computed: of the tape (N, 2R), by adding to it; of the features (n, F), in the dtype of products.

    Given: of the contexts (n, R); of the scores and the attentions (n, m), None for zeros.
    """

    tape: Tensor
    features: Tensor
    contexts: Tensor
    scores: Tensor | None
    attentions: Tensor | None
