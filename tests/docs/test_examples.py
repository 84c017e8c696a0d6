"""What the documentation tells a reader to type is what the commands take."""

from __future__ import annotations

import importlib
import re
from typing import Any

import pytest
from laboratory.pages.recipes import all_recipes
from laboratory.pages.settings import all_settings

from syntaxlm.cli import all_commands, build_app, split_overrides
from syntaxlm.cli.app import UsageError, parse
from syntaxlm.cli.command import Command
from syntaxlm.core.errors import InputError
from syntaxlm.training.recipe import read_recipe
from syntaxlm.training.recipe_files import recipe_names
from tests.docs.examples import PAGES, ROOT, Example, examples_of

COMMANDS = all_commands()
SHIPPED = set(recipe_names())
SETTINGS = {one.name for one in all_settings()}
EXAMPLES = [example for path in [*PAGES, *all_recipes()] for example in examples_of(path)]
EPILOGS = [
    Example(f"syntaxlm {name} --help", tuple(command.example.split()[1:]), whole=True)
    for name, command in COMMANDS.items()
    if '"' not in command.example
]


def test_examples_are_found_where_they_stand():
    places = {example.place for example in EXAMPLES}
    assert {
        "README.md",
        "docs/tutorials/first-ten-minutes.md",
        "docs/commands/train.md",
        "recipes/prpn-toy.yaml",
    } <= places
    assert len(EXAMPLES) > 60


@pytest.mark.parametrize("place", dict.fromkeys(example.place for example in EXAMPLES + EPILOGS))
def test_every_example_is_read_by_the_command_line(place):
    faults = []
    for example in EXAMPLES + EPILOGS:
        if example.place == place:
            try:
                check(example)
            except (UsageError, InputError, AssertionError) as error:
                faults.append(f"{example}: {error}")
    assert not faults


def check(example: Example) -> None:
    """A misspelt option, a missing argument, an unknown command, setting or recipe ends the reading."""
    rest, overrides = split_overrides(example.words)
    if not example.whole:
        known = {name for option in command_of(rest).options.values() for name in option.names}
        assert {word for word in rest if re.match("--?[a-z]", word)} <= known
        return
    parsed = parse(build_app(), rest)
    assert parsed is not None
    command, values = parsed
    assert not overrides or command.takes_overrides
    for recipe in recipes_named(values):
        check_settings(overrides, recipe)


def command_of(words: list[str]) -> Command:
    """The command that the words begin with; the first one, where they name a group."""
    for count in (2, 1):
        name = " ".join(words[:count])
        inner = [command for full, command in COMMANDS.items() if full == name or full.startswith(f"{name} ")]
        if inner:
            return inner[0]
    raise AssertionError(f"there is no command {' '.join(words[:2])}")


def recipes_named(values: dict[str, Any]) -> list[str]:
    """What a call names: shipped recipes, or files of the reader's own, which must look like files."""
    names = [*values.get("recipes", ()), *filter(None, [values.get("recipe")])]
    wrong = [name for name in names if name not in SHIPPED and not name.endswith(".yaml")]
    assert not wrong
    return names


def check_settings(overrides: list[tuple[str, str]], recipe: str) -> None:
    """That the recipe has the settings and takes the values together, unless one stands for another (S, DIR/FILE)."""
    taken = [pair for pair in overrides if recipe in SHIPPED and not re.fullmatch("[A-Z]+", pair[1])]
    if taken:
        read_recipe(recipe, taken)
    for setting, _ in set(overrides) - set(taken):
        assert setting in SETTINGS, f"{setting}: no such setting"


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_recipe_that_a_page_names_is_shipped(path):
    named = set(re.findall(r"`((?:prpn|lstm)-[a-z0-9-]+)`", path.read_text(encoding="utf-8")))
    assert named <= SHIPPED


def test_names_that_python_examples_take_from_the_package_exist():
    missing = []
    for path in PAGES:
        text = path.read_text(encoding="utf-8")
        imported = re.findall(r"^(?:>>> )?from (syntaxlm[\w.]*) import ([\w, ]+)$", text, re.MULTILINE)
        used = [("syntaxlm", name) for name in re.findall(r"\bsyntaxlm\.([A-Za-z_]\w*)\(", text)]
        for module, names in [*imported, *used]:
            found = importlib.import_module(module)
            absent = [name for name in names.split(", ") if not hasattr(found, name)]
            missing += [(str(path.relative_to(ROOT)), module, name) for name in absent]
    assert missing == []


def test_the_check_sees_a_misspelt_option_a_missing_argument_and_a_setting_that_is_none():
    for words in (["parse", "model", "--decodr", "biased"], ["evaluate", "perplexity", "model"], ["pars", "model"]):
        with pytest.raises((UsageError, AssertionError)):
            check(Example("here", tuple(words), whole=True))
    for recipe in ("prpn-toy", "mine.yaml"):
        for setting in ("model.hiden_size", "schedule.epoch", "text.normaliser.unit"):
            words = ["train", recipe, "--output", "x", f"--{setting}", "4"]
            with pytest.raises((InputError, AssertionError), match="no such setting"):
                check(Example("here", tuple(words), whole=True))


def test_calls_are_found_in_blocks_in_text_and_behind_pipes(tmp_path, monkeypatch):
    monkeypatch.setattr("tests.docs.examples.ROOT", tmp_path)
    page = tmp_path / "page.md"
    page.write_text(
        "`syntaxlm data\ntoy -o x` and `syntaxlm train`\n```sh\nsyntaxlm parse m # trees\n```\n"
        "- a\n\n    ```console\n    $ echo a | syntaxlm parse m\n    syntaxlm: error\n    ```\n"
        "```python\nsyntaxlm train\n```\n`syntaxlm train r --text.train ...`\n"
    )
    assert [(" ".join(one.words), one.whole) for one in examples_of(page)] == [
        ("parse m", True), ("parse m", True), ("data toy -o x", True), ("train", False), ("train r", False),
    ]  # fmt: skip
