"""The plot of README: F1 against test perplexity, for all types of models that were measured on the same texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, NamedTuple

from laboratory.pages.stored_results import parsed, trained, trained_of
from syntaxlm.drawing.plot import FAINT, INK, PAPER, Plot
from syntaxlm.drawing.plots import label_axes, new_plot
from syntaxlm.drawing.svg import SERIES

if TYPE_CHECKING:
    from matplotlib.axes import Axes

GRAMMAR, RECURRENT, TRANSFORMER, TREES, NGRAM = range(5)  # types of models, each with a colour


class Label(NamedTuple):
    """The name of a model, written near the mean of its dots.

    Attributes:
        text: the name.
        right: distance from the mean, in points.
        up: distance from the mean, in points.
        align: which part of the name has this distance: left, center or right.
    """

    text: str
    right: float = 7
    up: float = -3
    align: str = "left"


@dataclass(frozen=True)
class Model:
    """A trained model.

    Attributes:
        label: its name; None if the name stands at another setting of the same model.
        kind: number of its type.
        marker: marker of its dots.
        experiment: where its reports are stored.
        run: name of its reports in the experiment.
        decoder: of its trees; "" for a model without trees.
    """

    label: Label | None
    kind: int
    marker: str
    experiment: str
    run: str = ""
    decoder: str = ""

    def f1(self) -> list[float]:
        """Return the F1 of each seed on the WSJ sample, in percent."""
        scored = parsed(self.experiment, "wsj", self.run, self.decoder)
        return [100 * value for value in scored.f1_by(self.decoder).values]

    def perplexities(self) -> list[float]:
        """Return the test perplexity of each seed, in the order of `f1`."""
        trainings = trained(self.experiment, self.run)
        if self.decoder:
            scored = parsed(self.experiment, "wsj", self.run, self.decoder)
            trainings = trained_of(scored, self.experiment, self.run)
        return list(trainings.perplexity("test").values)

    def reads_stream(self) -> bool:
        """Return whether the test text was read as a stream, not as single sentences."""
        return trained(self.experiment, self.run).reading == "stream"


BOTH = [
    Model(Label("SN-PCFG", 0, 20, "center"), GRAMMAR, "o", "simple-pcfg-ptb", decoder="mbr"),
    Model(Label("Hol-PCFG", 6, 2), GRAMMAR, "P", "holographic-pcfg-ptb", decoder="mbr"),
    Model(Label("LSTM + trees", 8, 2), RECURRENT, "s", "trees-as-signal", "sentences", "greedy-sum"),
    Model(None, RECURRENT, "s", "trees-as-signal", "again", "greedy-sum"),
    Model(None, RECURRENT, "s", "trees-as-signal", "stream", "greedy-sum"),
    Model(Label("Transformer + trees"), TRANSFORMER, "D", "trees-as-signal", "transformer-induced", "greedy-sum"),
    Model(Label("ON-LSTM, 5 epochs"), RECURRENT, "^", "on-lstm-ptb-words-small", decoder="biased"),
    Model(Label("ON-LSTM, 18 epochs"), RECURRENT, "^", "converged", "on-lstm", "biased"),
    Model(None, RECURRENT, "o", "prpn-ptb-parsing", "resolution-0.1", "biased"),
    Model(Label("PRPN"), RECURRENT, "o", "prpn-ptb-parsing", "resolution-0.5", "biased"),
    Model(None, RECURRENT, "o", "converged", "prpn", "biased"),
]
ONLY_TREES = [
    Model(Label("six SN-PCFGs", 7, 3), GRAMMAR, "o", "simple-pcfg-ptb-128", "six-average", "mbr"),
    Model(Label("span parser", 7, -10), TREES, "s", "simple-pcfg-ptb-128", "six-student", "mbr"),
    Model(Label("StructFormer"), TRANSFORMER, "o", "structformer", decoder="biased"),
    Model(Label("RL-SPINN", 7, -10), TREES, "o", "encoders", "rl-spinn", "mbr"),
    Model(Label("Gumbel Tree-LSTM", 7, 1), TREES, "^", "encoders", "gumbel-tree-lstm", "mbr"),
    Model(Label("DIORA"), TREES, "D", "diora", decoder="mbr"),
]
ONLY_WORDS = [
    [
        Model(None, RECURRENT, "s", "trees-as-signal", "plain"),
        Model(None, RECURRENT, "s", "converged", "lstm"),
        Model(Label("LSTM"), RECURRENT, "s", "awd-lstm-ptb-words-small"),
    ],
    [Model(Label("Transformer"), TRANSFORMER, "D", "trees-as-signal", "transformer-none")],
    [Model(Label("5-grams"), NGRAM, "v", "kn5", "ptb-words-stream")],
]
LEVELS = {"random": "random", "right branching": "right branching", "upper bound": "best binary trees"}
PERPLEXITIES = (83.0, 285.0)  # range of the axis
TICKS = (90, 100, 120, 150, 200, 250)
F1 = (10, 90)  # range of the axis
KEY = {"single sentences": INK, "stream of text": PAPER, "a dot is a seed": None}
SIZE = (5.2, 5.0)  # inches: narrow, so that names are legible on a phone


def models_plot(levels: Mapping[str, float]) -> Plot:
    """Return F1 against test perplexity. Models that have only one of the two are on the right or below.

    Args:
        levels: F1 of baselines and of the upper bound in percent, by the names in LEVELS.
    """
    plot = new_plot("F1 against test perplexity", panels=4, rows=2, size=SIZE)
    both, only_trees, only_words, key = plot.axes
    grid = both.get_gridspec()
    assert grid is not None
    grid.set_width_ratios([2.6, 1.4])
    grid.set_height_ratios([5, 1])

    for model in BOTH:
        _draw(both, model, model.perplexities(), model.f1(), is_open=model.reads_stream())
    for model in ONLY_TREES:
        f1 = model.f1()
        _draw(only_trees, model, [0.0] * len(f1), f1)
    for row, models in enumerate(ONLY_WORDS):
        for model in models:
            perplexities = model.perplexities()
            _draw(only_words, model, perplexities, [float(row)] * len(perplexities), is_open=model.reads_stream())

    for panel in plot.axes:
        panel.grid(visible=False)
    for panel in (both, only_words):
        panel.set_xscale("log")
        panel.set_xlim(PERPLEXITIES)
        panel.set_xticks(TICKS, [str(tick) for tick in TICKS])
        panel.set_xticks([], minor=True)
    for panel in (both, only_trees):
        panel.set_ylim(F1)
        for level in levels.values():
            panel.axhline(level, color=FAINT, linestyle=(0, (5, 3)), linewidth=0.8, zorder=0)
    for name, level in levels.items():
        text = Label(f"{LEVELS[name]} {level:.1f}", -1, 3, "right")
        _write(both, text, (PERPLEXITIES[1], level), FAINT)
    both.tick_params(axis="x", labelbottom=False)
    only_trees.set_xlim(-0.4, 5)
    only_trees.set_xticks([])
    only_trees.tick_params(axis="y", labelleft=False, length=0)
    only_trees.set_title("no perplexity", color=INK, fontsize=10, loc="left")
    only_words.set_ylim(len(ONLY_WORDS) - 0.4, -0.6)
    only_words.set_yticks([])
    label_axes(both, y_label="F1, WSJ sample")
    _explain(key)
    label_axes(only_words, "test perplexity, Penn Treebank", "no trees")
    return plot


def _draw(panel: Axes, model: Model, x: Sequence[float], y: Sequence[float], *, is_open: bool = False) -> None:
    """Draw a dot for each seed, and the name of the model.

    Args:
        panel: where.
        model: its type has a colour and a marker.
        x: of the seeds.
        y: of the seeds.
        is_open: whether the dots are open.
    """
    colour = SERIES[model.kind][0]
    inside, edge, width, size = (PAPER, colour, 1.2, 5.0) if is_open else (colour, PAPER, 0.5, 6.5)
    (drawn,) = panel.plot(x, y, model.marker, linestyle="", markersize=size)
    drawn.set(markerfacecolor=inside, markeredgecolor=edge, markeredgewidth=width)
    if model.label is not None:
        _write(panel, model.label, (fmean(x), fmean(y)), colour)


def _write(panel: Axes, label: Label, place: tuple[float, float], colour: str) -> None:
    shift = (label.right, label.up)
    panel.annotate(label.text, place, shift, textcoords="offset points", ha=label.align, color=colour, fontsize=9)


def _explain(key: Axes) -> None:
    """Write what a dot is, and open and filled dots."""
    key.axis("off")
    key.set_xlim(0, 1)
    key.set_ylim(len(KEY) - 0.4, -0.6)
    for row, (text, inside) in enumerate(KEY.items()):
        if inside is not None:
            key.plot([0.06], [row], "o", markeredgecolor=INK, markerfacecolor=inside, markersize=5)
        _write(key, Label(text), (0.06, row), INK)
