"""The names of the package: imported lazily, typed, and deprecated names with a warning."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import pytest

import syntaxlm
from syntaxlm.storage.folder import read_model

HEAVY = ("nltk", "numpy", "pandas", "polars", "pydantic", "torch")
OLD = syntaxlm._OLD_NAMES


def test_every_public_name_is_that_of_its_module():
    assert sorted(syntaxlm.__all__) == sorted(syntaxlm._MODULES)
    for name, module in syntaxlm._MODULES.items():
        assert getattr(syntaxlm, name) is getattr(importlib.import_module(f"syntaxlm.{module}"), name)
    with pytest.raises(AttributeError, match="no attribute 'lode'"):
        syntaxlm.lode  # noqa: B018


def test_the_package_loads_no_heavy_library():
    program = f"import sys, syntaxlm; dir(syntaxlm); print([name for name in {HEAVY} if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout == "[]\n"


@pytest.mark.parametrize("name", OLD)
def test_old_names_work_with_a_warning_that_gives_the_new_ones(name):
    module, instead = OLD[name]
    with pytest.warns(FutureWarning, match=f"syntaxlm.{name} is deprecated .* write syntaxlm.load") as warned:
        found = getattr(syntaxlm, name)
    assert found is getattr(importlib.import_module(f"syntaxlm.{module}"), name)
    assert warned[0].filename == __file__
    method = re.search(r"\.(\w+)\(", instead)
    assert hasattr(syntaxlm.LanguageModel, method[1]) if method else instead == "load(folder)"
    assert name not in dir(syntaxlm)


def test_the_package_itself_uses_no_old_name():
    old = re.compile(rf"syntaxlm\.({'|'.join(OLD)})\(|from syntaxlm import .*\b({'|'.join(OLD)})\b")
    root = Path(syntaxlm.__file__).parent
    assert [str(path) for path in root.rglob("*.py") if old.search(path.read_text(encoding="utf-8"))] == []


def test_functions_accept_the_result_of_load(trained):
    lines = ["the cat sees"]
    nlp, stored = syntaxlm.load(trained.prpn), read_model(trained.prpn)
    with pytest.warns(FutureWarning):
        assert list(syntaxlm.parse_lines(nlp, lines)) == list(syntaxlm.parse_lines(stored, lines))


def test_type_checkers_see_the_package_as_typed():
    assert files("syntaxlm").joinpath("py.typed").is_file()
