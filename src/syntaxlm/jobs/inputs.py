"""The inputs of a job: text files, compressed text files and columns of Parquet files, cut into shards of lines."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, BinaryIO, Literal, NamedTuple

from syntaxlm.core.errors import LONGEST_NAME, InputError, listed, shortened
from syntaxlm.core.files import check_name, system_error
from syntaxlm.core.remote_files import address_of
from syntaxlm.core.text_files import PARQUET, STANDARD_INPUT, has_cr_line_ends, is_compressed, open_bytes
from syntaxlm.core.work import Progress
from syntaxlm.data.parquet import TEXT_COLUMN, check_column, is_parquet, parquet_types, reading_parquet
from syntaxlm.data.plain_text import check_start
from syntaxlm.data.tables import LARGEST_INTEGER

if TYPE_CHECKING:
    import polars

SHARD_BYTES = 1 << 26  # maximum size of a shard of several lines
_EXAMINED = 2**20  # bytes at the start of a text whose form is checked before the job
IdType = Literal["integer", "unsigned integer", "text"]

_PIECE = 1 << 22  # bytes read at a time
_ROWS = 4096  # of a Parquet file that are read at a time
_BYTE_ORDER_MARK = "\ufeff"


class BadLine(NamedTuple):
    """A line that cannot be parsed or scored.

    Attributes:
        file: name of the input.
        line: its number in the file, from 1.
        reason: what was found, and what was expected.
    """

    file: str
    line: int
    reason: str

    def __str__(self) -> str:
        return f"{self.file}, line {self.line:,}: {self.reason}"


class Line(NamedTuple):
    """A line, or a row of a Parquet file.

    Attributes:
        number: from 1.
        text: without its line end; "" for a bad line.
        fault: why it is bad; None for a good line.
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


def fault(raw: bytes | int, longest: int) -> str | None:
    """Return what is wrong with a line of `raw_lines`; None if it is text."""
    if isinstance(raw, int):
        return f"found {raw:,} bytes; expected at most {longest:,} (--max-line-bytes)"
    zero = raw.find(b"\0")
    if zero >= 0:
        return f"found a zero byte at byte {zero:,} of the line; expected UTF-8 text"
    try:
        raw.decode()
    except UnicodeDecodeError as error:
        wrong = raw[error.start : error.start + 1].hex()
        return f"found 0x{wrong} at byte {error.start:,} of the line; expected UTF-8 text"
    return None


class Shard(NamedTuple):
    """Consecutive lines of an input, or rows of a Parquet file.

    Attributes:
        number: the number of the shard in the job, from 0.
        source: number of the input, from 0.
        first: its first line, from 1.
        lines: number of lines.
        begin: first byte of the lines, after decompression.
        end: byte after the lines, after decompression.
    """

    number: int
    source: int
    first: int
    lines: int
    begin: int
    end: int

    @property
    def last(self) -> int:
        """The number of its last line."""
        return self.first + self.lines - 1

    @property
    def file_name(self) -> str:
        """The name of its Parquet file. Sorted names are in the order of the input."""
        return f"part-{self.number:07d}.parquet"


class ShardTask(NamedTuple):
    """A shard for a worker.

    Attributes:
        raw: its lines, as `raw_lines` returns them, if the worker cannot read them itself.
    """

    shard: Shard
    source: Source
    raw: tuple[bytes | int, ...] | None = None


