"""A parsed sentence as pictures: its tree and a gold tree, a chart of spans, and maps of gates and attention."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path

import numpy as np
import numpy.typing as npt

from syntaxlm.core.errors import InputError
from syntaxlm.drawing import svg
from syntaxlm.drawing.dependencies import dependency_picture
from syntaxlm.drawing.files import check_format, write_picture
from syntaxlm.drawing.heat_map import heat_map
from syntaxlm.drawing.latex import format_dependency_latex, format_latex
from syntaxlm.drawing.layout import MARGIN, DrawableDependencies, DrawableTree, Span
from syntaxlm.drawing.surprisal import FULL, DrawableSurprisal, surprisal_bars
from syntaxlm.drawing.svg import UNKNOWN, Picture, right_to_left
from syntaxlm.drawing.tree import SpanNote, tree_picture, word_anchors
from syntaxlm.reports.page import Block, Page, PageFigure, Paragraph, Preformatted, Section, Theme

MAPS = "Gates and attention"
MAPS_WIDTH = 1750.0  # greatest width of a row of maps in pixels
READING = "the token being read"

Values = npt.NDArray[np.float32]
Scores = npt.NDArray[np.floating]


@dataclass(frozen=True)
class Analysis:
    """One sentence as read and parsed by a model.

    Attributes:
        words: as written.
        tokens: as read by the model.
        distances: one per word; empty if the tree was not decoded from distances.
        unknown: one per word, whether it is missing from the model's vocabulary.
        span_scores: (n, n) scores of spans, by first and last word; None if the tree was not decoded from them.
        marginals: (n, n) probabilities of spans, by first and last word; None if the tree was not decoded from them.
        dependencies: the dependency tree from which the constituents follow; None if the model gives none.
        places: start and end of each word in the sentence; empty if it was not read from text.
        span_notes: what the marker of each constituent shows.
        surprisals: of the words as written, and of the end of the sentence; empty for a drawing without bars.
        units: what the model reads: a key of `FULL`.
        are_logarithms: whether the span scores are logarithms of shares of the attention.
    """

    words: tuple[str, ...]
    tokens: tuple[str, ...]
    distances: tuple[float, ...]
    unknown: tuple[bool, ...]
    tree: DrawableTree
    span_scores: Scores | None = field(default=None, compare=False)
    marginals: Scores | None = field(default=None, compare=False)
    dependencies: DrawableDependencies | None = None
    places: tuple[tuple[int, int], ...] = ()
    span_notes: Mapping[Span, SpanNote] | None = field(default=None, compare=False)
    surprisals: Sequence[DrawableSurprisal] = field(default=(), compare=False)
    units: str = "words"
    are_logarithms: bool = True


@dataclass(frozen=True, eq=False)
class SentenceMaps:
    """Gates and attention of a model over one sentence of n tokens, preceded by BOS.

    Attributes:
        over_steps: by name, (n + 1, slots), where slot k of step t is step t - 1 - k.
        over_units: by name, (n + 1, units).
        bos: the text of BOS.
    """

    over_steps: Mapping[str, Values]
    over_units: Mapping[str, Values]
    bos: str


def over_earlier_steps(values: Values) -> Values:
    """(T, N), where slot k of step t is step t - 1 - k, as (T, T) by step and earlier step; NaN without a slot."""
    steps, slots = values.shape
    result = np.full((steps, steps), np.nan, np.float32)
    for slot in range(min(slots, steps - 1)):
        later = np.arange(slot + 1, steps)
        result[later, later - 1 - slot] = values[later, slot]
    return result


def map_pictures(words: Sequence[str], maps: SentenceMaps) -> list[Picture]:
    """Return a heat map for each map: one row per token; one column per earlier token, BOS first, or per unit."""
    earlier = [maps.bos, *words[:-1]]
    mirrored = right_to_left(words)
    pictures = [
        heat_map(over_earlier_steps(values)[1:, :-1], words, earlier, name, READING, "an earlier token", mirrored)
        for name, values in maps.over_steps.items()
    ]
    for name, values in maps.over_units.items():
        units = [str(number) for number in range(1, values.shape[1] + 1)]
        pictures.append(heat_map(values[1:], words, units, name, READING, "unit", mirrored))
    return pictures


@dataclass(frozen=True)
class Drawing:
    """The drawing of a sentence: its tree with surprisals, optionally with a gold tree and maps.

    Attributes:
        analysis: the sentence.
        gold: drawn beside the tree of the model; then there are no surprisals.
        maps: gates and attention.
        has_chart: whether the chart of spans is drawn, if there is one.
    """

    analysis: Analysis
    gold: DrawableTree | None = None
    maps: SentenceMaps | None = None
    has_chart: bool = True

    def tree_picture(self) -> Picture:
        sentence = self.analysis
        notes = [UNKNOWN if unknown else "" for unknown in sentence.unknown]
        distances = sentence.distances or None
        drawn = tree_picture(sentence.tree, distances, self.gold, sentence.words, notes, sentence.span_notes)
        if self.gold is not None or not sentence.surprisals:
            return drawn

        # The bars hang below the words of the tree.
        mirrored = right_to_left(sentence.words)
        centres = word_anchors(sentence.tree, sentence.words, distances)
        full = FULL[sentence.units]
        bars = surprisal_bars(sentence.surprisals, centres, sentence.places, drawn.width, mirrored, full)
        return replace(svg.stacked([drawn, bars], gap=-MARGIN, align_right=mirrored), title=drawn.title)

    def scores_pictures(self) -> tuple[Picture, ...]:
        """Return the chart of span scores or probabilities, if the tree was decoded from them.

        One cell per span, by its first and last word.
        """
        sentence = self.analysis
        if not self.has_chart:
            return ()
        if sentence.marginals is not None:
            chart = sentence.marginals
            title = "probability of each span given the sentence, 0 to 1"
        elif sentence.span_scores is not None and sentence.are_logarithms:
            chart = np.exp(sentence.span_scores)  # not log scores, of which the lowest would get the strongest colour
            title = "span scores: shares of the attention"
        elif sentence.span_scores is not None:
            chart = sentence.span_scores
            title = "span scores, whose sum over both parts is the score of a split"
        else:
            return ()
        axes = "first word of the span", "last word"
        return (heat_map(chart, sentence.words, sentence.words, title, *axes, right_to_left(sentence.words)),)

    def _pictures(self) -> dict[str, list[Picture]]:
        """Return the pictures by heading: dependencies, tree and chart of spans, maps."""
        sentence = self.analysis
        pictures = {
            "Dependencies": [] if sentence.dependencies is None else [dependency_picture(sentence.dependencies)],
            "Tree": [self.tree_picture(), *self.scores_pictures()],
            MAPS: [] if self.maps is None else map_pictures(sentence.words, self.maps),
        }
        return {heading: drawn for heading, drawn in pictures.items() if drawn}

    def picture(self) -> Picture:
        """Return the dependencies, then the tree, then the chart of spans, then the maps, from top to bottom."""
        mirrored = right_to_left(self.analysis.words)
        pictures = self._pictures()
        if maps := pictures.get(MAPS):
            pictures[MAPS] = [svg.flowing(maps, MAPS_WIDTH, MAPS, mirrored)]
        parts = list(chain.from_iterable(pictures.values()))
        if len(parts) == 1:
            return parts[0]
        return svg.stacked(parts, pictures["Tree"][0].title, align_right=mirrored)

    def page(self, theme: Theme = "auto") -> str:
        """Return an HTML page with the pictures, the trees in brackets, and the words that the model lacks."""
        sentence = self.analysis
        unknown = [word for word, is_unknown in zip(sentence.words, sentence.unknown, strict=True) if is_unknown]
        listed = ", ".join(dict.fromkeys(unknown))
        note = f"Underlined words are not in the model's vocabulary: {listed}" if unknown else ""
        trees = [Preformatted("induced, as brackets", str(sentence.tree))]
        if self.gold is not None:
            trees.append(Preformatted("gold, as brackets", str(self.gold)))

        sections = []
        for heading, pictures in self._pictures().items():
            blocks: list[Block] = list(map(PageFigure, pictures))
            if heading == "Tree":
                blocks = [*([Paragraph(note)] if note else []), *blocks, *trees]
            sections.append(Section(heading, tuple(blocks)))
        return Page(" ".join(sentence.words), tuple(sections)).html(theme)

    def latex(self) -> str:
        """Return the trees for the LaTeX package forest, and a dependency tree for tikz-dependency."""
        parts = []
        if self.analysis.dependencies is not None:
            parts = ["% \\usepackage{tikz-dependency}", format_dependency_latex(self.analysis.dependencies)]
        parts += ["% \\usepackage{forest}", "% induced", format_latex(self.analysis.tree)]
        if self.gold is not None:
            parts += ["% gold", format_latex(self.gold)]
        return "".join(f"{part}\n" for part in parts)

    def write(self, path: Path, theme: Theme = "auto") -> None:
        """Write SVG, PNG, HTML or LaTeX, chosen by the file's extension. Raises InputError."""
        if check_format(path) == ".tex" and (self.maps or self.analysis.surprisals):
            found = "maps" if self.maps else "surprisals"
            raise InputError(f"{path}: LaTeX output contains only trees; write {found} as SVG, PDF, PNG or HTML")
        write_picture(path, self.picture, lambda: self.page(theme), self.latex, theme)
