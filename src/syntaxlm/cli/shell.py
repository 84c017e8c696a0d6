"""`completion`: completion scripts for shells, from the parser of the command line."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from syntaxlm.cli.options import add_output, text_output
from syntaxlm.cli.parser import Parser

RECIPES = ("recipe", "recipes")  # destinations of arguments that take the name of a shipped recipe


def add_completion_script(commands: Any) -> None:
    parser = commands.add_parser(
        "completion",
        help="print a completion script for a shell",
        description="Print a script that completes commands, options, choices, recipe names and file names. bash: write"
        " it to ~/.local/share/bash-completion/completions/syntaxlm. zsh: to a file _syntaxlm in a folder of $fpath."
        " fish: to ~/.config/fish/completions/syntaxlm.fish.",
        epilog="example: syntaxlm completion bash -o ~/.local/share/bash-completion/completions/syntaxlm",
    )
    parser.add_argument("shell", choices=list(SCRIPTS), metavar="SHELL", help="bash, zsh or fish")
    add_output(parser, "the script")
    parser.set_defaults(run=_completion)


def _completion(options: argparse.Namespace) -> None:
    from syntaxlm.cli import build_parser

    with text_output(options.output) as file:
        file.write(completion_script(build_parser(), options.shell))


def completion_script(parser: Parser, shell: str) -> str:
    """The completion script of a parser for "bash", "zsh" or "fish"."""
    return SCRIPTS[shell](list(_commands(parser, ())))


@dataclass(frozen=True)
class _Command:
    """What can follow a command. name: of the command, "" for the program itself.

    words: subcommands or values of its argument. options: names. Both have their help. choices: values by option.
    """

    name: str
    words: dict[str, str]
    options: dict[str, str]
    choices: dict[str, list[str]]


def _commands(parser: Parser, path: tuple[str, ...]) -> Iterable[_Command]:
    words: dict[str, str] = {}
    options: dict[str, str] = {}
    choices: dict[str, list[str]] = {}
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            words |= {one.dest: _first(one.help) for one in action._choices_actions}
        elif not action.option_strings:
            values = _recipe_names() if action.dest in RECIPES else map(str, action.choices or ())
            words |= dict.fromkeys(values, "")
        elif action.help is not argparse.SUPPRESS:
            options |= dict.fromkeys(action.option_strings, _first(action.help))
            if action.choices:
                choices |= {name: list(map(str, action.choices)) for name in action.option_strings}
    yield _Command(" ".join(path), words, options, choices)
    for name, one in parser.commands.items():
        yield from _commands(one, (*path, name))


def _first(text: str | None) -> str:
    """The start of a help text, up to a colon, a semicolon or a bracket."""
    for end in (": ", "; ", " ("):
        text = (text or "").partition(end)[0]
    return text or ""


def _recipe_names() -> list[str]:
    from syntaxlm.training.recipe_files import recipe_names

    return recipe_names()


_FIND_COMMAND = """\
  for ((i = {first}; i < {current}; i++)); do
    case "$command ${{{words}[i]}}" in
      {known}) command="${{command:+$command }}${{{words}[i]}}" ;;
    esac
  done
"""


def _find_command(commands: list[_Command], first: int, current: str, words: str) -> str:
    """Shell code for bash and zsh that assembles the name of the command on the line."""
    paths = [one.name.rpartition(" ") for one in commands if one.name]
    known = " | ".join(shlex.quote(f"{above} {name}") for above, _, name in paths)
    return _FIND_COMMAND.format(first=first, current=current, words=words, known=known)


def _bash(commands: list[_Command]) -> str:
    def words(names: Iterable[str]) -> str:
        return f"words={shlex.quote(' '.join(names))}"

    choices = [
        f"    {shlex.quote(f'{one.name} {name}')}) {words(values)} ;;"
        for one in commands
        for name, values in one.choices.items()
    ]
    rest = [
        f'    {shlex.quote(one.name)}) if [[ "$current" == -* ]]; then {words(one.options)};'
        f" else {words(one.words)}; fi ;;"
        for one in commands
    ]
    return "\n".join(
        [
            "# Completion of syntaxlm for bash, made by: syntaxlm completion bash",
            "_syntaxlm() {",
            '  local i command="" words="" current="${COMP_WORDS[COMP_CWORD]}" before="${COMP_WORDS[COMP_CWORD-1]}"',
            _find_command(commands, 1, "COMP_CWORD", "COMP_WORDS").rstrip(),
            '  case "$command $before" in',
            *choices,
            '    *) case "$command" in',
            *rest,
            "    esac ;;",
            "  esac",
            '  COMPREPLY=($(compgen -W "$words" -- "$current"))',
            "}",
            "complete -o default -F _syntaxlm syntaxlm",
            "",
        ]
    )


def _zsh(commands: list[_Command]) -> str:
    def described(values: Iterable[str]) -> str:
        texts = values if isinstance(values, dict) else {}
        items = (shlex.quote(f"{name}:{texts[name]}" if texts.get(name) else name) for name in values)
        return f"found=({' '.join(items)})"

    choices = [
        f"    {shlex.quote(f'{one.name} {name}')}) {described(values)}; _describe value found; return ;;"
        for one in commands
        for name, values in one.choices.items()
    ]
    rest = [
        f'    {shlex.quote(one.name)}) if [[ "$PREFIX" == -* ]]; then {described(one.options)};'
        f" else {described(one.words)}; fi ;;"
        for one in commands
    ]
    return "\n".join(
        [
            "#compdef syntaxlm",
            "# Completion of syntaxlm for zsh, made by: syntaxlm completion zsh",
            "_syntaxlm() {",
            '  local i command=""',
            "  local -a found",
            _find_command(commands, 2, "CURRENT", "words").rstrip(),
            '  case "$command ${words[CURRENT-1]}" in',
            *choices,
            "  esac",
            '  case "$command" in',
            *rest,
            "  esac",
            '  if [[ "$PREFIX" == -* ]]; then',
            "    _describe -o option found",
            "  else",
            "    (( $#found )) && _describe argument found",
            "    _files",
            "  fi",
            "}",
            'if [[ "$funcstack[1]" == "_syntaxlm" ]]; then _syntaxlm "$@"; else compdef _syntaxlm syntaxlm; fi',
            "",
        ]
    )


def _fish(commands: list[_Command]) -> str:
    lines = [
        "# Completion of syntaxlm for fish, made by: syntaxlm completion fish",
        "function __syntaxlm_command",
        "  set -l found",
        "  for word in (commandline -opc)[2..-1]",
        '    switch (string join " " -- $found $word)',
        f"      case {' '.join(_fish_quoted(one.name) for one in commands if one.name)}",
        "        set -a found $word",
        "    end",
        "  end",
        '  test "$found" = "$argv[1]"',
        "end",
    ]
    for one in commands:
        start = f"complete -c syntaxlm -n {_fish_quoted(f'__syntaxlm_command {_fish_quoted(one.name)}')}"
        for word, text in one.words.items():
            lines.append(f"{start} -a {_fish_quoted(word)} -d {_fish_quoted(text)}")
        for name, text in one.options.items():
            kind = "-l" if name.startswith("--") else "-s"
            values = f" -x -a {_fish_quoted(' '.join(one.choices[name]))}" if name in one.choices else ""
            lines.append(f"{start} {kind} {name.lstrip('-')}{values} -d {_fish_quoted(text)}")
    return "\n".join([*lines, ""])


def _fish_quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


SCRIPTS = {"bash": _bash, "zsh": _zsh, "fish": _fish}
