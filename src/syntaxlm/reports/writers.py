"""Rows as files and data frames: JSON lines, TSV, CSV and Parquet, and frames of pandas or polars.

Rows are written as they come, so that results may be larger than the memory. polars takes long to import and is
imported when it is used.
"""

from __future__ import annotations

import importlib
import math
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import fields, is_dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Literal

from syntaxlm.core.errors import InputError
from syntaxlm.core.files import replaced, text_output, to_json
from syntaxlm.core.iteration import batched
from syntaxlm.reports.tables import Block, Columns, Row

if TYPE_CHECKING:
    import polars

RowFormat = Literal["tsv", "csv", "json", "parquet"]

ROWS_PER_GROUP = 1 << 16  # of a Parquet file: readers skip or read them at once
ROWS_IN_MEMORY = 1 << 20  # of a Parquet file: more rows wait in temporary files
SMALLEST_DECIMAL = 1e-3  # smaller numbers are written with six significant digits instead of six decimals


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
    """Write rows as they come.

    Args:
        rows: the rows.
        columns: their columns.
        path: a file, which is replaced when all rows are written; None: standard output, except for Parquet.
        format: the format; "json" writes JSON lines.

    Raises:
        InputError: if the file cannot be written.
    """
    if format == "parquet":
        write_blocks(blocks_of(rows, columns, ROWS_PER_GROUP), columns, path, format)
    else:
        write_lines(format_rows(rows, columns, format), path)


def write_blocks(
    blocks: Iterable[Block], columns: Columns, path: str | Path | None, format: Literal["tsv", "csv", "parquet"]
) -> None:
    """Write rows that come in columns. Parameters and errors are those of `write_rows`."""
    if format != "parquet":
        write_lines(format_blocks(blocks, columns, format), path)
    elif path is None:
        raise InputError("Parquet: found standard output; expected a file")
    else:
        write_parquet(blocks, columns, path)


def blocks_of(rows: Iterable[Row], names: Iterable[str], size: int) -> Iterator[Block]:
    """Yield rows in columns, `size` rows at a time."""
    names = list(names)
    for block in batched(rows, size):
        yield {name: [row[name] for row in block] for name in names}


def write_lines(lines: Iterable[str], path: str | Path | None) -> None:
    """Write lines with their ends as UTF-8, atomically; to standard output if `path` is None."""
    with text_output(path) as file:
        file.writelines(lines)


def format_rows(rows: Iterable[Row], columns: Columns, format: Literal["tsv", "csv", "json"]) -> Iterator[str]:
    """Yield the line of each row with its end, in JSON, or as `format_blocks` does, with a header in the first."""
    if format == "json":
        return (to_json(row) + "\n" for row in rows)
    return _format_each(rows, columns, "\t" if format == "tsv" else ",")


def _format_each(rows: Iterable[Row], columns: Columns, separator: str) -> Iterator[str]:
    names = list(columns)
    head = _line(names, separator) + "\n"
    for row in rows:
        yield head + _line(_cells([row[name] for name in names]), separator) + "\n"
        head = ""
    if head:
        yield head


def format_blocks(blocks: Iterable[Block], columns: Columns, format: Literal["tsv", "csv"]) -> Iterator[str]:
    """Yield one string per block, with a line for each row; the first string starts with the header.

    The header comes with the first block, so that an error before it leaves no output. Missing values are empty cells,
    floats have six decimals (see `SMALLEST_DECIMAL`), and the values of a list are separated by spaces.
    """
    separator = "\t" if format == "tsv" else ","
    head = separator.join(_quoted(list(columns), separator)) + "\n"
    for block in blocks:
        cells = [_quoted(_cells(block[name]), separator) for name in columns]
        yield head + "".join([separator.join(row) + "\n" for row in zip(*cells, strict=True)])
        head = ""
    if head:
        yield head


def format_cells(cells: Iterable[str]) -> str:
    """Return a tab-separated line of these cells, quoted as in RFC 4180, without its line end."""
    return _line(list(cells), "\t")


def _cells(values: Any) -> list[str]:
    """Return the cells of a column; the usual types are converted here, because a call for each value is slow."""
    values = values.tolist() if hasattr(values, "tolist") else values
    return [
        value
        if type(value) is str
        else ""
        if value is None
        else str(value)
        if type(value) is int
        else _number(value)
        if type(value) is float
        else _cell(value)
        for value in values
    ]


def _cell(value: Any) -> str:
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case float():
            return _number(value)
        case list() | tuple():
            return " ".join(
                ":".join(map(_cell, item)) if isinstance(item, list | tuple) else _cell(item) for item in value
            )
        case _:
            return str(value)


def _number(value: float) -> str:
    if 0 < abs(value) < SMALLEST_DECIMAL:
        return f"{value:.6g}"
    return "" if math.isnan(value) else f"{value:.6f}"


