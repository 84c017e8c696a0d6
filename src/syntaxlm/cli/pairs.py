"""`evaluate pairs`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from syntaxlm.cli.options import add_json, add_model, add_treebank_style, model_names, print_result, treebank_style


def add_pairs(kinds: Any) -> None:
    parser = kinds.add_parser(
        "pairs",
        help="minimal pairs: is the better sentence the more probable one?",
        description="Score minimal pairs, such as those of BLiMP and of Marvin and Linzen: how often the better"
        " sentence has the higher log-probability. Files are JSON lines, one item per line: sentence_good and"
        " sentence_bad, or sentences, best first. Several models appear in adjacent columns and are compared with the"
        " first.",
        epilog="example: syntaxlm evaluate pairs my-model --model another pairs.jsonl --punctuation drop",
    )
    add_model(parser)
    parser.add_argument("files", nargs="+", metavar="FILES", help="files or folders of minimal pairs; - standard input")
    parser.add_argument(
        "--model", action="append", default=[], type=Path, dest="others", metavar="DIR",
        help="another model, to compare with the first; may be given several times",
    )  # fmt: skip
    add_treebank_style(parser)
    parser.add_argument(
        "--per-pair", type=Path, metavar="FILE", help="write each pair and its log-probabilities, as JSON lines"
    )
    add_json(parser)
    parser.set_defaults(run=_pairs)


def _pairs(options: argparse.Namespace) -> None:
    from syntaxlm.evaluation.pairs import evaluate_pairs, write_pairs
    from syntaxlm.model_io import read_model

    folders = [options.model, *options.others]
    models = dict(zip(model_names(folders), map(read_model, folders), strict=True))
    report = evaluate_pairs(models, options.files, treebank_style(options))
    if options.per_pair:
        write_pairs(report, options.per_pair)
    print_result(report, options.json)
