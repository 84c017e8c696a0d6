"""`average`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from syntaxlm.cli.options import add_json, add_protocol, add_ties, print_result
from syntaxlm.errors import InputError


def add_average(commands: Any) -> None:
    parser = commands.add_parser(
        "average",
        help="average the trees of several parsers",
        description="Average the trees of several parsers (models, seeds, layers). For each sentence, write the binary"
        " tree that shares the most spans with all of them; print how far the parsers agree.",
    )
    parser.add_argument(
        "predictions", nargs="+", type=Path, metavar="PREDICTED",
        help="two bracket files or more, of the same sentences in the same order"
    )  # fmt: skip
    parser.add_argument(
        "-o", "--output", type=Path, required=True, metavar="FILE", help="output file, one averaged tree per line"
    )
    parser.add_argument(
        "--weights", metavar="W,W,...", help="weight of each file's spans, such as 2,1,1; default: equal weights"
    )
    add_ties(parser)
    add_protocol(parser)
    add_json(parser)
    parser.set_defaults(run=_average)


def _average(options: argparse.Namespace) -> None:
    from syntaxlm.files import refuse_overwriting, write_text
    from syntaxlm.parsing.evaluation import protocol_named
    from syntaxlm.progress import status
    from syntaxlm.trees import average_files

    refuse_overwriting(options.output, options.predictions)
    protocol = protocol_named(options.protocol, options.max_words)
    with status("averaging"):
        result = average_files(options.predictions, protocol, _weights(options.weights), options.ties or "random")
    write_text("".join(line + "\n" for line in result.brackets()), options.output)
    print_result(result, options.json)


def _weights(text: str | None) -> list[float] | None:
    if text is None:
        return None
    try:
        return [float(weight) for weight in text.split(",")]
    except ValueError:
        raise InputError(f"--weights: found {text!r}, expected numbers with commas between them: 2,1,1") from None
