"""Locks that several threads and forked processes share."""

from __future__ import annotations

import gc
import multiprocessing
import os
import threading

import pytest

from syntaxlm.core import threads
from syntaxlm.core.threads import no_collection, publishing


@pytest.mark.parametrize(
    ("is_worker", "cores", "before", "variables", "expected"),
    [
        (True, 16, 16, {}, 1),
        (True, 16, 8, {}, 1),  # with two threads for each physical core
        (True, 16, 4, {}, 4),
        (True, 16, 16, {"OMP_NUM_THREADS": "16"}, 16),
        (False, 16, 16, {}, 16),
    ],
)
def test_a_worker_computes_in_one_thread_unless_it_has_chosen_a_number(
    monkeypatch, is_worker, cores, before, variables, expected
):
    import torch

    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    numbers = [before]
    monkeypatch.setattr(torch, "get_num_threads", lambda: numbers[-1])
    monkeypatch.setattr(torch, "set_num_threads", numbers.append)
    monkeypatch.setattr(multiprocessing, "parent_process", lambda: "the parent" if is_worker else None)
    monkeypatch.setattr(threads, "core_count", lambda: cores)
    threads.share_cores()
    assert numbers[-1] == expected


needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="forks of POSIX")


@pytest.fixture
def collecting():
    was_on = gc.isenabled()
    gc.enable()
    yield
    (gc.enable if was_on else gc.disable)()


def test_the_search_for_cycles_goes_on_after_the_last_thread(collecting):
    inside, may_end = threading.Event(), threading.Event()

    def block() -> None:
        with no_collection():
            inside.set()
            may_end.wait(30)

    other = threading.Thread(target=block)
    with no_collection():
        other.start()
        assert inside.wait(30)
    assert not gc.isenabled()
    may_end.set()
    other.join()
    assert gc.isenabled()


def test_a_search_that_was_off_stays_off(collecting):
    gc.disable()
    with no_collection(), no_collection():
        pass
    assert not gc.isenabled()


def in_child(check) -> bool:
    """Whether a check holds in a forked process."""
    child = os.fork()
    if not child:
        os._exit(0 if check() else 1)
    return os.waitpid(child, 0)[1] == 0


@needs_fork
def test_a_child_can_publish_although_another_thread_was_publishing(collecting):
    locked, may_end = threading.Event(), threading.Event()

    def publish() -> None:
        with publishing:
            locked.set()
            may_end.wait(0.2)

    other = threading.Thread(target=publish)
    other.start()
    assert locked.wait(30)
    assert in_child(lambda: publishing.acquire(timeout=5))
    other.join()


@needs_fork
def test_a_child_searches_for_cycles_although_another_thread_of_its_parent_did_not(collecting):
    inside, may_end = threading.Event(), threading.Event()

    def block() -> None:
        with no_collection():
            inside.set()
            may_end.wait(30)

    other = threading.Thread(target=block)
    other.start()
    assert inside.wait(30)
    assert in_child(lambda: gc.isenabled() and not threads._blocks)
    may_end.set()
    other.join()
