"""The folder of a run, which is claimed atomically and locked while a process uses it."""

from __future__ import annotations

import hashlib
import os
import stat
import uuid
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from syntaxlm.core.errors import InputError, InputWarning
from syntaxlm.core.files import (
    UNFINISHED,
    lock,
    make_folder,
    parse_json,
    read_stored,
    read_stored_text,
    remove_empty,
    system_error,
    to_json,
    write_text,
)
from syntaxlm.core.text_files import STANDARD_INPUT

RECIPE, METRICS, INPUTS = "recipe.yaml", "metrics.jsonl", "inputs.json"
LARGEST_RECIPE = 1 << 20  # bytes

_BEFORE_TRAINING = frozenset(  # files that are written after recipe.yaml
    {INPUTS, METRICS, "config.json", "vocabulary.json", "labels.json", "classifier.json"}
)

_ATTEMPTS = 100  # to claim a folder that other runs create and, when they are refused, remove


@dataclass
class HeldFolder:
    """A run folder that is locked until `release`. The lock of a killed process is released.

    made: folders that were created for the claim, innermost first.
    before: names of the files that were in the folder before the claim.
    """

    path: Path
    file: BinaryIO
    made: list[Path]
    before: frozenset[str] = frozenset()

    def release(self) -> None:
        """Release the lock."""
        self.file.close()

    def abandon(self) -> None:
        """Withdraws a claim before training: removes the files that were written and the folders that were created."""
        for name in _BEFORE_TRAINING - self.before:
            (self.path / name).unlink(missing_ok=True)
        if os.name == "nt":  # Windows does not remove open files
            self.release()
        (self.path / RECIPE).unlink(missing_ok=True)
        self.release()
        remove_empty(self.made)


def claim(folder: Path, recipe: str) -> HeldFolder:
    """Claim a folder for a new run by creating recipe.yaml in it, complete and locked, in one atomic step.

    recipe: the content of recipe.yaml.
    If several processes claim the same folder, exactly one succeeds.
    Raises InputError if the folder already has a recipe or cannot be written; the folder is unchanged then.
    """
    for _ in range(_ATTEMPTS):
        made = make_folder(folder)
        before = frozenset(name for name in _BEFORE_TRAINING if os.path.lexists(folder / name))
        try:
            return HeldFolder(folder, _create(folder / RECIPE, recipe), made, before)
        except FileExistsError:
            remove_empty(made)
            raise InputError(
                f"{folder}: already holds a run. Resume it with --resume {folder}, or name another folder."
            ) from None
        except FileNotFoundError:  # another run was refused and has just removed the folder
            continue
        except OSError as error:
            remove_empty(made)
            raise system_error(folder / RECIPE, "written", error) from error
        except BaseException:
            remove_empty(made)
            raise
    raise InputError(f"{folder}: other processes keep creating and removing this folder. Name another folder.")


def _create(path: Path, text: str) -> BinaryIO:
    """Create a file with this text, open and locked. Raises FileExistsError if the path exists, also as a link."""
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}{UNFINISHED}")
    file: BinaryIO = open(temporary, "x+b")  # noqa: SIM115
    try:
        file.write(text.encode("utf-8"))
        file.flush()
        os.fsync(file.fileno())
        lock(file.fileno(), path.parent)
        try:
            os.link(temporary, path)
        except FileExistsError:
            raise
        except (OSError, NotImplementedError):  # no hard links: the file cannot be created complete
            file.close()
            file = _create_in_place(path, text)
        return file
    except BaseException:
        file.close()
        raise
    finally:
        with suppress(OSError):
            temporary.unlink()


def _create_in_place(path: Path, text: str) -> BinaryIO:
    file = open(path, "x+b")  # noqa: SIM115
    try:
        lock(file.fileno(), path.parent)
        file.write(text.encode("utf-8"))
        file.flush()
        os.fsync(file.fileno())
    except BaseException:
        file.close()
        path.unlink(missing_ok=True)
        raise
    return file


def read_recipe_text(path: Path) -> str:
    """Return the content of the recipe of a run. Raises InputError, also for a file that is not a regular one or too
    large.
    """
    return read_stored_text(path, LARGEST_RECIPE)


def held(folder: Path) -> HeldFolder:
    """Lock the folder of a run to resume it. Raises InputError if another process uses it."""
    path = folder / RECIPE
    flags = [getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_BINARY", "O_CLOEXEC")]
    try:
        # Network file systems lock only files that are open for writing.
        access = os.O_RDWR if os.access(path, os.W_OK) else os.O_RDONLY
        file: BinaryIO = os.fdopen(os.open(path, access | sum(flags)), "r+b" if access == os.O_RDWR else "rb")
    except OSError as error:
        raise system_error(path, "opened", error) from error
    try:
        lock(file.fileno(), folder)
        if not os.path.samestat(os.fstat(file.fileno()), os.stat(path, follow_symlinks=False)):
            raise InputError(f"{folder}: another process has just claimed this folder")
    except OSError as error:
        file.close()
        raise system_error(path, "opened", error) from error
    except InputError:
        file.close()
        raise
    return HeldFolder(folder, file, [])


@contextmanager
def not_training(folder: Path) -> Iterator[None]:
    """Lock the run of a model folder, if it has one, while its model is used.

    Raises InputError if another process trains it.
    """
    run = held(folder) if os.path.lexists(folder / RECIPE) else None
    try:
        yield
    finally:
        if run is not None:
            run.release()


# Hashes of the files that a run reads, which are stored at its start and compared when it is resumed.
#
# A resumed run continues in the middle of its training text. If the text has changed, the run would train on parts of
# two texts, and its scores would be meaningless.


Fingerprints = dict[str, dict[str, str | None]]
"""SHA-256 hashes by setting ("text.train"), then by file; None for standard input and pipes."""

_FORMAT = 1
_BLOCK = 1 << 20  # bytes


def fingerprint(paths: Mapping[str, str | None], treebanks: Iterable[str] = ()) -> Fingerprints:
    """Return the hashes of the files of a run.

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
    """Store the hashes of a new run in its folder. Warns if the run cannot be resumed: it reads standard input."""
    for setting in _read_once(fingerprints):
        warnings.warn(f"{setting} is standard input or a pipe: this run cannot be resumed", InputWarning, stacklevel=2)
    content = {"format": _FORMAT, "sha256": fingerprints}
    write_text(to_json(content, indent=2) + "\n", folder / INPUTS, stored=True)


def check_fingerprints(folder: Path, found: Fingerprints) -> None:
    """Compare the hashes of a run's files with those at its start.

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
