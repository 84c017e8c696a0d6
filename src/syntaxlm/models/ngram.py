"""N-gram language model with modified Kneser-Ney smoothing, estimated from counts.

A back-off model: each n-gram has the probability of its last word given the others, and a back-off weight, the
probability mass left to shorter contexts. Chen & Goodman 1998; estimation is in `ops.kneser_ney`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, cast

import numpy as np
import torch
from torch import Tensor, nn

from syntaxlm.core.arrays import Integers
from syntaxlm.core.errors import InputError
from syntaxlm.core.settings import Bounds, Count
from syntaxlm.models.abilities import Model, PredictsNextToken, TokenScores, TrainsByCounting
from syntaxlm.models.batches import State, TokenBatch
from syntaxlm.models.config import BaseConfig
from syntaxlm.models.layers import LOG_PROBS
from syntaxlm.models.registry import model
from syntaxlm.ops import kneser_ney
from syntaxlm.ops.kneser_ney import Grams

MinimumCounts = Annotated[tuple[Count, ...], Bounds(min_length=1, max_length=20)]

LOG10_NEVER = -99.0  # log10 of the probability of a word that is never predicted, as in ARPA files


@dataclass(frozen=True)
class NGramConfig(BaseConfig):
    """Settings of the n-gram model (Chen & Goodman 1998).

    Attributes:
        order: words in the longest n-grams, so that order - 1 words predict the next word
        minimum_counts: smallest count of n-grams that are kept, for n-grams of 1, 2, ... words; the last value also
            holds for longer n-grams
    """

    name: Literal["ngram"] = "ngram"
    order: Annotated[int, Bounds(ge=1, le=20)] = 5
    minimum_counts: MinimumCounts = (1,)

    def contradictions(self) -> list[str]:
        counts = list(self.minimum_counts)
        if counts[0] == 1 and counts == sorted(counts):
            return []
        return [f"minimum_counts: found {counts}; expected 1 first, then counts that do not decrease"]


class Level(nn.Module):
    """The n-grams of one order, numbered by their sorted keys.

    Args:
        keys: as in `Grams`.
        log_probs: the probabilities of `Grams` as logarithms to base 10, as in ARPA files, so that values read from a
            file are written back digit by digit.
        back_offs: the back-off weights of `Grams`, likewise.
    """

    value_ranges: ClassVar = {"log_probs": LOG_PROBS, "back_offs": (-math.inf, 99.0)}
    keys: Tensor
    log_probs: Tensor
    back_offs: Tensor

    def __init__(self, keys: Tensor, log_probs: Tensor, back_offs: Tensor) -> None:
        super().__init__()
        self.register_buffer("keys", keys)
        self.register_buffer("log_probs", log_probs)
        self.register_buffer("back_offs", back_offs)

    @classmethod
    def of(cls, grams: Grams) -> Level:
        probabilities = torch.from_numpy(grams.probabilities)
        log_probs = torch.where(probabilities > 0, probabilities.log10(), LOG10_NEVER)
        return cls(torch.from_numpy(grams.keys), log_probs, torch.from_numpy(grams.back_offs).log10())

    def find(self, keys: Tensor) -> Tensor:
        """Return the index of the n-gram with each key, -1 if there is none. (n,) -> (n,)."""
        if not len(self.keys):
            return torch.full_like(keys, -1)
        places = torch.searchsorted(self.keys, keys).clamp_(max=len(self.keys) - 1)
        return torch.where(self.keys[places] == keys, places, -1)


@model("ngram", NGramConfig)
class NGramModel(Model, TrainsByCounting, PredictsNextToken):
    """N-grams of order 1, 2, ...; uniform over words before training."""

    rounds = 1

    def __init__(self, config: NGramConfig, vocabulary_size: int) -> None:
        super().__init__()
        self.config, self.vocabulary_size = config, vocabulary_size
        # Parts of each text, the first of which is the context of its first target, and the lengths of its columns.
        self._texts: list[tuple[list[Integers], list[Integers]]] = []
        sizes = (vocabulary_size if order == 1 else 0 for order in range(1, config.order + 1))
        self.levels = nn.ModuleList(
            Level(
                torch.arange(size),
                torch.full((size,), -math.log10(vocabulary_size), dtype=torch.float64),
                torch.zeros(size if order < config.order else 0, dtype=torch.float64),
            )
            for order, size in enumerate(sizes, 1)
        )

    @property
    def each_level(self) -> list[Level]:
        """The levels of order 1, 2, ..."""
        return cast("list[Level]", list(self.levels))

    @property
    def parameter_count(self) -> int:
        """Number of probabilities and back-off weights."""
        return sum(len(level.log_probs) + len(level.back_offs) for level in self.each_level)

    def accumulate(self, batch: TokenBatch) -> None:
        """Add the texts of a batch; batches that carry the state are concatenated."""
        if not (batch.carries and self._texts):
            context = batch.tokens[:1].numpy(force=True)
            self._texts.append(([context], [np.ones(context.shape[1], np.int64)]))
        texts, lengths = self._texts[-1]
        texts.append(batch.targets.numpy(force=True))
        lengths.append(batch.step_counts().numpy())

    def maximise(self) -> dict[str, Any]:
        """Estimate the model. Returns the number of n-grams kept and the discounts of each order.

        If the counts of counts of an order give no discounts (small texts), `FALLBACK_DISCOUNTS` are used and the order
        is reported.
        """
        if not self._texts:
            raise InputError("n-gram model: found no text to estimate from; expected one batch or more")

        # All words, column after column, with their places in the columns, from 0.
        words: list[Integers] = []
        places: list[Integers] = []
        for parts, lengths in self._texts:
            text = np.concatenate(parts)
            is_word = np.arange(len(text)) < np.sum(lengths, 0)[:, None]
            words.append(text.T[is_word])
            places.append(np.nonzero(is_word)[1])
        self._texts.clear()

        config = self.config
        model = kneser_ney.estimate(
            np.concatenate(words), np.concatenate(places), self.vocabulary_size, config.order, config.minimum_counts
        )
        self.levels = nn.ModuleList(map(Level.of, model.grams))
        return {
            "ngrams": [len(grams.keys) for grams in model.grams],
            "discounts": model.discounts.round(4).tolist(),
            "fallback_discounts_of_orders": model.fallbacks,
        }

    def token_log_probs(self, batch: TokenBatch, state: State = None) -> TokenScores:
        tokens = batch.tokens
        targets = batch.targets
        levels = self.each_level
        contexts, carried = self._contexts(tokens, state)

        # From short contexts to long ones: a known context adds its back-off weight, a known n-gram replaces the value.
        values = levels[0].log_probs[targets]
        # If the targets are the next inputs, the n-grams that they end are also the contexts of the next step.
        are_read = torch.equal(tokens[1:], targets[:-1])
        for place, (shorter, level, context) in enumerate(zip(levels[:-1], levels[1:], contexts, strict=True), 1):
            known = context >= 0
            values[known] += shorter.back_offs[context[known]]
            if are_read and place < len(contexts):
                numbers = torch.cat([contexts[place][1:], self._extended(level, context[-1:], targets[-1:])])
            else:
                numbers = self._extended(level, context, targets)
            seen = numbers >= 0
            values[seen] = level.log_probs[numbers[seen]]
        values *= math.log(10)
        if batch.lengths is not None:
            values = values.masked_fill(~batch.mask(), 0.0)
        return TokenScores(values, {"tokens": carried})

    def next_log_probs(self, batch: TokenBatch, state: State = None) -> tuple[Tensor, State]:
        contexts, carried = self._contexts(batch.tokens, state)
        levels = self.each_level
        columns = torch.arange(batch.tokens.shape[1], device=batch.tokens.device)
        last = (batch.step_counts() - 1).to(columns.device), columns
        values = levels[0].log_probs.repeat(len(columns), 1)
        for shorter, level, context in zip(levels[:-1], levels[1:], contexts, strict=True):
            (known,) = torch.nonzero(context[last] >= 0, as_tuple=True)
            numbers = context[last][known]
            values[known] += shorter.back_offs[numbers][:, None]

            # The n-grams of one context are consecutive in the sorted keys: they replace the values of their words.
            first, end = torch.searchsorted(level.keys, torch.stack([numbers, numbers + 1]) * self.vocabulary_size)
            counts = end - first
            rows = known.repeat_interleave(counts)
            within = torch.arange(len(rows), device=rows.device) - (counts.cumsum(0) - counts).repeat_interleave(counts)
            places = first.repeat_interleave(counts) + within
            values[rows, level.keys[places] % self.vocabulary_size] = level.log_probs[places]
        return values * math.log(10), {"tokens": carried}

    def _contexts(self, tokens: Tensor, state: State) -> tuple[list[Tensor], Tensor]:
        """Return indices of the n-grams of 1, 2, ... words that end with each token, -1 for none; and the next state.

        Args:
            tokens: (T, B).

        Returns:
            (T, B) for each order but the highest, and the last (order - 2, B) tokens. A batch starts with the last
            target of the previous batch, so no more tokens are needed.
        """
        carried = max(self.config.order - 2, 0)
        before = tokens.new_full((carried, tokens.shape[1]), -1) if state is None else state["tokens"]
        text = torch.cat([before, tokens])
        contexts = [tokens] if self.config.order > 1 else []
        # n-gram(t - n + 1 ... t) = the n-gram with context n-gram(t - n + 1 ... t - 1) and last word t
        numbers = text  # of the n-grams that end with each token, except the first tokens of the state
        for length, level in enumerate(self.each_level[1:-1], 2):
            numbers = self._extended(level, numbers[:-1], text[length - 1 :])
            contexts.append(numbers[len(numbers) - len(tokens) :])
        return contexts, text[len(text) - carried :].clone()

    def _extended(self, level: Level, contexts: Tensor, words: Tensor) -> Tensor:
        """Return indices of a level's n-grams from those of their contexts and their last words; -1 for none."""
        known = contexts >= 0
        numbers = torch.full_like(contexts, -1)
        numbers[known] = level.find(contexts[known] * self.vocabulary_size + words[known])
        return numbers

    def resize_buffers(self, tensors: Mapping[str, Tensor]) -> list[str]:
        """Resize the levels to the stored numbers of n-grams, which depend on the text. Returns error messages."""
        faults = []
        below = 1
        for place, level in enumerate(self.each_level):
            names = {name: f"levels.{place}.{name}" for name in ("keys", "log_probs", "back_offs")}
            if not all(name in tensors and tensors[name].dim() == 1 for name in names.values()):
                continue  # reported with the other wrong shapes
            keys = tensors[names["keys"]]
            count = self.vocabulary_size if place == 0 else len(keys)
            sizes = {"keys": count, "log_probs": count, "back_offs": count if level is not self.levels[-1] else 0}
            for name, size in sizes.items():
                setattr(level, name, getattr(level, name).new_empty(size))
            if keys.is_meta:  # only shapes are known
                continue
            is_rising = bool((keys[1:] > keys[:-1]).all())
            if len(keys) and not (is_rising and int(keys[0]) >= 0 and int(keys[-1]) < below * self.vocabulary_size):
                faults.append(f"{names['keys']} must increase from 0 to below {below * self.vocabulary_size}")
            below = count
        return faults
