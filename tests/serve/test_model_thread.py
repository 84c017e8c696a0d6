"""The thread of a model."""

from __future__ import annotations

import threading
import time

import pytest

from syntaxlm.core.errors import InputError
from syntaxlm.core.threads import check_wanted
from syntaxlm.serve import threads
from syntaxlm.serve.threads import RELEASE_SECONDS, ModelThread, OverloadError, Turns


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


def test_few_long_texts_and_many_short_ones_are_computed_at_once(worker):
    sizes = []

    def count(items):
        sizes.append(len(items))
        return items

    long, longer = "a " * 100, "a " * 1000
    texts = [longer, *[long] * 5, *["a"] * 20, (long, long), (long, "a")]
    assert worker.submit("a", texts, count).result(30) == texts
    assert sizes == [1, 2, 2, 8, 8, 5, 1, 1]


def test_a_job_gets_its_results_before_the_next_one_is_computed(worker, busy):
    release = threading.Event()
    computed = []

    def compute(items):
        computed.extend(items)
        if 9 in items:
            release.wait(30)
            raise InputError("wrong item")
        return items

    first, second = (worker.submit("a", items, compute) for items in (list(range(8)), [8, 9]))
    busy.set()
    assert first.result(30) == list(range(8))
    assert not second.done()
    release.set()
    with pytest.raises(InputError, match="wrong item"):
        second.result(30)
    assert computed == [*range(8), 8, 9, 8, 9]  # the first job is not computed again


def test_a_job_is_checked_as_a_whole(worker, busy):
    def check(items):
        if "wrong" in items:
            raise InputError(f"item {items.index('wrong')}")

    jobs = [worker.submit("a", items, list, check) for items in (["a"] * 9, ["a"] * 9 + ["wrong"])]
    busy.set()
    assert jobs[0].result(30) == ["a"] * 9
    with pytest.raises(InputError, match="item 9"):
        jobs[1].result(30)


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


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("times", [[0, 1, 2, 3, 4, 5], [0, 5, 3, 4, 1, 2], [0, 0, 0, 0, 0, 0]])
def test_no_more_threads_compute_at_a_time_than_there_are_turns_and_the_oldest_request_is_next(count, times):
    turns, computing, most, order = Turns(count), 0, [0], []
    lock, release = threading.Lock(), threading.Event()

    def compute(number):
        nonlocal computing
        with turns.turn(times[number]):
            with lock:
                computing += 1
                most[0] = max(most[0], computing)
                order.append(number)
            release.wait(30)
            with lock:
                computing -= 1

    started = [threading.Thread(target=compute, args=(number,)) for number in range(6)]
    for number, thread in enumerate(started):
        thread.start()
        while len(order) + len(turns._waiting) <= number:
            time.sleep(0.001)
    release.set()
    for thread in started:
        thread.join(30)
    assert most == [count]
    assert sorted(order) == list(range(6))
    if count == 1:  # of two threads that are called at once, either may be the first that continues
        assert order == sorted(range(6), key=lambda number: (times[number], number))


def test_a_long_computation_lets_another_one_go_first_after_its_time(monkeypatch):
    monkeypatch.setattr(threads, "TURN_SECONDS", 600)
    turns, order, asked = Turns(1), [], threading.Event()

    def short():
        asked.set()
        with turns.turn(1):
            order.append("short")

    other = threading.Thread(target=short)
    with turns.turn(0) as let_others:
        let_others()  # nobody waits
        other.start()
        assert asked.wait(30)
        while not turns._waiting:
            time.sleep(0.001)
        let_others()
        order.append("too early")
        monkeypatch.setattr(threads, "TURN_SECONDS", 0)
        let_others()
        order.append("long")
    other.join(30)
    assert order == ["too early", "short", "long"]