def _line(cells: list[str], separator: str) -> str:
    """Return the cells of a row, quoted if necessary, as a line without its end."""
    line = separator.join(cells)
    if line.count(separator) < len(cells) and '"' not in line and "\r" not in line and "\n" not in line:
        return line
    return separator.join(_quoted(cells, separator))


def _quoted(cells: list[str], separator: str) -> list[str]:
    """Quote the cells that need it, as in RFC 4180."""
    signs = (separator, '"', "\r", "\n")
    together = "".join(cells)  # one search is faster than one in each cell
    if not any(sign in together for sign in signs):
        return cells
    return ['"' + cell.replace('"', '""') + '"' if any(map(cell.__contains__, signs)) else cell for cell in cells]


def write_parquet(
    blocks: Iterable[Block],
    columns: Columns,
    path: str | Path,
    rows_per_group: int = ROWS_PER_GROUP,
    rows_in_memory: int = ROWS_IN_MEMORY,
) -> int:
    """Write rows that come in columns to a Parquet file, which replaces `path` when all are written.

    The file's metadata have the name of the table as `syntaxlm.table`, and the meaning of each column as
    `syntaxlm.column.NAME`.

    Args:
        blocks: the rows.
        columns: their columns.
        path: the file.
        rows_per_group: the number of rows that readers skip or read at once.
        rows_in_memory: the number of rows above which rows wait in temporary files.

    Returns:
        The number of rows.

    Raises:
        InputError: if the file cannot be written.
    """
    import polars

    metadata = {"syntaxlm.table": columns.name}
    metadata |= {f"syntaxlm.column.{name}": column.meaning for name, column in columns.items()}
    schema = _schema(columns)
    waiting = [polars.DataFrame(schema=schema)]
    stored: list[polars.LazyFrame] = []
    count = 0

    with replaced(Path(path)) as temporary, ExitStack() as stack:
        folder = None
        for block in blocks:
            waiting.append(polars.DataFrame(block, schema))
            count += len(waiting[-1])

            # The memory holds a limited number of rows.
            if sum(map(len, waiting)) >= rows_in_memory:
                if folder is None:
                    # Windows cannot remove a part that polars has still mapped.
                    folder = stack.enter_context(TemporaryDirectory(ignore_cleanup_errors=True))
                part = Path(folder) / f"{len(stored)}.parquet"
                with _raising_os_errors(part):
                    polars.concat(waiting).write_parquet(part)
                stored.append(polars.scan_parquet(part))
                waiting = []

        frames = [*stored, *(frame.lazy() for frame in waiting)]
        with _raising_os_errors(temporary):
            polars.concat(frames).sink_parquet(temporary, row_group_size=rows_per_group, metadata=metadata)
    return count


@contextmanager
def _raising_os_errors(file: Path) -> Iterator[None]:
    """Raise an OSError if polars cannot write a file. Polars sometimes raises an error that does not say why."""
    import polars

    try:
        yield
    except polars.exceptions.ComputeError:
        # If the disk is full, or the size of files is limited, writing fails again, with the cause.
        with open(file, "ab") as opened:
            opened.write(bytes(1 << 20))
        raise


def _schema(columns: Columns) -> dict[str, polars.DataType]:
    """Return the types of columns, which do not follow from values that may all be missing."""
    import polars

    types: dict[str, Any] = {
        "integer": polars.Int64(),
        "nullable integer": polars.Int64(),
        "unsigned integer": polars.UInt64(),
        "number": polars.Float64(),
        "text": polars.String(),
        "boolean": polars.Boolean(),
        "list of integers": polars.List(polars.Int64),
        "list of numbers": polars.List(polars.Float64),
        "list of text": polars.List(polars.String),
        "list of pairs": polars.List(polars.List(polars.Int64)),
    }
    return {name: types[column.type] for name, column in columns.items()}


# Types of pandas, also for empty columns.
_PANDAS = {
    "integer": "int64", "nullable integer": "Int64", "unsigned integer": "UInt64", "number": "float64", "text": "str",
    "boolean": "bool",
}  # fmt: skip
_MAY_BE_MISSING = ("number", "nullable integer", "unsigned integer")  # types of pandas with a missing value


def dataframe(rows: Iterable[Row], columns: Columns) -> Any:
    """Return rows as a pandas.DataFrame or, if pandas is not installed, a polars.DataFrame."""
    empty: Block = {name: [] for name in columns}
    block = next(blocks_of(rows, columns, sys.maxsize), empty)
    try:
        pandas: Any = importlib.import_module("pandas")
    except ModuleNotFoundError as error:
        if error.name != "pandas":  # installed, but broken
            raise
        import polars

        return polars.DataFrame(block, _schema(columns))

    series = {}
    for name, values in block.items():
        # Pandas chooses the type of other columns with missing values.
        type = columns[name].type
        is_typed = type in _MAY_BE_MISSING or (type in _PANDAS and None not in values)
        series[name] = pandas.Series(values, dtype=_PANDAS[type] if is_typed else None if values else "object")
    return pandas.DataFrame(series)
