"""One sentence through a stored model, as pictures: its tree, beside a gold one, and maps of the model's inside."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

from syntaxlm.drawing import svg
from syntaxlm.drawing.heat_map import heat_map
from syntaxlm.drawing.page import Section, html_page
from syntaxlm.drawing.svg import Picture, Theme
from syntaxlm.drawing.text import right_to_left
from syntaxlm.drawing.tree import tree_picture
from syntaxlm.drawing.writing import check_format, write_picture
from syntaxlm.errors import InputError
from syntaxlm.model_io import ModelBundle
from syntaxlm.models.contract import TokenBatch
from syntaxlm.parsing.evaluation import parse_lines
from syntaxlm.parsing.structure import Rule, layers_for, rules_for, structure_of
from syntaxlm.trees import Tree, clean_all, parse_brackets, read_brackets, trees_of
from syntaxlm.trees.brackets import format_brackets
from syntaxlm.trees.latex import format_latex
from syntaxlm.trees.preprocessing import find_preprocessing
from syntaxlm.trees.span_decoding import SPAN_RULES, Scores

MAPS_WIDTH = 1750.0  # pixels that maps beside each other may take
UNKNOWN = "the model does not know this word"

Values = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Analysis:
    """One sentence as a model reads and parses it.

    words: as written. tokens: as read. distances: one for each, none where the tree is not of distances.
    unknown: whether the model's vocabulary lacks each. span_scores: as of `Parse`.
    """

    words: tuple[str, ...]
    tokens: tuple[str, ...]
    distances: tuple[float, ...]
    unknown: tuple[bool, ...]
    tree: Tree
    span_scores: Scores | None = field(default=None, compare=False)


def analyse(
    stored: ModelBundle,
    sentence: str | Sequence[str] | Tree,
    decoder: Rule | None = None,
    layer: int | None = None,
) -> Analysis:
    """Parses a line of raw text, or a treebank's sentence, whose words are neither split nor dropped.

    sentence: text; words; or a tree, of which words and tags are read, as a model of tags needs.
    decoder, layer: as of `parse_lines`. Raises InputError as that does, and for a sentence without a word.
    """
    if isinstance(sentence, str):
        (parse,) = parse_lines(stored, [sentence], decoder, layer=layer)
        if parse is None:
            raise InputError(f"the sentence {sentence[:40]!r} has no word that the model reads")
        words, tokens, tree = parse.words, parse.tokens, parse.tree
        distances, scores = parse.distances, parse.span_scores
    else:
        words = list(sentence.words if isinstance(sentence, Tree) else sentence)
        tags = list(sentence.tags) if isinstance(sentence, Tree) else [""] * len(words)
        tokens = list(map(stored.normaliser.word, words, tags))
        (rule,), (layer,) = rules_for([stored], decoder), layers_for([stored], layer)
        structure = structure_of(stored, [tokens])
        leaves = [tokens] if stored.normaliser.units == "tags" else None
        (tree,) = trees_of(structure.decode(rule, layer), [words], leaves)
        distances, scores = [], None
        if rule in SPAN_RULES:
            assert structure.span_scores is not None
            scores = structure.span_scores.chart(0)
        else:
            distances = structure.distances[layer - 1].tolist()
    unknown = tuple(not stored.vocabulary.knows(token) for token in tokens)
    return Analysis(tuple(words), tuple(tokens), tuple(distances), unknown, tree, scores)


@torch.no_grad()
def maps_of(stored: ModelBundle, tokens: Sequence[str]) -> tuple[dict[str, Values], dict[str, Values]]:
    """The model's maps and units of one sentence (`Syntax`), read from its begin: (words + 1, ...), begin first.

    Raises InputError for a model without any.
    """
    vocabulary = stored.vocabulary
    ids = vocabulary.encode(tokens)
    read = torch.tensor([[vocabulary.begin_id, *ids]]).T
    batch = TokenBatch(read, torch.tensor([[*ids, vocabulary.end_id]]).T)
    device = stored.model.device
    syntax = stored.model(batch.to(device)).syntax
    if syntax is None or not (syntax.maps or syntax.units):
        raise InputError(f"a model of the kind {stored.settings.model.name!r} has no gates or attention to draw")
    maps, units = (
        {name: values[:, 0].float().cpu().numpy() for name, values in kind.items()}
        for kind in (syntax.maps, syntax.units)
    )
    return maps, units


def over_earlier_steps(values: Values) -> Values:
    """(T, N), slot k of step t being step t - 1 - k, to (T, T), by steps; not a number where there is no slot."""
    steps, slots = values.shape
    result = np.full((steps, steps), np.nan, np.float32)
    for slot in range(min(slots, steps - 1)):
        later = np.arange(slot + 1, steps)
        result[later, later - 1 - slot] = values[later, slot]
    return result


def map_pictures(stored: ModelBundle, analysis: Analysis) -> list[Picture]:
    """The model's maps of a sentence, a row for each token: over begin and tokens before it, or over units."""
    words = list(analysis.words)
    earlier = [stored.vocabulary.begin, *words[:-1]]
    mirrored = right_to_left(words)
    maps, units = maps_of(stored, analysis.tokens)
    reading = "the token being read"
    pictures = [
        heat_map(over_earlier_steps(values)[1:, :-1], words, earlier, name, reading, "an earlier token", mirrored)
        for name, values in maps.items()
    ]
    for name, values in units.items():
        columns = [str(number) for number in range(1, values.shape[1] + 1)]
        pictures.append(heat_map(values[1:], words, columns, name, reading, "unit", mirrored))
    return pictures


