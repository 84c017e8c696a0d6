"""Completion scripts: valid in their shells, with correct completions."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from syntaxlm import cli
from syntaxlm.cli.completion import completion_script

SHELLS = ("bash", "zsh", "fish")
bash = pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")


@pytest.fixture(scope="module")
def scripts(tmp_path_factory):
    folder = tmp_path_factory.mktemp("completion")
    for shell in SHELLS:
        (folder / shell).write_text(completion_script(shell))
    return folder


@pytest.mark.long
@pytest.mark.parametrize("shell", SHELLS)
def test_the_script_has_valid_syntax(scripts, shell):
    if shutil.which(shell) is None:
        pytest.skip(f"needs {shell}")
    subprocess.run([shell, "-n", scripts / shell], check=True)


@pytest.mark.parametrize("shell", SHELLS)
def test_the_script_names_every_command_and_every_option(scripts, shell):
    text = (scripts / shell).read_text()
    for name, command in cli.all_commands().items():
        assert name.split()[-1] in text
        for option in command.options.values():
            if not option.shown.is_positional:
                assert all((each.lstrip("-") if shell == "fish" else each) in text for each in option.names)


@bash
@pytest.mark.parametrize(
    ("line", "found"),
    [
        (["pa"], {"parse"}),
        (["evaluate", "per"], {"perplexity"}),
        (["evaluate", "parse", "model", "--dec"], {"--decoder"}),
        (
            ["parse", "model", "--format", ""],
            {"brackets", "conllu", "json", "latex", "svg", "tree", "tsv", "csv", "parquet"},
        ),
        (["train", "prpn-to"], {"prpn-toy"}),
        (["completion", "z"], {"zsh"}),
        (["--ver"], {"--version"}),
        (["score", "model", "--cont"], {"--context", "--contractions"}),
        (["recipes", "show", "logic/on-lstm-"], {"logic/on-lstm-tiny"}),
    ],
    ids=lambda words: " ".join(words if isinstance(words, list) else sorted(words)),
)
def test_bash_completes_commands_and_options(scripts, line, found):
    words = " ".join(f"'{word}'" for word in ["syntaxlm", *line])
    code = (
        f"source {scripts / 'bash'}; COMP_WORDS=({words}); COMP_CWORD={len(line)}; _syntaxlm;"
        ' ((${#COMPREPLY[@]})) && printf "%s\\n" "${COMPREPLY[@]}"; complete -p syntaxlm'
    )
    lines = subprocess.run(["bash", "-u", "-c", code], capture_output=True, text=True, check=True).stdout.splitlines()
    assert lines.pop() == "complete -o bashdefault -F _syntaxlm syntaxlm"
    assert set(lines) == found


def test_the_command_writes_the_script(capsys, scripts, tmp_path):
    assert cli.main(["completion", "bash"]) == 0
    assert capsys.readouterr().out == (scripts / "bash").read_text()
    assert cli.main(["completion", "fish", "-o", str(tmp_path / "syntaxlm.fish")]) == 0
    assert (tmp_path / "syntaxlm.fish").read_text() == (scripts / "fish").read_text()
