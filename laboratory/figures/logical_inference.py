"""Logical inference: accuracy by number of operators, a curve for each sentence encoder (ON-LSTM, Figure 4).

    python -m laboratory.figures.logical_inference laboratory/results/logic -o docs/images/logical-inference.svg

The folder has files ENCODER-SEED.json: result.json of `syntaxlm train logic/ENCODER`. Drawn is the mean over seeds.
Beyond the marked number of operators, pairs are longer than any training pair.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from laboratory.figures import shared
from syntaxlm.core.errors import InputError
from syntaxlm.core.files import parse_json, read_stored_text
from syntaxlm.drawing.plots import Point, line_chart
from syntaxlm.drawing.svg import Picture, stacked

_NAME = re.compile(r"(?P<encoder>.+)-(?P<seed>\d+)")
Reports = Mapping[str, Sequence[Mapping[str, Any]]]
"""The reports on the test pairs, by encoder; one for each seed."""


def read_reports(folder: str | Path) -> dict[str, list[dict[str, Any]]]:
    """The reports by encoder, with the highest accuracy beyond the training lengths first.

    Raises InputError for a file of another name or form, and for a folder without files.
    """
    found: dict[str, list[dict[str, Any]]] = {}
    for path in sorted(Path(folder).glob("*.json")):
        name = _NAME.fullmatch(path.stem)
        report = parse_json(read_stored_text(path), str(path))
        if name is None or not isinstance(report, dict) or "by_operators" not in (report.get("test") or {}):
            raise InputError(f"{path}: expected ENCODER-SEED.json, result.json of a classifier with test pairs")
        found.setdefault(name["encoder"], []).append(report)
    if not found:
        raise InputError(f"{folder}: found no file ENCODER-SEED.json")
    return dict(sorted(found.items(), key=lambda item: -accuracy(item[1], "longer")))


def accuracy(reports: Sequence[Mapping[str, Any]], part: str) -> float:
    """The mean accuracy over seeds, 0 to 1.  part: trained_lengths or longer."""
    return fmean(report["test"][part]["accuracy"] for report in reports)


def picture(reports: Reports) -> Picture:
    """The figure."""

    def points(values: Sequence[Mapping[str, Any]], name: str) -> list[Point]:
        return [
            (int(count), 100 * fmean(one["test"]["by_operators"][count][name] for one in values))
            for count in values[0]["test"]["by_operators"]
        ]

    lines = {encoder: points(values, "accuracy") for encoder, values in reports.items()}
    first = next(iter(reports.values()))
    lines["always the most frequent relation"] = points(first[:1], "majority")
    chart = line_chart(lines, "Logical inference", "operators of the longer formula", "accuracy, %")
    trained = first[0]["test"]["maximum_operators_trained"]
    seeds = min(map(len, reports.values()))
    averaged = f"Mean of {seeds} seeds" if seeds > 1 else "One seed"
    note = f"{averaged}. The training pairs have up to {trained} operators."
    return stacked([chart, shared.lines([note])], chart.title, gap=0)


def main() -> tuple[Picture, argparse.Namespace]:
    parser = shared.options(__doc__)
    parser.add_argument("folder", metavar="FOLDER")
    chosen = parser.parse_args()
    return picture(read_reports(chosen.folder)), chosen


if __name__ == "__main__":
    shared.run(main)
