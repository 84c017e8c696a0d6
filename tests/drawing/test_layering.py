"""Imports of the drawing package, and display of results in notebooks."""

from __future__ import annotations

import pkgutil
import subprocess
import sys

import pytest

from syntaxlm import drawing


def loaded_by(program: str) -> set[str]:
    """The modules loaded by a program in a separate process."""
    command = [sys.executable, "-c", f"{program}\nimport sys\nprint(*sys.modules)"]
    return set(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())


def test_drawing_loads_no_model_no_corpus_and_no_torch():
    modules = [f"syntaxlm.drawing.{module.name}" for module in pkgutil.iter_modules(drawing.__path__)]
    loaded = loaded_by(f"import {', '.join(modules)}")
    assert set(modules) <= loaded
    own = {name for name in loaded if name.startswith("syntaxlm.")}
    below = ("drawing", "core")
    assert {name for name in own if name.split(".")[1] not in below} == set()
    assert "torch" not in loaded


@pytest.mark.parametrize("package", ["syntaxlm", "syntaxlm.trees"])
def test_drawing_code_is_not_loaded_until_it_is_needed(package):
    loaded = loaded_by(f"import {package}")
    assert not {name for name in loaded if name.startswith("syntaxlm.drawing")}


@pytest.mark.parametrize(
    ("tree", "module"),
    [
        ("parse_brackets('(S (A a) (B b))')[0]", "tree"),
        ("DependencyTree(('a',), ('',), (0,), ('',))", "dependencies"),
    ],
)
def test_a_tree_is_displayed_if_only_trees_were_imported(tree, module):
    program = "from syntaxlm.trees.tree import DependencyTree, parse_brackets\n"
    loaded = loaded_by(f"{program}assert {tree}._repr_svg_().startswith('<svg')")
    assert f"syntaxlm.drawing.{module}" in loaded
    assert "torch" not in loaded
