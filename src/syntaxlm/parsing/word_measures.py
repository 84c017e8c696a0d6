"""The surprisals of words with further measures, among them those of the best tree of each sentence."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import tee
from typing import Any

from syntaxlm.core.iteration import batched
from syntaxlm.core.text_files import LINES_TOGETHER
from syntaxlm.models.abilities import ParsesSentences
from syntaxlm.parsing.options import ParseOptions
from syntaxlm.parsing.parse import parse_lines
from syntaxlm.parsing.result import Parse
from syntaxlm.scoring.options import TREE_MEASURES, ScoreOptions
from syntaxlm.scoring.surprisal import WordSurprisal, surprisals, surprisals_of
from syntaxlm.scoring.word_table import LineScorer
from syntaxlm.storage.folder import ModelBundle


def word_measures(
    bundle: ModelBundle, lines: Iterable[str], options: ScoreOptions = ScoreOptions()
) -> Iterator[list[WordSurprisal]]:
    """Yield the words of each line of text with their surprisal and all measures of `options`, as `surprisals` does.

    The best tree of a line is that of `parse_lines`, with its default decoder; words that the parser does not read have
    no measures of trees.

    Raises:
        InputError: as `surprisals` does, and for measures of trees if the model does not parse.
    """
    chosen = [name for name in options.measures if name in TREE_MEASURES]
    if not chosen:
        return surprisals(bundle, lines, options)
    bundle.require(ParsesSentences, "measures of trees")
    scored_lines, parsed_lines = tee(lines)
    return _with_trees(bundle, surprisals(bundle, scored_lines, options), iter(parsed_lines), options, chosen)


def word_scorer(bundle: ModelBundle, options: ScoreOptions) -> LineScorer:
    """Return a function that does what `word_measures` does, for several texts.

    Warnings are given only once, now, unless measures of trees are asked for.
    """
    if TREE_MEASURES.isdisjoint(options.measures):
        return surprisals_of(bundle, options)
    return partial(word_measures, bundle, options=options)


def _with_trees(
    bundle: ModelBundle,
    scored: Iterator[list[WordSurprisal]],
    lines: Iterator[str],
    options: ScoreOptions,
    chosen: Sequence[str],
) -> Iterator[list[WordSurprisal]]:
    read = ParseOptions(punctuation=options.punctuation, contractions=options.contractions)
    given = f"{options.given} " if options.given else ""  # the beginning of each sentence, without rows
    first = 1
    for chunk in batched(lines, LINES_TOGETHER):
        sentences = [f"{given}{line}" for line in chunk]
        for parse, words in zip(parse_lines(bundle, sentences, read, first), scored, strict=False):
            measures = tree_measures(parse)
            starts = [start - len(given) for start, _ in parse.offsets]
            rows = []
            for word in words:
                leaves = range(bisect_left(starts, word.begin), bisect_left(starts, word.end))
                values = _word_measures(measures, leaves) if word.word and leaves else dict.fromkeys(chosen)
                rows.append(word._replace(measures={**word.measures, **{name: values[name] for name in chosen}}))
            yield rows
        first += len(chunk)


def tree_measures(parse: Parse) -> dict[str, list[int]]:
    """Return the measures of each word of a parse.

    constituents_ended: constituents of two words or more whose last word it is.  depth: those around the word.
    distance: height of the lowest constituent that has the word and the one before it, 1 for a constituent of words
    alone; 0 for the first word. The order of distances is that of syntactic distances (Shen et al. 2018, section 4.1).
    """
    spans = [(part.start, part.end) for part in parse.tree.constituents if part.end - part.start > 1]
    ended = [0] * len(parse)
    depth = [0] * len(parse)
    distance = [0] * len(parse)
    heights: dict[tuple[int, int], int] = {}
    for start, end in sorted(set(spans), key=lambda span: span[1] - span[0]):  # inner ones first
        inner = [height for (first, last), height in heights.items() if start <= first and last <= end]
        height = heights[start, end] = 1 + max(inner, default=0)
        for place in range(start, end):
            depth[place] += 1
            if place > start and not distance[place]:  # not in a smaller constituent together with the word before
                distance[place] = height
        ended[end - 1] += 1
    return {"constituents_ended": ended, "depth": depth, "distance": distance}


def _word_measures(measures: dict[str, list[int]], leaves: range) -> dict[str, Any]:
    """Return the measures of a written word from those of its leaves."""
    first = leaves[0]
    return {
        "constituents_ended": sum(measures["constituents_ended"][first : leaves[-1] + 1]),
        "depth": measures["depth"][first],
        "distance": measures["distance"][first] if first else None,
    }
