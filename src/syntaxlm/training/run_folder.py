"""The folder of a run: its files, its lock, and the hashes of the files that the run reads."""

from __future__ import annotations

import os
import stat
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from syntaxlm.core.errors import InputError, InputWarning
from syntaxlm.core.files import (
    locked,
    make_folder,
    parse_json,
    read_stored,
    read_stored_text,
    remove_empty,
    remove_unfinished,
    sha256,
    system_error,
    to_json,
    write_text,
)
from syntaxlm.core.text_files import STANDARD_INPUT
from syntaxlm.storage.folder import WEIGHTS

RECIPE, METRICS, INPUTS, CHECKPOINT = "recipe.yaml", "metrics.jsonl", "inputs.json", "checkpoint.safetensors"
LARGEST_RECIPE = 1 << 20  # bytes

_BEFORE_TRAINING = frozenset(  # files that are written before the first step
    {RECIPE, INPUTS, METRICS, "config.json", "vocabulary.json", "labels.json", "classifier.json"}
)
_ATTEMPTS = 100  # to claim a folder that other runs create and, when they are refused, remove


@dataclass
class ClaimedFolder:
    """The locked folder of a new run.

    made: folders that were created for the run, innermost first.
    before: names of the files that were in the folder before the claim.
    """

    path: Path
    made: list[Path]
    before: frozenset[str]

    def abandon(self) -> None:
        """Withdraw a claim before training: remove the files that were written and the folders that were created."""
        for name in _BEFORE_TRAINING - self.before:
            (self.path / name).unlink(missing_ok=True)
        remove_empty(self.made)


@contextmanager
def claimed(folder: Path, recipe: str) -> Iterator[ClaimedFolder]:
    """Lock a folder for a new run while the block runs, and write recipe.yaml into it.

    recipe: the content of recipe.yaml.
    If several processes claim the same folder, exactly one succeeds.
    Raises InputError if the folder already has a run or cannot be written; the folder is unchanged then.
    """
    with ExitStack() as stack:
        made = _make_and_lock(folder, stack)
        claim = ClaimedFolder(folder, made, frozenset(os.listdir(folder)))
        try:
            refuse_run(folder)
            remove_unfinished(folder)  # of a process that was killed before it had claimed the folder
            write_text(recipe, folder / RECIPE, stored=True)
        except BaseException:
            claim.abandon()
            raise
        yield claim


def _make_and_lock(folder: Path, stack: ExitStack) -> list[Path]:
    """Make a folder and lock it until the stack is closed. Return the created folders."""
    for _ in range(_ATTEMPTS):
        made = make_folder(folder)
        try:
            before = os.stat(folder).st_ino
            lock = ExitStack()
            lock.enter_context(locked(folder))
            if os.stat(folder).st_ino == before:
                stack.enter_context(lock)
                return made
            lock.close()
        except (FileNotFoundError, InputError):
            if folder.exists():  # and it belongs to the run that has locked it, also if this process made it
                raise
        # Another run was refused and has just removed the folder.
    raise InputError(f"{folder}: other processes keep creating and removing this folder. Name another folder.")


def refuse_run(folder: Path) -> None:
    """Raise InputError if a folder holds a run or a model."""
    if any(os.path.lexists(folder / name) for name in (CHECKPOINT, RECIPE)):
        raise InputError(f"{folder}: already holds a run. Resume it with --resume {folder}, or name another folder.")
    if (folder / WEIGHTS).exists():
        raise InputError(f"{folder}: already holds a model. Name another folder.")


def read_recipe_text(folder: Path) -> str:
    """Return the recipe of the run in a folder, as YAML.

    Raises InputError if there is none, and for a file that is not a regular one or too large.
    """
    if not os.path.lexists(folder / RECIPE):
        raise InputError(f"{folder}: no run to resume: {RECIPE} is missing")
    return read_stored_text(folder / RECIPE, LARGEST_RECIPE)


# Hashes of the files that a run reads, which are stored at its start and compared when it is resumed.
# A resumed run continues in the middle of its training data. If the data has changed, the run would train on parts of
# two texts, and its scores would be meaningless.

Fingerprints = dict[str, dict[str, str | None]]
"""SHA-256 hashes by setting ("text.train"), then by file; None for standard input and pipes."""

_FORMAT = 1
_BLOCK = 1 << 20  # bytes


def fingerprint(paths: Mapping[str, str | None], treebanks: Iterable[str] = ()) -> Fingerprints:
    """Return the hashes of files.

    paths: files by setting; None: no file.
    treebanks: settings whose path may also be a folder or a pattern; all its files are hashed, in sorted order.
    The hash of standard input and of pipes is None.
    Raises InputError for a file that cannot be read.
    """
    from syntaxlm.data.treebanks import treebank_files  # loads NumPy, which help and shell completion do without

    of_trees = set(treebanks)
    return {
        setting: {str(file): _hash(file) for file in (treebank_files(path) if setting in of_trees else [path])}
        for setting, path in paths.items()
        if path is not None
    }


def _hash(path: str | Path) -> str | None:
    if str(path) == STANDARD_INPUT:
        return None
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            return None
        with open(path, "rb") as file:
            return sha256(iter(partial(file.read, _BLOCK), b""))
    except OSError as error:
        raise system_error(path, "read", error) from error


def write_fingerprints(folder: Path, fingerprints: Fingerprints) -> None:
    """Store the hashes of a new run in its folder. Warns if the run cannot be resumed: it reads standard input."""
    for setting in _read_once(fingerprints):
        warnings.warn(f"{setting} is standard input or a pipe: this run cannot be resumed", InputWarning, stacklevel=2)
    content = {"format": _FORMAT, "sha256": fingerprints}
    write_text(to_json(content, indent=2) + "\n", folder / INPUTS, stored=True)


def check_fingerprints(folder: Path, fingerprints: Fingerprints) -> None:
    """Compare the present hashes of a run's files with those at its start.

    Raises InputError with every file that was changed, added or removed, and for standard input and pipes.
    """
    if once := _read_once(fingerprints):
        raise InputError(
            f"{folder}: cannot be resumed: {', '.join(once)} was read from standard input or a pipe, which cannot be"
            " read again. Start a new run with a file."
        )
    before = read_fingerprints(folder)
    faults = []
    for setting in before | fingerprints:
        then, now = before.get(setting, {}), fingerprints.get(setting, {})
        faults += [f"{file}: changed since the run started ({setting})" for file in then if then[file] != now.get(file)]
        faults += [f"{file}: added since the run started ({setting})" for file in now if file not in then]
    if faults:
        raise InputError("\n".join([*faults, f"{folder}: restore the files to resume the run, or start a new run."]))


def read_fingerprints(folder: Path) -> Fingerprints:
    """Read the hashes that a run stored at its start. Raises InputError if the file is missing or damaged."""
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
