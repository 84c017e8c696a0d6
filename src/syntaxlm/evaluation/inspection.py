"""What a file is and how commands would read it: its form, its counts, its first sentences or rows, and what is odd.

The readers of the commands read the file, so that what is shown is what the commands do. A file may be read in several
ways: a table of words and counts is also a frequency list.
"""

from __future__ import annotations

import json
import shlex
import warnings
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any

from syntaxlm.core.errors import InputError, InputWarning, printable, shortened
from syntaxlm.core.files import holds_model, visible_entries
from syntaxlm.core.reading import ReadingReport, Remark, collected
from syntaxlm.core.text_files import STANDARD_INPUT, content_suffix, no_sentence, read_lines
from syntaxlm.data.corpora import TAGGED_SUFFIX, TREEBANK_SUFFIXES, is_tagged, read_sentences, treebank_suffix
from syntaxlm.data.displayed_words import displayed_words
from syntaxlm.data.frequencies import Frequencies, is_frequency_list
from syntaxlm.data.input_table import InputTable
from syntaxlm.data.pairs import has_pairs, read_pairs
from syntaxlm.data.parquet import is_parquet
from syntaxlm.data.region_rows import RegionColumns, find_region_columns
from syntaxlm.data.stimuli import Stimuli
from syntaxlm.data.suites import read_suites
from syntaxlm.data.table_form import TABLE_SUFFIXES
from syntaxlm.data.tables import open_table, refuse_table
from syntaxlm.data.treebank_files import files_of, is_treebank
from syntaxlm.data.treebanks import read_treebank
from syntaxlm.reports.report import HasReport, Report
from syntaxlm.reports.tables import Column, Columns, ReportTable, Row
from syntaxlm.storage.arpa import DATA, read_arpa
from syntaxlm.text.normaliser import Normaliser

_GROUPS = ("item", "story", "text", "passage")  # usual names of the column with the passage of a displayed word
_LINES_COMPARED = 50  # at the start of a file whose name does not say what it is
_SAMPLE_CHARACTERS = 200  # of a sentence or row

FILES_READ = Columns(
    "files",
    "way of reading a file",
    {
        "file": Column("text", "the file as it was named"),
        "form": Column("text", "format of the file; missing if it cannot be read"),
        "evidence": Column("text", "evidence for this format"),
        "contents": Column("text", "numbers of sentences, words, rows or entries"),
        "first": Column("text", "the first sentence or row, as read"),
        "second": Column("text", "the second sentence or row, as read"),
        "remarks": Column("text", "what was dropped, was changed or looks unusual, with line numbers"),
        "warnings": Column("text", "warnings of the reader"),
        "commands": Column("text", "commands that read such a file"),
        "problem": Column("text", "why the file cannot be read, and what to do"),
    },
)


@dataclass(frozen=True)
class Inspection:
    """One way of reading a file.

    Attributes:
        file: as it was named.
        report: how it was read; None if it cannot be read.
        commands: examples of commands that read such a file.
        warnings: messages of the reader about a file that it read.
        problem: the message of the reader that refused it; "" if it was read.
    """

    file: str
    report: ReadingReport | None
    commands: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    problem: str = ""

    def row(self) -> dict[str, Any]:
        """Return the columns of `FILES_READ`; a missing value is None."""
        report = self.report or ReadingReport(self.file, "")
        sample = [shortened(printable(text), _SAMPLE_CHARACTERS) for text in report.sample[:2]]
        first, second, *_ = [*sample, None, None]
        return {
            "file": self.file,
            "form": report.form or None,
            "evidence": report.evidence or None,
            "contents": report.contents or None,
            "first": first,
            "second": second,
            "remarks": "; ".join(map(str, report.remarks)) or None,
            "warnings": "\n".join(self.warnings) or None,
            "commands": "; ".join(self.commands) or None,
            "problem": self.problem or None,
        }


@dataclass(frozen=True)
class InspectionReport(HasReport):
    """How files would be read."""

    inspections: tuple[Inspection, ...]

    @property
    def problems(self) -> int:
        """The number of files that cannot be read."""
        return sum(bool(inspection.problem) for inspection in self.inspections)

    def report(self) -> Report:
        rows: list[Row] = [inspection.row() for inspection in self.inspections]
        tables = [_table(inspection, row) for inspection, row in zip(self.inspections, rows, strict=True)]
        figures = {"schema_version": 1, "files": list(map(_json_of, self.inspections))}
        return Report(FILES_READ, rows, figures, tables=tables)


