"""Pictures of an analysed sentence: its tree with surprisals, and its chart of spans."""

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
from syntaxlm.parsing.result import Parse
from syntaxlm.trees.tree import Tree

LARGEST_CHART = 40  # words; charts of longer sentences are not drawn


def sentence_picture(parse: Parse | None, surprisal: SentenceSurprisal | None, units: str = "words") -> Picture | None:
    """Return the tree of a sentence, its distances, its words, and the surprisal of each word; None without words.

    Args:
        parse: the parse; None if the model does not parse.
        surprisal: the surprisals; None if the model gives none.
        units: what the model reads.
    """
    if parse is not None:
        words = parse.words
        known = parse.known
        places = parse.offsets
        tree = parse.tree
        distances = parse.distances or None
        notes = span_notes(parse)
    else:
        read = [row for row in surprisal or [] if row.word and row.surprisal is not None]
        words = [row.word for row in read]
        known = [bool(row.in_vocabulary) for row in read]
        places = [(row.begin, row.end) for row in read]
        tree = Tree(tuple(words), ("",) * len(words), ())
        distances = None
        notes = None
    if not words:
        return None
    drawn = tree_picture(tree, distances, None, words, ["" if is_known else UNKNOWN for is_known in known], notes)
    if surprisal:
        centres = word_anchors(tree, words, distances)
        bars = surprisal_bars(surprisal, centres, places, drawn.width, right_to_left(words), FULL[units])
        drawn = svg.stacked([drawn, bars], gap=-MARGIN, align_right=right_to_left(words))
    return dataclasses.replace(drawn, title=f"{'Tree' if parse else 'Surprisal'}: {' '.join(words)}")


def span_notes(parse: Parse) -> dict[Span, SpanNote]:
    """Return what the marker of each constituent shows: its probability or score, or the distances around it."""
    notes = {}
    for row in parse.rows():
        start = row["start"]
        end = row["end"]
        label = row["label"] and f", {row['label']}"
        if row["marginal"] is not None:
            note = SpanNote(f"probability {row['marginal']:.3f}{label}", row["marginal"])
        elif row["score"] is not None:
            note = SpanNote(f"score {row['score']:.3f}{label}", min(1.0, math.exp(row["score"])))
        else:
            note = SpanNote(f"largest distance inside {max(parse.distances[start + 1 : end], default=0.0):.3f}")
        notes[start, end] = note
    return notes


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
