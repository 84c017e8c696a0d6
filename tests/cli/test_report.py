"""The command `report`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest


@pytest.fixture
def make(trained, tmp_path, run):
    """Makes a report on the small PRPN; returns exit code, the page's path, stdout, stderr."""

    def make(*arguments: object, model: Path = trained.prpn) -> tuple[int, Path, str, str]:
        code, out, error = run("report", model, *arguments, "-o", tmp_path / "out")
        return code, tmp_path / "out" / "report.html", out, error

    return make


def test_report_writes_the_page_and_prints_its_path(make, toy):
    code, path, out, err = make(toy / "test.mrg", "--max-words", 10, "--decoder", "unbiased", "--theme", "light")
    assert (code, out) == (0, f"{path}\n")
    assert err == f"read {toy / 'test.mrg'}: labelled trees, 15 sentences, 203 words\n"
    page = path.read_text(encoding="utf-8")
    assert "up to 10 words" in page
    assert "unbiased (chosen)" in page
    assert "prefers-color-scheme" not in page


def test_omitted_sentences_are_printed_as_text_and_json(make, toy, trained):
    code, path, out, _ = make(toy / "test.mrg", model=trained.lstm)
    assert code == 0
    assert out.splitlines()[0] == str(path)
    assert "missing: Unlabelled F1. This model, of type lstm, gives neither distances" in out
    figures = json.loads(make("--json")[2])
    assert figures["path"] == str(path)
    assert list(figures["left_out"]) == ["Unlabelled F1"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nowhere.mrg"], "nowhere.mrg: no such file or folder"),
        (["BANK", "--layer", "2"], "layer: found 2; expected 1 to 1"),
        (["BANK", "--protocol", "wsj"], "protocol 'wsj'"),
        (["BANK", "--preprocessing", "ptb"], "preprocessing 'ptb'"),
        (["BANK", "--max-words", "1"], "no sentence to score"),
        (["--theme", "blue"], "invalid choice: 'blue'"),
    ],
)
def test_errors_of_report_are_printed_and_nothing_is_written(make, toy, arguments, said):
    code, path, out, err = make(*(toy / "test.mrg" if word == "BANK" else word for word in arguments))
    assert (code, out) == (2, "")
    assert said in err
    assert err.count("error:") == 1
    assert not path.parent.exists()


def test_an_output_folder_that_is_a_file_is_reported(make, toy, tmp_path):
    (tmp_path / "out").write_text("a file")
    assert "out: found a file; expected a folder, which may be new" in make(toy / "test.mrg")[3]
    assert (tmp_path / "out").read_text() == "a file"
