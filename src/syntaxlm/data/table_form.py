"""The form of a table: how its cells are separated and quoted. It is decided once, from the first lines.

Cells are separated by tabs, commas or semicolons: the sign in the header, outside quotation marks, with which most rows
have as many cells as the header. Cells that contain the separator or a quotation mark are in quotation marks, and
quotation marks inside them are doubled, or written \\" as R does. In tables separated by tabs, all other quotation
marks are ordinary characters: the `csv` module would remove the quotation mark of a cell such as `"Yes, he said.` and
join the cell to the cells after it.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from syntaxlm.core.errors import LONGEST_NAME, InputError, amount, listed, shortened, warn_caller

NAMES = {"\t": "tabs", ",": "commas", ";": "semicolons"}  # of the separators
ONE_LINE = "expected the whole row on one line. Replace line breaks in cells with spaces"

# Of Excel, in the first line.
_DECLARATION = re.compile(r'"?sep=([\t,;])[\t,;]*"?|"sep=([\t,;])"[\t,;]*', re.IGNORECASE)
_QUOTED = re.compile(r'"[^"]*"')
_NOT_TEXT = re.compile(r"[-+]?[\d.,]*(?:[eE][-+]?\d+)?%?|NA|NaN|-?Inf|TRUE|FALSE|true|false")
MISSING = frozenset(["", "NA", "NaN", "nan", "N/A", "null", "None", "."])  # cells without a number
# Of Excel and Google Sheets; for text that starts with =, also in other languages.
SPREADSHEET_ERRORS = frozenset([
    "#N/A", "#REF!", "#NAME?", "#VALUE!", "#DIV/0!", "#NULL!", "#NUM!", "#SPILL!", "#CALC!", "#FIELD!", "#ERROR!",
    "#NOM?", "#NOME?", "#NAAM?", "#¿NOMBRE?",
])  # fmt: skip
ESCAPE = '\\"'
TABLE_LINES_COMPARED = 50  # of a text that may be a table
_LONGEST_CSV_CELL = 131_072  # characters, the limit of the csv module
_INVISIBLE = re.compile("[\u200b\u2060\ufeff]|^[\u200c\u200d]+|[\u200c\u200d]+$")  # characters in names of columns
NAMES_AND_SPACES = re.compile(r'"[^"]*"(?: "[^"]*")+')  # the header of a table of R's write.table
TABLE_SUFFIXES = (".csv", ".tsv")


class Missing(str):
    """A cell NA without quotation marks, which R and others write for a missing value."""

    __slots__ = ()


NA = Missing("NA")
NA_ADVICE = ' (a word NA must be in quotation marks, "NA")'


def text_of(cell: str) -> str:
    """Return a cell of a column of text: nothing for NA without quotation marks."""
    return "" if isinstance(cell, Missing) else cell


def refuse_spreadsheet_error(cell: str, place: str, column: str) -> None:
    """Raise InputError for a cell of text that is the error of a formula, such as #NAME?."""
    if cell in SPREADSHEET_ERRORS:
        raise InputError(
            f"{place}: found {cell!r} in column {column}, an error of a spreadsheet; expected text. Repair its formula"
            " and save the sheet again"
        )


def warn_of_missing(place: str, column: str, count: int | None = None) -> None:
    """Warn of NA in a column of text of a table whose text is not in quotation marks: it may be a word.

    Args:
        place: the place of the first cell.
        count: number of such cells; None: unknown.
    """
    cells = "" if count is None else f" ({amount(count, 'cell')})"
    message = f"{place}: found NA in column {column}{cells}. It is read as an empty cell, as R writes missing values"
    warn_caller(f"{message}{NA_ADVICE}")


