"""`grammar`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from syntaxlm.cli.options import add_json, add_model, print_result


def add_grammar(commands: Any) -> None:
    parser = commands.add_parser(
        "grammar",
        help="list the most used symbols of a PCFG, with rules, words and examples",
        description="List the grammar that a PCFG has learned. Each of the most used nonterminals is shown with its"
        " share of the constituents, its most probable rules and examples; each of the most used preterminals with its"
        " share of the words and its most probable words. Use is counted in the parses of a text or, without one, in"
        " sentences sampled from the grammar.",
        epilog="example: syntaxlm grammar MODEL_DIR --text sentences.txt -o grammar.html",
    )
    add_model(parser)
    parser.add_argument(
        "--text", metavar="FILE",
        help="count the use of symbols in this text, one sentence per line; default: in 1,000 sampled sentences",
    )  # fmt: skip
    parser.add_argument(
        "--symbols", type=int, default=10, metavar="N",
        help="number of nonterminals and of preterminals to list; default 10",
    )  # fmt: skip
    parser.add_argument(
        "-o", "--output", type=Path, metavar="FILE",
        help="output file: .txt, .json or .html (a page that needs no other file); default: standard output",
    )  # fmt: skip
    add_json(parser)
    parser.set_defaults(run=_grammar)


def _grammar(options: argparse.Namespace) -> None:
    from syntaxlm.model_io import read_model
    from syntaxlm.reports.grammar import list_grammar

    report = list_grammar(read_model(options.model), options.text, options.symbols, options.output)
    if options.output is None or options.json:
        print_result(report, options.json)
