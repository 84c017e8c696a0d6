"""`ngram` and its subcommands: n-gram models to and from ARPA files."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from syntaxlm.app.cli.options import add_json, add_output, output_path, print_figures, print_summary


def add_ngram(commands: Any) -> None:
    parser = commands.add_parser(
        "ngram",
        help="exchange n-gram models with other programs",
        description="Exchange n-gram models with other programs, as ARPA files.",
        epilog="example: syntaxlm ngram to-arpa MODEL -o model.arpa",
    )
    kinds = parser.add_subparsers(title="commands", metavar="COMMAND")
    _add_to_arpa(kinds)
    _add_from_arpa(kinds)


def _add_to_arpa(kinds: Any) -> None:
    parser = kinds.add_parser(
        "to-arpa",
        help="write an n-gram model as an ARPA file",
        description="Write an n-gram model as an ARPA file, the text format that KenLM, SRILM, IRSTLM and others read."
        " ngram from-arpa restores exactly the same model.",
        epilog="example: syntaxlm ngram to-arpa MODEL -o model.arpa",
    )
    parser.add_input("model", metavar="MODEL", type=Path, help="model folder, written by train")
    add_output(parser, "the ARPA file")
    add_json(parser)
    parser.set_defaults(run=_to_arpa)


def _add_from_arpa(kinds: Any) -> None:
    parser = kinds.add_parser(
        "from-arpa",
        help="make a model folder from an ARPA file",
        description="Make a model folder from an ARPA file of any program, so that every command can use the model."
        " Text is read unchanged, or with the normaliser of another model (--like).",
        epilog="example: syntaxlm ngram from-arpa model.arpa -o runs/kenlm",
    )
    parser.add_input(
        "file", type=Path, metavar="FILE", help="ARPA file, optionally .gz, .xz or .zst; - for standard input"
    )
    parser.add_output_folder("-o", "--output", use="run", required=True, help="new folder for the model")
    parser.add_input(
        "--like", type=Path, metavar="MODEL",
        help="use the normaliser of this model folder, which made the text that the file was estimated from"
    )  # fmt: skip
    add_json(parser)
    parser.set_defaults(run=_from_arpa)


def _to_arpa(options: argparse.Namespace) -> None:
    from syntaxlm.core.progress import status
    from syntaxlm.storage.folder import export_arpa, read_model

    with status("writing"), output_path(options.output) as path:
        summary = export_arpa(read_model(options.model), path)
    print_summary(summary, options)


def _from_arpa(options: argparse.Namespace) -> None:
    from syntaxlm.core.progress import status
    from syntaxlm.models.ngram import NGramModel
    from syntaxlm.storage.arpa import NGramSummary
    from syntaxlm.storage.folder import import_arpa, read_model, write_model
    from syntaxlm.training.run import refuse_run

    refuse_run(options.output)
    with status("reading"):
        like = read_model(options.like).normaliser if options.like else None
        stored = import_arpa(options.file, like)
        write_model(options.output, stored)
    assert isinstance(stored.model, NGramModel)
    print_figures(NGramSummary.of(stored.model, options.output), options)
