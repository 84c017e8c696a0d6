"""The pages of the commands, from the parser of the command line and what is written by hand about each."""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path

from docs.generation.markdown import plain, table
from syntaxlm.app.cli import build_parser

WRITTEN = Path(__file__).parents[1] / "commands"

CONVENTIONS = """\
Every command has `--help`. `syntaxlm --version` prints the version, `syntaxlm completion` a completion script.

## Input and output

- A TEXT, a TREEBANK or another file may be `-`, standard input, and may be compressed (.gz, .xz, .zst).
- Data and figures go to standard output; progress, notes and errors go to stderr. `-o FILE` writes to a file instead,
  which appears when it is complete; `-o -` is standard output. The summary of data on standard output goes to stderr.
- `--format` selects the [format](../reference/tables.md): text, json, tsv, csv, parquet and others. The extension of
  `-o FILE` selects it, too. `--json` is the short form of `--format json`: fractions from 0 to 1, where the text prints
  percent. `parse`, `score` and `generate` write JSON lines.
- `--quiet` leaves out progress, notes and warnings.
- `--device` selects the device that runs a model: `cpu` (the default), `cuda`, `cuda:1`, `mps` or `auto`.
- No command overwrites what it reads, or writes into the folder of another model. `data` and `train` refuse a folder
  that holds files of yours.

## Exit codes

| code | meaning |
| --- | --- |
| 0 | the command did what it was asked to do |
| 1 | the input is correct, but a run failed (`compare`), or a shard of a [job](../guides/very-large-jobs.md) |
| 2 | wrong input; one message names file and line, or option |
| 130 | interrupted by Ctrl-C (SIGINT), also where training saved its state and stopped |
| 143 | ended by SIGTERM, also where training saved its state and stopped |


## List of commands"""


def all_commands() -> dict[str, argparse.ArgumentParser]:
    """Every command that does something, by its name: "train", "evaluate perplexity", ..., in the order of the help."""
    return {leaf.prog.removeprefix("syntaxlm "): leaf for leaf in build_parser().leaves()}


def page_name(command: str) -> str:
    """The page of a command: "evaluate perplexity" -> "evaluate-perplexity.md"."""
    return command.replace(" ", "-") + ".md"


def index_page() -> str:
    rows = (
        [f"[`syntaxlm {name}`]({page_name(name)})", plain(_first_sentence(parser))]
        for name, parser in all_commands().items()
    )
    return f"# Commands\n\n{CONVENTIONS}\n\n" + table(["command", "what it does"], rows)


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
