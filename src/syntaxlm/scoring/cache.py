"""The neural cache: words that came after states like this one are likely to come again.

Grave, Joulin, Usunier 2016, "Improving neural language models with a continuous cache", section 3. Nothing is trained.
The cache holds the last N rows h_i that the decoder read, each with the word w_i that it was to predict:

    p_cache(w_t) is proportional to the sum over i = t-N .. t-1 of 1[w_i = w_t] exp(theta h_t . h_i)
    p(w_t) = (1 - lambda) p_model(w_t) + lambda p_cache(w_t)

A text is one text to the cache, in its order, ends of sentences among its words. That is so whether the model carries
its state through the text or begins anew at each sentence: what a document repeats, it repeats in either.

The products of some rows with all rows that they look back to are made at once; those of one row stand in a band of the
matrix, which is a view of it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import pad

from syntaxlm.data.corpora import EncodedCorpus
from syntaxlm.scoring.engine import ScoredTokens, Scorer
from syntaxlm.settings import Count, Fraction, NonNegative, Settings

CACHE_SIZE = 2000  # words, where none is given
ROWS = 128  # whose products are made at once: with 2,000 words to look back to, a processor's cache holds them


@dataclass(frozen=True)
class CacheSettings(Settings, section="cache"):
    """Settings of the neural cache. Raises InputError for those out of range."""

    weight: Fraction  # lambda, the weight of the cache in the mixture
    theta: NonNegative  # 0: all words in the cache count alike; larger: those after a similar state count more
    size: Count = CACHE_SIZE  # N, words that the cache holds

    def __str__(self) -> str:
        return f"cache of {self.size:,} words, weight {self.weight:g}, theta {self.theta:g}"


class NeuralCache:
    """The last `size` rows and words of a text that is read part by part."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._held: tuple[Tensor, Tensor] | None = None  # rows (k, F) and words (k,), k at most `size`

    def probs(self, part: ScoredTokens, thetas: Sequence[float]) -> Tensor:
        """p_cache of each token of a part of a text, for each theta: (n, thetas). Then the part is in the cache.

        Before the first word of a text the cache is empty, and gives the model's probabilities.
        """
        hidden, words, log_probs = part.hidden, part.tokens, part.log_probs
        assert hidden is not None, "a cache needs hidden states"
        count = len(words)
        before, words_before = self._held or (hidden[:0], words[:0])
        width = max(1, min(self.size, len(before) + count - 1))  # how far the last word looks back
        missing = width - len(before)  # places before the first word of the text
        keys = pad(torch.cat([before, hidden]), (0, 0, missing, 0))
        key_words = pad(torch.cat([words_before, words]), (missing, 0), value=-1)
        self._held = keys[missing:][-self.size :].clone(), key_words[missing:][-self.size :].clone()
        result = hidden.new_empty(count, len(thetas))
        for begin in range(0, count, ROWS):
            rows = slice(begin, min(begin + ROWS, count))
            seen = slice(begin, rows.stop + width - 1)
            scores = _band(hidden[rows] @ keys[seen].T, width)
            same = key_words[seen].unfold(0, width, 1) == words[rows, None]
            empty = _places(scores) < missing - begin if begin < missing else None
            for place, theta in enumerate(thetas):
                result[rows, place] = _share(scores * theta, same, empty)
        if not len(before):
            result[0] = log_probs[0].exp()
        return result


def _band(products: Tensor, width: int) -> Tensor:
    """Of row r the entries r to r + width - 1. (n, n + width - 1) -> (n, width), a view."""
    return products.as_strided((len(products), width), (products.shape[1] + 1, 1))


def _places(band: Tensor) -> Tensor:
    """Which column of the whole matrix each entry of a band was: r + j."""
    rows, columns = (torch.arange(size, device=band.device) for size in band.shape)
    return rows[:, None] + columns


def _share(scores: Tensor, same: Tensor, empty: Tensor | None) -> Tensor:
    """How much of each row's softmax is at entries of the same word. (n, N) -> (n,). scores: overwritten."""
    if empty is not None:
        scores.masked_fill_(empty, -math.inf)
    return (torch.softmax(scores, dim=1) * same).sum(dim=1)


def mixed_log_probs(log_probs: Tensor, cache_probs: Tensor, weight: float) -> Tensor:
    """log((1 - lambda) p_model + lambda p_cache) of each word, in float64. (n,), (n,) -> (n,)."""
    if not weight:
        return log_probs.double()
    return torch.logaddexp(log_probs.double() + math.log1p(-weight), cache_probs.double().log() + math.log(weight))


def log_probs_with_cache(scorer: Scorer, corpus: EncodedCorpus, settings: CacheSettings) -> tuple[float, float]:
    """The natural log-probability of a text with the cache, and without it.

    Raises InputError for a model without hidden states.
    """
    cache = NeuralCache(settings.size)
    with_cache = without = 0.0
    for part in scorer.tokens(corpus, hidden=True):
        cache_probs = cache.probs(part, [settings.theta])[:, 0]
        with_cache += float(mixed_log_probs(part.log_probs, cache_probs, settings.weight).sum())
        without += float(part.log_probs.sum(dtype=torch.float64))
    return with_cache, without