@dataclass(frozen=True)
class TableForm:
    """How the cells of a line are separated and quoted.

    Attributes:
        separator: a tab, comma or semicolon.
        skips_spaces: whether the spaces after separators are not part of the cells.
        is_quoted: whether all text is in quotation marks, so that NA without them is a missing value.
        is_escaped: whether quotation marks in quoted cells are written \\", not doubled.
        evidence: why the separator was chosen.
    """

    separator: str
    skips_spaces: bool = False
    is_quoted: bool = False
    is_escaped: bool = False
    evidence: str = "the header"

    def __str__(self) -> str:
        parts = [f"table, separated by {NAMES[self.separator]}"]
        parts += ["spaces after them skipped"] * self.skips_spaces + ["text in quotation marks"] * self.is_quoted
        return ", ".join(parts)

    @cached_property
    def cells(self) -> Callable[[str], list[str]]:
        """A function that returns the cells of a line, NA for NA without quotation marks.

        It raises ValueError with a description of quotation marks that the form cannot have.
        """
        separator = self.separator
        skips_spaces = self.skips_spaces
        is_escaped = self.is_escaped
        quoted_cells = self._tab_cells if separator == "\t" else self._csv_cells

        def cells(line: str) -> list[str]:
            if '"' not in line:
                result = line.split(separator)
                if skips_spaces:
                    result = [cell.lstrip(" ") for cell in result]
            elif '"NA"' in line or (is_escaped and ESCAPE in line):
                return self._checked_cells(line)
            else:
                result = quoted_cells(line)
            return [NA if cell == "NA" else cell for cell in result] if "NA" in line else result

        return cells

    def _checked_cells(self, line: str) -> list[str]:
        """Return the cells of a line from its parts."""
        cells = []
        for quoted, plain in self.parts(line):
            if quoted is None and plain.startswith('"'):
                self._check(plain)
            if quoted is not None:
                cells.append(quoted)
            else:  # a quoted "NA" is a word, an unquoted one a missing value
                cells.append(NA if plain == "NA" else plain)
        return cells

    def _tab_cells(self, line: str) -> list[str]:
        if self.is_quoted or ESCAPE in line:
            return self._checked_cells(line)
        found = self._patterns['""'].findall(line)
        return [quoted.replace('""', '"') if quoted else plain for quoted, plain in found]

    @cached_property
    def _csv_cells(self) -> Callable[[str], list[str]]:
        """The splitter of lines with quotation marks that are separated by commas or semicolons."""
        lines: list[str] = []
        reader = csv.reader(
            iter(lines.pop, None), delimiter=self.separator, skipinitialspace=self.skips_spaces, strict=True
        )

        def cells(line: str) -> list[str]:
            if len(line) > _LONGEST_CSV_CELL:
                return self._checked_cells(line)
            lines.append(line)
            try:
                return next(reader)
            except IndexError:  # the reader asks for another line
                raise ValueError(f"the line ends within a cell in quotation marks; {ONE_LINE}") from None
            except csv.Error as error:
                found = f"not a table of cells separated by {self.separator!r}: {error}"
                if ESCAPE in line:
                    found += f". Quotation marks in cells are written {ESCAPE}, but not in the other lines"
                raise ValueError(found) from None

        return cells

    def parts(self, line: str) -> list[tuple[str | None, str]]:
        """Return the text of each cell in quotation marks, None for other cells; and the other cells as written."""
        mark = ESCAPE if self.is_escaped and ESCAPE in line else '""'
        return [
            (None if cell[1] is None else cell[1].replace(mark, '"'), cell[2] or "")
            for cell in self._patterns[mark].finditer(line)
        ]

    @cached_property
    def _patterns(self) -> dict[str, re.Pattern[str]]:
        """The pattern of a cell by what stands for a quotation mark in it."""
        sign = self.separator
        spaces = " *" if self.skips_spaces else ""
        inside = {'""': r'[^"]*(?:""[^"]*)*', ESCAPE: r'[^"\\]*(?:(?:\\"|\\)[^"\\]*)*'}
        return {
            mark: re.compile(rf'(?:^|{sign}){spaces}(?:"({text})"(?={sign}|\Z)|([^{sign}]*))')
            for mark, text in inside.items()
        }

    def _check(self, cell: str) -> None:
        """Raise ValueError for a cell that starts with a quotation mark and was not read as quoted, if it may be."""
        is_closed = len(cell) > 1 and cell.endswith('"')
        if self.separator != "\t" and not is_closed:
            raise ValueError(f"the line ends within a cell in quotation marks; {ONE_LINE}")
        if self.separator != "\t" or (is_closed and (self.is_quoted or ESCAPE in cell)):
            raise ValueError(
                f"found quotation marks inside the cell {_shown(cell)}; expected them to be doubled in a cell in"
                ' quotation marks. In R, write the table with qmethod = "double"'
            )


