"""`--format`: the same rows in every format, and the formats of every command."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from syntaxlm import cli
from syntaxlm.storage.folder import write_model
from tests.fresh_models import fresh
from tests.grammar_models import grammar

STORED = Path(__file__).parents[1] / "stored_models"
LEAVES = cli.all_commands()
# Pictures, a recipe, a script, a page, and models of the hub.
WITHOUT = {"draw", "recipes show", "completion", "serve", "models download", "models push", "models export"}

# Every command with tables, and its arguments. MODEL, PCFG: folders; others are files.
TABLES = {
    "parse": "PCFG sentences.txt --labels",
    "score": "MODEL sentences.txt",
    "items": "MODEL stimuli.csv",
    "generate": "MODEL --sentences 3",
    "grammar": "PCFG sentences.txt",
    "models list": "MODEL",
    "recipes list": "",
    "evaluate perplexity": "MODEL sentences.txt --cache-weight 0.1 --cache-theta 0.5",
    "evaluate parse": "PCFG test.mrg --random-weights 2",
    "evaluate trees": "predicted/prpn.mrg test.mrg --preprocessing ptb-keep",
    "evaluate agreement": "sentences.txt PCFG stored/prpn --sentences 20",
    "evaluate boundaries": "stored/prpn-chars test.txt",
    "evaluate pairs": "MODEL pairs.jsonl",
    "evaluate suites": "MODEL suite.json",
    "evaluate completion": "MODEL questions.txt answers.txt --also stored/lstm --weights 0.5",
    "evaluate logic": "stored/logic-lstm logic/test.tsv",
    "evaluate classifier": "stored/logic-lstm logic/test.tsv",
    "tune cache": "MODEL toy/valid.txt",
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    write_model(folder / "lstm", fresh("lstm"))
    write_model(folder / "pcfg", grammar("simple-pcfg"))
    return {"MODEL": str(folder / "lstm"), "PCFG": str(folder / "pcfg")}


@pytest.fixture
def run(folders, capsys):
    """Runs a command of `TABLES` with options; returns its output."""

    def run(command, *options):
        words = [*command.split(), *(_place(word, folders) for word in TABLES[command].split()), *map(str, options)]
        code = cli.main(words)
        out, error = capsys.readouterr()
        assert code == 0, error
        return out

    return run


def _place(word, folders):
    if word.startswith("stored/"):
        return str(STORED / "models" / word.removeprefix("stored/"))
    return folders.get(word, str(STORED / "inputs" / word) if "." in word and not word[0].isdigit() else word)


@pytest.mark.parametrize("command", LEAVES)
def test_every_command_that_prints_figures_has_formats_and_a_short_form(command):
    options = LEAVES[command].options
    assert ("format" not in options) == (command in WITHOUT)
    if "format" in options:
        formats = options["format"].choices
        assert "json" in formats
        assert "json" in options
        assert ("parquet" in formats) == (
            command in {*TABLES, "evaluate reading-times", "evaluate significance", "inspect"}
        )


SHORT = ("parse", "score", "items", "grammar", "evaluate parse")


@pytest.mark.parametrize(
    "command", [pytest.param(command, marks=() if command in SHORT else pytest.mark.long) for command in TABLES]
)
def test_tsv_csv_and_parquet_have_the_same_rows(run, command, tmp_path):
    from pyarrow.parquet import read_table

    tables = {}
    for kind, delimiter in (("tsv", "\t"), ("csv", ",")):
        path = tmp_path / f"rows.{kind}"
        printed = run(command, "-o", path)
        assert (printed == "") == (command != "items"), "the report of items is printed although its rows are written"
        assert run(command, "--format", kind) == path.read_text(encoding="utf-8")
        tables[kind] = list(csv.reader(io.StringIO(path.read_text(encoding="utf-8"), newline=""), delimiter=delimiter))
    assert run(command, "-o", tmp_path / "rows.parquet") == printed
    table = read_table(tmp_path / "rows.parquet")
    header, *rows = tables["tsv"]
    assert tables["csv"] == tables["tsv"]
    assert header == table.column_names
    assert len(rows) == len(table) > 0
    for cells, row in zip(rows, table.to_pylist(), strict=True):
        for cell, value in zip(cells, row.values(), strict=True):
            if isinstance(value, float):
                assert float(cell) == pytest.approx(value, abs=1e-6, rel=1e-5)
            elif not isinstance(value, list):
                assert cell == ("" if value is None else str(value).lower() if isinstance(value, bool) else str(value))


def test_the_extension_of_the_output_selects_the_format_unless_one_is_given(run, tmp_path):
    path = tmp_path / "out.json"
    run("evaluate perplexity", "-o", path)
    assert json.loads(path.read_text())["perplexity"] > 1
    run("evaluate perplexity", "-o", path, "--format", "text")
    assert path.read_text().startswith("perplexity ")
    run("parse", "-o", tmp_path / "trees.JSON")
    assert "spans" in json.loads((tmp_path / "trees.JSON").read_text().splitlines()[0])
    run("parse", "-o", tmp_path / "trees.mrg")
    assert (tmp_path / "trees.mrg").read_text().startswith("(")
    run("evaluate perplexity", "-o", tmp_path / "report.md")
    assert (tmp_path / "report.md").read_text().startswith("# ")
    run("evaluate perplexity", "-o", tmp_path / "out.xml", "--format", "text")
    assert (tmp_path / "out.xml").read_text().startswith("perplexity ")
    assert run("recipes list", "--json") == run("recipes list", "--format", "json")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["recipes", "list", "--format", "parquet"], "--format parquet: found standard output; expected a file: -o"),
        (["recipes", "list", "-o", "list.svg"], "list.svg: syntaxlm recipes list does not write .svg; expected one of"),
        (["grammar", "M", "-o", "g.xml"], "g.xml: syntaxlm grammar does not write .xml; expected one of .txt, .json"),
        (["score", "M", "T", "-o", "rows.tsv.gz"], "rows.tsv.gz: syntaxlm score does not write .gz; expected one of"),
        (["recipes", "list", "--format", "xml"], "invalid choice: 'xml'"),
        (["compare", "kn5-toy", "-o", "runs", "--format", "parquet"], "invalid choice: 'parquet'"),
    ],
)
def test_formats_that_cannot_be_written_are_reported_first(capsys, tmp_path, monkeypatch, words, said):
    monkeypatch.chdir(tmp_path)
    try:
        code = cli.main(words)
    except SystemExit as end:
        code = end.code
    out, error = capsys.readouterr()
    assert (code, out) == (2, "")
    assert said in error
    assert not list(tmp_path.iterdir())


def test_scores_in_parquet_are_exact_and_keep_the_columns_of_the_input(folders, tmp_path, capsys):
    from pyarrow.parquet import read_table

    (tmp_path / "items.tsv").write_text("item\ttext\n1\tthe cat\n2\ta dog\n")
    words = ["score", folders["MODEL"], str(tmp_path / "items.tsv"), "--column", "text"]
    assert cli.main([*words, "-o", str(tmp_path / "rows.parquet"), "--quiet"]) == 0
    rows = read_table(tmp_path / "rows.parquet").to_pylist()
    assert [row["item"] for row in rows] == ["1"] * 3 + ["2"] * 3
    assert any(row["surprisal"] != round(row["surprisal"], 6) for row in rows)
    capsys.readouterr()
