"""What a model believes about the tree of a sentence after each of its words: a row of constituents for each word."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

from syntaxlm.core.arrays import Numbers
from syntaxlm.drawing import svg
from syntaxlm.drawing.layout import LONGEST_WORD, MARGIN
from syntaxlm.drawing.surprisal import END
from syntaxlm.drawing.svg import TEXT_SIZES, UNKNOWN, Picture, right_to_left, shortened, text_width, visible

SHOWN = 0.2  # probability: less probable constituents are not drawn
CHANGE = 0.1  # of a probability, which is marked
DARK = 0.72  # more probable constituents have their number in the background's colour
COLUMN = 46.0  # pixels: least width of a word's column, room for "100→85"
BAR = 13.0  # pixels: height of a constituent
LEVEL = 17.0  # pixels from one constituent to the next above it
WORDS_LINE = 20.0  # pixels: height of the words of a row
ROW_GAP = 12.0  # pixels between two rows
POINT = 9.0  # pixels: the pointed end of an open constituent
MEASURE = 58.0  # pixels: the longest bar of surprisals and of belief updates
MEASURE_COLUMN = MEASURE + 46.0  # pixels: with its number


@dataclass(frozen=True, eq=False)
class SentenceBeliefs:
    """What a model believes about the tree of a sentence of n words, after each word and at the end.

    Attributes:
        words: as written.
        unknown: one per word, whether it is missing from the model's vocabulary.
        ended: (n + 1, n, n), the probability that a span is a constituent, by first and last word.
        open_from: (n, n), the probability that a constituent begins at a word and ends after the last one read.
        surprisal: (n + 1,), in bits.
        update: (n + 1,), belief update in bits.
        model: whose beliefs these are.
    """

    words: Sequence[str]
    unknown: Sequence[bool]
    ended: Numbers
    open_from: Numbers
    surprisal: Numbers
    update: Numbers
    model: str


class _Belief(NamedTuple):
    """A constituent in a row.

    Attributes:
        first: its first word.
        last: its last word; of an open one, the last one read.
        probability: after the word of the row.
        before: after the word before, None if it could not be a constituent then.
    """

    first: int
    last: int
    is_open: bool
    probability: float
    before: float | None

    @property
    def change(self) -> float:
        """The change by the word. An open constituent that becomes less probable has usually ended: no change."""
        if self.before is None:
            return 0.0
        change = self.probability - self.before
        return max(0.0, change) if self.is_open else change

    @property
    def role(self) -> str:
        if abs(self.change) < CHANGE:
            return "cell"
        return "rose" if self.change > 0 else "fell"

    @property
    def number(self) -> str:
        """The probability in percent, after that before the word if it has changed."""
        after = f"{100 * self.probability:.0f}"
        return after if self.role == "cell" else f"{100 * (self.before or 0):.0f}→{after}"


def beliefs_picture(beliefs: SentenceBeliefs) -> Picture:
    """Return a row for each word, with the words read so far, and above them the constituents that are believed in.

    Constituents that end later are pointed. What becomes more or less probable by the word is marked. On the right
    are the surprisal of the word and its belief update.
    """
    words = [shortened(visible(word), LONGEST_WORD) for word in beliefs.words]
    widths = [max(COLUMN, text_width(word, TEXT_SIZES["word"]) + 12) for word in words]
    edges = list(accumulate(widths, initial=MARGIN))
    measures = edges[-1] + text_width(END, TEXT_SIZES["note"]) + 3 * MARGIN
    legend, legend_width = _legend(beliefs)
    width = max(measures + 2 * MEASURE_COLUMN + MARGIN, legend_width)
    drawn = _Drawn(edges, width, right_to_left(words))

    elements = [
        drawn.text(measures + place * MEASURE_COLUMN, MARGIN + 12, name, "heading")
        for place, name in enumerate(("surprisal", "belief update"))
    ]
    foot = MARGIN + 14.0
    for row in range(len(words) + 1):
        levels = _levels(_believed(beliefs, row))
        top = foot + ROW_GAP
        foot = top + LEVEL * len(levels) + WORDS_LINE
        elements.append(drawn.line(MARGIN, foot + ROW_GAP / 2, measures + 2 * MEASURE_COLUMN, "guide"))
        for level, constituents in enumerate(levels):
            y = foot - WORDS_LINE - (level + 1) * LEVEL
            for belief in constituents:
                elements += drawn.constituent(belief, y, beliefs.words)
        elements += _words(beliefs, words, row, drawn, foot - 5)
        for place, values in enumerate((beliefs.surprisal, beliefs.update)):
            x = measures + place * MEASURE_COLUMN
            if row < len(words):
                elements += drawn.measure(x, foot - 5, float(values[row]), float(values[:-1].max()))
            else:  # where all that is open ends
                elements.append(drawn.text(x, foot - 5, f"{values[row]:.2f}", "small"))

    foot += 1.5 * ROW_GAP
    left = width - legend_width if drawn.mirrored else 0.0
    elements.append(f'<g transform="translate({svg.number(left)} {svg.number(foot)})">{"".join(legend)}</g>')
    title = f"Beliefs after each word: {' '.join(beliefs.words)}"
    return Picture(width, foot + 54 + MARGIN, tuple(elements), title, _description(beliefs))


def _believed(beliefs: SentenceBeliefs, row: int) -> Iterator[_Belief]:
    """Yield the constituents to draw after a word, or after the end. The whole sentence is drawn when it has ended."""
    size = len(beliefs.words)
    after, before = beliefs.ended[row], beliefs.ended[row - 1]
    for first in range(size):
        for last in range(first + 1, min(row + 1, size)):
            could_be = last < min(row, size - 1)
            earlier = float(before[first, last]) if could_be else None
            belief = _Belief(first, last, False, float(after[first, last]), earlier)
            if belief.probability >= SHOWN or (earlier or 0.0) >= SHOWN:
                yield belief
    if row < size:
        for first in range(1, row + 1):
            earlier = float(beliefs.open_from[row - 1, first]) if first < row else None
            belief = _Belief(first, row, True, float(beliefs.open_from[row, first]), earlier)
            if belief.probability >= SHOWN:
                yield belief


def _levels(constituents: Iterator[_Belief]) -> list[list[_Belief]]:
    """Return the constituents by level above the words: the shorter, the lower, and none above the same word twice."""
    levels: list[list[_Belief]] = []
    for belief in sorted(constituents, key=lambda belief: (belief.last - belief.first, belief.is_open, belief.first)):
        for level in levels:
            if all(belief.last < other.first or other.last < belief.first for other in level):
                level.append(belief)
                break
        else:
            levels.append([belief])
    return levels


def _words(beliefs: SentenceBeliefs, words: Sequence[str], row: int, drawn: _Drawn, y: float) -> Iterator[str]:
    """Yield the words read so far, the last of which is in ink, the others are faint."""
    for place, word in enumerate(words[: row + 1]):
        role = "word" if place == row else "earlier"
        note = f"{beliefs.words[place]}: {UNKNOWN}" if beliefs.unknown[place] else ""
        middle = (drawn.edges[place] + drawn.edges[place + 1]) / 2
        yield drawn.text(middle, y, word, "unknown" if note else role, "middle", note)
    if row == len(words):
        yield drawn.text(drawn.edges[-1] + MARGIN, y, END, "note")


@dataclass(frozen=True)
class _Drawn:
    """The columns of the words, and elements in them, mirrored for scripts from right to left.

    Attributes:
        edges: (n + 1,), the edges of the columns.
        width: of the picture.
    """

    edges: Sequence[float]
    width: float
    mirrored: bool

    def across(self, x: float) -> float:
        return self.width - x if self.mirrored else x

    def text(self, x: float, y: float, content: str, role: str, anchor: svg.Anchor = "start", title: str = "") -> str:
        if self.mirrored and anchor == "start":
            anchor = "end"
        return svg.text(self.across(x), y, content, role, anchor, 0, title, self.mirrored)

    def line(self, start: float, y: float, end: float, role: str) -> str:
        return svg.line(self.across(start), y, self.across(end), y, role)

    def constituent(self, belief: _Belief, y: float, words: Sequence[str]) -> Iterator[str]:
        """Yield a bar over the words of a constituent, and its probability."""
        left, right = self.edges[belief.first] + 3, self.edges[belief.last + 1] - 3
        tooltip = f"{' '.join(words[belief.first : belief.last + 1])}{' ...' * belief.is_open}: {belief.number}%"
        yield self.bar(left, right, y, belief.role, belief.is_open, belief.probability, tooltip)
        role = "inverse" if belief.probability > DARK else "figure"
        # In a text from right to left, the numbers before and after the word would change places around their arrow.
        yield svg.text(self.across((left + right) / 2), y + BAR - 3, belief.number, role, "middle")

    def bar(
        self, left: float, right: float, y: float, role: str, is_pointed: bool, opacity: float, title: str = ""
    ) -> str:
        """Return a bar of a strength; a pointed one extends over the next column."""
        ends = [(left, y), (right, y), (right, y + BAR), (left, y + BAR)]
        if is_pointed:
            ends[2:2] = [(right + POINT, y + BAR / 2)]
        steps: list[str | float] = []
        for place, (x, height) in enumerate(ends):
            steps += ["L" if place else "M", self.across(x), height]
        return svg.path([*steps, "Z"], role, title, opacity)

    def measure(self, x: float, y: float, value: float, largest: float) -> Iterator[str]:
        """Yield a bar, which has the full length for the largest value, and its number."""
        length = MEASURE * value / max(largest, 1e-9)
        left = min(self.across(x), self.across(x + length))
        yield svg.rectangle(left, y - 10, length, 11, "bar")
        yield self.text(x + length + 5, y, f"{value:.2f}", "small")


def _legend(beliefs: SentenceBeliefs) -> tuple[list[str], float]:
    """Return what the bars mean, and the width."""
    mirrored = right_to_left(beliefs.words)
    samples = (
        ("cell", False, "has ended"),
        ("cell", True, "has begun, ends later"),
        ("rose", False, f"rose by {100 * CHANGE:.0f} or more"),
        ("fell", False, "fell"),
    )
    texts = [name for _, _, name in samples]
    notes = (
        f"Constituents with a probability of at least {100 * SHOWN:.0f}% before or after the word. Measures in bits.",
        f"{beliefs.model}.",
    )
    length = sum(text_width(text, TEXT_SIZES["note"]) + 50 for text in texts)
    width = max(length, *(text_width(note, TEXT_SIZES["note"]) for note in notes)) + 2 * MARGIN
    drawn = _Drawn((), width, mirrored)
    parts = [drawn.text(MARGIN, 32 + 18 * line, note, "note") for line, note in enumerate(notes)]
    x = MARGIN
    for role, is_open, text in samples:
        parts.append(drawn.bar(x, x + 22, 0, role, is_open, 0.5))
        parts.append(drawn.text(x + 34, 11, text, "note"))
        x += text_width(text, TEXT_SIZES["note"]) + 50
    return parts, width


def _description(beliefs: SentenceBeliefs) -> str:
    """Return all rows as text: each word, and after it the constituents with their probabilities in percent."""
    lines = []
    for row, word in enumerate([*beliefs.words, END]):
        constituents = [
            f"{' '.join(beliefs.words[belief.first : belief.last + 1])}{' ...' * belief.is_open} {belief.number}"
            for belief in _believed(beliefs, row)
        ]
        lines.append(f"{word}: {', '.join(constituents) or 'none'}.")
    return " ".join(lines)
