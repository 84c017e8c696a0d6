"""Prints the lowest declared version of every dependency as a constraint of pip: python tests/packaging/lowest_versions.py.

torch is left out: constraints.txt says which version is tested. `make test-lowest` runs the tests with these versions.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2] / "pyproject.toml"
_BOUND = re.compile(r"([\w.-]+)(?:\[[\w,-]+\])?\s*>=\s*([\w.]+)")


def lowest_versions() -> dict[str, str]:
    """The lowest version of each dependency, of the package and its optional parts."""
    project = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]
    declared = [*project["dependencies"], *(one for part in project["optional-dependencies"].values() for one in part)]
    bounds = [match.groups() for one in declared if (match := _BOUND.match(one))]
    return {name: version for name, version in bounds if name != "torch"}


if __name__ == "__main__":
    print("\n".join(f"{name}=={version}" for name, version in lowest_versions().items()))
