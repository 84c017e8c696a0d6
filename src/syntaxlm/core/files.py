"""Reading and writing files: UTF-8 text, errors that name the place, atomic writes, locks.

Files that a user names (texts, recipes, outputs) may be links and pipes. The *stored* files of a model or run folder
may not: the folder may come from somebody else, so its files must not point outside it, block, or fill memory. The
folder itself may be a link, and files may be links as in the cache of the Hugging Face hub.
"""

from __future__ import annotations

import errno
import glob
import json
import math
import os
import re
import shutil
import stat
import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, TextIO, cast

from syntaxlm.core.errors import InputError
from syntaxlm.core.systems import check_system_name, flush_to_disk, replace_file

_ONLY_REGULAR = "A model or run folder may contain only regular files."
LARGEST_JSON = 1 << 30  # bytes of a stored JSON or text file; a vocabulary of millions of words has a few dozen MiB

LOCK = ".lock"  # file that is locked where the system cannot open folders
UNENCODABLE = "backslashreplace"  # for what UTF-8 lacks, see `utf8`
_NO_UTF8 = re.compile(r"[\ud800-\udfff]")  # how Python reads bytes of a name that are not UTF-8
UNFINISHED = ".unfinished"  # suffix of half-written files
_ATTEMPTS = 100  # to lock a new folder that other processes make and, when they are refused, remove
SAFETENSORS_UNFINISHED = ".tmp??????"  # pattern of half-written files of the library safetensors


_ADVICE = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT), "Free some space, or write to another disk."),
    **dict.fromkeys((errno.EACCES, errno.EPERM), "Check its permissions and those of the folders above it."),
    errno.EROFS: "The file system is read-only; choose another folder.",
}


def system_error(path: str | Path, doing: str, error: OSError) -> InputError:
    """Return the InputError for an OSError.

    Args:
        doing: "read", "written", "made", "opened" or "removed".
    """
    if doing == "written" and error.errno == errno.ENOENT:
        return InputError(f"{path}: cannot be written: the folder {Path(path).parent} does not exist. Create it first.")
    reason = f"{path}: cannot be {doing}: {error.strerror or error}"
    return InputError(f"{reason}. {advice}" if (advice := _ADVICE.get(error.errno or 0)) else reason)


def named_path(name: str | Path) -> Path:
    """Return the file or folder of a name. Raises InputError for an empty name, which would be the current folder."""
    if not str(name):
        raise InputError("found an empty name; expected the name of a file or folder. Is a variable not set?")
    return Path(name)


def read_text(path: str | Path) -> str:
    """Return the text of a small UTF-8 file, such as a recipe; a byte order mark is dropped, line ends are not changed.

    Files of text and trees, which may be large or compressed, are read by `syntaxlm.core.text_files`.

    Raises:
        InputError: if the file is not UTF-8 text. The message names file, line and byte.
    """
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise system_error(path, "read", error) from error
    return decode_text(content, str(path))


def refuse_overwriting(output: str | Path | None, inputs: Iterable[str | Path | None] = ()) -> None:
    """Raise InputError if an output file is also an input, belongs to a model or run folder, or has a reserved name.

    An output must not replace an existing file below an input folder, or create a file in an input model or run folder.

    Args:
        output: None or "-" is standard output.
        inputs: files, folders, quoted patterns; None for nothing. Standard input always counts as an input.
    """
    if output is None or str(output) == "-":
        return
    output = Path(output)
    check_system_name(output)
    for path in (*inputs, "-"):
        if path is None:
            continue
        files: list[str | Path] = [path]
        if str(path) == "-":
            with suppress(AttributeError, OSError, ValueError):  # closed, or no file
                files = [f"/dev/fd/{sys.stdin.fileno()}"]
        elif any(sign in str(path) for sign in "*?[") and not os.path.exists(path):
            files += glob.glob(str(path), recursive=True)
        if any(same_file(output, file) for file in files):
            raise InputError(f"{output}: is also an input; expected a different output file")
        folder = Path(path)
        above = [parent for parent in Path(os.path.realpath(output)).parents if parent.exists()]
        if os.path.isdir(folder) and any(same_file(parent, folder) for parent in above):
            if holds_model(folder):
                raise InputError(f"{output}: is in the model folder {folder}; expected an output file outside it")
            if os.path.exists(output):
                raise InputError(f"{output}: is a file of the input folder {folder}; expected a different output file")
    folder = Path(os.path.realpath(output)).parent
    if holds_model(folder):
        raise InputError(f"{output}: {output.parent} is a model folder; expected an output file outside it")


