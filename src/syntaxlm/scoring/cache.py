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
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from syntaxlm.batches.tokens import SentenceBatches, StreamBatches
from syntaxlm.data.corpora import EncodedCorpus
from syntaxlm.errors import InputError
from syntaxlm.model_io import Mode, predicts_ends
from syntaxlm.models.contract import LanguageModel, Output, State
from syntaxlm.settings import Count, Fraction, NonNegative, Settings
from syntaxlm.text.vocabulary import Vocabulary

CACHE_SIZE = 2000  # words, where none is given
ROWS = 128  # whose products are made at once: with 2,000 words to look back to, a processor's cache holds them
STEPS = 1024  # of a chunk of a stream
TOKENS = 32_768  # of the sentences that are read before the cache reads them: batches of like length, bounded memory
TOKEN_BUDGET = 8192  # of a batch of them, padding included


@dataclass(frozen=True)
class CacheSettings(Settings, section="cache"):
    """Settings of the neural cache. Raises InputError for those out of range."""

    weight: Fraction  # lambda, the weight of the cache in the mixture
    theta: NonNegative  # 0: all words in the cache count alike; larger: those after a similar state count more
    size: Count = CACHE_SIZE  # N, words that the cache holds

    def __str__(self) -> str:
        return f"cache of {self.size:,} words, weight {self.weight:g}, theta {self.theta:g}"


class Stretch(NamedTuple):
    """Words of a text in their order, as a model read them.

    hidden: (n, F), what the decoder read.  words: (n,), what it was to predict.  log_probs: (n,), the model's of these.
    """

    hidden: Tensor
    words: Tensor
    log_probs: Tensor


class NeuralCache:
    """The last `size` rows and words of a text that is read stretch by stretch."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._held: tuple[Tensor, Tensor] | None = None  # rows (k, F) and words (k,), k at most `size`

    def probs(self, stretch: Stretch, thetas: Sequence[float]) -> Tensor:
        """p_cache of each word of the stretch, for each theta: (n, thetas). Then the stretch is in the cache.

        Before the first word of a text the cache is empty, and says what the model says.
        """
        hidden, words, log_probs = stretch
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


@torch.no_grad()
def nats_with_cache(
    model: LanguageModel, corpus: EncodedCorpus, vocabulary: Vocabulary, mode: Mode, settings: CacheSettings
) -> tuple[float, float]:
    """The negative log-probability of a text with the cache, and without it by the same reading, in nats.

    A stream is read as one column. Raises InputError for a model without hidden states.
    """
    cache = NeuralCache(settings.size)
    nats = without = 0.0
    for stretch in read_in_order(model, corpus, vocabulary, mode):
        cache_probs = cache.probs(stretch, [settings.theta])[:, 0]
        nats -= float(mixed_log_probs(stretch.log_probs, cache_probs, settings.weight).sum())
        without -= float(stretch.log_probs.sum(dtype=torch.float64))
    return nats, without


def read_in_order(model: LanguageModel, corpus: EncodedCorpus, vocabulary: Vocabulary, mode: Mode) -> Iterator[Stretch]:
    """The words of a text in its order, ends of sentences among them, as the model reads them; no gradients.

    Leaves the model in evaluation mode. Raises InputError for a model without hidden states.
    """
    model.eval()
    if mode == "stream":
        return _read_stream(model, corpus, vocabulary)
    return _read_sentences(model, corpus, vocabulary, ends=predicts_ends(mode))


@torch.no_grad()
def _read_stream(model: LanguageModel, corpus: EncodedCorpus, vocabulary: Vocabulary) -> Iterator[Stretch]:
    device = model.device
    state: State = None
    for batch in StreamBatches(corpus, vocabulary, batch_size=1, steps=STEPS):
        batch = batch.to(device)
        output = model(batch, state)
        state = output.state
        yield Stretch(_hidden(output), batch.targets[:, 0], output.log_probs(batch.targets)[:, 0])


@torch.no_grad()
def _read_sentences(
    model: LanguageModel, corpus: EncodedCorpus, vocabulary: Vocabulary, ends: bool
) -> Iterator[Stretch]:
    """Some thousand sentences at a time, in batches of like length, their words then put in order."""
    device = model.device
    for part in _parts(corpus):
        batches = SentenceBatches(part, vocabulary, TOKEN_BUDGET, shuffle=False, seed=0, ends=ends)
        places, hidden, words, log_probs = [], [], [], []
        for batch in batches.iterate(0):
            places.append(batches.places(batch))
            batch = batch.to(device)
            mask = batch.mask()
            output = model(batch)
            hidden.append(_hidden(output))
            words.append(batch.targets[mask])
            log_probs.append(output.log_probs(batch.targets)[mask])
        order = torch.cat(places).argsort().to(device)
        yield Stretch(*(torch.cat(rows)[order] for rows in (hidden, words, log_probs)))


def _parts(corpus: EncodedCorpus) -> Iterator[EncodedCorpus]:
    """The corpus in parts of whole sentences, each of at most TOKENS tokens, or of one sentence."""
    begins = corpus.offsets + np.arange(len(corpus) + 1)
    first = 0
    while first < len(corpus):
        last = max(first + 1, int(np.searchsorted(begins, begins[first] + TOKENS, side="right")) - 1)
        offsets = corpus.offsets[first : last + 1]
        yield EncodedCorpus(corpus.ids[offsets[0] : offsets[-1]], offsets - offsets[0], corpus.line_numbers[first:last])
        first = last


def _hidden(output: Output) -> Tensor:
    if output.hidden is None:
        raise InputError("a neural cache compares hidden states, and this model has none. Leave the cache out.")
    return output.hidden
