"""Reads a user's text for a model: splits words as the vocabulary requires, then applies the stored normaliser."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import accumulate, pairwise
from operator import attrgetter
from typing import TypeVar

from syntaxlm.core.errors import InputError
from syntaxlm.text.normaliser import AlignedToken, Normaliser, UntaggedTokenError, word_spans
from syntaxlm.text.options import Contractions, Punctuation, TextOptions
from syntaxlm.text.treebank_style import Piece, TreebankStyle
from syntaxlm.text.vocabulary import Vocabulary

AS_TOKENISED = TreebankStyle()
AUTO_STYLE = TreebankStyle("auto", "auto")
Result = TypeVar("Result")
_START = attrgetter("start")

REMEMBERED_WORDS = 2**16  # words whose pieces are cached
REMEMBERED_READERS = 16

_MARKS = (",", ".", "?", "!", ";", ":", "(", "-LRB-", '"', "``", "“", "--")
_ENDINGS = ("n't", "'s", "'re", "'ve", "'ll", "'d", "'m")
_WITH_MARK = re.compile(r"[^\W\d_]{2,}[,;?!]")
_FEW = 0.005  # share of a vocabulary; more words such as `said,` show that the training text was not tokenised
_NUMBER = re.compile(r"[-+−]?\d[-.,:/%\d]*|%")
_NUMBER_AND_MARK = re.compile(r".*\d[.,:%]", re.DOTALL)
_MARKUP = re.compile(r"<.*>|-[A-Z]+-")
_PLAIN_QUOTE = '"'
_QUOTES = (("``", "“"), ("''", "”"))  # opening, closing
_SPELLINGS = {  # a mark, and how other texts write it
    "“": ("``", _PLAIN_QUOTE),
    "”": ("''", _PLAIN_QUOTE),
    "``": (_PLAIN_QUOTE, "“"),
    "''": (_PLAIN_QUOTE, "”"),
    "‘": ("`", "'"),
    "’": ("'", "''"),
    "…": ("...",),
    "—": ("--", "–"),
    "–": ("--", "—"),
    "--": ("—", "–"),
    "(": ("-LRB-",),
    ")": ("-RRB-",),
    "[": ("-LSB-", "-LRB-"),
    "]": ("-RSB-", "-RRB-"),
    "{": ("-LCB-", "-LRB-"),
    "}": ("-RCB-", "-RRB-"),
}


def each_line(read: Callable[[str], Result], lines: Iterable[str], first: int = 1) -> Iterator[Result]:
    """Yield what a function of a reader returns for each line; an error names the sentence. first: its number."""
    for number, line in enumerate(lines, first):
        try:
            yield read(line)
        except UntaggedTokenError as error:
            raise error.at(f"sentence {number}") from None


@dataclass(frozen=True)
class TextReader:
    """Reads lines of text for one model: its tokens, and the position of every token in the line.

    style: the splitting before the normaliser, never `auto`. adapts: whether the vocabulary decides where a word is
    split and how it is spelled, see `of`; otherwise only the rules of the style apply.
    """

    normaliser: Normaliser
    vocabulary: Vocabulary
    style: TreebankStyle = AS_TOKENISED
    adapts: bool = False
    is_plain: bool = field(init=False, repr=False, compare=False)
    knows: Callable[[str], bool] = field(init=False, repr=False, compare=False)
    _spelled: Callable[[str, bool, bool, bool], Sequence[Piece]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Let results for words be remembered.

        is_plain: whether words are neither split nor respelled before the normaliser reads them.
        knows: whether the vocabulary contains all tokens of a word.
        """
        object.__setattr__(self, "is_plain", self.style == AS_TOKENISED and not self.adapts)
        object.__setattr__(self, "knows", lru_cache(REMEMBERED_WORDS)(self._knows))
        object.__setattr__(self, "_spelled", lru_cache(REMEMBERED_WORDS)(self._spelled_pieces))

    @classmethod
    @lru_cache(maxsize=REMEMBERED_READERS)  # a scan of the vocabulary takes longer than reading a sentence
    def of(cls, normaliser: Normaliser, vocabulary: Vocabulary, options: TextOptions = AS_TOKENISED) -> TextReader:
        """Return the reader of a model.

        If the options have `auto`, the vocabulary decides:
        - Punctuation is split off if the vocabulary contains marks as words, or if the normaliser splits it off. It is
          kept if the vocabulary contains words with marks (`said,`). Otherwise it is dropped, because the training text
          had none.
        - Contractions are split if the vocabulary contains n't, 's or another ending as a word.
        - Words that are in the vocabulary as written are not split: `Mr.`, `cannot`. A full stop is also split off
          inside a line, if the vocabulary contains the word only without it.
        - Words and marks are spelled as in the vocabulary: `` and '' for quotation marks, -LRB- for a bracket, a
          straight apostrophe for a curly one, N for a number. A capital becomes lower case if the vocabulary has no
          capitals or the word is the first of its line.
        Text that is tokenised like the model's training text is read unchanged. For characters, tags and open
        vocabularies, `auto` means `keep`.
        Raises InputError for a tag model with a style that splits or drops.
        """
        style, is_auto = TreebankStyle.of(options), "auto" in (options.punctuation, options.contractions)
        if normaliser.units == "tags" and {"split", "drop"} & {style.punctuation, style.contractions}:
            raise InputError(f"{style}: the model reads tagged text, whose words are not split; expected keep or auto")
        adapts = is_auto and normaliser.units == "words" and not vocabulary.is_open
        punctuation: Punctuation = "keep"
        contractions: Contractions = "keep"
        if adapts:  # the style that `auto` stands for
            knows = cls(normaliser, vocabulary).knows
            contractions = "split" if any(map(knows, _ENDINGS)) else "keep"
            if normaliser.splitting == "punctuation" or any(map(knows, _MARKS)):
                punctuation = "split"
            else:
                with_mark = sum(_WITH_MARK.fullmatch(token) is not None for token in vocabulary.tokens)
                punctuation = "keep" if with_mark > _FEW * len(vocabulary) else "drop"
        style = TreebankStyle(
            punctuation if style.punctuation == "auto" else style.punctuation,
            contractions if style.contractions == "auto" else style.contractions,
        )
        return cls(normaliser, vocabulary, style, adapts)

    def tokens(self, line: str) -> list[str]:
        """Return the tokens of a line, without BOS and EOS."""
        if not self.is_plain:
            line = " ".join(piece.text for piece in self._pieces(line, spelled=True) if piece.text)
        return self.normaliser.tokens(line)

    def align(self, line: str) -> list[AlignedToken]:
        """Return every token of a line with its position, as `Normaliser.align` gives it; dropped text has the token
        None.

        The tokens of a respelled mark or contraction are aligned with all of it.
        """
        if self.is_plain:
            return self.normaliser.align(line)
        pieces = self._pieces(line, spelled=True)
        read = [piece for piece in pieces if piece.text]
        text = " ".join(piece.text for piece in read)
        if text == line:  # nothing was split, respelled or dropped
            return self.normaliser.align(line)
        ends_before = {after.start: before.end for before, after in pairwise(pieces)}
        begins = list(accumulate((len(piece.text) + 1 for piece in read), initial=0))
        aligned = [AlignedToken(line[one.start : one.end], one.start, one.end, None) for one in pieces if not one.text]
        for _, start, end, token in self.normaliser.align(text):
            number = bisect_right(begins, start) - 1
            piece, begin = read[number], begins[number]
            if start - begin == len(piece.text):  # the space between two pieces, a token of character-level models
                after = read[number + 1].start
                low, high = ends_before[after], after
            elif line[piece.start : piece.end] == piece.text:
                low, high = piece.start + start - begin, piece.start + end - begin
            else:
                low, high = piece.start, piece.end
            aligned.append(AlignedToken(line[low:high], low, high, token))
        return sorted(aligned, key=_START) if len(read) < len(pieces) else aligned

    def split(self, line: str) -> str:
        """Return the line with its words split by the style but not respelled, separated by single spaces."""
        return (
            line if self.is_plain else " ".join(piece.text for piece in self._pieces(line, spelled=False) if piece.text)
        )

    def without_splitting(self) -> TextReader:
        """Return a reader that respells words like this one, but does not split them."""
        return TextReader(self.normaliser, self.vocabulary, AS_TOKENISED, self.adapts)

    def _knows(self, word: str) -> bool:
        tokens = self.normaliser.tokens(word)
        return bool(tokens) and all(map(self.vocabulary.knows, tokens))

    def has(self, word: str) -> bool:
        """Return whether the vocabulary contains a word in any spelling. A mark after a number is not part of the
        word.
        """
        return not _NUMBER_AND_MARK.fullmatch(word) and self.knows(self._spelling(word))

    def is_more_frequent(self, word: str, other: str) -> bool:
        """Return whether the first of two known words is more frequent; the vocabulary is sorted by decreasing
        frequency.
        """
        first, second = (self.vocabulary.encode(self.normaliser.tokens(self._spelling(one))) for one in (word, other))
        return first < second

    def _pieces(self, line: str, spelled: bool) -> list[Piece]:
        """Return the pieces of a line. spelled: in the spelling of the vocabulary, if the reader adapts to it."""
        spans = list(word_spans(line))
        pieces: list[Piece] = []
        quotes = 0
        for number, (begin, end) in enumerate(spans, 1):
            word, is_last = line[begin:end], number == len(spans)
            if spelled and self.adapts:
                quotes += word.count(_PLAIN_QUOTE)
                opens = word == _PLAIN_QUOTE and quotes % 2 == 1
                of_word = self._spelled(word, number == 1, is_last, opens)
            else:
                of_word = self.style.pieces(word, is_last, self if self.adapts else None)
            pieces += [Piece(begin + start, begin + stop, text) for start, stop, text in of_word]
        return pieces

    def _spelled_pieces(self, word: str, is_first: bool, is_last: bool, opens: bool) -> Sequence[Piece]:
        """Return the pieces of a word, spelled as in the vocabulary. opens: whether it opens a quotation."""
        pieces = self.style.pieces(word, is_last, self)
        opens = opens or len(pieces) > 1
        spelled = []
        for piece in pieces:
            text = piece.text
            if text:
                spelled.append(piece._replace(text=self._spelling(text, is_first, _QUOTES[0 if opens else 1])))
                opens = opens and text == _PLAIN_QUOTE  # a quotation mark after a word closes
            else:
                spelled.append(piece)
        return spelled

    def _spelling(self, text: str, is_first: bool = False, quotes: Sequence[str] = ()) -> str:
        """Return a word or mark in the spelling of the vocabulary; unchanged if it has none.

        quotes: how other texts write a straight quotation mark at this place.
        """
        if text == _PLAIN_QUOTE:
            forms = [text, *quotes]
        elif text in _SPELLINGS:
            forms = [text, *_SPELLINGS[text]]
        else:
            straight = text.replace("’", "'")
            is_lower_case, has_numbers_as_n = self._conventions
            forms = [text, straight]
            if is_lower_case or is_first:
                forms += [text.lower(), straight.lower()]
            if has_numbers_as_n and _NUMBER.fullmatch(text):
                forms.append("N")
        return next(filter(self.knows, forms), text)

    @cached_property
    def _conventions(self) -> tuple[bool, bool]:
        """Whether the vocabulary has no capitals, and whether it has N instead of numbers."""
        tokens = self.vocabulary.tokens
        special = {self.vocabulary.unknown, self.vocabulary.begin, self.vocabulary.end, "N"}
        words = (token for token in tokens if token not in special and not _MARKUP.fullmatch(token))
        has_numbers_as_n = self.knows("N") and not any(token.isdecimal() for token in tokens)
        return all(word == word.lower() for word in words), has_numbers_as_n
