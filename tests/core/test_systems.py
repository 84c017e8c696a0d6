"""What differs between systems: cache folders, names and replacement of files, and what other systems lack."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path, PurePosixPath, PureWindowsPath
from types import SimpleNamespace

import pytest

from syntaxlm.core import systems
from syntaxlm.core.errors import InputError
from syntaxlm.core.files import make_folder, write_text


@pytest.mark.parametrize(
    ("system", "variables", "expected"),
    [
        ("linux", {}, "/home/me/.cache/syntaxlm"),
        ("linux", {"XDG_CACHE_HOME": "/scratch"}, "/scratch/syntaxlm"),
        ("darwin", {}, "/home/me/Library/Caches/syntaxlm"),
        ("win32", {"LOCALAPPDATA": "/local"}, "/local/syntaxlm"),
        ("win32", {}, "/home/me/AppData/Local/syntaxlm"),
    ],
)
def test_the_cache_is_in_the_folder_that_the_system_has_for_caches(monkeypatch, system, variables, expected):
    for name in ("XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"HOME": "/home/me", **variables}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "platform", system)
    assert systems.cache_folder() == Path(expected)


def test_files_are_written_where_only_those_open_for_writing_can_be_flushed(tmp_path, monkeypatch):
    """As on Windows."""
    fcntl = pytest.importorskip("fcntl")
    flushed = []

    def flush(descriptor: int) -> None:
        if fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY:
            raise OSError(errno.EBADF, "Bad file descriptor")
        flushed.append(descriptor)

    monkeypatch.setattr(os, "fsync", flush)
    write_text("text", tmp_path / "file")
    assert flushed
    assert (tmp_path / "file").read_text() == "text"


@pytest.mark.parametrize(
    ("system", "times_open", "succeeds"), [("win32", 2, True), ("win32", 99, False), ("linux", 1, False)]
)
def test_a_file_that_a_program_has_open_is_replaced_once_it_is_closed(
    tmp_path, monkeypatch, system, times_open, succeeds
):
    (tmp_path / "file").write_text("before")
    replace, refusals = os.replace, iter(range(times_open))

    def refuse(source: Path, target: Path) -> None:
        if next(refusals, None) is not None:
            raise PermissionError(errno.EACCES, "The process cannot access the file")
        replace(source, target)

    monkeypatch.setattr(os, "replace", refuse)
    monkeypatch.setattr(sys, "platform", system)
    monkeypatch.setattr(systems, "time", SimpleNamespace(sleep=lambda seconds: None))
    if succeeds:
        write_text("after", tmp_path / "file")
    else:
        with pytest.raises(InputError, match="file: cannot be written: The process cannot access the file"):
            write_text("after", tmp_path / "file")
    assert (tmp_path / "file").read_text() == ("after" if succeeds else "before")
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize(
    "name", [r"C:\runs\con", r"C:\runs\Aux.txt", "runs/COM1/model", "net:2", r"C:\a\report.html:x"]
)
def test_names_that_windows_redirects_are_refused_there(tmp_path, monkeypatch, name):
    monkeypatch.setattr(sys, "platform", "win32")
    with pytest.raises(InputError, match="is not the name of a file on Windows"):
        systems.check_system_name(PureWindowsPath(name))
    for use in (make_folder, lambda path: write_text("text", path)):
        with pytest.raises(InputError, match=r"con\.txt is not the name of a file on Windows"):
            use(tmp_path / "con.txt")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", [r"C:\runs\contrast.txt", r"..\runs\.hidden", r"\\server\share\auxiliary", "NUL", "."])
def test_other_names_are_allowed_on_windows_and_all_elsewhere(monkeypatch, name):
    systems.check_system_name(PurePosixPath("runs/con:1/aux"))
    monkeypatch.setattr(sys, "platform", "win32")
    systems.check_system_name(PureWindowsPath(name))


def test_a_name_of_255_bytes_can_be_written(tmp_path):
    write_text("text", tmp_path / ("n" * 255))
    assert [path.read_text() for path in tmp_path.iterdir()] == ["text"]


def test_a_reader_that_closed_the_pipe_is_recognised_on_every_system(monkeypatch):
    invalid = OSError(errno.EINVAL, "Invalid argument")
    assert systems.is_closed_pipe(BrokenPipeError(errno.EPIPE, "Broken pipe"))
    assert not systems.is_closed_pipe(invalid)
    monkeypatch.setattr(sys, "platform", "win32")
    assert systems.is_closed_pipe(invalid)
    assert not systems.is_closed_pipe(OSError(errno.ENOSPC, "No space left on device"))


def test_an_argument_of_utf8_is_read_in_every_locale():
    assert systems.argument_text("très bien") == "très bien"
    assert systems.argument_text("tr\udcc3\udca8s bien") == "très bien", "as Python decodes it in the locale C"
    assert systems.argument_text("tr\udce8s bien") == "tr\udce8s bien", "Latin-1, which is reported as an error"


@pytest.mark.parametrize(("output", "expected"), [(b"Apple M3\n", "Apple M3"), (None, "arm")])
def test_the_processor_of_a_mac_is_named_by_sysctl(monkeypatch, output, expected):
    def run(command: list[str], **options: object) -> SimpleNamespace:
        if output is None:
            raise FileNotFoundError(command[0])
        return SimpleNamespace(stdout=output)

    monkeypatch.setattr(Path, "read_text", lambda path, **_: (_ for _ in ()).throw(FileNotFoundError(path)))
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setattr("platform.processor", lambda: "arm")
    assert systems.processor_lines.__wrapped__() == (f"model name: {expected}",)


@pytest.mark.long
def test_commands_work_without_what_only_posix_systems_have_and_in_other_encodings(tmp_path):
    """No fcntl, forks, signals and limits of POSIX; arguments in the locale C, standard streams in cp1252."""
    (tmp_path / "text.txt").write_text("very old café\nthe cat sleeps\nthe café sleeps\n", encoding="utf-8")
    (tmp_path / "café.txt").write_bytes("the café sleeps\r\n".encode())
    text = "--text.train text.txt --text.valid text.txt --text.test text.txt"
    commands = [
        ["parse", "en-fast", "le café est là", "--format=brackets"],
        ["parse", "en-fast", "café.txt", "--format=brackets", "-o", "ä.mrg"],
        ["score", "en-fast", "text.txt", "-o", "con.tsv"],
        ["train", "kn5-toy", "-o", "run", *text.split()],
        ["score", "run", "café.txt", "-o", "scores.tsv"],
    ]
    settings = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": "cp1252"}
    done = subprocess.run(
        [sys.executable, "-X", "warn_default_encoding", Path(__file__).with_name("without_posix.py")],
        input="\n".join("\t".join(words) for words in commands).encode(),
        capture_output=True,
        cwd=tmp_path,
        env=os.environ | settings,
    )
    errors = [line for line in done.stderr.decode("cp1252").splitlines() if "syntaxlm: error" in line]
    assert len(errors) == 1, done.stderr.decode()
    assert "con.tsv is not the name of a file on Windows" in errors[0]
    assert "(X le (X café (X est là)))\n" in done.stdout.decode("utf-8")
    assert b"\r" not in done.stdout
    assert (tmp_path / "ä.mrg").read_bytes() == "(X (X the café) sleeps)\n".encode()
    assert "café" in (tmp_path / "scores.tsv").read_text(encoding="utf-8")
    assert (tmp_path / "run" / ".lock").exists(), "where folders cannot be opened"
    assert not (tmp_path / "con.tsv").exists()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs glibc and /proc")
def test_freed_memory_between_blocks_in_use_is_kept_until_it_is_released():
    code = """
from pathlib import Path
from syntaxlm.core.systems import keep_freed_memory, release_freed_memory

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

keep_freed_memory()
blocks = [bytes(1 << 20) + b"x" for _ in range(400)]
used = blocks[::2]
full = resident()
del blocks
kept = resident()
release_freed_memory()
print(full - kept, full - resident(), len(used))
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    after_freeing, after_release, _ = map(int, run.stdout.split())
    assert after_freeing < 20 << 20
    assert after_release > 150 << 20


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not count the memory of the parent")
def test_the_largest_memory_of_a_process_is_not_that_of_its_parent():
    in_parent = b"x" * (400 << 20)
    program = "from syntaxlm.core.systems import peak_memory; print(peak_memory())"
    child = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert 0 < int(child.stdout) < len(in_parent) < systems.peak_memory()
