"""Jobs: what is done, done again, refused and reported. Workers are in the process of the test, without a model."""

from __future__ import annotations

import csv
import gzip
import json
import os

import pytest

from syntaxlm.core.errors import InputError, InputWarning
from syntaxlm.core.files import locked
from syntaxlm.jobs.folder import InputState, JobFolder, JobSettings
from syntaxlm.jobs.inputs import Shard
from syntaxlm.jobs.job import JobReport, run_job
from syntaxlm.jobs.workers import Pool
from tests.jobs.counting import InlineEngine, counting
from tests.jobs.test_shards import parquet

pytest.importorskip("pyarrow")


@pytest.fixture(autouse=True)
def three_lines_at_a_time(monkeypatch):
    monkeypatch.setattr("syntaxlm.jobs.job.LINES_TOGETHER", 3)


@pytest.fixture
def text(tmp_path):
    """Ten lines, which are three shards."""
    path = tmp_path / "a.txt"
    path.write_text("".join("w " * number + "\n" for number in range(10)))
    return path


def run_with_engine(job, workers: int = 2) -> tuple[JobReport, InlineEngine]:
    engines = []

    def engine(set_up):
        engines.append(InlineEngine(set_up))
        return engines[0]

    return run_job(job, workers, engine), engines[0]


def run(job, workers: int = 2) -> tuple[JobReport, list[tuple[str, int]]]:
    """Runs a job. Returns its report, and the file and first line of each shard that was given to a worker."""
    report, engine = run_with_engine(job, workers)
    return report, engine.tasks


def rows(tmp_path) -> list[dict]:
    from pyarrow.parquet import read_table

    return read_table(tmp_path / "job" / "rows").to_pylist()


