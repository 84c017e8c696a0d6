"""Text files are opened in one place: compressed or not, bounded in memory, with faults named by file and line."""

import bz2
import gzip
import hashlib
import io
import lzma
import os
import subprocess
import sys
import zipfile
from functools import partial
from pathlib import Path

import fsspec
import pytest
from backports import zstd
from hypothesis import given
from hypothesis import strategies as st

from syntaxlm.core import remote_files, text_files
from syntaxlm.core.errors import InputError
from syntaxlm.core.text_files import (
    COMPRESSED_SUFFIXES,
    check_encodable,
    content_suffix,
    is_compressed,
    line_bytes,
    plain_size,
    read_bytes,
    read_lines,
    read_whole_text,
    uncompressed_name,
)
from syntaxlm.data.treebanks import read_treebank
from syntaxlm.jobs.inputs import open_source
from syntaxlm.training.run import fingerprint
from tests.fuzz.test_readers import refusal


def zst(content: bytes) -> bytes:
    return zstd.compress(content, options={zstd.CompressionParameter.checksum_flag: 1})


def zipped(content: bytes) -> bytes:
    output = io.BytesIO()
    with zipfile.ZipFile(output, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("folder/", "")
        archive.writestr("folder/text.txt", content)
        archive.writestr("__MACOSX/folder/._text.txt", b"\0")
    return output.getvalue()


COMPRESS = {
    ".gz": gzip.compress, ".bz2": bz2.compress, ".xz": partial(lzma.compress, preset=0), ".zst": zst, ".zip": zipped,
}  # fmt: skip
STREAMS = [suffix for suffix in COMPRESS if suffix != ".zip"]
TEXT = "the cat sat\n\nnaïve 友情\r\nlast"
LINES = [(1, "the cat sat"), (2, ""), (3, "naïve 友情"), (4, "last")]

every_compression = pytest.mark.parametrize("suffix", COMPRESS)
every_stream = pytest.mark.parametrize("suffix", STREAMS)


def test_the_files_of_a_zip_archive_that_has_several_are_named(tmp_path):
    path = tmp_path / "corpus.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("train.txt", "a b\n")
        archive.writestr("folder/valid.txt", "c\n")
    with pytest.raises(InputError, match=r"zip archive of 2 files \(train\.txt, folder/valid\.txt\); expected one"):
        list(read_lines(path))


def test_every_compression_is_tested():
    assert tuple(COMPRESS) == COMPRESSED_SUFFIXES


@pytest.mark.parametrize("name", ["text.txt", *(f"text.txt{suffix}" for suffix in COMPRESS), "text.TXT.GZ"])
def test_compressed_text_is_read_as_plain_text(tmp_path, name):
    path = tmp_path / name
    compress = COMPRESS.get(path.suffix.lower(), bytes)
    path.write_bytes(compress(b"\xef\xbb\xbf" + TEXT.encode()))
    assert list(read_lines(path)) == LINES
    assert read_whole_text(path) == TEXT
    assert is_compressed(path) == (path.suffix != ".txt")
    assert plain_size(path) == (None if is_compressed(path) else path.stat().st_size)
    assert sum(line_bytes(line) for _, line in LINES) == len(TEXT.replace("\r", "").encode()) + 1
    assert plain_size("-") is plain_size(tmp_path) is None
    assert (uncompressed_name(path).name.lower(), content_suffix(path)) == ("text.txt", ".txt")


@every_stream
def test_the_compression_is_detected_from_the_content(tmp_path, suffix, monkeypatch):
    (tmp_path / "text").write_bytes(COMPRESS[suffix](TEXT.encode()))
    assert list(read_lines(tmp_path / "text")) == LINES
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(COMPRESS[suffix](TEXT.encode()))))
    assert list(read_lines("-")) == LINES


@every_stream
def test_archives_with_several_members_are_read_to_the_end(tmp_path, suffix):
    (tmp_path / f"text{suffix}").write_bytes(COMPRESS[suffix](b"a\n") + COMPRESS[suffix](b"b\n" * 99_999) + b"\0" * 8)
    assert read_bytes(tmp_path / f"text{suffix}") == b"a\n" + b"b\n" * 99_999


@every_stream
def test_zero_bytes_between_members_are_ignored_however_many_they_are(tmp_path, suffix):
    path = tmp_path / f"text{suffix}"
    first, second = COMPRESS[suffix](b"a\n"), COMPRESS[suffix](b"b\n")
    path.write_bytes(first + bytes(3 * text_files._PIECE) + second + bytes(text_files._PIECE + 1))
    assert [line for _, line in read_lines(path)] == ["a", "b"]