def _table(inspection: Inspection, row: Row) -> ReportTable:
    """Return what the terminal shows of a file: a line for each column that has a value, and for each remark."""
    lines = [[name, row[name]] for name in ("form", "evidence", "contents", "first", "second") if row[name]]
    for remark in inspection.report.remarks if inspection.report else ():
        lines.append(["remark", str(remark)])
    lines += [["warning", line] for warning in inspection.warnings for line in warning.splitlines()]
    lines += [["read by", command] for command in inspection.commands]
    lines += [["problem", line] for line in inspection.problem.splitlines()]
    return ReportTable({"": "", " ": ""}, lines, inspection.file)


def _json_of(inspection: Inspection) -> dict[str, Any]:
    return {
        "file": inspection.file,
        "reading": None if inspection.report is None else inspection.report.to_dict(),
        "commands": list(inspection.commands),
        "warnings": list(inspection.warnings),
        "problem": inspection.problem or None,
    }


def inspect(*files: str | Path) -> InspectionReport:
    """Show what files are, and how the commands of the package would read them.

    Args:
        files: files or folders of text, trees, tables, minimal pairs, test suites, frequency lists or n-grams.

    Returns:
        A result with one row per way of reading a file; a file that no reader accepts has a problem instead.

    Raises:
        InputError: if no file is named.

    Examples:
        >>> syntaxlm.inspect("corpus/test.mrg").inspections[0].report.counts["sentences"]
        3
    """
    if not files:
        raise InputError("inspect: found no file; expected at least one")
    return InspectionReport(tuple(chain.from_iterable(map(_inspections, files))))


def _inspections(file: str | Path) -> list[Inspection]:
    """Return the ways of reading a file."""
    name = str(file)
    if name == STANDARD_INPUT:
        raise InputError("inspect: standard input can be read only once; expected files")
    if Path(file).is_dir() and holds_model(Path(file)):
        report = ReadingReport(name, "folder of a model or a training run")
        return [Inspection(name, report, (f"syntaxlm models info {name}",))]
    inspections = []
    with collected(isolated=True):
        try:
            for read, commands in _readers(file):
                inspections.append(_inspected(name, partial(read, file), commands))
        except InputError as error:
            inspections.append(Inspection(name, None, problem=str(error)))
    return inspections


def _inspected(name: str, read: Callable[[], object], commands: Sequence[str]) -> Inspection:
    """Read a file, and return what its reader announced and warned of. Raises InputError as the reader does."""
    with collected() as reports, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", InputWarning)
        counts = read()
    messages = tuple(str(warning.message) for warning in caught if issubclass(warning.category, InputWarning))

    # The last report is that of the whole file; an earlier one may be of its line ends.
    *earlier, report = reports or [ReadingReport(name, "")]
    line_ends = [Remark(first.form, first.counts["lines"]) for first in earlier if "lines" in first.counts]
    remarks = chain(line_ends, *(reading.remarks for reading in (*earlier, report)))
    report = replace(report, remarks=tuple(remarks))
    if isinstance(counts, dict):
        report = replace(report, counts={**report.counts, **counts})
    return Inspection(name, report, tuple(command.format(name) for command in commands), messages)


_Reader = tuple[Callable[[str | Path], object], tuple[str, ...]]


def _readers(file: str | Path) -> Iterable[_Reader]:
    """Yield the readers that a file is for, each with examples of commands. Raises InputError as they do."""
    suffix = treebank_suffix(file)
    known = set(TREEBANK_SUFFIXES) - {".txt"}
    if Path(file).is_dir():
        suffixes = set(map(treebank_suffix, visible_entries(file)))
        yield _SUITES if ".json" in suffixes and not suffixes & known else _treebank_reader(file)
        return
    if suffix in known:
        yield _treebank_reader(file)
        return
    if is_parquet(file):
        yield _TEXT
        return
    start = list(islice((line for _, line in read_lines(file) if line.strip()), _LINES_COMPARED))
    if suffix == ".arpa" or (start and start[0].strip() == DATA):
        yield _ARPA
    elif suffix in (".json", ".jsonl") or (start and start[0].lstrip().startswith(("{", "["))):
        yield _SUITES if suffix != ".jsonl" and _is_suite(file) else _PAIRS
    elif not (is_list := is_frequency_list(file)) and suffix not in TABLE_SUFFIXES and is_treebank(file):
        yield _treebank_reader(file)
    else:
        is_a_table = _is_table(file)
        if is_a_table:
            readers = list(_table_readers(file))
            yield from readers if not (is_list and [read for read, _ in readers] == [_read_table]) else ()
        if is_list:
            yield _FREQUENCIES
        if not (is_list or is_a_table):
            yield _TEXT


def _treebank_reader(file: str | Path) -> _Reader:
    """Return the reader of a treebank, with the commands that read its trees or its tags."""
    suffix = files_of(file)[0].suffix
    if suffix != TAGGED_SUFFIX:
        return _UD_TREEBANK if suffix == ".conllu" else _TREEBANK
    return _TAGGED_TEXT if is_tagged(file) else _TAGGED_TREEBANK


