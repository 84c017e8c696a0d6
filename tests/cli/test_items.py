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
    code, out, error = run("items", trained.lstm, stimuli)
    assert code == 0
    assert "items 2" in out
    assert "minus one" in out
    assert re.search(r"unknown words in \d of 2 items .*xyzzy", error)
    assert "xyzzy" not in out
    assert "4 sentences, 2 items, 2 conditions, 3 regions; first sentence: the cat | sees | a dog\n" in error
    rows, picture = tmp_path / "rows.csv", tmp_path / "regions.svg"
    code, out, error = run("items", trained.lstm, stimuli, "--also", trained.prpn, "-o", rows, "--picture", picture)
    assert code == 0
    assert "minus one" in out, "the means are printed although the rows are written"
    assert "xyzzy" in error
    read = list(csv.DictReader(rows.open()))
    assert len(read) == 2 * 4 * 3
    assert {row["model"] for row in read} == {trained.lstm.name, trained.prpn.name}
    assert read[0]["region_text"] == "the cat"
    assert "surprisal in bits" in picture.read_text()


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
    assert "expected one of .svg, .pdf, .png, .html" in refused("items", trained.lstm, stimuli, "--picture", "a.tex")
    (tmp_path / "broken.csv").write_text("item,condition,sentence\n1,one\n")
    assert "line 2: found 2 cells; expected 3" in refused("items", trained.lstm, tmp_path / "broken.csv")


def test_warnings_are_printed_before_the_table_and_kept_in_files(run, trained, stimuli, tmp_path):
    code, out, error = run("items", trained.lstm, stimuli)
    warning = re.search(r"unknown words in \d of 2 items .*", error)[0]
    assert code == 0
    assert warning not in out
    quiet = run("items", trained.lstm, stimuli, "--quiet")
    assert quiet[2] == ""
    assert quiet[1].index(warning) < quiet[1].index("minus one")  # the only place that is left
    for name in ("page.html", "page.json", "page.md"):
        form = {"page.html": "html", "page.json": "json", "page.md": "markdown"}[name]
        assert run("items", trained.lstm, stimuli, "-o", tmp_path / name, "--format", form)[1] == ""
        written = (tmp_path / name).read_text()
        assert warning in written
        assert "first sentence: the cat | sees | a dog" in written or form == "json"
    figures = json.loads((tmp_path / "page.json").read_text())
    assert figures["readings"][0]["sample"] == ["the cat | sees | a dog", "a cat | sees | xyzzy"]
    assert warning in run("items", trained.lstm, stimuli, "--format", "csv")[2]


def test_options_that_contradict_each_other_are_refused(refused, trained, stimuli):
    command = "items", trained.lstm, stimuli, "--region", "sentence"
    assert "--column sentence: found with --region sentence" in refused(*command, "--column", "sentence")
    assert "--separator |: found with --region sentence" in refused(*command, "--separator", "|")


def test_region_marks_are_refused_by_commands_that_read_sentences(refused, trained, stimuli, tmp_path):
    message = refused("score", trained.lstm, stimuli, "--column", "sentence")
    assert f"{stimuli}: found '|', a mark between regions, in 4 of 4 sentences" in message
    assert "use items" in message
    (tmp_path / "text.txt").write_text("the cat | sees | a dog\na cat | sees | the dog\n")
    for command in ("score", "parse"):
        model = trained.prpn if command == "parse" else trained.lstm
        assert "a mark between regions" in refused(command, model, tmp_path / "text.txt")
    (tmp_path / "pairs.csv").write_text("better,worse\nthe cat | sees,cat the | sees\n")
    assert "a mark between regions" in refused("evaluate", "pairs", trained.lstm, tmp_path / "pairs.csv")
    words = "".join(f"{word}\n" for word in ["The", "cat", "|", "sees", ".", "A", "dog", "|", "sees", "."])
    (tmp_path / "words.csv").write_text(f"word\n{words}")
    assert "a mark between regions" in refused("score", trained.lstm, "--words", tmp_path / "words.csv")


def test_text_of_unknown_words_is_warned_of_before_the_results(run, trained, tmp_path):
    (tmp_path / "text.txt").write_text("el perro ve la casa\nuna casa vieja de la ciudad\n")
    table = "item,condition,sentence\n1,a,el perro | ve la casa\n1,b,el perro | ve el coche\n"
    (tmp_path / "items.csv").write_text(table)
    (tmp_path / "pairs.csv").write_text("better,worse\nel perro ve,el perro ven\n")
    for command in (
        ("score", trained.lstm, tmp_path / "text.txt"),
        ("parse", trained.prpn, tmp_path / "text.txt"),
        ("evaluate", "perplexity", trained.lstm, tmp_path / "text.txt"),
        ("items", trained.lstm, tmp_path / "items.csv"),
        ("evaluate", "pairs", trained.lstm, tmp_path / "pairs.csv"),
    ):
        code, out, error = run(*command)
        assert code == 0, command
        assert out, command
        assert "syntaxlm: warning: " in error, command
        assert "not in the vocabulary of " in error, command
