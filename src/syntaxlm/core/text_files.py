"""Reading text files: opens, decompresses and decodes the files that a user names.

All readers accept plain files, .gz, .xz and .zst files, and "-", standard input. The content decides how a file is
decompressed; a name with the suffix of another format is an error. Reading is streamed: decompressors return a few
megabytes at a time, so an archive that expands without end does not fill memory. Readers that hold a whole text have a
limit.
"""

from __future__ import annotations

import io
import lzma
import os
import re
import sys
import weakref
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from syntaxlm.core.errors import InputError
from syntaxlm.core.files import decode_text, memory_size, system_error

STANDARD_INPUT = "-"
MAXIMUM_TEXT = 2**30  # bytes after decompression of a text that is read as a whole
MAXIMUM_LINE = 2**29  # bytes; text8, one line, has 10^8
LINES_TOGETHER = (
    2_000  # processed together: enough for batches of similar length, few enough for memory and early output
)

_PIECE = 2**18  # bytes read, or decompressed, at a time
_MAXIMUM_WINDOW = 2**29  # bytes of memory that a decompressor may take; xz -9 takes 2^26, zstd --ultra -22 2^27
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class _Damaged(Exception):
    """Raised for compressed data that cannot be decompressed, with the reason."""


class _Compression(NamedTuple):
    """A format of compressed files.

    start: the first bytes of the content.  open: returns a new decompressor, and the error that it raises.
    most: bytes that it takes at a time; None: any number, because it returns at most `_PIECE` bytes at a time.
    """

    name: str
    start: re.Pattern[bytes]
    open: Callable[[], tuple[Any, type[Exception]]]
    most: int | None = None


def _open_zstandard() -> tuple[Any, type[Exception]]:
    import zstandard  # imported here because few files need it

    return zstandard.ZstdDecompressor(max_window_size=_MAXIMUM_WINDOW).decompressobj(), zstandard.ZstdError


_COMPRESSIONS = {
    ".gz": _Compression(
        "gzip",
        re.compile(rb"\x1f\x8b"),
        lambda: (zlib.decompressobj(31), zlib.error),  # 31: with a gzip header and checksum, of any window
    ),
    ".xz": _Compression(
        "xz",
        re.compile(rb"\xfd7zXZ\x00"),
        lambda: (lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_MAXIMUM_WINDOW), lzma.LZMAError),
    ),
    # Each byte given to zstandard may expand to 32,768.
    ".zst": _Compression("zstd", re.compile(rb"\x28\xb5\x2f\xfd|[\x50-\x5f]\x2a\x4d\x18"), _open_zstandard, 2**10),
}


class _Member:
    """A compressed stream; a file may contain several, one after another."""

    def __init__(self, compression: _Compression) -> None:
        self._stream, self._error = compression.open()
        self._most = compression.most

    @property
    def is_complete(self) -> bool:
        return bool(self._stream.eof)

    @property
    def needs_input(self) -> bool:
        return getattr(self._stream, "needs_input", True)

    def take(self, data: bytes) -> tuple[bytes, bytes]:
        """Return some decompressed bytes (or none), and the data that is not yet used. Raises _Damaged."""
        given, rest = (data, b"") if self._most is None else (data[: self._most], data[self._most :])
        try:
            content = self._stream.decompress(given, *([_PIECE] if self._most is None else []))
        except self._error as error:
            raise _Damaged(error) from error
        unused = self._stream.unused_data if self._stream.eof else getattr(self._stream, "unconsumed_tail", b"")
        return content, unused + rest


_ARCHIVES = {  # formats that are not supported; their first bytes are not text
    "bzip2": re.compile(rb"BZh[1-9]1AY"),
    "zip": re.compile(rb"PK\x03\x04"),
    "7-Zip": re.compile(rb"7z\xbc\xaf\x27\x1c"),
    "compress (.Z)": re.compile(rb"\x1f\x9d"),
}
COMPRESSED_SUFFIXES = tuple(_COMPRESSIONS)
_START = 8  # bytes that identify the format


def uncompressed_name(path: str | Path) -> Path:
    """Return a path without the suffix of its compression: train.conllu of train.conllu.gz."""
    path = Path(path)
    return path.with_suffix("") if path.suffix.lower() in COMPRESSED_SUFFIXES else path


def content_suffix(path: str | Path) -> str:
    """Return the suffix for the content of a file, in lower case: .conllu of train.conllu.gz."""
    return uncompressed_name(path).suffix.lower()


def source_name(path: object) -> str:
    """Return the name of a path, or of another source of text, in messages."""
    return "standard input" if str(path) == STANDARD_INPUT else str(path)


def no_sentence(path: object, expected: str = "one sentence per line") -> InputError:
    """Return the error for a file without sentences. expected: a description of what is missing."""
    return InputError(f"{source_name(path)}: found no sentence; expected {expected}")


