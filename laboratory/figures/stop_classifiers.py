"""TreeRNN: accuracy of the classifiers of where trees end, beside always stopping.

    python -m laboratory.figures.stop_classifiers NAME=REPORT [NAME=REPORT ...] -o docs/images/stop-classifiers.svg

REPORT: the output of `tune stops --json`. There is one chart per name; reports with the same name are columns of one
chart. Accuracies are on all words of the test trees, as published by Zhang, Lu and Lapata 2016; their own figures, on
the Penn Treebank, are in the last chart.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from laboratory.figures import shared
from syntaxlm.core.errors import InputError
from syntaxlm.core.files import parse_json, read_stored_text
from syntaxlm.drawing import svg
from syntaxlm.drawing.plots import bar_chart
from syntaxlm.drawing.svg import Picture

QUESTIONS = ("add left", "add right", "add next left", "add next right")
ALWAYS = "always stop"
PUBLISHED = {ALWAYS: [72.2, 70.3, 78.9, 82.9], "states": [84.2, 83.7, 86.0, 90.3]}
INPUTS = {"states": "states", "states-and-words": "states and words"}


def read_report(path: str) -> dict[str, Any]:
    """A report of `tune stops`. Raises InputError for a file of another form, and for one without test trees."""
    report = parse_json(read_stored_text(Path(path)), path)
    if not isinstance(report, dict) or not isinstance(report.get("test"), dict) or report.get("reads") not in INPUTS:
        raise InputError(f"{path}: found another form; expected the JSON of `tune stops ... --test TREES --json`")
    return report


def series(report: Mapping[str, Any]) -> dict[str, list[float]]:
    """Accuracy in percent by input of the classifiers and question, and of always stopping."""
    scores = [report["test"]["every_word"][question] for question in QUESTIONS]
    return {
        ALWAYS: [100 * one["always_stop"] for one in scores],
        INPUTS[report["reads"]]: [100 * one["accuracy"] for one in scores],
    }


def picture(reports: Mapping[str, Mapping[str, list[float]]]) -> Picture:
    """A chart for each name, the published one last. reports: by name, then by column of the chart."""
    all_charts = {**reports, "published, Penn Treebank": PUBLISHED}
    charts = [
        bar_chart(
            QUESTIONS, {key: [round(value, 1) for value in values] for key, values in some.items()}, name, "accuracy, %"
        )
        for name, some in all_charts.items()
    ]
    return svg.flowing(charts, 1240, "Classifiers of where trees end")


def main() -> tuple[Picture, argparse.Namespace]:
    parser = shared.options(__doc__)
    parser.add_argument("reports", nargs="+", metavar="NAME=REPORT")
    chosen = parser.parse_args()
    found: dict[str, dict[str, list[float]]] = {}
    for name, path in shared.named(chosen.reports):
        found.setdefault(name, {}).update(series(read_report(path)))
    return picture(found), chosen


if __name__ == "__main__":
    shared.run(main)
