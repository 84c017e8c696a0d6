"""TreeRNN: accuracy of the classifiers that decide where trees end, beside always stopping.

    python -m laboratory.figures.stop_classifiers -o docs/images/stop-classifiers.svg

The accuracies are those of the experiment `stops`: reports of `tune stops`. There is one chart for each file of trees.
Accuracies are on all words of the test trees, as published by Zhang, Lu and Lapata 2016. Their accuracies on the Penn
Treebank are in the last chart.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from itertools import chain
from typing import Any

from laboratory.figures import shared
from laboratory.results.store import stored_report
from syntaxlm.drawing.plots import Plot, draw_bars, label_axes, new_plot

QUESTIONS = ("add left", "add right", "add next left", "add next right")
ALWAYS = "always stop"
PUBLISHED = {ALWAYS: [72.2, 70.3, 78.9, 82.9], "states": [84.2, 83.7, 86.0, 90.3]}
INPUTS = {"states": "states", "states-and-words": "states and words"}  # in the order of the columns
TITLES = {"gum": "GUM, TreeRNN", "war-and-peace": "War and Peace, TreeRNN"}  # by name of the trees


def series(report: Mapping[str, Any]) -> dict[str, list[float]]:
    """Accuracy in percent by input of the classifiers and question, and of always stopping."""
    scores = [report["test"]["every_word"][question] for question in QUESTIONS]
    return {
        ALWAYS: [100 * score["always_stop"] for score in scores],
        INPUTS[report["reads"]]: [100 * score["accuracy"] for score in scores],
    }


def picture(reports: Mapping[str, Mapping[str, list[float]]]) -> Plot:
    """A panel for each name, the published one last. reports: by name, then by column of the panel."""
    panels = {**reports, "published, Penn Treebank": PUBLISHED}
    plot = new_plot(
        "Classifiers of where trees end", panels=len(panels), rows=len(panels), size=(8.0, 2.6 * len(panels))
    )
    columns = list(dict.fromkeys(chain.from_iterable(panels.values())))
    handles: dict[str, Any] = {}
    for panel, (name, values) in zip(plot.axes, panels.items(), strict=True):
        rounded = {column: [round(value, 1) for value in values[column]] for column in columns if column in values}
        handles |= draw_bars(panel, QUESTIONS, rounded)
        label_axes(panel, "", "accuracy, %", name)
    plot.add_legend(handles)
    return plot


def main() -> tuple[Plot, argparse.Namespace]:
    reports: dict[str, dict[str, list[float]]] = {}
    for data, title in TITLES.items():
        for reads in INPUTS:
            report = stored_report("stops", run="tree-rnn", data=data, reads=reads)
            reports.setdefault(title, {}).update(series(report))
    return picture(reports), shared.options(__doc__).parse_args()


if __name__ == "__main__":
    shared.run(main)
