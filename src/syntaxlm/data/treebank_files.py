"""The files of a treebank: which files a name means, their formats, and their sentences before preprocessing.

Brackets, CoNLL-U and its relatives, and tagged text are read. The format follows from the name of a file or, if that is
ambiguous, from its first line; pipes are read once.
"""

from __future__ import annotations

import glob
import io
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple

from syntaxlm.core.errors import InputError, amount
from syntaxlm.core.files import visible_entries
from syntaxlm.core.foreign_files import foreign_treebank
from syntaxlm.core.progress import progress_bar
from syntaxlm.core.reading import LINES_NAMED, ReadingReport, Remark
from syntaxlm.core.remote_files import address_of
from syntaxlm.core.text_files import (
    COMPRESSED_SUFFIXES,
    MAXIMUM_TEXT,
    STANDARD_INPUT,
    no_sentence,
    read_lines,
    source_name,
    uncompressed_name,
)
from syntaxlm.data.corpora import (
    DEPENDENCY_SUFFIXES,
    TAGGED_SUFFIX,
    TREEBANK_SUFFIXES,
    tagged_lines,
    treebank_suffix,
)
from syntaxlm.text.normaliser import TAG_MARK, split_tag, split_words
from syntaxlm.trees.conllu import iterate_sentences
from syntaxlm.trees.tree import DependencyTree, Tree, bracket_file, read_bracket_file

MAXIMUM_COMMENTS = 2**26  # approximate limit of the memory for the comments before the first sentence, in bytes
_ROW = 64  # bytes of memory per line in addition to its characters
_LINES_COMPARED = 20  # of a file that may be of another format
_BY_COLUMNS = {
    3: ".dp",
    4: ".dp",
    7: ".conll",
    8: ".conllx",
    9: ".conllx",
    10: ".conllu",
}  # CoNLL-X with ten is read as CoNLL-U


@dataclass(frozen=True)
class ReadSentence:
    """A sentence of a file.

    Attributes:
        words: the words and tags as a tree. It has constituents only if the file has a constituency tree.
    """

    place: str
    words: Tree
    has_tree: bool = False
    dependencies: DependencyTree | None = None


class TreebankFile(NamedTuple):
    """A file of a treebank.

    Attributes:
        suffix: one of TREEBANK_SUFFIXES.
        lines: the lines of the file if reading has already started, else None.
    """

    path: Path
    suffix: str
    lines: Iterator[tuple[int, str]] | None = None


def treebank_files(path: str | Path) -> list[Path]:
    """Return the sorted files of a path, a folder or a pattern. Raises InputError.

    "-" (standard input) is returned unchanged and not read.
    """
    if str(path) == STANDARD_INPUT:
        return [Path(STANDARD_INPUT)]
    path = Path(path)
    if os.path.isdir(path):
        files = [file for file in visible_entries(path) if file.is_file()]
        files = [file for file in files if treebank_suffix(file) in TREEBANK_SUFFIXES]
        if not files:
            raise InputError(
                f"{path}: found no treebank in this folder; expected files that end in {' '.join(TREEBANK_SUFFIXES)},"
                f" perhaps compressed ({', '.join(COMPRESSED_SUFFIXES)}). To read files with other names, give a"
                f" pattern such as '{path / '*.xyz'}'"
            )
    elif os.path.exists(path) or address_of(path):
        files = [path]
    else:  # a pattern: *.mrg matches a.mrg or, if that is missing, a.mrg.gz
        pattern = str(path)
        names = set(glob.glob(pattern, recursive=True))
        compressed = [
            name for suffix in COMPRESSED_SUFFIXES for name in sorted(glob.glob(pattern + suffix, recursive=True))
        ]
        if glob.escape(pattern) == pattern:
            hint = f". There is {compressed[0]}" if compressed else ""
            raise InputError(f"{pattern}: no such file or folder{hint}")
        names.update(name for name in compressed if str(uncompressed_name(name)) not in names)
        if not names:
            raise InputError(f"{pattern}: no such file or folder, and no file matches this pattern")
        files = sorted(map(Path, names))
    name, copies = Counter(map(uncompressed_name, files)).most_common(1)[0]
    if copies > 1:
        raise InputError(f"{name}: found both compressed and uncompressed; expected it once")
    return files


def is_treebank(path: str | Path) -> bool:
    """Return whether a file is a treebank, by its name or its content. Raises InputError if it cannot be read."""
    try:
        return _file(Path(path)).suffix in TREEBANK_SUFFIXES
    except InputError:
        return False


def files_of(path: str | Path) -> list[TreebankFile]:
    """Return the files of a treebank with their formats. Raises InputError if the files are of different types."""
    files = list(map(_file, treebank_files(path)))
    contents = dict.fromkeys(DEPENDENCY_SUFFIXES, "dependency trees") | {TAGGED_SUFFIX: "tagged text"}
    types = {contents.get(file.suffix, "constituency trees"): source_name(file.path) for file in reversed(files)}
    if len(types) > 1:
        listed = ", ".join(f"{content} ({name})" for content, name in sorted(types.items()))
        pattern = Path(path) / "*.mrg" if Path(path).is_dir() else "*.mrg"
        raise InputError(
            f"{path}: found files of different kinds: {listed}; expected one kind. Give a pattern such as '{pattern}',"
            " and dependencies separately."
        )
    return files


