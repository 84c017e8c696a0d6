"""The files of recipes: those that come with the package, by name, and a user's own. No torch is needed for them."""

from __future__ import annotations

import difflib
from pathlib import Path

from syntaxlm.errors import InputError
from syntaxlm.files import read_text


def is_inference_recipe(path: Path) -> bool:
    """Whether a recipe file is of logical inference: those have a section of pairs. Raises InputError as YAML does."""
    if not path.exists():
        return False
    from syntaxlm.settings import parse_yaml

    data = parse_yaml(read_text(path), path)
    return isinstance(data, dict) and "pairs" in data


def shipped_recipes() -> Path:
    """The folder of the recipes that come with the package: inside it when installed, beside it in a checkout."""
    installed = Path(__file__).parents[1] / "recipes"
    return installed if installed.is_dir() else Path(__file__).parents[3] / "recipes"


def recipe_names() -> list[str]:
    """The names of all shipped recipes, those of logical inference ("logic/lstm") last."""
    folder = shipped_recipes()
    paths = [*sorted(folder.glob("*.yaml")), *sorted(folder.glob("*/*.yaml"))]
    return [path.relative_to(folder).with_suffix("").as_posix() for path in paths]


def find_recipe(name: str | Path) -> Path:
    """The file a recipe's name stands for: a path, or the bare name of a shipped one. Raises InputError."""
    if Path(name).exists():
        return Path(name)
    shipped = shipped_recipes() / f"{name}.yaml"
    if shipped.exists():
        return shipped
    names = recipe_names()
    nearest = difflib.get_close_matches(str(name), names, 1)
    advice = f"Did you mean {nearest[0]}?" if nearest else f"Shipped recipes, to be given by name: {', '.join(names)}"
    raise InputError(f"{name}: no such recipe file. {advice}")
