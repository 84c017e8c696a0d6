"""The bundled recipes, each with its own comment."""

from __future__ import annotations

from itertools import takewhile
from pathlib import Path
from typing import Any

from laboratory.pages.markdown import plain, table
from syntaxlm.core.yaml_files import read_yaml
from syntaxlm.training.recipe_files import RECIPE_GROUPS, bundled_recipes, find_recipe, recipe_names


def all_recipes() -> list[Path]:
    return sorted(bundled_recipes().glob("*.yaml"))


def recipe_sections() -> str:
    """A heading and a table for each group of recipes: their model types and comments."""
    settings = {name: read_yaml(find_recipe(name)) for name in recipe_names()}
    return "\n".join(_section(group, settings) for group in RECIPE_GROUPS)


def _section(group: str, settings: dict[str, Any]) -> str:
    """A heading, and a table of the recipes of a group."""
    rows = (
        [f"`{name}`", f"`{recipe['model']['name']}`", _comment(name)]
        for name, recipe in settings.items()
        if recipe["about"]["group"] == group
    )
    return f"### {RECIPE_GROUPS[group]}\n\n" + table(["recipe", "model type", "what it trains"], rows)


def _comment(name: str) -> str:
    """The comment that a recipe starts with."""
    lines = takewhile(lambda line: line.startswith("#"), find_recipe(name).read_text(encoding="utf-8").splitlines())
    return plain(" ".join(line.lstrip("# ") for line in lines))
