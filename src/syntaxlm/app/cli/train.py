"""`train`, `compare` and `focus`."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from functools import partial
from typing import Any

from syntaxlm.app.cli.options import (
    TREEBANK_HELP,
    add_also,
    add_json,
    add_preprocessing,
    add_protocol,
    add_training_device,
    print_figures,
    training_device,
)
from syntaxlm.core.errors import InputError


def add_train(commands: Any) -> None:
    parser = commands.add_parser(
        "train",
        help="train a model from a recipe",
        description="Train a model from a recipe (a YAML file) into a new folder: a language model or, from a recipe"
        " with a section pairs, a classifier of sentence pairs. Any setting of the recipe can be overridden by its"
        " dotted name: --model.hidden_size 400 --text.train my.txt. Ctrl-C saves and stops (exit code 130). --resume"
        " produces the same weights as an uninterrupted run.",
        epilog="example: syntaxlm train prpn-toy -o runs/toy --schedule.epochs 3",
    )
    parser.add_input(
        "recipe", nargs="?", metavar="RECIPE", help="recipe file, or name of a shipped recipe (see recipes list)"
    )
    parser.add_output_folder("-o", "--output", use="run", help="new folder for the model")
    parser.add_output_folder("--resume", use="folder", help="resume the run in this folder")
    parser.add_argument(
        "--seeds",
        type=int,
        default=1,
        metavar="N",
        help="train N times, with seeds run.seed, run.seed + 1 and so on; default 1",
    )
    add_training_device(parser)
    add_json(parser)
    parser.set_defaults(run=_train, takes_overrides=True)


def add_compare(commands: Any) -> None:
    parser = commands.add_parser(
        "compare",
        help="train several recipes under one budget and print a table",
        description="Train every recipe with N seeds into DIR/RECIPE/seed-S, and print the mean and standard deviation"
        " of perplexity over seeds (of bits per character for character-level models). With --treebank, also print the"
        " F1 of all models that parse, beside left branching, right branching and random trees. Settings given by their"
        " dotted names apply to all recipes. The same command resumes a stopped comparison; finished runs are not"
        " repeated. DIR/comparison.json has all figures.",
        epilog="example: syntaxlm compare prpn-toy lstm-toy -o runs/toys --minutes 2 --seeds 3 --treebank toy/test.mrg",
    )
    parser.add_input(
        "recipes",
        nargs="+",
        metavar="RECIPE",
        help="recipe files or names of shipped recipes; their names must differ",
    )
    parser.add_output_folder(
        "-o", "--output", use="runs", files=["comparison.json"], required=True, help="folder for all runs"
    )
    parser.add_argument("--minutes", type=float, metavar="M", help="training time per run; default: as in the recipe")
    parser.add_argument(
        "--seeds",
        type=int,
        default=1,
        metavar="N",
        help="train each recipe N times, with seeds run.seed, run.seed + 1 and so on; default 1",
    )
    parser.add_input(
        "--treebank", metavar="TREEBANK",
        help=f"evaluate the models that parse on these gold trees, each by its default decoder: {TREEBANK_HELP}"
    )  # fmt: skip
    add_protocol(parser)
    add_preprocessing(parser, "ptb-keep")
    for part, needed in (("train", ""), ("valid", ""), ("test", "; default: none")):
        parser.add_input(
            f"--tagged-{part}", metavar="FILE",
            help=f"text.{part} of the recipes that read tags: tagged text, word_TAG{needed}",
        )  # fmt: skip
    add_training_device(parser)
    add_json(parser, rows=True)
    parser.set_defaults(run=_compare, takes_overrides=True)


def add_focus(commands: Any) -> None:
    parser = commands.add_parser(
        "focus",
        help="train a grammar toward the trees of several parsers",
        description="Train several seeds of a PCFG recipe, parse the training text with each of them, and train a"
        " grammar toward the spans of their trees (parse-focusing). No gold trees are read. If interrupted, the same"
        " command resumes. DIR/focused is the model; DIR/agreement.json has the agreement of the parsers.",
        epilog="example: syntaxlm focus simple-pcfg-text -o runs/focused --text.train my.txt --text.valid other.txt",
    )
    parser.add_input("recipe", metavar="RECIPE", help="PCFG recipe: a file, or the name of a shipped recipe")
    parser.add_output_folder(
        "-o", "--output", use="runs", files=["agreement.json"], required=True, help="folder for all runs and trees"
    )
    parser.add_argument(
        "--seeds",
        type=int,
        default=5,
        metavar="N",
        help="train the recipe N times, with seeds run.seed, run.seed + 1 and so on; default 5",
    )
    add_also(parser, "its trees of the training text are used, too")
    parser.add_argument(
        "--keep-all", action="store_true",
        help="use all parsers; by default, a parser is omitted if its trees are nearly all right or left branching, or"
        " if it agrees much less with the others than these agree with each other",
    )  # fmt: skip
    parser.add_argument(
        "--strength", type=float, default=5.0, metavar="NATS",
        help="penalty for a span that is in no parser's tree (model.focus of the focused grammar); default 5"
    )  # fmt: skip
    add_training_device(parser)
    add_json(parser)
    parser.set_defaults(run=_focus, takes_overrides=True)


def exit_code(stopped: bool) -> int:
    """Return 0, or the exit code of the signal that stopped training after it saved."""
    from syntaxlm.training.processes import received_signal

    return 128 + (received_signal() or signal.SIGINT) if stopped else 0


def _train(options: argparse.Namespace) -> int:
    if options.resume:
        extra = options.recipe or options.output or options.overrides or options.seeds != 1 or options.device
        if extra:
            raise InputError(
                "--resume uses the recipe and settings of the run's folder; omit RECIPE, --output, --seeds, --device"
                " and settings"
            )
        return _resume(options)
    if not options.recipe or not options.output:
        raise InputError("train: expected either RECIPE and --output DIR, or --resume DIR")
    if options.seeds < 1:
        raise InputError(f"--seeds: found {options.seeds}; expected 1 or more")
    from syntaxlm.core.progress import error_console
    from syntaxlm.training.progress import ProgressDisplay
    from syntaxlm.training.recipe import read_recipe
    from syntaxlm.training.run import train
    from syntaxlm.training.seeds import train_seeds

    recipe = read_recipe(options.recipe, [*options.overrides, *training_device(options)])
    if options.seeds > 1:
        seeds = train_seeds(
            recipe, options.output, options.seeds, lambda one: ProgressDisplay(one.schedule, error_console(), one.unit)
        )
        return _ended(seeds, any(run.stopped for run in seeds.runs), options)
    with ProgressDisplay(recipe.schedule, error_console(), recipe.unit) as display:
        result = train(recipe, options.output, display)
    return _ended(result, result.stopped, options)


def _resume(options: argparse.Namespace) -> int:
    from syntaxlm.core.progress import error_console
    from syntaxlm.training.progress import ProgressDisplay
    from syntaxlm.training.run import read_run_recipe, resume

    recipe = read_run_recipe(options.resume)
    with ProgressDisplay(recipe.schedule, error_console(), recipe.unit) as display:
        result = resume(options.resume, display)
    return _ended(result, result.stopped, options)


def _ended(result: Any, stopped: bool, options: argparse.Namespace) -> int:
    """Print the result of training, in only one of several processes."""
    if int(os.environ.get("RANK", "0")) == 0:
        print_figures(result, options)
    return exit_code(stopped)


def _compare(options: argparse.Namespace) -> int:
    from syntaxlm.core.progress import error_console
    from syntaxlm.parsing.evaluation import protocol_named
    from syntaxlm.training.progress import ProgressDisplay
    from syntaxlm.training.study import compare, read_recipes
    from syntaxlm.training.treebank_scores import TreebankEvaluation

    if options.seeds < 1:
        raise InputError(f"--seeds: found {options.seeds}; expected 1 or more")
    overrides = [*options.overrides, *training_device(options)]
    parts = {part: getattr(options, f"tagged_{part}") for part in ("train", "valid", "test")}
    tagged = {part: path for part, path in parts.items() if path is not None}
    recipes = read_recipes(options.recipes, overrides, options.minutes, tagged)
    protocol = protocol_named(options.protocol, options.max_words)
    trees = None if options.treebank is None else TreebankEvaluation(options.treebank, protocol, options.preprocessing)
    console = error_console()
    comparison = compare(
        recipes,
        options.output,
        options.seeds,
        lambda one: ProgressDisplay(one.schedule, console),
        partial(console.print, soft_wrap=True, markup=False),
        trees,
    )
    print_figures(comparison, options)
    if comparison.faults:
        failed = f"{len(comparison.faults)} runs failed: {', '.join(comparison.faults)}"
        print(f"syntaxlm: error: {failed}", file=sys.stderr)
        return 1
    return exit_code(comparison.stopped)


def _focus(options: argparse.Namespace) -> int:
    from syntaxlm.core.progress import error_console
    from syntaxlm.training.focus import focus
    from syntaxlm.training.progress import ProgressDisplay
    from syntaxlm.training.recipe import read_recipe
    from syntaxlm.training.recipe_files import find_recipe

    if options.seeds < 0:
        raise InputError(f"--seeds: found {options.seeds}; expected 0 or more")
    recipe = read_recipe(find_recipe(options.recipe), [*options.overrides, *training_device(options)])
    console = error_console()
    result = focus(
        recipe,
        options.output,
        options.seeds,
        options.strength,
        options.also,
        lambda one: ProgressDisplay(one.schedule, console),
        partial(console.print, soft_wrap=True, markup=False),
        options.keep_all,
    )
    print_figures(result, options)
    return exit_code(result.focused is None)
