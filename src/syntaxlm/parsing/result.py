"""The parses of sentences: one by one, and in columns for many lines."""

from __future__ import annotations

import sys
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, compress, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from syntaxlm.core.arrays import Numbers
from syntaxlm.data.corpora import EncodedCorpus
from syntaxlm.data.tables import INPUT_COLUMN, type_of
from syntaxlm.models.structures import CorpusStructure
from syntaxlm.reports.report import HasRows
from syntaxlm.reports.tables import Block, Column, Columns
from syntaxlm.reports.writers import blocks_of
from syntaxlm.text.lines import EncodedLines
from syntaxlm.text.reader import TextReader
from syntaxlm.trees.averaging import RankedTree
from syntaxlm.trees.decoding import Scores
from syntaxlm.trees.marks import GapMarks
from syntaxlm.trees.spans import SpanSets, format_spans, offsets_of, trees_of
from syntaxlm.trees.tree import INDUCED_LABEL, Constituent, DependencyTree, Tree, format_brackets

if TYPE_CHECKING:
    from syntaxlm.drawing.svg import Picture

UNREAD = "UNREAD"  # tag of words and punctuation marks that the model does not read


class Alternative(NamedTuple):
    """One of several trees of a sentence.

    Attributes:
        confidence: the mean probability of its constituents without the whole sentence.
        probability: the probability of the tree given the sentence; None for an average of several models (`also`), and
            for a model without probabilities of trees.
    """

    tree: Tree
    confidence: float
    probability: float | None


class NotRead(NamedTuple):
    """A part of a line that the model does not read, line[start:end].

    Attributes:
        start: first code point.
        end: code point after the last.
    """

    text: str
    start: int
    end: int


CONSTITUENTS = Columns(
    "constituents",
    "constituent of two words or more",
    {
        "sentence": Column("integer", "number of the line, from 1"),
        "start": Column("integer", "first word of the constituent, counted from 0"),
        "end": Column("integer", "the word after its last word, counted from 0"),
        "text": Column("text", "its words as written, joined by spaces"),
        "label": Column("text", "its induced label; empty without labels"),
        "score": Column("number", "its score, for PaLM a logarithm; missing if the model does not score spans"),
        "marginal": Column("number", "its probability; missing if the model does not compute it"),
        "rank": Column("integer", "rank of its tree among the best of the sentence, or number of the sample, from 1"),
        "confidence": Column("number", "mean probability of the constituents of its tree; missing without marginals"),
        "probability": Column("number", "probability of its tree; missing unless several trees are requested"),
    },
)


