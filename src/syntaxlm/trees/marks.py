"""Punctuation marks that are no words of a model: their classes, and their places as evidence of constituents.

A sentence of n words has n + 1 gaps: before each word, and after the last. Some models read the classes of the marks
in each gap. For other models, the places of marks are evidence of constituents: most constituents that contain an inner
mark (comma, dash, quote, bracket) also begin or end at a mark or at an edge of the sentence. Spans that violate this
are penalised: in training by a log-weight, in parsing by a lower value.
"""

from __future__ import annotations

import unicodedata
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntFlag
from functools import cached_property, lru_cache
from typing import Literal

import numpy as np
import numpy.typing as npt

from syntaxlm.core.arrays import Flags, Integers, Numbers
from syntaxlm.trees.charts import spans_in
from syntaxlm.trees.spans import offsets_of

Violations = npt.NDArray[np.float32]
GapMarks = npt.NDArray[np.int16]
MarkSide = Literal["both", "either", "end", "start"]

_ACCENTS = frozenset("`´")  # as quotation marks, though Unicode does not count them as punctuation
_SIGNS = frozenset("#%&*@/\\")  # read aloud as words, though Unicode counts them as punctuation


def is_mark(text: str) -> bool:
    """Return whether a text consists of punctuation marks. Currency and other signs that stand for words are none.

    Invisible characters beside a mark, such as marks of the direction of writing, do not matter.
    """
    signs = [sign for sign in text if unicodedata.category(sign) != "Cf"]
    return bool(signs) and all(
        sign in _ACCENTS or (unicodedata.category(sign)[0] == "P" and sign not in _SIGNS) for sign in signs
    )


class MarkClass(IntFlag):
    """The classes of punctuation marks. A gap with several marks has the union of their classes, and 0 without marks.

    They differ in what they separate in English text. For example, a constituent of two words or more often ends before
    an opening bracket, and rarely before an opening quotation mark.
    """

    COMMA = 1
    SEMICOLON = 2
    COLON = 4
    DASH = 8
    OPENING_QUOTE = 16
    CLOSING_QUOTE = 32
    OPENING_BRACKET = 64
    CLOSING_BRACKET = 128
    END = 256  # . ? ! and dots
    OTHER = 512  # also the apostrophe of a genitive (dogs') that is not part of a word


_OF_NAMES = {  # of parts of Unicode names, in this order, so that marks of all scripts are covered
    "INVERTED": MarkClass.OTHER,
    "SEMICOLON": MarkClass.SEMICOLON,
    "COLON": MarkClass.COLON,
    "COMMA": MarkClass.COMMA,
    **dict.fromkeys(("FULL STOP", "QUESTION MARK", "EXCLAMATION", "ELLIPSIS", "LEADER", "DANDA"), MarkClass.END),
    "GRAVE ACCENT": MarkClass.OPENING_QUOTE,
    "ACUTE ACCENT": MarkClass.CLOSING_QUOTE,
    "LOW-9 QUOTATION": MarkClass.OPENING_QUOTE,
}
_OF_CATEGORIES = {
    "Pd": MarkClass.DASH,
    "Pi": MarkClass.OPENING_QUOTE,
    "Pf": MarkClass.CLOSING_QUOTE,
    "Ps": MarkClass.OPENING_BRACKET,
    "Pe": MarkClass.CLOSING_BRACKET,
}
_STRAIGHT_QUOTES = "\"'"  # their direction depends on the sentence


@lru_cache(maxsize=1 << 12)
def _class_of(mark: str) -> int:
    """Return the classes of a mark of one or more characters; 0 for straight quotation marks."""
    if mark == "''":
        return MarkClass.CLOSING_QUOTE
    classes = 0
    for sign in mark:
        name = unicodedata.name(sign, "")
        by_category = _OF_CATEGORIES.get(unicodedata.category(sign), MarkClass.OTHER)
        if sign not in _STRAIGHT_QUOTES and unicodedata.category(sign) != "Cf":
            classes |= next((of_name for part, of_name in _OF_NAMES.items() if part in name), by_category)
    return int(classes)


def gap_marks(parts: Iterable[tuple[str, bool]]) -> list[int]:
    """Return the classes (`MarkClass`) of the marks in each gap of a sentence: before each word, and after the last.

    Straight quotation marks open and close in turn. The first one closes if the quotation began before the sentence,
    which is so if their number is odd and the last one, but not the first, is at the edge of the sentence.

    Args:
        parts: each part of the sentence as written, and whether it is a word. Other parts that are no marks are
            ignored.
    """
    gaps = [0]
    straight: dict[str, list[int]] = defaultdict(list)  # the gaps of straight quotation marks
    genitives: list[int] = []  # the gaps of those that may be an apostrophe
    previous = ""
    for text, is_word in parts:
        if is_word:
            gaps.append(0)
        elif is_mark(text):
            gaps[-1] |= _class_of(text)
            if text == "'" and previous[-1:] in ("s", "S"):
                genitives.append(len(gaps) - 1)
            for sign in _STRAIGHT_QUOTES if text != "''" else "":
                straight[sign] += [len(gaps) - 1] * text.count(sign)
        previous = text if is_word else ""

    if genitives and len(straight["'"]) % 2:  # one has no partner
        straight["'"].remove(genitives[0])
        gaps[genitives[0]] |= MarkClass.OTHER
    for places in straight.values():
        closes = len(places) % 2 == 1 and places[0] > 0 and places[-1] == len(gaps) - 1
        for place in places:
            gaps[place] |= MarkClass.CLOSING_QUOTE if closes else MarkClass.OPENING_QUOTE
            closes = not closes
    return gaps


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
        gaps: (N + S,) classes of the marks in each gap, sentence after sentence, as `gap_marks` returns them.
        lengths: (S,) number of words.
        share: share of the averaged parsers that do not read marks, to whose probabilities violations apply.
    """

    gaps: GapMarks
    lengths: Integers
    side: MarkSide
    share: float = 1.0

    def violations(self, chosen: Integers, length: int) -> Numbers:
        """Return the violations of spans of sentences of one length: (n(n + 1)/2, B), see `charts`.

        Args:
            chosen: (B,) indices of the sentences.
        """
        marks = self.gaps[self._offsets[chosen][:, None] + np.arange(length)] != 0
        return violations(marks, *spans_in(length), length, self.side).T.astype(np.float64) * self.share

    @cached_property
    def _offsets(self) -> Integers:
        return offsets_of(self.lengths + 1)
