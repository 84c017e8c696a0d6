"""The structures from which trees are decoded: distances, scores or probabilities of spans, or heads.

A parser returns the structure of a batch: `Distances`, `DistancesAndHeights`, `SpanScores`, `SpanMarginals` or `Heads`,
with tensors. Its `corpus` is the class that collects the batches of a corpus in the order of the sentences. It knows
all that depends on the type: the decoders, what an average of models takes, labels, and the values of one sentence.
Models with the ability `FindsBestTrees` add the decoder `viterbi`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from syntaxlm.core.arrays import Integers
from syntaxlm.ops.tree_losses import orthogonal_lengths, split_scores_of_spans
from syntaxlm.trees.averaging import average
from syntaxlm.trees.decoding import (
    DECODING_RULES,
    HEAD_RULES,
    SPAN_RULES,
    DecodingRule,
    HeadRule,
    Scores,
    SpanRule,
    SpanTable,
    decode,
    decode_heads,
    decode_spans,
    heads_of,
    table_indices,
)
from syntaxlm.trees.marks import Marks
from syntaxlm.trees.spans import AnyIntegers, Positions, SpanSets, item_indices, offsets_of, sorted_by_sentence
from syntaxlm.trees.tree import INDUCED_LABEL


class CorpusStructure(ABC):
    """The structure of the sentences of a corpus, in their order. Values are added batch by batch.

    Args:
        lengths: (S,), number of words of each sentence.
        layers: number of layers of distances; 0 for other structures.
        labels: names of the labels of the spans; () for a structure without labels.

    Attributes:
        name: the name of the structure, for people.
        decoders: names of the decoding algorithms, the default first.
        compares_spans: whether parsing takes time cubic in the number of words; False for distances.
    """

    name: ClassVar[str]
    decoders: ClassVar[tuple[str, ...]]
    compares_spans: ClassVar[bool] = True

    def __init__(self, lengths: Integers, layers: int = 0, labels: Sequence[str] = ()) -> None:
        self.lengths, self.layers, self.labels = lengths, layers, tuple(labels)

    @abstractmethod
    def add(self, batch: Any, words: Integers, indices: Integers) -> None:
        """Add the sentences of a batch, which are between BOS and EOS.

        Args:
            words: (B,), number of words of each column.
            indices: (B,), position of its sentence in the corpus.
        """

    def decode(self, decoder: str, layer: int = 1, marks: Marks | None = None) -> SpanSets:
        """Return the trees of a decoder: all spans of two words or more, without labels.

        Args:
            layer: layer of the distances, from 1.
            marks: as in `trees.averaging.average`, where the decoder's tree counts as span probabilities of 0 and 1
                unless the decoder uses the probabilities of spans.
        """
        if marks is None:
            return self._decode(decoder, layer)
        return average([self.averaging_input(decoder, layer)], marks=marks)

    @abstractmethod
    def _decode(self, decoder: str, layer: int) -> SpanSets: ...

    def averaging_input(self, decoder: str, layer: int = 1) -> SpanSets | SpanTable:
        """Return what an average with other models takes: trees, or the probabilities of all spans."""
        return self._decode(decoder, layer)

    def labelled(self, decoder: str, marks: Marks | None = None) -> SpanSets:
        """Return the trees of a decoder with the labels of their spans, including single words.

        Single words without a label are left out. Longer spans without a label have the label X.

        Args:
            marks: see `decode`.

        Raises:
            ValueError: for a structure without labels, and for decoders whose trees have none.
        """
        raise ValueError(f"trees of the decoder {decoder} have no labels")

    def word_values(self, layer: int) -> dict[str, list[Any]]:
        """Return values of the words, by name: distances of a layer or heads, sentence after sentence."""
        return {}

    def span_values(self, sentence: int) -> dict[str, Scores]:
        """Return values of the spans of a sentence, by name: scores or marginals, (n, n) by first and last word."""
        return {}

    def values_of_spans(self, sentences: Integers, starts: AnyIntegers, ends: AnyIntegers) -> dict[str, Scores]:
        """Return the values that `span_values` has, for k spans [start, end) of any sentences: (k,) each.

        Args:
            sentences: (k,), the sentence of each span.
            starts: (k,), its first word.
            ends: (k,), the word after its last.
        """
        return {}


class CorpusDistances(CorpusStructure):
    """Distances.

    Attributes:
        values: (layers, words), sentence after sentence.
    """

    name = "distances"
    decoders = DECODING_RULES
    compares_spans = False

    def __init__(self, lengths: Integers, layers: int = 1, labels: Sequence[str] = ()) -> None:
        super().__init__(lengths, layers)
        self._offsets = offsets_of(lengths)
        self.values = np.zeros((layers, int(self._offsets[-1])), np.float32)

    def add(self, batch: Distances, words: Integers, indices: Integers) -> None:
        _store_word_values(self.values, batch.values[:, 1:-1], self._offsets[indices], words)

    def _decode(self, decoder: str, layer: int) -> SpanSets:
        return decode(self.values[layer - 1], self.lengths, cast(DecodingRule, decoder))

    def word_values(self, layer: int) -> dict[str, list[Any]]:
        return {"distances": self.values[layer - 1].tolist()}


class CorpusDistancesAndHeights(CorpusDistances):
    """Distances, and heights of words: (words,). Constituents follow from the distances, and heads from both.

    A constituent's head is its highest word, so every dependency tree is projective and fits the constituents of the
    decoder `unbiased`.
    """

    name = "distances and heights"
    decoders = ("unbiased", "biased")

    def __init__(self, lengths: Integers, layers: int = 1, labels: Sequence[str] = ()) -> None:
        super().__init__(lengths, layers)
        self.heights = np.zeros(int(self._offsets[-1]), np.float32)

    def add(self, batch: Distances, words: Integers, indices: Integers) -> None:
        assert isinstance(batch, DistancesAndHeights)
        super().add(batch, words, indices)
        _store_word_values(self.heights[None], batch.heights[None, 1:-1], self._offsets[indices], words)

    def word_values(self, layer: int) -> dict[str, list[Any]]:
        heads = heads_of(self.values[layer - 1], self.heights, self.lengths)
        return super().word_values(layer) | {"heights": self.heights.tolist(), "heads": heads.tolist()}


class CorpusSpanScores(CorpusStructure):
    """Log scores of all spans, which may be compared if they end at the same word.

    Attributes:
        table: the scores of all sentences.
    """

    name = "span scores"
    decoders = SPAN_RULES

    def __init__(self, lengths: Integers, layers: int = 0, labels: Sequence[str] = ()) -> None:
        super().__init__(lengths)
        self.table = SpanTable(lengths, np.zeros(int((lengths * (lengths + 1) // 2).sum()), np.float32))

    def add(self, batch: SpanScores, words: Integers, indices: Integers) -> None:
        longest = len(batch.values) - 2
        if batch.values.shape[2] < longest:
            raise ValueError(
                f"scores of spans of up to {batch.values.shape[2]} words, expected those of up to {longest}"
            )
        # Spans that end at a word are found at the step after it; longer ones start before the first word.
        scores = batch.values[2:, :, :longest].transpose(0, 1).float().cpu().numpy()
        end = np.arange(1, longest + 1)[:, None]
        length = np.arange(1, longest + 1)
        is_span = (length <= end) & (end <= words[:, None, None])
        self.table.values[item_indices(self.table.offsets, indices)] = scores[is_span]

    def _decode(self, decoder: str, layer: int) -> SpanSets:
        return decode_spans(self.table, cast(SpanRule, decoder))

    def span_values(self, sentence: int) -> dict[str, Scores]:
        return {"scores": self.table.chart(sentence)}

    def values_of_spans(self, sentences: Integers, starts: AnyIntegers, ends: AnyIntegers) -> dict[str, Scores]:
        return {"scores": self.table.of_spans(sentences, starts, ends)}


class CorpusSplitScores(CorpusSpanScores):
    """Span scores such that score(left) + score(right) is the score of a split."""

    name = "split scores"
    decoders = ("greedy-sum", "cky")


class CorpusMarginals(CorpusStructure):
    """Probabilities of all spans given the sentence, 1 for single words, with the most probable label of each.

    Attributes:
        table: the probabilities.
        codes: in the order of `table`, indices into `labels`, -1 for no label; empty without labels.
        find_best_trees: computes the most probable trees, labelled, on first use of the decoder `viterbi`. It needs
            the model, so `parsing.structure` sets it.
    """

    name = "span probabilities"
    decoders = ("mbr",)
    find_best_trees: Callable[[], SpanSets]

    def __init__(self, lengths: Integers, layers: int = 0, labels: Sequence[str] = ()) -> None:
        super().__init__(lengths, labels=labels)
        self.table = SpanTable(lengths, np.zeros(int((lengths * (lengths + 1) // 2).sum()), np.float32))
        self.codes: Positions = np.zeros(len(self.table.values) if labels else 0, np.int32)

    def add(self, batch: SpanMarginals, words: Integers, indices: Integers) -> None:
        size, longest = batch.values.shape[1], words.max()
        if batch.values.shape[1:] != (size, size) or size < longest:
            shape = tuple(batch.values.shape)
            raise ValueError(f"charts of shape {shape}, expected (B, n, n) for up to {longest} words")
        values = batch.values.to(torch.float32, copy=True)
        values.diagonal(dim1=1, dim2=2).fill_(1)
        charts_and_tables: list[tuple[Tensor, npt.NDArray[Any]]] = [(values, self.table.values)]
        if self.labels:
            assert batch.labels is not None
            charts_and_tables.append((batch.labels.int(), self.codes))

        # The table is ordered by last word, so the spans of a sentence come first in the chart of a longer one.
        last, before = np.tril_indices(size)
        offsets = self.table.offsets[indices].tolist()
        counts = (words * (words + 1) // 2).tolist()
        for charts, flat in charts_and_tables:
            rows = charts.cpu().numpy().reshape(len(charts), -1).take((last - before) * size + last, axis=1)
            for row, offset, count in zip(rows, offsets, counts, strict=True):
                flat[offset : offset + count] = row[:count]

    def _decode(self, decoder: str, layer: int) -> SpanSets:
        """`mbr`: the trees with the largest sum of marginals (minimum Bayes risk).  `viterbi`: the most probable."""
        if decoder == "mbr":
            return average([self.table])
        best = self._best_trees
        is_long = best.ends - best.starts > 1
        return sorted_by_sentence(self.lengths, [(best.sentences()[is_long], best.starts[is_long], best.ends[is_long])])

    def averaging_input(self, decoder: str, layer: int = 1) -> SpanSets | SpanTable:
        return self.table if decoder == "mbr" else self._decode(decoder, layer)

    def labelled(self, decoder: str, marks: Marks | None = None) -> SpanSets:
        if not self.labels or decoder not in ("mbr", "viterbi"):
            return super().labelled(decoder)
        if decoder == "viterbi" and marks is None:
            return self._best_trees
        trees = self.decode(decoder, marks=marks)
        words = np.arange(self.lengths.sum()) - np.repeat(offsets_of(self.lengths)[:-1], self.lengths)
        singles = (np.repeat(np.arange(len(self.lengths)), self.lengths), words, words + 1)
        spans = sorted_by_sentence(self.lengths, [(trees.sentences(), trees.starts, trees.ends), singles])
        codes = self.codes[table_indices(self.table.offsets[spans.sentences()], spans.starts, spans.ends)]
        return labelled_spans(spans, codes, self.labels)

    def span_values(self, sentence: int) -> dict[str, Scores]:
        return {"marginals": self.table.chart(sentence)}

    def values_of_spans(self, sentences: Integers, starts: AnyIntegers, ends: AnyIntegers) -> dict[str, Scores]:
        return {"marginals": self.table.of_spans(sentences, starts, ends)}

    @cached_property
    def _best_trees(self) -> SpanSets:
        return self.find_best_trees()


class CorpusHeads(CorpusStructure):
    """Heads.

    Attributes:
        values: (words,), position of each word's head in its sentence, from 1, 0 for the root.
    """

    name = "dependency trees"
    decoders = HEAD_RULES

    def __init__(self, lengths: Integers, layers: int = 0, labels: Sequence[str] = ()) -> None:
        super().__init__(lengths)
        self._offsets = offsets_of(lengths)
        self.values: Positions = np.zeros(int(self._offsets[-1]), np.int32)

    def add(self, batch: Heads, words: Integers, indices: Integers) -> None:
        _store_word_values(self.values[None], batch.values.T[None], self._offsets[indices], words)

    def _decode(self, decoder: str, layer: int) -> SpanSets:
        """Return the constituents of the most probable dependency trees, see `decode_heads`."""
        return decode_heads(self.values, self.lengths, cast(HeadRule, decoder))

    def word_values(self, layer: int) -> dict[str, list[Any]]:
        return {"heads": self.values.tolist()}


@dataclass(frozen=True)
class Distances:
    """Syntactic distances between each token and the preceding one; large at constituent boundaries.

    Attributes:
        values: (layers, T, B).
    """

    values: Tensor
    corpus: ClassVar[type[CorpusStructure]] = CorpusDistances


@dataclass(frozen=True)
class DistancesAndHeights(Distances):
    """Distances, and a height of each word; the highest word of a constituent is its head.

    Attributes:
        heights: (T, B).
    """

    heights: Tensor
    corpus: ClassVar[type[CorpusStructure]] = CorpusDistancesAndHeights


@dataclass(frozen=True)
class SpanScores:
    """Log-probability of each span among the spans that end at the same token.

    Attributes:
        values: (T, B, m); row t has the spans of 1 to m tokens that end at token t - 1, -inf where there is no such
            span.
    """

    values: Tensor
    corpus: ClassVar[type[CorpusStructure]] = CorpusSpanScores


@dataclass(frozen=True)
class SplitScores(SpanScores):
    """Scores of spans by the hidden states of their words (TreeReg, see `ops.tree_losses`); 0 where there is no span.

    Attributes:
        values: (T, B, m), see `SpanScores`.
    """

    corpus: ClassVar[type[CorpusStructure]] = CorpusSplitScores

    @classmethod
    def of(cls, states: Tensor, lengths: Tensor | None = None) -> SplitScores:
        """Return the scores of sentences with BOS and EOS by their states, (T, B, S).

        Args:
            lengths: (B,), steps of each sentence; None if all have T.
        """
        words = max(0, len(states) - 2)
        orthogonal = orthogonal_lengths(states[1 : words + 1])
        if lengths is not None:  # no word follows the last one
            real = torch.arange(words) < lengths[:, None] - 2
            orthogonal = orthogonal * real[:, None].to(orthogonal.device)
        scores = split_scores_of_spans(orthogonal)  # (B, first, last)
        last = torch.arange(words, device=scores.device)[:, None]
        first = last - torch.arange(words, device=scores.device)
        by_length = scores[:, first.clamp(min=0), last] * (first >= 0)
        return cls(torch.nn.functional.pad(by_length, (0, 1, len(states) - words, 0)).transpose(0, 1))


@dataclass(frozen=True)
class SpanMarginals:
    """The posterior probability of each span of two or more words, and its most probable label.

    Attributes:
        values: (B, n, n), indexed by first and last word, both inclusive; n is the longest sentence's number of words.
            0 where there is no span.
        labels: (B, n, n) int64, indices into `LabelsSpans.labels`, including those of single words; -1 where there is
            no span; None unless requested.
    """

    values: Tensor
    labels: Tensor | None = None
    corpus: ClassVar[type[CorpusStructure]] = CorpusMarginals


@dataclass(frozen=True)
class Heads:
    """The most probable dependency tree.

    Attributes:
        values: (B, n) int64, position of each word's head, counted from 1; 0 for the root, -1 on padding.
    """

    values: Tensor
    corpus: ClassVar[type[CorpusStructure]] = CorpusHeads


Structure = Distances | SpanScores | SpanMarginals | Heads
"""A parser's output for a batch."""


