"""`evaluate significance`."""

from __future__ import annotations

import argparse
from typing import Any

from syntaxlm.app.cli.options import add_figures, print_result


def add_significance(kinds: Any) -> None:
    parser = kinds.add_parser(
        "significance",
        help="test whether one model is better than another, over seeds and items",
        description="Test whether the scores of two models differ, each with one or more seeds. Reads the files that"
        " --details of evaluate parse, trees, pairs and completion writes, one per seed. Prints the difference of the"
        " means over seeds, its 95% interval and a p-value, by a bootstrap that resamples seeds and items (sentences,"
        " pairs, questions).",
        epilog="example: syntaxlm evaluate significance a-1.jsonl a-2.jsonl --against b-1.jsonl b-2.jsonl",
    )
    parser.add_input("first", nargs="+", metavar="FILE", help="files of details of the first model, one per seed")
    parser.add_input(
        "--against",
        nargs="+",
        action="extend",
        metavar="FILE",
        required=True,
        help="those of the second model, of the same items; or right-branching alone, for right-branching trees",
    )
    add_figures(parser)
    parser.set_defaults(run=_significance)


def _significance(options: argparse.Namespace) -> None:
    from syntaxlm.evaluation.significance import compare_details

    print_result(compare_details(options.first, options.against), options)
