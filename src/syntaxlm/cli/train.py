"""`train`, `compare`, `focus`, `tune` and `quickstart`."""

from __future__ import annotations

import shlex
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from syntaxlm.cli.command import Folder
from syntaxlm.cli.options import (
    PARSES,
    AlsoModels,
    ModelFolder,
    ModelOptions,
    PictureOutput,
    Preprocessing,
    ProtocolOptions,
    SentencesFile,
    Size,
    TrainingDevice,
    training_device,
)
from syntaxlm.cli.output import PrintedFormat, ReportOutput, SummaryFormat, formatted, print_note
from syntaxlm.core.declarations import Argument, Bounds, Count, InputFile, Name, Needs, Seed, Shown, With
from syntaxlm.core.errors import InputError, escaped
from syntaxlm.core.progress import error_console, status
from syntaxlm.core.run_head import run_head, training_recipe
from syntaxlm.scoring.options import PerplexityOptions
from syntaxlm.training.loggers import LoggerName

if TYPE_CHECKING:
    from syntaxlm.training.progress import ProgressCallback, ProgressDisplay

Recipe = Annotated[str, Argument("RECIPE")]
RunFolder = Annotated[Path, Folder(may_hold="run")]
Minutes = Annotated[float, Bounds(ge=0), Shown("M")]
Trees = Annotated[str, Shown("TREES", use="input")]


@dataclass(frozen=True, kw_only=True)
class RecipeSettings:
    """Settings that replace those of a recipe."""

    overrides: Annotated[Sequence[tuple[str, str]], Shown(use="overrides")]
    device: TrainingDevice | None = None

    def pairs(self) -> list[tuple[str, str]]:
        """Return dotted names and values. Raises InputError for the device cuda:N."""
        return [*self.overrides, *training_device(self.device)]

    def used_with(self, recipe: str | None) -> AbstractContextManager[None]:
        """Make heads of reports in a block those of a recipe with these settings."""
        from syntaxlm.core.settings import flat_overrides

        return training_recipe(recipe, flat_overrides(self.pairs()).items())


def _watching(loggers: Sequence[LoggerName]) -> Callable[[Any], AbstractContextManager[ProgressCallback]]:
    """Return what shows the training of a recipe, and writes it to loggers. Raises InputError for missing packages."""
    from syntaxlm.training.loggers import ExperimentLogger
    from syntaxlm.training.progress import calling

    several = [ExperimentLogger(name) for name in dict.fromkeys(loggers)]
    return lambda recipe: calling([_display(recipe), *several])


def _display(recipe: Any) -> ProgressDisplay:
    """Return the display of a training run."""
    from syntaxlm.training.progress import ProgressDisplay

    return ProgressDisplay(recipe, error_console())


def train(
    settings: RecipeSettings,
    drawn: PictureOutput,
    recipe: Recipe | None = None,
    output: RunFolder | None = None,
    resume: Annotated[Path, Folder(flags=())] | None = None,
    seeds: Count = 1,
    logger: Annotated[Sequence[LoggerName], Shown()] = (),
    format: SummaryFormat = "text",
) -> int:
    """Train a model from a recipe.

    Train a model from a recipe (a YAML file) into a new folder. The model is a language model or, from a recipe with a
    section pairs, a classifier of sentence pairs.

    - Any setting of the recipe can be overridden by its dotted name: --model.hidden_size 400 --text.train my.txt.
    - Ctrl-C saves and stops (exit code 130). --resume produces the same weights as an uninterrupted run.
    - With --seeds, the same command resumes; finished runs are not repeated.

    Args:
        recipe: recipe file, or name of a bundled recipe (see recipes list)
        output: new folder for the model
        resume: resume the run in this folder
        seeds: train N times, with seeds run.seed, run.seed + 1 and so on
        picture: draw the learning curves, the losses of training and validation over epochs, and F1 on text.treebank:
            .svg, .pdf, .png or .html (requires the extra plot)
        logger: also write losses, scores and learning rate to this logger, whose package must be installed; may be
            repeated

    Examples:
        syntaxlm train prpn-toy -o runs/toy --schedule.epochs 3
    """
    from syntaxlm.comparison.runs import train_seeds
    from syntaxlm.training import run
    from syntaxlm.training.recipe import read_recipe

    drawn.check()
    if drawn.picture and seeds != 1:
        raise InputError("--picture: found --seeds; expected one run. For several seeds, use compare --picture")
    watching = _watching(logger)
    if resume:
        if recipe or output or seeds != 1 or settings.pairs():
            raise InputError(
                "--resume uses the recipe and settings of the run's folder; omit RECIPE, --output, --seeds, --device"
                " and settings"
            )
        with watching(run.read_run_recipe(resume)) as callback:
            result = run.resume(resume, callback)
        drawn.write(result.plot)
        return _ended(result, result.stopped, format)
    if not recipe or not output:
        raise InputError("train: expected either RECIPE and --output DIR, or --resume DIR")
    complete = read_recipe(recipe, settings.pairs())
    if seeds > 1:
        with settings.used_with(recipe):
            results = train_seeds(complete, output, seeds, watching)
            return _ended(results, any(each.stopped for each in results.runs), format)
    with settings.used_with(recipe), watching(complete) as callback:
        result = run.train(complete, output, callback)
    drawn.write(result.plot)
    return _ended(result, result.stopped, format)


