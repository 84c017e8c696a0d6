"""Functions that are not methods of a model: training, comparison of recipes, reranking."""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from syntaxlm.comparison import runs
from syntaxlm.comparison.report import Comparison
from syntaxlm.comparison.runs import read_recipes, with_tagged_text
from syntaxlm.comparison.treebank import TreebankEvaluation
from syntaxlm.core.errors import InputError
from syntaxlm.core.files import named_path, refuse_overwriting, text_output
from syntaxlm.core.reading import keeps_readings
from syntaxlm.core.run_head import training_recipe
from syntaxlm.core.settings import Overrides, flat_overrides
from syntaxlm.data.arguments import check_model, file_of, suggests_parameters
from syntaxlm.evaluation.reranking import RerankReport, evaluate_reranking
from syntaxlm.evaluation.trees import find_protocol
from syntaxlm.storage.folder import ModelBundle
from syntaxlm.training import run
from syntaxlm.training.processes import received_signal
from syntaxlm.training.progress import ProgressCallback, calling
from syntaxlm.training.recipe import Recipe, read_recipe, with_overrides, with_text_files
from syntaxlm.training.result import TrainingResult
from syntaxlm.trees.f1 import PROTOCOLS, Protocol
from syntaxlm.trees.preprocessing import GoldPreprocessing


@suggests_parameters
@keeps_readings
def train(
    recipe: Recipe | str | Path,
    folder: str | Path,
    overrides: Overrides | None = None,
    *,
    resume: bool = False,
    callbacks: ProgressCallback | Sequence[ProgressCallback] = (),
) -> TrainingResult:
    """Train a model into a new folder.

    Ctrl-C saves a checkpoint, from which `resume` continues, and then raises KeyboardInterrupt; a second Ctrl-C raises
    it at once. SIGTERM saves, too, before it has its usual effect. After each validation, the logger `syntaxlm` of the
    standard library gets a line at the level INFO.

    The texts text.train, text.valid and text.test are names or addresses of files, or objects: a list or another
    iterable of sentences, a column, or a data set or data frame (datasets, pyarrow, pandas, polars) with the column
    `text` or only one column. Objects are written to files in the cache, whose names are in recipe.yaml.

    Args:
        recipe: a recipe, the name of a bundled recipe, or a YAML file.
        overrides: settings to replace, see `read_recipe`.
        resume: whether to continue a run of the same settings that is in the folder. If it is finished, its result is
            returned, so the same call serves before and after an interruption.
        callbacks: called with each event of the run, see `syntaxlm.training.progress.Event`. One that is a context
            manager, such as `syntaxlm.ExperimentLogger("tensorboard")`, is entered before training.

    Raises:
        InputError: for wrong settings, before anything is read, and if the folder already contains a run: with
            `resume`, one with other settings or of other texts.

    Examples:
        >>> settings = {"text.train": "corpus/train.txt", "text.valid": "corpus/valid.txt", "text.test": None}
        >>> result = syntaxlm.train("lstm-toy", "my-model", settings | {"schedule.epochs": 1})
        >>> result.stopped
        False
    """
    name = None if isinstance(recipe, Recipe) else str(recipe)
    overrides = with_text_files(overrides)
    with training_recipe(name, flat_overrides(overrides or {}).items()):
        complete = _recipe(recipe, overrides)
        if not resume:
            with calling(callbacks) as callback:
                result = run.train(complete, folder, callback)
            return _unless_stopped(result)
        path = named_path(folder)
        runs.check_settings(path, complete)
        return _unless_stopped(runs.train_or_resume(path, complete, lambda _: calling(callbacks)))


@suggests_parameters
def resume(folder: str | Path, callbacks: ProgressCallback | Sequence[ProgressCallback] = ()) -> TrainingResult:
    """Resume a run from its last checkpoint, or from its start if it has none.

    Ctrl-C saves a checkpoint and raises KeyboardInterrupt, as in `train`.

    Args:
        callbacks: called with each event of the run, see `train`.

    Raises:
        InputError: if the folder holds no run, or if its files have changed.

    Examples:
        >>> result = syntaxlm.resume("my-run")
    """
    with calling(callbacks) as callback:
        result = run.resume(folder, callback)
    return _unless_stopped(result)


Stoppable = TypeVar("Stoppable", TrainingResult, Comparison)


def _unless_stopped(result: Stoppable) -> Stoppable:
    """Return the result of training, unless a signal stopped it: then send that signal, now that all is saved.

    A program must not continue with a model that is trained in part.
    """
    if result.stopped:
        signal.raise_signal(received_signal() or signal.SIGINT)
    return result


