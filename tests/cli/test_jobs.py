"""Jobs of `parse` and `score`."""

from __future__ import annotations

import json
from functools import partial

import pytest

from syntaxlm import cli
from syntaxlm.core.errors import InputError
from syntaxlm.data.plain_text import PLAIN
from syntaxlm.jobs import job as job_module
from syntaxlm.jobs.job import Job, run_job
from syntaxlm.jobs.work import ParseWork, ScoreWork
from syntaxlm.jobs.workers import Outcome
from syntaxlm.parsing.options import ParseOptions
from syntaxlm.scoring.options import ScoreOptions
from syntaxlm.storage.folder import write_model
from tests.fresh_models import STREAM, fresh
from tests.jobs.counting import InlineEngine, completed

pytest.importorskip("pyarrow")


@pytest.fixture
def text(tmp_path, toy):
    path = tmp_path / "text.txt"
    path.write_text("The dog, it sees!\n\n" + (toy / "test.txt").read_text())
    return path


def table(path):
    from pyarrow.parquet import read_table

    return read_table(path)


def same(job_rows, rows, text) -> bool:
    """Whether the rows of a job are those of the command in one process, after the name of the file."""
    assert set(job_rows["file"].to_pylist()) == {str(text)}
    return job_rows.drop_columns(["file"]).to_pylist() == rows.to_pylist()


def run(work, text, folder, **settings):
    return run_job(Job(work, (str(text),), folder, lines_per_shard=6, **settings), 2, InlineEngine)


def test_a_job_of_processes_writes_the_rows_of_parse_and_continues(trained, text, tmp_path, capsys):
    words = ["parse", str(trained.prpn), str(text)]
    assert cli.main([*words, "-o", str(tmp_path / "rows.parquet")]) == 0
    words += ["--workers", "1", "--lines-per-shard", "10", "-o", str(tmp_path / "job")]
    capsys.readouterr()
    assert cli.main(words) == 0
    assert "2 of 2 shards done" in capsys.readouterr().out
    assert same(table(tmp_path / "job" / "rows"), table(tmp_path / "rows.parquet"), text)
    settings = json.loads((tmp_path / "job" / "job.json").read_text())["settings"]
    assert settings["options"] == {
        "decoder": None, "layer": None, "labels": False, "ties": "random", "marks": "auto",
        "punctuation": "auto", "contractions": "auto", "best": 1, "samples": 0, "sample_seed": 0,
        "pretokenised": False,
    }  # fmt: skip
    assert cli.main([*words, "--decoder", "unbiased"]) == 2
    assert 'options.decoder: null before, "unbiased" now' in capsys.readouterr().err


def test_a_job_writes_the_rows_of_score(trained, text, tmp_path):
    assert cli.main(["score", str(trained.prpn), str(text), "-o", str(tmp_path / "rows.parquet")]) == 0
    run(ScoreWork((str(trained.prpn),), ScoreOptions()), text, tmp_path / "job")
    assert same(table(tmp_path / "job" / "rows"), table(tmp_path / "rows.parquet"), text)


def test_a_job_averages_trees_and_reads_the_words_of_tagged_text(trained, text, tmp_path):
    tagged = tmp_path / "text.tagged.txt"
    tagged.write_text("".join(" ".join(f"{word}_X" for word in line.split()) + "\n" for line in text.open()))
    models = (str(trained.prpn), str(trained.prpn) + "/.")
    run(ParseWork(models, ParseOptions()), text, tmp_path / "plain")
    run(ParseWork(models, ParseOptions()), tagged, tmp_path / "tagged")
    plain, words = (table(tmp_path / name / "rows").drop_columns(["file"]) for name in ("plain", "tagged"))
    assert plain.num_rows > 20
    assert plain.to_pylist() == words.to_pylist()


def test_a_model_of_streams_is_scored_sentence_by_sentence(text, tmp_path):
    model = tmp_path / "model"
    write_model(model, fresh("lstm", STREAM))
    work = partial(ScoreWork, (str(model),))
    run(work(ScoreOptions()), text, tmp_path / "job")
    words = ["score", str(model), str(text), "-o", str(tmp_path / "rows.parquet")]
    assert cli.main(words) == 0
    assert same(table(tmp_path / "job" / "rows"), table(tmp_path / "rows.parquet"), text)


def test_a_model_that_changes_during_a_job_stops_it(trained, text, tmp_path):
    class Another(InlineEngine):
        def start(self, number):
            worker, ready = super().start(number)
            return worker, completed(lambda: ready.result()._replace(result=([str(number)], PLAIN)))

    with pytest.raises(InputError, match="a model changed during the job"):
        run_job(
            Job(ParseWork((str(trained.prpn),), ParseOptions()), (str(text),), tmp_path / "job", lines_per_shard=6),
            2, Another,
        )  # fmt: skip


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["a.txt", "b.txt"], "found 2 texts; expected one. Several files are read by a job: add --workers N"),
        (["a.txt", "--bad-lines", "skip"], "--bad-lines: applies only with --workers or --engine; add --workers N"),
        (["a.txt", "--id-column", "id"], "--id-column: applies only with --workers"),
        (["a.txt", "--workers", "2"], "writes to a folder; add -o FOLDER"),
        (["a.txt", "--engine", "ray", "-o", "job", "--json"], "--format json: a job writes Parquet files"),
        (["--workers", "2", "-o", "job"], "a job reads files; expected at least one"),
        (["a.txt", "--workers", "2", "-o", "job", "--ray-address", "auto"], "applies only with --engine ray"),
        (["job/a.txt", "--workers", "1", "-o", "job"], "job/a.txt: cannot be read"),
    ],
)
@pytest.mark.parametrize("command", ["parse", "score"])
def test_wrong_options_are_refused_before_a_worker_is_started(command, words, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(job_module, "Pool", None)
    (tmp_path / "a.txt").write_text("the cat\n")
    assert cli.main([command, "en-fast", *words]) == 2
    assert message in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["parse", "en-fast", "a.txt", "--column", "text"], "--column: applies only with --workers"),
        (["parse", "en-fast", "a.txt", "--workers", "2", "-o", "job", "--show-unread"], "--show-unread: applies to"),
        (
            ["score", "en", "a.txt", "--workers", "2", "-o", "job", "--context", "carry"],
            "scored independently; omit it",
        ),
    ],
)
def test_options_without_a_meaning_in_a_job_are_refused(words, message, capsys):
    assert cli.main(words) == 2
    assert message in capsys.readouterr().err


def test_failed_shards_give_the_exit_code_1(text, tmp_path, monkeypatch, capsys):
    class Failing(InlineEngine):
        def do(self, worker, task):
            return Outcome("failed", reason="MemoryError: no memory")

    monkeypatch.setattr("syntaxlm.jobs.workers.ProcessEngine", Failing)
    assert cli.main(["parse", "en-fast", str(text), "--workers", "2", "-o", str(tmp_path / "job")]) == 1
    assert f"{text}, lines 1 to 17 (part-0000000.parquet): MemoryError: no memory" in capsys.readouterr().out


def test_a_folder_without_a_model_does_not_hide_a_bundled_model_of_its_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("syntaxlm.jobs.workers.ProcessEngine", InlineEngine)
    (tmp_path / "en-fast").mkdir()
    (tmp_path / "en-fast" / "text.txt").write_text("The dog sees it.\n")
    assert cli.main(["parse", "en-fast", "en-fast/text.txt", "--workers", "1", "-o", "job"]) == 0
