"""Splits ordinary English text as in treebanks: punctuation off the words, contractions into two words.

"The cat doesn't sleep." becomes "The cat does n't sleep ." for models that were trained on treebank text. Every piece
has its position in the original line.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

from syntaxlm.text.normaliser import Piece, split_words
from syntaxlm.text.options import Contractions, Punctuation, TextOptions
from syntaxlm.text.quotation_marks import MAY_QUOTE, UNQUOTED, Quoted, single_quotes

# Languages differ in which marks open a quotation: „a“ ”a” «a» »a« 「a」. For ' and ‘, see quotation_marks.py.
_OPENING = re.compile(r"``|‘[‘’]|[\"“”„‟«»‹›‚「『(\[{¿¡]")
# A single quotation mark after another mark closes, and so does ‘ after a word: ‚a word‘.
_CLOSING = re.compile(r"(?:''|’’|[\"“”„‟«»‹›」』)\]},;:?!…]|(?<=[,.;:?!…])['’‘]|(?<=\w\w)‘)$")
_BEFORE_STOP = frozenset("\"“”«»‹›」』)]}'’‘")  # a full stop after one of these belongs to no abbreviation
_SINGLE_QUOTE = re.compile(r"['’]")
_SINGLE_QUOTES = frozenset("'’‘")
_CURRENCY = re.compile(r"(?:[A-Z]{1,2})?[$£€¥](?=\d)")
_PERCENT = re.compile(r"(?<=\d)%")
_DECIMAL_POINT = re.compile(r"(?<=\d)\.(?=\d)")
_DASH = re.compile(r"--+|—+")
_DASH_OR_DOTS = re.compile(  # dots before a word; those after it are closing marks
    r"--+|—+|(?:(?<!\.)\.{2,}(?!\.)|(?<!…)…+(?!…))(?=[^\w)\]}]{0,4}\w)"
)
_ADDRESS = re.compile(r"[/\\@]")  # in a path or an address, whose dots are no marks
_EN_DASH = "–"
_INNER_MARK = re.compile(r"--|\.\.|[—–…$£€¥]")
_SIMPLE_MARKS = frozenset(",;:?!")
_LETTER_APOSTROPHE = "ʼ"  # to Unicode, a letter
APOSTROPHES = "'’ʼ´`＇"  # and signs that are written for one
STRAIGHT = str.maketrans(dict.fromkeys("’‘ʼ´＇", "'"))
_CONTRACTION = re.compile(  # doesn't, it's, girls', U.S.'s, 1990's
    rf"(?i)(?:(?<=[^\W\d_])(?:n[{APOSTROPHES}]t|[{APOSTROPHES}](?:s|re|ve|ll|d|m)|(?<=s)['’])"
    rf"|(?:(?<=\d)|(?<=[^\W\d_]\.))[{APOSTROPHES}]s)$"
)
# Words that the Penn Treebank splits, with the length of the first part.
_TWO_WORDS = {
    "cannot": 3, "gonna": 3, "gotta": 3, "wanna": 3, "lemme": 3, "gimme": 3, "'tis": 2, "'twas": 2
}  # fmt: skip
_BRACKETS = {"(": ")", "[": "]", "{": "}"}
_OPENING_BRACKETS = {closing: opening for opening, closing in _BRACKETS.items()}
_LONGEST_CONTRACTION = 3  # characters of a contraction
_LONGEST_WITH_PAIRS = 1_000  # characters of a word in which the partners of brackets are looked for

Rank = Callable[[str], list[int] | None]
"""Returns the position of a word in a list by decreasing frequency; None for an unknown word."""


def _knows_nothing(_: str) -> None:
    return None


@dataclass(frozen=True)
class TreebankStyle(TextOptions):
    """How the words of a line are split before a model's normaliser reads them.

    punctuation: treatment of marks at the ends of a word (quotation marks, brackets, , ; : ? !), of dashes (-- and —)
    and dots (… and two or more full stops) anywhere except for dots of paths and addresses, of a full stop by itself or
    after a bracket or quotation mark, and of the full stop of the sentence's last word, unless the word contains
    another one, decimal points aside (U.S.). `split`: each becomes a word; `drop`: it is removed. All other full stops
    belong to abbreviations and are kept, like hyphens and apostrophes. A bracket is kept if its partner is inside the
    word (option(s)); a single quotation mark is split off with its partner ('Emma', but rock 'n' roll), see
    `single_quotes`. A currency sign before a number and % after it become words in both cases: $ 5, 5 %.
    contractions: `split`: n't, 's, 're, 've, 'll, 'd, 'm, and the apostrophe after a final s become separate words, as
    in the Penn Treebank: does n't, ca n't, wo n't, it 's, the U.S. 's, the girls '. cannot becomes can not, gonna
    gon na.
    `auto`: as the model's vocabulary requires; see `TextReader`.

    >>> syntaxlm.TreebankStyle("split", "split")("The cat doesn't sleep.")
    "The cat does n't sleep ."
    """

    punctuation: Punctuation = "keep"
    contractions: Contractions = "keep"

    def __call__(self, sentence: str) -> str:
        """Return the sentence with its words separated by single spaces; unchanged if both settings are `keep`.

        Raises:
            ValueError: if a setting is `auto`, which requires a vocabulary.
        """
        if self == TreebankStyle():
            return sentence
        words = split_words(sentence)
        quotes = single_quotes(words) if self.punctuation != "keep" and MAY_QUOTE.search(sentence) else {}
        pieces = (
            self.pieces(word, number == len(words) - 1, quoted=quotes.get(number, UNQUOTED))
            for number, word in enumerate(words)
        )
        return " ".join(piece.text for of_word in pieces for piece in of_word if piece.text)

    def pieces(self, word: str, is_last: bool, rank: Rank = _knows_nothing, quoted: Quoted = UNQUOTED) -> list[Piece]:
        """Return the pieces of one word, without gaps.

        Args:
            word: a string without white space.
            is_last: whether it is the last word of its line, whose full stop ends the sentence.
            rank: known words, which must not be split. They also decide whether a full stop or a single quotation mark
                is punctuation: it is split off if the word is only known without it.
            quoted: the single quotation marks of the word, see `single_quotes`.

        Raises:
            ValueError: if a setting is `auto`.
        """
        if "auto" in (self.punctuation, self.contractions):
            raise ValueError("auto: expected a style chosen by a vocabulary (TextReader.of)")
        # Most words have only letters, and known words stay whole.
        if word.isalnum() and word.lower() not in _TWO_WORDS and _LETTER_APOSTROPHE not in word:
            return [Piece(0, len(word), word)]
        is_alone = quoted.opens == quoted.closes and not (quoted.opens and "‘" in word)
        if is_alone and rank(word) is not None and not _ends_in_stop(word, is_last, rank):
            return [Piece(0, len(word), word)]
        if self.punctuation == "keep" or (word[0].isalnum() and word[-1].isalnum() and not _INNER_MARK.search(word)):
            return self._core(word, 0, len(word), rank)

        # Most of the others are a word and a mark.
        mark, last = word[-1], len(word) - 1
        is_mark = mark in _SIMPLE_MARKS or (mark == "." and _ends_in_stop(word, is_last, rank))
        if is_mark and word[:last].isalnum() and _LETTER_APOSTROPHE not in word:
            final = Piece(last, last + 1, mark if self.punctuation == "split" else "")
            return [*self._core(word, 0, last, rank), final]

        # Dashes and dots divide the rest into segments, of which the first and last may have the marks of a quotation.
        pieces: list[Piece] = []
        start = 0
        dividers = (_DASH if _ADDRESS.search(word) else _DASH_OR_DOTS).finditer(word)
        for end, after in [*(mark.span() for mark in dividers), (len(word), len(word))]:
            part = Quoted(quoted.opens and start == 0, quoted.closes and end == after, quoted.is_certain)
            pieces += self._segment(word, start, end, after, is_last and end == after, rank, part)
            start = after
        return pieces

    def _segment(
        self, word: str, start: int, end: int, after: int, is_last: bool, rank: Rank, quoted: Quoted
    ) -> list[Piece]:
        """Return the pieces of word[start:after]: a part of a word, up to `end`, and the dash or dots after it."""
        opening = _opening_marks(word, start, end, rank)
        if opening:
            start = opening[-1][1]
        closing = _closing_marks(word, start, end, is_last, rank, quoted.closes)
        dash = [(end, after)] if end < after else []
        if closing:
            end = closing[-1][0]
        closing += dash

        # A mark of a pair, or one without which the vocabulary knows the word: 'yes', or the last word of a quotation.
        if quoted.opens and word[start:end][:1] in _SINGLE_QUOTES and end - start > 1:
            is_known = rank(word[start:end]) is not None
            if not is_known or (quoted.is_certain and rank(word[start + 1 : end]) is not None):
                opening.append((start, start + 1))
                opening += _opening_marks(word, start + 1, end, rank)
                start = opening[-1][1]
        if rank(word[start:end]) is None:
            has_first = _SINGLE_QUOTE.match(word, start, end) is not None
            inner = start + has_first
            has_last = end - inner > 1 and _SINGLE_QUOTE.match(word, end - 1) is not None
            is_possessive = has_last and not has_first and word[end - 2] in "sS"  # girls'
            if has_last and not is_possessive and rank(word[inner : end - 1]) is not None:
                closing.append((end - 1, end))
                end -= 1
            if has_first and rank(word[inner:end]) is not None:
                opening.append((start, inner))
                start = inner

        # The marks, and signs of currency and percent, are pieces; what is between them is a word.
        text = word if self.punctuation == "split" else ""
        pieces = [Piece(low, high, text[low:high]) for low, high in [*opening, *closing]]
        if rank(word[start:end]) is None and (currency := _CURRENCY.match(word, start, end)):
            pieces.append(Piece(*currency.span(), currency[0]))
            start = currency.end()
        if start < end and rank(word[start:end]) is None and _PERCENT.match(word, end - 1, end):
            pieces.append(Piece(end - 1, end, "%"))
            end -= 1
        for low, high in _ranges(word, start, end, rank):
            is_dash = word[low:high] == _EN_DASH
            pieces += [Piece(low, high, text[low:high])] if is_dash else self._core(word, low, high, rank)
        return sorted(pieces)

    def _core(self, word: str, start: int, end: int, rank: Rank) -> list[Piece]:
        """Return the pieces of word[start:end], which has no punctuation at its ends: contractions are split."""
        if start == end:
            return []
        if self.contractions == "keep" or rank(word[start:end]) is not None:
            return [Piece(start, end, word[start:end])]

        # cannot, gonna: two words without an apostrophe
        straight = _straight(word[start:end])
        if middle := _TWO_WORDS.get(straight.lower()):
            first = Piece(start, start + middle, straight[:middle])
            second = Piece(start + middle, end, straight[middle:])
            if rank is _knows_nothing or (rank(first.text) is not None and rank(second.text) is not None):
                return [first, second]

        # n't, 's and other endings, from the last backwards
        endings: list[Piece] = []
        while ending := _CONTRACTION.search(word, max(start, end - _LONGEST_CONTRACTION), end):  # shouldn't've has two
            endings.append(Piece(*ending.span(), _straight(ending[0])))
            end = ending.start()
        return [Piece(start, end, word[start:end]), *reversed(endings)]


def _opening_marks(word: str, start: int, end: int, rank: Rank) -> list[tuple[int, int]]:
    """Return the marks at the beginning of word[start:end], but no single quotation mark."""
    marks: list[tuple[int, int]] = []
    while rank(word[start:end]) is None and (mark := _OPENING.match(word, start, end)):
        if _is_inside(word, start, end) and rank(word[mark.end() : end]) is None:  # (s)he
            break
        marks.append(mark.span())
        start = mark.end()
    return marks


def _closing_marks(word: str, start: int, end: int, is_last: bool, rank: Rank, closes: bool) -> list[tuple[int, int]]:
    """Return the marks at the end of word[start:end], from the last backwards.

    Args:
        word: the word.
        start: of the segment.
        end: of the segment.
        is_last: whether the word is the last one of its line.
        rank: known words.
        closes: whether one of the marks is a single quotation mark that closes a quotation.
    """
    marks: list[tuple[int, int]] = []
    may_stop = True
    while start < end:
        begin = end
        if may_stop and word[end - 1] == "." and _ends_in_stop(word[start:end], is_last, rank):
            begin, may_stop = end - 1, False
        elif closes and word[end - 1] in _SINGLE_QUOTES and end - start > 1:
            closes = False
            begin -= rank(word[start:end]) is None or rank(word[start : end - 1]) is not None
        elif rank(word[start:end]) is None:
            dots = end - max(start, len(word[:end].rstrip("."))) if word[end - 1] == "." else 0
            if dots > 1:
                begin = end - dots
            elif mark := _CLOSING.search(word, max(start, end - 2), end):
                is_outside = not _has_partner(word, start, end) or rank(word[start : end - 1]) is not None  # option(s)
                begin = mark.start() if is_outside else end
        if begin == end:
            break
        marks.append((begin, end))
        end = begin
    return marks


def _has_partner(word: str, start: int, end: int) -> bool:
    """Return whether word[start:end] ends in a closing bracket and contains the opening one."""
    closing = word[end - 1]
    opening = _OPENING_BRACKETS.get(closing) if end - start <= _LONGEST_WITH_PAIRS else None
    return opening is not None and word.count(opening, start, end) >= word.count(closing, start, end)


def _is_inside(word: str, start: int, end: int) -> bool:
    """Return whether word[start:end] begins with a bracket that closes before a letter or digit: (s)he."""
    opening = word[start]
    closing = _BRACKETS.get(opening) if end - start <= _LONGEST_WITH_PAIRS else None
    if closing is None:
        return False
    depth = 0
    for place in range(start, end):
        depth += (word[place] == opening) - (word[place] == closing)
        if not depth:
            return any(map(str.isalnum, word[place + 1 : end]))
    return False


def _ranges(word: str, start: int, end: int, rank: Rank) -> list[tuple[int, int]]:
    """Return the parts of word[start:end]: those between en dashes, and the dashes, if only these are known."""
    if _EN_DASH in word[start:end] and rank(word[start:end]) is None:
        edges = [start]
        for place in range(start, end):
            if word[place] == _EN_DASH:
                edges += [place, place + 1]
        parts = list(pairwise([*edges, end]))
        if all(rank(word[low:high]) is not None for low, high in parts):
            return parts
    return [(start, end)]


def _straight(text: str) -> str:
    """Return a text with straight apostrophes."""
    return (text if text.isascii() else text.translate(STRAIGHT)).replace("`", "'")


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
