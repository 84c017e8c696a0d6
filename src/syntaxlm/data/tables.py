"""Tables with a header line and one row per line, as spreadsheets, R and pandas write them.

How cells are separated and quoted is decided once, from the first lines; see `syntaxlm.data.table_form`. Rows of empty
cells are ignored like empty lines, and so are columns without a name and without cells. A header with one name less
than the rows have cells lacks the name of the first column, as R writes row names. A cell cannot contain a line break.
`syntaxlm.reports.writers.format_cells` writes such lines.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

from syntaxlm.core.errors import (
    LONGEST_NAME,
    SHOWN_NAMES,
    InputError,
    closest_match,
    listed,
    shortened,
    warn_caller,
)
from syntaxlm.core.reading import LINES_NAMED, ReadingReport, Remarks, announce
from syntaxlm.core.text_files import LINES_TOGETHER, content_suffix, read_lines, source_name
from syntaxlm.data.parquet import is_parquet
from syntaxlm.data.table_form import (
    ESCAPE,
    MISSING,
    NAMES_AND_SPACES,
    ONE_LINE,
    TABLE_LINES_COMPARED,
    Missing,
    TableForm,
    clean_name,
    declared_separator,
    find_form,
    refuse_spreadsheet_error,
    refuse_table_lines,
    text_of,
    warn_of_missing,
)
from syntaxlm.reports.tables import Column, ColumnType
from syntaxlm.trees.conllu import DEPENDENCY_FORMATS

LARGEST_INTEGER = 2**63 - 1  # with a sign, of 64 bits
LARGEST_UNSIGNED = 2**64 - 1
INPUT_COLUMN = "column of the input table"  # the meaning of a column that is copied into an output
_ADVICE_UTF8 = "Save the table as UTF-8; spreadsheets name this format CSV UTF-8"
_LINE_BREAK = f"found a line break (CR) in a cell; {ONE_LINE}"
_LONGEST_NAME_WORDS = 4  # words of the name of a column; a first line with longer ones is likely a row
_QUALTRICS = "ImportId"  # in the third line of its tables
_LINES_OF_HEADERS = 20  # which Qualtrics may need for its three
_SAMPLE_CHARACTERS = 200  # characters


class OpenTable(NamedTuple):
    """A table that is being read.

    Attributes:
        source: its name in messages.
        names: the names of the columns.
        rows: the number of the line of each row and its cells, as many as there are columns; none for an empty row. A
            cell NA without quotation marks is `Missing`.
        is_quoted: whether all text is in quotation marks, so that NA without them is a missing value.
        separator: the separator of the cells.
    """

    source: str
    names: tuple[str, ...]
    rows: Iterator[tuple[int, list[str]]]
    is_quoted: bool = False
    separator: str = "\t"


def open_table(path: str | Path) -> OpenTable:
    """Read the header of a table, and its rows as they are asked for; "-" is standard input.

    How the table was read is announced after its last row.
    Raises InputError, here or on a row: for a missing header, repeated names, a row with more or fewer cells than the
    header, a cell with a line break, quotation marks that the format cannot have, a second header, and as `read_lines`
    does.
    """
    source = source_name(path)
    remarks = Remarks()
    lines = _table_lines(path)
    first = list(islice(lines, LINES_TOGETHER))
    declared = declared_separator(first[0][1]) if first else None
    if declared:
        first = first[1:]
    line, header = first[0] if first else (1, "")
    place = f"{source}, line {line}"
    if not header.strip().strip("\t,; "):
        raise InputError(f"{place}: found no header; expected column names, separated by tabs, commas or semicolons")
    _refuse_other_headers(first, source)

    form = find_form([text for _, text in first if text.strip()], declared)
    try:
        names = form.cells(header)
    except ValueError as error:
        raise InputError(f"{place}: {error}") from None
    reader = _RowReader(source, form, remarks)
    reader.find_columns(names, first[1:], place)
    return OpenTable(
        source, reader.names, reader.rows(chain(first[1:], lines), form.cells(header)), form.is_quoted, form.separator
    )


def _table_lines(path: str | Path) -> Iterator[tuple[int, str]]:
    """Yield the lines of a table with their numbers. Raises InputError as `read_lines` does, with advice on UTF-8."""
    try:
        yield from read_lines(path)
    except InputError as error:
        if "expected UTF-8 text" in str(error):
            raise InputError(f"{error}. {_ADVICE_UTF8}") from error
        raise


def _refuse_other_headers(lines: Sequence[tuple[int, str]], source: str) -> None:
    """Raise InputError for tables of programs that write other lines than one header before the rows."""
    number, header = lines[0]
    if header.startswith("#") and (
        not re.search("[\t,;]", header) or any(text.startswith("#") for _, text in lines[1:3])
    ):
        raise InputError(
            f"{source}, line {number}: found the comment {shortened(header, LONGEST_NAME)!r}; expected column names."
            " Delete the comments; results of PCIbex become a table with its function read.pcibex in R"
        )
    for number, text in lines[1:_LINES_OF_HEADERS]:
        if _QUALTRICS in text and "{" in text:
            raise InputError(
                f"{source}, line {number}: found the third header line of Qualtrics; expected only one. Delete the"
                " lines between the first header line and the first row"
            )
    names = NAMES_AND_SPACES.fullmatch(header)
    if names or (header.count("|") > 1 and not re.search("[\t,;]", header)):
        raise InputError(
            f"{source}, line {lines[0][0]}: found names separated by"
            f" {'spaces' if names else repr('|')}; expected tabs, commas or semicolons."
            ' In R, write the table with write.csv, or with sep = "\\t"'
        )


@dataclass
class _RowReader:
    """Reads the rows of a table: checks the number of their cells, and counts what is odd.

    Attributes:
        names: the names of the columns.
        width: cells of a row.
        dropped: columns without name and cells, which are left out.
    """

    source: str
    form: TableForm
    remarks: Remarks
    names: tuple[str, ...] = ()
    width: int = 0
    dropped: tuple[int, ...] = ()
    sample: list[str] = field(default_factory=list)
    _missing: dict[tuple[int, str], list[int]] = field(default_factory=dict)

    def find_columns(self, header: Sequence[str], lines: Sequence[tuple[int, str]], place: str) -> None:
        """Find the names, and the columns without a name: those of row names, and those without cells.

        Args:
            lines: the first rows, with their numbers.
        """
        rows = []
        for _, text in lines:
            try:
                cells = self.form.cells(text)
            except ValueError:  # reported when the row is read
                continue
            if any(map(str.strip, cells)):
                rows.append(cells)
        names = [clean_name(name) for name in header]
        if changed := [name for name, clean in zip(header, names, strict=True) if name.strip(" ") != clean]:
            for name in changed:
                self.remarks.add("column names with spaces or invisible characters", example=name)
        if self._has_row_names(rows, len(names), [text for _, text in lines if text.strip()]):
            names = ["", *names]
            self.remarks.add("columns without a name before the others", example=rows[0][0])
        self.width = len(names)
        unnamed = [column for column, name in enumerate(names) if not name]
        filled = {column for cells in rows for column in unnamed if column < len(cells) and cells[column].strip()}
        self.dropped = tuple(column for column in unnamed if column not in filled) if rows else ()
        if len(filled) > 1:
            numbers = listed(column + 1 for column in sorted(filled))
            raise InputError(f"{place}: found no names for columns {numbers}; expected a name for each column")
        self.names = tuple(name for column, name in enumerate(names) if column not in self.dropped)
        if rows and len(self.names) == 1 and re.fullmatch(r"[^\t,;]+([\t,;][^\t,;]+)+", names[0]):
            signs = {text.count('"') for _, text in lines}
            if all(len(cells) == 1 and re.search("[\t,;]", cells[0]) for cells in rows) and min(signs) > 1:
                raise InputError(
                    f"{place}: found one cell in every line, {shortened(names[0], LONGEST_NAME)!r}; expected several."
                    " Whole lines are in quotation marks; remove these"
                )
        check_unique(self.names, place, _row_advice(self.names))

    def _has_row_names(self, rows: Sequence[Sequence[str]], names: int, lines: Sequence[str]) -> bool:
        """Return whether rows start with a cell for which the header has no name, as R writes the names of rows.

        All rows have one cell more than the header. The first one is in quotation marks if all text is, so that the
        last one cannot be the rest of a text with a separator. Otherwise it counts the rows, which is doubtful.
        """
        if not rows or any(len(cells) != names + 1 for cells in rows) or not any(cells[-1] for cells in rows):
            return False
        firsts = [cells[0] for cells in rows]
        if self.form.is_quoted and all(self.form.parts(text)[0][0] for text in lines):
            return len(set(firsts)) == len(firsts)
        is_count = len(rows) > 1 and firsts == [str(number) for number in range(1, len(rows) + 1)]
        if is_count and self.form.separator == "\t":
            warn_caller(
                f"{self.source}: the rows have one cell more than the header, and the first cells count the rows."
                " They are read as a column without a name, as R writes row names (row.names = FALSE omits them)"
            )
            return True
        return False

    def rows(self, lines: Iterable[tuple[int, str]], header: Sequence[str]) -> Iterator[tuple[int, list[str]]]:
        """Yield the line number and the cells of each row, no cells for an empty row. Announces the report at the end.

        Args:
            header: its cells as written.
        """
        split = self.form.cells
        width = self.width
        blank = f' "{self.form.separator}'
        count = 0
        before = list(header)
        number = 1
        for number, text in lines:
            try:
                cells = split(text)
            except ValueError as error:
                fault = _LINE_BREAK if "\r" in text else error
                raise InputError(f"{self.source}, line {number}: {fault}") from None
            if len(cells) != width or self.dropped or "" in cells or "NA" in cells or not text.strip(blank):
                if not any(map(str.strip, cells)):
                    if width > 1:
                        self.remarks.add("empty rows", number)
                    else:
                        count += 1
                    yield number, []
                    continue
                if len(cells) != width:
                    cells = self._fitted(cells, number, before)
                before = cells
                if self.dropped:
                    cells = self._without_unnamed(cells, number)
                self._count_missing(cells, number)
            else:
                before = cells
            if cells == header and width > 1:
                raise InputError(
                    f"{self.source}, line {number}: found the header again; expected it once. Are these two tables in"
                    " one file? Delete the line if the other rows belong together"
                )
            if "\r" in text:
                raise InputError(f"{self.source}, line {number}: {_LINE_BREAK}")
            if self.form.is_escaped and ESCAPE in text:
                self.remarks.add(f"rows with {ESCAPE} for quotation marks", number)
            if count < 2:
                self.sample.append(shortened(" | ".join(cells), _SAMPLE_CHARACTERS))
            count += 1
            yield number, cells
        self._remark_missing()
        counts = {"rows": count, "columns": len(self.names)}
        form = str(self.form) if width > 1 else "table of one column"
        evidence = f"{self.form.evidence}: {listed(map(repr, self.names))}"
        announce(ReadingReport(self.source, form, counts, evidence, self.remarks.all(), tuple(self.sample)))

    def _fitted(self, cells: list[str], number: int, before: Sequence[str]) -> list[str]:
        """Return a row with as many cells as there are columns, if it lacks, or has too many, empty ones at its end."""
        if len(cells) > self.width and not any(cells[self.width :]):
            self.remarks.add("rows with empty cells after the last column", number)
            return cells[: self.width]
        if len(cells) < self.width and set(range(len(cells), self.width)) <= set(self.dropped):
            return [*cells, *[""] * (self.width - len(cells))]
        source = self.source
        names = listed(name or "(no name)" for name in self.names)
        message = f"{source}, line {number}: found {len(cells)} cells; expected {self.width}: {names}"
        for line, row in ((number - 1, before), (number, cells)):
            if row[-1:] and row[-1].startswith('"') and row[-1].count('"') % 2:
                raise InputError(f"{message}. Line {line} ends within a cell in quotation marks; {ONE_LINE}")
        if len(cells) > self.width:
            message += ". A cell that contains the separator must be in quotation marks"
        if len(cells) == self.width + 1:
            message += "; row names of R require a name in the header (or row.names = FALSE)"
        raise InputError(message)

    def _without_unnamed(self, cells: list[str], number: int) -> list[str]:
        for column in self.dropped:
            if cells[column].strip():
                raise InputError(
                    f"{self.source}, line {number}: found {shortened(cells[column], LONGEST_NAME)!r} in column"
                    f" {column + 1}, which has no name; expected a name for it in the header"
                )
        return [cell for column, cell in enumerate(cells) if column not in self.dropped]

    def _count_missing(self, cells: Sequence[str], number: int) -> None:
        """Note the lines of the cells without a value, by column and by what the cells have instead: "" or NA."""
        for column, cell in enumerate(cells):
            if not cell or type(cell) is Missing:
                count_and_lines = self._missing.setdefault((column, str(cell)), [0])
                count_and_lines[0] += 1
                if len(count_and_lines) <= LINES_NAMED:
                    count_and_lines.append(number)

    def _remark_missing(self) -> None:
        """Add a remark on the cells without a value in each of the first columns that have some."""
        for (column, cell), (count, *lines) in islice(sorted(self._missing.items()), SHOWN_NAMES):
            name = shortened(self.names[column], LONGEST_NAME) or f"{column + 1}, which has no name"
            what = f"cells without a value in column {name}"
            for line in lines:
                self.remarks.add(what, line, cell or None)
            self.remarks.add(what, count=count - len(lines))


def _row_advice(names: Sequence[str]) -> str:
    """Return advice if names look like the cells of a row; otherwise nothing."""
    for name in names:
        if re.fullmatch(r"[-+]?\d+([.,]\d+)?|NA", name) or len(name.split()) > _LONGEST_NAME_WORDS:
            shown = shortened(name, LONGEST_NAME)
            return f"{shown!r} looks like a cell, not a name. Is the header missing? Add a line with the column names"
    return ""


def check_unique(names: Sequence[str], place: str, advice: str = "") -> None:
    """Raise InputError, with advice after it, if several columns have the same name."""
    twice = sorted(name for name, count in Counter(names).items() if count > 1)
    if twice:
        found = f"{place}: more than one column is named {listed(map(repr, twice))}; expected unique names"
        raise InputError(". ".join(filter(None, [found, advice])))


def find_column(names: Sequence[str], column: str, place: str, advice: str = "") -> int:
    """Return the index of a column. Raises InputError with the closest match, and advice after it."""
    if column not in names:
        match = _joined_names_advice(names, column) or closest_match(column, names)
        hints = filter(None, [match, advice, _row_advice(names), _one_name_advice(names, column)])
        found = f"{place}: no column {shortened(column, LONGEST_NAME)!r}; found {listed(names)}."
        raise InputError(" ".join([found, *hints]))
    return names.index(column)


def _joined_names_advice(names: Sequence[str], column: str) -> str:
    """Return advice if the name of a column is that of several, such as "head,attractor"."""
    parts = [part for part in re.split(r"[\s,;]+", column) if part]
    if len(parts) > 1 and all(part in names for part in parts):
        return f"{listed(map(repr, parts))} are {len(parts)} columns; expected one, or each of them by itself."
    return ""


def _one_name_advice(names: Sequence[str], column: str) -> str:
    """Return advice if the only name contains the name of a column, so that the separator is another sign."""
    if len(names) == 1 and column in re.split(r"[\s|:,;\"']+", names[0]):
        return "The names are not separated by tabs, commas or semicolons"
    return ""


def refuse_table(path: str | Path, advice: str) -> None:
    """Raise InputError for a file that is a table, not a text, see `table_form.refuse_table_lines`.

    A pipe, which can be read only once, is not looked at.

    Args:
        advice: what to do, about the column {}.
    """
    is_text = is_parquet(path) or content_suffix(path) in DEPENDENCY_FORMATS  # readers of text name these trees
    if is_text or not os.path.isfile(path):
        return
    lines = islice((line for _, line in read_lines(path) if line.strip()), TABLE_LINES_COMPARED)
    refuse_table_lines(list(lines), source_name(path), advice)


def input_columns(
    columns: Sequence[str], names: Sequence[str], rows: Sequence[Sequence[Any]] = ()
) -> dict[str, Column]:
    """Return the columns of a table that are copied into an output with other columns, renamed as in `names_beside`.

    Args:
        rows: values of the columns, which have types if the table is a data frame; by default, all are text.
    """
    types = [type_of(values) for values in zip(*rows, strict=True)] or ["text"] * len(names)
    new = zip(names_beside(columns, names), types, strict=True)
    return {name: Column(type, INPUT_COLUMN) for name, type in new}


def type_of(values: Iterable[Any]) -> ColumnType:
    """Return the type of a column with these values, of which some may be None."""
    given = list(values)
    found = {type(value) for value in given} - {type(None)}
    if found == {bool}:
        return "boolean"
    if found == {int}:
        if max(value for value in given if value is not None) > LARGEST_INTEGER:
            return "unsigned integer"
        return "nullable integer" if None in given else "integer"
    return "number" if found and found <= {int, float} else "text"


class Row(NamedTuple):
    """One row.

    Attributes:
        text: the cell of the chosen column.
        others: the other cells, in order.
    """

    text: str
    others: tuple[str, ...]


def read_table(path: str | Path, column: str) -> tuple[tuple[str, ...], Iterator[Row]]:
    """Yield the names of a table's other columns, and its rows; "-" is standard input.

    Args:
        column: the column with the text, "" for NA without quotation marks. An empty line is a row of empty cells.

    Raises:
        InputError: as `open_table` does, and if there is no such column.
    """
    table = open_table(path)
    place = find_column(table.names, column, f"{table.source}, line 1")

    def rows() -> Iterator[Row]:
        is_certain = table.is_quoted
        for number, cells in table.rows:
            cells = cells or [""] * len(table.names)
            if not is_certain and isinstance(cells[place], Missing):
                is_certain = True
                warn_of_missing(f"{table.source}, line {number}", column)
            refuse_spreadsheet_error(cells[place], f"{table.source}, line {number}", column)
            yield Row(text_of(cells[place]), (*cells[:place], *cells[place + 1 :]))

    return (*table.names[:place], *table.names[place + 1 :]), rows()


def split_cells(line: str) -> list[str]:
    """Return the cells of a tab-separated line."""
    if '"' not in line:
        return line.split("\t")
    return [plain if quoted is None else quoted for quoted, plain in _TABS.parts(line)]


_TABS = TableForm("\t")


_DECIMAL_COMMA = re.compile(r"[-+]?\d+(,\d+)?([eE][-+]?\d+)?")
_THOUSANDS = re.compile(r"[-+]?\d{1,3},\d{3}")
_POINT_BEFORE_THREE = re.compile(r"[-+]?[1-9]\d{0,2}\.\d{3}")
_SHORT_WHOLE = re.compile(r"[-+]?\d{1,3}")


def has_decimal_commas(cells: Iterable[str], separator: str) -> bool:
    """Return whether the numbers of a column have decimal commas: all numbers have commas or are whole.

    Numbers such as 1,234 may have a separator of thousands; if there are no others, the cells must be separated by
    semicolons, as in countries with decimal commas.
    """
    numbers = [cell.strip() for cell in cells]
    commas = [number for number in numbers if "," in number]
    if not commas or not all(map(_DECIMAL_COMMA.fullmatch, filter(lambda number: number not in MISSING, numbers))):
        return False
    return separator == ";" or not all(map(_THOUSANDS.fullmatch, commas))


def ambiguous_point(cells: Iterable[str]) -> int | None:
    """Return the first cell of a column of numbers whose point probably separates thousands, as in 1.234; else None.

    This is so if other numbers are whole, none of these has more than three digits, and each point has three digits
    after it: programs write decimals in all rows, or omit some zeros at the end.
    """
    written = list(map(str.strip, cells))
    numbers = [cell for cell in written if cell not in MISSING]
    points = [cell for cell in numbers if "." in cell]
    if not points or len(points) == len(numbers) or not all(map(_POINT_BEFORE_THREE.fullmatch, points)):
        return None
    is_short = all(_SHORT_WHOLE.fullmatch(cell) for cell in numbers if "." not in cell)
    return written.index(points[0]) if is_short else None


def number_of(text: str) -> float:
    """Return `float(text)`. Raises ValueError also for underscores between digits, which are Python's own: 1_000."""
    if "_" in text:
        raise ValueError(text)
    return float(text)


def names_beside(columns: Sequence[str], names: Sequence[str]) -> tuple[str, ...]:
    """Return the names of a table's columns that do not clash with `columns`: a name that is in both gets the prefix
    `input_`.

    The prefix is repeated until the name is unique.

    Args:
        columns: names of the added columns, without repeated names.
        names: names of the table's columns, without repeated names.
    """
    taken = set(columns)
    among = set(names)
    result = []
    for name in names:
        new = name
        while new in taken or (new != name and new in among):
            new = "input_" + new
        taken.add(new)
        result.append(new)
    return tuple(result)
