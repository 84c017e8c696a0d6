"""`average`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from syntaxlm.app.cli.options import (
    add_json,
    add_output,
    add_protocol,
    add_ties,
    print_summary,
    text_output,
    weights_of,
)


def add_average(commands: Any) -> None:
    parser = commands.add_parser(
        "average",
        help="average the trees of several parsers",
        description="Average the trees of several parsers (models, seeds or layers). For each sentence, write the"
        " binary tree that shares the most spans with all of them, and print the agreement of the parsers.",
        epilog="example: syntaxlm average seed-1.mrg seed-2.mrg seed-3.mrg -o average.mrg",
    )
    parser.add_input(
        "predictions", nargs="+", type=Path, metavar="PREDICTED",
        help="two or more bracket files, with the same sentences in the same order"
    )  # fmt: skip
    add_output(parser, "the averaged trees, one per line,")
    parser.add_argument(
        "--weights", action="append", metavar="W,W,...",
        help="weight of each file's spans, such as 2,1,1; default: equal weights",
    )  # fmt: skip
    add_ties(parser)
    add_protocol(parser)
    add_json(parser)
    parser.set_defaults(run=_average)


def _average(options: argparse.Namespace) -> None:
    from syntaxlm.core.progress import status
    from syntaxlm.parsing.evaluation import protocol_named
    from syntaxlm.trees import average_files

    protocol = protocol_named(options.protocol, options.max_words)
    with status("averaging"):
        result = average_files(options.predictions, protocol, weights_of(options.weights), options.ties or "random")
    with text_output(options.output) as file:
        file.writelines(line + "\n" for line in result.brackets())
    print_summary(result, options)
