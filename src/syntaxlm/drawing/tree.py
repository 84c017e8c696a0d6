"""Constituency trees as pictures, with their distances and optionally with gold trees."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from itertools import pairwise

from syntaxlm.core.errors import InputError
from syntaxlm.drawing import svg
from syntaxlm.drawing.layout import (
    AXIS,
    MARGIN,
    SLANT,
    DrawableTree,
    Node,
    Span,
    TreeLayout,
    WordColumns,
    columns_of,
    headed,
    lay_out,
)
from syntaxlm.drawing.svg import (
    ELLIPSIS,
    TEXT_SIZES,
    Anchor,
    Picture,
    figure,
    text_width,
)

BESIDE = 1000.0  # pixels: wider pairs of trees are drawn one below the other
NODE = 4.0  # pixels: radius of a marker
TARGET = 8.0  # pixels: radius of the area around a marker that reacts to a pointer
TOOLTIP_WORDS = 20  # most words of a span in its tooltip


@dataclass(frozen=True)
class SpanNote:
    """What the marker of a constituent shows. tooltip: its score, as text. fill: 0 to 1, strength of its colour."""

    tooltip: str
    fill: float = 0.0


@dataclass(frozen=True)
class SharedSpans:
    """Number of spans that two trees over the same words share.

    Only spans of two or more words are counted, without that of the whole sentence.
    """

    shared: int
    induced: int
    gold: int

    def __str__(self) -> str:
        both = f"{self.shared} {'span' if self.shared == 1 else 'spans'} in both trees"
        return f"{both}: of {self.induced} induced and {self.gold} gold spans (without the whole sentence)"


def spans_of(tree: DrawableTree) -> set[Span]:
    """Return a tree's spans of two or more words."""
    return {(start, end) for _, start, end in tree.constituents if end - start > 1}


def compare(tree: DrawableTree, gold: DrawableTree) -> SharedSpans:
    """Count shared spans. Raises InputError for trees with different numbers of words."""
    if len(tree.words) != len(gold.words):
        raise InputError(
            f"the induced tree has {len(tree.words)} words, but the gold tree has {len(gold.words)}; expected the same"
            " words"
        )
    whole = {(0, len(tree.words))}
    induced, golden = spans_of(tree) - whole, spans_of(gold) - whole
    return SharedSpans(len(induced & golden), len(induced), len(golden))


def tree_picture(
    tree: DrawableTree,
    distances: Sequence[float] | None = None,
    gold: DrawableTree | None = None,
    words: Sequence[str] | None = None,
    notes: Sequence[str] | None = None,
    span_notes: Mapping[Span, SpanNote] | None = None,
) -> Picture:
    """Return a tree; below it a bar for each distance between neighbouring words; below these the words.

    distances: one per word; that of word i is between words i - 1 and i, so the first is not drawn. None: no bars.
    gold: a tree over the same words, drawn next to the first (or below, if too wide), with shared spans marked in both.
    words: drawn instead of the tree's own. notes: tooltips of words; words with a note are underlined.
    span_notes: of constituents [start, end), which get a marker; not drawn with a gold tree, which has its own markers.
    Raises ValueError if distances, words or notes are not one per word, InputError if the gold tree has a different
    number of words.
    """
    words = tree.words if words is None else words
    notes = [""] * len(words) if notes is None else notes
    if len(notes) != len(tree.words):
        raise ValueError(f"found {len(notes)} notes for {len(tree.words)} words; expected one per word")
    if gold is None:
        return _paint(tree, lay_out(tree, words, distances), notes, _title("Tree", words), span_notes)
    return _two_trees(tree, gold, words, distances, notes)


def _title(what: str, words: Sequence[str]) -> str:
    return f"{what}: {' '.join(words)}"


def _two_trees(
    tree: DrawableTree,
    gold: DrawableTree,
    words: Sequence[str],
    distances: Sequence[float] | None,
    notes: Sequence[str],
) -> Picture:
    comparison = compare(tree, gold)
    shared: Set[Span] = spans_of(tree) & spans_of(gold)
    separate = [columns_of([drawn], words) for drawn in (tree, gold)]
    are_beside = sum(columns.edges[-1] for columns in separate) + AXIS + 5 * MARGIN <= BESIDE
    # If one is drawn below the other, both trees have the same columns.
    columns: Sequence[WordColumns | None] = separate if are_beside else [columns_of([tree, gold], words)] * 2
    induced_layout = lay_out(tree, words, distances, shared, columns[0])
    gold_layout = lay_out(gold, words, None, shared, columns[1])
    mirrored = induced_layout.mirrored
    pictures = [
        headed(_paint(tree, induced_layout, notes, _title("Induced tree", words)), "induced", mirrored),
        headed(_paint(gold, gold_layout, notes, _title("Gold tree", words)), "gold", mirrored),
    ]
    title = _title("Induced and gold tree", words)
    if are_beside:
        both = svg.beside(pictures[::-1] if mirrored else pictures, title)
    else:
        # Only the first tree has an axis before its first column.
        below, by = pictures[1], induced_layout.width - gold_layout.width
        moved = f'<g transform="translate({svg.number(0 if mirrored else by)} 0)">{"".join(below.elements)}</g>'
        pictures[1] = replace(below, width=below.width + by, elements=(moved,))
        both = svg.stacked(pictures, title, align_right=mirrored)
    return svg.stacked([both, _legend(comparison)], title, gap=4, align_right=mirrored)


