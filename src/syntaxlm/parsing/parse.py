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
from syntaxlm.models.abilities import LabelsSpans
from syntaxlm.parsing.structure import Rule, Structure, layers_for, rules_for, structure_of
from syntaxlm.text.normaliser import UntaggedTokenError, without_tags
from syntaxlm.trees import DECODING_RULES, SpanSets, TieBreaking, Tree, average, format_brackets, format_spans, trees_of
from syntaxlm.trees.matching import beginning
from syntaxlm.trees.span_decoding import Scores, SpanScores
from syntaxlm.trees.tree import Constituent


@dataclass(frozen=True)
class Parse:
    """One sentence, parsed. words: as written; tokens: as the (first) model read them.

    tree: over the words; of a model of tags, with the tags above them. With labels, each word has its label as its tag,
    or as a constituent above its tag.
    distances: one for each; none where the tree is not of distances, or is the average of several models'.
    number: its place in the input, 1 first.
    span_scores, marginals: (n, n), by first and last word of the span: log scores, or probabilities; None where the
    tree is not of such.
    word_labels: the induced label of each word, "" for none; None for a tree without induced labels.
    """

    number: int
    words: list[str]
    tokens: list[str]
    distances: list[float]
    tree: Tree
    span_scores: Scores | None = field(default=None, compare=False)
    marginals: Scores | None = field(default=None, compare=False)
    word_labels: list[str] | None = None

    def to_dict(self) -> dict[str, Any]:
        constituents = list(filter(_is_long, self.tree.constituents))
        rest: dict[str, Any] = {name: getattr(self, name) for name in ("number", "words", "tokens")}
        if self.distances:
            rest["distances"] = [round(value, 6) for value in self.distances]
        rest["spans"] = [[part.start, part.end] for part in constituents]
        if self.word_labels is not None:
            rest["labels"] = [part.label for part in constituents]
            rest["word_labels"] = self.word_labels
        for name, chart in (("scores", self.span_scores), ("marginals", self.marginals)):
            if chart is not None:
                rest[name] = [round(float(chart[part.start, part.end - 1]), 6) for part in constituents]
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
    span_scores, marginals: of the others, too; None where the trees are averages or not of such.
    labelled: whether spans have induced labels, single words among them.
    """

    words: list[list[str]]
    tokens: list[list[str]]
    distances: npt.NDArray[np.float32]
    spans: SpanSets | None
    first: int
    span_scores: SpanScores | None = None
    tagged: bool = False
    marginals: SpanScores | None = None
    labelled: bool = False

    def brackets(self) -> list[str]:
        """Each line's tree, "" for a line without a word."""
        if self.spans is None:
            return [""] * len(self.words)
        if self.labelled:
            drawn = list(map(format_brackets, self._trees()))
        else:
            drawn = format_spans(self.spans, self._bracketed(), self._tags())
        left = iter(drawn)
        return [next(left) if words else "" for words in self.words]

    def __iter__(self) -> Iterator[Parse | None]:
        """Each line's parse, None for a line without a word."""
        trees = iter(self._trees())
        values = self.distances.tolist()
        end = sentence = 0
        for number, (words, tokens) in enumerate(zip(self.words, self.tokens, strict=True), self.first):
            if not words:
                yield None
                continue
            start, end = end, end + len(words)
            scores = None if self.span_scores is None else self.span_scores.chart(sentence)
            marginals = None if self.marginals is None else self.marginals.chart(sentence)
            sentence += 1
            tree = next(trees)
            labels = _word_labels(tree) if self.labelled else None
            if labels and not self.tagged:  # they take the place of tags
                tree = Tree(tree.words, tuple(labels), tuple(filter(_is_long, tree.constituents)))
            yield Parse(number, words, tokens, values[start:end], tree, scores, marginals, labels)

    def _trees(self) -> list[Tree]:
        """The trees of the lines with words. Labels of single words are constituents."""
        return trees_of(self.spans, self._bracketed(), self._tags()) if self.spans else []

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


def _is_long(part: Constituent) -> bool:
    return part.end - part.start > 1


def _word_labels(tree: Tree) -> list[str]:
    """The label of each word's own constituent, "" for none."""
    labels = {part.start: part.label for part in tree.constituents if not _is_long(part)}
    return [labels.get(place, "") for place in range(len(tree))]


def parse_lines(
    stored: ModelBundle,
    lines: Sequence[str],
    decoder: Rule | None = None,
    first: int = 1,
    layer: int | None = None,
    labels: bool = False,
) -> Parses:
    """Parses lines of raw text, a sentence each.

    decoder: one of the model's rules (`rules_of`); None: its default. first: number of the first line.
    layer: whose distances, 1 is the first; None: the model's own.
    labels: whether spans and words get the labels that the model has induced.
    Raises InputError for a model that does not parse, a decoder or layer that it does not have, and where labels are
    asked of a model without.
    """
    if isinstance(lines, str):
        raise TypeError("parse_lines takes a list of lines, not one string")
    if labels:
        stored.require(LabelsSpans, "parsing with labels")
    (rule,), (layer,) = rules_for([stored], decoder), layers_for([stored], layer)
    read = _read(stored, lines, first, labels)
    none = np.zeros(0, np.float32)
    structure = read.structure
    if structure is None:
        return Parses(read.words, read.tokens, none, None, first, tagged=read.tagged, labelled=labels)
    return Parses(
        read.words,
        read.tokens,
        structure.distances[layer - 1] if rule in DECODING_RULES else none,
        structure.labelled(rule) if labels else structure.decode(rule, layer),
        first,
        structure.span_scores,
        read.tagged,
        structure.marginals,
        labels,
    )


@dataclass(frozen=True)
class _Reading:
    """Lines as a model reads them: words and tokens of each, and the structure of those that have words."""

    words: list[list[str]]
    tokens: list[list[str]]
    structure: Structure | None
    tagged: bool


def _read(stored: ModelBundle, lines: Sequence[str], first: int, labels: bool = False) -> _Reading:
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
    structure = structure_of(stored, full, labels) if full else None
    return _Reading(words, tokens, structure, stored.normaliser.units == "tags")


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

    A model that is decoded by `mbr` takes part with the probabilities of all spans instead of a tree.
    Vocabularies may differ. Where one of the models reads tags, the lines are tagged text, of which models of words
    read the words. decoder: of the models that have this rule; the others parse by their defaults (all, where
    it is None). layer: as of `parse_lines`, of every model with distances. names: of the models, for messages.
    ties: which of equally good splits the average takes, see `trees.average`.
    Raises InputError as `parse_lines`, for a decoder that none of the models has, and naming the sentence that
    normalisers split or drop differently.
    """
    if not stored:
        raise ValueError("expected one model or more")
    rules, layers = rules_for(stored, decoder), layers_for(stored, layer)
    readings = [_read(one, _lines_for(one, lines, stored, first), first) for one in stored]
    names = names or [f"model {number}" for number in range(1, len(stored) + 1)]
    for name, one in zip(names[1:], readings[1:], strict=True):
        for number, (words, others) in enumerate(zip(readings[0].words, one.words, strict=True), first):
            if words != others:
                raise _read_differently(number, words, others, names[0], name)
    predictions = [
        one.structure.for_average(rule, number)
        for one, rule, number in zip(readings, rules, layers, strict=True)
        if one.structure is not None
    ]
    combined = average(predictions, ties=ties) if predictions else None
    none, own = np.zeros(0, np.float32), readings[0]
    return Parses(own.words, own.tokens, none, combined, first, tagged=own.tagged)


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
