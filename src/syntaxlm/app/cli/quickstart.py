"""`quickstart`."""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from typing import Any

from syntaxlm.app.cli.options import add_json, add_seed, add_training_device, print_figures, training_device


def add_quickstart(commands: Any) -> None:
    parser = commands.add_parser(
        "quickstart",
        help="train, evaluate and report on a small model in a few minutes",
        description="Write the built-in corpus, train a small model on it, print perplexity, F1 and three parses, and"
        " write the report DIR/report.html.",
        epilog="example: syntaxlm quickstart -o first --model-type prpn",
    )
    parser.add_output_folder(
        "-o", "--output", use="empty", default=Path("quickstart"), help="new or empty folder; default: quickstart"
    )
    parser.add_argument(
        "--model-type", default="simple-pcfg", metavar="NAME",
        help="model type, which selects the shipped recipe NAME-toy: simple-pcfg (default), prpn, on-lstm, palm, lstm,"
        " tree-rnn, kn5",
    )  # fmt: skip
    add_seed(parser, 1)
    add_training_device(parser)
    add_json(parser)
    parser.set_defaults(run=_quickstart)


def _quickstart(options: argparse.Namespace) -> int:
    from syntaxlm.app.cli.train import exit_code
    from syntaxlm.app.quickstart import run_quickstart
    from syntaxlm.core.progress import error_console
    from syntaxlm.training.progress import ProgressDisplay
    from syntaxlm.training.recipe import read_recipe
    from syntaxlm.training.recipe_files import find_recipe

    console, settings = error_console(), training_device(options)
    recipe = read_recipe(find_recipe(f"{options.model_type}-toy"))
    with ProgressDisplay(recipe.schedule, console) as display:
        result = run_quickstart(
            options.output, options.model_type, options.seed, partial(console.print, soft_wrap=True), display, settings
        )
    print_figures(result, options)
    return exit_code(result.training.stopped)