def _shown(cell: str) -> str:
    return shortened(cell, LONGEST_NAME)


def declared_separator(line: str) -> str | None:
    """Return the separator that Excel's line `sep=;` declares; None for another line."""
    declaration = _DECLARATION.fullmatch(line)
    return declaration and (declaration[1] or declaration[2])


def find_form(lines: Sequence[str], declared: str | None = None) -> TableForm:
    """Return the form of a table.

    Args:
        lines: the header and the first rows.
        declared: the separator, if a line declares it.
    """
    header = _QUOTED.sub("", lines[0])
    signs = [declared] if declared else [sign for sign in NAMES if sign in header] or ["\t"]
    candidates = [TableForm(sign) for sign in signs]
    fits = [_fit(form, lines) for form in candidates]
    form = candidates[fits.index(max(fits))]
    if declared:
        form = replace(form, evidence=f"the line sep={declared}")
    elif len(signs) > 1:
        form = replace(form, evidence="the header, and rows with as many cells")
    form = _with_spaces(form, header, lines)
    is_quoted = all(quoted is not None or not plain for quoted, plain in form.parts(lines[0])) and '"' in lines[0]
    form = _with_escapes(form, is_quoted, lines)
    return replace(form, is_quoted=is_quoted or _is_text_quoted(form, lines[1:]))


def _fit(form: TableForm, lines: Sequence[str]) -> int:
    """Return the number of rows with as many cells as the header, or with one more (row names), if all have them."""
    numbers = Counter[int]()
    try:
        width = len(form.cells(lines[0]))
    except ValueError:
        return -1
    for line in lines[1:]:
        try:
            cells = form.cells(line)
        except ValueError:
            continue
        numbers[width if len(cells) > width and not any(cells[width:]) else len(cells)] += 1
    return numbers[width] or numbers[width + 1]


def _with_spaces(form: TableForm, header: str, lines: Sequence[str]) -> TableForm:
    """Return the form with spaces skipped if every name follows a space, or a row has a quotation mark after one."""
    sign, skipping = form.separator, replace(form, skips_spaces=True)
    if header.count(sign) == header.count(f"{sign} ") > 0:
        return skipping
    opening = re.compile(f'{sign} +"')
    marked = [line for line in lines[1:] if opening.search(line)] if sign != "\t" else []
    is_evident = any(plain.startswith(" ") and plain.lstrip(" ").startswith('"') for line in marked
                     for quoted, plain in form.parts(line) if quoted is None)  # fmt: skip
    if is_evident and not any(_is_faulty(skipping, line) for line in marked):
        return skipping if _fit(skipping, lines) >= _fit(form, lines) else form
    return form


def _is_faulty(form: TableForm, line: str) -> bool:
    try:
        form.cells(line)
    except ValueError:
        return True
    return False


def _is_text_quoted(form: TableForm, rows: Sequence[str]) -> bool:
    """Return whether all cells of rows that are not numbers are in quotation marks, some without need."""
    any_needless = False
    for line in rows:
        for quoted, plain in form.parts(line):
            any_needless |= bool(quoted) and form.separator not in str(quoted) and '"' not in str(quoted)
            if plain and not _NOT_TEXT.fullmatch(plain.strip()):
                return False
    return any_needless


