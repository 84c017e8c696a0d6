"""`ngram` and its subcommands: n-gram models to and from ARPA files."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from syntaxlm.cli.options import add_json, add_model, print_result


def add_ngram(commands: Any) -> None:
    parser = commands.add_parser("ngram", help="exchange n-gram models with other programs")
    kinds = parser.add_subparsers(title="what to do", required=True, metavar="KIND")
    _add_to_arpa(kinds)
    _add_from_arpa(kinds)


def _add_to_arpa(kinds: Any) -> None:
    parser = kinds.add_parser(
        "to-arpa",
        help="write an n-gram model as an ARPA file",
        description="Write an n-gram model as an ARPA file, the text format that KenLM, SRILM, IRSTLM and others read."
        " Reading the file again gives exactly the same model.",
    )
    add_model(parser)
    parser.add_argument(
        "-o", "--output", type=Path, required=True, metavar="FILE", help="output file (written atomically)"
    )
    add_json(parser)
    parser.set_defaults(run=_to_arpa)


def _add_from_arpa(kinds: Any) -> None:
    parser = kinds.add_parser(
        "from-arpa",
        help="make a model folder from an ARPA file",
        description="Make a model folder from an ARPA file of any program, so that every command can use the model."
        " Words are read as they are in a text, or as another model reads them.",
    )
    parser.add_argument(
        "file", type=Path, metavar="FILE", help="an ARPA file, perhaps .gz, .xz or .zst; - for standard input"
    )
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="DIR", help="new folder for the model")
    parser.add_argument(
        "--like", type=Path, metavar="MODEL_DIR",
        help="a model folder whose normaliser made the text that the file was estimated from"
    )  # fmt: skip
    add_json(parser)
    parser.set_defaults(run=_from_arpa)


def _to_arpa(options: argparse.Namespace) -> None:
    from syntaxlm.model_io import export_arpa, read_model
    from syntaxlm.progress import status

    with status("writing"):
        summary = export_arpa(read_model(options.model), options.output)
    print_result(summary, options.json)


def _from_arpa(options: argparse.Namespace) -> None:
    from syntaxlm.model_io import import_arpa, read_model, write_model
    from syntaxlm.models.arpa import NGramSummary
    from syntaxlm.models.ngram import NGramModel
    from syntaxlm.progress import status
    from syntaxlm.training.trainer import refuse_run

    refuse_run(options.output)
    with status("reading"):
        like = read_model(options.like).normaliser if options.like else None
        stored = import_arpa(options.file, like)
        write_model(options.output, stored)
    assert isinstance(stored.model, NGramModel)
    print_result(NGramSummary.of(stored.model, options.output), options.json)
