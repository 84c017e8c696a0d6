"""Reads a user's text for a model: splits words as the vocabulary requires, then applies the stored normaliser.

A line passes these steps, named by file and class:

1. `lines.WrittenLines`: words, between white space.
2. `treebank_style.TreebankStyle`: punctuation and contractions are split off, where the vocabulary has them as words.
3. `TextReader`: each piece gets the spelling of the vocabulary.
4. `normaliser.Normaliser`: the rules that are stored with the model make tokens, aligned with the written characters.
5. `vocabulary.Vocabulary`: ids.
6. `lines.EncodedLines`: the tokens of all lines with their ids and offsets.

`lines.WordForms` takes steps 2 to 5 once for each distinct word.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, TypeVar

import numpy as np

from syntaxlm.core.errors import InputError
from syntaxlm.text.lines import EncodedLines, Key, WordForms, WrittenLines
from syntaxlm.text.normaliser import AlignedToken, Normaliser, Piece, UntaggedTokenError
from syntaxlm.text.options import Contractions, TextOptions
from syntaxlm.text.quotation_marks import MAY_QUOTE, UNQUOTED, Quoted, foreign_closings, single_quotes
from syntaxlm.text.treebank_style import STRAIGHT, TreebankStyle
from syntaxlm.text.vocabulary import Vocabulary

AS_TOKENISED = TreebankStyle()
AUTO_STYLE = TreebankStyle("auto", "auto")
Result = TypeVar("Result")

REMEMBERED_WORDS = 2**16  # words whose pieces are cached
REMEMBERED_READERS = 16
_LONGEST_LOOKED_UP = 2000  # characters; a longer word would be looked up once for each mark at its ends

# A vocabulary with one of these as a word is of text whose punctuation, or whose contractions, are split off.
_TOKENISED_MARKS = (",", ".", "?", "!", ";", ":", "(", "-LRB-", '"', "``", "“", "--")
_CONTRACTION_ENDINGS = ("n't", "'s", "'re", "'ve", "'ll", "'d", "'m")
_WORD_MARKS = ",;?!"
_WITH_MARK = re.compile(rf"[^\W\d_]{{2,}}[{_WORD_MARKS}]")
_FEW_WITH_MARKS = 0.005  # of a vocabulary; more words such as `said,` show that the training text was not tokenised
_NUMBER = re.compile(r"[-+−]?\d[-.,:/%\d]*|%")
_NUMBER_AND_MARK = re.compile(r".*\d[.,:%]+", re.DOTALL)
_MARKUP = re.compile(r"<.*>|-[A-Z]+-")
_PLAIN_QUOTE = '"'
_EN_DASH = "–"
_DIRECTED_QUOTES = (("``", "“"), ("''", "”"))  # opening, closing
_SINGLE_QUOTES = (("‘", "`", "'"), ("’", "'"))  # opening, closing
_OPENING_QUOTES = frozenset("„‟«‹‚「『")  # before other marks; beside a word, the side decides
_REVERSIBLE_QUOTES = {"“": True, "‘": True, "”": False}  # whether they open in English
_BEFORE_QUOTE = re.compile(r"[(\[{]|--+|—+")  # where a quotation may begin within a word
_SINGLE_FOREIGN_QUOTES = frozenset("‹›‚『』")
_FOREIGN_QUOTES = frozenset("„‟«»「」") | _SINGLE_FOREIGN_QUOTES
_SPELLINGS = {  # a mark, and how other texts write it
    "“": ("``", _PLAIN_QUOTE),
    "”": ("''", _PLAIN_QUOTE),
    "``": (_PLAIN_QUOTE, "“"),
    "''": (_PLAIN_QUOTE, "”"),
    "‘‘": ("``", "“", _PLAIN_QUOTE),
    "‘’": ("``", "“", _PLAIN_QUOTE),
    "’’": ("''", "”", _PLAIN_QUOTE),
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
    """Yield what a function of a reader returns for each line; an error names the sentence.

    Args:
        read: the function.
        lines: the lines.
        first: number of the first line.
    """
    for number, line in enumerate(lines, first):
        try:
            yield read(line)
        except UntaggedTokenError as error:
            raise error.at(f"sentence {number}") from None


class TextReader:
    """Reads lines of text for one model: its tokens, and the position of every token in the line.

    Attributes:
        normaliser: the rules stored with the model.
        vocabulary: the tokens that the model knows.
        style: the splitting before the normaliser, never `auto`.
        adapts: whether the vocabulary decides where a word is split and how it is spelled, see `of`; otherwise only the
            rules of the style apply.
        is_plain: whether words are neither split nor respelled before the normaliser reads them.
    """

    def __init__(
        self,
        normaliser: Normaliser,
        vocabulary: Vocabulary,
        style: TreebankStyle = AS_TOKENISED,
        adapts: bool = False,
    ) -> None:
        self.normaliser = normaliser
        self.vocabulary = vocabulary
        self.style = style
        self.adapts = adapts
        self.is_plain = style == AS_TOKENISED and not adapts
        self._known_ids = lru_cache(REMEMBERED_WORDS)(self._find_known_ids)
        self._rank = lru_cache(REMEMBERED_WORDS)(self._find_rank)
        self._spelled_pieces = lru_cache(REMEMBERED_WORDS)(self._find_spelled_pieces)
        self._forms = WordForms(self._parts_of_word, vocabulary.id)
        if adapts:  # how the vocabulary spells words
            tokens = vocabulary.tokens
            special = {vocabulary.unknown, vocabulary.begin, vocabulary.end, "N"}
            capitals = (token for token in tokens if token != token.lower())
            self._is_lower_case = all(token in special or _MARKUP.fullmatch(token) for token in capitals)
            self._has_numbers_as_n = self._known_ids("N") is not None and not any(map(str.isdecimal, tokens))

    @classmethod
    def of(cls, normaliser: Normaliser, vocabulary: Vocabulary, options: TextOptions = AS_TOKENISED) -> TextReader:
        """Return the reader of a model.

        If the options have `auto`, the vocabulary decides:
        - Punctuation is split off if the normaliser splits it off. Otherwise it is kept if more than 0.5% of the
          vocabulary are words with a mark (`said,`), even if some marks, such as dashes, are words; split off if marks
          are words; and dropped if there is neither, because the training text had none.
        - Contractions are split if the vocabulary contains n't, 's or another ending as a word.
        - Words that are in the vocabulary as written are not split: `Mr.`, `cannot`. A full stop is also split off
          inside a line, if the vocabulary contains the word only without it.
        - Words and marks are spelled as in the vocabulary: `` and '' for quotation marks, also for « and others that
          open or close a quotation in another language, -LRB- for a bracket, a straight apostrophe for a curly one, N
          for a number. A capital becomes lower case if the vocabulary has no capitals or the word is the first of its
          line.
        Text that is tokenised like the model's training text is read unchanged. For characters, tags and open
        vocabularies, `auto` means `keep`.
        Raises InputError for a tag model with a style that splits or drops.
        """
        return cls._remembered(normaliser, vocabulary, TreebankStyle(options.punctuation, options.contractions))

    @classmethod
    @lru_cache(maxsize=REMEMBERED_READERS)  # a scan of the vocabulary takes longer than reading a sentence
    def _remembered(cls, normaliser: Normaliser, vocabulary: Vocabulary, asked: TreebankStyle) -> TextReader:
        """Return the reader of a style, see `of`. Options that do not concern words share it."""
        chosen = {asked.punctuation, asked.contractions}
        if normaliser.units == "tags" and {"split", "drop"} & chosen:
            raise InputError(f"{asked}: the model reads tagged text, whose words are not split; expected keep or auto")
        adapts = "auto" in chosen and normaliser.units == "words" and not vocabulary.is_open
        automatic = _style_of(cls(normaliser, vocabulary)) if adapts else AS_TOKENISED
        style = TreebankStyle(
            automatic.punctuation if asked.punctuation == "auto" else asked.punctuation,
            automatic.contractions if asked.contractions == "auto" else asked.contractions,
        )
        return cls(normaliser, vocabulary, style, adapts)

    def tokens(self, line: str) -> list[str]:
        """Return the tokens of a line, without BOS and EOS."""
        if not self.is_plain:
            line = " ".join(piece.text for piece in self._pieces(line) if piece.text)
        return self.normaliser.tokens(line)

    def token_parts(self, line: str) -> Iterator[list[str]]:
        """Yield the tokens of a line in one or more lists; see `Normaliser.token_parts`."""
        return self.normaliser.token_parts(line) if self.is_plain else iter([self.tokens(line)])

    def written_length(self, line: str) -> int:
        """Return the number of characters of a line that its tokens represent; see `Normaliser.written_length`."""
        if not self.is_plain:
            dropped = [piece for piece in self._pieces(line) if not piece.text]
            starts = [0, *(piece.end for piece in dropped)]
            ends = [*(piece.start for piece in dropped), len(line)]
            line = "".join(line[start:end] for start, end in zip(starts, ends, strict=True))
        return self.normaliser.written_length(line)

    def read(self, lines: Sequence[str], first: int = 1) -> EncodedLines:
        """Return the tokens of lines, with their positions and what is not read: `align` for many lines.

        Args:
            lines: the lines.
            first: number of the first line; errors name the sentence.
        """
        if self.normaliser.units == "characters":
            return EncodedLines.of_characters(lines, list(map(self.align, lines)), self.vocabulary.id)
        written = WrittenLines.of(lines)
        try:
            return self._forms.read(written, written.words if self.is_plain else self._keys(written))
        except UntaggedTokenError:
            list(each_line(self.align, lines, first))  # raises the error, with its place
            raise

    def align(self, line: str) -> list[AlignedToken]:
        """Return every token of a line with its position, as `Normaliser.align` gives it; dropped text has the token
        None.

        The tokens of a respelled mark or contraction are aligned with all of it.
        """
        return self.normaliser.align(line, None if self.is_plain else self._pieces(line))

    def split(self, line: str) -> str:
        """Return the line with its words split by the style but not respelled, separated by single spaces."""
        if self.is_plain:
            return line
        return " ".join(piece.text for piece in self._pieces(line, spelled=False) if piece.text)

    def without_splitting(self) -> TextReader:
        """Return a reader that respells words like this one, but does not split them."""
        return TextReader(self.normaliser, self.vocabulary, AS_TOKENISED, self.adapts)

    def _pieces(self, line: str, spelled: bool = True) -> list[Piece]:
        """Return the pieces of a line.

        Args:
            spelled: in the spelling of the vocabulary, if the reader adapts to it.
        """
        written = WrittenLines.of([line])
        pieces: list[Piece] = []
        for key, first in zip(self._keys(written), written.starts.tolist(), strict=True):
            word, *place = key if isinstance(key, tuple) else (key,)
            for start, stop, text in self._pieces_of_word(word, *place, spelled=spelled):
                pieces.append(Piece(first + start, first + stop, text))
        return pieces

    def _keys(self, written: WrittenLines) -> list[Key]:
        """Return cache keys: a word, or (word, is_first, is_last, opens, quoted, closes_foreign) if its place changes
        its reading; the last elements may be missing.

        is_first and is_last: whether the word is the first or last of its line.  opens: whether it opens a quotation.
        quoted: its single quotation marks, if it has any.  closes_foreign: see `_find_spelled_pieces`. A reader that
        does not adapt ignores is_first and opens.
        """
        # Rows: is_first, is_last, opens.
        places = np.zeros((3, len(written.words)), np.bool_)
        lines_with_words = np.flatnonzero(np.diff(written.offsets))
        places[1, written.offsets[lines_with_words + 1] - 1] = True
        if self.adapts:
            places[0, written.offsets[lines_with_words]] = True
            places[2] = written.opens

        keys: list[Key] = list(written.words)
        special = np.flatnonzero(places.any(axis=0))
        for number, is_first, is_last, opens in zip(special.tolist(), *places[:, special].tolist(), strict=True):
            word = written.words[number]
            if is_first or not word.isalnum():  # the last place and quotations matter to words with marks
                keys[number] = (word, is_first, is_last, opens)
        for number, quoted in self._quotes(written):
            keys[number] = (written.words[number], *places[:, number].tolist(), quoted)
        for number in self._foreign_closings(written):
            key = keys[number]
            quoted = key[4] if isinstance(key, tuple) and len(key) > 4 else UNQUOTED
            keys[number] = (written.words[number], *places[:, number].tolist(), quoted, True)
        return keys

    def _foreign_closings(self, written: WrittenLines) -> Iterator[int]:
        """Yield the numbers of the words with a mark of `foreign_closings`."""
        for line, text in enumerate(written.lines if self.adapts else ()):
            if "”" in text:
                begin, end = written.offsets[line : line + 2].tolist()
                places = list(foreign_closings(text))
                yield from (begin + np.searchsorted(written.starts[begin:end], places, side="right") - 1).tolist()

    def _quotes(self, written: WrittenLines) -> Iterator[tuple[int, Quoted]]:
        """Yield the numbers of the words at which single quotation marks are split off, with the marks."""
        if self.style.punctuation == "keep":
            return
        for line, text in enumerate(written.lines):
            if ("'" in text or "‘" in text) and MAY_QUOTE.search(text):
                begin, end = written.offsets[line : line + 2].tolist()
                for number, quoted in single_quotes(written.words[begin:end]).items():
                    yield begin + number, quoted

    def _pieces_of_word(
        self,
        word: str,
        is_first: bool = False,
        is_last: bool = False,
        opens: bool = False,
        quoted: Quoted = UNQUOTED,
        closes_foreign: bool = False,
        *,
        spelled: bool = True,
    ) -> Sequence[Piece]:
        if not self.adapts:
            return self.style.pieces(word, is_last, quoted=quoted)
        if not spelled:
            return self.style.pieces(word, is_last, self._rank, quoted)
        return self._spelled_pieces(word, is_first, is_last, opens, quoted, closes_foreign)

    def _parts_of_word(self, word: str, *place: Any) -> list[AlignedToken]:
        """Return the tokens of a word of a line, and what is not read of it.

        Args:
            place: see `_keys`.
        """
        if self.is_plain:
            return self.normaliser.parts(word)
        if self.adapts and word.isalnum():  # most words are known as they are written, and are not split
            parts = self.normaliser.parts(word)
            if len(parts) == 1 and parts[0].token is not None and self.vocabulary.knows(parts[0].token):
                return parts
        return self.normaliser.align(word, self._pieces_of_word(word, *place))

    def _find_spelled_pieces(
        self, word: str, is_first: bool, is_last: bool, opens: bool, quoted: Quoted, closes_foreign: bool
    ) -> Sequence[Piece]:
        """Return the pieces of a word, spelled as in the vocabulary.

        Args:
            opens: whether it opens a quotation.
            closes_foreign: whether its ” closes a quotation that began with „ or ”, and so has the spelling of “ there.
        """
        pieces = self.style.pieces(word, is_last, self._rank, quoted)
        opens = opens or len(pieces) > 1  # a quotation mark before other pieces opens
        has_only_marks = len(pieces) > 1 and not any(map(str.isalnum, word))
        spelled = []
        for start, end, text in pieces:
            opens_here = text in _OPENING_QUOTES if has_only_marks and text in _FOREIGN_QUOTES else opens
            side = 0 if opens_here else 1
            if closes_foreign and text == "”" and not opens_here:
                spelling = self._quote("“", side)
            elif text in _FOREIGN_QUOTES or _REVERSIBLE_QUOTES.get(text, opens_here) != opens_here:
                spelling = self._quote(text, side)
            else:
                spelling = text and self._spelling(text, is_first, _DIRECTED_QUOTES[side])
            spelled.append(Piece(start, end, spelling))

            # A quotation mark after a word closes, but one between a bracket or dash and a word opens.
            if _BEFORE_QUOTE.fullmatch(text):
                opens = any(map(str.isalnum, word[end:]))
            else:
                opens = opens and (text in ("", _PLAIN_QUOTE) or text in _FOREIGN_QUOTES or text in _REVERSIBLE_QUOTES)
        return spelled

    def _find_rank(self, word: str) -> list[int] | None:
        """Return the ids of a word in the spelling of the vocabulary, to rank words: frequent words have lower ids.

        None for unknown and very long words, and for numbers with a mark (`5,`), whose mark is not part of the word.
        """
        if len(word) > _LONGEST_LOOKED_UP or _NUMBER_AND_MARK.fullmatch(word):
            return None
        return self._known_ids(self._spelling(word))

    def _find_known_ids(self, word: str) -> list[int] | None:
        """Return the ids of the tokens of a word; None if one is unknown, or there is none."""
        tokens = [part.token for part in self.normaliser.parts(word) if part.token is not None]
        return self.vocabulary.encode(tokens) if tokens and all(map(self.vocabulary.knows, tokens)) else None

    def _quote(self, mark: str, side: int) -> str:
        """Return a quotation mark of another language as the vocabulary writes it most often; unchanged if not at all.

        Args:
            mark: the mark; it stays, if it is known, unless other languages use it on the other side of a quotation.
            side: 0 if it opens a quotation, 1 if it closes one.
        """
        as_written = [] if mark in _REVERSIBLE_QUOTES else [mark]
        is_single = mark in _SINGLE_FOREIGN_QUOTES or mark == "‘"
        single = [*as_written, *_SINGLE_QUOTES[side]] if is_single else []
        double = [*as_written, *_DIRECTED_QUOTES[side], _PLAIN_QUOTE]
        known = list(filter(self._known_ids, single)) or list(filter(self._known_ids, double))
        return mark if mark in known else min(known, key=lambda form: self._known_ids(form) or [], default=mark)

    def _spelling(self, text: str, is_first: bool = False, quotes: Sequence[str] = ()) -> str:
        """Return a word or mark in the spelling of the vocabulary; unchanged if it has none.

        Args:
            text: the word or mark.
            is_first: whether it is the first word of its line, which may have a capital for this reason.
            quotes: how other texts write a straight quotation mark at this place.
        """
        if text == _PLAIN_QUOTE:
            forms = [text, *quotes]
        elif text in _SPELLINGS:
            forms = [text, *_SPELLINGS[text]]
        else:
            straight = text if text.isascii() else text.translate(STRAIGHT)
            forms = [text, straight]
            if self._is_lower_case or is_first:
                forms += [text.lower(), straight.lower()]
            if self._has_numbers_as_n and _NUMBER.fullmatch(text):
                forms.append("N")
            if _EN_DASH in text:  # 1990–95
                forms += [form.replace(_EN_DASH, "-") for form in forms]
        return next(filter(self._known_ids, forms), text)


def _style_of(reader: TextReader) -> TreebankStyle:
    """Return the splitting that `auto` stands for, see `TextReader.of`: that of the vocabulary's training text."""
    contractions: Contractions = "split" if any(map(reader._known_ids, _CONTRACTION_ENDINGS)) else "keep"
    if reader.normaliser.settings.splitting == "punctuation":
        return TreebankStyle("split", contractions)

    # Words such as `said,` are more evidence than marks that are words, such as dashes.
    candidates = (token for token in reader.vocabulary.tokens if token[-1] in _WORD_MARKS)
    words_with_mark = sum(_WITH_MARK.fullmatch(token) is not None for token in candidates)
    if words_with_mark > _FEW_WITH_MARKS * len(reader.vocabulary):
        return TreebankStyle("keep", contractions)
    are_words = any(map(reader._known_ids, _TOKENISED_MARKS))
    return TreebankStyle("split" if are_words else "drop", contractions)
