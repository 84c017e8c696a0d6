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
from syntaxlm.drawing.plots import Plot, draw_intervals, draw_levels, label_axes, line_style, new_plot, scale_by_factors

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
    return {model: sorted(curve, key=lambda result: result.novels) for model, curve in results.items()}


def picture(results: Mapping[str, Sequence[Result]], chance: float) -> Plot:
    """The figure. chance: the accuracy of guessing in percent."""
    plot = new_plot("Sentence completion", size=(7.6, 4.4))
    panel = plot.axes[0]
    handles = {}
    for place, (model, curve) in enumerate(results.items()):
        points = [(result.novels, result.accuracy) for result in curve]
        intervals = [(result.low, result.high) for result in curve]
        handles[model] = draw_intervals(panel, points, intervals, place)
    only_markers = line_style(len(results)) | {"linestyle": ""}
    (handles["published"],) = panel.plot([PUBLISHED_NOVELS] * len(PUBLISHED), list(PUBLISHED.values()), **only_markers)

    draw_levels(panel, {f"guessing, {chance:.0f}%": chance})
    scale_by_factors(panel, "x")
    label_axes(panel, "novels of training text (logarithmic)", "accuracy, %", "Sentence completion")
    plot.add_legend(handles)
    values = ", ".join(f"{name} {value:.1f}" for name, value in PUBLISHED.items())
    plot.add_note(f"Published, {PUBLISHED_NOVELS} novels: {values}.")
    return plot


def main() -> tuple[Plot, argparse.Namespace]:
    runs = select("completion")
    return picture(results_by_model(runs), 100 * runs[0].report["chance"]), shared.options(__doc__).parse_args()


if __name__ == "__main__":
    shared.run(main)
