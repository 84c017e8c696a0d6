"""DIORA: a sentence's parts are composed into its vector, and each word is predicted from all the others.

Drozdov, Verga, Yadav, Iyyer, McCallum 2019, "Unsupervised Latent Tree Induction with Deep Inside-Outside Recursive
Autoencoders". Where the paper is silent, this is the authors' program with the options of their README. DIORA is an
autoencoder: it gives no probability of a sentence, because each word is predicted from words on both sides.
Shapes: T time, B sentences, n words, E embedding size, D features of a vector, V vocabulary size.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from syntaxlm.core.settings import Bounds, Fraction, Size
from syntaxlm.models.abilities import (
    ACTIVATION_COPIES,
    Criterion,
    EncodesSentences,
    Encoding,
    Loss,
    NeedsTextCounts,
    TextCounts,
    TrainsByGradient,
)
from syntaxlm.models.batches import State, TokenBatch
from syntaxlm.models.config import BaseConfig
from syntaxlm.models.layers import LOG_PROBS, dropout
from syntaxlm.models.registry import model
from syntaxlm.models.sentences import ChartParser
from syntaxlm.ops import diora
from syntaxlm.ops.softmax import target_log_probs

_PAIR_FEATURES_TOGETHER = 1 << 23  # most features of the pairs of one width, in sentences that are composed together


@dataclass(frozen=True)
class DIORAConfig(BaseConfig):
    """Settings of DIORA (Drozdov et al. 2019).

    Attributes:
        embedding_size: features of a word's embedding
        hidden_size: D, features of a span's vector, and of the hidden layer that composes two vectors
        dropout: rate on the features of words, and on the outside vectors from which words are predicted
        shared: whether the outside pass uses the weights of the inside pass
        negatives: number of words drawn per batch for the loss; 0 selects the full softmax
    """

    name: Literal["diora"] = "diora"
    embedding_size: Size = 400
    hidden_size: Size = 400
    dropout: Fraction = 0.0
    shared: bool = True
    negatives: Annotated[int, Bounds(ge=0, le=1_000_000)] = 100


class _Composition(nn.Module):
    """The weights of `ops.diora.Composition`; standard normal at the start."""

    def __init__(self, size: int) -> None:
        super().__init__()
        shapes = (size, 2 * size), (size,), (size, size), (size,), (size, size)
        parts = (nn.Parameter(torch.randn(shape)) for shape in shapes)
        self.parts = nn.ParameterDict(zip(diora.Composition._fields, parts, strict=True))

    def forward(self) -> diora.Composition:
        return diora.Composition(*(self.parts[name] for name in diora.Composition._fields))


class DIORAEncoder(EncodesSentences):
    """The inside pass. A sentence's vector is its inside vector."""

    reads = "sentences"

    def __init__(self, config: DIORAConfig, vocabulary_size: int) -> None:
        super().__init__()
        self.vocabulary_size = vocabulary_size
        self.feature_size = config.hidden_size
        self.embedding = nn.Embedding(vocabulary_size, config.embedding_size)
        self.leaf = nn.Linear(config.embedding_size, config.hidden_size)
        self.dropout = config.dropout
        self.composition = _Composition(config.hidden_size)
        nn.init.normal_(self.embedding.weight, std=config.embedding_size**-0.5)
        nn.init.normal_(self.leaf.weight)
        nn.init.zeros_(self.leaf.bias)

    def encode(self, batch: TokenBatch) -> Encoding:
        """Return the inside vector of each column; all its tokens are words."""
        groups = self._groups(batch, others=0)
        return Encoding(torch.cat([diora.inside(self._leaves(words), self.composition()) for _, words in groups]))

    def _leaves(self, words: Tensor) -> Tensor:
        """Return the inside vectors of words, (..., D), of norm 1."""
        features = dropout(self.leaf(self.embedding(words)).tanh(), self.dropout, self.training)
        return _unit_vectors(features.to(self.embedding.weight.dtype))

    def _groups(self, batch: TokenBatch, others: int) -> Iterator[tuple[slice, Tensor]]:
        """Return sentences of one length that are composed together: their columns, and their words, (B, n).

        Args:
            others: number of tokens of a column that are not words, see `TokenBatch.by_length`.
        """
        return batch.by_length(
            others, lambda length: _PAIR_FEATURES_TOGETHER // (length**2 * self.feature_size // 4 + 1)
        )


