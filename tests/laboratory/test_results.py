"""The store of results: one schema, and no report without its head."""

from __future__ import annotations

import hashlib
import json
import shlex
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from laboratory.results import __main__ as program
from laboratory.results import store
from laboratory.results.store import add, select, stored_report, stored_runs, with_head


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(store, "RESULTS", tmp_path)
    return tmp_path


def test_a_report_is_added_with_its_head_and_found_by_its_facts(folder):
    run = add("some", with_head({"f1": 0.5, "protocol": "prpn"}), what="trees", run="lstm", data="wsj",
              seed=2, factors={"trees": "none"})  # fmt: skip
    assert None not in (run.version, run.command)
    assert stored_runs("some") == (run,)
    assert list(json.loads((folder / "some.jsonl").read_text()))[-1] == "report"
    assert stored_report("some", trees="none", protocol="prpn") == {"f1": 0.5, "protocol": "prpn"}
    assert select("some", seed=3) == []
    with pytest.raises(KeyError, match="found 0 stored runs"):
        stored_report("some", seed=3)


def test_a_run_with_the_facts_of_another_replaces_it_only_if_asked_to(folder):
    for value in (1, 2):
        add("some", with_head({"perplexity": value, "folder": "runs"}), what="perplexity", run=f"model-{value}")
    with pytest.raises(ValueError, match="a run with the same facts is stored"):
        add("some", with_head({"perplexity": 3}), what="perplexity", run="model-1")
    add("some", with_head({"perplexity": 3, "folder": "other"}), what="perplexity", run="model-1", replace=True)
    assert [run.report["perplexity"] for run in stored_runs("some")] == [2, 3]


def test_many_files_of_a_folder_have_one_hash_which_sha256sum_gives_too(tmp_path):
    files = [tmp_path / f"wsj_{number:04}.mrg" for number in range(30)]
    for number, file in enumerate(files):
        file.write_text(f"(S {number})\n")
    hashes = {str(file): hashlib.sha256(file.read_bytes()).hexdigest() for file in reversed(files)}
    head = with_head({})["run"] | {"sha256": hashes | {"text.txt": "ab"}}
    run = add("some", {"f1": 1, "induced_labels": [3], "run": head}, what="trees")
    command = f"cd {shlex.quote(str(tmp_path))} && sha256sum *.mrg | sha256sum"
    printed = subprocess.run(command, shell=True, capture_output=True, text=True, check=True).stdout
    assert run.sha256 == {f"{tmp_path}, 30 files": printed.split()[0], "text.txt": "ab"}
    assert run.report == {"f1": 1}
    few = dict(list(hashes.items())[:20])
    assert add("other", {"run": head | {"sha256": few}}, what="trees").sha256 == few


def test_reports_that_are_stored_at_the_same_time_are_all_kept(folder):
    with ThreadPoolExecutor(8) as pool:
        for future in [
            pool.submit(add, "some", with_head({"perplexity": 1}), what="perplexity", run=f"model-{number}")
            for number in range(24)
        ]:
            future.result()
    assert {run.run for run in stored_runs("some")} == {f"model-{number}" for number in range(24)}


def test_what_a_report_measures_follows_from_its_command():
    head = with_head({})["run"]
    for command, report, what in (
        ("syntaxlm train lstm-toy -o run", {}, "training"),
        ("syntaxlm evaluate parse en x.mrg", {"f1": 1}, "trees"),
        ("syntaxlm evaluate parse dmv x.conllu", {"directed": 1}, "attachment"),
        ("syntaxlm evaluate reading-times en", {}, "reading-times"),
    ):
        assert add("some", {**report, "run": head | {"command": command}}).what == what
    with pytest.raises(ValueError, match="expected what it measures"):
        add("some", with_head({}))


def test_reports_without_a_head_and_lines_of_another_schema_are_refused(folder, monkeypatch):
    (folder / "report.json").write_text('{"f1": 0.5}')
    monkeypatch.setattr(sys, "argv", ["results", "add", "some", str(folder / "report.json")])
    with pytest.raises(SystemExit, match='expected the key "run"'):
        program.main()
    (folder / "some.jsonl").write_text('{"f1": 0.5}\n')
    with pytest.raises(ValueError, match=r"some\.jsonl, line 1"):
        stored_runs("some")
