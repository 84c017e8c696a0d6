"""Results as tables: typed columns and a report, written as text, JSON, TSV, CSV, Markdown, HTML or Parquet.

A type of result has one `Columns`, so that its files and data frames have the same columns whatever the model. Rows are
dictionaries that are written as they come. An evaluation returns a result with a `Report`: facts, tables for reading
and notes, with the same rows. pandas or polars (data frames) and pyarrow (Parquet) are optional and imported when they
are used; so is rich, for text.
"""

from __future__ import annotations

import importlib
import io
import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from html import escape
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple, cast, get_args

from syntaxlm.core.declarations import ReportFormat
from syntaxlm.core.errors import InputError, printable
from syntaxlm.core.files import replaced, text_output, to_json
from syntaxlm.core.iteration import batched
from syntaxlm.core.reading import ReadingReport
from syntaxlm.core.run_head import RunHead

ColumnType = Literal[
    "integer", "number", "text", "boolean", "list of integers", "list of numbers", "list of text", "list of pairs"
]
RowFormat = Literal["tsv", "csv", "json", "parquet"]
Row = Mapping[str, Any]
Block = Mapping[str, Any]
"""Rows in columns: a list or array of values for each column."""

ROWS_PER_GROUP = 1 << 16  # of a Parquet file: what is held in memory, and what readers skip or read at once
SMALLEST_DECIMAL = 1e-3  # smaller numbers are written with an exponent, so that they keep their digits
PERCENT = "percent"  # format of fractions in a report: 0.616 is shown as 61.6
RIGHT = ">"  # format of text that is aligned right

SHOWN = 100  # rows or pictures of a result that is printed or shown in a notebook

_TEXT_WIDTH = 10_000  # characters of a line: tables are never wrapped


class Column(NamedTuple):
    """A column of a table.

    meaning: of its values, which may be missing; with the unit.  format: of its values in a report: PERCENT, or a
    format specification such as ".2f"; "": by type.
    """

    type: ColumnType
    meaning: str
    format: str = ""


@dataclass(frozen=True)
class Columns(Mapping[str, Column]):
    """The columns of a type of result, by name.

    name: for people and for the metadata of Parquet files.  row: what one row is.
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


class HasRows(ABC):
    """A result with rows. A subclass has `columns`, and `rows` that yield a value or None for each of them.

    not_printed: columns that are left out where the result is printed.
    readings: how the files were read from which the result follows
    """

    columns: Columns
    readings: tuple[ReadingReport, ...] = ()
    not_printed: ClassVar[frozenset[str]] = frozenset()

    @abstractmethod
    def rows(self) -> Iterator[Row]:
        """Return the rows of files and data frames."""

    def to_dataframe(self) -> Any:
        """Return the rows as a pandas.DataFrame or, if pandas is not installed, a polars.DataFrame.

        Raises InputError if neither library is installed.
        """
        return dataframe(self.rows(), {name: column.type for name, column in self.columns.items()})

    def to_parquet(self, path: str | Path) -> None:
        """Write the rows to a Parquet file, atomically. Raises InputError as `write_parquet` does."""
        write_rows(self.rows(), self.columns, path, "parquet")

    def __str__(self) -> str:
        """Return the first rows as a table with aligned columns."""
        rows = list(self.rows())
        headings = {name: column.format for name, column in self.columns.items() if name not in self.not_printed}
        table = ReportTable(headings, [[row[name] for name in headings] for row in rows[:SHOWN]], missing="")
        rest = [f"... and {len(rows) - SHOWN:,} more"] if len(rows) > SHOWN else []
        return "\n".join([*map(printable, aligned(table).split("\n")), *rest])


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


@dataclass(frozen=True)
class ReportTable:
    """A table for reading.

    headings: of the columns, with the format of their values: PERCENT, RIGHT, or a format specification; "": text is
        aligned left, integers have thousands separators.  A heading may have several lines.
    rows: values of the columns; None is shown as `missing`, "" as nothing, text as it is.
    """

    headings: Mapping[str, str]
    rows: Sequence[Sequence[Any]]
    title: str = ""
    missing: str = "-"

    @classmethod
    def of(
        cls, columns: Columns, rows: Iterable[Row], headings: Mapping[str, str], title: str = "", missing: str = "-"
    ) -> ReportTable:
        """Return some columns of a report's rows.  headings: by name of the column."""
        formats = {heading: columns[name].format for name, heading in headings.items()}
        return cls(formats, [[row[name] for name in headings] for row in rows], title, missing)

    def cells(self) -> list[list[str]]:
        """Return the values of all rows as text."""
        rows = [zip(row, self.headings.values(), strict=True) for row in self.rows]
        return [[self.missing if value is None else format_value(value, form) for value, form in row] for row in rows]

    def is_number(self) -> list[bool]:
        """Return whether each column has numbers, which are aligned right."""
        columns = zip(self.headings.values(), *self.rows, strict=True)
        return [bool(one) or any(isinstance(value, int | float) for value in values) for one, *values in columns]


