"""Constituency trees in a terminal, top down, in box characters."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from syntaxlm.drawing.layout import INDUCED_LABEL, DrawableTree, parents_of
from syntaxlm.drawing.svg import UNKNOWN, UNKNOWN_MARK, marked

DEEPEST = 200  # constituents, of which there are more than words only in chains of single children
WIDEST = 40  # words; wider trees do not fit a terminal
NARROWEST = 3  # characters: least width of a column
# Texts of more than 16 characters are broken, after a word if one ends there.
_BROKEN = re.compile(r"(.{12,16}\b\W*|.{16})")
_LONGEST = 16

# By whether a character of a horizontal line has a parent above and a child below.
_CROSSINGS = {(False, False): "─", (False, True): "┬", (True, False): "┴", (True, True): "┼"}


def draw_tree(tree: DrawableTree, known: Sequence[bool] = ()) -> str:
    """Return a tree in box characters; for more than 40 words or 200 constituents, a note instead.

    known: whether a model's vocabulary has each word; the others are marked with *. Empty: no marks.
    """
    if len(tree.constituents) > DEEPEST:
        return f"(a tree of {len(tree.constituents)} constituents is too deep to draw here)"
    if len(tree.words) > WIDEST:
        return f"(a tree over {len(tree.words)} words is too wide to draw here)"
    if not tree.words:
        return ""
    root = _root(tree, marked(tree.words, known) if known else tree.words)
    nodes = [root]
    for node in nodes:  # grows during the loop
        nodes += node.children
    note = "" if all(known) else f"\n{UNKNOWN_MARK} {UNKNOWN}"
    return "\n".join(_lines(nodes)) + note


@dataclass(eq=False)
class _Cell:
    """A word, tag or constituent in a grid.

    column: place among the columns of the grid, of which words have every second one.  height: rows below it.
    """

    text: list[str]
    column: int = 0
    height: int = 0
    children: list[_Cell] = field(default_factory=list)

    def adopt(self, child: _Cell) -> None:
        self.children.append(child)
        self.height = max(self.height, child.height + 1)


def _root(tree: DrawableTree, words: Sequence[str]) -> _Cell:
    """Return the outermost node, with all others as descendants. A tree without one over all words gets one."""
    spans = [span for span in tree.constituents if span[1] < span[2]]
    leaves = []
    for place, (word, tag) in enumerate(zip(words, tree.tags, strict=True)):
        leaf = _Cell(_broken(word), 2 * place)
        leaves.append(leaf)
        if tag:
            leaves[-1] = _Cell(_broken(tag), leaf.column)
            leaves[-1].adopt(leaf)
    if not spans or spans[0][1:] != (0, len(leaves)):
        if len(leaves) == 1 and tree.tags[0]:
            return leaves[0]
        spans.insert(0, (INDUCED_LABEL, 0, len(leaves)))
    parents, word_parents = parents_of(spans, len(leaves))
    cells = [_Cell(_broken(label)) for label, _, _ in spans]
    for leaf, parent in zip(leaves, word_parents, strict=True):
        cells[parent].adopt(leaf)
    for place in reversed(range(len(spans))):  # children come after their parents
        _, start, end = spans[place]
        cells[place].column = _column(start, end, [child.column for child in cells[place].children])
        if place:
            cells[parents[place]].adopt(cells[place])
    return cells[0]


def _broken(text: str) -> list[str]:
    """Return the lines of a text."""
    return (_BROKEN.sub(r"\1\n", text).strip() if len(text) > _LONGEST else text).split("\n")


def _column(start: int, end: int, columns: Sequence[int]) -> int:
    """Return the column of a constituent: the middle of its words if that is between its children, else theirs."""
    low, high = min(columns), max(columns)
    if low == high:
        return low
    middle = start + end - 1
    if not low < middle < high:
        middle = sum(columns) // len(columns)
    if high - low > 4 and middle % 2:  # a column of words, if there is room
        middle -= 1
        if not low < middle < high:
            middle += 2
    return middle


def _lines(nodes: Sequence[_Cell]) -> list[str]:
    """Return the grid, from top to bottom: for each height, a line of branches (below the first) and lines of texts."""
    widths = dict.fromkeys(sorted({node.column for node in nodes}), NARROWEST)
    for node in nodes:
        widths[node.column] = max(widths[node.column], *map(len, node.text))
    lefts, total = {}, 0
    for column, width in widths.items():
        lefts[column] = total
        total += width + 1
    middles = {column: left + (widths[column] - 1) // 2 for column, left in lefts.items()}

    lines = []
    for height in range(nodes[0].height, -1, -1):
        row = [node for node in nodes if node.height == height]
        passed = [
            middles[child.column] for node in nodes for child in node.children if child.height < height < node.height
        ]
        tall = max(len(node.text) for node in row)
        block = [_blank(total, passed) for _ in range(tall)]
        for node in row:
            left, width = lefts[node.column], widths[node.column]
            pillar = ["│".center(width)] * (tall - len(node.text)) if node.children else []
            for line, text in zip(block, [*node.text, *pillar], strict=False):
                line[left : left + width] = text.center(width)
        lines += block
        if height:
            branches = _blank(total, passed)
            for node in row:  # a horizontal line from the first to the last child
                parent, children = middles[node.column], [middles[child.column] for child in node.children]
                low, high = min(children), max(children)
                if low == high:
                    branches[low] = "│"
                    continue
                for place in range(low + 1, high):
                    branches[place] = _CROSSINGS[place == parent, place in children]
                branches[low], branches[high] = "┌", "┐"
            lines.append(branches)
    return ["".join(line).rstrip() for line in lines]


def _blank(width: int, passed: Sequence[int]) -> list[str]:
    """Return an empty line, with a vertical bar wherever a branch passes."""
    line = [" "] * width
    for place in passed:
        line[place] = "│"
    return line
