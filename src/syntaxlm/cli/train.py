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

    A recipe is a YAML file with all settings of a training run. The model is a language model or, if the recipe has a
    section `pairs`, a classifier of sentence pairs.

    - Any setting of the recipe can be replaced by its dotted name, as in `--model.hidden_size 400 --text.train my.txt`.
    - Ctrl-C saves the run and stops with exit code 130. `--resume` produces the same weights as an uninterrupted run.
      A finished run is not trained further.
    - With `--seeds`, the same command resumes, and finished runs are not repeated.

    Args:
        recipe: Recipe file, or name of a bundled recipe (see `recipes list`).
        output: Write the model into this new folder.
        resume: Resume the run in this folder.
        seeds: Train N times, with the seeds `run.seed`, `run.seed` + 1 and so on.
        picture: Draw the losses of training and validation over epochs, and F1 on `text.treebank`, into this `.svg`,
            `.pdf`, `.png` or `.html` file. This requires the extra `plot`.
        logger: Write losses, scores and learning rate to this logger, too, whose package must be installed.

    Examples:
        syntaxlm train prpn-toy -o runs/toy --schedule.epochs 3
    """
    from syntaxlm.comparison.runs import train_seeds
    from syntaxlm.training import run
    from syntaxlm.training.recipe import read_recipe
    from syntaxlm.training.result import RESULT

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
        is_finished = (resume / RESULT).exists()
        with watching(run.read_run_recipe(resume)) as callback:
            result = run.resume(resume, callback)
        if is_finished:
            print_note(
                f"{resume}: the run was finished before, so it was not trained further. To train longer,"
                " start a new run"
            )
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
    format: Annotated[PrintedFormat, Shown(help="Print the results in this format.")] = "text",
) -> int:
    """Train several recipes under one budget and print a table.

    Every recipe is trained with N seeds into `DIR/RECIPE/seed-S`. The table shows the mean and standard deviation of
    perplexity over seeds, or of bits per character for character-level models.

    - With `--treebank`, it also shows F1 of all models that parse, beside left branching, right branching and random
      trees.
    - Settings given by their dotted names apply to all recipes.
    - The same command resumes a stopped comparison, and finished runs are not repeated.
    - `DIR/comparison.json` contains all numbers.

    Args:
        recipes: Recipe files or names of bundled recipes, which must differ.
        output: Write all runs into this folder.
        minutes: Limit the training time of each run to M minutes. Default: as in the recipe.
        seeds: Train each recipe N times, with the seeds `run.seed`, `run.seed` + 1 and so on.
        treebank: Evaluate the models that parse on the gold trees of this bracket file, folder of bracket files or
            quoted pattern, each by its default decoder.
        tagged_train: Use this tagged text (`word_TAG`) as `text.train` of the recipes that read tags.
        tagged_valid: Use this tagged text (`word_TAG`) as `text.valid` of the recipes that read tags.
        tagged_test: Use this tagged text (`word_TAG`) as `text.test` of the recipes that read tags. Default: none.
        picture: Draw a dot for each seed of a recipe, and their mean with its interval, into this `.svg`, `.pdf`,
            `.png` or `.html` file. The values are F1 with `--treebank`, and otherwise the measure of the table. This
            requires the extra `plot`.

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
        kept = "Finished runs are kept, so the same command does not repeat them, even with another --treebank."
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

    Several seeds of a recipe and of its variants are trained, and parse the training text with their average. Then one
    parser is trained on these trees. No gold trees are read. If interrupted, the same command resumes.

    The folder then contains:

    - `DIR/average`: the average as a model, if the recipe is of a PCFG
    - `DIR/focused`: a grammar trained toward these trees (parse-focusing), if the recipe is of a PCFG
    - `DIR/student`: the student, if there is a recipe for it
    - `DIR/learned`: the average of the focused grammar and the student
    - `DIR/trees`: the trees of the average
    - `DIR/agreement.json`: the agreement of the parsers

    Args:
        recipe: Recipe file of a parser, or name of a bundled recipe.
        output: Write all runs and trees into this folder.
        seeds: Train the recipe N times, with the seeds `run.seed`, `run.seed` + 1 and so on.
        variant: Train further parsers with these settings in place of those of the recipe, such as `"model.end_bias=0
            model.marks=1"`. Parsers that differ make a better average.
        variant_seeds: Train each variant N times. Default: as many times as the recipe.
        also: Include another model among the parsers.
        student: Train a model of this recipe on the average's trees, with the texts of the parsers. It is a span
            parser, such as `span-parser-text`, or a language model with `model.supervision`, such as
            `transformer-trees-text`.
        minutes: Limit the time to M minutes, which all trainings share equally. Default: the epochs of the recipe.
        jobs: Train N parsers at the same time, which share the cores.
        keep_all: Use all parsers. By default, a seed is omitted if its trees are nearly all right or left branching, or
            if it agrees much less with the other seeds of its recipe or variant than these agree with each other.
        strength: Penalise a span that is not in the average's tree by this number of nats (`model.focus` of the focused
            grammar). Default: 5.

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
        student=None if student is None else read_recipe(student, training_device(settings.device)),
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

    The command finds weight and theta of the cache on a validation text with one sentence per line. The model reads the
    text once, and many pairs of values are tried. Their perplexities, the best pair and the command for the evaluation
    are printed.

    Args:
        cache_size: Keep N words in the cache. Default: 2,000.

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
    """Train the stop classifiers of a dependency-tree model, which `generate` requires.

    The classifiers read the states of the model, which does not change. They predict for every word whether a left,
    right, next left or next right dependent follows and, if the model reads labels, the label of an edge. The
    classifiers of the epoch with the lowest validation loss are written to the model's folder. The accuracy of each
    classifier is printed beside the accuracy of always stopping.

    Args:
        trees: Dependency trees, as a file, a folder or a quoted pattern.
        valid: Select the epoch on these validation trees.
        test: Evaluate the classifiers on these trees at the end.
        reads: Give the classifiers this input.
            - `states`: the state that a word was drawn from, as published
            - `states-and-words` (default): also the word and its label
        hidden_size: Set the hidden size of the classifiers. Default: the size of the model's state.
        learning_rate: Set the learning rate of Adam.
        epochs: Train for at most N epochs.
        patience: Stop after N epochs without a better validation loss.
        minutes: Stop after M minutes of training. Default: no limit.

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

    The command writes the built-in corpus, trains a small model on it, prints perplexity, F1 and three parses, and
    writes the report `DIR/report.html`.

    Args:
        output: Write into this folder, which is new or empty. Default: `quickstart`.
        model_type: Train this model type by the bundled recipe `NAME-toy`: `holographic-pcfg` (default), `simple-pcfg`,
            `prpn`, `on-lstm`, `palm`, `lstm`, `tree-rnn` or `kn5`.

    Examples:
        syntaxlm quickstart -o first --model-type prpn
    """
    from syntaxlm.cli.quickstart import run_quickstart
    from syntaxlm.training.recipe import read_recipe

    settings = training_device(device)
    with _display(read_recipe(f"{model_type}-toy")) as display:
        result = run_quickstart(output, model_type, seed, print_note, display, settings)
    return _ended(result, result.training.stopped, format)
