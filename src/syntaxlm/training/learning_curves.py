"""The learning curves of a run: losses of training and validation over epochs, as read from metrics.jsonl."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from syntaxlm.core.errors import InputError
from syntaxlm.core.files import parse_json, read_stored_text
from syntaxlm.drawing.learning_curve import WIDTH, draw_curves
from syntaxlm.drawing.plots import EDGE, INK, Plot, Point, draw_levels, draw_lines, first_digits, label_axes, new_plot

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LARGEST_FIGURE = 1e15  # largest value of a curve: charts cannot show larger ones
LARGEST_LOSS = 100.0  # whose perplexity is named
POINTS = 1000  # per curve; longer curves are thinned evenly
_IN_TERMINAL = {  # names of curves that are drawn together, by the value of a validation that they need
    "valid_accuracy": {"valid_accuracy": "validation accuracy"},
    "valid_loss": {"valid_loss": "validation loss", "train_loss": "training loss"},
}
_OF_TREEBANK = {  # names of curves of F1, which are drawn by themselves
    "treebank_f1": "F1 on the treebank",
    "treebank_right_branching": "right branching",
    "treebank_left_branching": "left branching",
}


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """Read metrics.jsonl. A last line without a line end is skipped: it is still being written.

    Returns:
        An object per line. All but the "round" of a model that is trained by counting have an epoch, a step and the
        train_loss; a "valid" also the valid_loss, or for a classifier the valid_accuracy, and whether it is the best,
        so that its weights were saved.

    Raises:
        InputError: with file and line, also for numbers that are too large for charts.
    """
    metrics = []
    for number, line in enumerate(read_stored_text(path).split("\n")[:-1], 1):
        try:
            data = parse_json(line, "JSON")
            measured = "valid_accuracy" if "valid_accuracy" in data else "valid_loss"
            names = {"round": [], "valid": ["epoch", "step", "train_loss", measured]}
            for name in names.get(data["event"], ["epoch", "step", "train_loss"]):
                if type(data[name]) not in (int, float) or not abs(data[name]) < LARGEST_FIGURE:
                    raise ValueError(f"found {str(data[name])[:40]}; expected a number")
            if data["event"] == "valid":
                data["best"] = bool(data["best"])
            metrics.append(data)
        except (InputError, ValueError, KeyError, TypeError) as error:
            shown = line if len(line) <= 60 else line[:60] + " ..."
            raise InputError(
                f"{path}, line {number}: found {shown!r}; expected a JSON object with event, step, epoch and train_loss"
                f", and for a validation also valid_loss and best ({type(error).__name__}: {error})"
            ) from error
    return metrics


def loss_unit(metrics: Sequence[Mapping[str, Any]]) -> str:
    """Return the unit of the losses of a run, such as "nats per token"."""
    if any("valid_accuracy" in line for line in metrics):  # the criterion of a classifier is not its loss
        return "nats per pair"
    units = [str(line["criterion"]).partition(", ")[2] for line in metrics if "criterion" in line]
    return units[-1] if units else "nats per token"


def thinned(line: Sequence[Point]) -> list[Point]:
    """Return at most about POINTS points of a line, evenly chosen; the last point is included."""
    step = -(-len(line) // POINTS) or 1
    return [*line[:-1:step], *line[-1:]]


def terminal_curves(metrics: Sequence[Mapping[str, Any]], width: int) -> str:
    """Return the curves of a training in characters; "" if it had too few validations.

    Args:
        metrics: the lines of metrics.jsonl.
        width: columns of the terminal.
    """
    measured = set().union(*metrics)
    names = next((curves for needed, curves in _IN_TERMINAL.items() if needed in measured), {})
    horizontal = "round" if any(line["event"] == "round" for line in metrics) else "epoch"
    several = [_curves(metrics, names), _curves(metrics, _OF_TREEBANK)]
    return "\n".join(filter(None, (draw_curves(curves, horizontal, min(WIDTH, width - 12)) for curves in several)))


def _curves(metrics: Sequence[Mapping[str, Any]], names: Mapping[str, str]) -> dict[str, list[Point]]:
    """Return the measured values over epochs, by title.

    Args:
        names: titles by name in metrics.jsonl.
    """
    curves = {
        title: [(line["epoch"], line[name]) for line in metrics if line.get(name) is not None]
        for name, title in names.items()
    }
    return {title: curve for title, curve in curves.items() if curve}


def plot_learning_curves(metrics: Sequence[dict[str, Any]], ax: Axes | None = None) -> Plot:
    """Return the losses of training and validation over epochs; on the right, the perplexity of each loss.

    A new figure has a second panel with F1 on a treebank and of branching trees, if it was measured.

    Args:
        metrics: as returned by `read_metrics`.
        ax: axes to draw the losses on, instead of those of a new figure.

    Raises:
        InputError: for a model that is trained by counting, and if matplotlib is not installed.
    """
    validations = [line for line in metrics if line["event"] == "valid"]
    curves = {
        "training": thinned([(line["epoch"], line["train_loss"]) for line in metrics if "train_loss" in line]),
        "validation": thinned([(line["epoch"], line["valid_loss"]) for line in validations if "valid_loss" in line]),
    }
    curves = {name: points for name, points in curves.items() if points}
    if not curves:
        raise InputError("the run has no losses: it has not begun, or its model is trained by counting")

    scored = [line for line in metrics if "treebank_f1" in line] if ax is None else []
    panels = 2 if scored else 1
    plot = new_plot("Learning curves", ax, panels, rows=panels, size=(6.4, 3.0 * panels + 0.6))
    panel = plot.axes[0]
    plot.add_legend(draw_lines(panel, curves))
    label_axes(panel, "epochs of the training text", f"loss in {loss_unit(metrics)}")
    if any("valid_perplexity" in line for line in metrics):
        _add_perplexity(panel)
    if scored:
        _draw_f1(plot.axes[1], scored)
    return plot


def _draw_f1(panel: Axes, scored: Sequence[Mapping[str, Any]]) -> None:
    """Draw F1 on a treebank over epochs, beside F1 of branching trees."""
    draw_lines(panel, {"F1": [(line["epoch"], 100 * line["treebank_f1"]) for line in scored]})
    sides = {"right branching": "treebank_right_branching", "left branching": "treebank_left_branching"}
    draw_levels(panel, {side: 100 * scored[-1][name] for side, name in sides.items()})
    label_axes(panel, "epochs of the training text", "F1 on the treebank in percent")


def _add_perplexity(panel: Axes) -> None:
    """Name the perplexities of losses, e to their power, on the right of a panel."""
    from matplotlib.ticker import LogLocator

    low, high = (math.exp(min(loss, LARGEST_LOSS)) for loss in panel.get_ylim())
    named = LogLocator(subs=first_digits(low, high)).tick_values(low, high)
    right = panel.secondary_yaxis("right")
    right.set_yticks([math.log(value) for value in named], [f"{value:,g}" for value in named])
    right.set_ylabel("perplexity", color=INK, fontsize=10)
    right.tick_params(color=EDGE, labelcolor=INK, labelsize=9)
    right.spines["right"].set_visible(False)
