"""The command `score`."""

from __future__ import annotations

import csv
import io
import json
import os
import sys
import threading
from contextlib import suppress

import pytest

from syntaxlm.core.files import UNFINISHED
from syntaxlm.reports import writers

COLUMNS = [
    "sentence", "position", "word", "begin", "end", "token", "in_vocabulary",
    "surprisal", "surprisal_word", "surprisal_marks", "tokens",
]  # fmt: skip


@pytest.fixture
def score(trained, tmp_path, run):
    """Scores a text with the small PRPN; returns exit code, stdout, stderr."""

    def score(content: str | bytes, *options: object, model: str = "prpn") -> tuple[int, str, str]:
        path = tmp_path / "text.txt"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return run("score", getattr(trained, model), path, *options)

    return score


def table(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text, newline=""), delimiter="\t"))


@pytest.mark.parametrize("model", ["prpn", "lstm"])
@pytest.mark.parametrize("reading", ["reset", "carry"])
def test_the_rows_sum_to_the_result_of_evaluate_perplexity(score, trained, toy, run, model, reading):
    text = (toy / "test.txt").read_text()
    code, out, _ = score(text, "--context", reading, model=model)
    rows = table(out)
    assert code == 0
    assert list(rows[0]) == COLUMNS
    assert [row["word"] for row in rows if row["word"]] == text.split()
    arguments = getattr(trained, model), toy / "test.txt", "--context", reading, "--json"
    figures = json.loads(run("evaluate", "perplexity", *arguments)[1])
    assert len(rows) == figures["tokens"]
    mean = sum(float(row["surprisal"]) for row in rows) / len(rows)
    assert mean == pytest.approx(figures["bits_per_token"], abs=1e-5)


def test_lines_keep_their_numbers_and_places(score):
    rows = table(score('the cat\n\n \n "xyzzy" dog\n')[1])
    assert [(row["sentence"], row["position"], row["word"]) for row in rows] == [
        ("1", "1", "the"), ("1", "2", "cat"), ("1", "3", ""), ("4", "1", '"xyzzy"'), ("4", "2", "dog"), ("4", "3", ""),
    ]  # fmt: skip
    assert [rows[3][name] for name in ("begin", "end", "token", "in_vocabulary")] == ["1", "8", "<unk>", "false"]
    assert [rows[5][name] for name in ("begin", "end", "token", "in_vocabulary")] == ["12", "12", "</s>", "true"]


def test_json_lines_have_the_content_of_the_table(score):
    text = 'the "cat"\n\nxyzzy\n'
    rows = table(score(text)[1])
    lines = [json.loads(line) for line in score(text, "--format", "json")[1].splitlines()]
    assert [list(line) for line in lines] == [COLUMNS] * len(rows)
    assert [(line["word"], line["surprisal"]) for line in lines] == [
        (row["word"], float(row["surprisal"])) for row in rows
    ]


def test_other_columns_go_into_every_row_of_their_sentence(score):
    text = "item\ttext\tregion\n1\tthe cat\tmain\n\n2\ta dog sees\t\n"
    rows = table(score(text, "--column", "text")[1])
    assert list(rows[0]) == [*COLUMNS, "item", "region"]
    reported = [(row["sentence"], row["word"], row["item"], row["region"]) for row in rows]
    assert reported == [("1", word, "1", "main") for word in ("the", "cat", "")] + [
        ("3", word, "2", "") for word in ("a", "dog", "sees", "")
    ]
    plain = table(score("the cat\n\na dog sees\n")[1])
    assert [row["surprisal"] for row in rows] == [row["surprisal"] for row in plain]
    lines = [json.loads(line) for line in score(text, "--column", "text", "--format", "json")[1].splitlines()]
    assert [(line["word"], line["item"]) for line in lines] == [(row["word"], row["item"]) for row in rows]


def test_columns_with_reserved_names_are_renamed_in_every_row(score):
    text = "word\ttext\tsentence\tinput_sentence\nverb\tthe cat\tA\ta\nnoun\ta dog\tB\tb\n"
    rows = table(score(text, "--column", "text")[1])
    assert list(rows[0]) == [*COLUMNS, "input_word", "input_input_sentence", "input_sentence"]
    reported = [(row["word"], *list(row.values())[len(COLUMNS) :]) for row in rows]
    assert reported == [(word, "verb", "A", "a") for word in ("the", "cat", "")] + [
        (word, "noun", "B", "b") for word in ("a", "dog", "")
    ]
    lines = [json.loads(line) for line in score(text, "--column", "text", "--format", "json")[1].splitlines()]
    assert [list(line) for line in lines] == [list(row) for row in rows]
    assert [(line["word"], line["input_word"]) for line in lines] == [(row["word"], row["input_word"]) for row in rows]


