"""Threads that compute the answers of a server."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Iterator, Sequence
from concurrent.futures import Future, InvalidStateError, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from syntaxlm.core.errors import InputError
from syntaxlm.core.systems import release_freed_memory
from syntaxlm.core.threads import abandonable, check_wanted, core_count

ITEMS_PER_CALL = 32  # most texts of several requests that are computed together
PIECE = 8  # most texts that are computed at once; after each piece, others may go first, or the computation may end
PIECE_COST = 20_000  # most squared words of a piece of several texts, which take up to half a second: two of 100 words
TURN_SECONDS = 0.5  # after which a long computation lets those of other models go first
RELEASE_SECONDS = 5.0  # between two releases of freed memory, each of which takes a few milliseconds

Compute = Callable[[list[Any]], Sequence[Any]]
Check = Callable[[list[Any]], None]


class OverloadError(Exception):
    """Raised if too many requests wait for a model."""


@dataclass(frozen=True, eq=False)
class _Job:
    """A call that a thread makes.

    Attributes:
        compute: maps some items to as many results. Jobs with the same key differ only in their items.
        check: raises an error for wrong items. It gets all items of the job, so that it can number them.
        submitted: the time, in seconds.
    """

    key: Hashable
    items: list[Any]
    compute: Compute
    check: Check | None
    result: Future[list[Any]] = field(default_factory=Future)
    submitted: float = field(default_factory=time.monotonic)


class Turns:
    """Lets as many threads compute at a time as there are cores, those with the oldest requests first.

    More threads than cores would spend a quarter of the time on waiting for the interpreter's lock.
    """

    def __init__(self, count: int) -> None:
        self._free = count
        self._waiting: dict[threading.Event, float] = {}  # with the times of the requests
        self._lock = threading.Lock()

    @contextmanager
    def turn(self, since: float) -> Iterator[Callable[[], None]]:
        """Wait for a turn, which lasts while the block runs.

        Args:
            since: the time of the request, `time.monotonic()`.

        Yields:
            A function that, if the turn has lasted for `TURN_SECONDS`, ends it and waits for the next one.
        """
        self._begin(since)
        began = time.monotonic()

        def let_others() -> None:
            nonlocal began
            if self._waiting and time.monotonic() - began >= TURN_SECONDS:
                self._end()
                self._begin(since)
                began = time.monotonic()

        try:
            yield let_others
        finally:
            self._end()

    def _begin(self, since: float) -> None:
        with self._lock:
            if self._free:
                self._free -= 1
                return
            called = threading.Event()
            self._waiting[called] = since
        called.wait()

    def _end(self) -> None:
        with self._lock:
            if self._waiting:
                oldest = min(self._waiting, key=self._waiting.__getitem__)
                del self._waiting[oldest]
                oldest.set()
            else:
                self._free += 1


_turns = Turns(max(2, core_count()))  # two, so that a long step of one model does not hold up all others


class ModelThread:
    """A thread that computes jobs in order, so that none blocks the server. It starts with the first job.

    Waiting jobs with the same key are computed together. A future that is done before, because its request was
    abandoned, is not computed to the end.
    """

    def __init__(self, name: str, max_waiting: int) -> None:
        self._name, self._max_waiting = name, max_waiting
        self._jobs: deque[_Job] = deque()
        self._running: list[_Job] = []
        self._lock = threading.Lock()
        self._executor = ThreadPoolExecutor(1, f"model {name}")

    def submit(
        self, key: Hashable, items: list[Any], compute: Compute, check: Check | None = None
    ) -> Future[list[Any]]:
        """Return a future of one result per item, see `_Job`. Raises OverloadError if too many jobs wait."""
        job = _Job(key, items, compute, check)
        with self._lock:
            self._jobs = deque(job for job in self._jobs if not job.result.done())
            if len(self._jobs) >= self._max_waiting:
                raise OverloadError(f"{self._name}: {len(self._jobs)} requests are waiting. Try again in a few seconds")
            try:
                self._executor.submit(self._compute_next)
            except RuntimeError:
                raise OverloadError("the server is stopping") from None
            self._jobs.append(job)
        return job.result

    @property
    def is_busy(self) -> bool:
        """Whether a job is computed, perhaps one that was abandoned."""
        return bool(self._running)

    def stop(self) -> None:
        """Refuse all jobs, also the present ones, whose computation ends soon."""
        self._executor.shutdown(wait=False)
        with self._lock:
            for job in [*self._running, *self._jobs]:
                abandon(job.result, OverloadError("the server is stopping"))
            self._jobs.clear()

    def _compute_next(self) -> None:
        with self._lock:
            if not self._jobs:  # computed with an earlier one
                return
            first = self._jobs.popleft()
            jobs, size = [first], len(first.items)
            for job in [job for job in self._jobs if job.key == first.key]:
                size += len(job.items)
                if size > ITEMS_PER_CALL:
                    break
                jobs.append(job)
                self._jobs.remove(job)
            self._running = jobs = [job for job in jobs if not job.result.done()]
        if jobs:
            with _turns.turn(jobs[0].submitted) as let_others:

                def is_wanted() -> bool:
                    let_others()
                    return not all(job.result.done() for job in jobs)

                with abandonable(is_wanted):
                    _compute(jobs)
            self._running = []
            _release_memory()


_last_release = time.monotonic()


def _release_memory() -> None:
    """Release freed memory now and then. Otherwise each thread keeps that of its largest request."""
    global _last_release
    now = time.monotonic()
    if now - _last_release >= RELEASE_SECONDS:
        _last_release = now
        release_freed_memory()


def _compute(jobs: list[_Job]) -> None:
    """Compute jobs together. Each job gets its results as soon as they are computed."""
    waiting = deque(jobs)
    results: list[Any] = []
    try:
        for job in jobs:
            if job.check is not None:
                job.check(job.items)
        for piece in _pieces([item for job in jobs for item in job.items]):
            check_wanted()
            results += jobs[0].compute(piece)
            while waiting and len(results) >= len(waiting[0].items):
                job = waiting.popleft()
                job_results, results = results[: len(job.items)], results[len(job.items) :]
                with suppress(InvalidStateError):  # it was abandoned
                    job.result.set_result(job_results)
    except BaseException as error:  # the request reports it, and the thread computes the next job
        for job in waiting:
            if isinstance(error, InputError) and len(jobs) > 1:  # only one of them may be wrong
                _compute([job])
            else:
                abandon(job.result, error)


def _pieces(items: Sequence[Any]) -> Iterator[list[Any]]:
    """Yield the items in lists, so that few long texts are computed at once."""
    piece: list[Any] = []
    cost = 0
    for item in items:
        texts = item if isinstance(item, tuple) else (item,)  # a pair, or a text or another request
        item_cost = sum(len(text.split()) ** 2 for text in texts if isinstance(text, str))
        if piece and (len(piece) == PIECE or cost + item_cost > PIECE_COST):
            yield piece
            piece, cost = [], 0
        piece.append(item)
        cost += item_cost
    if piece:
        yield piece


def abandon(result: Future[Any], error: BaseException) -> None:
    """End a future with an error, unless it is done."""
    with suppress(InvalidStateError):
        result.set_exception(error)
