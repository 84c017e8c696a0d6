"""Files that are named by an address, such as hf://datasets/NAME/FILE, s3://BUCKET/FILE or https://HOST/FILE.

A remote file is downloaded once into the cache, because training reads its text several times. Each time it is opened,
its server is asked for the version; without a connection, the copy is read. https:// needs no other package; fsspec has
a file system for each other protocol, and many of these need a package of their own.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from syntaxlm.core.errors import InputError, listed, warn_caller
from syntaxlm.core.files import make_folder, replaced, sha256, write_text
from syntaxlm.core.progress import status
from syntaxlm.core.systems import cache_folder

# Two letters or more, unlike a drive of Windows; one slash only where the name became a path.
_ADDRESS = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]+):/{1,2}(?=[^/])")
_TIMEOUT = 60.0  # seconds without an answer of a web server
_PIECE = 1 << 20  # bytes copied at a time


def address_of(path: str | Path) -> str | None:
    """Return the address of a remote file; None for the name of a local file."""
    scheme = _ADDRESS.match(str(path))
    if scheme is None or os.path.exists(path):
        return None
    return f"{scheme[1].lower()}://{str(path)[scheme.end() :]}"


def folder_in_cache(name: str) -> Path:
    """Return a folder for files that can be made or downloaded again, in the folder of syntaxlm in the user's caches.

    Raises:
        InputError: if it cannot be made.
    """
    folder = cache_folder() / name
    make_folder(folder)
    return folder


def local_copy(address: str) -> Path:
    """Return a copy of a remote file in the cache, which is downloaded if there is none of the present version.

    Gives an InputWarning if the server cannot be reached, and an earlier copy is used.

    Raises:
        InputError: if no file system is known for the protocol, if its package is not installed, for a folder, and if
            the file cannot be downloaded.
    """
    path = folder_in_cache("remote") / sha256([address.encode()])[:32]
    version_file = path.with_suffix(".version")
    opened = _opened_by_http if address.startswith(("http://", "https://")) else _opened_by_fsspec
    with _reaching(address, path), opened(address) as remote:
        present = version_file.read_text(encoding="utf-8") if path.exists() and version_file.exists() else None
        if remote.version is None or present != _entry(path.stat() if path.exists() else None, remote):
            write_text(_entry(_download(address, remote, path), remote), version_file)
    return path


def _entry(copy: os.stat_result | None, remote: _Remote) -> str:
    """Return what is stored about a copy: its version, and its size and time.

    Two processes may download different versions at the same time. The copy of one may then be stored beside the
    version of the other.
    """
    return "" if copy is None else f"{copy.st_size} {copy.st_mtime_ns} {remote.version}"


def files_below(address: str) -> list[str]:
    """Return the addresses of the files of a remote folder. Raises InputError as `local_copy` does."""
    import fsspec

    with _reaching(address):
        system, path = fsspec.url_to_fs(address)
        system.invalidate_cache()
        return [system.unstrip_protocol(file) for file in system.find(path)]


def files_matching(pattern: str) -> list[str]:
    """Return the sorted addresses of the files that match a pattern. Raises InputError as `local_copy` does."""
    import fsspec

    with _reaching(pattern):
        system, path = fsspec.url_to_fs(pattern)
        system.invalidate_cache()
        protocol = pattern.partition("://")[0]
        return [f"{protocol}://{file.lstrip('/')}" for file in sorted(system.glob(path))]


@contextmanager
def _reaching(address: str, copy: Path | None = None) -> Iterator[None]:
    """Raise InputError for errors of the block, which asks a server.

    Args:
        copy: of an earlier download. If it exists, a server that cannot be reached is an InputWarning.
    """
    try:
        yield
    except InputError:
        raise
    except ImportError as error:
        raise InputError(f"{address}: cannot be read without another package: {error}") from error
    except FileNotFoundError as error:
        raise InputError(f"{address}: cannot be read: no such file") from error
    except PermissionError as error:
        raise InputError(f"{address}: cannot be read: {error}. Does it need a login or a token?") from error
    except Exception as error:  # of the libraries of many protocols
        import fsspec

        protocol = address.partition(":")[0]
        if protocol not in fsspec.available_protocols():
            raise InputError(f"{address}: no file system is known for {protocol}://; expected a file") from error
        reason = getattr(error, "reason", error) or type(error).__name__
        if copy is None or not copy.exists():
            advice = "Without a connection, download the file elsewhere, and give the name of the local file."
            raise InputError(f"{address}: cannot be read: {reason}. {advice}") from error
        message = f"{address}: cannot be reached ({reason}). The copy of an earlier download is read: {copy}"
        warn_caller(message)


class _Remote(NamedTuple):
    """A remote file that was opened, of which nothing is read yet.

    Attributes:
        version: differs from that of any other content of the file; None if the server states none.
        size: in bytes; None if the server does not state it.
    """

    content: Any
    version: str | None
    size: int | None


@contextmanager
def _opened_by_http(address: str) -> Iterator[_Remote]:
    import urllib.error
    import urllib.request
    from http import HTTPStatus

    request = urllib.request.Request(address, headers={"User-Agent": "syntaxlm"})
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT) as answer:
            facts = {name: answer.headers[name] for name in ("ETag", "Last-Modified", "Content-Length")}
            is_stated = facts["ETag"] is not None or facts["Last-Modified"] is not None
            yield _Remote(answer, str(facts) if is_stated else None, answer.length)
    except urllib.error.HTTPError as error:
        if error.code in (HTTPStatus.NOT_FOUND, HTTPStatus.GONE):
            raise FileNotFoundError(address) from error
        if error.code in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
            raise PermissionError(str(error)) from error
        raise


@contextmanager
def _opened_by_fsspec(address: str) -> Iterator[_Remote]:
    import fsspec

    system, path = fsspec.url_to_fs(address)
    system.invalidate_cache()
    facts = system.info(path)
    if facts["type"] == "directory":
        raise InputError(f"{address}: found a folder; expected one of its files: {listed(files_below(address))}")
    with system.open(path, "rb") as content:
        yield _Remote(content, str(facts), facts.get("size"))


def _download(address: str, remote: _Remote, path: Path) -> os.stat_result:
    """Copy a remote file to the cache, atomically. Returns the state of the copy, which another process may replace.

    Raises:
        InputError: if the connection or the disk fails.
    """
    with status(f"downloading {address}"), replaced(path) as temporary:
        with open(temporary, "wb") as file:
            count = 0
            while piece := _piece(address, remote.content, count):
                file.write(piece)
                count += len(piece)
        if remote.size is not None and count != remote.size:
            raise InputError(f"{address}: the connection ended after {count:,} of {remote.size:,} bytes. Try again")
        return temporary.stat()


def _piece(address: str, content: Any, count: int) -> bytes:
    """Read a piece of a remote file. Its errors must not pass for errors of the local disk."""
    try:
        piece: bytes = content.read(_PIECE)
    except Exception as error:
        raise InputError(f"{address}: the connection broke after {count:,} bytes: {error}. Try again") from error
    return piece