def is_compressed(path: str | Path) -> bool:
    """Return whether the content of a file (not of standard input) is compressed. Raises InputError as `open_bytes`
    does.
    """
    with open_bytes(path) as file:
        source = file.raw
        assert isinstance(source, _Source)
        return source.compression is not None


def plain_size(path: str | Path) -> int | None:
    """Return the bytes of an uncompressed file; None if the length is unknown (standard input, a pipe, or a compressed
    file).

    Raises InputError as `open_bytes` does.
    """
    if str(path) == STANDARD_INPUT or not os.path.isfile(path) or is_compressed(path):
        return None
    return os.path.getsize(path)


def check_encodable(text: str, place: str) -> None:
    """Raise InputError for half of a surrogate pair: no UTF-8 file can contain it, so no result could be written.

    place: name of the text in the message.
    """
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InputError(
            f"{place}: found {text[error.start]!r} at character {error.start + 1}, half of a surrogate pair or a byte"
            " that is not UTF-8; expected Unicode text"
        ) from None


def line_bytes(line: str) -> int:
    """Return the bytes of a line of UTF-8 text, including its line end."""
    return len(line.encode()) + 1


def open_bytes(path: str | Path) -> io.BufferedReader:
    """Open a file, or "-" (standard input), for reading, and decompress it if necessary.

    Raises InputError, on opening and on every read, if the file cannot be read, is truncated or damaged, is an archive
    of an unsupported format, or if its name has the suffix of a compression that the content does not have.
    """
    file = _plain(path)
    try:
        return io.BufferedReader(_Source(file, path), _PIECE)
    except BaseException:
        file.close()
        raise


def read_bytes(path: str | Path, most: int = MAXIMUM_TEXT) -> bytes:
    """Return the whole content of a file, decompressed.

    most: limit in bytes, for decompressed data, pipes and standard input; plain files may have the size of the memory.
    Raises InputError as `open_bytes` does, and if the limit is exceeded.
    """
    return b"".join(_limited(path, most))


def read_whole_text(path: str | Path, most: int = MAXIMUM_TEXT) -> str:
    """Return the whole text of a UTF-8 file without byte order mark; line ends are not changed.

    Raises InputError as `read_bytes` does, and as `decode_text` does if the content is not UTF-8 text.
    """
    pieces: list[bytes] = []
    for piece in _limited(path, most):
        pieces.append(piece)
        if b"\0" in piece:  # not text: the rest need not be read
            break
    return decode_text(b"".join(pieces), source_name(path))


def _limited(path: str | Path, most: int) -> Iterator[bytes]:
    with open_bytes(path) as file:
        source = file.raw
        assert isinstance(source, _Source)
        if source.size is not None and source.size > memory_size():
            raise InputError(
                f"{source_name(path)}: has {source.size / 2**30:,.1f} GiB and is read as a whole; this machine has"
                f" {memory_size() / 2**30:,.1f} GiB of memory. Split it"
            )
        length = 0
        while piece := file.read1(_PIECE):
            length += len(piece)
            if length > most and not source.is_plain:
                raise InputError(
                    f"{source_name(path)}: more than {most / 2**20:,.0f} MiB after decompression, the limit for what"
                    " is read as a whole. Split it, or write it to a plain file, which may be larger."
                )
            yield piece


def read_lines(path: str | Path) -> Iterator[tuple[int, str]]:
    """Yield the lines of a UTF-8 file, numbered from 1, without line ends (\\n, \\r\\n) and byte order mark.

    Only one line, of at most `MAXIMUM_LINE` bytes, is held in memory.
    Raises InputError as `open_bytes` does; for binary content and text that is not UTF-8, with line and byte offset
    (after decompression, from 0); and for a line that is too long.
    """
    offset = 0
    with open_bytes(path) as file:
        for number, raw in enumerate(_raw_lines(file, source_name(path)), 1):
            length = len(raw)
            if number == 1 and raw.startswith(_BYTE_ORDER_MARK):
                raw = raw[len(_BYTE_ORDER_MARK) :]
                if not raw:  # nothing after the mark: an empty file
                    return
            try:
                line = raw.decode("utf-8")
            except UnicodeDecodeError:
                line = "\0"
            if "\0" in line:
                decode_text(raw, source_name(path), number, offset + length - len(raw))
            offset += length
            yield number, line.removesuffix("\n").removesuffix("\r") if line.endswith("\n") else line


