"""The parser of the command line: cyclopts over the declared commands, with errors of one line."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING
from functools import cached_property
from pathlib import Path
from types import GenericAlias
from typing import Annotated, Any, Literal

from cyclopts import (
    App,
    CycloptsError,
    MissingArgumentError,
    Parameter,
    RepeatArgumentError,
    Token,
    UnknownCommandError,
    UnknownOptionError,
    UnusedCliTokensError,
)
from cyclopts import Group as Heading

from syntaxlm.cli.command import Command, Folder, Group, Run
from syntaxlm.core.declarations import Option
from syntaxlm.core.errors import InputError, closest_match, escaped, with_short_lines

RECIPES = ("recipe", "recipes", "student")  # options that take the name of a bundled recipe
OPTION = re.compile(r"--?[A-Za-z][^\s=]*(=|$)", re.DOTALL)
VALUE = "\0"  # before a word that starts with a hyphen but is no option; words of a command line do not contain it


class UsageError(Exception):
    """A command line that cannot be read. Its text is the message, in one line."""

    def __init__(self, program: str, message: str) -> None:
        text = escaped(with_short_lines(message.replace(VALUE, "")))
        super().__init__(f"{program}: error: {text} (see {program} --help)")


class _Function:
    """What cyclopts sees of a command: a function, whose signature is made when it is needed."""

    def __init__(self, command: Command) -> None:
        self.command = command
        self.__name__, self.__doc__, self.__annotations__ = command.name, "", dict[str, Any]()

    @cached_property
    def __signature__(self) -> inspect.Signature:
        parameters = (_parameter(option, self.command.headings) for option in self.command.options.values())
        return inspect.Signature(sorted(parameters, key=lambda parameter: parameter.kind))

    def __call__(self, **values: Any) -> int:
        return self.command.call(values)


def app_of(
    name: str,
    commands: Mapping[str, Run | Group],
    above: str = "",
    headings: Mapping[str, Sequence[str]] | None = None,
    **settings: Any,
) -> App:
    """Return the app of commands.

    Args:
        above: the words before the name.
        headings: the commands below each heading of the help; None: the help has one list of commands.
        settings: settings of the app, such as its help.
    """
    below: dict[str, Heading] = {}
    for place, (title, words) in enumerate((headings or {}).items()):
        below |= dict.fromkeys(words, Heading(title, sort_key=place))
    if headings:
        settings["group_commands"] = Heading("Options", sort_key=len(headings))
    order = list(below or commands)
    app = App(
        name=name, help_format="plaintext", version_flags="--version", print_error=False, exit_on_error=False,
        default_parameter=Parameter(negative_iterable=(), show_default=False), **settings,
    )  # fmt: skip
    for word, command in commands.items():
        shown: dict[str, Any] = {"sort_key": order.index(word), "group": below.get(word)}
        if isinstance(command, Group):
            shown["help"], shown["help_epilogue"] = command.help, f"Example: {command.example}"
            app.command(app_of(word, command.commands, f"{above}{word} ", **shown))
        else:
            leaf = Command(above + word, command)
            shown["help"] = without_code_marks(f"{leaf.docstring.summary}\n\n{leaf.docstring.description}".strip())
            shown["help_epilogue"] = f"Example: {leaf.example}"
            app.command(app_of(word, {}, default_command=_Function(leaf), **shown))
    return app


def without_code_marks(text: str) -> str:
    """Return a text for a terminal, without the backticks around code."""
    return re.sub(r"`([^`\n]+)`", r"\1", text)


def _parameter(option: Option, headings: Sequence[str]) -> inspect.Parameter:
    """Return an option as the parameter of a function that cyclopts reads.

    cyclopts only finds the words of each option. The option converts and checks them, so any type is allowed.

    Args:
        headings: of the groups of options, in the order of the help.
    """
    hint: Any = _completed_by(option) | Any
    lists_choices = bool(option.choices) and all(f"`{choice}`" in option.help for choice in option.choices)
    settings: dict[str, Any] = {"converter": _texts, "show_choices": option.name not in RECIPES and not lists_choices}
    kind: Any = inspect.Parameter.KEYWORD_ONLY
    if option.shown.is_positional:
        kind = inspect.Parameter.VAR_POSITIONAL if option.is_list else inspect.Parameter.POSITIONAL_ONLY
    elif option.type is bool:
        hint, settings = bool | None, {}
        if option.default is False:
            settings = {"negative": "", "allow_repeating": True}
    elif option.is_list:
        hint = GenericAlias(tuple, (hint, ...)) | None
        if option.default is MISSING:
            settings["consume_multiple"] = (1, None)
    elif option.count > 1:
        hint = GenericAlias(tuple, (hint,) * option.count) | None
    metavar = option.shown.metavar or ("CHOICE" if option.choices else None)
    if not option.shown.is_positional:
        settings["group"] = Heading(option.heading, sort_key=headings.index(option.heading))
    parameter = Parameter(name=option.names, help=without_code_marks(option.help), metavar=metavar, **settings)
    default = inspect.Parameter.empty if kind is inspect.Parameter.VAR_POSITIONAL else None
    return inspect.Parameter(option.name, kind, default=default, annotation=Annotated[hint, parameter])


def _completed_by(option: Option) -> Any:
    """Return the type from which cyclopts takes the choices of an option, and whether names of files complete it."""
    if option.name in RECIPES:
        from syntaxlm.training.recipe_files import recipe_names

        return Literal[tuple(recipe_names())]
    if option.choices:
        return Literal[option.choices]
    return Path if option.shown.use in ("input", "output") else str


def _texts(_: Any, tokens: Sequence[Token]) -> list[str]:
    return [token.value.removeprefix(VALUE) for token in tokens]


def _value(option: Option, texts: Any) -> Any:
    """Return the value of an option. Raises InputError."""
    if option.type is bool:
        return texts
    if option.is_list and option.shown.is_positional:
        texts = [text for each in texts for text in each]
    values = [_read(option, text) for text in texts]
    return values if option.is_list else tuple(values) if option.count > 1 else values[0]


def _read(option: Option, text: str) -> Any:
    if text == "-" and option.shown.use == "output" and option.mark(Folder) is None:  # standard output
        return None
    if not option.choices:
        return option.read(text)
    if text not in option.choices:
        problem = _with_closest_match(repr(text), text, option.choices)
        raise InputError(f"invalid choice: {problem} (choose from {', '.join(option.choices)})")
    return text


def parse(app: App, words: Sequence[str]) -> tuple[Command, dict[str, Any]] | None:
    """Return the command that the words of a command line name, with the values of its options.

    None: the words asked for help or for the version, which is printed. Raises UsageError.
    """
    marked = [VALUE + word if _is_value(word) else word for word in words]
    for leaf in app.parse_commands(marked)[1]:
        if isinstance(leaf.default_command, _Function):
            leaf.usage = f"Usage: {leaf.default_command.command.usage}"
    try:
        function, bound, _ = app.parse_args(marked)
    except CycloptsError as error:
        raise UsageError(" ".join([*app.name, *(error.command_chain or ())]), _message(error)) from None
    if not isinstance(function, _Function):
        with bound.arguments["console"].capture() as printed:  # rich ends the program if the reader of a pipe has gone
            function(*bound.args, **bound.kwargs)
        sys.stdout.write(printed.get())
        return None
    return function.command, _values(function.command, bound.arguments, f"{app.name[0]} {function.command.name}")


def _values(command: Command, given: Mapping[str, Any], program: str) -> dict[str, Any]:
    """Return the values of options from their words. Raises UsageError."""
    values = {}
    for name, texts in given.items():
        option = command.options[name]
        try:
            values[name] = _value(option, texts)
        except InputError as error:
            raise UsageError(program, f"argument {'/'.join(option.names)}: {error}") from None
    required = [option for option in command.options.values() if option.default is MISSING]
    if missing := ["/".join(option.names) for option in required if option.name not in given]:
        raise UsageError(program, f"the following arguments are required: {', '.join(missing)}")
    if values.pop("json", False):
        if "format" in values:
            raise UsageError(program, "--json and --format: expected one of them, once")
        values["format"] = "json"
    return values


def _is_value(word: str) -> bool:
    """Return whether a word that starts with a hyphen is a value: "-", or a sentence such as "- he said".

    Numbers are values without a mark.
    """
    is_number = re.fullmatch(r"-[.\d]+(e[-+]?\d+)?", word, re.IGNORECASE)
    return word.startswith("-") and word != "--" and not OPTION.match(word) and not is_number


def _message(error: CycloptsError) -> str:
    """Return what is wrong with a command line."""
    match error:
        case UnknownOptionError():
            return _unknown_option(error.token.keyword or error.token.value, error)
        case UnknownCommandError(unused_tokens=[word, *_]) if word.startswith("-"):
            return _unknown_option(word, error)
        case UnknownCommandError(unused_tokens=[word, *_]):
            return f"unknown command {_with_closest_match(repr(word), word, error.app or ())}"
        case UnusedCliTokensError(unused_tokens=[word, *_]):
            return f"unexpected argument {word!r}{_repetition(word, error)}"
        case RepeatArgumentError(argument=argument, token=token):
            first = argument.tokens[0].keyword if argument else token.keyword
            return f"{first} and {token.keyword}: expected one of them, once"
        case MissingArgumentError(argument=argument, keyword=name) if argument:
            value = argument.parameter.metavar
            return (
                f"{name}: the value is missing; expected {name} {value}, or {name}={value} if it starts with a hyphen"
            )
    return str(error)


def _repetition(word: str, error: CycloptsError) -> str:
    """Return advice if a word follows the value of an option that may be repeated."""
    words = error.root_input_tokens or []
    function = error.app.default_command if error.app else None
    if not isinstance(function, _Function) or word not in words[2:]:
        return ""
    place = words.index(word, 2)
    flag, value = words[place - 2 : place]
    if not any(option.is_list and flag in option.names for option in function.command.options.values()):
        return ""
    return f"; for several values, repeat the option: {flag} {value} {flag} {word}"


def _unknown_option(word: str, error: CycloptsError) -> str:
    name = word.partition("=")[0]
    app = error.app
    known = app.assemble_argument_collection() if app and app.default_command else ()
    return _with_closest_match(f"unrecognized option {name}", name, [name for each in known for name in each.names])


def _with_closest_match(text: str, word: str, known: Iterable[str]) -> str:
    """Return a text with the known word that is most similar to an unknown one."""
    advice = closest_match(word, list(known))
    return f"{text}; {advice[0].lower()}{advice[1:]}" if advice else text
