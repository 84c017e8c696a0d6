"""Surprisals in a terminal: a table of the words of a sentence, with a bar beside each word."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from syntaxlm.core.errors import printable
from syntaxlm.drawing.surprisal import DrawableSurprisal
from syntaxlm.drawing.svg import UNKNOWN
from syntaxlm.drawing.terminal import UNKNOWN_MARK
from syntaxlm.reports.tables import ReportTable, Row

FULL_WIDTH = 20  # columns of a bar that is full on the scale of pictures
NARROWEST = 8  # columns: a terminal with less room has no bars
BETWEEN = 3  # columns between the table and the bars
WORD, MARKS = "█░"  # signs of the part of the word, and of its punctuation marks


def draw_surprisals(
    words: Sequence[DrawableSurprisal], rows: Sequence[Row], formats: Mapping[str, str], full: float, width: int,
    measure: str = "surprisal",
) -> str:  # fmt: skip
    """Return a table with a bar of the surprisal beside each row, the scale of the bars, and the total surprisal.

    The part of punctuation marks, such as the stop of "boats.", is drawn with another sign. Unknown words are marked
    with *. A sentence whose bars are too long for the terminal has a scale of its own. An infinite surprisal, of a word
    with probability 0, has no bar.

    Args:
        words: the words of a sentence, and its end.
        rows: the row of each word, with the column `word`.
        formats: the columns that are shown, with their formats, see `ReportTable`.
        full: the surprisal of a bar of `FULL_WIDTH` columns, in bits.
        width: columns of the terminal.
        measure: the name of what is drawn, in bits.
    """
    from rich.cells import cell_len

    is_unknown = [word.in_vocabulary is False for word in words]
    shown = [
        {**row, "word": row["word"] + UNKNOWN_MARK * unknown} for row, unknown in zip(rows, is_unknown, strict=True)
    ]
    table = ReportTable(formats, [[row[name] for name in formats] for row in shown], missing="")
    lines = table.text().split("\n")
    bits = [word.surprisal or 0.0 for word in words]
    room = width - BETWEEN - max(map(cell_len, lines))
    notes = [f"{measure} in bits, {sum(bits):.1f} in total"]
    if room >= NARROWEST and (largest := max(filter(math.isfinite, bits), default=0.0)):
        per_bit = min(FULL_WIDTH / full, room / largest)
        bars = [_bar(word, per_bit) for word in words]
        columns = {**formats, "": ""}
        lines = (
            replace(table, headings=columns, rows=[[*row, bar] for row, bar in zip(table.rows, bars, strict=True)])
            .text()
            .split("\n")
        )
        scale = f"{1 / per_bit:.2g}"
        notes[0] += f", {WORD} is {scale} bit{'s' * (scale != '1')}"
        notes += [f"{MARKS} punctuation marks"] if any(MARKS in bar for bar in bars) else []
    notes += [f"{UNKNOWN_MARK} {UNKNOWN}"] if any(is_unknown) else []
    return "\n".join(map(printable, [*lines, *notes]))


def _bar(word: DrawableSurprisal, per_bit: float) -> str:
    """Return a bar of `per_bit` signs per bit."""
    bits = word.surprisal or 0.0
    if math.isinf(bits):
        return ""
    of_word = round(per_bit * (bits - (word.surprisal_marks or 0.0)))
    return WORD * of_word + MARKS * (round(per_bit * bits) - of_word)
