"""Every notebook runs from its first cell to its last, and what it states about itself holds."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.docs.examples import ROOT

NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))


def printed(cells: list) -> str:
    outputs = [output for cell in cells if cell["cell_type"] == "code" for output in cell["outputs"]]
    return "".join("".join(output.get("text", "")) for output in outputs)


def check_first_look(text: str) -> None:
    """That the model has learned something: its perplexity is between the floor and its vocabulary."""
    found = re.search(r"vocabulary (\d+)   model ([\d.]+)   floor ([\d.]+)", text)
    assert found
    vocabulary, model, floor = map(float, found.groups())
    assert floor < model < vocabulary / 2
    assert "right branching" in text
    assert "chair" in text


def check_stimuli(text: str) -> None:
    """That the interval around the interaction is that of the tutorial, which runs the same model."""
    found = re.search(r"interaction ([\d.-]+) bits, 95% interval ([\d.-]+) to ([\d.-]+)", text)
    assert found
    tutorial = (ROOT / "docs" / "tutorials" / "stimuli.md").read_text(encoding="utf-8")
    shown = re.search(r"^absent:optional +([\d.-]+) .* ([\d.-]+) +([\d.-]+)$", tutorial, re.M)
    assert shown
    assert re.search(r"^main_verb +optional / absent +16 ", text, re.M)  # the printed report has its table
    assert list(map(float, found.groups())) == pytest.approx(list(map(float, shown.groups())), abs=0.02)


CHECKS = {"first_look": check_first_look, "stimuli": check_stimuli}


def test_every_notebook_has_a_check():
    assert {path.stem for path in NOTEBOOKS} == set(CHECKS)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_as_it_stands_has_all_its_outputs(path: Path):
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    assert all(cell["outputs"] for cell in cells if cell["cell_type"] == "code")
    CHECKS[path.stem](printed(cells))


@pytest.mark.parametrize(
    "path",
    [pytest.param(path, marks=[pytest.mark.long] * (path.stem == "first_look")) for path in NOTEBOOKS],
    ids=lambda path: path.stem,
)
def test_a_notebook_runs(path: Path, monkeypatch):
    nbformat = pytest.importorskip("nbformat", reason="needs the extra docs")
    nbclient = pytest.importorskip("nbclient", reason="needs the extra docs")
    pytest.importorskip("statsmodels", reason="needs the extra stats")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    notebook = nbformat.read(path, 4)
    resources = {"metadata": {"path": str(path.parent)}}
    nbclient.NotebookClient(notebook, timeout=600, kernel_name="python3", resources=resources).execute()
    CHECKS[path.stem](printed(notebook.cells))
