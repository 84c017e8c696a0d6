"""Reading text files: opens, decompresses and decodes the files that a user names.

All readers accept plain files, .gz, .bz2, .xz, .zst and .zip files, addresses of remote files, and "-", standard input.
The content decides how a file is decompressed; a name with the suffix of another format is an error. Reading is
streamed: decompressors return a few hundred kilobytes at a time, so an archive that expands without end does not fill
memory. Readers that hold a whole text have a limit.

The decompressors are those of the standard library. Its file objects are not used, because they ignore what follows
zero bytes between two compressed streams, and whatever else cannot be decompressed after the first stream.
"""

from __future__ import annotations

import bz2
import glob
import io
import lzma
import os
import re
import sys
import weakref
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from syntaxlm.core.errors import InputError, listed, warn_caller
from syntaxlm.core.files import decode_text, system_error
from syntaxlm.core.foreign_files import ARCHIVE, foreign_format
from syntaxlm.core.reading import ReadingReport, Remarks, announce
from syntaxlm.core.remote_files import address_of, files_matching, local_copy
from syntaxlm.core.systems import memory_size
from syntaxlm.core.threads import publishing

STANDARD_INPUT = "-"
PARQUET = ".parquet"
MAXIMUM_TEXT = 2**30  # bytes after decompression of a text that is read as a whole
MAXIMUM_LINE = 2**29  # bytes; text8, one line, has 10^8
LINES_TOGETHER = (
    2_000  # processed together: enough for batches of similar length, few enough for memory and early output
)

_PIECE = 2**18  # bytes read, or decompressed, at a time
_MAXIMUM_WINDOW = 2**29  # bytes of memory that a decompressor may take; xz -9 takes 2^26, zstd --ultra -22 2^27
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_BYTE_ORDER_MARKS = re.compile("(?<=[\r\n])\ufeff")  # of joined files


class _Compression(NamedTuple):
    """A format of compressed files.

    Attributes:
        name: of the format.
        start: the first bytes of the content.
        open: returns a new decompressor, and the error that it raises. None for an archive of files.
    """

    name: str
    start: re.Pattern[bytes]
    open: Callable[[], tuple[Any, type[Exception]]] | None


def _open_zstandard() -> tuple[Any, type[Exception]]:
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd  # imported here because few files need it
    options = {int(zstd.DecompressionParameter.window_log_max): _MAXIMUM_WINDOW.bit_length() - 1}
    return zstd.ZstdDecompressor(options=options), zstd.ZstdError


_COMPRESSIONS = {
    ".gz": _Compression(
        "gzip",
        re.compile(rb"\x1f\x8b"),
        lambda: (zlib.decompressobj(31), zlib.error),  # 31: with a gzip header and checksum, of any window
    ),
    ".bz2": _Compression("bzip2", re.compile(rb"BZh[1-9]"), lambda: (bz2.BZ2Decompressor(), OSError)),
    ".xz": _Compression(
        "xz",
        re.compile(rb"\xfd7zXZ\x00"),
        lambda: (lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_MAXIMUM_WINDOW), lzma.LZMAError),
    ),
    ".zst": _Compression("zstd", re.compile(rb"\x28\xb5\x2f\xfd|[\x50-\x5f]\x2a\x4d\x18"), _open_zstandard),
    ".zip": _Compression("zip", re.compile(rb"PK\x03\x04"), None),
}
_ARCHIVES = {  # formats that are not supported; their first bytes are not text
    "7-Zip": re.compile(rb"7z\xbc\xaf\x27\x1c"),
    "compress (.Z)": re.compile(rb"\x1f\x9d"),
}
COMPRESSED_SUFFIXES = tuple(_COMPRESSIONS)
_START = 10  # bytes that identify the format


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
    """Return the error for a file without sentences.

    Args:
        expected: a description of what is missing.
    """
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
    """Return the bytes of an uncompressed text file; None if the length is unknown (standard input, a pipe, or a
    compressed, Parquet or remote file).

    Raises:
        InputError: as `open_bytes` does.
    """
    is_other = str(path) == STANDARD_INPUT or Path(path).suffix.lower() == PARQUET
    if is_other or not os.path.isfile(path) or is_compressed(path):
        return None
    return os.path.getsize(path)


