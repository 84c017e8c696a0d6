"""The notebook runs from its first cell to its last, and what it says of itself holds."""

from __future__ import annotations

import json
import re

import pytest

from tests.docs.examples import ROOT

NOTEBOOK = ROOT / "docs" / "notebooks" / "first_look.ipynb"


def printed(cells: list) -> str:
    outputs = [output for cell in cells if cell["cell_type"] == "code" for output in cell["outputs"]]
    return "".join("".join(output.get("text", "")) for output in outputs)


def check(text: str) -> None:
    """That the model has learned something: its perplexity is between the floor and its vocabulary."""
    found = re.search(r"vocabulary (\d+)   model ([\d.]+)   floor ([\d.]+)", text)
    assert found
    vocabulary, model, floor = map(float, found.groups())
    assert floor < model < vocabulary / 2
    assert "right branching" in text
    assert "chair" in text


def test_the_notebook_as_it_stands_has_all_its_outputs():
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    assert all(cell["outputs"] for cell in cells if cell["cell_type"] == "code")
    check(printed(cells))


@pytest.mark.long
def test_the_notebook_runs(monkeypatch):
    nbformat = pytest.importorskip("nbformat", reason="needs the extra docs")
    nbclient = pytest.importorskip("nbclient", reason="needs the extra docs")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    notebook = nbformat.read(NOTEBOOK, 4)
    nbclient.NotebookClient(notebook, timeout=600, kernel_name="python3").execute()
    check(printed(notebook.cells))
