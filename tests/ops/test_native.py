"""Compilation of kernels on the user's machine, and operation without them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
import torch

from syntaxlm.ops import native


@pytest.fixture
def source(tmp_path, monkeypatch) -> Path:
    """A C file, and an empty cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    path = tmp_path / "answer.c"
    path.write_text("int answer(void) { return 42; }\n")
    return path


def compiler_or_skip():
    try:
        subprocess.run(["cc", "--version"], capture_output=True, check=True)
    except OSError:
        pytest.skip("no C compiler")


def test_a_library_is_compiled_once_and_again_when_its_source_changes(source, tmp_path):
    compiler_or_skip()
    assert native.library(source).answer() == 42
    made = list((tmp_path / "cache" / "syntaxlm").iterdir())
    assert len(made) == 1, "and nothing unfinished is left"
    native.library.cache_clear()
    before = made[0].stat().st_mtime_ns
    assert native.library(source).answer() == 42
    assert made[0].stat().st_mtime_ns == before
    source.write_text("int answer(void) { return 43; }\n")
    native.library.cache_clear()
    assert native.library(source).answer() == 43


def test_a_failed_compilation_is_reported_once_and_no_library_is_used(source):
    compiler_or_skip()
    source.write_text("int answer(void) { return; }; nonsense\n")
    with pytest.warns(
        UserWarning, match=r"(?s)answer.c could not be compiled; training is slower without it: .*nonsense"
    ):
        assert native.library(source) is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert native.library(source) is None


@pytest.mark.parametrize("how", ["switch", "no compiler"])
def test_without_a_compiler_or_switched_off_there_is_no_library(source, monkeypatch, how):
    if how == "switch":
        monkeypatch.setenv(native.SWITCH, "0")
    else:
        monkeypatch.setenv("PATH", str(source.parent))
        monkeypatch.delenv("CC", raising=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert native.library(source) is None


def test_an_unwritable_cache_is_replaced_by_a_temporary_folder(source, tmp_path, monkeypatch):
    compiler_or_skip()
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert native.library(source).answer() == 42


def test_compiled_code_is_used_only_for_float32_on_the_cpu(source):
    compiler_or_skip()
    assert native.usable(source, torch.float32, torch.zeros(1), None) is not None
    assert native.usable(source, torch.float32, torch.zeros(1), torch.zeros(1, dtype=torch.float64)) is None
    assert native.usable(source, torch.float32, torch.zeros(1, device="meta")) is None
    assert native.usable(source, torch.float16, torch.zeros(1)) is None


@pytest.mark.long
def test_training_without_compiled_code_works(toy, tmp_path):
    """In a separate process, where nothing is loaded yet."""
    program = (
        "import sys; from syntaxlm.training.recipe import recipe_from; from syntaxlm.training.run import train;"
        "import json; print(train(recipe_from(json.loads(sys.argv[1]), 'r'), sys.argv[2]).valid.perplexity)"
    )
    data = json.dumps(toy.recipe_data("prpn", schedule={"epochs": 1}))
    found = []
    for switch in ("0", "1"):
        arguments = [sys.executable, "-c", program, data, str(tmp_path / switch)]
        done = subprocess.run(
            arguments, capture_output=True, text=True, check=True, env=os.environ | {native.SWITCH: switch}
        )
        found.append(float(done.stdout))
    assert found[0] == pytest.approx(found[1], rel=0.02)