def check_writable(path: Path) -> None:
    """Raise InputError if a file cannot be written: it is a folder, or nothing can be written to its folder."""
    _refuse_folder(path)
    try:
        with suppress(FileNotFoundError):
            os.lstat(path)  # raises an error for a name that is too long, and below a file
        if not os.path.exists(path) or os.path.isfile(path):
            temporary = _temporary_beside(path.resolve())
            try:
                with open(temporary, "xb"):
                    pass
                temporary.unlink()
            except BaseException:  # such as a signal
                with suppress(OSError):
                    temporary.unlink()
                raise
    except OSError as error:
        raise system_error(path, "written", error) from error


def _refuse_folder(path: Path) -> None:
    if os.path.isdir(path):
        raise InputError(f"{path}: cannot be written: it is a folder")


def _temporary_beside(path: Path) -> Path:
    """Return the name of a half-written file that will replace another one.

    Not tempfile: its files are readable only by their owner, and would keep these permissions. The name is short,
    because the length of names, and on Windows of whole paths, is limited.
    """
    return path.with_name(f".{os.urandom(8).hex()}{UNFINISHED}")


def same_file(path: str | Path, other: str | Path) -> bool:
    """Return whether two paths are the same regular file or folder, including links and case-insensitive file systems.

    Paths that do not exist yet are compared as strings, after links above them are resolved.
    """
    try:
        return os.path.samefile(path, other) and (os.path.isfile(path) or os.path.isdir(path))
    except (OSError, ValueError):
        return os.path.realpath(path) == os.path.realpath(other)


def repeated_file(paths: Iterable[str | Path]) -> tuple[str | Path, str | Path] | None:
    """Return the first path that is the same file or folder as an earlier one (see `same_file`), and that one."""
    earlier: dict[object, str | Path] = {}
    for path in paths:
        identity: object = os.path.realpath(path)
        with suppress(OSError, ValueError):
            status = os.stat(str(identity))
            identity = status.st_dev, status.st_ino
        if identity in earlier:
            return path, earlier[identity]
        earlier[identity] = path
    return None


_MODEL_FILES = (
    {"weights.safetensors"}, {"checkpoint.safetensors"}, {"classifier.json"}, {"config.json", "vocabulary.json"},
    {"recipe.yaml", "inputs.json"},
)  # fmt: skip


def holds_model(folder: Path) -> bool:
    """Return whether a folder contains a model, a classifier or a run."""
    return any(all((folder / name).exists() for name in names) for names in _MODEL_FILES)


_OTHER_ENCODINGS = {
    b"\xff\xfe\0\0": "UTF-32",
    b"\0\0\xfe\xff": "UTF-32",
    b"\xff\xfe": "UTF-16",
    b"\xfe\xff": "UTF-16",
}  # by their byte order marks


def _conversion(encoding: str) -> str:
    """Return how to convert a file to UTF-8 on this system."""
    if os.name == "nt":
        return "Open it in Notepad, and save it with the encoding UTF-8"
    return f"Convert it, for example with: iconv -f {encoding} -t UTF-8"


def decode_text(content: bytes, source: str, first_line: int = 1, first_byte: int = 0) -> str:
    """Decode UTF-8 text without its byte-order mark; report line and byte of a fault.

    Args:
        first_line: line of its source where the content starts, from 1.
        first_byte: byte of its source where the content starts, from 0.

    Raises:
        InputError: the message names source, line and byte offset of the first error.
    """
    encoding = next((name for start, name in _OTHER_ENCODINGS.items() if content.startswith(start)), None)
    if encoding is not None and first_line == 1:
        raise InputError(
            f"{source}, line 1: found the byte order mark of {encoding}; expected UTF-8 text. {_conversion(encoding)}"
        )
    zero = content.find(b"\x00")
    if zero >= 0:
        line = first_line + content.count(b"\n", 0, zero)
        raise InputError(
            f"{source}, line {line}: found a zero byte at offset {first_byte + zero} (a binary file, or text in"
            " UTF-16?); expected UTF-8 text"
        )
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        # With a byte-order mark, the decoder counts from after it.
        offset = error.start + (3 if content.startswith(b"\xef\xbb\xbf") else 0)
        line = first_line + content.count(b"\n", 0, offset)
        found = content[offset : offset + 1].hex()
        raise InputError(
            f"{source}, line {line}: found byte 0x{found} at offset {first_byte + offset} of the file; expected UTF-8"
            f" text. {_conversion('WINDOWS-1252')}"
        ) from error


