"""`evaluate completion`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from syntaxlm.cli.options import add_json, add_model, add_treebank_style, model_names, print_result, treebank_style


def add_completion(kinds: Any) -> None:
    parser = kinds.add_parser(
        "completion",
        help="sentence completion: is the right candidate the most probable one?",
        description="Answer sentence-completion questions, such as those of the Microsoft Research challenge. Each"
        " candidate for a gap is written as a whole sentence; the one with the highest log-probability is chosen."
        " Further models appear in adjacent columns and are interpolated with the first. Dependency-tree models read"
        " parsed candidates and give P(S | T), the probability of the words given their tree.",
        epilog="example: syntaxlm evaluate completion my-model questions.txt answers.txt --also another",
    )
    add_model(parser)
    parser.add_argument(
        "questions", metavar="QUESTIONS",
        help="a UTF-8 file, one candidate per line, those of a question one after another; or .conllu, parsed; - for"
        " standard input",
    )  # fmt: skip
    parser.add_argument(
        "answers",
        metavar="ANSWERS",
        help="a file with the correct candidate of each question, or its label, one per line",
    )
    parser.add_argument(
        "--also", action="append", default=[], type=Path, metavar="MODEL_DIR",
        help="another model, may be repeated: the log-probabilities of all models are interpolated, with weights chosen"
        " on the first half of the questions",
    )  # fmt: skip
    parser.add_argument(
        "--weight", action="append", type=float, metavar="W",
        help="weight of an --also model, 0 to 1, instead of a chosen one; once for each --also, in the same order; the"
        " first model has the rest",
    )  # fmt: skip
    parser.add_argument(
        "--parses", type=Path, metavar="FILE",
        help="for dependency-tree models if QUESTIONS is plain text: .conllu, a tree for each candidate, in the same"
        " order",
    )  # fmt: skip
    add_treebank_style(parser)
    parser.add_argument(
        "--per-token", action="store_true",
        help="compare mean log-probabilities per token, for candidates of different lengths; default: sums",
    )  # fmt: skip
    parser.add_argument(
        "--per-question", type=Path, metavar="FILE",
        help="write each question, its candidates' log-probabilities and the choice to this file, as JSON lines",
    )  # fmt: skip
    add_json(parser)
    parser.set_defaults(run=_completion)


def _completion(options: argparse.Namespace) -> None:
    from syntaxlm.evaluation.completion import evaluate_completion, write_questions
    from syntaxlm.model_io import read_model

    folders = [options.model, *options.also]
    models = dict(zip(model_names(folders), map(read_model, folders), strict=True))
    report = evaluate_completion(
        models, options.questions, options.answers, treebank_style(options),
        options.weight, options.per_token, options.parses,
    )  # fmt: skip
    if options.per_question:
        write_questions(report, options.per_question)
    print_result(report, options.json)
