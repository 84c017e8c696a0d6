"""One thread per model, which computes the requests that wait for it, so that none blocks the server."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from syntaxlm.errors import InputError

TOGETHER = 32  # most texts of several requests that are computed in one batch

Compute = Callable[[list[Any]], Sequence[Any]]


class OverloadError(Exception):
    """Raised if too many requests wait for a model."""


@dataclass(frozen=True, eq=False)
class _Job:
    """compute: maps all items to as many results. Jobs with the same key differ only in their items."""

    key: Hashable
    items: list[Any]
    compute: Compute
    result: Future[list[Any]] = field(default_factory=Future)


class Worker:
    """A thread that computes jobs in order. Waiting jobs with the same key are computed in one batch."""

    def __init__(self, name: str, max_waiting: int) -> None:
        self._jobs: deque[_Job] = deque()
        self._max_waiting = max_waiting
        self._changed = threading.Condition()
        self._closed = False
        self._name = name
        self._thread = threading.Thread(target=self._work, name=f"model {name}", daemon=True)
        self._thread.start()

    def submit(self, key: Hashable, items: list[Any], compute: Compute) -> Future[list[Any]]:
        """A future of one result per item. Raises OverloadError if too many jobs wait."""
        job = _Job(key, items, compute)
        with self._changed:
            if len(self._jobs) >= self._max_waiting:
                raise OverloadError(f"{self._name}: {len(self._jobs)} requests are waiting. Try again in a few seconds")
            if self._closed:
                raise OverloadError("the server is stopping")
            self._jobs.append(job)
            self._changed.notify()
        return job.result

    def close(self) -> None:
        """Cancels the jobs that wait, and ends the thread after the present one."""
        with self._changed:
            self._closed = True
            for job in self._jobs:
                job.result.cancel()
            self._jobs.clear()
            self._changed.notify()
        self._thread.join()

    def _work(self) -> None:
        while jobs := self._next():
            running = [job for job in jobs if job.result.set_running_or_notify_cancel()]
            if running:
                _run(running)

    def _next(self) -> list[_Job]:
        """The next job, and those that are computed with it; none if the worker is closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._jobs or self._closed)
            if not self._jobs:
                return []
            first = self._jobs.popleft()
            jobs, size = [first], len(first.items)
            for job in [job for job in self._jobs if job.key == first.key]:
                size += len(job.items)
                if size > TOGETHER:
                    break
                jobs.append(job)
                self._jobs.remove(job)
            return jobs


def _run(jobs: list[_Job]) -> None:
    try:
        results = list(jobs[0].compute([item for job in jobs for item in job.items]))
    except InputError as error:
        if len(jobs) == 1:
            jobs[0].result.set_exception(error)
        else:  # only one of them may be wrong
            for job in jobs:
                _run([job])
    except BaseException as error:  # the request reports it, and the thread computes the next job
        for job in jobs:
            job.result.set_exception(error)
    else:
        start = 0
        for job in jobs:
            job.result.set_result(results[start : start + len(job.items)])
            start += len(job.items)
