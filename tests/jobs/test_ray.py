"""Workers that are actors of Ray, which takes seconds to start."""

from __future__ import annotations

import pytest

from syntaxlm.core.errors import InputError
from syntaxlm.jobs.job import run_job
from syntaxlm.jobs.workers import Ray
from tests.jobs.counting import counting

pytest.importorskip("pyarrow")
ray = pytest.importorskip("ray")


def test_a_ray_that_does_not_start_in_time_is_an_error_without_a_traceback(monkeypatch):
    def start(*args, **settings):
        raise Exception("The current node timed out during startup")

    monkeypatch.setattr(ray, "init", start)
    with pytest.raises(InputError, match="--engine ray: cannot be started: The current node timed out"):
        Ray(None, None, 1)


@pytest.mark.long
def test_actors_do_the_shards_and_are_replaced_when_they_are_killed(tmp_path):
    from pyarrow.parquet import read_table

    text = tmp_path / "a.txt"
    text.write_text("a\nkill once\nb\nkill\nc\n")
    job = counting(tmp_path, text, inline=False, lines_per_shard=1)
    report = run_job(job, 2, lambda setup: Ray(setup, None, 2), "ray")
    assert read_table(tmp_path / "job" / "rows")["sentence"].to_pylist() == [1, 2, 3, 5]
    assert [(one.first, one.last) for one in report.failed] == [(4, 4)]
    assert "the worker ended" in report.failed[0].reason
