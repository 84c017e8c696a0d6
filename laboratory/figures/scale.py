"""How time and memory grow, in a pair of panels for everything that can grow.

    python -m laboratory.figures.scale -o docs/images/scale.svg

The points are the medians of the experiment `scale`, the output of `python -m laboratory.benchmarks.scale`. Colours and
markers are those of models, dashes those of tasks.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from laboratory.benchmarks.growth import GROWING, THROUGH_RAY, Line, lines, stored_points
from laboratory.figures import shared
from syntaxlm.drawing.plot import FAINT, INK, Plot
from syntaxlm.drawing.plots import DASHES, label_axes, line_style, new_plot, scale_by_factors

TITLE = "How time and memory grow"
SYSTEMS = ("SN-PCFG", "PRPN", "ON-LSTM", "LSTM", "Kneser-Ney", THROUGH_RAY)  # by colour and marker
TASKS = {"parse": "parse", "surprisal": "surprisal", "beliefs": "beliefs", "train": "training"}  # by dashes
COLUMNS = 3  # panels of time in a row; the panel of memory is below each


def picture(drawn: Sequence[Line]) -> Plot:
    """Panels of time and memory on logarithmic axes. Panels without lines say that nothing has been measured."""
    rows = 2 * -(-len(GROWING) // COLUMNS)
    plot = new_plot(TITLE, panels=rows * COLUMNS, rows=rows, size=(10.5, 2.6 * rows))
    for place, (kind, growing) in enumerate(GROWING.items()):
        row, column = divmod(place, COLUMNS)
        time, memory = (plot.axes[(2 * row + lower) * COLUMNS + column] for lower in (0, 1))
        lines_of_kind = [line for line in drawn if line.kind == kind]
        for line in lines_of_kind:
            style = line_style(SYSTEMS.index(line.system)) | {"linestyle": _dashes(line.task), "markersize": 4}
            sizes = [median.size for median in line.medians]
            time.plot(sizes, [median.time for median in line.medians], linewidth=1.6, **style)
            memory.plot(sizes, [median.memory / 2**30 for median in line.medians], linewidth=1.6, **style)
        for panel, y_label in ((time, f"seconds for {growing.unit}"), (memory, "memory, GiB")):
            if lines_of_kind:
                scale_by_factors(panel, "x")
                scale_by_factors(panel, "y")
            else:
                panel.set(xticks=(), yticks=())
                panel.text(0.5, 0.5, "not measured yet", color=FAINT, fontsize=9, ha="center", va="center",
                           transform=panel.transAxes)  # fmt: skip
            label_axes(panel, growing.axis if panel is memory else "", y_label, growing.axis if panel is time else "")
    plot.add_legend(_samples(drawn))
    return plot


def _dashes(task: str) -> Any:
    return DASHES[list(TASKS).index(task)]


def _samples(drawn: Sequence[Line]) -> dict[str, Any]:
    """The legend: a marker of each model, and a line of each task."""
    from matplotlib.lines import Line2D

    systems = [system for system in SYSTEMS if any(line.system == system for line in drawn)]
    tasks = [task for task in TASKS if any(line.task == task for line in drawn)]
    return {
        **{system: Line2D([], [], **line_style(SYSTEMS.index(system)) | {"linestyle": ""}) for system in systems},
        **{TASKS[task]: Line2D([], [], color=INK, linestyle=_dashes(task)) for task in tasks},
    }


def main() -> tuple[Plot, argparse.Namespace]:
    chosen = shared.options(__doc__).parse_args()
    return picture(lines(stored_points())), chosen


if __name__ == "__main__":
    shared.run(main)
