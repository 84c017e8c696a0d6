"""Converts a line of text to tokens, by rules that are saved with a model and applied by every command.

A line is first split into pieces at white space, and each piece is normalised by itself. Therefore each token is
aligned with characters of the original line, whatever the Unicode form changes, and normalised pieces can be cached.
"""

from __future__ import annotations

import dataclasses
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import chain, pairwise
from typing import Annotated, Any, Generic, Literal, NamedTuple, TypeVar

from syntaxlm.core.errors import InputError, closest_match, shortened
from syntaxlm.core.settings import Bounds, Settings
from syntaxlm.trees.marks import is_mark

Units = Literal["words", "characters", "tags"]
UnicodeForm = Literal["NFC", "NFD", "NFKC", "NFKD", "keep"]
Splitting = Literal["whitespace", "punctuation"]
Numbers = Literal["keep", "whole", "runs"]
Token = Annotated[str, Bounds(min_length=1)]
Result = TypeVar("Result")

REMEMBERED_PIECES = 2**19  # pieces in the cache before it is cleared: under 150 MB of words
REMEMBERED_LENGTH = 50  # characters; longer pieces (lines of a script without spaces) hardly ever repeat
LONG_LINE = 2**20  # characters; longer lines are read in pieces of about this size

# The zero-width space marks a word boundary (Unicode, chapter 23.2), but Python's split() ignores it.
ZERO_WIDTH_SPACE = "\u200b"
# Soft hyphen, word joiner, byte order mark: invisible and not part of a word. Joiners (U+200C, U+200D) are spelling.
_INVISIBLE = re.compile("[\u00ad\u2060\ufeff]")
_WHITE_SPACE = re.compile(r"\s+")
_PIECE = re.compile(r"\S+")
_WHOLE_NUMBER = re.compile(r"[-+−.,:/\\%]*\d[-.,:/\\%\d]*|%")
_DIGIT_RUN = re.compile(r"\d+")
_LONGEST_SEGMENT = 32  # characters that the Unicode form may join; real segments are shorter than 10
# A run of one character that is not markup (<unk>). Its last < or > may belong to markup: "<<unk>" is < and <unk>.
_RUN = re.compile(r"(?!<[A-Za-z/]+>)(?:<+(?=<[A-Za-z/]+>)|(.)\1*)", re.DOTALL)
_REVERSED_RUN = re.compile(r"(?!>[A-Za-z/]+<)(?:>+(?=>[A-Za-z/]+<)|(.)\1*)", re.DOTALL)  # of a word read backwards
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


class Piece(NamedTuple):
    """A word or mark of a line. start, end: character offsets in the line. text: its spelling; "" if it is dropped."""

    start: int
    end: int
    text: str


class AlignedToken(NamedTuple):
    """A span of the original line and its token.

    written: line[start:end].  start, end: character offsets in the original line.  token: None if it was dropped.
    """

    written: str
    start: int
    end: int
    token: str | None


