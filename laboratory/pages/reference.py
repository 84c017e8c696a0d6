"""The pages of the inner packages on the site: one per package, one section per module."""

from __future__ import annotations

import pkgutil
from pathlib import Path

import syntaxlm

# From the ground up: a package imports only those before it.
PACKAGES = [
    "core", "drawing", "statistics", "reports", "trees", "text", "ops", "models", "storage", "data", "batches",
    "scoring", "parsing", "generation", "evaluation", "training", "comparison", "api",
]  # fmt: skip
PROGRAMS = {"cli", "jobs", "serve", "spacy"}  # they are started, not called
PACKAGE = Path(syntaxlm.__file__).parent


def reference_pages() -> dict[str, str]:
    """The name of each page, and its Markdown."""
    return {f"{package}.md": _package_page(package) for package in all_packages()}


def all_packages() -> list[str]:
    """The packages that are called from Python, those that are not listed here at the end."""
    found = [module.name for module in pkgutil.iter_modules([str(PACKAGE)]) if not module.name.startswith("_")]
    known = [package for package in PACKAGES if package in found]
    return known + sorted(set(found) - set(known) - PROGRAMS)


def _package_page(package: str) -> str:
    inner = [package, *(f"{package}.{name}" for name in _modules(PACKAGE / package))]
    inner = [module for module in inner if not _is_empty(module)]
    parts = (f"::: syntaxlm.{module}\n    options:\n      heading_level: 2\n" for module in inner)
    return f"# `syntaxlm.{package}`\n\n" + "\n".join(parts)


def _is_empty(module: str) -> bool:
    """Whether a module is a folder's, with nothing written in it."""
    start = PACKAGE.joinpath(*module.split("."), "__init__.py")
    return start.exists() and not start.stat().st_size


def _modules(folder: Path, prefix: str = "") -> list[str]:
    found = []
    for module in pkgutil.iter_modules([str(folder)]):
        found.append(prefix + module.name)
        if module.ispkg:
            found += _modules(folder / module.name, f"{prefix}{module.name}.")
    return found
