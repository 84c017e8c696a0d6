"""Minimal pairs: which of two sentences is likelier, and at which words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Annotated, Literal

from pydantic import Field

from syntaxlm.scoring.surprisal import WordSurprisal

Likelier = Literal["first", "second", "equal"]


@dataclass(frozen=True)
class AlignedWord:
    """Words of two sentences that are aligned.

    A word may be missing, if the other sentence has a word more here.
    """

    first: Annotated[int | None, Field(description="Index of a word of the first sentence.")]
    second: Annotated[int | None, Field(description="Index of the aligned word of the second sentence.")]
    difference: Annotated[float, Field(description="Bits of the second minus bits of the first.")]

    @property
    def places(self) -> tuple[int | None, int | None]:
        return self.first, self.second


def align(first: Sequence[WordSurprisal], second: Sequence[WordSurprisal]) -> list[AlignedWord]:
    """Align the words of two sentences: equal ones, and between these the others one by one, in order."""
    matcher = SequenceMatcher(None, [row.word for row in first], [row.word for row in second], autojunk=False)
    columns = []
    for _, start, end, other_start, other_end in matcher.get_opcodes():
        for step in range(max(end - start, other_end - other_start)):
            place = start + step if start + step < end else None
            other = other_start + step if other_start + step < other_end else None
            columns.append(AlignedWord(place, other, _bits(second, other) - _bits(first, place)))
    return columns


def _bits(rows: Sequence[WordSurprisal], place: int | None) -> float:
    return 0.0 if place is None else rows[place].surprisal or 0.0


def likelier(difference: float) -> Likelier:
    """Return which sentence is likelier. difference: bits of the second minus bits of the first."""
    return "equal" if difference == 0 else "first" if difference > 0 else "second"


def decisive_column(columns: Sequence[AlignedWord], difference: float) -> int | None:
    """Return the column that contributes most to the difference of the sentences; None if they are equally likely."""
    if difference == 0:
        return None
    sign = 1 if difference > 0 else -1
    return max(range(len(columns)), key=lambda number: sign * columns[number].difference)