def _ended(result: Any, stopped: bool, format: str) -> int:
    """Print the result of training, in only one of several processes, and return the exit code.

    Args:
        stopped: whether a signal stopped training after it saved.
    """
    from syntaxlm.training.processes import rank_and_count, received_signal

    if rank_and_count()[0] == 0:
        print(formatted(result, format, with_head=True))
    return 128 + (received_signal() or signal.SIGINT) if stopped else 0


def compare(
    recipes: Annotated[Sequence[str], Argument("RECIPE")],
    output: Annotated[Path, Folder(may_hold="runs", files=("comparison.json",))],
    settings: RecipeSettings,
    protocol: Annotated[ProtocolOptions, With(("treebank",))],
    drawn: PictureOutput,
    minutes: Minutes | None = None,
    seeds: Count = 1,
    treebank: Annotated[str, Shown("TREEBANK", use="input")] | None = None,
    preprocessing: Annotated[Preprocessing, With(("treebank",))] = "ptb-keep",
    tagged_train: InputFile | None = None,
    tagged_valid: InputFile | None = None,
    tagged_test: InputFile | None = None,
    format: Annotated[PrintedFormat, Shown(help="output format")] = "text",
) -> int:
    """Train several recipes under one budget and print a table.

    Train every recipe with N seeds, and print the mean and standard deviation of perplexity over seeds (for
    character-level models, of bits per character).

    - --treebank also prints the F1 of all models that parse, and of left branching, right branching and random trees.
    - Settings given by their dotted names apply to all recipes.
    - Runs are written to DIR/RECIPE/seed-S, and all numbers to DIR/comparison.json.
    - To resume a stopped comparison, repeat the command. Finished runs are not repeated.

    Args:
        recipes: recipe files or names of bundled recipes; their names must differ
        output: folder for all runs
        minutes: training time per run; default: as in the recipe
        seeds: train each recipe N times, with seeds run.seed, run.seed + 1 and so on
        treebank: gold trees (bracket file, folder of bracket files, or quoted pattern) on which the models that parse
            are evaluated, each with its default decoder
        tagged_train: tagged text (word_TAG), used as text.train of the recipes that read tags
        tagged_valid: tagged text (word_TAG), used as text.valid of the recipes that read tags
        tagged_test: tagged text (word_TAG), used as text.test of the recipes that read tags; default: none
        picture: draw each seed as a dot, and the mean of each recipe with its interval, as .svg, .pdf, .png or .html
            (requires the extra plot); shows F1 with --treebank, otherwise perplexity or bits per character

    Examples:
        syntaxlm compare prpn-toy lstm-toy -o runs/toys --minutes 2 --seeds 3 --treebank toy/test.mrg
    """
    from syntaxlm.comparison.runs import compare, read_recipes
    from syntaxlm.comparison.treebank import TreebankEvaluation

    drawn.check()
    parts = {"train": tagged_train, "valid": tagged_valid, "test": tagged_test}
    tagged = {part: path for part, path in parts.items() if path is not None}
    complete = read_recipes(recipes, settings.pairs(), minutes, tagged)
    scoring = protocol.find()
    trees = None if treebank is None else TreebankEvaluation(treebank, scoring, preprocessing)
    with settings.used_with(None):
        comparison = compare(complete, output, seeds, _display, print_note, trees)
        report = replace(comparison.report(), run=run_head())
    drawn.write(comparison.plot)
    code = _ended(report.formatted(format), comparison.stopped, "text")
    if comparison.faults:
        failed = f"{len(comparison.faults)} of {seeds * len(complete)} runs failed"
        kept = "Finished runs are kept: the same command, also with another --treebank, does not repeat them."
        causes = (f"\n  {place}: {message}" for place, message in comparison.faults.items())
        print(escaped(f"syntaxlm: error: {failed}. {kept}{''.join(causes)}"), file=sys.stderr)
        return 1
    return code


