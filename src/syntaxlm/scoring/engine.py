"""The log-probability of whole sentences, each by itself: what choices between sentences are made by."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Sized
from itertools import islice

import numpy as np
import numpy.typing as npt
import torch

from syntaxlm.batches.tokens import SentenceBatches
from syntaxlm.data.corpora import EncodedCorpus
from syntaxlm.model_io import ModelBundle, predicts_ends
from syntaxlm.progress import progress_bar

TOKEN_BUDGET = 4096  # tokens of a batch: larger ones are no faster
SENTENCES_TOGETHER = 1 << 15  # encoded at a time: enough for batches of like length, whatever there is in all

LogProbs = npt.NDArray[np.float64]

_PLACED = np.dtype([("place", np.int64), ("log_prob", np.float64)])


def sentence_log_probs(stored: ModelBundle, sentences: Iterable[Sequence[str]]) -> LogProbs:
    """Natural log-probability of each tokenised sentence, its end included where the model predicts it: (n,), in order.

    Each is read from no state, with the vocabulary's begin before it. Sentences are taken some ten thousand at a time.
    One without a token has the probability of ending at once.
    """
    total = len(sentences) if isinstance(sentences, Sized) else None
    scored = np.fromiter(progress_bar(_scored(stored, iter(sentences)), "scoring, sentences", total), _PLACED)
    result = np.empty(len(scored))
    result[scored["place"]] = scored["log_prob"]
    return result


@torch.no_grad()
def _scored(stored: ModelBundle, sentences: Iterator[Sequence[str]]) -> Iterator[tuple[int, float]]:
    """The place of each sentence and its log-probability, as batches give them."""
    model = stored.model.eval()
    device = model.device
    ends, first = predicts_ends(stored.settings.mode), 0
    while chunk := [stored.vocabulary.encode(sentence) for sentence in islice(sentences, SENTENCES_TOGETHER)]:
        corpus = EncodedCorpus.from_sentences(chunk)
        for batch in SentenceBatches(corpus, stored.vocabulary, TOKEN_BUDGET, shuffle=False, seed=0, ends=ends).iterate(
            0
        ):
            assert batch.indices is not None
            places = batch.indices + first
            batch = batch.to(device)
            log_probs = model(batch).log_probs(batch.targets).masked_fill(~batch.mask(), 0.0)
            yield from zip(places.tolist(), log_probs.sum(0, dtype=torch.float64).tolist(), strict=True)
        first += len(chunk)
