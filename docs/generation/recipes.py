"""The bundled recipes, each with its own comment and the command that trains it."""

from __future__ import annotations

from itertools import takewhile
from pathlib import Path

from docs.generation.markdown import plain
from syntaxlm.training.recipe_files import bundled_recipes


def all_recipes() -> list[Path]:
    return sorted(bundled_recipes().glob("*.yaml"))


def recipe_sections() -> str:
    """A heading for each recipe: what it is, how it is trained, and its file."""
    return "\n".join(_section(path) for path in all_recipes())


def _section(path: Path) -> str:
    text = path.read_text(encoding="utf-8")
    comment = list(takewhile(lambda line: line.startswith("#"), text.splitlines()))
    what = plain(" ".join(line.lstrip("# ") for line in comment))
    settings = "\n".join(text.splitlines()[len(comment) :])
    command = f"syntaxlm train {path.stem} --output runs/{path.stem}"
    folded = "\n".join("    " + line if line else "" for line in f"```yaml\n{settings}\n```".splitlines())
    return f'### `{path.stem}`\n\n{what}\n\n```sh\n{command}\n```\n\n??? note "The settings"\n\n{folded}\n'