@every_compression
def test_a_truncated_archive_is_an_error_wherever_it_ends(tmp_path, suffix):
    content = COMPRESS[suffix](TEXT.encode() * 9)
    path = tmp_path / f"text{suffix}"
    for end in range(len(content)):
        path.write_bytes(content[:end])
        with pytest.raises(InputError, match=f"text{suffix}: (truncated|found (an empty file|uncompressed content))"):
            list(read_lines(path))


@every_compression
def test_a_damaged_archive_is_read_correctly_or_refused_by_name(tmp_path, suffix):
    content = COMPRESS[suffix](TEXT.encode())
    path = tmp_path / f"text{suffix}"
    refused = 0
    for place in range(len(content)):
        path.write_bytes(content[:place] + bytes([content[place] ^ 0xFF]) + content[place + 1 :])
        with refusal(path):
            refused += 1
            assert read_whole_text(path) == TEXT
            refused -= 1
    assert refused > len(content) / 3


def test_a_suffix_of_another_format_is_refused(tmp_path):
    (tmp_path / "a.gz").write_bytes(lzma.compress(b"a"))
    with pytest.raises(InputError, match=r"a\.gz: found xz data in a file with the suffix \.gz; expected gzip data"):
        list(read_lines(tmp_path / "a.gz"))
    (tmp_path / "b.zst").write_text("a")
    with pytest.raises(InputError, match=r"b\.zst: found uncompressed content .* expected zstd data"):
        list(read_lines(tmp_path / "b.zst"))
    (tmp_path / "c.txt").write_bytes(b"7z\xbc\xaf\x27\x1c")
    with pytest.raises(InputError, match=r"c\.txt: found a 7-Zip archive; expected plain text or \.gz, \.bz2, \.xz,"):
        list(read_lines(tmp_path / "c.txt"))


def test_a_missing_file_is_reported_with_the_compressed_file_of_the_same_name(tmp_path):
    with pytest.raises(InputError, match=r"text\.txt: cannot be read: No such file or directory$"):
        list(read_lines(tmp_path / "text.txt"))
    (tmp_path / "text.txt.xz").write_bytes(lzma.compress(b"a"))
    with pytest.raises(InputError, match=r"No such file or directory\. Did you mean .*text\.txt\.xz\?$"):
        list(read_lines(tmp_path / "text.txt"))


@every_compression
def test_bytes_that_are_not_text_are_named_by_line_and_offset_after_decompression(tmp_path, suffix):
    path = tmp_path / f"text{suffix}"
    for content, fault in ((b"a\n\xff", "line 2: found byte 0xff at offset 2"), (b"a\0", "line 1: found a zero byte")):
        path.write_bytes(COMPRESS[suffix](content))
        for read in (read_whole_text, lambda path: list(read_lines(path))):
            with pytest.raises(InputError, match=f"text{suffix}, {fault}"):
                read(path)


def test_text_that_no_file_can_hold_is_named_by_its_character():
    check_encodable("\u0085 é 🌳", "the text")
    with pytest.raises(InputError, match=r"^the text: found '\\ud83d' at character 3, half of a surrogate pair"):
        check_encodable("ab\ud83d", "the text")


