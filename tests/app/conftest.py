"""Commands run in the process of the test."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from syntaxlm.app import cli


@pytest.fixture
def run(capsys) -> Callable[..., tuple[int, str, str]]:
    """Runs a command; returns exit code, stdout, stderr."""

    def run(*words: object) -> tuple[int, str, str]:
        try:
            code = cli.main([str(word) for word in words])
        except SystemExit as end:
            code = end.code
        return code, *capsys.readouterr()

    return run


@pytest.fixture
def refused(run) -> Callable[..., str]:
    """Runs a command that must exit with code 2, no output and one message on stderr; returns the message."""

    def refused(*words: object) -> str:
        code, out, error = run(*words)
        assert (code, out) == (2, ""), error
        assert error.count("error:") == 1
        assert error.endswith("\n")
        return error

    return refused
