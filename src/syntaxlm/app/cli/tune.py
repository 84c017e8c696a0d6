"""`tune` and its subcommands."""

from __future__ import annotations

import argparse
import dataclasses
import shlex
from pathlib import Path
from typing import Any

from syntaxlm.app.cli.formats import ROW_FORMATS
from syntaxlm.app.cli.options import (
    add_figures,
    add_json,
    add_model,
    add_reading,
    add_seed,
    load_model,
    print_figures,
    text_mode,
    text_output,
    write_rows,
)
from syntaxlm.core.files import to_json


def add_tune(commands: Any) -> None:
    tune = commands.add_parser(
        "tune",
        help="train add-ons for a model",
        description="Train add-ons for a model.",
        epilog="example: syntaxlm tune cache MODEL valid.txt",
    )
    kinds = tune.add_subparsers(title="commands", metavar="COMMAND")
    parser = kinds.add_parser(
        "cache",
        help="choose the weights of a neural cache",
        description="Choose the weight and theta of a neural cache on a validation text, one sentence per line. The"
        " model reads the text once; then many pairs of values are tried. Prints their perplexities, the best pair, and"
        " the command for the evaluation.",
        epilog="example: syntaxlm tune cache MODEL valid.txt",
    )
    add_model(parser)
    parser.add_input("text", metavar="TEXT", help="validation text, one sentence per line; - for standard input")
    add_reading(parser)
    parser.add_argument(
        "--cache-size", type=int, default=2000, metavar="N", help="number of words in the cache; default 2000"
    )
    add_figures(parser, rows=True)
    parser.set_defaults(run=_cache)
    _add_stops(kinds)


def _add_stops(kinds: Any) -> None:
    parser = kinds.add_parser(
        "stops",
        help="train the stop classifiers of a dependency-tree model, which generate requires",
        description="Train classifiers on the states of a dependency-tree model, which does not change. They predict"
        " for every word whether a left, right, next left or next right dependent follows and, if the model reads"
        " labels, the label of an edge. The classifiers of the epoch with the lowest validation loss are written to the"
        " model's folder, for generate. Prints the accuracy of each classifier beside that of always stopping.",
        epilog="example: syntaxlm tune stops MODEL train.conllu --valid dev.conllu --test test.conllu",
    )
    parser.add_input("model", metavar="MODEL", type=Path, help="model folder, written by train")
    parser.add_input("trees", metavar="TRAIN", help="dependency trees: a file, a folder or a quoted pattern")
    parser.add_input("--valid", required=True, metavar="TREES", help="validation trees, used to select the epoch")
    parser.add_input("--test", metavar="TREES", help="trees for the final evaluation")
    parser.add_argument(
        "--reads", choices=["states", "states-and-words"], default="states-and-words",
        help="input of the classifiers: the state that a word was drawn from, as published, or also the word and its"
        " label (default)",
    )  # fmt: skip
    parser.add_argument(
        "--hidden-size",
        type=int,
        metavar="N",
        help="hidden size of the classifiers; default: size of the model's state",
    )
    parser.add_argument(
        "--learning-rate", type=float, default=1e-3, metavar="R", help="learning rate of Adam; default 0.001"
    )
    parser.add_argument("--epochs", type=int, default=30, metavar="N", help="maximum number of epochs; default 30")
    parser.add_argument(
        "--patience", type=int, default=3, metavar="N",
        help="stop after N epochs without a better validation loss; default 3",
    )  # fmt: skip
    parser.add_argument(
        "--minutes", type=float, metavar="M", help="stop after M minutes of training; default: no limit"
    )
    add_seed(parser, 1)
    add_json(parser)
    parser.set_defaults(run=_stops)


def _stops(options: argparse.Namespace) -> None:
    from syntaxlm.core.progress import error_console
    from syntaxlm.training.classifiers import StopRecipe, train_stops
    from syntaxlm.training.progress import ProgressDisplay

    recipe = StopRecipe(reads=options.reads, hidden_size=options.hidden_size)
    limits = {"epochs": options.epochs, "stop_patience": options.patience, "minutes": options.minutes}
    recipe = dataclasses.replace(
        recipe,
        optimiser=dataclasses.replace(recipe.optimiser, learning_rate=options.learning_rate),
        schedule=dataclasses.replace(recipe.schedule, **limits),
        run=dataclasses.replace(recipe.run, seed=options.seed),
    )
    files = options.trees, options.valid, options.test
    with ProgressDisplay(recipe.schedule, error_console(), "words") as display:
        result = train_stops(options.model, *files, recipe, display)
    print_figures(result, options)


def _cache(options: argparse.Namespace) -> None:
    from syntaxlm.core.progress import status
    from syntaxlm.scoring.cache_tuning import tune_cache

    with status("reading, then trying weights"):
        bundle = load_model(options.model, options)
        mode = text_mode(options, bundle)
        tuning = tune_cache(bundle, options.text, mode, options.cache_size)
    best = tuning.best
    context = [
        f"--{'' if getattr(options, name) else 'no-'}{name.replace('_', '-')}"
        for name in ("carry_state", "predict_eos")
        if getattr(options, name) is not None
    ]
    weights = ["--cache-weight", f"{best.weight:g}", "--cache-theta", f"{best.theta:g}"]
    words = [
        "syntaxlm",
        "evaluate",
        "perplexity",
        str(options.model),
        "TEXT",
        *context,
        *weights,
        "--cache-size",
        str(best.size),
    ]
    command = shlex.join(words)
    if options.format in ROW_FORMATS:
        write_rows(tuning.rows(), tuning.columns, options)
        return
    if options.format == "json":
        found = to_json(tuning.to_dict() | {"command": command})
    elif best.weight == 0:
        found = f"{tuning}\n\nA cache does not help this model on this text."
    else:
        found = f"{tuning}\n\n{command}"
    with text_output(options.output) as file:
        file.write(found + "\n")
