"""The parser of the command line: argparse with one-line errors, closest matches, and commands that are functions.

A command is a function. Its parameters are options (`syntaxlm.core.options`) or dataclasses of options. Its docstring
is its help: one line for the list of commands, the description, then the lines "name: help" with an example at the end.
"""

from __future__ import annotations

import argparse
import inspect
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple, NoReturn

from syntaxlm.core.errors import InputError, closest_match, escaped, with_short_lines
from syntaxlm.core.files import holds_model, refuse_overwriting, same_file, system_error
from syntaxlm.core.options import TRANSFORMERS, Needs, Option, Shown, help_texts, options_from, options_of

Run = Callable[..., "int | None"]

SUFFIXES = {
    ".txt": "text", ".json": "json", ".jsonl": "json", ".tsv": "tsv", ".csv": "csv", ".parquet": "parquet",
    ".tex": "latex", ".svg": "svg", ".html": "html", ".conllu": "conllu", ".md": "markdown", ".mrg": "brackets",
}  # fmt: skip
_SIGNED = 4096  # bytes of a file that may hold its signature
_ALSO_TRANSFORMERS = f". Also: a causal language model of the library transformers, {TRANSFORMERS}NAME"


@dataclass(frozen=True)
class Folder(Shown):
    """An option, by default -o, that names a folder that a command writes to.

    may_hold: what the folder may contain before. "run": no files, unless it is a run, for which the command itself
        raises an error; "runs": runs of the same command, which are resumed; "new files": anything except `files`.
    files: the files that the command writes into the folder.
    signature: a text near the start of each of `files` that the command wrote; other files of these names are an error.
    """

    metavar: str | None = "DIR"
    flags: tuple[str, ...] = ("-o", "--output")
    use: Literal["output"] = "output"
    may_hold: Literal["anything", "run", "runs", "nothing", "new files"] = "anything"
    files: tuple[str, ...] = ()
    signature: str = ""


class Group(NamedTuple):
    """Commands below a command. help: one line; description: the line by default."""

    help: str
    example: str
    commands: Mapping[str, Run]
    description: str | None = None


