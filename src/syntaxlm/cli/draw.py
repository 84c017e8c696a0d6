"""`draw` and `report`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from syntaxlm.cli.options import add_clean_up, add_decoding, add_json, add_model, add_protocol, print_result
from syntaxlm.errors import InputError


def add_draw(commands: Any) -> None:
    parser = commands.add_parser(
        "draw",
        help="a picture of a sentence's tree, distances, gates and attention",
        description="Draws the tree that a model gives a sentence, the syntactic distances between its words as bars or"
        " the scores of its spans as a chart, a gold tree beside it and maps of the model's gates and attention; or,"
        " given a file of dependency trees in place of a model, arcs over the words of each. How FILE's name ends says"
        " as what: .svg, .html (one page that needs nothing else), .png (needs the extra draw: pip install"
        " 'syntaxlm[draw]'; letters are drawn with this machine's fonts), .tex (the trees alone, for LaTeX's packages"
        " forest and tikz-dependency).",
        epilog='example: syntaxlm draw MODEL_DIR "the old cat sleeps" -o cat.svg',
    )
    parser.add_argument(
        "model", metavar="MODEL_DIR", type=Path,
        help="a model folder, as train writes it; or dependency trees, a file that ends in .conllu, .conll, .conllx or"
        " .dp",
    )  # fmt: skip
    parser.add_argument("sentence", nargs="?", metavar="SENTENCE", help="the sentence, in quotes; none with --gold")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FILE", help="write there")
    parser.add_argument(
        "--gold", metavar="TREE", help="a gold tree, (S (NP ...) ...), or a bracket file: the sentence is its words"
    )
    parser.add_argument("--number", type=int, metavar="N", help="which tree of the file; 1 is the first")
    add_clean_up(parser, "none")
    parser.add_argument("--maps", action="store_true", help="gates and attention, too: which word looks at which")
    parser.add_argument(
        "--theme", choices=["auto", "light", "dark"], default="auto",
        help="colours; auto (default): those of the reader's system, in a PNG light ones",
    )  # fmt: skip
    add_decoding(parser)
    parser.set_defaults(run=_draw)


def add_report(commands: Any) -> None:
    parser = commands.add_parser(
        "report",
        help="one page of a model's settings, training, perplexity and trees",
        description="Writes DIR/report.html, one page that needs nothing else: settings, the course of the losses and"
        " perplexity, from the model's folder; and, measured on a treebank, F1 of all decoders beside every baseline,"
        " by length, recall by label, depth and branching, and the best and worst sentences drawn beside gold. What"
        " has no source is left out, and said; a model without trees gets a page of the language model alone.",
        epilog="example: syntaxlm report MODEL_DIR treebank.mrg -o my-report",
    )
    add_model(parser)
    parser.add_argument(
        "treebank", nargs="?", metavar="TREEBANK", help="a bracket file, a folder of them, or a quoted pattern"
    )
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="DIR", help="folder to write to")
    add_protocol(parser)
    add_clean_up(parser, "ptb-keep")
    add_decoding(parser)
    parser.add_argument(
        "--theme", choices=["auto", "light", "dark"], default="auto",
        help="colours; auto (default): those of the reader's system",
    )  # fmt: skip
    add_json(parser)
    parser.set_defaults(run=_report)


def _draw(options: argparse.Namespace) -> None:
    from syntaxlm.drawing.dependencies import is_file_of_trees

    if is_file_of_trees(options.model):
        _draw_dependencies(options)
        return
    if (options.sentence is None) == (options.gold is None):
        raise InputError(
            "draw needs a SENTENCE beside the model folder, or --gold with a tree whose words are the sentence, one of"
            f" them; found {'both' if options.gold else 'neither'}"
        )
    if options.gold is None and options.number is not None:
        raise InputError("--number chooses a tree of the file that --gold names; there is no --gold")
    from syntaxlm.drawing.sentence import Drawing, analyse, check_format, map_pictures, read_gold
    from syntaxlm.model_io import read_model

    check_format(options.output)  # before what takes seconds
    gold = None if options.gold is None else read_gold(options.gold, options.number, options.clean_up)
    stored = read_model(options.model)
    sentence = options.sentence if gold is None else gold
    analysis = analyse(stored, sentence, options.decoder, options.layer)
    maps = map_pictures(stored, analysis) if options.maps else []
    Drawing(analysis, gold, tuple(maps)).write(options.output, options.theme)


def _draw_dependencies(options: argparse.Namespace) -> None:
    from syntaxlm.drawing.dependencies import read_trees, write_dependencies
    from syntaxlm.drawing.writing import check_format

    given = {name: getattr(options, name) for name in ("sentence", "gold", "decoder", "layer")} | {
        "maps": options.maps or None
    }
    extra = [name if name == "sentence" else f"--{name}" for name, value in given.items() if value is not None]
    if extra:
        raise InputError(
            f"{options.model}: found {', '.join(extra)} with a file of dependency trees, which is drawn as it is;"
            " expected nothing but --number, --clean-up and --theme"
        )
    check_format(options.output)
    write_dependencies(read_trees(options.model, options.number, options.clean_up), options.output, options.theme)


def _report(options: argparse.Namespace) -> None:
    from syntaxlm.parsing.evaluation import protocol_named
    from syntaxlm.progress import status
    from syntaxlm.reports.report import write_report

    protocol = protocol_named(options.protocol, options.max_words)
    with status("measuring and drawing"):
        written = write_report(
            options.model,
            options.output,
            options.treebank,
            protocol,
            options.decoder,
            options.clean_up,
            options.layer,
            options.theme,
        )
    print_result(written, options.json)
