"""`completion`: completion scripts for shells."""

from __future__ import annotations

from typing import Annotated, Literal

from syntaxlm.cli.output import OutputFile
from syntaxlm.core.declarations import Argument
from syntaxlm.core.files import text_output

Shell = Literal["bash", "zsh", "fish"]


def completion(
    shell: Annotated[Shell, Argument("SHELL", use="value")],
    output: OutputFile | None = None,
) -> None:
    """Print a completion script for a shell.

    The script completes commands, options, choices, recipe names and file names. Write it to this place:

    - bash: `~/.local/share/bash-completion/completions/syntaxlm`
    - zsh: a file `_syntaxlm` in a folder of `$fpath`
    - fish: `~/.config/fish/completions/syntaxlm.fish`

    Args:
        shell: Shell that reads the script: `bash`, `zsh` or `fish`.
        output: Write the script to this file, or to standard output (`-`, the default).

    Examples:
        syntaxlm completion bash -o ~/.local/share/bash-completion/completions/syntaxlm
    """
    with text_output(output) as file:
        file.write(completion_script(shell))


def completion_script(shell: Shell) -> str:
    """Return the completion script for "bash", "zsh" or "fish"."""
    from syntaxlm.cli import build_app

    script: str = build_app().generate_completion(prog_name="syntaxlm", shell=shell)
    # bash completes the names of files where nothing else fits, such as those of recipes of one's own
    return script.replace("complete -F ", "complete -o bashdefault -F ")
