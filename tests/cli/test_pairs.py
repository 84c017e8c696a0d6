"""`evaluate pairs` from the command line."""

from __future__ import annotations

import json
import shutil

import pytest


@pytest.fixture
def pairs(tmp_path):
    path = tmp_path / "pairs.jsonl"
    items = [
        {"sentence_good": "the cat sees a dog.", "sentence_bad": "cat the dog a sees.", "UID": "order"},
        {"sentence_good": "the cat isn't here.", "sentence_bad": "the cat aren't here.", "UID": "agreement"},
    ]
    path.write_text("".join(json.dumps(item) + "\n" for item in items))
    return path


def test_models_are_in_adjacent_columns_and_every_pair_is_written(run, trained, pairs, tmp_path):
    rows = tmp_path / "rows.jsonl"
    code, out, _ = run(
        "evaluate", "pairs", trained.prpn, "--also", trained.lstm, pairs, "--punctuation", "drop",
        "--contractions", "split", "--details", rows,
    )  # fmt: skip
    assert code == 0
    assert "pairs 2   sentences 4   cases 2" in out
    assert "punctuation dropped, contractions split off" in out
    assert "lstm compared with prpn, all pairs: accuracy difference" in out
    assert [set(json.loads(row)["models"]) for row in rows.read_text().splitlines()] == [{"prpn", "lstm"}] * 2


def test_json_has_the_figures_of_the_table(run, trained, pairs):
    code, out, _ = run("evaluate", "pairs", trained.prpn, pairs, "--json")
    figures = json.loads(out)
    assert code == 0
    assert (figures["pairs"], figures["punctuation"], figures["against_first"]) == (2, "auto", {})
    assert [model["model"] for model in figures["models"]] == ["prpn"]
    assert set(figures["models"][0]["by_case"]) == {"order", "agreement"}


def test_models_with_equal_folder_names_are_distinguished_and_duplicates_refused(
    run, refused, trained, pairs, tmp_path
):
    other = tmp_path / "prpn"
    shutil.copytree(trained.prpn, other)
    _, out, _ = run("evaluate", "pairs", trained.prpn, pairs, "--also", other, "--json")
    assert [model["model"] for model in json.loads(out)["models"]] == [str(trained.prpn), str(other)]
    command = "evaluate", "pairs", trained.prpn, pairs
    assert "the same model is given twice" in refused(*command, "--also", trained.prpn)
    pairs.write_text('{"sentence_good": "a"}\n')
    assert f"{pairs}, line 1: sentence_bad missing" in refused(*command)
