"""Perplexity of a text: every token counted once, however the text was batched."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from syntaxlm.batches.tokens import SentenceBatches, StreamBatches
from syntaxlm.data.corpora import EncodedCorpus
from syntaxlm.data.dependencies import DependencyCorpus, TreeBatches
from syntaxlm.errors import InputError
from syntaxlm.model_io import READING, Mode, ModelBundle, predicts_ends
from syntaxlm.models.contract import Batch, LanguageModel, State
from syntaxlm.scoring.cache import CacheSettings, nats_with_cache
from syntaxlm.text.vocabulary import Vocabulary

TOKEN_BUDGET = 8192  # tokens of an evaluation batch of sentences
COLUMNS, STEPS = 32, 128  # of an evaluation batch of a stream

Corpus = EncodedCorpus | DependencyCorpus


def perplexity_text(perplexity: float) -> str:
    """Two decimals, or three digits of what is so large that training went astray."""
    return f"{perplexity:.2f}" if perplexity < 1e6 else f"{perplexity:.3g}"


@dataclass(frozen=True)
class LanguageModelScore:
    """How well a model predicts a text.

    nats: total negative log-probability; for a model of trees that of words given the trees, P(S | T). tokens: what is
    predicted, ends of sentences included, but for open sentences and for trees, where none is. unknown: of them, how
    many the vocabulary has not. characters: of the original text that these tokens stand for: white space between two
    words is one, the end of a sentence is one, and what the normaliser drops is none.
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
        unknown = f"{self.unknown:,} unknown ({100 * self.unknown / self.tokens:.1f}%)"
        figures = f"perplexity {perplexity_text(self.perplexity)}   bits per token {self.bits_per_token:.3f}   "
        if self.mode == "trees":
            return (
                f"{figures}P(S | T), words given their trees\n"
                f"{self.tokens:,} words of {self.sentences:,} trees, ends of sentences not among them; {unknown}"
            )
        reset = "state carried through the text" if self.mode == "stream" else "state reset at each sentence"
        ends = "included" if predicts_ends(self.mode) else "not among them"
        return (
            f"{figures}bits per character {self.bits_per_character:.3f}\n"
            f"{self.tokens:,} tokens, ends of {self.sentences:,} sentences {ends}; {unknown}; {reset}"
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


def evaluation_batches(corpus: Corpus, vocabulary: Vocabulary, mode: Mode) -> Iterable[Batch]:
    """The batches to read a corpus by: each token predicted exactly once. Trees are read by no other mode.

    A stream is read in a few parallel columns of 2,000 tokens or more; each starts without memory.
    """
    if isinstance(corpus, DependencyCorpus):
        return TreeBatches(corpus, TOKEN_BUDGET, shuffle=False, seed=0).iterate(0)
    if mode == "stream":
        columns = min(COLUMNS, max(1, (corpus.word_count + len(corpus)) // 2000))
        return StreamBatches(corpus, vocabulary, columns, STEPS)
    return SentenceBatches(corpus, vocabulary, TOKEN_BUDGET, shuffle=False, seed=0, ends=predicts_ends(mode)).iterate(0)


@torch.no_grad()
def total_nats(model: LanguageModel, batches: Iterable[Batch]) -> float:
    """The negative log-probability of all targets of the batches, in nats. Leaves the model in evaluation mode."""
    model.eval()
    device = model.device
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
    corpus: Corpus,
    vocabulary: Vocabulary,
    mode: Mode,
    cache: CacheSettings | None = None,
) -> LanguageModelScore:
    """The model's score on a corpus, read sentence by sentence, as one stream, or by its trees.

    With a cache, a `CachedScore`. Raises InputError for trees with a cache, and without labels that the model reads.
    """
    if isinstance(corpus, DependencyCorpus):
        check_labels(model, corpus)
        if cache is not None:
            raise InputError("a neural cache goes over a text from left to right; a model of trees takes none")
        return score_of(corpus, mode, total_nats(model, evaluation_batches(corpus, vocabulary, mode)))
    if cache is None:
        return score_of(corpus, mode, total_nats(model, evaluation_batches(corpus, vocabulary, mode)))
    nats, without = nats_with_cache(model, corpus, vocabulary, mode, cache)
    return CachedScore(**vars(score_of(corpus, mode, nats)), cache=cache, without_cache=score_of(corpus, mode, without))


def check_labels(model: LanguageModel, corpus: DependencyCorpus) -> None:
    """Raises InputError where a model reads labels and trees have none."""
    if model.reads_labels and not corpus.labelled:
        raise InputError(
            f"{corpus.source or 'the trees'}: no edge has a label; the model reads labels (model.labelled is true)"
        )


def score_of(corpus: Corpus, mode: Mode, nats: float) -> LanguageModelScore:
    """The score of a corpus whose negative log-probability is known."""
    text = corpus.text if isinstance(corpus, DependencyCorpus) else corpus
    return LanguageModelScore(
        nats=nats,
        tokens=text.word_count + len(text) * predicts_ends(mode),
        sentences=len(text),
        unknown=text.unknown_count,
        characters=text.character_count,
        mode=mode,
        source=text.source,
    )


def evaluate_text(
    stored: ModelBundle, path: str | Path, mode: Mode | None = None, cache: CacheSettings | None = None
) -> LanguageModelScore:
    """The score of a stored model on a text file, one sentence a line; "-" is standard input.

    Of a model of trees, on dependency trees: a file, a folder or a pattern.
    mode: how the text is read; as the model was trained when None. cache: of the neural cache; then a `CachedScore`.
    Raises InputError for a file that is not text, or not of trees, for a mode that is not the model's, and with a cache
    for a model without hidden states.
    """
    mode = mode or stored.settings.mode
    if (mode == "trees") != (stored.model.reads == "trees"):
        kind = stored.settings.model.name
        raise InputError(f"found mode {mode}; a model of the kind {kind!r} reads {READING[stored.settings.mode]}")
    if stored.labels is not None:
        trees = DependencyCorpus.read(path, stored.normaliser, stored.vocabulary, stored.labels)
        return evaluate_language_model(stored.model, trees, stored.vocabulary, mode, cache)
    with EncodedCorpus.encode(path, stored.normaliser, stored.vocabulary) as corpus:
        return evaluate_language_model(stored.model, corpus, stored.vocabulary, mode, cache)
