"""`data sentences`."""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import Any

from syntaxlm.app.cli.options import (
    add_json,
    add_output,
    add_seed,
    add_treebank_style_of_text,
    output_path,
    print_summary,
    treebank_style,
)


def add_data_sentences(kinds: Any) -> None:
    parser = kinds.add_parser(
        "sentences",
        help="split books into one sentence per line",
        description="Split plain text with arbitrary line breaks, such as books, into sentences, one per line. Blank"
        " lines separate paragraphs. Abbreviations, whose full stops do not end a sentence, are learned from the text.",
        epilog="example: syntaxlm data sentences novels/*.txt -o train.txt --valid-output valid.txt",
    )
    parser.add_input(
        "files", nargs="+", metavar="FILES", help="plain text files, optionally .gz, .xz or .zst; - for standard input"
    )
    add_output(parser, "the sentences")
    parser.add_output(
        "--valid-output", metavar="FILE",
        help="write some paragraphs, drawn at random, to this file instead, as validation text",
    )  # fmt: skip
    parser.add_argument(
        "--valid-share", type=float, default=0.05, metavar="P",
        help="share of the paragraphs in the validation text; default 0.05",
    )  # fmt: skip
    add_seed(parser)
    parser.add_argument(
        "--paragraphs", choices=["blank-lines", "lines"], default="blank-lines",
        help="paragraph separator: blank lines (default) or every line end",
    )  # fmt: skip
    parser.add_argument(
        "--abbreviation", action="append", default=[], metavar="WORD",
        help="further word whose full stop does not end a sentence, besides the learned ones; may be repeated",
    )  # fmt: skip
    add_treebank_style_of_text(parser)
    parser.add_argument("--encoding", default="utf-8", metavar="NAME", help="encoding of the files; default utf-8")
    add_json(parser)
    parser.set_defaults(run=_sentences)


def _sentences(options: argparse.Namespace) -> None:
    from syntaxlm.data.running_text import write_sentences

    with output_path(options.output) as path:
        summary = write_sentences(
            options.files, path, options.valid_output, options.valid_share, options.seed,
            options.paragraphs == "lines", options.encoding, options.abbreviation,
            treebank_style(options),
        )  # fmt: skip
    if options.output is None:  # not the temporary file
        summary = replace(summary, train=replace(summary.train, file="standard output"))
    print_summary(summary, options)
