"""Dependency trees as pictures: words in a row, and above them an arc from each head to its dependent.

Arcs have vertical legs and horizontal tops. An arc is higher than all arcs below it, so the arcs of a projective tree
never cross. The legs at a word are side by side, those of longer arcs nearer to the word's middle, where the root has
ROOT's arrow. Words are moved apart until every label fits over its arc.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate, pairwise
from pathlib import Path
from typing import NamedTuple

from syntaxlm.core.errors import InputError
from syntaxlm.drawing import svg
from syntaxlm.drawing.files import write_picture
from syntaxlm.drawing.latex import format_dependency_latex
from syntaxlm.drawing.layout import LONGEST_LABEL, LONGEST_WORD, MARGIN, DrawableDependencies, headed
from syntaxlm.drawing.svg import TEXT_SIZES, Picture, right_to_left, shortened, text_width, visible
from syntaxlm.reports.page import Page, PageFigure, Paragraph, Section, Theme

LEG = 6.0  # pixels between two legs at a word
BEND = 7.0  # pixels: radius of an arc's corners
ARROW = 7.0, 3.2  # pixels: length of an arrow's head, half its width
LEVEL = 20.0  # pixels between levels with labels
BARE_LEVEL = 11.0  # pixels between levels without labels
FOOT = 14.0  # pixels from the bottom of the arcs to the lowest level
RAISED = 5.0  # pixels between an arc and its label's baseline
COLUMN = 26.0  # pixels: least width of a word's column
MAXIMUM_WORDS = 1000  # of a sentence; its arcs take seconds
ROOT_LABEL = "root"  # label of ROOT's arrow if the file has none


class _Arc(NamedTuple):
    """An arc between the words low < high, from 1, one of which is the dependent `word`.

    Attributes:
        level: 1 is the lowest.
    """

    low: int
    high: int
    word: int
    level: int


_Legs = Mapping[tuple[int, int], float]
"""The x of the ends of arcs, by the word at this end and the arc's dependent, which identifies the arc."""


def dependency_picture(tree: DrawableDependencies) -> Picture:
    """Return words and tags in a row, with a labelled arc above them from each head to its dependent.

    The root has an arrow from above. Arcs over a word that does not depend on their head, directly or indirectly, make
    a tree non-projective, and have a different colour.

    Raises:
        InputError: for a word that is its own head, and for more than `MAXIMUM_WORDS` words.
    """
    _check(tree)
    words = [shortened(visible(word), LONGEST_WORD) for word in tree.words]
    tags = [shortened(visible(tag), LONGEST_LABEL) for tag in tree.tags]
    labels = [
        shortened(visible(label or ("" if head else ROOT_LABEL)), LONGEST_LABEL)
        for label, head in zip(tree.labels, tree.heads, strict=True)
    ]
    arcs = _arcs(tree)
    middles, legs, width = _columns(tree, words, tags, labels, arcs)
    mirrored = right_to_left(tree.words)

    def across(x: float) -> float:
        return width - x if mirrored else x

    step = LEVEL if any(labels[arc.word - 1] for arc in arcs) else BARE_LEVEL
    highest = max([arc.level for arc in arcs], default=0) + (1 if 0 in tree.heads else 0)
    top = MARGIN + TEXT_SIZES["relation"] + 3  # of the highest arcs, or of ROOT's arrows
    foot = top + FOOT + max(0, highest - 1) * step
    levels = {arc.word: arc.level for arc in arcs}
    descriptions = []
    lines = []  # of arcs, each with the y of its top
    texts = []
    for word, (head, label, full) in enumerate(zip(tree.heads, labels, tree.labels, strict=True), 1):
        end = middle = across(legs[word, word])
        y = top
        role = "-root"
        start = None
        relation = full or ROOT_LABEL
        if head:
            start = across(legs[head, word])
            y = foot - FOOT - (levels[word] - 1) * step
            middle = across(_label_place(word, head, legs, levels, text_width(label, TEXT_SIZES["relation"])))
            role = "-crossing" if _crosses(tree, word, head) else ""
            relation = f"{full or 'dependent'} of {tree.words[head - 1]}"
        descriptions.append(f"{tree.words[word - 1]}: {relation}")
        lines.append((y, _arc(start, end, y, foot, role, descriptions[-1])))
        if label:
            texts.append(svg.text(middle, y - RAISED, label, "relation" if head else "relation-root", "middle"))
    lines.sort(key=lambda line: line[0])  # lower arcs are drawn over higher ones
    baseline = foot + 17
    tag_line = baseline + 15
    for drawn, full_texts, y, role in ((words, tree.words, baseline, "word"), (tags, tree.tags, tag_line, "tag")):
        for text, full, x in zip(drawn, full_texts, middles, strict=True):
            if text:
                tooltip = "" if text == full else full
                is_mirrored = mirrored and role == "word"
                texts.append(
                    svg.text(across(x), y, text, role, "middle", title=tooltip, within_right_to_left=is_mirrored)
                )
    height = (tag_line if any(tags) else baseline) + 6 + MARGIN
    elements = [element for _, arc in lines for element in arc]
    title = f"Dependency tree: {' '.join(tree.words)}"
    return Picture(width, height, (*elements, *texts), title, "; ".join(descriptions))