class Parser(argparse.ArgumentParser):
    """A parser with one-line errors that name the closest match.

    Options cannot be abbreviated: --seed is not --seeds. They may be placed between positional arguments,
    `parse MODEL --layer 2 TEXT`, even if TEXT is optional.
    inputs, outputs: the arguments that name files or folders, for `check_outputs` and completion; the outputs with the
        folder that they name, None for a file.
    needs: what the command needs of its models, by the argument that names them; all others may be of transformers.
    formats: the formats that the extension of the output file chooses, by extension.
    """

    def __init__(self, **settings: Any) -> None:
        super().__init__(allow_abbrev=False, **settings)
        self._intermixing = False
        self.inputs: list[argparse.Action] = []
        self.outputs: list[tuple[argparse.Action, Folder | None]] = []
        self.needs: dict[str, Needs] = {}
        self.formats: dict[str, str | None] | None = None
        self._declare: Callable[[], None] | None = None

    def add_commands(self, commands: Mapping[str, Run | Group]) -> None:
        """Add commands by name. What they take is declared when they are used, so that `--help` is quick."""
        below = self.add_subparsers(title="commands", metavar="COMMAND")
        for name, command in commands.items():
            if isinstance(command, Group):
                description = command.description or f"{command.help[0].upper()}{command.help[1:]}."
                example = f"example: {command.example}"
                parser = below.add_parser(name, help=command.help, description=description, epilog=example)
                parser._declare = partial(parser.add_commands, command.commands)
            else:
                summary = (inspect.getdoc(command) or " ").partition("\n")[0]
                parser = below.add_parser(name, help=summary[0].lower() + summary[1:].removesuffix("."))
                parser._declare = partial(parser._declare_command, command)

    def _declare_command(self, run: Run) -> None:
        paragraphs = [re.sub(r"\s+", " ", text) for text in (inspect.getdoc(run) or "").split("\n\n")]
        self.description = paragraphs[1] if len(paragraphs) > 1 else None
        self.epilog = f"example: {help_texts(run).get('example', '')}"
        for option in options_of(run).values():
            self.add_option(option)
        self.add_argument("-q", "--quiet", action="store_true", help="print no progress, notes or warnings on stderr")
        self.set_defaults(run=run)

    def declare(self) -> None:
        """Declare what the command takes, unless this was done before."""
        declare, self._declare = self._declare, None
        if declare is not None:
            declare()

    def add_option(self, option: Option) -> None:
        """Add an argument that is declared as an option."""
        shown, is_required = option.shown, option.default is MISSING
        if shown.use == "overrides":
            self.set_defaults(takes_overrides=True)
            return
        names = (option.name,) if shown.is_positional else shown.flags or ("--" + option.name.replace("_", "-"),)
        settings: dict[str, Any] = {} if shown.is_positional else {"dest": option.name, "required": is_required}
        settings |= {"help": option.help, "metavar": shown.metavar}
        if not is_required:
            settings["default"] = list(option.default) if option.is_list else option.default
        if option.type is bool:
            settings["action"] = "store_true" if option.default is False else argparse.BooleanOptionalAction
            del settings["metavar"]
        elif option.choices:
            settings["choices"] = option.choices
        else:
            settings["type"] = partial(_read, option)
        if option.is_list and shown.is_positional:
            settings["nargs"] = "+" if is_required else "*"
        elif option.is_list:  # one that must be given has at least one value
            settings |= {"nargs": "+", "action": "extend"} if is_required else {"action": "append"}
        elif shown.is_positional and not is_required:
            settings["nargs"] = "?"
        elif option.count > 1:
            settings |= {"nargs": option.count, "metavar": tuple(str(shown.metavar).split())}
        if shown.use == "format":  # the default is set when it is not chosen by the output file
            self.formats = dict.fromkeys((".txt", *shown.suffixes), option.default)
            self.formats |= {suffix: name for suffix, name in SUFFIXES.items() if name in option.choices}
            default, note = option.default or "see below", f". {option.help}" if option.help else ""
            chosen = f"{', '.join(self.formats)} of -o FILE also choose it"
            settings |= {"help": f"output format; default: {default}; {chosen}{note}", "default": None}
            self.set_defaults(usual_format=option.default)
        if shown.metavar == "MODEL":
            if (needs := option.mark(Needs)) is not None:
                self.needs[option.name] = needs
            elif shown.is_positional:
                settings["help"] += _ALSO_TRANSFORMERS
        action = self.add_argument(*names, **settings)
        if shown.use == "input":
            self.inputs.append(action)
        elif shown.use == "output":
            self.outputs.append((action, option.mark(Folder)))
        if option.name == "format" and "json" in option.choices:
            self.add_argument("--json", action="store_const", const="json", dest="format", help="same as --format json")

    @property
    def commands(self) -> dict[str, Parser]:
        """The parsers of the commands below this one, by name."""
        self.declare()
        inner = [action for action in self._actions if isinstance(action, argparse._SubParsersAction)]
        return dict(inner[0].choices) if inner else {}

    def leaves(self) -> Iterable[Parser]:
        """Yield the parsers of all commands without subcommands."""
        if not self.commands:
            yield self
        for parser in self.commands.values():
            yield from parser.leaves()

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        self.declare()
        if self._intermixing:
            return super().parse_known_args(args, namespace)
        self._check_options(args)
        if self._subparsers is not None or "--" in args:  # argparse's intermixed parsing would drop "--"
            values, rest = super().parse_known_args(args, namespace)
        else:
            self._intermixing = True  # the call below calls this method again
            try:
                values, rest = self.parse_known_intermixed_args(args, namespace)
            finally:
                self._intermixing = False
        if not hasattr(values, "parser"):  # keep that of the innermost command
            values.parser = self
        if rest:
            values.parser.error(f"unexpected argument {rest[0]!r}")
        return values, rest

    def _check_options(self, words: Sequence[str]) -> None:
        """Refuse unknown and repeated options.

        argparse reports missing arguments first, suggests no option, and uses the last of several values.
        """
        options = self._option_string_actions
        given: dict[str, str] = {}
        for word in words:
            if word == "--" or (self._subparsers is not None and not word.startswith("-")):
                return
            name = word.partition("=")[0]
            if not name.startswith("--") and name[:2] in options:  # -oFILE
                name = name[:2]
            if not re.match(r"--?[A-Za-z]", name) or " " in name:
                continue
            if name not in options:
                self.error(_with_closest_match(f"unrecognized option {name}", name, options))
            action = options[name]
            if isinstance(action, argparse._StoreTrueAction | argparse._AppendAction | argparse._ExtendAction):
                continue
            if action.dest in given:
                self.error(f"{given[action.dest]} and {name}: expected one of them, once")
            given[action.dest] = name

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is None or value in action.choices:
            return
        found = _with_closest_match(repr(value), value, action.choices)
        if isinstance(action, argparse._SubParsersAction):
            self.error(f"unknown command {found}")
        raise argparse.ArgumentError(action, f"invalid choice: {found} (choose from {', '.join(action.choices)})")

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: error: {escaped(with_short_lines(message))} (see {self.prog} --help)\n")


