"""The bundled recipes, each with its own comment."""

from __future__ import annotations

from itertools import takewhile
from pathlib import Path

from laboratory.pages.markdown import plain, table
from syntaxlm.core.yaml_files import parse_yaml
from syntaxlm.training.recipe_files import bundled_recipes, find_recipe, recipe_names


def all_recipes() -> list[Path]:
    return sorted(bundled_recipes().glob("*.yaml"))


def recipe_sections() -> str:
    """A heading and a table for each model type: its recipes and their comments."""
    by_model: dict[str, list[str]] = {}
    for name in recipe_names():
        by_model.setdefault(_model(name), []).append(name)
    return "\n".join(_section(model, names) for model, names in sorted(by_model.items()))


def _section(model: str, names: list[str]) -> str:
    return f"### `{model}`\n\n" + table(["recipe", "what it trains"], ([f"`{name}`", _comment(name)] for name in names))


def _model(name: str) -> str:
    return str(parse_yaml(find_recipe(name).read_text(encoding="utf-8"), "")["model"]["name"])


def _comment(name: str) -> str:
    """The comment that a recipe starts with."""
    lines = takewhile(lambda line: line.startswith("#"), find_recipe(name).read_text(encoding="utf-8").splitlines())
    return plain(" ".join(line.lstrip("# ") for line in lines))
