"""The parts of the pages of commands that come from the declarations of the commands."""

from __future__ import annotations

from pathlib import Path

from laboratory.pages.markdown import cell, plain, table
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
    others = dict(all_commands())
    parts = [_purpose("Use a model", {name: others.pop(name) for name in _USE})]
    parts.append(_purpose("Train", {name: others.pop(name) for name in _TRAIN}))
    for title, start in _GROUPS.items():
        parts.append(_purpose(title, {name: others.pop(name) for name in list(others) if name.startswith(start)}))
    return "\n".join([*parts, _purpose("Others", others)])


def _purpose(title: str, commands: dict[str, Command]) -> str:
    """A heading, and a table of commands."""
    rows = (
        [f"[`syntaxlm {name}`]({page_name(name)})", plain(command.docstring.summary)]
        for name, command in commands.items()
    )
    return f"### {title}\n\n" + table(["command", "what it does"], rows)


def usage(command: str) -> str:
    """What a command does, its usage line, and further explanations."""
    declaration = all_commands()[command]
    docstring = declaration.docstring
    parts = [docstring.summary, f"```text\n{declaration.usage}\n```", docstring.description]
    return "\n\n".join(plain(part) for part in parts if part)


def options_and_columns(command: str) -> str:
    """All that a command takes, and the columns of what it prints, if it prints tables."""
    parts = [f"## Options\n\n{_tables(all_commands()[command])}"]
    places = [place for place, names in TABLES.items() if command in (name.partition(" --")[0] for name in names)]
    if places:
        parts.append("## Output columns\n\n" + "\n".join(columns_of(place, len(places) > 1) for place in places))
    return "\n".join(parts)


def _tables(command: Command) -> str:
    """A table of the options below each heading of the help."""
    parts = []
    for heading in command.headings:
        options = [option for option in command.options.values() if option.heading == heading]
        rows = [[_written(option), cell(option.help)] for option in options]
        if heading == "Options" and command.takes_overrides:
            meaning = "Set any [setting](../reference/settings.md) of the recipe by its dotted name."
            rows.append(["`--SECTION.SETTING VALUE`", meaning])
        title = "Main options" if heading == "Options" else heading
        parts.append(f"### {title}\n\n" + table(["", "meaning"], rows))
    return "\n".join(parts)


def _written(option: Option) -> str:
    """How an argument is given: `-o FILE, --output FILE`."""
    names = list(option.names)
    if option.type is bool and option.default is not False:
        names += [f"--no-{name.removeprefix('--')}" for name in names]
    value = "" if option.shown.is_positional else option.value_name
    return f"`{', '.join(f'{name} {value}'.rstrip() for name in names)}`"
