"""Comparison of several recipes, trained with the same budget and several seeds each.

A comparison is a folder with the runs in folder/RECIPE/seed-S and the results so far in folder/comparison.json. If it
is started again, finished runs are read, an interrupted run is resumed, and missing runs are trained.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from syntaxlm.data.corpora import EncodedCorpus
from syntaxlm.data.treebanks import dependency_trees
from syntaxlm.errors import InputError
from syntaxlm.files import held, make_folder, to_json, write_text
from syntaxlm.model_io import VOCABULARY, read_model
from syntaxlm.result_tables import Column, HasRows, Table
from syntaxlm.scoring.perplexity import LanguageModelScore
from syntaxlm.settings import Overrides
from syntaxlm.text.vocabulary import Vocabulary
from syntaxlm.training.recipe import Recipe, read_recipe
from syntaxlm.training.recipe_files import find_recipe
from syntaxlm.training.result import Figure, TrainingResult
from syntaxlm.training.seeds import Watching, check_settings, seeded, train_or_resume
from syntaxlm.training.trainer import refuse_run

COMPARISON = "comparison.json"


@dataclass(frozen=True)
class Row:
    """The finished runs of one recipe.

    parameters: number of trainable parameters; tied parameters are counted once.
    epoch_tokens: number of tokens that are predicted in an epoch of training.
    """

    name: str
    recipe: Recipe
    runs: tuple[TrainingResult, ...] = ()
    parameters: int | None = None
    epoch_tokens: int | None = None

    def scores(self, text: str) -> list[LanguageModelScore]:
        """Returns the score of each finished run on a text, "valid" or "test"."""
        found = [getattr(run, text) for run in self.runs]
        return [score for score in found if score is not None]

    def figure(self, text: str, measure: str) -> Figure | None:
        """Returns a statistic over the finished runs, if any.  measure: "perplexity" or "bits_per_character"."""
        return Figure.of([getattr(score, measure) for score in self.scores(text)])

    @property
    def epochs(self) -> Figure | None:
        return Figure.of([run.epochs for run in self.runs])

    @property
    def minutes(self) -> Figure | None:
        return Figure.of([run.seconds / 60 for run in self.runs])

    @property
    def tokens_per_second(self) -> Figure | None:
        """Training speed, including the time for validation."""
        tokens = self.epoch_tokens
        if tokens is None:
            return None
        return Figure.of([run.epochs * tokens / run.seconds for run in self.runs if run.seconds])

    def to_dict(self) -> dict[str, Any]:
        """Returns all figures for JSON."""
        texts = {
            text: {measure: _plain(self.figure(text, measure)) for measure in ("perplexity", "bits_per_character")}
            for text in ("valid", "test")
        }
        costs = {name: _plain(getattr(self, name)) for name in ("epochs", "minutes", "tokens_per_second")}
        counts = {"parameters": self.parameters, "epoch_tokens": self.epoch_tokens}
        return {"recipe": self.name} | texts | counts | costs | {"runs": [run.to_dict() for run in self.runs]}


def _plain(figure: Figure | None) -> dict[str, Any] | None:
    return None if figure is None else {"mean": figure.mean, "std": figure.std, "count": figure.count}


COMPARED_RECIPES = Table(
    "comparison of recipes",
    "recipe and text",
    {
        "recipe": Column("text", "name of the recipe"),
        "text": Column("text", "valid or test"),
        "perplexity": Column("number", "mean perplexity over the finished runs"),
        "perplexity_std": Column("number", "sample standard deviation over runs"),
        "bits_per_character": Column("number", "mean bits per character over the finished runs"),
        "bits_per_character_std": Column("number", "sample standard deviation over runs"),
        "runs": Column("integer", "number of finished runs"),
        "seeds": Column("integer", "requested number of runs"),
        "parameters": Column("integer", "number of trainable parameters"),
        "epochs": Column("number", "mean number of epochs"),
        "minutes": Column("number", "mean training time in minutes"),
        "tokens_per_second": Column("number", "mean training speed, with validation"),
    },
)


@dataclass(frozen=True)
class Comparison(HasRows):
    """The results of a comparison.

    recipes: the runs of each recipe.
    seeds: requested number of seeds.
    faults: error messages of the runs that failed, by folder.
    stopped: whether training was interrupted.
    """

    folder: Path
    recipes: list[Row]
    seeds: int
    faults: dict[str, str] = field(default_factory=dict)
    stopped: bool = False

    table = COMPARED_RECIPES

    @property
    def measure(self) -> str:
        """The measure of the table: bits per character if any model is a character-level model, else perplexity."""
        characters = any(row.recipe.text.normaliser.units == "characters" for row in self.recipes)
        return "bits_per_character" if characters else "perplexity"

    @property
    def notes(self) -> list[str]:
        """Reasons why the figures of some recipes are not directly comparable."""
        notes = []
        readings = {row.name: _reading(row.recipe) for row in self.recipes}
        if len(set(readings.values())) > 1:
            of_rows = "; ".join(f"{name}: {reading}" for name, reading in readings.items())
            notes.append(f"the recipes read the text in different ways: {of_rows}")
        for text in ("valid", "test"):
            counts = {}
            for row in self.recipes:
                for score in row.scores(text)[:1]:
                    of_measure = score.characters if self.measure == "bits_per_character" else score.tokens
                    counts[row.name] = of_measure, score.unknown
            if len(set(counts.values())) > 1:
                unit = "characters" if self.measure == "bits_per_character" else "tokens"
                of_rows = ", ".join(
                    f"{name} {count:,} ({unknown:,} unknown)" for name, (count, unknown) in counts.items()
                )
                notes.append(f"{text}: the recipes predict different {unit}: {of_rows}")
        for row in self.recipes:
            scores = [*row.scores("valid"), *row.scores("test")]
            if scores and scores[0].likelihood_estimate:
                notes.append(f"{row.name}: figures are estimates, {scores[0].likelihood_estimate}")
        return notes

    def to_dict(self) -> dict[str, Any]:
        """Returns all figures for JSON."""
        return {
            "schema_version": 2,  # 1 had "deviation" for "std"
            "folder": str(self.folder),
            "measure": self.measure,
            "seeds": self.seeds,
            "rows": [row.to_dict() for row in self.recipes],
            "notes": self.notes,
            "faults": self.faults,
            "stopped": self.stopped,
        }

    def rows(self) -> Iterator[dict[str, Any]]:
        """A row for each recipe and text with a result, with the columns of `COMPARED_RECIPES`."""
        for recipe in self.recipes:
            costs = {name: getattr(recipe, name) for name in ("epochs", "minutes", "tokens_per_second")}
            for text in ("valid", "test"):
                perplexity, bits = (recipe.figure(text, name) for name in ("perplexity", "bits_per_character"))
                if perplexity is None or bits is None:
                    continue
                yield {
                    "recipe": recipe.name,
                    "text": text,
                    "perplexity": perplexity.mean,
                    "perplexity_std": perplexity.std,
                    "bits_per_character": bits.mean,
                    "bits_per_character_std": bits.std,
                    "runs": perplexity.count,
                    "seeds": self.seeds,
                    "parameters": recipe.parameters,
                    **{name: figure and figure.mean for name, figure in costs.items()},
                }

    def __str__(self) -> str:
        decimals = 3 if self.measure == "bits_per_character" else 2
        name = self.measure.replace("_", " ")
        heads = ["recipe", f"valid {name}", f"test {name}", "parameters", "epochs", "minutes", "tokens/s", "seeds"]
        lines = [heads] + [
            [
                row.name,
                _shown(row.figure("valid", self.measure), decimals),
                _shown(row.figure("test", self.measure), decimals),
                "-" if row.parameters is None else f"{row.parameters:,}",
                _shown(row.epochs and dataclasses.replace(row.epochs, count=1), 2),
                _shown(row.minutes and dataclasses.replace(row.minutes, count=1), 1),
                _shown(row.tokens_per_second and dataclasses.replace(row.tokens_per_second, count=1), 0),
                f"{len(row.runs)} of {self.seeds}",
            ]
            for row in self.recipes
        ]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        table = [
            "  ".join([cells[0].ljust(widths[0]), *map(str.rjust, cells[1:], widths[1:])]).rstrip() for cells in lines
        ]
        notes = [f"note: {note}" for note in self.notes]
        stopped = ["Training stopped; a checkpoint is saved. Resume with the same command."] if self.stopped else []
        return "\n".join([*table, *notes, *stopped])


def _reading(recipe: Recipe) -> str:
    """Describes how a recipe's model reads text."""
    return "words given their trees" if recipe.reads == "trees" else str(recipe.mode)


