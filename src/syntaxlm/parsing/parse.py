"""Lines of text parsed by one model, or by several together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any

import numpy as np
import numpy.typing as npt

from syntaxlm import display
from syntaxlm.errors import InputError
from syntaxlm.model_io import ModelBundle
from syntaxlm.parsing.structure import (
    Rule,
    layers_for,
    rules_for,
    structure_of,
)
from syntaxlm.text.normaliser import UntaggedTokenError, without_tags
from syntaxlm.trees import (
    SpanSets,
    TieBreaking,
    Tree,
    average,
    format_spans,
    trees_of,
)
from syntaxlm.trees.matching import beginning
from syntaxlm.trees.span_decoding import SPAN_RULES, Scores, SpanScores


@dataclass(frozen=True)
class Parse:
    """One sentence, parsed. words: as written; tokens: as the (first) model read them.

    tree: over the words; of a model of tags, with the tags above them.
    distances: one for each; none where the tree is not of distances, or is the average of several models'.
    number: its place in the input, 1 first.
    span_scores: (n, n), by first and last word of the span; None where the tree is not of such scores.
    """

    number: int
    words: list[str]
    tokens: list[str]
    distances: list[float]
    tree: Tree
    span_scores: Scores | None = field(default=None, compare=False)

    def as_dict(self) -> dict[str, Any]:
        spans = [[part.start, part.end] for part in self.tree.constituents]
        rest: dict[str, Any] = {name: getattr(self, name) for name in ("number", "words", "tokens")}
        if self.distances:
            rest["distances"] = [round(value, 6) for value in self.distances]
        rest["spans"] = spans
        if self.span_scores is not None:
            rest["scores"] = [round(float(self.span_scores[start, end - 1]), 6) for start, end in spans]
        return rest

    def _repr_svg_(self) -> str:
        """The tree over its distances as a picture, for notebooks."""
        return display.render("tree", self.tree, self.distances or None, words=self.words)


@dataclass(frozen=True)
class Parses:
    """The parses of many lines. Words stand in the trees as written; what the normaliser drops does not stand there.

    tagged: whether tokens are tags, which then stand above the words.
    words, tokens: of each line, empty for a line without a word; distances (all words) and spans are of the others.
    distances: none, (0,), where the trees are averages or not of distances.
    first: number of the first line.
    span_scores: of the others, too; None where the trees are averages or not of span scores.
    """

    words: list[list[str]]
    tokens: list[list[str]]
    distances: npt.NDArray[np.float32]
    spans: SpanSets | None
    first: int
    span_scores: SpanScores | None = None
    tagged: bool = False

    def brackets(self) -> list[str]:
        """Each line's tree, "" for a line without a word."""
        drawn = iter(format_spans(self.spans, self._bracketed(), self._tags()) if self.spans else [])
        return [next(drawn) if words else "" for words in self.words]

    def __iter__(self) -> Iterator[Parse | None]:
        """Each line's parse, None for a line without a word."""
        trees = iter(trees_of(self.spans, self._bracketed(), self._tags()) if self.spans else [])
        values = self.distances.tolist()
        end = sentence = 0
        for number, (words, tokens) in enumerate(zip(self.words, self.tokens, strict=True), self.first):
            if not words:
                yield None
                continue
            start, end = end, end + len(words)
            scores = None if self.span_scores is None else self.span_scores.chart(sentence)
            sentence += 1
            yield Parse(number, words, tokens, values[start:end], next(trees), scores)

    def _tags(self) -> list[list[str]] | None:
        return [tokens for tokens in self.tokens if tokens] if self.tagged else None

    def _bracketed(self) -> list[list[str]]:
        """Words that brackets can hold: white space, and what is read as its sign, are characters to some models."""
        return [
            [
                token if word.isspace() or token == f"\\{word}" else word
                for word, token in zip(words, tokens, strict=True)
            ]
            for words, tokens in zip(self.words, self.tokens, strict=True)
            if words
        ]


