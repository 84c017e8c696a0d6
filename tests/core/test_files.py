"""Stored files: nothing in a model or run folder leads out of it, blocks, or fills the memory. Valid JSON."""

from __future__ import annotations

import errno
import json
import math
import os
import socket
import sys
from pathlib import Path

import pytest

from syntaxlm.core.errors import InputError
from syntaxlm.core.files import (
    LARGEST_JSON,
    UNFINISHED,
    append_stored,
    decode_text,
    locked,
    named_path,
    open_stored,
    parse_json,
    read_stored,
    read_stored_text,
    remove_unfinished,
    text_output,
    to_json,
    truncate_stored,
    write_text,
    written_together,
)

posix = pytest.mark.skipif(sys.platform == "win32", reason="links, pipes and devices of POSIX")


def link(path: Path) -> None:
    target = path.with_name("outside")
    target.write_text("outside")
    path.symlink_to(target)


def dangling_link(path: Path) -> None:
    path.symlink_to(path.with_name("made"))


def pipe(path: Path) -> None:
    os.mkfifo(path)


def device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def socket_file(path: Path) -> None:
    os.chdir(path.parent)  # a socket's path has at most 100 bytes
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(path.name)


def folder(path: Path) -> None:
    path.mkdir()


ODD = [link, dangling_link, pipe, device, socket_file, folder]


@posix
@pytest.mark.parametrize("make", ODD, ids=lambda make: make.__name__)
@pytest.mark.parametrize(
    "use",
    [
        read_stored,
        lambda path: append_stored(b"more", path),
        lambda path: truncate_stored(path, 0),
        lambda path: write_text("text", path, stored=True),
    ],
    ids=["read", "append", "truncate", "replace"],
)
def test_special_files_are_refused_immediately_and_nothing_outside_is_changed(tmp_path, monkeypatch, make, use):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "metrics.jsonl"
    make(path)
    before = {one.name: one.lstat().st_mode for one in tmp_path.iterdir()}
    with pytest.raises(InputError, match=r"metrics\.jsonl"):
        use(path)
    assert {one.name: one.lstat().st_mode for one in tmp_path.iterdir()} == before
    assert make is not link or (tmp_path / "outside").read_text() == "outside"


@posix
def test_a_link_created_after_the_check_is_not_followed(tmp_path, monkeypatch):
    link(tmp_path / "file")
    monkeypatch.setattr(os.path, "islink", lambda path: False)
    for use in (read_stored, lambda path: append_stored(b"more", path), lambda path: truncate_stored(path, 0)):
        with pytest.raises(InputError, match="cannot be"):
            use(tmp_path / "file")
    assert (tmp_path / "outside").read_text() == "outside"


@posix
def test_a_folder_that_is_a_link_may_be_used(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "name").symlink_to(tmp_path / "folder")
    write_text("text", tmp_path / "name" / "file", stored=True)
    assert read_stored(tmp_path / "name" / "file") == b"text"
    with locked(tmp_path / "name"):
        pass


@posix
def test_a_link_in_the_hugging_face_cache_is_read_and_never_written_through(tmp_path):
    """A snapshot has links to ../../blobs. Links to other files, also by way of the blobs, are refused."""
    repository = tmp_path / "models--user--name"
    snapshot, blobs = repository / "snapshots" / "c0ffee", repository / "blobs"
    snapshot.mkdir(parents=True)
    blobs.mkdir()
    (blobs / "1234").write_bytes(b"{}")
    (tmp_path / "outside").write_text("outside")
    (blobs / "5678").symlink_to(tmp_path / "outside")
    (blobs / "fifo").symlink_to(tmp_path / "fifo")
    os.mkfifo(tmp_path / "fifo")
    (snapshot / "config.json").symlink_to("../../blobs/1234")
    assert read_stored(snapshot / "config.json") == b"{}"
    (tmp_path / "model").symlink_to(snapshot)
    assert read_stored(tmp_path / "model" / "config.json") == b"{}"
    for use in (
        lambda path: append_stored(b"more", path),
        lambda path: truncate_stored(path, 0),
        lambda path: write_text("text", path, stored=True),
    ):
        with pytest.raises(InputError, match="is a link"):
            use(snapshot / "config.json")
    for name, target in {"a": "../../blobs/5678", "b": "../../../outside", "c": "../../blobs/fifo"}.items():
        (snapshot / name).symlink_to(target)
        with pytest.raises(InputError, match="is a link"):
            read_stored(snapshot / name)
    (tmp_path / "config.json").symlink_to(blobs / "1234")
    with pytest.raises(InputError, match="is a link"):
        read_stored(tmp_path / "config.json")
    assert (blobs / "1234").read_bytes() == b"{}"
    assert (tmp_path / "outside").read_text() == "outside"


