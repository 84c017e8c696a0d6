"""`completion`: completion scripts for shells."""

from __future__ import annotations

from typing import Annotated, Literal

from syntaxlm.cli.output import OutputFile
from syntaxlm.cli.parser import Parser
from syntaxlm.core.files import text_output
from syntaxlm.core.options import Argument

RECIPES = ("recipe", "recipes", "student")  # arguments that take the name of a bundled recipe


def completion(
    shell: Annotated[Literal["bash", "zsh", "fish"], Argument("SHELL", use="value")],
    output: OutputFile | None = None,
) -> None:
    """Print a completion script for a shell.

    Print a script that completes commands, options, choices, recipe names and file names. bash: write it to
    ~/.local/share/bash-completion/completions/syntaxlm. zsh: to a file _syntaxlm in a folder of $fpath. fish: to
    ~/.config/fish/completions/syntaxlm.fish.

    shell: bash, zsh or fish
    output: the script
    example: syntaxlm completion bash -o ~/.local/share/bash-completion/completions/syntaxlm
    """
    from syntaxlm.cli import build_parser

    with text_output(output) as file:
        file.write(completion_script(build_parser(), shell))


def completion_script(parser: Parser, shell: str) -> str:
    """Return the completion script of a parser for "bash", "zsh" or "fish"."""
    import shtab

    from syntaxlm.training.recipe_files import recipe_names

    names = " ".join(recipe_names())
    recipes = {
        "bash": "_syntaxlm_recipes",
        "zsh": "_syntaxlm_recipes",
        "fish": f"(string split ' ' '{names}'; __fish_complete_path (commandline -ct))",
        "preamble": {
            "bash": f'_syntaxlm_recipes() {{ compgen -W "{names}" -- "$1"; compgen -f -- "$1"; }}',
            "zsh": f"_syntaxlm_recipes() {{ compadd {names}; _files; }}",
        },
    }
    for leaf in parser.leaves():
        for action in (*leaf.inputs, *(action for action, _ in leaf.outputs)):
            action.complete = recipes if action.dest in RECIPES else shtab.FILE  # type: ignore[attr-defined]
    script: str = shtab.complete(parser, shell)
    return script
