"""TreeRNN: a dependency tree grows from its root; each word is predicted from the path of edges that leads to it.

Zhang, Lu, Lapata 2016, "Top-down Tree Long Short-Term Memory Networks", and its first version of 2015, which has the
tanh network, labels and noise-contrastive estimation. The model reads trees, so its probabilities are P(S | T).
In LdTreeLSTM of 2016, an LSTM reads the left dependents of a word, from the farthest to the closest, and its last state
is a further input of the step to the word's first right dependent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal, cast

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding, softplus
from torch.nn.utils.rnn import pack_padded_sequence

from syntaxlm.core.errors import InputError
from syntaxlm.core.settings import Finite, Fraction, Positive, Size
from syntaxlm.models.abilities import GeneratesTrees, Loss, NeedsTextCounts, TextCounts, TokenScores, TrainsByGradient
from syntaxlm.models.batches import State, TreeBatch
from syntaxlm.models.config import BaseConfig
from syntaxlm.models.layers import LOG_WEIGHTS, PROBABILITIES, Decoder, dropout
from syntaxlm.models.registry import model
from syntaxlm.ops.tree_levels import EDGES, EdgeWeights, Levels, States, recurrence
from syntaxlm.trees.dependencies import Edge

RowValues = Callable[[Decoder, Tensor, Tensor], Tensor]
"""Maps a decoder, its input rows and their targets to one or more values per row."""


class EdgeDecoder(nn.Module):
    """softmax(W_ho[a_t] h_t), with one decoder for each edge type or, if `shared`, one for all."""

    def __init__(self, size: int, vocabulary_size: int, shared: bool) -> None:
        super().__init__()
        self.shared = shared
        self.decoders = nn.ModuleList(Decoder(size, vocabulary_size) for _ in range(1 if shared else EDGES))

    def initialise(self, init_range: float) -> None:
        """Weights uniform in (-init_range, init_range), biases 0."""
        for decoder in self.decoders:
            cast(Decoder, decoder).initialise(init_range)

    def log_probs(self, rows: Tensor, targets: Tensor, levels: Levels) -> Tensor:
        """Return the log-probability of each row's target: (n, D), (n,) -> (n,).

        Args:
            levels: the levels of the rows.
        """
        return self.by_edge(rows, targets, levels, Decoder.log_probs)

    def by_edge(self, rows: Tensor, targets: Tensor, levels: Levels, values: RowValues) -> Tensor:
        """Return the result of `values` for the rows of each decoder, in the order of the rows: (n, ...)."""
        if self.shared:
            return values(cast(Decoder, self.decoders[0]), rows, targets)
        groups = zip(
            self.decoders,
            rows.index_select(0, levels.by_edge).split(levels.edge_sizes),
            targets.index_select(0, levels.by_edge).split(levels.edge_sizes),
            strict=True,
        )
        results = torch.cat([values(cast(Decoder, decoder), *group) for decoder, *group in groups])
        return torch.empty_like(results).index_copy(0, levels.by_edge, results)


NOISE_POWER = 0.75  # exponent of word frequencies, before they are normalised


class NoiseContrastive(nn.Module):
    """Noise-contrastive estimation (NCE): words are distinguished from noise words, sampled by their frequency.

    A step computes k + 1 scores instead of V. Mnih, Teh 2012, with the normalising constant fixed as in Zhang, Lu,
    Lapata 2016, section 3.4. The trained scores are only roughly normalised; perplexity uses their softmax.

    Args:
        words: k, noise words per step.
        log_normaliser: ln Z, fixed: the model's p is exp(score - ln Z).
        shared: whether all steps of a call share their noise words, so that the scores are one matrix product;
            otherwise each step has its own.

    Attributes:
        log_expected: (V,), ln(k P_n(w)), -inf for words that are never noise.
        cumulative: (V,), cumulative sums of P_n.
    """

    value_ranges: ClassVar = {"log_expected": LOG_WEIGHTS, "cumulative": PROBABILITIES}
    log_expected: Tensor
    cumulative: Tensor

    def __init__(self, vocabulary_size: int, words: int, log_normaliser: float, shared: bool) -> None:
        super().__init__()
        self.words = words
        self.log_normaliser = log_normaliser
        self.shared = shared
        self.register_buffer("log_expected", torch.empty(vocabulary_size))
        self.register_buffer("cumulative", torch.empty(vocabulary_size, dtype=torch.float64))
        self.learn(torch.ones(vocabulary_size))

    def learn(self, counts: Tensor) -> None:
        """Set the noise distribution from word counts, (V,): non-negative, not all 0."""
        powers = counts.double() ** NOISE_POWER
        powers /= powers.sum()
        self.log_expected.copy_((powers * self.words).log())
        self.cumulative.copy_(powers.cumsum(0))

    def draw(self, steps: int) -> Tensor:
        """Sample noise words: (k,) int64 if shared, else (steps, k)."""
        shape = (self.words,) if self.shared else (steps, self.words)
        drawn = torch.rand(shape, dtype=self.cumulative.dtype, device=self.cumulative.device) * self.cumulative[-1]
        return torch.searchsorted(self.cumulative, drawn, right=True).clamp_(max=len(self.cumulative) - 1)

    def loss(self, rows: Tensor, weight: Tensor, bias: Tensor, targets: Tensor, noise: Tensor) -> Tensor:
        """Return -ln P(D = 1 | target) - sum over noise words of ln P(D = 0 | noise word), for each row, in nats: (n,).

        P(D = 1 | w) = p(w) / (p(w) + k P_n(w)) with p(w) = exp(row . weight_w + bias_w - ln Z).

        Args:
            rows: (n, D).
            weight: (V, D).
            bias: (V,).
            targets: (n,) int64.
            noise: (k,) or (n, k), from `draw`.
        """
        # One lookup, so the gradient is one matrix: a second would cost another pass over all V rows.
        count = len(targets)
        words = torch.cat([targets, noise.flatten()])
        weights = embedding(words, weight)

        # The log-odds of D = 1: ln p(w) - ln(k P_n(w)).
        shift = bias.index_select(0, words) - self.log_normaliser - self.log_expected[words].to(bias.dtype)
        target_odds = (rows * weights[:count]).sum(1) + shift[:count]
        if noise.dim() == 1:
            noise_odds = (rows @ weights[count:].T).to(weight.dtype) + shift[count:]
        else:
            noise_weights = weights[count:].view(*noise.shape, weight.shape[1])
            products = torch.bmm(noise_weights, rows[:, :, None])[:, :, 0]
            noise_odds = products.to(weight.dtype) + shift[count:].view(noise.shape)
        return softplus(-target_odds) + softplus(noise_odds).sum(1)


_LABEL_WEIGHT = "label_embedding.weight"  # name of the labels' embeddings in stored weights


@dataclass(frozen=True)
class TreeRNNConfig(BaseConfig):
    """Settings of TreeRNN (Zhang, Lu, Lapata 2016); with labels it is LTreeRNN, with LSTM cells TreeLSTM.

    With LSTM cells and left dependents it is LdTreeLSTM.

    Attributes:
        cell: one tanh layer, or an LSTM with biases
        labelled: whether the model also reads the label of the edge above each word
        left_dependents: whether a word's first right dependent depends on its left dependents, which an LSTM reads
        embedding_size: features of a word's embedding
        label_size: features of a label's embedding, with labelled
        hidden_size: features of a state
        output: one softmax per edge type (by-edge) or one for all edges (shared); null: by-edge for tanh, shared for
            lstm
        loss: training loss; perplexity always uses the softmax
        noise_words: with nce, number of noise words
        shared_noise: with nce, whether all words of a batch with the same softmax share noise words, which is faster
        log_normaliser: with nce, the fixed logarithm of the normalisation constant
        dropout: rate on embeddings and on the decoder's input
        init_range: initial weights are uniform in (-init_range, init_range), and biases 0
    """

    name: Literal["tree-rnn"] = "tree-rnn"
    cell: Literal["tanh", "lstm"] = "tanh"
    labelled: bool = False
    left_dependents: bool = False
    embedding_size: Size = 100
    label_size: Size = 30
    hidden_size: Size = 200
    output: Literal["by-edge", "shared"] | None = None
    loss: Literal["softmax", "nce"] = "softmax"
    noise_words: Size = 20
    shared_noise: bool = False
    log_normaliser: Finite = 9.5
    dropout: Fraction = 0.0
    init_range: Positive = 0.2


@model("tree-rnn", TreeRNNConfig)
class TreeRNN(GeneratesTrees, TrainsByGradient, NeedsTextCounts):
    """Embeddings, the recurrence along paths, and the decoder."""

    reads = "trees"

    def __init__(self, config: TreeRNNConfig, vocabulary_size: int) -> None:
        super().__init__()
        self.config = config
        self.vocabulary_size = vocabulary_size
        self.reads_labels = config.labelled
        self.reads_left_dependents = config.left_dependents
        size, lstm = config.hidden_size, config.cell == "lstm"
        gates = (4 if lstm else 1) * size
        features = config.embedding_size
        self.state_size, self.word_size = size, features
        self.embedding = nn.Embedding(vocabulary_size, features)
        self.label_embedding = nn.Embedding(1, config.label_size) if config.labelled else None
        features += config.label_size if config.labelled else 0
        self.input_size = features
        self.input_weight = nn.Parameter(torch.empty(EDGES, gates, features))
        self.recurrent_weight = nn.Parameter(torch.empty(EDGES, gates, size))
        self.bias = nn.Parameter(torch.zeros(EDGES, gates)) if lstm else None
        self.left_lstm = nn.LSTM(self.word_size, size) if config.left_dependents else None
        self.left_weight = nn.Parameter(torch.empty(gates, size)) if config.left_dependents else None
        shared = lstm if config.output is None else config.output == "shared"
        self.decoder = EdgeDecoder(size, vocabulary_size, shared)
        self.noise: NoiseContrastive | None = None
        if config.loss == "nce":
            settings = config.noise_words, config.log_normaliser, config.shared_noise
            self.noise = NoiseContrastive(vocabulary_size, *settings)
        for weight in (self.embedding.weight, self.input_weight, self.recurrent_weight):
            nn.init.uniform_(weight, -config.init_range, config.init_range)
        self._initialise_left(config.init_range)
        self.decoder.initialise(config.init_range)
        self._make_labels(1)

    def _initialise_left(self, init_range: float) -> None:
        """Initialise what reads left dependents: weights uniform, biases 0."""
        if self.left_lstm is None or self.left_weight is None:
            return
        for weight in (*self.left_lstm.parameters(), self.left_weight):
            is_bias = weight.dim() == 1
            limit = 0.0 if is_bias else init_range
            nn.init.uniform_(weight, -limit, limit)

    def _make_labels(self, count: int) -> None:
        """Create embeddings for `count` labels, if the model reads labels."""
        if self.label_embedding is not None:
            init_range = self.config.init_range
            self.label_embedding = nn.Embedding(count, self.config.label_size).to(self.embedding.weight)
            nn.init.uniform_(self.label_embedding.weight, -init_range, init_range)
            self.label_count = count

    def setup(self, counts: TextCounts) -> None:
        """Set the number of labels and the noise distribution of NCE from the training text."""
        self._make_labels(counts.labels)
        if self.noise is not None:
            # Words that never occur must also be drawn as noise, or their probability would not be learned.
            self.noise.learn(counts.words.clamp(min=1))

    def resize_buffers(self, tensors: Mapping[str, Tensor]) -> list[str]:
        stored = tensors.get(_LABEL_WEIGHT)
        # Keep embeddings of the correct size: an optimiser may already refer to them.
        if stored is not None and stored.dim() == 2 and len(stored) != self.label_count:
            self._make_labels(len(stored))
        return []

    def loss(self, batch: TreeBatch, state: State = None) -> Loss:
        """Return negative log-likelihood of the words; in training with NCE, that of separating words from noise."""
        hidden = self._hidden(batch)
        if self.training and self.noise is not None:
            contrast = self.noise

            def loss(decoder: Decoder, rows: Tensor, targets: Tensor) -> Tensor:
                return contrast.loss(rows, decoder.weight, decoder.bias, targets, contrast.draw(len(targets)))

            total = self.decoder.by_edge(hidden, batch.targets, batch.levels, loss).sum()
        else:
            total = -self.decoder.log_probs(hidden, batch.targets, batch.levels).sum()
        return Loss(total, batch.token_count(), batch.sentence_count())

    def token_log_probs(self, batch: TreeBatch, state: State = None) -> TokenScores:
        """Return natural log-probability of each word given its path: (n,)."""
        hidden = self._hidden(batch)
        return TokenScores(self.decoder.log_probs(hidden, batch.targets, batch.levels), hidden=hidden)

    def _hidden(self, batch: TreeBatch) -> Tensor:
        """Return the decoder's input at each step: (n, D). Raises InputError for a batch of text."""
        if not isinstance(batch, TreeBatch):
            raise InputError(
                f"found text for a {self.config.name} model, which reads dependency trees; expected a file of trees,"
                " which evaluate perplexity and score read"
            )
        rate = self.config.dropout
        inputs = dropout(self.inputs(batch.words, batch.labels), rate, self.training)
        left = self.left_states(*batch.left_dependents()) if self.reads_left_dependents else None
        return dropout(self.follow(inputs, batch.levels, self.root_states(), left).hidden, rate, self.training)

    def root_states(self) -> States:
        zeros = self.recurrent_weight.new_zeros(1, self.state_size)
        return States(zeros, None if self.bias is None else zeros)

    def embedded(self, words: Tensor) -> Tensor:
        embedded: Tensor = self.embedding(words)
        return embedded

    def inputs(self, words: Tensor, labels: Tensor) -> Tensor:
        embedded = self.embedded(words)
        if self.label_embedding is None:
            return embedded
        return torch.cat([embedded, self.label_embedding(labels)], dim=-1)

    def left_states(self, words: Tensor, lengths: Tensor) -> Tensor:
        assert self.left_lstm is not None
        states = self.recurrent_weight.new_zeros(len(lengths), self.state_size)
        heads = lengths.nonzero()[:, 0]
        if not len(heads):
            return states
        columns = heads.to(words.device)
        embedded = dropout(self.embedded(words[:, columns]), self.config.dropout, self.training)
        sequences = pack_padded_sequence(embedded, lengths[heads], enforce_sorted=False)
        last = self.left_lstm(sequences)[1][0][0]
        return states.index_copy(0, columns, last.to(states.dtype))

    def follow(self, inputs: Tensor, levels: Levels, before: States, left: Tensor | None = None) -> States:
        weight: Tensor = self.input_weight
        if self.left_weight is not None and left is not None:
            # Further features of the input, which are 0 except for the steps along RIGHT edges.
            is_right = levels.edges() == Edge.RIGHT
            features = left.new_zeros(len(inputs), self.state_size).masked_scatter(is_right[:, None], left)
            inputs = torch.cat([inputs, features], dim=-1)
            others = torch.zeros_like(self.left_weight)
            left_weights = torch.stack([self.left_weight if edge == Edge.RIGHT else others for edge in Edge])
            weight = torch.cat([weight, left_weights], dim=-1)
        return recurrence(inputs, EdgeWeights(weight, self.recurrent_weight, self.bias), levels, before)

    def all_log_probs(self, hidden: Tensor, levels: Levels) -> Tensor:
        no_targets = levels.by_edge  # unused; any tensor with one entry per row
        return self.decoder.by_edge(hidden, no_targets, levels, lambda decoder, rows, _: decoder(rows).log_softmax(-1))
