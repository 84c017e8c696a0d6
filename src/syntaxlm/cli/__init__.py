"""The commands: parse arguments, call the library, print.

Each command is a function (see `syntaxlm.cli.command`), which imports what is slow to import when it is called.
"""

from __future__ import annotations

import io
import os
import re
import shlex
import signal
import sys
import threading
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from types import FrameType
from typing import Any, NoReturn

from cyclopts import App

from syntaxlm.cli import data, draw, evaluate, generate, models, parse, score, serve, train
from syntaxlm.cli.app import UsageError, app_of
from syntaxlm.cli.app import parse as parse_words
from syntaxlm.cli.command import Command, Group, Run, leaves
from syntaxlm.cli.completion import completion
from syntaxlm.cli.output import WRONG_INPUT, print_reading
from syntaxlm.core.errors import InputError, InputWarning
from syntaxlm.core.files import system_error
from syntaxlm.core.option_names import command_line
from syntaxlm.core.progress import set_quiet
from syntaxlm.core.reading import collected
from syntaxlm.core.run_head import running_command
from syntaxlm.core.systems import is_closed_pipe
from syntaxlm.core.version import VERSION


def named(*commands: Run) -> dict[str, Run]:
    """Return commands by the names of their functions."""
    return {command.__name__.replace("_", "-"): command for command in commands}


EVALUATIONS = (
    evaluate.perplexity, evaluate.parse, evaluate.trees, evaluate.agreement, evaluate.boundaries, evaluate.pairs,
    evaluate.suites, evaluate.completion, evaluate.reading_times, evaluate.significance, evaluate.logic,
    evaluate.classifier,
)  # fmt: skip
COMMANDS: Mapping[str, Run | Group] = {  # in the order of the help
    **named(
        parse.parse, score.score, score.items, generate.generate, draw.draw, serve.serve, draw.report, data.inspect
    ),
    "evaluate": Group(
        "Evaluate models and files of trees.",
        "syntaxlm evaluate parse MODEL treebank.mrg",
        named(*EVALUATIONS),
    ),
    **named(train.train, train.compare, train.focus),
    "tune": Group(
        "Train add-ons for a model.",
        "syntaxlm tune cache MODEL valid.txt",
        {"cache": train.tune_cache, "stops": train.tune_stops},
    ),
    **named(models.average, models.combine, models.rerank, draw.grammar),
    "models": Group(
        "List and describe models, and exchange them with the Hugging Face hub and the library transformers.",
        "syntaxlm models list runs",
        {
            "list": models.list_models,
            "info": models.describe_model,
            **named(models.download, models.push, models.export),
        },
    ),
    "recipes": Group(
        "List the bundled recipes, or print one.",
        "syntaxlm recipes list",
        {"list": models.list_recipes, "show": models.show_recipe},
    ),
    "data": Group(
        "Prepare text and treebanks for training.",
        "syntaxlm data sentences novels/*.txt -o train.txt",
        named(data.toy, data.text8, data.words, data.tags, data.trees, data.sentences, data.logic, data.next_sentence),
    ),
    "ngram": Group(
        "Exchange n-gram models with other programs, as ARPA files.",
        "syntaxlm ngram to-arpa MODEL -o model.arpa",
        named(models.to_arpa, models.from_arpa),
    ),
    **named(train.quickstart, completion),
}

COMMAND_HEADINGS = {  # of the commands in the help
    "Use models": ("parse", "score", "items", "generate", "draw", "serve", "grammar", "models"),
    "Evaluate": ("evaluate", "report", "rerank"),
    "Train": ("quickstart", "train", "compare", "focus", "tune", "average", "combine", "recipes"),
    "Prepare and exchange data": ("inspect", "data", "ngram"),
    "Set up": ("completion",),
}
NO_SETTINGS = "this command does not take recipe settings"
INTERRUPTED = 128 + signal.SIGINT


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit code.

    0: success; 1: the input is correct, but runs of a comparison or shards of a job failed; 2: wrong input; 128 + the
    number of the signal that ended the command, including a training run that saved and stopped.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):  # the same bytes on every system
        sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace", newline="\n")
    words = sys.argv[1:] if arguments is None else arguments
    try:
        with command_line(), _warnings_printed("-q" in words or "--quiet" in words), _exiting_on_signals():
            code = _run(words)
        _flush()
    except UsageError as error:
        print(error, file=sys.stderr)
        return WRONG_INPUT
    except InputError as error:
        print(f"syntaxlm: error: {error}", file=sys.stderr)
        if hint := inspection_hint(str(error), words):
            print(f"syntaxlm: {hint}", file=sys.stderr)
        return WRONG_INPUT
    except KeyboardInterrupt:
        print("syntaxlm: interrupted", file=sys.stderr)
        return INTERRUPTED
    except OSError as error:
        if error.filename is not None:  # for instance, a folder above it may not be entered
            print(f"syntaxlm: error: {system_error(error.filename, 'opened', error)}", file=sys.stderr)
            return WRONG_INPUT
        if not is_closed_pipe(error):  # all other writing raises InputError
            print(f"syntaxlm: error: standard output: {error.strerror or error}", file=sys.stderr)
            sys.stdout = None  # otherwise the interpreter tries again when it exits
            return WRONG_INPUT
        # The reader closed the pipe, as `head` does.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return code


