"""Dependency trees as pictures: arcs over the words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from pathlib import Path

from syntaxlm.core.errors import InputError
from syntaxlm.drawing import svg
from syntaxlm.drawing.files import PageSection, format_dependency_latex, html_page, write_picture
from syntaxlm.drawing.layout import LONGEST_LABEL, LONGEST_WORD, MARGIN, DrawableDependencies, Word, headed
from syntaxlm.drawing.svg import TEXT_SIZES, Picture, Theme, right_to_left, shortened, text_width, visible

# The layout of a dependency tree: words in a row, and above them an arc from each head to its dependent.
#
# Arcs have vertical legs and horizontal tops. An arc is higher than all arcs below it, so the arcs of a projective tree
# never cross. The legs at a word are side by side, those of longer arcs nearer to the word's middle, where the root has
# ROOT's arrow. Words are moved apart until every label fits over its arc.


LEG = 6.0  # pixels between two legs at a word
BEND = 7.0  # pixels: radius of an arc's corners
LEVEL, BARE_LEVEL = 20.0, 11.0  # pixels between levels, with labels and without
FOOT = 14.0  # pixels from the bottom of the arcs to the lowest level
RAISED = 5.0  # pixels between an arc and its label's baseline
COLUMN = 26.0  # pixels: least width of a word's column
MAXIMUM_WORDS = 1000  # of a sentence; its arcs take seconds
ROOT_LABEL = "root"  # label of ROOT's arrow if the file has none

Leg = tuple[int, int]
"""One end of an arc: the word at this end, and the arc's dependent, which identifies the arc."""


@dataclass(frozen=True)
class Arc:
    """An arc from a head to a dependent, positions from 1; from ROOT (head 0), a vertical arrow.

    start, end: x of its legs at the head and at the dependent.  top: y of its horizontal line.
    label: as drawn, "" for none; label_x, label_y: its anchor, the middle of the baseline.  full: not shortened.
    crossing: whether some word below it is not a direct or indirect dependent of its head (never in projective trees).
    """

    head: int
    word: int
    start: float
    end: float
    top: float
    label: str
    label_x: float
    label_y: float
    full: str
    crossing: bool


@dataclass(frozen=True)
class ArcLayout:
    """A dependency tree in pixels from the top left corner. foot: y where arcs end. tags: empty if there are none.

    mirrored: whether the first word is at the right.
    """

    width: float
    height: float
    foot: float
    arcs: tuple[Arc, ...]
    words: tuple[Word, ...]
    tags: tuple[Word, ...]
    mirrored: bool


@dataclass(frozen=True)
class _Span:
    """An arc between the words low < high. level: 1 is the lowest."""

    low: int
    high: int
    word: int
    level: int


def lay_out_arcs(tree: DrawableDependencies) -> ArcLayout:
    """Lay out a dependency tree. Raises InputError for a word that is its own head, and for too many words."""
    _check(tree)
    shown = [shortened(visible(word), LONGEST_WORD) for word in tree.words]
    tags = [shortened(visible(tag), LONGEST_LABEL) if tag else "" for tag in tree.tags]
    labels = [_label(tree, word) for word in range(1, len(tree.words) + 1)]
    spans = _levels(tree)
    legs: dict[Leg, float] = {}  # x of each leg, relative to the middle of its word
    for place, head in enumerate(tree.heads, 1):
        before = [span.word for span in spans if span.high == place]
        after = [span.word for span in reversed(spans) if span.low == place]
        order = [*before, *([] if head else [place]), *after]
        legs |= {(place, word): LEG * (number - (len(order) - 1) / 2) for number, word in enumerate(order)}
    centres, width = _columns(tree, shown, tags, labels, spans, legs)
    mirrored = right_to_left(tree.words)

    def across(x: float) -> float:
        return width - x if mirrored else x

    step = LEVEL if any(labels[span.word - 1] for span in spans) else BARE_LEVEL
    highest = max([span.level for span in spans], default=0) + (1 if 0 in tree.heads else 0)
    top = MARGIN + TEXT_SIZES["relation"] + 3  # of the highest arcs, or of ROOT's arrows
    foot = top + FOOT + max(0, highest - 1) * step
    uprights = {key: centres[key[0] - 1] + leg for key, leg in legs.items()}
    levels = {span.word: span.level for span in spans}
    arcs = []
    for word, head in enumerate(tree.heads, 1):
        label, full = labels[word - 1], tree.labels[word - 1]
        start, end, y, middle = uprights[word, word], uprights[word, word], top, uprights[word, word]
        if head:
            start, y = uprights[head, word], foot - FOOT - (levels[word] - 1) * step
            ends = sorted((start, end))
            middle = _label_place(word, head, ends, uprights, levels, text_width(label, TEXT_SIZES["relation"]))
        crossing = head > 0 and not all(_depends_on(tree, other, head) for other in _between(word, head))
        places = across(start), across(end), y, label, across(middle), y - RAISED
        arcs.append(Arc(head, word, *places, full, crossing))
    baseline = foot + 17
    tag_line = baseline + 15
    middles = list(map(across, centres))
    return ArcLayout(
        width=width,
        height=(tag_line if any(tags) else baseline) + 6 + MARGIN,
        foot=foot,
        arcs=tuple(arcs),
        words=_row(shown, tree.words, middles, baseline),
        tags=_row(tags, tree.tags, middles, tag_line),
        mirrored=mirrored,
    )


