"""What a model reads of many lines, in columns: each written word is analysed once, and lines are arrays of words.

`WrittenLines` are the words as written, `EncodedLines` the tokens that a model reads, with their ids and offsets.
Between the two, `WordForms` analyses each distinct word; see `reader`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import chain, compress, filterfalse, pairwise
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from syntaxlm.core.arrays import Flags, Integers
from syntaxlm.core.threads import no_collection, publishing
from syntaxlm.text.normaliser import ZERO_WIDTH_SPACE, AlignedToken
from syntaxlm.text.quotation_marks import DIRECTED_MARKS, Quoted, opening_marks
from syntaxlm.trees.marks import GapMarks, gap_marks, is_mark
from syntaxlm.trees.spans import item_indices, offsets_of

Value = TypeVar("Value")

REMEMBERED_CHARACTERS = 2**21  # of the written words whose parts are cached: about 200,000 words, 100 MB
_APOSTROPHES = frozenset("'’")
_INSIDE_WORDS = frozenset("'’-.,:/")  # single marks that are part of a word between its letters or digits
_DIRECTED_CODES = np.array(list(map(ord, DIRECTED_MARKS)), np.uint32)
_LAST_SPACE = 0x3000  # the white space with the largest code point


@dataclass(frozen=True, eq=False)
class WrittenLines:
    """The words of lines, separated at white space as by `split_words`.

    Attributes:
        lines: (L,).
        words: (W,), all words in order.
        offsets: (L + 1,) of the words of each line.
        starts: (W,) of each word in its line, in code points.
        opens: (W,) whether a word is a quotation mark that opens a quotation: a straight one that is the first,
            third, ... of its line, or another one of `opening_marks`.
    """

    lines: Sequence[str]
    words: list[str]
    offsets: Integers
    starts: Integers
    opens: Flags

    @staticmethod
    def of(lines: Sequence[str]) -> WrittenLines:
        """Split lines into words."""
        # All lines as one array of code points.
        text = "\n".join(lines).replace(ZERO_WIDTH_SPACE, " ")
        codes: npt.NDArray[np.unsignedinteger[Any]]
        if text.isascii():
            codes = np.frombuffer(text.encode("ascii"), np.uint8)
        else:
            codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)

        # A word is between two changes from white space to something else and back.
        is_space = np.ones(len(codes) + 2, np.bool_)
        is_space[1:-1] = _are_spaces()[np.minimum(codes, np.uint32(_LAST_SPACE + 1))]
        edges = np.flatnonzero(is_space[1:] != is_space[:-1])
        starts, ends = edges[::2], edges[1::2]
        line_starts = offsets_of(np.fromiter(map(len, lines), np.int64, len(lines)) + 1)
        offsets = np.searchsorted(starts, line_starts)
        before = np.repeat(line_starts[:-1], np.diff(offsets))  # the first character of the line of each word

        # A straight quotation mark that is a word opens if the number of marks in its line up to it is odd.
        is_alone = ends - starts == 1
        opens = np.zeros(len(starts), np.bool_)
        quotes = np.flatnonzero(codes == ord('"'))
        alone = np.flatnonzero((codes[starts] == ord('"')) & is_alone)
        opens[alone] = np.diff(np.searchsorted(quotes, [before[alone], ends[alone]]), axis=0)[0] % 2

        # Other ones depend on the marks of their line.
        if not text.isascii():
            directed = np.flatnonzero(is_alone & np.isin(codes[starts], _DIRECTED_CODES))
            with_marks = np.unique(np.searchsorted(offsets, directed, side="right") - 1).tolist()
            opening = [line_starts[line] + place for line in with_marks for place in opening_marks(lines[line])]
            opens[directed] = np.isin(starts[directed], opening)
        return WrittenLines(lines, text.split(), offsets, starts - before, opens)


@cache
def _are_spaces() -> Flags:
    """Return whether each character up to the one after the last white space is white space."""
    return np.fromiter(map(str.isspace, map(chr, range(_LAST_SPACE + 2))), np.bool_)


class WrittenWord(NamedTuple):
    """A part of a line, line[begin:end].

    Attributes:
        begin: start of the word in the line.
        end: end of the word in the line.
        ids: of its tokens; none if the normaliser dropped it.
        marks: whether each token is a punctuation mark.
    """

    begin: int
    end: int
    ids: tuple[int, ...]
    marks: tuple[bool, ...]


@dataclass(frozen=True, eq=False)
class EncodedLines:
    """The parts of lines, in order: tokens, and text that the model does not read.

    Attributes:
        lines: (L,).
        offsets: (L + 1,) of the parts of each line.
        written: (P,) each part as written.
        tokens: (P,) the token of each part; None if it is not read.
        ids: (P,) of the tokens in the vocabulary; -1 for a part that is not read.
        starts: (P,) of each part in its line, in code points.
        ends: (P,) of each part in its line, in code points.
        in_characters: whether tokens are characters.
    """

    lines: Sequence[str]
    offsets: Integers
    written: Sequence[str]
    tokens: Sequence[str | None]
    ids: Integers
    starts: Integers
    ends: Integers
    in_characters: bool = False

    @classmethod
    def of_characters(
        cls, lines: Sequence[str], aligned: Sequence[Sequence[AlignedToken]], id_of: Callable[[str], int]
    ) -> EncodedLines:
        """Return the parts of lines that were read one by one, for a character-level model."""
        offsets = offsets_of(np.array(list(map(len, aligned)), np.int64))
        parts = list(chain.from_iterable(aligned))
        written = [part.written for part in parts]
        tokens = [part.token for part in parts]
        ids = np.array([-1 if token is None else id_of(token) for token in tokens], np.int64)
        starts, ends = (np.array([part[place] for part in parts], np.int64) for place in (1, 2))
        return cls(lines, offsets, written, tokens, ids, starts, ends, in_characters=True)

    @cached_property
    def is_read(self) -> Flags:
        """(P,) whether each part is a token."""
        flags: Flags = self.ids >= 0
        return flags

    @cached_property
    def places(self) -> Integers:
        """(L + 1,) the offsets of the tokens of each line among all tokens."""
        return offsets_of(self.is_read)[self.offsets]

    def by_line(self, values: Sequence[Value]) -> list[list[Value]]:
        """Return (P,) values of the parts as those of the tokens of each line."""
        token_values = list(compress(values, self.is_read.tolist()))
        return [token_values[start:end] for start, end in pairwise(self.places.tolist())]

    def aligned(self) -> Iterator[list[AlignedToken]]:
        """Yield the parts of each line, as `TextReader.align` returns them."""
        columns = self.written, self.starts.tolist(), self.ends.tolist(), self.tokens
        parts = list(map(AlignedToken, *columns))
        return (parts[start:end] for start, end in pairwise(self.offsets.tolist()))

    def gap_marks(self) -> GapMarks:
        """Return the classes of the marks in each gap of all lines with words, line after line; see `trees.marks`."""
        parts = list(zip(self.written, self.is_read.tolist(), strict=True))
        has_words = (np.diff(self.places) > 0).tolist()
        lines = compress(pairwise(self.offsets.tolist()), has_words)
        return np.array(list(chain.from_iterable(gap_marks(parts[start:end]) for start, end in lines)), np.int16)

    def words(self) -> Iterator[list[WrittenWord]]:
        """Yield the words of each line, separated by white space; for a character-level model, its characters.

        A tag is no part of a word. The apostrophe of a genitive (dogs') is not a punctuation mark.
        """
        # Where a word begins: tokens of one character have the same position; parts of one word are adjacent.
        starts, ends = self.starts, self.ends
        is_first = np.ones(len(starts) + 1, np.bool_)
        if self.in_characters:
            is_first[1:-1] = (starts[1:] != starts[:-1]) | (ends[1:] != ends[:-1])
        else:
            is_first[1:-1] = starts[1:] > ends[:-1]
        is_first[self.offsets] = True
        edges = np.flatnonzero(is_first)

        # The ids of each word, which of them are marks, and its first and last character.
        ids = self.ids[self.is_read].tolist()
        marks = self.are_marks()
        before = offsets_of(self.is_read)[edges].tolist()
        word_ids = [tuple(ids[start:end]) for start, end in pairwise(before)]
        word_marks = [tuple(marks[start:end]) for start, end in pairwise(before)]
        firsts, lasts = starts[edges[:-1]].tolist(), ends[edges[1:] - 1].tolist()
        words = list(map(WrittenWord, firsts, lasts, word_ids, word_marks))
        return (words[start:end] for start, end in pairwise(np.searchsorted(edges, self.offsets).tolist()))

    def are_marks(self) -> list[bool]:
        """Return whether each part that is a token is a punctuation mark. Marks inside words (don't, well-known, 3.5)
        are none, also if tokens are characters.
        """
        marks = [not text[:1].isalnum() and is_mark(text) for text in self.written]
        for part in np.flatnonzero(marks).tolist():
            if self.in_characters and self.written[part] in _INSIDE_WORDS and self._is_between_letters(part):
                marks[part] = False
            is_apostrophe = part > 0 and self.written[part] in _APOSTROPHES
            if is_apostrophe and self.starts[part] == self.ends[part - 1] and self.written[part - 1][-1:] in "sS":
                marks[part] = False
        return list(compress(marks, self.is_read.tolist()))

    def _is_between_letters(self, part: int) -> bool:
        """Return whether the parts before and after a character are letters or digits, without a space between."""
        beside = self.written[max(part - 1, 0) : part + 2]
        are_adjacent = self.starts[part : part + 2].tolist() == self.ends[max(part - 1, 0) : part + 1].tolist()
        return len(beside) == 3 and are_adjacent and beside[0].isalnum() and beside[2].isalnum()


Key = (
    str
    | tuple[str, bool, bool, bool]
    | tuple[str, bool, bool, bool, Quoted]
    | tuple[str, bool, bool, bool, Quoted, bool]
)
"""A written word, or a word with those facts of its place that matter: the arguments of `WordForms.parts_of`."""


@dataclass(frozen=True, eq=False)
class _PartColumns:
    """The parts of W words.

    Attributes:
        offsets: (W + 1,) of the parts of each word.
        texts: (2, P) each part as written, and its token.
        numbers: (3, P) id, start and end of each part.
    """

    offsets: Integers
    texts: npt.NDArray[np.object_]
    numbers: Integers

    @staticmethod
    def of(words: Sequence[Sequence[AlignedToken]], id_of: Callable[[str], int]) -> _PartColumns:
        """Return the columns of the parts of words."""
        counts = np.array(list(map(len, words)), np.int64)
        parts = list(chain.from_iterable(words))
        texts = np.zeros((2, len(parts)), np.object_)
        numbers = np.zeros((3, len(parts)), np.int64)
        written, starts, ends, tokens = zip(*parts, strict=True) if parts else ((), (), (), ())
        texts[0], texts[1] = written, tokens
        numbers[0] = [-1 if token is None else id_of(token) for token in tokens]
        numbers[1], numbers[2] = starts, ends
        return _PartColumns(offsets_of(counts), texts, numbers)

    def __len__(self) -> int:
        return len(self.offsets) - 1


class _GrowingArray:
    """An array that grows along its last dimension, in time proportional to the new values on average.

    An array that was returned stays as it is: new values are written behind it, or all values are copied.
    """

    def __init__(self, values: npt.NDArray[Any]) -> None:
        self._space, self._size = values, values.shape[-1]

    def extended(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Add values, and return all."""
        size = self._size + values.shape[-1]
        if size > self._space.shape[-1]:
            larger = np.zeros((*values.shape[:-1], 2 * size), self._space.dtype)
            larger[..., : self._size] = self._space[..., : self._size]
            self._space = larger
        self._space[..., self._size : size] = values
        self._size = size
        return self._space[..., :size]


class _KnownWords:
    """Words that were read before. A number is published after the columns that have its word.

    Attributes:
        numbers: of the words.
        columns: the parts of the words, by number.
        characters: number of characters of all parts.
    """

    def __init__(self) -> None:
        self.numbers: dict[Key, int] = {}
        self.columns = _PartColumns.of((), int)
        self._offsets = _GrowingArray(self.columns.offsets)
        self._texts = _GrowingArray(self.columns.texts)
        self._numbers = _GrowingArray(self.columns.numbers)
        self.characters = 0

    def add(self, keys: Sequence[Key], columns: _PartColumns) -> None:
        """Add words, some of which another thread may just have added, too; these have two numbers then."""
        with publishing:
            first = len(self.columns)
            self.columns = _PartColumns(
                self._offsets.extended(self.columns.offsets[-1] + columns.offsets[1:]),
                self._texts.extended(columns.texts),
                self._numbers.extended(columns.numbers),
            )
            self.characters += sum(map(len, columns.texts[0]))
            self.numbers.update(zip(keys, range(first, first + len(keys)), strict=True))


class WordForms:
    """The parts of written words. Each word is analysed once, and remembered for all threads.

    Args:
        parts_of: returns the parts of a word.
        id_of: returns the id of a token.
    """

    def __init__(self, parts_of: Callable[..., Sequence[AlignedToken]], id_of: Callable[[str], int]) -> None:
        self._parts_of, self._id_of = parts_of, id_of
        self._known = _KnownWords()

    def __len__(self) -> int:
        """Return the number of words that are remembered."""
        return len(self._known.numbers)

    def read(self, text: WrittenLines, keys: Sequence[Key]) -> EncodedLines:
        """Return the parts of lines.

        Args:
            keys: the keys of their words.
        """
        # The number of each word; new words are analysed first.
        known = self._known  # another thread may replace it meanwhile
        number_of = known.numbers.__getitem__
        try:
            words = np.fromiter(map(number_of, keys), np.int64, len(keys))
        except KeyError:
            with no_collection():
                new = list(dict.fromkeys(filterfalse(known.numbers.__contains__, keys)))
                parts = [self._parts_of(*key) if isinstance(key, tuple) else self._parts_of(key) for key in new]
                known.add(new, _PartColumns.of(parts, self._id_of))
            words = np.fromiter(map(number_of, keys), np.int64, len(keys))

        # The parts of all words, with their positions in the lines.
        columns = known.columns  # only now: they have all words with a number
        places = item_indices(columns.offsets, words)
        counts = columns.offsets[words + 1] - columns.offsets[words]
        before = np.repeat(text.starts, counts)
        written, tokens = columns.texts[:, places].tolist()
        ids, starts, ends = columns.numbers[:, places]
        offsets = offsets_of(counts)[text.offsets]
        encoded = EncodedLines(text.lines, offsets, written, tokens, ids, before + starts, before + ends)
        if known.characters > REMEMBERED_CHARACTERS:
            self._known = _KnownWords()
        return encoded
