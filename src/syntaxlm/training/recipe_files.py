"""Recipe files: bundled recipes, which are found by name, and the user's own. This module does not import torch."""

from __future__ import annotations

import os
from pathlib import Path

from syntaxlm.core.errors import InputError, closest_match

ABOUT = "about"  # section of a recipe without settings: what it is for or, in the folder of a run, how the run started

# Groups of recipes, in the order of `recipes list`: about.group of a recipe, and the heading that is printed.
RECIPE_GROUPS = {
    "toy": "Try it: syntaxlm data toy -o toy",
    "text": "Your own text",
    "parsing": "Parsers, on a laptop",
    "language-model": "Language models, on a laptop",
    "pairs": "Classifiers of pairs, on a laptop",
    "published": "Settings of papers",
}


def bundled_recipes() -> Path:
    """Return the folder of the bundled recipes: inside the installed package, or in the root of a checkout."""
    installed = Path(__file__).parents[1] / "recipes"
    return installed if installed.is_dir() else Path(__file__).parents[3] / "recipes"


def recipe_names() -> list[str]:
    """Return the names of all bundled recipes. Those for pairs of sentences ("logic/on-lstm") are last."""
    folder = bundled_recipes()
    paths = [*sorted(folder.glob("*.yaml")), *sorted(folder.glob("*/*.yaml"))]
    return [path.relative_to(folder).with_suffix("").as_posix() for path in paths]


def find_recipe(name: str | Path) -> Path:
    """Return the file of a recipe.

    Args:
        name: a path, or the name of a bundled recipe.

    Raises:
        InputError: if there is no such recipe.

    Examples:
        >>> syntaxlm.find_recipe("prpn-toy").name
        'prpn-toy.yaml'
    """
    if os.path.exists(name):
        return Path(name)
    bundled = bundled_recipes() / f"{name}.yaml"
    if os.path.exists(bundled):
        return bundled
    names = recipe_names()
    advice = closest_match(name, names, f"Bundled recipes: {', '.join(names)}")
    raise InputError(f"{name}: no such recipe file. {advice}")