def _raw_lines(file: BinaryIO, source: str) -> Iterator[bytes]:
    """Yield lines with their ends. One with a zero byte may be cut short after it."""
    for number, line in enumerate(iter(partial(file.readline, _PIECE), b""), 1):
        if len(line) < _PIECE or line.endswith(b"\n"):
            yield line
            continue
        pieces = [line]
        length = len(line)
        while b"\0" not in pieces[-1] and not pieces[-1].endswith(b"\n"):
            pieces.append(file.readline(_PIECE))
            length += len(pieces[-1])
            if not pieces[-1]:
                break
            if length > MAXIMUM_LINE:
                raise InputError(
                    f"{source}, line {number}: more than {MAXIMUM_LINE / 2**20:,.0f} MiB in one line; expected text"
                    " with shorter lines"
                )
        yield b"".join(pieces)


_taken: weakref.WeakSet[Any] = weakref.WeakSet()  # standard inputs that were already opened


def _plain(path: str | Path) -> io.BufferedReader:
    """Open a file without decompression. Raises InputError."""
    if str(path) == STANDARD_INPUT:
        buffer = getattr(sys.stdin, "buffer", None)
        if buffer is None:
            raise InputError("standard input: not available; expected a file")
        if buffer in _taken:
            raise InputError("standard input: already read; - can be given for only one file")
        _taken.add(buffer)
        return io.BufferedReader(_Unclosed(buffer), _PIECE)
    try:
        return open(path, "rb")
    except OSError as error:
        beside = [f"{path}{suffix}" for suffix in COMPRESSED_SUFFIXES if os.path.exists(f"{path}{suffix}")]
        hint = f". Did you mean {beside[0]}?" if isinstance(error, FileNotFoundError) and beside else ""
        raise InputError(f"{system_error(path, 'read', error)}{hint}") from error


class _Unclosed(io.RawIOBase):
    """A stream that remains open when its reader is closed."""

    def __init__(self, stream: BinaryIO) -> None:
        self._read = stream.read1 if hasattr(stream, "read1") else stream.read

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        piece = self._read(len(buffer))
        buffer[: len(piece)] = piece
        return len(piece)


class _Source(io.RawIOBase):
    """The decompressed content of a file; all reading errors are InputErrors that name it."""

    def __init__(self, file: io.BufferedReader, path: str | Path) -> None:
        self._file, self._name, self._rest = file, source_name(path), memoryview(b"")
        self._pieces: Iterator[bytes]
        try:
            start = file.read(_START)
        except OSError as error:
            raise system_error(self._name, "read", error) from error
        self.compression = self._compression(path, start)
        is_file = str(path) != STANDARD_INPUT and os.path.isfile(path)
        self.is_plain = self.compression is None and is_file
        self.size = os.path.getsize(path) if self.is_plain else None
        pieces = chain([start] if start else [], iter(partial(file.read1, _PIECE), b""))
        self._pieces = pieces if self.compression is None else _decompressed(pieces, self.compression)

    def _compression(self, path: str | Path, start: bytes) -> _Compression | None:
        """Return the format of a file's first bytes, None for a plain file. Raises InputError if its name does not
        match.
        """
        detected = next((format for format in _COMPRESSIONS.values() if format.start.match(start)), None)
        archive = next((name for name, pattern in _ARCHIVES.items() if pattern.match(start)), None)
        supported = ", ".join(COMPRESSED_SUFFIXES)
        if archive is not None:
            raise self._fault(f"found a {archive} archive; expected plain text or {supported}. Decompress it first.")
        promised = None if str(path) == STANDARD_INPUT else _COMPRESSIONS.get(Path(path).suffix.lower())
        if promised not in (None, detected):
            content = detected.name + " data" if detected else "an empty file" if not start else "uncompressed content"
            raise self._fault(
                f"found {content} in a file with the suffix {Path(path).suffix}; expected {promised.name} data, or a"
                " name that matches the content"
            )
        return detected

    def _fault(self, message: str) -> InputError:
        return InputError(f"{self._name}: {message}")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if not self._rest:
            try:
                self._rest = memoryview(next(self._pieces, b""))
            except EOFError:
                raise self._fault("truncated: the compressed data ends too early. Copy or download it again.") from None
            except _Damaged as error:
                raise self._fault(f"cannot be decompressed: {error}") from error
            except OSError as error:
                raise system_error(self._name, "read", error) from error
        size = min(len(buffer), len(self._rest))
        buffer[:size] = self._rest[:size]
        self._rest = self._rest[size:]
        return size

    def close(self) -> None:
        self._file.close()
        super().close()


def _decompressed(pieces: Iterator[bytes], compression: _Compression) -> Iterator[bytes]:
    """Yield the content of successive compressed members; zero bytes between them are ignored.

    Raises EOFError for a truncated member, and _Damaged.
    """
    rest = next(pieces, b"")
    while rest:
        member = _Member(compression)
        while not member.is_complete:
            if not rest and member.needs_input:
                rest = next(pieces, b"")
                if not rest:
                    raise EOFError
            content, rest = member.take(rest)
            if content:
                yield content
        rest = rest.lstrip(b"\0")
        while not rest and (piece := next(pieces, b"")):
            rest = piece.lstrip(b"\0")