def _with_escapes(form: TableForm, is_header_quoted: bool, lines: Sequence[str]) -> TableForm:
    """Return the form with \\" for a quotation mark in quoted cells if the lines can be read only so.

    If no line has it, a table with a quoted header may have it further below.
    """
    escaped = replace(form, is_escaped=True)
    marked = [line for line in lines if ESCAPE in line]
    if not marked:
        return escaped if is_header_quoted else form
    if not any(map(_has_open_marks, [form] * len(marked), marked)):
        return form
    if any(map(_has_open_marks, [escaped] * len(marked), marked)):
        return form
    columns = {
        column
        for line in marked
        for column, (quoted, _) in enumerate(escaped.parts(line))
        if quoted is not None and '"' in quoted
    }
    is_certain = form.separator != "\t" or is_header_quoted or _are_quoted(escaped, columns, lines[1:])
    return escaped if is_certain else form


def _has_open_marks(form: TableForm, line: str) -> bool:
    """Return whether a cell starts and ends with quotation marks, but was not read as quoted, or is faulty."""
    if form.separator != "\t":
        return _is_faulty(form, line)
    return any(quoted is None and len(plain) > 1 and plain[0] == plain[-1] == '"' for quoted, plain in form.parts(line))


def _are_quoted(form: TableForm, columns: set[int], rows: Sequence[str]) -> bool:
    """Return whether all cells of columns that are not empty or NA are in quotation marks."""
    return not any(
        plain not in ("", "NA")
        for line in rows
        for column, (_, plain) in enumerate(form.parts(line))
        if column in columns
    )


def clean_name(name: str) -> str:
    """Return the name of a column without spaces around it and invisible characters."""
    return " ".join(_INVISIBLE.sub("", name).split())


def refuse_table_lines(lines: Sequence[str], source: str, advice: str, expected: str = "one sentence per line") -> None:
    """Raise InputError for a table instead of a text.

    A table has a name that ends in .csv or .tsv, and several columns, or one that is named by a word above lines of
    several words; or one-word names in its header, and as many tabs, commas or semicolons in every line.

    Args:
        lines: its first lines that are not blank, of which `TABLE_LINES_COMPARED` are compared.
        source: the name of the text.
        advice: what to do, about the column {}.
        expected: what is read, for the message.
    """
    lines = lines[:TABLE_LINES_COMPARED]
    lines = lines[1:] if lines and declared_separator(lines[0]) else lines
    if not lines:
        return
    if NAMES_AND_SPACES.fullmatch(lines[0]) and len(lines) > 1 and all(line.startswith('"') for line in lines):
        names, cells = lines[0].strip('"').split('" "'), []
    else:
        form = find_form(lines)
        try:
            names = form.cells(lines[0])
            rows = [form.cells(line) for line in lines[1:]]
        except ValueError:
            names, rows = lines[0].split(form.separator), []
        is_named = any(suffix.lower() in TABLE_SUFFIXES for suffix in Path(source).suffixes[-2:])
        is_like = len({len(row) for row in rows}) == 1 and len(rows[0]) - len(names) in (0, 1)
        is_like &= all(name.strip() and " " not in name for name in names)
        is_table = (is_named or is_like) if len(names) > 1 else (is_named and _is_column(names[0], rows))
        if not is_table:
            return
        cells = rows[-1] if rows else []
    cells = [*cells, *[""] * len(names)][: len(names)]
    longest = max(range(len(names)), key=lambda place: len(cells[place]))
    columns = f"column{'s' * (len(names) > 1)} {listed(map(clean_name, names))}"
    found = f"found a table with the {columns}; expected {expected}"
    raise InputError(f"{source}: {found}. {advice.format(shortened(clean_name(names[longest]), LONGEST_NAME))}")


def _is_column(name: str, rows: Sequence[Sequence[str]]) -> bool:
    """Return whether the lines of a text are the name of a column, and sentences of several words."""
    return bool(rows) and re.fullmatch(r"[\w.]*\w", name) is not None and all(" " in row[0].strip() for row in rows)
