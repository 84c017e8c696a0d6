"""What is declared about the package: versions, citation, changelog."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import syntaxlm
from syntaxlm.core.yaml_files import read_yaml

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_version_is_the_same_everywhere():
    citation = read_yaml(ROOT / "CITATION.cff")
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert PROJECT["version"] == syntaxlm.__version__ == str(citation["version"])
    assert re.search(r"^## \[(.+)\]", changelog, re.MULTILINE)[1] == syntaxlm.__version__


def test_only_tested_versions_of_python_are_declared():
    """The oldest declared version is the first classifier; mypy checks it, too."""
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
