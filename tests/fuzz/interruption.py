"""Runs commands that are killed, interrupted or refused a write at a given change of the file system.

An audit hook counts the changes below the folders of a command: opening a file to write it, renaming, removing, and
making a folder. What a killed command leaves is the state between two changes, so one run that copies its folder before
each change has all states of a command that was killed. Signals and errors are raised just before the change of a
number. A limit on the size of files interrupts a command in the middle of a write, also of a library that is not
written in Python.
"""

from __future__ import annotations

import errno
import faulthandler
import multiprocessing
import os
import re
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

from syntaxlm.core.files import SAFETENSORS_UNFINISHED, UNFINISHED

_RENAMES = ("os.rename", "os.link", "os.symlink")
_CHANGES = ("open", "os.mkdir", "os.rmdir", "os.remove", "os.truncate", "shutil.rmtree", *_RENAMES)
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT
_CLONE_NEWUSER = 0x10000000  # of unshare(2)
SECONDS = 600  # in which a command must end, also on a busy machine
TEMPORARY, STATES = "temporary", "states"  # beside the folder of a command


class Interruption(NamedTuple):
    """How a command is stopped.

    Attributes:
        name: of the interruption, for the names of tests.
        code: the exit code of the interrupted command.
        stop: called before the change of the file system with its event and path. None: nothing is done.
        limits: whether the size of files is limited instead.
    """

    name: str
    code: int
    stop: Callable[[str, str], None] | None = None
    limits: bool = False

    @property
    def cleans(self) -> bool:
        """Whether the command can remove its temporary files."""
        return self.code != -signal.SIGXFSZ


def _send(number: int) -> Callable[[str, str], None]:
    return lambda event, path: os.kill(os.getpid(), number)


def _fill(event: str, path: str) -> None:
    """Fail as on a full disk, on which files can still be renamed and removed."""
    if event in ("open", "os.mkdir"):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)


def _copy(event: str, path: str) -> None:
    """Copy the folder of the command, as it would be left by SIGKILL."""
    states = Path("..", STATES)
    shutil.copytree(".", states / f"{len(os.listdir(states)):03}", symlinks=True)


NOTHING = Interruption("nothing", 0)
TERMINATE = Interruption("SIGTERM", 128 + signal.SIGTERM, _send(signal.SIGTERM))
INTERRUPT = Interruption("SIGINT", 128 + signal.SIGINT, _send(signal.SIGINT))
FULL = Interruption("full", 2, _fill)
OBSERVE = Interruption("observed", 0, _copy)  # nothing is interrupted, and all states are kept
LIMIT = Interruption("limit", 2, limits=True)  # writing fails in the middle of a file
TORN = Interruption("torn", -signal.SIGXFSZ, limits=True)  # the process is killed in the middle of a file


class Ended(NamedTuple):
    """How a command ended.

    Attributes:
        code: its exit code; negative: the number of the signal that killed it.
        errors: what it printed on stderr.
    """

    code: int
    errors: str


def run(
    words: Sequence[str],
    folder: Path,
    interruption: Interruption = NOTHING,
    number: int = 0,
    read_only: bool = False,
    in_fork: bool = True,
) -> Ended:
    """Run a command in a folder until it ends, in a process of its own.

    Args:
        number: of the change before which it is interrupted, from 1; with a limit, the largest size of a file.
        read_only: refuse changes of folders that have no permission for them, which root may otherwise change.
        in_fork: whether the process is a fork of this one, which has imported torch. Some libraries have threads here
            that a fork lacks.
    """
    context = multiprocessing.get_context("fork" if in_fork else "forkserver")
    if not in_fork:
        context.set_forkserver_preload([__name__])
    errors, writer = context.Pipe(duplex=False)
    arguments = list(words), str(folder), writer, interruption.name, number, read_only
    process = context.Process(target=_run, args=arguments)
    process.start()
    writer.close()
    process.join(SECONDS)
    if process.is_alive():
        process.kill()
        process.join()
        raise AssertionError(f"{' '.join(words)}: did not end within {SECONDS} seconds\n{errors_of(errors)}")
    assert process.exitcode is not None
    return Ended(process.exitcode, errors_of(errors))


