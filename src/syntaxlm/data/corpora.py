"""Text as arrays of token ids. A file is read once, as a stream; the ids of a large one are in memory-mapped files.

One line is one sentence. Empty lines, and lines in which the normaliser leaves no token, are skipped. Text is plain, or
tagged (`word_TAG` tokens) if the file name says so or the model reads tags.
"""

from __future__ import annotations

import io
import shutil
import tempfile
import weakref
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from syntaxlm.core import text_files
from syntaxlm.core.arrays import Integers
from syntaxlm.core.errors import InputError, warn_caller
from syntaxlm.core.files import system_error
from syntaxlm.core.progress import progress_bar
from syntaxlm.core.text_files import content_suffix, no_sentence, source_name, uncompressed_name
from syntaxlm.data.parquet import is_parquet, parquet_lines
from syntaxlm.data.plain_text import CHARACTERS, PLAIN, TAGGED, TextForm, examined
from syntaxlm.text.normaliser import Normaliser, UntaggedTokenError, has_tag, split_words, without_tags
from syntaxlm.text.options import TextOptions
from syntaxlm.text.reader import AS_TOKENISED, TextReader
from syntaxlm.text.vocabulary import Vocabulary
from syntaxlm.trees.conllu import DEPENDENCY_FORMATS
from syntaxlm.trees.marks import GapMarks
from syntaxlm.trees.spans import SpanSets, item_indices, offsets_of

# A suffix determines the format of a file, except .txt. Otherwise the content determines it.
_OF_TREES = (".mrg", ".brackets", ".bracket", ".tree", ".trees", ".parse", ".penn", ".prd", ".psd")
CONSTITUENCY_SUFFIXES = (*_OF_TREES, ".txt", ".ptb", ".clean")
DEPENDENCY_SUFFIXES = tuple(DEPENDENCY_FORMATS)
TAGGED_SUFFIX = ".tagged"  # also followed by .txt
NO_TEXT_SUFFIXES = (*_OF_TREES, *DEPENDENCY_SUFFIXES)  # files with other suffixes may be plain text
TREEBANK_SUFFIXES = (*CONSTITUENCY_SUFFIXES, *DEPENDENCY_SUFFIXES, TAGGED_SUFFIX)


def is_tagged(path: str | Path) -> bool:
    """Return whether a file name, such as masc.tagged or masc.tagged.txt, denotes tagged text (`word_TAG` tokens)."""
    name = uncompressed_name(path)
    return name.suffix.lower() == TAGGED_SUFFIX or (
        Path(name.stem).suffix.lower() == TAGGED_SUFFIX and (name.suffix.lower() == ".txt")
    )


def treebank_suffix(path: str | Path) -> str:
    """Return the suffix of a treebank file. If it is not in TREEBANK_SUFFIXES, the content determines the format."""
    return TAGGED_SUFFIX if is_tagged(path) else content_suffix(path)


MOST_UNTAGGED = 0.01  # share of the tokens read so far; corpora contain words with white space, such as ". . ._..."


def tagged_lines(source: str, lines: Iterable[tuple[int, str]], warn: bool = True) -> Iterator[tuple[int, str]]:
    """Yield lines of tagged text with their numbers, without tokens that have no tag.

    Args:
        source: name of the text in messages.
        warn: whether an InputWarning reports the omitted tokens.

    Raises:
        InputError: if more than 1% of the tokens so far have no tag. The message names line and token.
    """
    tokens = untagged = 0
    first = ""
    for number, line in lines:
        pieces = split_words(line)
        tokens += len(pieces)
        without = [piece for piece in pieces if not has_tag(piece)]
        if without:
            untagged += len(without)
            if untagged > MOST_UNTAGGED * tokens:
                so_far = f" ({untagged:,} of {tokens:,} tokens so far have no tag)" if untagged > 1 else ""
                raise UntaggedTokenError(without[0]).at(f"{source}, line {number}{so_far}")
            first = first or f"{without[0][:40]!r} in line {number:,}"
            line = " ".join(filter(has_tag, pieces))
        yield number, line
    if untagged and warn:
        message = f"{source}: {untagged:,} of {tokens:,} tokens have no tag and are omitted; the first is {first}"
        warn_caller(message)


