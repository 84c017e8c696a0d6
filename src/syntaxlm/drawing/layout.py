"""The layout of a constituency tree: positions of nodes, edges, tags, bars and words, which `tree` then draws.

Edges are vertical and horizontal, so they never cross: a node's horizontal line extends from its first child to its
last, and its children hang from it. A node's level is its height above its deepest word, so right-branching trees over
many words look like stairs and stay compact.
"""

from __future__ import annotations

import math
from collections.abc import Sequence, Set
from dataclasses import dataclass, replace
from typing import Protocol

from syntaxlm.core.errors import InputError
from syntaxlm.drawing import svg
from syntaxlm.drawing.svg import TEXT_SIZES, Picture, right_to_left, shortened, text_width, visible

MARGIN = 12.0  # pixels around everything
WIDEST = 1150.0  # pixels: words of wider sentences are slanted
SLANT = 45.0  # degrees
COLUMN = 34.0  # pixels: least width of a column, room for a bar's value
NARROW_COLUMN = 25.0  # the same for slanted words and for long sentences
ROOMY_WORDS = 24  # longer sentences get narrow columns
LONGEST_WORD, LONGEST_LABEL = 48, 18  # characters drawn; longer ones are shortened in the middle
BAR_ZONE = 64.0  # pixels: height of the highest bar
AXIS = 48.0  # pixels left of the bars for their axis
MAXIMUM_NODES = 20_000  # words and constituents; the picture of a larger tree takes minutes and shows nothing
TREE_HEIGHT = 420.0  # pixels: levels of deeper trees are moved closer together

INDUCED_LABEL = "X"  # of constituents without a label of their own; not drawn

Span = tuple[int, int]
LabelledSpan = tuple[str, int, int]


class DrawableTree(Protocol):
    """A constituency tree: words, their tags ("" for none), and constituents (label, start, end) in pre-order.

    `str` of it is its description for screen readers.
    """

    @property
    def words(self) -> Sequence[str]: ...
    @property
    def tags(self) -> Sequence[str]: ...
    @property
    def constituents(self) -> Sequence[LabelledSpan]: ...


class DrawableDependencies(Protocol):
    """A dependency tree: words, their tags and labels ("" for none), heads from 1 (0: root), and a name or ""."""

    @property
    def words(self) -> Sequence[str]: ...
    @property
    def tags(self) -> Sequence[str]: ...
    @property
    def heads(self) -> Sequence[int]: ...
    @property
    def labels(self) -> Sequence[str]: ...
    @property
    def name(self) -> str: ...


@dataclass(frozen=True)
class WordColumns:
    """One column per word. edges: (n + 1,), the left edge of each column and the right edge of the last, in pixels."""

    edges: tuple[float, ...]
    slanted: bool

    def centre(self, word: int) -> float:
        return (self.edges[word] + self.edges[word + 1]) / 2


@dataclass(frozen=True)
class Node:
    """A constituent. x, y: start of the edge to its parent; left, right: the ends of its horizontal line at y.

    label: "" for an induced constituent. shared: whether the other tree has the span; None without another tree and
    for a span of one word.
    """

    x: float
    y: float
    left: float
    right: float
    label: str
    span: Span
    shared: bool | None


@dataclass(frozen=True)
class TreeEdge:
    """A vertical line from a parent to a child, node or word. shared: as in the child's node."""

    x: float
    top: float
    bottom: float
    shared: bool | None


@dataclass(frozen=True)
class Bar:
    """A distance between the words `after` - 1 and `after`. x: centre of the bar."""

    x: float
    width: float
    top: float
    bottom: float
    value: float
    after: int


@dataclass(frozen=True)
class Word:
    """A word or a tag. x, y: its anchor on the baseline. text: as drawn; full: not shortened."""

    x: float
    y: float
    text: str
    full: str


@dataclass(frozen=True)
class TreeLayout:
    """The layout of a tree, in pixels from the top left corner.

    guides: (x, top, bottom), from the tree through the bars to each word. scale: the values at the bottom of the bars
    and at the top of the highest, (0, 0) without bars. mirrored: whether the first word is on the right.
    """

    width: float
    height: float
    nodes: tuple[Node, ...]
    edges: tuple[TreeEdge, ...]
    guides: tuple[tuple[float, float, float], ...]
    tags: tuple[Word, ...]
    bars: tuple[Bar, ...]
    words: tuple[Word, ...]
    scale: tuple[float, float]
    slanted: bool
    mirrored: bool


def columns_of(trees: Sequence[DrawableTree], words: Sequence[str]) -> WordColumns:
    """Return columns wide enough for the words and for the labels and tags of all the trees over them."""
    for tree in trees:
        check_size(tree)
    shown = [_word(word) for word in words]
    roomy = COLUMN if len(words) <= ROOMY_WORDS else NARROW_COLUMN
    widths = _widths(trees, [max(roomy, text_width(word, TEXT_SIZES["word"]) + 14) for word in shown])
    slanted = _widths(trees, [NARROW_COLUMN] * len(words))
    turned = sum(widths) > WIDEST and sum(slanted) < 0.8 * sum(widths)
    edges = [0.0]
    for width in slanted if turned else widths:
        edges.append(edges[-1] + width)
    return WordColumns(tuple(edges), turned)


