"""The page that adds a model in one file does so, in a copy of the package."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import syntaxlm
from tests.docs.examples import ROOT

PAGE = (ROOT / "docs" / "add-a-model.md").read_text(encoding="utf-8")
EXAMPLES = ROOT / "docs" / "examples"
# Where the page says that something is to be put into the registry, and what stands there before it.
PLACES = ("from syntaxlm.models import ", "ModelConfig = Annotated[", "LanguageModel]]] = {\n    ")

USE = """
import sys
from pathlib import Path
import syntaxlm
from syntaxlm.models.registry import MODELS

folder = Path(sys.argv[1])
assert "gru" in MODELS
syntaxlm.write_corpus(folder / "toy", 200, seed=0)
texts = [(f"text.{part}", str(folder / "toy" / f"{part}.txt")) for part in ("train", "valid", "test")]
small = [("model.embedding_size", "12"), ("schedule.epochs", "2"), ("run.accelerator", "cpu")]
recipe = syntaxlm.read_recipe(sys.argv[2], texts + small)
result = syntaxlm.train(recipe, folder / "model")
model = syntaxlm.read_model(folder / "model")
assert result.test.perplexity < len(model.vocabulary)
report = syntaxlm.evaluate_parsing(model, folder / "toy" / "test.mrg")
assert 0 < report.scores["unbiased"].f1 < 1
"""


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a copy of the package, changed as the page says."""
    folder = tmp_path_factory.mktemp("added")
    shutil.copytree(
        Path(syntaxlm.__file__).parent, folder / "syntaxlm", ignore=shutil.ignore_patterns("__pycache__", "recipes")
    )
    shutil.copy(EXAMPLES / "gru.py", folder / "syntaxlm" / "models")
    registry = folder / "syntaxlm" / "models" / "registry.py"
    text = registry.read_text(encoding="utf-8")
    additions = re.findall(r"^- into .*: `([^`]+)`$", PAGE, re.MULTILINE)
    assert len(additions) == len(PLACES)
    for place, addition in zip(PLACES, additions, strict=True):
        assert text.count(place) == 1
        text = text.replace(place, place + addition + (" " if place.endswith("    ") else ""))
    registry.write_text(text, encoding="utf-8")
    return folder


def run(package: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(package), "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=1800
    )


def test_the_page_shows_the_files_that_are_tried_here():
    for name in ("gru.py", "gru-toy.yaml"):
        assert f"<!-- generated: file examples/{name} -->" in PAGE


@pytest.mark.long
def test_the_added_model_trains_and_parses(package, tmp_path):
    result = run(package, "-c", USE, str(tmp_path), str(EXAMPLES / "gru-toy.yaml"))
    assert result.returncode == 0, result.stderr


@pytest.mark.long
def test_the_added_model_keeps_the_contract(package):
    result = run(package, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/models/test_contract.py", "-k", "gru")
    assert result.returncode == 0, result.stdout
    assert re.search(r"[1-9]\d* passed", result.stdout)
