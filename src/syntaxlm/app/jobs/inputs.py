"""The inputs of a job: text files, compressed text files and columns of Parquet files, cut into shards of lines."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate, islice
from pathlib import Path
from typing import Any, BinaryIO, Literal, NamedTuple

from syntaxlm.core.errors import InputError
from syntaxlm.core.files import system_error
from syntaxlm.core.text_files import STANDARD_INPUT, is_compressed, open_bytes

SHARD_BYTES = 1 << 26  # maximum size of a shard of several lines
PARQUET = ".parquet"
IdType = Literal["integer", "text"]

_PIECE = 1 << 22  # bytes read at a time
_ROWS = 4096  # of a Parquet file that are read at a time
_BYTE_ORDER_MARK = "\ufeff"


class BadLine(NamedTuple):
    """A line that cannot be parsed or scored.

    file: name of the input.  line: its number in the file, from 1.  reason: what was found, and what was expected.
    """

    file: str
    line: int
    reason: str

    def __str__(self) -> str:
        return f"{self.file}, line {self.line:,}: {self.reason}"


class Line(NamedTuple):
    """A line, or a row of a Parquet file.

    number: from 1.  text: without its line end; "" for a bad line.  fault: why it is bad; None for a good line.
    id: its value in the column of ids, if there is one.
    """

    number: int
    text: str
    fault: str | None = None
    id: int | str | None = None


def raw_lines(file: BinaryIO, longest: int) -> Iterator[bytes | int]:
    """Yield lines with their ends. Of a line with more than `longest` bytes, only the number of its bytes is
    returned.
    """
    while line := file.readline(longest + 1):
        if len(line) <= longest:
            yield line
            continue
        length = len(line)
        while not line.endswith(b"\n") and (line := file.readline(_PIECE)):
            length += len(line)
        yield length


def read_line(raw: bytes | int, number: int, longest: int) -> Line:
    """Return a line of `raw_lines` as text. A byte order mark is dropped from the first line."""
    if isinstance(raw, int):
        return Line(number, "", _too_long(raw, longest))
    reason = fault(raw)
    if reason is not None:
        return Line(number, "", reason)
    text = raw.decode()
    if number == 1:
        text = text.removeprefix(_BYTE_ORDER_MARK)
    return Line(number, text.removesuffix("\n").removesuffix("\r") if text.endswith("\n") else text)


def fault(raw: bytes) -> str | None:
    """Return what is wrong with the bytes of a line; None if they are text."""
    zero = raw.find(b"\0")
    if zero >= 0:
        return f"found a zero byte at byte {zero:,} of the line; expected UTF-8 text"
    try:
        raw.decode()
    except UnicodeDecodeError as error:
        found = raw[error.start : error.start + 1].hex()
        return f"found 0x{found} at byte {error.start:,} of the line; expected UTF-8 text"
    return None


def _too_long(length: int, longest: int) -> str:
    return f"found {length:,} bytes; expected at most {longest:,} (--max-line-bytes)"


class Shard(NamedTuple):
    """Consecutive lines of an input, or rows of a Parquet file.

    number: of the shard in the job, from 0.
    source: number of the input, from 0.
    first: its first line, from 1.
    lines: number of lines.
    begin, end: the bytes of the lines, after decompression.
    """

    number: int
    source: int
    first: int
    lines: int
    begin: int
    end: int

    def is_possible(self, inputs: int) -> bool:
        """Return whether a job with this number of inputs may have this shard."""
        return 0 <= self.source < inputs and self.first >= 1 and self.lines >= 1

    @property
    def last(self) -> int:
        """The number of its last line."""
        return self.first + self.lines - 1

    @property
    def file_name(self) -> str:
        """The name of its Parquet file. Sorted names are in the order of the input."""
        return f"part-{self.number:07d}.parquet"


class ShardCutter:
    """Cuts inputs into shards, line by line.

    lines: number of lines of a shard; the last one of an input may have fewer.
    most: a shard with several lines has fewer lines if it would have more bytes.
    shards: those that are cut.
    """

    def __init__(self, lines: int, most: int = SHARD_BYTES) -> None:
        self._lines, self._most = lines, most
        self.shards: list[Shard] = []

    def cut(self, source: int, lengths: Iterable[int]) -> None:
        """Cut an input. source: its number.  lengths: of its lines in bytes."""
        first, lines, begin, end = 1, 0, 0, 0
        for length in lengths:
            if lines and (lines == self._lines or end + length - begin > self._most):
                self._add(source, first, lines, begin, end)
                first, lines, begin = first + lines, 0, end
            lines += 1
            end += length
        if lines:
            self._add(source, first, lines, begin, end)

    def _add(self, *values: int) -> None:
        self.shards.append(Shard(len(self.shards), *values))


class ShardTask(NamedTuple):
    """A shard for a worker.

    raw: its lines, as `raw_lines` returns them, if the worker cannot read them itself.
    """

    shard: Shard
    source: Source
    raw: tuple[bytes | int, ...] | None = None


@dataclass(frozen=True)
class Source(ABC):
    """One input file, cut into shards of lines.

    name: as the user gave it, for the rows and messages.  path: where workers find it.
    size: in bytes.  modified: time of the last change, in nanoseconds.
    """

    name: str
    path: str
    size: int
    modified: int

    @property
    def id_type(self) -> IdType | None:
        """The type of the ids; None without ids."""
        return None

    @abstractmethod
    def scan(self, longest: int) -> Iterator[tuple[int, str | None]]:
        """Yield the length of each line in bytes, and why it is bad; None for a good line.

        longest: maximum number of bytes of a line.
        """

    @abstractmethod
    def lines(self, task: ShardTask, longest: int) -> Iterator[Line]:
        """Return the lines of a shard. Raises InputError if the input has changed."""

    def tasks(self, shards: Iterable[Shard], longest: int) -> Iterator[ShardTask]:
        """Return the tasks for shards of this input, which are in order."""
        return (ShardTask(shard, self) for shard in shards)

    def _changed(self) -> InputError:
        return InputError(f"{self.name}: changed while the job was running. Start the job again in a new folder.")


@dataclass(frozen=True)
class TextFile(Source):
    """Text with one sentence per line. Workers read the bytes of their shards."""

    def scan(self, longest: int) -> Iterator[tuple[int, str | None]]:
        with open_bytes(self.path) as file:
            for raw in raw_lines(file, longest):
                yield (raw, _too_long(raw, longest)) if isinstance(raw, int) else (len(raw), fault(raw))

    def lines(self, task: ShardTask, longest: int) -> Iterator[Line]:
        shard = task.shard
        try:
            with open(self.path, "rb") as file:
                file.seek(shard.begin)
                for number, raw in enumerate(islice(raw_lines(file, longest), shard.lines), shard.first):
                    yield read_line(raw, number, longest)
                if file.tell() != shard.end:
                    raise self._changed()
        except OSError as error:
            raise system_error(self.path, "read", error) from error


@dataclass(frozen=True)
class CompressedText(TextFile):
    """Compressed text, which can only be read from its start: the process that runs the job sends lines to workers."""

    def tasks(self, shards: Iterable[Shard], longest: int) -> Iterator[ShardTask]:
        with open_bytes(self.path) as file:
            rest = raw_lines(file, longest)
            following = 1
            for shard in shards:
                raw = tuple(islice(rest, shard.first - following, shard.last - following + 1))
                following = shard.last + 1
                if len(raw) != shard.lines:
                    raise self._changed()
                yield ShardTask(shard, self, raw)

    def lines(self, task: ShardTask, longest: int) -> Iterator[Line]:
        assert task.raw is not None
        return (read_line(raw, number, longest) for number, raw in enumerate(task.raw, task.shard.first))


@dataclass(frozen=True)
class ParquetColumn(Source):
    """A column of a Parquet file with one sentence per row. Workers read the row groups of their shards.

    column: the column with the text.  id_column: a column with ids, which are copied to the rows; None: no ids.
    ids: the type of the ids.
    """

    column: str
    id_column: str | None
    ids: IdType | None

    @property
    def id_type(self) -> IdType | None:
        return self.ids

    def scan(self, longest: int) -> Iterator[tuple[int, str | None]]:
        with _opened(self.path, self.name) as file:
            for batch in file.iter_batches(_ROWS, columns=[self.column]):
                for raw in _bytes_of(batch.column(0)):
                    yield len(raw or b""), self._line(raw, 1, longest).fault

    def lines(self, task: ShardTask, longest: int) -> Iterator[Line]:
        shard = task.shard
        with _opened(self.path, self.name) as file:
            metadata = file.metadata
            counts = [metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)]
            ends = list(accumulate(counts))
            groups = [
                number
                for number, (count, end) in enumerate(zip(counts, ends, strict=True))
                if end >= shard.first and end - count < shard.last
            ]
            if not groups or ends[-1] < shard.last:
                raise self._changed()
            columns = [self.column] if self.id_column is None else [self.column, self.id_column]
            number = ends[groups[0]] - counts[groups[0]] + 1
            for batch in file.iter_batches(_ROWS, row_groups=groups, columns=columns):
                skipped = max(0, min(shard.first - number, len(batch)))
                wanted = batch.slice(skipped, max(0, shard.last - number - skipped + 1))
                ids = [None] * len(wanted) if self.id_column is None else wanted.column(self.id_column).to_pylist()
                for place, (raw, id) in enumerate(zip(_bytes_of(wanted.column(self.column)), ids, strict=True)):
                    yield self._line(raw, number + skipped + place, longest)._replace(id=id)
                number += len(batch)

    def _line(self, raw: bytes | None, number: int, longest: int) -> Line:
        if raw is None:
            return Line(number, "", f"column {self.column!r} is empty; expected text")
        if len(raw) > longest:
            return read_line(len(raw), number, longest)
        reason = fault(raw)
        return Line(number, raw.decode() if reason is None else "", reason)


def open_source(name: str, column: str | None, id_column: str | None) -> Source:
    """Return an input by its name. Its format follows from its content or, for Parquet, from its name.

    column: the column of a Parquet file that has the text; None: `text`.  id_column: see `ParquetColumn`.
    Raises InputError for a file that cannot be read, and for a column that does not exist or has another type.
    """
    if name == STANDARD_INPUT:
        raise InputError("standard input: cannot be read again when the job is resumed; expected a file")
    path = os.path.abspath(name)
    if os.path.exists(path) and not os.path.isfile(path):
        raise InputError(f"{name}: not a regular file; expected text or Parquet")
    open_bytes(name).close()  # raises InputError
    status = os.stat(path)
    facts = (name, path, status.st_size, status.st_mtime_ns)
    if Path(name).suffix.lower() == PARQUET:
        column = "text" if column is None else column
        return ParquetColumn(*facts, column, id_column, _checked_columns(name, column, id_column))
    for option, value in (("--column", column), ("--id-column", id_column)):
        if value is not None:
            raise InputError(
                f"{name}: is not a Parquet file, so it has no column {value!r} ({option}); expected a name that ends in"
                f" {PARQUET}, or no {option}"
            )
    from syntaxlm.data.corpora import read_lines

    read_lines(name)  # raises InputError for the name of a treebank
    return CompressedText(*facts) if is_compressed(name) else TextFile(*facts)


def _checked_columns(name: str, column: str, id_column: str | None) -> IdType | None:
    """Check the columns of a Parquet file and return the type of its ids. Raises InputError."""
    from pyarrow import types

    with _opened(name, name) as file:
        schema = file.schema_arrow
    for one in (column, id_column):
        if one is not None and one not in schema.names:
            raise InputError(f"{name}: no column {one!r}; found {', '.join(schema.names)}")
        if (count := schema.names.count(one)) > 1:
            raise InputError(
                f"{name}: {'two' if count == 2 else count} columns are named {one!r}; expected one. Rename them."
            )
    found = schema.field(column).type
    if types.is_dictionary(found):
        found = found.value_type
    if not (types.is_string(found) or types.is_large_string(found)):
        raise InputError(f"{name}: column {column!r} has the type {found}; expected text")
    if id_column is None:
        return None
    found = schema.field(id_column).type
    if types.is_integer(found):
        return "integer"
    if types.is_string(found) or types.is_large_string(found):
        return "text"
    raise InputError(f"{name}: column {id_column!r} has the type {found}; expected integers or text as ids")


@contextmanager
def _opened(path: str, name: str) -> Iterator[Any]:
    """Return a pyarrow.parquet.ParquetFile.

    name: of the file, for messages.
    Raises InputError if the file cannot be read or is damaged, also for errors of pyarrow in the block.
    """
    from syntaxlm.core.tables import check_parquet

    check_parquet()
    import pyarrow
    from pyarrow.parquet import ParquetFile

    problem = "not a Parquet file, or damaged"
    try:
        with ParquetFile(path) as file:
            problem = "damaged"
            yield file
    except pyarrow.ArrowMemoryError:
        raise
    except (OSError, pyarrow.ArrowException, UnicodeDecodeError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise system_error(name, "read", error) from error
        if isinstance(error, pyarrow.ArrowNotImplementedError):  # such as an unknown compression
            problem = "cannot be read"
        reason = "".join(sign if sign.isprintable() else "?" for sign in str(error).split("\n")[0])
        raise InputError(f"{name}: {problem}: {reason}") from error


def _bytes_of(texts: Any) -> list[bytes | None]:
    import pyarrow

    found: list[bytes | None] = texts.cast(pyarrow.large_string()).cast(pyarrow.large_binary()).to_pylist()
    return found
