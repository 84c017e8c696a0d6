"""Dependency trees in files: reads CoNLL-U, CoNLL-X and word-tag-head columns, and writes CoNLL-U.

Files may be compressed (.gz, .bz2, .xz, .zst, .zip); "-" is standard input.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from syntaxlm.core.errors import InputError, amount, warn_caller
from syntaxlm.core.files import write_text
from syntaxlm.core.foreign_files import foreign_treebank
from syntaxlm.core.reading import ReadingReport, Remarks, announce
from syntaxlm.core.text_files import content_suffix, no_sentence, read_lines, source_name
from syntaxlm.trees.tree import DependencyTree

MAXIMUM_SENTENCE = 2**28  # approximate limit of the memory for the lines of one sentence, in bytes

NO_HEAD = -1  # in `DependencyTree.heads`: the file has no head for the word

SAMPLE = 2  # sentences in a report
_ROW = 64  # bytes of memory per line in addition to its characters
_COLUMNS = 10  # columns of a CoNLL-U word line: ID FORM LEMMA UPOS XPOS FEATS HEAD DEPREL DEPS MISC
_NOT_A_WORD = re.compile(r"([0-9]{1,9})([-.])([0-9]{1,9})")  # a multiword range, 1-2, or an empty node, 1.1
_NAMED_COLUMNS = re.compile(r"#\s*global\.columns\s*=")
_WITHHELD = "_"  # in place of the words of a treebank whose text may not be published
_TEXT = re.compile(r"#\s*text\s*=")
_LINES_TRIED = 1000  # lines at the start of a file named .conll that are searched for signs of CoNLL-U
_NUMBER = re.compile(r"[0-9]{1,9}")
_SENTENCE_ID = re.compile(r"#\s*sent_id\s*=\s*(.*)")
_POSITIONS = {str(number): number for number in range(512)}  # most ids and heads; others need a regular expression


class _Format(NamedTuple):
    """A file format: indices of columns, and numbers of columns of a word line.

    Attributes:
        other_tag: the column of the tag if `tag` is _.
        has_ids: whether the first column counts the words; then _ stands for nothing, and lines that start with # are
            comments.
        columns: description of the columns of a line, for messages.
        expected: description of the lines, for messages.
        name: the name of the format.
    """

    word: int
    tag: int
    other_tag: int
    head: int
    label: int
    fewest: int
    most: int
    has_ids: bool
    columns: str
    expected: str
    name: str


_CONLLX = _Format(
    1, 4, 3, 6, 7, 8, _COLUMNS, True, "8 to 10", "word lines of eight to ten tab-separated columns", "CoNLL-X"
)
_CORENLP = _Format(
    1, 3, 3, 5, 6, 7, 7, True, "7", "word lines of seven tab-separated columns", "CoNLL of Stanford CoreNLP"
)
_CONLLU = _Format(1, 3, 4, 6, 7, _COLUMNS, _COLUMNS, True, "10", "word lines of ten tab-separated columns", "CoNLL-U")
DEPENDENCY_FORMATS = {
    ".conllu": _CONLLU,
    ".conll": _CONLLX,
    ".conllx": _CONLLX,
    ".dp": _Format(
        0, 1, 1, 2, 3, 3, 4, False, "3 (word, tag, head) or 4 (with a label)",
        "lines of word, tag and head, tab-separated", "columns of word, tag and head",
    ),
}  # fmt: skip
"""The file formats of dependency trees by suffix of the file name."""


@dataclass
class ConlluSentence:
    """A sentence of a file of dependency trees with its original lines, without line ends.

    Attributes:
        path: the file.
        number: number of the sentence in the file, from 1.
        name: the id of the sentence, or "".
        comments: its lines that start with #.
        rows: the other lines.
        numbers: the line number of each row.
        tree: the dependency tree.
    """

    path: str
    number: int
    name: str = ""
    comments: list[str] = field(default_factory=list)
    rows: list[str] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    tree: DependencyTree = field(init=False)

    def place(self, row: int = 0) -> str:
        """Return the location of a row, an index into `rows`, for messages."""
        return f"{self.path}, line {self.numbers[row]}, sentence {self.name or self.number}"

    def text(self, comments: Iterable[str] | None = None) -> str:
        """Return the sentence as text with the blank line after it.

        Args:
            comments: replace its own.
        """
        lines = (*(self.comments if comments is None else comments), *self.rows)
        return "".join(line + "\n" for line in (*lines, ""))


def read_conllu(path: str | Path) -> list[DependencyTree]:
    """Return the dependency trees of a CoNLL-U file: FORM, UPOS (XPOS where UPOS is _), HEAD, DEPREL, sent_id.

    Multiword ranges and empty nodes are skipped. Trees may be non-projective, have several roots or none, or cycles. A
    word whose head is _ has the head NO_HEAD. What was read is announced.

    Raises:
        InputError: the message names file, line and sentence.
    """
    return list(iterate_dependencies(path, ".conllu"))


def iterate_conllu(path: str | Path) -> Iterator[ConlluSentence]:
    """Return the sentences of a CoNLL-U file, one at a time, with all content of their lines.

    Sentences without words are skipped.

    Raises:
        InputError: like `read_conllu`.
    """
    return _read(path, DEPENDENCY_FORMATS[".conllu"])


def iterate_dependencies(
    path: str | Path, suffix: str | None = None, lines: Iterable[tuple[int, str]] | None = None
) -> Iterator[DependencyTree]:
    """Return the trees of a file, one at a time, for files larger than memory.

    Args:
        suffix: .conllu; .conll or .conllx (CoNLL-X: POSTAG, CPOSTAG where POSTAG is _; the last two columns may be
            missing); .dp (word, tag, head and optionally label). None: that of the file's
            name, without the suffix of its compression.
        lines: the file's lines with their numbers, if it is already being read.

    Raises:
        InputError: like `read_conllu`, and for an unknown suffix.
    """
    suffix = content_suffix(path) if suffix is None else suffix
    if suffix not in DEPENDENCY_FORMATS:
        expected = " ".join(DEPENDENCY_FORMATS)
        raise InputError(f"{path}: unknown format of dependency trees; expected a file name that ends in {expected}")
    return (sentence.tree for sentence in iterate_sentences(path, suffix, lines))


def iterate_sentences(
    path: str | Path,
    suffix: str,
    lines: Iterable[tuple[int, str]] | None = None,
    report: Callable[[ReadingReport], None] = announce,
) -> Iterator[ConlluSentence]:
    """Return the sentences with their trees and lines, otherwise like `iterate_dependencies`.

    Args:
        report: called with the report when everything is read.
    """
    return _read(path, DEPENDENCY_FORMATS[suffix], lines, report)


def _read(
    path: str | Path,
    file_format: _Format,
    lines: Iterable[tuple[int, str]] | None = None,
    report: Callable[[ReadingReport], None] = announce,
) -> Iterator[ConlluSentence]:
    """Yield the sentences of a file that have words. Raises InputError for a file without any."""
    counts = {"sentences": 0, "words": 0}
    withheld = 0  # sentences
    remarks = Remarks()
    sample: list[str] = []
    evidence = f"suffix {content_suffix(path)}" if content_suffix(path) in DEPENDENCY_FORMATS else "number of columns"
    if file_format is _CONLLX:
        file_format, evidence, lines = _by_columns(path, lines, evidence)
    for sentence in _blocks(path, file_format.has_ids, lines):
        tree = _tree(sentence, file_format, remarks)
        if tree is not None:
            sentence.tree = tree
            counts["sentences"] += 1
            counts["words"] += len(tree)
            withheld += len(tree) > 1 and tree.words[0] == _WITHHELD and set(tree.words) == {_WITHHELD}
            if len(sample) < SAMPLE:
                sample.append(" ".join(tree.words))
            yield sentence
    if not counts["sentences"]:
        raise no_sentence(path, file_format.expected)
    if withheld:
        warn_caller(
            f"{source_name(path)}: found {_WITHHELD!r} for every word in {withheld:,} of"
            f" {amount(counts['sentences'], 'sentence')}, as in treebanks that are published without their text;"
            " expected words. Add them as the treebank describes"
        )
    form = f"dependency trees, {file_format.name}"
    report(ReadingReport(source_name(path), form, counts, evidence, remarks.all(), tuple(sample)))


def _by_columns(
    path: str | Path, lines: Iterable[tuple[int, str]] | None, evidence: str
) -> tuple[_Format, str, Iterator[tuple[int, str]]]:
    """Return the format of a file whose name ends in .conll, which several formats share, and why; and its lines.

    CoNLL-U has comments, ranges or empty nodes at its beginning; the format of Stanford CoreNLP has seven columns.
    """
    numbered = iter(read_lines(path) if lines is None else lines)
    beginning = []
    chosen = _CONLLX
    reason = evidence
    has_words = False
    for number, line in numbered:
        beginning.append((number, line))
        columns = line.split("\t")
        if line.isspace() or not line or (len(line) > 1 and line[0] == "#" and len(columns) < _CORENLP.fewest):
            is_named = _SENTENCE_ID.match(line) or _TEXT.match(line) or _NAMED_COLUMNS.match(line)
            if is_named:
                chosen = _CONLLU
                reason = f"comment {line[:40]!r}"
        elif len(columns) == _CORENLP.most and not has_words:
            chosen = _CORENLP
            reason = "7 columns"
            break
        elif len(columns) == _COLUMNS and _NOT_A_WORD.fullmatch(columns[0]):
            chosen = _CONLLU
            reason = f"id {columns[0]}, a range or an empty node"
            break
        elif len(columns) != _COLUMNS:
            chosen = _CONLLX
            reason = evidence
            break
        else:
            has_words = True
        if len(beginning) == _LINES_TRIED:
            break
    return chosen, reason, chain(beginning, numbered)


def _blocks(
    path: str | Path, has_comments: bool, lines: Iterable[tuple[int, str]] | None = None
) -> Iterator[ConlluSentence]:
    """Yield the sentences of a file, separated by blank lines.

    Args:
        lines: the file's lines; None: read from the file.
    """
    source = source_name(path)
    sentence = ConlluSentence(source, 1)
    size = 0
    for number, line in read_lines(path) if lines is None else lines:
        size += len(line) + _ROW
        if not line or line.isspace():
            if sentence.rows:
                yield sentence
                sentence = ConlluSentence(source, sentence.number + 1)
            sentence.name = ""
            sentence.comments = []
            size = 0
        elif size > MAXIMUM_SENTENCE:
            raise InputError(
                f"{source}, line {number}, sentence {sentence.name or sentence.number}: more than"
                f" {MAXIMUM_SENTENCE / 2**20:,.0f} MiB without a blank line; expected one after each sentence"
            )
        elif has_comments and line[0] == "#":
            match = _SENTENCE_ID.match(line)
            sentence.name = match.group(1).strip() if match else sentence.name
            sentence.comments.append(line)
        else:
            sentence.rows.append(line)
            sentence.numbers.append(number)
    if sentence.rows:
        yield sentence


def _tree(sentence: ConlluSentence, file_format: _Format, remarks: Remarks) -> DependencyTree | None:
    """Return the tree of a sentence; None for a sentence without words."""
    words: list[str] = []
    tags: list[str] = []
    labels: list[str] = []
    heads: list[int] = []
    rows: list[int] = []
    end_of_range = row_of_range = 0
    for row, line in enumerate(sentence.rows):
        columns = line.split("\t")
        if not file_format.fewest <= len(columns) <= file_format.most:
            raise _wrong_columns(sentence, row, file_format)
        if file_format.has_ids and _POSITIONS.get(columns[0]) != len(words) + 1:
            if file_format is _CONLLU and (match := _NOT_A_WORD.fullmatch(columns[0])):
                first, last = int(match[1]), int(match[3])
                if match[2] == "-":
                    if not (first == len(words) + 1 and first <= last and first > end_of_range):
                        raise _wrong_id(sentence, row, f"a range from {len(words) + 1}, the id of the next word")
                    end_of_range, row_of_range = last, row
                    remarks.add("multiword ranges, read as separate words")
                elif first != len(words):
                    raise _wrong_id(sentence, row, f"{len(words)}.1 or a word id")
                else:
                    remarks.add("empty nodes, left out")
                continue
            if not _NUMBER.fullmatch(columns[0]) or int(columns[0]) != len(words) + 1:
                raise _wrong_id(sentence, row, f"{len(words) + 1} (ids count from 1)")
        head = _POSITIONS.get(columns[file_format.head])
        if head is None and columns[file_format.head] == "_" and file_format.has_ids:
            head = NO_HEAD
            remarks.add("words without a head", sentence.numbers[row])
        elif head is None:
            if not _NUMBER.fullmatch(columns[file_format.head]):
                raise InputError(
                    f"{sentence.place(row)}: found the head {columns[file_format.head][:40]!r}; expected a number (0"
                    " for the root)"
                )
            head = int(columns[file_format.head])
        tag = columns[file_format.tag]
        label = columns[file_format.label] if len(columns) > file_format.label else ""
        if file_format.has_ids:
            tag = columns[file_format.other_tag] if tag == "_" else tag
            tag = "" if tag == "_" else tag
            label = "" if label == "_" else label
        words.append(columns[file_format.word])
        tags.append(tag)
        heads.append(head)
        labels.append(label)
        rows.append(row)
    if not words:
        return None
    if end_of_range > len(words):
        raise _wrong_id(sentence, row_of_range, f"a range up to {len(words)}, the last word of the sentence")
    if "" in words or max(heads) > len(words):
        for word, head, row in zip(words, heads, rows, strict=True):
            if not word:
                raise InputError(f"{sentence.place(row)}: found an empty word form; expected a word")
            if head > len(words):
                raise InputError(f"{sentence.place(row)}: found head {head} of {word!r}; expected 0 to {len(words)}")
    place = sentence.place()
    return DependencyTree(tuple(words), tuple(tags), tuple(heads), tuple(labels), sentence.name, place)


def _wrong_id(sentence: ConlluSentence, row: int, expected: str) -> InputError:
    found = sentence.rows[row].split("\t")[0][:40]
    return InputError(f"{sentence.place(row)}: found the word id {found!r}; expected {expected}")


def _wrong_columns(sentence: ConlluSentence, row: int, file_format: _Format) -> InputError:
    """Return the error for a row with a wrong number of columns, perhaps of another format."""
    line = sentence.rows[row]
    text = "\n".join([*sentence.comments, *sentence.rows])
    if treebank := foreign_treebank(text, sentence.path):
        return InputError(f"{sentence.place(row)}: found {treebank[0]}; expected {file_format.name}. {treebank[1]}")
    if "\t" not in line and len(line.split()) >= file_format.fewest:
        return InputError(
            f"{sentence.place(row)}: found {len(line.split())} columns separated by spaces; expected"
            f" {file_format.columns} separated by tabs. Replace the spaces, for example with:"
            f" awk -v OFS='\\t' '!/^#/ {{$1 = $1}} 1' {sentence.path}"
        )
    columns = line.count("\t") + 1
    found = f"{columns} tab-separated column" + "s" * (columns != 1)
    return InputError(f"{sentence.place(row)}: found {found}; expected {file_format.columns}")


def check_heads(tree: DependencyTree, place: str) -> None:
    """Raise InputError for a word without a head, or whose heads do not lead to a root.

    Args:
        place: for messages.
    """
    reaches = [True, *[False] * len(tree)]  # whether the heads of each word, from 1, lead to 0
    for position, (word, head) in enumerate(zip(tree.words, tree.heads, strict=True), 1):
        path = []
        while not reaches[position]:
            if head == NO_HEAD:
                raise InputError(
                    f"{place}: word {position}, {word!r}, has no head; expected a number (0 for the root), because"
                    " dependencies are used here"
                )
            path.append(position)
            if len(path) > len(tree):
                raise InputError(
                    f"{place}: the heads of {tree.words[path[0] - 1]!r} form a cycle; expected heads that lead to 0"
                )
            position = head
            word, head = (tree.words[position - 1], tree.heads[position - 1]) if position else ("", 0)
        for passed in path:
            reaches[passed] = True


def write_conllu(trees: Iterable[DependencyTree], path: str | Path) -> None:
    """Write FORM, UPOS, HEAD, DEPREL and the sentence id. The file is written atomically.

    Raises:
        InputError: the message names the sentence whose words, tags or labels cannot be written in a column.
    """
    sources = ((tree, f"{path}, sentence {tree.name or number}") for number, tree in enumerate(trees, 1))
    write_text("".join(format_conllu(tree, source=source) for tree, source in sources), path)


def format_conllu(tree: DependencyTree, comments: Mapping[str, str] | None = None, source: str = "") -> str:
    """Return a tree as a CoNLL-U sentence with FORM, UPOS, HEAD, DEPREL, including the blank line after it.

    Args:
        comments: by name, after the sentence id.
        source: for messages; by default the tree's name.

    Raises:
        InputError: if words, tags, labels or comments contain characters that are not allowed there.
    """
    source = source or f"sentence {tree.name or '(no id)'}"
    if not tree.words:
        raise InputError(f"{source}: found no words; expected at least one")
    named = ({"sent_id": tree.name} if tree.name else {}) | dict(comments or {})
    lines = [f"# {name} = {value}" for name, value in named.items()]
    if any("\n" in line or "\r" in line for line in lines):
        raise InputError(f"{source}: found {named} as comments; expected no line ends")
    for position, (word, tag, head, label) in enumerate(
        zip(tree.words, tree.tags, tree.heads, tree.labels, strict=True), 1
    ):
        columns = f"{position}\t{word}\t_\t{tag or '_'}\t_\t_\t{'_' if head == NO_HEAD else head}\t{label or '_'}\t_\t_"
        if not word or columns.count("\t") != _COLUMNS - 1 or "\n" in columns or "\r" in columns:
            raise InputError(f"{source}: found {(word, tag, label)} as word, tag, label; expected no tabs or line ends")
        lines.append(columns)
    return "".join(line + "\n" for line in [*lines, ""])
