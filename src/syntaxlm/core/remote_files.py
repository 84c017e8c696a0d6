"""Files that are named by an address, such as hf://datasets/NAME/FILE, s3://BUCKET/FILE or https://HOST/FILE.

They are opened by fsspec, which has a file system for each protocol; many need a package of their own.
"""

from __future__ import annotations

import io
import os
import re
from pathlib import Path

from syntaxlm.core.errors import InputError

# Two letters or more, unlike a drive of Windows; one slash only where the name became a path.
_ADDRESS = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]+):/{1,2}(?=[^/])")


def address_of(path: str | Path) -> str | None:
    """Return the address of a remote file; None for the name of a local file."""
    scheme = _ADDRESS.match(str(path))
    if scheme is None or os.path.exists(path):
        return None
    return f"{scheme[1].lower()}://{str(path)[scheme.end() :]}"


def open_remote(address: str) -> io.BufferedReader:
    """Open a remote file for reading.

    Raises:
        InputError: if no file system is known for the protocol, if its package is not installed, or if the file cannot
            be opened.
    """
    import fsspec

    protocol = address.partition(":")[0]
    try:
        return io.BufferedReader(fsspec.open(address, "rb").open())
    except ImportError as error:
        raise InputError(f"{address}: cannot be read without another package: {error}") from error
    except FileNotFoundError as error:
        raise InputError(f"{address}: cannot be read: no such file") from error
    except Exception as error:  # of the libraries of many protocols
        if protocol not in fsspec.available_protocols():
            raise InputError(f"{address}: no file system is known for {protocol}://; expected a file") from error
        raise InputError(f"{address}: cannot be read: {error}") from error