def _widths(trees: Sequence[DrawableTree], widths: list[float]) -> list[float]:
    """Return column widths, increased where a tag or a constituent's label is wider than its words."""
    for tree in trees:
        for place, tag in enumerate(tree.tags):
            widths[place] = max(widths[place], _text_width(tag, "tag") + 8)
        for full, start, end in sorted(tree.constituents, key=lambda part: part[2] - part[1]):
            if label := _label(full):
                missing = (_text_width(label, "label") + 10 - sum(widths[start:end])) / (end - start)
                widths[start:end] = [width + max(0.0, missing) for width in widths[start:end]]
    return widths


def _text_width(label: str, role: str) -> float:
    return text_width(shortened(visible(label), LONGEST_LABEL), TEXT_SIZES[role])


def _label(label: str) -> str:
    return "" if label == INDUCED_LABEL else shortened(visible(label), LONGEST_LABEL)


def _word(word: str) -> str:
    return shortened(visible(word), LONGEST_WORD)


def lay_out(
    tree: DrawableTree,
    words: Sequence[str],
    distances: Sequence[float] | None = None,
    shared: Set[Span] | None = None,
    columns: WordColumns | None = None,
) -> TreeLayout:
    """Lay out a tree over `words`, which replace its own.

    distances: one per word; that of word i is between words i - 1 and i, so the first is not drawn. None: no bars.
    shared: spans that another tree also has. columns: columns shared by several trees; None: fitted to this tree.
    Raises ValueError if words or distances are not one per word of the tree, and for a non-finite distance; InputError
    for a tree of more than `MAXIMUM_NODES` words and constituents.
    """
    check_size(tree)
    if len(words) != len(tree.words):
        raise ValueError(f"found {len(words)} words for a tree over {len(tree.words)} words")
    if distances is not None and len(distances) != len(words):
        raise ValueError(f"found {len(distances)} distances for {len(words)} words; expected one per word")
    if distances is not None and not all(map(math.isfinite, distances[1:])):
        raise ValueError("distances must be finite")
    columns = columns or columns_of([tree], words)
    start = MARGIN + (AXIS if distances is not None and len(words) > 1 else 0)
    shown = [_word(word) for word in words]
    lengths = [text_width(word, TEXT_SIZES["word"]) for word in shown]
    width = start + columns.edges[-1] + MARGIN
    if columns.slanted:
        reach = math.cos(math.radians(SLANT))
        width = max(width, *(start + columns.centre(i) + reach * w + MARGIN for i, w in enumerate(lengths)))
    place = _Placing(columns, start, width, right_to_left(words))

    nodes, edges, foot = _tree_parts(tree, place, shared)
    tags = tuple(
        Word(place.centre(i), foot + 11, shortened(visible(tag), LONGEST_LABEL), tag)
        for i, tag in enumerate(tree.tags)
        if tag
    )
    tags_foot = foot + (16 if tags else 0)
    bars, scale = _bars(distances[1:] if distances is not None else [], place, tags_foot)
    baseline = (bars[0].bottom if bars else tags_foot) + (16 if columns.slanted else 22)
    back = 0.0
    if columns.slanted:  # align the middle of the letters, not their baseline, with the column's centre
        back = TEXT_SIZES["word"] / 4 * (-1 if place.mirrored else 1)
    drop = math.sin(math.radians(SLANT)) * max(lengths, default=0) if columns.slanted else 0
    return TreeLayout(
        width=width,
        height=baseline + drop + 8 + MARGIN,
        nodes=nodes,
        edges=edges,
        guides=tuple((place.centre(i), tags_foot, baseline - 14) for i in range(len(words))) if bars else (),
        tags=tags,
        bars=bars,
        words=tuple(
            Word(place.centre(i) - back, baseline, text, word)
            for i, (text, word) in enumerate(zip(shown, words, strict=True))
        ),
        scale=scale,
        slanted=columns.slanted,
        mirrored=place.mirrored,
    )


def headed(picture: Picture, heading: str, mirrored: bool) -> Picture:
    """Return a picture with a heading above it, on the side where the sentence starts."""
    height = TEXT_SIZES["heading"] + MARGIN
    width = max(picture.width, text_width(heading, TEXT_SIZES["heading"]) + 2 * MARGIN)
    if mirrored:
        element = svg.text(picture.width - MARGIN, height, heading, "heading", "end")
    else:
        element = svg.text(MARGIN, height, heading, "heading")
    both = svg.stacked([Picture(width, height, (element,), picture.title), picture], gap=0)
    return replace(both, title=picture.title, description=picture.description)


