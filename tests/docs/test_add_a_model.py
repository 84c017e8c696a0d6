"""The page that adds models in one file each does so: in a folder of its own, registered by import or entry points."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.examples import ROOT

PAGE = (ROOT / "docs" / "guides" / "add-a-model.md").read_text(encoding="utf-8")
EXAMPLES = ROOT / "docs" / "examples"
MODELS = {"gru": "gru", "table-pcfg": "table_pcfg", "mutual-information": "mutual_information"}

USE = """
import sys
from pathlib import Path
import gru, mutual_information, table_pcfg
import syntaxlm
from syntaxlm.core.errors import InputError

toy, folder = map(Path, sys.argv[1:])
texts = {part: str(toy / f"{part}.txt") for part in ("train", "valid", "test")}
short = {"schedule.epochs": 1}
settings = {"gru": short | {"model.embedding_size": 12}, "table-pcfg": short, "mutual-information": {}}
models, results = {}, {}
for name, overrides in settings.items():
    overrides = {"text": texts, "run.accelerator": "cpu", **overrides}
    results[name] = syntaxlm.train(f"{name}-toy.yaml", folder / name, overrides)
    models[name] = syntaxlm.load(folder / name)
    report = models[name].evaluate_parsing(toy / "test.mrg")
    assert all(0 < score.f1 < 1 for score in report.scores.values())
for name in ("gru", "table-pcfg"):
    assert results[name].test.perplexity < len(models[name].vocabulary)
    surprisals = models[name].surprisal("a cat sleeps")
    assert len(surprisals) >= 3 and all(row.surprisal > 0 for row in surprisals)
assert "NT-" in str(models["table-pcfg"].parse("a cat sleeps", labels=True).tree)
assert results["mutual-information"].test is None
counting = models["mutual-information"]
for use in (lambda: counting.surprisal("a cat"), lambda: counting.perplexity(toy / "test.txt")):
    try:
        use()
        raise SystemExit("not refused")
    except InputError as error:
        assert "this mutual-information model gives no" in str(error), error
        assert "Model types that can: prpn, " in str(error) and "gru" in str(error), error
"""
COMMANDS = """
import sys
from syntaxlm.cli import main

toy, recipe, folder = sys.argv[1:]
texts = [word for part in ("train", "valid", "test") for word in (f"--text.{part}", f"{toy}/{part}.txt")]
assert main(["train", recipe, "--output", folder, "--schedule.epochs", "1", *texts]) == 0
assert main(["parse", folder, "the old cat sleeps", "--format", "brackets"]) == 0
"""


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An installed package with the models of the page, as entry points."""
    folder = tmp_path_factory.mktemp("added")
    for name, module in MODELS.items():
        shutil.copy(EXAMPLES / f"{module}.py", folder)
        shutil.copy(EXAMPLES / f"{name}-toy.yaml", folder)
    points = "".join(f"{name} = {module}\n" for name, module in MODELS.items())
    (folder / "added-1.0.dist-info").mkdir()
    (folder / "added-1.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: added\nVersion: 1.0\n")
    (folder / "added-1.0.dist-info" / "entry_points.txt").write_text(f"[syntaxlm.models]\n{points}")
    return folder


def run(package: Path, *arguments: str, place: Path = ROOT) -> str:
    """The output of a command that finds the package."""
    paths = os.pathsep.join([str(package), str(ROOT / "src")])
    environment = os.environ | {"PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, *arguments]
    result = subprocess.run(command, cwd=place, env=environment, capture_output=True, text=True, timeout=1800)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def test_the_page_shows_the_files_that_are_tried_here():
    for name, module in MODELS.items():
        assert f"<!-- generated: file examples/{module}.py -->" in PAGE
        assert f"<!-- generated: file examples/{name}-toy.yaml -->" in PAGE
        assert f"`{module}.py`:" in PAGE


@pytest.mark.long
def test_the_models_train_parse_and_score_and_are_refused_where_they_lack_an_ability(package, toy, tmp_path):
    run(package, "-c", USE, str(toy.folder), str(tmp_path), place=package)


@pytest.mark.long
def test_the_command_line_finds_model_types_of_entry_points(package, few, tmp_path):
    recipe = package / "table-pcfg-toy.yaml"
    output = run(package, "-c", COMMANDS, str(few.folder), str(recipe), str(tmp_path / "run"), place=tmp_path)
    assert "(X the" in output.splitlines()[-1]


@pytest.mark.long
def test_the_added_models_keep_the_contract(package):
    chosen = "tests/models/abilities", "-k", "gru or mutual or table", "-m", "long or not long"
    output = run(package, "-m", "pytest", "-q", "-p", "no:cacheprovider", *chosen)
    assert re.search(r"[1-9]\d* passed", output)
