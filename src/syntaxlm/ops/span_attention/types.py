"""Types shared by all versions of span attention: its weights and its output."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

from torch import Tensor

Form = Literal["released", "paper"]


@dataclass(frozen=True)
class SpanWeights:
    """The weights of spans and of their scorer. H features of an input, R of a span, A neurons of the scorer.

    The first R / 2 features of a span are those of the forward run over its tokens, the others of the backward run.
    input: (F, H), applied to an input; its rows are the update (R) and the forget gate (R) of a token in a span, in the
        released form the gate of the attending token (R), then the attending token's side of the scorer (A).
    bias: (F - R,), for all rows except the update, which has no bias.
    span: (A, R), the span's side of the scorer; score: (A,), its last layer. None if scores are not learned: then the
        score of a span is its length, and `input` and `bias` have no rows for the scorer.
    form: released: spans are tanh(gate * runs), the update is linear; paper: spans are the runs, the update has a tanh.
    """

    input: Tensor
    bias: Tensor
    span: Tensor | None = None
    score: Tensor | None = None
    form: Form = "released"

    def __post_init__(self) -> None:
        if (self.span is None) != (self.score is None):
            raise ValueError("span and score: expected both, or neither")
        if self.size % 2 or (self.span is not None and self.span.shape[1] != self.size):
            raise ValueError(f"found {self.size} span features; expected an even number, the columns of `span`")
        scorer = 0 if self.score is None else len(self.score)
        rows = (3 if self.form == "released" else 2) * self.size + scorer
        if len(self.input) != rows:
            raise ValueError(f"the input weight has {len(self.input)} rows; expected {rows}")

    @property
    def size(self) -> int:
        """R, the features of a span."""
        return len(self.input) - len(self.bias)


class SpanReading(NamedTuple):
    """Output of span attention for n real tokens; m the longest span. Index k of m is the span of length k + 1.

    context: (n, R), the mean of the spans weighted by attention.  scores, attention: (n, m).
    """

    context: Tensor
    scores: Tensor
    attention: Tensor
