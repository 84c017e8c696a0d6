"""Results with rows, and evaluations with a report: facts, tables for reading and notes, in every format."""

from __future__ import annotations

import html
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, cast, get_args

from syntaxlm.core.declarations import ReportFormat
from syntaxlm.core.errors import InputError, printable
from syntaxlm.core.files import to_json
from syntaxlm.core.reading import ReadingReport
from syntaxlm.core.run_head import RunHead
from syntaxlm.reports.latex import latex_comment
from syntaxlm.reports.markdown import markdown_text
from syntaxlm.reports.page import Block, HtmlTable, Notes, Page, Paragraph, Section, table_html
from syntaxlm.reports.tables import Columns, ReportTable, Row, format_value
from syntaxlm.reports.writers import dataframe, format_rows, plain, write_lines, write_rows

FILES_IN_TITLE = 2
FILES_NAMED = 3  # in the facts
ROWS_PRINTED = 100  # rows or pictures of a result that is printed or shown in a notebook


class HasRows(ABC):
    """A result with rows. A subclass has `columns`, and `rows` that yield a value or None for each of them.

    Attributes:
        columns: the columns of the rows.
        readings: how the files were read from which the result follows.
        not_printed: columns that are left out where the result is printed.
    """

    columns: Columns
    readings: tuple[ReadingReport, ...] = ()
    not_printed: ClassVar[frozenset[str]] = frozenset()

    def __init_subclass__(cls) -> None:
        """Let a subclass print itself also where a session or a notebook shows it, unless it has its own `__repr__`.

        A dataclass would otherwise get one that lists its fields.
        """
        super().__init_subclass__()
        if "__repr__" not in vars(cls):
            cls.__repr__ = cls.__str__  # type: ignore[method-assign, assignment]

    @abstractmethod
    def rows(self) -> Iterator[Row]:
        """Return the rows of files and data frames."""

    def to_dataframe(self) -> Any:
        """Return the rows as a pandas.DataFrame or, if pandas is not installed, a polars.DataFrame."""
        return dataframe(self.rows(), self.columns)

    def to_parquet(self, path: str | Path) -> None:
        """Write the rows to a Parquet file, atomically. Raises InputError as `write_parquet` does."""
        write_rows(self.rows(), self.columns, path, "parquet")

    def __str__(self) -> str:
        """Return the first rows as a table with aligned columns."""
        table, more = self._first_rows()
        return "\n".join([*map(printable, table.text().split("\n")), *more])

    def _first_rows(self) -> tuple[ReportTable, list[str]]:
        """Return the rows that are printed, and `more_rows`."""
        rows = list(self.rows())
        headings = {name: column.format for name, column in self.columns.items() if name not in self.not_printed}
        printed = [[row[name] for name in headings] for row in rows[:ROWS_PRINTED]]
        return ReportTable(headings, printed, missing=""), more_rows(len(rows))


def more_rows(rows: int) -> list[str]:
    """Return a line on the rows that are not printed; no line if there are none."""
    return [f"... and {rows - ROWS_PRINTED:,} more"] if rows > ROWS_PRINTED else []


class HasReport(HasRows):
    """The result of an evaluation. A subclass has `report`; text, JSON, files and data frames follow from it."""

    @abstractmethod
    def report(self) -> Report:
        """Return the figures with their facts, tables for reading, and notes."""

    @property
    def columns(self) -> Columns:  # type: ignore[override]
        """The columns of the rows."""
        return self.report().columns

    @property
    def warnings(self) -> Sequence[str]:
        """What changes the meaning of the figures, a line each."""
        return self.report().warnings

    def rows(self) -> Iterator[Row]:
        """Yield the rows of files and data frames."""
        return iter(self.report().rows)

    def to_dict(self) -> dict[str, Any]:
        """Return all figures for JSON: fractions from 0 to 1, None where there is no figure."""
        return replace(self.report(), readings=self.readings).to_dict()

    def details(self) -> Iterable[Any]:
        """Return the scored items, if any: one JSON object each, or a dataclass."""
        return ()

    def write_details(self, path: str | Path) -> None:
        """Write `details` as JSON lines, atomically. Raises InputError if the file cannot be written."""
        write_lines((to_json(plain(row)) + "\n" for row in self.details()), path)

    def __str__(self) -> str:
        return self.report().text()

    def _repr_html_(self) -> str:
        """Return the report for notebooks."""
        return self.report().notebook()


