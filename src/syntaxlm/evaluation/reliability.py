"""Reliability of probabilities: how often constituents of a given probability are in gold trees."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from syntaxlm.core.arrays import Numbers
from syntaxlm.drawing.plots import FAINT, Plot, draw_lines, label_axes, new_plot
from syntaxlm.reports.tables import PERCENT, ReportTable
from syntaxlm.trees.decoding import SpanTable, table_indices
from syntaxlm.trees.f1 import ParsingScores
from syntaxlm.trees.spans import SpanSets, contained, counted, keys_of, span_keys

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BINS = 10


class Bin(NamedTuple):
    """Predictions of similar probability.

    Attributes:
        low: lowest probability, from 0 to 1.
        high: highest probability, from 0 to 1.
        size: number of predictions.
        probability: their mean.
        correct: the share of them that is correct.
    """

    low: float
    high: float
    size: int
    probability: float
    correct: float


@dataclass(frozen=True)
class Reliability:
    """The reliability of the probabilities of predicted constituents, and of the confidence of trees.

    Niculescu-Mizil & Caruana 2005, "Predicting good probabilities with supervised learning", section 3.

    Attributes:
        constituents: by probability, all but whole sentences.
        sentences: by the mean probability of their constituents, with the mean share of these that is in the gold tree
            as `correct`; sentences of three words or more.
    """

    constituents: tuple[Bin, ...]
    sentences: tuple[Bin, ...]

    @property
    def error(self) -> float:
        """The expected calibration error of constituents: the mean distance of `probability` from `correct`."""
        total = sum(bin.size for bin in self.constituents)
        distances = (bin.size * abs(bin.probability - bin.correct) for bin in self.constituents)
        return sum(distances) / max(1, total)

    def to_dict(self) -> dict[str, Any]:
        bins = {name: [bin._asdict() for bin in named_bins] for name, named_bins in vars(self).items()}
        return {"expected_calibration_error": self.error, **bins}

    def table(self) -> ReportTable:
        """Return the bins of constituents as a table for reading."""
        headings = {"constituents": ",", "probability": PERCENT, "correct": PERCENT, "with a probability of": ""}
        rows = [
            [bin.size, bin.probability, bin.correct, f"{100 * bin.low:.0f} to {100 * bin.high:.0f}%"]
            for bin in self.constituents
        ]
        title = f"reliability of probabilities   expected calibration error {100 * self.error:.1f}"
        return ReportTable(headings, rows, title, is_named_last=True)

    def plot(self, ax: Axes | None = None) -> Plot:
        """Return the share of correct constituents by probability; perfect probabilities are on the diagonal.

        Args:
            ax: axes of matplotlib to draw on, instead of a new figure

        Raises:
            InputError: matplotlib is not installed.
        """
        plot = new_plot("Reliability of probabilities", ax, size=(4.6, 4.4))
        series = {
            name: [(bin.probability, bin.correct) for bin in bins]
            for name, bins in (("constituents", self.constituents), ("sentences", self.sentences))
        }
        (panel,) = plot.axes
        panel.plot([0, 1], [0, 1], color=FAINT, linestyle="--", linewidth=1)
        plot.add_legend(draw_lines(panel, series))
        panel.set(xlim=(0, 1.02), ylim=(0, 1.02), box_aspect=1)
        label_axes(panel, "probability", "share that is correct")
        sizes = (sum(bin.size for bin in bins) for bins in (self.constituents, self.sentences))
        plot.add_note(
            "{:,} constituents and {:,} sentences, in bins by probability.".format(*sizes),
            "Perfect probabilities are on the dashed line.",
        )
        return plot


def reliability(table: SpanTable, trees: SpanSets, gold: SpanSets, scores: ParsingScores) -> Reliability:
    """Compare the probabilities of the constituents of trees with gold trees.

    Args:
        table: the probabilities of all spans.
        scores: the scores of the trees, which say what sentences are scored.
    """
    chosen = scores.by_sentence.indices
    trees = trees.select(chosen)
    gold = gold.select(chosen)
    offsets = table.offsets[chosen]
    kept = counted(trees, keep_whole=False)
    sentences = trees.sentences()[kept]
    probabilities = table.values[table_indices(offsets[sentences], trees.starts[kept], trees.ends[kept])].astype(float)
    correct = contained(keys_of(trees)[kept], span_keys(gold, keep_whole=True)[0]).astype(float)
    counts = np.bincount(sentences, minlength=len(trees))
    sentence_values = [
        np.bincount(sentences, values, len(trees))[counts > 0] / counts[counts > 0]
        for values in (probabilities, correct)
    ]
    return Reliability(_bins(probabilities, correct), _bins(*sentence_values))


def _bins(probabilities: Numbers, correct: Numbers) -> tuple[Bin, ...]:
    """Return the bins that are not empty."""
    numbers = np.minimum((probabilities * BINS).astype(int), BINS - 1)
    chosen = ((number, numbers == number) for number in np.unique(numbers).tolist())
    return tuple(
        Bin(
            number / BINS,
            (number + 1) / BINS,
            int(np.count_nonzero(among)),
            float(probabilities[among].mean()),
            float(correct[among].mean()),
        )
        for number, among in chosen
    )
