"""`parse`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from syntaxlm.cli.options import add_also, add_decoding, add_model
from syntaxlm.errors import InputError
from syntaxlm.files import to_json

if TYPE_CHECKING:
    from syntaxlm.model_io import ModelBundle
    from syntaxlm.parsing.parse import Parse

PARSED_TOGETHER = 20_000  # lines: as many as memory holds easily, few enough that output begins soon
SCORED_TOGETHER = 2_000  # the same of a model with values of spans, of which a long sentence has thousands


def add_parse(commands: Any) -> None:
    parser = commands.add_parser(
        "parse",
        help="parse plain or tagged text",
        description="Parse text, one sentence per line, and write one tree per line (an empty line for a line"
        " without a word). A model of tags reads tagged text, word_TAG; a model of words reads plain text, and of files"
        " named .tagged or .tagged.txt the words. brackets: (X the (X old cat)), with tags (X (DT the) (NN cat));"
        " json: words, tokens, spans and, of one model, its distances or the scores or probabilities of the spans;"
        " latex: forest.",
    )
    add_model(parser)
    parser.add_argument(
        "text", nargs="?", default="-", metavar="FILE",
        help="a UTF-8 file, perhaps .gz, .xz or .zst; - or none: standard input",
    )  # fmt: skip
    add_also(parser)
    parser.add_argument("--format", choices=["brackets", "json", "latex"], default="brackets", help="default: brackets")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="write there, whole or not at all")
    add_decoding(parser)
    parser.add_argument(
        "--labels", action="store_true",
        help="put the labels that the model has induced into the brackets and the JSON: (NT-17 (T-3 the) (T-8 dog));"
        " for one model that has labels (PCFGs)",
    )  # fmt: skip
    parser.set_defaults(run=_parse)


def _parse(options: argparse.Namespace) -> None:
    from syntaxlm.files import refuse_overwriting, replaced
    from syntaxlm.model_io import read_model

    refuse_overwriting(options.output, [options.text])
    if options.labels and options.also:
        raise InputError("--labels: averaged trees have no labels; give --labels with one model, or --also without it")
    pieces = _parsed([read_model(folder) for folder in (options.model, *options.also)], options)
    if options.output is None:
        for piece in pieces:
            sys.stdout.write(piece)
        return
    with replaced(options.output) as temporary, open(temporary, "w", encoding="utf-8") as file:
        file.writelines(pieces)


def _parsed(models: list[ModelBundle], options: argparse.Namespace) -> Iterator[str]:
    """The parsed text, some thousand lines a piece."""
    from syntaxlm.data.corpora import read_sentences
    from syntaxlm.models.abilities import Distances, Parses
    from syntaxlm.parsing.parse import parse_lines, parse_lines_together
    from syntaxlm.progress import progress_bar

    normalisers = [one.normaliser for one in models]
    reader = next((one for one in normalisers if one.units == "tags"), normalisers[0])
    lines = (line for _, line in read_sentences(options.text, reader))
    first = 1
    together = (
        PARSED_TOGETHER
        if all(one.require(Parses, "parse").structure_type is Distances for one in models)
        else SCORED_TOGETHER
    )
    chunks = iter(lambda: list(islice(lines, together)), [])
    for chunk in progress_bar(chunks, f"parsing, chunks of {together:,} lines"):
        reading = chunk, options.decoder, first, options.layer
        if options.also:
            names = [str(folder) for folder in (options.model, *options.also)]
            parses = parse_lines_together(models, *reading, names, options.ties)
        else:
            parses = parse_lines(models[0], *reading, labels=options.labels)
        trees = (
            parses.brackets() if options.format == "brackets" else [_formatted(one, options.format) for one in parses]
        )
        yield "".join(tree + "\n" for tree in trees)
        first += len(chunk)
    if first == 1:
        raise InputError(f"{options.text}: not one line in it")


def _formatted(parse: Parse | None, kind: str) -> str:
    from syntaxlm.trees.latex import format_latex

    if kind == "json":
        return to_json(parse and parse.as_dict())
    return format_latex(parse.tree) if parse else ""
