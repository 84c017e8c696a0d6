"""The benchmark of growth: what is measured, what is resumed, and the slopes, without times of real models."""

from __future__ import annotations

import json
import math
import sys

import pytest
from laboratory.benchmarks import alone, growth, scale
from laboratory.benchmarks.growth import Point, lines, slope
from laboratory.benchmarks.processes import run
from laboratory.benchmarks.scale import Measured, Series, all_series, main, missing, write_sentences, write_untrained
from laboratory.figures import scale as figure
from laboratory.pages import speed
from laboratory.results import store

from syntaxlm.core.errors import InputError
from tests.laboratory.test_figures import texts

on_linux = pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")


def point(size: int, seconds: float = 1.0, repeat: int = 0, **facts) -> Point:
    """A point of a job, unless its facts are others."""
    known = {"kind": "sentences", "task": "parse", "system": "PRPN", "tokens_per_second": 1.0, "memory": 2**30}
    return Point(**known | facts, size=size, seconds=seconds, repeat=repeat)


@pytest.fixture
def results(tmp_path, monkeypatch):
    monkeypatch.setattr(store, "RESULTS", tmp_path)
    return tmp_path


def test_the_slope_of_a_power_is_its_exponent_and_bends_widen_the_interval():
    exact = slope([(size, 3 * size**1.5) for size in (10, 100, 1000)])
    assert exact == pytest.approx((1.5, 1.5, 1.5))
    bent = slope([(10, 1), (100, 10), (1000, 1000)])
    assert bent.value == pytest.approx(1.5)
    assert bent.low < 1 < 2 < bent.high
    two = slope([(10, 1), (1000, 100)])
    assert two.value == pytest.approx(1)
    assert math.isnan(two.low)


def test_lines_are_medians_of_repeats_without_the_start():
    starts = [point(0, seconds, repeat) for repeat, seconds in enumerate((4.0, 5.0, 30.0))]
    points = [point(size, 5 + size / 100 + noise, noise) for size in (10_000, 1000, 100) for noise in (0, 1, 2)]
    (line,) = lines([*points, *starts])
    assert line.medians == ((1000, 11.0, 2**30), (10_000, 101.0, 2**30)), "100 take less than twice the start"
    assert line.last_time_slope == pytest.approx(math.log10(101 / 11))
    assert line.memory_slope.value == pytest.approx(0)
    assert lines([*points, *(point(0, 50.0) for _ in starts)]) == []


def test_times_are_those_of_a_sentence_of_a_text_or_of_a_thousand_words():
    assert point(20, kind="length", tokens_per_second=10.0).time == 2
    assert point(64, kind="symbols", tokens_per_second=10.0).time == 100
    assert point(11, kind="text", tokens_per_second=1000.0).time == 2000


@on_linux
def test_memory_is_that_of_all_processes_and_not_of_the_one_that_started_them(tmp_path):
    held = bytearray(b"1") * (256 << 20)
    allocate = "import time; held = bytearray(b'1') * (64 << 20); time.sleep(1)"
    children = f"import subprocess, sys; [one.wait() for one in [subprocess.Popen([sys.executable, '-c', {allocate!r}])"
    used = run(tmp_path, ["-c", f"{children} for _ in range(2)]]"])
    assert 128 << 20 < used.memory < 128 << 20 | 96 << 20
    assert used.memory < len(held)
    assert used.seconds > 1


@on_linux
def test_a_command_that_fails_is_reported_with_its_output(tmp_path):
    with pytest.raises(InputError, match=r"exit code 3:\nhere"):
        run(tmp_path, ["-c", "print('here'); raise SystemExit(3)"])


def test_what_is_measured_is_not_measured_again_and_long_points_are_not_repeated():
    series = Series("sentences", "parse", "PRPN", (0, 10, 100), scale.step)

    def keys(sizes, points):
        return [(key.size, key.repeat) for key, _ in missing([series], sizes, 2, points)]

    assert keys((), []) == [(0, 0), (10, 0), (100, 0), (0, 1), (10, 1), (100, 1)]
    points = [point(10), point(100, seconds=scale.ENOUGH), point(0, repeat=1), point(10, repeat=1, system="LSTM")]
    assert keys((), points) == [(0, 0), (10, 1)]
    assert keys((7,), []) == [(0, 0), (7, 0), (0, 1), (7, 1)]  # with the start


def fake_series(measured: list[int], fails_from: int) -> list[Series]:
    def measure(folder, size):
        measured.append(size)
        if size >= fails_from:
            raise InputError("too long for the memory")
        return Measured(float(size), 1.0, 2**30)

    return [Series("sentences", "parse", "PRPN", (10, 100, 1000, 10_000), measure)]