def check_size(tree: DrawableTree) -> None:
    """Raise InputError for a tree that is too large for a picture."""
    if len(tree.words) + len(tree.constituents) > MAXIMUM_NODES:
        raise InputError(
            f"a tree of {len(tree.words):,} words and {len(tree.constituents):,} constituents is too large for a"
            f" picture; expected at most {MAXIMUM_NODES:,} together"
        )


@dataclass(frozen=True)
class _Placing:
    """Converts positions along the sentence to positions on the page. start: space before the first column."""

    columns: WordColumns
    start: float
    width: float
    mirrored: bool

    def across(self, x: float) -> float:
        return self.width - self.start - x if self.mirrored else self.start + x

    def centre(self, word: int) -> float:
        return self.across(self.columns.centre(word))


def _tree_parts(
    tree: DrawableTree, place: _Placing, shared: Set[Span] | None
) -> tuple[tuple[Node, ...], tuple[TreeEdge, ...], float]:
    """Return the nodes, the edges, and the y where the tree ends."""
    parts, columns = tree.constituents, place.columns
    parents, word_parents = parents_of(parts, len(tree.words))
    labels = [_label(label) for label, _, _ in parts]
    levels, lefts, rights = [1] * len(parts), [math.inf] * len(parts), [-math.inf] * len(parts)
    for word, parent in enumerate(word_parents):
        if parent >= 0:
            centre = columns.centre(word)
            lefts[parent], rights[parent] = min(lefts[parent], centre), max(rights[parent], centre)
    middles = [0.0] * len(parts)
    for child in range(len(parts) - 1, -1, -1):  # children come after their parents
        # A label that stays within its columns overlaps no other label.
        half = text_width(labels[child], TEXT_SIZES["label"]) / 2 + 2 if labels[child] else 0.0
        low, high = columns.edges[parts[child][1]] + half, columns.edges[parts[child][2]] - half
        middle = middles[child] = min(max((lefts[child] + rights[child]) / 2, low), max(low, high))
        parent = parents[child]
        if parent >= 0:
            lefts[parent], rights[parent] = min(lefts[parent], middle), max(rights[parent], middle)
            levels[parent] = max(levels[parent], levels[child] + 1)

    deepest = max(levels, default=0)
    top = MARGIN + (20 if any(labels) else 6)
    usual, least = (34.0, 26.0) if any(labels) else (26.0, 11.0)  # pixels between levels: fewer in deep trees
    step = max(least, min(usual, TREE_HEIGHT / max(1, deepest)))
    foot = top + deepest * step if parts else MARGIN

    def height(node: int) -> float:
        return foot - levels[node] * step

    nodes = []
    for node, (_, start, end) in enumerate(parts):
        span = (start, end)
        mark = None if shared is None or end - start < 2 else span in shared
        ends = sorted((place.across(min(lefts[node], middles[node])), place.across(max(rights[node], middles[node]))))
        nodes.append(Node(place.across(middles[node]), height(node), ends[0], ends[1], labels[node], span, mark))
    edges = [
        TreeEdge(nodes[child].x, nodes[parent].y, nodes[child].y - (18 if labels[child] else 0), nodes[child].shared)
        for child, parent in enumerate(parents)
        if parent >= 0
    ]
    for word, parent in enumerate(word_parents):
        if parent >= 0:
            edges.append(TreeEdge(place.centre(word), nodes[parent].y, foot, None))
    return tuple(nodes), tuple(edges), foot


def parents_of(constituents: Sequence[LabelledSpan], words: int) -> tuple[list[int], list[int]]:
    """For each constituent and for each of so many words, the index of the parent constituent; -1 for none."""
    parents: list[int] = []
    word_parents = [-1] * words
    around: list[int] = []
    for child, (_, start, end) in enumerate(constituents):
        while around and constituents[around[-1]][2] <= start:
            around.pop()
        parents.append(around[-1] if around else -1)
        around.append(child)
        word_parents[start:end] = [child] * (end - start)
    return parents, word_parents


def _bars(values: Sequence[float], place: _Placing, top: float) -> tuple[tuple[Bar, ...], tuple[float, float]]:
    """Return a bar per distance between neighbouring words, and the values at the bottom and the top of the axis."""
    if not values:
        return (), (0.0, 0.0)
    low, high = scale_of(values)
    edges = place.columns.edges
    bottom = top + 20 + BAR_ZONE  # leaves room for the value above the highest bar
    bars = []
    for after, value in enumerate(values, 1):
        room = min(edges[after] - edges[after - 1], edges[after + 1] - edges[after])
        tall = max(1.5, BAR_ZONE * (value - low) / (high - low))
        bars.append(Bar(place.across(edges[after]), min(18.0, 0.55 * room), bottom - tall, bottom, value, after))
    return tuple(bars), (low, high)


def scale_of(values: Sequence[float]) -> tuple[float, float]:
    """Return the range of the axis: from 0 if differences are visible then, else from below the least value."""
    low, high = min(values), max(values)
    if low >= 0 and low <= high / 2:
        return 0.0, high or 1.0
    if low == high:
        return (0.0, high) if high > 0 else (low - 1, high)
    return low - 0.15 * (high - low), high