def _file(path: Path) -> TreebankFile:
    """Return a file with its format.

    The format follows from the name. If the name is ambiguous, it follows from the first line that is neither blank nor
    a comment.
    """
    suffix = treebank_suffix(path)
    if suffix in TREEBANK_SUFFIXES and suffix != ".txt":
        return TreebankFile(path, suffix)
    lines = read_lines(path)
    begun: list[tuple[int, str]] = []  # comments of the first sentence
    size = 0
    for number, line in lines:
        if not line or line.isspace():
            begun, size = [], 0
            continue
        begun.append((number, line))
        size += len(line) + _ROW
        if size > MAXIMUM_COMMENTS:
            raise InputError(
                f"{source_name(path)}, line {number}: more than {MAXIMUM_COMMENTS / 2**20:,.0f} MiB of comments;"
                " expected sentences"
            )
        if not line.startswith("#"):
            break
    else:
        raise no_sentence(path, "a treebank")
    expected = "a treebank: bracketed trees, CoNLL-U, CoNLL-X, columns of word, tag and head, or tagged text"
    if begun[0][1].startswith(("#", "%", "<")):
        further = list(islice(lines, _LINES_COMPARED))
        lines = chain(further, lines)
        text = "\n".join(line for _, line in chain(begun, further))
        if treebank := foreign_treebank(text, source_name(path)):
            raise InputError(
                f"{source_name(path)}, line {begun[0][0]}: found {treebank[0]}; expected {expected}. {treebank[1]}"
            )
    cells = line.split("\t")
    if line.lstrip().startswith("(") and not line.startswith("(\t"):
        suffix = ".mrg"
    elif len(cells) in _BY_COLUMNS and (cells[0][:1].isdecimal() or cells[2].strip().isdecimal()):
        suffix = _BY_COLUMNS[len(cells)]
    elif all(TAG_MARK in token for token in split_words(line)):
        suffix = TAGGED_SUFFIX
    else:
        raise InputError(f"{source_name(path)}, line {number}: found {line[:40]!r}; expected {expected}")
    # A pipe or standard input cannot be read twice.
    return TreebankFile(path, suffix, None if path.is_file() else chain(begun, lines))


def read_files(
    path: str | Path, files: Sequence[TreebankFile], labelled: bool | None = None
) -> tuple[list[ReadSentence], ReadingReport]:
    """Return the sentences of all files, and one report."""
    reports: list[ReadingReport] = []
    sentences = [
        sentence
        for file in progress_bar(files, "reading, files")
        for sentence in _read_file(file, reports.append, labelled)
    ]
    return sentences, _merged(path, reports)


def _read_file(
    file: TreebankFile, report: Callable[[ReadingReport], None], labelled: bool | None = None
) -> Iterator[ReadSentence]:
    path, suffix, lines = file
    source = source_name(path)
    if suffix in DEPENDENCY_SUFFIXES:
        for read in iterate_sentences(path, suffix, lines, report):
            arcs = read.tree
            yield ReadSentence(read.place(), Tree(arcs.words, arcs.tags, ()), dependencies=arcs)
    elif suffix == TAGGED_SUFFIX:
        counts: Counter[str] = Counter()
        for number, line in tagged_lines(source, read_lines(path) if lines is None else lines):
            pairs = [split_tag(token) for token in split_words(line)]
            if pairs:  # a missing word is replaced by its tag
                counts.update(sentences=1, words=len(pairs))
                words = tuple(word or tag for word, tag in pairs)
                tags = tuple(tag for _, tag in pairs)
                yield ReadSentence(f"{source}, line {number}", Tree(words, tags, ()))
        if not counts:
            raise no_sentence(source, "word_TAG tokens, one sentence per line")
        report(ReadingReport(source, "tagged text", dict(counts)))
    else:
        file_of_trees = (
            read_bracket_file(path, labelled) if lines is None else bracket_file(_joined(lines), labelled, source)
        )
        report(file_of_trees.reading)
        for number, tree in enumerate(file_of_trees.trees, 1):
            yield ReadSentence(f"{source}, sentence {number}", tree, has_tree=True)


def _joined(lines: Iterable[tuple[int, str]]) -> str:
    """Join lines into one text. Raises InputError if the text is longer than MAXIMUM_TEXT."""
    text = io.StringIO()
    for _, line in lines:
        text.write(line + "\n")
        if text.tell() > MAXIMUM_TEXT:
            raise InputError(
                f"standard input: found more than {MAXIMUM_TEXT / 2**20:,.0f} MiB of trees; expected less. Split the"
                " input, or read it from a file"
            )
    return text.getvalue()


def _merged(path: str | Path, reports: Sequence[ReadingReport]) -> ReadingReport:
    """Return one report on all files of a treebank."""
    if len(reports) == 1:
        return replace(reports[0], source=source_name(path), files=(reports[0].source,))
    counts: Counter[str] = Counter()
    remarks: dict[str, Remark] = {}
    for report in reports:
        counts.update(report.counts)
        for remark in report.remarks:
            so_far = remarks.get(remark.what, Remark(remark.what, 0))
            place = f"{Path(report.source).name}, line {remark.lines[0]}" if remark.lines else report.source
            examples = (*so_far.examples, place)[:LINES_NAMED]
            remarks[remark.what] = Remark(remark.what, so_far.count + remark.count, (), examples)
    forms = Counter(report.form for report in reports)
    form = " and ".join(f"{form} in {amount(files, 'file')}" for form, files in forms.items())
    sample = tuple(chain.from_iterable(report.sample for report in reports[:2]))[:2]
    evidence = "; ".join(dict.fromkeys(report.evidence for report in reports[:LINES_NAMED]))
    files = tuple(report.source for report in reports)
    return ReadingReport(source_name(path), form, dict(counts), evidence, tuple(remarks.values()), sample, "", files)
