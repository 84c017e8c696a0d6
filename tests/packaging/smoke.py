"""Tries an installed package: python smoke.py, in the environment that it is installed in.

The commands parse, score, train, resume and serve, in an empty folder and with the encodings of the system. It needs
nothing of the repository, and the extra `serve` only for the server.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

SENTENCES = "the old cat sleeps\nthe café sleeps\nvery old cats sleep\n"
TREE = "(X (X the (X old cat)) sleeps)"
SECONDS = 300  # for each command


def run(folder: Path, *words: str) -> str:
    """Run a command in a folder, and return what it prints."""
    command = [sys.executable, "-m", "syntaxlm", *words]
    done = subprocess.run(command, cwd=folder, capture_output=True, timeout=SECONDS)
    if done.returncode:
        raise SystemExit(f"{' '.join(words)}: exit code {done.returncode}\n{done.stderr.decode('utf-8', 'replace')}")
    print(f"works: {' '.join(words)}")
    return done.stdout.decode("utf-8")


def serve(folder: Path) -> None:
    """Start the web app, ask it for a tree, and stop it."""
    command = [sys.executable, "-m", "syntaxlm", "serve", "en-fast", "--port", "0"]
    server = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE)
    try:
        assert server.stdout is not None
        address = server.stdout.readline().decode().split()[1]
        assert server.stdout.readline().startswith(b"The models are ready.")
        body = json.dumps({"sentences": ["the old cat sleeps"]}).encode()
        request = urllib.request.Request(f"{address}/api/parse", body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=SECONDS) as answer:
            assert TREE in answer.read().decode("utf-8")
    finally:
        server.terminate()
        server.wait(SECONDS)
    print("works: serve")


def main() -> None:
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "café.txt").write_text(SENTENCES, encoding="utf-8")
        text = ["--text.train", "café.txt", "--text.valid", "café.txt", "--text.test", "café.txt"]

        assert run(folder, "--version").startswith("syntaxlm ")
        assert run(folder, "parse", "en-fast", "the old cat sleeps", "--format", "brackets") == f"{TREE}\n"
        run(folder, "parse", "en-fast", "café.txt", "--format", "brackets", "-o", "trees ä.mrg")
        trees = (folder / "trees ä.mrg").read_text(encoding="utf-8").splitlines()
        assert trees[0] == TREE
        assert "café" in trees[1]
        assert "café" in run(folder, "score", "en-fast", "café.txt")
        run(folder, "train", "kn5-toy", "-o", "run", *text)
        run(folder, "score", "run", "café.txt", "-o", "scores.tsv")
        assert b"\r" not in (folder / "scores.tsv").read_bytes()
        run(folder, "parse", "en-fast", "café.txt", "--workers", "2", "-o", "job")  # processes are started anew
        if importlib.util.find_spec("uvicorn"):
            serve(folder)
    print(f"everything works, in {time.monotonic() - start:.0f} seconds")


if __name__ == "__main__":
    main()
