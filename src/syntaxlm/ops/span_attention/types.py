"""What the two forms of span attention share: its weights, and what comes out of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

from torch import Tensor

Form = Literal["released", "paper"]


@dataclass(frozen=True)
class SpanWeights:
    """The weights of spans and of their scorer. H features of an input, R of a span, A neurons of the scorer.

    A span's first R / 2 features are those of the forward run over its tokens, the others of the backward run.
    input: (F, H), what is made of an input, by rows: the update (R) and the forget gate (R) of the token in a span, in
        the released form the gate of the token that attends (R), then that token's side of the scorer (A).
    bias: (F - R,), of all but the update, which has none.
    span: (A, R), the span's side of the scorer; score: (A,), its last layer. None where scores are not learned: the
        score of a span is its length, and there are no rows of the scorer in `input` and `bias`.
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
            raise ValueError(f"a span of {self.size} features; expected an even number, that of span's columns")
        scorer = 0 if self.score is None else len(self.score)
        rows = (3 if self.form == "released" else 2) * self.size + scorer
        if len(self.input) != rows:
            raise ValueError(f"the input weight has {len(self.input)} rows; expected {rows}")

    @property
    def size(self) -> int:
        """R, the features of a span."""
        return len(self.input) - len(self.bias)


class SpanReading(NamedTuple):
    """What span attention makes of n real tokens; m the longest span. Place k of m is the span of length k + 1.

    context: (n, R), the mean of the spans by their attention.  scores, attention: (n, m).
    """

    context: Tensor
    scores: Tensor
    attention: Tensor
