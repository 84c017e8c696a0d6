"""Workers that are processes of this machine, started by the standard library."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from syntaxlm.app.jobs.engines import Done, Ended, Engine, Event, Ready, Work, answer

_KILLED_FIRST = "500"  # added to the badness of a worker, so that Linux does not end the process that runs the job

# Processes are not forked: torch may have started threads, which a forked process lacks.
_processes = multiprocessing.get_context("spawn")


@dataclass(frozen=True, eq=False)
class _Process:
    """A worker process and the connection to it."""

    process: BaseProcess
    connection: Connection


class ProcessEngine(Engine):
    """Starts a process per worker. A program that uses it needs the guard `if __name__ == "__main__":`."""

    def __init__(self, setup: Callable[[int], Work]) -> None:
        self._setup = setup

    def start(self, number: int) -> _Process:
        connection, other = _processes.Pipe()
        process = _processes.Process(target=_serve, args=(other, self._setup, number), daemon=True)
        process.start()
        other.close()  # so that the end of the process closes the connection
        return _Process(process, connection)

    def give(self, worker: _Process, task: Any) -> None:
        with suppress(OSError):  # it has ended, which `wait` reports
            worker.connection.send(task)

    def wait(self, workers: Sequence[_Process]) -> list[tuple[_Process, Event]]:
        ready = wait([worker.connection for worker in workers])
        return [(worker, _received(worker)) for worker in workers if worker.connection in ready]

    def stop(self, worker: _Process) -> None:
        worker.process.kill()
        worker.process.join()
        worker.connection.close()

    def default_workers(self) -> int:
        return usable_cores()


def usable_cores() -> int:
    """Return the number of processor cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _received(worker: _Process) -> Event:
    try:
        event: Event = worker.connection.recv()
    except (EOFError, OSError):
        worker.process.join()
        return Ended(_how_it_ended(worker.process.exitcode or 0))
    return event


def _how_it_ended(code: int) -> str:
    if code >= 0:
        return f"ended with exit code {code}"
    with suppress(ValueError):
        name = signal.Signals(-code).name
        return f"was killed by {name}" + (", perhaps because memory was exhausted" if name == "SIGKILL" else "")
    return f"was killed by signal {-code}"


def _serve(connection: Connection, setup: Callable[[int], Work], number: int) -> None:
    """The main function of a worker process: it ends when the connection is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C: the process that runs the job ends its workers
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch is imported
    with suppress(OSError):  # not Linux
        Path("/proc/self/oom_score_adj").write_text(_KILLED_FIRST)
    if number > 0:  # warnings are those of the first worker
        warnings.simplefilter("ignore")
    warnings.showwarning = lambda message, *_: print(f"syntaxlm: warning: {message}", file=sys.stderr)
    work: Work | None = None

    def start() -> Event:
        nonlocal work
        work = setup(number)
        return Ready(work.description)  # type: ignore[attr-defined]

    with suppress(EOFError, OSError):
        connection.send(answer(start))
        while work is not None:
            connection.send(answer(partial(_do, work, connection.recv())))


def _do(work: Work, task: Any) -> Event:
    return Done(work(task))
