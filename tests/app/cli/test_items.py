"""The command `items`."""

from __future__ import annotations

import csv
import json
import re

import pytest

ITEMS = """item,condition,sentence
1,one,the cat | sees | a dog
1,two,a cat | sees | xyzzy
2,one,the dog | sees | a cat
2,two,a dog | sees | the cat
"""


@pytest.fixture
def stimuli(tmp_path):
    (tmp_path / "items.csv").write_text(ITEMS)
    return tmp_path / "items.csv"


def test_means_are_printed_and_rows_written(run, trained, stimuli, tmp_path):
    code, out, _ = run("items", trained.lstm, stimuli)
    assert code == 0
    assert "items 2" in out
    assert "minus one" in out
    assert re.search(r"unknown words in \d of 2 items .*xyzzy", out)
    rows, picture = tmp_path / "rows.csv", tmp_path / "regions.svg"
    code, out, error = run("items", trained.lstm, stimuli, "--also", trained.prpn, "-o", rows, "--picture", picture)
    assert (code, out) == (0, "")
    assert "xyzzy" in error
    read = list(csv.DictReader(rows.open()))
    assert len(read) == 2 * 4 * 3
    assert {row["model"] for row in read} == {trained.lstm.name, trained.prpn.name}
    assert read[0]["region_text"] == "the cat"
    assert picture.read_text().count("<rect") > 12


def test_json_has_the_means_that_the_rows_give(run, trained, stimuli):
    figures = json.loads(run("items", trained.lstm, stimuli, "--json")[1])
    rows = list(csv.DictReader(run("items", trained.lstm, stimuli, "--format", "csv")[1].splitlines()))
    for mean in figures["means"]:
        values = [
            float(row["surprisal"]) for row in rows
            if (row["region_name"], row["condition"]) == (mean["region"], mean["condition"])
        ]  # fmt: skip
        assert mean["value"] == pytest.approx(sum(values) / len(values), abs=1e-5)


def test_wrong_tables_are_refused(refused, trained, stimuli, tmp_path):
    assert "no column 'text'" in refused("items", trained.lstm, stimuli, "--column", "text")
    assert "critical: found 'verb'" in refused("items", trained.lstm, stimuli, "--critical", "verb")
    assert "expected one of .svg, .png, .html" in refused("items", trained.lstm, stimuli, "--picture", "a.tex")
    (tmp_path / "broken.csv").write_text("item,condition,sentence\n1,one\n")
    assert "line 2: found 2 cells, expected 3" in refused("items", trained.lstm, tmp_path / "broken.csv")
