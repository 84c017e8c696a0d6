"""Training of one recipe with several seeds."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from syntaxlm.core.errors import InputError
from syntaxlm.core.settings import LARGEST_SEED, check_number
from syntaxlm.training.recipe import Recipe
from syntaxlm.training.result import RESULT, Figure, TrainingResult, read_result
from syntaxlm.training.run import RECIPE, ProgressCallback, fingerprints_of, read_run_recipe, resume, train
from syntaxlm.training.run_folder import check_fingerprints

Watching = Callable[[Recipe], AbstractContextManager[ProgressCallback]]


@dataclass(frozen=True)
class SeedsResult:
    """The runs of one recipe. If the last one was interrupted, further runs were not started."""

    runs: list[TrainingResult]

    @property
    def perplexities(self) -> dict[str, Figure]:
        """Perplexity over the finished runs, by text: "valid" and, if there is one, "test"."""
        found = {}
        for text in ("valid", "test"):
            scores = [getattr(run, text) for run in self.runs]
            figure = Figure.of([score.perplexity for score in scores if score is not None])
            if figure is not None:
                found[text] = figure
        return found

    def to_dict(self) -> dict[str, Any]:
        figures = {
            f"{text}_perplexity": {"mean": figure.mean, "std": figure.std} for text, figure in self.perplexities.items()
        }
        head = {"schema_version": 2, "runs": [run.to_dict() for run in self.runs]}  # 1 had "deviation" for "std"
        return head | figures

    def __str__(self) -> str:
        lines = [str(run) for run in self.runs]
        for text, figure in self.perplexities.items():
            title = next(score.perplexity_title for run in self.runs if (score := getattr(run, text)) is not None)
            lines.append(f"{text} {title} {figure.mean:.2f} ± {figure.std:.2f} ({figure.count} seeds)")
        return "\n".join(lines)


AnyRecipe = TypeVar("AnyRecipe", bound=Recipe)

MOST_SEEDS = 1000  # maximum number of seeds


def seeded(recipe: AnyRecipe, count: int) -> dict[str, AnyRecipe]:
    """Return the recipe with seeds run.seed, run.seed + 1, ..., by name of the run folder.

    Raises InputError for more than `MOST_SEEDS` seeds, or seeds that are too large.
    """
    check_number("seeds", count, 0, MOST_SEEDS)
    first = recipe.run.seed
    check_number("run.seed + seeds", first + count, 0, LARGEST_SEED)
    return {
        f"seed-{seed}": dataclasses.replace(recipe, run=dataclasses.replace(recipe.run, seed=seed))
        for seed in range(first, first + count)
    }


def train_seeds(recipe: Recipe, folder: Path, count: int, watching: Watching) -> SeedsResult:
    """Train the `seeded` recipes one after the other, each in a subfolder of `folder`."""
    runs = []
    for name, one in seeded(recipe, count).items():
        with watching(one) as watcher:
            runs.append(train(one, folder / name, watcher))
        if runs[-1].stopped:
            break
    return SeedsResult(runs)


def train_or_resume(folder: Path, recipe: Recipe, watching: Watching) -> TrainingResult:
    """Return the result of a run. If the folder holds an unfinished run, it is resumed; if it holds none, one is
    trained.

    Raises InputError if the texts have changed since the start of the run, even if it is finished: its result cannot
    be compared with those of other runs.
    """
    begun = (folder / RECIPE).exists()
    if is_finished(folder):
        check_fingerprints(folder, fingerprints_of(recipe))
        return read_result(folder)
    with watching(recipe) as watcher:
        return resume(folder, watcher) if begun else train(recipe, folder, watcher)


def is_finished(folder: Path) -> bool:
    """Return whether a folder holds a finished run."""
    return (folder / RECIPE).exists() and (folder / RESULT).exists()


def check_settings(folder: Path, recipe: Recipe) -> None:
    """Raise InputError if a folder holds a run of a different recipe."""
    if not (folder / RECIPE).exists():
        return
    there, asked = (dict(_flat(one.to_dict())) for one in (read_run_recipe(folder), recipe))
    keys = [key for key in there | asked if there.get(key) != asked.get(key)]
    if keys:
        shown = "; ".join(f"{key}: found {there.get(key)}, expected {asked.get(key)}" for key in keys[:3])
        raise InputError(f"{folder}: already holds a run with other settings: {shown}. Name another folder.")


def _flat(settings: Mapping[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    """Return the dotted names and values of nested settings."""
    found = []
    for key, value in settings.items():
        name = f"{prefix}{key}"
        found += _flat(value, name + ".") if isinstance(value, dict) else [(name, value)]
    return found
