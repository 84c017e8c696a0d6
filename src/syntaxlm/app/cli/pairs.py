"""`evaluate pairs`."""

from __future__ import annotations

import argparse
from typing import Any

from syntaxlm.app.cli.options import (
    add_also,
    add_details,
    add_figures,
    add_model,
    add_treebank_style,
    load_model,
    model_names,
    print_result,
    treebank_style,
)


def add_pairs(kinds: Any) -> None:
    parser = kinds.add_parser(
        "pairs",
        help="measure accuracy on minimal pairs",
        description="Measure how often the better sentence of minimal pairs, such as those of BLiMP and of Marvin and"
        " Linzen, has the higher log-probability. Files are JSON lines, one item per line, with sentence_good and"
        " sentence_bad, or with sentences, best first. Several models appear in adjacent columns and are compared with"
        " the first.",
        epilog="example: syntaxlm evaluate pairs MODEL pairs.jsonl --also ANOTHER --punctuation drop",
    )
    add_model(parser)
    parser.add_input(
        "files", nargs="+", metavar="FILES", help="files or folders of minimal pairs; - for standard input"
    )
    add_also(parser, "it is compared with the first")
    add_treebank_style(parser)
    add_details(parser, "each pair and its log-probabilities")
    add_figures(parser, rows=True)
    parser.set_defaults(run=_pairs)


def _pairs(options: argparse.Namespace) -> None:
    from syntaxlm.evaluation.pairs import evaluate_pairs, write_pairs

    folders = [options.model, *options.also]
    models = dict(zip(model_names(folders), (load_model(folder, options) for folder in folders), strict=True))
    report = evaluate_pairs(models, options.files, treebank_style(options))
    if options.details:
        write_pairs(report, options.details)
    print_result(report, options)
