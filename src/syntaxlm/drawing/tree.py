"""Constituency trees as pictures, with their distances and optionally with gold trees.

Edges are vertical and horizontal, so they never cross: a constituent's horizontal line extends from its first child to
its last, and its children hang from it. Its level is its height above its deepest word, so right-branching trees over
many words look like stairs and stay compact.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise

from syntaxlm.core.errors import InputError
from syntaxlm.drawing import svg
from syntaxlm.drawing.layout import INDUCED_LABEL, LONGEST_LABEL, LONGEST_WORD, MARGIN, DrawableTree, Span, headed
from syntaxlm.drawing.svg import (
    ELLIPSIS,
    TEXT_SIZES,
    Anchor,
    Picture,
    figure,
    right_to_left,
    shortened,
    text_width,
    visible,
)

BESIDE = 1000.0  # pixels: wider pairs of trees are drawn one below the other
WIDEST = 1150.0  # pixels: words of wider sentences are slanted
SLANT = 45.0  # degrees
COLUMN = 34.0  # pixels: least width of a column, room for a bar's value
NARROW_COLUMN = 25.0  # the same for slanted words and for long sentences
ROOMY_WORDS = 24  # longer sentences get narrow columns
BAR_ZONE = 64.0  # pixels: height of the highest bar
AXIS = 48.0  # pixels left of the bars for their axis
MAXIMUM_NODES = 20_000  # words and constituents; the picture of a larger tree takes minutes and shows nothing
TREE_HEIGHT = 420.0  # pixels: levels of deeper trees are moved closer together
NODE = 4.0  # pixels: radius of a marker
TARGET = 8.0  # pixels: radius of the area around a marker that reacts to a pointer
TOOLTIP_WORDS = 20  # most words of a span in its tooltip


@dataclass(frozen=True)
class SpanNote:
    """What the marker of a constituent shows.

    Attributes:
        tooltip: the score of the constituent, as text.
        fill: 0 to 1, strength of its colour.
    """

    tooltip: str
    fill: float = 0.0


@dataclass(frozen=True)
class _Columns:
    """One column per word.

    Attributes:
        edges: (n + 1,), the left edge of each column and the right edge of the last, in pixels from the first.
        start: space before the first column.
        width: the width of the picture.
        mirrored: whether the first word is on the right.
    """

    edges: Sequence[float]
    start: float
    width: float
    slanted: bool
    mirrored: bool

    def across(self, x: float) -> float:
        """Return the x in the picture of a position along the sentence."""
        return self.width - self.start - x if self.mirrored else self.start + x

    def centre(self, word: int) -> float:
        return self.across((self.edges[word] + self.edges[word + 1]) / 2)

    def anchor(self, word: int) -> float:
        """Return the x of a word's text; of a slanted one, the middle of the letters is at the column's centre."""
        back = TEXT_SIZES["word"] / 4 if self.slanted else 0.0
        return self.centre(word) + (back if self.mirrored else -back)


@dataclass
class _Node:
    """A constituent.

    Attributes:
        parent: index of the constituent above it, -1 for none.
        level: the height above the words.
        left: left end of the horizontal line, in pixels from the first column.
        right: right end of the horizontal line.
        x: the x of the edge to the parent.
    """

    label: str
    start: int
    end: int
    parent: int
    level: int = 1
    left: float = math.inf
    right: float = -math.inf
    x: float = 0.0

    def cover(self, x: float) -> None:
        self.left = min(self.left, x)
        self.right = max(self.right, x)


def tree_picture(
    tree: DrawableTree,
    distances: Sequence[float] | None = None,
    gold: DrawableTree | None = None,
    words: Sequence[str] | None = None,
    notes: Sequence[str] | None = None,
    span_notes: Mapping[Span, SpanNote] | None = None,
) -> Picture:
    """Return a tree; below it a bar for each distance between neighbouring words; below these the words.

    Args:
        distances: one per word; that of word i is between words i - 1 and i, so the first is not drawn. None: no bars.
        gold: a tree over the same words, drawn next to the first (or below, if too wide), with shared spans marked in
            both.
        words: drawn instead of the tree's own.
        notes: tooltips of words; words with a note are underlined.
        span_notes: notes on constituents [start, end), which get a marker. They are not drawn with a gold tree, which
            has markers of its own.

    Raises:
        ValueError: if distances, words or notes are not one per word, and for a non-finite distance.
        InputError: if the gold tree has a different number of words, and for more than `MAXIMUM_NODES` words and
            constituents.
    """
    words = tree.words if words is None else words
    notes = [""] * len(words) if notes is None else notes
    if len(words) != len(tree.words):
        raise ValueError(f"found {len(words)} words for a tree over {len(tree.words)} words")
    for name, values in (("notes", notes), ("distances", distances)):
        if values is not None and len(values) != len(words):
            raise ValueError(f"found {len(values)} {name} for {len(words)} words; expected one per word")
    if distances is not None and not all(map(math.isfinite, distances[1:])):
        raise ValueError("distances must be finite")
    if gold is not None:
        return _tree_pair(tree, gold, words, distances, notes)
    columns = _columns([tree], words, distances)
    return _picture(tree, words, columns, distances, notes, f"Tree: {' '.join(words)}", span_notes=span_notes)


def _tree_pair(
    tree: DrawableTree,
    gold: DrawableTree,
    words: Sequence[str],
    distances: Sequence[float] | None,
    notes: Sequence[str],
) -> Picture:
    """Return an induced tree and a gold tree, in which the spans that both have are marked."""
    if len(tree.words) != len(gold.words):
        raise InputError(
            f"the induced tree has {len(tree.words)} words, but the gold tree has {len(gold.words)}; expected the same"
            " words"
        )
    title = " ".join(words)
    spans = {(start, end) for _, start, end in tree.constituents if end - start > 1}
    gold_spans = {(start, end) for _, start, end in gold.constituents if end - start > 1}
    shared = spans & gold_spans

    # The trees are beside each other if there is room, otherwise below each other in the same columns.
    columns = _columns([tree], words, distances)
    gold_columns = _columns([gold], words, None)
    are_beside = columns.edges[-1] + gold_columns.edges[-1] + AXIS + 5 * MARGIN <= BESIDE
    if not are_beside:
        columns = _columns([tree, gold], words, distances)
        gold_columns = _columns([tree, gold], words, None)
    mirrored = columns.mirrored
    induced = _picture(tree, words, columns, distances, notes, f"Induced tree: {title}", shared)
    induced = headed(induced, "induced", mirrored)
    gold_picture = _picture(gold, words, gold_columns, None, notes, f"Gold tree: {title}", shared)
    if are_beside:
        pictures = [induced, headed(gold_picture, "gold", mirrored)]
        trees = svg.beside(pictures[::-1] if mirrored else pictures, f"Induced and gold tree: {title}")
    else:
        # Only the induced tree has an axis before its first column.
        shift = columns.width - gold_columns.width
        gold_picture = headed(gold_picture, "gold", mirrored)
        content = "".join(gold_picture.elements)
        moved = f'<g transform="translate({svg.number(0 if mirrored else shift)} 0)">{content}</g>'
        gold_picture = replace(gold_picture, width=gold_picture.width + shift, elements=(moved,))
        trees = svg.stacked([induced, gold_picture], f"Induced and gold tree: {title}", align_right=mirrored)
    whole = {(0, len(words))}
    legend = _legend(len(shared - whole), len(spans - whole), len(gold_spans - whole))
    return svg.stacked([trees, legend], trees.title, gap=4, align_right=mirrored)


def _legend(shared: int, induced: int, gold: int) -> Picture:
    """Return the meaning of the markers, and the numbers of spans of two or more words."""
    count = f"{shared} {'span' if shared == 1 else 'spans'} in both trees"
    count += f": of {induced} induced and {gold} gold spans (without the whole sentence)"
    parts: list[str] = []
    x = MARGIN + NODE
    for role, words in (("node-shared", "in both trees"), ("node-other", "in one tree only"), ("", count)):
        if role:
            parts.append(svg.circle(x, 14, NODE, role))
            x += 10
        parts.append(svg.text(x, 18, words, "note"))
        x += text_width(words, TEXT_SIZES["note"]) + 22
    return Picture(x, 28, tuple(parts), count, count)


def word_anchors(tree: DrawableTree, words: Sequence[str], distances: Sequence[float] | None) -> list[float]:
    """Return the x of each word in the `tree_picture` of the same arguments."""
    columns = _columns([tree], words, distances)
    return [columns.anchor(word) for word in range(len(words))]


def _columns(trees: Sequence[DrawableTree], words: Sequence[str], distances: Sequence[float] | None) -> _Columns:
    """Return columns wide enough for the words and for the labels and tags of all the trees over them."""
    lengths = [text_width(_word(word), TEXT_SIZES["word"]) for word in words]
    roomy = COLUMN if len(words) <= ROOMY_WORDS else NARROW_COLUMN
    upright = [max(roomy, length + 14) for length in lengths]
    slanted = [NARROW_COLUMN] * len(words)
    for tree in trees:
        if len(tree.words) + len(tree.constituents) > MAXIMUM_NODES:
            raise InputError(
                f"a tree of {len(tree.words):,} words and {len(tree.constituents):,} constituents is too large for a"
                f" picture; expected at most {MAXIMUM_NODES:,} together"
            )
        inner_first = sorted(tree.constituents, key=lambda span: span[2] - span[1])
        for widths in (upright, slanted):
            for place, tag in enumerate(tree.tags):
                widths[place] = max(widths[place], text_width(_label(tag), TEXT_SIZES["tag"]) + 8)
            for label, start, end in inner_first:
                if label not in ("", INDUCED_LABEL):
                    needed = text_width(_label(label), TEXT_SIZES["label"]) + 10
                    missing = max(0.0, needed - sum(widths[start:end])) / (end - start)
                    widths[start:end] = [width + missing for width in widths[start:end]]

    # Words are slanted if the sentence is too wide otherwise, and much narrower then.
    is_slanted = sum(upright) > WIDEST and sum(slanted) < 0.8 * sum(upright)
    edges = list(accumulate(slanted if is_slanted else upright, initial=0.0))
    left = MARGIN + (AXIS if distances is not None and len(words) > 1 else 0.0)
    ends = [left + edges[-1]]
    if is_slanted:
        reach = math.cos(math.radians(SLANT))
        ends += [left + sum(pair) / 2 + reach * length for pair, length in zip(pairwise(edges), lengths, strict=True)]
    return _Columns(edges, left, max(ends) + MARGIN, is_slanted, right_to_left(words))


def _label(label: str) -> str:
    return shortened(visible(label), LONGEST_LABEL)


def _word(word: str) -> str:
    return shortened(visible(word), LONGEST_WORD)


def _picture(
    tree: DrawableTree,
    words: Sequence[str],
    columns: _Columns,
    distances: Sequence[float] | None,
    notes: Sequence[str],
    title: str,
    shared: Set[Span] | None = None,
    span_notes: Mapping[Span, SpanNote] | None = None,
) -> Picture:
    """Return one tree in its columns.

    Args:
        shared: spans that another tree also has; None without another tree.
    """
    branches, foot = _branches(tree, words, columns, shared, span_notes or {})
    tags = []
    for place, tag in enumerate(tree.tags):
        if tag:
            drawn = _label(tag)
            tooltip = "" if drawn == tag else tag
            tags.append(svg.text(columns.centre(place), foot + 11, drawn, "tag", "middle", title=tooltip))
    foot += 16.0 if tags else 0.0
    bars, bars_foot = _bars([] if distances is None else distances[1:], words, columns, foot)
    baseline = bars_foot + (16 if columns.slanted else 22)
    guides = []
    if bars:  # from the tree through the bars to each word
        centres = map(columns.centre, range(len(words)))
        guides = [svg.line(x, foot, x, baseline - 14, "guide") for x in centres]
    anchor: Anchor = "middle"
    turned = 0.0
    drop = 0.0
    if columns.slanted:
        anchor, turned = ("end", -SLANT) if columns.mirrored else ("start", SLANT)
        drop = math.sin(math.radians(SLANT)) * max(text_width(_word(word), TEXT_SIZES["word"]) for word in words)
    texts = []
    for place, (word, note) in enumerate(zip(words, notes, strict=True)):
        drawn = _word(word)
        role = "unknown" if note else "word"
        tooltip = word if drawn != word else ""
        if note:
            tooltip = f"{word}: {note}"
        x = columns.anchor(place)
        texts.append(svg.text(x, baseline, drawn, role, anchor, turned, tooltip, columns.mirrored))
    try:
        description = str(tree)
    except InputError:  # some words cannot be written in brackets, but all can be drawn
        description = ""
    elements = (*guides, *branches, *tags, *bars, *texts)
    return Picture(columns.width, baseline + drop + 8 + MARGIN, elements, title, description)


def _branches(
    tree: DrawableTree,
    words: Sequence[str],
    columns: _Columns,
    shared: Set[Span] | None,
    notes: Mapping[Span, SpanNote],
) -> tuple[list[str], float]:
    """Return the elements of the constituents and their branches, and the y where these end."""
    nodes, parents = _nodes(tree, columns.edges)
    deepest = max((node.level for node in nodes), default=0)
    has_labels = any(node.label for node in nodes)
    top = MARGIN + (20 if has_labels else 6)
    usual, least = (34.0, 26.0) if has_labels else (26.0, 11.0)  # pixels between levels: fewer in deep trees
    step = max(least, min(usual, TREE_HEIGHT / max(1, deepest)))
    foot = top + deepest * step if nodes else MARGIN
    heights = [foot - node.level * step for node in nodes]
    xs = [columns.across(node.x) for node in nodes]

    elements: list[str] = []
    for is_shared, role in ((False, "edge"), (True, "edge-shared")):  # shared edges are drawn over the others
        # A one-word span and a tree without another one have no mark.
        marked = [
            shared is not None and node.end - node.start > 1 and (node.start, node.end) in shared for node in nodes
        ]
        for node, x, y, is_marked in zip(nodes, xs, heights, marked, strict=True):
            if node.parent >= 0 and is_marked == is_shared:
                elements.append(svg.line(x, heights[node.parent], x, y - (18 if node.label else 0), role))
        for word, parent in enumerate(parents):
            if parent >= 0 and not is_shared:
                x = columns.centre(word)
                elements.append(svg.line(x, heights[parent], x, foot, role))
        for node, y, is_marked in zip(nodes, heights, marked, strict=True):
            left, right = sorted((columns.across(min(node.left, node.x)), columns.across(max(node.right, node.x))))
            if is_marked == is_shared and left < right:
                elements.append(svg.line(left, y, right, y, role))
    noted = []
    for node, x, y in zip(nodes, xs, heights, strict=True):
        span = node.start, node.end
        spanned = words[node.start : node.end]
        if len(spanned) > TOOLTIP_WORDS:
            spanned = [*spanned[: TOOLTIP_WORDS // 2], ELLIPSIS, *spanned[-TOOLTIP_WORDS // 2 :]]
        tooltip = " ".join(spanned)
        if shared is not None and node.end - node.start > 1:
            elements.append(svg.circle(x, y, NODE, "node-shared" if span in shared else "node-other", tooltip))
        if node.label:
            elements.append(svg.text(x, y - 6, node.label, "label", "middle"))
        if note := notes.get(span):  # in a group with the span as data, for pages that react to a pointer
            noted.append(
                f'<g data-start="{node.start}" data-end="{node.end}">'
                + svg.circle(x, y, NODE, "node-other")
                + svg.circle(x, y, NODE, "node-score", opacity=note.fill)
                + svg.circle(x, y, TARGET, "target", f"{tooltip}: {note.tooltip}")
                + "</g>"
            )
    return elements + noted, foot


def _nodes(tree: DrawableTree, edges: Sequence[float]) -> tuple[list[_Node], list[int]]:
    """Return the constituents and, for each word, the index of the innermost constituent around it; -1 for none.

    Args:
        edges: the edges of the columns.
    """
    nodes: list[_Node] = []
    parents = [-1] * len(tree.words)
    open_nodes: list[int] = []  # around the current constituent, the innermost last
    for place, (label, start, end) in enumerate(tree.constituents):
        while open_nodes and nodes[open_nodes[-1]].end <= start:
            open_nodes.pop()
        parent = open_nodes[-1] if open_nodes else -1
        nodes.append(_Node("" if label == INDUCED_LABEL else _label(label), start, end, parent))
        open_nodes.append(place)
        parents[start:end] = [place] * (end - start)
    for word, place in enumerate(parents):
        if place >= 0:
            nodes[place].cover((edges[word] + edges[word + 1]) / 2)
    for node in reversed(nodes):  # children come after their parents
        # A label that stays within its columns overlaps no other label.
        half = text_width(node.label, TEXT_SIZES["label"]) / 2 + 2 if node.label else 0.0
        low = edges[node.start] + half
        high = edges[node.end] - half
        node.x = min(max((node.left + node.right) / 2, low), max(low, high))
        if node.parent >= 0:
            above = nodes[node.parent]
            above.cover(node.x)
            above.level = max(above.level, node.level + 1)
    return nodes, parents


def _bars(distances: Sequence[float], words: Sequence[str], columns: _Columns, top: float) -> tuple[list[str], float]:
    """Return a bar for each distance between neighbouring words, and their axis; and the y at their bottom.

    The bars have their values if all of them fit.
    """
    if not distances:
        return [], top
    scale = low, high = scale_of(distances)
    bottom = top + 20 + BAR_ZONE  # leaves room for the value above the highest bar
    figures = [figure(value, scale) for value in distances]
    xs = [columns.across(x) for x in columns.edges[1:-1]]
    half = max(text_width(text, TEXT_SIZES["small"]) for text in figures) / 2 + 2
    has_room = all(abs(after - before) >= 2 * half for before, after in pairwise(xs))
    widths = [after - before for before, after in pairwise(columns.edges)]
    elements = []
    for after, (x, value, text) in enumerate(zip(xs, distances, figures, strict=True), 1):
        width = min(18.0, 0.55 * min(widths[after - 1], widths[after]))
        tall = max(1.5, BAR_ZONE * (value - low) / (high - low))
        tooltip = f"{words[after - 1]} | {words[after]}: {value:.4g}"
        elements.append(svg.rectangle(x - width / 2, bottom - tall, width, tall, "bar", tooltip))
        if has_room:
            elements.append(svg.text(x, bottom - tall - 4, text, "small", "middle"))

    # The axis, on the side where the sentence starts.
    x = columns.across(-6.0)
    outward = 1 if columns.mirrored else -1
    anchor: Anchor = "start" if columns.mirrored else "end"
    highest = bottom - BAR_ZONE
    elements.append(svg.text(x + 38 * outward, (highest + bottom) / 2 + 3, "distance", "small", "middle", -90))
    elements.append(svg.line(x, highest, x, bottom, "axis"))
    for y, value in ((bottom, low), (highest, high)):
        elements.append(svg.line(x, y, x + 4 * outward, y, "axis"))
        elements.append(svg.text(x + 6 * outward, y + 3, figure(value, scale), "small", anchor))
    return elements, bottom


def scale_of(values: Sequence[float]) -> tuple[float, float]:
    """Return the range of the axis: from 0 if differences are visible then, else from below the least value."""
    low = min(values)
    high = max(values)
    if low >= 0 and low <= high / 2:
        return 0.0, high or 1.0
    if low == high:
        return (0.0, high) if high > 0 else (low - 1, high)
    return low - 0.15 * (high - low), high