def test_a_stopped_benchmark_continues_and_its_report_is_stored(monkeypatch, tmp_path, results, capsys):
    measured: list[int] = []
    monkeypatch.setattr(scale, "all_series", lambda: fake_series(measured, fails_from=1000))
    path = tmp_path / "growth.json"
    main(["sentences", "-o", str(path), "--repeats", "2"])
    printed = capsys.readouterr()
    assert measured == [10, 100, 1000, 10, 100]  # larger sizes than one that fails, and its repeats, are left out
    assert "sentences, parse, PRPN, 1,000, repeat 1: too long for the memory" in printed.err
    assert "1.00" in printed.out
    monkeypatch.setattr(scale, "all_series", lambda: fake_series(measured, fails_from=10**6))
    measured.clear()
    main(["sentences", "-o", str(path), "--repeats", "2", "--json"])
    assert measured == [1000, 10_000]  # which take ten minutes, so they are not repeated

    report = json.loads(capsys.readouterr().out)
    monkeypatch.setitem(report["run"], "command", "python -m laboratory.benchmarks.scale sentences")
    stored = store.add("scale", report, run="sentences")
    assert stored.what == "growth"
    (line,) = lines(growth.stored_points())
    assert [median.size for median in line.medians] == [10, 100, 1000, 10_000]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["sentence"], "found sentence; expected some of sentences, length"),
        (["--sizes", "10"], "--sizes: expected one KIND"),
        (["length", "--sizes", "0"], "--sizes: expected one KIND, and numbers of at least 1"),
        (["--repeats", "0"], "--repeats: found 0; expected at least 1"),
    ],
)
def test_wrong_arguments_are_refused(arguments, message, tmp_path, capsys):
    with pytest.raises(SystemExit):
        main([*arguments, "-o", str(tmp_path / "growth.json")])
    assert message in capsys.readouterr().err


def test_without_ray_its_jobs_are_skipped_with_a_message(monkeypatch, capsys):
    (through_ray,) = (series for series in all_series() if series.system == growth.THROUGH_RAY)
    monkeypatch.setattr(scale, "find_spec", lambda name: None)
    assert not scale.measurable(through_ray)
    assert "skipped, because Ray is not installed" in capsys.readouterr().err
    assert scale.measurable(next(all_series()))


@pytest.mark.parametrize(("task", "system"), [("parse", "PRPN"), ("surprisal", "LSTM"), ("beliefs", "SN-PCFG")])
def test_a_task_alone_reports_words_time_and_memory(task, system, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(alone, "LEAST", 0.0)
    write_untrained(tmp_path / "model", scale.model(system, 10), scale.word_names(50))
    write_sentences(tmp_path / "text.txt", 24, 12, 50)
    alone.main([task, str(tmp_path / "model"), str(tmp_path / "text.txt")])
    report = json.loads(capsys.readouterr().out)
    assert report["words"] == 24
    assert report["seconds"] > 0
    assert report["memory"] > 100 << 20


@on_linux
@pytest.mark.long
@pytest.mark.parametrize("size", [0, 20])
def test_a_job_reads_all_its_sentences(size, tmp_path):
    measured = scale.job(tmp_path, size, "parse", "PRPN")
    assert measured.job["lines_now"] == (size or scale.WORKERS)
    assert measured.job["model"] == "prpn-toy"
    assert measured.memory > scale.WORKERS * measured.job["largest_worker_memory"] / 2


def test_the_page_and_the_figure_say_what_to_expect_and_what_is_not_measured(results):
    job = {
        "command": "parse", "model": "prpn-toy", "engine": "processes", "workers": 2, "lines_now": 100_000,
        "seconds": 50.0, "lines_per_second": 2000.0, "worker_seconds": 80.0, "largest_worker_memory": 2**29,
    }  # fmt: skip
    sizes = 10_000, 100_000, 1_000_000
    points = [vars(point(size, size / 1000, job={**job, "lines_now": size})) for size in sizes]
    store.add("scale", store.with_head({"points": points}), what="growth", run="sentences")
    text = speed.growth()
    assert "Ten times the **sentences in a job**, for the job:" in text
    assert "parsing: about ten times the time and the same memory (PRPN); not measured yet (SN-PCFG and" in text
    assert "    - surprisals: not measured yet (LSTM)\n" in text
    table = speed.growth_slopes()
    assert "| sentences of a job | parse | PRPN | 10,000 to 1,000,000 | 10 s to 17 min | the job | 1.00 " in table
    assert "| nonterminals of a grammar | train | SN-PCFG | not measured yet |" in table
    assert "| `parse`, `prpn-toy` | processes | 2 | 1,000,000 | 50 | 2,000 | 12,500 | 512 MiB |" in speed.job_speed()
    drawn_texts = texts(figure.picture(lines(growth.stored_points())).svg("light"))
    assert drawn_texts.count("not measured yet") == 2 * 5
    assert {"sentences of a job", "PRPN", "parse", "memory, GiB", "seconds for the job"} <= set(drawn_texts)
    assert "training" not in drawn_texts


def test_a_kind_that_is_measured_again_replaces_the_points_of_the_run_of_all_kinds(results):
    old = [vars(point(size, kind=kind)) for kind in ("length", "text") for size in (1, 2)]
    store.add("scale", store.with_head({"points": old}), what="growth")
    new = [vars(point(size, kind="length")) for size in (5, 6, 7)]
    store.add("scale", store.with_head({"points": new}), what="growth", run="length")
    assert [(stored_point.kind, stored_point.size) for stored_point in growth.stored_points()] == [
        ("length", 5), ("length", 6), ("length", 7), ("text", 1), ("text", 2),
    ]  # fmt: skip
