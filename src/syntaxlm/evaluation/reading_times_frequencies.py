"""Word frequencies from a list or from a text."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from syntaxlm.errors import InputError
from syntaxlm.text_files import read_lines, source_name

_PUNCTUATION_AROUND = re.compile(r"^[\W_]+|[\W_]+$")
_ENDING = re.compile(r"(?i)(?<=\w) (n['’]t|['’](?:s|re|ve|ll|d|m))(?!\S)")  # of a contraction in tokenised text
_DASH = re.compile(r"--+|[—–]")
_BILLION = 1e9


@dataclass(frozen=True)
class Frequencies:
    """Word frequencies from a list or a text.

    counts: of words in lower case without punctuation at their ends.  total: sum of all counts.
    """

    counts: Mapping[str, float]
    total: float
    source: str

    @classmethod
    def read(cls, path: str | Path) -> Frequencies:
        """Reads a list of words and counts, separated by a tab, with or without a header line; or counts a text.

        In a text, dashes separate words, and endings of split contractions are joined to their words (do n't: don't).
        Raises InputError for a file without words, and for a list with a negative or invalid count.
        """
        lines = read_lines(path)
        first = [line for _, line in zip(range(100), (text for _, text in lines if text.strip()), strict=False)]
        is_list = bool(first) and all(_is_entry(line) for line in first[1:]) and first[0].count("\t") == 1
        counts: Counter[str] = Counter()
        for written, count in _listed(path) if is_list else _counted(chain(first, (text for _, text in lines))):
            if word := bare_word(written):
                counts[word] += count  # type: ignore[assignment]  # a list may have counts per million
        total = float(sum(counts.values()))
        if not total:
            raise InputError(
                f"{source_name(path)}: found no word; expected a text, or one word and its count per line, separated"
                " by a tab"
            )
        return cls(counts, total, source_name(path))

    def zipf(self, word: str) -> float:
        """The frequency of a displayed word on the Zipf scale: log10 of occurrences per billion words.

        1 is added to every count, including that of words that do not occur. Of words joined by a dash, the rarest
        counts. van Heuven et al. 2014.
        """
        count = 1 + min(self.counts.get(bare_word(part), 0) for part in self._parts(word))
        return math.log10(count / (self.total + len(self.counts)) * _BILLION)

    def has(self, word: str) -> bool:
        return all(bare_word(part) in self.counts for part in self._parts(word))

    @staticmethod
    def _parts(word: str) -> list[str]:
        return [part for part in _DASH.split(word) if bare_word(part)] or [word]


def frequencies_of(source: str | Path | Frequencies) -> Frequencies:
    return source if isinstance(source, Frequencies) else Frequencies.read(source)


def bare_word(word: str) -> str:
    """A word in lower case, without punctuation at its ends and with straight apostrophes; "" for punctuation."""
    return _PUNCTUATION_AROUND.sub("", word).replace("’", "'").lower()


def _is_entry(line: str) -> bool:
    word, tab, count = line.partition("\t")
    return bool(word and tab) and re.fullmatch(r"\s*\d+(\.\d+)?([eE][-+]?\d+)?\s*", count) is not None


def _listed(path: str | Path) -> Iterator[tuple[str, float]]:
    for number, line in read_lines(path):
        if not line.strip():
            continue
        if not _is_entry(line):
            if number == 1:
                continue  # the header
            raise InputError(
                f"{source_name(path)}, line {number}: found {line[:60]!r}; expected a word and its count, separated by"
                " a tab"
            )
        word, _, count = line.partition("\t")
        yield word, float(count)


def _counted(lines: Iterable[str]) -> Iterator[tuple[str, float]]:
    counts: Counter[str] = Counter()
    for line in lines:
        counts.update(_DASH.sub(" ", _ENDING.sub(r"\1", line)).split())
    yield from counts.items()
