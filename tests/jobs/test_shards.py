"""Shards: how inputs are cut, and how their lines are read."""

from __future__ import annotations

import gzip
import io
import lzma
import re
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from syntaxlm.core.errors import InputError
from syntaxlm.core.work import Progress
from syntaxlm.jobs import inputs
from syntaxlm.jobs.inputs import (
    CompressedText,
    ParquetColumn,
    Shard,
    ShardTask,
    TextFile,
    cut_shards,
    open_source,
    raw_lines,
)

TEXT = "\ufeffthe cat\r\n\n é \nlast".encode()
LINES = ["the cat", "", " é ", "last"]


def cut(source, lines, *most) -> list[Shard]:
    shards: list[Shard] = []
    work = Progress("")
    assert list(cut_shards([source], shards, lines, 1000, work, *most)) == []
    assert work.done == sum(shard.lines for shard in shards)
    return shards


@given(st.lists(st.integers(1, 40), max_size=60), st.integers(1, 7), st.integers(1, 90))
def test_shards_have_all_lines_once_and_in_order_and_are_limited_in_lines_and_bytes(lengths, lines, most):
    shards = cut(SimpleNamespace(scan=lambda longest: ((length, None) for length in lengths)), lines, most)
    ends = np.cumsum([0, *lengths])
    following = 1
    for shard in shards:
        assert (shard.source, shard.first) == (0, following)
        assert (shard.begin, shard.end) == (ends[shard.first - 1], ends[shard.last])
        assert 1 <= shard.lines <= lines
        assert shard.lines == 1 or shard.end - shard.begin <= most
        if shard is not shards[-1] and shard.lines < lines:
            assert ends[shard.last + 1] - shard.begin > most  # one more line would not have fitted
        following = shard.last + 1
    assert following == len(lengths) + 1


def test_the_faults_of_lines_are_named(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(b"good\n" + b"x" * 30 + b"\n\xffbad\na\0b\n")
    assert list(open_source(str(path), None, None).scan(20)) == [
        (5, None),
        (31, "found 31 bytes; expected at most 20 (--max-line-bytes)"),
        (5, "found 0xff at byte 0 of the line; expected UTF-8 text"),
        (4, "found a zero byte at byte 1 of the line; expected UTF-8 text"),
    ]


def test_a_line_without_end_is_not_held_in_memory(monkeypatch):
    class Endless(io.RawIOBase):
        left = 1000

        def readline(self, size: int = -1) -> bytes:
            self.left -= 1
            return b"x" * size if self.left > 0 else b"\n" if self.left == 0 else b""

    monkeypatch.setattr(inputs, "_PIECE", 1 << 16)
    assert list(raw_lines(Endless(), 100)) == [101 + 998 * 2**16 + 1]


def parquet(path, texts, ids=None, row_group_size=3, type=None):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow.parquet import write_table

    columns = {"text": pyarrow.array(texts, type)} | ({} if ids is None else {"key": ids})
    write_table(pyarrow.table(columns), path, row_group_size=row_group_size)
    return path


@pytest.mark.parametrize(
    ("name", "write", "kind"),
    [
        ("a.txt", lambda path: path.write_bytes(TEXT), TextFile),
        ("a.txt.gz", lambda path: path.write_bytes(gzip.compress(TEXT)), CompressedText),
        ("a.txt.xz", lambda path: path.write_bytes(lzma.compress(TEXT)), CompressedText),
        ("a.parquet", lambda path: parquet(path, LINES, row_group_size=2), ParquetColumn),
    ],
)
@pytest.mark.parametrize("lines", [1, 3, 9])
def test_every_kind_of_input_has_the_same_lines_in_its_shards(name, write, kind, lines, tmp_path):
    write(tmp_path / name)
    source = open_source(str(tmp_path / name), None, None)
    assert type(source) is kind
    shards = cut(source, lines)
    read = {task.shard: list(source.lines(task, 1000)) for task in source.tasks(shards, 1000)}
    assert [len(found) for found in read.values()] == [shard.lines for shard in shards]
    flat = [line for found in read.values() for line in found]
    assert [(line.number, line.text, line.fault) for line in flat] == [
        (number, text, None) for number, text in enumerate(LINES, 1)
    ]
    last = list(source.tasks(shards[-1:], 1000))  # as if the others were done
    assert [line.text for line in source.lines(last[0], 1000)] == LINES[shards[-1].first - 1 :]


def test_missing_and_long_texts_of_parquet_are_bad_lines(tmp_path):
    path = parquet(tmp_path / "a.parquet", ["good", None, "x" * 9, "a\0b"], row_group_size=9)
    faults = [fault for _, fault in open_source(str(path), "text", None).scan(8)]
    assert faults[:2] == [None, "column 'text' is empty; expected text"]
    assert all(faults[2:])


@pytest.mark.parametrize(
    ("column", "id_column", "message"),
    [
        ("sentence", None, "no column 'sentence'; found text, key"),
        ("key", None, "column 'key' has the type Int64; expected text"),
        (None, "id", "no column 'id'"),
    ],
)
def test_columns_of_parquet_are_checked(column, id_column, message, tmp_path):
    path = parquet(tmp_path / "a.parquet", ["a"], [1])
    with pytest.raises(InputError, match=message):
        open_source(str(path), column, id_column)


@pytest.mark.parametrize(("column", "id_column"), [(None, None), ("key", "text")])
def test_several_columns_with_the_same_name_are_refused(column, id_column, tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow.parquet import write_table

    path = tmp_path / "a.parquet"
    write_table(pyarrow.Table.from_arrays([["a"], ["b"], ["c"]], names=["text", "text", "key"]), path)
    with pytest.raises(InputError, match=r"a\.parquet: .*column with name 'text' has more than one occurrence"):
        open_source(str(path), column, id_column)


def test_damaged_pages_of_parquet_are_reported_with_the_name_of_the_file(tmp_path):
    path = parquet(tmp_path / "a.parquet", ["the cat sees the dog"] * 20, row_group_size=20)
    source = open_source(str(path), None, None)
    content = bytearray(path.read_bytes())
    content[30:90] = b"\xff" * 60
    path.write_bytes(content)
    message = r"^" + re.escape(str(path)) + r": damaged: \S"
    with pytest.raises(InputError, match=message):
        list(source.scan(1000))
    with pytest.raises(InputError, match=message):
        list(source.lines(ShardTask(Shard(0, 0, 1, 20, 0, 400), source), 1000))


@pytest.mark.parametrize(
    ("name", "column", "message"),
    [
        ("-", None, "standard input: cannot be read again"),
        ("missing.txt", None, "missing.txt: cannot be read"),
        (".", None, "not a regular file"),
        ("a.txt", "text", "is not a Parquet file"),
        ("a.mrg", None, "a treebank; expected plain text"),
        ("a.parquet", None, "not a Parquet file, or damaged"),
    ],
)
def test_inputs_that_a_job_cannot_read_are_refused(name, column, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for file in ("a.txt", "a.mrg", "a.parquet"):
        (tmp_path / file).write_text("the cat\n")
    with pytest.raises(InputError, match=message):
        open_source(name, column, None)