def focus(
    recipe: Recipe,
    output: Annotated[Path, Folder(may_hold="runs", files=("agreement.json",))],
    settings: RecipeSettings,
    seeds: Size = 5,
    variant: Annotated[Sequence[str], Shown("SETTINGS")] = (),
    variant_seeds: Count | None = None,
    also: Annotated[AlsoModels, PARSES] = (),
    student: Annotated[str, Shown("RECIPE", use="input")] | None = None,
    minutes: Minutes | None = None,
    jobs: Annotated[int, Bounds(ge=1, le=64), Shown("N")] = 1,
    keep_all: bool = False,
    strength: Annotated[float | None, Bounds(ge=0), Shown("NATS")] = None,
    format: SummaryFormat = "text",
) -> int:
    """Train several parsers, average them, and train one parser on the average.

    Train several parsers, average their trees of the training text, and train one parser on the average. No gold trees
    are read. To resume an interrupted command, repeat it.

    Output:

    - DIR/trees: the averaged trees
    - DIR/agreement.json: how well the parsers agree
    - DIR/average: the average as a model (only for PCFGs)
    - DIR/focused: a grammar trained on the averaged trees by parse-focusing (only for PCFGs)
    - DIR/student: the model trained with --student on the averaged trees
    - DIR/learned: the average of the focused grammar and the student, if both can be averaged

    Args:
        recipe: recipe of a parser: a file, or the name of a bundled recipe
        output: folder for all runs and trees
        seeds: train the recipe N times, with seeds run.seed, run.seed + 1 and so on
        variant: also train parsers with these settings in place of the recipe's, such as "model.end_bias=0
            model.marks=1"; may be repeated. Parsers that differ make a better average
        variant_seeds: train each variant N times; default: as many times as the recipe
        also: trained model that is also averaged; may be repeated
        student: recipe of a model that is trained on the averaged trees: a span parser, such as span-parser-text, or a
            language model with model.supervision, such as transformer-trees-text; it reads the files of the parsers
        minutes: time for everything, shared equally by all trainings; default: the epochs of the recipe
        jobs: train N parsers at the same time, which share the cores
        keep_all: average all parsers; by default, a seed is omitted if its trees are nearly all right or left
            branching, or if it agrees with the other seeds of its recipe or variant much less than they agree with each
            other
        strength: penalty in nats for a span that the averaged tree does not contain (model.focus of the focused
            grammar); default 5

    Examples:
        syntaxlm focus simple-pcfg-text -o runs/focused --text.train my.txt --text.valid other.txt
    """
    from syntaxlm.comparison.focus import FocusOptions, focus
    from syntaxlm.training.recipe import read_recipe

    complete = read_recipe(recipe, settings.pairs())
    options = FocusOptions(
        seeds=seeds,
        variants=[_settings(each) for each in variant],
        variant_seeds=variant_seeds,
        also=also,
        student=None if student is None else read_recipe(student),
        strength=strength,
        minutes=minutes,
        jobs=jobs,
        keep_all=keep_all,
    )
    with settings.used_with(recipe):
        result = focus(complete, output, options, _display, print_note)
        return _ended(result, result.stopped, format)


def _settings(listed: str) -> list[tuple[str, str]]:
    """Return the dotted names and values of settings such as model.end_bias=0 model.marks=1."""
    pairs = [each.partition("=") for each in listed.split()]
    if wrong := [name for name, equals, _ in pairs if not (name and equals)]:
        raise InputError(f"--variant {listed}: found {wrong[0]!r}; expected NAME=VALUE, such as model.end_bias=0")
    return [(name, value) for name, _, value in pairs]


