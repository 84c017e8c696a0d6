"""The pages of the commands, from the parser of the command line and what is written by hand about each."""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path

from docs.generation.markdown import plain, table
from syntaxlm.cli import build_parser

WRITTEN = Path(__file__).parents[1] / "commands"


def all_commands() -> dict[str, argparse.ArgumentParser]:
    """Every command that does something, by its name: "train", "evaluate perplexity", ..., in the order of the help."""
    return _below(build_parser(), ())


def _below(parser: argparse.ArgumentParser, path: tuple[str, ...]) -> dict[str, argparse.ArgumentParser]:
    inner = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    if not inner:
        return {" ".join(path): parser}
    found: dict[str, argparse.ArgumentParser] = {}
    for name, one in inner[0].choices.items():
        found |= _below(one, (*path, name))
    return found


def page_name(command: str) -> str:
    """The page of a command: "evaluate perplexity" -> "evaluate-lm.md"."""
    return command.replace(" ", "-") + ".md"


def index_page() -> str:
    rows = (
        [f"[`syntaxlm {name}`]({page_name(name)})", plain(_first_sentence(parser))]
        for name, parser in all_commands().items()
    )
    return (
        "# Commands\n\n"
        "Every command has `--help`. Figures can be printed as JSON with `--json`: fractions from 0 to 1, where the"
        " text prints percent. Wrong input ends with exit code 2 and one message that names file and line.\n\n"
        + table(["command", "what it does"], rows)
    )


def command_page(command: str, parser: argparse.ArgumentParser) -> str:
    """The page of a command: what it does, then what is written by hand in docs/commands, then all it takes."""
    written = WRITTEN / page_name(command)
    parts = [
        f"# `syntaxlm {command}`",
        plain(parser.description or ""),
        f"```text\n{_usage(parser)}\n```",
        written.read_text(encoding="utf-8").strip() if written.exists() else "",
        "## Options",
        _options(parser),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _first_sentence(parser: argparse.ArgumentParser) -> str:
    return (parser.description or "").split(". ")[0].split(": ")[0].rstrip(".") + "."


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
        rows.append(["`--SECTION.SETTING VALUE`", "any [setting](../settings.md) of the recipe, by its dotted name"])
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