def _shown(figure: Figure | None, decimals: int) -> str:
    return "-" if figure is None else figure.shown(decimals)


def read_recipes(names: Sequence[str], overrides: Overrides = (), minutes: float | None = None) -> dict[str, Recipe]:
    """Reads recipes and returns them by name, without folder and extension.

    names: recipe files or names of shipped recipes.
    overrides: settings that replace those of every recipe, see `read_recipe`.
    minutes: training time of every recipe; None: as in the recipe.
    Raises InputError with the errors of all recipes, for two recipes with the same name, and for missing texts.
    """
    settings: Overrides
    if isinstance(overrides, Mapping):
        settings = {**overrides, **({} if minutes is None else {"schedule.minutes": minutes})}
    else:
        settings = [*overrides, *([] if minutes is None else [("schedule.minutes", repr(minutes))])]
    recipes: dict[str, Recipe] = {}
    faults = []
    for name in names:
        try:
            stem = find_recipe(name).stem
            if stem in recipes:
                raise InputError(f"{name}: found two recipes with the name {stem}; expected different names")
            recipes[stem] = read_recipe(name, settings)
            text = recipes[stem].text
            for key, path in (("train", text.train), ("valid", text.valid), ("test", text.test)):
                if path is not None and not os.path.exists(path):
                    raise InputError(f"{name}: text.{key}: {path}: no such file")
        except InputError as error:
            faults.append(str(error))
    if faults:
        raise InputError("\n".join(faults))
    return recipes


