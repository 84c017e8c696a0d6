"""The thread of a model."""

from __future__ import annotations

import threading
import time

import pytest

from syntaxlm.core.errors import InputError
from syntaxlm.core.threads import check_wanted
from syntaxlm.serve import threads
from syntaxlm.serve.threads import RELEASE_SECONDS, ModelThread, OverloadError


@pytest.fixture
def worker():
    made = ModelThread("one", max_waiting=10)
    yield made
    made.stop()


@pytest.fixture
def busy(worker):
    """Keeps the thread of `worker` occupied until it is set."""
    release = threading.Event()
    started = threading.Event()

    def wait(items):
        started.set()
        release.wait(30)
        return items

    worker.submit("busy", [0], wait)
    assert started.wait(30)
    yield release
    release.set()


def test_waiting_jobs_with_the_same_key_are_computed_together_in_order(worker, busy):
    batches = []

    def double(items):
        batches.append(list(items))
        return [2 * item for item in items]

    first, other, second = (worker.submit(key, items, double) for key, items in (("a", [1, 2]), ("b", [5]), ("a", [3])))
    busy.set()
    assert (first.result(30), second.result(30), other.result(30)) == ([2, 4], [6], [10])
    assert batches == [[1, 2, 3], [5]]


def test_a_wrong_item_fails_only_its_own_job(worker, busy):
    def check(items):
        if "wrong" in items:
            raise InputError("wrong item")
        return items

    jobs = [worker.submit("a", [item], check) for item in ("one", "wrong", "two")]
    busy.set()
    assert [jobs[0].result(30), jobs[2].result(30)] == [["one"], ["two"]]
    with pytest.raises(InputError, match="wrong item"):
        jobs[1].result(30)


def test_cancelled_jobs_are_left_out_and_too_many_are_refused(worker, busy):
    computed = []
    jobs = [worker.submit(number, [number], lambda items: computed.extend(items) or items) for number in range(10)]
    with pytest.raises(OverloadError, match="one: 10 requests are waiting"):
        worker.submit("more", [1], list)
    assert jobs[3].cancel()
    busy.set()
    assert jobs[9].result(30) == [9]
    assert computed == [0, 1, 2, 4, 5, 6, 7, 8, 9]


def test_a_job_that_was_abandoned_ends_and_the_next_one_is_computed(worker):
    started = threading.Event()

    def endless(items):
        started.set()
        while True:
            check_wanted()

    job = worker.submit("endless", [1], endless)
    assert started.wait(30)
    job.cancel()
    assert worker.submit("a", [1], list).result(30) == [1]


def test_stopping_refuses_what_waits(worker, busy):
    job = worker.submit("a", [1], list)
    worker.stop()
    with pytest.raises(OverloadError, match="stopping"):
        job.result(30)
    with pytest.raises(OverloadError, match="stopping"):
        worker.submit("a", [1], list)


def test_freed_memory_is_released_now_and_then(worker, monkeypatch):
    releases = []
    monkeypatch.setattr(threads, "release_freed_memory", lambda: releases.append(time.monotonic()))
    for before, expected in ((RELEASE_SECONDS - 3, 0), (RELEASE_SECONDS, 1)):
        monkeypatch.setattr(threads, "_last_release", time.monotonic() - before)
        for _ in range(3):  # what follows the last job may be still to come
            worker.submit("a", [1], list).result(30)
        assert len(releases) == expected
