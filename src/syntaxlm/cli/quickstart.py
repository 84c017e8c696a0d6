"""`quickstart`."""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from typing import Any

from syntaxlm.cli.options import add_json, print_result


def add_quickstart(commands: Any) -> None:
    parser = commands.add_parser(
        "quickstart",
        help="train, evaluate and report on a small model in a few minutes",
        description="Write the built-in corpus, train a small model on it, print perplexity, F1 and three parses, and"
        " write a report, DIR/report.html.",
    )
    parser.add_argument("--output", type=Path, default=Path("quickstart"), metavar="DIR", help="default: quickstart")
    parser.add_argument(
        "--model", default="simple-pcfg", metavar="NAME",
        help="the model of a shipped NAME-toy recipe: simple-pcfg (default), prpn, on-lstm, palm, lstm, tree-rnn, kn5",
    )  # fmt: skip
    parser.add_argument("--seed", type=int, default=1, metavar="S", help="default 1")
    add_json(parser)
    parser.set_defaults(run=_quickstart)


def _quickstart(options: argparse.Namespace) -> None:
    from syntaxlm.progress import error_console
    from syntaxlm.quickstart import run_quickstart
    from syntaxlm.training.display import ProgressDisplay
    from syntaxlm.training.recipe import find_recipe, read_recipe

    console = error_console()
    recipe = read_recipe(find_recipe(f"{options.model}-toy"))
    with ProgressDisplay(recipe.schedule, console) as display:
        result = run_quickstart(
            options.output, options.model, options.seed, partial(console.print, soft_wrap=True), display
        )
    print_result(result, options.json)
