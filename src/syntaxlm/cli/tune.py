"""`tune` and its kinds."""

from __future__ import annotations

import argparse
import json
import shlex
from typing import Any

from syntaxlm.cli.options import add_json, add_mode, add_model


def add_tune(commands: Any) -> None:
    tune = commands.add_parser("tune", help="choose settings on validation text")
    kinds = tune.add_subparsers(title="what to tune", required=True, metavar="KIND")
    parser = kinds.add_parser(
        "cache",
        help="the weights of a neural cache",
        description="Chooses weight and flatness of a neural cache on a text, one sentence a line, that is not the one"
        " to be measured. The model reads it once; then many pairs are tried. Prints their perplexities, the best pair,"
        " and the command that measures with it.",
    )
    add_model(parser)
    parser.add_argument("text", metavar="VALID_TEXT", help="a UTF-8 file, one sentence a line; - for standard input")
    add_mode(parser)
    parser.add_argument(
        "--cache-size", type=int, default=2000, metavar="N", help="words that the cache holds; default 2000"
    )
    add_json(parser)
    parser.set_defaults(run=_cache)


def _cache(options: argparse.Namespace) -> None:
    from syntaxlm.evaluation.cache_tuning import tune_cache
    from syntaxlm.storage import read_model
    from syntaxlm.waiting import told

    with told("reading, then trying weights"):
        tuning = tune_cache(read_model(options.model), options.text, options.mode, options.cache_size)
    best = tuning.best
    mode = [] if options.mode is None else ["--mode", options.mode]
    weights = ["--cache-weight", f"{best.weight:g}", "--cache-flatness", f"{best.flatness:g}"]
    words = ["syntaxlm", "evaluate", "lm", str(options.model), "TEXT", *mode, *weights, "--cache-size", str(best.size)]
    command = shlex.join(words)
    if options.json:
        print(json.dumps(tuning.as_dict() | {"command": command}, ensure_ascii=False))
    elif best.weight == 0:
        print(f"{tuning}\n\nA cache does not help this model on this text.")
    else:
        print(f"{tuning}\n\n{command}")
