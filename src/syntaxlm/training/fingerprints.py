"""Hashes of the files that a run reads, which are stored at its start and compared when it is resumed.

A resumed run continues in the middle of its training text. If the text has changed, the run would train on parts of two
texts, and its scores would be meaningless.
"""

from __future__ import annotations

import hashlib
import os
import stat
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from syntaxlm.data.treebanks import treebank_files
from syntaxlm.errors import InputError, InputWarning
from syntaxlm.files import parse_json, read_stored, system_error, to_json, write_text
from syntaxlm.text_files import STANDARD_INPUT
from syntaxlm.training.run_folder import INPUTS

Fingerprints = dict[str, dict[str, str | None]]
"""SHA-256 hashes by setting ("text.train"), then by file; None for standard input and pipes."""

_FORMAT = 1
_BLOCK = 1 << 20  # bytes


def fingerprint(paths: Mapping[str, str | None], treebanks: Iterable[str] = ()) -> Fingerprints:
    """Returns the hashes of the files of a run.

    paths: files by setting; None: no file.
    treebanks: settings whose path may also be a folder or a pattern; all its files are hashed, in sorted order.
    The hash of standard input and of pipes is None.
    Raises InputError for a file that cannot be read.
    """
    of_trees = set(treebanks)
    return {
        setting: {str(file): _hash(file) for file in (treebank_files(path) if setting in of_trees else [path])}
        for setting, path in paths.items()
        if path is not None
    }


def _hash(path: str | Path) -> str | None:
    if str(path) == STANDARD_INPUT:
        return None
    found = hashlib.sha256()
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            return None
        with open(path, "rb") as file:
            while block := file.read(_BLOCK):
                found.update(block)
    except OSError as error:
        raise system_error(path, "read", error) from error
    return found.hexdigest()


def write_fingerprints(folder: Path, fingerprints: Fingerprints) -> None:
    """Stores the hashes of a new run in its folder. Warns if the run cannot be resumed: it reads standard input."""
    for setting in _read_once(fingerprints):
        warnings.warn(f"{setting} is standard input or a pipe: this run cannot be resumed", InputWarning, stacklevel=2)
    content = {"format": _FORMAT, "sha256": fingerprints}
    write_text(to_json(content, indent=2) + "\n", folder / INPUTS, stored=True)


def check_fingerprints(folder: Path, found: Fingerprints) -> None:
    """Compares the hashes of a run's files with those at its start.

    Warns if there are none, because an earlier version started the run.
    Raises InputError with every file that was changed, added or removed, and for standard input and pipes.
    """
    if once := _read_once(found):
        raise InputError(
            f"{folder}: cannot be resumed: {', '.join(once)} was read from standard input or a pipe, which cannot be"
            " read again. Start a new run with a file."
        )
    if not os.path.lexists(folder / INPUTS):
        warnings.warn(
            f"{folder}: {INPUTS} is missing, because an earlier version started the run. Changes of its texts cannot be"
            " detected.",
            InputWarning,
            stacklevel=2,
        )
        return
    before = read_fingerprints(folder)
    faults = []
    for setting in before | found:
        then, now = before.get(setting, {}), found.get(setting, {})
        faults += [f"{file}: changed since the run started ({setting})" for file in then if then[file] != now.get(file)]
        faults += [f"{file}: added since the run started ({setting})" for file in now if file not in then]
    if faults:
        raise InputError("\n".join([*faults, f"{folder}: restore the files to resume the run, or start a new run."]))


def read_fingerprints(folder: Path) -> Fingerprints:
    """Reads the hashes that a run stored at its start. Raises InputError if the file is missing or damaged."""
    path = folder / INPUTS
    content: Any = parse_json(read_stored(path), str(path))
    settings = content.get("sha256") if isinstance(content, dict) else None
    if not isinstance(settings, dict) or not all(isinstance(files, dict) for files in settings.values()):
        raise InputError(f'{path}: expected the entry "sha256", with the hashes of files by setting')
    return settings


def _read_once(fingerprints: Fingerprints) -> list[str]:
    return [
        f"{setting} ({file})" for setting, files in fingerprints.items() for file, digest in files.items() if not digest
    ]