@dataclass(frozen=True)
class Source(ABC):
    """One input file, cut into shards of lines.

    Attributes:
        name: as the user gave it, for the rows and messages.
        path: where workers find it.
        size: in bytes.
        modified: time of the last change, in nanoseconds.
        id_type: type of the ids; None without ids.
    """

    name: str
    path: str
    size: int
    modified: int
    id_type: IdType | None

    @abstractmethod
    def scan(self, longest: int) -> Iterator[tuple[int, str | None]]:
        """Yield the length of each line in bytes, and why it is bad; None for a good line.

        Args:
            longest: maximum number of bytes of a line.
        """

    @abstractmethod
    def start(self) -> list[str]:
        """Return the first lines, whose form is examined."""

    @abstractmethod
    def lines(self, task: ShardTask, longest: int) -> Iterator[Line]:
        """Yield the lines of a shard. Raises InputError if the input has changed."""

    def tasks(self, shards: Iterable[Shard], longest: int) -> Iterator[ShardTask]:
        """Return the tasks for shards of this input, which are in order."""
        return (ShardTask(shard, self) for shard in shards)

    def check_unchanged(self) -> None:
        """Raise InputError if the file no longer has the size and the time of the last change that it had at first."""
        try:
            status = os.stat(self.path)
        except OSError as error:
            raise system_error(self.path, "read", error) from error
        if (status.st_size, status.st_mtime_ns) != (self.size, self.modified):
            raise self._changed()

    def _changed(self) -> InputError:
        return InputError(f"{self.name}: changed while the job was running. Start the job again in a new folder.")


@dataclass(frozen=True)
class TextFile(Source):
    """Text with one sentence per line. Workers read the bytes of their shards."""

    def scan(self, longest: int) -> Iterator[tuple[int, str | None]]:
        with open_bytes(self.path) as file:
            for raw in raw_lines(file, longest):
                yield raw if isinstance(raw, int) else len(raw), fault(raw, longest)

    def start(self) -> list[str]:
        with open_bytes(self.name) as file:
            return file.read(_EXAMINED).decode("utf-8", "replace").removeprefix(_BYTE_ORDER_MARK).split("\n")

    def lines(self, task: ShardTask, longest: int) -> Iterator[Line]:
        try:
            with open(self.path, "rb") as file:
                file.seek(task.shard.begin)
                yield from self._as_text(islice(raw_lines(file, longest), task.shard.lines), task, longest)
                if file.tell() != task.shard.end:
                    raise self._changed()
        except OSError as error:
            raise system_error(self.path, "read", error) from error

    def _as_text(self, raw_lines: Iterable[bytes | int], task: ShardTask, longest: int) -> Iterator[Line]:
        for number, raw in enumerate(raw_lines, task.shard.first):
            reason = fault(raw, longest)
            if isinstance(raw, int) or reason is not None:
                yield Line(number, "", reason)
                continue
            text = raw.decode()
            if number == 1:
                text = text.removeprefix(_BYTE_ORDER_MARK)
            yield Line(number, text.removesuffix("\n").removesuffix("\r") if text.endswith("\n") else text)


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
        return self._as_text(task.raw, task, longest)


@dataclass(frozen=True)
class ParquetColumn(Source):
    """A column of a Parquet file with one sentence per row. Workers read the row groups of their shards.

    Attributes:
        column: the column with the text.
        id_column: a column with ids, which are copied to the rows; None: no ids.
    """

    column: str
    id_column: str | None

    def scan(self, longest: int) -> Iterator[tuple[int, str | None]]:
        with reading_parquet(self.name):
            for batch in self._texts().collect_batches(chunk_size=_ROWS, maintain_order=True):
                for text in batch[self.column].to_list():
                    raw = None if text is None else text.encode()
                    yield len(raw or b""), self._fault(raw, longest)

    def start(self) -> list[str]:
        with reading_parquet(self.name):
            texts = self._texts().head(_ROWS).collect()[self.column].to_list()
        return [text or "" for text in texts]

    def lines(self, task: ShardTask, longest: int) -> Iterator[Line]:
        shard = task.shard
        with reading_parquet(self.name):
            rows = self._texts().slice(shard.first - 1, shard.lines).collect()
        if len(rows) < shard.lines:
            raise self._changed()

        ids = [None] * len(rows) if self.id_column is None else rows[self.id_column].to_list()
        texts = rows[self.column].to_list()
        for number, (text, id) in enumerate(zip(texts, ids, strict=True), shard.first):
            reason = self._fault(None if text is None else text.encode(), longest)
            yield Line(number, text if text is not None and reason is None else "", reason, id)

    def _texts(self) -> polars.LazyFrame:
        """Return the columns of texts and ids, not read yet."""
        import polars

        columns = {self.column: polars.col(self.column).cast(polars.String)}
        if self.id_column is not None:
            columns.setdefault(self.id_column, polars.col(self.id_column))
        return polars.scan_parquet(self.path, glob=False).select(*columns.values())

    def _fault(self, raw: bytes | None, longest: int) -> str | None:
        if raw is None:
            return f"column {self.column!r} is empty; expected text"
        return fault(raw if len(raw) <= longest else len(raw), longest)


