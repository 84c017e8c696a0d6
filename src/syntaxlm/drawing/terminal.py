"""Constituency trees in a terminal, top down, in box characters."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from syntaxlm.core.errors import printable
from syntaxlm.drawing.layout import INDUCED_LABEL, DrawableTree
from syntaxlm.drawing.svg import UNKNOWN, right_to_left

DEEPEST = 200  # constituents, of which there are more than words only in chains of single children
WIDEST = 40  # words; wider trees do not fit a terminal
NARROWEST = 3  # characters: least width of a column
UNKNOWN_MARK = "*"
ISOLATE = "\u2068"  # starts text in its own direction, without effect on what is beside it
END_OF_ISOLATE = "\u2069"
_LONGEST_LINE = 16  # characters; longer texts are broken, after a word if one ends there
_LINES = re.compile(r"(.{12,16}\b\W*|.{16})")

# By whether a character of a horizontal line has a parent above and a child below.
_CROSSINGS = {(False, False): "─", (False, True): "┬", (True, False): "┴", (True, True): "┼"}


@dataclass(eq=False)
class _Cell:
    """A word, tag or constituent in a grid.

    Attributes:
        column: place among the columns of the grid, of which words have every second one.
        height: rows below it.
    """

    text: str
    column: int
    height: int = 0
    children: list[_Cell] = field(default_factory=list)


def draw_tree(tree: DrawableTree, known: Sequence[bool] = ()) -> str:
    """Return a tree in box characters; for more than 40 words or 200 constituents, a note instead.

    Args:
        known: whether a model's vocabulary has each word; the others are marked with *. Empty: no marks.
    """
    if len(tree.constituents) > DEEPEST:
        return f"(a tree of {len(tree.constituents)} constituents is too deep to draw here)"
    if len(tree.words) > WIDEST:
        return f"(a tree over {len(tree.words)} words is too wide to draw here)"
    if not tree.words:
        return ""
    words = tree.words
    if known:
        words = [word if is_known else word + UNKNOWN_MARK for word, is_known in zip(words, known, strict=True)]
    cells = _cells(tree, words)
    texts = {}
    for cell in cells:
        text = printable(cell.text)  # words must not control the terminal
        broken = _LINES.sub(r"\1\n", text).strip() if len(text) > _LONGEST_LINE else text
        texts[cell] = list(map(_in_columns, broken.split("\n")))

    # The width of each column, its left end, and its middle. In a right-to-left script, the first word is on the right.
    widths = dict.fromkeys(sorted({cell.column for cell in cells}), NARROWEST)
    for cell in cells:
        widths[cell.column] = max(widths[cell.column], *map(len, texts[cell]))
    lefts = {}
    total = 0
    mirrored = right_to_left(tree.words)
    for column, width in reversed(widths.items()) if mirrored else widths.items():
        lefts[column] = total
        total += width + 1
    middles = {column: left + (widths[column] - 1) // 2 for column, left in lefts.items()}

    lines = []
    for height in range(cells[-1].height, -1, -1):  # lines of texts, then, above the last row, a line of branches
        row = [cell for cell in cells if cell.height == height]
        blank = [" "] * total
        for cell in cells:
            if height < cell.height:
                for child in cell.children:
                    if child.height < height:  # its branch passes this row
                        blank[middles[child.column]] = "│"
        tall = max(len(texts[cell]) for cell in row)
        block = [blank.copy() for _ in range(tall)]
        for cell in row:
            left = lefts[cell.column]
            width = widths[cell.column]
            pillar = [["│"]] * (tall - len(texts[cell])) if cell.children else []
            for line, columns in zip(block, [*texts[cell], *pillar], strict=False):
                line[left : left + width] = _centred(_isolated(columns) if mirrored else columns, width)
        lines += block
        if height:
            for cell in row:  # a horizontal line from the first to the last child
                parent = middles[cell.column]
                children = [middles[child.column] for child in cell.children]
                low = min(children)
                high = max(children)
                for place in range(low + 1, high):
                    blank[place] = _CROSSINGS[place == parent, place in children]
                blank[low], blank[high] = ("│", "│") if low == high else ("┌", "┐")
            lines.append(blank)
    note = "" if all(known) else f"\n{UNKNOWN_MARK} {UNKNOWN}"
    return "\n".join("".join(line).rstrip() for line in lines) + note


def _in_columns(text: str) -> list[str]:
    """Return what each column of a terminal shows of a text; the second column of a wide character shows nothing more.

    Characters without width, such as combining marks, are in the column of the character before them.
    """
    if text.isascii() and text.isprintable():  # each character has a column; rich takes time to import
        return list(text)
    from rich.cells import cell_len

    columns: list[str] = []
    for character in text:
        width = cell_len(character)
        if width or not columns:
            columns += [character, *[""] * (width - 1)]
        else:
            columns[-1] += character
    return columns


def _centred(columns: Sequence[str], width: int) -> list[str]:
    """Return columns in the middle of more columns, as `str.center` does."""
    free = width - len(columns)
    before = free // 2 + (free & width & 1)
    return [*[" "] * before, *columns, *[" "] * (free - before)]


def _isolated(columns: Sequence[str]) -> list[str]:
    """Return the columns of a text, which a terminal must not reorder together with its neighbours."""
    isolated = list(columns)
    places = [place for place, character in enumerate(columns) if not character.isspace()]
    if places and not "".join(columns).isascii():
        isolated[places[0]] = ISOLATE + isolated[places[0]]
        isolated[places[-1]] += END_OF_ISOLATE
    return isolated


def _cells(tree: DrawableTree, words: Sequence[str]) -> list[_Cell]:
    """Return all cells, the outermost one last. A tree without a constituent over all words gets one."""
    cells = [_Cell(word, 2 * place) for place, word in enumerate(words)]
    tops = list(cells)  # the outermost cell so far above each word
    for place, tag in enumerate(tree.tags):
        if tag:
            tops[place] = _Cell(tag, 2 * place, 1, [cells[place]])
            cells.append(tops[place])
    spans = [span for span in tree.constituents if span[1] < span[2]]
    if (not spans or spans[0][1:] != (0, len(words))) and not (len(words) == 1 and tree.tags[0]):
        spans.insert(0, (INDUCED_LABEL, 0, len(words)))
    for label, start, end in reversed(spans):  # children come after their parents
        children = list(dict.fromkeys(tops[start:end]))
        columns = [child.column for child in children]
        low = min(columns)
        high = max(columns)
        column = start + end - 1  # the middle of its words if that is between its children, else theirs
        if not low < column < high:
            column = sum(columns) // len(columns)
        if high - low > 4 and column % 2:  # a column of words, if there is room
            column += -1 if low < column - 1 < high else 1
        cells.append(_Cell(label, column, 1 + max(child.height for child in children), children))
        tops[start:end] = [cells[-1]] * (end - start)
    return cells
