"""The same recipe trained several times, with different seeds."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from syntaxlm.errors import InputError
from syntaxlm.training.recipe import Recipe
from syntaxlm.training.result import RESULT, Figure, TrainingResult, read_result
from syntaxlm.training.trainer import RECIPE, ProgressCallback, read_run_recipe, resume, train

Watching = Callable[[Recipe], AbstractContextManager[ProgressCallback]]


@dataclass(frozen=True)
class SeedsResult:
    """Runs of one recipe; those after a stopped one were not begun."""

    runs: list[TrainingResult]

    @property
    def perplexities(self) -> dict[str, Figure]:
        """Over the finished runs, on "valid" and "test", where there is one."""
        found = {}
        for text in ("valid", "test"):
            scores = [getattr(run, text) for run in self.runs]
            figure = Figure.of([score.perplexity for score in scores if score is not None])
            if figure is not None:
                found[text] = figure
        return found

    def to_dict(self) -> dict[str, Any]:
        figures = {
            f"{text}_perplexity": {"mean": figure.mean, "deviation": figure.deviation}
            for text, figure in self.perplexities.items()
        }
        return {"runs": [run.to_dict() for run in self.runs]} | figures

    def __str__(self) -> str:
        lines = [str(run) for run in self.runs]
        for text, figure in self.perplexities.items():
            title = next(score.perplexity_title for run in self.runs if (score := getattr(run, text)) is not None)
            lines.append(f"{text} {title} {figure.mean:.2f} ± {figure.deviation:.2f} ({figure.count} seeds)")
        return "\n".join(lines)


def seeded(recipe: Recipe, count: int) -> dict[str, Recipe]:
    """The recipe with seeds run.seed, run.seed + 1, ..., by the names of their folders."""
    first = recipe.run.seed
    return {
        f"seed-{seed}": dataclasses.replace(recipe, run=dataclasses.replace(recipe.run, seed=seed))
        for seed in range(first, first + count)
    }


def train_seeds(recipe: Recipe, folder: Path, count: int, watching: Watching) -> SeedsResult:
    """Trains `seeded` recipes into folders of `folder`, one after the other."""
    runs = []
    for name, one in seeded(recipe, count).items():
        with watching(one) as watcher:
            runs.append(train(one, folder / name, watcher))
        if runs[-1].stopped:
            break
    return SeedsResult(runs)


def train_or_resume(folder: Path, recipe: Recipe, watching: Watching) -> TrainingResult:
    """The result of a run in a folder: a finished one as it is, a stopped one resumed, otherwise a new one."""
    begun = (folder / RECIPE).exists()
    if is_finished(folder):
        return read_result(folder)
    with watching(recipe) as watcher:
        return resume(folder, watcher) if begun else train(recipe, folder, watcher)


def is_finished(folder: Path) -> bool:
    """Whether a folder holds a run that has ended."""
    return (folder / RECIPE).exists() and (folder / RESULT).exists()


def check_settings(folder: Path, recipe: Recipe) -> None:
    """Raises InputError when a folder holds a run of another recipe."""
    if not (folder / RECIPE).exists():
        return
    there, asked = (dict(_flat(one.to_dict())) for one in (read_run_recipe(folder), recipe))
    keys = [key for key in there | asked if there.get(key) != asked.get(key)]
    if keys:
        shown = "; ".join(f"{key} is {there.get(key)} there, {asked.get(key)} here" for key in keys[:3])
        raise InputError(f"{folder}: holds a run of other settings: {shown}. Name another folder.")


def _flat(settings: Mapping[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    """Dotted names and values of nested settings."""
    found = []
    for key, value in settings.items():
        name = f"{prefix}{key}"
        found += _flat(value, name + ".") if isinstance(value, dict) else [(name, value)]
    return found
