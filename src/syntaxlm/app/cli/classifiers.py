"""Pair classifiers: `data logic`, `data next-sentence`, `evaluate logic`, `evaluate classifier`."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from syntaxlm.app.cli.options import add_device, add_figures, add_json, add_seed, print_figures, print_result
from syntaxlm.core.errors import InputError

if TYPE_CHECKING:
    import torch

    from syntaxlm.evaluation.pair_classification import AnsweredPairs
    from syntaxlm.storage.folder import StoredClassifier


def add_data_logic(kinds: Any) -> None:
    parser = kinds.add_parser(
        "logic",
        help="sample pairs of propositional formulas and their relations",
        description="Sample pairs of propositional formulas, and determine by truth tables which of seven relations"
        " holds between them. Training and validation pairs have up to 6 operators, test pairs 1 to 12.",
        epilog="example: syntaxlm data logic -o logic",
    )
    _add_output_folder(parser)
    parser.add_argument(
        "--pairs", type=int, default=100_000, metavar="N", help="number of training pairs; default 100,000"
    )
    add_seed(parser)
    add_json(parser)
    parser.set_defaults(run=_data_logic)


def add_evaluate_logic(kinds: Any) -> None:
    parser = kinds.add_parser(
        "logic",
        help="measure the accuracy of logical inference by number of operators",
        description="Predict the relation between the two formulas of every pair of a file with a classifier. Prints"
        " accuracy by number of operators, and for comparison that of the most frequent relation.",
        epilog="example: syntaxlm evaluate logic MODEL logic/test.tsv",
    )
    parser.add_input("model", metavar="MODEL", type=Path, help="folder of a classifier, written by train")
    add_device(parser)
    parser.add_input("pairs", metavar="PAIRS", help="file of pairs, in the format of data logic; - for standard input")
    add_figures(parser, rows=True)
    parser.set_defaults(run=_evaluate_logic)


def add_data_next_sentence(kinds: Any) -> None:
    parser = kinds.add_parser(
        "next-sentence",
        help="make labelled sentence pairs from a text: does the second sentence follow the first?",
        description="Make labelled sentence pairs from a text, one sentence per line: half of them are a sentence and"
        " the next one (label next), half a sentence and another one of the same part of the text (label other). The"
        " first 90% of the text are for training, the next 5% for validation, the last 5% for testing.",
        epilog="example: syntaxlm data next-sentence text.txt -o pairs",
    )
    parser.add_input("text", metavar="TEXT", help="UTF-8 file, one sentence per line; - for standard input")
    _add_output_folder(parser)
    parser.add_argument(
        "--max-words", type=int, default=40, metavar="N", help="omit pairs with a longer sentence; default 40"
    )
    add_seed(parser)
    add_json(parser)
    parser.set_defaults(run=_data_next_sentence)


def add_evaluate_classifier(kinds: Any) -> None:
    parser = kinds.add_parser(
        "classifier",
        help="measure the accuracy of a classifier of sentence pairs",
        description="Predict the label of every pair of a file with a classifier. Prints accuracy, in all and for each"
        " label, and for comparison that of the most frequent label. For formulas, evaluate logic also prints accuracy"
        " by number of operators.",
        epilog="example: syntaxlm evaluate classifier MODEL pairs.tsv",
    )
    parser.add_input("model", metavar="MODEL", type=Path, help="folder of a classifier, written by train")
    add_device(parser)
    parser.add_input(
        "pairs", metavar="PAIRS", help="file of pairs, in the format of the training files; - for standard input"
    )
    add_figures(parser, rows=True)
    parser.set_defaults(run=_evaluate_classifier)


def _add_output_folder(parser: Any) -> None:
    parser.add_output_folder(
        "-o", "--output", use="new files", files=["train.tsv", "valid.tsv", "test.tsv"], required=True,
        help="output folder",
    )  # fmt: skip


def _data_next_sentence(options: argparse.Namespace) -> None:
    from syntaxlm.core.progress import status
    from syntaxlm.data.labelled_pairs import write_next_sentence_pairs

    with status("writing pairs"):
        summary = write_next_sentence_pairs(options.text, options.output, options.max_words, options.seed)
    print_figures(summary, options)


def _data_logic(options: argparse.Namespace) -> None:
    from syntaxlm.core.progress import status
    from syntaxlm.data.labelled_pairs import write_logic

    if options.pairs < 1 or options.seed < 0:
        raise InputError(
            f"found --pairs {options.pairs} --seed {options.seed}; expected 1 or more pairs, and a seed of 0 or more"
        )
    with status("sampling"):
        summary = write_logic(options.output, options.pairs, options.seed)
    print_figures(summary, options)


def _evaluate_logic(options: argparse.Namespace) -> None:
    from syntaxlm.evaluation.pair_classification import evaluate_inference

    _evaluate(options, evaluate_inference)


def _evaluate_classifier(options: argparse.Namespace) -> None:
    from syntaxlm.evaluation.pair_classification import evaluate_classifier

    _evaluate(options, evaluate_classifier)


def _evaluate(
    options: argparse.Namespace, evaluate: Callable[[StoredClassifier, str, torch.device], AnsweredPairs]
) -> None:
    from syntaxlm.core.progress import status
    from syntaxlm.storage.folder import find_device, read_classifier

    device = find_device(options.device or "cpu")
    stored = read_classifier(options.model)
    with status("reading pairs"):
        report = evaluate(stored, options.pairs, device)
    print_result(report, options)