def test_standard_input_can_be_read_once(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a\n")))
    assert list(read_lines("-")) == [(1, "a")]
    assert not sys.stdin.buffer.closed
    with pytest.raises(InputError, match="standard input: already read; - can be given for only one file"):
        list(read_lines("-"))
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(InputError, match="standard input: not available"):
        list(read_lines("-"))


def test_a_named_pipe_is_read(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with subprocess.Popen([sys.executable, "-c", f"open({str(tmp_path / 'pipe')!r}, 'w').write('a\\nb')"]):
        assert list(read_lines(tmp_path / "pipe")) == [(1, "a"), (2, "b")]


def test_texts_over_their_limits_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(text_files, "MAXIMUM_LINE", 3 * text_files._PIECE)
    (tmp_path / "long.txt").write_bytes(b"x\n" + b"a" * (4 * text_files._PIECE) + b"\nb\n")
    with pytest.raises(InputError, match=r"long\.txt, line 2: more than 1 MiB in one line"):
        list(read_lines(tmp_path / "long.txt"))
    (tmp_path / "near.txt").write_bytes(b"x\n" + b"a" * (3 * text_files._PIECE - 1) + b"\nb\n")
    assert [len(line) for _, line in read_lines(tmp_path / "near.txt")] == [1, 3 * text_files._PIECE - 1, 1]
    (tmp_path / "large.gz").write_bytes(gzip.compress(b"a" * 101))
    with pytest.raises(InputError, match=r"large\.gz: more than 0 MiB after decompression"):
        read_bytes(tmp_path / "large.gz", 100)
    (tmp_path / "plain.txt").write_bytes(b"a" * 101)
    assert len(read_bytes(tmp_path / "plain.txt", 100)) == 101


BOMB = """
import resource, sys
from syntaxlm.core.errors import InputError
from syntaxlm.core.text_files import read_lines, read_whole_text
read = {"lines": lambda path: sum(1 for _ in read_lines(path)), "text": read_whole_text}[sys.argv[2]]
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    read(sys.argv[1])
except InputError as error:
    print(error, file=sys.stderr)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.long
@every_compression
@pytest.mark.parametrize("content", [b"\0", b"a " * 2**12 + b"\n"], ids=["zeros", "lines"])
def test_a_decompression_bomb_does_not_fill_memory(tmp_path, suffix, content):
    path = tmp_path / f"bomb{suffix}"
    piece = content * (2**26 // len(content))
    path.write_bytes(COMPRESS[suffix](piece) * 2)
    assert os.path.getsize(path) < 2**21
    ways = ["lines"] if b"\n" in content else ["lines", "text"]
    for way in ways:
        program = [sys.executable, "-c", BOMB, str(path), way]
        done = subprocess.run(program, check=True, capture_output=True, text=True)
        assert int(done.stdout) * (1 if sys.platform == "darwin" else 1024) < 2**26
        assert ("found a zero byte" in done.stderr) == (content == b"\0")


@given(st.binary(max_size=400), st.sampled_from(STREAMS), st.integers(1, 50))
def test_decompression_restores_any_content(content, suffix, piece):
    compressed = COMPRESS[suffix](content)
    pieces = iter([compressed[start : start + piece] for start in range(0, len(compressed), piece)])
    assert b"".join(text_files._decompressed(pieces, text_files._COMPRESSIONS[suffix].open, "text")) == content


def test_a_version_is_never_that_of_a_copy_that_another_process_downloads_at_the_same_time(tmp_path, monkeypatch):
    """The other process has opened an older version. It replaces the copy before the newer version is stored."""
    monkeypatch.setattr(remote_files, "folder_in_cache", lambda name: tmp_path)
    memory, write = fsspec.filesystem("memory"), remote_files.write_text

    def of_another_process(text, path):
        monkeypatch.setattr(remote_files, "write_text", write)
        memory.pipe("/texts/a.txt", b"old text\n")
        remote_files.local_copy("memory://texts/a.txt")
        memory.pipe("/texts/a.txt", b"new text\n")
        memory.store["/texts/a.txt"].created = created
        write(text, path)

    memory.pipe("/texts/a.txt", b"new text\n")
    created = memory.store["/texts/a.txt"].created
    monkeypatch.setattr(remote_files, "write_text", of_another_process)
    remote_files.local_copy("memory://texts/a.txt")
    assert read_whole_text("memory://texts/a.txt") == "new text\n"


def test_remote_files_are_read_through_the_file_system_of_their_protocol(tmp_path, monkeypatch):
    monkeypatch.setattr(remote_files, "folder_in_cache", lambda name: tmp_path)
    memory = fsspec.filesystem("memory")
    memory.pipe("/texts/a.txt.zip", zipped(b"a b\nc\n"))
    memory.pipe("/texts/a.mrg", b"(S (A a) (B b))\n")
    memory.pipe("/texts/cut.gz", gzip.compress(TEXT.encode())[:-9])
    for name in ("memory://texts/a.txt.zip", Path("memory://texts/a.txt.zip")):
        assert list(read_lines(name)) == [(1, "a b"), (2, "c")]
    assert len(read_treebank("memory://texts/a.mrg")) == 1
    assert plain_size("memory://texts/a.mrg") is None
    (digest,) = fingerprint({"text.train": "memory://texts/a.mrg"})["text.train"].values()
    assert digest == hashlib.sha256(b"(S (A a) (B b))\n").hexdigest()
    for name, message in {
        "memory://texts/b.txt": "cannot be read: no such file",
        "memory://texts/cut.gz": "truncated",
        "s3://bucket/a.txt": "cannot be read without another package: Install s3fs",
        "nowhere://a.txt": "no file system is known for nowhere://",
        "memory://texts": "found a folder; expected one of its files: memory:///texts/a.mrg, ",
    }.items():
        with pytest.raises(InputError, match=f"^{name}: {message}"):
            list(read_lines(name))
    with pytest.raises(InputError, match="a job reads parts of a file in any order"):
        open_source("memory://texts/a.mrg", None, None)