def errors_of(pipe: Connection) -> str:
    """Return what a process that has ended has written to a pipe."""
    with open(pipe.fileno(), "rb", closefd=False) as file:
        return file.read().decode()


_BY_NAME = {one.name: one for one in (NOTHING, OBSERVE, TERMINATE, INTERRUPT, FULL, LIMIT, TORN)}


def _run(words: list[str], folder: str, errors: Connection, name: str, number: int, read_only: bool) -> None:
    """Run a command in this process."""
    import torch

    from syntaxlm.cli import main

    torch.set_num_threads(1)
    interruption, beside = _BY_NAME[name], Path(folder).parent
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    os.dup2(errors.fileno(), 2)
    sys.stdout, sys.stderr = os.fdopen(1, "w", closefd=False), os.fdopen(2, "w", closefd=False)  # not those of pytest
    tempfile.tempdir = str(beside / TEMPORARY)
    os.makedirs(tempfile.tempdir, exist_ok=True)
    os.chdir(folder)
    (beside / STATES).mkdir(exist_ok=True)
    if read_only and os.geteuid() == 0:
        _drop_privileges()
    if interruption.limits:
        _limit(number, interruption is TORN)
    elif interruption.stop is not None:
        _stop_at(number, interruption.stop, Path(folder))
    faulthandler.dump_traceback_later(SECONDS - 20)
    sys.exit(main(words))


def _drop_privileges() -> None:
    """Make root the plain owner of its files, who cannot change a folder without permission."""
    import ctypes

    if ctypes.CDLL(None, use_errno=True).unshare(_CLONE_NEWUSER):
        raise OSError(ctypes.get_errno(), "this machine has no user namespaces")


def _limit(size: int, kills: bool) -> None:
    import resource

    signal.signal(signal.SIGXFSZ, signal.SIG_DFL if kills else signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


def _stop_at(number: int, stop: Callable[[str, str], None], folder: Path) -> None:
    """Call `stop` before the change of a number below a folder, and before all later changes if it is not a signal."""
    count, is_stopping = 0, False
    below = tuple(os.path.join(os.path.realpath(path), "") for path in (folder, folder.parent / TEMPORARY))
    repeats = stop in (_fill, _copy)

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal count, is_stopping
        if is_stopping or event not in _CHANGES or not isinstance(arguments[0], str | os.PathLike):
            return
        if event == "open" and not (isinstance(arguments[2], int) and arguments[2] & _WRITES):
            return
        path = os.path.abspath(arguments[1] if event in _RENAMES else arguments[0])
        if path.startswith(below):
            count += 1
            if count == number or (count > number and repeats):
                is_stopping = True
                try:
                    stop(event, path)
                finally:
                    is_stopping = False

    sys.addaudithook(hook)


_OF_ONE_RUN = re.compile(  # dates, times, memory, and what the last run of a job did
    rb'"(date|minutes|seconds|worker_seconds|lines_per_second|largest_worker_memory)": (null|"[^"]*"|[\d.]+)'
    rb'|"(done_before|done_now|lines_now)": \d+'
    rb"|\d{4}-\d\d-\d\d \d\d:\d\d UTC"
    rb"|(?<=\], )[\d.]+, \d+(?=, \d+, \"[0-9a-f]{64}\")"  # seconds and memory of a shard, in done.jsonl
)


def snapshot(folder: Path) -> dict[str, bytes]:
    """Return the contents of all files below a folder, without what differs between runs, by their names in it."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {str(path.relative_to(folder)): _OF_ONE_RUN.sub(b"", path.read_bytes()) for path in files}


def is_unfinished(name: str) -> bool:
    """Return whether a file or a folder above it has the name of a half-written one."""
    patterns = (f".*{UNFINISHED}", SAFETENSORS_UNFINISHED)
    return any(Path(part).match(pattern) for part in Path(name).parts for pattern in patterns)
