"""`recipes` and its subcommands."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from syntaxlm.app.cli.options import add_figures, add_output, print_result, text_output
from syntaxlm.core.tables import Column, Columns, HasRows


def add_recipes(commands: Any) -> None:
    recipes = commands.add_parser(
        "recipes",
        help="list the shipped recipes, or print one",
        description="List the shipped recipes, or print one.",
        epilog="example: syntaxlm recipes list",
    )
    kinds = recipes.add_subparsers(title="commands", metavar="COMMAND")
    parser = kinds.add_parser(
        "list",
        help="list the shipped recipes",
        description="List the shipped recipes with name, model type and purpose. Use the name with train, compare and"
        " focus.",
        epilog="example: syntaxlm recipes list --json",
    )
    add_figures(parser, rows=True)
    parser.set_defaults(run=_list)
    parser = kinds.add_parser(
        "show",
        help="print a recipe",
        description="Print a recipe as YAML, as a starting point for your own recipe.",
        epilog="example: syntaxlm recipes show prpn-toy -o mine.yaml",
    )
    parser.add_input("recipe", metavar="RECIPE", help="name of a shipped recipe, or a recipe file")
    add_output(parser, "the recipe")
    parser.set_defaults(run=_show)


SHIPPED_RECIPES = Columns(
    "shipped recipes",
    "recipe",
    {
        "name": Column("text", "name, for train, compare and focus"),
        "model_type": Column("text", "type of the model"),
        "purpose": Column("text", "what the recipe is for"),
    },
)


@dataclass(frozen=True)
class RecipeList(HasRows):
    """The shipped recipes: name, model type, purpose."""

    recipes: list[dict[str, str]]

    columns = SHIPPED_RECIPES

    def to_dict(self) -> dict[str, Any]:
        return {"schema_version": 1, "recipes": self.recipes}

    def rows(self) -> Iterator[dict[str, str]]:
        """Return a row for each recipe, with the columns of `SHIPPED_RECIPES`."""
        return iter(self.recipes)

    def __str__(self) -> str:
        widths = [max(len(one[key]) for one in self.recipes) for key in ("name", "model_type")]
        return "\n".join(
            f"{one['name']:{widths[0]}}  {one['model_type']:{widths[1]}}  {one['purpose']}" for one in self.recipes
        )


def _list(options: argparse.Namespace) -> None:
    from syntaxlm.core.files import read_text
    from syntaxlm.training.recipe_files import find_recipe, recipe_names

    recipes = [{"name": name} | _summary(read_text(find_recipe(name))) for name in recipe_names()]
    print_result(RecipeList(recipes), options)


def _summary(text: str) -> dict[str, str]:
    """Return model type and purpose of a recipe; its purpose is the first sentence of its first comment."""
    import yaml

    comments: list[str] = []
    for line in text.splitlines():
        if not line.startswith("#"):
            break
        comments.append(line.removeprefix("#").strip())
    purpose = re.split(r"(?<!et al)\. ", " ".join(comments))[0].rstrip(".:")
    return {"model_type": yaml.safe_load(text)["model"]["name"], "purpose": purpose}


def _show(options: argparse.Namespace) -> None:
    from syntaxlm.core.files import read_text
    from syntaxlm.training.recipe_files import find_recipe

    text = read_text(find_recipe(options.recipe))
    with text_output(options.output) as file:
        file.write(text)
