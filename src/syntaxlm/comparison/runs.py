"""Training of several runs: one recipe with several seeds, and comparisons of several recipes.

A comparison is a folder with the runs in folder/RECIPE/seed-S and the results so far in folder/comparison.json. If it
is started again, finished runs are read, an interrupted run is resumed, and missing runs are trained. F1 on a treebank
is computed after each run and stored in its folder.
"""

from __future__ import annotations

import dataclasses
import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import torch

from syntaxlm.comparison.report import Comparison, RecipeRuns
from syntaxlm.comparison.treebank import TreebankEvaluation
from syntaxlm.core.errors import InputError, amount, warn_caller
from syntaxlm.core.files import (
    check_name,
    locked,
    make_folder,
    refuse_overwriting,
    remove_empty,
    remove_unfinished,
    to_json,
    write_text,
)
from syntaxlm.core.option_names import option_name
from syntaxlm.core.remote_files import address_of
from syntaxlm.core.run_head import Invocation, invocation, run_head, running, training_recipe
from syntaxlm.core.settings import LARGEST_SEED, Overrides, check_number
from syntaxlm.core.text_files import text_files_of
from syntaxlm.core.threads import core_count, when_parent_ends
from syntaxlm.data.corpora import EncodedCorpus
from syntaxlm.data.treebanks import dependency_trees
from syntaxlm.models.abilities import TrainsByGradient
from syntaxlm.storage.folder import VOCABULARY, find_device, read_model
from syntaxlm.text.normaliser import Normaliser
from syntaxlm.text.vocabulary import Vocabulary
from syntaxlm.training.processes import rank_and_count
from syntaxlm.training.recipe import (
    LanguageModelRecipe,
    PairRecipe,
    Recipe,
    SentenceBatchSettings,
    TreeRecipe,
    read_recipe,
)
from syntaxlm.training.recipe_files import find_recipe
from syntaxlm.training.result import RESULT, Figure, TrainingResult, read_result
from syntaxlm.training.run import (
    RECIPE,
    ProgressCallback,
    check_fingerprints,
    fingerprint,
    fingerprints_of,
    read_run_recipe,
    refuse_run,
    resume,
    train,
)

Watching = Callable[[Recipe], AbstractContextManager[ProgressCallback | None]]
AnyRecipe = TypeVar("AnyRecipe", bound=Recipe)

MOST_SEEDS = 1000  # maximum number of seeds
COMPARISON = "comparison.json"

# What cannot be compared between recipes that read different texts.
_DEPENDS_ON = {
    "train": "neither perplexity nor F1 is comparable",
    "valid": "their perplexities on it are not comparable",
    "test": "their perplexities on it are not comparable",
}


@dataclass(frozen=True)
class SeedsResult:
    """The runs of one recipe. If the last one was interrupted, further runs were not started."""

    runs: list[TrainingResult]

    @property
    def figures(self) -> dict[str, Figure]:
        """Statistics over the finished runs: "valid_perplexity" and, if there is a test text, "test_perplexity".

        For models without probabilities: "criterion", their own on the validation text.
        """
        values = {
            f"{text}_perplexity": [score.perplexity for run in self.runs if (score := getattr(run, text)) is not None]
            for text in ("valid", "test")
        }
        values["criterion"] = [run.criterion.value for run in self.runs if run.criterion is not None]
        return {name: figure for name in values if (figure := Figure.of(values[name])) is not None}

    def to_dict(self) -> dict[str, Any]:
        figures = {name: {"mean": figure.mean, "std": figure.std} for name, figure in self.figures.items()}
        return {"schema_version": 2, "runs": [run.to_dict() for run in self.runs]} | figures

    def __str__(self) -> str:
        lines = [str(run) for run in self.runs]
        for name, figure in self.figures.items():
            if name == "criterion":
                shown = f"valid: {figure.shown(4)}"
            else:
                text = name.removesuffix("_perplexity")
                title = next(score.perplexity_title for run in self.runs if (score := getattr(run, text)) is not None)
                shown = f"{text} {title} {figure.shown(2)}"
            lines.append(f"{shown} ({amount(figure.count, 'seed')})")
        return "\n".join(lines)


