"""The typed columns of a type of result, and tables for reading, as aligned text, Markdown and LaTeX."""

from __future__ import annotations

import io
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

from syntaxlm.reports.latex import latex_text
from syntaxlm.reports.markdown import markdown_text

ColumnType = Literal[
    "integer", "nullable integer", "unsigned integer", "number", "text", "boolean", "list of integers",
    "list of numbers", "list of text", "list of pairs",
]  # fmt: skip
Row = Mapping[str, Any]
Block = Mapping[str, Any]
"""Rows in columns: a list or array of values for each column."""

PERCENT = "percent"  # format of fractions in a report: 0.616 is shown as 61.6
RIGHT = ">"  # format of text that is aligned right

_BETWEEN_PARTS = re.compile(r" {2,}| (?=\(|± )")  # of a number: 25.4  19.9 to 31.7  (205)
_SPACE = re.compile(r" {2,}|\n")
_TEXT_WIDTH = 10_000  # characters of a line: tables are never wrapped


class Column(NamedTuple):
    """A column of a table.

    Attributes:
        type: the type of its values, each of which may be missing. A copied column of integers of which some are
            missing is of nullable integers, so that a data frame has all their digits. Unsigned integers have 64 bits.
        meaning: what its values are, with their unit.
        format: how a report shows its values: PERCENT, or a format specification such as ".2f"; "": by type.
    """

    type: ColumnType
    meaning: str
    format: str = ""


@dataclass(frozen=True)
class Columns(Mapping[str, Column]):
    """The columns of a type of result, by name, so that its files and data frames are the same for every model.

    Attributes:
        name: the name of the table, for people and for the metadata of Parquet files.
        row: what one row is.
        by_name: the columns by name.
    """

    name: str
    row: str
    by_name: Mapping[str, Column]

    def __getitem__(self, name: str) -> Column:
        return self.by_name[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.by_name)

    def __len__(self) -> int:
        return len(self.by_name)

    def beside(self, others: Mapping[str, Column]) -> Columns:
        """Return these columns, and others after them."""
        return Columns(self.name, self.row, {**self, **others})


@dataclass(frozen=True)
class ReportTable:
    """A table for reading.

    Attributes:
        headings: the headings of the columns, which may have several lines, with the format of their values: PERCENT,
            RIGHT, or a format specification; "": text is aligned left, and integers have thousands separators.
        rows: the values of the columns; text is shown as it is.
        title: the title of the table.
        missing: the text that is shown for None.
        is_named_last: whether the last column names the rows; everywhere but in a terminal it is shown first.
        lines: what a terminal shows instead of the table, after the notes of the report; empty: the table.
    """

    headings: Mapping[str, str]
    rows: Sequence[Sequence[Any]]
    title: str = ""
    missing: str = "-"
    is_named_last: bool = False
    lines: Sequence[str] = ()

    @classmethod
    def of(
        cls, columns: Columns, rows: Iterable[Row], headings: Mapping[str, str], title: str = "", missing: str = "-"
    ) -> ReportTable:
        """Return some columns of a report's rows.

        Args:
            columns: the columns of the report.
            rows: the rows of the report.
            headings: the heading of each column that is shown, by the name of the column.
            title: the title of the table.
            missing: the text that is shown for None.
        """
        formats = {heading: columns[name].format for name, heading in headings.items()}
        return cls(formats, [[row[name] for name in headings] for row in rows], title, missing)

    def with_names_first(self) -> ReportTable:
        """Return the table with the column first that names the rows."""
        if not self.is_named_last:
            return self
        *others, name = self.headings.items()
        rows = [[row[-1], *row[:-1]] for row in self.rows]
        return replace(self, headings=dict([name, *others]), rows=rows, is_named_last=False)

    def cells(self) -> list[list[str]]:
        """Return the values of all rows as text."""
        rows = [zip(row, self.headings.values(), strict=True) for row in self.rows]
        return [[self.missing if value is None else format_value(value, form) for value, form in row] for row in rows]

    def is_number(self) -> list[bool]:
        """Return whether each column has numbers, which are aligned right."""
        columns = zip(self.headings.values(), *self.rows, strict=True)
        return [bool(form) or any(isinstance(value, int | float) for value in values) for form, *values in columns]

    def parts(self) -> list[list[list[str]]]:
        """Return the cells of all rows in parts, which pages align by themselves: a number, and what follows it.

        An interval, a standard deviation, or a count in brackets follows a number. All cells of a column have equally
        many parts, of which the last ones are its last ones; "" without one.
        """
        is_number = self.is_number()
        rows = [
            [_BETWEEN_PARTS.split(cell) if number else [cell] for cell, number in zip(cells, is_number, strict=True)]
            for cells in self.cells()
        ]
        counts = [max(map(len, column)) for column in zip(*rows, strict=True)]
        return [
            [[first, *[""] * (count - 1 - len(rest)), *rest] for (first, *rest), count in zip(row, counts, strict=True)]
            for row in rows
        ]

    def part_widths(self) -> list[list[int]]:
        """Return the number of characters of the longest first, second, ... part of each column."""
        return [
            [max(map(len, texts)) for texts in zip(*cells, strict=True)] for cells in zip(*self.parts(), strict=True)
        ]

    def text(self) -> str:
        """Return the table with aligned columns: text to the left, numbers to the right."""
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="")
        for heading, is_number in zip(self.headings, self.is_number(), strict=True):
            table.add_column(Text(heading), justify="right" if is_number else "left", no_wrap=True)
        for cells in self.cells():
            table.add_row(*map(Text, cells))

        output = io.StringIO()
        Console(file=output, width=_TEXT_WIDTH, color_system=None, force_jupyter=False).print(table)
        return "\n".join(line.rstrip() for line in output.getvalue().splitlines())

    def markdown(self) -> str:
        """Return the table in Markdown, without its title."""
        alignment = ["---:" if is_number else "---" for is_number in self.is_number()]
        lines = [list(self.headings), alignment, *self.cells()]
        escaped = [[_SPACE.sub(" ", markdown_text(cell).replace("|", "\\|")) for cell in cells] for cells in lines]
        return "\n".join(f"| {' | '.join(cells)} |" for cells in escaped)

    def latex(self) -> str:
        """Return the table as a table environment with rules of the LaTeX package booktabs."""
        alignment = "".join("r" if is_number else "l" for is_number in self.is_number())
        heading, *rows = (" & ".join(map(latex_text, cells)) + r" \\" for cells in (self.headings, *self.cells()))
        tabular = [rf"\begin{{tabular}}{{{alignment}}}", r"\toprule", heading, r"\midrule", *rows, r"\bottomrule"]
        caption = [rf"\caption{{{latex_text(self.title)}}}"] if self.title else []
        return "\n".join([r"\begin{table}", r"\centering", *caption, *tabular, r"\end{tabular}", r"\end{table}"])


def format_value(value: Any, format: str = "") -> str:
    """Return a value for reading, "-" for None and NaN.

    Args:
        value: a number, a flag, text, or None.
        format: see `ReportTable`.
    """
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str) or not isinstance(value, int | float):
        return str(value)
    if format == PERCENT:
        return f"{100 * value:.1f}"
    if format in ("", RIGHT):
        format = "," if isinstance(value, int) else ".4g"
    return f"{value:{format}}"