def untagged_lines(path: str | Path, lines: Iterable[tuple[int, str]], warn: bool = True) -> Iterator[tuple[int, str]]:
    """Return the numbered lines of a file, without tags if its name denotes tagged text.

    Args:
        warn: see `tagged_lines`.

    Raises:
        InputError: like `tagged_lines`.
    """
    if not is_tagged(path):
        return iter(lines)
    return ((number, without_tags(line)) for number, line in tagged_lines(source_name(path), lines, warn))


IN_MEMORY = 64 * 2**20  # bytes of plain text; ids of larger or compressed files are stored in a temporary folder
PART = " (the first "  # in the source of a corpus that is only a part of a text
CHUNK = 2**20  # words buffered before they are written


def read_lines(path: str | Path, form: TextForm = PLAIN, warn: bool = True) -> Iterator[tuple[int, str]]:
    """Return the numbered lines of a text, without sentence marks; see `data.plain_text`.

    Args:
        form: what the lines should be.
        warn: whether warnings are given, and what was read is announced.

    Raises:
        InputError: like `text_files.read_lines` and `examined`, and if the file name has the suffix of a treebank.
    """
    suffix = content_suffix(path)
    if suffix in NO_TEXT_SUFFIXES:
        text, extracted, command = (
            ("tagged text", "tags", f"data tags {path} -o FILE.tagged.txt")
            if form == TAGGED
            else ("plain text", "words", f"data words {path} -o FILE")
        )
        raise InputError(
            f"{path}: found a name that ends in {suffix}, a treebank; expected {text}, one sentence per line."
            f" Extract its {extracted} with: syntaxlm {command}"
        )
    lines = parquet_lines(path) if is_parquet(path) else text_files.read_lines(path)
    return examined(lines, source_name(path), form, warn)


@dataclass(frozen=True)
class GivenText:
    """Lines of text that do not come from a file, one sentence per line."""

    lines: tuple[str, ...]

    def __str__(self) -> str:
        return "the text of the command line"


class TextPart(NamedTuple):
    """A file of a text of several files.

    Attributes:
        before: number of lines in the files before it.
    """

    before: int
    file: str


def read_sentences(
    path: str | Path | GivenText, normaliser: Normaliser, warn: bool = True, parts: list[TextPart] | None = None
) -> Iterator[tuple[int, str]]:
    """Return the numbered lines of a text as input for a normaliser. Tags are removed unless the normaliser reads tags.

    The text is tagged if the normaliser reads tags or if the file name is that of tagged text. The files of a pattern
    such as train-*.txt are one text, whose lines are numbered on from file to file.

    Args:
        warn: whether warnings are given, and what was read is announced.
        parts: is filled with the files of a pattern while they are read.

    Raises:
        InputError: like `read_lines`, `tagged_lines` and `text_files_of`.
    """
    if not isinstance(path, GivenText) and (files := text_files.text_files_of(path)) != [path]:
        return _one_after_another(files, normaliser, warn, [] if parts is None else parts)
    reads_tags = normaliser.units == "tags"
    if isinstance(path, GivenText):
        given = enumerate(path.lines, 1)
        return tagged_lines(str(path), given, warn) if reads_tags else given
    if not (reads_tags or is_tagged(path)):
        return read_lines(path, CHARACTERS if normaliser.units == "characters" else PLAIN, warn)
    lines = read_lines(path, TAGGED if reads_tags else PLAIN, warn)
    return tagged_lines(source_name(path), lines, warn) if reads_tags else untagged_lines(path, lines, warn)


def _one_after_another(
    files: Iterable[str | Path], normaliser: Normaliser, warn: bool, parts: list[TextPart]
) -> Iterator[tuple[int, str]]:
    """Yield the lines of several files, see `read_sentences`."""
    before = number = 0
    for file in files:
        parts.append(TextPart(before, str(file)))
        for number, line in read_sentences(file, normaliser, warn):
            yield before + number, line
        before, number = before + number, 0


def is_longer(line: str, most: int, normaliser: Normaliser) -> bool:
    """Return whether a line has more than `most` tokens."""
    return len(line) > most and len(normaliser.tokens(line)) > most