def test_a_file_or_folder_is_locked_until_the_block_ends(tmp_path, monkeypatch):
    (tmp_path / "recipe.yaml").write_text("a: 1")
    for can_open_folders in (True, False):
        if not can_open_folders:
            monkeypatch.delattr(os, "O_DIRECTORY")
        for path in (tmp_path, tmp_path / "recipe.yaml"):
            with locked(path):
                assert (tmp_path / "recipe.yaml").read_text() == "a: 1"
                with (
                    pytest.raises(InputError, match=f"^{tmp_path}: another process is using this folder"),
                    locked(path),
                ):
                    pass
            with locked(path):
                pass


def test_on_a_file_system_without_locks_nothing_is_locked(tmp_path, monkeypatch):
    def refused(descriptor: int, blocking: bool) -> bool:
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr("filelock.lock_descriptor", refused)
    with locked(tmp_path), locked(tmp_path):
        pass


def test_a_file_with_two_hard_links_is_refused_and_unchanged(tmp_path):
    (tmp_path / "outside").write_text("outside")
    os.link(tmp_path / "outside", tmp_path / "metrics.jsonl")
    for use in (lambda path: append_stored(b"more", path), lambda path: truncate_stored(path, 0)):
        with pytest.raises(InputError, match="hard links"):
            use(tmp_path / "metrics.jsonl")
    assert (tmp_path / "outside").read_text() == "outside"


def test_files_are_appended_to_truncated_and_created(tmp_path):
    path = tmp_path / "file"
    append_stored(b"abc", path)
    append_stored(b"def", path)
    truncate_stored(path, 4)
    truncate_stored(path, 10**9)
    assert read_stored(path) == b"abcd"
    (tmp_path / "usual").write_text("")
    assert path.stat().st_mode == (tmp_path / "usual").stat().st_mode


def test_a_file_over_the_size_limit_is_refused_before_it_is_read(tmp_path):
    with open(tmp_path / "vocabulary.json", "wb") as file:
        file.truncate(LARGEST_JSON + 1)  # a hole: it has no blocks
    with pytest.raises(InputError, match=r"vocabulary\.json: found 1,073,741,825 bytes; expected at most"):
        read_stored(tmp_path / "vocabulary.json")
    (tmp_path / "file").write_bytes(b"abc")
    assert read_stored(tmp_path / "file", most=3) == b"abc"
    with pytest.raises(InputError, match="found 3 bytes; expected at most 2"):
        read_stored(tmp_path / "file", most=2)


def test_an_empty_name_is_not_the_current_folder():
    assert named_path("runs") == Path("runs")
    with pytest.raises(InputError, match="found an empty name; expected the name of a file or folder"):
        named_path("")


def test_missing_stored_files_and_read_errors_are_reported_with_the_file_name(tmp_path):
    with pytest.raises(InputError, match="nothing: no such file"):
        read_stored(tmp_path / "nothing")
    (tmp_path / "file").write_text("")

    def failing() -> None:
        with open_stored(tmp_path / "file"):
            raise OSError(5, "Input/output error")

    with pytest.raises(InputError, match="file: cannot be read: Input/output error"):
        failing()


def test_a_byte_order_mark_is_dropped_and_utf_16_is_refused(tmp_path):
    (tmp_path / "config.json").write_bytes(b'\xef\xbb\xbf{"a": 1}')
    assert parse_json(read_stored_text(tmp_path / "config.json"), "config.json") == {"a": 1}
    with pytest.raises(InputError, match="expected UTF-8 text"):
        parse_json('{"a": 1}'.encode("utf-16"), "config.json")


@pytest.mark.parametrize(
    ("content", "place"),
    [(b"\0", "line 1: found a zero byte at offset 0"), (b"a\nb\xff", "line 2: found byte 0xff at offset 3")],
)
def test_bytes_that_are_not_text_are_named_by_line_and_offset(content, place):
    with pytest.raises(InputError, match=f"^file, {place}"):
        decode_text(content, "file")


@pytest.mark.parametrize("text", ["[" * 50_000 + "]" * 50_000, "NaN", "-Infinity", "[1e400]", "{", "9" * 5000])
def test_damaged_too_deep_or_non_finite_json_is_refused_with_the_file_name(text):
    with pytest.raises(InputError, match=r"^file\.json: damaged or cut short"):
        parse_json(text, "file.json")


