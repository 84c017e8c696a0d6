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
from syntaxlm.drawing import svg
from syntaxlm.drawing.plots import Point, line_chart
from syntaxlm.drawing.svg import Picture

TITLES = {
    "text": ("Cost by the size of the text", "MB of text"),
    "vocabulary": ("Cost by the size of the vocabulary", "words of the vocabulary"),
    "length": ("Cost by the length of the sentences", "words of a sentence"),
    "size": ("Cost by the size of the model", "neurons; preterminals of a PCFG"),
}


def picture(points: Sequence[Mapping[str, Any]], kind: str) -> Picture:
    """Two charts side by side, on logarithmic axes."""
    title, x_label = TITLES[kind]
    speed: dict[str, list[Point]] = {}
    memory: dict[str, list[Point]] = {}
    both = len({point["task"] for point in points}) > 1
    for point in sorted(points, key=lambda one: float(one["size"])):
        name = f"{point['system']}, {point['task']}" if both else str(point["system"])
        speed.setdefault(name, []).append((point["size"], point["tokens_per_second"]))
        memory.setdefault(name, []).append((point["size"], point["memory"] / 2**30))
    panels = [
        line_chart(series, heading, x_label, y_label, log_x=True, log_y=True, width=400)
        for series, heading, y_label in ((speed, title, "tokens per second"), (memory, " ", "memory, GiB"))
    ]
    return svg.beside(panels)


def main() -> tuple[Picture, argparse.Namespace]:
    parser = shared.options(__doc__)
    parser.add_argument("kind", choices=list(TITLES))
    chosen = parser.parse_args()
    points = stored_report("scale", what="growth")["points"]
    return picture([point for point in points if point["kind"] == chosen.kind], chosen.kind), chosen


if __name__ == "__main__":
    shared.run(main)
