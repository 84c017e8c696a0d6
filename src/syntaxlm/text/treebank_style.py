"""Splits ordinary English text as in treebanks: punctuation off the words, contractions into two words.

"The cat doesn't sleep." becomes "The cat does n't sleep ." for models that were trained on treebank text. Every piece
has its position in the original line.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from syntaxlm.text.normaliser import Piece, split_words
from syntaxlm.text.options import Contractions, Punctuation, TextOptions

_OPENING = re.compile(r"``|[\"“”«(\[{¿¡‘]")
# A single quotation mark after another mark closes.
_CLOSING = re.compile(r"(?:''|[\"“”»)\]},;:?!…]|(?<=[,.;:?!…])['’])$")
_BEFORE_STOP = frozenset("\"“”»)]}'’")  # a full stop after one of these belongs to no abbreviation
_SINGLE_QUOTE = re.compile(r"['’]")
_CURRENCY = re.compile(r"(?:[A-Z]{1,2})?[$£€¥](?=\d)")
_PERCENT = re.compile(r"(?<=\d)%")
_DECIMAL_POINT = re.compile(r"(?<=\d)\.(?=\d)")
_DASH = re.compile(r"--+|—+")
_CONTRACTION = re.compile(r"(?i)(?<=[^\W\d_])(?:n['’]t|['’](?:s|re|ve|ll|d|m)|(?<=s)['’])$")
_CANNOT = re.compile(r"(?i)(can)(not)")
_LONGEST_ENDING = 3  # characters of a contraction

Rank = Callable[[str], list[int] | None]
"""Returns the position of a word in a list by decreasing frequency; None for an unknown word."""


def _knows_nothing(_: str) -> None:
    return None


@dataclass(frozen=True)
class TreebankStyle(TextOptions):
    """How the words of a line are split before a model's normaliser reads them.

    punctuation: treatment of marks at the ends of a word (quotation marks, brackets, , ; : ? ! and two or more dots),
    of dashes (-- and —) anywhere, of a full stop by itself or after a bracket or quotation mark, and of the full stop
    of the sentence's last word, unless the word contains another one, decimal points aside (U.S.). `split`: each
    becomes a word; `drop`: it is removed. All other full stops belong to abbreviations and are kept, like hyphens and
    apostrophes. A currency sign before a number and % after it become words in both cases: $ 5, 5 %.
    contractions: `split`: n't, 's, 're, 've, 'll, 'd, 'm, and the apostrophe after a final s become separate words, as
    in the Penn Treebank: does n't, ca n't, wo n't, it 's, the girls '. cannot becomes can not.
    `auto`: as the model's vocabulary requires; see `TextReader`.

    >>> syntaxlm.TreebankStyle("split", "split")("The cat doesn't sleep.")
    "The cat does n't sleep ."
    """

    punctuation: Punctuation = "keep"
    contractions: Contractions = "keep"

    def __call__(self, sentence: str) -> str:
        """Return the sentence with its words separated by single spaces; unchanged if both settings are `keep`.

        Raises ValueError if a setting is `auto`, which requires a vocabulary.
        """
        if self == TreebankStyle():
            return sentence
        words = split_words(sentence)
        pieces = (self.pieces(word, number == len(words)) for number, word in enumerate(words, 1))
        return " ".join(piece.text for of_word in pieces for piece in of_word if piece.text)

    def pieces(self, word: str, is_last: bool, rank: Rank = _knows_nothing) -> list[Piece]:
        """Return the pieces of one word, without gaps. word: a string without white space.

        is_last: whether it is the last word of its line, whose full stop ends the sentence.
        rank: known words, which must not be split. They also decide whether a full stop or a single quotation mark is
        punctuation: it is split off if the word is only known without it.
        Raises ValueError if a setting is `auto`.
        """
        if "auto" in (self.punctuation, self.contractions):
            raise ValueError("auto: expected a style chosen by a vocabulary (TextReader.of)")
        if word.isalnum() and not _CANNOT.fullmatch(word):  # the quickest answer for most words
            return [Piece(0, len(word), word)]
        if rank(word) is not None and not _ends_in_stop(word, is_last, rank):
            return [Piece(0, len(word), word)]
        if self.punctuation == "keep":
            return self._core(word, 0, len(word), rank)
        pieces: list[Piece] = []
        begin = 0
        for end, after in [*(dash.span() for dash in _DASH.finditer(word)), (len(word), len(word))]:
            pieces += self._segment(word, begin, end, after, is_last and end == after, rank)
            begin = after
        return pieces

    def _segment(self, word: str, start: int, end: int, after: int, is_last: bool, rank: Rank) -> list[Piece]:
        """Return the pieces of word[start:after]: a part of a word, up to `end`, and the dash after it."""
        opening: list[tuple[int, int]] = []
        closing = [(end, after)] if end < after else []  # from the end backwards
        while rank(word[start:end]) is None and (mark := _OPENING.match(word, start, end)):
            opening.append(mark.span())
            start = mark.end()
        may_stop = True
        while start < end:
            begin = end
            if may_stop and word[end - 1] == "." and _ends_in_stop(word[start:end], is_last, rank):
                begin, may_stop = end - 1, False
            elif rank(word[start:end]) is None:
                dots = end - max(start, len(word[:end].rstrip("."))) if word[end - 1] == "." else 0
                if dots > 1:
                    begin = end - dots
                elif mark := _CLOSING.search(word, max(start, end - 2), end):
                    begin = mark.start()
            if begin == end:
                break
            closing.append((begin, end))
            end = begin
        if rank(word[start:end]) is None:
            quoted = _SINGLE_QUOTE.match(word, start, end) is not None
            inner = start + quoted
            closed = end - inner > 1 and _SINGLE_QUOTE.match(word, end - 1) and (quoted or word[end - 2] not in "sS")
            if closed and rank(word[inner : end - 1]) is not None:  # 'yes', or the last word of a quotation; not girls'
                closing.append((end - 1, end))
                end -= 1
            if quoted and rank(word[inner:end]) is not None:
                opening.append((start, inner))
                start = inner
        text = word if self.punctuation == "split" else ""
        pieces = [Piece(low, high, text[low:high]) for low, high in [*opening, *closing]]
        if rank(word[start:end]) is None and (currency := _CURRENCY.match(word, start, end)):
            pieces.append(Piece(*currency.span(), currency[0]))
            start = currency.end()
        if start < end and rank(word[start:end]) is None and _PERCENT.match(word, end - 1, end):
            pieces.append(Piece(end - 1, end, "%"))
            end -= 1
        return sorted([*pieces, *self._core(word, start, end, rank)])

    def _core(self, word: str, start: int, end: int, rank: Rank) -> list[Piece]:
        """Return the pieces of word[start:end], which has no punctuation at its ends: contractions are split."""
        if start == end:
            return []
        if self.contractions == "keep" or rank(word[start:end]) is not None:
            return [Piece(start, end, word[start:end])]
        if parts := _CANNOT.fullmatch(word, start, end):
            return [Piece(*parts.span(part), parts[part]) for part in (1, 2)]
        endings: list[Piece] = []
        while ending := _CONTRACTION.search(word, max(start, end - _LONGEST_ENDING), end):  # shouldn't've has two
            endings.append(Piece(*ending.span(), ending[0].replace("’", "'")))
            end = ending.start()
        return [Piece(start, end, word[start:end]), *reversed(endings)]


def _ends_in_stop(word: str, is_last: bool, rank: Rank) -> bool:
    """Return whether a word ends in a full stop that does not belong to an abbreviation."""
    if len(word) < 2 or word[-1] != "." or word[-2] == ".":
        return word == "."
    if word[-2] in _BEFORE_STOP:
        return True
    whole, before = rank(word), rank(word[:-1])
    if whole is not None:
        return is_last and before is not None and before < whole
    return (is_last and "." not in _DECIMAL_POINT.sub("", word[:-1])) or before is not None


AS_WRITTEN = TreebankStyle()
