"""Imports of the command line before it computes anything."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = {
    "jinja2", "lightning", "nltk", "numpy", "pandas", "polars", "pyarrow", "pydantic", "rich", "safetensors", "torch",
    "yaml",
}  # fmt: skip


@pytest.mark.parametrize(
    "arguments", [["--help"], ["--version"], ["train", "--help"], ["draw", "--help"], ["completion", "bash"]]
)
def test_help_and_completion_load_no_heavy_library(arguments):
    program = (
        "import sys\n"
        "from syntaxlm.cli import main\n"
        "try:\n"
        f"    main({arguments!r})\n"
        "finally:\n"
        "    print(*sys.modules, file=sys.stderr)\n"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "syntaxlm" in result.stdout
    assert HEAVY & set(result.stderr.split()) == set()
