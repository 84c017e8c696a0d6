"""A parser by counts: constituents are separated where neighbouring words have little mutual information.

After Magerman & Marcus 1990, "Parsing a natural language using mutual information statistics". It gives no
probabilities, so `score` and `evaluate perplexity` refuse it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from syntaxlm.core.errors import InputError
from syntaxlm.models.abilities import Model, ParsesSentences, TrainsByCounting
from syntaxlm.models.batches import TokenBatch
from syntaxlm.models.config import BaseConfig
from syntaxlm.models.registry import model
from syntaxlm.models.structures import Distances


@dataclass(frozen=True)
class MutualInformationConfig(BaseConfig):
    """Settings of the parser by mutual information.

    Attributes:
        smoothing: added to the count of every pair of words
    """

    name: Literal["mutual-information"] = "mutual-information"
    smoothing: float = 0.5


@model("mutual-information", MutualInformationConfig)
class MutualInformationParser(Model, TrainsByCounting, ParsesSentences):
    """The distance before a word is minus the pointwise mutual information of it and the word before.

    pairs: (n,), first * V + second, rising.  pair_counts: (n,).  counts: (2, V), of words as first and as second.
    """

    rounds = 1
    structure_type = Distances
    distance_layers = 1

    def __init__(self, config: MutualInformationConfig, vocabulary_size: int) -> None:
        super().__init__()
        self.config, self.vocabulary_size = config, vocabulary_size
        self.register_buffer("pairs", torch.full((1,), -1))  # before training: a pair that does not occur
        self.register_buffer("pair_counts", torch.zeros(1))
        self.register_buffer("counts", torch.ones(2, vocabulary_size))
        self._seen: list[Tensor] = []

    def accumulate(self, batch: TokenBatch) -> None:
        mask = batch.mask()
        self._seen.append(batch.tokens[mask] * self.vocabulary_size + batch.targets[mask])

    def maximise(self) -> dict[str, Any]:
        if not self._seen:
            raise InputError("mutual-information model: found no sentence to count; expected one or more")
        seen = torch.cat(self._seen)
        self._seen = []
        self.pairs, counts = torch.unique(seen, return_counts=True)
        self.pair_counts = counts.float()
        sides = seen // self.vocabulary_size, seen % self.vocabulary_size
        self.counts = torch.stack([torch.bincount(side, minlength=self.vocabulary_size) for side in sides]).float()
        return {"pairs": len(self.pairs)}

    def structure(self, batch: TokenBatch) -> Distances:
        first, second = batch.tokens[:-1], batch.tokens[1:]
        keys = first * self.vocabulary_size + second
        places = torch.searchsorted(self.pairs, keys).clamp(max=len(self.pairs) - 1)
        together = torch.where(self.pairs[places] == keys, self.pair_counts[places], 0.0) + self.config.smoothing
        apart = (self.counts[0][first] + 1) * (self.counts[1][second] + 1)
        information = torch.log(together * self.counts[0].sum() / apart)
        return Distances(-torch.cat([torch.zeros(1, first.shape[1]), information])[None])

    def resize_buffers(self, tensors: Mapping[str, Tensor]) -> list[str]:
        """The number of pairs depends on the text."""
        for name in ("pairs", "pair_counts"):
            if name in tensors and tensors[name].dim() == 1:
                setattr(self, name, getattr(self, name).new_empty(len(tensors[name])))
        return []
