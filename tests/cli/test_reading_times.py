"""`evaluate reading-times`, and `score` of displayed words."""

from __future__ import annotations

import csv
import io
import json

import numpy as np
import pytest

WORDS = "word\tstory\tcode\nThe\t1\ta\nhouse\t1\tb\nis.\t1\tc\nXyzzy\t1\td\nThe\t2\te\nwoman,\t2\tf\n"


@pytest.fixture
def words(tmp_path):
    path = tmp_path / "words.tsv"
    path.write_text(WORDS)
    return path


@pytest.fixture
def experiment(toy, tmp_path):
    """Files of words, times with an effect of word length, and frequencies."""
    text = (toy / "valid.txt").read_text() + (toy / "test.txt").read_text()
    rows = [(word, number) for number, line in enumerate(text.splitlines()) for word in line.split()]
    generator = np.random.default_rng(0)
    words, times = tmp_path / "words.csv", tmp_path / "times.csv"
    words.write_text("code,word,sentence\n" + "".join(f"{i},{word},{n}\n" for i, (word, n) in enumerate(rows)))
    times.write_text(
        "code,reader,rt\n"
        + "".join(
            f"{i},{reader},{300 + 5 * len(word) + generator.normal(0, 20):.1f}\n"
            for i, (word, _) in enumerate(rows)
            for reader in "ab"
        )
    )
    return (
        "--words", words, "--times", times, "--time-column", "rt", "--sentence-column", "sentence", "--frequencies",
        toy / "train.txt",
    )  # fmt: skip


def test_several_models_are_measured_and_details_and_picture_written(run, trained, experiment, tmp_path):
    details, picture = tmp_path / "rows.csv", tmp_path / "times.svg"
    code, out, _ = run(
        "evaluate", "reading-times", trained.prpn, trained.lstm, *experiment, "--folds", 5, "--details", details,
        "--picture", picture, "--context", "both",
    )  # fmt: skip
    assert code == 0
    assert "5 folds of whole sentences" in out
    names = [line.split()[:2] for line in out.splitlines() if line.startswith(("prpn ", "lstm "))]
    assert names == [["prpn", "reset"], ["prpn", "carry"], ["lstm", "reset"], ["lstm", "carry"]]
    rows = list(csv.DictReader(details.open()))
    assert {"code", "word", "reading_time", "analysed", "surprisal_lstm_carry", "previous_surprisal_prpn_reset"} <= set(
        rows[0]
    )
    assert {row["times"] for row in rows} == {"2"}
    assert picture.read_text().count("surprisal in bits") == 4


def test_json_has_the_figures_and_options_reach_the_evaluation(run, trained, experiment, tmp_path):
    path = tmp_path / "figures.json"
    code, out, _ = run(
        "evaluate", "reading-times", trained.lstm, *experiment, "--json", "-o", path, "--log-times", "--spillover", 2,
        "--smooth", 4,
        "--unknown", "keep", "--keep-last", "--predictor", "sentence", "--seed", 3, "--context", "reset",
        "--min-time", 301,
    )  # fmt: skip
    assert (code, out) == (0, "")
    figures = json.loads(path.read_text())
    assert figures["settings"] == {
        "log": True, "spillover": 2, "smooth": 4, "unknown": "keep", "keep_last": True, "predictors": ["sentence"],
        "folds": 10, "fold_unit": "sentence", "seed": 3, "measures": ["surprisal"],
    }  # fmt: skip
    assert figures["times"]["out_of_range"] > 0
    assert figures["models"][0]["context"] == "reset"
    names = [one["name"] for one in figures["models"][0]["regression"]["coefficients"]]
    assert names[-3:] == ["surprisal", "previous_surprisal", "previous_surprisal_2"]


def test_wrong_options_of_reading_times_are_reported(refused, trained, experiment, tmp_path):
    command = ["evaluate", "reading-times", trained.lstm]
    assert "the same model is given twice" in refused(*command, trained.lstm, *experiment)
    assert "expected one of .svg, .pdf, .png, .html" in refused(*command, *experiment, "--picture", tmp_path / "a.tex")
    assert "no column 'story'" in refused(*command, *experiment, "--group", "story")
    assert "is also an input" in refused(*command, *experiment, "-o", experiment[1])