def sha256(parts: Iterable[bytes | memoryview]) -> str:
    """Return the SHA-256 hash, in hexadecimal digits, of bytes that are given in parts."""
    import hashlib

    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    return digest.hexdigest()


def split_lines(text: str) -> list[str]:
    """Return the lines of a text without their ends: \\n or \\r\\n, or \\r in a text without \\n before its end.

    Unlike str.splitlines(), no other characters end a line: words may contain U+0085 or U+2028.
    """
    line = text.removesuffix("\n")
    if "\r" in line and "\n" not in line and not (text.endswith("\r\n") and line.count("\r") == 1):
        return line.removesuffix("\r").split("\r")
    *lines, last = text.split("\n")
    lines = [line.removesuffix("\r") for line in lines]
    return [*lines, last] if last else lines


@contextmanager
def open_stored(path: str | Path, flags: int = os.O_RDONLY, is_replaced: bool = False) -> Iterator[BinaryIO]:
    """Open a file of a model or run folder, by default for reading.

    Only regular files are opened: links are not followed, and pipes, sockets and devices are an error, without waiting.
    The links of the Hugging Face cache may be read: the cache of a repository has the folders snapshots/COMMIT, with
    links, and blobs, with the files.

    Raises InputError, including for an OSError in the block; for writing, also for a file with several hard links: a
    file outside the folder might change, too.

    Args:
        flags: the flags of `os.open`.
        is_replaced: whether the file will be replaced, so that no link is followed.
    """
    reads = flags == os.O_RDONLY
    if os.path.islink(path) and reads and not is_replaced:
        folder = Path(os.path.realpath(Path(path).parent))
        target = os.path.realpath(path)
        if folder.parent.name == "snapshots" and os.path.dirname(target) == str(folder.parents[1] / "blobs"):
            path = target
    mode = "rb" if reads else "ab" if flags & os.O_APPEND else "r+b"
    # Where a system lacks these flags, links are found by lstat, except for a race just after it.
    flags |= sum(getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_NOCTTY", "O_BINARY"))
    try:
        if os.path.islink(path):
            raise InputError(f"{path}: is a link. {_ONLY_REGULAR} Copy the file that it points to.")
        with cast(BinaryIO, open(os.open(path, flags, 0o666), mode)) as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise InputError(f"{path}: is not a regular file. {_ONLY_REGULAR}")
            if not reads and status.st_nlink > 1:
                raise InputError(
                    f"{path}: has several hard links, so a change would affect all of them. Replace it with a separate"
                    " copy."
                )
            yield file
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except OSError as error:
        raise system_error(path, "read" if reads else "written", error) from error


def read_stored(path: str | Path, most: int = LARGEST_JSON) -> bytes:
    """Return the content of a file of a model or run folder, opened as by `open_stored`.

    Args:
        most: its largest size.
    """
    with open_stored(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size > most:
            raise InputError(f"{path}: found {size:,} bytes; expected at most {most:,}")
        return file.read(size)


def read_stored_text(path: str | Path, most: int = LARGEST_JSON) -> str:
    """Return the UTF-8 text of a file of a model or run folder, see `read_stored`; a byte-order mark is dropped."""
    return decode_text(read_stored(path, most), str(path))


def append_stored(content: bytes, path: str | Path) -> None:
    """Append to a file of a run folder, opened as by `open_stored`; creates it if it does not exist."""
    with open_stored(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT) as file:
        file.write(content)


def truncate_stored(path: str | Path, size: int) -> None:
    """Truncate a file of a run folder, opened as by `open_stored`, to at most `size` bytes."""
    with open_stored(path, os.O_RDWR) as file:
        file.truncate(min(size, os.fstat(file.fileno()).st_size))


def check_stored(path: str | Path) -> None:
    """Raise InputError if a file to be replaced in a model or run folder is not a regular file."""
    if os.path.lexists(path):
        with open_stored(path, is_replaced=True):
            pass


def parse_json(content: bytes | str, source: str) -> Any:
    """Parse JSON.

    Args:
        source: its name in errors.

    Raises:
        InputError: if it is damaged, nested too deeply, or contains a repeated key, NaN or an infinite number.
    """
    text = decode_text(content, source) if isinstance(content, bytes) else content
    try:
        return json.loads(text, parse_constant=_finite, parse_float=_finite, object_pairs_hook=without_repetition)
    except RecursionError:
        raise InputError(f"{source}: damaged or cut short: nested too deeply") from None
    except ValueError as error:
        raise InputError(f"{source}: damaged or cut short: {error}") from None


def without_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the entries of a JSON object. Raises ValueError for a repeated key."""
    content = dict(pairs)
    if len(content) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for place, key in enumerate(keys) if key in keys[:place])
        raise ValueError(f"found the key {twice[:40]!r} twice in an object")
    return content


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"found {text[:40]}, which is not a JSON number, or out of range")
    return number


def to_json(value: Any, indent: int | None = None) -> str:
    """Return values as JSON, on one line unless `indent` is given. NaN and infinity, which JSON lacks, become null."""
    try:
        return json.dumps(value, indent=indent, ensure_ascii=False, allow_nan=False)
    except ValueError:  # the copy is only made if necessary
        return json.dumps(_without_infinities(value), indent=indent, ensure_ascii=False, allow_nan=False)


def _without_infinities(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_infinities(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_without_infinities(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def visible_entries(folder: str | Path) -> list[Path]:
    """Return what a folder contains, in order of names, without hidden files, whose names start with a dot."""
    return sorted(entry for entry in Path(folder).iterdir() if not entry.name.startswith("."))


def make_folder(path: Path) -> list[Path]:
    """Make a folder and its missing parents. Returns the folders that were made, the innermost first.

    Raises:
        InputError: if it fails, after removing the folders that it made, and for a name that the system reserves.
    """
    check_system_name(path)
    missing = [folder for folder in (path, *path.parents) if not os.path.exists(folder)]
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        remove_empty(missing)
        raise system_error(path, "made", error) from error
    return missing


def check_name(path: str | Path) -> None:
    """Raise InputError for a file or folder whose name is stored in other files, if it is not UTF-8."""
    if _NO_UTF8.search(str(path)):
        raise InputError(
            f"{path}: found a name with bytes that are not UTF-8; expected UTF-8, because other files contain the name."
            " Rename it, or name another one."
        )


def remove_empty(folders: Iterable[Path]) -> None:
    """Remove folders, the innermost first, until one is not empty."""
    with suppress(OSError):
        for folder in folders:
            if os.path.exists(folder):
                folder.rmdir()


@contextmanager
def replaced(path: Path, stored: bool = False) -> Iterator[Path]:
    """Give a temporary path in the folder of `path`; its file replaces `path` when the block succeeds.

    A failed write (such as a full disk) removes the temporary file, keeps the old file and raises InputError.

    Args:
        stored: whether `path` is a file of a model or run folder, where links are an error instead of being followed.
    """
    check_system_name(path)
    if stored:
        check_stored(path)
    _refuse_folder(path)
    if os.path.exists(path) and not os.path.isfile(path):  # a pipe or a device: nothing to replace
        try:
            yield path
        except OSError as error:
            raise system_error(path, "written", error) from error
        return
    if not stored:
        path = path.resolve()  # a link is kept; its target is replaced
    temporary = _temporary_beside(path)
    try:
        yield temporary
        flush_to_disk(temporary)
        replace_file(temporary, path)
    except BaseException as error:
        with suppress(OSError):  # if nothing could be written, there is nothing to remove; `error` is reported
            temporary.unlink()
        if isinstance(error, OSError):
            raise system_error(path, "written", error) from error
        raise


@contextmanager
def written_together(folder: Path, stored: bool = False) -> Iterator[Path]:
    """Give a temporary folder whose files appear together in `folder` when the block succeeds.

    A new folder appears complete. In a folder that exists, files are moved one after another, in the order in which
    they were written. If the block fails, nothing has changed.

    Args:
        stored: as for `replaced`.

    Raises:
        InputError: if a file or folder cannot be written.
    """
    check_system_name(folder)
    target = folder.resolve()  # a link is kept
    is_new = not target.exists()
    made = make_folder(target.parent if is_new else target)
    temporary = _temporary_beside(target if is_new else target / folder.name)
    try:
        temporary.mkdir()
        yield temporary
        if is_new:
            temporary.rename(target)
            return
        files = sorted(temporary.iterdir(), key=lambda file: file.stat().st_mtime_ns)
        targets = [target / file.name if stored else (target / file.name).resolve() for file in files]
        for path in targets if stored else ():
            check_stored(path)
        for file, path in zip(files, targets, strict=True):
            replace_file(file, path)
        temporary.rmdir()
    except BaseException as error:
        shutil.rmtree(temporary, ignore_errors=True)
        remove_empty(made)
        if isinstance(error, OSError):
            raise system_error(folder, "written", error) from error
        if isinstance(error, InputError):
            raise InputError(str(error).replace(str(temporary), str(folder))) from error
        raise


@contextmanager
def text_output(path: str | Path | None) -> Iterator[TextIO]:
    """Open a UTF-8 text file that replaces `path` when the block succeeds, see `replaced`; None: standard output.

    Raises:
        InputError: if standard output is closed.
    """
    if path is None:
        if sys.stdout is None:
            raise InputError("standard output: not available; expected a file, named by --output")
        yield sys.stdout
        return
    with (
        replaced(Path(path)) as temporary,
        open(temporary, "w", encoding="utf-8", errors=UNENCODABLE, newline="\n") as file,
    ):
        yield file


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Lock a file or folder for other processes while the block runs. The lock of a killed process is released.

    Does nothing if the file system has no locks.

    Raises:
        InputError: if another process has locked it.
    """
    from filelock import lock_descriptor  # imported here because most commands lock nothing

    folder = path if os.path.isdir(path) else path.parent
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)
    if path == folder and not hasattr(os, "O_DIRECTORY"):  # a system that cannot open folders
        path, flags = folder / LOCK, os.O_RDWR | os.O_CREAT
    try:
        descriptor = os.open(path, flags, 0o666)
    except OSError as error:
        raise system_error(path, "opened", error) from error
    try:
        is_locked = True
        with suppress(OSError):  # a network file system without locks
            is_locked = lock_descriptor(descriptor, blocking=False)
        if not is_locked:
            raise InputError(f"{folder}: another process is using this folder; wait until it ends")
        yield
    finally:
        os.close(descriptor)


def make_and_lock(folder: Path, stack: ExitStack) -> list[Path]:
    """Make a folder and lock it until the stack is closed. Return the folders that were made, the innermost first.

    If several processes do this at the same time, exactly one succeeds. They may remove what they made only while they
    have the lock.

    Raises:
        InputError: as `make_folder` and `locked` do, and for a name that is not UTF-8.
    """
    check_name(folder)
    for _ in range(_ATTEMPTS):
        made = make_folder(folder)
        try:
            before = os.stat(folder).st_ino
            with ExitStack() as lock:
                lock.enter_context(locked(folder))
                if os.stat(folder).st_ino == before:
                    stack.push(lock.pop_all())
                    return made
        except (FileNotFoundError, InputError):
            if folder.exists():  # and it belongs to the process that has locked it, also if this process made it
                raise
        # Another process was refused and has just removed the folder.
    raise InputError(f"{folder}: other processes keep creating and removing this folder. Name another folder.")


def remove_unfinished(folder: Path) -> None:
    """Remove half-written files and folders of a killed program from a folder. Raises InputError if it fails."""
    # Other programs name temporary folders as safetensors names its files.
    of_safetensors = (path for path in folder.glob(SAFETENSORS_UNFINISHED) if not path.is_dir())
    for path in [*folder.glob(f".*{UNFINISHED}"), *of_safetensors]:
        if path.is_dir() and not path.is_symlink():
            try:
                shutil.rmtree(path)
            except OSError as error:
                raise system_error(path, "removed", error) from error
        else:
            remove_file(path)


def remove_file(path: Path) -> None:
    """Remove a file, if it exists. Raises InputError if it fails."""
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise system_error(path, "removed", error) from error


def write_text(text: str, path: str | Path, stored: bool = False) -> None:
    """Write UTF-8 text atomically, encoded as by `utf8`.

    Args:
        stored: as for `replaced`.

    Raises:
        InputError: if the folder cannot be written.
    """
    with replaced(Path(path), stored) as temporary:
        temporary.write_bytes(utf8(text))


def utf8(text: str) -> bytes:
    """Encode text in UTF-8. Names of files may have bytes that are not UTF-8, which Python reads as half surrogate
    pairs: these become the escapes of JSON, such as \\udcfc, from which JSON restores the name.
    """
    return text.encode("utf-8", UNENCODABLE)