@pytest.mark.parametrize(
    ("content", "options", "said"),
    [
        ("", ["--column", "text"], "line 1: found no header"),
        ("item\ttext\n", ["--column", "text"], "found no sentence; expected at least one row"),
        ("item\ttext\n1\ta\n", ["--column", "sentence"], "no column 'sentence'; found item, text."),
        ("item\ttext\n1\n", ["--column", "text"], "line 2: found 1 cells; expected 2"),
        (b"a cat\n\xff\n", [], "line 2: found byte 0xff at offset 6 of the file; expected UTF-8 text"),
    ],
)
def test_what_cannot_be_scored_is_reported(score, content, options, said):
    code, out, error = score(content, *options)
    assert (code, out) == (2, "")
    assert said in error
    assert error.count("error:") == 1


@pytest.mark.parametrize(("content", "note"), [("\n\n", "0 sentences; 2 blank lines"), ("", "0 sentences")])
def test_a_text_without_sentences_gives_a_header_alone(score, content, note):
    code, out, error = score(content)
    assert (code, out) == (0, "\t".join(COLUMNS) + "\n")
    assert error.endswith(f"{note}\n")


def test_output_files_are_written_atomically(score, tmp_path):
    out = tmp_path / "out.tsv"
    code, printed, error = score("the cat\n", "-o", out)
    assert (code, printed) == (0, "")
    assert error.endswith("text, one sentence per line, 1 sentence\n2 words, 0 unknown (0.0%)\n")
    whole = out.read_text()
    assert whole == score("the cat\n")[1]
    assert score(b"the cat\n\xff\n", "-o", out)[0] == 2
    assert out.read_text() == whole
    assert not list(tmp_path.glob(f"*{UNFINISHED}"))


def test_score_reads_standard_input(score, trained, monkeypatch, run):
    expected = score("the cat\n")[1]
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"the cat\n")))
    assert run("score", trained.prpn)[:2] == (0, expected)


def test_the_share_of_unknown_words_is_printed_and_punctuation_is_dropped_by_default(score):
    _, out, err = score("The cat, the xyzzy dog.\n")
    assert [(row["word"], row["token"]) for row in table(out)][:2] == [("The", "the"), ("cat,", "cat")]
    assert "\n5 words, 1 unknown (20.0%), 2 not read (, .). Most frequent: xyzzy." in err
    _, out, err = score("The cat, the dog.\n", "--punctuation", "keep", "--contractions", "keep")
    assert [row["token"] for row in table(out)][:2] == ["<unk>", "<unk>"]
    assert "'The' is unknown, but 'the' is known: use --punctuation auto and --contractions auto" in err


def test_carried_state_of_a_model_of_single_sentences_warns(score):
    assert "warning: the model was trained on single sentences" in score("the cat\n", "--context", "carry")[2]


def test_measures_and_next_words_are_columns(score):
    code, out, _ = score("the cat sees a dog\n", "--measure", "rank", "--measure", "depth", "--next-words", "2")
    rows = table(out)
    assert code == 0
    assert list(rows[0]) == [*COLUMNS, "rank", "depth", "next_words"]
    assert all(row["rank"].isdigit() and row["next_words"].count(";") == 1 for row in rows)
    assert rows[-1]["depth"] == ""  # the end of the sentence
    code, _, error = score("the cat\n", "--measure", "depth", model="lstm")
    assert code == 2
    assert "measures of trees" in error


@pytest.mark.long
def test_several_models_have_a_column_and_a_scatter_plot(score, trained, tmp_path):
    picture = tmp_path / "both.svg"
    code, out, _ = score("the cat\nthe dog sees a cat\n", "--also", trained.lstm, "--picture", picture)
    rows = table(out)
    assert code == 0
    assert list(rows[0]) == ["model", *COLUMNS]
    names = [row["model"] for row in rows]
    assert len(set(names)) == 2
    assert names == sorted(names, key=names.index)
    alone = table(score("the cat\nthe dog sees a cat\n", model="lstm")[1])
    assert [row["surprisal"] for row in rows[len(rows) // 2 :]] == [row["surprisal"] for row in alone]
    assert f"surprisal in bits, {trained.lstm.name}" in picture.read_text()
    bars = tmp_path / "bars.html"
    assert score("the cat\n", "--picture", bars)[0] == 0
    assert "<svg" in bars.read_text()
    assert score("the cat\n", "--picture", tmp_path / "bars.tex")[0] == 2


@pytest.mark.long
def test_a_picture_has_all_sentences_although_the_reader_of_the_rows_has_ended(score, tmp_path, monkeypatch):
    def write_first(rows, *_):
        next(rows)
        raise BrokenPipeError

    monkeypatch.setattr(writers, "write_rows", write_first)
    with suppress(io.UnsupportedOperation):  # the command gives up standard output, which pytest has replaced
        score("the cat\nthe dog sees a bird\n", "--picture", tmp_path / "bars.svg")
    picture = (tmp_path / "bars.svg").read_text()
    assert "cat" in picture
    assert "bird" in picture


def test_a_given_beginning_is_not_in_the_rows(score):
    rows = table(score("a cat\n", "--given", "the dog sees")[1])
    whole = table(score("the dog sees a cat\n")[1])
    assert [row["word"] for row in rows] == ["a", "cat", ""]
    assert [row["surprisal"] for row in rows] == [row["surprisal"] for row in whole[3:]]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("items.csv", "item,sentence\n1,the cat\n"),
        ("items.tsv", "item\tsentence\n1\tthe cat\n"),
        ("items.txt", "item\tsentence\n1\tthe cat\n2\tthe dog\n"),
        ("items.txt", '"item";"sentence"\n1;the cat\n2;the dog\n'),
    ],
)
def test_a_table_without_column_is_refused_with_the_command_that_was_meant(refused, trained, tmp_path, name, content):
    (tmp_path / name).write_text(content)
    error = refused("score", trained.lstm, tmp_path / name)
    assert f"{tmp_path / name}: found a table with the columns item, sentence; expected one sentence per line" in error
    assert "--column sentence" in error
    error = refused("parse", trained.prpn, tmp_path / name)
    assert "Write the sentences, here of the column sentence, to a text file" in error