def tune_cache(
    model: Annotated[ModelOptions, Needs("a model with hidden states")],
    text: SentencesFile,
    options: PerplexityOptions,
    output: ReportOutput,
    cache_size: Count = 2000,
) -> None:
    """Choose the weights of a neural cache.

    Choose the weight and theta of a neural cache on a validation text, one sentence per line. The model reads the text
    once, and the command then tries many pairs of values. Print their perplexities, the best pair, and the command that
    evaluates it.

    Args:
        cache_size: number of words in the cache; default 2000

    Examples:
        syntaxlm tune cache MODEL valid.txt
    """
    from syntaxlm.evaluation.cache_tuning import tune_cache

    with status("reading, then trying weights"):
        tuning = tune_cache(model.load(), text, options, cache_size)
    best = tuning.best
    words = ["syntaxlm", "evaluate", "perplexity", str(model.model), "TEXT"]
    words += [] if options.context is None else ["--context", options.context]
    words += [] if options.predict_eos is None else ["--predict-eos" if options.predict_eos else "--no-predict-eos"]
    words += ["--punctuation", options.punctuation] if options.punctuation != "keep" else []
    words += ["--contractions", options.contractions] if options.contractions != "keep" else []
    words += ["--cache-weight", f"{best.weight:g}", "--cache-theta", f"{best.theta:g}", "--cache-size", str(best.size)]
    note = shlex.join(words) if best.weight else "A cache does not help this model on this text."
    report = tuning.report()
    figures = {**report.to_dict(), "command": shlex.join(words)}
    output.write(replace(report, figures=figures, notes=[*report.notes, note]))


def tune_stops(
    model: ModelFolder,
    trees: Annotated[str, Argument("TRAIN")],
    valid: Trees,
    test: Trees | None = None,
    reads: Literal["states", "states-and-words"] = "states-and-words",
    hidden_size: Count | None = None,
    learning_rate: Annotated[float, Bounds(ge=0), Shown("R")] = 1e-3,
    epochs: Count = 30,
    patience: Count = 3,
    minutes: Minutes | None = None,
    seed: Seed = 1,
    format: SummaryFormat = "text",
) -> None:
    """Train the stop classifiers of a dependency-tree model, which generate requires.

    Train the classifiers with which generate decides where a dependency tree ends, on the states of a dependency-tree
    model. The model does not change. The classifiers predict for every word whether a left, right, next left or next
    right dependent follows and, if the model reads labels, the label of an edge. Write the classifiers of the epoch
    with the lowest validation loss to the model's folder, and print the accuracy of each classifier.

    Args:
        trees: dependency trees: a file, a folder or a quoted pattern
        valid: validation trees, used to select the epoch
        test: trees for the final evaluation
        reads: input of the classifiers: the state that a word was drawn from, as published, or also the word and its
            label (default)
        hidden_size: hidden size of the classifiers; default: size of the model's state
        learning_rate: learning rate of Adam
        epochs: maximum number of epochs
        patience: stop after N epochs without a better validation loss
        minutes: stop after M minutes of training; default: no limit

    Examples:
        syntaxlm tune stops MODEL train.conllu --valid dev.conllu --test test.conllu
    """
    from syntaxlm.training.classifiers import StopRecipe, train_stops

    recipe = StopRecipe(reads=reads, hidden_size=hidden_size)
    recipe = replace(
        recipe,
        optimiser=replace(recipe.optimiser, learning_rate=learning_rate),
        schedule=replace(recipe.schedule, epochs=epochs, stop_patience=patience, minutes=minutes),
        run=replace(recipe.run, seed=seed),
    )
    with _display(recipe) as display:
        result = train_stops(model, trees, valid, test, recipe, display)
    print(formatted(result, format, with_head=True))


def quickstart(
    output: Annotated[Path, Folder(may_hold="nothing")] = Path("quickstart"),
    model_type: Name = "holographic-pcfg",
    seed: Seed = 1,
    device: TrainingDevice | None = None,
    format: SummaryFormat = "text",
) -> int:
    """Train, evaluate and report on a small model in a few minutes.

    Write the built-in corpus, train a small model on it, print perplexity, F1 and three parses, and write the report
    DIR/report.html.

    Args:
        output: new or empty folder; default: quickstart
        model_type: model type, which selects the bundled recipe NAME-toy: holographic-pcfg (default), simple-pcfg,
            prpn, on-lstm, palm, lstm, tree-rnn, kn5

    Examples:
        syntaxlm quickstart -o first --model-type prpn
    """
    from syntaxlm.cli.quickstart import run_quickstart
    from syntaxlm.training.recipe import read_recipe

    settings = training_device(device)
    with _display(read_recipe(f"{model_type}-toy")) as display:
        result = run_quickstart(output, model_type, seed, print_note, display, settings)
    return _ended(result, result.training.stopped, format)
