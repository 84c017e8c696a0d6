"""The same recipe trained several times, with different seeds."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from syntaxlm.training.recipe import Recipe
from syntaxlm.training.trainer import TrainingResult, Watcher, train


@dataclass(frozen=True)
class SeedsResult:
    """Runs of one recipe; those after a stopped one were not begun."""

    runs: list[TrainingResult]

    def perplexities(self, text: str) -> list[float]:
        """Of each finished run on "valid" or "test"."""
        scores = [getattr(run, text) for run in self.runs]
        return [score.perplexity for score in scores if score is not None]

    def as_dict(self) -> dict[str, Any]:
        figures: dict[str, Any] = {"runs": [run.as_dict() for run in self.runs]}
        for text in ("valid", "test"):
            values = self.perplexities(text)
            if values:
                figures[f"{text}_perplexity"] = {"mean": float(np.mean(values)), "deviation": _deviation(values)}
        return figures

    def __str__(self) -> str:
        lines = [str(run) for run in self.runs]
        for text in ("valid", "test"):
            values = self.perplexities(text)
            if values:
                lines.append(
                    f"{text} perplexity {np.mean(values):.2f} ± {_deviation(values):.2f} ({len(values)} seeds)"
                )
        return "\n".join(lines)


def _deviation(values: list[float]) -> float:
    return float(np.std(values, ddof=1)) if len(values) > 1 else 0.0


def train_seeds(
    recipe: Recipe,
    folder: Path,
    count: int,
    watching: Callable[[Recipe], AbstractContextManager[Watcher]],
) -> SeedsResult:
    """Trains with seeds run.seed, run.seed + 1, ... into folder/seed-S, one after the other."""
    runs = []
    for seed in range(recipe.run.seed, recipe.run.seed + count):
        one = dataclasses.replace(recipe, run=dataclasses.replace(recipe.run, seed=seed))
        with watching(one) as watcher:
            runs.append(train(one, folder / f"seed-{seed}", watcher))
        if runs[-1].stopped:
            break
    return SeedsResult(runs)
