"""Sentences that a model refuses or does not know, in a job with a real model."""

from __future__ import annotations

import json
import warnings

import pytest

from syntaxlm.core.errors import InputError
from syntaxlm.core.reading import collected
from syntaxlm.data.corpora import read_sentences
from syntaxlm.jobs.folder import DONE
from syntaxlm.jobs.job import Job, run_job
from syntaxlm.jobs.work import ParseWork, ScoreWork
from syntaxlm.parsing.options import ParseOptions
from syntaxlm.scoring.options import ScoreOptions
from syntaxlm.scoring.reading_summary import ReadingSummary
from syntaxlm.scoring.surprisal import surprisals_of
from syntaxlm.storage.folder import write_model
from tests.grammar_models import grammar
from tests.jobs.counting import InlineEngine

pytest.importorskip("pyarrow")
polars = pytest.importorskip("polars")


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


@pytest.mark.parametrize("work", [ParseWork, ScoreWork])
@pytest.mark.parametrize("suffix", ["txt", "parquet"])
def test_a_job_reports_what_the_command_reports_without_a_job(work, suffix, tmp_path):
    bundle = grammar("simple-pcfg")
    write_model(tmp_path / "model", bundle)
    lines = ["1\tgnus <b>graze</b>", "2\tthe cat sees", "3\tzebras graze", "4\tgnus &amp; zebras", "", "5\tgnus graze"]
    text = tmp_path / f"a.{suffix}"
    if suffix == "txt":
        text.write_text("".join(f"{line}\n" for line in lines))
    else:
        polars.DataFrame({"text": lines}).write_parquet(text)
    options = {ParseWork: ParseOptions(), ScoreWork: ScoreOptions()}[work]
    job = Job(work((str(tmp_path / "model"),), options), (str(text),), tmp_path / "job", lines_per_shard=4)

    with collected() as expected, warnings.catch_warnings(record=True) as caught_before:
        warnings.simplefilter("always")
        given = (
            [line for _, line in read_sentences(tmp_path / "a.txt", bundle.normaliser)] if suffix == "txt" else lines
        )
    with collected() as readings, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        report = run_job(job, 2, InlineEngine)
    messages = [str(warning.message) for warning in caught]
    assert f"{text}: 5 of the first 5 lines have 2 columns, separated by tabs" in messages[0]  # before the work
    assert any("words with letters" in message and "are not in the vocabulary" in message for message in messages), (
        messages
    )
    assert messages[-1].startswith(f"{text}: 2 of 5 lines have HTML")
    assert set(map(str, (warning.message for warning in caught_before))) <= set(messages)
    (reading,) = readings
    assert str(reading) == (
        f"{text}: text, one sentence per line, 5 sentences; 2 lines with HTML, which is read as words (lines 1, 4);"
        " 1 blank line"
    )
    if suffix == "txt":
        assert str(reading) == str(expected[0])

    assert report.to_dict()["readings"] == [reading.to_dict()]
    if work is ParseWork:
        assert report.words is None
    else:
        summary = ReadingSummary(bundle, options)
        for words in surprisals_of(bundle, options)(given):
            summary.add(words)
        assert report.words is not None
        assert report.words.startswith(summary.counts()._replace(advice="").text() + ". Most frequent: gnus")
    again = run_job(job, 2, InlineEngine)
    assert (again.done_now, again.words, again.readings) == (0, report.words, report.readings)

    # An earlier version has done a shard, and not noted what it read.
    done = tmp_path / "job" / DONE
    first, *others = done.read_text().splitlines()
    *older, _ = json.loads(first)
    done.write_text("\n".join([json.dumps(older), *others]) + "\n")
    again = run_job(job, 2, InlineEngine)
    assert (again.done_now, again.words) == (0, None)


def test_texts_of_other_formats_are_refused_before_a_job(tmp_path):
    table = tmp_path / "a.csv"
    table.write_text("item,sentence\n1,the cat sees\n")
    parquet = tmp_path / "a.parquet"
    polars.DataFrame({"text": ["(S (NP (DT the) (NN cat)) (VP (VBD sat)))"]}).write_parquet(parquet)
    for path, found in [
        (table, "found a table with the columns item, sentence"),
        (parquet, "the start of bracketed trees"),
    ]:
        with pytest.raises(InputError, match=found):
            run_job(Job(ParseWork(("missing",), ParseOptions()), (str(path),), tmp_path / "job"), 1, InlineEngine)
