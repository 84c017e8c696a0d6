"""Sentence encoders that choose a binary tree, trained only by the task above them: Gumbel Tree-LSTM and RL-SPINN.

Shapes: T steps, B sentences, A of them that have started or are not finished, m nodes of each, D features, E embedding
size, K features of the tracking LSTM.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import gumbel_softmax, logsigmoid, softplus

from syntaxlm.core.settings import Fraction, NonNegative, Positive, Size
from syntaxlm.models.abilities import Decisions, EncodesSentences, Encoding, LearnsFromRewards, ParsesSentences
from syntaxlm.models.batches import TokenBatch
from syntaxlm.models.config import BaseConfig
from syntaxlm.models.layers import NON_NEGATIVE, dropout
from syntaxlm.models.registry import model
from syntaxlm.models.structures import SpanMarginals

_EMPTY_ENTRIES = 2  # at the bottom of each stack, read where there is no second or no top entry


class TreeLSTMCell(nn.Module):
    """A binary Tree-LSTM cell: the state of a constituent from the states of its two children.

    Tai, Socher, Manning 2015, section 3.2, with the gates of Bowman et al. 2016 (SPINN), equations 2 to 4, and Choi,
    Yoo, Lee 2018, equations 6 to 8. A state is one tensor of 2D features: the hidden state h, then the memory c.
    All gates read the hidden states of both children and, if `context_size` is not 0, a context vector.

    Initial biases are 1 for the two forget gates, else 0.

    Args:
        size: D.
    """

    def __init__(self, size: int, context_size: int = 0) -> None:
        super().__init__()
        self.size = size
        self.gates = nn.Linear(2 * size + context_size, 5 * size)
        with torch.no_grad():
            self.gates.bias.zero_()
            self.gates.bias[size : 3 * size] = 1

    def forward(self, left: Tensor, right: Tensor, context: Tensor | None = None) -> Tensor:
        """Return the parent's state, (..., 2D).

        Args:
            left: state of the left child, (..., 2D).
            right: state of the right child, (..., 2D).
            context: (..., C), None without context.
        """
        left_hidden, left_memory = left.chunk(2, -1)
        right_hidden, right_memory = right.chunk(2, -1)
        inputs = [left_hidden, right_hidden] if context is None else [left_hidden, right_hidden, context]

        # c = f_left c_left + f_right c_right + i tanh(g);  h = o tanh(c)
        write, forget_left, forget_right, output, content = self.gates(torch.cat(inputs, -1)).chunk(5, -1)
        memory = left_memory * forget_left.sigmoid() + right_memory * forget_right.sigmoid()
        memory = memory + write.sigmoid() * content.tanh()
        return torch.cat([output.sigmoid() * memory.tanh(), memory], -1)


@dataclass(frozen=True)
class GumbelTreeLSTMConfig(BaseConfig):
    """Settings of Gumbel Tree-LSTM (Choi, Yoo, Lee 2018).

    Attributes:
        embedding_size: features of a token's embedding
        hidden_size: features of a node's hidden state, and of its memory
        leaf_lstm: whether an LSTM over the words computes the states of the leaves, instead of an affine layer
        temperature: temperature of the gradient of the Gumbel-softmax; samples do not depend on it
        dropout: rate on embeddings
        init_range: initial embeddings are uniform in (-init_range, init_range)
    """

    name: Literal["gumbel-tree-lstm"] = "gumbel-tree-lstm"
    embedding_size: Size = 300
    hidden_size: Size = 300
    leaf_lstm: bool = True
    temperature: Positive = 1.0
    dropout: Fraction = 0.1
    init_range: Positive = 0.1


@model("gumbel-tree-lstm", GumbelTreeLSTMConfig)
class GumbelTreeLSTM(EncodesSentences, ParsesSentences):
    """Gumbel Tree-LSTM. A sentence's vector is the hidden state of the root of its tree.

    Choi, Yoo, Lee 2018, "Learning to Compose Task-Specific Tree Structures". At each step, all pairs of adjacent nodes
    propose a parent, a query vector scores the parents, and one pair is merged; the other nodes are copied. Training
    samples the pair by the straight-through Gumbel-softmax; evaluation takes the best one.

    Sentences of a batch start merging one after the other, the longest first, so that all of them have the same number
    of nodes at every step and need no mask. In evaluation, only the parents that a merge changes are computed again.
    """

    structure_type = SpanMarginals

    def __init__(self, config: GumbelTreeLSTMConfig, vocabulary_size: int) -> None:
        super().__init__()
        self.config = config
        self.vocabulary_size = vocabulary_size
        self.feature_size = config.hidden_size
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
        """Return probability 1 for the spans of the tree of the best merges. BOS and EOS are not read."""
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
        """Return the roots of sampled trees, (B, 2D).

        Args:
            leaves: by length.
        """
        nodes = leaves[-1][:, :0]
        # n'_k = n_k before the chosen pair, parent(n_k, n_k+1) at it, n_k+1 after it
        for new in leaves[:1:-1]:
            nodes = torch.cat([nodes, new], 1)
            parents = self.cell(nodes[:-1], nodes[1:])
            chosen = gumbel_softmax(self._scores(parents), self.config.temperature, hard=True, dim=0)[..., None]
            merged = chosen.cumsum(0)  # 1 from the chosen pair on: what follows moves one place to the left
            nodes = (1 - merged) * nodes[:-1] + chosen * parents + (merged - chosen) * nodes[1:]
        return torch.cat([nodes[0], leaves[1][0]])

    def _best_roots(self, leaves: list[Tensor]) -> tuple[Tensor, Tensor]:
        """Return the roots of the trees of the best merges, (B, 2D), and their spans, (B, T, T) of 0 and 1."""
        longest = leaves[-1]
        steps, device = len(longest), longest.device
        spans = longest.new_zeros(sum(part.shape[1] for part in leaves), steps, steps)
        words = torch.arange(steps + 1, device=device)[:, None]
        nodes, parents = longest[:, :0], longest[1:, :0]
        starts = words[:, :0]  # the first word of each node, and the end of the sentence
        for length in range(steps, 1, -1):
            # Sentences of this length start merging.
            new = leaves[length]
            nodes = torch.cat([nodes, new], 1)
            parents = torch.cat([parents, self.cell(new[:-1], new[1:])], 1)
            starts = torch.cat([starts, words[: length + 1].expand(-1, new.shape[1])], 1)

            # The best pair becomes its parent, whose span is a constituent.
            best = self._scores(parents).argmax(0)
            column = torch.arange(nodes.shape[1], device=device)
            spans[column, starts[best, column], starts[best + 2, column] - 1] = 1
            parent = parents[best, column]
            nodes = _without(nodes, best + 1)
            parents = _without(parents, best)
            starts = _without(starts, best + 1)
            nodes[best, column] = parent

            # The parents that it would have with its two neighbours.
            for changed in (best - 1, best) if length > 2 else ():
                place = changed.clamp(0, length - 3)
                parents[place, column] = self.cell(nodes[place, column], nodes[place + 1, column])
        return torch.cat([nodes[0], leaves[1][0]]), spans


def _without(values: Tensor, place: Tensor) -> Tensor:
    """Return values without one row of each column: (m, A, ...), (A,) -> (m - 1, A, ...)."""
    rows = torch.arange(len(values) - 1, device=values.device)[:, None]
    return values[rows + (rows >= place), torch.arange(values.shape[1], device=values.device)]


@dataclass(frozen=True)
class RLSPINNConfig(BaseConfig):
    """Settings of RL-SPINN (Yogatama et al. 2017).

    Attributes:
        embedding_size: features of a token's embedding
        hidden_size: features of a node's hidden state, and of its memory
        tracking_size: features of the tracking LSTM, which chooses the actions
        policy_weight: weight of the REINFORCE term in the training loss
        entropy_weight: weight of the entropy bonus, per nat of a sentence
        baseline_decay: decay of the moving average of rewards, which is subtracted from each reward
        dropout: rate on embeddings
        init_range: initial embeddings are uniform in (-init_range, init_range)
    """

    name: Literal["rl-spinn"] = "rl-spinn"
    embedding_size: Size = 100
    hidden_size: Size = 100
    tracking_size: Size = 50
    policy_weight: NonNegative = 1.0
    entropy_weight: NonNegative = 0.01
    baseline_decay: Fraction = 0.99
    dropout: Fraction = 0.1
    init_range: Positive = 0.1


@model("rl-spinn", RLSPINNConfig)
class RLSPINN(LearnsFromRewards, ParsesSentences):
    """RL-SPINN builds a tree by shift and reduce. A sentence's vector is the hidden state of the root of its tree.

    Yogatama, Blunsom, Dyer, Grefenstette, Ling 2017, "Learning to Compose Words into Sentences with Reinforcement
    Learning", with the tracking LSTM of SPINN (Bowman et al. 2016). The actions are sampled in training and learned by
    REINFORCE from the reward of each sentence; in evaluation the more probable action is taken.
    """

    structure_type = SpanMarginals
    value_ranges: ClassVar = {"updates": NON_NEGATIVE}
    baseline: Tensor  # moving average of rewards
    updates: Tensor  # of the baseline

    def __init__(self, config: RLSPINNConfig, vocabulary_size: int) -> None:
        super().__init__()
        self.config = config
        self.vocabulary_size = vocabulary_size
        self.feature_size = config.hidden_size
        self.embedding = nn.Embedding(vocabulary_size, config.embedding_size)
        nn.init.uniform_(self.embedding.weight, -config.init_range, config.init_range)
        self.leaf = nn.Linear(config.embedding_size, 2 * config.hidden_size)
        self.tracker = nn.LSTMCell(3 * config.hidden_size, config.tracking_size)
        self.policy = nn.Linear(config.tracking_size, 1)
        self.cell = TreeLSTMCell(config.hidden_size, config.tracking_size)
        self.register_buffer("baseline", torch.zeros(()))
        self.register_buffer("updates", torch.zeros((), dtype=torch.int64))

    def encode(self, batch: TokenBatch) -> Encoding:
        return self._trees(batch)[0]

    def structure(self, batch: TokenBatch) -> SpanMarginals:
        """Return probability 1 for the spans of the tree of the best actions. BOS and EOS are not read."""
        return SpanMarginals(self._trees(batch.inner())[1])

    def policy_terms(self, decisions: Decisions, rewards: Tensor) -> dict[str, Tensor]:
        config, rewards = self.config, rewards.detach()
        self.updates += 1
        self.baseline.lerp_(rewards.mean(), max(1 - config.baseline_decay, 1 / int(self.updates)))
        advantages = rewards - self.baseline
        return {
            "policy": -config.policy_weight * (advantages * decisions.log_probs).mean(),
            "entropy": -config.entropy_weight * decisions.entropies.mean(),
        }

    def _trees(self, batch: TokenBatch) -> tuple[Encoding, Tensor]:
        """Build a tree for each sentence. A sentence of n words takes 2n - 1 actions.

        Returns:
            The states of the roots, with the actions that were not forced, and spans, (B, T, T) of 0 and 1.
        """
        leaves = self.leaf(dropout(self.embedding(batch.tokens), self.config.dropout, self.training))
        steps, columns, features = leaves.shape
        counts = batch.columns_by_length()
        lengths = batch.step_counts().to(leaves.device)
        spans = leaves.new_zeros(columns, steps, steps)

        # The buffer holds zeros after a sentence's last word. The stack holds the states of trees.
        buffer = torch.cat([leaves * batch.mask()[..., None], leaves.new_zeros(1, columns, features)])
        stack = leaves.new_zeros(_EMPTY_ENTRIES + steps, columns, features)
        starts = lengths.new_zeros(_EMPTY_ENTRIES + steps, columns)  # first word of each entry of the stack
        size = torch.full_like(lengths, _EMPTY_ENTRIES)  # entries of the stack
        read = torch.zeros_like(lengths)  # words shifted
        tracking = leaves.new_zeros(2, columns, self.config.tracking_size).unbind()
        log_probs = entropies = leaves.new_zeros(columns)
        finished: list[tuple[Tensor, Tensor, Tensor]] = []
        for step in range(2 * steps - 1):
            # Sentences without further actions are finished.
            active = counts[(step + 1) // 2 + 1]  # the sentences with more than `step` actions
            if active < len(size):
                finished.append((stack[_EMPTY_ENTRIES, active:], log_probs[active:], entropies[active:]))
                stack = stack[:, :active]
                starts = starts[:, :active]
                size = size[:active]
                read = read[:active]
                tracking = tuple(part[:active] for part in tracking)
                log_probs = log_probs[:active]
                entropies = entropies[:active]
                lengths = lengths[:active]

            # The tracker reads the front of the buffer and the top two entries of the stack.
            column = torch.arange(active, device=leaves.device)
            front = buffer[read, column]
            (top, second) = stack[torch.stack([size - 1, size - 2]), column]
            hidden = [state.chunk(2, -1)[0] for state in (front, top, second)]
            tracking = self.tracker(torch.cat(hidden, -1), tracking)
            logits = self.policy(tracking[0])[:, 0]  # log-odds of REDUCE

            # Without words to shift, or without two entries to reduce, the action is forced.
            is_free = (read < lengths) & (size >= _EMPTY_ENTRIES + 2)
            chosen = torch.rand_like(logits) < logits.sigmoid() if self.training else logits > 0
            reduce = torch.where(is_free, chosen, read == lengths)
            log_probs = log_probs + is_free * logsigmoid(torch.where(reduce, logits, -logits))
            entropies = entropies + is_free * (softplus(logits) - logits * logits.sigmoid())

            # SHIFT puts the front on the stack; REDUCE replaces the top two entries by their parent.
            place = torch.where(reduce, size - 2, size)
            first = torch.where(reduce, starts[place, column], read)
            spans[column[reduce], first[reduce], read[reduce] - 1] = 1
            parent = self.cell(second, top, tracking[0])
            stack = stack.index_put((place, column), torch.where(reduce[:, None], parent, front))
            starts = starts.index_put((place, column), first)
            size, read = place + 1, read + ~reduce

        finished.append((stack[_EMPTY_ENTRIES], log_probs, entropies))
        roots, log_probs, entropies = (torch.cat(parts[::-1]) for parts in zip(*finished, strict=True))
        decisions = Decisions(log_probs, entropies) if self.training else None
        return Encoding(roots.chunk(2, -1)[0], decisions=decisions), spans
