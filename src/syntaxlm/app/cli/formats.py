"""`--format`: the formats of a command's output, chosen by name or by the extension of the output file."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass

from syntaxlm.app.cli.parser import Parser
from syntaxlm.core.errors import InputError

ROW_FORMATS = ("tsv", "csv", "parquet")  # of results that are tables

SUFFIXES = {
    ".txt": "text", ".json": "json", ".jsonl": "json", ".tsv": "tsv", ".csv": "csv", ".parquet": "parquet",
    ".tex": "latex", ".svg": "svg", ".html": "html", ".conllu": "conllu",
}  # fmt: skip
OTHER_SUFFIXES = {*SUFFIXES, ".png", ".pdf", ".xlsx"} - {".txt"}  # an error for commands without this format


@dataclass(frozen=True)
class Formats:
    """The formats of a command.

    default: None: the command chooses.  by_suffix: whether the extension of the output file chooses the format.
    """

    names: Sequence[str]
    default: str | None
    by_suffix: bool

    @property
    def suffixes(self) -> dict[str, str]:
        """The extensions that choose a format."""
        return {suffix: name for suffix, name in SUFFIXES.items() if self.by_suffix and name in self.names}


def add_format(
    parser: Parser, names: Sequence[str], default: str | None = "", by_suffix: bool = True, note: str = ""
) -> None:
    """`--format` and `--json`, its short form.

    names: of the formats.  default: by default the first one; None: the command chooses, as `note` explains.
    by_suffix: whether the extension of `--output` chooses the format if `--format` is not given.
    note: about the formats, for the help.
    """
    formats = Formats(names, names[0] if default == "" else default, by_suffix)
    usual = f"default: {formats.default}" if formats.default else "default: see below"
    chosen = f"; {', '.join(formats.suffixes)} of -o FILE also choose it" if formats.suffixes else ""
    parser.add_argument(
        "--format", choices=list(names), help=f"output format; {usual}{chosen}{f'. {note}' if note else ''}"
    )
    if "json" in names:
        parser.add_argument("--json", action="store_const", const="json", dest="format", help="same as --format json")
    parser.set_defaults(formats=formats)


def choose_format(options: argparse.Namespace) -> None:
    """Set `options.format` if the command has formats and none is given.

    Raises InputError, before anything is read: for an extension of another format, and for Parquet without a file or
    without pyarrow.
    """
    formats: Formats | None = getattr(options, "formats", None)
    if formats is None:
        return
    output = getattr(options, "output", None)
    if options.format is None:
        suffix = "" if output is None else output.suffix.lower()
        if formats.by_suffix and suffix not in formats.suffixes and suffix in OTHER_SUFFIXES:
            raise InputError(
                f"{output}: {options.parser.prog} does not write {suffix}; expected one of"
                f" {', '.join(formats.suffixes)}, or a format chosen by --format"
            )
        options.format = formats.suffixes.get(suffix, formats.default)
    if options.format == "parquet":
        from syntaxlm.core.tables import check_parquet

        if output is None:
            raise InputError("--format parquet: found standard output; expected a file: -o FILE.parquet")
        check_parquet()
