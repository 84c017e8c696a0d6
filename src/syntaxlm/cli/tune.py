"""`tune` and its kinds."""

from __future__ import annotations

import argparse
import shlex
from typing import Any

from syntaxlm.cli.options import add_context, add_json, add_model, print_result, text_mode
from syntaxlm.files import to_json


def add_tune(commands: Any) -> None:
    tune = commands.add_parser("tune", help="fit what stands beside a trained model")
    kinds = tune.add_subparsers(title="what to tune", required=True, metavar="KIND")
    parser = kinds.add_parser(
        "cache",
        help="the weights of a neural cache",
        description="Chooses weight and theta of a neural cache on a text, one sentence a line, that is not the one"
        " to be measured. The model reads it once; then many pairs are tried. Prints their perplexities, the best pair,"
        " and the command that measures with it.",
    )
    add_model(parser)
    parser.add_argument("text", metavar="VALID_TEXT", help="a UTF-8 file, one sentence a line; - for standard input")
    add_context(parser)
    parser.add_argument(
        "--cache-size", type=int, default=2000, metavar="N", help="words that the cache holds; default 2000"
    )
    add_json(parser)
    parser.set_defaults(run=_cache)
    _add_stops(kinds)


def _add_stops(kinds: Any) -> None:
    parser = kinds.add_parser(
        "stops",
        help="where the trees of a model of trees end, so that it can generate",
        description="Trains, over the states of a model of dependency trees, which stay as they are, the classifiers"
        " that tell for every word whether a left, right, next left or next right dependent follows, and for a model"
        " that reads labels, which one an edge has. They are written into the model's folder, for generate; those of"
        " the epoch of the best validation loss are kept. Prints the accuracy of each beside that of always stopping.",
        epilog="example: syntaxlm tune stops MODEL_DIR train.conllu --valid dev.conllu --test test.conllu",
    )
    add_model(parser)
    parser.add_argument("trees", metavar="TRAIN", help="dependency trees: a file, a folder or a quoted pattern")
    parser.add_argument("--valid", required=True, metavar="TREES", help="trees that choose the epoch")
    parser.add_argument("--test", metavar="TREES", help="trees that are only measured, at the end")
    parser.add_argument(
        "--reads", choices=["states", "states-and-words"], default="states-and-words",
        help="what the classifiers read of a word: the state that it was drawn from, as published, or the word (and"
        " label), too; default states-and-words",
    )  # fmt: skip
    parser.add_argument(
        "--hidden-size", type=int, metavar="N", help="neurons of their hidden layer; default: as the model's state"
    )
    parser.add_argument("--learning-rate", type=float, default=1e-3, metavar="R", help="of Adam; default 0.001")
    parser.add_argument("--epochs", type=int, default=30, metavar="N", help="at most; default 30")
    parser.add_argument(
        "--patience", type=int, default=3, metavar="N",
        help="end after so many epochs without a better validation loss; default 3",
    )  # fmt: skip
    parser.add_argument("--minutes", type=float, metavar="M", help="end after so much training; default: no limit")
    parser.add_argument("--seed", type=int, default=1, metavar="S", help="default 1")
    add_json(parser)
    parser.set_defaults(run=_stops)


def _stops(options: argparse.Namespace) -> None:
    from syntaxlm.progress import error_console
    from syntaxlm.training.display import ProgressDisplay
    from syntaxlm.training.stops import StopTraining, train_stops

    names = ("reads", "hidden_size", "learning_rate", "epochs", "patience", "minutes", "seed")
    settings = StopTraining(**{name: getattr(options, name) for name in names})
    files = options.trees, options.valid, options.test
    with ProgressDisplay(settings.schedule, error_console(), "words") as display:
        result = train_stops(options.model, *files, settings, display)
    print_result(result, options.json)


def _cache(options: argparse.Namespace) -> None:
    from syntaxlm.model_io import read_model
    from syntaxlm.progress import status
    from syntaxlm.scoring.cache_tuning import tune_cache

    with status("reading, then trying weights"):
        bundle = read_model(options.model)
        mode = text_mode(options, bundle)
        tuning = tune_cache(bundle, options.text, mode, options.cache_size)
    best = tuning.best
    context = [] if mode is None else ["--context", "carry" if mode.carry_state else "reset"]
    weights = ["--cache-weight", f"{best.weight:g}", "--cache-theta", f"{best.theta:g}"]
    words = [
        "syntaxlm",
        "evaluate",
        "lm",
        str(options.model),
        "TEXT",
        *context,
        *weights,
        "--cache-size",
        str(best.size),
    ]
    command = shlex.join(words)
    if options.json:
        print(to_json(tuning.as_dict() | {"command": command}))
    elif best.weight == 0:
        print(f"{tuning}\n\nA cache does not help this model on this text.")
    else:
        print(f"{tuning}\n\n{command}")
