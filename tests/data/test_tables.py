"""Tables of cells separated by tabs, commas or semicolons."""

from __future__ import annotations

import csv
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syntaxlm.core.errors import InputError
from syntaxlm.data.tables import check_unique, find_column, names_beside, read_table, refuse_table, split_cells
from syntaxlm.reports.writers import format_cells


@pytest.fixture
def table(tmp_path):
    """Writes a table; returns its path."""

    def table(content: str):
        path = tmp_path / "items.tsv"
        path.write_bytes(content.encode())
        return path

    return table


OLD = 'the "old" cat'


@pytest.mark.parametrize(
    ("content", "names", "expected"),
    [
        (
            f"\ufeffitem\tsentence\tregion\r\n1\t{OLD}\t\r\n\r\n2\t\tb\r\n", ("item", "region"),
            [(OLD, ("1", "")), ("", ("", "")), ("", ("2", "b"))],
        ),
        ("sentence\na cat\n", (), [("a cat", ())]),
        # A header without tabs decides for commas.
        (
            'item,sentence,region\r\n1,"the ""old"" cat, that sleeps",\r\n\r\n2,a\tb,"c"\r\n', ("item", "region"),
            [(f"{OLD}, that sleeps", ("1", "")), ("", ("", "")), ("a\tb", ("2", "c"))],
        ),
        ('item;sentence\n1;"the cat; a dog, too"\n', ("item",), [("the cat; a dog, too", ("1",))]),
    ],
)  # fmt: skip
def test_a_column_is_found_by_its_name_and_the_others_stay_in_order(table, content, names, expected):
    others, rows = read_table(table(content), "sentence")
    assert (others, [tuple(row) for row in rows]) == (names, expected)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "items.tsv, line 1: found no header"),
        ("item\ttext\n1\ta\n", "items.tsv, line 1: no column 'sentence'; found item, text."),
        ("item\tSentence\n", "Did you mean Sentence?"),
        ("sentence\titem\titem\n", "more than one column is named 'item'"),
        ("item\tsentence\n1\ta\n2\n", "items.tsv, line 3: found 1 cells; expected 2: item, sentence"),
        ("item\tsentence\n1\ta\tb\n", "items.tsv, line 2: found 3 cells"),
        ("item,text\n1,a\n", "items.tsv, line 1: no column 'sentence'; found item, text."),
        ("item,sentence\n1,a, cat\n", "found 3 cells; expected 2: item, sentence. A cell that contains the separator"),
        (
            'item,"sen\ntence"\n',
            "items.tsv, line 1: the line ends within a cell in quotation marks; expected the whole row",
        ),
        ('item,sentence\n1,"a\ncat"\n', "items.tsv, line 2: the line ends within a cell in quotation marks; expected"),
        ('item,sentence\n1,"a" cat\n', "items.tsv, line 2: not a table of cells separated by ','"),
        (",\n", "items.tsv, line 1: found no header"),
        ('sentence\titem\n"a\ncat"\t1\n', "line 2: found 1 cells; expected 2: sentence, item. Line 2 ends within"),
        ('item\tsentence\n1\t"a\n cat"\n', "line 3: found 1 cells; expected 2: item, sentence. Line 2 ends within"),
    ],
)
def test_invalid_tables_are_reported_by_line(table, content, said):
    with pytest.raises(InputError) as error:
        list(read_table(table(content), "sentence")[1])
    assert said in str(error.value)


@pytest.mark.parametrize(
    ("line", "cells"),
    [
        ('"a ""b"" c"\t1', ['a "b" c', "1"]),
        ('"Go!" he said\t1', ['"Go!" he said', "1"]),
        ('"Go!" he said, "now"\t1', ['"Go!" he said, "now"', "1"]),
        ('say "\t"', ['say "', '"']),
        ('""\t', ["", ""]),
        ('"a\tb"', ["a\tb"]),
    ],
)
def test_quotation_marks_are_those_of_a_cell_only_around_it(line, cells):
    assert split_cells(line) == cells


NAMES = st.lists(st.sampled_from(["a", "b", "input_a", "input_b", "input_input_a"]), unique=True)


@given(NAMES, NAMES)
def test_names_next_to_others_are_made_unique_with_the_fewest_changes(columns, names):
    result = names_beside(columns, names)
    assert len({*columns, *result}) == len(columns) + len(names)
    for name, new in zip(names, result, strict=True):
        assert new.removesuffix(name).replace("input_", "") == ""
        assert (new == name) == (name not in columns)


@given(st.lists(st.text("a\"\t '", max_size=6), min_size=1, max_size=4))
def test_cells_come_back_as_they_were_written_here_and_elsewhere(cells):
    line = format_cells(cells)
    assert split_cells(line) == cells
    if line:
        assert next(csv.reader([line], delimiter="\t")) == cells


MANY = [f"column {number}" for number in range(100_000)]


@pytest.mark.long
@pytest.mark.parametrize(
    "read",
    [
        lambda path: read_table(path, "other"),
        lambda path: list(read_table(path, MANY[-1])[1]),
        lambda path: refuse_table(path, "Choose --column {}"),
        lambda path: check_unique(MANY * 2, "the table"),
        lambda path: check_unique(["n" * 10**6] * 2, "the table"),
        lambda path: find_column(["n" * 10**6], "m" * 10**6, "the table"),
    ],
)
def test_messages_about_very_many_or_long_columns_are_short_and_quick(read, tmp_path):
    path = tmp_path / "wide.tsv"
    path.write_text("\t".join(MANY) + "\na\tb\n")
    start = time.monotonic()
    with pytest.raises(InputError) as raised:
        read(path)
    assert len(str(raised.value)) < 2500
    assert time.monotonic() - start < 20  # comparing all pairs of names takes minutes


def test_very_many_columns_beside_others_keep_their_names():
    start = time.monotonic()
    assert names_beside(["word", MANY[5]], MANY) == (*MANY[:5], f"input_{MANY[5]}", *MANY[6:])
    assert time.monotonic() - start < 5
