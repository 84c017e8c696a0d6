"""The parser of the command line: argparse with one-line errors, closest matches, declared inputs and outputs."""

from __future__ import annotations

import argparse
import difflib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NoReturn

from syntaxlm.core.errors import InputError
from syntaxlm.core.files import named_path

Use = Literal["file", "folder", "run", "runs", "empty", "new files"]


@dataclass(frozen=True)
class Output:
    """An argument that names a file or folder that a command writes.

    use: "file"; or, for a folder, what it may contain before: "folder": anything; "run": no files, unless it is a run,
        for which the command itself raises an error; "runs": runs of the same command, which are resumed; "empty":
        nothing; "new files": anything except `files`.
    files: the files that the command writes into the folder.
    marker: the file that shows that the command wrote the folder; a folder with files but without it is an error.
    """

    action: argparse.Action
    use: Use = "file"
    files: tuple[str, ...] = ()
    marker: str | None = None


class Parser(argparse.ArgumentParser):
    """A parser with one-line errors that name the closest match.

    Options cannot be abbreviated: --seed is not --seeds. They may be placed between positional arguments,
    `parse MODEL --layer 2 TEXT`, even if TEXT is optional.
    inputs, outputs: the arguments that name files or folders, for `syntaxlm.app.cli.guard`.
    """

    def __init__(self, **settings: Any) -> None:
        super().__init__(allow_abbrev=False, **settings)
        self._intermixing = False
        self.inputs: list[argparse.Action] = []
        self.outputs: list[Output] = []

    def add_input(self, *names: str, **settings: Any) -> argparse.Action:
        """Add an argument that names a file or folder that a command reads."""
        if settings.get("type") is Path:
            settings["type"] = path_argument
        action = self.add_argument(*names, **settings)
        self.inputs.append(action)
        return action

    def add_output(self, *names: str, **settings: Any) -> argparse.Action:
        """Add an argument that names a file that a command writes. Its value is None for "-", standard output."""
        action = self.add_argument(*names, type=output_file, **settings)
        self.outputs.append(Output(action))
        return action

    def add_output_folder(
        self,
        *names: str,
        use: Use,
        files: Sequence[str] = (),
        marker: str | None = None,
        **settings: Any,
    ) -> argparse.Action:
        """Add an argument that names a folder that a command writes to. use, files, marker: see `Output`."""
        action = self.add_argument(*names, type=path_argument, metavar="DIR", **settings)
        self.outputs.append(Output(action, use, tuple(files), marker))
        return action

    @property
    def commands(self) -> dict[str, Parser]:
        """The parsers of the commands below this one, by name."""
        inner = [action for action in self._actions if isinstance(action, argparse._SubParsersAction)]
        return dict(inner[0].choices) if inner else {}

    def leaves(self) -> Iterable[Parser]:
        """Yield the parsers of all commands without subcommands."""
        if not self.commands:
            yield self
        for one in self.commands.values():
            yield from one.leaves()

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        if self._intermixing:
            return super().parse_known_args(args, namespace)
        self._refuse_unknown_options(args)
        if self._subparsers is not None or "--" in args:  # argparse's intermixed parsing would drop "--"
            found, rest = super().parse_known_args(args, namespace)
        else:
            self._intermixing = True  # the call below calls this method again
            try:
                found, rest = self.parse_known_intermixed_args(args, namespace)
            finally:
                self._intermixing = False
        if not hasattr(found, "parser"):  # keep that of the innermost command
            found.parser = self
        if rest:
            found.parser.error(f"unexpected argument {rest[0]!r}")
        return found, rest

    def _refuse_unknown_options(self, words: Sequence[str]) -> None:
        """Check options before argparse, which reports missing arguments first and suggests no option."""
        options = self._option_string_actions
        for word in words:
            if word == "--" or (self._subparsers is not None and not word.startswith("-")):
                return
            name = word.partition("=")[0]
            if not re.match(r"--?[A-Za-z]", name) or " " in name or name in options:
                continue
            if not name.startswith("--") and name[:2] in options:  # -oFILE
                continue
            self.error(f"unrecognized option {name}{did_you_mean(name, options)}")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is None or value in action.choices:
            return
        found = f"{value!r}{did_you_mean(str(value), map(str, action.choices))}"
        if isinstance(action, argparse._SubParsersAction):
            self.error(f"unknown command {found}")
        raise argparse.ArgumentError(
            action, f"invalid choice: {found} (choose from {', '.join(map(str, action.choices))})"
        )

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: error: {message} (see {self.prog} --help)\n")


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return the closest of the known words as part of a message, or ""."""
    nearest = difflib.get_close_matches(word, list(known), 1)
    return f"; did you mean {nearest[0]}?" if nearest else ""


def output_file(text: str) -> Path | None:
    """Return an output file; None for "-", standard output."""
    return None if text == "-" else path_argument(text)


def path_argument(text: str) -> Path:
    """Return a file or folder. Raises argparse's error for an empty name."""
    try:
        return named_path(text)
    except InputError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
