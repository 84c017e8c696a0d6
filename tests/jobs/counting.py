"""A job without a model, which counts the words of lines, and an engine that works in the process of the test."""

from __future__ import annotations

import os
import signal
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from syntaxlm.core.errors import InputError, InputWarning
from syntaxlm.jobs.job import Job
from syntaxlm.jobs.work import Loaded, Work
from syntaxlm.jobs.workers import Engine, InWorker, Outcome
from syntaxlm.reports.tables import Block, Column, Columns

COUNTS = Columns(
    "counts", "line", {"sentence": Column("integer", "number of the line"), "words": Column("integer", "")}
)


class Killed(BaseException):
    """Raised instead of the end of a process by workers of `InlineEngine`."""


@dataclass(frozen=True)
class Counting(Work):
    """Counts words. A line "refuse" is wrong input, and warned of before if it is "warn, refuse".

    A line "warn" is warned of. "kill" kills the worker; "kill once" does if it is the first time.

    noted: a file that remembers this.  inline: the worker is not a process of its own.
    """

    command = "count"
    noted: str = ""
    inline: bool = True

    def load(self, device: str) -> Loaded:
        def rows(lines: Sequence[str], first: int) -> list[Block]:
            for line in lines:
                if line.startswith("warn"):
                    warnings.warn(InputWarning(f"{line!r}: takes long"), stacklevel=2)
            if "refuse" in lines or "warn, refuse" in lines:
                raise InputError("refused")
            if "kill" in lines or ("kill once" in lines and not os.path.exists(self.noted)):
                Path(self.noted).touch()
                if self.inline:
                    raise Killed
                os.kill(os.getpid(), signal.SIGKILL)
            numbers = list(range(first, first + len(lines)))
            return [{"sentence": numbers, "words": [len(line.split()) for line in lines]}]

        return Loaded(rows, columns=COUNTS, sha256=("0" * 64,))

    def to_dict(self) -> dict[str, Any]:
        return {}


def counting(folder: Path, *inputs: Path, **settings: Any) -> Job:
    """A job whose folder is `folder/job`; four lines are a shard."""
    work = Counting((), str(folder / "noted"), settings.pop("inline", True))
    return Job(work, tuple(map(str, inputs)), folder / "job", **({"lines_per_shard": 4} | settings))


class InlineEngine(Engine):
    """Workers in this process, one after another. tasks: the file and first line of each task that was given.

    together: for each task, the number of tasks without an outcome, with itself.  numbers: of the workers.
    """

    def __init__(self, set_up: Callable[[int], Any]) -> None:
        self._set_up = set_up
        self.tasks: list[tuple[str, int]] = []
        self.together: list[int] = []
        self.numbers: list[int] = []
        self._open: list[Seen] = []

    def start(self, number: int) -> tuple[InWorker, Future[Outcome]]:
        worker = InWorker()
        self.numbers.append(number)
        return worker, completed(lambda: worker.set_up(self._set_up, number))

    def submit(self, worker: InWorker, task: Any) -> Future[Outcome]:
        self.tasks.append((os.path.basename(task.source.name), task.shard.first))
        future = completed(lambda: self.do(worker, task))
        self._open = [*filter(lambda earlier: not earlier.seen, self._open), future]
        self.together.append(len(self._open))
        return future

    def do(self, worker: InWorker, task: Any) -> Outcome:
        return worker.do(task)

    def stop(self, worker: InWorker) -> None:
        pass

    def how_it_ended(self, worker: InWorker, error: BaseException) -> str:
        return "was killed"

    def default_workers(self) -> int:
        return 2


class Seen(Future[Outcome]):
    """seen: whether its outcome was asked for."""

    seen = False

    def exception(self, timeout: float | None = None) -> BaseException | None:
        self.seen = True
        return super().exception(timeout)


def completed(call: Callable[[], Outcome]) -> Seen:
    future = Seen()
    try:
        future.set_result(call())
    except Killed as error:
        future.set_exception(error)
    return future
