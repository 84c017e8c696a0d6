"""`train`, `compare` and `focus`."""

from __future__ import annotations

import argparse
import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from syntaxlm.cli.options import add_json, print_result
from syntaxlm.errors import InputError

if TYPE_CHECKING:
    from syntaxlm.training.result import TrainingResult
    from syntaxlm.training.seeds import SeedsResult


def add_train(commands: Any) -> None:
    parser = commands.add_parser(
        "train",
        help="train a model from a recipe",
        description="Train a model from a recipe, a YAML file, into a new folder. Every setting of the recipe can be"
        " overridden by its dotted name: --model.hidden_size 400 --text.train my.txt. Ctrl-C saves and stops; --resume"
        " produces the same weights as an uninterrupted run.",
        epilog="example: syntaxlm train prpn-toy --output runs/toy --schedule.epochs 3",
    )
    parser.add_argument("recipe", nargs="?", metavar="RECIPE", help="a recipe file, or the name of a shipped recipe")
    parser.add_argument("--output", type=Path, metavar="DIR", help="new folder for the model")
    parser.add_argument("--resume", type=Path, metavar="DIR", help="resume the run in this folder")
    parser.add_argument("--seeds", type=int, default=1, metavar="N", help="train N times, with seeds run.seed, +1, ...")
    add_json(parser)
    parser.set_defaults(run=_train, takes_overrides=True)


def add_compare(commands: Any) -> None:
    parser = commands.add_parser(
        "compare",
        help="train several recipes under one budget and print a table",
        description="Train every recipe, N seeds each, into DIR/RECIPE/seed-S, and print perplexity (bits per character"
        " if a model reads characters): mean and standard deviation over seeds. Settings given by their dotted names"
        " apply to all recipes. The same command resumes a stopped comparison; finished runs are not repeated."
        " DIR/comparison.json has all figures.",
        epilog="example: syntaxlm compare prpn-toy lstm-toy -o runs/toys --minutes 2 --seeds 3",
    )
    parser.add_argument(
        "recipes",
        nargs="+",
        metavar="RECIPE",
        help="recipe files or names of shipped recipes, all with different names",
    )
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="DIR", help="folder for all runs")
    parser.add_argument("--minutes", type=float, metavar="M", help="training time of each run; default: the recipe's")
    parser.add_argument("--seeds", type=int, default=1, metavar="N", help="run.seed, +1, ... of each (default 1)")
    add_json(parser)
    parser.set_defaults(run=_compare, takes_overrides=True)


def add_focus(commands: Any) -> None:
    parser = commands.add_parser(
        "focus",
        help="train a grammar toward the trees of several parsers of the same text",
        description="Train several seeds of a PCFG recipe, parse the training text with each of them, and train a"
        " grammar toward the spans of their trees (parse-focusing). No gold trees are read. The same command resumes"
        " where it was stopped. DIR/focused is the model; DIR/agreement.json has the agreement of the parsers.",
        epilog="example: syntaxlm focus simple-pcfg-text -o runs/focused --text.train my.txt --text.valid other.txt",
    )
    parser.add_argument("recipe", metavar="RECIPE", help="a recipe file, or the name of a shipped recipe, of a PCFG")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="DIR", help="folder for all runs and trees")
    parser.add_argument("--seeds", type=int, default=5, metavar="N", help="seeds of the recipe to train (default 5)")
    parser.add_argument(
        "--also", type=Path, action="append", default=[], metavar="MODEL",
        help="another model whose trees of the text count, too; may be repeated"
    )  # fmt: skip
    parser.add_argument(
        "--strength", type=float, default=5.0, metavar="NATS",
        help="penalty of a span that no parser's tree has (model.focus of the focused grammar; default 5)"
    )  # fmt: skip
    add_json(parser)
    parser.set_defaults(run=_focus, takes_overrides=True)


def _train(options: argparse.Namespace) -> None:
    if options.resume:
        if options.recipe or options.output or options.overrides or options.seeds != 1:
            raise InputError("--resume takes all from the run's folder: give no recipe, --output, --seeds or settings")
        _resume(options)
        return
    if not options.recipe or not options.output:
        raise InputError("train needs a RECIPE and --output DIR, or --resume DIR")
    if options.seeds < 1:
        raise InputError(f"--seeds: found {options.seeds}; expected 1 or more")
    from syntaxlm.progress import error_console
    from syntaxlm.training.display import ProgressDisplay
    from syntaxlm.training.recipe import find_recipe, read_recipe
    from syntaxlm.training.seeds import train_seeds
    from syntaxlm.training.trainer import train

    recipe = read_recipe(find_recipe(options.recipe), options.overrides)
    if options.seeds > 1:
        seeds = train_seeds(
            recipe, options.output, options.seeds, lambda one: ProgressDisplay(one.schedule, error_console())
        )
        _print_training(seeds, options.json)
        return
    with ProgressDisplay(recipe.schedule, error_console()) as display:
        result = train(recipe, options.output, display)
    _print_training(result, options.json)


def _resume(options: argparse.Namespace) -> None:
    from syntaxlm.progress import error_console
    from syntaxlm.training.display import ProgressDisplay
    from syntaxlm.training.trainer import read_run_recipe, resume

    with ProgressDisplay(read_run_recipe(options.resume).schedule, error_console()) as display:
        result = resume(options.resume, display)
    _print_training(result, options.json)


def _print_training(result: TrainingResult | SeedsResult, as_json: bool) -> None:
    if int(os.environ.get("RANK", "0")) == 0:
        print_result(result, as_json)


def _compare(options: argparse.Namespace) -> None:
    from syntaxlm.progress import error_console
    from syntaxlm.training.comparing import compare, read_recipes
    from syntaxlm.training.display import ProgressDisplay

    if options.seeds < 1:
        raise InputError(f"--seeds: found {options.seeds}; expected 1 or more")
    recipes = read_recipes(options.recipes, options.overrides, options.minutes)
    console = error_console()
    comparison = compare(
        recipes,
        options.output,
        options.seeds,
        lambda one: ProgressDisplay(one.schedule, console),
        partial(console.print, soft_wrap=True, markup=False),
    )
    print_result(comparison, options.json)
    if comparison.faults:
        raise InputError(f"{len(comparison.faults)} runs failed: {', '.join(comparison.faults)}")


def _focus(options: argparse.Namespace) -> None:
    from syntaxlm.progress import error_console
    from syntaxlm.training.display import ProgressDisplay
    from syntaxlm.training.focusing import focus
    from syntaxlm.training.recipe import find_recipe, read_recipe

    if options.seeds < 0:
        raise InputError(f"--seeds: found {options.seeds}; expected 0 or more")
    recipe = read_recipe(find_recipe(options.recipe), options.overrides)
    console = error_console()
    result = focus(
        recipe,
        options.output,
        options.seeds,
        options.strength,
        options.also,
        lambda one: ProgressDisplay(one.schedule, console),
        partial(console.print, soft_wrap=True, markup=False),
    )
    print_result(result, options.json)
