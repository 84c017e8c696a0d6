"""Tables of results: TSV, CSV and Parquet files have the same rows as data frames."""

from __future__ import annotations

import csv
import io
import json
import sys
import tempfile
import time
from dataclasses import dataclass
from typing import get_args

import numpy as np
import pytest
from markdown_it import MarkdownIt  # of rich, which the program needs

from syntaxlm.core.declarations import ReportFormat
from syntaxlm.core.errors import InputError
from syntaxlm.reports.report import HasReport, Report
from syntaxlm.reports.tables import PERCENT, Column, Columns, ReportTable
from syntaxlm.reports.writers import blocks_of, format_blocks, format_rows, write_parquet
from tests.api.models import language_model, results_of_every_type
from tests.fresh_models import fresh

NUMBERS = Columns("numbers", "number", {"number": Column("integer", "a number"), "name": Column("text", "its name")})
ODD = ["", "a\tb", 'say "no"', "x, y", "two\nlines", "\u2028", "'"]


def test_parquet_files_have_the_rows_and_types_of_data_frames(tmp_path, monkeypatch):
    import pandas.testing
    import polars.testing
    import pyarrow

    path = tmp_path / "rows.parquet"
    dropped = language_model(fresh("lstm", drop_words=("$",))).surprisal("the $ cat")
    results = [*results_of_every_type(), dropped, language_model(fresh("palm")).parse("the cat sees a dog")]
    for result in results:
        result.to_parquet(path)
        frame = result.to_dataframe()
        # pyarrow gives pandas the lists of a cell as arrays.
        arrays = pyarrow.Table.from_pandas(frame).to_pandas().astype(frame.dtypes)
        pandas.testing.assert_frame_equal(pandas.read_parquet(path), arrays)
    monkeypatch.setitem(sys.modules, "pandas", None)
    for result in results:
        result.to_parquet(path)
        polars.testing.assert_frame_equal(polars.read_parquet(path), result.to_dataframe())


def test_every_column_has_its_meaning_in_the_file(tmp_path):
    import polars

    result = language_model(fresh("lstm")).surprisal("the cat")
    result.to_parquet(tmp_path / "rows.parquet")
    metadata = polars.read_parquet_metadata(tmp_path / "rows.parquet")
    assert metadata["syntaxlm.table"] == "surprisals"
    assert metadata["syntaxlm.column.surprisal"].startswith("surprisal in bits")


def test_parquet_files_have_row_groups_and_rows_wait_in_files(tmp_path, monkeypatch):
    from pyarrow.parquet import ParquetFile

    path, waiting = tmp_path / "rows.parquet", tmp_path / "waiting"
    waiting.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(waiting))
    sizes = []

    def rows(count):
        for number in range(count):
            if number % 10_000 == 0:
                sizes.append(len(list(waiting.rglob("*.parquet"))))
            yield {"number": number, "name": f"number {number}"}

    blocks = blocks_of(rows(50_000), NUMBERS, 700)
    assert write_parquet(blocks, NUMBERS, path, rows_per_group=1_000, rows_in_memory=5_000) == 50_000
    assert sizes == sorted(set(sizes))  # rows leave the memory before the last row is made
    assert not list(waiting.iterdir())
    file = ParquetFile(path)
    assert (file.num_row_groups, file.metadata.num_rows) == (50, 50_000)
    assert file.read_row_group(49)["number"].to_pylist()[-1] == 49_999


def test_a_failed_write_keeps_the_old_file(tmp_path):
    path = tmp_path / "rows.parquet"
    path.write_bytes(b"old")

    def rows():
        yield {"number": 1, "name": "one"}
        raise InputError("line 2: no such number")

    with pytest.raises(InputError, match="line 2"):
        write_parquet(blocks_of(rows(), NUMBERS, 1), NUMBERS, path, rows_per_group=1)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(("format", "delimiter"), [("tsv", "\t"), ("csv", ",")])
def test_separated_cells_are_read_as_they_were(format, delimiter):
    rows = [{"number": number, "name": name} for number, name in enumerate(ODD)]
    text = "".join(format_rows(rows, NUMBERS, format))
    read = csv.DictReader(io.StringIO(text, newline=""), delimiter=delimiter)
    assert [(row["number"], row["name"]) for row in read] == [(str(row["number"]), row["name"]) for row in rows]


@pytest.mark.parametrize(("format", "delimiter"), [("tsv", "\t"), ("csv", ",")])
@pytest.mark.parametrize("same", ["a", '%s,\t"', "", None])
def test_columns_are_written_as_the_csv_module_writes_their_rows(format, delimiter, same):
    texts = [*ODD, None, "x"]
    block = {
        "text": texts,
        "same": [same] * len(texts),
        "number": np.arange(len(texts)),
        "one": np.ones(len(texts), int),
    }
    table = Columns("cells", "row", {name: Column("text", name) for name in block})
    expected = io.StringIO()
    writer = csv.writer(expected, delimiter=delimiter)
    writer.writerow(block)
    writer.writerows(zip(*block.values(), strict=True))
    written = "".join(format_blocks([block], table, format))
    assert written.split("\n") == expected.getvalue().replace("\r\n", "\n").split("\n")


@pytest.mark.parametrize("format", ["tsv", "csv"])
def test_rows_written_as_they_come_take_little_more_time_than_whole_columns(format):
    columns = Columns("rows", "row", {name: Column("number", "") for name in "abcdefgh"})
    rows = [
        dict.fromkeys("abc", "word") | dict.fromkeys("def", 1.5) | {"g": None, "h": number} for number in range(20_000)
    ]
    (block,) = blocks_of(rows, columns, len(rows))

    def seconds(lines):
        before = time.process_time()
        text = "".join(lines)
        return time.process_time() - before, text

    one, expected = seconds(format_blocks([block], columns, format))
    other, found = seconds(format_rows(rows, columns, format))
    assert found == expected
    assert other < 3 * one


