"""`rerank`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from syntaxlm.cli.options import add_json, add_model, print_result
from syntaxlm.errors import InputError


def add_rerank(commands: Any) -> None:
    parser = commands.add_parser(
        "rerank",
        help="select among a parser's candidate trees by a dependency-tree model",
        description="Select one of several candidate trees for each sentence: the one with the highest log P(S | T),"
        " the log-probability of the words given the tree, or the highest weighted sum of this and the parser's score."
        " Candidates of a sentence follow each other, the parser's best first; they share their sent_id or, without"
        " one, their words. Writes the selected trees and, with --gold, prints their attachment scores, UAS and LAS,"
        " beside those of the first candidates.",
        epilog="example: syntaxlm rerank MODEL_DIR k-best.conllu --gold test.conllu --tune dev-best.conllu dev.conllu",
    )
    add_model(parser)
    parser.add_argument(
        "candidates",
        metavar="CANDIDATES",
        type=Path,
        help="CoNLL-U, perhaps compressed, k trees per sentence; - for standard input",
    )
    parser.add_argument("--gold", type=Path, metavar="FILE", help="gold trees, one per sentence, to score against")
    parser.add_argument(
        "--weight", type=float, metavar="W",
        help="weight of the model, 0 to 1; the parser's score has the rest; default 1: the model alone",
    )  # fmt: skip
    parser.add_argument(
        "--tune", nargs=2, type=Path, metavar=("CANDIDATES", "GOLD"),
        help="choose the weight with the highest UAS without punctuation on these trees, which are not scored",
    )  # fmt: skip
    parser.add_argument(
        "--score", default="score", metavar="NAME",
        help="the comment with the parser's score, # NAME = -12.3, the higher the better; default score",
    )  # fmt: skip
    parser.add_argument(
        "-o", "--output", type=Path, metavar="FILE",
        help="output file for the selected trees (written atomically); default without --gold: standard output",
    )  # fmt: skip
    add_json(parser)
    parser.set_defaults(run=_rerank)


def _rerank(options: argparse.Namespace) -> None:
    from syntaxlm.evaluation.reranking import evaluate_reranking
    from syntaxlm.files import refuse_overwriting, replaced
    from syntaxlm.model_io import read_model

    if options.json and options.output is None and options.gold is None:
        raise InputError("--json prints figures, and standard output has the trees: expected -o or --gold beside it")
    refuse_overwriting(options.output, [options.candidates, options.gold, *(options.tune or ())])
    stored = read_model(options.model)
    arguments = options.candidates, options.gold, options.weight, options.tune, options.score
    if options.output is not None:
        with replaced(options.output) as temporary, open(temporary, "w", encoding="utf-8", newline="\n") as file:
            report = evaluate_reranking(stored, *arguments, file.write)
    elif options.gold is None:
        evaluate_reranking(stored, *arguments, sys.stdout.write)
        return
    else:
        report = evaluate_reranking(stored, *arguments)
    print_result(report, options.json)
