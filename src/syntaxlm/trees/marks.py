"""Places of punctuation marks that a model does not read, as evidence of constituents.

Most constituents that contain an inner mark (comma, dash, quote, bracket) also begin or end at a mark or at an edge of
the sentence. Spans that violate this are penalised: in training by a log-weight, in parsing by a lower value.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
import numpy.typing as npt

from syntaxlm.core.arrays import Flags, Integers
from syntaxlm.trees.charts import spans_in
from syntaxlm.trees.spans import offsets_of

Violations = npt.NDArray[np.float32]
MarkSide = Literal["both", "either", "end", "start"]

_ACCENTS = frozenset("`´")  # as quotation marks, though Unicode does not count them as punctuation
_SIGNS = frozenset("#%&*@/\\")  # read aloud as words, though Unicode counts them as punctuation


def is_mark(text: str) -> bool:
    """Return whether a text consists of punctuation marks. Currency and other signs that stand for words are none."""
    return all(
        sign in _ACCENTS or (unicodedata.category(sign)[0] == "P" and sign not in _SIGNS) for sign in text
    ) and bool(text)


def violations(marks: Flags, starts: Integers, ends: Integers, lengths: Integers | int, side: MarkSide) -> Violations:
    """Return to what extent spans with a mark inside have none at the required side.

    Args:
        marks: (B, n) whether a mark precedes each word; edges of sentences count as marks.
        starts: (K,) start of each span, in words.
        ends: (K,) end of each span, exclusive.
        lengths: (B,) number of words, or one for all.
        side: where a span needs a mark: at its end, at its start, at either of them, or at both, where a span without a
            mark at one side only is in violation by a quarter.

    Returns:
        (B, K), 0 to 1. Spans that exceed a sentence have arbitrary values.
    """
    length = marks.shape[1]
    before = np.zeros((len(marks), length + 1), np.int32)  # marks before each word, the first one included
    np.cumsum(marks, axis=1, out=before[:, 1:])
    inside = before[:, np.minimum(ends, length)] > before[:, np.minimum(starts + 1, length)]
    at_edge = np.concatenate([marks, np.ones((len(marks), 1), bool)], axis=1)
    at_edge[:, 0] = True
    no_start = inside & ~at_edge[:, starts]
    no_end = inside & ~at_edge[:, np.minimum(ends, length)] & (ends != np.reshape(lengths, (-1, 1)))
    match side:
        case "start":
            return no_start.astype(np.float32)
        case "end":
            return no_end.astype(np.float32)
        case "either":
            return (no_start & no_end).astype(np.float32)
        case "both":
            return np.where(no_start & no_end, 1, (no_start | no_end) / 4).astype(np.float32)


@dataclass(frozen=True, eq=False)
class Marks:
    """Marks of the sentences of a corpus, and the side of spans at which one is required.

    Attributes:
        before: (N,) whether a mark precedes each word, sentence after sentence.
        lengths: (S,) number of words.
    """

    before: Flags
    lengths: Integers
    side: MarkSide

    def violations(self, chosen: Integers, length: int) -> Violations:
        """Return the violations of spans of sentences of one length: (n(n + 1)/2, B), see `charts`.

        Args:
            chosen: (B,) indices of the sentences.
        """
        marks = self.before[self._offsets[chosen][:, None] + np.arange(length)]
        return violations(marks, *spans_in(length), length, self.side).T

    @cached_property
    def _offsets(self) -> Integers:
        return offsets_of(self.lengths)
