"""A wheel, built from the sdist, works in a fresh environment and an empty folder, with and without a C compiler."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "src" / "syntaxlm"
BUNDLED = SOURCES / "storage" / "bundled" / "en"
LARGEST_SDIST = 30 << 20  # bytes
LARGEST_BUNDLED = 27_000_000  # bytes of the bundled models in the wheel
LARGEST_WHEEL = 30_000_000  # bytes
SENTENCE = "the old cat sleeps on a red chair"
TINY = ["--schedule.epochs", "1", "--model.nonterminals", "6", "--model.preterminals", "10", "--run.accelerator", "cpu"]


@pytest.fixture(scope="session")
def distributions(made_once):
    """A folder with the sdist, and the wheel that is built from the unpacked sdist."""

    def build(folder):
        folder.mkdir()
        _hatchling("sdist", ROOT, folder)
        (sdist,) = folder.glob("*.tar.gz")
        with tarfile.open(sdist) as archive:
            archive.extractall(folder / "unpacked", filter="data")
        (unpacked,) = (folder / "unpacked").iterdir()
        _hatchling("wheel", unpacked, folder)

    return made_once("distributions", build)


def _hatchling(target, project, folder):
    words = [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(folder)]
    subprocess.run(words, cwd=project, check=True, capture_output=True)


@pytest.fixture(scope="session")
def environment(distributions, made_once):
    """A fresh virtual environment with the wheel and what it requires, and nothing else."""

    def install(folder):
        venv.create(folder, with_pip=True)
        (wheel,) = distributions.glob("*.whl")
        install = [folder / "bin" / "python", "-m", "pip", "install", "--quiet", "--no-compile"]
        subprocess.run([*install, "--constraint", ROOT / "constraints.txt", wheel], check=True, cwd=distributions)

    return made_once("environment", install)


@pytest.fixture
def run(environment, tmp_path):
    """Runs a program of the environment in an empty folder; returns its output.

    compiler: whether a C compiler can be found.
    """

    def run(*words, compiler=True, code=0):
        path = [str(environment / "bin"), *(os.environ["PATH"].split(os.pathsep) if compiler else [])]
        settings = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "SYNTAXLM"))}
        settings |= {"HOME": str(tmp_path / "home"), "PATH": os.pathsep.join(path), "OMP_NUM_THREADS": "1"}
        settings["XDG_CACHE_HOME"] = str(tmp_path / ("cache" if compiler else "empty-cache"))
        if not compiler:
            settings.pop("CC", None)
        folder = tmp_path / "folder"
        folder.mkdir(exist_ok=True)
        program, *rest = map(str, words)
        command = [str(environment / "bin" / program), *rest]
        found = subprocess.run(command, cwd=folder, env=settings, capture_output=True, text=True)
        assert found.returncode == code, found.stderr
        return found.stdout if code == 0 else found.stderr

    return run


def test_the_sdist_has_its_sources_and_nothing_large(distributions):
    (sdist,) = distributions.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "CITATION.cff", "CONTRIBUTING.md"} <= names
    assert {name.partition("/")[0] for name in names} & {"runs", "site", "shared", ".git", ".venv", "dist"} == set()
    assert not [name for name in names if name.endswith((".pyc", ".so"))]
    listed = subprocess.run(["git", "ls-files", "src", "recipes", "tests"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode == 0:  # a checkout
        assert set(listed.stdout.split()) <= names
    assert sdist.stat().st_size < LARGEST_SDIST


def test_the_wheel_has_the_package_with_its_data_and_the_recipes_and_nothing_else(distributions):
    (wheel,) = distributions.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
        bundled = sum(one.compress_size for one in archive.infolist() if "/bundled/" in one.filename)
    package = {path.relative_to(SOURCES.parent).as_posix() for path in SOURCES.rglob("*") if path.is_file()}
    recipes = {f"syntaxlm/{path.relative_to(ROOT).as_posix()}" for path in (ROOT / "recipes").rglob("*.yaml")}
    assert names == {name for name in package if "__pycache__" not in name} | recipes
    assert {"syntaxlm/py.typed", "syntaxlm/ops/kernels/kernels.h", "syntaxlm/ops/kernels/inside.c"} <= names
    assert wheel.stat().st_size < LARGEST_WHEEL
    assert 10e6 < bundled <= LARGEST_BUNDLED


def test_commands_and_recipes_are_found_outside_the_repository(run, environment):
    place = run("python", "-c", "import syntaxlm; print(syntaxlm.__file__)").strip()
    assert Path(place).is_relative_to(environment)
    assert run("syntaxlm", "--version").startswith("syntaxlm 0.")
    assert "Usage: syntaxlm" in run("syntaxlm", "--help")
    names = {one["name"] for one in json.loads(run("syntaxlm", "recipes", "list", "--json"))["recipes"]}
    recipes = ROOT / "recipes"
    assert names == {path.relative_to(recipes).with_suffix("").as_posix() for path in recipes.rglob("*.yaml")}
    assert "model: {name: simple-pcfg" in run("syntaxlm", "recipes", "show", "simple-pcfg-toy")
    run("python", "-m", "pip", "check")


def test_a_recipe_is_trained_with_compiled_kernels_and_without_a_compiler(run, tmp_path):
    if not any(map(shutil.which, ("cc", "gcc", "clang"))):
        pytest.skip("no C compiler")
    run("syntaxlm", "data", "toy", "-o", "toy", "--sentences", "200")
    run("syntaxlm", "train", "simple-pcfg-toy", "-o", "compiled", *TINY)
    made = {path.name.partition("-")[0] for path in (tmp_path / "cache" / "syntaxlm").glob("*.so")}
    assert "inside" in made
    error = run("syntaxlm", "train", "simple-pcfg-toy", "-o", "plain", *TINY, compiler=False)
    assert "could not be compiled" not in error
    assert not list((tmp_path / "empty-cache").rglob("*.so"))
    for model in ("compiled", "plain"):
        parses = [
            run("syntaxlm", "parse", model, SENTENCE, "--format", "brackets", compiler=one) for one in (True, False)
        ]
        assert parses[0] == parses[1] != ""
        rows = [run("syntaxlm", "score", model, SENTENCE, compiler=one).splitlines()[1:] for one in (True, False)]
        bits = [[float(row.split("\t")[-1]) for row in one] for one in rows]
        assert bits[0] == pytest.approx(bits[1], rel=1e-3)
        assert len(bits[0]) == len(SENTENCE.split()) + 1


def test_the_quickstart_writes_its_report_from_the_files_of_the_wheel(run, tmp_path):
    out = run("syntaxlm", "quickstart", "--model-type", "kn5", "-o", "first")
    assert "perplexity" in out
    assert "<html" in (tmp_path / "folder" / "first" / "report.html").read_text(encoding="utf-8")


def test_an_extra_that_is_not_installed_is_named(run):
    error = run("syntaxlm", "draw", "en-fast", "The cat sleeps.", "-o", "tree.png", code=2)
    assert "pip install 'syntaxlm[draw]'" in error


@pytest.mark.skipif(not BUNDLED.is_dir(), reason="no bundled model yet")
@pytest.mark.parametrize("compiler", [True, False], ids=["compiler", "no compiler"])
def test_the_bundled_model_parses_and_scores_at_once(run, compiler):
    assert "boats" in run("syntaxlm", "parse", "en", "The old man the boats.", compiler=compiler)
    assert run("syntaxlm", "score", "en", "The old man the boats.", compiler=compiler).startswith("sentence\t")