@dataclass(frozen=True)
class Parse(HasRows):
    """The parse of one sentence; false if it has no words. With several models, texts are those that the first reads.

    Attributes:
        number: number of the sentence in the input, from 1.
        words: the words as written.
        tokens: the words after normalisation.
        tree: the tree over `words`. For a model that reads tags, the tags are the part-of-speech tags of the tree. If
            induced labels were requested, the label of a word is its tag or, if the word already has a tag, a
            constituent above it.
        word_values: values of the words by name: distances, heights or heads, if the model computes them.
        span_values: (n, n), values of the spans by name, by first and last word: scores or marginals.
        word_labels: the induced label of each word, "" for none; None if the tree has no induced labels.
        offsets: start and end of each word in the line, in code points.
        known: whether each word is in the model's vocabulary.
        not_read: parts of the line that the model does not read, such as punctuation, with their start and end; empty
            if the sentence has no words.
        alternatives: the best trees, the best first, if several were requested; or samples of trees.
        others: further values of every row: the cells of a table beside the sentence.
        structure: what the tree was decoded from, such as "span scores"; "" for an average, and without words.

    Examples:
        >>> parse = nlp.parse("a cat sleeps")
        >>> parse.words, parse.known
        (['a', 'cat', 'sleeps'], [True, True, True])
        >>> round(float(parse.marginals[0, 1]), 1)  # the probability of the span from the first to the second word
        1.0
    """

    number: int
    words: list[str]
    tokens: list[str]
    tree: Tree
    word_values: dict[str, list[Any]] = field(default_factory=dict)
    span_values: dict[str, Scores] = field(default_factory=dict, compare=False)
    word_labels: list[str] | None = None
    offsets: list[tuple[int, int]] = field(default_factory=list)
    known: list[bool] = field(default_factory=list)
    not_read: list[NotRead] = field(default_factory=list)
    alternatives: list[Alternative] = field(default_factory=list, compare=False)
    others: Mapping[str, Any] = field(default_factory=dict, compare=False)
    structure: str = field(default="", compare=False)

    @property
    def columns(self) -> Columns:  # type: ignore[override]  # they depend on the input
        """The columns of the rows: `CONSTITUENTS`, and those of a table beside the sentence."""
        further = {name: Column(type_of([value]), INPUT_COLUMN) for name, value in self.others.items()}
        return CONSTITUENTS.beside(further) if further else CONSTITUENTS

    @property
    def distances(self) -> list[float]:
        """The syntactic distance of each word; empty for averages and for models without distances."""
        return self.word_values.get("distances", [])

    @property
    def heads(self) -> list[int]:
        """The position of each word's head, from 1, 0 for the root; empty if the model gives no dependency trees."""
        return self.word_values.get("heads", [])

    @property
    def span_scores(self) -> Scores | None:
        """(n, n), scores by first and last word of the span; None if the model does not score spans.

        Those of a PaLM are logarithms of shares of its attention. Those of a model that was trained with TreeReg are
        lengths of vectors, whose sum over both parts of a split is the score of the split.
        """
        return self.span_values.get("scores")

    @property
    def marginals(self) -> Scores | None:
        """(n, n), probabilities by first and last word; None if the model does not compute them."""
        return self.span_values.get("marginals")

    @property
    def confidence(self) -> float | None:
        """The mean probability of the constituents of the tree without the whole sentence, 1 if there are none.

        The probabilities are the model's own and not calibrated: `evaluate_parsing` reports how many constituents of a
        probability are in gold trees. Without probabilities of spans, it is the confidence of the first alternative, or
        None if there are no alternatives.
        """
        if self.marginals is None:
            return self.alternatives[0].confidence if self.alternatives else None
        inner = [part for part in self.tree.constituents if 1 < part.end - part.start < len(self)]
        return float(np.mean([self.marginals[part.start, part.end - 1] for part in inner])) if inner else 1.0

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
        tree = self.tree
        starts = [start for start, _ in self.offsets]
        leaves = list(zip(starts, tree.words, tree.tags, strict=True))
        leaves += [(part.start, part.text, UNREAD) for part in self.not_read]
        leaves.sort(key=lambda leaf: leaf[0])

        # Constituents also contain what is not read between their words.
        before = [bisect_left(starts, part.start) for part in self.not_read]  # number of words before each part
        constituents = [
            Constituent(label, start + bisect_right(before, start), end + bisect_left(before, end))
            for label, start, end in tree.constituents
        ]
        if not constituents or constituents[0].end - constituents[0].start < len(leaves):
            has_root = bool(constituents) and tree.constituents[0][1:] == (0, len(tree))
            root = constituents.pop(0).label if has_root else "X"
            constituents.insert(0, Constituent(root, 0, len(leaves)))
        return Tree(tuple(leaf[1] for leaf in leaves), tuple(leaf[2] for leaf in leaves), tuple(constituents))

    def to_dict(self) -> dict[str, Any]:
        constituents = list(filter(_is_long, self.tree.constituents))
        values: dict[str, Any] = {"number": self.number, "words": self.words, "tokens": self.tokens}
        values |= {name: _rounded(numbers) for name, numbers in self.word_values.items()}
        values["offsets"] = [list(place) for place in self.offsets]
        values["known"] = self.known
        values["not_read"] = [part._asdict() for part in self.not_read]
        values["spans"] = [[part.start, part.end] for part in constituents]
        if self.word_labels is not None:
            values["labels"] = [part.label for part in constituents]
            values["word_labels"] = self.word_labels
        for name, chart in self.span_values.items():
            values[name] = _rounded([float(chart[part.start, part.end - 1]) for part in constituents])
        if (confidence := self.confidence) is not None:
            values["confidence"] = round(confidence, 6)
        if self.alternatives:
            values["alternatives"] = [
                {"spans": [[part.start, part.end] for part in tree.constituents], "confidence": round(confidence, 6)}
                | ({} if probability is None else {"probability": float(f"{probability:.6g}")})
                for tree, confidence, probability in self.alternatives
            ]
        return values

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield the rows of files and data frames, one per constituent."""
        trees: Sequence[tuple[Tree, float | None, float | None]] = [(self.tree, self.confidence, None)]
        for rank, (tree, confidence, probability) in enumerate(self.alternatives or trees, 1):
            for part in filter(_is_long, tree.constituents):
                values = {name: float(chart[part.start, part.end - 1]) for name, chart in self.span_values.items()}
                yield {
                    "sentence": self.number,
                    "start": part.start,
                    "end": part.end,
                    "text": " ".join(self.words[part.start : part.end]),
                    "label": "" if self.word_labels is None else part.label,
                    "score": values.get("scores"),
                    "marginal": values.get("marginals"),
                    "rank": rank,
                    "confidence": confidence,
                    "probability": probability,
                    **self.others,
                }

    def __len__(self) -> int:
        """Return the number of words."""
        return len(self.words)

    def __str__(self) -> str:
        """Return the tree in bracket notation."""
        return str(self.tree)

    def __repr__(self) -> str:
        return f"Parse({str(self.tree)!r})"

    def draw(self) -> Picture:
        """Return the tree as a picture, with its distances if it has them.

        `parse.draw().save("tree.svg")` writes it, also as `.html` or, with the extra `draw`, as `.pdf` or `.png`.
        """
        from syntaxlm.drawing.tree import tree_picture  # pictures are imported only to draw

        return tree_picture(self.tree, self.distances or None, words=self.words)

    def _repr_svg_(self) -> str:
        """Return the picture as SVG, for notebooks."""
        return self.draw().svg()


@dataclass(frozen=True)
class ParseBatch:
    """The parses of consecutive lines: one `Parse` per line. The trees contain the words as written, without those
    the normaliser drops.

    Attributes:
        read: the lines as the (first) model reads them.
        reader: the reader of that model.
        first: number of the first line.
        spans: the spans of the trees of all lines with words; None if there are none.
        structure: what the trees were decoded from; None for averages and without words.
        layer: the layer of its distances.
        labelled: whether spans and single words have induced labels.
        alternatives: several trees of each line with words; () if one was requested.
    """

    read: EncodedLines
    reader: TextReader
    first: int
    spans: SpanSets | None = None
    structure: CorpusStructure | None = None
    layer: int = 1
    labelled: bool = False
    alternatives: Sequence[Sequence[RankedTree]] = ()

    @cached_property
    def words(self) -> list[list[str]]:
        """The words of each line; none for a line without words."""
        return self.read.by_line(self.read.written)

    @cached_property
    def tokens(self) -> list[list[str]]:
        """The tokens of each line."""
        return self.read.by_line(cast(Sequence[str], self.read.tokens))

    def corpus(self, marks: GapMarks | None = None) -> EncodedCorpus:
        """Return the token ids of all lines that have words.

        Args:
            marks: of these lines, see `EncodedCorpus`.
        """
        is_full = np.diff(self.read.places) > 0
        offsets = np.append(self.read.places[:-1][is_full], self.read.places[-1])
        ids = self.read.ids[self.read.is_read].astype(np.int32)
        return EncodedCorpus(ids, offsets, self.first + np.flatnonzero(is_full), marks=marks)

    def brackets(self, with_unread: bool = False) -> list[str]:
        """Return the tree of each line in bracket notation; "" for a line without words.

        Args:
            with_unread: include words and punctuation marks that the model does not read, see `Parse.complete_tree`.
        """
        if with_unread:
            return [str(parse.complete_tree) if parse else "" for parse in self]
        counts = np.diff(self.read.places).tolist()
        if self.spans is None:
            return [""] * len(counts)
        if self.labelled:
            trees = iter(list(map(format_brackets, trees_of(self.spans, *self._leaves()))))
        elif self.reader.normaliser.units == "words":
            trees = iter(format_spans(self.spans, [list(compress(self.read.written, self.read.is_read.tolist()))]))
        else:
            trees = iter(format_spans(self.spans, *self._leaves()))
        return [next(trees) if count else "" for count in counts]

    def constituents(self) -> Block:
        """Return the rows of all parses, `Parse.rows`, in columns."""
        if self.spans is None or self.alternatives:
            rows = (row for parse in self for row in parse.rows())
            return next(blocks_of(rows, CONSTITUENTS, sys.maxsize), {name: [] for name in CONSTITUENTS})
        spans = self.spans.in_preorder(smallest=2)
        sentences = spans.sentences()
        missing = [None] * len(sentences)

        # The texts of constituents are parts of one text of all words.
        words = list(chain.from_iterable(self.words))
        text = " ".join(words)
        begins = offsets_of(np.fromiter(map(len, words), np.int64, len(words)) + 1)
        first = offsets_of(spans.lengths)[sentences]
        places = zip(begins[first + spans.starts].tolist(), (begins[first + spans.ends] - 1).tolist(), strict=True)
        values = {} if self.structure is None else self.structure.values_of_spans(sentences, spans.starts, spans.ends)
        labels = [""] * len(sentences)
        if self.labelled and spans.labels is not None:
            labels = [spans.label_names[code] for code in spans.labels.tolist()]
        return {
            "sentence": self.first + np.flatnonzero(np.diff(self.read.places))[sentences],
            "start": spans.starts,
            "end": spans.ends,
            "text": [text[start:end] for start, end in places],
            "label": labels,
            "score": values.get("scores", missing),
            "marginal": values.get("marginals", missing),
            "rank": np.ones(len(sentences), np.int64),
            "confidence": _confidence(spans, values["marginals"]) if "marginals" in values else missing,
            "probability": missing,
        }

    def __iter__(self) -> Iterator[Parse]:
        """Yield the parse of each line; that of a line without words has no words."""
        structure = self.structure
        trees = iter(trees_of(self.spans, *self._leaves()) if self.spans else ())
        word_values = {} if structure is None else structure.word_values(self.layer)
        offsets = list(zip(self.read.starts.tolist(), self.read.ends.tolist(), strict=True))
        line_offsets = self.read.by_line(offsets)
        line_known = self.read.by_line((~self.reader.vocabulary.is_unknown(self.read.ids)).tolist())
        lines = zip(self.words, self.tokens, line_offsets, line_known, self._not_read(offsets), strict=True)
        start = sentence = 0
        for number, (words, tokens, places, known, not_read) in enumerate(lines, self.first):
            if not words:
                yield Parse(number, [], [], Tree((), (), ()))
                continue
            end = start + len(words)
            tree = next(trees)
            labels = None
            if self.labelled:
                label_of = {part.start: part.label for part in tree.constituents if not _is_long(part)}
                labels = [label_of.get(place, "") for place in range(len(tree))]
                if self.reader.normaliser.units != "tags":  # they take the place of tags
                    tree = Tree(tree.words, tuple(labels), tuple(filter(_is_long, tree.constituents)))
            ranked_trees = self.alternatives[sentence] if self.alternatives else ()
            yield Parse(
                number,
                words,
                tokens,
                tree,
                word_values={name: values[start:end] for name, values in word_values.items()},
                span_values={} if structure is None else structure.span_values(sentence),
                word_labels=labels,
                offsets=places,
                known=known,
                not_read=not_read,
                alternatives=[_alternative(tree, ranked) for ranked in ranked_trees],
                structure="" if structure is None else structure.name,
            )
            start = end
            sentence += 1

    def _not_read(self, offsets: Sequence[tuple[int, int]]) -> list[list[NotRead]]:
        """Return what the model does not read of each line.

        Args:
            offsets: start and end of each part of the lines.
        """
        parts: list[list[NotRead]] = [[] for _ in self.read.lines]
        places = np.flatnonzero(~self.read.is_read)
        lines = np.searchsorted(self.read.offsets, places, side="right") - 1
        for line, place in zip(lines.tolist(), places.tolist(), strict=True):
            parts[line].append(NotRead(self.read.written[place], *offsets[place]))
        return parts

    def _leaves(self) -> tuple[list[list[str]], list[list[str]] | None]:
        """Return the words of the trees for bracket notation and, if the model reads tags, their tags.

        Character-level models may read white space as a character; it is replaced by its token.
        """
        units = self.reader.normaliser.units
        words = list(filter(None, self.words))
        if units == "words":
            return words, None
        tokens = list(filter(None, self.tokens))
        bracketed = [list(map(_leaf, *line)) for line in zip(words, tokens, strict=True)]
        return bracketed, tokens if units == "tags" else None


def _leaf(word: str, token: str) -> str:
    """Return the word, or its token if the word is white space or has an escaped token."""
    return token if word.isspace() or token == f"\\{word}" else word


def _alternative(tree: Tree, ranked: RankedTree) -> Alternative:
    """Return one of several trees, with the words and tags of another tree of the sentence."""
    constituents = tuple(Constituent(INDUCED_LABEL, start, end) for start, end in ranked.spans)
    return Alternative(Tree(tree.words, tree.tags, constituents), ranked.confidence, ranked.probability)


def _confidence(spans: SpanSets, marginals: Scores) -> Numbers:
    """Return the `Parse.confidence` of the sentence of each span, from the probabilities of the spans."""
    widths = spans.ends - spans.starts
    sentences = spans.sentences()
    is_inner = (widths > 1) & (widths < spans.lengths[sentences])
    inner = marginals[is_inner]
    offsets = offsets_of(np.bincount(sentences[is_inner], minlength=len(spans)))
    means = [inner[start:end].mean() if start < end else 1.0 for start, end in pairwise(offsets.tolist())]
    return np.array(means, np.float64)[sentences]


def _is_long(part: Constituent) -> bool:
    return part.end - part.start > 1


def _rounded(values: Sequence[float]) -> list[float]:
    return [round(value, 6) for value in values]
