"""Checks the outputs of a command before it reads or writes anything."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from syntaxlm.app.cli.parser import Output, Parser
from syntaxlm.core.errors import InputError
from syntaxlm.core.files import holds_model, refuse_overwriting, same_file


def check_outputs(parser: Parser, options: argparse.Namespace) -> None:
    """Raise InputError if a command would overwrite one of its inputs, a file of a model folder, a user's files in an
    output folder, or one of its other outputs.
    """
    inputs = list(_inputs(parser, options))
    written: list[Path] = []
    for output in parser.outputs:
        path = getattr(options, output.action.dest)
        if path is None:
            continue
        if output.use == "file":
            refuse_overwriting(path, inputs)
        else:
            _check_folder(path, output, inputs)
        if any(same_file(path, other) for other in written):
            raise InputError(f"{path}: is given for two outputs; expected a separate file for each output")
        written.append(path)


def _inputs(parser: Parser, options: argparse.Namespace) -> Iterator[str | Path]:
    for action in parser.inputs:
        value: Any = getattr(options, action.dest, None)
        for one in value if isinstance(value, list | tuple) else [value]:
            if one is not None:
                yield one


def _check_folder(folder: Path, output: Output, inputs: Iterable[str | Path]) -> None:
    for name in output.files:
        refuse_overwriting(folder / name, inputs)
    if not folder.is_dir():
        return
    visible = sorted(one for one in folder.iterdir() if not one.name.startswith("."))
    advice = "Name a new folder, or move the files away."
    if output.use == "empty" and visible:
        raise InputError(f"{folder}: is not empty; found {_named(visible)}. {advice}")
    if output.use == "run" and not holds_model(folder):
        files = [one for one in visible if not one.is_dir()]
        if files:
            raise InputError(f"{folder}: contains files that do not belong to a run: {_named(files)}. {advice}")
    if output.use == "new files" or (output.use == "runs" and not any(folder.glob("*/*/recipe.yaml"))):
        present = [folder / name for name in output.files if (folder / name).exists()]
        if present:
            raise InputError(f"{folder}: already contains {_named(present)}. {advice}")
    if output.marker is not None and visible and not (folder / output.marker).exists():
        raise InputError(
            f"{folder}: contains files that this command did not write: {_named(visible)} ({output.marker} is missing)."
            f" {advice}"
        )


def _named(paths: list[Path]) -> str:
    return ", ".join(path.name for path in paths[:3]) + (", ..." if len(paths) > 3 else "")
