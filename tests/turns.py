"""Threads that take turns often, so that a race between them is seen in seconds."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

T = TypeVar("T")
THREADS = 4


@contextmanager
def short_turns() -> Iterator[None]:
    """Threads take turns after some instructions."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def in_threads(calls: Sequence[Callable[[], T]]) -> list[T]:
    """The results of calls, computed by several threads, each in another order."""

    def results_of(start: int) -> dict[int, T]:
        order = list(range(start, len(calls), THREADS))
        return {place: calls[place]() for place in random.Random(start).sample(order, len(order))}

    with short_turns(), ThreadPoolExecutor(THREADS) as threads:
        found = {place: result for part in threads.map(results_of, range(THREADS)) for place, result in part.items()}
    return [found[place] for place in range(len(calls))]