def seeded(recipe: AnyRecipe, count: int) -> dict[str, AnyRecipe]:
    """Return the recipe with seeds run.seed, run.seed + 1, ..., by name of the run folder.

    Raises:
        InputError: for more than `MOST_SEEDS` seeds, or seeds that are too large.
    """
    check_number("seeds", count, 0, MOST_SEEDS)
    first = recipe.run.seed
    check_number("run.seed + seeds", first + count, 0, LARGEST_SEED)
    return {
        f"seed-{seed}": dataclasses.replace(recipe, run=dataclasses.replace(recipe.run, seed=seed))
        for seed in range(first, first + count)
    }


def train_seeds(recipe: Recipe, folder: Path, count: int, watching: Watching) -> SeedsResult:
    """Train the `seeded` recipes one after the other, each in a subfolder of `folder`.

    If it is called again, finished runs are read, and an interrupted one is resumed.

    Raises:
        InputError: before training if `folder` is itself a run, or holds runs with other settings.
    """
    refuse_run(folder)
    recipes = {folder / name: seed_recipe for name, seed_recipe in seeded(recipe, count).items()}
    for path, seed_recipe in recipes.items():
        check_settings(path, seed_recipe)
    runs = []
    for path, seed_recipe in recipes.items():
        runs.append(train_or_resume(path, seed_recipe, watching))
        if runs[-1].stopped:
            break
    return SeedsResult(runs)


def train_or_resume(folder: Path, recipe: Recipe, watching: Watching) -> TrainingResult:
    """Return the result of a run. If the folder holds an unfinished run, it is resumed; if it holds none, one is
    trained.

    Raises:
        InputError: if the texts have changed since the start of the run, even if it is finished: its result cannot be
            compared with those of other runs.
    """
    begun = (folder / RECIPE).exists()
    if is_finished(folder):
        remove_unfinished(folder)  # of a process that was killed after training, while it scored trees
        check_fingerprints(folder, fingerprints_of(recipe, folder))
        if not isinstance(recipe, PairRecipe):  # the answers to pairs are not stored, but given again
            return read_result(folder)
    with watching(recipe) as watcher:
        return resume(folder, watcher) if begun else train(recipe, folder, watcher)


