"""A table of text cells with the numbers of its rows, from a file or from a data frame of any library."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from syntaxlm.core.arrays import Numbers
from syntaxlm.core.errors import LONGEST_NAME, InputError, shortened, warn_caller
from syntaxlm.core.option_names import option_name
from syntaxlm.core.reading import ReadingReport, Remarks, announce, collected
from syntaxlm.data.table_form import (
    MISSING,
    NA_ADVICE,
    Missing,
    refuse_spreadsheet_error,
    text_of,
    warn_of_missing,
)
from syntaxlm.data.tables import (
    LARGEST_INTEGER,
    LARGEST_UNSIGNED,
    ambiguous_point,
    check_unique,
    find_column,
    has_decimal_commas,
    number_of,
    open_table,
)
from syntaxlm.reports.report import HasRows

LOGICALS = (("true", "false"), ("t", "f"), ("yes", "no"))  # without case; R and data frames write them for 1 and 0
LARGEST = 1e9  # number in a table: far above any time in milliseconds, and safe in sums of squares


class NoText(str):
    """How Python writes a value of a data frame that has several parts, such as a list of words, or is bytes."""

    __slots__ = ()


@dataclass(frozen=True)
class InputTable:
    """A table of text cells.

    Attributes:
        source: the file, for messages.
        names: the names of the columns.
        rows: their cells.
        row_numbers: their numbers, from 1: lines of a file, or rows of a data frame.
        unit: which of the two.
        values: the cells as they are copied to a result: numbers and flags of a data frame keep their type.
        is_quoted: whether all text of the file is in quotation marks, so that NA without them is certainly a missing
            value.
        separator: the separator of the cells of a file.
        reading: how the table was read, for the report of those who use it; None if it was announced.
        index: the labels of all rows of a data frame of pandas, for messages; () for others, whose rows are counted
            from 0.
        orders: the order of the values of columns of a data frame that have one, as factors of R do.
    """

    source: str
    names: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    row_numbers: tuple[int, ...]
    unit: Literal["line", "row"]
    values: tuple[tuple[Any, ...], ...]
    is_quoted: bool = False
    separator: str = "\t"
    reading: ReadingReport | None = None
    index: Sequence[Any] = ()
    orders: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @classmethod
    def unannounced(cls, table: Any) -> InputTable:
        """Read a table like `read`, and keep how it was read as `reading`, for a report on what the table holds."""
        with collected(isolated=True) as reports:
            read = cls.read(table)
        for report in reports[:-1]:  # on line ends
            announce(report)
        return replace(read, reading=reports[-1])

    def report(self, report: ReadingReport) -> ReadingReport:
        """Return a report on this table with the remarks on how it was read."""
        if self.reading is None:
            return report
        return replace(report, evidence=self.reading.form, remarks=(*self.reading.remarks, *report.remarks))

    @classmethod
    def read(cls, table: Any, keep_empty: bool = False) -> InputTable:
        """Read a file (which may be compressed; "-" is standard input), or take a data frame, see `is_frame`.

        Args:
            keep_empty: whether rows of a data frame without any value are kept.

        Raises:
            InputError: for a table without header or rows, and as `open_table` does.
        """
        is_quoted, separator = False, "\t"
        if is_frame(table):
            source, names = "the data frame", frame_columns(table)
            check_unique(names, source)
            rows = [(number, tuple(map(_value_of, row))) for number, row in enumerate(_frame_rows(table), 1)]
            keep_empty = keep_empty or len(names) == 1
            filled = [(number, row) for number, row in rows if keep_empty or any(cell is not None for cell in row)]
            values = [tuple(str(cell) if type(cell) is NoText else cell for cell in row) for _, row in filled]
            for name, column in zip(names, zip(*values, strict=True), strict=False):
                _check_integers(column, name, source)
            kept = [(number, tuple(map(_cell_of, row))) for number, row in filled]
            remarks = Remarks()
            if len(filled) < len(rows):
                remarks.add("empty rows", count=len(rows) - len(filled))
            counts = {"rows": len(filled), "columns": len(names)}
            announce(ReadingReport(source, "data frame", counts, "", remarks.all()))
        else:
            source, names, lines, is_quoted, separator = open_table(table)
            kept = [(number, tuple(cells or [""])) for number, cells in lines if cells or len(names) == 1]
        if not kept:
            raise InputError(f"{source}: found only a header; expected at least one row below it")
        numbers, cells = zip(*kept, strict=True)
        if is_frame(table):
            index = table.index.tolist() if hasattr(getattr(table, "index", None), "tolist") else ()
            return cls(source, names, cells, numbers, "row", tuple(values), index=index, orders=_category_orders(table))
        return cls(source, names, cells, numbers, "line", cells, is_quoted, separator)

    def place(self, row: int) -> str:
        """Return the place of a row (from 0) for messages."""
        number = self.row_numbers[row]
        if self.unit == "line":
            return f"{self.source}, line {number}"
        return f"{self.source}, row with index {self.index[number - 1] if self.index else number - 1!r}"

    def line(self, row: int) -> int | None:
        """Return the number of the line of a row (from 0), for remarks; None in a data frame, which has no lines."""
        return self.row_numbers[row] if self.unit == "line" else None

    def column(self, name: str, option: str) -> list[str]:
        """Return the cells of a column of text, "" for NA without quotation marks, with an InputWarning if it may be a
        word.

        Args:
            option: how the user chooses the column.

        Raises:
            InputError: if there is none, for errors of spreadsheets, and for lists and bytes in a data frame.
        """
        cells = self._cells(name, option)
        for row, cell in enumerate(cells):
            if cell.startswith("#"):
                refuse_spreadsheet_error(cell, self.place(row), name)
            if type(cell) is NoText:
                raise InputError(
                    f"{self.place(row)}: found {shortened(cell, LONGEST_NAME)} in column {name}; expected text. Join"
                    " the words of a list with ' '.join(words), and decode bytes"
                )
        missing = [row for row, cell in enumerate(cells) if isinstance(cell, Missing)]
        if missing and not self.is_quoted:
            warn_of_missing(self.place(missing[0]), name, len(missing))
        return list(map(text_of, cells))

    def _cells(self, name: str, option: str) -> list[str]:
        place = find_column(self.names, name, self.source, f"Choose one with {option_name(option)}")
        return [row[place] for row in self.rows]

    def emptiness(self, row: int, name: str) -> str:
        """Return the place of a cell without text, and why it has none, for a message."""
        column = self.names.index(name)
        if isinstance(self.rows[row][column], Missing):
            return f"{self.place(row)}: column {name} has NA, a missing value{NA_ADVICE}"
        if self.values[row][column] is None:
            return (
                f"{self.place(row)}: column {name} has a missing value. If it is the word NA, null, nan or None, read"
                " the table with pandas.read_csv(..., keep_default_na=False)"
            )
        return f"{self.place(row)}: column {name} is empty"

    def numbers(self, name: str, option: str, remarks: Remarks | None = None) -> Numbers:
        """Return the numbers of a column, NaN for missing cells. Raises InputError, with the row, for anything else.

        A column of TRUE and FALSE only, T and F, or yes and no, has the numbers 1 and 0.

        Args:
            remarks: where missing numbers, numbers with decimal commas and logical values are counted; None: only
                logical values are announced.
        """
        cells = self._cells(name, option)
        if (logical := self._logical_numbers(name, cells, remarks)) is not None:
            return logical
        remarks = Remarks() if remarks is None else remarks
        numbers = np.full(len(cells), np.nan)
        is_comma = has_decimal_commas(cells, self.separator)
        for row, cell in enumerate(cells):
            if cell.strip() in MISSING:
                remarks.add(f"rows without a number in column {name}", self.line(row))
                continue
            try:
                numbers[row] = number_of(cell.replace(",", ".") if is_comma else cell)
            except ValueError:
                numbers[row] = np.inf
            if not abs(numbers[row]) <= LARGEST:
                self._refuse_mixed(name, cells, row)
                limit = f" up to {LARGEST:,.0f}" if math.isfinite(numbers[row]) else ""
                commas = ", with either decimal points or decimal commas, and without separators of thousands"
                raise InputError(
                    f"{self.place(row)}: found {cell!r} in column {name}; expected a number{limit}, or NA if it is"
                    f" missing{commas if ',' in cell or is_comma else ''}"
                )
            if is_comma and "," in cell:
                remarks.add(f"numbers with decimal commas in column {name}", self.line(row), cell)
        if self.unit == "line" and (first := ambiguous_point(cells)) is not None:
            warn_caller(
                f"{self.place(first)}: found {cells[first].strip()!r} in column {name}, read as {numbers[first]:g}."
                " The column has whole numbers besides: if the point separates thousands, remove it"
            )
        return numbers

    def _logical_numbers(self, name: str, cells: Sequence[str], remarks: Remarks | None) -> Numbers | None:
        """Return 1 and 0 for the cells of a column of logical values, NaN for missing ones; None for other columns."""
        written = [cell.strip() for cell in cells]
        present = {cell for cell in written if cell not in MISSING}
        pair = next((pair for pair in LOGICALS if present and {cell.casefold() for cell in present} <= set(pair)), None)
        if pair is None:
            return None
        what = f"logical values in column {name}, read as 1 and 0"
        counted = Remarks() if remarks is None else remarks
        for row, cell in enumerate(written):
            if cell in MISSING:
                counted.add(f"rows without a number in column {name}", self.line(row))
            else:
                counted.add(what, example=cell)
        if remarks is None:
            announce(ReadingReport(self.source, "table", remarks=counted.all()))
        return np.array([np.nan if cell in MISSING else float(cell.casefold() == pair[0]) for cell in written])

    def _refuse_mixed(self, name: str, cells: Sequence[str], row: int) -> None:
        """Raise InputError for a logical value in a row of a column that has others, too."""
        pair = next((pair for pair in LOGICALS if cells[row].strip().casefold() in pair), None)
        if pair is None:
            return
        others = (cell.strip() for cell in cells)
        other = next(cell for cell in others if cell not in MISSING and cell.casefold() not in pair)
        raise InputError(
            f"{self.place(row)}: found {cells[row]!r} in column {name}, and {other!r} in another row; expected numbers"
            f" only, or {cells[row].strip()} and its opposite only. Replace them with 1 and 0"
        )


def is_frame(value: object) -> bool:
    """Return whether an object is a data frame: of pandas, polars, pyarrow or another library, or of datasets."""
    has_columns = hasattr(value, "columns") or hasattr(value, "column_names")
    return has_columns and not isinstance(value, HasRows)


def frame_columns(frame: Any) -> tuple[str, ...]:
    """Return the names of the columns of a data frame."""
    return tuple(map(str, frame.column_names if hasattr(frame, "column_names") else frame.columns))


def _frame_rows(frame: Any) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of a data frame."""
    rows: Iterator[tuple[Any, ...]] = _opened(frame).iter_rows()
    return rows