def _read(option: Option, text: str) -> Any:
    """Return the value of an argument. Raises argparse's error."""
    if text == "-" and option.shown.use == "output" and option.mark(Folder) is None:  # standard output
        return None
    try:
        return option.read(text)
    except InputError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _with_closest_match(text: str, word: str, known: Iterable[str]) -> str:
    """Return a text with the known word that is most similar to an unknown one."""
    advice = closest_match(word, known)
    return f"{text}; {advice[0].lower()}{advice[1:]}" if advice else text


def call(values: argparse.Namespace) -> int:
    """Call a command with the values of its arguments, and return its exit code.

    Raises InputError, before anything is read: for models of transformers that the command cannot use, for outputs that
    would overwrite something, for an output file of another format, and for Parquet without a file or without pyarrow.
    """
    parser: Parser = values.parser
    for name, needs in parser.needs.items():
        value = getattr(values, name)
        needs.check(value if isinstance(value, list) else [value], parser.prog)
    check_outputs(parser, values)
    is_job = any(getattr(values, name, None) is not None for name in ("workers", "engine"))  # -o is a folder
    if parser.formats is not None and values.format is None:
        suffix = "" if values.output is None else values.output.suffix.lower()
        if suffix and suffix not in parser.formats and not is_job:
            raise InputError(
                f"{values.output}: {parser.prog} does not write {suffix}; expected one of {', '.join(parser.formats)},"
                " or a format chosen by --format"
            )
        values.format = parser.formats.get(suffix, values.usual_format)
    if parser.formats is not None and values.format == "parquet":
        from syntaxlm.reports.tables import check_parquet

        if values.output is None:
            raise InputError("--format parquet: found standard output; expected a file: -o FILE.parquet")
        check_parquet()
    return options_from(values.run, vars(values)) or 0


def check_outputs(parser: Parser, values: argparse.Namespace) -> None:
    """Raise InputError if a command would overwrite one of its inputs, a file of a model folder, a user's files in an
    output folder, or one of its other outputs.
    """
    inputs: list[str | Path] = []
    for action in parser.inputs:
        value = getattr(values, action.dest, None)
        inputs += value if isinstance(value, list | tuple) else [] if value is None else [value]
    written: list[Path] = []
    for action, folder in parser.outputs:
        path = getattr(values, action.dest)
        if path is None:
            continue
        if folder is None:
            refuse_overwriting(path, inputs)
        else:
            _check_folder(path, folder, inputs)
        if any(same_file(path, other) for other in written):
            raise InputError(f"{path}: is given for two outputs; expected a separate file for each output")
        written.append(path)


def _check_folder(path: Path, folder: Folder, inputs: Iterable[str | Path]) -> None:
    for name in folder.files or ([""] if folder.may_hold != "anything" else []):
        refuse_overwriting(path / name, inputs)
    if path.is_file():
        raise InputError(f"{path}: found a file; expected a folder, which may be new")
    if not path.is_dir():
        return
    visible = sorted(entry for entry in path.iterdir() if not entry.name.startswith("."))
    refused, problem = [], "is not empty; found"
    if folder.may_hold == "nothing":
        refused = visible
    elif folder.may_hold == "run" and not holds_model(path):
        refused, problem = (
            [entry for entry in visible if not entry.is_dir()],
            "contains files that do not belong to a run:",
        )
    elif folder.may_hold == "new files" or (folder.may_hold == "runs" and not any(path.glob("*/*/recipe.yaml"))):
        refused, problem = [path / name for name in folder.files if (path / name).exists()], "already contains"
    else:
        refused = [path / name for name in folder.files if not _is_signed(path / name, folder.signature)]
        problem = "contains files that this command did not write:"
    if refused:
        names = ", ".join(entry.name for entry in refused[:3]) + (", ..." if len(refused) > 3 else "")
        raise InputError(f"{path}: {problem} {names}. Name a new folder, or move the files away.")


def _is_signed(path: Path, signature: str) -> bool:
    """Return whether a file is missing, or has the signature near its start."""
    if not path.is_file():
        return True
    try:
        with open(path, "rb") as file:
            return signature.encode() in file.read(_SIGNED)
    except OSError as error:
        raise system_error(path, "read", error) from error
