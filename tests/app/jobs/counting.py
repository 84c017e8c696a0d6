"""A job without a model, which counts the words of lines, and an engine that works in the process of the test."""

from __future__ import annotations

import os
import signal
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from syntaxlm.app.jobs.engines import Done, Ended, Engine, Event, Ready, answer
from syntaxlm.app.jobs.job import Job
from syntaxlm.app.jobs.work import Loaded, Work
from syntaxlm.core.errors import InputError, InputWarning
from syntaxlm.core.tables import Column, Columns, Row

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
        def rows(lines: Sequence[str], first: int) -> list[Row]:
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
            return [{"sentence": first + place, "words": len(line.split())} for place, line in enumerate(lines)]

        return Loaded(rows, together=3, columns=COUNTS, reads_tags=False, sha256=("0" * 64,))

    def to_dict(self) -> dict[str, Any]:
        return {}


def counting(folder: Path, *inputs: Path, **settings: Any) -> Job:
    """A job whose folder is `folder/job`; four lines are a shard."""
    work = Counting((), str(folder / "noted"), settings.pop("inline", True))
    return Job(work, tuple(map(str, inputs)), folder / "job", **({"lines_per_shard": 4} | settings))


class InlineEngine(Engine):
    """One worker after another, in this process. tasks: the first line of each task that was given."""

    def __init__(self, setup: Callable[[int], Any]) -> None:
        self._setup = setup
        self._events: dict[int, Event] = {}
        self._works: dict[int, Any] = {}
        self.tasks: list[tuple[str, int]] = []

    def start(self, number: int) -> int:
        def load() -> Event:
            self._works[number] = self._setup(number)
            return Ready(self._works[number].description)

        self._events[number] = answer(load)
        return number

    def give(self, worker: int, task: Any) -> None:
        self.tasks.append((os.path.basename(task.source.name), task.shard.first))
        try:
            self._events[worker] = answer(lambda: Done(self._works[worker](task)))
        except Killed:
            self._events[worker] = Ended("was killed")

    def wait(self, workers: Sequence[int]) -> list[tuple[int, Event]]:
        return [(worker, self._events[worker]) for worker in workers]

    def stop(self, worker: int) -> None:
        self._works.pop(worker, None)

    def default_workers(self) -> int:
        return 2
