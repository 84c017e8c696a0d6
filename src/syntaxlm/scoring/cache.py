"""The neural cache: words that followed similar states are likely to occur again.

Grave, Joulin, Usunier 2016, "Improving neural language models with a continuous cache", section 3. Nothing is trained.
The cache has the decoder's last N inputs h_i, each with its target word w_i:

    p_cache(w_t) is proportional to the sum over i = t-N .. t-1 of 1[w_i = w_t] exp(theta h_t . h_i)
    p(w_t) = (1 - lambda) p_model(w_t) + lambda p_cache(w_t)

The cache treats a text as one sequence in its order, including ends of sentences, whether the model carries its state
through the text or resets it at each sentence: documents repeat words in either case.

The products of several rows with all rows in their caches are computed at once; those of one row are a band of the
resulting matrix, which is a view of it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import pad

from syntaxlm.core.settings import Count, Fraction, NonNegative, Settings
from syntaxlm.data.corpora import EncodedCorpus
from syntaxlm.scoring.engine import ScoredTokens, Scorer

CACHE_SIZE = 2000  # words, by default
ROWS_TOGETHER = (
    128  # rows whose products are computed at once; with 2,000 cached words, these fit in the processor's cache
)


@dataclass(frozen=True)
class CacheSettings(Settings, section="cache"):
    """Settings of the neural cache. Raises InputError for values out of range.

    Attributes:
        weight: lambda, the weight of the cache in the mixture
        theta: 0: all cached words have equal weight; larger: more weight for those after similar states
        size: N, number of words in the cache

    >>> print(syntaxlm.CacheSettings(weight=0.1, theta=0.5))
    cache of 2,000 words, weight 0.1, theta 0.5
    """

    weight: Fraction
    theta: NonNegative
    size: Count = CACHE_SIZE

    def __str__(self) -> str:
        return f"cache of {self.size:,} words, weight {self.weight:g}, theta {self.theta:g}"


class NeuralCache:
    """The last `size` rows and words of a text that is read in parts."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._cached: tuple[Tensor, Tensor] | None = None  # rows (k, F) and words (k,), k at most `size`

    def probs(self, part: ScoredTokens, thetas: Sequence[float]) -> Tensor:
        """Return p_cache of each token of a part of a text, for each theta: (n, thetas). Then adds the part to the
        cache.

        At the first word of a text the cache is empty and returns the model's probability.
        """
        hidden = part.hidden
        words = part.tokens
        assert hidden is not None, "the neural cache needs hidden states"
        count = len(words)
        before, words_before = self._cached or (hidden[:0], words[:0])
        width = max(1, min(self.size, len(before) + count - 1))  # number of cached rows for the last word
        missing = width - len(before)  # positions before the first word of the text
        keys = pad(torch.cat([before, hidden]), (0, 0, missing, 0))
        key_words = pad(torch.cat([words_before, words]), (missing, 0), value=-1)
        self._cached = keys[missing:][-self.size :].clone(), key_words[missing:][-self.size :].clone()
        result = hidden.new_empty(count, len(thetas))

        # p_cache(w_t) = sum over cached i with w_i = w_t of softmax_i(theta h_t . h_i)
        for begin in range(0, count, ROWS_TOGETHER):
            rows = slice(begin, min(begin + ROWS_TOGETHER, count))
            seen = slice(begin, rows.stop + width - 1)
            products = hidden[rows] @ keys[seen].T
            # Entries r to r + width - 1 of each row r, a view.
            scores = products.as_strided((len(products), width), (products.shape[1] + 1, 1))
            same = key_words[seen].unfold(0, width, 1) == words[rows, None]
            empty = None
            if begin < missing:
                columns = torch.arange(len(products) + width - 1, device=scores.device).unfold(0, width, 1)
                empty = columns < missing - begin
            for place, theta in enumerate(thetas):
                weights = scores * theta
                if empty is not None:
                    weights.masked_fill_(empty, -math.inf)
                result[rows, place] = (torch.softmax(weights, dim=1) * same).sum(dim=1)
        if not len(before):
            result[0] = part.log_probs[0].exp()
        return result


def mixed_log_probs(log_probs: Tensor, cache_probs: Tensor, weight: float) -> Tensor:
    """Return log((1 - lambda) p_model + lambda p_cache) of each word, in float64. (n,), (n,) -> (n,)."""
    if not weight:
        return log_probs.double()
    return torch.logaddexp(log_probs.double() + math.log1p(-weight), cache_probs.double().log() + math.log(weight))


def log_probs_with_cache(scorer: Scorer, corpus: EncodedCorpus, settings: CacheSettings) -> tuple[float, float]:
    """Return the natural log-probability of a text with and without the cache.

    Raises:
        InputError: for a model without hidden states.
    """
    cache = NeuralCache(settings.size)
    with_cache = without = 0.0
    for part in scorer.tokens(corpus, hidden=True):
        cache_probs = cache.probs(part, [settings.theta])[:, 0]
        with_cache += float(mixed_log_probs(part.log_probs, cache_probs, settings.weight).sum())
        without += float(part.log_probs.sum(dtype=torch.float64))
    return with_cache, without
