"""Tables with a header line and one row per line, as spreadsheets, R and pandas write them.

They are separated by tabs, by commas if the header has no tab, or by semicolons if it has neither. Tab-separated cells
that contain a tab or a quotation mark are in quotation marks, and quotation marks inside them are doubled. All other
quotation marks are ordinary characters. A cell cannot contain a line break. `syntaxlm.core.tables.format_cells`
writes such lines. This module splits tab-separated cells itself: the `csv` module would remove the quotation mark of a
cell such as `"Yes, he said.` and join the cell to the cells after it.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

from syntaxlm.core.errors import LONGEST_NAME, InputError, closest_match, listed, shortened
from syntaxlm.core.tables import Column, ColumnType
from syntaxlm.core.text_files import content_suffix, read_lines, source_name
from syntaxlm.trees.conllu import DEPENDENCY_FORMATS

_CELL = re.compile(r'"((?:[^"]|"")*)"(?=\t|$)|[^\t]*')
_ONE_LINE = "expected the whole row on one line. Replace line breaks in cells with spaces"


class OpenTable(NamedTuple):
    """A table that is being read.

    source: its name in messages.  names: of the columns.
    rows: the number of the (last) line of each row and its cells, as many as there are columns; none for an empty line.
    """

    source: str
    names: tuple[str, ...]
    rows: Iterator[tuple[int, list[str]]]


def open_table(path: str | Path) -> OpenTable:
    """Read the header of a table, and its rows as they are asked for; "-" is standard input.

    Raises InputError, here or on a row: for a missing header, repeated names, a row with more or fewer cells than the
    header, a cell with a line break, quotation marks that the format cannot have, and as `read_lines` does.
    """
    source = source_name(path)
    rows = _separated(read_lines(path), source)
    line, header = next(rows, (1, []))
    if not any(header):
        raise InputError(f"{source}, line 1: no header; expected column names, separated by tabs, commas or semicolons")
    if any("\n" in name for name in header):
        raise InputError(f"{source}, line 1: found a line break in a cell; {_ONE_LINE}")
    check_unique(header, f"{source}, line {line}")
    return OpenTable(source, tuple(header), _checked(rows, header, source))


def check_unique(names: Sequence[str], place: str) -> None:
    """Raise InputError if several columns have the same name."""
    twice = sorted(name for name, count in Counter(names).items() if count > 1)
    if twice:
        raise InputError(f"{place}: more than one column is named {listed(map(repr, twice))}; expected unique names")


def find_column(names: Sequence[str], column: str, place: str, advice: str = "") -> int:
    """Return the index of a column. Raises InputError with the closest match, and advice after it."""
    if column not in names:
        hints = filter(None, [closest_match(column, names), advice])
        found = f"{place}: no column {shortened(column, LONGEST_NAME)!r}; found {listed(names)}."
        raise InputError(" ".join([found, *hints]))
    return names.index(column)


_LINES_COMPARED = 50  # of a file that may be a table


def refuse_table(path: str | Path, advice: str) -> None:
    """Raise InputError for a file that is a table, not a text: by its extension, or if the lines have equal separators.

    A table without such an extension has one-word names in its header, and as many tabs, commas or semicolons in every
    line. A pipe, which can be read only once, is not looked at.  advice: what to do, about the column {}.
    """
    if not Path(path).is_file() or content_suffix(path) in DEPENDENCY_FORMATS:  # readers of text name these trees
        return
    suffixes = Path(path).suffixes
    lines = list(islice((line for _, line in read_lines(path) if line.strip()), _LINES_COMPARED))
    is_named = any(suffix.lower() in (".csv", ".tsv") for suffix in suffixes[-2:])
    sign = next((sign for sign in "\t,;" if lines and sign in lines[0]), None)
    if not lines or sign is None:
        return
    names, numbers = lines[0].split(sign), {line.count(sign) for line in lines}
    is_like = len(lines) > 1 and len(numbers) == 1 and all(name.strip() and " " not in name for name in names)
    if is_named or is_like:
        names = [name.strip().strip('"') for name in names]
        cells = [*lines[-1].split(sign), *[""] * len(names)][: len(names)]
        longest = max(range(len(names)), key=lambda place: len(cells[place]))
        found = f"found a table with the columns {listed(names)}; expected one sentence per line"
        advice = advice.format(shortened(names[longest], LONGEST_NAME))
        raise InputError(f"{source_name(path)}: {found}. {advice}")


def input_columns(
    columns: Sequence[str], names: Sequence[str], rows: Sequence[Sequence[Any]] = ()
) -> dict[str, Column]:
    """Return the columns of a table that are copied into an output with other columns, renamed as in `names_beside`.

    rows: values of the columns, which have types if the table is a data frame; by default, all are text.
    """
    types = [type_of(values) for values in zip(*rows, strict=True)] or ["text"] * len(names)
    new = zip(names_beside(columns, names), types, strict=True)
    return {name: Column(type, "column of the input table") for name, type in new}


def type_of(values: Iterable[Any]) -> ColumnType:
    """Return the type of a column with these values, of which some may be None."""
    found = {type(value) for value in values} - {type(None)}
    if found == {bool}:
        return "boolean"
    if found and found <= {int, float}:
        return "number" if float in found else "integer"
    return "text"


class Row(NamedTuple):
    """One row. text: the cell of the chosen column; others: the other cells, in order."""

    text: str
    others: tuple[str, ...]


def read_table(path: str | Path, column: str) -> tuple[tuple[str, ...], Iterator[Row]]:
    """Yield the names of a table's other columns, and its rows; "-" is standard input.

    column: the column with the text. An empty line is a row of empty cells.
    Raises InputError as `open_table` does, and if there is no such column.
    """
    table = open_table(path)
    place = find_column(table.names, column, f"{table.source}, line 1")

    def rows() -> Iterator[Row]:
        for _, cells in table.rows:
            cells = cells or [""] * len(table.names)
            yield Row(cells[place], (*cells[:place], *cells[place + 1 :]))

    return (*table.names[:place], *table.names[place + 1 :]), rows()


def _separated(lines: Iterator[tuple[int, str]], source: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the cells of each row with the number of its (last) line.

    The first row decides the separator: tab, comma or semicolon, whichever of these it has first.
    """
    first = next(lines, None)
    if first is None:
        return
    separator = next((sign for sign in "\t,;" if sign in first[1]), "\t")
    if separator == "\t":
        yield from ((line, split_cells(text)) for line, text in chain([first], lines))
        return
    reader = csv.reader((text + "\n" for _, text in chain([first], lines)), delimiter=separator, strict=True)
    try:
        for cells in reader:
            yield reader.line_num, cells
    except csv.Error as error:
        place = f"{source}, line {reader.line_num}"
        raise InputError(f"{place}: not a table of cells separated by {separator!r}: {error}") from None


