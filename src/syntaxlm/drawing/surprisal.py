"""Surprisals as bars: below the words of a sentence, and of two similar sentences above each other."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from syntaxlm.drawing import svg
from syntaxlm.drawing.layout import LONGEST_WORD, MARGIN
from syntaxlm.drawing.svg import TEXT_SIZES, UNKNOWN, Anchor, Picture, right_to_left, shortened, text_width, visible

COLUMN = 34.0  # pixels: least width of a column, room for a bar's value
BAR_ZONE = 96.0  # pixels: height of a bar of `FULL` bits
FULL = {"words": 20.0, "tags": 10.0, "characters": 8.0}  # bits: one scale for all sentences, so that models compare
TALLEST = 10.0  # bars of `FULL` bits; a picture with a higher bar, as of a word of many tokens, has a scale of its own
BAR = 20.0  # pixels: width of a bar
ABOVE_AXIS = 20.0  # pixels: from the baseline of the words to the axis of the bars
BETWEEN = 54.0  # pixels between the axes of two sentences, for both lines of words
SECOND_LINE = 23.0  # pixels: from the end of a bar to the baseline of what is written below its value
MARKS = "area-6"  # role of the part of a bar that is of punctuation marks
END = "(end)"
END_GAP = 4.0  # pixels: between the words and the end of the sentence


class DrawableSurprisal(Protocol):
    """The surprisal of a word in bits, None if it has none; of the end of the sentence if the word is "".

    Attributes:
        begin: first character of the word in the sentence.
        end: the character after its last.
        in_vocabulary: whether the model knows the word; None: not known.
        surprisal_marks: the part of the surprisal that is of punctuation marks, such as the stop of "boats."; None if
            it is not known.
    """

    @property
    def word(self) -> str: ...
    @property
    def begin(self) -> int: ...
    @property
    def end(self) -> int: ...
    @property
    def surprisal(self) -> float | None: ...
    @property
    def in_vocabulary(self) -> bool | None: ...
    @property
    def surprisal_marks(self) -> float | None: ...


AlignedWords = Sequence[tuple[int | None, int | None]]
"""The aligned words of two sentences: the index in each, None where the other has one more."""


def surprisal_bars(
    rows: Sequence[DrawableSurprisal],
    centres: Sequence[float],
    places: Sequence[tuple[int, int]],
    width: float,
    mirrored: bool,
    full: float,
) -> Picture:
    """Return bars that hang below words, and one for the end of the sentence, beside all words.

    A row may have several words ("did" and "n't" in "didn't"): its bar is in the middle of them. If it also has marks,
    such as the stop of "boats.", their part of the bar has another colour, and is written below that of the word. Rows
    that are not in the tree, as the stop in "boats .", belong to the bar of the word beside them. Those of words, such
    as an emoji, are parts of their own, in the colour of words. An infinite surprisal, of a word with probability 0,
    has a number, but no bar.

    Args:
        centres: x of each word.
        places: start and end of each word in the sentence.
        width: the width of the picture of the words.
        mirrored: whether the first word is on the right; then a wider picture is wider on its left side.
        full: bits of a bar of full height.
    """
    rows = _with_marks_beside([row for row in rows if row.surprisal is not None], places)
    bits = [row.surprisal or 0.0 for row in rows]
    full = _scale(full, bits)
    text = f"surprisal in bits, {sum(bits):.1f} in total"
    end_width = text_width(END, TEXT_SIZES["note"])
    widest = max(width, text_width(text, TEXT_SIZES["note"]) + 2 * MARGIN)
    if any(not row.word for row in rows):
        widest = max(widest, width + end_width + END_GAP)
    moved = widest - width if mirrored else 0.0
    # The end of the sentence is behind the last word.
    behind = moved + MARGIN - END_GAP - end_width / 2 if mirrored else width - MARGIN + END_GAP + end_width / 2
    elements = [svg.line(MARGIN, MARGIN, widest - MARGIN, MARGIN, "axis")]
    lowest = 0.0
    for row, value in zip(rows, bits, strict=True):
        below = [centres[place] for place in _places_of(row, places)]
        if not below and row.word:
            continue
        x = moved + (below[0] + below[-1]) / 2 if below else behind
        marks, others = row.surprisal_marks or 0.0, _others_of(row)
        signs = _marks(row, [*places, *((other.begin, other.end) for other in others)])
        if marks == value and not signs:  # the marks are words of the tree
            marks = 0.0
        elements += _bar(row, value, x, MARGIN, full, shown=value - marks - sum(map(_bits_of_word, others)))
        notes = [f"+{_bits_of_word(other):.1f} {other.word}" for other in others]
        if marks:
            notes.append(f"+{marks:.1f} {signs}".rstrip())
        if below and notes and math.isfinite(value):
            note = " ".join(notes)
            elements.append(svg.text(x, MARGIN + BAR_ZONE * value / full + SECOND_LINE, note, "small", "middle"))
            lowest = max(lowest, value)
        if not below:
            elements.append(svg.text(behind, MARGIN - ABOVE_AXIS, END, "note", "middle"))
    longest = BAR_ZONE * _largest(bits) / full
    height = MARGIN + max(longest + 32, lowest and BAR_ZONE * lowest / full + SECOND_LINE + 18)
    anchor: Anchor = "end" if mirrored else "start"
    elements.append(svg.text(widest - MARGIN if mirrored else MARGIN, height, text, "note", anchor))
    values = ", ".join(f"{row.word or END} {value:.1f}" for row, value in zip(rows, bits, strict=True))
    return Picture(widest, height + MARGIN, tuple(elements), "Surprisal", f"Surprisal in bits: {values}.")


def pair_picture(
    first: Sequence[DrawableSurprisal], second: Sequence[DrawableSurprisal], columns: AlignedWords, decisive: int | None
) -> Picture:
    """Return two similar sentences: the first with rising bars, below it the second with hanging bars.

    Args:
        columns: the alignment of the words.
        decisive: index of the column that is marked.
    """
    most = [_largest(row.surprisal or 0.0 for row in rows) for rows in (first, second)]
    full = _scale(FULL["words"], most)
    aligned = [
        (None if above is None else first[above], None if below is None else second[below]) for above, below in columns
    ]
    widths = [
        max(COLUMN, *(text_width(_name(row), TEXT_SIZES["word"]) + 14 for row in rows if row is not None))
        for rows in aligned
    ]
    total = sum(widths) + 2 * MARGIN
    axis = MARGIN + 16 + BAR_ZONE * most[0] / full  # of the first sentence
    foot = axis + BETWEEN + BAR_ZONE * most[1] / full + 16
    mirrored = right_to_left([row.word for row in first])
    elements: list[str] = []
    left = MARGIN
    for number, (rows, width) in enumerate(zip(aligned, widths, strict=True)):
        x = total - left - width / 2 if mirrored else left + width / 2
        if number == decisive:
            elements.insert(0, svg.rectangle(x - width / 2, MARGIN, width, foot - MARGIN, "bar", opacity=0.25))
        for row, baseline, y in zip(rows, (axis + 20, axis + 44), (axis, axis + BETWEEN), strict=True):
            if row is not None:
                elements.append(svg.text(x, baseline, _name(row), _role(row), "middle", within_right_to_left=mirrored))
            if row is not None and row.surprisal is not None:
                elements += _bar(row, row.surprisal, x, y, full, rises=y == axis)
        left += width
    elements += [svg.line(MARGIN, y, total - MARGIN, y, "axis") for y in (axis, axis + BETWEEN)]
    sentences = [" ".join(row.word for row in rows if row.word) for rows in (first, second)]
    return Picture(total, foot + MARGIN, tuple(elements), f"Surprisal: {sentences[0]} / {sentences[1]}")


def _scale(full: float, bits: Sequence[float]) -> float:
    """Return the bits of a bar of full height: `full`, unless a bar would be too high for a picture."""
    return max(full, _largest(bits) / TALLEST)


def _largest(bits: Iterable[float]) -> float:
    """Return the largest finite surprisal, 0 without one."""
    return max(filter(math.isfinite, bits), default=0.0)


def _places_of(row: DrawableSurprisal, places: Sequence[tuple[int, int]]) -> list[int]:
    """Return the numbers of the words that a row has characters of."""
    return [number for number, (start, end) in enumerate(places) if start < row.end and end > row.begin]


@dataclass(frozen=True)
class _Joined:
    """A word and what is beside it.

    Attributes:
        others: the words beside it, which are not in the tree.
    """

    word: str
    begin: int
    end: int
    surprisal: float | None
    in_vocabulary: bool | None
    surprisal_marks: float | None
    others: tuple[DrawableSurprisal, ...]


def _others_of(row: DrawableSurprisal) -> tuple[DrawableSurprisal, ...]:
    return row.others if isinstance(row, _Joined) else ()


def _bits_of_word(row: DrawableSurprisal) -> float:
    """Return the surprisal of a row without that of its marks."""
    return (row.surprisal or 0.0) - (row.surprisal_marks or 0.0)


def _with_marks_beside(rows: Sequence[DrawableSurprisal], places: Sequence[tuple[int, int]]) -> list[DrawableSurprisal]:
    """Join the rows that are in none of the words to the row before them, or to the first word."""
    joined: list[DrawableSurprisal] = []
    for row in rows:
        is_word = bool(_places_of(row, places))
        if row.word and joined and not (is_word and _places_of(joined[-1], places)):
            before = joined.pop()
            (marks, others), (own_marks, own_others) = _beside(before, places), _beside(row, places)
            text = before.word + " " * (row.begin - before.end) + row.word
            bits = (before.surprisal or 0.0) + (row.surprisal or 0.0)
            is_known = (row if is_word else before).in_vocabulary
            row = _Joined(text, before.begin, row.end, bits, is_known, marks + own_marks, (*others, *own_others))
        joined.append(row)
    return joined


def _beside(row: DrawableSurprisal, places: Sequence[tuple[int, int]]) -> tuple[float, tuple[DrawableSurprisal, ...]]:
    """Return the bits of the marks of a row, and the words of it that are in none of the words of the tree."""
    if isinstance(row, _Joined) or _places_of(row, places):
        return row.surprisal_marks or 0.0, _others_of(row)
    if row.surprisal_marks in (None, row.surprisal):  # a row of marks only, or of which no more is known
        return row.surprisal or 0.0, ()
    return row.surprisal_marks or 0.0, (row,)


def _marks(row: DrawableSurprisal, places: Sequence[tuple[int, int]]) -> str:
    """Return the characters of a row that are in none of the words."""
    return "".join(
        sign
        for place, sign in enumerate(row.word, row.begin)
        if not sign.isspace() and not any(start <= place < end for start, end in places)
    )


def _bar(
    row: DrawableSurprisal,
    bits: float,
    x: float,
    y: float,
    full: float,
    rises: bool = False,
    shown: float | None = None,
) -> list[str]:
    """Return a bar that rises or hangs from y, the part of punctuation marks at its end, and its value.

    Args:
        shown: the value that is written; by default all bits.
    """
    marks = row.surprisal_marks or 0.0
    others = _others_of(row)
    tooltip = f"{row.word or END}: {bits:.2f} bits"
    if marks:
        tooltip += f", {marks:.2f} of them for punctuation marks"
    if row.in_vocabulary is False:
        tooltip += f", {UNKNOWN}"
    if math.isinf(bits):
        return [svg.text(x, y - 4 if rises else y + 11, f"{bits:.1f}", "small", "middle", title=tooltip)]
    length = max(1.0, BAR_ZONE * bits / full)
    of_marks = min(length, BAR_ZONE * marks / full)

    # The part of the word is at the axis, then other words, then marks.
    left = x - BAR / 2
    of_word = length - of_marks
    of_others = [min(of_word, BAR_ZONE * _bits_of_word(other) / full) for other in others]
    if rises:
        word_top, marks_top, baseline = y - of_word, y - length, y - length - 4
    else:
        word_top, marks_top, baseline = y, y + of_word, y + length + 11
    of_row = max(0.0, of_word - sum(of_others))
    elements = [svg.rectangle(left, word_top, BAR, of_row, "area-1", tooltip, _opacity(row))]
    top = word_top + of_row
    for other, part in zip(others, of_others, strict=True):
        about = f"{other.word}: {_bits_of_word(other):.2f} bits" + f", {UNKNOWN}" * (other.in_vocabulary is False)
        elements.append(svg.rectangle(left, top, BAR, part, "area-1", about, _opacity(other)))
        top += part
    if of_marks:
        elements.append(svg.rectangle(left, marks_top, BAR, of_marks, MARKS, tooltip))
    elements.append(svg.text(x, baseline, f"{bits if shown is None else shown:.1f}", "small", "middle"))
    return elements


def _opacity(row: DrawableSurprisal) -> float | None:
    return 0.35 if row.in_vocabulary is False else None


def _role(row: DrawableSurprisal) -> str:
    if not row.word:
        return "note"
    return "unknown" if row.in_vocabulary is False else "word"


def _name(row: DrawableSurprisal) -> str:
    return shortened(visible(row.word), LONGEST_WORD) if row.word else END
