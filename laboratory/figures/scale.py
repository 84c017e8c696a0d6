"""How cost grows: tokens per second and memory against the text, the vocabulary, the sentences or the model.

    python -m laboratory.figures.scale length laboratory/results/scale/growth.json -o docs/images/scale-length.svg

The file is the output of `python -m laboratory.benchmarks.scale`. Training and parsing of a system are lines of
their own.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from laboratory.figures import shared
from syntaxlm.core.errors import InputError
from syntaxlm.core.files import parse_json, read_stored_text
from syntaxlm.drawing import svg
from syntaxlm.drawing.plots import Point, line_chart
from syntaxlm.drawing.svg import Picture

TITLES = {
    "text": ("Cost by the size of the text", "MB of text"),
    "vocabulary": ("Cost by the size of the vocabulary", "words of the vocabulary"),
    "length": ("Cost by the length of the sentences", "words of a sentence"),
    "size": ("Cost by the size of the model", "neurons; preterminals of a PCFG"),
}


def read_points(path: str | Path, kind: str) -> list[Mapping[str, Any]]:
    """The points of a kind. Raises InputError if the file has none, or another form."""
    content = parse_json(read_stored_text(path), str(path))
    try:
        found = [point for point in content["points"] if point["kind"] == kind]
    except (KeyError, TypeError) as error:
        raise InputError(f"{path}: {error!r}; expected the output of benchmarks.scale") from error
    if not found:
        raise InputError(f"{path}: found no points of the kind {kind}")
    return found


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
    parser.add_argument("file", metavar="FILE")
    chosen = parser.parse_args()
    return picture(read_points(chosen.file, chosen.kind), chosen.kind), chosen


if __name__ == "__main__":
    shared.run(main)
