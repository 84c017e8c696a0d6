"""Imports of the drawing package, and display of results in notebooks."""

from __future__ import annotations

import pkgutil
import subprocess
import sys

from syntaxlm import drawing


def loaded_by(program: str) -> set[str]:
    """The modules loaded by a program in a separate process."""
    command = [sys.executable, "-c", f"{program}\nimport sys\nprint(*sys.modules)"]
    return set(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())


def test_drawing_loads_no_model_no_corpus_and_no_torch():
    modules = {f"syntaxlm.drawing.{module.name}" for module in pkgutil.iter_modules(drawing.__path__)}
    loaded = loaded_by(f"import {', '.join(modules)}")
    assert modules <= loaded
    own = {name.split(".")[1] for name in loaded if name.startswith("syntaxlm.")}
    assert own == {"drawing", "reports", "core"}
    assert "torch" not in loaded


def test_drawing_code_is_not_loaded_until_a_tree_is_displayed():
    program = """import sys, syntaxlm
from syntaxlm.trees.tree import DependencyTree, parse_brackets
assert not [name for name in sys.modules if name.startswith("syntaxlm.drawing")]
assert parse_brackets("(S (A a) (B b))")[0]._repr_svg_().startswith("<svg")
assert "syntaxlm.drawing.dependencies" not in sys.modules
assert DependencyTree(("a",), ("",), (0,), ("",))._repr_svg_().startswith("<svg")"""
    loaded = loaded_by(program)
    assert {"syntaxlm.drawing.tree", "syntaxlm.drawing.dependencies"} <= loaded
    assert "torch" not in loaded
