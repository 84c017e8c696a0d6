"""The pages of the inner packages on the site: one per package, one section per module."""

from __future__ import annotations

import pkgutil
from pathlib import Path

import syntaxlm

# In this order, a package imports only packages before it.
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
    names = [module.name for module in pkgutil.iter_modules([str(PACKAGE)]) if not module.name.startswith("_")]
    known = [package for package in PACKAGES if package in names]
    return known + sorted(set(names) - set(known) - PROGRAMS)


def _package_page(package: str) -> str:
    """The Markdown of a package, which mkdocstrings fills in."""
    modules = [package, *(f"{package}.{name}" for name in _modules(PACKAGE / package))]
    written = (module for module in modules if not _is_empty(module))
    parts = (f"::: syntaxlm.{module}\n    options:\n      heading_level: 2\n" for module in written)
    return f"# `syntaxlm.{package}`\n\n" + "\n".join(parts)


def _is_empty(module: str) -> bool:
    """Whether a module is a package with an empty __init__.py."""
    start = PACKAGE.joinpath(*module.split("."), "__init__.py")
    return start.exists() and not start.stat().st_size


def _modules(folder: Path, prefix: str = "") -> list[str]:
    """The names of all modules in a folder, those in inner packages with dots."""
    names = []
    for module in pkgutil.iter_modules([str(folder)]):
        names.append(prefix + module.name)
        if module.ispkg:
            names += _modules(folder / module.name, f"{prefix}{module.name}.")
    return names