def test_written_json_has_only_valid_json_numbers():
    value = {"a": [1.5, math.nan, (math.inf, "é")], "b": {"c": -math.inf, "d": None, "e": True}}
    expected = {"a": [1.5, None, [None, "é"]], "b": {"c": None, "d": None, "e": True}}
    for indent in (None, 2):
        text = to_json(value, indent)
        assert parse_json(text, "text") == expected
        assert "é" in text
    assert to_json([1, 2.5, "x"]) == json.dumps([1, 2.5, "x"])


@pytest.mark.parametrize(
    ("code", "advice"),
    [
        (errno.ENOSPC, "Free some space, or write to another disk."),
        (errno.EDQUOT, "Free some space, or write to another disk."),
        (errno.EACCES, "Check its permissions and those of the folders above it."),
        (errno.EROFS, "The file system is read-only; choose another folder."),
    ],
)
def test_errors_of_the_operating_system_are_reported_with_advice(code, advice, tmp_path, monkeypatch):
    def refused(*arguments):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "replace", refused)
    path = tmp_path / "out.txt"
    with pytest.raises(InputError) as caught:
        write_text("text", path)
    assert str(caught.value) == f"{path}: cannot be written: {os.strerror(code)}. {advice}"


def test_a_missing_folder_of_an_output_is_named(tmp_path):
    with pytest.raises(InputError, match=r"cannot be written: the folder .*none does not exist\. Create it first"):
        write_text("text", tmp_path / "none" / "out.txt")


NOT_UTF8 = "l\udcfc"  # how Python reads the name of a file with the byte 0xfc


def test_names_that_are_not_utf8_are_escapes_in_files_from_which_json_restores_them(tmp_path):
    path = tmp_path / NOT_UTF8
    write_text(to_json({"file": NOT_UTF8}), path)
    assert path.read_bytes() == b'{"file": "l\\udcfc"}'
    assert parse_json(path.read_bytes(), "file") == {"file": NOT_UTF8}
    with text_output(path) as file:
        file.write(f"{NOT_UTF8}\n")
    assert path.read_bytes() == b"l\\udcfc\n"


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("exists", [False, True])
def test_files_that_are_written_together_appear_when_all_are_complete(tmp_path, exists):
    folder = tmp_path / "above" / "new"
    if exists:
        folder.mkdir(parents=True)
        (folder / "b").write_text("earlier")
    with written_together(folder) as temporary:
        for name in ("b", "a"):
            write_text(name, temporary / name)
        assert (folder / "b").read_text() == "earlier" if exists else not folder.exists()
    assert {name: (folder / name).read_text() for name in names(folder)} == {"a": "a", "b": "b"}
    assert names(tmp_path / "above") == ["new"]


@pytest.mark.parametrize("exists", [False, True])
@pytest.mark.parametrize("error", [InputError, KeyboardInterrupt, OSError])
def test_files_that_are_not_all_written_leave_nothing(tmp_path, exists, error):
    folder = tmp_path / "above" / "new"
    if exists:
        folder.mkdir(parents=True)
    with pytest.raises(KeyboardInterrupt if error is KeyboardInterrupt else InputError) as raised:  # noqa: PT012, SIM117
        with written_together(folder) as temporary:
            write_text("a", temporary / "a")
            raise error(f"{temporary / 'b'}: no space")
    assert names(tmp_path) == (["above"] if exists else [])
    assert not exists or names(folder) == []
    assert error is KeyboardInterrupt or f"{UNFINISHED}" not in str(raised.value).partition(": ")[0]


@posix
def test_files_that_are_written_together_replace_targets_of_links_but_not_in_a_model_folder(tmp_path):
    folder = tmp_path / "one"
    folder.mkdir()
    link(folder / "a")
    with pytest.raises(InputError, match="is a link"), written_together(folder, stored=True) as temporary:
        write_text("new", temporary / "a")
    assert ((folder / "outside").read_text(), names(folder)) == ("outside", ["a", "outside"])
    with written_together(folder) as temporary:
        write_text("new", temporary / "a")
    assert (folder / "a").is_symlink()
    assert (folder / "outside").read_text() == "new"


def test_half_written_files_and_folders_are_removed(tmp_path):
    (tmp_path / f".a{UNFINISHED}").write_text("half")
    (tmp_path / f".b{UNFINISHED}").mkdir()
    (tmp_path / f".b{UNFINISHED}" / "c").write_text("half")
    (tmp_path / "kept").write_text("kept")
    remove_unfinished(tmp_path)
    assert names(tmp_path) == ["kept"]
