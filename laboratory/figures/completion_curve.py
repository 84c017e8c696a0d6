"""Sentence completion: accuracy against the size of the training text, a curve for each model.

    python -m laboratory.figures.completion_curve laboratory/results/completion -o docs/images/completion-curve.svg

The folder has files MODEL-NOVELS.json, such as tree-rnn-4.json: the output of `evaluate completion --format json` for a
model that was trained on this number of novels. Drawn is the accuracy on all questions with its 95% interval; of a file
with several models, only the first is drawn. The published models (Zhang, Lu and Lapata 2016) read 522 novels.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from laboratory.figures import shared
from syntaxlm.core.errors import InputError
from syntaxlm.core.files import parse_json, read_stored_text
from syntaxlm.drawing.plots import Point, line_chart
from syntaxlm.drawing.svg import Picture, stacked

PUBLISHED_NOVELS = 522
PUBLISHED = {"Kneser-Ney": 40.0, "RNN": 45.0, "TreeRNN-NCE": 48.8, "LTreeRNN-NCE": 47.1}
_NAME = re.compile(r"(?P<model>.+)-(?P<novels>\d+)")


@dataclass(frozen=True)
class Result:
    """Accuracy in percent with its 95% interval, after training on a number of novels."""

    novels: int
    accuracy: float
    low: float
    high: float


def read_results(folder: str | Path) -> tuple[dict[str, list[Result]], float]:
    """The results by model, by number of novels in ascending order, and the accuracy of guessing in percent.

    Raises InputError for a file of another name or form, and for a folder without files.
    """
    found: dict[str, list[Result]] = {}
    chance = 0.0
    for path in sorted(Path(folder).glob("*.json")):
        name = _NAME.fullmatch(path.stem)
        if name is None:
            raise InputError(f"{path}: expected a file MODEL-NOVELS.json, such as tree-rnn-4.json")
        try:
            report = parse_json(read_stored_text(path), str(path))
            part = report["models"][0]["all"]
            values = (100 * value for value in (part["accuracy"], *part["interval"]))
            found.setdefault(name["model"], []).append(Result(int(name["novels"]), *values))
            chance = 100 * report["chance"]
        except (KeyError, IndexError, TypeError) as error:
            raise InputError(f"{path}: {error!r}; expected the JSON of `evaluate completion --format json`") from error
    if not found:
        raise InputError(f"{folder}: found no file MODEL-NOVELS.json")
    return {model: sorted(some, key=lambda one: one.novels) for model, some in found.items()}, chance


def picture(results: Mapping[str, Sequence[Result]], chance: float) -> Picture:
    """The figure. chance: the accuracy of guessing in percent."""
    lines: dict[str, list[Point]] = {
        model: [(one.novels, one.accuracy) for one in some] for model, some in results.items()
    }
    intervals = {model: [(one.novels, one.low, one.high) for one in some] for model, some in results.items()}
    # One series for all published models: a missing value between two points leaves them unconnected.
    published: list[Point] = [(PUBLISHED_NOVELS, value) for value in PUBLISHED.values()]
    gaps = [(float("nan"), float("nan"))] * len(published)
    lines["published"] = [point for pair in zip(published, gaps, strict=True) for point in pair]
    chart = line_chart(
        lines, "Sentence completion", "novels of training text (logarithmic)", "accuracy, %", log_x=True,
        levels={f"guessing, {chance:.0f}%": chance}, intervals=intervals,
    )  # fmt: skip
    note = "Published, 522 novels: " + ", ".join(f"{name} {value:.1f}" for name, value in PUBLISHED.items()) + "."
    return stacked([chart, shared.lines([note])], chart.title, gap=0)


def main() -> tuple[Picture, argparse.Namespace]:
    parser = shared.options(__doc__)
    parser.add_argument("folder", metavar="FOLDER")
    chosen = parser.parse_args()
    return picture(*read_results(chosen.folder)), chosen


if __name__ == "__main__":
    shared.run(main)