def _check(tree: DrawableDependencies) -> None:
    if len(tree.words) > MAXIMUM_WORDS:
        raise InputError(
            f"sentence {tree.name or '(no id)'}: found {len(tree.words):,} words; expected at most {MAXIMUM_WORDS:,} in"
            " a picture of arcs"
        )
    for word, head in enumerate(tree.heads, 1):
        if head == word or not 0 <= head <= len(tree.words):
            raise InputError(
                f"sentence {tree.name or '(no id)'}: word {word}, {tree.words[word - 1]!r}, has head {head}; expected"
                f" another word, 1 to {len(tree.words)}, or 0"
            )


def _arcs(tree: DrawableDependencies) -> list[_Arc]:
    """Return the arcs between words, shortest first, each on the lowest level above all the arcs below it."""
    pairs = sorted(
        (abs(head - word), min(head, word), max(head, word), word) for word, head in enumerate(tree.heads, 1) if head
    )
    arcs: list[_Arc] = []
    for _, low, high, word in pairs:
        below = [arc.level for arc in arcs if arc.low < high and low < arc.high]
        arcs.append(_Arc(low, high, word, 1 + max(below, default=0)))
    return arcs


def _columns(
    tree: DrawableDependencies, words: Sequence[str], tags: Sequence[str], labels: Sequence[str], arcs: Sequence[_Arc]
) -> tuple[list[float], _Legs, float]:
    """Return the middle of each word's column, the x of the legs of the arcs, and the width with margins."""
    if not words:
        return [], {}, 2 * MARGIN
    legs: dict[tuple[int, int], float] = {}  # relative to the middle of their word
    widths = []
    label_widths = [text_width(label, TEXT_SIZES["relation"]) for label in labels]
    for place, (head, word, tag) in enumerate(zip(tree.heads, words, tags, strict=True), 1):
        before = [arc.word for arc in arcs if arc.high == place]
        after = [arc.word for arc in reversed(arcs) if arc.low == place]
        order = [*before, *([] if head else [place]), *after]
        legs |= {(place, dependent): LEG * (number - (len(order) - 1) / 2) for number, dependent in enumerate(order)}
        word_width = text_width(word, TEXT_SIZES["word"]) + 12
        tag_width = text_width(tag, TEXT_SIZES["tag"]) + 8
        widths.append(max(COLUMN, word_width, tag_width, len(order) * LEG + 8))
    roots = [word for word, head in enumerate(tree.heads, 1) if head == 0]
    gaps = [(left + right) / 2 for left, right in pairwise(widths)]

    def widen(low: int, high: int, missing: float) -> None:
        """Move the words from low to high apart."""
        if missing > 0:
            gaps[low - 1 : high - 1] = [gap + missing / (high - low) for gap in gaps[low - 1 : high - 1]]

    for arc in arcs:  # shorter ones first: the width they need also widens longer ones
        label = label_widths[arc.word - 1]
        needed = label + 6 if label else 2 * BEND
        inside = range(arc.low + 1, arc.high)
        higher = [above for above in arcs if above.level > arc.level]
        is_crossed = any(root in inside for root in roots) or any(
            above.low in inside or above.high in inside for above in higher
        )
        if label and is_crossed:  # the label has to fit on one side of the leg, or of ROOT's arrow
            needed *= 2
        has = sum(gaps[arc.low - 1 : arc.high - 1]) + legs[arc.high, arc.word] - legs[arc.low, arc.word]
        widen(arc.low, arc.high, needed - has)
    for root, following in pairwise(roots):
        needed = (label_widths[root - 1] + label_widths[following - 1]) / 2 + 8
        widen(root, following, needed - sum(gaps[root - 1 : following - 1]))

    places = list(accumulate(gaps, initial=0.0))
    # The label of a root near an end may be wider than the first or the last word.
    halves = [(places[word - 1], label_widths[word - 1] / 2) for word in roots]
    before_first = max(widths[0] / 2, *(half - x for x, half in halves), 0.0)
    behind_last = max(widths[-1] / 2, *(half - (places[-1] - x) for x, half in halves), 0.0)
    middles = [MARGIN + before_first + x for x in places]
    uprights = {key: middles[key[0] - 1] + leg for key, leg in legs.items()}
    return middles, uprights, 2 * MARGIN + before_first + places[-1] + behind_last


