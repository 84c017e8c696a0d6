"""`grammar`."""

from __future__ import annotations

import argparse
from typing import Any

from syntaxlm.cli.options import add_json, add_model, load_model, print_figures


def add_grammar(commands: Any) -> None:
    parser = commands.add_parser(
        "grammar",
        help="list the most frequent symbols of a PCFG, with rules, words and examples",
        description="List the grammar that a PCFG has learned: the most frequent nonterminals with their share of the"
        " constituents, their most probable rules and examples, and the most frequent preterminals with their share of"
        " the words and their most probable words. Frequencies are counted in the parses of a text or, without one, in"
        " sentences sampled from the grammar.",
        epilog="example: syntaxlm grammar MODEL sentences.txt -o grammar.html",
    )
    add_model(parser)
    parser.add_input(
        "text", nargs="?", metavar="TEXT",
        help="count symbols in the parses of this file, one sentence per line; - for standard input; default: 1,000"
        " sampled sentences",
    )  # fmt: skip
    parser.add_argument(
        "--symbols", type=int, default=10, metavar="N",
        help="number of nonterminals and of preterminals to list; default 10",
    )  # fmt: skip
    parser.add_output(
        "-o", "--output", metavar="FILE",
        help="file to write: .txt, .json or .html (a self-contained page); default, or -: standard output",
    )  # fmt: skip
    add_json(parser)
    parser.set_defaults(run=_grammar)


def _grammar(options: argparse.Namespace) -> None:
    from syntaxlm.reports.grammar import list_grammar

    report = list_grammar(load_model(options.model, options), options.text, options.symbols, options.output)
    if options.output is None or options.json:
        print_figures(report, options)
