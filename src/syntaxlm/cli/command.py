"""Commands: functions whose parameters are options, and the checks before they start.

The parameters of a command are options (`syntaxlm.core.declarations`) or dataclasses of options. Its docstring is its
help: one sentence for the list of commands, explanations, a sentence for each option in `Args:`, and an example.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import MISSING, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from syntaxlm.core.declarations import (
    TRANSFORMERS,
    Docstring,
    Needs,
    Option,
    Shown,
    With,
    docstring_of,
    options_from,
    options_of,
)
from syntaxlm.core.errors import InputError
from syntaxlm.core.files import (
    check_writable,
    holds_model,
    refuse_overwriting,
    same_file,
    system_error,
    visible_entries,
)

Run = Callable[..., "int | None"]

SUFFIXES = {
    ".txt": "text", ".json": "json", ".jsonl": "json", ".tsv": "tsv", ".csv": "csv", ".parquet": "parquet",
    ".tex": "latex", ".svg": "svg", ".html": "html", ".conllu": "conllu", ".md": "markdown", ".mrg": "brackets",
}  # fmt: skip
OUTPUT = "Output"  # the last heading of options in help
SIGNATURE_BYTES = 4096  # at the start of a file, which may hold its signature
ALSO_TRANSFORMERS = f"`{TRANSFORMERS}NAME` names a causal language model of the library transformers."
ALSO_OTHER_TRANSFORMERS = (
    f"`{TRANSFORMERS}NAME` names a causal, masked or sequence-to-sequence model of the library transformers."
)
TAKES_SCORES = ("score", "evaluate pairs")  # commands for models with the ability `ScoresWords`


@dataclass(frozen=True)
class Folder(Shown):
    """An option, by default -o, that names a folder that a command writes to.

    Attributes:
        may_hold: what the folder may contain before. "run": no files, unless it is a run, for which the command itself
            raises an error; "runs": runs of the same command, which are resumed; "new files": anything except `files`.
        files: the files that the command writes into the folder.
        signature: a text near the start of each of `files` that the command wrote; other files of these names are an
            error.
    """

    metavar: str | None = "DIR"
    flags: tuple[str, ...] = ("-o", "--output")
    use: Literal["output"] = "output"
    may_hold: Literal["anything", "run", "runs", "nothing", "new files"] = "anything"
    files: tuple[str, ...] = ()
    signature: str = ""


@dataclass(frozen=True, kw_only=True)
class CommonOptions:
    """Options of every command.

    Attributes:
        quiet: Print no progress, notes or warnings on stderr.
        json: Same as `--format json`.
    """

    heading: ClassVar[str] = OUTPUT
    quiet: Annotated[bool, Shown(flags=("-q", "--quiet"))] = False
    json: bool = False


@dataclass(frozen=True)
class Group:
    """Commands below a command.

    Attributes:
        help: one sentence.
    """

    help: str
    example: str
    commands: Mapping[str, Run]


@dataclass(frozen=True)
class Command:
    """A command that does something.

    Attributes:
        name: its words, "evaluate parse".
        run: the function.
    """

    name: str
    run: Run

    @cached_property
    def docstring(self) -> Docstring:
        """The help: a line for the list of commands, what the command does, and an example."""
        return docstring_of(self.run)

    @property
    def example(self) -> str:
        """A command line."""
        return self.docstring.sections.get("Examples", "").strip()

    @cached_property
    def declared(self) -> Mapping[str, Option]:
        """The options of the function."""
        return options_of(self.run)

    @cached_property
    def options(self) -> Mapping[str, Option]:
        """The options of the command line by name, in the order of the help, in which options of a heading follow each
        other.
        """
        common = options_of(CommonOptions)
        options: dict[str, Option] = {}
        for name, option in self.declared.items():
            if option.shown.use != "overrides":
                options[name] = self._described(option)
            if name == "format" and "json" in option.choices:
                options["json"] = common["json"]
        options["quiet"] = common["quiet"]
        headings = ["Arguments", "Options", *(one.heading for one in options.values() if one.heading != OUTPUT), OUTPUT]
        return dict(sorted(options.items(), key=lambda item: headings.index(item[1].heading)))

    @property
    def headings(self) -> list[str]:
        """The headings of the options, in the order of the help."""
        return list(dict.fromkeys(option.heading for option in self.options.values()))

    def _described(self, option: Option) -> Option:
        """Return an option whose help also says what follows from the command, and with a heading."""
        if option.shown.use == "format":
            suffixes = ", ".join(f"`{suffix}`" for suffix in self.formats or ())
            option = option.with_sentence(
                f"Without this option, the extension of `-o FILE` selects the format: {suffixes}."
            )
        elif option.shown.metavar == "MODEL" and option.shown.is_positional and option.mark(Needs) is None:
            option = option.with_sentence(ALSO_OTHER_TRANSFORMERS if self.name in TAKES_SCORES else ALSO_TRANSFORMERS)
        if not option.shown.is_positional and option.default is MISSING:
            option = option.with_sentence("Required.")
        elif option.is_list and not option.shown.is_positional and "," not in str(option.shown.metavar):
            option = option.with_sentence("May be repeated.")
        is_output = option.name in ("output", "format", "details")
        usual = "Arguments" if option.shown.is_positional else OUTPUT if is_output else "Options"
        return replace(option, heading=usual if option.shown.is_positional else option.heading or usual)

    @property
    def usage(self) -> str:
        """The line that shows how the command is called."""
        words = [f"syntaxlm {self.name}"]
        for option in self.options.values():
            is_required = option.default is MISSING
            shown = option.shown
            if shown.is_positional:
                name = f"{shown.metavar}..." if option.is_list else str(shown.metavar)
                words.append(name if is_required else f"[{name}]")
            elif is_required:
                words.append(f"{option.names[0]} {option.value_name}")
        return " ".join([*words, "[OPTIONS]"])

    @property
    def takes_overrides(self) -> bool:
        """Whether settings of a recipe are given by their dotted names."""
        return any(option.shown.use == "overrides" for option in self.declared.values())

    @property
    def inputs(self) -> list[Option]:
        """The options that name files or folders that are read."""
        return [option for option in self.declared.values() if option.shown.use == "input"]

    @property
    def outputs(self) -> list[Option]:
        """The options that name files or folders that are written."""
        return [option for option in self.declared.values() if option.shown.use == "output"]

    @property
    def needs(self) -> dict[str, Needs]:
        """What the command needs of its models, by the option that names them; others may be of transformers."""
        models = {name: option for name, option in self.declared.items() if option.shown.metavar == "MODEL"}
        return {name: needs for name, option in models.items() if (needs := option.mark(Needs)) is not None}

    @cached_property
    def formats(self) -> Mapping[str, str | None] | None:
        """The formats that the extension of the output file chooses, by extension; None: the command has no formats."""
        option = self.declared.get("format")
        if option is None or option.shown.use != "format":
            return None
        usual = dict.fromkeys((".txt", *option.shown.suffixes), option.default)
        return {**usual, **{suffix: name for suffix, name in SUFFIXES.items() if name in option.choices}}

    def call(self, given: Mapping[str, Any]) -> int:
        """Call the function with the values of options, and return the exit code.

        Raises InputError, before anything is read: for models of transformers that the command cannot use, for options
        that have no effect without another one, for outputs that would overwrite something or cannot be written, for an
        output file of another format, and for Parquet without a file or without pyarrow.
        """
        defaults = {name: option.default for name, option in self.declared.items() if option.default is not MISSING}
        values = {**defaults, **given}
        for name, needs in self.needs.items():
            value = values[name]
            needs.check(value if isinstance(value, list | tuple) else [value], f"syntaxlm {self.name}")
        self.check_outputs(values)
        for name in given:
            if (option := self.declared.get(name)) is not None and (others := option.mark(With)) is not None:
                others.check(option, self.declared, values)
        if self.formats is not None:
            values["format"] = self._format(given.get("format"), values)
        return options_from(self.run, values) or 0

    def _format(self, chosen: str | None, values: Mapping[str, Any]) -> str | None:
        """Return the format of the output, which is chosen by --format or by the extension of the output file."""
        assert self.formats is not None
        output: Path | None = values["output"]
        if chosen is None:
            suffix = "" if output is None else output.suffix.lower()
            if suffix and suffix not in self.formats and not _is_job(values):
                raise InputError(
                    f"{output}: syntaxlm {self.name} does not write {suffix}; expected one of"
                    f" {', '.join(self.formats)}, or a format chosen by --format"
                )
            chosen = self.formats.get(suffix, self.declared["format"].default)
        if chosen == "parquet" and output is None:
            raise InputError("--format parquet: found standard output; expected a file: -o FILE.parquet")
        return chosen

    def check_outputs(self, values: Mapping[str, Any]) -> None:
        """Raise InputError if the command would overwrite one of its inputs, a file of a model folder, a user's files
        in an output folder, or one of its other outputs, and if a file cannot be written.
        """
        inputs: list[str | Path] = []
        for option in self.inputs:
            value = values.get(option.name)
            inputs += value if isinstance(value, list | tuple) else [] if value is None else [value]
        written: list[Path] = []
        for option in self.outputs:
            path = values.get(option.name)
            if path is None:
                continue
            folder = option.mark(Folder)
            if folder is None:
                refuse_overwriting(path, inputs)
                if not (option.name == "output" and _is_job(values)):
                    check_writable(path)
            else:
                _check_folder(path, folder, inputs)
            if any(same_file(path, other) for other in written):
                raise InputError(f"{path}: is given for two outputs; expected a separate file for each output")
            written.append(path)


def _is_job(values: Mapping[str, Any]) -> bool:
    """Return whether the options ask for a job, which writes to a folder."""
    return any(values.get(name) is not None for name in ("workers", "engine"))


def leaves(commands: Mapping[str, Run | Group], above: str = "") -> Iterator[Command]:
    """Yield the commands that do something, in the order of the help."""
    for name, command in commands.items():
        if isinstance(command, Group):
            yield from leaves(command.commands, f"{above}{name} ")
        else:
            yield Command(above + name, command)


def _check_folder(path: Path, folder: Folder, inputs: Iterable[str | Path]) -> None:
    for name in folder.files or ([""] if folder.may_hold != "anything" else []):
        refuse_overwriting(path / name, inputs)
    if path.is_file():
        raise InputError(f"{path}: found a file; expected a folder, which may be new")
    if not path.is_dir():
        return
    visible = visible_entries(path)
    refused, problem = [], "is not empty; found"
    if folder.may_hold == "nothing":
        refused = visible
    elif folder.may_hold == "run" and not holds_model(path):
        refused, problem = (
            [entry for entry in visible if not entry.is_dir()],
            "contains files that do not belong to a run:",
        )
    elif folder.may_hold == "new files" or (folder.may_hold == "runs" and not any(path.glob("*/*/recipe.yaml"))):
        refused = [path / name for name in folder.files if (path / name).exists()]
        problem = "already contains"
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
            return signature.encode() in file.read(SIGNATURE_BYTES)
    except OSError as error:
        raise system_error(path, "read", error) from error
