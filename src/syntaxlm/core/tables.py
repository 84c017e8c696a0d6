"""Results as data frames of pandas or polars, which are optional and imported when a data frame is asked for."""

from __future__ import annotations

import csv
import importlib
import io
import math
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, Literal, NamedTuple

from syntaxlm.core.errors import InputError
from syntaxlm.core.files import replaced

# Results as tables: named, typed columns, written as TSV, CSV or Parquet, or given as data frames.
#
# A type of result has one `Table`, so that its files and data frames have the same columns whatever the model. Rows are
# dictionaries that are written as they come. Parquet needs pyarrow, which is optional and imported when it is used.


ColumnType = Literal[
    "integer", "number", "text", "boolean", "list of integers", "list of numbers", "list of text", "list of pairs"
]
Row = Mapping[str, Any]

ROWS_PER_GROUP = 1 << 16  # of a Parquet file: what is held in memory, and what readers skip or read at once
SMALLEST_DECIMAL = 1e-3  # smaller numbers are written with an exponent, so that they keep their digits

_NEEDS_QUOTES = re.compile('[\t"\r\n]')


class Column(NamedTuple):
    """A column of a table. meaning: of its values, which may be missing; with the unit."""

    type: ColumnType
    meaning: str


@dataclass(frozen=True)
class Table:
    """The columns of a type of result. name: for people and for the metadata of Parquet files. row: what one row is."""

    name: str
    row: str
    columns: Mapping[str, Column]

    def with_text(self, names: Iterable[str], meaning: str) -> Table:
        """Return the table with further columns of text."""
        return replace(self, columns={**self.columns, **{name: Column("text", meaning) for name in names}})


class HasRows(ABC):
    """A result with rows. A subclass has `table`, and `rows` that yield a value or None for each of its columns."""

    table: Table

    @abstractmethod
    def rows(self) -> Iterator[Row]:
        """Return the rows of files and data frames."""

    def to_dataframe(self) -> Any:
        """Return the rows as a pandas.DataFrame or, if pandas is not installed, a polars.DataFrame.

        Raises InputError if neither library is installed.
        """
        types = {name: column.type for name, column in self.table.columns.items()}
        return dataframe(self.rows(), types)

    def to_parquet(self, path: str | Path) -> None:
        """Write the rows to a Parquet file, atomically. Raises InputError as `write_parquet` does."""
        write_parquet(self.rows(), self.table, path)


def format_cells(cells: Iterable[str]) -> str:
    """Return a tab-separated line of these cells, without its line end."""
    return "\t".join('"' + cell.replace('"', '""') + '"' if _NEEDS_QUOTES.search(cell) else cell for cell in cells)


def format_rows(rows: Iterable[Row], table: Table, separated_by: Literal["tabs", "commas"]) -> Iterator[str]:
    """Yield lines with their ends: a header, then one for each row.

    The header comes with the first row, so that an error before it leaves no output. Missing values are empty cells,
    numbers have six decimals, and the values of a list are separated by spaces.
    """
    format_line = format_cells if separated_by == "tabs" else format_comma_separated
    header = format_line(table.columns) + "\n"
    for row in rows:
        yield header + format_line(_cell(row[name]) for name in table.columns) + "\n"
        header = ""
    if header:
        yield header


def format_comma_separated(cells: Iterable[str]) -> str:
    """Return a comma-separated line of these cells (RFC 4180), without its line end."""
    line = io.StringIO()
    csv.writer(line, lineterminator="\n").writerow(cells)
    return line.getvalue().removesuffix("\n")


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


def write_parquet(rows: Iterable[Row], table: Table, path: str | Path, rows_per_group: int = ROWS_PER_GROUP) -> None:
    """Write rows to a Parquet file, which replaces `path` when all are written.

    rows_per_group: number of rows that are held in memory and written together, as a row group.
    The file's metadata have the table's name; those of each column have its meaning.
    Raises InputError if pyarrow is not installed or the file cannot be written.
    """
    check_parquet()
    import pyarrow
    from pyarrow.parquet import ParquetWriter

    schema = parquet_schema(table)
    rest = iter(rows)
    with replaced(Path(path)) as temporary, ParquetWriter(temporary, schema, compression="zstd") as writer:
        while group := list(islice(rest, rows_per_group)):
            columns = {name: [row[name] for row in group] for name in table.columns}
            writer.write_table(pyarrow.Table.from_pydict(columns, schema=schema))


def parquet_schema(table: Table) -> Any:
    """Return the pyarrow.Schema of a table. Raises InputError if pyarrow is not installed."""
    check_parquet()
    import pyarrow

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
        for name, column in table.columns.items()
    ]
    return pyarrow.schema(fields, metadata={"syntaxlm.table": table.name})


def check_parquet() -> None:
    """Raise InputError if pyarrow is not installed."""
    try:
        import pyarrow.parquet  # noqa: F401
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "pyarrow":  # installed, but broken
            raise
        raise InputError("Parquet needs pyarrow, which is not installed: pip install 'syntaxlm[parquet]'") from None


LIBRARIES = ("pandas", "polars")

# Types of columns whose values may all be missing, or that may be empty.
_PANDAS = {"integer": "int64", "number": "float64", "text": "str", "boolean": "bool"}
_POLARS = {"integer": "Int64", "number": "Float64", "text": "String", "boolean": "Boolean"}


def dataframe(rows: Iterable[Mapping[str, Any]], columns: Sequence[str] | Mapping[str, str] = ()) -> Any:
    """Rows as a pandas.DataFrame or, where pandas is not installed, a polars.DataFrame.

    rows: all with the same keys. columns: their names where there may be no row, or their types by name ("integer",
    "number", "text", "boolean"; others follow from the values); otherwise the keys of the first row.
    Raises InputError where neither library is installed.
    """
    library = _library()
    rows = list(rows)
    names = list(columns) or (list(rows[0]) if rows else [])
    types = columns if isinstance(columns, Mapping) else {}
    values = {name: [row[name] for row in rows] for name in names}
    if library.__name__ == "polars":
        schema = {name: getattr(library, _POLARS[types[name]]) for name in names if types.get(name) in _POLARS}
        return library.DataFrame(values, schema_overrides=schema)
    return library.DataFrame({name: _series(library, values[name], types.get(name, "")) for name in names})


def _series(pandas: Any, values: list[Any], type: str) -> Any:
    """Return a pandas.Series. Only numbers have a missing value, NaN; other types with missing values are as pandas has
    it.
    """
    is_typed = type == "number" or (type in _PANDAS and None not in values)
    return pandas.Series(values, dtype=_PANDAS[type] if is_typed else None if values else "object")


def _library() -> Any:
    for name in LIBRARIES:
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name != name:  # installed, but broken
                raise
    raise InputError("to_dataframe needs pandas or polars, and neither is installed: pip install 'syntaxlm[dataframe]'")
