"""Pictures of an analysed sentence: its tree with surprisals, and its chart of spans."""

from __future__ import annotations

import dataclasses

from syntaxlm.api.results import SentenceSurprisal
from syntaxlm.drawing.sentence import Analysis, Drawing
from syntaxlm.drawing.svg import Picture
from syntaxlm.parsing.analysis import analysis_of
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
        analysis = analysis_of(parse)
    else:
        read = [row for row in surprisal or [] if row.word and row.surprisal is not None]
        words = tuple(row.word for row in read)
        unknown = tuple(not row.in_vocabulary for row in read)
        places = tuple((row.begin, row.end) for row in read)
        analysis = Analysis(words, words, (), unknown, Tree(words, ("",) * len(words), ()), places=places)
    if not analysis.words:
        return None
    drawn = Drawing(dataclasses.replace(analysis, surprisals=surprisal or (), units=units)).tree_picture()
    return dataclasses.replace(drawn, title=f"{'Tree' if parse else 'Surprisal'}: {' '.join(analysis.words)}")


def chart_picture(parse: Parse) -> Picture | None:
    """Return span scores or probabilities, one cell per span; None without them, or for a long sentence."""
    if not 1 < len(parse) <= LARGEST_CHART or (parse.marginals is None and parse.span_scores is None):
        return None
    (picture,) = Drawing(analysis_of(parse)).scores_pictures()
    return picture