@dataclass(frozen=True)
class Report:
    """The figures of an evaluation.

    Attributes:
        columns: the columns of TSV, CSV and Parquet files and of data frames.
        rows: the rows of these files and frames.
        figures: the content of JSON, with standard keys; dataclasses, tuples and arrays are converted.
        facts: what the figures were measured on and how: data, protocol, decoder, seeds.
        explanation: sentences on the method.
        tables: tables for reading.
        notes: comparisons and remarks.
        readings: how the files that were measured were read.
        warnings: what changes the meaning of the figures; a line each, before the tables.
        run: the command, its version, machine and files, for JSON.
        data: the files that were measured, the first fact.
        models: the names of the models, for titles.
        name: what was measured, for titles; "": the name of the columns.
    """

    columns: Columns
    rows: Sequence[Row]
    figures: Mapping[str, Any]
    facts: Mapping[str, Any] = field(default_factory=dict)
    explanation: Sequence[str] = ()
    tables: Sequence[ReportTable] = ()
    notes: Sequence[str] = ()
    readings: Sequence[ReadingReport] = ()
    warnings: Sequence[str] = ()
    run: RunHead | None = None
    data: Sequence[str] = ()
    models: Sequence[str] = ()
    name: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return the figures for JSON, and if there are any, "warnings", "readings" and the head, "run"."""
        read = {"readings": [reading.to_dict() for reading in self.readings]} if self.readings else {}
        warned = {"warnings": list(self.warnings)} if self.warnings else {}
        head = {"run": self.run.to_dict()} if self.run else {}
        return cast(dict[str, Any], plain({**self.figures, **warned, **read, **head}))

    @property
    def title(self) -> str:
        """What was measured, of which models, on which files: "Parsing scores of en on gold.mrg"."""
        name = self.name or self.columns.name
        models = f" of {' and '.join(Path(model).name for model in self.models)}" if self.models else ""
        files = [Path(file).name for file in self.data]
        if len(files) > FILES_IN_TITLE:
            files = [files[0], f"{len(files) - 1} others"]
        return name[:1].upper() + name[1:] + models + (f" on {' and '.join(files)}" if files else "")

    @property
    def _data(self) -> str:
        """The files that were measured, or the first of many."""
        if len(self.data) > FILES_NAMED:
            return f"{self.data[0]} and {len(self.data) - 1} others"
        return ", ".join(self.data)

    @property
    def summary(self) -> str:
        """The facts on one line."""
        facts = [f"{name} {format_value(value)}".strip() for name, value in self.facts.items()]
        return "   ".join([*filter(None, [self._data]), *facts])

    @property
    def _head(self) -> list[str]:
        """What stands before the tables: the facts, the method, and warnings, one line each."""
        warned = [f"warning: {warning}" for warning in self.warnings]
        return list(filter(None, [self.summary, *self.explanation, *warned]))

    @property
    def _filled_tables(self) -> list[ReportTable]:
        return [table.with_names_first() for table in self.tables if table.rows]

    @property
    def _readings(self) -> list[str]:
        """How the files were read, one line each."""
        return [f"read {reading}" for reading in self.readings]

    def text(self) -> str:
        """Return the report for a terminal, without the last line end."""
        printed = [table for table in self.tables if table.rows and not table.lines]
        tables = [f"{table.title}\n{table.text()}".removeprefix("\n") for table in printed]
        notes = [*self.notes, *(line for table in self.tables for line in table.lines)]
        parts = ["\n".join(self._head), *tables, "\n".join(notes), "\n".join(self._readings)]
        text = "\n\n".join(filter(None, parts))
        return "\n".join(map(printable, text.split("\n")))  # names in files must not control the terminal

    def markdown(self) -> str:
        """Return the report in Markdown."""
        parts = [f"# {markdown_text(self.title)}", *map(markdown_text, self._head)]
        for table in self._filled_tables:
            parts += [f"## {markdown_text(table.title)}" if table.title else "", table.markdown()]
        parts.append("\n".join(f"- {markdown_text(note)}" for note in (*self.notes, *self._readings)))
        return "\n\n".join(filter(None, parts))

    def latex(self) -> str:
        """Return the tables for the LaTeX package booktabs; everything else is in comments."""
        head = latex_comment([r"\usepackage{booktabs}", self.title, *self._head])
        titled = [(table, table.title.replace("\n", "; ")) for table in self._filled_tables]
        tables = [replace(table, title=_running_text(title)).latex() for table, title in titled]
        return "\n\n".join(filter(None, [head, *tables, latex_comment([*self.notes, *self._readings])]))

    def html(self) -> str:
        """Return the report as a self-contained page."""
        facts = {"model" if len(self.models) == 1 else "models": ", ".join(self.models)}
        if not any(str(value).startswith(self._data) for value in self.facts.values()):
            facts["data"] = self._data
        facts |= {name: format_value(value) for name, value in self.facts.items()}
        statements = [name for name, value in self.facts.items() if value == ""]
        facts = {name: value for name, value in facts.items() if value}

        # Fields that a terminal holds apart by spaces are separated by semicolons.
        head = [*statements, *self.explanation, *(f"warning: {warning}" for warning in self.warnings)]
        blocks: list[Block] = [Paragraph(_running_text(line)) for line in head]
        blocks += [HtmlTable(replace(table, title=_running_text(table.title))) for table in self._filled_tables]
        if notes := (*self.notes, *self._readings):
            blocks.append(Notes(tuple(map(_running_text, notes))))
        return Page(self.title, (Section("", tuple(blocks)),), facts=facts).html()

    def notebook(self) -> str:
        """Return the report as HTML for a notebook, in the notebook's own colours."""
        tables = map(table_html, self._filled_tables)
        return "".join([*_paragraphs(self._head), *tables, *_paragraphs([*self.notes, *self._readings])])

    def formatted(self, format: ReportFormat) -> str:
        """Return the report in a format other than Parquet, without the last line end."""
        match format:
            case "tsv" | "csv":
                return "".join(format_rows(self.rows, self.columns, format)).removesuffix("\n")
            case "json":
                return to_json(self.to_dict())
            case _:
                writers = {"text": self.text, "markdown": self.markdown, "latex": self.latex, "html": self.html}
                return writers[format]().removesuffix("\n")

    def write(self, path: str | Path | None, format: ReportFormat) -> None:
        """Write the report, atomically.

        Args:
            path: the file; None: standard output, except for Parquet.
            format: the format.

        Raises:
            InputError: for an unknown format, and if the file cannot be written.
        """
        if format not in get_args(ReportFormat):
            raise InputError(f"found format {format!r}; expected one of {', '.join(get_args(ReportFormat))}")
        if format == "parquet":
            write_rows(self.rows, self.columns, path, format)
        else:
            write_lines([self.formatted(format) + "\n"], path)


def _running_text(text: str) -> str:
    """Return text for a terminal with semicolons instead of the spaces that hold its fields apart."""
    return re.sub(r"(?<=\S) {2,}(?=\S)", "; ", re.sub(r" {2,}\(", " (", text))


def _paragraphs(lines: Iterable[str]) -> Iterator[str]:
    """Yield lines of text as paragraphs of HTML."""
    return (f"<p>{html.escape(printable(line))}</p>" for line in lines)
