"""The page on English text: its Python examples run, and its figures are the stored ones."""

from __future__ import annotations

import doctest

import pytest
from laboratory.results.store import stored_runs

from tests.docs.examples import ROOT

PAGE = ROOT / "docs" / "guides" / "english-text.md"
RUNS = stored_runs("sentence-splitting")


def test_its_python_examples_give_what_they_show():
    found = doctest.testfile(str(PAGE), module_relative=False)
    assert found.attempted > 8
    assert found.failed == 0


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.data)
def test_its_figures_are_those_of_the_results(run):
    page = PAGE.read_text(encoding="utf-8")
    for one in run.report["splitters"]:
        precision, recall, f1, after_marks = (
            f"{100 * one[name]:.1f}" for name in ("precision", "recall", "f1", "recall_marked")
        )
        shown = f"**{f1}**" if one["splitter"] == "syntaxlm" else f1
        assert f"| {precision} | {recall} | {shown} | {after_marks} |" in page
