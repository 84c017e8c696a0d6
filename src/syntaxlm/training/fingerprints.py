"""Hashes of the texts and trees that a run reads: stored at its start, compared when it is resumed.

A resumed run continues in the middle of its text. With another text in its place it would train on half of each, and
its figures would mean nothing.
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
"""By setting ("text.train"), then by file: the SHA-256 of its content, None for what can be read only once."""

_FORMAT = 1
_BLOCK = 1 << 20  # bytes


def fingerprint(paths: Mapping[str, str | None], treebanks: Iterable[str] = ()) -> Fingerprints:
    """Hashes of the files of a run.

    paths: files by the setting that names them; None: no file.  treebanks: settings whose path may also be a folder or
    a pattern; all its files are hashed, in sorted order.  Standard input and pipes have no hash.
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
    """Stores the hashes of a new run in its folder. Warns where it cannot be resumed, as it reads standard input."""
    for setting in _read_once(fingerprints):
        warnings.warn(f"{setting} can be read only once: this run cannot be resumed", InputWarning, stacklevel=2)
    content = {"format": _FORMAT, "sha256": fingerprints}
    write_text(to_json(content, indent=2) + "\n", folder / INPUTS, stored=True)


def check_fingerprints(folder: Path, found: Fingerprints) -> None:
    """Compares the hashes of a run's files with those at its start. Warns about a run of an earlier version, with none.

    Raises InputError naming every file that was changed, added or removed since, and for files that are read only once.
    """
    if once := _read_once(found):
        raise InputError(
            f"{folder}: cannot be resumed: {', '.join(once)} was read from standard input or a pipe, which cannot be"
            " read again. Train anew with a file."
        )
    if not os.path.lexists(folder / INPUTS):
        warnings.warn(
            f"{folder}: has no {INPUTS}, as the run was started by an earlier version. Whether its texts changed since"
            " cannot be checked.",
            InputWarning,
            stacklevel=2,
        )
        return
    before = read_fingerprints(folder)
    faults = []
    for setting in before | found:
        then, now = before.get(setting, {}), found.get(setting, {})
        faults += [f"{file}: changed since the run began ({setting})" for file in then if then[file] != now.get(file)]
        faults += [f"{file}: was not there when the run began ({setting})" for file in now if file not in then]
    if faults:
        raise InputError("\n".join([*faults, f"{folder}: restore the files to resume the run, or train anew."]))


def read_fingerprints(folder: Path) -> Fingerprints:
    """The hashes that a run stored at its start. Raises InputError."""
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
