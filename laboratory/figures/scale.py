"""How cost grows: tokens per second and memory against the text, the vocabulary, the sentences or the model.

    python -m laboratory.figures.scale length -o docs/images/scale-length.svg

The figures are those of the experiment `scale`, the output of `python -m laboratory.benchmarks.scale`. Training and
parsing of a system are lines of their own.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import Any

from laboratory.figures import shared
from laboratory.results.store import stored_report
from syntaxlm.drawing.plots import Plot, Point, draw_lines, label_axes, new_plot, scale_by_factors

TITLES = {
    "text": ("Cost by the size of the text", "MB of text"),
    "vocabulary": ("Cost by the size of the vocabulary", "words of the vocabulary"),
    "length": ("Cost by the length of the sentences", "words of a sentence"),
    "size": ("Cost by the size of the model", "neurons; preterminals of a PCFG"),
}


def picture(points: Sequence[Mapping[str, Any]], kind: str) -> Plot:
    """Two panels side by side, on logarithmic axes."""
    title, x_label = TITLES[kind]
    speed: dict[str, list[Point]] = {}
    memory: dict[str, list[Point]] = {}
    both = len({point["task"] for point in points}) > 1
    for point in sorted(points, key=lambda one: float(one["size"])):
        name = f"{point['system']}, {point['task']}" if both else str(point["system"])
        speed.setdefault(name, []).append((point["size"], point["tokens_per_second"]))
        memory.setdefault(name, []).append((point["size"], point["memory"] / 2**30))
    plot = new_plot(title, panels=2, size=(10.5, 4.4))
    for panel, series, y_label in zip(plot.axes, (speed, memory), ("tokens per second", "memory, GiB"), strict=True):
        handles = draw_lines(panel, series)
        scale_by_factors(panel, "x")
        scale_by_factors(panel, "y")
        label_axes(panel, x_label, y_label, title if series is speed else "")
    plot.add_legend(handles)
    return plot


def main() -> tuple[Plot, argparse.Namespace]:
    parser = shared.options(__doc__)
    parser.add_argument("kind", choices=list(TITLES))
    chosen = parser.parse_args()
    points = stored_report("scale", what="growth")["points"]
    return picture([point for point in points if point["kind"] == chosen.kind], chosen.kind), chosen


if __name__ == "__main__":
    shared.run(main)
