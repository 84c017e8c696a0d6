"""Workers that are processes."""

from __future__ import annotations

import errno
import multiprocessing

import pytest

from syntaxlm.core.errors import InputError
from syntaxlm.jobs import job, workers
from syntaxlm.jobs.job import run_job
from syntaxlm.jobs.workers import ProcessEngine
from tests.jobs.counting import counting

pytest.importorskip("pyarrow")


def test_a_killed_worker_loses_nothing_and_a_shard_that_kills_every_worker_is_reported(tmp_path, monkeypatch):
    from pyarrow.parquet import read_table

    monkeypatch.setattr(job, "ATTEMPTS", 2)
    text = tmp_path / "a.txt"
    text.write_text("a\nkill once\nb\nkill\nc\n")
    report = run_job(counting(tmp_path, text, inline=False, lines_per_shard=1), 2)
    assert read_table(tmp_path / "job" / "rows")["sentence"].to_pylist() == [1, 2, 3, 5]
    (failed,) = report.failed
    assert (failed.file, failed.first, failed.last) == (str(text), 4, 4)
    assert failed.reason == "the worker was killed by SIGKILL, perhaps because memory was exhausted"
    assert not multiprocessing.active_children()


def refusing(number: int) -> None:
    raise InputError("no such model")


def test_the_error_of_a_worker_that_cannot_load_its_model_is_raised(tmp_path):
    text = tmp_path / "a.txt"
    text.write_text("a\n")
    with pytest.raises(InputError, match="no such model"):
        run_job(counting(tmp_path, text), 1, lambda setup: ProcessEngine(refusing))
    assert not (tmp_path / "job").exists()


def test_a_system_that_allows_no_further_worker_is_reported(tmp_path, monkeypatch):
    def refuse(executor, *_):
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(workers.ProcessPoolExecutor, "submit", refuse)
    text = tmp_path / "a.txt"
    text.write_text("a\n")
    with pytest.raises(InputError, match=r"worker 1 cannot be started: Too many open files\. Use fewer workers"):
        run_job(counting(tmp_path, text), 1)
    assert not (tmp_path / "job").exists()
