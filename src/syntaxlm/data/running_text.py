"""Training text: running text of books is split into sentences, one per line; text8 into its published parts."""

from __future__ import annotations

import codecs
import re
from collections.abc import Container, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from itertools import compress
from pathlib import Path
from typing import Any

import numpy as np

from syntaxlm.core.errors import InputError, amount, warn_caller
from syntaxlm.core.files import refuse_overwriting, replaced, split_lines, written_together
from syntaxlm.core.progress import progress_bar
from syntaxlm.core.reading import ReadingReport, Remarks, announce
from syntaxlm.core.text_files import open_bytes, read_bytes, read_whole_text, source_name
from syntaxlm.data.plain_text import check_running_text
from syntaxlm.data.sentence_splitter import Splitter
from syntaxlm.text.treebank_style import AS_WRITTEN, TreebankStyle

# The notices of Project Gutenberg around a book, in newer and older files.
_NOTICE_BEFORE = re.compile(
    r"^[ \t]*(?:\*{3}\s*START OF TH(?:E|IS) PROJECT GUTENBERG[^*]{0,300}\*{3}|\*END\b.*SMALL PRINT).*$", re.I | re.M
)
_NOTICE_AFTER = re.compile(
    r"^[ \t]*(?:\*{3}\s*END OF TH(?:E|IS) PROJECT GUTENBERG|(?:The )?End of (?:the |this )?Project Gutenberg)",
    re.I | re.M,
)
_EMPHASIS = re.compile(r"(?<!\w)_([^_]+)_(?!\w)")  # _so_
_DASH = re.compile(r" *(--+|—) *")
_HYPHENED = re.compile(r"[^\W\d_]([-\u2010\u00ad])$")  # at the end of a line
_SOFT_HYPHEN, _HYPHEN = "\u00ad", "\u2010"
# A hyphen before one of these stands for the rest of a word: pre- and post-war.
_CONJUNCTIONS = re.compile(
    r"(?i)and|or|nor|to|und|oder|bis|bzw\.?|et|ou|à|y|o|e|ni|og|eða|eller|och|til|tot|en|of|i|ja"
)
_LETTER = re.compile(r"[^\W_]")  # or digit
_MARKS = "\"'“”‘’«»()[],.;:?!"  # around words
_CONTROLS = re.compile("[\x80-\x9f]")  # of ISO 8859, whose bytes are quotation marks, dashes and dots in Windows-1252


@dataclass(frozen=True)
class WrittenText:
    """The counts of a text file that was written. Words are separated by white space."""

    file: str
    sentences: int
    words: int

    def __str__(self) -> str:
        return f"{self.file}: {amount(self.sentences, 'sentence')}   {amount(self.words, 'word')}"


@dataclass(frozen=True)
class SentencesSummary:
    """The result of `write_sentences`.

    Attributes:
        valid: the validation file; None if all paragraphs went to `train`.
        notices: the number of books from which notices of Project Gutenberg were removed.
        abbreviations: learned or given words, in small letters, whose full stop does not end a sentence.
        english: whether the text is English.
        language: the language of the text, whose common abbreviations were also used; "" if none is known.
    """

    train: WrittenText
    valid: WrittenText | None
    books: int
    paragraphs: int
    notices: int
    abbreviations: tuple[str, ...]
    english: bool = False
    language: str = ""

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def __str__(self) -> str:
        notices = f" ({self.notices:,} with notices of Project Gutenberg, left out)" if self.notices else ""
        of = f"files {self.books:,}{notices}   paragraphs {self.paragraphs:,}"
        written = [str(text) for text in (self.train, self.valid) if text is not None]
        common = f"   (and common {self.language.capitalize()} ones)" if self.language else ""
        return "\n".join([*written, of, f"abbreviations: {' '.join(self.abbreviations) or 'none'}{common}"])


