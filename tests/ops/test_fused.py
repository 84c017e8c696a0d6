"""Compiled pointwise operations: conditions of compilation, and failures."""

from __future__ import annotations

import shutil
import warnings

import pytest
import torch

from syntaxlm.ops import fused as fused_module
from syntaxlm.ops.fused import fused


def doubled(rows: torch.Tensor) -> torch.Tensor:
    return rows * 2


@pytest.fixture
def everywhere(monkeypatch):
    """Treats the CPU like a GPU."""
    monkeypatch.setattr(fused_module, "worthwhile", lambda tensor: True)


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