@model("diora", DIORAConfig)
class DIORA(DIORAEncoder, TrainsByGradient, NeedsTextCounts, ChartParser):
    """An autoencoder of sentences. Trees are scored by the inside pass: by the sum of the scores of their splits."""

    criterion = Criterion("reconstruction loss", "nats per word")
    value_ranges: ClassVar = {"unigrams": LOG_PROBS}
    unigrams: Tensor

    def __init__(self, config: DIORAConfig, vocabulary_size: int) -> None:
        super().__init__(config, vocabulary_size)
        self.negatives = config.negatives
        self.outside_composition = None if config.shared else _Composition(config.hidden_size)
        self.root = nn.Parameter(torch.empty(config.hidden_size))
        nn.init.normal_(self.root)
        self.decoder = nn.Linear(config.hidden_size, config.embedding_size, bias=False)
        nn.init.normal_(self.decoder.weight)
        self.register_buffer("unigrams", torch.full((vocabulary_size,), -math.log(vocabulary_size)))

    @classmethod
    def encoder(cls, config: DIORAConfig, vocabulary_size: int) -> DIORAEncoder:
        return DIORAEncoder(config, vocabulary_size)

    def setup(self, counts: TextCounts) -> None:
        """Set the log-probabilities of words without context (add-1/2 smoothing)."""
        smoothed = counts.words.double() + 0.5
        self.unigrams.copy_((smoothed / smoothed.sum()).log())

    def step_size(self, tokens: int, longest: int) -> int:
        """As in `TrainsByGradient`, with the vectors of all spans, and those of both layers for each pair of spans.

        Of n words, n (n^2 - 1) / 6 pairs compose a span, and the outside pass composes twice as many.
        """
        spans = tokens * (longest + 1) // 2
        pairs = tokens * (longest**2 - 1) // 6
        return (
            super().step_size(tokens, longest) + int(2 * ACTIVATION_COPIES * spans + 2 * 3 * pairs) * self.feature_size
        )

    def loss(self, batch: TokenBatch, state: State = None) -> Loss:
        """Return cross-entropy of each word given its outside vector; in training, among itself and sampled words.

        The logit of a word is its score plus its log unigram probability. Negatives are drawn by that probability, so
        it cancels in training, and the full softmax is what training estimates.
        """
        outer = None if self.outside_composition is None else self.outside_composition()
        root = _unit_vectors(self.root)
        composition = self.composition()
        rows, targets = [], []
        for _, words in self._groups(batch, others=1):
            vectors = diora.outside(self._leaves(words), root, composition, outer)
            rows.append(vectors.flatten(0, 1))
            targets.append(words.flatten())
        if not rows:
            return Loss(0 * self.root.sum(), 0, batch.sentence_count())

        words = torch.cat(targets)
        predicted = self.decoder(dropout(torch.cat(rows), self.dropout, self.training))
        if self.training and self.negatives:  # a softmax over each word and the same sampled words
            negatives = torch.multinomial(self.unigrams.exp(), self.negatives, replacement=True)
            word_scores = (predicted * self.embedding(words)).sum(-1, keepdim=True)
            negative_scores = predicted @ self.embedding(negatives).T
            scores = torch.cat([word_scores, negative_scores], 1).to(self.embedding.weight.dtype)
            total = (scores.logsumexp(1) - scores[:, 0]).sum()
        else:
            total = -target_log_probs(predicted, self.embedding.weight, self.unigrams, words).sum()
        return Loss(total, len(words), batch.sentence_count())

    def chart_weights(self, batch: TokenBatch) -> Iterator[tuple[slice, int, Tensor, Tensor]]:
        for columns, words in self._groups(batch, others=2):
            with torch.no_grad():
                splits = diora.split_scores(self._leaves(words), self.composition()).double()
            length = words.shape[1]
            yield columns, length, splits.new_zeros(length * (length + 1) // 2, len(words)), splits


def _unit_vectors(vectors: Tensor) -> Tensor:
    """Return vectors divided by their norm, (..., D)."""
    return normalize(vectors, dim=-1, eps=1e-8)
