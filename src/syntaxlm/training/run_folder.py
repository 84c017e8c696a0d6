"""The folder of a run: claimed in one atomic step, and held against other processes while a run is at work in it."""

from __future__ import annotations

import os
import uuid
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from syntaxlm.errors import InputError
from syntaxlm.files import UNFINISHED, lock, make_folder, remove_empty, system_error

RECIPE, METRICS, INPUTS = "recipe.yaml", "metrics.jsonl", "inputs.json"

_ATTEMPTS = 100  # to claim a folder that other runs remove meanwhile, as each of them was refused


@dataclass
class HeldFolder:
    """A run folder that no other process can be at work in until `release`. A killed process holds nothing.

    made: folders that were not there before the claim, the innermost first.
    """

    path: Path
    file: BinaryIO
    made: list[Path]

    def release(self) -> None:
        """Lets other processes in."""
        self.file.close()

    def abandon(self) -> None:
        """Gives up a claim before anything was trained: removes recipe and hashes, and the folders that it made."""
        (self.path / INPUTS).unlink(missing_ok=True)
        if os.name == "nt":  # removes no open file
            self.release()
        (self.path / RECIPE).unlink(missing_ok=True)
        self.release()
        remove_empty(self.made)


def claim(folder: Path, recipe: str) -> HeldFolder:
    """Takes a folder for a new run: recipe.yaml appears in it in one step, complete and already held.

    recipe: the content of that file.  Of several processes that claim one folder, exactly one succeeds.
    Raises InputError where the folder has a recipe, or cannot be written; the folder is then as it was.
    """
    for _ in range(_ATTEMPTS):
        made = make_folder(folder)
        try:
            return HeldFolder(folder, _create(folder / RECIPE, recipe), made)
        except FileExistsError:
            remove_empty(made)
            raise InputError(
                f"{folder}: another run has this folder. Resume it with --resume {folder}, or name another folder."
            ) from None
        except FileNotFoundError:  # a run that was refused removed the folder just now
            continue
        except OSError as error:
            remove_empty(made)
            raise system_error(folder / RECIPE, "written", error) from error
        except BaseException:
            remove_empty(made)
            raise
    raise InputError(f"{folder}: other processes create and remove this folder")


def _create(path: Path, text: str) -> BinaryIO:
    """A new file with this text, open and locked. Raises FileExistsError where there is one; a link counts as one."""
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
        except (OSError, NotImplementedError):  # a file system without hard links: not complete from the first moment
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


def held(folder: Path) -> HeldFolder:
    """Takes the folder of a run to resume it. Raises InputError when another process is at work in it."""
    path = folder / RECIPE
    flags = [getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_BINARY", "O_CLOEXEC")]
    try:
        # Opened for writing where that is allowed: network file systems lock no other files.
        access = os.O_RDWR if os.access(path, os.W_OK) else os.O_RDONLY
        file: BinaryIO = os.fdopen(os.open(path, access | sum(flags)), "r+b" if access == os.O_RDWR else "rb")
    except OSError as error:
        raise system_error(path, "opened", error) from error
    try:
        lock(file.fileno(), folder)
        if not os.path.samestat(os.fstat(file.fileno()), os.stat(path, follow_symlinks=False)):
            raise InputError(f"{folder}: another run took this folder just now")
    except OSError as error:
        file.close()
        raise system_error(path, "opened", error) from error
    except InputError:
        file.close()
        raise
    return HeldFolder(folder, file, [])
