"""Lines of text parsed by one model, or by several together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any

import numpy as np
import numpy.typing as npt

from syntaxlm import display
from syntaxlm.dataframes import dataframe
from syntaxlm.errors import InputError
from syntaxlm.model_io import ModelBundle
from syntaxlm.models.abilities import LabelsSpans
from syntaxlm.parsing.structure import Rule, Structure, layers_for, rules_for, structure_of
from syntaxlm.parsing.unread import NotRead, with_unread
from syntaxlm.text.normaliser import UntaggedTokenError, without_tags
from syntaxlm.text.reader import AS_TOKENISED, TextReader
from syntaxlm.text.treebank_style import TreebankStyle
from syntaxlm.trees import DECODING_RULES, SpanSets, TieBreaking, Tree, average, format_brackets, format_spans, trees_of
from syntaxlm.trees.matching import beginning
from syntaxlm.trees.span_decoding import Scores, SpanScores
from syntaxlm.trees.tree import Constituent

_NO_DISTANCES = np.zeros(0, np.float32)


@dataclass(frozen=True)
class Parse:
    """One sentence, parsed. words: as written; tokens: as the (first) model read them.

    offsets: where each word stands in the line, (start, end) in code points.
    known: of each word, whether the (first) model's vocabulary has it.
    not_read: stretches of the line that no model read, such as dropped punctuation, with their (start, end).
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
    offsets: list[tuple[int, int]] = field(default_factory=list)
    known: list[bool] = field(default_factory=list)
    not_read: list[NotRead] = field(default_factory=list)

    @property
    def complete_tree(self) -> Tree:
        """The tree over all words and marks of the line. Those that were not read have the tag UNREAD.

        Each hangs from the lowest constituent that covers the words on both its sides; at an end of the line, from the
        top.
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
        rest["spans"] = [[part.start, part.end] for part in constituents]
        if self.word_labels is not None:
            rest["labels"] = [part.label for part in constituents]
            rest["word_labels"] = self.word_labels
        for name, chart in (("scores", self.span_scores), ("marginals", self.marginals)):
            if chart is not None:
                rest[name] = [round(float(chart[part.start, part.end - 1]), 6) for part in constituents]
        return rest

    def rows(self) -> Iterator[dict[str, Any]]:
        """The rows of `to_dataframe`.

        sentence: its number.  start, end: place of the constituent among the words, [start, end), 0 first.  text: its
        words.  label: "" without induced labels.  score, marginal: None for a model without.
        """
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

    def to_dataframe(self) -> Any:
        """A row per constituent of two words or more, as a pandas.DataFrame or, without pandas, polars.DataFrame.

        Raises InputError where neither library is installed.
        """
        return dataframe(self.rows(), ("sentence", "start", "end", "text", "label", "score", "marginal"))

    def __len__(self) -> int:
        """The number of words."""
        return len(self.words)

    def __str__(self) -> str:
        """The tree as bracketed text."""
        return str(self.tree)

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
    lines, reader: the lines as written, and how the (first) model reads them.
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

    def brackets(self, with_unread: bool = False) -> list[str]:
        """Each line's tree, "" for a line without a word.

        with_unread: over all words and marks of the line, see `Parse.complete_tree`; else over those that were read.
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
            )

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
    style: TreebankStyle = AS_TOKENISED,
) -> Parses:
    """Parses lines of text, a sentence each.

    decoder: one of the model's rules (`rules_of`); None: its default. first: number of the first line.
    layer: whose distances, 1 is the first; None: the model's own.
    labels: whether spans and words get the labels that the model has induced.
    style: how words are split before the model's normaliser reads them, see `TextReader.of`; AUTO_STYLE for text as
    people write it.
    Raises InputError for a model that does not parse, a decoder or layer that it does not have, and where labels are
    asked of a model without.
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
        **given,
    )


@dataclass(frozen=True)
class _Reading:
    """Lines as a model reads them: words and tokens of each, and the structure of those that have words."""

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
    style: TreebankStyle = AS_TOKENISED,
) -> Parses:
    """Parses lines with several models: the average of their trees, over the words of the first; no distances.

    A model that is decoded by `mbr` takes part with the probabilities of all spans instead of a tree.
    Vocabularies may differ. Where one of the models reads tags, the lines are tagged text, of which models of words
    read the words. decoder: of the models that have this rule; the others parse by their defaults (all, where
    it is None). layer: as of `parse_lines`, of every model with distances. names: of the models, for messages.
    ties: which of equally good splits the average takes, see `trees.average`.
    style: as of `parse_lines`. Where it has `auto`, the first model decides where words are split; lines of tagged
    text are never split.
    Raises InputError as `parse_lines`, for a decoder that none of the models has, and naming the sentence that
    normalisers split or drop differently.
    """
    if not stored:
        raise ValueError("expected one model or more")
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