def test_a_pipe_is_read_once(run, trained, tmp_path):
    """A check that reads the text before the scores are computed would find them gone."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_text, args=("the cat sees a dog\n",))
    writer.start()
    code, out, _ = run("score", trained.prpn, pipe)
    writer.join()
    assert (code, len(out.splitlines())) == (0, 1 + 6)


def test_a_text_with_commas_is_no_table(score):
    assert score("the cat, the dog\na cat, a dog\n")[0] == 0
    assert score("the, cat\n")[0] == 0


def test_options_that_exclude_each_other_are_refused(refused, trained, tmp_path):
    (tmp_path / "words.tsv").write_text("word\nthe\ncat\n")
    words = "score", trained.lstm, "--words", tmp_path / "words.tsv"
    assert "which do not apply to rows of displayed words" in refused(*words, "--next-words", 2)
    assert "which do not apply to rows of displayed words" in refused(*words, "--also", trained.prpn)
    assert "given: found with" in refused("score", trained.lstm, "--text", "the", "--given", "a", "--context", "carry")


def test_a_picture_that_cannot_be_drawn_is_refused_before_anything_is_scored(refused, trained, tmp_path, monkeypatch):
    monkeypatch.setattr("syntaxlm.scoring.engine.Scorer.tokens", lambda *_: pytest.fail("scored"))
    monkeypatch.setattr("syntaxlm.scoring.engine.Scorer.stream", lambda *_: pytest.fail("scored"))
    many, stimuli = tmp_path / "many.txt", tmp_path / "items.csv"
    many.write_text("the cat\n" * 101)
    stimuli.write_text("item,condition,sentence\n" + "".join(f"1,{name},the | cat\n" for name in "abcdefghijk"))
    picture = tmp_path / "picture.svg"
    assert "more than 100 sentences" in refused("score", trained.lstm, many, "--picture", picture)
    assert "found 11 conditions" in refused("items", trained.lstm, stimuli, "--picture", picture)
    for name, text in (("score", many), ("items", stimuli)):
        missing = tmp_path / "none" / "picture.svg"
        assert "the folder" in refused(name, trained.lstm, text, "--picture", missing)
    assert not picture.exists()


def test_the_first_sentence_of_a_column_is_shown(run, trained, tmp_path):
    (tmp_path / "items.csv").write_text("item,sentence\n1,the cat sees a dog\n2,a dog\n3,\n")
    code, _, error = run("score", trained.lstm, tmp_path / "items.csv", "--column", "sentence")
    assert code == 0
    line = "items.csv: sentences of the column sentence, 2 sentences; first sentence: the cat sees a dog\n"
    assert line in error


def test_a_sentence_in_a_terminal_is_a_table_with_bars_and_other_output_stays_tsv(trained, tmp_path, run, monkeypatch):
    path = tmp_path / "text.txt"
    path.write_text("the cat sleeps\n")
    piped = run("score", trained.prpn, "the cat sleeps")[1]
    assert list(table(piped)[0]) == COLUMNS
    asked = run("score", trained.prpn, "the cat sleeps", "--format", "text")[1]
    assert "█" in asked
    assert [line.split()[0] for line in asked.splitlines()[:4]] == ["word", "the", "cat", "sleeps*"]

    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert run("score", trained.prpn, "the cat sleeps")[1] == asked
    assert run("score", trained.prpn, path)[1] == piped
    assert run("score", trained.prpn, "the cat sleeps", "-o", tmp_path / "rows.tsv")[1] == ""
    assert (tmp_path / "rows.tsv").read_text() == piped


def test_tables_with_bars_follow_what_their_words_have_in_common(score):
    text = "item\ttext\tregion\n1\tthe cat\tmain\n\n2\ta dog sees\tother\n"
    lines = score(text, "--column", "text", "--format", "text")[1].splitlines()
    assert [line for line in lines if line.startswith("item ")] == ["item 1   region main", "item 2   region other"]
    assert lines.count("") == 1


def test_displayed_words_have_no_tables_with_bars(trained, tmp_path, refused):
    path = tmp_path / "words.tsv"
    path.write_text("word\nthe\ncat\n")
    error = refused("score", trained.prpn, "--words", path, "--format", "text")
    assert "--format text: found with --words or --group; expected tsv, csv, json or parquet" in error