def write_sentences(
    paths: Sequence[str | Path],
    train: str | Path,
    valid: str | Path | None = None,
    valid_share: float = 0.05,
    seed: int = 0,
    lines_are_paragraphs: bool = False,
    encoding: str = "utf-8",
    abbreviations: Sequence[str] = (),
    style: TreebankStyle = AS_WRITTEN,
) -> SentencesSummary:
    """Write the sentences of books in order, one per line. The files are UTF-8 and written atomically.

    Args:
        valid: the file for validation paragraphs. Each paragraph goes there with probability `valid_share`, otherwise
            to `train`. With None, all paragraphs go to `train`.
        lines_are_paragraphs: see `read_paragraphs`.
        encoding: see `read_paragraphs`.
        abbreviations: see `Splitter.learn`.
        style: how punctuation and contractions are separated from words; by default, they are kept as written.

    Raises:
        InputError: if a book cannot be read or has no sentence, if an output file is given twice or would overwrite a
            book, if the share is not between 0 and 1, and if the encoding is unknown.
    """
    if not paths:
        raise InputError("found no file; expected one or more")
    outputs = [Path(path).resolve() for path in (train, valid) if path is not None]
    if len(set(outputs)) < len(outputs):
        raise InputError(f"{train}: is given for two outputs; expected another file for the validation text")
    for output in (train, valid):
        refuse_overwriting(output, paths)
    try:
        codecs.lookup(encoding)
    except LookupError:
        raise InputError(f"{encoding}: no such encoding; expected one such as utf-8, latin-1 or cp1252") from None
    if not 0 < valid_share < 1 or seed < 0:
        raise InputError(
            f"found the share {valid_share:g} and the seed {seed} for the validation text; expected a share between 0"
            " and 1, and a seed of 0 or more"
        )
    books = [read_paragraphs(path, lines_are_paragraphs, encoding) for path in progress_bar(paths, "reading, files")]
    splitter = Splitter.learn([book.paragraphs for book in books], abbreviations)
    paragraphs = [paragraph for book in books for paragraph in book.paragraphs]
    for_valid = np.random.default_rng(seed).random(len(paragraphs)) < (0 if valid is None else valid_share)
    written_valid = None
    with ExitStack() as replacing:  # earlier files only when both are complete
        if valid is not None:
            path = replacing.enter_context(replaced(Path(valid)))
            written_valid = _write(compress(paragraphs, for_valid.tolist()), splitter, style, path, valid)
        path = replacing.enter_context(replaced(Path(train)))
        rest = progress_bar(list(compress(paragraphs, (~for_valid).tolist())), "splitting, paragraphs")
        written = _write(rest, splitter, style, path, train)
    notices = sum(book.has_notice for book in books)
    known = splitter.language
    return SentencesSummary(
        written,
        written_valid,
        len(books),
        len(paragraphs),
        notices,
        splitter.abbreviations,
        splitter.is_english,
        known.name if known.others else "",
    )


def _write(
    paragraphs: Iterable[str], splitter: Splitter, style: TreebankStyle, path: Path, name: str | Path
) -> WrittenText:
    """Write paragraphs to `path`. Messages and the result have the name of the file that it will replace."""
    count = words = 0
    with open(path, "w", encoding="utf-8", newline="\n") as file:
        for paragraph in paragraphs:
            for sentence in filter(None, map(style, splitter(paragraph))):
                file.write(sentence + "\n")
                count, words = count + 1, words + len(sentence.split())
        if not count:
            raise InputError(
                f"{name}: found no paragraph to write, because none was drawn; expected more text, another share, or"
                " one paragraph per line (--paragraphs lines)"
            )
    return WrittenText(str(name), count, words)


@dataclass(frozen=True)
class Book:
    """The paragraphs of a book, each on one line.

    Attributes:
        has_notice: whether notices of Project Gutenberg were removed.
    """

    paragraphs: tuple[str, ...]
    has_notice: bool


