"""The parts of the pages of commands that come from the parser of the command line."""

from __future__ import annotations

import argparse
import re
from functools import cache, partial
from pathlib import Path

from laboratory.pages.markdown import plain, table
from laboratory.pages.tables import TABLES, columns_of
from syntaxlm.cli import build_parser

WRITTEN = Path(__file__).parents[2] / "docs" / "commands"


# The list of commands: names for each purpose, then those that begin with a word.
_USE = ["parse", "score", "items", "generate", "draw", "serve", "grammar"]
_TRAIN = ["quickstart", "train", "compare", "focus", "combine", "report", "tune cache", "tune stops"]
_GROUPS = {"Evaluate": "evaluate ", "Prepare data": ("inspect", "data "), "Models and recipes": ("models ", "recipes ")}


@cache
def all_commands() -> dict[str, argparse.ArgumentParser]:
    """Every command that does something, by its name: "train", "evaluate perplexity", ..., in the order of the help."""
    return {leaf.prog.removeprefix("syntaxlm "): leaf for leaf in build_parser().leaves()}


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


def _purpose(title: str, chosen: dict[str, argparse.ArgumentParser]) -> str:
    rows = (
        [f"[`syntaxlm {name}`]({page_name(name)})", plain(_first_sentence(parser))] for name, parser in chosen.items()
    )
    return f"### {title}\n\n" + table(["command", "what it does"], rows)


def usage(command: str) -> str:
    """What a command does, and its usage line."""
    parser = all_commands()[command]
    return f"{plain(parser.description or '')}\n\n```text\n{_usage(parser)}\n```"


def options_and_columns(command: str) -> str:
    """All that a command takes, and the columns of what it prints, if it prints tables."""
    parts = [f"## Options\n\n{_options(all_commands()[command])}"]
    found = [place for place, names in TABLES.items() if command in (name.partition(" --")[0] for name in names)]
    if found:
        parts.append("## Output columns\n\n" + "\n".join(columns_of(place, len(found) > 1) for place in found))
    return "\n".join(parts)


def _first_sentence(parser: argparse.ArgumentParser) -> str:
    """What a command does, in short; a colon in parentheses does not end it."""
    return re.split(r"\. |: (?![^(]*\))", parser.description or "")[0].rstrip(".") + "."


def _usage(parser: argparse.ArgumentParser) -> str:
    """The usage line without "usage:", as wide as a page is."""
    usual, parser.formatter_class = parser.formatter_class, partial(argparse.HelpFormatter, width=76)
    try:
        return parser.format_usage().removeprefix("usage: ").rstrip().replace("\n       ", "\n")
    finally:
        parser.formatter_class = usual


def _options(parser: argparse.ArgumentParser) -> str:
    rows = [
        [_written(action), plain(_meaning(action))]
        for action in parser._actions
        if not isinstance(action, argparse._HelpAction)
    ]
    if parser.get_default("takes_overrides"):
        rows.append(
            ["`--SECTION.SETTING VALUE`", "any [setting](../reference/settings.md) of the recipe, by its dotted name"]
        )
    return table(["", "meaning"], rows)


def _written(action: argparse.Action) -> str:
    """How an argument is given: `-o FILE, --output FILE`."""
    if not action.option_strings:
        return f"`{action.metavar}`"
    if action.nargs == 0:
        return f"`{', '.join(action.option_strings)}`"
    value = action.metavar or "{" + ",".join(map(str, action.choices or ())) + "}"
    value = value if isinstance(value, str) else " ".join(value)
    return f"`{', '.join(f'{name} {value}' for name in action.option_strings)}`"


def _meaning(action: argparse.Action) -> str:
    return (action.help or "") + (" (must be given)" if action.option_strings and action.required else "")
