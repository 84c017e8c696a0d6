"""Sentences that a model refuses, in a job with a real model."""

from __future__ import annotations

import warnings

import pytest

from syntaxlm.jobs.job import Job, run_job
from syntaxlm.jobs.work import ParseWork
from syntaxlm.parsing.options import ParseOptions
from syntaxlm.storage.folder import write_model
from tests.grammar_models import grammar
from tests.jobs.counting import InlineEngine

pytest.importorskip("pyarrow")


def test_a_sentence_too_long_for_a_chart_is_reported_by_its_line_and_the_others_are_parsed(tmp_path):
    write_model(tmp_path / "model", grammar("simple-pcfg"))
    text = tmp_path / "a.txt"
    text.write_text("the cat sees\n" + "the cat sees " * 10_000 + "\nthe dog sleeps\n")
    work = ParseWork((str(tmp_path / "model"),), ParseOptions())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        job = Job(work, (str(text),), tmp_path / "job", longest=1_000_000)
        (failed,) = run_job(job, 1, InlineEngine).failed
        assert failed.reason.startswith(f"{text}, line 2: found 30,000 words (the cat sees")
        skipping = Job(work, (str(text),), tmp_path / "job", longest=1_000_000, bad_lines="skip")
        report = run_job(skipping, 1, InlineEngine)
    assert (report.failed, report.bad_lines, report.done_now) == ((), 1, 1)