def read_paragraphs(path: str | Path, lines_are_paragraphs: bool = False, encoding: str = "utf-8") -> Book:
    """Read the paragraphs of a plain text file, which may be compressed, or of "-" (standard input).

    Blank lines separate paragraphs. With lines_are_paragraphs, every line is a paragraph.

    Lines are joined by a space, except after a hyphen, unless "and" or a similar word follows (pre- and post-war). Soft
    hyphens are removed, and so are hyphens U+2010 at line ends, unless the text has the word with it elsewhere. The
    marks of _emphasis_ are removed, and dashes (-- and —) get a space on both sides. Paragraphs without a letter or
    digit (* * *) are left out.

    Raises:
        InputError: if the file cannot be read, does not have this encoding, or has no paragraph.
    """
    text = _decoded(path, encoding)
    check_running_text(text, source_name(path))
    spans, remarks = _book_spans(text), Remarks()
    written = [
        paragraph
        for begin, end in spans
        for paragraph in _paragraphs(text[begin:end], lines_are_paragraphs, remarks, 1 + text.count("\n", 0, begin))
        if _LETTER.search(paragraph)
    ]
    paragraphs = tuple(_DASH.sub(r" \1 ", _EMPHASIS.sub(r"\1", paragraph)).strip() for paragraph in written)
    if not paragraphs:
        raise InputError(f"{source_name(path)}: found no sentence; expected running text")
    has_notice = spans != [(0, len(text))]
    if has_notice:
        remarks.add("notices of Project Gutenberg left out")
    form = "running text, " + ("every line a paragraph" if lines_are_paragraphs else "paragraphs between blank lines")
    counts = {"paragraphs": len(paragraphs), "words": sum(len(paragraph.split()) for paragraph in paragraphs)}
    announce(ReadingReport(source_name(path), form, counts, "", remarks.all(), paragraphs[:2]))
    return Book(paragraphs, has_notice)


def _book_spans(text: str) -> list[tuple[int, int]]:
    """Return where books begin and end: between notices of Project Gutenberg, or from the first to the last character.

    A file may have several books, one after another. Of several notices before a book, it begins after the last one.
    """
    spans: list[tuple[int, int]] = []
    before = _NOTICE_BEFORE.search(text)
    begin: int | None = before.end() if before else 0
    while begin is not None:
        after = _NOTICE_AFTER.search(text, begin)
        end = after.start() if after else len(text)
        begin = max((notice.end() for notice in _NOTICE_BEFORE.finditer(text, begin, end)), default=begin)
        spans.append((begin, end))
        before = _NOTICE_BEFORE.search(text, end)
        begin = before.end() if before else None
    return spans


def _paragraphs(text: str, lines_are_paragraphs: bool, remarks: Remarks, first: int) -> Iterator[str]:
    hyphenated = _hyphenated_words(text)
    pieces: list[str] = []
    for number, line in enumerate([*split_lines(text), ""], first):
        words = line.split()
        if pieces and (lines_are_paragraphs or not words):
            yield "".join(pieces).removesuffix(_SOFT_HYPHEN)
            pieces = []
        if words:
            if pieces:
                before = pieces[-1]
                pieces[-1] = _before_next_line(before, words[0], hyphenated)
                if len(pieces[-1]) < len(before):
                    remarks.add("words joined at hyphens of line ends", number - 1, before.rsplit(maxsplit=1)[-1])
            joined = " ".join(words)
            inner = joined[:-1].count(_SOFT_HYPHEN)
            if inner:
                remarks.add("soft hyphens inside lines removed", number, count=inner)
                joined = joined[:-1].replace(_SOFT_HYPHEN, "") + joined[-1]
            pieces.append(joined)


def _before_next_line(line: str, following: str, hyphenated: Container[str]) -> str:
    """Return a line with what separates it from the next one: a space, or the hyphen of a word that continues there.

    Args:
        following: the first word of the next line.
        hyphenated: see `_hyphenated_words`.
    """
    hyphen = _HYPHENED.search(line)
    if hyphen is not None and hyphen[1] == _SOFT_HYPHEN:
        return line[:-1]
    if hyphen is None or _CONJUNCTIONS.fullmatch(following):
        return line + " "
    if hyphen[1] == _HYPHEN:
        word = line.rsplit(maxsplit=1)[-1] + following
        return line if word.strip(_MARKS).lower() in hyphenated else line[:-1]
    return line


def _hyphenated_words(text: str) -> frozenset[str]:
    """Return the words with U+2010 in a text, in small letters."""
    if _HYPHEN not in text:
        return frozenset()
    return frozenset(word.strip(_MARKS).lower() for word in text.split() if _HYPHEN in word.strip(_MARKS))


