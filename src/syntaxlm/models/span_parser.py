"""A span parser: a bidirectional LSTM scores spans, trained on trees that other parsers predict for the same text.

Stern, Andreas, Klein 2017, "A Minimal Span-Based Neural Constituency Parser": the features of a span are differences of
LSTM states at its two ends. Here spans have no labels, and training maximises the likelihood of the trees.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from torch import Tensor, nn

from syntaxlm.core.settings import Bounds, Fraction, Size
from syntaxlm.models.abilities import Criterion, LearnsFromTrees, Loss, Model
from syntaxlm.models.batches import State, TokenBatch
from syntaxlm.models.config import BaseConfig
from syntaxlm.models.layers import dropout
from syntaxlm.models.registry import model
from syntaxlm.models.sentences import BOS, EOS, ChartParser, chart_spans
from syntaxlm.ops import charts
from syntaxlm.trees.marks import MarkClass, MarkSide

_SPAN_FEATURES_TOGETHER = 1 << 23  # most hidden features of spans of sentences that are scored together


@dataclass(frozen=True)
class SpanParserConfig(BaseConfig):
    """Settings of a span parser (Stern et al. 2017, without labels), which learns from the trees of text.focus.

    Attributes:
        embedding_size: features of a word's embedding
        hidden_size: features of the LSTM in each direction, and of a span
        layers: layers of the LSTM
        dropout: rate on embeddings, between layers, and on the features of spans
        marks: whether its teachers used punctuation marks, so that parsing also uses them
        marks_side: the side of a span at which parsing expects a mark
        reads_marks: whether it reads the punctuation marks between words
        marks_dropout: share of the sentences whose marks are hidden in training, so that it also parses without marks
    """

    name: Literal["span-parser"] = "span-parser"
    embedding_size: Size = 128
    hidden_size: Size = 128
    layers: Annotated[int, Bounds(ge=1, le=16)] = 2
    dropout: Fraction = 0.3
    marks: bool = False
    marks_side: MarkSide = "both"
    reads_marks: bool = False
    marks_dropout: Fraction = 0.3

    @property
    def training_marks(self) -> MarkSide | None:
        return self.marks_side if self.marks else None


@model("span-parser", SpanParserConfig)
class SpanParser(Model, LearnsFromTrees, ChartParser):
    """A parser whose trees have probabilities proportional to exp(sum of the scores of their spans).

    It learns from trees alone, so it gives no probabilities of words. With several parsers' trees of a sentence, the
    loss is the mean over these trees.
    """

    reads = "sentences"
    criterion = Criterion("negative log-likelihood of trees", "nats per word")

    def __init__(self, config: SpanParserConfig, vocabulary_size: int) -> None:
        super().__init__()
        size, rate = config.hidden_size, config.dropout
        self.vocabulary_size = vocabulary_size
        self.dropout = rate
        self.embedding = nn.Embedding(vocabulary_size, config.embedding_size)
        between = rate if config.layers > 1 else 0.0
        self.lstm = nn.LSTM(config.embedding_size, size, config.layers, dropout=between, bidirectional=True)
        self.boundary = nn.Linear(2 * size, size)
        self.bias = nn.Parameter(torch.zeros(size))
        self.score = nn.Linear(size, 1, bias=False)
        nn.init.normal_(self.embedding.weight, std=config.embedding_size**-0.5)

        # The sum of embeddings of the classes of marks before a word, and after it: without marks, it is 0.
        self.marks_dropout = config.marks_dropout
        self.mark_embeddings = (
            nn.Linear(2 * len(MarkClass), config.embedding_size, bias=False) if config.reads_marks else None
        )
        if self.mark_embeddings is not None:
            nn.init.normal_(self.mark_embeddings.weight, std=config.embedding_size**-0.5)

    def loss(self, batch: TokenBatch, state: State = None) -> Loss:
        """Return negative log-likelihood of the trees in the batch; longer sentences without trees are left out."""
        total, words = self.score.weight.new_zeros(()), 0
        for columns, length, weights in self._span_weights(batch, others=1):
            shares = self._shares(batch, columns, length)
            has_tree = shares.any(0) | (length < 3)  # one or two words have one tree

            # The gradient of the log of the sum over all trees is the marginals: `linear` has the gradient of the
            # loss, and its value is replaced by that of the loss.
            chart = charts.marginals(weights.detach())
            linear = (weights * (chart.spans - shares))[:, has_tree].sum()
            value = (chart.log_totals - (weights.detach() * shares).sum(0))[has_tree].sum()
            total = total + linear + (value - linear.detach())
            words += length * int(has_tree.sum())
        return Loss(total, words, batch.sentence_count())

    def chart_weights(self, batch: TokenBatch) -> Iterator[tuple[slice, int, Tensor, None]]:
        for columns, length, weights in self._span_weights(batch, others=2):
            yield columns, length, weights, None

    def _span_weights(self, batch: TokenBatch, others: int) -> Iterator[tuple[slice, int, Tensor]]:
        """Yield sentences of n words: columns, n, and the weights of their spans, (n(n + 1)/2, b) float64.

        Spans of one word and of the whole sentence, which all trees have, have weight 0.

        Args:
            others: number of tokens of a column that are not words, see `TokenBatch.by_length`.
        """
        size = len(self.bias)
        for columns, words in batch.by_length(
            others, lambda length: _SPAN_FEATURES_TOGETHER // (length**2 * size // 2 + 1)
        ):
            length = words.shape[1]
            ends = words.new_full((1, len(words)), EOS)
            tokens = torch.cat([torch.full_like(ends, BOS), words.T, ends])
            read = self.embedding(tokens)
            if self.mark_embeddings is not None and batch.marks is not None:
                classes = self._mark_classes(batch.marks[: length + 1, columns])
                read = read + self.mark_embeddings(classes.to(read.dtype))
            features, _ = self.lstm(dropout(read, self.dropout, self.training))
            forward, backward = features.chunk(2, -1)

            # Before, between and after the words: what was read from the left, and from the right.
            boundaries = self.boundary(torch.cat([forward[:-1], backward[1:]], -1))
            starts, stops = (places[length:-1] for places in chart_spans(length, words.device))
            together = max(1, _SPAN_FEATURES_TOGETHER // (len(words) * size))  # fewer than all only of a long sentence
            scores = []
            for part_starts, part_stops in zip(starts.split(together), stops.split(together), strict=True):
                hidden = (boundaries[part_stops] - boundaries[part_starts] + self.bias).relu()
                scores.append(self.score(dropout(hidden, self.dropout, self.training))[..., 0].double())
            yield columns, length, nn.functional.pad(torch.cat(scores), (0, 0, length, int(length > 1)))

    def _mark_classes(self, gaps: Tensor) -> Tensor:
        """Return the classes of the marks before and after each token, BOS and EOS included: (n + 2, b, 2 classes).

        In training, the marks of some sentences are hidden.

        Args:
            gaps: (n + 1, b) see `TokenBatch.marks`.
        """
        if self.training:
            gaps = gaps * (torch.rand(gaps.shape[1], device=gaps.device) >= self.marks_dropout)
        classes = torch.stack([gaps & mark_class != 0 for mark_class in MarkClass], -1)
        none = torch.zeros_like(classes[:1])
        return torch.cat([torch.cat([none, classes]), torch.cat([classes, none])], -1)

    def _shares(self, batch: TokenBatch, columns: slice, length: int) -> Tensor:
        """Return the share of a sentence's trees that have each inner span: (n(n + 1)/2, b) float64.

        Every tree has the span of the whole sentence. A parser may have no tree of a sentence.
        """
        sentences = columns.stop - columns.start
        counts = torch.zeros(sentences, length + 1, length + 1, dtype=torch.float64, device=batch.tokens.device)
        if batch.spans is not None:
            step, column, words = batch.spans.unbind(1)
            here = (column >= columns.start) & (column < columns.stop)
            end = step[here] - 1  # step 0 reads BOS
            places = column[here] - columns.start, end - words[here], end
            counts.index_put_(places, counts.new_ones(()), accumulate=True)
        trees = counts[:, 0, length].clone()
        counts[:, 0, length] = 0
        starts, ends = chart_spans(length, counts.device)
        return counts[:, starts, ends].T / trees.clamp(min=1)
