"""Pictures of the page: a tree with surprisal bars under its words, and the chart of its spans."""

from __future__ import annotations

import dataclasses
import math

from syntaxlm.api.results import SentenceSurprisal
from syntaxlm.drawing import svg
from syntaxlm.drawing.layout import MARGIN, Span
from syntaxlm.drawing.sentence import Analysis, Drawing
from syntaxlm.drawing.surprisal import FULL, surprisal_bars
from syntaxlm.drawing.svg import UNKNOWN, Picture, right_to_left
from syntaxlm.drawing.tree import SpanNote, tree_picture, word_anchors
from syntaxlm.parsing.parse import Parse
from syntaxlm.scoring.surprisal import WordSurprisal
from syntaxlm.trees.tree import Tree

LARGEST_CHART = 40  # words; charts of longer sentences are not drawn


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
        centres = word_anchors(tree, words, distances)
        places = parse.offsets if parse else [(row.begin, row.end) for row in _read(surprisal)]
        bars = surprisal_bars(surprisal, centres, places, drawn.width, right_to_left(words), FULL[units])
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