def _decoded(path: str | Path, encoding: str) -> str:
    if codecs.lookup(encoding).name == "utf-8":
        try:
            return read_whole_text(path)
        except InputError as error:
            if isinstance(error.__cause__, UnicodeDecodeError):
                raise InputError(
                    f"{error}. Older books are often in latin-1: give the encoding (--encoding latin-1)"
                ) from error
            raise
    content = read_bytes(path)
    try:
        text = content.decode(encoding)
        text.encode()  # some encodings have half surrogate pairs
    except (UnicodeError, LookupError) as error:
        raise InputError(f"{source_name(path)}: cannot be read as {encoding}: {error}") from error
    if not codecs.lookup(encoding).name.startswith("utf") and _is_utf8(content):
        warn_caller(
            f"{source_name(path)}: found text in UTF-8, which is read as {encoding}, so that letters with accents"
            " become other signs. Read this file without the encoding"
        )
    elif codecs.lookup(encoding).name.startswith("iso8859") and (controls := _CONTROLS.findall(text)):
        warn_caller(
            f"{source_name(path)}: found {amount(len(controls), 'control character')}, which are quotation marks,"
            f" dashes and dots in Windows-1252, read as {encoding}. If so, read this file with --encoding cp1252"
        )
    if "\0" in text:
        raise InputError(f"{source_name(path)}: found a zero character; expected text in {encoding}, or its encoding")
    return text


def _is_utf8(content: bytes) -> bool:
    """Return whether bytes are UTF-8 and not ASCII only: text in another encoding hardly ever is both."""
    try:
        content.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return not content.isascii()


# text8: 10^8 bytes of cleaned Wikipedia text, one line of lower-case words, which the user provides. The first 99
# million characters are the training text, the last million the validation text (Mikolov et al. 2014, "Learning Longer
# Memory in Recurrent Neural Networks"; Shen et al. 2018 follow them).
TEXT8_BYTES = 100_000_000
TEXT8_TRAINING_BYTES = 99_000_000


@dataclass(frozen=True)
class Text8Summary:
    """The written files.

    Attributes:
        train_words: number of training words, including the part of `cut`.
        valid_words: number of validation words, including the part of `cut`.
    """

    train: str
    valid: str
    train_words: int
    valid_words: int
    cut: str | None

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def __str__(self) -> str:
        parts = f"{self.train}: {amount(self.train_words, 'word')}\n{self.valid}: {amount(self.valid_words, 'word')}"
        return parts + (
            f"\nThe cut is inside the word {self.cut!r}, of which each file contains a part." if self.cut else ""
        )


def split_text8(path: str | Path, folder: str | Path) -> Text8Summary:
    """Write folder/train.txt and folder/valid.txt, each atomically and as one line, like the original file.

    Raises:
        InputError: if the file does not have 10^8 bytes, or contains other characters than a to z and spaces.
    """
    path, folder = Path(path), Path(folder)
    with open_bytes(path) as opened:
        text = opened.read(TEXT8_BYTES + 1)
    if len(text) != TEXT8_BYTES:
        size = f"{len(text):,}" if len(text) < TEXT8_BYTES else f"more than {TEXT8_BYTES:,}"
        expected = f"expected the unpacked text8, which has {TEXT8_BYTES:,}"
        raise InputError(f"{source_name(path)}: found {size} bytes; {expected}")
    other = re.search(rb"[^a-z ]", text)
    if other is not None:
        raise InputError(
            f"{source_name(path)}: found byte 0x{other.group()[0]:02x} at offset {other.start():,}; expected text8,"
            " which has only a to z and spaces"
        )
    train = text[:TEXT8_TRAINING_BYTES]
    valid = text[TEXT8_TRAINING_BYTES:]
    with written_together(folder) as temporary:
        for name, part in (("train", train), ("valid", valid)):
            with replaced(temporary / f"{name}.txt") as path, open(path, "wb") as file:
                file.write(part)
                file.write(b"\n")
    cut = None
    if not train.endswith(b" ") and not valid.startswith(b" "):
        cut = (train[train.rfind(b" ") + 1 :] + valid.partition(b" ")[0]).decode("ascii")
    files = str(folder / "train.txt"), str(folder / "valid.txt")
    return Text8Summary(*files, _word_count(train), _word_count(valid), cut)


def _word_count(text: bytes) -> int:
    """Return the number of words, counted without a list: split() would create 17 million strings."""
    letters = np.frombuffer(b" " + text, np.uint8) != ord(" ")
    return int(np.count_nonzero(letters[1:] & ~letters[:-1]))
