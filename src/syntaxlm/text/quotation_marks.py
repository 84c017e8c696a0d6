"""Finds single quotation marks, which look like apostrophes: 'The dogs' tails,' he said, but 'em, '90s, rock 'n' roll.

A mark at the beginning of a word opens a quotation if a mark at the end of a word closes it. Beside a word, its side
also tells whether “ or « opens a quotation; between white space, the marks before and after it do.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from enum import IntEnum
from typing import NamedTuple

_BEGINS = re.compile(r"[(\[{\"“«`]*(?P<mark>['‘])(?=\w)")
_ENDS = re.compile(r"(?<=[^\s(\[{\"“«'’‘])(?P<mark>['’])[)\]}\"”»,.;:?!…]*$")
MAY_QUOTE = re.compile(r"(?<![^\s(\[{\"“«`—-])['‘](?=\w)")  # in a line
DIRECTED_MARKS = "„‟“”‚‘«»‹›「『"
_DIRECTED = re.compile(f"[{DIRECTED_MARKS}]")
_DOUBLE = re.compile("[„‟“”]")
_OPENS_WORD = re.compile(r"(?<![^\s(\[{—–-])”(?=\S)")
_OPENED_BY = {"“": "„", "”": "„", "‘": "‚"}  # marks that close a quotation that began with another mark
_PAUSES = (",", ":", ";", "-", "—", "(", "“", '"')  # at the end of the word before a quotation

# Words that begin with an apostrophe, without it, and endings that treebanks split off.
_ELIDED = re.compile(
    r"(?i)(?:em|n|tis|tisn|tain|twas|twasn|twere|twill|twould|twixt|ud|ere?|ee|un|im|til|till|cause|bout|round|cos|coz"
    r"|neath|gainst|fore|fraid|nother|nuff|scuse|spect|cept|s|re|ve|ll|d|m|t|\d\ds?)(?=\W|$)"
)
# Words that end with an apostrophe, without it.
_CLIPPED = re.compile(r"(?i)o|an|th|t|wi|ol|lil|fo|mo|i|un|ha|giv|fro|mysel|\w")
_MAY_BE_CLIPPED = re.compile(r"(?i).*\w\win|.*[^\W\d_]s")  # walkin', dogs'


class Quoted(NamedTuple):
    """The single quotation marks of a word.

    Attributes:
        opens: whether a mark opens a quotation at its beginning.
        closes: whether a mark closes a quotation at its end.
        is_certain: whether the mark that opens cannot be an apostrophe, because of its form or of the mark that closes.
    """

    opens: bool = False
    closes: bool = False
    is_certain: bool = True


UNQUOTED = Quoted()


class _Closing(IntEnum):
    """How likely a mark at the end of a word closes a quotation."""

    NEVER = 0  # o'
    UNLIKELY = 1  # dogs'  walkin'
    LIKELY = 2  # Emma'
    SURE = 3  # away,'


def single_quotes(words: Sequence[str]) -> dict[int, Quoted]:
    """Return the quotation marks of the words of a line that have any, by the number of the word.

    A quotation that does not end in the line opens after a comma or similar mark, or at the beginning of the line.
    """
    opening = [number for number, word in enumerate(words) if (begin := _BEGINS.match(word)) and _opens(word, begin)]
    quotes: dict[int, Quoted] = {}
    for place, number in enumerate(opening):
        if number in quotes:  # it closes an earlier quotation
            continue
        following = opening[place + 1] if place + 1 < len(opening) else len(words)
        last = _closing_word(words, number, following)
        if last is not None:
            quotes[number] = Quoted(opens=True, closes=last == number)
            quotes.setdefault(last, Quoted(closes=True))
        elif "‘" in words[number]:
            quotes[number] = Quoted(opens=True)
        elif number == 0 or words[number - 1].endswith(_PAUSES):
            quotes[number] = Quoted(opens=True, is_certain=False)
    return quotes


def opening_marks(line: str) -> Iterator[int]:
    """Yield the places of the directed quotation marks of a line that open a quotation.

    Languages differ: “ opens except after a „ without a partner, and « opens unless the marks of the line are »a« »b«.
    """
    marks = [(match.start(), match[0].replace("‟", "„")) for match in _DIRECTED.finditer(line)]
    opening = set("„‚「『“‘")
    for left, right in ("«»", "‹›"):
        of_pair = [mark for _, mark in marks if mark in (left, right)]
        is_reversed = of_pair[:1] == [right] and of_pair[-1] == left
        opening.add(right if is_reversed else left)

    without_partner: Counter[str] = Counter()
    for place, mark in marks:
        opener = _OPENED_BY.get(mark, "")
        if without_partner[opener]:
            without_partner[opener] -= 1
        elif mark in opening:
            without_partner[mark] += mark in _OPENED_BY.values()
            yield place


def foreign_closings(line: str) -> Iterator[int]:
    """Yield the places of the marks ” that close a quotation that „ or ” opened, as in „Polish” and ”Swedish”."""
    openers: list[str] = []
    for match in _DOUBLE.finditer(line):
        mark = match[0].replace("‟", "„")
        if mark == "„" or (mark == "“" and openers[-1:] != ["„"]):
            openers.append(mark)
        elif openers:
            if openers.pop() != "“" and mark == "”":
                yield match.start()
        elif _OPENS_WORD.match(line, match.start()):
            openers.append(mark)


def _opens(word: str, begin: re.Match[str]) -> bool:
    """Return whether a mark at the beginning of a word may open a quotation: not 'em, but '45'."""
    elided = _ELIDED.match(word, begin.end())
    return elided is None or (word[begin.end()].isdecimal() and _ENDS.match(word, elided.end()) is not None)


def _closing_word(words: Sequence[str], first: int, following: int) -> int | None:
    """Return the number of the word that ends a quotation: a word of its own, or the first of the most likely ones.

    Args:
        words: of the line.
        first: number of the word that opens the quotation.
        following: number of the word that opens the next quotation.
    """
    best = _Closing.NEVER
    last: int | None = None
    for number in range(first, following):
        end = _ENDS.search(words[number])
        begin = _BEGINS.match(words[number]) if number == first else None
        if end is None or (begin is not None and end.start() < begin.end()):
            continue
        likely = _likely(words[number][begin.end() if begin else 0 : end.start()])
        if number == first and likely > _Closing.UNLIKELY:
            return number
        if likely > best:
            best, last = likely, number
    return last


def _likely(word: str) -> _Closing:
    """Return how likely a mark after a word closes a quotation."""
    if not word[-1].isalnum():
        return _Closing.SURE
    if _CLIPPED.fullmatch(word):
        return _Closing.NEVER
    return _Closing.UNLIKELY if _MAY_BE_CLIPPED.fullmatch(word) else _Closing.LIKELY