_DATA_PLACE = re.compile(r"(?P<file>.+?)(?:, (?:line|sentence|row) [\d,]+|: found )", re.DOTALL)
_NOT_INSPECTED = (".yaml", ".yml", ".safetensors", ".svg", ".pdf", ".png", ".html")  # recipes, weights and pictures


def inspection_hint(message: str, arguments: Sequence[str]) -> str:
    """Return the advice to look at a file of data that an error names; "" if it names none.

    Args:
        message: an error, which starts with the place of the fault.
        arguments: the words of the command, with the name of the file among them.
    """
    place = _DATA_PLACE.match(message)
    name = place["file"] if place else ""
    is_data = name in arguments and os.path.isfile(name) and not name.endswith(_NOT_INSPECTED)
    if not is_data or arguments[0] == "inspect":
        return ""
    return f"to see how this file is read: syntaxlm inspect {shlex.quote(name)}"


def _flush() -> None:
    if sys.stdout is not None:  # None: closed before the start
        sys.stdout.flush()


def _run(words: Sequence[str]) -> int:
    # Removed first: a setting of a recipe is no option of the command.
    rest, overrides = split_overrides(words)
    app = build_app()
    names, apps, further = app.parse_commands(rest)
    if names and apps[-1].default_command is None and not further:  # a command with commands below it
        app.help_print(rest, console=app.error_console)
        return WRONG_INPUT
    parsed = parse_words(app, rest)
    if parsed is None:
        return 0
    command, values = parsed
    if overrides and not command.takes_overrides:
        name = f"--{overrides[0][0]}"
        raise UsageError(f"syntaxlm {command.name}", f"unrecognized option {name}; {NO_SETTINGS}")
    set_quiet(values.pop("quiet", False))
    try:
        with collected(print_reading), running_command(["syntaxlm", *words]):
            return command.call({**values, "overrides": overrides})
    finally:
        set_quiet(False)


@contextmanager
def _exiting_on_signals() -> Iterator[None]:
    """Make SIGTERM and SIGHUP raise an exception, so that temporary files are removed."""
    numbers = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    in_main_thread = threading.current_thread() is threading.main_thread()
    # nohup ignores one.
    numbers = [number for number in numbers if in_main_thread and signal.getsignal(number) == signal.SIG_DFL]

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

    Args:
        quiet: print no warnings.
    """

    printed: set[str] = set()

    def show(message: Warning | str, category: type[Warning], *place: Any, **further: Any) -> None:
        if issubclass(category, InputWarning):
            if str(message) not in printed:
                printed.add(str(message))
                print(f"syntaxlm: warning: {message}", file=sys.stderr)
        else:
            others(message, category, *place, **further)

    with warnings.catch_warnings():
        if quiet:
            warnings.simplefilter("ignore")
        else:
            warnings.simplefilter("always", InputWarning)
        others, warnings.showwarning = warnings.showwarning, show
        yield


@cache
def build_app() -> App:
    """Return the app of all commands."""
    return app_of(
        "syntaxlm",
        COMMANDS,
        headings=COMMAND_HEADINGS,
        help="Language models that learn syntax: train them on plain text, and parse and score text with them.",
        help_epilogue='Example: syntaxlm parse MODEL "the old cat sleeps"\nHelp on a command: syntaxlm parse --help',
        version=f"syntaxlm {VERSION}",
    )


@cache
def all_commands() -> Mapping[str, Command]:
    """Return the commands that do something by their words, such as "evaluate parse", in the order of the help."""
    return {command.name: command for command in leaves(COMMANDS)}


def split_overrides(arguments: Sequence[str]) -> tuple[list[str], list[tuple[str, str]]]:
    """Separate arguments of the form --a.b 1 or --c.d=2 from the others. Returns the others, and these as pairs.

    Raises InputError for an argument without a value or with an empty one, and for one that is given twice.
    """
    rest: list[str] = []
    pairs: list[tuple[str, str]] = []
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
        if not value.strip():  # it would be read as null, for instance if a variable of the shell is not set
            raise InputError(f"{name}: the value is empty; expected a value, or null for none")
        setting = name.removeprefix("--")
        if setting in dict(pairs):
            raise InputError(f"{name}: is given twice; expected one value")
        pairs.append((setting, value))
    return rest, pairs
