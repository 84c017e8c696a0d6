"""Lines of text as bytes: reading them one by one, and finding line ends and bad lines in large blocks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

import numpy as np
import numpy.typing as npt

Lengths = npt.NDArray[np.int64]

_PIECE = 1 << 22  # bytes read at a time
_NEWLINE = ord("\n")
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


def scan(file: BinaryIO, name: str, longest: int) -> Iterator[tuple[Lengths, list[BadLine]]]:
    """Yield the lengths of all lines in bytes, with their ends, and the bad lines, some megabytes at a time.

    name: of the file, for the bad lines.  longest: maximum number of bytes of a line, including its end.
    """
    number = 1
    rest = b""  # the start of a line
    dropped = 0  # bytes of that line that were read before and not kept, because it is too long
    while True:
        piece = file.read(_PIECE)
        data = rest + piece
        end = data.rfind(b"\n") + 1 if piece else len(data)
        block, rest = data[:end], data[end:]
        if block or (dropped and not piece):
            ends = np.flatnonzero(np.frombuffer(block, np.uint8) == _NEWLINE) + 1
            if not block.endswith(b"\n"):
                ends = np.append(ends, len(block))
            lengths = np.diff(ends, prepend=0)
            lengths[0] += dropped
            dropped = 0
            yield lengths, _bad_lines(block, ends, lengths, name, number, longest)
            number += len(lengths)
        if not piece:
            return
        if len(rest) > longest:
            dropped += len(rest)
            rest = b""


def _bad_lines(block: bytes, ends: Lengths, lengths: Lengths, name: str, first: int, longest: int) -> list[BadLine]:
    if lengths.max() <= longest and fault(block) is None:
        return []
    bad = []
    start = 0
    for number, (end, length) in enumerate(zip(ends.tolist(), lengths.tolist(), strict=True), first):
        reason = _too_long(length, longest) if length > longest else fault(block[start:end])
        if reason is not None:
            bad.append(BadLine(name, number, reason))
        start = end
    return bad


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
