"""The folder of a run, which is claimed atomically and locked while a process uses it."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from syntaxlm.errors import InputError
from syntaxlm.files import UNFINISHED, lock, make_folder, read_stored_text, remove_empty, system_error

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
        """Releases the lock."""
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
    """Claims a folder for a new run by creating recipe.yaml in it, complete and locked, in one atomic step.

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
    """Creates a file with this text, open and locked. Raises FileExistsError if the path exists, also as a link."""
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
    """The content of the recipe of a run. Raises InputError, also for a file that is not a regular one or too large."""
    return read_stored_text(path, LARGEST_RECIPE)


def held(folder: Path) -> HeldFolder:
    """Locks the folder of a run to resume it. Raises InputError if another process uses it."""
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
    """Locks the run of a model folder, if it has one, while its model is used.

    Raises InputError if another process trains it.
    """
    run = held(folder) if os.path.lexists(folder / RECIPE) else None
    try:
        yield
    finally:
        if run is not None:
            run.release()