def parse_lines(
    stored: ModelBundle,
    lines: Sequence[str],
    decoder: Rule | None = None,
    first: int = 1,
    layer: int | None = None,
) -> Parses:
    """Parses lines of raw text, a sentence each.

    decoder: one of the model's rules (`rules_of`); None: its default. first: number of the first line.
    layer: whose distances, 1 is the first; None: the model's own.
    Raises InputError for a model that does not parse, and a decoder or layer that it has not.
    """
    if isinstance(lines, str):
        raise TypeError("parse_lines takes a list of lines, not one string")
    (rule,), (layer,) = rules_for([stored], decoder), layers_for([stored], layer)
    return _parsed(stored, lines, rule, first, layer)


def _parsed(stored: ModelBundle, lines: Sequence[str], rule: Rule, first: int, layer: int) -> Parses:
    tagged = stored.normaliser.units == "tags"
    words: list[list[str]] = []
    tokens: list[list[str]] = []
    for number, line in enumerate(lines, first):
        try:
            written, read = stored.normaliser.written_tokens(line)
        except UntaggedTokenError as error:
            raise error.at(f"sentence {number}") from None
        words.append(written)
        tokens.append(read)
    full = [sentence for sentence in tokens if sentence]
    if not full:
        return Parses(words, tokens, np.zeros(0, np.float32), None, first, tagged=tagged)
    structure = structure_of(stored, full)
    spans = structure.decode(rule, layer)
    if rule in SPAN_RULES:
        return Parses(words, tokens, np.zeros(0, np.float32), spans, first, structure.span_scores, tagged)
    return Parses(words, tokens, structure.distances[layer - 1], spans, first, tagged=tagged)


def parse_lines_together(
    stored: Sequence[ModelBundle],
    lines: Sequence[str],
    decoder: Rule | None = None,
    first: int = 1,
    layer: int | None = None,
    names: Sequence[str] = (),
    ties: TieBreaking = "random",
) -> Parses:
    """Parses lines with several models: the average of their trees, over the words of the first; no distances.

    Vocabularies may differ. Where one of the models reads tags, the lines are tagged text, of which models of words
    read the words. decoder: of the models that have this rule; the others parse by their defaults (all, where
    it is None). layer: as of `parse_lines`, of every model with distances. names: of the models, for messages.
    ties: which of equally good splits the average takes, see `trees.average`.
    Raises InputError as `parse_lines`, for a decoder that none of the models has, and naming the sentence that
    normalisers split or drop differently.
    """
    if not stored:
        raise ValueError("expected one model or more")
    chosen = zip(stored, rules_for(stored, decoder), layers_for(stored, layer), strict=True)
    parses = [_parsed(one, _lines_for(one, lines, stored, first), rule, first, number) for one, rule, number in chosen]
    names = names or [f"model {number}" for number in range(1, len(stored) + 1)]
    for name, one in zip(names[1:], parses[1:], strict=True):
        for number, (words, others) in enumerate(zip(parses[0].words, one.words, strict=True), first):
            if words != others:
                raise _read_differently(number, words, others, names[0], name)
    spans = [one.spans for one in parses if one.spans is not None]
    combined = average(spans, ties=ties) if spans else None
    none = np.zeros(0, np.float32)
    return Parses(parses[0].words, parses[0].tokens, none, combined, first, tagged=parses[0].tagged)


def _lines_for(one: ModelBundle, lines: Sequence[str], models: Sequence[ModelBundle], first: int) -> Sequence[str]:
    """Lines as one of several models takes them. first: number of the first line."""
    if one.normaliser.units == "tags" or all(other.normaliser.units != "tags" for other in models):
        return lines
    words = []
    for number, line in enumerate(lines, first):
        try:
            words.append(without_tags(line))
        except UntaggedTokenError as error:
            raise error.at(f"sentence {number}") from None
    return words


def _read_differently(number: int, words: list[str], others: list[str], name: str, other_name: str) -> InputError:
    same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(words, others, strict=False)))
    return InputError(
        f"sentence {number}: the models read different words from word {same + 1} on.\n"
        f"  {name}, {len(words)} words: {beginning(words[same:])}\n"
        f"  {other_name}, {len(others)} words: {beginning(others[same:])}\n"
        "Models whose trees are averaged must split and drop alike (text.normaliser of their recipes)."
    )