def _row(shown: Sequence[str], full: Sequence[str], places: Sequence[float], y: float) -> tuple[Word, ...]:
    return tuple(Word(x, y, text, whole) for x, text, whole in zip(places, shown, full, strict=True) if text)


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


def _label(tree: DrawableDependencies, word: int) -> str:
    label = tree.labels[word - 1]
    if not label:
        return "" if tree.heads[word - 1] else ROOT_LABEL
    return shortened(visible(label), LONGEST_LABEL)


def _levels(tree: DrawableDependencies) -> list[_Span]:
    """Return the arcs between words, shortest first, each on the lowest level above all the arcs below it."""
    pairs = sorted(
        (abs(head - word), min(head, word), max(head, word), word) for word, head in enumerate(tree.heads, 1) if head
    )
    spans: list[_Span] = []
    for _, low, high, word in pairs:
        below = [span.level for span in spans if span.low < high and low < span.high]
        spans.append(_Span(low, high, word, 1 + max(below, default=0)))
    return spans


def _columns(
    tree: DrawableDependencies,
    words: Sequence[str],
    tags: Sequence[str],
    labels: Sequence[str],
    spans: Sequence[_Span],
    legs: Mapping[Leg, float],
) -> tuple[list[float], float]:
    """Return the middle of each word's column, and the total width with margins."""
    counts = [0] * len(words)
    for place, _ in legs:
        counts[place - 1] += 1
    widths = [
        max(
            COLUMN,
            text_width(word, TEXT_SIZES["word"]) + 12,
            text_width(tag, TEXT_SIZES["tag"]) + 8,
            count * LEG + 8,
        )
        for word, tag, count in zip(words, tags, counts, strict=True)
    ]
    gaps = [(left + right) / 2 for left, right in pairwise(widths)]
    for span in spans:  # shorter ones first: the width they need also widens longer ones
        label = labels[span.word - 1]
        needed = text_width(label, TEXT_SIZES["relation"]) + 6 if label else 2 * BEND
        inside = range(span.low + 1, span.high)
        crossing = (other for other in spans if other.level > span.level)
        if label and (
            any(not tree.heads[place - 1] for place in inside)
            or any(other.low in inside or other.high in inside for other in crossing)
        ):  # a leg of another arc, or ROOT's arrow, crosses this one: the label has to fit on one side of it
            needed *= 2
        has = sum(gaps[span.low - 1 : span.high - 1]) + legs[span.high, span.word] - legs[span.low, span.word]
        if has < needed:
            more = (needed - has) / (span.high - span.low)
            gaps[span.low - 1 : span.high - 1] = [gap + more for gap in gaps[span.low - 1 : span.high - 1]]
    if not widths:
        return [], 2 * MARGIN
    roots = [word for word, head in enumerate(tree.heads, 1) if head == 0]
    for before, after in pairwise(roots):
        needed = sum(text_width(labels[word - 1], TEXT_SIZES["relation"]) for word in (before, after)) / 2 + 8
        more = (needed - sum(gaps[before - 1 : after - 1])) / (after - before)
        gaps[before - 1 : after - 1] = [gap + max(0.0, more) for gap in gaps[before - 1 : after - 1]]
    places = list(accumulate(gaps, initial=0.0))
    # The label of a root near an end may be wider than the first or the last word.
    halves = [(places[word - 1], text_width(labels[word - 1], TEXT_SIZES["relation"]) / 2) for word in roots]
    before_first = max(widths[0] / 2, *(half - x for x, half in halves), 0.0)
    behind_last = max(widths[-1] / 2, *(half - (places[-1] - x) for x, half in halves), 0.0)
    return [MARGIN + before_first + x for x in places], 2 * MARGIN + before_first + places[-1] + behind_last


