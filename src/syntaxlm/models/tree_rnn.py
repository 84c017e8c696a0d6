"""TreeRNN: a dependency tree grows from its root; each word is predicted from the path of edges that leads to it.

Zhang, Lu, Lapata 2016, "Top-down Tree Long Short-Term Memory Networks", and its first version of 2015, which has the
tanh network, labels and noise-contrastive estimation. The model reads trees, so its probabilities are P(S | T).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from syntaxlm.errors import InputError
from syntaxlm.layers.dropout import dropout
from syntaxlm.layers.edge_decoder import EdgeDecoder
from syntaxlm.layers.noise_contrastive import NoiseContrastive
from syntaxlm.layers.softmax import Decoder
from syntaxlm.models.abilities import (
    GeneratesTrees,
    Loss,
    NeedsTextCounts,
    TextCounts,
    TokenScores,
    TrainsByGradient,
)
from syntaxlm.models.batches import State, TreeBatch
from syntaxlm.ops.tree_levels import EDGES, EdgeWeights, Levels, States, recurrence
from syntaxlm.settings import Finite, Fraction, Positive, Settings, Size

_LABELS = "label_embedding.weight"


@dataclass(frozen=True)
class TreeRNNConfig(Settings, section="model"):
    """Settings of TreeRNN; with labels it is LTreeRNN, with LSTM cells TreeLSTM."""

    name: Literal["tree-rnn"] = "tree-rnn"
    cell: Literal["tanh", "lstm"] = "tanh"  # the cell of each edge: one tanh layer, or an LSTM with biases
    labelled: bool = False  # whether the model also reads the label of the edge above each word
    embedding_size: Size = 100  # features of a word's embedding
    label_size: Size = 30  # features of a label's embedding, if labelled
    hidden_size: Size = 200  # features of a state
    output: Literal["by-edge", "shared"] | None = None  # one softmax per edge type, or one; null: by-edge for tanh
    loss: Literal["softmax", "nce"] = "softmax"  # training loss; perplexity always uses the softmax
    noise_words: Size = 20  # nce: noise words per step
    shared_noise: bool = False  # nce: all steps with the same softmax share a batch's noise words, which is faster
    log_normaliser: Finite = 9.5  # nce: ln Z, fixed
    dropout: Fraction = 0.0  # rate on embeddings and on the decoder's input
    init_range: Positive = 0.2  # initial weights: uniform in (-init_range, init_range); biases: 0


class TreeRNN(GeneratesTrees, TrainsByGradient, NeedsTextCounts):
    """Embeddings, the recurrence along paths, and the decoder."""

    reads = "trees"

    def __init__(self, config: TreeRNNConfig, vocabulary_size: int) -> None:
        super().__init__()
        self.config, self.vocabulary_size, self.reads_labels = config, vocabulary_size, config.labelled
        size, lstm = config.hidden_size, config.cell == "lstm"
        gates, features = (4 if lstm else 1) * size, config.embedding_size
        self.state_size, self.word_size = size, features
        self.embedding = nn.Embedding(vocabulary_size, features)
        self.label_embedding = nn.Embedding(1, config.label_size) if config.labelled else None
        features += config.label_size if config.labelled else 0
        self.input_size = features
        self.input_weight = nn.Parameter(torch.empty(EDGES, gates, features))
        self.recurrent_weight = nn.Parameter(torch.empty(EDGES, gates, size))
        self.bias = nn.Parameter(torch.zeros(EDGES, gates)) if lstm else None
        shared = lstm if config.output is None else config.output == "shared"
        self.decoder = EdgeDecoder(size, vocabulary_size, shared)
        self.noise: NoiseContrastive | None = None
        if config.loss == "nce":
            settings = config.noise_words, config.log_normaliser, config.shared_noise
            self.noise = NoiseContrastive(vocabulary_size, *settings)
        for weight in (self.embedding.weight, self.input_weight, self.recurrent_weight):
            nn.init.uniform_(weight, -config.init_range, config.init_range)
        self.decoder.initialise(config.init_range)
        self._make_labels(1)

    def _make_labels(self, count: int) -> None:
        """Creates embeddings for `count` labels, if the model reads labels."""
        if self.label_embedding is not None:
            init_range = self.config.init_range
            self.label_embedding = nn.Embedding(count, self.config.label_size).to(self.embedding.weight)
            nn.init.uniform_(self.label_embedding.weight, -init_range, init_range)
            self.label_count = count

    def setup(self, counts: TextCounts) -> None:
        """Sets the number of labels and the noise distribution of NCE from the training text."""
        self._make_labels(counts.labels)
        if self.noise is not None:
            # Words that never occur must also be drawn as noise, or their probability would not be learned.
            self.noise.learn(counts.words.clamp(min=1))

    def resize_buffers(self, tensors: Mapping[str, Tensor]) -> list[str]:
        stored = tensors.get(_LABELS)
        # Keep embeddings of the correct size: an optimiser may already refer to them.
        if stored is not None and stored.dim() == 2 and len(stored) != self.label_count:
            self._make_labels(len(stored))
        return []

    def loss(self, batch: TreeBatch, state: State = None) -> Loss:
        """Negative log-likelihood of the words; in training with NCE, the loss of separating words from noise."""
        hidden = self._hidden(batch)
        if self.training and self.noise is not None:
            total = self.decoder.by_edge(hidden, batch.targets, batch.levels, self._noise_loss).sum()
        else:
            total = -self.decoder.log_probs(hidden, batch.targets, batch.levels).sum()
        return Loss(total, batch.token_count(), batch.sentence_count())

    def token_log_probs(self, batch: TreeBatch, state: State = None) -> TokenScores:
        """Natural log-probability of each word given its path: (n,)."""
        hidden = self._hidden(batch)
        return TokenScores(self.decoder.log_probs(hidden, batch.targets, batch.levels), hidden=hidden)

    def _hidden(self, batch: TreeBatch) -> Tensor:
        """The decoder's input at each step: (n, D). Raises InputError for a batch of text."""
        if not isinstance(batch, TreeBatch):
            raise InputError(
                f"a {self.config.name} model reads dependency trees, but this is text; evaluate perplexity and score"
                " read files of trees"
            )
        rate = self.config.dropout
        inputs = dropout(self.inputs(batch.words, batch.labels), rate, self.training)
        return dropout(self.follow(inputs, batch.levels, self.root_states()).hidden, rate, self.training)

    def root_states(self) -> States:
        zeros = self.recurrent_weight.new_zeros(1, self.state_size)
        return States(zeros, None if self.bias is None else zeros)

    def embedded(self, words: Tensor) -> Tensor:
        found: Tensor = self.embedding(words)
        return found

    def inputs(self, words: Tensor, labels: Tensor) -> Tensor:
        embedded = self.embedded(words)
        if self.label_embedding is None:
            return embedded
        return torch.cat([embedded, self.label_embedding(labels)], dim=-1)

    def follow(self, inputs: Tensor, levels: Levels, before: States) -> States:
        return recurrence(inputs, EdgeWeights(self.input_weight, self.recurrent_weight, self.bias), levels, before)

    def all_log_probs(self, hidden: Tensor, levels: Levels) -> Tensor:
        return self.decoder.all_log_probs(hidden, levels)

    def _noise_loss(self, decoder: Decoder, rows: Tensor, targets: Tensor) -> Tensor:
        """The NCE loss of each row. (n, D), (n,) -> (n,)."""
        assert self.noise is not None
        return self.noise.loss(rows, decoder.weight, decoder.bias, targets, self.noise.draw(len(targets)))


def build(config: TreeRNNConfig, vocabulary_size: int) -> TreeRNN:
    return TreeRNN(config, vocabulary_size)
