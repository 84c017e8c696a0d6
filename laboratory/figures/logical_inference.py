"""Logical inference: accuracy by number of operators, a curve for each sentence encoder (ON-LSTM, Figure 4).

    python -m laboratory.figures.logical_inference -o docs/images/logical-inference.svg

The accuracies are those of the experiment `logic`: result.json of `syntaxlm train logic/ENCODER`, the mean over seeds.
Beyond the marked number of operators, pairs are longer than any training pair.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from laboratory.figures import shared
from laboratory.pages.stored_results import all_runs
from syntaxlm.drawing.plots import Plot, Point, draw_lines, label_axes, new_plot

Reports = Mapping[str, Sequence[Mapping[str, Any]]]
"""The reports on the test pairs, by encoder; one for each seed."""


def by_accuracy(reports: Reports) -> Reports:
    """Return the reports with the highest accuracy beyond the training lengths first."""
    return dict(sorted(reports.items(), key=lambda item: -accuracy(item[1], "longer")))


def accuracy(reports: Sequence[Mapping[str, Any]], part: str) -> float:
    """The mean accuracy over seeds, 0 to 1.  part: trained_lengths or longer."""
    return fmean(report["test"][part]["accuracy"] for report in reports)


def picture(reports: Reports) -> Plot:
    """The figure."""

    def points(seeds: Sequence[Mapping[str, Any]], name: str) -> list[Point]:
        return [
            (int(count), 100 * fmean(report["test"]["by_operators"][count][name] for report in seeds))
            for count in seeds[0]["test"]["by_operators"]
        ]

    lines = {encoder: points(seeds, "accuracy") for encoder, seeds in reports.items()}
    first = next(iter(reports.values()))
    lines["always the most frequent relation"] = points(first[:1], "majority")
    plot = new_plot("Logical inference", size=(7.6, 4.2))
    plot.add_legend(draw_lines(plot.axes[0], lines))
    label_axes(plot.axes[0], "operators of the longer formula", "accuracy, %", "Logical inference")
    trained = first[0]["test"]["maximum_operators_trained"]
    seed_count = min(map(len, reports.values()))
    averaged = f"Mean of {seed_count} seeds" if seed_count > 1 else "One seed"
    plot.add_note(f"{averaged}. The training pairs have up to {trained} operators.")
    return plot


def main() -> tuple[Plot, argparse.Namespace]:
    reports = {runs.name: [*runs.reports.values()] for runs in all_runs("logic")}
    return picture(by_accuracy(reports)), shared.options(__doc__).parse_args()


if __name__ == "__main__":
    shared.run(main)
