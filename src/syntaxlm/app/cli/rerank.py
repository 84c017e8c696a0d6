"""`rerank`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from syntaxlm.app.cli.formats import ROW_FORMATS
from syntaxlm.app.cli.options import add_json, add_model, load_model, print_figures, text_output
from syntaxlm.core.errors import InputError


def add_rerank(commands: Any) -> None:
    parser = commands.add_parser(
        "rerank",
        help="select among a parser's candidate trees with a dependency-tree model",
        description="Select one of several candidate trees for each sentence: the one with the highest log P(S | T),"
        " the log-probability of the words given the tree, or the highest weighted sum of this and the parser's score."
        " The candidates of a sentence follow each other, the parser's best first, and have the same sent_id or,"
        " without one, the same words. Writes the selected trees. With --gold, prints their attachment scores, UAS and"
        " LAS, beside those of the first candidates.",
        epilog="example: syntaxlm rerank MODEL k-best.conllu --gold test.conllu --tune dev-best.conllu dev.conllu",
    )
    add_model(parser)
    parser.add_input(
        "candidates",
        metavar="CANDIDATES",
        type=Path,
        help="CoNLL-U file, optionally compressed, with k trees per sentence; - for standard input",
    )
    parser.add_input("--gold", type=Path, metavar="FILE", help="gold trees, one per sentence, to score against")
    parser.add_argument(
        "--weight", type=float, metavar="W",
        help="weight of the model, 0 to 1; the parser's score has the weight 1 - W; default 1: the model alone",
    )  # fmt: skip
    parser.add_input(
        "--tune", nargs=2, type=Path, metavar=("CANDIDATES", "GOLD"),
        help="choose the weight with the highest UAS without punctuation on these trees, which are not scored",
    )  # fmt: skip
    parser.add_argument(
        "--score", default="score", metavar="NAME",
        help="name of the comment with the parser's score, # NAME = -12.3; higher is better; default score",
    )  # fmt: skip
    parser.add_output(
        "-o", "--output", metavar="FILE",
        help="write the selected trees to this file (written atomically); default: standard output, or, with --gold,"
        " no output of trees",
    )  # fmt: skip
    add_json(parser, rows=True)
    parser.set_defaults(run=_rerank)


def _rerank(options: argparse.Namespace) -> None:
    from syntaxlm.evaluation.reranking import evaluate_reranking

    if options.format != "text" and options.output is None and options.gold is None:
        raise InputError(
            f"--format {options.format}: is the format of the figures, but the trees are written to standard output;"
            " add -o FILE for the trees, or --gold"
        )
    if options.format in ROW_FORMATS and options.gold is None:
        raise InputError(f"--format {options.format}: the table has attachment scores; add --gold, or use text or json")
    stored = load_model(options.model, options)
    arguments = options.candidates, options.gold, options.weight, options.tune, options.score
    if options.output is None and options.gold is not None:
        print_figures(evaluate_reranking(stored, *arguments), options)
        return
    with text_output(options.output) as file:
        report = evaluate_reranking(stored, *arguments, file.write)
    if options.output is not None:
        print_figures(report, options)