@suggests_parameters
@keeps_readings
def compare(
    recipes: Sequence[str | Path] | Mapping[str, Recipe | str | Path],
    folder: str | Path,
    seeds: int = 1,
    overrides: Overrides | None = None,
    minutes: float | None = None,
    *,
    callbacks: ProgressCallback | Sequence[ProgressCallback] = (),
    treebank: str | Path | None = None,
    protocol: str | Protocol = PROTOCOLS["wsj-test"],
    preprocessing: GoldPreprocessing | str | Path = "ptb-keep",
    tagged: Mapping[str, str] | None = None,
) -> Comparison:
    """Train several recipes on the same text with the same seeds, and compare their perplexities and trees.

    If called again with the same folder, it reads finished runs, resumes an interrupted run and trains the others.

    Ctrl-C saves, and raises KeyboardInterrupt, as in `train`; the same call resumes. Failed runs are reported in
    `faults` of the result.

    Args:
        recipes: names of bundled recipes or YAML files; or a dict from names for the comparison to recipes.
        folder: where the runs, `folder/recipe/seed-S`, and comparison.json are written.
        seeds: number of runs per recipe.
        overrides: settings to replace in all recipes, see `read_recipe`.
        minutes: training time per run.
        callbacks: called with each event of every run, see `train`.
        treebank: gold trees, a file, folder or pattern, on which models that parse are evaluated by their default
            decoders; None: no F1.
        protocol: the protocol of this evaluation.
        preprocessing: the gold-tree preprocessing of this evaluation.
        tagged: texts of the recipes that read tags, by part: {"train": ..., "valid": ...}; None: as in the recipes.

    Raises:
        InputError: for wrong settings, for gold trees that cannot be read, and if the folder contains runs with other
            settings.

    Examples:
        >>> comparison = syntaxlm.compare({"small": "lstm-toy"}, "comparison", 1, settings)
        >>> [recipe.name for recipe in comparison.recipes]
        ['small']
    """
    if isinstance(recipes, str | Path) or not isinstance(recipes, Sequence | Mapping) or not recipes:
        raise InputError(f"recipes: found {str(recipes)!r}; expected a list of names of recipes, or a dict")
    overrides = with_text_files(overrides)
    if isinstance(recipes, Mapping):
        limit = {} if minutes is None else {"schedule.minutes": minutes}
        complete = {name: _recipe(_recipe(recipe, overrides), limit) for name, recipe in recipes.items()}
        read = {name: with_tagged_text(recipe, tagged) for name, recipe in complete.items()}
    else:
        read = read_recipes(list(map(str, recipes)), overrides or (), minutes, tagged)
    evaluation = None if treebank is None else TreebankEvaluation(treebank, find_protocol(protocol), preprocessing)
    return _unless_stopped(
        runs.compare(read, named_path(folder), seeds, lambda recipe: calling(callbacks), trees=evaluation)
    )


def _recipe(recipe: Recipe | str | Path, overrides: Overrides | None) -> Recipe:
    if isinstance(recipe, Recipe):
        return with_overrides(recipe, overrides) if overrides else recipe
    return read_recipe(file_of(recipe, "recipe"), overrides)


@suggests_parameters
@keeps_readings
def rerank(
    model: ModelBundle,
    candidates: str | Path,
    gold: str | Path | None = None,
    *,
    weight: float | None = None,
    tune: tuple[str | Path, str | Path] | None = None,
    score: str = "score",
    output: str | Path | None = None,
) -> RerankReport:
    """Select one of several candidate trees for each sentence with a dependency-tree model.

    Args:
        candidates: a CoNLL-U file in which the candidates of a sentence follow each other.
        gold: trees to score against.
        weight: the weight of the model, 0 to 1; the parser's score has the weight 1 - weight. None: 1, or chosen on
            `tune`.
        tune: files of candidates and gold trees on which the weight is chosen.
        score: name of the comment with the parser's score.
        output: file for the selected trees (written atomically).

    Raises:
        InputError: for other model types, and for files that cannot be read or do not match each other.

    Examples:
        >>> report = syntaxlm.rerank(tree_model, "candidates.conllu", output="best.conllu")
    """
    check_model(model, "model")
    candidates = file_of(candidates, "candidates")
    if output is None:
        return evaluate_reranking(model, candidates, gold, weight, tune, score)
    refuse_overwriting(output, [candidates, gold, *(tune or ())])
    with text_output(output) as file:
        return evaluate_reranking(model, candidates, gold, weight, tune, score, file.write)