def test_words_are_scored_one_row_per_displayed_word(run, trained, words, toy):
    code, out, error = run("score", trained.lstm, "--words", words, "--group", "story")
    rows = list(csv.DictReader(io.StringIO(out), delimiter="\t"))
    assert code == 0
    assert [row["word"] for row in rows] == ["The", "house", "is.", "Xyzzy", "The", "woman,"]
    assert [row["code"] for row in rows] == list("abcdef")
    assert [row["sentence_number"] for row in rows] == ["1", "1", "1", "2", "3", "3"]
    assert [row["in_vocabulary"] for row in rows] == ["true", "true", "true", "false", "true", "true"]
    assert [row["previous_surprisal"] == "" for row in rows] == [True, False, False, False, True, False]
    assert "3 sentences, 6 words, 1 unknown (16.7%)" in error
    plain = run("score", trained.lstm, "--text", "the house is.")[1]
    bits = [row["surprisal"] for row in csv.DictReader(io.StringIO(plain), delimiter="\t")]
    assert [float(row["surprisal"]) for row in rows[:3]] == pytest.approx([float(one) for one in bits[:3]], abs=1e-5)
    _, out, _ = run("score", trained.lstm, "--words", words, "--format", "csv", "--frequencies", toy / "train.txt")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert rows[5]["word"] == "woman,"
    assert float(rows[0]["log_frequency"]) > float(rows[3]["log_frequency"])


def test_displayed_words_are_written_to_parquet_with_types(run, trained, words, tmp_path):
    pyarrow = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "words.parquet"
    assert run("score", trained.lstm, "--words", words, "--group", "story", "-o", path)[0] == 0
    table = pyarrow.read_table(path)
    assert table.column("word").to_pylist() == ["The", "house", "is.", "Xyzzy", "The", "woman,"]
    assert table.column("previous_surprisal").to_pylist()[0] is None
    assert {str(table.schema.field(name).type) for name in ("surprisal", "previous_surprisal")} == {"double"}


def test_running_text_with_a_group_has_one_row_per_displayed_word(run, trained, tmp_path):
    path = tmp_path / "texts.tsv"
    path.write_text("story\ttext\nA\tThe cat sees. A dog sees it.\nB\tThe dog.\n")
    code, out, _ = run("score", trained.lstm, path, "--column", "text", "--group", "story", "--json")
    rows = [json.loads(line) for line in out.splitlines()]
    assert code == 0
    assert [row["word"] for row in rows] == ["The", "cat", "sees.", "A", "dog", "sees", "it.", "The", "dog."]
    assert [row["sentence_number"] for row in rows] == [1, 1, 1, 2, 2, 2, 2, 3, 3]
    assert [row["story"] for row in rows] == ["A"] * 7 + ["B"] * 2
    assert "text" not in rows[0]


def test_options_of_displayed_words_without_a_table_are_reported(refused, trained, words):
    assert "--group: found no table" in refused("score", trained.lstm, words, "--group", "story")
    assert "expected only one of them" in refused("score", trained.lstm, words, "--words", words)


@pytest.mark.long
def test_several_reading_measures_are_in_one_call(run, trained, experiment, tmp_path):
    path = tmp_path / "times.csv"
    head, *lines = path.read_text().splitlines()
    rows = [f"{line},{2 * float(line.split(',')[-1]):.1f}" for line in lines]
    path.write_text("\n".join([f"{head},RTgopast", *rows]) + "\n")
    details, picture = tmp_path / "rows.csv", tmp_path / "times.svg"
    code, out, _ = run(
        "evaluate", "reading-times", trained.lstm, *experiment, "--time-column", "go_past", "--format", "csv",
        "--details", details, "--picture", picture,
    )  # fmt: skip
    assert code == 0
    first, second = csv.DictReader(io.StringIO(out))
    assert (first["measure"], second["measure"], second["time_column"]) == ("rt", "go_past", "RTgopast")
    assert float(second["surprisal_coefficient"]) == pytest.approx(2 * float(first["surprisal_coefficient"]), rel=1e-3)
    assert {"reading_time_rt", "reading_time_go_past"} <= set(next(csv.DictReader(details.open())))
    assert "RTgopast" in picture.read_text()


def test_no_output_is_written_if_another_one_is_refused(refused, trained, experiment, tmp_path):
    command = ["evaluate", "reading-times", trained.lstm, *experiment, "--details", tmp_path / "details.tsv"]
    (tmp_path / "out.R").mkdir()
    for words, fault in (
        (["--export", tmp_path / "rows.xlsx"], "rows.xlsx: found a name that ends in '.xlsx'"),
        (["--export", tmp_path / "out.csv"], "out.R: cannot be written: it is a folder"),
        (["--export", tmp_path / "details.csv", "--picture", tmp_path / "details.R"], "details.R: found the extension"),
        (["--export", tmp_path / "rows.csv", "--subject", "nobody"], "no column of subjects; found code, reader"),
    ):
        before = sorted(tmp_path.iterdir())
        assert fault in refused(*command, *words)
        assert sorted(tmp_path.iterdir()) == before
    both = [*command[:-1], tmp_path / "rows.R", "--export", tmp_path / "rows.csv"]
    assert "rows.R: is written by --export, too" in refused(*both)