def _legend(comparison: SharedSpans) -> Picture:
    parts: list[str] = []
    x = MARGIN + NODE
    for role, words in (("node-shared", "in both trees"), ("node-other", "in one tree only"), ("", str(comparison))):
        if role:
            parts.append(svg.circle(x, 14, NODE, role))
            x += 10
        parts.append(svg.text(x, 18, words, "note"))
        x += text_width(words, TEXT_SIZES["note"]) + 22
    return Picture(x, 28, tuple(parts), str(comparison), str(comparison))


def _paint(
    tree: DrawableTree,
    layout: TreeLayout,
    notes: Sequence[str],
    title: str,
    span_notes: Mapping[Span, SpanNote] | None = None,
) -> Picture:
    """Return the elements of a layout, drawn at its positions."""
    full_words = [word.full for word in layout.words]
    elements = [svg.line(x, top, x, bottom, "guide") for x, top, bottom in layout.guides]
    for shared_too in (False, True):  # marked edges are drawn over the others
        role = "edge-shared" if shared_too else "edge"
        elements += [
            svg.line(edge.x, edge.top, edge.x, edge.bottom, role)
            for edge in layout.edges
            if bool(edge.shared) == shared_too
        ]
        elements += [
            svg.line(node.left, node.y, node.right, node.y, role)
            for node in layout.nodes
            if bool(node.shared) == shared_too and node.left < node.right
        ]
    for node in layout.nodes:
        if node.shared is not None:
            role = "node-shared" if node.shared else "node-other"
            elements.append(svg.circle(node.x, node.y, NODE, role, _span_tooltip(full_words[slice(*node.span)])))
        if node.label:
            elements.append(svg.text(node.x, node.y - 6, node.label, "label", "middle"))
    marked = span_notes or {}
    elements += [_noted_node(node, marked[node.span], full_words) for node in layout.nodes if node.span in marked]
    elements += [
        svg.text(tag.x, tag.y, tag.text, "tag", "middle", title=_unshortened(tag.text, tag.full)) for tag in layout.tags
    ]
    elements += _painted_bars(layout, full_words)
    for word, note in zip(layout.words, notes, strict=True):
        tooltip = f"{word.full}: {note}" if note else _unshortened(word.text, word.full)
        anchor: Anchor = "middle"
        turned = 0.0
        if layout.slanted:
            anchor, turned = ("end", -SLANT) if layout.mirrored else ("start", SLANT)
        elements.append(
            svg.text(word.x, word.y, word.text, "unknown" if note else "word", anchor, turned, tooltip, layout.mirrored)
        )
    try:
        description = str(tree)
    except InputError:  # some words cannot be written in brackets, but all can be drawn
        description = ""
    return Picture(layout.width, layout.height, tuple(elements), title, description)


def _unshortened(drawn: str, full: str) -> str:
    """Return the tooltip of a word or tag that is shortened."""
    return "" if drawn == full else full


def _noted_node(node: Node, note: SpanNote, full_words: Sequence[str]) -> str:
    """Return a marker in a group with the span as data, for pages that react to a pointer."""
    start, end = node.span
    tooltip = f"{_span_tooltip(full_words[start:end])}: {note.tooltip}"
    return (
        f'<g data-start="{start}" data-end="{end}">'
        + svg.circle(node.x, node.y, NODE, "node-other")
        + svg.circle(node.x, node.y, NODE, "node-score", opacity=note.fill)
        + svg.circle(node.x, node.y, TARGET, "target", tooltip)
        + "</g>"
    )


def _span_tooltip(words: Sequence[str]) -> str:
    """Return the words of a span; for a long span, the first and last ones."""
    ends = (
        words
        if len(words) <= TOOLTIP_WORDS
        else [*words[: TOOLTIP_WORDS // 2], ELLIPSIS, *words[-TOOLTIP_WORDS // 2 :]]
    )
    return " ".join(ends)


def _painted_bars(layout: TreeLayout, full_words: Sequence[str]) -> list[str]:
    """Return the bars with their values, if all of them fit, and their axis."""
    bars = layout.bars
    if not bars:
        return []
    figures = [figure(bar.value, layout.scale) for bar in bars]
    half = max(text_width(shown, TEXT_SIZES["small"]) for shown in figures) / 2 + 2
    has_room = all(abs(after.x - before.x) >= 2 * half for before, after in pairwise(bars))
    elements = []
    for bar, shown in zip(bars, figures, strict=True):
        tooltip = f"{full_words[bar.after - 1]} | {full_words[bar.after]}: {bar.value:.4g}"
        elements.append(svg.rectangle(bar.x - bar.width / 2, bar.top, bar.width, bar.bottom - bar.top, "bar", tooltip))
        if has_room:
            elements.append(svg.text(bar.x, bar.top - 4, shown, "small", "middle"))
    # The axis, on the side where the sentence starts.
    bottom, top = bars[0].bottom, min(bar.top for bar in bars)
    x = layout.width - MARGIN - AXIS + 6 if layout.mirrored else MARGIN + AXIS - 6
    outward = 1 if layout.mirrored else -1
    anchor: Anchor = "start" if layout.mirrored else "end"
    elements.append(svg.text(x + 38 * outward, (top + bottom) / 2 + 3, "distance", "small", "middle", -90))
    elements.append(svg.line(x, top, x, bottom, "axis"))
    for y, value in ((bottom, layout.scale[0]), (top, layout.scale[1])):
        elements.append(svg.line(x, y, x + 4 * outward, y, "axis"))
        elements.append(svg.text(x + 6 * outward, y + 3, figure(value, layout.scale), "small", anchor))
    return elements