def _label_place(
    word: int, head: int, ends: Sequence[float], uprights: Mapping[Leg, float], levels: Mapping[int, int], width: float
) -> float:
    """Return the middle of an arc's label: that of the arc, or of its widest segment that no other arc's leg crosses.

    ends: x of the arc's own legs.  uprights: x of all legs.  levels: of arcs, by dependent; ROOT's arrow has no level
    and is above all others.
    """
    level = levels[word]
    crossed = sorted(
        x
        for (place, other), x in uprights.items()
        if place in _between(word, head) and levels.get(other, level + 1) > level
    )
    middle = sum(ends) / 2
    if all(abs(x - middle) > width / 2 + 2 for x in crossed):
        return middle
    low, high = max(pairwise([ends[0], *crossed, ends[1]]), key=lambda part: part[1] - part[0])
    return (low + high) / 2


def _between(word: int, head: int) -> range:
    return range(min(word, head) + 1, max(word, head))


def _depends_on(tree: DrawableDependencies, word: int, head: int) -> bool:
    """Return whether a word directly or indirectly depends on this head. Also terminates if there is a cycle."""
    for _ in range(len(tree.words)):
        word = tree.heads[word - 1]
        if word in (0, head):
            break
    return word == head


ARROW = 7.0, 3.2  # pixels: length of an arrow's head, half its width


def dependency_picture(tree: DrawableDependencies) -> Picture:
    """Return words and tags in a row, with a labelled arc above them from each head to its dependent.

    The root has an arrow from above. Arcs that make a tree non-projective have a different colour.
    Raises InputError for a word that is its own head.
    """
    layout = lay_out_arcs(tree)
    descriptions = []  # such as "cat: nsubj of sleeps"
    for word, head, label in zip(tree.words, tree.heads, tree.labels, strict=True):
        arc = f"{label or 'dependent'} of {tree.words[head - 1]}" if head else label or "root"
        descriptions.append(f"{word}: {arc}")
    lower_last = sorted(layout.arcs, key=lambda arc: arc.top)
    elements = [element for arc in lower_last for element in _arc(arc, layout, descriptions[arc.word - 1])]
    elements += [
        svg.text(arc.label_x, arc.label_y, arc.label, f"relation{'' if arc.head else '-root'}", "middle")
        for arc in layout.arcs
        if arc.label
    ]
    elements += [_text(word, "word", layout.mirrored) for word in layout.words]
    elements += [_text(tag, "tag", False) for tag in layout.tags]
    title = f"Dependency tree: {' '.join(tree.words)}"
    return Picture(layout.width, layout.height, tuple(elements), title, "; ".join(descriptions))


def _text(word: Word, role: str, mirrored: bool) -> str:
    title = "" if word.text == word.full else word.full
    return svg.text(word.x, word.y, word.text, role, "middle", title=title, within_right_to_left=mirrored)


def _arc(arc: Arc, layout: ArcLayout, tooltip: str) -> list[str]:
    length, half = ARROW
    foot = layout.foot
    variant = "-crossing" if arc.crossing else "" if arc.head else "-root"
    line: list[str | float] = ["M", arc.start, foot]
    if arc.head:
        bend = min(BEND, abs(arc.end - arc.start) / 2)
        inward = bend if arc.end > arc.start else -bend
        line += ["V", arc.top + bend, "Q", arc.start, arc.top, arc.start + inward, arc.top]
        line += ["H", arc.end - inward, "Q", arc.end, arc.top, arc.end, arc.top + bend]
    else:
        line = ["M", arc.end, arc.top]
    line += ["V", foot - length + 1]
    tip: list[str | float] = ["M", arc.end, foot, "L", arc.end - half, foot - length]
    tip += ["L", arc.end + half, foot - length, "Z"]
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
            return html_page(" ".join(trees[0].words), [PageSection("", (dependency_picture(trees[0]),))], theme)
        sections = [PageSection(tree.name, (dependency_picture(tree),), " ".join(tree.words)) for tree in trees]
        return html_page("Dependency trees", sections, theme)

    def latex() -> str:
        return "".join(["% \\usepackage{tikz-dependency}\n", *(f"{format_dependency_latex(tree)}\n" for tree in trees)])

    write_picture(path, picture, page, latex, theme)
