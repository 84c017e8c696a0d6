"""Sentence completion: accuracy against the size of the training text, a curve for each model.

    python -m laboratory.figures.completion_curve -o docs/images/completion-curve.svg

The accuracies are those of the experiment `completion`: reports of `evaluate completion` of models that were trained
on a number of novels. Drawn is the accuracy on all questions with its 95% interval. The published models (Zhang, Lu and
Lapata 2016) read 522 novels.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from laboratory.figures import shared
from laboratory.results.store import StoredRun, select
from syntaxlm.drawing.plots import Point, line_chart
from syntaxlm.drawing.svg import Picture, stacked

PUBLISHED_NOVELS = 522
PUBLISHED = {"Kneser-Ney": 40.0, "RNN": 45.0, "TreeRNN-NCE": 48.8, "LTreeRNN-NCE": 47.1}


@dataclass(frozen=True)
class Result:
    """Accuracy in percent with its 95% interval, after training on a number of novels."""

    novels: int
    accuracy: float
    low: float
    high: float


def results_by_model(runs: Iterable[StoredRun]) -> dict[str, list[Result]]:
    """Return the results of single models, by number of novels in ascending order."""
    results: dict[str, list[Result]] = {}
    for run in runs:
        if run.report["interpolated"] is None:
            score = run.report["models"][0]["all"]
            values = (100 * value for value in (score["accuracy"], *score["interval"]))
            results.setdefault(run.run, []).append(Result(int(run.factors["novels"]), *values))
    return {model: sorted(some, key=lambda result: result.novels) for model, some in results.items()}


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
    runs = select("completion")
    return picture(results_by_model(runs), 100 * runs[0].report["chance"]), shared.options(__doc__).parse_args()


if __name__ == "__main__":
    shared.run(main)
