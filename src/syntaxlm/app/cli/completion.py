"""`evaluate completion`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from syntaxlm.app.cli.options import (
    add_also,
    add_details,
    add_figures,
    add_model,
    add_treebank_style,
    load_model,
    model_names,
    print_result,
    treebank_style,
    weights_of,
)


def add_completion(kinds: Any) -> None:
    parser = kinds.add_parser(
        "completion",
        help="measure accuracy on sentence-completion questions",
        description="Answer sentence-completion questions, such as those of the Microsoft Research challenge. Each"
        " candidate for a gap is written as a whole sentence; the one with the highest log-probability is chosen."
        " Further models appear in adjacent columns and are interpolated with the first. Dependency-tree models read"
        " parsed candidates and compute P(S | T), the probability of the words given their tree.",
        epilog="example: syntaxlm evaluate completion MODEL questions.txt answers.txt --also ANOTHER",
    )
    add_model(parser)
    parser.add_input(
        "questions", metavar="QUESTIONS",
        help="UTF-8 file with one candidate per line, in which the candidates of a question follow each other; or a"
        " .conllu file of parsed candidates; - for standard input",
    )  # fmt: skip
    parser.add_input(
        "answers",
        metavar="ANSWERS",
        help="file with the correct candidate of each question, or its label, one per line",
    )
    add_also(
        parser, "all models' log-probabilities are interpolated, with weights chosen on the first half of the questions"
    )
    parser.add_argument(
        "--weights", action="append", metavar="W,W,...",
        help="weight of each --also model, 0 to 1, in their order; the first model has the remaining weight; default:"
        " chosen on the first half",
    )  # fmt: skip
    parser.add_input(
        "--parses", type=Path, metavar="FILE",
        help="for dependency-tree models if QUESTIONS is plain text: .conllu file with one tree per candidate, in the"
        " same order",
    )  # fmt: skip
    add_treebank_style(parser)
    parser.add_argument(
        "--per-token", action="store_true",
        help="compare mean log-probabilities per token, for candidates of different lengths; default: sums",
    )  # fmt: skip
    add_details(parser, "each question, its candidates' log-probabilities and the choice")
    add_figures(parser, rows=True)
    parser.set_defaults(run=_completion)


def _completion(options: argparse.Namespace) -> None:
    from syntaxlm.evaluation.completion import evaluate_completion, write_questions

    folders = [options.model, *options.also]
    models = dict(zip(model_names(folders), (load_model(folder, options) for folder in folders), strict=True))
    report = evaluate_completion(
        models, options.questions, options.answers, treebank_style(options),
        weights_of(options.weights), options.per_token, options.parses,
    )  # fmt: skip
    if options.details:
        write_questions(report, options.details)
    print_result(report, options)
