"""text8 is split as in published results, and other files are refused."""

from __future__ import annotations

import pytest

from syntaxlm.core.errors import InputError
from syntaxlm.data import running_text
from syntaxlm.data.running_text import split_text8


@pytest.fixture
def short(monkeypatch):
    """A text8 of 40 bytes, of which 30 are training text."""
    monkeypatch.setattr(running_text, "TEXT8_BYTES", 40)
    monkeypatch.setattr(running_text, "TEXT8_TRAINING_BYTES", 30)


def test_the_real_sizes_are_those_of_the_published_split():
    assert (running_text.TEXT8_BYTES, running_text.TEXT8_TRAINING_BYTES) == (100_000_000, 99_000_000)


def test_the_parts_are_the_bytes_before_and_after_the_split(short, tmp_path):
    content = b" anarchism originated as a term of abuse"
    (tmp_path / "text8").write_bytes(content)
    summary = split_text8(tmp_path / "text8", tmp_path / "out")
    train, valid = ((tmp_path / "out" / f"{name}.txt").read_bytes() for name in ("train", "valid"))
    assert train == content[:30] + b"\n"
    assert valid == content[30:] + b"\n"
    assert (summary.train_words, summary.valid_words, summary.cut) == (5, 3, "term")
    assert "cut is inside the word 'term'" in str(summary)


@pytest.mark.parametrize("content", [b"a" * 29 + b" " + b"b" * 10, b"a" * 30 + b" " + b"b" * 9])
def test_a_split_between_words_divides_no_word(short, tmp_path, content):
    (tmp_path / "text8").write_bytes(content)
    summary = split_text8(tmp_path / "text8", tmp_path / "out")
    assert summary.cut is None
    assert (summary.train_words, summary.valid_words) == (len(content[:30].split()), 1)
    assert "cut falls" not in str(summary)


@pytest.mark.parametrize("size", [0, 39, 41])
def test_a_file_of_another_size_is_reported_with_both_sizes_and_nothing_is_written(short, tmp_path, size):
    (tmp_path / "text8").write_bytes(b"a" * size)
    with pytest.raises(
        InputError,
        match=rf"text8: found .*{min(size, 40)} bytes; expected the unpacked text8, which has 40",
    ):
        split_text8(tmp_path / "text8", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_file_of_the_same_size_with_other_bytes_is_reported_by_place(short, tmp_path):
    (tmp_path / "text8").write_bytes(b"a" * 20 + b"\n" + b"a" * 19)
    with pytest.raises(InputError, match="found byte 0x0a at offset 20"):
        split_text8(tmp_path / "text8", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_missing_file_is_reported(tmp_path):
    with pytest.raises(InputError, match="text8: cannot be read: No such file"):
        split_text8(tmp_path / "text8", tmp_path / "out")
