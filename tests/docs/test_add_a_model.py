"""The page that adds models in one file each does so, in a copy of the package."""

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

PAGE = (ROOT / "docs" / "guides" / "add-a-model.md").read_text(encoding="utf-8")
EXAMPLES = ROOT / "docs" / "examples"
# Where the page says that something is added to the registry, and what stands there before it.
PLACES = ("from syntaxlm.models import ", "ModelConfig = Annotated[", "MODELS: dict[str, ModelType] = {\n    ")
MODELS = {"gru": "gru.py", "mutual-information": "mutual_information.py"}

USE = """
import sys
from pathlib import Path
import syntaxlm
from syntaxlm.core.errors import InputError
from syntaxlm.models.registry import MODELS

folder = Path(sys.argv[1])
syntaxlm.write_corpus(folder / "toy", 200, seed=0)
texts = {part: str(folder / "toy" / f"{part}.txt") for part in ("train", "valid", "test")}
trained = {}
for name, settings in {"gru": {"model.embedding_size": 12, "schedule.epochs": 2}, "mutual-information": {}}.items():
    assert name in MODELS
    overrides = {"text": texts, "run.accelerator": "cpu", **settings}
    trained[name] = syntaxlm.train(f"{sys.argv[2]}/{name}-toy.yaml", folder / name, overrides)
    model = syntaxlm.load(folder / name)
    report = model.evaluate_parsing(folder / "toy" / "test.mrg")
    assert 0 < report.scores["unbiased"].f1 < 1
assert trained["gru"].test.perplexity < len(model.vocabulary)
assert trained["mutual-information"].test is None
text = folder / "toy" / "test.txt"
for use in (lambda: model.surprisal("a cat"), lambda: model.perplexity(text)):
    try:
        use()
        raise SystemExit("not refused")
    except InputError as error:
        assert "this mutual-information model gives no" in str(error), error
        assert "Model types that can: gru, prpn, " in str(error), error
"""


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a copy of the package, changed as the page says."""
    folder = tmp_path_factory.mktemp("added")
    shutil.copytree(
        Path(syntaxlm.__file__).parent, folder / "syntaxlm", ignore=shutil.ignore_patterns("__pycache__", "recipes")
    )
    for name in MODELS.values():
        shutil.copy(EXAMPLES / name, folder / "syntaxlm" / "models")
    registry = folder / "syntaxlm" / "models" / "registry.py"
    text = registry.read_text(encoding="utf-8")
    additions = re.findall(r"^- to .*: `([^`]+)`$", PAGE, re.MULTILINE)
    assert len(additions) == len(PLACES) * len(MODELS)
    for place, addition in zip(PLACES * len(MODELS), additions, strict=True):
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
    for name in [*MODELS.values(), *(f"{model}-toy.yaml" for model in MODELS)]:
        assert f"<!-- generated: file examples/{name} -->" in PAGE


@pytest.mark.long
def test_the_added_models_train_and_parse_and_are_refused_where_they_lack_an_ability(package, tmp_path):
    result = run(package, "-c", USE, str(tmp_path), str(EXAMPLES))
    assert result.returncode == 0, result.stderr


@pytest.mark.long
def test_the_added_models_keep_the_contract(package):
    chosen = "tests/models/abilities", "-k", "gru or mutual"
    result = run(package, "-m", "pytest", "-q", "-p", "no:cacheprovider", *chosen)
    assert result.returncode == 0, result.stdout
    assert re.search(r"[1-9]\d* passed", result.stdout)
