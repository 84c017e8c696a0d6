"""`grammar`."""

from __future__ import annotations

import argparse
from typing import Any

from syntaxlm.app.cli.formats import ROW_FORMATS, add_format
from syntaxlm.app.cli.options import add_model, add_output, load_model, output_path, print_result


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
    add_output(parser, "the grammar")
    add_format(parser, ("text", "json", "html", *ROW_FORMATS), note="html: a self-contained page")
    parser.set_defaults(run=_grammar)


def _grammar(options: argparse.Namespace) -> None:
    from syntaxlm.app.report.grammar import list_grammar

    report = list_grammar(load_model(options.model, options), options.text, options.symbols)
    if options.format == "html":
        with output_path(options.output, ".html") as path:
            report.page().write(path)
    else:
        print_result(report, options)
