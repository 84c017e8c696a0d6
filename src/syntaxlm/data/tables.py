"""Tables with a header line and one row per line, as spreadsheets, R and pandas write them.

They are separated by tabs, by commas if the header has no tab, or by semicolons if it has neither. Tab-separated cells
that contain a tab or a quotation mark are in quotation marks, and quotation marks inside them are doubled. All other
quotation marks are ordinary characters. A cell cannot contain a line break. `syntaxlm.core.tables.format_cells`
writes such lines. This module splits tab-separated cells itself: the `csv` module would remove the quotation mark of a
cell such as `"Yes, he said.` and join the cell to the cells after it.
"""

from __future__ import annotations

import csv
import difflib
import re
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from syntaxlm.core.errors import InputError
from syntaxlm.core.text_files import read_lines, source_name

_CELL = re.compile(r'"((?:[^"]|"")*)"(?=\t|$)|[^\t]*')


class Row(NamedTuple):
    """One row. text: the cell of the chosen column; others: the other cells, in order."""

    text: str
    others: tuple[str, ...]


def read_table(path: str | Path, column: str) -> tuple[tuple[str, ...], Iterator[Row]]:
    """Yield the names of a table's other columns, and its rows; "-" is standard input.

    column: the column with the text. An empty line is a row of empty cells.
    Raises InputError for a missing or repeated column, for a row with more or fewer cells than the header, for a cell
    with a line break, and as `read_lines` does.
    """
    source = source_name(path)
    found = separated(read_lines(path), source)
    header = next(found, (1, []))[1]
    if not any(header):
        raise InputError(f"{source}, line 1: no header; expected column names, separated by tabs, commas or semicolons")
    if any("\n" in name for name in header):
        raise _line_break(source, 1)
    twice = sorted({name for name in header if header.count(name) > 1})
    if twice:
        raise InputError(
            f"{source}, line 1: more than one column is named {', '.join(map(repr, twice))}; expected unique names"
        )
    if column not in header:
        nearest = difflib.get_close_matches(column, header, 1)
        hint = f" Did you mean {nearest[0]}?" if nearest else ""
        raise InputError(f"{source}, line 1: no column {column!r}; found {', '.join(header)}.{hint}")
    place = header.index(column)

    def rows() -> Iterator[Row]:
        before = header
        for number, cells in found:
            cells = cells if any(cells) or len(cells) > 1 else [""] * len(header)
            if len(cells) != len(header):
                raise wrong_number_of_cells(source, number, cells, before, header)
            if any("\n" in cell for cell in cells):
                raise _line_break(source, number)
            yield Row(cells[place], (*cells[:place], *cells[place + 1 :]))
            before = cells

    return (*header[:place], *header[place + 1 :]), rows()


def _line_break(source: str, number: int) -> InputError:
    return InputError(
        f"{source}, line {number}: found a line break in a cell; expected the whole row on one line. Replace line"
        " breaks in cells with spaces"
    )


def separated(lines: Iterator[tuple[int, str]], source: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the cells of each row with the number of its (last) line.

    The first row decides the separator: tab, comma or semicolon, whichever of these it has first.

    lines: numbered lines, as `read_lines` gives them.
    Raises InputError for quotation marks that a table separated by commas or semicolons cannot have.
    """
    first = next(lines, None)
    if first is None:
        return
    separator = next((one for one in "\t,;" if one in first[1]), "\t")
    if separator == "\t":
        yield from ((line, split_cells(text)) for line, text in chain([first], lines))
        return
    reader = csv.reader((text + "\n" for _, text in chain([first], lines)), delimiter=separator, strict=True)
    while True:
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise InputError(
                f"{source}, line {reader.line_num}: not a table of cells separated by {separator!r}: {error}"
            ) from None
        yield reader.line_num, cells


def wrong_number_of_cells(
    source: str, number: int, cells: Sequence[str], before: Sequence[str], header: Sequence[str]
) -> InputError:
    """Return the error for a row with more or fewer cells than the header.

    number: of its line.  before: the cells of the row before it, in which a quoted cell may be continued here.
    """
    message = f"{source}, line {number}: found {len(cells)} cells, expected {len(header)}: {', '.join(header)}"
    for line, row in ((number - 1, before), (number, cells)):
        if row[-1:] and row[-1].startswith('"') and row[-1].count('"') % 2:
            return InputError(
                f"{message}. Line {line} ends within a cell in quotation marks; expected the whole row on one line."
                " Replace line breaks in cells with spaces"
            )
    if len(cells) > len(header):
        message += ". A cell that contains the separator must be in quotation marks"
    return InputError(message)


def names_beside(columns: Sequence[str], names: Sequence[str]) -> tuple[str, ...]:
    """Return names of a table's columns that do not clash with `columns`: a name that is in both gets the prefix
    `input_`.

    The prefix is repeated until the name is unique. columns, names: each without repeated names.
    """
    result: list[str] = []
    for name in names:
        new = name
        while new in columns or (new != name and new in names) or new in result:
            new = "input_" + new
        result.append(new)
    return tuple(result)


def split_cells(line: str) -> list[str]:
    """Return the cells of a line."""
    if '"' not in line:
        return line.split("\t")
    cells, start = [], 0
    while start <= len(line):
        found = _CELL.match(line, start)
        assert found is not None  # it matches the empty string
        quoted = found[1]
        cells.append(found[0] if quoted is None else quoted.replace('""', '"'))
        start = found.end() + 1
    return cells