def read_gold(text_or_path: str, number: int | None = None, clean_up: str = "none") -> Tree:
    """A gold tree: brackets as they are, or one of a bracket file's. number: which, 1 is the first.

    Raises InputError, among others when a file or text has several trees and none is chosen.
    """
    if text_or_path.lstrip().startswith("("):
        source, trees = "the gold tree", parse_brackets(text_or_path, source="the gold tree")
    else:
        source, trees = text_or_path, read_brackets(Path(text_or_path))
    if number is None and len(trees) > 1:
        raise InputError(f"{source}: found {len(trees)} trees; choose one by its number, 1 to {len(trees)}")
    if number is not None and not 1 <= number <= len(trees):
        raise InputError(f"{source}: no tree has the number {number}; there are 1 to {len(trees)}")
    (tree,), _ = clean_all([trees[(number or 1) - 1]], find_preprocessing(clean_up), source)
    return tree


@dataclass(frozen=True)
class Drawing:
    """What is drawn of a sentence: a tree, or an induced and a gold one; what it is of; and maps."""

    analysis: Analysis
    gold: Tree | None = None
    maps: tuple[Picture, ...] = ()

    def tree_picture(self) -> Picture:
        one = self.analysis
        notes = [UNKNOWN if unknown else "" for unknown in one.unknown]
        return tree_picture(one.tree, one.distances or None, self.gold, one.words, notes)

    def scores_pictures(self) -> tuple[Picture, ...]:
        """The chart of span scores, where the tree is of such: a cell for each span, by its first and last word."""
        one = self.analysis
        if one.span_scores is None:
            return ()
        axes = "first word of the span", "last word"
        mirrored = right_to_left(one.words)
        shares = np.exp(one.span_scores)  # of logarithms the least would have the fullest colour
        title = "span scores: shares of the attention"
        return (heat_map(shares, one.words, one.words, title, *axes, mirrored),)

    def maps_picture(self) -> Picture:
        mirrored = right_to_left(self.analysis.words)
        return svg.flowing(self.maps, MAPS_WIDTH, "Gates and attention", mirrored)

    def picture(self) -> Picture:
        """All of it, tree over span scores over maps."""
        tree = self.tree_picture()
        parts = [tree, *self.scores_pictures(), *([self.maps_picture()] if self.maps else [])]
        if len(parts) == 1:
            return tree
        return svg.stacked(parts, tree.title, align_right=right_to_left(self.analysis.words))

    def page(self, theme: Theme = "auto") -> str:
        """An HTML page: pictures, the trees as brackets, and which words the model does not know."""
        one = self.analysis
        strange = [word for word, unknown in zip(one.words, one.unknown, strict=True) if unknown]
        told = f"Underlined words are not in the model's vocabulary: {', '.join(strange)}" if strange else ""
        brackets = {"induced, as brackets": format_brackets(one.tree)}
        if self.gold is not None:
            brackets["gold, as brackets"] = format_brackets(self.gold)
        sections = [Section("Tree", (self.tree_picture(), *self.scores_pictures()), told, brackets)]
        if self.maps:
            sections.append(Section("Gates and attention", self.maps))
        return html_page(" ".join(one.words), sections, theme)

    def latex(self) -> str:
        """The trees for LaTeX's package forest."""
        trees = [self.analysis.tree] if self.gold is None else [self.analysis.tree, self.gold]
        names = ("induced", "gold")
        parts = [f"% {name}\n{format_latex(tree)}\n" for name, tree in zip(names, trees, strict=False)]
        return "% \\usepackage{forest}\n" + "".join(parts)

    def write(self, path: Path, theme: Theme = "auto") -> None:
        """Writes SVG, PNG, HTML or LaTeX, as the file's name ends. Raises InputError."""
        if check_format(path) == ".tex" and self.maps:
            raise InputError(f"{path}: LaTeX is of trees alone; write maps as SVG, PNG or HTML")
        write_picture(path, self.picture, lambda: self.page(theme), self.latex, theme)