def cut_shards(
    sources: Sequence[Source], shards: list[Shard], lines: int, longest: int, work: Progress, most: int = SHARD_BYTES
) -> Iterator[BadLine]:
    """Cut inputs into shards, and yield their bad lines.

    Args:
        shards: a list, to which the shards are added.
        lines: number of lines of a shard; the last one of an input may have fewer.
        longest: maximum number of bytes of a line.
        work: counts the lines.
        most: a shard with several lines has fewer lines if it would have more bytes.
    """
    for place, source in enumerate(sources):
        first = 1
        count = 0
        begin = 0
        end = 0
        for length, reason in source.scan(longest):
            if count and (count == lines or end + length - begin > most):
                shards.append(Shard(len(shards), place, first, count, begin, end))
                first = first + count
                count = 0
                begin = end
            count += 1
            end += length
            work.done += 1
            if reason is not None:
                yield BadLine(source.name, first + count - 1, reason)
        if count:
            shards.append(Shard(len(shards), place, first, count, begin, end))


def open_source(name: str, column: str | None, id_column: str | None) -> Source:
    """Return an input by its name. Its format follows from its content or, for Parquet, from its name.

    Args:
        column: the column of a Parquet file that has the text; None: `text`.
        id_column: see `ParquetColumn`.

    Raises:
        InputError: for a file that cannot be read, and for a column that does not exist or has another type.
    """
    if name == STANDARD_INPUT:
        raise InputError("standard input: cannot be read again when the job is resumed; expected a file")
    if address_of(name) is not None:
        raise InputError(f"{name}: a job reads parts of a file in any order; expected a file of this machine")
    check_name(name)
    path = os.path.abspath(name)
    if os.path.exists(path) and not os.path.isfile(path):
        raise InputError(f"{name}: not a regular file; expected text or Parquet")
    if not is_parquet(name):
        open_bytes(name).close()  # raises InputError
    status = os.stat(path)
    facts = (name, path, status.st_size, status.st_mtime_ns)
    if is_parquet(name):
        column = TEXT_COLUMN if column is None else column
        return _checked(ParquetColumn(*facts, _checked_columns(name, column, id_column), column, id_column))
    for option, value in (("--column", column), ("--id-column", id_column)):
        if value is not None:
            raise InputError(
                f"{name}: is not a Parquet file, so it has no column {value!r} ({option}); expected a name that ends in"
                f" {PARQUET}, or no {option}"
            )
    from syntaxlm.data.corpora import read_lines

    read_lines(name)  # raises InputError for the name of a treebank
    if has_cr_line_ends(name):
        raise InputError(
            f"{name}: found lines that end in \\r; a job expects \\n. Convert it, for example with: tr '\\r' '\\n'"
        )
    return _checked((CompressedText if is_compressed(name) else TextFile)(*facts, None))


def _checked(source: Source) -> Source:
    """Return an input. Raises InputError if its first lines are not those of a text."""
    check_start(source.start(), source.name)
    return source


def _checked_columns(name: str, column: str, id_column: str | None) -> IdType | None:
    """Check the columns of a Parquet file and return the type of its ids. Raises InputError."""
    import polars

    types = parquet_types(name)
    check_column(name, column, types)
    if id_column is None:
        return None
    if id_column not in types:
        raise InputError(f"{name}: no column {shortened(id_column, LONGEST_NAME)!r}; found {listed(types)}")
    if types[id_column].is_integer():
        with reading_parquet(name):
            largest = polars.scan_parquet(name, glob=False).select(polars.col(id_column).max()).collect().item()
        return "unsigned integer" if (largest or 0) > LARGEST_INTEGER else "integer"
    if isinstance(types[id_column], polars.String):
        return "text"
    raise InputError(f"{name}: column {id_column!r} has the type {types[id_column]}; expected integers or text as ids")
