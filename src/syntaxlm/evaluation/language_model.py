"""Perplexity of a text: every token counted once, however the text was batched."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from syntaxlm.data.batches import SentenceBatches, StreamBatches
from syntaxlm.data.corpora import EncodedCorpus
from syntaxlm.evaluation.cache import CacheSettings, nats_with_cache
from syntaxlm.models.contract import LanguageModel, State, TokenBatch
from syntaxlm.storage import Mode, StoredModel
from syntaxlm.text.vocabulary import Vocabulary

TOKEN_BUDGET = 8192  # tokens of an evaluation batch of sentences
COLUMNS, STEPS = 32, 128  # of an evaluation batch of a stream


@dataclass(frozen=True)
class LanguageModelScore:
    """How well a model predicts a text.

    nats: total negative log-probability. tokens: predicted, ends of sentences included. unknown: of them, how many the
    vocabulary has not. characters: of the original text that these tokens stand for: white space between two words is
    one, the end of a sentence is one, and what the normaliser drops is none.
    """

    nats: float
    tokens: int
    sentences: int
    unknown: int
    characters: int
    mode: Mode
    source: str = ""

    @property
    def loss(self) -> float:
        """Nats per token."""
        return self.nats / self.tokens

    @property
    def perplexity(self) -> float:
        return math.exp(min(self.loss, 700.0))

    @property
    def bits_per_token(self) -> float:
        return self.loss / math.log(2)

    @property
    def bits_per_character(self) -> float:
        """Compares models of different vocabularies, as long as no word is unknown to either or dropped by one.

        For a model of characters these are bits per token, BPC, unless its normaliser makes fewer or more tokens of the
        characters (a number to one N).
        """
        return self.nats / math.log(2) / max(1, self.characters)

    def as_dict(self) -> dict[str, Any]:
        """All figures, for JSON."""
        derived = ("perplexity", "loss", "bits_per_token", "bits_per_character")
        return {name: getattr(self, name) for name in derived} | dataclasses.asdict(self)

    def __str__(self) -> str:
        reset = "state reset at each sentence" if self.mode == "sentences" else "state carried through the text"
        return (
            f"perplexity {self.perplexity:.2f}   bits per token {self.bits_per_token:.3f}   "
            f"bits per character {self.bits_per_character:.3f}\n"
            f"{self.tokens:,} tokens, ends of {self.sentences:,} sentences included; {self.unknown:,} unknown "
            f"({100 * self.unknown / self.tokens:.1f}%); {reset}"
        )


@dataclass(frozen=True, kw_only=True)
class CachedScore(LanguageModelScore):
    """How well a model predicts a text with a neural cache.

    without_cache: the model alone, by the same reading: a stream is one column.
    """

    cache: CacheSettings
    without_cache: LanguageModelScore

    def as_dict(self) -> dict[str, Any]:
        """All figures, for JSON."""
        return super().as_dict() | {"without_cache": self.without_cache.as_dict()}

    def __str__(self) -> str:
        figures, tokens = super().__str__().split("\n")
        without = str(self.without_cache).split("\n")[0]
        return f"{figures}   with the cache\n{without}   without\n{tokens}\n{self.cache}, over the text in its order"


def evaluation_batches(corpus: EncodedCorpus, vocabulary: Vocabulary, mode: Mode) -> Iterable[TokenBatch]:
    """The batches to read a corpus by: each token predicted exactly once.

    A stream is read in a few parallel columns of 2,000 tokens or more; each starts without memory.
    """
    if mode == "stream":
        columns = min(COLUMNS, max(1, (corpus.word_count + len(corpus)) // 2000))
        return StreamBatches(corpus, vocabulary, columns, STEPS)
    return SentenceBatches(corpus, vocabulary, TOKEN_BUDGET, shuffle=False, seed=0).iterate(0)


@torch.no_grad()
def total_nats(model: LanguageModel, batches: Iterable[TokenBatch]) -> float:
    """The negative log-probability of all targets of the batches, in nats. Leaves the model in evaluation mode."""
    model.eval()
    device = next(model.parameters()).device
    total = 0.0
    state: State = None
    for batch in batches:
        batch = batch.to(device)
        output = model(batch, state if batch.carries else None)
        state = output.state
        total -= float(output.log_probs(batch.targets).sum(dtype=torch.float64))
    return total


def evaluate_language_model(
    model: LanguageModel,
    corpus: EncodedCorpus,
    vocabulary: Vocabulary,
    mode: Mode,
    cache: CacheSettings | None = None,
) -> LanguageModelScore:
    """The model's score on a corpus, read sentence by sentence or as one stream; with a cache, a `CachedScore`."""
    if cache is None:
        return score_of(corpus, mode, total_nats(model, evaluation_batches(corpus, vocabulary, mode)))
    nats, without = nats_with_cache(model, corpus, vocabulary, mode, cache)
    return CachedScore(**vars(score_of(corpus, mode, nats)), cache=cache, without_cache=score_of(corpus, mode, without))


def score_of(corpus: EncodedCorpus, mode: Mode, nats: float) -> LanguageModelScore:
    """The score of a corpus whose negative log-probability is known."""
    return LanguageModelScore(
        nats=nats,
        tokens=corpus.word_count + len(corpus),
        sentences=len(corpus),
        unknown=corpus.unknown_count,
        characters=corpus.character_count,
        mode=mode,
        source=corpus.source,
    )


def evaluate_text(
    stored: StoredModel, path: str | Path, mode: Mode | None = None, cache: CacheSettings | None = None
) -> LanguageModelScore:
    """The score of a stored model on a text file, one sentence a line; "-" is standard input.

    mode: how the text is read; as the model was trained when None. cache: of the neural cache; then a `CachedScore`.
    Raises InputError for a file that is not text, and with a cache for a model without hidden states.
    """
    with EncodedCorpus.encode(path, stored.normaliser, stored.vocabulary) as corpus:
        return evaluate_language_model(stored.model, corpus, stored.vocabulary, mode or stored.settings.mode, cache)
