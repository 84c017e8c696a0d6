"""Learning curves: validation perplexity of several runs against updates and against minutes.

    python -m laboratory.figures.learning_curves NAME=RUN [NAME=RUN ...] -o docs/images/on-lstm-curves.svg

RUN: the folder of a run, finished or not; runs with the same name are seeds of one series. Only validations are drawn.
--published NAME=PERPLEXITY (repeatable) adds a horizontal line. Minutes are wall-clock time: compare them only between
runs of one machine with the same load.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from laboratory.figures import shared
from syntaxlm.core.errors import InputError
from syntaxlm.core.files import parse_json, read_stored_text
from syntaxlm.drawing.plots import (
    Plot,
    Point,
    draw_levels,
    draw_lines,
    label_axes,
    new_plot,
    scale_by_factors,
)
from syntaxlm.training.result import METRICS

GAP = (math.nan, math.nan)  # interrupts the line between two seeds


@dataclass(frozen=True)
class Curve:
    """The validations of a run: updates, minutes and perplexity of each."""

    updates: tuple[int, ...]
    minutes: tuple[float, ...]
    perplexity: tuple[float, ...]

    @property
    def best(self) -> float:
        return min(self.perplexity)


def read_curve(folder: str | Path) -> Curve:
    """The validations in the metrics of a run. A last line without a line end is still being written, and is skipped.

    Raises InputError for a damaged file, and for a run without a validation.
    """
    path = Path(folder) / METRICS
    lines = read_stored_text(path).split("\n")[:-1]
    events = [parse_json(line, f"{path}, line {number}") for number, line in enumerate(lines, 1)]
    try:
        points = [
            (event["step"], event["seconds"] / 60, event["valid_perplexity"])
            for event in events
            if event["event"] == "valid"
        ]
    except (KeyError, TypeError) as error:
        raise InputError(f"{path}: {error!r}; expected the metrics of a model trained by gradient") from error
    if not points:
        raise InputError(f"{path}: found no validation; train until the first one")
    return Curve(*zip(*points, strict=True))


def picture(
    curves: Mapping[str, Sequence[Curve]],
    title: str,
    published: Mapping[str, float] | None = None,
    most: float = math.inf,
) -> Plot:
    """Two panels side by side.

    curves: those of the seeds, by name of the series.  published: horizontal lines.  most: largest perplexity drawn.
    """
    plot = new_plot(title, panels=2, size=(10.5, 4.2))
    for x_label, panel in zip(("updates", "minutes"), plot.axes, strict=True):
        series = {name: _joined([_points(curve, x_label, most) for curve in seeds]) for name, seeds in curves.items()}
        handles = draw_lines(panel, series)
        draw_levels(panel, published or {})
        scale_by_factors(panel, "y")
        panel.set_xlim(left=0)
        panel.xaxis.set_major_formatter("{x:,g}")
        label_axes(panel, x_label, "validation perplexity", title if x_label == "updates" else "")
    plot.add_legend(handles)
    plot.add_note(*(f"{name}: best {_ends(seeds)}" for name, seeds in curves.items()))
    return plot


def _ends(seeds: Sequence[Curve]) -> str:
    """The best perplexity of each seed, with its updates and minutes so far."""
    return ", ".join(
        f"{curve.best:.1f} ({curve.updates[-1]:,} updates, {curve.minutes[-1]:.0f} minutes)" for curve in seeds
    )


def _points(curve: Curve, x_label: str, most: float) -> list[Point]:
    """The points of a curve whose perplexity is at most `most`."""
    xs: Sequence[float] = getattr(curve, x_label)
    return [(x, y) for x, y in zip(xs, curve.perplexity, strict=True) if y <= most]


def _joined(lines: Sequence[Sequence[Point]]) -> list[Point]:
    """The points of several lines as one series, interrupted after each line."""
    return [point for line in lines for point in (*line, GAP)]


def main() -> tuple[Plot, argparse.Namespace]:
    parser = shared.options(__doc__)
    parser.add_argument("runs", nargs="+", metavar="NAME=RUN")
    parser.add_argument("--title", default="Validation perplexity")
    parser.add_argument("--published", action="append", default=[], metavar="NAME=PERPLEXITY")
    parser.add_argument("--most", type=float, default=math.inf, metavar="P", help="leave out perplexities above P")
    chosen = parser.parse_args()
    curves: dict[str, list[Curve]] = {}
    for name, folder in shared.named(chosen.runs):
        curves.setdefault(name, []).append(read_curve(folder))
    try:
        published = {name: float(value) for name, value in shared.named(chosen.published)}
    except ValueError:
        raise InputError(f"--published: found {chosen.published}; expected NAME=PERPLEXITY") from None
    return picture(curves, chosen.title, published, chosen.most), chosen


if __name__ == "__main__":
    shared.run(main)
