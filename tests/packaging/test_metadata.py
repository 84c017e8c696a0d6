"""What is declared about the package: versions, citation, changelog."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

import syntaxlm
from syntaxlm.core.yaml_files import read_yaml

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_version_is_the_same_everywhere():
    citation = read_yaml(ROOT / "CITATION.cff")
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert PROJECT["version"] == syntaxlm.__version__ == str(citation["version"])
    assert re.search(r"^## \[(.+)\]", changelog, re.MULTILINE)[1] == syntaxlm.__version__


WORKFLOW = read_yaml(ROOT / ".github" / "workflows" / "tests.yml")
SYSTEMS = {"ubuntu": "POSIX :: Linux", "macos": "MacOS", "windows": "Microsoft :: Windows"}  # of runners: classifiers


@pytest.mark.parametrize("job", ["tests", "installed"])
def test_the_declared_versions_and_systems_are_those_that_the_workflow_tests(job):
    matrix = WORKFLOW["jobs"][job]["strategy"]["matrix"]
    declared = [line.rpartition(" ")[2] for line in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", line)]
    assert matrix["python"] == declared
    systems = {f"Operating System :: {SYSTEMS[name.partition('-')[0]]}" for name in matrix["system"]}
    assert systems == {line for line in PROJECT["classifiers"] if line.startswith("Operating System")}


def test_every_action_of_the_workflow_is_pinned_to_a_commit():
    text = (ROOT / ".github" / "workflows" / "tests.yml").read_text(encoding="utf-8")
    uses = [line for line in text.splitlines() if "uses:" in line]
    assert uses
    assert all(re.fullmatch(r"      - uses: [\w-]+/[\w-]+@[0-9a-f]{40}  # v\d+\.\d+\.\d+", line) for line in uses)


def test_the_conda_package_needs_what_the_wheel_needs():
    recipe = read_yaml(ROOT / "conda" / "recipe.yaml")
    assert recipe["context"] == {"version": PROJECT["version"], "python_min": PROJECT["requires-python"][2:]}
    wheel = {re.sub(r"^torch>", "pytorch>", line.partition(";")[0].strip()) for line in PROJECT["dependencies"]}
    conda = {line.replace(" ", "") for line in recipe["requirements"]["run"] if not line.startswith("python ")}
    assert conda == wheel


def test_the_container_is_built_from_files_and_extras_that_exist_and_runs_without_root():
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    copied = [name for words in re.findall(r"^COPY (?!--)(.+) \S+$", text, re.MULTILINE) for name in words.split()]
    assert set(copied) == set(
        re.findall(r"^!(.+)$", (ROOT / ".dockerignore").read_text(encoding="utf-8"), re.MULTILINE)
    )
    assert all((ROOT / name).exists() for name in copied)
    (extras,) = re.findall(r'"\.\[(.+)\]"', text)
    assert set(extras.split(",")) <= set(PROJECT["optional-dependencies"])
    assert text.index("\nUSER syntaxlm\n") < text.index("\nENTRYPOINT ")


def test_the_oldest_declared_version_of_python_is_required_and_checked():
    declared = [line.rpartition(" ")[2] for line in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", line)]
    assert PROJECT["requires-python"] == f">={declared[0]}"
    tools = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]
    assert tools["mypy"]["python_version"] == declared[0]


def test_the_citation_names_the_paper_of_every_model():
    citation = read_yaml(ROOT / "CITATION.cff")
    assert {"cff-version", "message", "title", "authors", "license"} <= set(citation)
    for one in citation["references"]:
        assert {"type", "title", "authors", "year", "notes"} <= set(one)
        assert all(set(author) == {"family-names", "given-names"} for author in one["authors"])
    cited = {one["url"] for one in citation["references"] if "url" in one}
    linked = set(re.findall(r"https://arxiv\.org/abs/[\d.]+\d", (ROOT / "README.md").read_text(encoding="utf-8")))
    assert len(linked) > 10
    assert linked <= cited


def test_extras_that_the_package_names_exist_and_are_tested():
    extras = PROJECT["optional-dependencies"]
    sources = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "src" / "syntaxlm").rglob("*.py"))
    named = set(re.findall(r"syntaxlm\[(\w+)\]", sources))
    assert {"draw", "plot"} <= named <= set(extras)
    tested = {re.split(r"[<>=\[]", one)[0] for one in extras["test"]}
    for name in ("dataframe", "draw", "plot"):
        assert {re.split(r"[<>=\[]", one)[0] for one in extras[name]} <= tested
