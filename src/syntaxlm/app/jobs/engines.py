"""Workers and the distribution of tasks among them, whatever starts the workers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from syntaxlm.core.errors import InputError

STARTS = 3  # how often a worker may end before it is ready, without another one that is ready


class Ready(NamedTuple):
    """A worker has loaded its models. description: the same for all workers."""

    description: Any


class Done(NamedTuple):
    """A task was done."""

    result: Any


class Failed(NamedTuple):
    """A task failed with an unexpected error. The worker is ready for another task."""

    reason: str


class Refused(NamedTuple):
    """The input or the options are wrong, or nothing can be written: the job cannot continue."""

    message: str


class Ended(NamedTuple):
    """A worker ended: it was killed, or it crashed."""

    reason: str


Event = Ready | Done | Failed | Refused | Ended
Work = Callable[[Any], Any]


def answer(call: Callable[[], Event]) -> Event:
    """Return what a worker reports about a call: its result, or the error that it raised."""
    try:
        return call()
    except InputError as error:
        return Refused(str(error))
    except Exception as error:  # such as MemoryError: the other shards may be possible
        return Failed(f"{type(error).__name__}: {error}")


class Engine(ABC):
    """Starts workers. A worker is what `start` returns.

    setup: called in each worker with the number of the worker; returns a function of a task, with a `description`.
    """

    @abstractmethod
    def start(self, number: int) -> Any:
        """Begin to start a worker, which then reports `Ready`, `Refused` or `Failed`."""

    @abstractmethod
    def give(self, worker: Any, task: Any) -> None:
        """Give a worker that is ready a task, about which it reports `Done`, `Failed` or `Refused`."""

    @abstractmethod
    def wait(self, workers: Sequence[Any]) -> list[tuple[Any, Event]]:
        """Wait until at least one of these workers has reported something, or has ended."""

    @abstractmethod
    def stop(self, worker: Any) -> None:
        """End a worker at once."""

    @abstractmethod
    def default_workers(self) -> int:
        """Return the number of workers that use all processor cores."""

    def close(self) -> None:  # noqa: B027  # not every engine holds something else
        """Free what the engine holds besides its workers."""


class Pool:
    """The workers of a job. They are started when they are needed, and replaced when they end."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._idle: list[Any] = []
        self._busy: dict[Any, Any] = {}  # the task of a worker; None while it starts
        self._started = self._failed_starts = 0
        self._description: Any = None

    def describe(self) -> Any:
        """Return the description of a worker. Raises InputError if it refuses its setup, or cannot be started."""
        while self._description is None:
            self._start()
            for worker, event in self._wait():
                self._take(worker, event)
        return self._description

    def run(self, tasks: Iterable[Any], workers: int) -> Iterator[tuple[Any, Event]]:
        """Do tasks, and yields each with `Done`, `Failed` or `Ended`, in the order in which they end.

        tasks: taken only when a worker is ready.
        workers: the largest number of workers.
        Raises InputError if a worker refuses to continue, or no worker can be started.
        """
        while len(self._idle) > workers:
            self._engine.stop(self._idle.pop())
        rest = iter(tasks)
        following = next(rest, None)
        while following is not None or self._busy:
            while following is not None and self._idle and self._running() < workers:
                worker = self._idle.pop()
                self._busy[worker] = following
                self._engine.give(worker, following)
                following = next(rest, None)
            if following is not None and self._running() < workers:
                self._start()
                continue
            for worker, event in self._wait():
                task = self._take(worker, event)
                if task is not None:
                    yield task, event

    def close(self) -> None:
        """End all workers."""
        for worker in [*self._idle, *self._busy]:
            self._engine.stop(worker)
        self._idle, self._busy = [], {}
        self._engine.close()

    def _running(self) -> int:
        return len(self._busy)

    def _start(self) -> None:
        self._busy[self._engine.start(self._started)] = None
        self._started += 1

    def _wait(self) -> list[tuple[Any, Event]]:
        return self._engine.wait(list(self._busy))

    def _take(self, worker: Any, event: Event) -> Any:
        """Note what a worker reported. Returns its task, which is no longer its own; None if it was starting."""
        task = self._busy.pop(worker)
        if isinstance(event, Refused):
            self._engine.stop(worker)
            raise InputError(event.message)
        if task is None and isinstance(event, Failed | Ended):
            self._engine.stop(worker)
            self._failed_starts += 1
            if self._failed_starts >= STARTS:
                raise InputError(f"workers cannot be started: {event.reason}")
            return None
        if isinstance(event, Ready):
            self._failed_starts = 0
            if self._description not in (None, event.description):
                raise InputError("a worker found other models than the first worker: a model changed during the job")
            self._description = event.description
        if isinstance(event, Ended):
            self._engine.stop(worker)
        else:
            self._idle.append(worker)
        return task