def check_encodable(text: str, place: str) -> None:
    """Raise InputError for half of a surrogate pair: no UTF-8 file can contain it, so no result could be written.

    Args:
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
    if str(path) == STANDARD_INPUT:
        file = getattr(sys.stdin, "buffer", None)
        if file is None:
            raise InputError("standard input: not available; expected a file")
        with publishing:
            is_taken = file in _taken
            _taken.add(file)
        if is_taken:
            raise InputError("standard input: already read; - can be given for only one file")
        return io.BufferedReader(_Source(file, path), _PIECE)
    file = open_raw(path)
    try:
        return io.BufferedReader(_Source(file, path), _PIECE)
    except BaseException:
        file.close()
        raise


def local_file(path: str | Path) -> Path:
    """Return the copy of a remote file, see `local_copy`, or the path of a local one. Raises InputError."""
    address = address_of(path)
    return Path(path) if address is None else local_copy(address)


def text_files_of(path: str | Path) -> list[str | Path]:
    """Return the files of a text, sorted: those that match a pattern such as train-*.txt, otherwise the path itself.

    Raises:
        InputError: if no file matches a pattern, and as `local_copy` does for a pattern of remote files.
    """
    pattern = str(path)
    address = address_of(path)
    is_file = os.path.exists(path) or pattern.startswith(("http://", "https://"))  # servers do not list files
    if is_file or glob.escape(pattern) == pattern:
        return [path]
    files = sorted(glob.glob(pattern, recursive=True)) if address is None else files_matching(address)
    if not files:
        raise InputError(f"{pattern}: no such file, and no file matches this pattern")
    return [*files]


def open_raw(path: str | Path) -> io.BufferedReader:
    """Open a local or remote file, which is not decompressed. Raises InputError."""
    try:
        return open(local_file(path), "rb")
    except OSError as error:
        beside = [f"{path}{suffix}" for suffix in COMPRESSED_SUFFIXES if os.path.exists(f"{path}{suffix}")]
        hint = f". Did you mean {beside[0]}?" if isinstance(error, FileNotFoundError) and beside else ""
        raise InputError(f"{system_error(path, 'read', error)}{hint}") from error


_taken: weakref.WeakSet[Any] = weakref.WeakSet()  # standard inputs that were already opened


def read_bytes(path: str | Path, most: int = MAXIMUM_TEXT) -> bytes:
    """Return the whole content of a file, decompressed.

    Args:
        most: limit in bytes, for decompressed data, pipes and standard input; plain files may have the size of the
            memory.

    Raises:
        InputError: as `open_bytes` does, and if the limit is exceeded.
    """
    return b"".join(_limited(path, most))


def read_whole_text(path: str | Path, most: int = MAXIMUM_TEXT) -> str:
    """Return the whole text of a UTF-8 file without byte order marks, as of joined files; line ends are not changed.

    Raises:
        InputError: as `read_bytes` does, and as `decode_text` does if the content is not UTF-8 text.
    """
    pieces: list[bytes] = []
    for piece in _limited(path, most):
        pieces.append(piece)
        if b"\0" in piece:  # not text: the rest need not be read
            break
    text = decode_text(b"".join(pieces), source_name(path))
    return _BYTE_ORDER_MARKS.sub("", text) if "\ufeff" in text else text


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
            if length > most and source.size is None:
                raise InputError(
                    f"{source_name(path)}: more than {most / 2**20:,.0f} MiB after decompression, the limit for what"
                    " is read as a whole. Split it, or write it to a plain file, which may be larger."
                )
            yield piece


def read_lines(path: str | Path) -> Iterator[tuple[int, str]]:
    """Yield the lines of a UTF-8 file, numbered from 1, without line ends and byte order marks.

    If files that begin with a byte order mark were joined, it is before the first line of each.

    Lines end with \\n or \\r\\n. If a file has no \\n, except perhaps at its end, they end with \\r; otherwise a \\r
    inside a line is a character of the line. Both are announced. Only one line, of at most `MAXIMUM_LINE` bytes, is
    held in memory.

    Raises:
        InputError: as `open_bytes` does; for binary content and text that is not UTF-8, with line and byte offset
            (after decompression, from 0); and for a line that is too long.
    """
    offset = 0
    source = source_name(path)
    remarks = Remarks()
    with open_bytes(path) as file:
        for number, raw in enumerate(iter(partial(file.readline, _PIECE), b""), 1):
            if len(raw) == _PIECE and not raw.endswith(b"\n"):
                raw = _long_line(raw, file, f"{source}, line {number}")
            if b"\r" in raw and _has_lone_cr(raw):
                if number == 1 and not file.peek(1):  # the line is the whole file
                    yield from _lines_ending_in_cr(raw, source)
                    return
                remarks.add("carriage returns inside lines", number, count=raw.count(b"\r") - raw.endswith(b"\r\n"))
            length = len(raw)
            if raw.startswith(_BYTE_ORDER_MARK):
                raw = raw[len(_BYTE_ORDER_MARK) :]
                if not raw and number == 1:  # nothing after the mark: an empty file
                    return
            try:
                line = raw.decode("utf-8")
            except UnicodeDecodeError:
                line = "\0"
            if "\0" in line:
                decode_text(raw, source, number, offset + length - len(raw))
            offset += length
            yield number, line.removesuffix("\n").removesuffix("\r") if line.endswith("\n") else line
    if remarks:
        announce(ReadingReport(source, "lines that end in \\n", remarks=remarks.all()))
        count = remarks.all()[0].count
        if count >= number:  # more lines end in \r than in \n
            warn_caller(
                f"{source}: {count:,} carriage returns inside {number:,} lines, which are read as spaces. Does the file"
                " have line ends of two systems? Replace \\r with \\n, for example with: tr '\\r' '\\n'"
            )


def has_cr_line_ends(path: str | Path) -> bool:
    """Return whether the lines of a file end with \\r, see `read_lines`. Raises InputError as `open_bytes` does."""
    with open_bytes(path) as file:
        raw = file.readline(_PIECE)
        if len(raw) == _PIECE and not raw.endswith(b"\n"):
            raw = _long_line(raw, file, f"{source_name(path)}, line 1")
        return _has_lone_cr(raw) and not file.peek(1)


def _has_lone_cr(raw: bytes) -> bool:
    """Return whether a line contains a \\r that is not part of its end \\r\\n."""
    place = raw.find(b"\r")
    return place >= 0 and not (place == len(raw) - 2 and raw.endswith(b"\n"))


def _lines_ending_in_cr(content: bytes, source: str) -> Iterator[tuple[int, str]]:
    """Yield the lines of a whole file whose lines end with \\r, and announce this.

    Raises:
        InputError: as `decode_text` does.
    """
    text = decode_text(content, source).removesuffix("\n").removesuffix("\r")
    lines = text.split("\r")
    announce(ReadingReport(source, "lines that end in \\r", {"lines": len(lines)}, "the file has no \\n between lines"))
    yield from enumerate(lines, 1)


def _long_line(start: bytes, file: BinaryIO, place: str) -> bytes:
    """Return a line whose start was read, with its end. One with a zero byte may be cut short after it."""
    pieces, length = [start], len(start)
    while b"\0" not in pieces[-1] and not pieces[-1].endswith(b"\n"):
        pieces.append(file.readline(_PIECE))
        length += len(pieces[-1])
        if not pieces[-1]:
            break
        if length > MAXIMUM_LINE:
            raise InputError(
                f"{place}: more than {MAXIMUM_LINE / 2**20:,.0f} MiB in one line; expected text with shorter lines"
            )
    return b"".join(pieces)


class _Source(io.RawIOBase):
    """The decompressed content of a file; all reading errors are InputErrors that name it.

    Attributes:
        compression: None for a plain file.
        size: bytes of a plain file; None if it is compressed, a pipe or standard input.
    """

    def __init__(self, file: io.BufferedReader, path: str | Path) -> None:
        self._file, self._name, self._rest = file, source_name(path), memoryview(b"")
        self._is_standard_input = str(path) == STANDARD_INPUT
        with self._reading():
            start = file.read(_START)
        peek = getattr(file, "peek", None)  # a replaced standard input may have none
        names = peek(0) if peek and start.startswith(ARCHIVE) else b""  # waits for bytes, so not in a text
        if foreign := foreign_format(start + names, path):
            what, remedy = foreign
            raise InputError(f"{self._name}: found {what}; expected a text file. To use it, {remedy}")
        self.compression = self._detect(start, path)
        is_plain = self.compression is None and not self._is_standard_input and os.path.isfile(path)
        self.size = os.path.getsize(path) if is_plain else None
        pieces: Iterator[bytes] = chain([start] if start else [], iter(partial(file.read1, _PIECE), b""))
        if self.compression is None:
            self._pieces = pieces
        elif self.compression.open is None:
            self._pieces = _unzipped(file, self._name)
        else:
            self._pieces = _decompressed(pieces, self.compression.open, self._name)

    def _detect(self, start: bytes, path: str | Path) -> _Compression | None:
        """Return the format of a compressed file; None for text. Raises InputError if its name promises another."""
        detected = next((format for format in _COMPRESSIONS.values() if format.start.match(start)), None)
        archive = next((name for name, pattern in _ARCHIVES.items() if pattern.match(start)), None)
        if archive is not None:
            supported = ", ".join(COMPRESSED_SUFFIXES)
            raise InputError(
                f"{self._name}: found a {archive} archive; expected plain text or {supported}. Decompress it first."
            )
        promised = None if self._is_standard_input else _COMPRESSIONS.get(Path(path).suffix.lower())
        if promised not in (None, detected):
            content = detected.name + " data" if detected else "an empty file" if not start else "uncompressed content"
            raise InputError(
                f"{self._name}: found {content} in a file with the suffix {Path(path).suffix}; expected"
                f" {promised.name} data, or a name that matches the content"
            )
        return detected

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """Raise InputError for an error of the system or, of a remote file, of its library."""
        try:
            yield
        except InputError:
            raise
        except OSError as error:
            raise system_error(self._name, "read", error) from error
        except Exception as error:
            if address_of(self._name) is None:
                raise
            raise InputError(f"{self._name}: cannot be read: {error}") from error

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if not self._rest:
            with self._reading():
                self._rest = memoryview(next(self._pieces, b""))
        size = min(len(buffer), len(self._rest))
        buffer[:size] = self._rest[:size]
        self._rest = self._rest[size:]
        return size

    def close(self) -> None:
        if not self._is_standard_input:  # which may be read by others
            self._file.close()
        super().close()


_TRUNCATED = "{}: truncated: the compressed data ends too early. Copy or download it again."


def _decompressed(
    pieces: Iterator[bytes], open_stream: Callable[[], tuple[Any, type[Exception]]], source: str
) -> Iterator[bytes]:
    """Yield the content of successive compressed streams; zero bytes between them are ignored.

    Raises:
        InputError: for a truncated or damaged stream.
    """
    rest = next(pieces, b"")
    while rest:
        stream, fault = open_stream()
        while not stream.eof:
            if not rest and getattr(stream, "needs_input", True) and not (rest := next(pieces, b"")):
                raise InputError(_TRUNCATED.format(source))
            try:
                content = stream.decompress(rest, _PIECE)
            except fault as error:
                raise InputError(f"{source}: cannot be decompressed: {error}") from error
            rest = stream.unused_data if stream.eof else getattr(stream, "unconsumed_tail", b"")
            if content:
                yield content
        rest = rest.lstrip(b"\0")
        while not rest and (piece := next(pieces, b"")):
            rest = piece.lstrip(b"\0")


def _unzipped(file: BinaryIO, source: str) -> Iterator[bytes]:
    """Yield the content of the only file of a zip archive. Raises InputError for other archives and damaged ones."""
    if not file.seekable():
        raise InputError(f"{source}: found a zip archive, whose index is at its end; expected a file, not a stream")
    if not zipfile.is_zipfile(file):
        raise InputError(_TRUNCATED.format(source))
    try:
        archive = zipfile.ZipFile(file)
        members = [name for name in archive.namelist() if not name.endswith("/") and not name.startswith("__MACOSX/")]
        if len(members) != 1:
            raise InputError(
                f"{source}: found a zip archive of {len(members):,} files ({listed(members) or 'none'}); expected one."
                " Extract those that you need first."
            )
        with archive.open(members[0]) as member:
            yield from iter(partial(member.read, _PIECE), b"")
    except EOFError:
        raise InputError(_TRUNCATED.format(source)) from None
    except (zipfile.BadZipFile, lzma.LZMAError, zlib.error, NotImplementedError, RuntimeError, ValueError) as error:
        raise InputError(f"{source}: cannot be decompressed: {error}") from error
