"""RL-SPINN: a sentence encoder that builds a binary tree by shift and reduce, trained by the task above it.

Yogatama, Blunsom, Dyer, Grefenstette, Ling 2017, "Learning to Compose Words into Sentences with Reinforcement
Learning", with the tracking LSTM of SPINN (Bowman et al. 2016). The actions are sampled in training and learned by
REINFORCE from the reward of each sentence; in evaluation the more probable action is taken.

All sentences of a batch take their actions together. Shapes: T steps, B sentences, A of them that are not finished,
D features, K features of the tracking LSTM.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid, softplus

from syntaxlm.core.settings import Fraction, NonNegative, Positive, Settings, Size
from syntaxlm.models.abilities import Decisions, Encoding, LearnsFromRewards, ParsesSentences
from syntaxlm.models.batches import TokenBatch
from syntaxlm.models.layers import NON_NEGATIVE, dropout
from syntaxlm.models.structures import SpanMarginals
from syntaxlm.models.tree_lstm import TreeLSTMCell

_BOTTOM = 2  # empty entries at the bottom of each stack, which are read where there is no second or no top entry


@dataclass(frozen=True)
class RLSPINNConfig(Settings, section="model"):
    """Settings of RL-SPINN."""

    name: Literal["rl-spinn"] = "rl-spinn"
    embedding_size: Size = 100  # features of a token's embedding
    hidden_size: Size = 100  # features of a node's hidden state, and of its memory
    tracking_size: Size = 50  # features of the tracking LSTM, which chooses the actions
    policy_weight: NonNegative = 1.0  # weight of the REINFORCE term in the training loss
    entropy_weight: NonNegative = 0.01  # weight of the entropy bonus, per nat of a sentence
    baseline_decay: Fraction = 0.99  # of the moving average of rewards, which is subtracted from each reward
    dropout: Fraction = 0.1  # rate on embeddings
    init_range: Positive = 0.1  # initial embeddings: uniform in (-init_range, init_range)


@dataclass(frozen=True)
class _Trees:
    """Trees of a batch.

    roots: (B, 2D).  spans: (B, T, T) of 0 and 1.  decisions: of the actions that were not forced.
    """

    roots: Tensor
    spans: Tensor
    decisions: Decisions


class RLSPINN(LearnsFromRewards, ParsesSentences):
    """RL-SPINN. A sentence's vector is the hidden state of the root of its tree."""

    structure_type = SpanMarginals
    value_ranges: ClassVar = {"updates": NON_NEGATIVE}
    baseline: Tensor  # moving average of rewards
    updates: Tensor  # of the baseline

    def __init__(self, config: RLSPINNConfig, vocabulary_size: int) -> None:
        super().__init__()
        self.config, self.vocabulary_size, self.feature_size = config, vocabulary_size, config.hidden_size
        self.embedding = nn.Embedding(vocabulary_size, config.embedding_size)
        nn.init.uniform_(self.embedding.weight, -config.init_range, config.init_range)
        self.leaf = nn.Linear(config.embedding_size, 2 * config.hidden_size)
        self.tracker = nn.LSTMCell(3 * config.hidden_size, config.tracking_size)
        self.policy = nn.Linear(config.tracking_size, 1)
        self.cell = TreeLSTMCell(config.hidden_size, config.tracking_size)
        self.register_buffer("baseline", torch.zeros(()))
        self.register_buffer("updates", torch.zeros((), dtype=torch.int64))

    def encode(self, batch: TokenBatch) -> Encoding:
        trees = self._trees(batch)
        return Encoding(trees.roots.chunk(2, -1)[0], decisions=trees.decisions if self.training else None)

    def structure(self, batch: TokenBatch) -> SpanMarginals:
        """Return the spans of the tree of the best actions have probability 1. BOS and EOS are not read."""
        return SpanMarginals(self._trees(batch.inner()).spans)

    def policy_terms(self, decisions: Decisions, rewards: Tensor) -> dict[str, Tensor]:
        config, rewards = self.config, rewards.detach()
        self.updates += 1
        self.baseline.lerp_(rewards.mean(), max(1 - config.baseline_decay, 1 / int(self.updates)))
        advantages = rewards - self.baseline
        return {
            "policy": -config.policy_weight * (advantages * decisions.log_probs).mean(),
            "entropy": -config.entropy_weight * decisions.entropies.mean(),
        }

    def _trees(self, batch: TokenBatch) -> _Trees:
        """Build a tree for each sentence. A sentence of n words takes 2n - 1 actions."""
        leaves = self.leaf(dropout(self.embedding(batch.tokens), self.config.dropout, self.training))
        steps, columns, features = leaves.shape
        counts = batch.columns_by_length()
        lengths = (torch.full((columns,), steps) if batch.lengths is None else batch.lengths).to(leaves.device)
        spans = leaves.new_zeros(columns, steps, steps)
        # After its last word, a sentence's buffer holds zeros.
        buffer = torch.cat([leaves * batch.mask()[..., None], leaves.new_zeros(1, columns, features)])
        stack = leaves.new_zeros(_BOTTOM + steps, columns, features)
        starts = lengths.new_zeros(_BOTTOM + steps, columns)  # first word of each entry of the stack
        size, read = torch.full_like(lengths, _BOTTOM), torch.zeros_like(lengths)  # of the stack; words shifted
        tracking = leaves.new_zeros(2, columns, self.config.tracking_size).unbind()
        log_probs = entropies = leaves.new_zeros(columns)
        finished: list[tuple[Tensor, Tensor, Tensor]] = []
        for step in range(2 * steps - 1):
            active = counts[(step + 1) // 2 + 1]  # the sentences with more than `step` actions
            if active < len(size):
                finished.append((stack[_BOTTOM, active:], log_probs[active:], entropies[active:]))
                stack, starts, size, read = stack[:, :active], starts[:, :active], size[:active], read[:active]
                tracking = tuple(part[:active] for part in tracking)
                log_probs, entropies, lengths = log_probs[:active], entropies[:active], lengths[:active]
            column = torch.arange(active, device=leaves.device)
            front, (top, second) = buffer[read, column], stack[torch.stack([size - 1, size - 2]), column]
            hidden = [state.chunk(2, -1)[0] for state in (front, top, second)]
            tracking = self.tracker(torch.cat(hidden, -1), tracking)
            logits = self.policy(tracking[0])[:, 0]  # log-odds of REDUCE

            empty, free = read == lengths, (read < lengths) & (size >= _BOTTOM + 2)
            chosen = torch.rand_like(logits) < logits.sigmoid() if self.training else logits > 0
            reduce = torch.where(free, chosen, empty)
            log_probs = log_probs + free * logsigmoid(torch.where(reduce, logits, -logits))
            entropies = entropies + free * (softplus(logits) - logits * logits.sigmoid())

            place = torch.where(reduce, size - 2, size)
            first = torch.where(reduce, starts[place, column], read)
            spans[column[reduce], first[reduce], read[reduce] - 1] = 1
            parent = self.cell(second, top, tracking[0])
            stack = stack.index_put((place, column), torch.where(reduce[:, None], parent, front))
            starts = starts.index_put((place, column), first)
            size, read = place + 1, read + ~reduce
        finished.append((stack[_BOTTOM], log_probs, entropies))
        roots, log_probs, entropies = (torch.cat(parts[::-1]) for parts in zip(*finished, strict=True))
        return _Trees(roots, spans, Decisions(log_probs, entropies))


def build(config: RLSPINNConfig, vocabulary_size: int) -> RLSPINN:
    return RLSPINN(config, vocabulary_size)
