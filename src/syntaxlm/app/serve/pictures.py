"""Pictures of the page: a tree with surprisal bars under its words, and a minimal pair word by word."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from syntaxlm.api.results import SentenceSurprisal
from syntaxlm.app.serve.pairs import Column
from syntaxlm.drawing import svg
from syntaxlm.drawing.layout import COLUMN, LONGEST_WORD, MARGIN, Span, lay_out
from syntaxlm.drawing.sentence import Analysis, Drawing
from syntaxlm.drawing.svg import TEXT_SIZES, UNKNOWN, Picture, right_to_left, shortened, text_width, visible
from syntaxlm.drawing.tree import SpanNote, tree_picture
from syntaxlm.parsing.parse import Parse
from syntaxlm.scoring.surprisal import WordSurprisal
from syntaxlm.trees.tree import Tree

BAR_ZONE = 96.0  # pixels: height of a bar of `FULL` bits
FULL = {"words": 20.0, "tags": 10.0, "characters": 8.0}  # bits: one scale for all sentences, so that models compare
BAR = 20.0  # pixels: width of a bar
ABOVE_AXIS = 20.0  # pixels: from the baseline of the words to the axis of the bars
SURPRISAL = "area-1"  # role of the bars
LARGEST_CHART = 40  # words; charts of longer sentences are not drawn
END = "(end)"


def sentence_picture(
    sentence: str, parse: Parse | None, surprisal: SentenceSurprisal | None, units: str = "words"
) -> Picture | None:
    """Return the tree of a sentence, its distances, its words, and the surprisal of each word; None without words.

    parse, surprisal: None if the model does not parse, or gives no surprisals. units: what the model reads.
    """
    words = parse.words if parse is not None else [sentence[row.begin : row.end] for row in _read(surprisal)]
    if not words:
        return None
    tree = parse.tree if parse else Tree(tuple(words), ("",) * len(words), ())
    distances = (parse.distances or None) if parse else None
    known = parse.known if parse else [row.in_vocabulary for row in _read(surprisal)]
    notes = ["" if is_known else UNKNOWN for is_known in known]
    drawn = tree_picture(tree, distances, None, words, notes, span_notes(parse) if parse else None)
    if surprisal:
        centres = [word.x for word in lay_out(tree, words, distances).words]
        places = parse.offsets if parse else [(row.begin, row.end) for row in _read(surprisal)]
        bars = _bars(surprisal, centres, places, drawn.width, right_to_left(words), FULL[units])
        drawn = svg.stacked([drawn, bars], gap=-MARGIN)
    title = f"{'Tree' if parse else 'Surprisal'}: {' '.join(words)}"
    return dataclasses.replace(drawn, title=title)


def span_notes(parse: Parse) -> dict[Span, SpanNote]:
    """Return what the marker of each constituent shows: its probability or score, or the distances around it."""
    found = {}
    for row in parse.rows():
        start, end, label = row["start"], row["end"], row["label"] and f", {row['label']}"
        if row["marginal"] is not None:
            note = SpanNote(f"probability {row['marginal']:.3f}{label}", row["marginal"])
        elif row["score"] is not None:
            note = SpanNote(f"score {row['score']:.3f}{label}", min(1.0, math.exp(row["score"])))
        else:
            note = SpanNote(f"largest distance inside {max(parse.distances[start + 1 : end], default=0.0):.3f}")
        found[start, end] = note
    return found


def chart_picture(parse: Parse) -> Picture | None:
    """Return span scores or probabilities, one cell per span; None without them, or for a long sentence."""
    if not 1 < len(parse) <= LARGEST_CHART or (parse.marginals is None and parse.span_scores is None):
        return None
    unknown = tuple(not known for known in parse.known)
    (picture,) = Drawing(
        Analysis(
            tuple(parse.words), tuple(parse.tokens), (), unknown, parse.tree, parse.span_scores, parse.marginals
        )
    ).scores_pictures()  # fmt: skip
    return picture


def _read(surprisal: SentenceSurprisal | None) -> list[WordSurprisal]:
    """Return the words of a sentence that the model reads, without its end."""
    return [row for row in surprisal or [] if row.word and row.surprisal is not None]


def _bars(
    surprisal: SentenceSurprisal,
    centres: Sequence[float],
    places: Sequence[tuple[int, int]],
    width: float,
    mirrored: bool,
    full: float,
) -> Picture:
    """Return bars that hang below words.

    centres: x of each word.  places: start and end of each word in the sentence.  full: bits of a bar of full height.
    A row of surprisals may have several words ("said" and "," in "said,"): its bar is in the middle of them.
    """
    rows = [row for row in surprisal if row.surprisal is not None]
    full = max([full, *(row.surprisal or 0.0 for row in rows)])
    top = MARGIN
    elements = []
    after = min(centres) if mirrored else max(centres)
    for row in rows:
        own = [x for x, (start, end) in zip(centres, places, strict=True) if start < row.end and end > row.begin]
        if row.word and not own:
            continue
        name = row.word or END
        x = (own[0] + own[-1]) / 2 if own else after + (-1 if mirrored else 1) * 1.5 * COLUMN
        elements += _bar(x, top, row.surprisal or 0.0, full, name, row.in_vocabulary is False)
        if not own:
            elements.append(svg.text(x, -ABOVE_AXIS + top, END, "note", "middle"))
            width = max(width, x + COLUMN)
    elements.insert(0, svg.line(MARGIN, top, width - MARGIN, top, "axis"))
    text = f"surprisal in bits, {surprisal.bits:.1f} in total"
    height = top + BAR_ZONE * max((row.surprisal or 0.0) / full for row in rows) + 18
    width = max(width, text_width(text, TEXT_SIZES["note"]) + 2 * MARGIN)
    anchor: svg.Anchor = "end" if mirrored else "start"
    elements.append(svg.text(width - MARGIN if mirrored else MARGIN, height + 14, text, "note", anchor))
    description = "Surprisal in bits: " + ", ".join(f"{row.word or END} {row.surprisal:.1f}" for row in rows) + "."
    return Picture(width, height + 14 + MARGIN, tuple(elements), "Surprisal", description)


def _bar(x: float, y: float, bits: float, full: float, name: str, is_unknown: bool, up: bool = False) -> list[str]:
    """Return a bar from y, and its value. up: whether it rises from y; otherwise it hangs."""
    long = max(1.0, BAR_ZONE * bits / full)
    tooltip = f"{name}: {bits:.2f} bits" + (f", {UNKNOWN}" if is_unknown else "")
    start, figure = (y - long, y - long - 4) if up else (y, y + long + 11)
    return [
        svg.rectangle(x - BAR / 2, start, BAR, long, SURPRISAL, tooltip, 0.35 if is_unknown else None),
        svg.text(x, figure, f"{bits:.1f}", "small", "middle"),
    ]


def pair_picture(
    words: tuple[Sequence[WordSurprisal], Sequence[WordSurprisal]], columns: Sequence[Column], decisive: int | None
) -> Picture:
    """Return a minimal pair: the first sentence with rising bars, below it the second with hanging bars.

    words: the rows of both sentences.  columns: their alignment.  decisive: index of the column that is marked.
    """
    full = max([FULL["words"], *(row.surprisal or 0.0 for rows in words for row in rows)])
    names = [[_name(row) for row in rows] for rows in words]
    heights = [BAR_ZONE * max((row.surprisal or 0.0) / full for row in rows) for rows in words]
    widths = []
    for column in columns:
        own = [names[side][place] for side, place in enumerate(column.places) if place is not None]
        widths.append(max(COLUMN, *(text_width(name, TEXT_SIZES["word"]) + 14 for name in own)))
    mirrored = right_to_left([row.word for row in words[0]])
    total = sum(widths) + 2 * MARGIN
    base = MARGIN + 16 + heights[0]  # below the bars of the first sentence
    lines = base + 20, base + 44  # baselines of both sentences
    foot = base + 54 + heights[1] + 16
    elements: list[str] = []
    left = MARGIN
    for number, (column, width) in enumerate(zip(columns, widths, strict=True)):
        x = total - left - width / 2 if mirrored else left + width / 2
        if number == decisive:
            elements.insert(0, svg.rectangle(x - width / 2, MARGIN, width, foot - MARGIN, "bar", opacity=0.25))
        for side, place in enumerate(column.places):
            if place is None:
                continue
            row = words[side][place]
            role = "note" if not row.word else "unknown" if row.in_vocabulary is False else "word"
            elements.append(svg.text(x, lines[side], names[side][place], role, "middle"))
            if row.surprisal is not None:
                y = (base, base + 54)[side]
                elements += _bar(x, y, row.surprisal, full, _name(row), row.in_vocabulary is False, up=side == 0)
        left += width
    elements += [svg.line(MARGIN, y, total - MARGIN, y, "axis") for y in (base, base + 54)]
    sentences = [" ".join(row.word for row in rows if row.word) for rows in words]
    return Picture(total, foot + MARGIN, tuple(elements), f"Surprisal: {sentences[0]} / {sentences[1]}")


def _name(row: WordSurprisal) -> str:
    return shortened(visible(row.word), LONGEST_WORD) if row.word else END
