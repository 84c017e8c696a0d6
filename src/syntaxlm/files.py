"""Files in and out: UTF-8 text, faults named by place, writing that never leaves half a file."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from syntaxlm.errors import InputError

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None  # type: ignore[assignment]

UNFINISHED = ".unfinished"  # what names of half-written files end in
SAFETENSORS_UNFINISHED = ".tmp??????"  # the pattern of those that the library safetensors makes on its own


def read_text(path: str | Path) -> str:
    """The text of a small UTF-8 file, such as a recipe; a byte order mark is dropped, line ends are left as they are.

    Files of text and trees, which may be large or compressed, are read by `syntaxlm.text_files`.
    Raises InputError naming file, line and byte where the file is not UTF-8 text.
    """
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from error
    return decode_text(content, str(path))


def refuse_overwriting(output: str | Path | None, inputs: Iterable[str | Path | None]) -> None:
    """Raises InputError where what is to be written is one of the files that are read. None: no file."""
    if output is None:
        return
    written = Path(output).resolve()
    if any(Path(one).resolve() == written for one in inputs if one is not None):
        raise InputError(f"{output}: is a file that is read; name another one to write to")


def decode_text(content: bytes, source: str, first_line: int = 1, first_byte: int = 0) -> str:
    """UTF-8 bytes as text.

    first_line, first_byte: where the content begins in its source; lines count from 1, bytes from 0.
    Raises InputError naming source, line and byte offset of the first fault.
    """
    zero = content.find(b"\x00")
    if zero >= 0:
        line = first_line + content.count(b"\n", 0, zero)
        raise InputError(
            f"{source}, line {line}: found a zero byte at offset {first_byte + zero} (a binary file, or text in"
            " UTF-16?), expected UTF-8 text"
        )
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        # With a byte-order mark in front, the decoder counts from behind it.
        offset = error.start + (3 if content.startswith(b"\xef\xbb\xbf") else 0)
        line = first_line + content.count(b"\n", 0, offset)
        found = content[offset : offset + 1].hex()
        raise InputError(
            f"{source}, line {line}: found byte 0x{found} at offset {first_byte + offset}, expected UTF-8 text"
        ) from error


def split_lines(text: str) -> list[str]:
    """The lines of a text without their ends, \\n or \\r\\n.

    Nothing else ends a line, unlike for str.splitlines(): words may hold U+0085, U+2028 or a lone \\r.
    """
    *lines, last = text.split("\n")
    lines = [line.removesuffix("\r") for line in lines]
    return [*lines, last] if last else lines


def make_folder(path: Path) -> list[Path]:
    """Makes a folder, and those above it, where it is not there yet. Returns those that it made, the innermost first.

    Raises InputError where it cannot, and leaves none of them.
    """
    missing = [folder for folder in (path, *path.parents) if not os.path.exists(folder)]
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        remove_empty(missing)
        raise InputError(f"{path}: cannot be made: {error.strerror or error}") from error
    return missing


def remove_empty(folders: Iterable[Path]) -> None:
    """Removes folders, the innermost first, up to one that is not empty."""
    with suppress(OSError):
        for folder in folders:
            if os.path.exists(folder):
                folder.rmdir()


@contextmanager
def replaced(path: Path) -> Iterator[Path]:
    """Gives a temporary path beside `path`; what was written there takes its place when the block ends well.

    A failed write (a full disk) removes the temporary file and leaves the old one whole; it raises InputError.
    """
    if os.path.isdir(path):
        raise InputError(f"{path}: cannot be written: it is a folder")
    if os.path.exists(path) and not os.path.isfile(path):  # a pipe or a device: nothing to replace
        try:
            yield path
        except OSError as error:
            raise InputError(f"{path}: cannot be written: {error.strerror or error}") from error
        return
    path = path.resolve()  # a link stays one: what it points to is replaced
    # Not tempfile: its files are readable by their owner alone, and would stay so under the final name.
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}{UNFINISHED}")
    try:
        yield temporary
        with open(temporary, "rb") as written:
            os.fsync(written.fileno())
        os.replace(temporary, path)
    except BaseException as error:
        with suppress(OSError):  # where nothing can be written there is nothing to remove; `error` is what is told
            temporary.unlink()
        if isinstance(error, OSError):
            raise InputError(f"{path}: cannot be written: {error.strerror or error}") from error
        raise


@contextmanager
def held(path: Path) -> Iterator[None]:
    """Holds a file while the block runs, so that no other process can; a killed process holds nothing.

    Raises InputError when another process holds it. Does nothing where the system has no such locks.
    """
    if fcntl is None:
        yield
        return
    with open(path, "rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(f"{path.parent}: another process is at work in this folder") from None
        yield


def remove_unfinished(folder: Path) -> None:
    """Removes what a killed program left half written in a folder. Raises InputError where it cannot."""
    for path in [*folder.glob(f".*{UNFINISHED}"), *folder.glob(SAFETENSORS_UNFINISHED)]:
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise InputError(f"{path}: cannot be removed: {error.strerror or error}") from error


def write_text(text: str, path: str | Path) -> None:
    """Writes UTF-8 text, whole or not at all.

    Raises InputError when the folder cannot be written or the text holds what UTF-8 cannot.
    """
    path = Path(path)
    try:
        content = text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InputError(f"{path}: found {text[error.start]!r}, which UTF-8 cannot hold") from error
    with replaced(path) as temporary:
        temporary.write_bytes(content)
