"""Logical inference: `data logic`, `logic train`, `evaluate logic`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from syntaxlm.cli.options import add_json, print_result
from syntaxlm.errors import InputError


def add_data_logic(kinds: Any) -> None:
    parser = kinds.add_parser(
        "logic",
        help="pairs of propositional formulas, and the relation between them",
        description="Sample pairs of propositional formulas and find, by truth tables, which of seven relations holds"
        " between them. Training and validation pairs have up to 6 operators, test pairs 1 to 12.",
    )
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="DIR", help="folder to write to")
    parser.add_argument("--pairs", type=int, default=100_000, metavar="N", help="training pairs (default 100,000)")
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="default 0")
    add_json(parser)
    parser.set_defaults(run=_data)


def add_logic(commands: Any) -> None:
    logic = commands.add_parser("logic", help="logical inference with a model's encoder")
    kinds = logic.add_subparsers(title="what to do", required=True, metavar="KIND")
    parser = kinds.add_parser(
        "train",
        help="train a classifier of pairs of formulas",
        description="Train a model's encoder with a classifier that predicts the relation between two formulas, into a"
        " new folder. Every setting of the recipe can be overridden by its dotted name. The weights with the highest"
        " accuracy on the validation pairs are kept.",
        epilog="example: syntaxlm logic train logic/on-lstm-small --output runs/logic --training.epochs 3",
    )
    parser.add_argument(
        "logic_recipe", nargs="?", metavar="RECIPE",
        help="a recipe file, or the name of a shipped one: logic/on-lstm, ..."
    )  # fmt: skip
    parser.add_argument("--output", type=Path, metavar="DIR", help="new folder for the classifier")
    parser.add_argument("--resume", type=Path, metavar="DIR", help="resume the run in this folder")
    add_json(parser)
    parser.set_defaults(run=_train, takes_overrides=True)


def add_evaluate_logic(kinds: Any) -> None:
    parser = kinds.add_parser(
        "logic",
        help="accuracy of logical inference by number of operators",
        description="Predict the relation between the two formulas of every pair of a file with a classifier. Prints"
        " accuracy by number of operators, beside that of the most frequent relation.",
    )
    parser.add_argument("classifier", metavar="DIR", type=Path, help="a classifier's folder, as logic train writes it")
    parser.add_argument("pairs", metavar="FILE", help="pairs as data logic writes them; - for standard input")
    add_json(parser)
    parser.set_defaults(run=_evaluate)


def _data(options: argparse.Namespace) -> None:
    from syntaxlm.data.logic import write_logic
    from syntaxlm.progress import status

    if options.pairs < 1 or options.seed < 0:
        raise InputError(f"--pairs {options.pairs} --seed {options.seed}: expected 1 or more, and 0 or more")
    with status("sampling"):
        summary = write_logic(options.output, options.pairs, options.seed)
    print_result(summary, options.json)


def _train(options: argparse.Namespace) -> None:
    from syntaxlm.progress import error_console
    from syntaxlm.training.display import ProgressDisplay
    from syntaxlm.training.logical_inference import (
        read_inference_recipe,
        read_inference_run,
        resume_inference,
        train_inference,
    )

    if options.resume is not None:
        if options.logic_recipe is not None or options.output is not None or options.overrides:
            raise InputError("--resume DIR stands alone: the run's recipe is in its folder")
        recipe = read_inference_run(options.resume)
        with ProgressDisplay(recipe.schedule, error_console(), "pairs") as display:
            print_result(resume_inference(options.resume, display), options.json)
        return
    if options.logic_recipe is None or options.output is None:
        raise InputError("expected a recipe and --output DIR, or --resume DIR")
    recipe = read_inference_recipe(options.logic_recipe, options.overrides)
    with ProgressDisplay(recipe.schedule, error_console(), "pairs") as display:
        print_result(train_inference(recipe, options.output, display), options.json)


def _evaluate(options: argparse.Namespace) -> None:
    from syntaxlm.evaluation.logical_inference import evaluate_inference, read_classifier
    from syntaxlm.progress import status

    stored = read_classifier(options.classifier)
    with status("reading pairs"):
        report = evaluate_inference(stored, options.pairs)
    print_result(report, options.json)
