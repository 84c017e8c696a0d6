"""Plots of surprisals: a bar for each word of sentences, which are wrapped like lines of text."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from syntaxlm.drawing.plots import CHARACTER, Plot, draw_bars, hatch_tops, label_axes, new_plot
from syntaxlm.drawing.surprisal import END, DrawableSurprisal
from syntaxlm.drawing.svg import right_to_left, visible

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes

ROW_WORDS = 12  # most words in a row of a new figure
COLUMN = 0.52, 0.9  # inches: least and greatest width of a word's column
GAP = 0.03  # inches: between two words
AXIS = 0.7  # inches: left of the bars
HEIGHT, ROW_HEIGHT = 2.9, 2.0  # inches: of a single row, and of one of several
HEADROOM = 1.12, 1.24  # of the scale, for the number above the highest bar, or for the two of a word and its marks

Words = Sequence[DrawableSurprisal]


def plot_surprisals(sentences: Sequence[Words], ax: Axes | Sequence[Axes] | None = None) -> Plot:
    """Return a bar per word, with unknown words marked. All sentences have the same scale and bars of the same width.

    The part of punctuation marks, such as the stop of "boats.", is hatched, at the top of a bar. An infinite surprisal,
    of a word with probability 0, has a number, but no bar. A sentence of more than `ROW_WORDS` words has several rows
    in a new figure. In a right-to-left script, the first word is on the right.

    Args:
        sentences: their words.
        ax: axes to draw on, one per sentence, instead of those of a new figure.

    Raises:
        InputError: matplotlib is not installed.
    """
    rows = list(sentences) if ax is not None else [row for sentence in sentences for row in _wrapped(sentence)]
    most = max(map(len, rows))
    longest = max((len(_name(word)) for row in rows for word in row), default=0)
    least, greatest = COLUMN
    column = min(greatest, max(least, CHARACTER * longest + GAP))
    height = HEIGHT if len(rows) == 1 else ROW_HEIGHT * len(rows)
    plot = new_plot("Surprisal", ax, len(rows), len(rows), (max(3.4, AXIS + column * most), height))

    from matplotlib.ticker import MaxNLocator

    highest = max((_height(word) for row in rows for word in row), default=0.0)
    has_marks = any(word.surprisal_marks for row in rows for word in row)
    places = (-0.6, most - 0.4)
    if right_to_left(word.word for row in rows for word in row):
        places = places[::-1]
    legend: dict[str, Artist] = {}
    for row, panel in zip(rows, plot.axes, strict=True):
        bits = [math.nan if word.surprisal is None else _height(word) for word in row]
        unknown = [place for place, word in enumerate(row) if word.in_vocabulary is False]
        names, texts = list(map(_name, row)), list(map(_value, row))
        (bars,) = draw_bars(panel, names, {"": bits}, unknown, column if plot.is_own else None, texts).values()
        if marks := hatch_tops(panel, bars, [min(_height(word), word.surprisal_marks or 0.0) for word in row]):
            known = next((place for place in range(len(row)) if place not in unknown), 0)
            legend = {"word": bars[known], "punctuation marks": marks}
        label_axes(panel, "", "surprisal in bits")
        panel.yaxis.set_major_locator(MaxNLocator("auto", steps=[1, 2, 5, 10], integer=True))
        panel.set(xlim=places, ylim=(0, HEADROOM[has_marks] * highest or 1))
    if legend:
        plot.add_legend(legend)
    if any(word.in_vocabulary is False for row in rows for word in row):
        plot.add_note("Pale bars and words in italics: not in the model's vocabulary.")
    return plot


def _wrapped(words: Words) -> list[Words]:
    """Return the words in rows of nearly the same length."""
    rows = max(1, math.ceil(len(words) / ROW_WORDS))
    ends = [round(len(words) * row / rows) for row in range(rows + 1)]
    return [words[start:end] for start, end in pairwise(ends)]


def _name(word: DrawableSurprisal) -> str:
    return visible(word.word) if word.word else END


def _height(word: DrawableSurprisal) -> float:
    """Return the height of a bar in bits, 0 for an infinite surprisal."""
    bits = word.surprisal or 0.0
    return bits if math.isfinite(bits) else 0.0


def _value(word: DrawableSurprisal) -> str:
    """Return what is written above a bar: the bits of the word, and above them those of its punctuation marks."""
    if word.surprisal is None:
        return ""
    if math.isinf(word.surprisal):
        return f"{word.surprisal:.1f}"
    marks = (word.surprisal_marks or 0.0) * any(map(str.isalnum, word.word))
    return f"+{marks:.1f}\n{word.surprisal - marks:.1f}" if marks else f"{word.surprisal:.1f}"
