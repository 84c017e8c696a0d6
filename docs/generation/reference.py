"""The pages of the reference: one a room of the package, a section a module."""

from __future__ import annotations

import pkgutil
from pathlib import Path

import syntaxlm
from docs.generation.markdown import table

# From the ground up: a room uses only rooms before it.
ROOMS = ["trees", "text", "ops", "layers", "models", "storage", "data", "evaluation", "training", "drawing"]
PACKAGE = Path(syntaxlm.__file__).parent


def reference_pages() -> dict[str, str]:
    """The name of each page, and its Markdown."""
    return {"index.md": index_page()} | {f"{room}.md": _room_page(room) for room in all_rooms()}


def all_rooms() -> list[str]:
    """Those that are there: packages, and the modules beside them that are no part of the command line."""
    found = [module.name for module in pkgutil.iter_modules([str(PACKAGE)]) if not module.name.startswith("_")]
    known = [room for room in ROOMS if room in found]
    return known + sorted(set(found) - set(known) - {"cli"})


def index_page() -> str:
    names = table(["name", "defined in"], ([f"`syntaxlm.{name}`", _link(name)] for name in syntaxlm.__all__))
    rooms = "".join(f"- [`syntaxlm.{room}`]({room}.md)\n" for room in all_rooms())
    return (
        "# Reference\n\nMade from the docstrings in the code. Most programs need no more than these names:\n\n"
        f"{names}\nEach room of the package has a page:\n\n{rooms}"
    )


def _link(name: str) -> str:
    """To where a name of the package is described."""
    defined = getattr(syntaxlm, name).__module__
    return f"[`{defined}`][{defined}.{name}]"


def _room_page(room: str) -> str:
    inner = [room, *(f"{room}.{name}" for name in _modules(PACKAGE / room))]
    inner = [module for module in inner if not _is_empty(module)]
    parts = (f"::: syntaxlm.{module}\n    options:\n      heading_level: 2\n" for module in inner)
    return f"# `syntaxlm.{room}`\n\n" + "\n".join(parts)


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