@dataclass(frozen=True)
class Report:
    """The figures of an evaluation.

    facts: what they were measured on and how: data, protocol, decoder, seeds.  explanation: sentences on the method.
    tables: for reading.  notes: comparisons, remarks.
    columns, rows: of TSV, CSV and Parquet files and of data frames.
    figures: of JSON, with standard keys; dataclasses, tuples and arrays are converted.
    readings: how the files that were measured were read.
    warnings: what changes the meaning of the figures; a line each, before the tables.
    run: the command, its version, machine and files, for JSON.
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

    def to_dict(self) -> dict[str, Any]:
        """Return the figures for JSON, and if there are any, "warnings", "readings" and the head, "run"."""
        read = {"readings": [reading.to_dict() for reading in self.readings]} if self.readings else {}
        warned = {"warnings": list(self.warnings)} if self.warnings else {}
        head = {"run": self.run.to_dict()} if self.run else {}
        return cast(dict[str, Any], plain({**self.figures, **warned, **read, **head}))

    @property
    def title(self) -> str:
        """The name of the columns, with a capital letter."""
        return self.columns.name[:1].upper() + self.columns.name[1:]

    @property
    def _read(self) -> list[str]:
        """How the files were read, one line each."""
        return [f"read {reading}" for reading in self.readings]

    @property
    def _head(self) -> list[str]:
        """What stands before the tables: the facts, the method, and warnings, one line each."""
        warned = [f"warning: {warning}" for warning in self.warnings]
        return list(filter(None, [self.summary, *self.explanation, *warned]))

    @property
    def summary(self) -> str:
        """The facts on one line."""
        return "   ".join(f"{name} {format_value(value)}".strip() for name, value in self.facts.items())

    def text(self) -> str:
        """Return the report for a terminal, without the last line end."""
        parts = ["\n".join(self._head)]
        parts += [f"{one.title}\n{aligned(one)}" if one.title else aligned(one) for one in self.tables if one.rows]
        text = "\n\n".join(filter(None, [*parts, "\n".join(self.notes), "\n".join(self._read)]))
        return "\n".join(map(printable, text.split("\n")))  # names in files must not control the terminal

    def markdown(self) -> str:
        """Return the report in Markdown."""
        parts = [f"# {self.title}", *self._head]
        for table in filter(lambda table: table.rows, self.tables):
            parts += [f"## {table.title}"] if table.title else []
            rules = ["---:" if is_number else "---" for is_number in table.is_number()]
            lines = [list(table.headings), rules, *table.cells()]
            escaped = [[cell.replace("|", "\\|").replace("\n", " ") for cell in cells] for cells in lines]
            parts.append("\n".join(f"| {' | '.join(cells)} |" for cells in escaped))
        return "\n\n".join(filter(None, [*parts, "\n".join(f"- {note}" for note in (*self.notes, *self._read))]))

    def html(self) -> str:
        """Return the report as a self-contained page."""
        title = escape(self.title)
        parts = [f"<h1>{title}</h1>", *(f"<p>{escape(line)}</p>" for line in self._head)]
        for table in filter(lambda table: table.rows, self.tables):
            parts += [f"<h2>{escape(table.title)}</h2>"] if table.title else []
            sides = ["right" if is_number else "left" for is_number in table.is_number()]
            rows = [_html_row(list(table.headings), sides, "th")]
            rows += [_html_row(cells, sides, "td") for cells in table.cells()]
            parts.append(f"<table>\n{''.join(rows)}</table>")
        notes = [*self.notes, *self._read]
        parts += [f"<ul>{''.join(f'<li>{escape(note)}</li>' for note in notes)}</ul>"] if notes else []
        return _PAGE.format(title=title, body="\n".join(parts))

    def formatted(self, format: ReportFormat) -> str:
        """Return the report in a format other than Parquet, without the last line end."""
        if format in ("tsv", "csv"):
            return "".join(format_rows(self.rows, self.columns, format)).removesuffix("\n")
        if format == "json":
            return to_json(self.to_dict())
        return {"text": self.text, "markdown": self.markdown, "html": self.html}[format]()

    def write(self, path: str | Path | None, format: ReportFormat) -> None:
        """Write the report, atomically.

        path: None: standard output, which Parquet cannot be written to.
        Raises InputError for an unknown format, and if the file cannot be written.
        """
        if format not in get_args(ReportFormat):
            raise InputError(f"found format {format!r}; expected one of {', '.join(get_args(ReportFormat))}")
        if format == "parquet":
            write_rows(self.rows, self.columns, path, format)
        else:
            write_lines([self.formatted(format) + "\n"], path)


_PAGE = """<!doctype html>
<html>
<head>
<meta charset="utf-8">
<title>{title}</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>
:root{{color-scheme:light dark;--paper:#fff;--ink:#1d2125}}
@media (prefers-color-scheme:dark){{:root{{--paper:#16191d;--ink:#e8eaed}}}}
body{{font:16px/1.5 system-ui,sans-serif;margin:0 auto;max-width:80rem;padding:1rem}}
body{{background:var(--paper);color:var(--ink)}}
h1{{font-size:1.5rem}}
h2{{font-size:1rem;white-space:pre-line}}
table{{border-collapse:collapse;font-variant-numeric:tabular-nums}}
th,td{{padding:.1rem 1.5rem .1rem 0;white-space:pre-line;vertical-align:bottom}}
th{{font-weight:normal;opacity:.7}}
</style>
</head>
<body>
{body}
</body>
</html>"""


def _html_row(cells: Sequence[str], sides: Sequence[str], tag: str) -> str:
    aligned_cells = zip(cells, sides, strict=True)
    return "<tr>" + "".join(f'<{tag} align="{side}">{escape(cell)}</{tag}>' for cell, side in aligned_cells) + "</tr>\n"


def aligned(shown: ReportTable) -> str:
    """Return a table with aligned columns: text to the left, numbers to the right."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="")
    for heading, is_number in zip(shown.headings, shown.is_number(), strict=True):
        table.add_column(Text(heading), justify="right" if is_number else "left", no_wrap=True)
    for cells in shown.cells():
        table.add_row(*map(Text, cells))
    output = io.StringIO()
    Console(file=output, width=_TEXT_WIDTH, color_system=None, force_jupyter=False).print(table)
    return "\n".join(line.rstrip() for line in output.getvalue().splitlines())


def format_value(value: Any, format: str = "", missing: str = "-") -> str:
    """Return a value for reading.  format, missing: see `ReportTable`."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return missing
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str) or not isinstance(value, int | float):
        return str(value)
    if format == PERCENT:
        return f"{100 * value:.1f}"
    if format in ("", RIGHT):
        format = "," if isinstance(value, int) else ".4g"
    return f"{value:{format}}"


def plain(value: Any) -> Any:
    """Return a result as values for JSON: dataclasses and named tuples as objects, arrays and tuples as lists."""
    if hasattr(value, "to_dict"):
        return plain(value.to_dict())
    if is_dataclass(value):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return plain(value._asdict())
    if isinstance(value, Mapping):
        return {str(key): plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in value]
    if hasattr(value, "tolist"):  # an array or scalar of numpy
        return value.tolist()
    return str(value) if isinstance(value, Path) else value


def write_rows(rows: Iterable[Row], columns: Columns, path: str | Path | None, format: RowFormat) -> None:
    """Write rows as they come.  format: json writes JSON lines.

    path: replaced when all rows are written; None: standard output, which Parquet cannot be written to.
    Raises InputError if the file cannot be written.
    """
    if format == "parquet":
        write_blocks(blocks_of(rows, columns, ROWS_PER_GROUP), columns, path, format)
    else:
        write_lines(format_rows(rows, columns, format), path)


def write_blocks(
    blocks: Iterable[Block], columns: Columns, path: str | Path | None, format: Literal["tsv", "csv", "parquet"]
) -> None:
    """Write rows that come in columns.  Parameters and errors: see `write_rows`."""
    if format != "parquet":
        write_lines(format_blocks(blocks, columns, format), path)
    elif path is None:
        raise InputError("Parquet: found standard output; expected a file")
    else:
        write_parquet(blocks, columns, path)


def blocks_of(rows: Iterable[Row], names: Iterable[str], size: int) -> Iterator[Block]:
    """Yield rows in columns, so many at a time.  names: of the columns."""
    names = list(names)
    for block in batched(rows, size):
        yield {name: [row[name] for row in block] for name in names}


def write_lines(lines: Iterable[str], path: str | Path | None) -> None:
    """Write lines with their ends as UTF-8, atomically.  path: None: standard output."""
    with text_output(path) as file:
        file.writelines(lines)


def format_rows(rows: Iterable[Row], columns: Columns, format: Literal["tsv", "csv", "json"]) -> Iterator[str]:
    """Yield the line of each row with its end: JSON, or as `format_blocks` does."""
    if format == "json":
        return (to_json(row) + "\n" for row in rows)
    return format_blocks(blocks_of(rows, columns, 1), columns, format)


def format_blocks(blocks: Iterable[Block], columns: Columns, format: Literal["tsv", "csv"]) -> Iterator[str]:
    """Yield lines with their ends: a header, then one line for each row.

    The header comes with the first block, so that an error before it leaves no output. Missing values are empty cells,
    numbers have six decimals, and the values of a list are separated by spaces.
    """
    separator = "\t" if format == "tsv" else ","
    head = separator.join(_quoted(list(columns), separator)) + "\n"
    for block in blocks:
        cells = [_cells(block[name], separator) for name in columns]
        row = separator.join("%s" if isinstance(one, list) else one.replace("%", "%%") for one in cells) + "\n"
        varying = [one for one in cells if isinstance(one, list)]
        rows = map(row.__mod__, zip(*varying, strict=True)) if varying else [row % ()] * len(block[next(iter(columns))])
        yield head + "".join(rows)
        head = ""
    if head:
        yield head


def format_cells(cells: Iterable[str]) -> str:
    """Return a tab-separated line of these cells, quoted as in RFC 4180, without its line end."""
    return "\t".join(_quoted(list(cells), "\t"))


def _cells(values: Any, separator: str) -> list[str] | str:
    """Return the cells of a column; one text if all of many values are the same."""
    is_array = hasattr(values, "tolist")
    values = values.tolist() if is_array else values
    is_same = len(values) > 1 and (is_array or type(values[0]) in _SAME) and values.count(values[0]) == len(values)
    chosen = values[:1] if is_same else values
    cells = _quoted(
        [one if type(one) is str else str(one) if type(one) is int else _cell(one) for one in chosen], separator
    )
    return cells[0] if is_same else cells


_SAME = (str, type(None))  # types whose values equal no value of another type


def _quoted(cells: list[str], separator: str) -> list[str]:
    """Quote the cells that need it, as in RFC 4180."""
    signs = (separator, '"', "\r", "\n")
    together = "".join(cells)  # one search is faster than one in each cell
    if any(sign in together for sign in signs):
        cells = ['"' + cell.replace('"', '""') + '"' if any(map(cell.__contains__, signs)) else cell for cell in cells]
    return cells


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        if math.isnan(value):
            return ""
        return f"{value:.6g}" if 0 < abs(value) < SMALLEST_DECIMAL else f"{value:.6f}"
    if isinstance(value, list | tuple):
        return " ".join(":".join(map(_cell, one)) if isinstance(one, list | tuple) else _cell(one) for one in value)
    return str(value)


def write_parquet(
    blocks: Iterable[Block], columns: Columns, path: str | Path, rows_per_group: int = ROWS_PER_GROUP
) -> None:
    """Write rows that come in columns to a Parquet file, which replaces `path` when all are written.

    rows_per_group: number of rows that are held in memory and written together, as a row group.
    The file's metadata have the name of the columns; those of each column have its meaning.
    Raises InputError if pyarrow is not installed or the file cannot be written.
    """
    check_parquet()
    import pyarrow
    from pyarrow.parquet import ParquetWriter

    integer, number, text = pyarrow.int64(), pyarrow.float64(), pyarrow.string()
    types: dict[ColumnType, Any] = {
        "integer": integer,
        "number": number,
        "text": text,
        "boolean": pyarrow.bool_(),
        "list of integers": pyarrow.list_(integer),
        "list of numbers": pyarrow.list_(number),
        "list of text": pyarrow.list_(text),
        "list of pairs": pyarrow.list_(pyarrow.list_(integer)),
    }
    fields = [
        pyarrow.field(name, types[column.type], metadata={"description": column.meaning})
        for name, column in columns.items()
    ]
    schema = pyarrow.schema(fields, metadata={"syntaxlm.table": columns.name})
    waiting = schema.empty_table()
    with replaced(Path(path)) as temporary, ParquetWriter(temporary, schema, compression="zstd") as writer:
        for block in blocks:
            waiting = pyarrow.concat_tables([waiting, pyarrow.Table.from_pydict(block, schema=schema)])
            while len(waiting) >= rows_per_group:
                writer.write_table(waiting.slice(0, rows_per_group))
                waiting = waiting.slice(rows_per_group)
        if len(waiting):
            writer.write_table(waiting)


def check_parquet() -> None:
    """Raise InputError if pyarrow is not installed."""
    try:
        import pyarrow.parquet  # noqa: F401
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "pyarrow":  # installed, but broken
            raise
        raise InputError("Parquet needs pyarrow, which is not installed: pip install 'syntaxlm[parquet]'") from None


# Types of columns whose values may all be missing, or that may be empty.
_PANDAS = {"integer": "int64", "number": "float64", "text": "str", "boolean": "bool"}
_POLARS = {"integer": "Int64", "number": "Float64", "text": "String", "boolean": "Boolean"}


def dataframe(rows: Iterable[Mapping[str, Any]], columns: Sequence[str] | Mapping[str, str] = ()) -> Any:
    """Rows as a pandas.DataFrame or, where pandas is not installed, a polars.DataFrame.

    rows: all with the same keys. columns: their names where there may be no row, or their types by name ("integer",
    "number", "text", "boolean"; others follow from the values); otherwise the keys of the first row.
    Raises InputError where neither library is installed.
    """
    library: Any = None
    for library_name in ("pandas", "polars"):
        try:
            library = importlib.import_module(library_name)
            break
        except ModuleNotFoundError as error:
            if error.name != library_name:  # installed, but broken
                raise
    if library is None:
        raise InputError(
            "to_dataframe needs pandas or polars, and neither is installed: pip install 'syntaxlm[dataframe]'"
        )
    rows = list(rows)
    names = list(columns) or (list(rows[0]) if rows else [])
    types = columns if isinstance(columns, Mapping) else {}
    values = {name: [row[name] for row in rows] for name in names}
    if library.__name__ == "polars":
        schema = {name: getattr(library, _POLARS[types[name]]) for name in names if types.get(name) in _POLARS}
        return library.DataFrame(values, schema_overrides=schema)
    series = {}
    for name, cells in values.items():
        # Only numbers have a missing value, NaN; other types with missing values are as pandas has it.
        is_typed = types.get(name) == "number" or (types.get(name) in _PANDAS and None not in cells)
        series[name] = library.Series(cells, dtype=_PANDAS[types[name]] if is_typed else None if cells else "object")
    return library.DataFrame(series)
