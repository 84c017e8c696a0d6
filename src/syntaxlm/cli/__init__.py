"""The commands: parse arguments, call the library, print. One module per command, or for a few that belong together."""

from __future__ import annotations

import argparse
import io
import os
import signal
import sys
import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any, NoReturn

import syntaxlm
from syntaxlm.cli.average import add_average
from syntaxlm.cli.data import add_data
from syntaxlm.cli.draw import add_draw, add_report
from syntaxlm.cli.evaluate import add_evaluate
from syntaxlm.cli.generate import add_generate
from syntaxlm.cli.grammar import add_grammar
from syntaxlm.cli.logic import add_logic
from syntaxlm.cli.ngram import add_ngram
from syntaxlm.cli.parse import add_parse
from syntaxlm.cli.quickstart import add_quickstart
from syntaxlm.cli.rerank import add_rerank
from syntaxlm.cli.score import add_score
from syntaxlm.cli.train import add_compare, add_focus, add_train
from syntaxlm.cli.tune import add_tune
from syntaxlm.errors import InputError, InputWarning, OldSettingWarning
from syntaxlm.old_settings import rename_old_options

# In the order of the help.
COMMANDS = (
    add_train, add_compare, add_focus, add_evaluate, add_tune, add_parse, add_average, add_score, add_rerank,
    add_generate, add_grammar, add_draw, add_report, add_data, add_logic, add_ngram, add_quickstart,
)  # fmt: skip


class _Parser(argparse.ArgumentParser):
    """Faults in one line, not after a page of usage; no shortened options (--seed is not --seeds).

    Options may stand between a command's arguments, `parse DIR --layer 2 FILE`, also where FILE may be left out.
    """

    def __init__(self, **settings: Any) -> None:
        super().__init__(allow_abbrev=False, **settings)
        self._intermixing = False

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        if self._subparsers is not None or self._intermixing:
            return super().parse_known_args(args, namespace)
        self._intermixing = True  # what is called below calls this again
        try:
            return self.parse_known_intermixed_args(args, namespace)
        finally:
            self._intermixing = False

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: error: {message} (see {self.prog} --help)\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command; returns the exit code: 0, or 2 where what the user gave is wrong."""
    if isinstance(sys.stdout, io.TextIOWrapper):  # trees and figures are text as UTF-8, wherever they go
        sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")
    parser = build_parser()
    try:
        with _warnings_printed(), _exiting_on_signals():
            # Taken out first: argparse would take the value of an option that it does not know for the RECIPE.
            rest, overrides = _overrides(rename_old_options(sys.argv[1:] if arguments is None else arguments))
            options = parser.parse_args(rest)
            if overrides and not getattr(options, "takes_overrides", False):
                parser.error(f"unrecognized arguments: --{overrides[0][0]}")
            options.overrides = overrides
            options.run(options)
        sys.stdout.flush()
    except InputError as error:
        print(f"syntaxlm: error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("syntaxlm: interrupted", file=sys.stderr)
        return 130
    except OSError as error:
        if not isinstance(error, BrokenPipeError):  # standard output is all that is written unguarded
            print(f"syntaxlm: error: standard output: {error.strerror or error}", file=sys.stderr)
            sys.stdout = None  # or the interpreter would try again at its end
            return 2
        # Whoever read our output has enough.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


@contextmanager
def _exiting_on_signals() -> Iterator[None]:
    """Makes SIGTERM and a closed terminal end the program by an exception, so that temporary files are removed."""
    numbers = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    if threading.current_thread() is not threading.main_thread():
        numbers = []
    numbers = [number for number in numbers if signal.getsignal(number) == signal.SIG_DFL]  # nohup ignores one

    def leave(number: int, frame: FrameType | None) -> NoReturn:
        raise SystemExit(128 + number)

    for number in numbers:
        signal.signal(number, leave)
    try:
        yield
    finally:
        for number in numbers:
            signal.signal(number, signal.SIG_DFL)


@contextmanager
def _warnings_printed() -> Iterator[None]:
    """Prints our own warnings as errors are printed, without a line of source code; others as Python prints them."""
    with warnings.catch_warnings():
        warnings.simplefilter("always", InputWarning)
        warnings.simplefilter("default", OldSettingWarning)  # once per text: a file may be read several times
        others = warnings.showwarning

        def tell(message: Warning | str, category: type[Warning], *place: Any, **further: Any) -> None:
            if issubclass(category, (InputWarning, OldSettingWarning)):
                print(f"syntaxlm: warning: {message}", file=sys.stderr)
            else:
                others(message, category, *place, **further)

        warnings.showwarning = tell
        yield


def build_parser() -> argparse.ArgumentParser:
    """All commands with their help."""
    parser = _Parser(
        prog="syntaxlm", description="Language models that learn syntax: train them on plain text, get trees."
    )
    parser.add_argument("--version", action="version", version=f"syntaxlm {syntaxlm.__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for add in COMMANDS:
        add(commands)
    return parser


def _overrides(arguments: Sequence[str]) -> tuple[list[str], list[tuple[str, str]]]:
    """The arguments without those of the form --a.b 1 or --c.d=2, and these as pairs. Raises InputError."""
    rest, pairs = [], []
    words = iter(arguments)
    for word in words:
        name, equals, value = word.partition("=")
        if not name.startswith("--") or "." not in name:
            rest.append(word)
            continue
        if not equals:
            following = next(words, None)
            if following is None:
                raise InputError(f"{word}: expected a value after it")
            value = following
        pairs.append((name.removeprefix("--"), value))
    return rest, pairs