class _Memory(dict[str, Result], Generic[Result]):
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

    Attributes:
        units: what a token is; tags: the part-of-speech tags of tagged text, word_TAG, and of treebanks
        unicode_form: normal form of the Unicode standard, annex 15; keep: as written
        splitting: where words end; see rule 1
        lower_case: whether capitals are lowered
        numbers: which numbers become N; see rule 3
        drop_words: tokens left out, compared after normalisation: ("$", "#")
        drop_punctuation: whether tokens without letter, digit or combining mark are left out
        space: units characters: what stands for white space; null: nothing
    """

    units: Units = "words"
    unicode_form: UnicodeForm = "NFC"
    splitting: Splitting = "whitespace"
    lower_case: bool = False
    numbers: Numbers = "keep"
    drop_words: tuple[str, ...] = ()
    drop_punctuation: bool = False
    space: Token | None = "_"

    def __post_init__(self) -> None:
        if isinstance(self.drop_words, list):  # JSON and YAML give lists; tuples keep the settings hashable
            object.__setattr__(self, "drop_words", tuple(self.drop_words))
        super().__post_init__()
        attributes = {  # not settings, and therefore not fields
            "_form": str if self.unicode_form == "keep" else partial(unicodedata.normalize, self.unicode_form),
            "_dropped": frozenset(self.drop_words),
            "_is_spaced": self.units == "characters" and self.space is not None,
            "_space_length": 0 if self.units == "characters" and self.space is None else 1,
            "_tokens_of": _Memory(self._read),
            "_aligned_of": _Memory(self._align),
            "_length_of": _Memory(self._length),
            "_marks_of": _Memory(self._marks),
            "_characters_of": _Memory(lambda segment: self._kept(self._normal(segment, is_segment=True))),
        }
        for name, value in attributes.items():
            object.__setattr__(self, name, value)

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
        memory: _Memory[tuple[str, ...]] = self._tokens_of  # type: ignore[attr-defined]
        if ZERO_WIDTH_SPACE in line:
            line = line.replace(ZERO_WIDTH_SPACE, " ")
        tokens = list(chain.from_iterable(map(memory.__getitem__, line.split())))
        return tokens[1:] if self._is_spaced else tokens  # type: ignore[attr-defined]

    def marks(self, line: str) -> list[bool]:
        """Return, for each of `tokens(line)`, whether a dropped punctuation mark precedes it (see `trees.marks`)."""
        memory: _Memory[tuple[tuple[bool, ...], bool]] = self._marks_of  # type: ignore[attr-defined]
        marks: list[bool] = []
        waiting = False
        for of_piece, is_last in map(memory.__getitem__, split_words(line)):
            if of_piece:
                marks += of_piece
                marks[-len(of_piece)] |= waiting
                waiting = False
            waiting |= is_last
        return marks[1:] if self._is_spaced else marks  # type: ignore[attr-defined]

    def token_parts(self, line: str) -> Iterator[list[str]]:
        """Yield `tokens` of a line in several lists, so that a line of 100 MB does not require one list of all
        words.
        """
        begun = False
        for part in _parts_of_line(line):
            tokens = self.tokens(part)
            if tokens and begun and self._is_spaced:  # type: ignore[attr-defined]
                tokens.insert(0, str(self.space))
            begun = begun or bool(tokens)
            yield tokens

    def align(self, line: str, pieces: Iterable[Piece] | None = None) -> list[AlignedToken]:
        """Return every token of a line with its position, in order. Dropped text has the token None.

        pieces: the words of the line, if they are split or spelled in another way than `tokens` does. The tokens of a
            piece with another spelling are aligned with all of it.
        start and end are character offsets in the original line. `tokens(line)` are the tokens that are not None.
        A tag is aligned with its word, or with itself if the word is empty.
        In character units white space is a token, too, or dropped next to a dropped piece. Characters that the Unicode
        form composes, decomposes or removes are aligned with the smallest span that it treats by itself, so the tokens
        of one decomposed character have the same start and end.
        """
        memory: _Memory[list[AlignedToken]] = self._aligned_of  # type: ignore[attr-defined]
        spans: Iterable[tuple[int, int, str]] = pieces or ()
        if pieces is None:
            spans = ((*match.span(), match[0]) for match in _PIECE.finditer(line.replace(ZERO_WIDTH_SPACE, " ")))
        aligned: list[AlignedToken] = []
        in_characters = self.units == "characters"
        spaced = begun = False  # whether white space before the next piece, and the token for it, are aligned
        for begin, end, text in spans:
            if not text:
                aligned.append(AlignedToken(line[begin:end], begin, end, None))
                continue
            parts = memory[text]
            if in_characters:
                is_kept = any(part.token is not None for part in parts)
                if spaced:
                    before, space = aligned[-1].end, self.space if begun and is_kept else None
                    aligned.append(AlignedToken(line[before:begin], before, begin, space))
                spaced, begun = True, begun or is_kept
            if pieces is None or line[begin:end] == text:
                aligned += [AlignedToken(part, begin + low, begin + high, token) for part, low, high, token in parts]
            else:
                aligned += [AlignedToken(line[begin:end], begin, end, part.token) for part in parts]
        return aligned

    def parts(self, word: str) -> list[AlignedToken]:
        """Return what `align` does for one word without white space."""
        memory: _Memory[list[AlignedToken]] = self._aligned_of  # type: ignore[attr-defined]
        return memory[word]

    def written_length(self, line: str) -> int:
        """Return the number of characters of a line that its tokens represent, the divisor of bits per character.

        White space between two words counts as one character, or none if the model does not read it. White space at the
        ends of the line, dropped text and the line's end do not count. Tags have their own length.
        """
        memory: _Memory[int] = self._length_of  # type: ignore[attr-defined]
        total = sum(sum(map(memory.__getitem__, split_words(part))) for part in _parts_of_line(line))
        return max(0, total - self._space_length)  # type: ignore[attr-defined]

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

    def _read(self, piece: str) -> tuple[str, ...]:
        """Return the tokens of a piece; in character units, with the space before it."""
        tokens = tuple([token for _, _, kept in self._spans(piece) for token in kept])
        return (str(self.space), *tokens) if tokens and self._is_spaced else tokens  # type: ignore[attr-defined]

    def _marks(self, piece: str) -> tuple[tuple[bool, ...], bool]:
        """Return whether a dropped mark precedes each token of a piece, and whether one follows the last token."""
        marks: list[bool] = []
        waiting = False
        for start, end, tokens in self._spans(piece):
            if tokens:
                marks += [waiting] + [False] * (len(tokens) - 1)
                waiting = False
            else:
                waiting |= is_mark(piece[start:end])
        if marks and self._is_spaced:  # type: ignore[attr-defined]
            marks.insert(0, marks[0])
        return tuple(marks), waiting

    def _align(self, piece: str) -> list[AlignedToken]:
        """Return the tokens of a piece with their positions in it."""
        spans = self._spans(piece)
        return [AlignedToken(piece[low:high], low, high, token) for low, high, of in spans for token in of or (None,)]

    def _length(self, piece: str) -> int:
        """Return the number of kept characters of a piece, including the space next to it; 0 if nothing is kept."""
        kept = [(start, end, tokens) for start, end, tokens in self._spans(piece) if tokens]
        length = sum(len(tokens[0]) if self.units == "tags" else end - start for start, end, tokens in kept)
        return length and length + self._space_length  # type: ignore[attr-defined]

    def _spans(self, piece: str) -> list[tuple[int, int, tuple[str, ...]]]:
        """Return start, end and kept tokens, often one, of the spans of a piece; without gaps except for tags."""
        if self.units == "tags":
            word, tag = split_tag(piece)
            return [(*((0, len(word)) if word else (len(TAG_MARK), len(piece))), self._kept([tag]))]
        is_split = self.splitting == "punctuation" and not piece.isalnum()
        words = _split_punctuation(piece) if is_split else [(0, len(piece))]
        if self.units == "words":
            return [(start, end, self._kept([self._normal(piece[start:end])])) for start, end in words]
        memory: _Memory[tuple[str, ...]] = self._characters_of  # type: ignore[attr-defined]
        spans: list[tuple[int, int, tuple[str, ...]]] = []
        for begin, end in words:
            if self.numbers != "keep" and self._normal(piece[begin:end]) == "N":
                spans.append((begin, end, self._kept(["N"])))
            else:
                edges = (begin + edge for edge in self._segments(piece[begin:end]))
                spans += [(low, high, memory[piece[low:high]]) for low, high in pairwise(edges)]
        return spans

    def _segments(self, word: str) -> list[int]:
        """Return the edges of the smallest spans that the Unicode form treats by themselves, from 0 to the length of
        the word. With `runs`, a run of digits is one span.
        """
        form: Callable[[str], str] = self._form  # type: ignore[attr-defined]
        runs, formed = self.numbers == "runs", form(word) == word
        if formed and not runs:
            return list(range(len(word) + 1))
        edges = [0]
        for place in range(1, len(word)):
            joined = runs and word[place].isdecimal() and word[place - 1].isdecimal()
            if not formed and not joined and place - edges[-1] < _LONGEST_SEGMENT:
                before, character = word[edges[-1] : place], word[place]
                joined = form(before + character) != form(before) + form(character)
            if not joined:
                edges.append(place)
        return [*edges, len(word)]

    def _normal(self, written: str, is_segment: bool = False) -> str:
        """Apply rules 2 and 3 to a word, or to a part of a word that is no whole number; "" if nothing is left."""
        if self.numbers != "keep" and written == "N" and not is_segment:
            return written
        form: Callable[[str], str] = self._form  # type: ignore[attr-defined]
        token = form(_INVISIBLE.sub("", written))
        if self.lower_case:
            token = form(token.lower())
        if not token.isprintable() or " " in token:
            token = "".join(split_words(token))
        if self.numbers == "runs":
            return _DIGIT_RUN.sub("N", token)
        return "N" if self.numbers == "whole" and not is_segment and _WHOLE_NUMBER.fullmatch(token) else token

    def _kept(self, tokens: Iterable[str]) -> tuple[str, ...]:
        """Apply rule 5, and rule 4 to characters that equal `space`. Many vowel signs are combining marks."""
        dropped: frozenset[str] = self._dropped  # type: ignore[attr-defined]
        kept = [token for token in tokens if token and token not in dropped]
        if self.drop_punctuation:
            kept = [token for token in kept if token.isalnum() or any(map(_is_of_words, token))]
        if self.units == "characters":
            kept = ["\\" + token if token == self.space else token for token in kept]
        return tuple(kept)


def _is_of_words(sign: str) -> bool:
    return sign.isalnum() or unicodedata.category(sign)[0] == "M"


def marks_of(aligned: Iterable[AlignedToken]) -> list[bool]:
    """Return, for each token of an aligned line, whether a dropped punctuation mark precedes it."""
    marks: list[bool] = []
    waiting = False
    for part in aligned:
        if part.token is not None:
            marks.append(waiting)
            waiting = False
        else:
            waiting |= is_mark(part.written)
    return marks


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
