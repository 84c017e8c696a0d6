"""Splits ordinary English text as in treebanks: punctuation off the words, contractions into two words.

"The cat doesn't sleep." becomes "The cat does n't sleep ." for models that were trained on treebank text. Every piece
has its position in the original line.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from syntaxlm.text.normaliser import split_words
from syntaxlm.text.options import Contractions, Punctuation, TextOptions

_OPENING = re.compile(r"``|[\"“”«(\[{¿¡‘]")
_CLOSING = frozenset('"“”»)]},;:?!…')
_ENDS = frozenset(",.;:?!…")  # a single quotation mark after one of these closes
_BEFORE_STOP = frozenset("\"“”»)]}'’")  # a full stop after one of these belongs to no abbreviation
_SINGLE_QUOTE = re.compile(r"['’]")
_CURRENCY = re.compile(r"(?:[A-Z]{1,2})?[$£€¥](?=\d)")
_PERCENT = re.compile(r"(?<=\d)%$")
_DASH = re.compile(r"--+|—+")
_CONTRACTION = re.compile(r"(?i)(?<=[^\W\d_])(?:n['’]t|['’](?:s|re|ve|ll|d|m)|(?<=s)['’])$")
_CANNOT = re.compile(r"(?i)(can)(not)")
_LONGEST_ENDING = 3  # characters of a contraction
_LONGEST_KNOWN = 2000  # characters; longer words are not looked up, once for each mark at their ends


class Piece(NamedTuple):
    """A word or mark of a line. start, end: character offsets in the line. text: "" if it is dropped."""

    start: int
    end: int
    text: str


class KnownWords(Protocol):
    """The words of a model, which decide whether a mark belongs to a word."""

    def has(self, word: str) -> bool:
        """Return whether the model knows a word as a whole."""

    def is_more_frequent(self, word: str, other: str) -> bool:
        """Return whether the first of two known words is more frequent."""


@dataclass(frozen=True)
class TreebankStyle(TextOptions):
    """How the words of a line are split before a model's normaliser reads them.

    punctuation: treatment of marks at the ends of a word (quotation marks, brackets, , ; : ? ! and two or more dots),
    of dashes (-- and —) anywhere, of a full stop by itself or after a bracket or quotation mark, and of the full stop
    of the sentence's last word, unless the word contains another (U.S.). `split`: each becomes a word; `drop`: it is
    removed. All other full stops belong to abbreviations and are kept, like hyphens and apostrophes. A currency sign
    before a number and % after it become words in both cases: $ 5, 5 %.
    contractions: `split`: n't, 's, 're, 've, 'll, 'd, 'm, and the apostrophe after a final s become separate words, as
    in the Penn Treebank: does n't, ca n't, wo n't, it 's, the girls '. cannot becomes can not.
    `auto`: as the model's vocabulary requires; see `TextReader`.

    >>> syntaxlm.TreebankStyle("split", "split")("The cat doesn't sleep.")
    "The cat does n't sleep ."
    """

    punctuation: Punctuation = "keep"
    contractions: Contractions = "keep"

    @classmethod
    def of(cls, options: TextOptions) -> TreebankStyle:
        """Return the style of options that also have other fields."""
        return cls(options.punctuation, options.contractions)

    def __call__(self, sentence: str) -> str:
        """Return the sentence with its words separated by single spaces; unchanged if both settings are `keep`.

        Raises ValueError if a setting is `auto`, which requires a vocabulary.
        """
        if self == TreebankStyle():
            return sentence
        last = len(split_words(sentence))
        pieces = (self.pieces(word, number == last) for number, word in enumerate(split_words(sentence), 1))
        return " ".join(piece.text for found in pieces for piece in found if piece.text)

    def pieces(self, word: str, is_last: bool, known: KnownWords | None = None) -> list[Piece]:
        """Return the pieces of one word, without gaps. word: a string without white space.

        is_last: whether it is the last word of its line, whose full stop ends the sentence.
        known: words that must not be split. Known words also decide whether a full stop or a single quotation mark is
        punctuation: it is split off if the word is only known without it.
        Raises ValueError if a setting is `auto`.
        """
        if "auto" in (self.punctuation, self.contractions):
            raise ValueError("auto: expected a style chosen by a vocabulary (TextReader.of)")
        if known is not None and known.has(word) and not self._ends_in_stop(word, is_last, known):
            return [Piece(0, len(word), word)]
        if self.punctuation == "keep":
            return self._core(word, 0, known)
        pieces: list[Piece] = []
        begin = 0
        for dash in _DASH.finditer(word):
            pieces += self._segment(word[begin : dash.start()], begin, False, known)
            pieces.append(self._mark(word, dash.start(), dash.end()))
            begin = dash.end()
        return pieces + self._segment(word[begin:], begin, is_last, known)

    def _segment(self, word: str, offset: int, is_last: bool, known: KnownWords | None) -> list[Piece]:
        """Return the pieces of a word, or of the part of a word before or after a dash; offset: where it starts."""
        start, end = 0, len(word)
        opening: list[Piece] = []
        closing: list[Piece] = []

        def stays() -> bool:
            return known is not None and 0 < end - start <= _LONGEST_KNOWN and known.has(word[start:end])

        def close(begin: int) -> None:
            nonlocal end
            closing.append(self._mark(word, begin, end, offset))
            end = begin

        while not stays() and (found := _OPENING.match(word, start, end)):
            opening.append(self._mark(word, start, found.end(), offset))
            start = found.end()
        may_stop = True
        while start < end:
            if may_stop and word[end - 1] == "." and self._ends_in_stop(word[start:end], is_last, known):
                close(end - 1)
                may_stop = False
            elif (begin := _closing_mark(word, start, end)) < end and not stays():
                close(begin)
            else:
                break
        if known is not None and not stays():
            quoted = bool(_SINGLE_QUOTE.match(word, start))
            inner = start + quoted
            closed = end - inner > 1 and _SINGLE_QUOTE.match(word, end - 1) and (quoted or word[end - 2] not in "sS")
            if closed and known.has(word[inner : end - 1]):  # 'yes', or the last word of a quotation; not girls'
                close(end - 1)
            if quoted and end > inner and known.has(word[inner:end]):
                opening.append(self._mark(word, start, inner, offset))
                start = inner
        if not stays() and (currency := _CURRENCY.match(word, start, end)):
            opening.append(Piece(offset + start, offset + currency.end(), currency[0]))
            start = currency.end()
        if not stays() and start < end and (percent := _PERCENT.search(word[:end], start)):
            closing.append(Piece(offset + percent.start(), offset + end, percent[0]))
            end = percent.start()
        return [*opening, *self._core(word[start:end], offset + start, known), *reversed(closing)]

    @staticmethod
    def _ends_in_stop(word: str, is_last: bool, known: KnownWords | None) -> bool:
        """Return whether a word ends in a full stop that does not belong to an abbreviation."""
        if len(word) < 2 or word[-1] != "." or word[-2] == ".":
            return word == "."
        if word[-2] in _BEFORE_STOP:
            return True
        before = word[:-1]
        if known is not None and known.has(word):
            return is_last and known.has(before) and known.is_more_frequent(before, word)
        return (is_last and "." not in before) or (known is not None and known.has(before))

    def _mark(self, word: str, start: int, end: int, offset: int = 0) -> Piece:
        text = "" if self.punctuation == "drop" else word[start:end]
        return Piece(offset + start, offset + end, text)

    def _core(self, word: str, offset: int, known: KnownWords | None) -> list[Piece]:
        """Return a word without punctuation at its ends, contractions split."""
        if not word:
            return []
        if self.contractions == "keep" or (known is not None and known.has(word)):
            return [Piece(offset, offset + len(word), word)]
        if found := _CANNOT.fullmatch(word):
            return [Piece(offset + found.start(part), offset + found.end(part), found[part]) for part in (1, 2)]
        ending: list[Piece] = []
        end = len(word)
        while found := _CONTRACTION.search(word, max(0, end - _LONGEST_ENDING), end):  # shouldn't've has two
            ending.append(Piece(offset + found.start(), offset + end, found[0].replace("’", "'")))
            end = found.start()
        return [Piece(offset, offset + end, word[:end]), *reversed(ending)]


def _closing_mark(word: str, start: int, end: int) -> int:
    """Return where the closing mark at the end of word[start:end] begins; `end` if there is none."""
    last = word[end - 1]
    if last == ".":
        begin = max(start, len(word[:end].rstrip(".")))
        return begin if end - begin > 1 else end
    if end - start > 1 and word.endswith("''", start, end):
        return end - 2
    closes = last in _CLOSING or (last in "'’" and end > 1 and word[end - 2] in _ENDS)
    return end - 1 if closes else end


AS_WRITTEN = TreebankStyle()
