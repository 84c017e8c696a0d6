"""Recipe files: shipped recipes, which are found by name, and the user's own. This module does not import torch."""

from __future__ import annotations

import os
from pathlib import Path

from syntaxlm.core.errors import InputError, closest_match
from syntaxlm.core.files import read_text
from syntaxlm.training.run_folder import RECIPE, read_recipe_text


def is_pair_recipe(path: Path) -> bool:
    """Return whether a file is a recipe for a pair classifier, which has a section `pairs`.

    Raises InputError if the file is not valid YAML.
    """
    return path.exists() and _has_pairs(read_text(path), path)


def is_pair_run(folder: Path) -> bool:
    """Return whether a folder holds a run of a pair classifier. Raises InputError if its recipe is not valid."""
    path = folder / RECIPE
    return os.path.lexists(path) and _has_pairs(read_recipe_text(path), path)


def _has_pairs(text: str, path: Path) -> bool:
    from syntaxlm.core.settings import parse_yaml

    data = parse_yaml(text, path)
    return isinstance(data, dict) and "pairs" in data


def shipped_recipes() -> Path:
    """Return the folder of the shipped recipes: inside the installed package, or in the root of a checkout."""
    installed = Path(__file__).parents[1] / "recipes"
    return installed if installed.is_dir() else Path(__file__).parents[3] / "recipes"


def recipe_names() -> list[str]:
    """Return the names of all shipped recipes. Those for logical inference ("logic/lstm") are last."""
    folder = shipped_recipes()
    paths = [*sorted(folder.glob("*.yaml")), *sorted(folder.glob("*/*.yaml"))]
    return [path.relative_to(folder).with_suffix("").as_posix() for path in paths]


def find_recipe(name: str | Path) -> Path:
    """Return the file of a recipe.

    name: a path, or the name of a shipped recipe.
    Raises InputError if there is no such recipe.

    >>> syntaxlm.find_recipe("prpn-toy").name
    'prpn-toy.yaml'
    """
    if Path(name).exists():
        return Path(name)
    shipped = shipped_recipes() / f"{name}.yaml"
    if shipped.exists():
        return shipped
    names = recipe_names()
    advice = closest_match(name, names, f"Shipped recipes: {', '.join(names)}")
    raise InputError(f"{name}: no such recipe file. {advice}")
