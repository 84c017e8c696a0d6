"""Parsing of lines of text with one model, or with the average of several models."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice, takewhile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from syntaxlm.core.errors import InputError
from syntaxlm.core.progress import progress_bar
from syntaxlm.core.tables import Column, Columns, HasRows
from syntaxlm.core.text_files import line_bytes, no_sentence, plain_size, source_name
from syntaxlm.data.corpora import GivenText, read_sentences
from syntaxlm.models.abilities import LabelsSpans
from syntaxlm.models.abilities import Parses as ParsingModel
from syntaxlm.models.structures import Distances
from syntaxlm.parsing.structure import Rule, Structure, layers_for, rules_for, structure_of
from syntaxlm.storage.folder import ModelBundle
from syntaxlm.text.normaliser import UntaggedTokenError, without_tags
from syntaxlm.text.reader import AS_TOKENISED, TextReader
from syntaxlm.text.treebank_style import TreebankStyle
from syntaxlm.trees.averaging import average
from syntaxlm.trees.charts import TieBreaking
from syntaxlm.trees.decoding import DECODING_RULES, Scores, SpanScores
from syntaxlm.trees.matching import beginning
from syntaxlm.trees.spans import Positions, SpanSets, format_spans, trees_of
from syntaxlm.trees.tree import Constituent, DependencyTree, Tree, format_brackets

# Adds words and punctuation marks that a model does not read to its tree.


UNREAD = "UNREAD"  # tag of words and punctuation marks that the model does not read


class NotRead(NamedTuple):
    """A part of a line that the model does not read, line[start:end].  start, end: code points."""

    text: str
    start: int
    end: int


def with_unread(tree: Tree, offsets: Sequence[tuple[int, int]], not_read: Sequence[NotRead]) -> Tree:
    """Return a tree with additional words, see `Parse.complete_tree`.

    offsets: start and end of each word of the tree, in code points.  not_read: the parts of the line to add.
    """
    starts = [start for start, _ in offsets]
    before = [bisect_left(starts, part.start) for part in not_read]  # number of words before each part
    size = len(tree)
    leaves = [(start, word, tag) for start, word, tag in zip(starts, tree.words, tree.tags, strict=True)]
    leaves += [(part.start, part.text, UNREAD) for part in not_read]
    leaves.sort(key=lambda leaf: leaf[0])
    constituents = [
        Constituent(label, start + bisect_right(before, start), end + bisect_left(before, end))
        for label, start, end in tree.constituents
    ]
    if not constituents or (constituents[0].end - constituents[0].start < size + len(not_read)):
        top = constituents.pop(0).label if constituents and tree.constituents[0][1:] == (0, size) else "X"
        constituents.insert(0, Constituent(top, 0, size + len(not_read)))
    return Tree(tuple(leaf[1] for leaf in leaves), tuple(leaf[2] for leaf in leaves), tuple(constituents))


CONSTITUENTS = Columns(
    "constituents",
    "constituent of two words or more",
    {
        "sentence": Column("integer", "number of the sentence, from 1"),
        "start": Column("integer", "first word of the constituent, counted from 0"),
        "end": Column("integer", "the word after its last word, counted from 0"),
        "text": Column("text", "its words as written, joined by spaces"),
        "label": Column("text", "its induced label; empty without labels"),
        "score": Column("number", "its log score; missing if the model does not score spans"),
        "marginal": Column("number", "its probability; missing if the model does not compute it"),
    },
)

_NO_DISTANCES = np.zeros(0, np.float32)


@dataclass(frozen=True)
class Parse(HasRows):
    """The parse of one sentence. With several models, `tokens`, `known` and `not_read` are those of the first model.

    number: number of the sentence in the input, from 1.
    words: the words as written.
    tokens: the words after normalisation.
    distances: the syntactic distance of each word; empty if the tree was not decoded from distances, or is an average.
    tree: the tree over `words`. For a model that reads tags, the tags are the part-of-speech tags of the tree. If
        induced labels were requested, the label of a word is its tag or, if the word already has a tag, a constituent
        above it.
    span_scores: (n, n), log scores by first and last word of the span; None if the model does not score spans.
    marginals: (n, n), probabilities by first and last word of the span; None if the model does not compute them.
    word_labels: the induced label of each word, "" for none; None if the tree has no induced labels.
    offsets: start and end of each word in the line, in code points.
    known: whether each word is in the model's vocabulary.
    not_read: parts of the line that the model does not read, such as punctuation, with their start and end.
    heads: the position of each word's head, from 1, 0 for the root; empty if the model gives no dependency trees.
    """

    number: int
    words: list[str]
    tokens: list[str]
    distances: list[float]
    tree: Tree
    span_scores: Scores | None = field(default=None, compare=False)
    marginals: Scores | None = field(default=None, compare=False)
    word_labels: list[str] | None = None
    offsets: list[tuple[int, int]] = field(default_factory=list)
    known: list[bool] = field(default_factory=list)
    not_read: list[NotRead] = field(default_factory=list)
    heads: list[int] = field(default_factory=list)

    columns = CONSTITUENTS

    @property
    def dependencies(self) -> DependencyTree | None:
        """The dependency tree, with part-of-speech tags if the model reads tags; None if the model gives none."""
        if not self.heads:
            return None
        tree = self.tree
        return DependencyTree(tree.words, tree.tags, tuple(self.heads), ("",) * len(tree), str(self.number))

    @property
    def complete_tree(self) -> Tree:
        """The tree over all words and punctuation marks of the line, including those that the model does not read.

        These have the tag UNREAD. Each is attached to the lowest constituent that covers the words on both sides or, at
        the start and end of the line, to the root.
        """
        return with_unread(self.tree, self.offsets, self.not_read)

    def to_dict(self) -> dict[str, Any]:
        constituents = list(filter(_is_long, self.tree.constituents))
        rest: dict[str, Any] = {name: getattr(self, name) for name in ("number", "words", "tokens")}
        if self.distances:
            rest["distances"] = [round(value, 6) for value in self.distances]
        rest["offsets"] = [list(place) for place in self.offsets]
        rest["known"] = self.known
        rest["not_read"] = [part._asdict() for part in self.not_read]
        if self.heads:
            rest["heads"] = self.heads
        rest["spans"] = [[part.start, part.end] for part in constituents]
        if self.word_labels is not None:
            rest["labels"] = [part.label for part in constituents]
            rest["word_labels"] = self.word_labels
        for name, chart in (("scores", self.span_scores), ("marginals", self.marginals)):
            if chart is not None:
                rest[name] = [round(float(chart[part.start, part.end - 1]), 6) for part in constituents]
        return rest

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield the rows of files and data frames, one per constituent, with the columns of `CONSTITUENTS`."""
        for part in filter(_is_long, self.tree.constituents):
            charts = (self.span_scores, self.marginals)
            score, marginal = (None if one is None else float(one[part.start, part.end - 1]) for one in charts)
            yield {
                "sentence": self.number,
                "start": part.start,
                "end": part.end,
                "text": " ".join(self.words[part.start : part.end]),
                "label": "" if self.word_labels is None else part.label,
                "score": score,
                "marginal": marginal,
            }

    def __len__(self) -> int:
        """Return the number of words."""
        return len(self.words)

    def __str__(self) -> str:
        """Return the tree in bracket notation."""
        return str(self.tree)

    def _repr_svg_(self) -> str:
        """Draw the tree and its distances as SVG, for notebooks."""
        from syntaxlm.drawing.tree import tree_picture  # pictures are imported only to draw

        return tree_picture(self.tree, self.distances or None, words=self.words).svg()