def _shown(path: str | Path, what: str, lines: Iterator[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    """Yield the lines of a file and show a progress bar."""
    size = text_files.plain_size(path)
    if size is None:
        return progress_bar(lines, f"{what}, lines of {source_name(path)}")

    def amount(numbered: tuple[int, str]) -> int:
        return text_files.line_bytes(numbered[1])

    return progress_bar(lines, f"{what}, {source_name(path)}", size, amount, percent=True)


def count_tokens(path: str | Path, normaliser: Normaliser) -> Counter[str]:
    """Count the occurrences of each token in a file. Memory use depends on the number of distinct tokens only.

    Raises:
        InputError: like `read_lines`, and if the file contains no token.
    """
    counts: Counter[str] = Counter()
    for _, line in _shown(path, "counting words", read_sentences(path, normaliser, warn=False)):
        for tokens in normaliser.token_parts(line):
            counts.update(tokens)
    if not counts:
        raise no_sentence(path)
    return counts


class _GrowingArrays:
    """The arrays of a corpus while its lines are encoded, in memory or in files of a temporary folder.

    Args:
        folder: the folder; None: the arrays stay in memory.
        with_marks: whether there are `marks`.

    Attributes:
        unknown_count: number of unknown ids that were written out.
    """

    def __init__(self, vocabulary: Vocabulary, folder: Path | None, with_marks: bool) -> None:
        self.ids = array("i")
        self.offsets = array("q", [0])
        self.line_numbers = array("q")
        self.character_counts = array("q")
        self.marks = array("h")
        self.unknown_count = 0
        self._vocabulary = vocabulary
        id_type = np.uint16 if len(vocabulary) <= 2**16 and not vocabulary.is_open else np.int32
        self._types: dict[str, Any] = {"ids": id_type}
        self._types |= dict.fromkeys(("offsets", "line_numbers", "character_counts"), np.int64)
        self._types |= {"marks": np.int16} if with_marks else {}
        self._files = [io.BytesIO() if folder is None else open(folder / name, "wb") for name in self._types]  # noqa: SIM115

    def write_out(self) -> None:
        """Move what was added so far to its final place."""
        self.unknown_count += int(np.count_nonzero(self._vocabulary.is_unknown(np.array(self.ids, np.int32))))
        for file, (name, dtype) in zip(self._files, self._types.items(), strict=True):
            added = getattr(self, name)
            file.write(np.array(added, dtype).tobytes())
            del added[:]

    def complete(self) -> list[npt.NDArray[Any]]:
        """Return ids, offsets, line numbers, character counts and, if there are any, marks."""
        self.write_out()
        arrays: list[npt.NDArray[Any]] = []
        for file, dtype in zip(self._files, self._types.values(), strict=True):
            if isinstance(file, io.BytesIO):
                arrays.append(np.frombuffer(file.getbuffer(), dtype))
            else:
                file.close()
                arrays.append(np.memmap(file.name, dtype, "r"))
        return arrays


class EncodedCorpus:
    """The sentences of a text as token ids.

    Args:
        ids: (N,) uint16 or int32, all words in order, without BOS and EOS. The array may be memory-mapped.
        offsets: (S + 1,) int64; sentence i is ids[offsets[i] : offsets[i + 1]].
        line_numbers: (S,) int64, the 1-based line number of each sentence in the file.
        unknown_count: the number of ids that are the unknown token of the vocabulary.
        character_counts: (S,) int64, the number of characters of each sentence in the original text, counted with
            `Normaliser.written_length`, plus one for its end; None if the corpus was built without text.
        marks: (N + S,) classes of the dropped punctuation marks in each gap: before each word and at the end of each
            sentence, see `trees.marks`; None if they were not read.

    Attributes:
        parts: the files of a text of several files, of which `line_numbers` counts the lines on.
        spans: constituents of trees of the sentences, for models that predict words given trees; None for others.
    """

    parts: Sequence[TextPart] = ()
    spans: SpanSets | None = None

    def __init__(
        self,
        ids: npt.NDArray[Any],
        offsets: Integers,
        line_numbers: Integers,
        unknown_count: int = 0,
        character_counts: Integers | None = None,
        source: str = "",
        temporary: Path | None = None,
        marks: GapMarks | None = None,
    ) -> None:
        if len(offsets) < 2:
            raise no_sentence(source or "the corpus")
        self.ids = ids
        self.offsets = offsets
        self.line_numbers = line_numbers
        self.unknown_count = unknown_count
        self.character_counts = character_counts
        self.source = source
        self.marks = marks
        # The folder is deleted with the corpus even if close() is never called.
        self._finish = weakref.finalize(self, shutil.rmtree, temporary, True) if temporary else None

    @classmethod
    def encode(
        cls,
        path: str | Path,
        normaliser: Normaliser,
        vocabulary: Vocabulary,
        marks: bool = False,
        style: TextOptions = AS_TOKENISED,
    ) -> EncodedCorpus:
        """Read a file with one sentence per line; "-" is standard input.

        The ids stay in memory, or in a temporary folder if the file is large.

        Args:
            marks: also read the punctuation marks that the normaliser drops.
            style: how words are split first.

        Raises:
            InputError: like `read_lines`, and if the file contains no token.
        """
        reader = TextReader.of(normaliser, vocabulary, style)
        parts: list[TextPart] = []
        lines = _shown(path, "reading", read_sentences(path, normaliser, parts=parts))
        source = source_name(path)
        # A pipe, whose size is unknown, can be opened only once. Compressed text may be of any length.
        size = text_files.plain_size(path)
        if size is not None and size < IN_MEMORY:
            return cls._of_numbered(lines, reader, source, marks=marks)
        folder = Path(tempfile.gettempdir())
        try:
            folder = Path(tempfile.mkdtemp(prefix="syntaxlm-corpus-"))
            corpus = cls._of_numbered(lines, reader, source, folder, marks)
            corpus.parts = parts
            return corpus
        except BaseException as error:
            if folder.name.startswith("syntaxlm-corpus-"):
                shutil.rmtree(folder, ignore_errors=True)
            if isinstance(error, OSError):
                raise system_error(folder, f"written with the ids of {path}", error) from error
            raise

    @classmethod
    def of_lines(
        cls,
        lines: Iterable[str],
        normaliser: Normaliser,
        vocabulary: Vocabulary,
        style: TextOptions = AS_TOKENISED,
    ) -> EncodedCorpus:
        """Encode the given sentences in the same way as `encode` does for a file.

        If the units are tags, also raises InputError for a word without a tag and names its sentence.

        Raises:
            InputError: if no sentence has a token.
        """
        source = "the text"
        numbered: Iterator[tuple[int, str]] = enumerate(lines, 1)
        if normaliser.units == "tags":
            numbered = tagged_lines(source, numbered)
        corpus = cls._of_numbered(numbered, TextReader.of(normaliser, vocabulary, style), source)
        corpus.source = ""
        return corpus

    @classmethod
    def _of_numbered(
        cls,
        sentences: Iterable[tuple[int, str]],
        reader: TextReader,
        source: str,
        folder: Path | None = None,
        marks: bool = False,
    ) -> EncodedCorpus:
        """Encode numbered lines.

        Args:
            folder: a temporary folder for the ids; None: they stay in memory.
        """
        arrays = _GrowingArrays(reader.vocabulary, folder, marks)
        length = 0
        for number, line in sentences:
            start = length
            for tokens in reader.token_parts(line):
                added = reader.vocabulary.encode(tokens)
                arrays.ids.extend(added)
                length += len(added)
                if len(arrays.ids) >= CHUNK:
                    arrays.write_out()
            if length > start:
                arrays.offsets.append(length)
                arrays.line_numbers.append(number)
                arrays.character_counts.append(reader.written_length(line) + 1)
                if marks:
                    arrays.marks.extend(reader.normaliser.marks(line))
        if not length:
            raise no_sentence(source)
        ids, offsets, line_numbers, character_counts, *mark_arrays = arrays.complete()
        gaps = mark_arrays[0] if marks else None
        return cls(ids, offsets, line_numbers, arrays.unknown_count, character_counts, source, folder, gaps)

    @classmethod
    def from_sentences(
        cls, sentences: Sequence[Sequence[int]], vocabulary: Vocabulary | None = None, marks: GapMarks | None = None
    ) -> EncodedCorpus:
        """Build a corpus from token ids without BOS and EOS. Sentence i gets line number i + 1 and may be empty.

        Args:
            vocabulary: to count unknown words.
            marks: see `EncodedCorpus`.
        """
        lengths = np.fromiter((len(sentence) for sentence in sentences), np.int64, len(sentences))
        offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
        words = (word for sentence in sentences for word in sentence)
        ids = np.fromiter(words, np.int32, int(offsets[-1]))
        unknown = 0 if vocabulary is None else int(np.count_nonzero(vocabulary.is_unknown(ids)))
        return cls(ids, offsets, np.arange(1, len(sentences) + 1, dtype=np.int64), unknown, marks=marks)

    def first(self, words: int, vocabulary: Vocabulary, longest: int | None = None) -> EncodedCorpus:
        """Return the first sentences with at most so many words in all, but at least one sentence.

        If all sentences fit, the corpus itself is returned.

        Args:
            longest: leave out longer sentences, unless there are no others; None: keep them.
        """
        if self.word_count <= words:
            return self
        lengths = self.lengths
        chosen = np.flatnonzero(lengths <= (longest or lengths.max()))
        chosen = np.arange(len(self)) if not len(chosen) else chosen
        chosen = chosen[: max(1, int(np.searchsorted(np.cumsum(lengths[chosen]), words, "right")))]
        corpus = self.select(chosen)
        corpus.unknown_count = int(np.count_nonzero(vocabulary.is_unknown(corpus.ids.astype(np.int32))))
        up_to = f" of up to {longest} words" if longest else ""
        corpus.source = f"{self.source}{PART}{len(chosen):,} sentences{up_to}, of {len(self):,})"
        return corpus

    def select(self, chosen: Integers) -> EncodedCorpus:
        """Return a corpus of some sentences, by their 0-based indices, without a count of unknown words."""
        gaps = self.offsets + np.arange(len(self.offsets))
        corpus = EncodedCorpus(
            self.ids[item_indices(self.offsets, chosen)],
            offsets_of(self.lengths[chosen]),
            self.line_numbers[chosen],
            character_counts=None if self.character_counts is None else self.character_counts[chosen],
            source=self.source,
            marks=None if self.marks is None else self.marks[item_indices(gaps, chosen)],
        )
        corpus.parts = self.parts
        corpus.spans = None if self.spans is None else self.spans.select(chosen)
        return corpus

    def joined(self, most: int, end: int, seed: int) -> EncodedCorpus:
        """Return a corpus of runs of 1 to `most` consecutive sentences, each as one sentence; marks are lost.

        Args:
            most: sentences of a run; the number is drawn, each with the same probability.
            end: id of the token between two sentences.
            seed: of the numbers.
        """
        counts = np.random.default_rng(seed).integers(1, most + 1, size=len(self))
        ends = np.cumsum(counts)
        ends = np.append(ends[ends < len(self)], len(self))  # of the runs, as indices of sentences
        starts = np.append(0, ends[:-1])
        between = np.delete(self.offsets[1:], ends - 1)
        offsets = self.offsets[np.append(0, ends)]
        offsets[1:] += ends - np.arange(1, len(ends) + 1)  # the tokens between sentences, one fewer in each run
        characters = None if self.character_counts is None else np.add.reduceat(self.character_counts, starts)
        ids = np.insert(self.ids, between, end)
        corpus = EncodedCorpus(ids, offsets, self.line_numbers[starts], self.unknown_count, characters, self.source)
        corpus.parts = self.parts
        return corpus

    def __len__(self) -> int:
        """Return the number of sentences."""
        return len(self.offsets) - 1

    @property
    def word_count(self) -> int:
        """The number of words, without BOS and EOS."""
        return int(self.offsets[-1])

    @property
    def character_count(self) -> int:
        """The number of characters of all sentences; 0 if the corpus was built without text."""
        return 0 if self.character_counts is None else int(self.character_counts.sum())

    @property
    def lengths(self) -> Integers:
        """(S,) int64, the number of words in each sentence."""
        return np.diff(self.offsets)

    def place(self, index: int) -> str:
        """Return the file and the line of a sentence, for messages. The index is 0-based."""
        number = int(self.line_numbers[index])
        parts = [TextPart(0, self.source or "the text"), *self.parts]
        before, file = [part for part in parts if part.before < number][-1]
        return f"{file}, line {number - before}"

    def sentence(self, index: int) -> list[int]:
        """Return the token ids of one sentence. The index is 0-based."""
        if not 0 <= index < len(self):
            raise IndexError(f"sentence {index} of a corpus of {len(self)}")
        return [int(word) for word in self.ids[self.offsets[index] : self.offsets[index + 1]]]

    def __enter__(self) -> EncodedCorpus:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Remove the temporary folder, if there is one. The arrays are then empty."""
        if self._finish is not None:
            self.ids = self.ids[:0].copy()
            self.offsets = np.zeros(1, np.int64)
            self.line_numbers = np.zeros(0, np.int64)
            self._finish()
