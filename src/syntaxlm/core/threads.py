"""What threads and processes share: locks that no fork leaves locked, cores, and the end of unwanted computations.

A value that several threads use is computed without a lock and published whole, by one assignment. `publishing` is for
values that are made from the last published one.
"""

from __future__ import annotations

import gc
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

publishing = threading.Lock()
"""Held for the moment in which a shared value is replaced by its successor; no other lock is taken in it."""

torch_globals = threading.RLock()
"""Held while torch's random numbers or settings, which all threads share, are changed for a while."""

_blocks, _was_on = 0, True  # blocks `no_collection` of all threads, and whether cycles were searched before


@contextmanager
def no_collection() -> Iterator[None]:
    """Stop the search for cycles, which would visit millions of small new objects without cycles again and again.

    It goes on, if it was on, when no thread is in such a block.
    """
    global _blocks, _was_on
    with publishing:
        if not _blocks:
            _was_on = gc.isenabled()
        _blocks += 1
        gc.disable()
    try:
        yield
    finally:
        with publishing:
            _blocks -= 1
            if not _blocks and _was_on:
                gc.enable()


def hold_in_forks(lock: Any) -> None:
    """Lock during each fork, because a child lacks the threads that would release the lock.

    Args:
        lock: the lock of the module `threading`.
    """
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release)


def _begin_child() -> None:
    """Let torch compute in one thread, because a child waits forever for those of its parent."""
    global _blocks
    if _blocks and _was_on:  # of threads that the child lacks
        gc.enable()
    _blocks = 0
    torch: Any = sys.modules.get("torch")
    if hasattr(torch, "set_num_threads"):  # imported, and not only begun
        torch.set_num_threads(1)


def share_cores() -> None:
    """Let torch compute in one thread in a process that `multiprocessing` started, because it is one of several.

    OMP_NUM_THREADS and a smaller number that the process has chosen before are kept.
    """
    from multiprocessing import parent_process

    torch = sys.modules["torch"]
    is_chosen = "OMP_NUM_THREADS" in os.environ or torch.get_num_threads() < core_count() // 2
    if parent_process() is not None and not is_chosen:
        torch.set_num_threads(1)


def when_parent_ends(act: Callable[[], object]) -> None:
    """Call a function, in a thread, when the process ends that started this one by `multiprocessing`, or is killed."""
    from multiprocessing import parent_process

    parent = parent_process()
    assert parent is not None

    def wait() -> None:
        parent.join()
        act()

    threading.Thread(target=wait, daemon=True).start()


def core_count() -> int:
    """Return the number of processor cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class AbandonedError(Exception):
    """Raised in a computation whose result is no longer wanted."""


_is_wanted: ContextVar[Callable[[], bool] | None] = ContextVar("is_wanted", default=None)


@contextmanager
def abandonable(is_wanted: Callable[[], bool]) -> Iterator[None]:
    """End long computations in the block with AbandonedError once `is_wanted` returns False, see `check_wanted`."""
    token = _is_wanted.set(is_wanted)
    try:
        yield
    finally:
        _is_wanted.reset(token)


def check_wanted() -> None:
    """Raise AbandonedError if the result of this computation is no longer wanted. Called between its steps.

    The caller holds no lock, because a server may let other computations go first here.
    """
    is_wanted = _is_wanted.get()
    if is_wanted is not None and not is_wanted():
        raise AbandonedError


hold_in_forks(publishing)
hold_in_forks(torch_globals)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_child)