def _is_suite(file: str | Path) -> bool:
    """Return whether a JSON file is a test suite: an object with items and predictions."""
    try:
        content = json.loads("\n".join(line for _, line in read_lines(file)))
    except (ValueError, RecursionError):
        return False
    return isinstance(content, dict) and "items" in content


def _is_table(file: str | Path) -> bool:
    """Return whether a file is a table, which commands refuse as a text."""
    try:
        refuse_table(file, "")
    except InputError:
        return True
    return content_suffix(file) in TABLE_SUFFIXES


def _table_readers(file: str | Path) -> Iterator[_Reader]:
    """Yield the readers of a table, by the usual names of its columns."""
    names = set(open_table(file).names)
    if has_pairs(names):
        yield _PAIRS
        return
    by_region = find_region_columns(InputTable.unannounced(file))
    if {"item", "condition", "sentence"} <= names and by_region is None:
        yield Stimuli.read, ("syntaxlm items MODEL {}",)
        return
    has_words = "word" in names and (by_region is None or not by_region.is_repeated)
    if has_words:
        group = next((name for name in _GROUPS if name in names), None)
        option = f" --group {group}" if group else ""
        yield partial(_read_words, group), (f"syntaxlm score MODEL --words {{}}{option}",)

    # A row for each region, and other tables.
    command = "" if by_region is None else f"syntaxlm items MODEL {{}} {_escaped(by_region.options)}"
    if by_region is not None and by_region.factors and not by_region.is_repeated:
        yield partial(_read_region_rows, by_region), (command,)
    elif not has_words:
        of_sentences, of_scores = _commands_of(names)
        yield _read_table, (command or of_sentences, of_scores)


def _commands_of(names: Collection[str]) -> tuple[str, str]:
    """Return commands for a table of sentences, in which NAME is what its usual columns do not say."""
    has_sentences = "sentence" in names
    options = [] if has_sentences else ["--column NAME"]
    options += [f"--{name} NAME" for name in ("item", "condition") if name not in names]
    column = "sentence" if has_sentences else "NAME"
    return " ".join(["syntaxlm items MODEL {}", *options]), f"syntaxlm score MODEL {{}} --column {column}"


def _escaped(words: Sequence[str]) -> str:
    """Return words as a shell reads them, for `str.format`."""
    return shlex.join(words).replace("{", "{{").replace("}", "}}")


def _read_region_rows(columns: RegionColumns, file: str | Path) -> None:
    Stimuli.read(file, columns.text, item=columns.item, condition=columns.factors, region_rows=columns.region)


def _read_words(group: str | None, file: str | Path) -> None:
    displayed_words(InputTable.unannounced(file), group=group)


def _read_text(file: str | Path) -> dict[str, int]:
    """Read a text, and return the number of its words. Raises InputError if there is none."""
    words = sum(len(line.split()) for _, line in read_sentences(file, Normaliser()))
    if not words:
        raise no_sentence(file)
    return {"words": words}


def _read_table(file: str | Path) -> None:
    deque(open_table(file).rows, 0)


def _files_of(read: Callable[[Sequence[str | Path]], object]) -> Callable[[str | Path], object]:
    """Return a reader of one file, from a reader of several."""
    return lambda file: read([file])


_TREEBANK: _Reader = (read_treebank, ("syntaxlm evaluate parse MODEL {}", "syntaxlm data words {} -o FILE"))
_UD_TREEBANK: _Reader = (
    read_treebank,
    ("syntaxlm evaluate parse MODEL {} --preprocessing ud", "syntaxlm data words {} -o FILE --preprocessing ud"),
)
_TAGGED_TREEBANK: _Reader = (
    read_treebank,
    ("syntaxlm data words {} -o FILE", "syntaxlm data tags {} -o FILE.tagged.txt"),
)
_TAGGED_TEXT: _Reader = (read_treebank, ("syntaxlm parse MODEL {}", *_TAGGED_TREEBANK[1]))
_TEXT: _Reader = (
    _read_text,
    ("syntaxlm parse MODEL {}", "syntaxlm score MODEL {}", "syntaxlm train RECIPE -o FOLDER --text.train {}"),
)
_FREQUENCIES: _Reader = (Frequencies.read, ("syntaxlm score MODEL --words FILE --frequencies {}",))
_PAIRS: _Reader = (_files_of(read_pairs), ("syntaxlm evaluate pairs MODEL {}",))
_SUITES: _Reader = (_files_of(read_suites), ("syntaxlm evaluate suites MODEL {}",))
_ARPA: _Reader = (read_arpa, ("syntaxlm ngram from-arpa {} -o FOLDER",))