def train_all(runs: Mapping[Path, Recipe], watching: Watching, say: Callable[[str], None], jobs: int) -> bool:
    """Train or resume runs by folder, `jobs` of them at the same time, and return whether one was interrupted.

    After an interruption, no further run is started. Several at the same time share the cores and show no progress.
    """
    for path in runs:
        if is_finished(path):
            say(f"{path}: finished")
    waiting = {path: recipe for path, recipe in runs.items() if not is_finished(path)}
    for path, recipe in runs.items():
        if path not in waiting:
            check_fingerprints(path, fingerprints_of(recipe, path))
    if min(jobs, len(waiting)) < 2:
        for path, recipe in waiting.items():
            say(f"{path}: training")
            if train_or_resume(path, recipe, watching).stopped:
                return True
        return False
    threads = max(1, core_count() // jobs)
    context = multiprocessing.get_context("spawn")
    others = multiprocessing.active_children()
    with ProcessPoolExecutor(jobs, context, _begin_worker, (threads,)) as executor:
        say(f"training {len(waiting)} models, {min(jobs, len(waiting))} at the same time")
        next_runs = iter(waiting.items())
        trainings: dict[Future[TrainingResult], Path] = {}

        def start(count: int) -> None:
            """Start further runs. None is submitted before a worker is free, because it could not be cancelled."""
            for path, recipe in islice(next_runs, count):
                trainings[executor.submit(_train_in_worker, path, recipe, invocation())] = path

        try:
            start(jobs)
            while trainings:
                for future in wait(trainings, return_when=FIRST_COMPLETED).done:
                    path = trainings.pop(future)
                    if future.result().stopped:
                        raise KeyboardInterrupt
                    say(f"{path}: finished")
                    start(1)
        except (KeyboardInterrupt, SystemExit) as interruption:
            # The runs save and stop. Ctrl-C reaches their processes, too, but SIGTERM may reach this one alone.
            for worker in set(multiprocessing.active_children()).difference(others):
                worker.terminate()
            if isinstance(interruption, SystemExit):
                raise
            return True
        except BrokenProcessPool:
            raise InputError(
                f"{option_name('--jobs')}: a process that trained ended before its result. Is there enough memory?"
                " Start it again, perhaps with fewer jobs: finished runs are kept, and interrupted ones are resumed"
            ) from None
    return False


def _begin_worker(threads: int) -> None:
    """Begin a process that trains: set the threads of torch, and let the run save and stop if its parent is killed."""
    torch.set_num_threads(threads)  # the import of this module has set one
    when_parent_ends(lambda: signal.raise_signal(signal.SIGTERM))


def _train_in_worker(folder: Path, recipe: Recipe, command: Invocation) -> TrainingResult:
    """Train or resume a run without a display.

    Args:
        command: the command of the process that started this one.
    """
    with running(command):
        result = train_or_resume(folder, recipe, _unwatched)
    parent = multiprocessing.parent_process()
    if parent is not None and not parent.is_alive():
        os._exit(1)  # it would wait forever for more work
    return result


def _unwatched(recipe: Recipe) -> AbstractContextManager[ProgressCallback]:
    return nullcontext(lambda event: None)


def is_finished(folder: Path) -> bool:
    """Return whether a folder holds a finished run."""
    return (folder / RECIPE).exists() and (folder / RESULT).exists()


def check_settings(folder: Path, recipe: Recipe) -> None:
    """Raise InputError if a folder holds a run of a different recipe."""
    if not (folder / RECIPE).exists():
        return
    present, wanted = (dict(_flat(either.to_dict())) for either in (read_run_recipe(folder), recipe))
    keys = [key for key in present | wanted if present.get(key) != wanted.get(key)]
    if keys:
        shown = "; ".join(f"{key}: found {present.get(key)}, expected {wanted.get(key)}" for key in keys[:3])
        raise InputError(f"{folder}: already holds a run with other settings: {shown}. Name another folder.")


def _flat(settings: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the dotted names and values of nested settings."""
    for key, value in settings.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def read_recipes(
    names: Sequence[str],
    overrides: Overrides = (),
    minutes: float | None = None,
    tagged: Mapping[str, str] | None = None,
) -> dict[str, LanguageModelRecipe]:
    """Read recipes and return them by name, without folder and extension.

    Args:
        names: recipe files or names of bundled recipes.
        overrides: settings that replace those of every recipe, see `read_recipe`.
        minutes: training time of every recipe; None: as in the recipe.
        tagged: see `with_tagged_text`.

    Raises:
        InputError: with the errors of all recipes, for two recipes with the same name, and for missing texts.
    """
    if minutes is not None and isinstance(overrides, Mapping):
        overrides = {**overrides, "schedule.minutes": minutes}
    elif minutes is not None:
        overrides = [*overrides, ("schedule.minutes", repr(minutes))]
    recipes: dict[str, LanguageModelRecipe] = {}
    faults = []
    for name in names:
        try:
            stem = find_recipe(name).stem
            if stem in recipes:
                raise InputError(f"{name}: found two recipes with the name {stem}; expected different names")
            recipes[stem] = recipe = with_tagged_text(read_recipe(name, overrides), tagged)
            for key, path in recipe.data.files.items():
                if key in recipe.data.treebanks:
                    continue
                for file in text_files_of(path):
                    if not (address_of(file) or os.path.exists(file)):
                        raise InputError(f"{name}: {recipe.data_section}.{key}: {file}: no such file")
        except InputError as error:
            faults.append(str(error))
    if faults:
        raise InputError("\n".join(faults))
    return recipes


def with_tagged_text(recipe: Recipe, tagged: Mapping[str, str] | None) -> LanguageModelRecipe:
    """Return a recipe that reads tags with these texts, and other recipes unchanged.

    Args:
        tagged: files of tagged text by part: "train", "valid" and, if there is one, "test"; None or empty: no change.

    Raises:
        InputError: if "train" or "valid" is missing, and for the recipe of a pair classifier.
    """
    if not isinstance(recipe, LanguageModelRecipe):
        raise InputError(f"found a recipe with a section {recipe.data_section}; expected a section text or trees")
    if not tagged or isinstance(recipe, TreeRecipe) or recipe.text.normaliser.units != "tags":
        return recipe
    if missing := [part for part in ("train", "valid") if part not in tagged]:
        raise InputError(f"tagged text: {' and '.join(missing)} is missing; expected files to train and to validate")
    texts: dict[str, Any] = {part: tagged.get(part) for part in ("train", "valid", "test")}
    return dataclasses.replace(recipe, text=dataclasses.replace(recipe.text, **texts))


def compare(
    recipes: Mapping[str, LanguageModelRecipe],
    folder: Path,
    seeds: int,
    watching: Watching,
    say: Callable[[str], None] = lambda line: None,
    trees: TreebankEvaluation | None = None,
) -> Comparison:
    """Train every recipe with seeds run.seed, run.seed + 1, ..., one run after the other, and write comparison.json.

    If a run fails, the others are trained all the same, and its error message is in `faults`. If a run is interrupted,
    no further run is started. Warns if the recipes read different texts or may have different vocabularies.

    Args:
        recipes: recipes by name.
        folder: the folder of the comparison.
        seeds: number of seeds of each recipe.
        watching: returns a context manager with a progress callback for a recipe.
        say: prints a line of progress.
        trees: the treebank that finished models which parse are evaluated on; None: no F1.

    Raises:
        InputError: before training if a folder holds a run with other settings, if the treebank cannot be read, and if
            a text is the file comparison.json of the folder.
    """
    if rank_and_count()[1] > 1:
        raise InputError("found several processes (torchrun); compare trains in one process. Start it without torchrun")
    check_name(folder)
    refuse_run(folder)
    for recipe in recipes.values():
        refuse_overwriting(folder / COMPARISON, recipe.data.files.values())
    runs = {
        (name, folder / name / seed): seed_recipe
        for name, recipe in recipes.items()
        for seed, seed_recipe in seeded(recipe, seeds).items()
    }
    for (_, run_folder), recipe in runs.items():
        check_settings(run_folder, recipe)
    text_notes = _text_notes(recipes)
    vocabulary_notes = _vocabulary_notes(recipes)
    for note in [*text_notes, *vocabulary_notes]:
        warn_caller(note)
    made = make_folder(folder)
    with locked(folder):
        remove_unfinished(folder)
        try:
            baselines = [] if trees is None else trees.baselines(folder)
        except BaseException:
            remove_empty(made)
            raise
        rows = [RecipeRuns(name, recipe) for name, recipe in recipes.items()]
        treebank = None if trees is None else trees.to_dict()
        comparison = Comparison(folder, rows, seeds, treebank=treebank, baselines=baselines, text_notes=text_notes)
        return _train_and_score(comparison, runs, watching, say, trees)


def _train_and_score(
    comparison: Comparison,
    runs: Mapping[tuple[str, Path], LanguageModelRecipe],
    watching: Watching,
    say: Callable[[str], None],
    trees: TreebankEvaluation | None,
) -> Comparison:
    """Implement `compare` in a folder that is locked.

    Args:
        runs: recipes by name and run folder.
    """
    rows = {row.name: row for row in comparison.recipes}
    for number, ((name, run_folder), recipe) in enumerate(runs.items(), 1):
        say(f"{run_folder} ({number} of {len(runs)})")
        row = rows[name]
        try:
            with training_recipe(name):
                result = train_or_resume(run_folder, recipe, watching)
            comparison.stopped = result.stopped
            if not result.stopped:
                _add_run(row, result, trees)
        except KeyboardInterrupt:
            if not row.runs or row.runs[-1].folder != run_folder:  # not while it was evaluated
                raise
            comparison.stopped = True
        except InputError as error:
            comparison.faults[str(run_folder)] = str(error)
            say(str(error))
        write_text(
            to_json(comparison.to_dict() | {"run": run_head().to_dict()}, indent=2) + "\n",
            comparison.folder / COMPARISON,
            stored=True,
        )
        if comparison.stopped:
            break
    return comparison


def _add_run(row: RecipeRuns, result: TrainingResult, trees: TreebankEvaluation | None) -> None:
    """Add a finished run, then its treebank score, on the device that trained the model.

    Models that are trained by counting stay on the CPU.
    """
    if row.epoch_tokens is None:
        row.epoch_tokens = count_epoch_tokens(row.recipe, result.folder)
    bundle = read_model(result.folder)
    row.parameters = bundle.model.parameter_count
    row.vocabulary = frozenset(bundle.vocabulary.tokens) - {bundle.vocabulary.begin, bundle.vocabulary.end}
    row.runs, row.trees = (*row.runs, result), (*row.trees, None)
    if trees is not None:
        if isinstance(bundle.model, TrainsByGradient):
            bundle = bundle.to(find_device(row.recipe.run.accelerator))
        try:
            row.trees = (*row.trees[:-1], trees.score(bundle, result.folder))
        except InputError as error:
            raise InputError(f"the model is trained, but its trees were not scored: {error}") from error


def _text_notes(recipes: Mapping[str, LanguageModelRecipe]) -> list[str]:
    """Return a note for each part of the text that differs between recipes that read the same units.

    Texts are compared by content. Dependency trees are not compared with plain text.
    """
    notes, hashes = [], {}
    for units, same_units in _by_units(recipes).items():
        for part, consequence in _DEPENDS_ON.items():
            paths = {name: getattr(recipe.data, part) for name, recipe in same_units.items()}
            for path in filter(None, paths.values()):
                if path not in hashes:
                    files = fingerprint({part: path}, [part] if units == "dependency trees" else [])
                    hashes[path] = tuple(files[part].values())
            if len({hashes.get(path) for path in paths.values()}) > 1:
                listed = "; ".join(f"{name}: {path or 'none'}" for name, path in paths.items())
                notes.append(f"the recipes have different texts (text.{part}), so {consequence}: {listed}")
    return notes


def _vocabulary_notes(recipes: Mapping[str, LanguageModelRecipe]) -> list[str]:
    """Return a note for each setting of vocabulary and normaliser that differs between recipes with the same units."""
    notes = []
    for same_units in _by_units(recipes).values():
        settings = {}
        for name, recipe in same_units.items():
            sections = {"normaliser": recipe.data.normaliser.to_dict(), "vocabulary": vars(recipe.data.vocabulary)}
            settings[name] = dict(_flat(sections, "text."))
        for key in next(iter(settings.values())):
            if len({repr(recipe_settings[key]) for recipe_settings in settings.values()}) > 1:
                listed = "; ".join(f"{name}: {recipe_settings[key]}" for name, recipe_settings in settings.items())
                notes.append(
                    f"the recipes have different settings of the vocabulary ({key}), so their perplexities may not be"
                    f" comparable: {listed}"
                )
    return notes


def _by_units(recipes: Mapping[str, LanguageModelRecipe]) -> dict[str, dict[str, LanguageModelRecipe]]:
    """Group recipes by what their models read."""
    groups: dict[str, dict[str, LanguageModelRecipe]] = {}
    for name, recipe in recipes.items():
        groups.setdefault(RecipeRuns(name, recipe).reads, {})[name] = recipe
    return groups


def count_epoch_tokens(recipe: LanguageModelRecipe, folder: Path) -> int:
    """Return the number of tokens that an epoch of training predicts, including predicted ends of sentences.

    The first epochs of a curriculum have fewer.

    Args:
        recipe: of a trained model.
        folder: of the model.
    """
    if isinstance(recipe, TreeRecipe):
        sizes = map(len, dependency_trees(recipe.trees.train))
        most = recipe.batches.maximum_words
        return sum(size for size in sizes if most is None or size <= most)
    vocabulary = Vocabulary.read(folder / VOCABULARY)
    batches = recipe.batches
    with EncodedCorpus.encode(recipe.data.train, Normaliser(recipe.data.normaliser), vocabulary) as corpus:
        lengths = corpus.lengths
        if isinstance(batches, SentenceBatchSettings):
            if batches.joined > 1:
                lengths = corpus.joined(batches.joined, vocabulary.end_id, recipe.run.seed).lengths
            if batches.maximum_words is not None:
                lengths = lengths[lengths <= batches.maximum_words]
        return int(lengths.sum()) + len(lengths) * recipe.mode.predict_eos
