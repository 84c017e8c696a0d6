"""Names of options in messages: --column on the command line, column=... in Python."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import contextmanager

_SETTINGS = "settings=syntaxlm.RegressionSettings({})"
_IN_PYTHON = {  # what is written in Python, where its name is not that of the flag
    "--allow-unmatched": "allow_unmatched=True",
    "--fold-unit": _SETTINGS.format("fold_unit={}"),
    "--frequency-column": "frequencies=syntaxlm.Frequencies.read(file, column={})",
    "--log-times": _SETTINGS.format("log=True"),
    "--max-time": "maximum={}",
    "--measure": "measures=[{}]",
    "--min-time": "minimum={}",
    "--picture-region": "regions={}",
    "--picture-width": "width={}",
    "--prediction": "predictions={}",
    "--predictor": _SETTINGS.format("predictors=[{}]"),
    "--region": "regions={}",
    "--sentence-column": "sentence={}",
    "syntaxlm train --resume": "syntaxlm.resume({})",
}
_is_command_line = False


@contextmanager
def command_line() -> Iterator[None]:
    """Write options in messages as flags while the block, a command, runs."""
    global _is_command_line
    before, _is_command_line = _is_command_line, True
    try:
        yield
    finally:
        _is_command_line = before


def option_name(flag: str, value: object = None) -> str:
    """Return an option for a message: "--column text" while a command runs, and "column='text'" in Python.

    Args:
        flag: the option of the command, with its hyphens.
        value: what to set it to; None: the message names no value.
    """
    if _is_command_line:
        return flag if value is None else f"{flag} {shlex.quote(str(value))}"
    plain = flag.removeprefix("--").replace("-", "_") + "={}"
    return _IN_PYTHON.get(flag, plain).format("..." if value is None else repr(value))
