"""Gumbel Tree-LSTM: a sentence encoder that chooses a binary tree, trained only by the task above it.

Choi, Yoo, Lee 2018, "Learning to Compose Task-Specific Tree Structures". At each step, all pairs of adjacent nodes
propose a parent, a query vector scores the parents, and one pair is merged; the other nodes are copied. Training
samples the pair by the straight-through Gumbel-softmax; evaluation takes the best one.

Sentences of a batch start merging one after the other, the longest first, so that all of them have the same number of
nodes at every step and need no mask. In evaluation, only the parents that a merge changes are computed again.
Shapes: T steps, B sentences, A of them that have started, m nodes of each, D features, E embedding size.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import gumbel_softmax

from syntaxlm.core.settings import Fraction, Positive, Settings, Size
from syntaxlm.models.abilities import EncodesSentences, Encoding, ParsesSentences
from syntaxlm.models.batches import TokenBatch
from syntaxlm.models.layers import dropout
from syntaxlm.models.structures import SpanMarginals
from syntaxlm.models.tree_lstm import TreeLSTMCell


@dataclass(frozen=True)
class GumbelTreeLSTMConfig(Settings, section="model"):
    """Settings of Gumbel Tree-LSTM."""

    name: Literal["gumbel-tree-lstm"] = "gumbel-tree-lstm"
    embedding_size: Size = 300  # features of a token's embedding
    hidden_size: Size = 300  # features of a node's hidden state, and of its memory
    leaf_lstm: bool = True  # an LSTM over the words gives the states of the leaves; false: an affine layer
    temperature: Positive = 1.0  # of the Gumbel-softmax in training: the gradient's; samples do not depend on it
    dropout: Fraction = 0.1  # rate on embeddings
    init_range: Positive = 0.1  # initial embeddings: uniform in (-init_range, init_range)


class GumbelTreeLSTM(EncodesSentences, ParsesSentences):
    """Gumbel Tree-LSTM. A sentence's vector is the hidden state of the root of its tree."""

    structure_type = SpanMarginals

    def __init__(self, config: GumbelTreeLSTMConfig, vocabulary_size: int) -> None:
        super().__init__()
        self.config, self.vocabulary_size, self.feature_size = config, vocabulary_size, config.hidden_size
        self.embedding = nn.Embedding(vocabulary_size, config.embedding_size)
        nn.init.uniform_(self.embedding.weight, -config.init_range, config.init_range)
        self.leaf: nn.LSTMCell | nn.Linear
        if config.leaf_lstm:
            self.leaf = nn.LSTMCell(config.embedding_size, config.hidden_size)
        else:
            self.leaf = nn.Linear(config.embedding_size, 2 * config.hidden_size)
        self.cell = TreeLSTMCell(config.hidden_size)
        self.query = nn.Parameter(torch.randn(config.hidden_size) / config.hidden_size**0.5)

    def encode(self, batch: TokenBatch) -> Encoding:
        leaves = self._leaves(batch)
        roots = self._sampled_roots(leaves) if self.training else self._best_roots(leaves)[0]
        return Encoding(roots.chunk(2, -1)[0])

    def structure(self, batch: TokenBatch) -> SpanMarginals:
        """Return the spans of the tree of the best merges have probability 1. BOS and EOS are not read."""
        return SpanMarginals(self._best_roots(self._leaves(batch.inner()))[1])

    def _leaves(self, batch: TokenBatch) -> list[Tensor]:
        """Return the states of the leaves of all sentences of each length n from 0 to T, (n, sentences, 2D)."""
        embedded = dropout(self.embedding(batch.tokens), self.config.dropout, self.training)
        if isinstance(self.leaf, nn.Linear):
            leaves = self.leaf(embedded)
        else:
            state, steps = None, []
            for inputs in embedded:
                state = self.leaf(inputs, state)
                steps.append(torch.cat(state, -1))
            leaves = torch.stack(steps)
        counts = batch.columns_by_length()
        sizes = [count - longer for count, longer in zip(counts, [*counts[1:], 0], strict=True)]
        parts = leaves.split(sizes[::-1], 1)[::-1]
        return [part[:length] for length, part in enumerate(parts)]

    def _scores(self, parents: Tensor) -> Tensor:
        """(m - 1, A, 2D) -> (m - 1, A): the query's product with the hidden states of the proposed parents."""
        scores: Tensor = parents.chunk(2, -1)[0] @ self.query
        return scores

    def _sampled_roots(self, leaves: list[Tensor]) -> Tensor:
        """Return the roots of sampled trees, (B, 2D). leaves: by length."""
        nodes = leaves[-1][:, :0]
        for new in leaves[:1:-1]:
            nodes = torch.cat([nodes, new], 1)
            parents = self.cell(nodes[:-1], nodes[1:])
            chosen = gumbel_softmax(self._scores(parents), self.config.temperature, hard=True, dim=0)[..., None]
            merged = chosen.cumsum(0)  # 1 from the chosen pair on: what follows moves one place to the left
            nodes = (1 - merged) * nodes[:-1] + chosen * parents + (merged - chosen) * nodes[1:]
        return torch.cat([nodes[0], leaves[1][0]])

    def _best_roots(self, leaves: list[Tensor]) -> tuple[Tensor, Tensor]:
        """Return the roots of the trees of the best merges, (B, 2D), and the spans of these trees, (B, T, T) of 0 and
        1.
        """
        longest = leaves[-1]
        steps, device = len(longest), longest.device
        spans = longest.new_zeros(sum(part.shape[1] for part in leaves), steps, steps)
        words = torch.arange(steps + 1, device=device)[:, None]
        nodes, parents = longest[:, :0], longest[1:, :0]
        starts = words[:, :0]  # the first word of each node, and the end of the sentence
        for length in range(steps, 1, -1):
            new = leaves[length]
            nodes, parents = torch.cat([nodes, new], 1), torch.cat([parents, self.cell(new[:-1], new[1:])], 1)
            starts = torch.cat([starts, words[: length + 1].expand(-1, new.shape[1])], 1)
            best, column = self._scores(parents).argmax(0), torch.arange(nodes.shape[1], device=device)
            spans[column, starts[best, column], starts[best + 2, column] - 1] = 1
            parent = parents[best, column]
            nodes, parents, starts = _without(nodes, best + 1), _without(parents, best), _without(starts, best + 1)
            nodes[best, column] = parent
            for changed in (best - 1, best) if length > 2 else ():
                place = changed.clamp(0, length - 3)
                parents[place, column] = self.cell(nodes[place, column], nodes[place + 1, column])
        return torch.cat([nodes[0], leaves[1][0]]), spans


def _without(values: Tensor, place: Tensor) -> Tensor:
    """Return values without one row of each column: (m, A, ...), (A,) -> (m - 1, A, ...)."""
    rows = torch.arange(len(values) - 1, device=values.device)[:, None]
    return values[rows + (rows >= place), torch.arange(values.shape[1], device=values.device)]


def build(config: GumbelTreeLSTMConfig, vocabulary_size: int) -> GumbelTreeLSTM:
    return GumbelTreeLSTM(config, vocabulary_size)
