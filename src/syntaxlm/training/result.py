"""How a run ended, and figures over several runs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from syntaxlm.errors import InputError
from syntaxlm.files import read_text
from syntaxlm.scoring.perplexity import LanguageModelScore

RESULT = "result.json"


@dataclass(frozen=True)
class TrainingResult:
    """How a run ended: its folder, the scores of its best weights, and whether it was stopped before its end.

    averaged: whether the best weights are a mean over steps.
    supervised: sentences of the training text that had a gold tree to learn from, and all of them; None without trees.
    counted: of a model that learns by counting, what it tells of what it found, by name: numbers, in lists.
    """

    folder: Path
    steps: int
    epochs: float
    seconds: float
    valid: LanguageModelScore | None = None
    test: LanguageModelScore | None = None
    stopped: bool = False
    averaged: bool = False
    supervised: tuple[int, int] | None = None
    counted: dict[str, Any] | None = None

    def as_dict(self) -> dict[str, Any]:
        scores = {name: score and score.as_dict() for name, score in (("valid", self.valid), ("test", self.test))}
        rest = {name: getattr(self, name) for name in ("steps", "epochs", "seconds", "stopped", "averaged")}
        trees = self.supervised and dict(zip(("sentences", "of"), self.supervised, strict=True))
        return {"folder": str(self.folder)} | scores | rest | {"supervised": trees, "counted": self.counted}

    def __str__(self) -> str:
        if self.stopped:
            return f"Stopped and saved after {self.steps:,} steps. Go on with: syntaxlm train --resume {self.folder}"
        averaged = ", averaged weights" if self.averaged else ""
        spent = f"{self.steps:,} steps, {self.epochs:.2f} epochs, {self.seconds / 60:.1f} minutes"
        if self.counted is not None:
            spent = f"counted in {self.seconds:.1f} seconds"
        lines = [f"{self.folder}: {spent}{averaged}"]
        found = {name.replace("_", " "): values for name, values in (self.counted or {}).items() if values}
        lines += [f"{name}: {_told(values)}" for name, values in found.items()]
        if self.supervised is not None:
            lines.append("gold trees of {:,} of {:,} training sentences".format(*self.supervised))
        for name, score in (("valid", self.valid), ("test", self.test)):
            if score is not None:
                lines.append(f"{name}: " + str(score).replace("\n", "\n  "))
        return "\n".join(lines)


def _told(values: Any) -> str:
    """Numbers in a row; rows of them with commas between."""
    if not isinstance(values, list):
        return f"{values:,}"
    return (", " if values and isinstance(values[0], list) else "  ").join(map(_told, values))


def read_result(folder: Path) -> TrainingResult:
    """How the finished run of a folder ended. Raises InputError where its result is not whole."""
    path = folder / RESULT
    try:
        data = json.loads(read_text(path))
        valid, test = (data[text] and LanguageModelScore.from_dict(data[text]) for text in ("valid", "test"))
        place = folder, int(data["steps"]), float(data["epochs"]), float(data["seconds"])
        trees = data.get("supervised")
        supervised = None if trees is None else (int(trees["sentences"]), int(trees["of"]))
        return TrainingResult(
            *place, valid, test,
            averaged=bool(data.get("averaged", False)), supervised=supervised, counted=data.get("counted")
        )  # fmt: skip
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path}: no result of this program: {error!r}. Remove it to have it made again.") from error


@dataclass(frozen=True)
class Figure:
    """One figure over seeds; deviation: the sample standard deviation, 0 for a single run."""

    mean: float
    deviation: float
    count: int

    @classmethod
    def of(cls, values: Sequence[float]) -> Figure | None:
        """None for no value."""
        if not values:
            return None
        deviation = float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
        return cls(float(np.mean(values)), deviation, len(values))

    def shown(self, decimals: int) -> str:
        deviation = f" ± {self.deviation:.{decimals}f}" if self.count > 1 else ""
        return f"{self.mean:,.{decimals}f}{deviation}"
