"""Converts a line of text to tokens, by rules that are saved with a model and applied by every command.

A line is first split into pieces at white space, and each piece is normalised by itself. Therefore each token is
aligned with characters of the original line, whatever the Unicode form changes, and normalised pieces can be cached.
"""

from __future__ import annotations

import dataclasses
import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Annotated, Any, Generic, Literal, NamedTuple, TypeVar

from pydantic import Field

from syntaxlm.core.errors import InputError, closest_match, shortened
from syntaxlm.core.settings import Settings

Units = Literal["words", "characters", "tags"]
UnicodeForm = Literal["NFC", "NFD", "NFKC", "NFKD", "keep"]
Splitting = Literal["whitespace", "punctuation"]
Numbers = Literal["keep", "whole", "runs"]
Token = Annotated[str, Field(min_length=1)]

REMEMBERED_PIECES = 2**19  # pieces in the cache before it is cleared: under 150 MB of words
REMEMBERED_LENGTH = 50  # characters; longer pieces (lines of a script without spaces) hardly ever repeat
LONG_LINE = 2**20  # characters; longer lines are read in pieces of about this size

# The zero-width space marks a word boundary (Unicode, chapter 23.2), but Python's split() ignores it.
_ZERO_WIDTH_SPACE = "\u200b"
# Soft hyphen, word joiner, byte order mark: invisible and not part of a word. Joiners (U+200C, U+200D) are spelling.
_INVISIBLE = re.compile("[\u00ad\u2060\ufeff]")
_WHITE_SPACE = re.compile(r"\s+")
_PIECE = re.compile(r"\S+")
_WHOLE_NUMBER = re.compile(r"[-+−.,:/\\%]*\d[-.,:/\\%\d]*|%")
_DIGIT_RUN = re.compile(r"\d+")
_LONGEST_SEGMENT = 32  # characters that the Unicode form may join; real segments are shorter than 10
_MARKUP = re.compile(r"<[A-Za-z/]+>")
_SHOWN = 60  # characters of a wrong token shown in a message


TAG_MARK = "_"  # between a word and its tag; the last one counts


class UntaggedTokenError(InputError):
    """Raised for a token of tagged text that is not `word_TAG`."""

    def __init__(self, token: str) -> None:
        shown = shortened(token, _SHOWN)
        super().__init__(
            f"found {shown!r}, expected word_TAG, such as the_DT. A tag model (text.normaliser.units: tags) reads"
            " tagged text"
        )

    def at(self, place: str) -> InputError:
        """Return the same error with its place: "text.txt, line 3"."""
        return InputError(f"{place}: {self}")


class AlignedToken(NamedTuple):
    """A span of the original line and its token.

    written: line[start:end].  start, end: character offsets in the original line.  token: None if it was dropped.
    """

    written: str
    start: int
    end: int
    token: str | None


class _Part(NamedTuple):
    """A span of one piece (start, end: character offsets in the piece) and its tokens, often one."""

    start: int
    end: int
    tokens: tuple[str, ...]


_Found = TypeVar("_Found")


class _Memory(dict[str, _Found], Generic[_Found]):
    """A bounded cache from pieces to their tokens or other values, which are computed at the first access."""

    def __init__(self, work_out: Callable[[str], _Found]) -> None:
        super().__init__()
        self._work_out = work_out

    def __missing__(self, piece: str) -> _Found:
        found = self._work_out(piece)
        if len(piece) <= REMEMBERED_LENGTH:
            if len(self) >= REMEMBERED_PIECES:
                self.clear()
            self[piece] = found
        return found