@dataclass(frozen=True)
class Parses:
    """The parses of a sequence of lines. The trees contain the words as written, without those the normaliser drops.

    words, tokens: words and tokens of each line; empty for a line without words.
    distances: distances of all words, line after line, (words,); (0,) if the trees were not decoded from distances, or
        are averages.
    spans: the spans of the trees of all lines with words; None if there are none.
    first: number of the first line.
    span_scores, marginals: scores and probabilities of all spans of these lines; None if the model does not compute
        them, and for averages.
    tagged: whether the tokens are tags, which are the part-of-speech tags of the trees.
    labelled: whether spans and single words have induced labels.
    lines, reader: the original lines, and the reader of the (first) model.
    heads: position of the head of every word in its line, from 1, 0 for the root, line after line; None if the model
        gives no dependency trees, and for averages.
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
    lines: Sequence[str] = ()
    reader: TextReader | None = None
    heads: Positions | None = None

    def brackets(self, with_unread: bool = False) -> list[str]:
        """Return the tree of each line in bracket notation; "" for a line without words.

        with_unread: include words and punctuation marks that the model does not read, see `Parse.complete_tree`.
        """
        if with_unread:
            return ["" if parse is None else format_brackets(parse.complete_tree) for parse in self]
        if self.spans is None:
            return [""] * len(self.words)
        if self.labelled:
            drawn = list(map(format_brackets, self._trees()))
        else:
            drawn = format_spans(self.spans, self._bracketed(), self._tags())
        left = iter(drawn)
        return [next(left) if words else "" for words in self.words]

    def __iter__(self) -> Iterator[Parse | None]:
        """Yield the parse of each line; None for a line without words."""
        trees = iter(self._trees())
        values = self.distances.tolist()
        heads = [] if self.heads is None else self.heads.tolist()
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
            aligned = [] if self.reader is None else self.reader.align(self.lines[number - self.first])
            yield Parse(
                number,
                words,
                tokens,
                values[start:end],
                tree,
                scores,
                marginals,
                labels,
                [(part.start, part.end) for part in aligned if part.token is not None],
                [] if self.reader is None else list(map(self.reader.vocabulary.knows, tokens)),
                [NotRead(part.written, part.start, part.end) for part in aligned if part.token is None],
                heads[start:end],
            )

    def _trees(self) -> list[Tree]:
        """Return the trees of all lines with words. Labels of single words are constituents."""
        return trees_of(self.spans, self._bracketed(), self._tags()) if self.spans else []

    def _tags(self) -> list[list[str]] | None:
        return [tokens for tokens in self.tokens if tokens] if self.tagged else None

    def _bracketed(self) -> list[list[str]]:
        """Return the words for bracket notation.

        Character-level models may read white space as a character; it is replaced by its token.
        """
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
    """Return the label of the one-word constituent of each word; "" if there is none."""
    labels = {part.start: part.label for part in tree.constituents if not _is_long(part)}
    return [labels.get(place, "") for place in range(len(tree))]


def parse_lines(
    stored: ModelBundle,
    lines: Sequence[str],
    decoder: Rule | None = None,
    first: int = 1,
    layer: int | None = None,
    labels: bool = False,
    style: TreebankStyle = AS_TOKENISED,
) -> Parses:
    """Parse lines of text, with one sentence per line.

    decoder: a decoder of the model, see `rules_of`; None: its default.
    first: number of the first line.
    layer: layer of the distances, from 1; None: the model's default.
    labels: add the labels that the model has induced to spans and words.
    style: how words are split before the model's normaliser reads them, see `TextReader.of`; AUTO_STYLE for untokenised
        text.
    Raises InputError for a model that does not parse, for a decoder or layer that it lacks, and if labels are requested
    from a model without labels.
    """
    if isinstance(lines, str):
        raise TypeError("parse_lines takes a list of lines, not one string")
    if labels:
        stored.require(LabelsSpans, "parsing with labels")
    (rule,), (layer,) = rules_for([stored], decoder), layers_for([stored], layer)
    reader = TextReader.of(stored.normaliser, stored.vocabulary, style)
    read = _read(stored, reader, lines, first, labels)
    structure = read.structure
    given: dict[str, Any] = {"tagged": read.tagged, "labelled": labels, "lines": lines, "reader": reader}
    if structure is None:
        return Parses(read.words, read.tokens, _NO_DISTANCES, None, first, **given)
    return Parses(
        read.words,
        read.tokens,
        structure.distances[layer - 1] if rule in DECODING_RULES else _NO_DISTANCES,
        structure.labelled(rule) if labels else structure.decode(rule, layer),
        first,
        structure.span_scores,
        marginals=structure.marginals,
        heads=structure.heads,
        **given,
    )


@dataclass(frozen=True)
class _Reading:
    """Words and tokens of each line as a model reads them, and the structure of all lines with words."""

    words: list[list[str]]
    tokens: list[list[str]]
    structure: Structure | None
    tagged: bool


def _read(stored: ModelBundle, reader: TextReader, lines: Sequence[str], first: int, labels: bool = False) -> _Reading:
    words: list[list[str]] = []
    tokens: list[list[str]] = []
    for number, line in enumerate(lines, first):
        try:
            written, read = reader.written_tokens(line)
        except UntaggedTokenError as error:
            raise error.at(f"sentence {number}") from None
        words.append(written)
        tokens.append(read)
    full = {number: sentence for number, sentence in enumerate(tokens, first) if sentence}
    structure = structure_of(stored, list(full.values()), labels, list(full)) if full else None
    return _Reading(words, tokens, structure, stored.normaliser.units == "tags")


def parse_lines_together(
    stored: Sequence[ModelBundle],
    lines: Sequence[str],
    decoder: Rule | None = None,
    first: int = 1,
    layer: int | None = None,
    names: Sequence[str] = (),
    ties: TieBreaking = "random",
    style: TreebankStyle = AS_TOKENISED,
) -> Parses:
    """Parse lines with several models and return the average of their trees, without distances.

    A model with the decoder `mbr` contributes the probabilities of all spans instead of a tree. Vocabularies may
    differ; the trees contain the words of the first model. If one of the models reads tags, the lines must be tagged
    text, and the other models read its words.
    decoder: decoder of the models that have it; the other models use their default. None: all use their default.
    first: number of the first line.
    layer: layer of the distances of every model that has distances, from 1; None: each model's default.
    names: names of the models, for messages.
    ties: how the average chooses among equally good splits, see `trees.average`.
    style: how words are split, see `parse_lines`. With `auto`, the vocabulary of the first model determines the splits.
        Tagged text is never split.
    Raises InputError for the reasons of `parse_lines`, for a decoder that none of the models has, and for a sentence
    that the models' normalisers split differently.
    """
    if not stored:
        raise ValueError("found no model; expected one model or more")
    rules, layers = rules_for(stored, decoder), layers_for(stored, layer)
    readers = [TextReader.of(one.normaliser, one.vocabulary, style) for one in stored]
    if any(one.normaliser.units == "tags" for one in stored):
        readers = [TextReader(one.normaliser, one.vocabulary) for one in stored]
    split = [readers[0].split(line) for line in lines]
    own_lines = _lines_for(stored[0], lines, stored, first)
    own = _read(stored[0], readers[0], own_lines, first)
    readings = [own]
    names = names or [f"model {number}" for number in range(1, len(stored) + 1)]
    expected = _words(readers[0].without_splitting(), _lines_for(stored[0], split, stored, first))
    for name, one, reader in zip(names[1:], stored[1:], readers[1:], strict=True):
        readings.append(_read(one, reader.without_splitting(), _lines_for(one, split, stored, first), first))
        for number, (words, others) in enumerate(zip(expected, readings[-1].words, strict=True), first):
            if words != others:
                raise _read_differently(number, words, others, names[0], name)
    predictions = [
        one.structure.for_average(rule, number)
        for one, rule, number in zip(readings, rules, layers, strict=True)
        if one.structure is not None
    ]
    combined = average(predictions, ties=ties) if predictions else None
    return Parses(
        own.words, own.tokens, _NO_DISTANCES, combined, first, tagged=own.tagged, lines=own_lines, reader=readers[0]
    )


def _words(reader: TextReader, lines: Sequence[str]) -> list[list[str]]:
    return [reader.written_tokens(line)[0] for line in lines]


def _lines_for(one: ModelBundle, lines: Sequence[str], models: Sequence[ModelBundle], first: int) -> Sequence[str]:
    """Return the lines in the form that a model reads: without tags, if the model reads words and others read tags.

    first: number of the first line.
    """
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
        f"sentence {number}: the models read different words, starting with word {same + 1}.\n"
        f"  {name}, {len(words)} words: {beginning(words[same:])}\n"
        f"  {other_name}, {len(others)} words: {beginning(others[same:])}\n"
        "Expected models with the same tokenisation (text.normaliser in their recipes)."
    )


# Parsing of whole texts, some thousand lines at a time.


PARSED_TOGETHER = 20_000  # lines at a time: few enough for memory and for early output
SCORED_TOGETHER = 2_000  # the same for models that score spans, because a long sentence has thousands of spans


def parse_text(
    stored: Sequence[ModelBundle],
    text: str | Path | GivenText,
    decoder: Rule | None = None,
    layer: int | None = None,
    labels: bool = False,
    names: Sequence[str] = (),
    ties: TieBreaking = "random",
    style: TreebankStyle = AS_TOKENISED,
) -> Iterator[Parses]:
    """Parse a text with one sentence per line, showing a progress bar, and yields the parses of consecutive lines.

    stored: one model, or several models whose trees are averaged.
    decoder, layer, labels, style: see `parse_lines`; averages have no labels.
    names, ties: for several models, see `parse_lines_together`.
    Raises InputError for the reasons of these functions, if labels are requested of an average, and for an empty text.
    """
    if labels and len(stored) > 1:
        raise InputError(f"found {len(stored)} models; expected one, because averaged trees have no labels")
    normalisers = [one.normaliser for one in stored]
    reader = next((one for one in normalisers if one.units == "tags"), normalisers[0])
    lines = (line for _, line in read_sentences(text, reader))
    together = lines_together(stored)
    chunks = iter(lambda: list(islice(lines, together)), [])
    first = 1
    size = None if isinstance(text, GivenText) else plain_size(text)
    amount = len if size is None else _bytes_of
    for chunk in progress_bar(chunks, f"parsing {source_name(text)}", size, amount, percent=size is not None):
        if len(stored) > 1:
            yield parse_lines_together(stored, chunk, decoder, first, layer, names, ties, style)
        else:
            yield parse_lines(stored[0], chunk, decoder, first, layer, labels, style)
        first += len(chunk)
    if first == 1:
        raise no_sentence(text)


def lines_together(stored: Sequence[ModelBundle]) -> int:
    """Return the number of lines that these models parse at a time. Raises InputError for a model that does not
    parse.
    """
    of_distances = all(one.require(ParsingModel, "parsing").structure_type is Distances for one in stored)
    return PARSED_TOGETHER if of_distances else SCORED_TOGETHER


def _bytes_of(lines: Sequence[str]) -> int:
    return sum(map(line_bytes, lines))
