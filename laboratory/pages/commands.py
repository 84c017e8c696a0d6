"""The parts of the pages of commands that come from the declarations of the commands."""

from __future__ import annotations

import re
from pathlib import Path

from laboratory.pages.markdown import plain, table
from laboratory.pages.tables import TABLES, columns_of
from syntaxlm.cli import all_commands
from syntaxlm.cli.command import Command
from syntaxlm.core.declarations import Option

WRITTEN = Path(__file__).parents[2] / "docs" / "commands"


# The list of commands: names for each purpose, then those that begin with a word.
_USE = ["parse", "score", "items", "generate", "draw", "serve", "grammar"]
_TRAIN = ["quickstart", "train", "compare", "focus", "combine", "report", "tune cache", "tune stops"]
_GROUPS = {"Evaluate": "evaluate ", "Prepare data": ("inspect", "data "), "Models and recipes": ("models ", "recipes ")}


def page_name(command: str) -> str:
    """The page of a command: "evaluate perplexity" -> "evaluate-perplexity.md"."""
    return command.replace(" ", "-") + ".md"


def command_list() -> str:
    """A table of the commands for each purpose."""
    left = dict(all_commands())
    parts = [_purpose("Use a model", {name: left.pop(name) for name in _USE})]
    parts.append(_purpose("Train", {name: left.pop(name) for name in _TRAIN}))
    for title, start in _GROUPS.items():
        parts.append(_purpose(title, {name: left.pop(name) for name in list(left) if name.startswith(start)}))
    return "\n".join([*parts, _purpose("Others", left)])


def _purpose(title: str, chosen: dict[str, Command]) -> str:
    rows = (
        [f"[`syntaxlm {name}`]({page_name(name)})", plain(_first_sentence(command))] for name, command in chosen.items()
    )
    return f"### {title}\n\n" + table(["command", "what it does"], rows)


def usage(command: str) -> str:
    """What a command does, and its usage line."""
    declared = all_commands()[command]
    return f"{plain(declared.docstring.description)}\n\n```text\n{declared.usage}\n```"


def options_and_columns(command: str) -> str:
    """All that a command takes, and the columns of what it prints, if it prints tables."""
    parts = [f"## Options\n\n{_options(all_commands()[command])}"]
    found = [place for place, names in TABLES.items() if command in (name.partition(" --")[0] for name in names)]
    if found:
        parts.append("## Output columns\n\n" + "\n".join(columns_of(place, len(found) > 1) for place in found))
    return "\n".join(parts)


def _first_sentence(command: Command) -> str:
    """What a command does, in short; a colon in parentheses does not end it."""
    return re.split(r"\.\s|: (?![^(]*\))", command.docstring.description)[0].rstrip(".") + "."


def _options(command: Command) -> str:
    rows = [[_written(option), plain(option.help)] for option in command.options.values()]
    if command.takes_overrides:
        rows.append(
            ["`--SECTION.SETTING VALUE`", "any [setting](../reference/settings.md) of the recipe, by its dotted name"]
        )
    return table(["", "meaning"], rows)


def _written(option: Option) -> str:
    """How an argument is given: `-o FILE, --output FILE`."""
    names = list(option.names)
    if option.type is bool and option.default is not False:
        names += [f"--no-{name.removeprefix('--')}" for name in names]
    value = "" if option.shown.is_positional else option.value_name
    return f"`{', '.join(f'{name} {value}'.rstrip() for name in names)}`"