@dataclass(frozen=True)
class Normaliser(Settings, section="normaliser"):
    """The normalisation of text before a model reads it, in this order.

    1. Splitting. `whitespace`: at runs of white space as in str.split(), which includes no-break spaces, and at U+200B.
       `punctuation`: then, at both ends of every piece, characters of the Unicode categories P* and S* are split off,
       each run of the SAME character as one token ("..." is one token, `!?` is two). The rest remains one token, so
       inner apostrophes, hyphens and points are kept: `"don't!"` -> `" don't ! "`, but `Mr.` -> `Mr .`, `$5` -> `$ 5`.
       Markup of the form <unk> is never split.
    2. U+00AD, U+2060 and U+FEFF are removed; the Unicode form is applied; then lower case (and the form once more,
       because lower case can undo it); white space that a compatibility form adds inside a word is removed.
    3. Numbers. `whole`: a token made of digits and - + . , : / \\ % with at least one digit becomes N; so does a single
       %. This is the rule of Mikolov's Penn Treebank text: 3\\/4, 1989-90, 10:30 and % become N, but 30-year, 1980s and
       '86 do not. `runs`: every run of digits becomes N ("1,000" -> "N,N"), as in PRPN's and ON-LSTM's trees. If
       numbers are replaced, a token N in the text counts as a number, and lower case does not change it.
    4. With units `characters`, every piece is split into code points, with one `space` between pieces. A character is a
       code point, not a grapheme: under NFD, an accent is a separate token. A character of the text that equals `space`
       becomes another token (\\_ for _), so that different texts remain different. If `space` is None, white space is
       omitted, for scripts without spaces.
    5. Dropping: tokens in `drop_words`, or without letter, digit or combining mark. The `space` is never dropped.

    With units `tags`, text is `word_TAG` tokens separated by white space, and a model reads the tags (the text after
    the last underscore) unchanged: rules 1 to 3 do not apply, rule 5 does. The word may be empty: `_DT`.
    """

    units: Units = "words"  # what a token is; tags: the part-of-speech tags of tagged text, word_TAG, and of treebanks
    unicode_form: UnicodeForm = "NFC"  # normal form of the Unicode standard, annex 15; keep: as written
    splitting: Splitting = "whitespace"  # where words end; see rule 1
    lower_case: bool = False  # whether capitals are lowered
    numbers: Numbers = "keep"  # which numbers become N; see rule 3
    drop_words: tuple[str, ...] = ()  # tokens left out, compared after normalisation: ("$", "#")
    drop_punctuation: bool = False  # whether tokens without letter, digit or combining mark are left out
    space: Token | None = "_"  # units characters: what stands for white space; null: nothing

    def __post_init__(self) -> None:
        if isinstance(self.drop_words, list):  # JSON and YAML give lists; tuples keep the settings hashable
            object.__setattr__(self, "drop_words", tuple(self.drop_words))
        super().__post_init__()
        # The caches are not settings, and therefore not fields.
        object.__setattr__(self, "_dropped", frozenset(self.drop_words))
        object.__setattr__(self, "_spaced", self.units == "characters" and self.space is not None)
        object.__setattr__(self, "_space_length", 0 if self.units == "characters" and self.space is None else 1)
        object.__setattr__(self, "_memory", _Memory(self._tokens_of_piece))
        object.__setattr__(self, "_part_memory", _Memory(self._parts))
        object.__setattr__(self, "_written_memory", _Memory(self._written_of_piece))
        object.__setattr__(self, "_segment_memory", _Memory(self._tokens_of_segment))
        object.__setattr__(self, "_length_memory", _Memory(self._length_of_piece))

    def __reduce__(self) -> tuple[Any, ...]:
        return Normaliser.from_dict, (self.to_dict(),)

    def to_dict(self) -> dict[str, Any]:
        """Return the settings, for JSON."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, settings: Mapping[str, Any]) -> Normaliser:
        """Return the inverse of `to_dict`. Raises InputError for an unknown setting."""
        known = [field.name for field in dataclasses.fields(cls)]
        for name in settings:
            if name not in known:
                hint = closest_match(name, known, f"There are {', '.join(known)}.", "normaliser.")
                raise InputError(f"normaliser.{name}: no such setting. {hint}")
        return cls(**settings)

    def tokens(self, line: str) -> list[str]:
        """Return the tokens of a line, without BOS and EOS. In character units there is no space at the ends.

        Like all methods that read a line, raises UntaggedTokenError for a token without a tag if units are tags.
        """
        if _ZERO_WIDTH_SPACE in line:
            line = line.replace(_ZERO_WIDTH_SPACE, " ")
        memory: _Memory[tuple[str, ...]] = self._memory  # type: ignore[attr-defined]
        found = list(chain.from_iterable(map(memory.__getitem__, line.split())))
        return found[1:] if self._spaced else found  # type: ignore[attr-defined]

    def token_parts(self, line: str) -> Iterator[list[str]]:
        """Yield `tokens` of a line in several lists, so that a line of 100 MB does not require one list of all
        words.
        """
        begun = False
        for part in _parts_of_line(line):
            found = self.tokens(part)
            if found and begun and self._spaced:  # type: ignore[attr-defined]
                found.insert(0, str(self.space))
            begun = begun or bool(found)
            yield found

    def align(self, line: str) -> list[AlignedToken]:
        """Return every token of a line with its position, in order. Dropped text has the token None.

        start and end are character offsets in the original line. `tokens(line)` are the tokens that are not None.
        A tag is aligned with its word, or with itself if the word is empty.
        In character units white space is a token, too, or dropped next to a dropped piece. Characters that the Unicode
        form composes, decomposes or removes are aligned with the smallest span that it treats by itself, so the tokens
        of one decomposed character have the same start and end.
        """
        aligned: list[AlignedToken] = []
        memory: _Memory[list[_Part]] = self._part_memory  # type: ignore[attr-defined]
        in_characters = self.units == "characters"
        begun = False
        previous_end = 0
        for start, end in word_spans(line):
            parts = memory[line[start:end]]
            kept = any(part.tokens for part in parts)
            if in_characters and previous_end < start and previous_end:
                space = self.space if kept and begun else None
                aligned.append(AlignedToken(line[previous_end:start], previous_end, start, space))
            for part in parts:
                place = (line[start + part.start : start + part.end], start + part.start, start + part.end)
                aligned.extend(AlignedToken(*place, token) for token in part.tokens or (None,))
            begun = begun or kept
            previous_end = end
        return aligned

    def written_length(self, line: str) -> int:
        """Return the number of characters of a line that its tokens represent, the divisor of bits per character.

        White space between two words counts as one character, or none if the model does not read it. White space at the
        ends of the line, dropped text and the line's end do not count. Tags have their own length.
        """
        memory: _Memory[int] = self._length_memory  # type: ignore[attr-defined]
        total = sum(sum(map(memory.__getitem__, split_words(part))) for part in _parts_of_line(line))
        return max(0, total - self._space_length)  # type: ignore[attr-defined]

    def _length_of_piece(self, piece: str) -> int:
        """Return the number of kept characters of a piece, including the space next to it; 0 if nothing is kept."""
        if self.units == "tags":
            length = sum(len(token) for part in self._parts(piece) for token in part.tokens)
        else:
            length = sum(part.end - part.start for part in self._parts(piece) if part.tokens)
        return length and length + self._space_length  # type: ignore[attr-defined]

    def written_tokens(self, line: str) -> tuple[list[str], list[str]]:
        """Return the kept tokens of a line, as written and as the model reads them: a fast form of `align`."""
        if self.units != "characters":
            if _ZERO_WIDTH_SPACE in line:
                line = line.replace(_ZERO_WIDTH_SPACE, " ")
            memory: _Memory[tuple[str, ...]] = self._written_memory  # type: ignore[attr-defined]
            pairs = list(chain.from_iterable(map(memory.__getitem__, line.split())))
            return pairs[::2], pairs[1::2]
        kept = [(part.written, part.token) for part in self.align(line) if part.token is not None]
        return [written for written, _ in kept], [token for _, token in kept]

    def _written_of_piece(self, piece: str) -> tuple[str, ...]:
        """Return the kept tokens of a piece: written form, token, written form, token, ..."""
        pairs = ((piece[part.start : part.end], token) for part in self._parts(piece) for token in part.tokens)
        return tuple(chain.from_iterable(pairs))

    def word(self, written: str, tag: str = "") -> str:
        """Return the token of one word of a treebank, never split or dropped; an empty result becomes the word itself.

        tag: its part-of-speech tag, which is the token if units are tags.
        In character units a treebank's words should be characters; a longer word remains one token, which is unknown.
        Raises InputError for a word without a tag if units are tags.
        """
        if self.units == "tags":
            if not tag:
                raise InputError(f"the word {written!r} has no part-of-speech tag, but the model reads tags")
            return tag
        return self._normal(written) or written

    def _tokens_of_piece(self, piece: str) -> tuple[str, ...]:
        """Return the tokens of a piece; in character units, with the space before it."""
        tokens = tuple(token for part in self._parts(piece) for token in part.tokens)
        return (str(self.space), *tokens) if tokens and self._spaced else tokens  # type: ignore[attr-defined]

    def _parts(self, piece: str) -> list[_Part]:
        """Return the spans of a piece, in order, with their kept tokens; without gaps except for tags."""
        if self.units == "tags":
            word, tag = split_tag(piece)
            end = len(word)
            return [_Part(0, end, self._kept([tag])) if word else _Part(len(TAG_MARK), len(piece), self._kept([tag]))]
        stretches = _split_punctuation(piece) if self.splitting == "punctuation" else [(0, len(piece))]
        parts: list[_Part] = []
        for start, end in stretches:
            if self.units == "words":
                parts.append(_Part(start, end, self._kept([self._normal(piece[start:end])])))
            else:
                parts.extend(self._characters(piece[start:end], start))
        return parts

    def _characters(self, word: str, offset: int) -> list[_Part]:
        """Return the characters of a word; offset: where it starts in its piece."""
        if self.numbers != "keep" and self._normal(word) == "N":
            return [_Part(offset, offset + len(word), self._literal(self._kept(["N"])))]
        memory: _Memory[tuple[str, ...]] = self._segment_memory  # type: ignore[attr-defined]
        return [_Part(offset + start, offset + end, memory[word[start:end]]) for start, end in self._segments(word)]

    def _tokens_of_segment(self, segment: str) -> tuple[str, ...]:
        shaped = self._shaped(segment)
        return self._literal(self._kept(list(_DIGIT_RUN.sub("N", shaped) if self.numbers == "runs" else shaped)))

    def _literal(self, tokens: tuple[str, ...]) -> tuple[str, ...]:
        """Return characters of the text, of which none equals the token for white space."""
        return tuple("\\" + token if token == self.space else token for token in tokens)

    def _segments(self, word: str) -> list[tuple[int, int]]:
        """Return the smallest spans that the Unicode form treats by themselves; with `runs`, a run of digits is one
        span.
        """
        runs = self.numbers == "runs"
        formed = self._formed(word) == word
        if formed and not runs:
            return [(place, place + 1) for place in range(len(word))]
        segments: list[tuple[int, int]] = []
        start = 0
        for place in range(1, len(word)):
            joined = runs and word[place].isdecimal() and word[place - 1].isdecimal()
            if not formed and not joined and place - start < _LONGEST_SEGMENT:
                before, character = word[start:place], word[place]
                joined = self._formed(before + character) != self._formed(before) + self._formed(character)
            if not joined:
                segments.append((start, place))
                start = place
        return [*segments, (start, len(word))]

    def _formed(self, written: str) -> str:
        return written if self.unicode_form == "keep" else unicodedata.normalize(self.unicode_form, written)

    def _shaped(self, written: str) -> str:
        """Apply rule 2; "" if nothing is left."""
        token = self._formed(_INVISIBLE.sub("", written))
        if self.lower_case:
            token = self._formed(token.lower())
        if not token.isprintable():
            token = _WHITE_SPACE.sub("", token.replace(_ZERO_WIDTH_SPACE, ""))
        return token.replace(" ", "")

    def _normal(self, written: str) -> str:
        """Apply rules 2 and 3 to a word; "" if nothing is left."""
        if self.numbers != "keep" and written == "N":
            return written
        token = self._shaped(written)
        if self.numbers == "whole":
            return "N" if _WHOLE_NUMBER.fullmatch(token) else token
        return _DIGIT_RUN.sub("N", token) if self.numbers == "runs" else token

    def _kept(self, tokens: list[str]) -> tuple[str, ...]:
        """Apply rule 5. The vowel signs of many scripts are combining marks."""
        dropped: frozenset[str] = self._dropped  # type: ignore[attr-defined]
        kept = [token for token in tokens if token and token not in dropped]
        if self.drop_punctuation:
            kept = [
                token for token in kept if any(one.isalnum() or unicodedata.category(one)[0] == "M" for one in token)
            ]
        return tuple(kept)


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
    return line.replace(_ZERO_WIDTH_SPACE, " ").split()


def word_spans(line: str) -> Iterator[tuple[int, int]]:
    """Return the (start, end) of every word of a line, separated as by `split_words`."""
    return (match.span() for match in _PIECE.finditer(line.replace(_ZERO_WIDTH_SPACE, " ")))


def _is_punctuation(character: str) -> bool:
    return unicodedata.category(character)[0] in "PS"


def _split_punctuation(piece: str) -> list[tuple[int, int]]:
    """Apply rule 1 to a piece: the (start, end) of its leading punctuation, its core, its trailing punctuation."""
    start, end = 0, len(piece)
    leading: list[tuple[int, int]] = []
    while start < end and _is_punctuation(piece[start]) and not _MARKUP.match(piece, start):
        run = start + 1
        while run < end and piece[run] == piece[start]:
            run += 1
        # "<<unk>": the last of the run opens markup.
        if piece[start] == "<" and run - start > 1 and _MARKUP.match(piece, run - 1):
            run -= 1
        leading.append((start, run))
        start = run
    trailing: list[tuple[int, int]] = []
    while end > start and _is_punctuation(piece[end - 1]) and not _ends_in_markup(piece, start, end):
        run = end - 1
        while run > start and piece[run - 1] == piece[end - 1]:
            run -= 1
        if piece[run] == ">" and end - run > 1 and _ends_in_markup(piece, start, run + 1):
            run += 1
        trailing.append((run, end))
        end = run
    core = [(start, end)] if start < end else []
    return leading + core + trailing[::-1]


def _ends_in_markup(piece: str, start: int, end: int) -> bool:
    if piece[end - 1] != ">":
        return False
    opening = piece.rfind("<", start, end)
    return opening >= 0 and _MARKUP.fullmatch(piece, opening, end) is not None


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
