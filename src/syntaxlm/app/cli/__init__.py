"""The commands: parse arguments, call the library, print. One module per command, or for a few that belong together."""

from __future__ import annotations

import io
import os
import signal
import sys
import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from types import FrameType
from typing import Any, NoReturn

import syntaxlm
from syntaxlm.app.cli.average import add_average
from syntaxlm.app.cli.combine import add_combine
from syntaxlm.app.cli.data import add_data
from syntaxlm.app.cli.draw import add_draw, add_report
from syntaxlm.app.cli.evaluate import add_evaluate
from syntaxlm.app.cli.formats import choose_format
from syntaxlm.app.cli.generate import add_generate
from syntaxlm.app.cli.grammar import add_grammar
from syntaxlm.app.cli.guard import check_outputs
from syntaxlm.app.cli.models import add_models
from syntaxlm.app.cli.ngram import add_ngram
from syntaxlm.app.cli.parse import add_parse
from syntaxlm.app.cli.parser import Parser
from syntaxlm.app.cli.quickstart import add_quickstart
from syntaxlm.app.cli.recipes import add_recipes
from syntaxlm.app.cli.rerank import add_rerank
from syntaxlm.app.cli.score import add_score
from syntaxlm.app.cli.serve import add_serve
from syntaxlm.app.cli.shell import add_completion_script
from syntaxlm.app.cli.train import add_compare, add_focus, add_train
from syntaxlm.app.cli.tune import add_tune
from syntaxlm.core.errors import InputError, InputWarning
from syntaxlm.core.files import system_error

# In the order of the help.
COMMANDS = (
    add_parse, add_score, add_generate, add_draw, add_serve, add_report, add_evaluate, add_train, add_compare,
    add_focus, add_tune, add_average, add_combine, add_rerank, add_grammar, add_models, add_recipes, add_data,
    add_ngram, add_quickstart, add_completion_script,
)  # fmt: skip

WRONG_INPUT = 2
INTERRUPTED = 128 + signal.SIGINT


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit code.

    0: success; 1: the input is correct, but runs of a comparison or shards of a job failed; 2: wrong input; 128 + the
    number of the signal that ended the command, including a training run that saved and stopped.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):  # the output is UTF-8 on every system
        sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")
    words = sys.argv[1:] if arguments is None else arguments
    parser = build_parser()
    try:
        with _warnings_printed("-q" in words or "--quiet" in words), _exiting_on_signals():
            code = _run(parser, words)
        sys.stdout.flush()
    except InputError as error:
        print(f"syntaxlm: error: {error}", file=sys.stderr)
        return WRONG_INPUT
    except KeyboardInterrupt:
        print("syntaxlm: interrupted", file=sys.stderr)
        return INTERRUPTED
    except OSError as error:
        if error.filename is not None:  # for instance, a folder above it may not be entered
            print(f"syntaxlm: error: {system_error(error.filename, 'opened', error)}", file=sys.stderr)
            return WRONG_INPUT
        if not isinstance(error, BrokenPipeError):  # all other writing raises InputError
            print(f"syntaxlm: error: standard output: {error.strerror or error}", file=sys.stderr)
            sys.stdout = None  # otherwise the interpreter tries again when it exits
            return WRONG_INPUT
        # The reader closed the pipe, as `head` does.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return code


def _run(parser: Parser, words: Sequence[str]) -> int:
    # Removed first: argparse would read the value of an unknown option as the RECIPE.
    rest, overrides = split_overrides(words)
    options = parser.parse_args(rest)
    command: Parser = options.parser
    if not hasattr(options, "run"):  # a command with commands below it
        if command is parser:
            parser.print_help()
            return 0
        command.print_help(sys.stderr)
        return WRONG_INPUT
    if overrides and not getattr(options, "takes_overrides", False):
        command.error(f"unrecognized option --{overrides[0][0]}; this command does not take recipe settings")
    options.overrides = overrides
    if options.quiet:
        from syntaxlm.core.progress import set_quiet

        set_quiet(True)
    try:
        check_outputs(command, options)
        choose_format(options)
        return options.run(options) or 0
    finally:
        if options.quiet:
            set_quiet(False)


@contextmanager
def _exiting_on_signals() -> Iterator[None]:
    """Make SIGTERM and SIGHUP raise an exception, so that temporary files are removed."""
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
def _warnings_printed(quiet: bool) -> Iterator[None]:
    """Print syntaxlm's warnings like its errors, without a line of source code, and others as Python prints them.

    quiet: print no warnings.
    """
    with warnings.catch_warnings():
        if quiet:
            warnings.simplefilter("ignore")
            yield
            return
        warnings.simplefilter("always", InputWarning)
        others = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], *place: Any, **further: Any) -> None:
            if issubclass(category, InputWarning):
                print(f"syntaxlm: warning: {message}", file=sys.stderr)
            else:
                others(message, category, *place, **further)

        warnings.showwarning = show
        yield


@cache
def build_parser() -> Parser:
    """Return the parser of all commands. Parsing does not change it."""
    parser = Parser(
        prog="syntaxlm",
        description="Language models that learn syntax: train them on plain text, and parse and score text with them.",
        epilog='example: syntaxlm parse MODEL "the old cat sleeps". Help on a command: syntaxlm parse --help',
    )
    parser.add_argument("--version", action="version", version=f"syntaxlm {syntaxlm.__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    for add in COMMANDS:
        add(commands)
    for command in parser.leaves():
        command.add_argument(
            "-q", "--quiet", action="store_true", help="print no progress, notes or warnings on stderr"
        )
    return parser


def split_overrides(arguments: Sequence[str]) -> tuple[list[str], list[tuple[str, str]]]:
    """Separate arguments of the form --a.b 1 or --c.d=2 from the others. Returns the others, and these as pairs.

    Raises InputError for an argument without a value.
    """
    rest, pairs = [], []
    words = iter(arguments)
    for word in words:
        name, equals, value = word.partition("=")
        if not name.startswith("--") or "." not in name or " " in name:
            rest.append(word)
            continue
        if not equals:
            following = next(words, None)
            if following is None:
                raise InputError(f"{word}: the value is missing; expected {word} VALUE")
            value = following
        pairs.append((name.removeprefix("--"), value))
    return rest, pairs
