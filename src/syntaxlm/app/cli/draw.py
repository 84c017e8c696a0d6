"""`draw` and `report`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from syntaxlm.app.cli.options import (
    TREEBANK_HELP,
    add_decoding,
    add_device,
    add_json,
    add_model,
    add_preprocessing,
    add_protocol,
    add_theme,
    add_treebank_style,
    load_model,
    output_path,
    print_figures,
)
from syntaxlm.core.errors import InputError


def add_draw(commands: Any) -> None:
    parser = commands.add_parser(
        "draw",
        help="draw a sentence's tree, distances, gates and attention",
        description="Draw the tree that a model assigns to a sentence, with syntactic distances as bars or span scores"
        " as a chart, optionally beside a gold tree and with maps of the model's gates and attention. Models of"
        " dependency trees (dmv) also give arcs over the words. For a file of"
        " dependency trees instead of a model, draw these as arcs over the words. The extension of FILE selects the"
        " format: .svg, .html (a self-contained page), .png (requires the extra draw: pip install 'syntaxlm[draw]';"
        " uses the fonts of this machine), or .tex (trees only, for the LaTeX packages forest and tikz-dependency).",
        epilog='example: syntaxlm draw MODEL "the old cat sleeps" -o cat.svg',
    )
    parser.add_input(
        "model", metavar="MODEL", type=Path,
        help="model folder written by train, or a file of dependency trees (.conllu, .conll, .conllx or .dp)",
    )  # fmt: skip
    parser.add_argument("sentence", nargs="?", metavar="SENTENCE", help="the sentence, in quotes; omit it with --gold")
    parser.add_output(
        "-o", "--output", metavar="FILE",
        help="file to write: .svg, .html, .png or .tex; default, or -: SVG on standard output",
    )  # fmt: skip
    add_device(parser)
    parser.add_input(
        "--gold", metavar="TREE", help="gold tree, (S (NP ...) ...), or bracket file; its words are the sentence"
    )
    parser.add_argument("--number", type=int, metavar="N", help="number of the tree in the file, from 1")
    add_preprocessing(parser, "none")
    parser.add_argument("--maps", action="store_true", help="also draw maps of gates and attention")
    add_theme(parser, " and is light in a PNG")
    add_decoding(parser)
    add_treebank_style(parser)
    parser.set_defaults(run=_draw)


def add_report(commands: Any) -> None:
    parser = commands.add_parser(
        "report",
        help="write a page about a model's settings, training, perplexity and trees",
        description="Write DIR/report.html, a self-contained page. It shows settings, loss curves and perplexity from"
        " the model's folder and, measured on a treebank, F1 of all decoders and baselines, F1 by length, recall by"
        " label, depth and branching, and the best and worst sentences beside their gold trees. The page lists what"
        " cannot be shown and why. For a model that does not parse, it covers only the language model.",
        epilog="example: syntaxlm report MODEL treebank.mrg -o my-report",
    )
    add_model(parser)
    parser.add_input("treebank", nargs="?", metavar="TREEBANK", help=TREEBANK_HELP)
    parser.add_output_folder(
        "-o", "--output", use="folder", files=["report.html"], required=True, help="folder for report.html"
    )
    add_protocol(parser)
    add_preprocessing(parser, "ptb-keep")
    add_decoding(parser)
    add_theme(parser)
    add_json(parser)
    parser.set_defaults(run=_report)


def _draw(options: argparse.Namespace) -> None:
    from syntaxlm.app.report.sentence import is_dependency_file

    if is_dependency_file(options.model):
        _draw_dependencies(options)
        return
    if (options.sentence is None) == (options.gold is None):
        raise InputError(
            "draw: expected either a SENTENCE, or --gold with a tree whose words are the sentence; found"
            f" {'both' if options.gold else 'neither'}"
        )
    if options.gold is None and options.number is not None:
        raise InputError("--number: selects a tree of the file given by --gold, but --gold is missing")
    from syntaxlm.app.report.sentence import analyse, maps_of, read_gold
    from syntaxlm.drawing.files import check_format
    from syntaxlm.drawing.sentence import Drawing
    from syntaxlm.parsing.options import ParseOptions

    if options.output is not None:
        check_format(options.output)  # before the slow part
    gold = None if options.gold is None else read_gold(options.gold, options.number, options.preprocessing)
    stored = load_model(options.model, options)
    sentence = options.sentence if gold is None else gold
    given = ParseOptions(
        decoder=options.decoder, layer=options.layer, punctuation=options.punctuation, contractions=options.contractions
    )
    analysis = analyse(stored, sentence, given)
    maps = maps_of(stored, analysis.tokens) if options.maps else None
    with output_path(options.output, ".svg") as path:
        Drawing(analysis, gold, maps).write(path, options.theme)


def _draw_dependencies(options: argparse.Namespace) -> None:
    from syntaxlm.app.report.sentence import read_trees
    from syntaxlm.drawing.dependencies import write_dependencies
    from syntaxlm.drawing.files import check_format

    given = {name: getattr(options, name) for name in ("sentence", "gold", "decoder", "layer")} | {
        "maps": options.maps or None
    }
    extra = [name if name == "sentence" else f"--{name}" for name, value in given.items() if value is not None]
    if extra:
        raise InputError(
            f"{options.model}: found {', '.join(extra)} with a file of dependency trees; expected only --number,"
            " --preprocessing and --theme"
        )
    if options.output is not None:
        check_format(options.output)
    trees = read_trees(options.model, options.number, options.preprocessing)
    with output_path(options.output, ".svg") as path:
        write_dependencies(trees, path, options.theme)


def _report(options: argparse.Namespace) -> None:
    from syntaxlm.app.report.report import write_report
    from syntaxlm.core.progress import status
    from syntaxlm.parsing.evaluation import protocol_named
    from syntaxlm.parsing.options import DecodingOptions

    protocol = protocol_named(options.protocol, options.max_words)
    with status("measuring and drawing"):
        written = write_report(
            options.model,
            options.output,
            options.treebank,
            protocol,
            DecodingOptions(decoder=options.decoder, layer=options.layer),
            options.preprocessing,
            options.theme,
            options.device or "cpu",
        )
    print_figures(written, options)