def _label_place(word: int, head: int, legs: _Legs, levels: Mapping[int, int], width: float) -> float:
    """Return the middle of an arc's label: that of the arc, or of its widest segment that no other arc's leg crosses.

    Args:
        levels: the levels of arcs, by dependent; ROOT's arrow has no level and is above all others.
    """
    inside = range(min(word, head) + 1, max(word, head))
    level = levels[word]
    crossed = sorted(
        x for (place, dependent), x in legs.items() if place in inside and levels.get(dependent, level + 1) > level
    )
    low, high = sorted((legs[head, word], legs[word, word]))
    middle = (low + high) / 2
    if all(abs(x - middle) > width / 2 + 2 for x in crossed):
        return middle
    low, high = max(pairwise([low, *crossed, high]), key=lambda part: part[1] - part[0])
    return (low + high) / 2


def _crosses(tree: DrawableDependencies, word: int, head: int) -> bool:
    """Return whether some word below an arc does not directly or indirectly depend on its head."""
    for inner in range(min(word, head) + 1, max(word, head)):
        above = inner
        for _ in range(len(tree.words)):  # ends if there is a cycle
            above = tree.heads[above - 1]
            if above in (0, head):
                break
        if above != head:
            return True
    return False


def _arc(start: float | None, end: float, top: float, foot: float, variant: str, tooltip: str) -> list[str]:
    """Draw an arc from the leg at `start` to the leg at `end`; without `start`, ROOT's arrow.

    Returns:
        The line and the tip.
    """
    length, half = ARROW
    line: list[str | float] = ["M", end, top]
    if start is not None:
        bend = min(BEND, abs(end - start) / 2)
        inward = bend if end > start else -bend
        line = ["M", start, foot, "V", top + bend, "Q", start, top, start + inward, top]
        line += ["H", end - inward, "Q", end, top, end, top + bend]
    line += ["V", foot - length + 1]
    tip: list[str | float] = ["M", end, foot, "L", end - half, foot - length, "L", end + half, foot - length, "Z"]
    return [svg.path(line, f"arc{variant}", tooltip), svg.path(tip, f"arrow{variant}")]


def write_dependencies(trees: Sequence[DrawableDependencies], path: Path, theme: Theme = "auto") -> None:
    """Write trees, one below another, as SVG, PNG, HTML or LaTeX, chosen by the extension. Raises InputError."""

    def picture() -> Picture:
        if len(trees) == 1:
            return dependency_picture(trees[0])
        mirrored = right_to_left(word for tree in trees for word in tree.words)
        pictures = [headed(dependency_picture(tree), tree.name, right_to_left(tree.words)) for tree in trees]
        return svg.stacked(pictures, "Dependency trees", gap=4, align_right=mirrored)

    def page() -> str:
        if len(trees) == 1:
            figure = PageFigure(dependency_picture(trees[0]))
            return Page(" ".join(trees[0].words), (Section("", (figure,)),)).html(theme)
        sections = [
            Section(tree.name, (Paragraph(" ".join(tree.words)), PageFigure(dependency_picture(tree))))
            for tree in trees
        ]
        return Page("Dependency trees", tuple(sections)).html(theme)

    def latex() -> str:
        return "".join(["% \\usepackage{tikz-dependency}\n", *(f"{format_dependency_latex(tree)}\n" for tree in trees)])

    write_picture(path, picture, page, latex, theme)