def compare(
    recipes: Mapping[str, Recipe],
    folder: Path,
    seeds: int,
    watching: Watching,
    say: Callable[[str], None] = lambda line: None,
) -> Comparison:
    """Trains every recipe with seeds run.seed, run.seed + 1, ..., one run after the other, and writes comparison.json.

    recipes: recipes by name.  folder: the folder of the comparison.  seeds: number of seeds of each recipe.
    watching: returns a context manager with a progress callback for a recipe.  say: prints a line of progress.
    If a run fails, the others are trained all the same, and its error message is in `faults`. If a run is interrupted,
    no further run is started.
    Raises InputError before training if a folder holds a run with other settings.
    """
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise InputError("found several processes (torchrun); compare trains in one process. Start it without torchrun")
    refuse_run(folder)
    runs = {
        (name, folder / name / run): one
        for name, recipe in recipes.items()
        for run, one in seeded(recipe, seeds).items()
    }
    for (_, run_folder), recipe in runs.items():
        check_settings(run_folder, recipe)
    make_folder(folder)
    with held(folder):
        return _compare(recipes, runs, folder, seeds, watching, say)


def _compare(
    recipes: Mapping[str, Recipe],
    runs: Mapping[tuple[str, Path], Recipe],
    folder: Path,
    seeds: int,
    watching: Watching,
    say: Callable[[str], None],
) -> Comparison:
    """Implements `compare` in a folder that is locked.  runs: recipes by name and run folder."""
    rows = {name: Row(name, recipe) for name, recipe in recipes.items()}
    faults: dict[str, str] = {}
    stopped = False
    epochs_counted: dict[str, int] = {}
    for number, ((name, run_folder), recipe) in enumerate(runs.items(), 1):
        say(f"{run_folder} ({number} of {len(runs)})")
        try:
            result = train_or_resume(run_folder, recipe, watching)
            stopped = result.stopped
            if not stopped:
                rows[name] = _with_run(rows[name], result, epochs_counted)
        except InputError as error:
            faults[str(run_folder)] = str(error)
            say(str(error))
        comparison = Comparison(folder, list(rows.values()), seeds, faults, stopped)
        write_text(to_json(comparison.to_dict(), indent=2) + "\n", folder / COMPARISON, stored=True)
        if stopped:
            break
    return comparison


def _with_run(row: Row, result: TrainingResult, counted: dict[str, int]) -> Row:
    """Returns the row with another finished run.  counted: cached numbers of tokens per epoch, by settings."""
    stored = read_model(result.folder)
    key = repr((row.recipe.text.train, row.recipe.text.normaliser, row.recipe.batches))
    if key not in counted:
        counted[key] = _epoch_tokens(row.recipe, result.folder)
    parameters = stored.model.parameter_count
    return dataclasses.replace(row, runs=(*row.runs, result), parameters=parameters, epoch_tokens=counted[key])


def _epoch_tokens(recipe: Recipe, folder: Path) -> int:
    """Returns the number of tokens that an epoch of training predicts, including predicted ends of sentences."""
    if recipe.reads == "trees":
        sizes, most = map(len, dependency_trees(recipe.text.train)), recipe.batches.maximum_words
        return sum(size for size in sizes if most is None or size <= most)
    vocabulary = Vocabulary.read(folder / VOCABULARY)
    with EncodedCorpus.encode(recipe.text.train, recipe.text.normaliser, vocabulary) as corpus:
        lengths, limit = corpus.lengths, recipe.batches.maximum_words
        if not recipe.batches.carry_state and limit is not None:
            lengths = lengths[lengths <= limit]
        return int(lengths.sum()) + len(lengths) * recipe.batches.predict_eos
