"""Counts of what a model does not know or read in a text. They are added up over the parts of a text."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from typing import NamedTuple

MANY_UNKNOWN = 0.1  # share of unknown words above which advice is printed
EXAMPLES = 5  # words in a message
LONGEST_EXAMPLE = 40  # characters; a word can be as long as a file


class ReadingCounts(NamedTuple):
    """What a model does not know or read in a text.

    Attributes:
        units: what is counted, "words" or "characters".
        words: number of words that the model read.
        unknown: number of words that are not in the vocabulary.
        without_letters: number of unknown words without letters.
        impossible: number of words with probability 0.
        not_read: number of words and punctuation marks that are not read.
        examples: frequent ones that are not read.
        advice: on unknown words, if many words are unknown; otherwise "".
    """

    units: str
    words: int = 0
    unknown: int = 0
    without_letters: int = 0
    impossible: int = 0
    not_read: int = 0
    examples: tuple[str, ...] = ()
    advice: str = ""

    @property
    def share(self) -> float:
        """The share of unknown words."""
        return self.unknown / max(1, self.words)

    def text(self, remark: str = "") -> str:
        """Return a line such as "120 words, 3 unknown (2.5%)", with advice if the share is large.

        Args:
            remark: a sentence before the advice.
        """
        text = f"{self.words:,} {self.units}, {self.unknown:,} unknown ({self.share:.1%})"
        text += without_letters(self.without_letters)
        if self.impossible:
            text += f", {self.impossible:,} with probability 0 (surprisal inf)"
        if self.not_read:
            text += f", {self.not_read:,} not read ({' '.join(self.examples)})"
        return ". ".join(filter(None, [text, remark, self.advice if self.share > MANY_UNKNOWN else ""]))


def total(counts: Iterable[ReadingCounts]) -> ReadingCounts | None:
    """Return the counts of a text from those of its parts, with the advice of the part with most unknown words.

    Returns None without parts.
    """
    parts = list(counts)
    if not parts:
        return None
    examples = dict.fromkeys(chain.from_iterable(part.examples for part in parts))
    advice = max(parts, key=lambda part: (bool(part.advice), part.unknown)).advice
    return ReadingCounts(
        units=parts[0].units,
        words=sum(part.words for part in parts),
        unknown=sum(part.unknown for part in parts),
        without_letters=sum(part.without_letters for part in parts),
        impossible=sum(part.impossible for part in parts),
        not_read=sum(part.not_read for part in parts),
        examples=tuple(examples)[:EXAMPLES],
        advice=advice,
    )


def without_letters(count: int) -> str:
    """Return ", 4 of them without letters", to follow the number of unknown words; "" for 0."""
    return f", {count:,} of them without letters" if count else ""