def labelled_spans(spans: SpanSets, codes: AnyIntegers, names: Sequence[str]) -> SpanSets:
    """Return spans with labels.

    Args:
        codes: index into `names` of each span, -1 for no label. Single words without a label are left out, and longer
            spans without a label have the label X.
    """
    is_labelled = (codes >= 0) | (spans.ends - spans.starts > 1)
    offsets = offsets_of(np.bincount(spans.sentences()[is_labelled], minlength=len(spans)))
    starts, ends = spans.starts[is_labelled], spans.ends[is_labelled]
    codes = np.where(codes < 0, len(names), codes)[is_labelled].astype(np.int32)
    return SpanSets(spans.lengths, offsets, starts, ends, codes, (*names, INDUCED_LABEL))


def _store_word_values(flat: npt.NDArray[Any], values: Tensor, begins: Integers, words: Integers) -> None:
    """Store the values of a batch's words among those of a corpus.

    Args:
        flat: values of the corpus, (layers, N).
        values: of the batch, (layers, n, B).
        begins: index in `flat` of the first word of each sentence, (B,).
        words: number of words of each sentence, (B,).
    """
    steps = np.arange(values.shape[1])[:, None]
    is_word = steps < words
    flat[:, (begins + steps)[is_word]] = values.cpu().numpy()[:, is_word]
