"""Interrupted commands leave no partial files. Errors of the operating system name the file."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from syntaxlm.cli import main


@pytest.mark.long
@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_an_interrupted_parse_leaves_no_temporary_file(trained, tmp_path, number):
    (tmp_path / "text.txt").write_text("the cat sees the dog\n" * 500_000)
    (tmp_path / "trees").mkdir()
    process = subprocess.Popen(
        [sys.executable, "-m", "syntaxlm", "parse", str(trained.prpn), "text.txt", "-o", "trees/trees.txt"],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    deadline = time.monotonic() + 120
    while not list((tmp_path / "trees").iterdir()) and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
    assert list((tmp_path / "trees").iterdir()), "nothing was begun"
    process.send_signal(number)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 128 + number
    assert "Traceback" not in errors
    assert not list((tmp_path / "trees").iterdir())


def test_a_folder_that_may_not_be_entered_is_reported_by_name(monkeypatch, capsys):
    exists = Path.exists

    def refusing(path: Path) -> bool:
        if path.parent.name == "closed":
            raise PermissionError(13, "Permission denied", str(path))
        return exists(path)

    monkeypatch.setattr(Path, "exists", refusing)
    assert main(["parse", "closed", "a cat"]) == 2
    expected = "syntaxlm: error: closed/config.json: cannot be opened: Permission denied. Check its permissions"
    assert capsys.readouterr().err.startswith(expected)
