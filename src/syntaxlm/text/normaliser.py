"""Converts a line of text to tokens, by the rules of `NormaliserSettings`.

A line is first split into pieces at white space, and each piece is normalised by itself. Therefore each token is
aligned with characters of the original line, whatever the Unicode form changes, and normalised pieces can be cached.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache, partial
from itertools import chain, pairwise
from typing import Any, Generic, NamedTuple, TypeVar

from syntaxlm.core.errors import InputError, shortened
from syntaxlm.text.normaliser_settings import NormaliserSettings
from syntaxlm.trees.marks import gap_marks

Result = TypeVar("Result")

REMEMBERED_PIECES = 2**19  # pieces in the cache before it is cleared: under 150 MB of words
REMEMBERED_NORMALISERS = 16
REMEMBERED_LENGTH = 50  # characters; longer pieces (lines of a script without spaces) hardly ever repeat
LONG_LINE = 2**20  # characters; longer lines are read in pieces of about this size

# The zero-width space marks a word boundary (Unicode, chapter 23.2), but Python's split() ignores it.
ZERO_WIDTH_SPACE = "\u200b"
# Soft hyphen, word joiner, byte order mark, and marks of the direction of writing (Unicode, annex 9): invisible and not
# part of a word. Joiners (U+200C, U+200D) are spelling.
INVISIBLE = re.compile("[\u00ad\u061c\u200e\u200f\u202a-\u202e\u2060\u2066-\u2069\ufeff]")
_WHITE_SPACE = re.compile(r"\s+")
_PIECE = re.compile(r"\S+")
_WHOLE_NUMBER = re.compile(r"[-+−.,:/\\%]*\d[-.,:/\\%\d]*|%")
_DIGIT_RUN = re.compile(r"\d+")
_LONGEST_SEGMENT = 32  # characters that the Unicode form may join; real segments are shorter than 10
# A run of one character that is not markup (<unk>). Its last < or > may belong to markup: "<<unk>" is < and <unk>.
_RUN = re.compile(r"(?!<[A-Za-z/]+>)(?:<+(?=<[A-Za-z/]+>)|(.)\1*)", re.DOTALL)
_REVERSED_RUN = re.compile(r"(?!>[A-Za-z/]+<)(?:>+(?=>[A-Za-z/]+<)|(.)\1*)", re.DOTALL)  # of a word read backwards
_LONGEST_WRONG_TOKEN = 60  # characters of a wrong token in a message

NUMBER = "N"  # the token of all numbers
TAG_MARK = "_"  # between a word and its tag; the last one counts


class UntaggedTokenError(InputError):
    """Raised for a token of tagged text that is not `word_TAG`."""

    def __init__(self, token: str) -> None:
        shown = shortened(token, _LONGEST_WRONG_TOKEN)
        super().__init__(
            f"found {shown!r}; expected word_TAG, such as the_DT. A tag model (text.normaliser.units: tags) reads"
            " tagged text"
        )

    def at(self, place: str) -> InputError:
        """Return the same error with its place: "text.txt, line 3"."""
        return InputError(f"{place}: {self}")


class Piece(NamedTuple):
    """A word or mark of a line.

    Attributes:
        start: character offset in the line.
        end: character offset in the line.
        text: its spelling; "" if it is dropped.
    """

    start: int
    end: int
    text: str


class AlignedToken(NamedTuple):
    """A span of the original line and its token.

    Attributes:
        written: line[start:end].
        start: character offset in the original line.
        end: character offset in the original line.
        token: the token; None if the span was dropped.
    """

    written: str
    start: int
    end: int
    token: str | None


class TokenSpan(NamedTuple):
    """A span of a piece, and the tokens that it becomes: none if it is dropped, usually one."""

    start: int
    end: int
    tokens: tuple[str, ...]


class _PieceCache(dict[str, Result], Generic[Result]):
    """A bounded cache from pieces to their tokens or other values, which are computed at the first access."""

    def __init__(self, compute: Callable[[str], Result]) -> None:
        self._compute = compute

    def __missing__(self, piece: str) -> Result:
        result = self._compute(piece)
        if len(piece) <= REMEMBERED_LENGTH:
            if len(self) >= REMEMBERED_PIECES:
                self.clear()
            self[piece] = result
        return result


class Normaliser:
    """Applies the rules of `NormaliserSettings` to lines, and remembers the pieces that it has read.

    Normalisers with equal settings are equal. All methods that read a line raise UntaggedTokenError for a token without
    a tag if units are tags.

    Attributes:
        settings: the rules, as stored with a model.
        units: what a token is: words, characters or tags.
        space: the token for white space between words, in character units; None if white space is not read.
    """

    def __init__(self, settings: NormaliserSettings | None = None) -> None:
        settings = settings or NormaliserSettings()
        self.settings = settings
        self.units = settings.units
        self.space = settings.space if self.units == "characters" else None

        form = settings.unicode_form
        self._form: Callable[[str], str] = str if form == "keep" else partial(unicodedata.normalize, form)
        self._dropped_words = frozenset(settings.drop_words)
        self._space_length = 0 if self.units == "characters" and self.space is None else 1  # characters

        self._tokens = _PieceCache(self._find_tokens)
        self._aligned = _PieceCache(self._find_aligned)
        self._lengths = _PieceCache(self._find_length)
        self._segment_tokens = _PieceCache(self._find_segment_tokens)

    @classmethod
    @lru_cache(maxsize=REMEMBERED_NORMALISERS)
    def of(cls, settings: NormaliserSettings) -> Normaliser:
        """Return the normaliser with these settings, which is cached so that models share its caches of pieces."""
        return cls(settings)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Normaliser) and self.settings == other.settings

    def __hash__(self) -> int:
        return hash(self.settings)

    def __repr__(self) -> str:
        return f"Normaliser({self.settings})"

    def __reduce__(self) -> tuple[Any, ...]:  # the caches stay behind
        return Normaliser, (self.settings,)

    def tokens(self, line: str) -> list[str]:
        """Return the tokens of a line, without BOS and EOS. In character units there is no space at the ends."""
        if ZERO_WIDTH_SPACE in line:
            line = line.replace(ZERO_WIDTH_SPACE, " ")
        tokens = list(chain.from_iterable(map(self._tokens.__getitem__, line.split())))
        return tokens if self.space is None else tokens[1:]

    def marks(self, line: str) -> list[int]:
        """Return the classes of the dropped punctuation marks in each gap of `tokens(line)`, see `trees.marks`."""
        return gap_marks((part.written, part.token is not None) for part in self.align(line))

    def token_parts(self, line: str) -> Iterator[list[str]]:
        """Yield `tokens` of a line in several lists, so that a line of 100 MB does not require one list of all
        words.
        """
        has_begun = False
        for part in _parts_of_line(line):
            tokens = self.tokens(part)
            if tokens and has_begun and self.space is not None:
                tokens.insert(0, self.space)
            has_begun = has_begun or bool(tokens)
            yield tokens

    def align(self, line: str, pieces: Iterable[Piece] | None = None) -> list[AlignedToken]:
        """Return every token of a line with its position, in order. Dropped text has the token None.

        `tokens(line)` are the tokens that are not None. A tag is aligned with its word, or with itself if the word is
        empty. In character units, white space between two tokens is one token: the last before the next piece that is
        read. Characters that the Unicode form composes, decomposes or removes are aligned with the smallest span that
        it treats by itself, so the tokens of one decomposed character have the same start and end.

        Args:
            line: the text. Positions are character offsets in it.
            pieces: the words of the line, if they are split or spelled in another way than `tokens` does. The tokens of
                a piece with another spelling are aligned with all of it.
        """
        spans: Iterable[tuple[int, int, str]] = pieces or ()
        if pieces is None:
            spans = ((*match.span(), match[0]) for match in _PIECE.finditer(line.replace(ZERO_WIDTH_SPACE, " ")))
        aligned: list[AlignedToken] = []
        is_after_piece = False  # so that white space precedes the next piece
        is_after_token = False  # so that this white space may be a token
        for start, end, text in spans:
            if not text:
                aligned.append(AlignedToken(line[start:end], start, end, None))
                continue
            parts = self._aligned[text]

            # In character units, white space is a token if a token precedes it and the next piece is read.
            if self.units == "characters":
                is_read = any(part.token is not None for part in parts)
                if is_after_piece:
                    before = aligned[-1].end
                    space = self.space if is_after_token and is_read else None
                    aligned.append(AlignedToken(line[before:start], before, start, space))
                is_after_piece = True
                is_after_token = is_after_token or is_read

            if pieces is None or line[start:end] == text:
                aligned += [AlignedToken(part, start + low, start + high, token) for part, low, high, token in parts]
            else:
                aligned += [AlignedToken(line[start:end], start, end, part.token) for part in parts]
        return aligned

    def parts(self, word: str) -> list[AlignedToken]:
        """Return what `align` does for one word without white space."""
        return self._aligned[word]

    def written_length(self, line: str) -> int:
        """Return the number of characters of a line that its tokens represent, the divisor of bits per character.

        White space between two words counts as one character, or none if the model does not read it. White space at the
        ends of the line, dropped text and the line's end do not count. Tags have their own length.
        """
        total = sum(sum(map(self._lengths.__getitem__, split_words(part))) for part in _parts_of_line(line))
        return max(0, total - self._space_length)

    def word(self, written: str, tag: str = "") -> str:
        """Return the token of one word of a treebank, never split or dropped; an empty result becomes the word itself.

        In character units a treebank's words should be characters; a longer word remains one token, which is unknown.

        Args:
            written: the word.
            tag: its part-of-speech tag, which is the token if units are tags.

        Raises:
            InputError: for a word without a tag if units are tags.
        """
        if self.units == "tags":
            if not tag:
                raise InputError(f"the word {written!r} has no part-of-speech tag, but the model reads tags")
            return tag
        return self._normal_form(written) or written

    # ---- values of a piece, which the caches keep

    def _find_tokens(self, piece: str) -> tuple[str, ...]:
        """Return the tokens of a piece; in character units, with the space before it."""
        tokens = tuple([token for span in self._spans(piece) for token in span.tokens])
        return (self.space, *tokens) if tokens and self.space is not None else tokens

    def _find_aligned(self, piece: str) -> list[AlignedToken]:
        """Return the tokens of a piece with their positions in it."""
        aligned: list[AlignedToken] = []
        for start, end, tokens in self._spans(piece):
            aligned += [AlignedToken(piece[start:end], start, end, token) for token in tokens or (None,)]
        return aligned

    def _find_length(self, piece: str) -> int:
        """Return the number of characters of a piece that are read, including the space next to it.

        If nothing of the piece is read, this is 0.
        """
        length = 0
        for start, end, tokens in self._spans(piece):
            if tokens:
                length += len(tokens[0]) if self.units == "tags" else end - start
        return length and length + self._space_length

    def _find_segment_tokens(self, segment: str) -> tuple[str, ...]:
        """Return the characters that a segment of a word becomes."""
        return self._without_dropped(self._normal_form(segment, is_segment=True))

    # ---- the rules, numbered as in the docstring of `NormaliserSettings`

    def _spans(self, piece: str) -> list[TokenSpan]:
        """Return the spans of a piece; without gaps except for tags."""
        if self.units == "tags":
            word, tag = split_tag(piece)
            start, end = (0, len(word)) if word else (len(TAG_MARK), len(piece))
            return [TokenSpan(start, end, self._without_dropped([tag]))]

        words = [(0, len(piece))]
        if self.settings.splitting == "punctuation" and not piece.isalnum():
            words = _split_punctuation(piece)
        if self.units == "words":
            return [
                TokenSpan(start, end, self._without_dropped([self._normal_form(piece[start:end])]))
                for start, end in words
            ]

        # The characters of a word are read segment by segment, except those of a number.
        spans: list[TokenSpan] = []
        for start, end in words:
            if self.settings.numbers != "keep" and self._normal_form(piece[start:end]) == NUMBER:
                spans.append(TokenSpan(start, end, self._without_dropped([NUMBER])))
                continue
            for low, high in pairwise(start + edge for edge in self._segment_edges(piece[start:end])):
                spans.append(TokenSpan(low, high, self._segment_tokens[piece[low:high]]))
        return spans

    def _segment_edges(self, word: str) -> list[int]:
        """Return the edges of the smallest spans that the Unicode form treats by themselves, from 0 to the length of
        the word. With `runs`, a run of digits is one span.
        """
        form = self._form
        joins_digits = self.settings.numbers == "runs"
        is_in_form = form(word) == word
        if is_in_form and not joins_digits:
            return list(range(len(word) + 1))
        edges = [0]
        for place in range(1, len(word)):
            continues = joins_digits and word[place].isdecimal() and word[place - 1].isdecimal()
            if not is_in_form and not continues and place - edges[-1] < _LONGEST_SEGMENT:
                before = word[edges[-1] : place]
                character = word[place]
                continues = form(before + character) != form(before) + form(character)
            if not continues:
                edges.append(place)
        return [*edges, len(word)]

    def _normal_form(self, written: str, is_segment: bool = False) -> str:
        """Apply rules 2 and 3 to a word.

        Args:
            written: the word.
            is_segment: whether it is only a part of a word, which is no whole number.

        Returns:
            The normal form; "" if nothing is left.
        """
        numbers = self.settings.numbers
        if numbers != "keep" and written == NUMBER and not is_segment:
            return written
        token = self._form(INVISIBLE.sub("", written))
        if self.settings.lower_case:
            token = self._form(token.lower())
        if not token.isprintable() or " " in token:
            token = "".join(split_words(token))

        if numbers == "runs":
            return _DIGIT_RUN.sub(NUMBER, token)
        is_number = numbers == "whole" and not is_segment and _WHOLE_NUMBER.fullmatch(token)
        return NUMBER if is_number else token

    def _without_dropped(self, tokens: Iterable[str]) -> tuple[str, ...]:
        """Apply rule 5, and rule 4 to characters that equal `space`."""
        kept = [token for token in tokens if token and token not in self._dropped_words]
        if self.settings.drop_punctuation:
            kept = [token for token in kept if not is_punctuation(token)]
        if self.units == "characters":
            kept = ["\\" + token if token == self.space else token for token in kept]
        return tuple(kept)


def is_punctuation(token: str) -> bool:
    """Return whether no character of a token is a letter, digit or combining mark, as many vowel signs are."""
    return not (token.isalnum() or any(sign.isalnum() or unicodedata.category(sign)[0] == "M" for sign in token))


def has_tag(token: str) -> bool:
    """Return whether a token belongs to tagged text: it has an underscore followed by a tag."""
    return TAG_MARK in token and not token.endswith(TAG_MARK)


def split_tag(token: str) -> tuple[str, str]:
    """Return the word (which may be "") and the tag of a token of tagged text. Raises UntaggedTokenError."""
    if not has_tag(token):
        raise UntaggedTokenError(token)
    word, _, tag = token.rpartition(TAG_MARK)
    return word, tag


def without_tags(line: str) -> str:
    """Return the words of a line of tagged text; tags without a word are removed. Raises UntaggedTokenError."""
    return " ".join(word for word, _ in map(split_tag, split_words(line)) if word)


def split_words(line: str) -> list[str]:
    """Return a line, split at white space as in str.split(), and at U+200B."""
    return line.replace(ZERO_WIDTH_SPACE, " ").split()


def word_spans(line: str) -> Iterator[tuple[int, int]]:
    """Return the (start, end) of every word of a line, separated as by `split_words`."""
    return (match.span() for match in _PIECE.finditer(line.replace(ZERO_WIDTH_SPACE, " ")))


def _split_punctuation(piece: str) -> list[tuple[int, int]]:
    """Apply rule 1 to a piece: the (start, end) of its leading punctuation, its core, its trailing punctuation."""
    leading = _ends_of_runs(piece, _RUN)
    trailing = [len(piece) - end for end in _ends_of_runs(piece[leading[-1] :][::-1], _REVERSED_RUN)]
    return [(start, end) for start, end in pairwise(leading + trailing[::-1]) if start < end]


def _ends_of_runs(text: str, run: re.Pattern[str]) -> list[int]:
    """Return 0, and where each run of punctuation at the start of a text ends."""
    ends = [0]
    while ends[-1] < len(text) and unicodedata.category(text[ends[-1]])[0] in "PS":
        match = run.match(text, ends[-1])
        if match is None:  # markup
            break
        ends.append(match.end())
    return ends


def _parts_of_line(line: str) -> Iterator[str]:
    """Yield a line in pieces of about LONG_LINE characters, cut only at white space (not at U+200B)."""
    begin = 0
    while len(line) - begin > LONG_LINE:
        space = _WHITE_SPACE.search(line, begin + LONG_LINE)
        if space is None:
            break
        yield line[begin : space.start()]
        begin = space.end()
    yield line[begin:] if begin else line


def as_text(normaliser: Normaliser, tokens: list[str]) -> str:
    """Return tokens as a line of text: words separated by spaces; characters without separators, white space as a
    space.
    """
    if normaliser.units != "characters":
        return " ".join(tokens)
    if normaliser.space is None:
        return "".join(tokens)
    written = {normaliser.space: " ", f"\\{normaliser.space}": normaliser.space}
    return "".join(written.get(token, token) for token in tokens)