def test_cells_of_numbers_lists_and_missing_values():
    kinds = ("number", "boolean", "list of numbers", "list of pairs", "text")
    table = Columns("cells", "row", {kind: Column(kind, kind) for kind in kinds})
    values = [
        (0.5, True, [0.25, 1], [[0, 2], [1, 2]], "a"),
        (1.5e-7, False, [], [], None),
        (None, None, [None], [], "b"),
        (0.0, False, [], [], "c"),
        (0.001, False, [], [], "d"),
    ]
    rows = [dict(zip(kinds, one, strict=True)) for one in values]
    assert [line.split(",") for line in "".join(format_rows(rows, table, "csv")).splitlines()[1:]] == [
        ["0.500000", "true", "0.250000 1", "0:2 1:2", "a"],
        ["1.5e-07", "false", "", "", ""],
        ["", "", "", "", "b"],
        ["0.000000", "false", "", "", "c"],
        ["0.001000", "false", "", "", "d"],
    ]
    lines = list(format_rows(rows[:2], table, "json"))
    assert [json.loads(line) for line in lines] == [json.loads(json.dumps(row)) for row in rows[:2]]
    assert all(line.endswith("}\n") for line in lines)


def test_an_error_before_the_first_row_leaves_no_header():
    def rows():
        raise InputError("no text")
        yield

    with pytest.raises(InputError):
        next(format_rows(rows(), NUMBERS, "tsv"))
    assert list(format_rows([], NUMBERS, "tsv")) == ["number\tname\n"]


SCORES = Columns(
    "scores", "set of trees", {
        "trees": Column("text", "name"), "f1": Column("number", "F1, 0 to 1", PERCENT), "size": Column("integer", "")
    },
)  # fmt: skip


class Scored(HasReport):
    """A result with a report."""

    def report(self):
        rows = [
            {"trees": "a|b", "f1": 0.61649, "size": 1234},
            {"trees": "<gold>", "f1": None, "size": 5},
            {"trees": "日本", "f1": float("nan"), "size": 6},
        ]
        return Report(
            SCORES, rows, {"schema_version": 1, "interval": Ends(np.float64(0.5), (1, 2))},
            facts={"wsj.mrg": "", "protocol": "wsj-test", "sentences": 12345},
            explanation=["F1 in percent"],
            tables=[ReportTable.of(SCORES, rows, {"f1": "F1", "size": "number\nof words", "trees": "trees"}, "Trees")],
            notes=["a note"],
        )  # fmt: skip


@dataclass(frozen=True)
class Ends:
    low: float
    values: tuple[int, int]


def test_text_of_a_report_has_facts_aligned_tables_and_notes():
    assert str(Scored()).splitlines() == [
        "wsj.mrg   protocol wsj-test   sentences 12,345",
        "F1 in percent",
        "",
        "Trees",
        "         number",
        "  F1   of words   trees",
        "61.6      1,234   a|b",
        "   -          5   <gold>",
        "   -          6   日本",
        "",
        "a note",
    ]


def test_all_formats_of_a_report_have_its_figures(tmp_path, capsys):
    report = Scored().report()
    for format in get_args(ReportFormat):
        report.write(tmp_path / format, format)
    written = {path.name: path.read_text("utf-8") for path in tmp_path.iterdir() if path.name != "parquet"}
    assert "| 61.6 | 1,234 | a\\|b |" in written["markdown"]
    assert ">&lt;gold&gt;</td>" in written["html"]
    assert r"61.6 & 1,234 & a\textbar{}b \\" in written["latex"]
    assert r"- & 5 & \textless{}gold\textgreater{} \\" in written["latex"]
    assert json.loads(written["json"]) == {"schema_version": 1, "interval": {"low": 0.5, "values": [1, 2]}}
    assert written["tsv"].splitlines()[:2] == ["trees\tf1\tsize", "a|b\t0.616490\t1234"]
    assert written["csv"].replace(",", "\t") == written["tsv"]
    report.write(None, "text")
    assert capsys.readouterr().out == written["text"] == str(Scored()) + "\n"
    frame = Scored().to_dataframe()
    assert list(frame.columns) == list(SCORES)
    assert frame["size"].tolist() == [1234, 5, 6]


@pytest.mark.parametrize(("format", "message"), [("xml", "xml.*text, json"), ("parquet", "standard output.*a file")])
def test_formats_that_a_report_cannot_be_written_in(format, message):
    with pytest.raises(InputError, match=message):
        Scored().report().write(None, format)


@pytest.mark.parametrize(
    "name",
    [
        "<unk>", "</s>", "*that*", "a*b*c", "_all_", "p_value", "`x`", "[a](b)", "[a | b]", "a\\*b", "a\\|b",
        "&lt;", "R&D", "p < 0.05",
    ],
)  # fmt: skip
def test_names_are_the_same_after_markdown_is_rendered(name):
    rows = [{"f1": 0.5, "size": 5, "trees": name}]
    table = ReportTable.of(SCORES, rows, {"f1": "F1", "trees": name}, f"of {name}")
    report = Report(SCORES, rows, {}, {name: ""}, tables=[table], notes=[name], data=[f"{name}.mrg"])
    read = MarkdownIt("commonmark").enable("table").parse(report.markdown())
    shown = ["".join(part.content for part in token.children) for token in read if token.type == "inline"]
    assert shown.count(name) == 3, "in the heading of a column, in a cell, and as a note"
    assert f"of {name}" in shown
    assert {part.type for token in read for part in token.children or []} == {"text"}
