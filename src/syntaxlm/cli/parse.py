"""`parse`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from syntaxlm.cli.options import (
    add_also,
    add_decoding,
    add_model,
    add_treebank_style,
    refuse_repeated,
    ties_of,
    treebank_style,
)
from syntaxlm.errors import InputError
from syntaxlm.files import to_json

if TYPE_CHECKING:
    from syntaxlm.parsing.parse import Parses


def add_parse(commands: Any) -> None:
    parser = commands.add_parser(
        "parse",
        help="parse plain or tagged text",
        description="Parse text, one sentence per line, and write one tree per line (an empty line for a line"
        " without a word). A model of tags reads tagged text, word_TAG; a model of words reads plain text, or the words"
        " of files named .tagged or .tagged.txt. brackets: (X the (X old cat)), with tags (X (DT the) (NN cat));"
        " json: words, their places in the line, tokens, known words, what was not read, spans and, for a single model,"
        " its distances or the scores or probabilities of the"
        " spans; latex: forest.",
    )
    add_model(parser)
    parser.add_argument(
        "text", nargs="?", default="-", metavar="FILE",
        help="a UTF-8 file, perhaps .gz, .xz or .zst; - or none: standard input",
    )  # fmt: skip
    add_also(parser)
    parser.add_argument("--format", choices=["brackets", "json", "latex"], default="brackets", help="default: brackets")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="output file (written atomically)")
    add_decoding(parser)
    parser.add_argument(
        "--labels", action="store_true",
        help="write the induced labels in brackets and JSON: (NT-17 (T-3 the) (T-8 dog)); for a single model with"
        " labels (PCFGs)",
    )  # fmt: skip
    add_treebank_style(parser)
    parser.add_argument(
        "--show-unread", action="store_true",
        help="put punctuation that was not read back into brackets and LaTeX, with the tag UNREAD",
    )  # fmt: skip
    parser.set_defaults(run=_parse)


def _parse(options: argparse.Namespace) -> None:
    from syntaxlm.files import refuse_overwriting, replaced
    from syntaxlm.model_io import read_model
    from syntaxlm.parsing.text import parse_text

    refuse_overwriting(options.output, [options.text])
    if options.labels and options.also:
        raise InputError("--labels: averaged trees have no labels; give --labels with one model, or --also without it")
    ties = ties_of(options)
    folders = [options.model, *options.also]
    refuse_repeated(folders)
    models, names = [read_model(folder) for folder in folders], [str(folder) for folder in folders]
    parsed = parse_text(
        models, options.text, options.decoder, options.layer, options.labels, names, ties, treebank_style(options)
    )
    pieces = (_formatted(parses, options.format, options.show_unread) for parses in parsed)
    if options.output is None:
        for piece in pieces:
            sys.stdout.write(piece)
        return
    with replaced(options.output) as temporary, open(temporary, "w", encoding="utf-8") as file:
        file.writelines(pieces)


def _formatted(parses: Parses, kind: str, with_unread: bool) -> str:
    from syntaxlm.trees.latex import format_latex

    if kind == "brackets":
        trees = parses.brackets(with_unread)
    elif kind == "json":
        trees = [to_json(parse and parse.to_dict()) for parse in parses]
    else:
        trees = [format_latex(parse.complete_tree if with_unread else parse.tree) if parse else "" for parse in parses]
    return "".join(tree + "\n" for tree in trees)
