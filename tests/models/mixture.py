"""A mixture of unigrams, trained by EM: the smallest model that scores sentences without scoring their tokens."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor

from syntaxlm.models.abilities import Model, ScoresSentences, TrainsByCounting
from syntaxlm.models.batches import TokenBatch
from syntaxlm.models.layers import LOG_WEIGHTS


class MixtureOfUnigrams(Model, TrainsByCounting, ScoresSentences):
    """p(sentence) = sum over topics z of p(z) times the product of p(word | z). Sizes: K topics, V words.

    priors: (K,), words: (K, V), natural log-probabilities; in float64.
    """

    priors: Tensor
    words: Tensor
    value_ranges: ClassVar = {"priors": LOG_WEIGHTS, "words": LOG_WEIGHTS}

    def __init__(self, topics: int, vocabulary_size: int, seed: int = 0) -> None:
        super().__init__()
        self.vocabulary_size = vocabulary_size
        noise = torch.rand(topics, vocabulary_size, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
        self.register_buffer("priors", torch.full((topics,), 1 / topics, dtype=torch.float64).log())
        self.register_buffer("words", torch.log_softmax(noise, dim=-1))
        self._clear()

    def _clear(self) -> None:
        self._topic_counts, self._word_counts = torch.zeros_like(self.priors), torch.zeros_like(self.words)
        self._log_prob, self._tokens = 0.0, 0

    def _joint(self, batch: TokenBatch) -> Tensor:
        """log p(z, sentence): (B, K)."""
        by_word = self.words.T[batch.targets].masked_fill(~batch.mask()[..., None], 0.0)
        return by_word.sum(0) + self.priors

    def sentence_log_probs(self, batch: TokenBatch) -> Tensor:
        return self._joint(batch).logsumexp(-1)

    def accumulate(self, batch: TokenBatch) -> None:
        joint = self._joint(batch)
        posteriors = joint.softmax(-1)
        self._topic_counts += posteriors.sum(0)
        mask = batch.mask()
        weights = posteriors.expand(*batch.targets.shape, -1)[mask]
        self._word_counts.index_add_(1, batch.targets[mask], weights.T)
        self._log_prob += float(joint.logsumexp(-1).sum())
        self._tokens += batch.token_count()

    def maximise(self) -> dict[str, Any]:
        if not self._tokens:
            raise ValueError("expected a batch to count before maximise()")
        self.priors.copy_((self._topic_counts / self._topic_counts.sum()).log())
        self.words.copy_((self._word_counts / self._word_counts.sum(1, keepdim=True)).log())
        figures = {"objective": -self._log_prob / self._tokens}
        self._clear()
        return figures