def bad_lines(tmp_path) -> list[dict[str, str]]:
    with open(tmp_path / "job" / "bad-lines.tsv", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t"))


def test_the_rows_of_several_inputs_are_in_order_with_file_and_number(tmp_path, text):
    other = tmp_path / "b.txt"
    other.write_text("a b c\n")
    report, engine = run_with_engine(counting(tmp_path, text, other))
    expected = [{"file": str(text), "sentence": number + 1, "words": number} for number in range(10)]
    assert rows(tmp_path) == [*expected, {"file": str(other), "sentence": 1, "words": 3}]
    assert sorted(engine.tasks) == [("a.txt", 1), ("a.txt", 5), ("a.txt", 9), ("b.txt", 1)]
    assert engine.numbers == [0, 1]
    assert (report.shards, report.done_now, report.lines, report.rows, report.bad_lines) == (4, 4, 11, 11, 0)
    stored = json.loads((tmp_path / "job" / "report.json").read_text())
    assert stored == json.loads(json.dumps(report.to_dict()))


@pytest.mark.parametrize("ids", [[7, 5, 3], ["x", "y", "z"]])
def test_ids_are_copied_to_the_rows(ids, tmp_path):
    path = parquet(tmp_path / "a.parquet", ["a", "a b", "a b c"], ids)
    run(counting(tmp_path, path, id_column="key", lines_per_shard=2))
    found = [(row["id"], row["sentence"], row["words"]) for row in rows(tmp_path)]
    assert found == [(id, number, number) for number, id in enumerate(ids, 1)]


def test_unsigned_ids_are_copied_to_the_rows(tmp_path):
    polars = pytest.importorskip("polars")
    ids = polars.Series([2**64 - 1, 0, None], dtype=polars.UInt64)
    polars.DataFrame({"text": ["a", "a b", "a b c"], "key": ids}).write_parquet(tmp_path / "a.parquet")
    run(counting(tmp_path, tmp_path / "a.parquet", id_column="key", lines_per_shard=2))
    assert [row["id"] for row in rows(tmp_path)] == [2**64 - 1, 0, None]


def test_a_rerun_does_only_what_is_not_done(tmp_path, text):
    job = counting(tmp_path, text)
    run(job)
    before = rows(tmp_path)
    report, tasks = run(job)
    assert (tasks, report.done_before, report.done_now) == ([], 3, 0)
    done = tmp_path / "job" / "done.jsonl"
    last = json.loads(done.read_text().splitlines()[-1])[0]
    done.write_bytes(done.read_bytes()[:-5])  # the job was killed while it noted the last shard
    (tmp_path / "job" / "rows" / ".part-0000002.parquet.x.unfinished").write_bytes(b"half a file")
    report, tasks = run(job)
    assert (tasks, report.done_before) == ([("a.txt", 4 * last + 1)], 2)
    (tmp_path / "job" / "rows" / "part-0000001.parquet").unlink()
    assert run(job)[1] == [("a.txt", 5)]
    assert rows(tmp_path) == before
    assert len(list((tmp_path / "job" / "rows").iterdir())) == 3


def linked(path, name: str, keep: bool = False) -> None:
    path.rename(path.parents[2] / name) if keep else path.unlink()
    path.symlink_to(path.parents[2] / name)


def with_bytes(path, change) -> None:
    path.write_bytes(change(path.read_bytes()))


DAMAGE = {
    "truncated": lambda path: with_bytes(path, lambda content: b""),
    "cut short": lambda path: with_bytes(path, lambda content: content[:-1]),
    "without its middle": lambda path: with_bytes(path, lambda content: content[:100] + content[101:]),
    "overwritten at its end": lambda path: with_bytes(path, lambda content: content[:-4] + b"\0" * 4),
    "changed inside": lambda path: with_bytes(
        path, lambda content: content[:9] + bytes([content[9] ^ 1]) + content[10:]
    ),
    "replaced by another shard": lambda path: with_bytes(
        path, lambda content: (path.parent / "part-0000000.parquet").read_bytes()
    ),
    "linked elsewhere": lambda path: linked(path, "elsewhere"),
    "linked to a copy": lambda path: linked(path, "copy", keep=True),
    "linked to nothing": lambda path: linked(path, "missing"),
}


@pytest.mark.parametrize("noted", [True, False])
@pytest.mark.parametrize("damage", DAMAGE)
def test_a_shard_whose_rows_are_damaged_or_a_link_is_done_again_and_no_link_is_followed(damage, noted, tmp_path, text):
    job = counting(tmp_path, text)
    run(job)
    before = rows(tmp_path)
    (tmp_path / "elsewhere").write_text("mine")
    path = job.folder / "rows" / "part-0000001.parquet"
    DAMAGE[damage](path)
    if not noted:  # the job was killed before it noted the shard
        done = job.folder / "done.jsonl"
        done.write_text("".join(line for line in done.open() if json.loads(line)[0] != 1))
    report, tasks = run(job)
    assert (tasks, report.done_before, report.done_now) == ([("a.txt", 5)], 2, 1)
    assert not path.is_symlink()
    assert rows(tmp_path) == before
    assert (tmp_path / "elsewhere").read_text() == "mine"
    assert not (tmp_path / "missing").exists()
    assert run(job)[1] == []


def test_the_damaged_file_of_a_shard_that_fails_again_is_removed(tmp_path, text):
    text.write_text("kill once\n")
    job = counting(tmp_path, text)
    (tmp_path / "noted").touch()
    run(job)
    path = job.folder / "rows" / "part-0000000.parquet"
    DAMAGE["truncated"](path)
    (tmp_path / "noted").unlink()

    class Unlucky(InlineEngine):
        def do(self, worker, task):
            (tmp_path / "noted").unlink(missing_ok=True)
            return super().do(worker, task)

    assert len(run_job(job, 1, Unlucky).failed) == 1
    assert not path.exists()


def test_other_settings_are_refused_with_the_difference_once_a_shard_is_done(tmp_path, text):
    run(counting(tmp_path, text))
    with pytest.raises(InputError, match="lines_per_shard: 4 before, 5 now"):
        run(counting(tmp_path, text, lines_per_shard=5))
    run(counting(tmp_path, text, bad_lines="skip"), workers=1)  # these do not change rows
    text.write_text("changed\n")
    moment = r"of \d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}"
    changed = rf"{text}: has changed: \d+ bytes {moment} before, 8 bytes {moment} now\nRestore them"
    with pytest.raises(InputError, match=changed):
        run(counting(tmp_path, text))
    (tmp_path / "job" / "done.jsonl").unlink()
    assert run(counting(tmp_path, text, lines_per_shard=5))[0].lines == 1
    assert [row["words"] for row in rows(tmp_path)] == [1]


def test_a_job_of_thousands_of_inputs_is_continued(tmp_path):
    inputs = tuple(InputState(f"{number}.txt", 2, 0) for number in range(6000))
    settings = JobSettings("1", "count", (), {}, inputs, None, None, 4, 100)
    with JobFolder.opened(tmp_path / "job") as folder:
        folder.start(settings, [Shard(number, number, 1, 1, 0, 2) for number in range(len(inputs))])
        assert folder.is_started(settings)


def test_a_folder_in_use_or_with_other_files_is_refused(tmp_path, text):
    job = counting(tmp_path, text)
    job.folder.write_text("mine")
    with pytest.raises(InputError, match="cannot be made"):
        run(job)
    assert job.folder.read_text() == "mine"
    job.folder.unlink()
    for _ in range(2):  # a new folder, and one that exists
        with JobFolder.opened(job.folder) as opened:
            for _ in range(3):
                with pytest.raises(InputError, match="another process is using this folder"):
                    run(job)
            assert opened.rows.is_dir()
        assert not job.folder.exists()
    job.folder.mkdir()
    with locked(job.folder), pytest.raises(InputError, match="another process is using this folder"):
        run(job)
    (job.folder / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match=r"do not belong to a job: notes.txt"):
        run(job)
    assert [path.name for path in job.folder.iterdir()] == ["notes.txt"]


def test_the_rows_of_another_job_are_not_followed(tmp_path, text):
    run(counting(tmp_path / "other", text))
    before = {path: path.read_bytes() for path in (tmp_path / "other" / "job" / "rows").iterdir()}
    job = counting(tmp_path, text)
    job.folder.mkdir()
    (job.folder / "rows").symlink_to(tmp_path / "other" / "job" / "rows")
    with pytest.raises(InputError, match="rows: is a link"):
        run(job)
    assert {path: path.read_bytes() for path in before} == before


def test_bad_lines_stop_a_job_before_anything_is_done_or_are_left_out(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(b"a\nb b\n\xff\nc\n" + b"x" * 99 + b"\nd\n")
    with pytest.raises(InputError, match=r"2 bad lines.*nothing was done:\n.*line 3: found 0xff") as raised:
        run(counting(tmp_path, path, longest=50))
    assert "line 5: found 100 bytes; expected at most 50" in str(raised.value)
    assert not (tmp_path / "job" / "job.json").exists()
    listed = bad_lines(tmp_path)
    assert [(one["file"], one["line"]) for one in listed] == [(str(path), "3"), (str(path), "5")]
    report, _ = run(counting(tmp_path, path, longest=50, bad_lines="skip"))
    assert report.bad_lines == 2
    assert bad_lines(tmp_path) == listed
    assert [row["words"] for row in rows(tmp_path) if row["sentence"] not in (3, 5)] == [1, 2, 1, 1]


def test_lines_that_the_model_refuses_fail_their_shard_or_are_left_out(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("a\nrefuse\nb\nc\nd\ne\nf\ng\nrefuse\n")
    report, _ = run(counting(tmp_path, path))
    assert [(one.first, one.last, one.reason) for one in report.failed] == [
        (1, 4, f"{path}, line 2: refused"), (9, 9, f"{path}, line 9: refused"),
    ]  # fmt: skip
    assert "lines 1 to 4 (part-0000000.parquet)" in str(report)
    report, tasks = run(counting(tmp_path, path, bad_lines="skip"))
    assert (report.failed, report.done_before, report.bad_lines) == ((), 1, 2)
    assert sorted(tasks) == [("a.txt", 1), ("a.txt", 9)]
    assert [(one["line"], one["reason"]) for one in bad_lines(tmp_path)] == [("2", "refused"), ("9", "refused")]
    assert [row["sentence"] for row in rows(tmp_path)] == [1, 3, 4, 5, 6, 7, 8]


def test_a_refused_line_is_not_tried_again_by_another_worker_and_warned_of_once(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("a\nwarn, refuse\nb\nc\nwarn\nd\nrefuse\n")
    with pytest.warns(InputWarning) as warned:
        report, tasks = run(counting(tmp_path, path, bad_lines="skip", lines_per_shard=9))
    assert len(tasks) == 1
    assert (report.failed, report.bad_lines) == ((), 2)
    assert [str(one.message) for one in warned] == ["'warn, refuse': takes long", "'warn': takes long"]


def test_counts_of_one_are_singular(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(b"\xff\n")
    with pytest.raises(InputError, match=r"(?s)^1 bad line, which is listed in .*leave this line out"):
        run(counting(tmp_path, path))
    assert "\n1 bad line left out" in str(run(counting(tmp_path, path, bad_lines="skip"))[0])
    other = tmp_path / "other.txt"
    other.write_text("refuse\na\n")
    (tmp_path / "b").mkdir()
    report, _ = run(counting(tmp_path / "b", other, lines_per_shard=1))
    assert str(report).startswith("1 of 2 shards done, 1 row in")
    assert "\n1 line in" in str(report)
    assert "\n1 shard failed; run the job again to try it again\n" in str(report)


def test_a_shard_that_ends_its_worker_is_tried_three_times_after_the_others_and_reported(tmp_path, text):
    text.write_text("kill once\n\n\n\nkill\n\n\n\na\n")
    report, engine = run_with_engine(counting(tmp_path, text))
    assert [(one.first, one.last, one.reason) for one in report.failed] == [(5, 8, "the worker was killed")]
    assert sorted(engine.tasks[3:5]) == [("a.txt", 1), ("a.txt", 5)]
    assert engine.tasks[5:] == [("a.txt", 5)]
    assert [row["sentence"] for row in rows(tmp_path)] == [1, 2, 3, 4, 9]
    text.write_text("kill\n" * 3)
    _, engine = run_with_engine(counting(tmp_path / "other", text, lines_per_shard=1))
    attempts = [sorted(engine.tasks[start : start + 3]) for start in (0, 3, 6)]
    assert attempts == [[("a.txt", line) for line in (1, 2, 3)]] * 3
    assert max(engine.together[:6]) == 2
    assert engine.together[6:] == [1, 1, 1]  # the last attempt is without other workers


def test_a_job_stops_when_all_its_first_shards_fail(tmp_path, text):
    text.write_text("kill\n" * 30)
    with pytest.raises(InputError, match="the first 10 shards failed; the last one: the worker was killed"):
        run(counting(tmp_path, text, lines_per_shard=1))


@pytest.mark.parametrize(
    ("inputs", "settings", "message"),
    [
        (["a.txt"], {"workers": 0}, "^--workers: found 0; expected 1 to 2,147,483,647$"),
        ([], {}, "found no input"),
        (["a.txt", "a.txt"], {}, "is given twice"),
        (["a.txt"], {"lines_per_shard": 0}, "--lines-per-shard: found 0; expected 1 to"),
        (["a.txt"], {"longest": -1}, "--max-line-bytes: found -1; expected 1 to"),
        (["a.txt"], {"longest": 10**30}, "--max-line-bytes: found 10{30}; expected 1 to"),
        (["empty.txt"], {}, "found no sentence"),
        (["job/in.txt"], {}, "is in the folder of the job"),
    ],
)
def test_wrong_jobs_are_refused(inputs, settings, message, tmp_path, text):
    (tmp_path / "empty.txt").touch()
    if "job/in.txt" in inputs:
        (tmp_path / "job").mkdir()
        (tmp_path / "job" / "in.txt").write_text("a\n")
    options = dict(settings)
    workers = options.pop("workers", 2)
    with pytest.raises(InputError, match=message):
        run(counting(tmp_path, *(tmp_path / name for name in inputs), **options), workers)


def test_an_input_that_changes_while_it_is_read_stops_the_job(tmp_path, text):
    job = counting(tmp_path, text)

    class Changing(InlineEngine):
        def do(self, worker, task):
            text.write_text("a\n" * 3)
            return super().do(worker, task)

    with pytest.raises(InputError, match="changed while the job was running"):
        run_job(job, 1, Changing)


@pytest.mark.parametrize("name", ["a.txt", "a.parquet"])
def test_rows_of_another_version_of_an_input_are_not_kept_though_its_lines_are_as_long(tmp_path, name):
    path = tmp_path / name

    def write(word: str, lines: int) -> None:
        if name == "a.parquet":
            parquet(path, [word] * lines)
        else:
            path.write_text(f"{word}\n" * 10)

    class Changing(InlineEngine):
        def do(self, worker, task):
            if task.shard.first == 5:
                write("v", lines=20)
                os.utime(path, ns=(0, 0))
            return super().do(worker, task)

    write("w", lines=10)
    with pytest.raises(InputError, match=rf"{name}: changed while the job was running"):
        run_job(counting(tmp_path, path), 1, Changing)
    assert len((tmp_path / "job" / "done.jsonl").read_text().splitlines()) == 1


def test_an_input_is_refused_under_a_second_name(tmp_path, text):
    (tmp_path / "link.txt").symlink_to(text)
    for other in (tmp_path / "link.txt", f"{tmp_path}/../{tmp_path.name}/a.txt"):
        with pytest.raises(InputError, match=r"is the same file as .*a\.txt; expected different inputs"):
            run(counting(tmp_path, text, other))


def test_shards_of_a_compressed_input_that_fail_in_another_order_are_tried_again(tmp_path, monkeypatch):
    path = tmp_path / "a.txt.gz"
    path.write_bytes(gzip.compress(b"kill\n" * 2 + b"a\n"))
    in_order = Pool.run
    monkeypatch.setattr(Pool, "run", lambda *arguments: reversed(list(in_order(*arguments))))
    report, _ = run(counting(tmp_path, path, lines_per_shard=1))
    assert [shard.first for shard in report.failed] == [1, 2]
    assert [row["sentence"] for row in rows(tmp_path)] == [3]


def test_rows_are_not_removed_if_only_the_settings_of_the_job_are_missing(tmp_path, text):
    job = counting(tmp_path, text)
    run(job)
    done = rows(tmp_path)
    (job.folder / "job.json").unlink()
    with pytest.raises(InputError, match=r"job\.json: is missing; expected the settings of the job\. 3 shards in"):
        run(job)
    assert rows(tmp_path) == done


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("job.json", "{}", r"(?s)job.json: damaged: .*settings: missing.*\. Name a new folder"),
        ("job.json", '{"settings": {"inputs": 5}}', "settings.inputs: found 5; expected a list"),
        ("job.json", '{"settings": {"inputs": [{"name": 5}]}}', "settings.inputs.0.name: found 5; expected a"),
        ("job.json", '{"settings": {"column": 5}}', "settings.column: found 5; expected a"),
        (
            "job.json",
            '{"settings": {"lines_per_shard": true}}',
            "settings.lines_per_shard: found true; expected an int",
        ),
        ("shards.jsonl", "[0]\n", "shards.jsonl: damaged: found other shards than at the start of the job"),
        ("shards.jsonl", "", "shards.jsonl: damaged"),
        ("shards.jsonl", lambda content: content[: content.rindex("[")], "shards.jsonl: damaged"),
        ("shards.jsonl", lambda content: content.replace("[1, 0, 5,", "[1, 0, 6,"), "shards.jsonl: damaged"),
        ("done.jsonl", "[0]\n", r"done.jsonl, line 1: damaged: found '\[0\]'; expected the number of a shard"),
        ("done.jsonl", "[0, 1, [], 0.1, 5, 9, null]\n[1, 1, [2], 0.1, 5, 9, null]\n", "done.jsonl, line 2: damaged"),
        ("done.jsonl", "[" * 99_999 + "\n", "done.jsonl, line 1: damaged"),
        ("done.jsonl", "[99, 1, [], 0.1, 5, 9, null]\n", "done.jsonl: damaged: found other shards"),
        ("job.json", None, "job.json: is a link"),
        ("done.jsonl", None, "done.jsonl: is a link"),
        ("bad-lines.tsv", None, "bad-lines.tsv: is a link"),
    ],
)
def test_damaged_and_linked_files_of_a_job_are_refused(name, content, message, tmp_path, text):
    job = counting(tmp_path, text)
    run(job)
    path = job.folder / name
    if content is None:
        path.touch()
        path.rename(tmp_path / "elsewhere")
        path.symlink_to(tmp_path / "elsewhere")
    else:
        path.write_text(content if isinstance(content, str) else content(path.read_text()))
    with pytest.raises(InputError, match=message):
        run(job)