def _opened(frame: Any) -> Any:
    """Return a data frame of any library as one of narwhals."""
    import narwhals.stable.v2 as narwhals

    native = frame.to_polars() if hasattr(frame, "to_polars") else frame  # narwhals does not know those of datasets
    return narwhals.from_native(native).lazy().collect()


def _category_orders(frame: Any) -> dict[str, tuple[str, ...]]:
    """Return the order of the categories of columns that have one: categoricals of pandas, and Enum of polars."""
    opened = _opened(frame)
    is_pandas = opened.implementation.is_pandas_like() or hasattr(frame, "iloc")  # others number them as they come
    ordered = ("Enum", "Categorical") if is_pandas else ("Enum",)
    names = [name for name, dtype in opened.schema.items() if type(dtype).__name__ in ordered]
    categories = {str(name): opened[name].cat.get_categories() for name in names}
    return {name: tuple(_cell_of(_value_of(category)) for category in values) for name, values in categories.items()}


def _value_of(value: Any) -> Any:
    """Return a value of a data frame: a number, a flag, or text; None if it is missing."""
    if hasattr(value, "item") and not getattr(value, "ndim", 0):  # a scalar of numpy
        value = value.item()
    if isinstance(value, Iterable) and not isinstance(value, str):
        return NoText(value)
    if value is None or type(value).__name__ in ("NAType", "NaTType") or value != value:  # of pandas, and NaN
        return None
    return value if isinstance(value, bool | int | float) else str(value)


def _check_integers(values: Iterable[Any], name: str, source: str) -> None:
    """Raise InputError for integers that no type of 64 bits has."""
    integers = [value for value in values if type(value) is int]
    least, most = min(integers, default=0), max(integers, default=0)
    if least < -LARGEST_INTEGER - 1 or most > (LARGEST_UNSIGNED if least >= 0 else LARGEST_INTEGER):
        found = f"the integers {least} to {most}" if least < 0 else f"the integer {most}"
        raise InputError(
            f"{source}: found {found} in column {name}; expected integers of 64 bits. Convert the column to text"
        )


def _cell_of(value: bool | float | str | None) -> str:
    if value is None:
        return ""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))  # an integer column with missing values, which pandas stores as floats
    return value if type(value) is NoText else str(value)
