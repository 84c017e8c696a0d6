"""`combine`."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from syntaxlm.app.cli.options import add_json, print_figures

PRECISIONS = ("float32", "bfloat16")


def add_combine(commands: Any) -> None:
    parser = commands.add_parser(
        "combine",
        help="make one model of several grammars and a language model",
        description="Write one model folder from several trained models: it parses with the average of the span"
        " probabilities of the grammars, and takes probabilities of words from the language model. All must have"
        " the same normaliser.",
        epilog="example: syntaxlm combine pcfg-1 pcfg-2 --scorer lstm -o combined",
    )
    parser.add_input("parsers", nargs="+", type=Path, metavar="MODEL", help="model folders of neural PCFGs")
    parser.add_input(
        "--scorer",
        required=True,
        type=Path,
        metavar="MODEL",
        help="model folder of an lstm, on-lstm, prpn or palm",
    )
    parser.add_output_folder("-o", "--output", use="empty", required=True, help="new or empty folder")
    parser.add_argument(
        "--precision", choices=PRECISIONS, default=PRECISIONS[0],
        help="type of the stored weights: float32 (default), or bfloat16, which takes half the space. Models are"
        " computed in float32",
    )  # fmt: skip
    add_json(parser)
    parser.set_defaults(run=_combine)


def _combine(options: argparse.Namespace) -> None:
    import torch

    from syntaxlm.core.progress import status
    from syntaxlm.storage.folder import combine, read_model, write_model

    with status("combining"):
        stored = combine([read_model(folder) for folder in options.parsers], read_model(options.scorer))
        write_model(options.output, stored, getattr(torch, options.precision))
    print_figures(Combined(options.output, len(options.parsers), stored.model.parameter_count), options)


@dataclass(frozen=True)
class Combined:
    """What was written. parsers: number of grammars.  parameters: of all members together."""

    folder: Path
    parsers: int
    parameters: int

    def to_dict(self) -> dict[str, Any]:
        return {"schema_version": 1, "folder": str(self.folder), "parsers": self.parsers, "parameters": self.parameters}

    def __str__(self) -> str:
        grammars = f"{self.parsers} grammar{'s' if self.parsers > 1 else ''}"
        return f"{self.folder}: {grammars} and a language model, {self.parameters:,} parameters"
