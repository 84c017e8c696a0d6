"""What is installed with the package: lowest versions and licences.

`python -m laboratory.pages.dependencies` prints the lowest declared versions as constraints of pip, for
`make test-lowest`. torch is left out: constraints.txt has the version that is tested.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

from laboratory.pages.markdown import plain, table

_PROJECT = Path(__file__).parents[2] / "pyproject.toml"
_REQUIREMENT = re.compile(r"(?P<name>[\w.-]+)(?:\[[\w,-]+\])?\s*(?:>=\s*(?P<lowest>[\w.]+))?")
UNKNOWN = "not installed here"  # in place of the licence of a package that states it only where it is installed
_FOR_DEVELOPERS = ("docs", "test")  # optional parts that users do not install

_USES = {
    "dataframe": "results as data frames of pandas instead of polars",
    "draw": "pictures of trees and maps as PDF and PNG",
    "frequencies": "word frequencies from wordfreq: `--frequencies wordfreq:en`",
    "hub": "[models on the Hugging Face hub](share-a-model.md)",
    "plot": "plots of surprisals, stimuli, reading times and training, as SVG, PDF and PNG",
    "ray": "[jobs](very-large-jobs.md) on several machines",
    "serve": "[the web app](serve.md): `syntaxlm serve`",
    "spacy": "[the spaCy component](spacy.md)",
    "stats": "the regressions of `syntaxlm evaluate reading-times`",
    "transformers": "[models of transformers as scorers](transformers.md): `hf:gpt2`",
}

# The SPDX expressions of what packages without a license expression state.
_SPDX = {
    "Apache 2.0": "Apache-2.0",
    "Apache 2.0 License": "Apache-2.0",
    "Apache License": "Apache-2.0",
    "Apache License, Version 2.0": "Apache-2.0",
    "Apache Software License": "Apache-2.0",
    "BSD License": "BSD",
    "ISC License (ISCL)": "ISC",
    "MIT License": "MIT",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
}


class Requirement(NamedTuple):
    """A declared dependency. part: the optional part that needs it; "": the package.  lowest: its lowest version."""

    name: str
    part: str
    lowest: str | None


def declared() -> list[Requirement]:
    """The dependencies of the package and of its optional parts."""
    project: dict[str, Any] = tomllib.loads(_PROJECT.read_text(encoding="utf-8"))["project"]
    parts = {"": project["dependencies"], **project["optional-dependencies"]}
    return [_requirement(text, part) for part, requirements in parts.items() for text in requirements]


def lowest_versions() -> dict[str, str]:
    """The lowest declared version of every dependency but torch."""
    requirements = (requirement for requirement in declared() if requirement.name != "torch")
    return {requirement.name: requirement.lowest for requirement in requirements if requirement.lowest is not None}


def dependency_table() -> str:
    """The declared dependencies that users install, with lowest version and licence."""
    rows: dict[tuple[str, str | None], list[str]] = {}
    for name, part, lowest in declared():
        if part not in _FOR_DEVELOPERS:
            rows.setdefault((name, lowest), []).append(f"`{part}`" if part else "always")
    cells = ([name, ", ".join(parts), lowest or "", _licence(name)] for (name, lowest), parts in rows.items())
    return table(["package", "part", "lowest version", "licence"], cells)


def extras_table() -> str:
    """The optional parts that users install, and the packages that each brings."""
    parts: dict[str, list[str]] = {}
    for name, part, _ in declared():
        if part and part not in _FOR_DEVELOPERS:
            parts.setdefault(part, []).append(name)
    missing = parts.keys() ^ _USES.keys()
    if missing:
        raise ValueError(f"extras without a use, or uses without an extra: {', '.join(sorted(missing))}")
    rows = ([f"`{part}`", _USES[part], ", ".join(names)] for part, names in sorted(parts.items()))
    return table(["extra", "for", "packages"], rows)


def inner_dependency_table() -> str:
    """What the dependencies of the package itself need in turn, with licence."""
    direct = {_normal(name) for name, part, _ in declared() if not part}
    indirect = sorted(_closure(direct) - direct)
    return table(["package", "licence"], ([name, _licence(name)] for name in indirect))


def developer_table() -> str:
    """What tests and documentation need besides, with licence."""
    users = {_normal(name) for name, part, _ in declared() if part not in _FOR_DEVELOPERS}
    names = {_normal(name): name for name, part, _ in declared() if part in _FOR_DEVELOPERS}
    return table(["package", "licence"], ([names[name], _licence(name)] for name in sorted(set(names) - users)))


def _requirement(text: str, part: str) -> Requirement:
    """A requirement as pyproject.toml or the metadata of a package states it."""
    match = _REQUIREMENT.match(text)
    assert match is not None, text
    return Requirement(match["name"], part, match["lowest"])


def _closure(names: Iterable[str]) -> set[str]:
    """The installed packages that packages need, themselves included."""
    packages: set[str] = set()
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name not in packages and _metadata(name) is not None:
            packages.add(name)
            waiting += _needed(name)
    return packages


def _needed(name: str) -> Iterator[str]:
    """What an installed package needs on this machine, without optional parts."""
    for text in metadata.requires(name) or []:
        requirement, _, marker = text.partition(";")
        if not re.search(r"extra\s*==|sys_platform\s*==\s*.(win32|darwin)|platform_system\s*==\s*.Windows", marker):
            yield _normal(_requirement(requirement, "").name)


def _normal(name: str) -> str:
    """The name of a package as PyPI normalises it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _metadata(name: str) -> Any:
    """The metadata of a package; None if it is not installed."""
    try:
        return metadata.metadata(name)
    except metadata.PackageNotFoundError:
        return None


def _licence(name: str) -> str:
    """The licence that an installed package states, as an SPDX expression where it can be told."""
    facts = _metadata(name)
    if facts is None:
        return UNKNOWN
    classifiers = [line for line in facts.get_all("Classifier") or [] if line.startswith("License")]
    text = (facts["License"] or "").strip()  # a name, or the whole text of the licence
    if not text or "\n" in text:
        text = " and ".join(line.rpartition(" :: ")[2] for line in classifiers)
    stated = facts["License-Expression"] or text
    return plain(_SPDX.get(stated, stated) or "see its license file")


if __name__ == "__main__":
    print("\n".join(f"{name}=={version}" for name, version in lowest_versions().items()))
