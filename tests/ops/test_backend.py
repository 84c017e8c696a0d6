"""Backends: compilation of kernels on the user's machine, by C or by torch, and operation without them."""

from __future__ import annotations

import importlib
import json
import multiprocessing
import os
import pkgutil
import shutil
import subprocess
import sys
import warnings
from functools import partial
from pathlib import Path

import pytest
import torch
from torch.autograd.function import once_differentiable

import syntaxlm.ops
from syntaxlm.ops import backend
from syntaxlm.ops.backend import fused, using, with_reference
from syntaxlm.ops.dropout import drop, dropout_mask
from syntaxlm.ops.products import affine
from syntaxlm.ops.softmax import emission_log_probs
from syntaxlm.ops.unit_rows import unit_rows
from tests.ops.harness import FORMS, random


def emissions(hidden, words):
    return emission_log_probs(hidden, words, None, torch.tensor([1, 2]))


@pytest.fixture
def source(tmp_path, monkeypatch) -> Path:
    """A C file, and an empty cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    path = tmp_path / "answer.c"
    path.write_text("int answer(void) { return 42; }\n")
    return path


def compiler_or_skip():
    if os.environ.get(backend.SWITCH) == "0":
        pytest.skip("kernels are switched off")
    try:
        subprocess.run(["cc", "--version"], capture_output=True, check=True)
    except OSError:
        pytest.skip("no C compiler")


def test_a_library_is_compiled_once_and_again_when_its_source_changes(source, tmp_path):
    compiler_or_skip()
    assert backend.library(source).answer() == 42
    made = list((tmp_path / "cache" / "syntaxlm").iterdir())
    assert len(made) == 1, "and nothing unfinished is left"
    backend.library.cache_clear()
    before = made[0].stat().st_mtime_ns
    assert backend.library(source).answer() == 42
    assert made[0].stat().st_mtime_ns == before
    source.write_text("int answer(void) { return 43; }\n")
    backend.library.cache_clear()
    assert backend.library(source).answer() == 43


def test_a_failed_compilation_is_reported_once_and_no_library_is_used(source):
    compiler_or_skip()
    source.write_text("int answer(void) { return; }; nonsense\n")
    with pytest.warns(
        UserWarning, match=r"(?s)answer.c could not be compiled; training is slower without it: .*nonsense"
    ):
        assert backend.library(source) is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert backend.library(source) is None


def test_a_compiler_with_an_open_quotation_mark_is_reported(source, monkeypatch):
    monkeypatch.delenv(backend.SWITCH, raising=False)
    monkeypatch.setenv("CC", '"gcc')
    with pytest.warns(
        UserWarning, match='training is slower without it: the variable CC is "gcc: No closing quotation'
    ):
        assert backend.library(source) is None


def test_switched_off_there_is_no_library(source, monkeypatch):
    monkeypatch.setenv(backend.SWITCH, "0")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert backend.library(source) is None


@pytest.mark.parametrize("is_worker", [False, True])
def test_a_missing_compiler_is_reported_once_and_not_by_workers(source, monkeypatch, is_worker):
    monkeypatch.delenv(backend.SWITCH, raising=False)
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("PATH", str(source.parent))
    monkeypatch.setattr(multiprocessing, "parent_process", lambda: "the parent" if is_worker else None)
    backend._report_no_compiler.cache_clear()
    other = source.with_name("other.c")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert backend.library(source) is backend.library(other) is None
    messages = [str(one.message) for one in caught]
    assert len(messages) == (0 if is_worker else 1)
    assert all(one.startswith("no C compiler was found, so training and parsing use PyTorch") for one in messages)


def wrapper(path: Path, comment: str) -> Path:
    path.write_text(f'#!/bin/sh\n# {comment}\nexec cc "$@"\n')
    path.chmod(0o755)
    return path


def test_each_compiler_has_its_own_library_and_may_have_arguments(source, tmp_path, monkeypatch):
    compiler_or_skip()
    source.write_text("int answer(void) { return ANSWER; }\n")
    for command, expected in ((f"{wrapper(tmp_path / 'c1', 'one')} -DANSWER=42", 42), ("cc -DANSWER=43", 43)):
        monkeypatch.setenv("CC", command)
        backend.library.cache_clear()
        assert backend.library(source).answer() == expected
    before = backend._key(source, [str(tmp_path / "c1")])
    wrapper(tmp_path / "c1", "a newer version of the compiler")
    assert backend._key(source, [str(tmp_path / "c1")]) != before


def test_a_library_that_cannot_be_loaded_is_compiled_again(source, tmp_path):
    compiler_or_skip()
    path = backend._folder() / f"answer-{backend._key(source, backend._compiler())}.so"
    path.write_bytes(b"of another machine")
    assert backend.library(source).answer() == 42


def test_an_unwritable_cache_is_replaced_by_a_temporary_folder(source, tmp_path, monkeypatch):
    compiler_or_skip()
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert backend.library(source).answer() == 42


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="Windows compiles nothing")
def test_a_cache_where_others_may_write_is_replaced_by_a_temporary_folder(source, tmp_path, monkeypatch):
    compiler_or_skip()
    folder = tmp_path / "cache" / "syntaxlm"
    folder.mkdir(parents=True)
    assert backend._folder() == folder
    folder.chmod(0o777)
    assert backend._folder() != folder
    folder.chmod(0o755)
    if os.getuid() == 0:
        os.chown(folder, 1000, -1)
    owner = folder.stat().st_uid
    monkeypatch.setattr(os, "getuid", lambda: owner)
    assert backend._folder() == folder
    monkeypatch.setattr(os, "getuid", lambda: owner + 1)
    assert backend._folder() != folder, "of another user"
    monkeypatch.setattr(os, "getuid", lambda: 0)
    assert backend._folder() == folder
    assert backend.library(source).answer() == 42


def test_compiled_code_is_used_only_for_float32_on_the_cpu():
    compiler_or_skip()
    some = torch.zeros(1)
    assert backend.kernels("on_lstm", torch.float32, some, None) is not None
    assert backend.kernels("on_lstm", torch.bfloat16, some) is not None
    assert backend.kernels("on_lstm", torch.float32, some, some.double()) is None
    assert backend.kernels("on_lstm", torch.float32, torch.zeros(1, device="meta")) is None
    assert backend.kernels("on_lstm", torch.float16, some) is None


def test_a_backend_is_used_within_its_block_only():
    compiler_or_skip()
    double = with_reference(lambda value: ("reference", value))(lambda value: ("fast", value))
    with using("reference"):
        assert double(3) == ("reference", 3)
        with using("torch"):
            assert double(3) == ("fast", 3)
            assert backend.kernels("on_lstm", torch.float32) is None
    assert double(3) == ("fast", 3)
    assert backend.kernels("on_lstm", torch.float32) is not None


@pytest.mark.parametrize("system", ["win32", "darwin"])
def test_on_other_systems_ops_run_with_the_same_results(monkeypatch, tmp_path, system):
    """On Windows nothing is compiled; on macOS the processor is not described in /proc."""
    torch.manual_seed(0)
    expected = dropout_mask((4, 7), 0.5, torch.zeros(()))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(sys, "platform", system)
    monkeypatch.setattr(Path, "read_text", lambda path, **_: (_ for _ in ()).throw(FileNotFoundError(path)))
    backend.library.cache_clear()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        torch.manual_seed(0)
        found = dropout_mask((4, 7), 0.5, torch.zeros(()))
        assert (backend.kernels("dropout", torch.float32) is None) >= (system == "win32")
    backend.library.cache_clear()
    torch.testing.assert_close(found, expected)


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
            arguments, capture_output=True, text=True, check=True, env=os.environ | {backend.SWITCH: switch}
        )
        found.append(float(done.stdout))
    assert found[0] == pytest.approx(found[1], rel=0.02)


def doubled(rows: torch.Tensor) -> torch.Tensor:
    return rows * 2


@pytest.fixture
def everywhere(monkeypatch):
    """Treats the CPU like a GPU."""
    monkeypatch.setattr(backend, "worthwhile", lambda tensor: True)


def failing(error: Exception):
    def compile(function, **settings):
        def call(*arguments):
            raise error

        return call

    return compile


def test_nothing_is_compiled_on_the_cpu(monkeypatch):
    monkeypatch.setattr(torch, "compile", failing(RuntimeError("compiled")))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert fused(doubled)(torch.ones(2)).tolist() == [2, 2]


def test_a_failed_compilation_is_reported_once_and_the_function_runs_uncompiled(monkeypatch, everywhere):
    monkeypatch.setattr(torch, "compile", failing(RuntimeError("no compiler found\nand much more")))
    function = fused(doubled)
    with pytest.warns(UserWarning, match=r"^doubled could not be compiled and runs more slowly: no compiler found$"):
        assert function(torch.ones(2)).tolist() == [2, 2]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert function(torch.ones(3)).tolist() == [2, 2, 2]


def test_out_of_memory_is_not_treated_as_a_failed_compilation(monkeypatch, everywhere):
    monkeypatch.setattr(torch, "compile", failing(torch.OutOfMemoryError("full")))
    with pytest.raises(torch.OutOfMemoryError, match="full"):
        fused(doubled)(torch.ones(2))


@pytest.mark.long
@pytest.mark.skipif(shutil.which("g++") is None, reason="no C++ compiler")
def test_one_compiled_version_works_for_any_number_of_rows(everywhere):
    torch._dynamo.reset()
    graphs = torch._dynamo.utils.counters["stats"]
    before = graphs["unique_graphs"]
    function = fused(doubled)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        for rows in (5, 3, 8, 2, 7):
            values = torch.randn(rows, 4)
            torch.testing.assert_close(function(values), values * 2)
        assert graphs["unique_graphs"] - before == 1
        for size in range(5, 15):  # more sizes than torch compiles for by default
            values = torch.randn(3, size)
            torch.testing.assert_close(function(values), values * 2)
    assert graphs["unique_graphs"] - before == 11


@pytest.mark.parametrize("form", FORMS[1:3], ids=str)
@pytest.mark.parametrize("op", [affine, emissions, partial(drop, rate=0.5), unit_rows])
def test_second_derivatives_raise_an_error_instead_of_being_wrong(op, form):
    values = random(3, 5, dtype=torch.float32).requires_grad_()
    weight = random(4, 5, seed=1, dtype=torch.float32).requires_grad_()
    with form.running():
        outputs = op(values, weight) if op in (affine, emissions) else op(values)
        (grad,) = torch.autograd.grad(outputs.square().sum(), values, create_graph=True)
        with pytest.raises(RuntimeError, match="twice"):
            grad.square().sum().backward()


def test_no_op_with_its_own_backward_may_be_differentiated_twice():
    for module in pkgutil.walk_packages(syntaxlm.ops.__path__, "syntaxlm.ops."):
        importlib.import_module(module.name)
    ops = [op for op in torch.autograd.Function.__subclasses__() if op.__module__.startswith("syntaxlm.ops.")]
    assert len(ops) > 10
    assert all(op.backward.__code__ is once_differentiable(print).__code__ for op in ops)
