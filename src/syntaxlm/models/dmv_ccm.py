"""The dependency model with valence combined with the constituent-context model (DMV+CCM, Klein & Manning 2004).

The score of a sentence s with a dependency tree D is the product of both models, where B is the binary tree in which a
head joins its right dependents first, closest first, then its left ones:

    score(s, D) = P_DMV(s, D) P_CCM(s | B)

Each word is generated several times, so the score compares trees and parameters, but is no probability. EM computes the
posterior of the trees under the product and re-estimates both models from it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from syntaxlm.core.settings import NonNegative, Positive
from syntaxlm.models.abilities import Criterion, HasLoss, Loss, Model, TrainsByCounting
from syntaxlm.models.batches import State, TokenBatch
from syntaxlm.models.ccm import CCM, CCMConfig
from syntaxlm.models.config import BaseConfig
from syntaxlm.models.dmv import DMV, DMVConfig, ProjectiveParser, words_by_length
from syntaxlm.models.registry import model
from syntaxlm.models.sizes import check_chart
from syntaxlm.ops.dmv import best_heads, expected_counts, log_partition

_HEADS_TOGETHER = 1 << 20  # most heads of divisions of spans in a group of sentences: all have gradients in memory
_BYTES_PER_HEAD = 64  # in all charts of a sentence


@dataclass(frozen=True)
class DMVCCMConfig(BaseConfig):
    """Settings of DMV+CCM (Klein & Manning 2004): those of both models.

    Attributes:
        valence: DMV: whether the decision to stop depends on the presence of a dependent on this side
        smoothing: DMV: added to the expected count of every decision in each round; 0 adds nothing
        constituent_smoothing: CCM: added to the count of every yield and context as a constituent
        distituent_smoothing: CCM: added to the count of every yield and context as a distituent
    """

    name: Literal["dmv-ccm"] = "dmv-ccm"
    valence: bool = True
    smoothing: NonNegative = 0.0
    constituent_smoothing: Positive = 2.0
    distituent_smoothing: Positive = 8.0


@model("dmv-ccm", DMVCCMConfig)
class DMVCCM(Model, TrainsByCounting, HasLoss, ProjectiveParser):
    """Both models. The first round starts each as if it were alone; each further round is one of EM of the product."""

    reads = "sentences"
    criterion: ClassVar[Criterion] = Criterion("negative logarithm of the product of DMV and CCM", "nats per word")

    def __init__(self, config: DMVCCMConfig, vocabulary_size: int) -> None:
        super().__init__()
        self.config, self.vocabulary_size = config, vocabulary_size
        self.dmv = DMV(DMVConfig(valence=config.valence, smoothing=config.smoothing), vocabulary_size)
        smoothing = CCMConfig(
            constituent_smoothing=config.constituent_smoothing, distituent_smoothing=config.distituent_smoothing
        )
        self.ccm = CCM(smoothing, vocabulary_size)

    def resize_buffers(self, tensors: Mapping[str, Tensor]) -> list[str]:
        """Resize the tables of the CCM, whose sizes depend on the training text. Returns error messages."""
        return self.ccm.resize_buffers({name.removeprefix("ccm."): tensor for name, tensor in tensors.items()})

    # ---- training

    def accumulate(self, batch: TokenBatch) -> None:
        """Add the expected counts of whole sentences; in the first round, those of the starts of both models."""
        if not self.dmv.started:
            self.dmv.accumulate(batch)
            self.ccm.accumulate(batch)
            return
        longest = len(batch.tokens)
        posteriors = self.dmv.root.new_zeros(batch.sentence_count(), longest, longest + 1)
        for columns, words, weights in self._groups(batch):
            _, counts, spans = expected_counts(self.dmv.decisions(words), weights)
            assert spans is not None
            self.dmv.add_counts(words, counts)
            posteriors[columns, : spans.shape[1], : spans.shape[2]] = spans
        self.ccm.accumulate_posteriors(batch, posteriors)

    def maximise(self) -> dict[str, Any]:
        """Set the tables of both models from the counts. Returns the numbers of yields and contexts of the CCM."""
        self.dmv.maximise()
        return self.ccm.maximise()

    @torch.no_grad()
    def loss(self, batch: TokenBatch, state: State = None) -> Loss:
        """Return the negative logarithm of the sum of scores over all dependency trees of whole sentences.

        Sentences that are impossible for the DMV count with its logarithm of 0, a large finite number.
        """
        total = self.dmv.root.new_zeros(())
        count = 0
        items = 0
        for _, words, weights in self._groups(batch):
            sums = log_partition(self.dmv.decisions(words), weights)
            total = total - sums.sum() - self.ccm.distituent_log_probs(self.ccm.types(words.T)).sum()
            count, items = count + words.numel(), items + len(words)
        return Loss(total, count, items)

    # ---- structure

    def best_heads(self, batch: TokenBatch) -> Iterator[tuple[slice, Tensor]]:
        for columns, words, weights in self._groups(batch, closed=True):
            yield columns, best_heads(self.dmv.decisions(words), weights)[1]

    def _groups(self, batch: TokenBatch, closed: bool = False) -> Iterator[tuple[slice, Tensor, Tensor]]:
        """Yield sentences of one length: their columns, their words, (b, n), and log-weights of spans, (b, n, n + 1).

        Raises:
            InputError: for a sentence that is too long for the memory.
        """
        weights = self.ccm.log_span_weights(batch, closed)
        for columns, words in words_by_length(batch, closed, _HEADS_TOGETHER):
            length = words.shape[1]
            self.check_length(length)
            yield columns, words, weights[columns, :length, : length + 1].double()

    def check_length(self, words: int) -> None:
        check_chart(words, words**4 * _BYTES_PER_HEAD, ", or use a dmv model, which needs less")
