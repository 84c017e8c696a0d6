"""Texts in a column of a Parquet file, one row after the other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from syntaxlm.core.errors import LONGEST_NAME, InputError, listed, shortened
from syntaxlm.core.files import system_error
from syntaxlm.core.text_files import PARQUET, local_file

if TYPE_CHECKING:
    import polars

TEXT_COLUMN = "text"
_ROWS = 4096  # read at a time


def is_parquet(path: str | Path) -> bool:
    """Return whether a file is a Parquet file, by its name."""
    return Path(path).suffix.lower() == PARQUET


def parquet_types(path: str | Path) -> Mapping[str, polars.DataType]:
    """Return the types of the columns. Raises InputError for a file that cannot be read."""
    import polars

    with reading_parquet(path, "not a Parquet file, or damaged"):
        return polars.read_parquet_schema(local_file(path))


def check_column(path: str | Path, column: str, types: Mapping[str, polars.DataType]) -> None:
    """Raise InputError unless a Parquet file has a column of this name with text.

    Args:
        types: the types of its columns.
    """
    if column not in types:
        raise InputError(f"{path}: no column {shortened(column, LONGEST_NAME)!r}; found {listed(types)}")
    if not _is_text(types[column]):
        raise InputError(f"{path}: column {column!r} has the type {types[column]}; expected text")


def _is_text(column_type: polars.DataType) -> bool:
    import polars

    return isinstance(column_type, polars.String | polars.Categorical | polars.Enum)


def parquet_lines(path: str | Path) -> Iterator[tuple[int, str]]:
    """Yield the lines of the texts in the column `text`, or in the only column of text, with the numbers of their rows.

    Args:
        path: a local file, or an address.

    Raises:
        InputError: for a file that cannot be read or has no such column, and for a missing value.
    """
    import polars

    types = parquet_types(path)
    of_text = [name for name, column_type in types.items() if _is_text(column_type)]
    column = TEXT_COLUMN if TEXT_COLUMN in types or len(of_text) != 1 else of_text[0]
    check_column(path, column, types)
    number = 0
    with reading_parquet(path):
        frame = polars.scan_parquet(local_file(path), glob=False).select(polars.col(column).cast(polars.String))
        for batch in frame.collect_batches(chunk_size=_ROWS, maintain_order=True):
            for text in batch[column].to_list():
                number += 1
                if text is None:
                    raise InputError(f"{path}, row {number:,}: column {column!r} is empty; expected text")
                for line in lines_of(text):
                    yield number, line


def lines_of(text: str) -> list[str]:
    """Return the lines of a text, of which a line end at its end does not begin another one."""
    return text.replace("\r\n", "\n").removesuffix("\n").split("\n")


@contextmanager
def reading_parquet(name: str | Path, problem: str = "damaged") -> Iterator[None]:
    """Raise InputError for errors of polars in the block, which reads a Parquet file.

    Args:
        name: the name of the file, for messages.
        problem: what is wrong with the file if it cannot be read.
    """
    from polars.exceptions import PanicException, PolarsError

    try:
        yield
    except OSError as error:
        raise system_error(name, "read", error) from error
    except (PolarsError, PanicException) as error:
        reason = "".join(sign if sign.isprintable() else "?" for sign in str(error).split("\n")[0])
        raise InputError(f"{name}: {problem}: {reason}") from error