def _checked(
    rows: Iterator[tuple[int, list[str]]], header: Sequence[str], source: str
) -> Iterator[tuple[int, list[str]]]:
    """Yield rows, with no cells for an empty line. Raises InputError for a row that does not fit the header."""
    before = header  # the row before, in which a cell in quotation marks may be continued
    for number, cells in rows:
        if len(cells) < 2 and not any(cells):
            yield number, []
            continue
        if len(cells) != len(header):
            message = f"{source}, line {number}: found {len(cells)} cells, expected {len(header)}: {listed(header)}"
            for line, row in ((number - 1, before), (number, cells)):
                if row[-1:] and row[-1].startswith('"') and row[-1].count('"') % 2:
                    raise InputError(f"{message}. Line {line} ends within a cell in quotation marks; {_ONE_LINE}")
            if len(cells) > len(header):
                message += ". A cell that contains the separator must be in quotation marks"
            raise InputError(message)
        if any("\n" in cell for cell in cells):
            raise InputError(f"{source}, line {number}: found a line break in a cell; {_ONE_LINE}")
        yield number, cells
        before = cells


def split_cells(line: str) -> list[str]:
    """Return the cells of a tab-separated line."""
    if '"' not in line:
        return line.split("\t")
    cells, start = [], 0
    while start <= len(line):
        cell = _CELL.match(line, start)
        assert cell is not None  # it matches the empty string
        cells.append(cell[0] if cell[1] is None else cell[1].replace('""', '"'))
        start = cell.end() + 1
    return cells


def names_beside(columns: Sequence[str], names: Sequence[str]) -> tuple[str, ...]:
    """Return the names of a table's columns that do not clash with `columns`: a name that is in both gets the prefix
    `input_`.

    The prefix is repeated until the name is unique. columns, names: each without repeated names.
    """
    taken, among, result = set(columns), set(names), []
    for name in names:
        new = name
        while new in taken or (new != name and new in among):
            new = "input_" + new
        taken.add(new)
        result.append(new)
    return tuple(result)
