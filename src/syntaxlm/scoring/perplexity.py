"""Perplexity of a text: every token counted once, however the text was batched."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from syntaxlm.data.corpora import EncodedCorpus
from syntaxlm.data.dependencies import DependencyCorpus
from syntaxlm.errors import InputError
from syntaxlm.model_io import ModelBundle
from syntaxlm.models.abilities import HasHiddenStates, ScoresSentences
from syntaxlm.models.batches import TextMode
from syntaxlm.old_settings import mode_settings
from syntaxlm.scoring.cache import CacheSettings, log_probs_with_cache
from syntaxlm.scoring.engine import Scorer, unusable

Corpus = EncodedCorpus | DependencyCorpus


def perplexity_text(perplexity: float) -> str:
    """Two decimals, or three digits of what is so large that training went astray."""
    return f"{perplexity:.2f}" if perplexity < 1e6 else f"{perplexity:.3g}"


@dataclass(frozen=True)
class LanguageModelScore:
    """How well a model predicts a text.

    nats: total negative log-probability; of dependency-tree models that of the words given the trees, P(S | T).
    tokens: number predicted, ends of sentences included where these are predicted. unknown: number of unknown tokens.
    characters: of the original text that the tokens stand for: white space between two words counts as one, the end of
    a sentence as one, and what the normaliser drops as none. mode: how the text was read. given_trees: whether the
    words are predicted given their trees.
    likelihood_estimate: what the figures are computed from in place of exact log-probabilities; None: they are exact.
    """

    nats: float
    tokens: int
    sentences: int
    unknown: int
    characters: int
    mode: TextMode
    given_trees: bool = False
    source: str = ""
    likelihood_estimate: str | None = None

    @classmethod
    def from_dict(cls, figures: dict[str, Any]) -> LanguageModelScore:
        """The inverse of `to_dict`; also of older figures: with the `mode` of format 1, or with `is_bound`.

        Raises KeyError where a figure is missing.
        """
        old = figures.get("mode")
        modes = figures if old is None else mode_settings(old)
        mode = TextMode(bool(modes["carry_state"]), bool(modes["predict_eos"]))
        given_trees = old == "trees" if old is not None else bool(figures["given_trees"])
        names = ("nats", "tokens", "sentences", "unknown", "characters", "source")
        plain = {name: figures[name] for name in names}
        estimate = figures.get("likelihood_estimate", "ELBO, approximate" if figures.get("is_bound") else None)
        return LanguageModelScore(**plain, mode=mode, given_trees=given_trees, likelihood_estimate=estimate)

    @property
    def loss(self) -> float:
        """Nats per token."""
        return self.nats / self.tokens

    @property
    def perplexity(self) -> float:
        return math.exp(min(self.loss, 700.0))

    @property
    def perplexity_title(self) -> str:
        """The word "perplexity", with what it is estimated from."""
        return f"perplexity ({self.likelihood_estimate})" if self.likelihood_estimate else "perplexity"

    @property
    def bits_per_token(self) -> float:
        return self.loss / math.log(2)

    @property
    def bits_per_character(self) -> float:
        """Compares models of different vocabularies, as long as no word is unknown to either or dropped by one.

        For a character-level model these are bits per token, BPC, unless its normaliser makes fewer or more tokens of
        the characters (a number to one N).
        """
        return self.nats / math.log(2) / max(1, self.characters)

    def to_dict(self) -> dict[str, Any]:
        """All figures, for JSON."""
        derived = ("perplexity", "loss", "bits_per_token", "bits_per_character")
        plain = {name: value for name, value in dataclasses.asdict(self).items() if name != "mode"}
        return {name: getattr(self, name) for name in derived} | plain | dataclasses.asdict(self.mode)

    def __str__(self) -> str:
        unknown = f"{self.unknown:,} unknown ({100 * self.unknown / self.tokens:.1f}%)"
        perplexity = f"{self.perplexity_title} {perplexity_text(self.perplexity)}"
        figures = f"{perplexity}   bits per token {self.bits_per_token:.3f}   "
        if self.given_trees:
            return (
                f"{figures}P(S | T), words given their trees\n"
                f"{self.tokens:,} words of {self.sentences:,} trees, ends of sentences not among them; {unknown}"
            )
        reset = "state carried through the text" if self.mode.carry_state else "state reset at each sentence"
        ends = "included" if self.mode.predict_eos else "not among them"
        return (
            f"{figures}bits per character {self.bits_per_character:.3f}\n"
            f"{self.tokens:,} tokens, ends of {self.sentences:,} sentences {ends}; {unknown}; {reset}"
        )


@dataclass(frozen=True, kw_only=True)
class CachedScore(LanguageModelScore):
    """How well a model predicts a text with a neural cache.

    without_cache: of the model alone, read in the same way: a stream in one column.
    """

    cache: CacheSettings
    without_cache: LanguageModelScore

    def to_dict(self) -> dict[str, Any]:
        """All figures, for JSON."""
        return super().to_dict() | {"without_cache": self.without_cache.to_dict()}

    def __str__(self) -> str:
        figures, tokens = super().__str__().split("\n")
        without = str(self.without_cache).split("\n")[0]
        return f"{figures}   with the cache\n{without}   without\n{tokens}\n{self.cache}, over the text in its order"


def evaluate_language_model(scorer: Scorer, corpus: Corpus, cache: CacheSettings | None = None) -> LanguageModelScore:
    """The score of a text or of dependency trees; with a cache, a `CachedScore`.

    Raises InputError for trees with a cache, for trees without labels that the model reads, and for a model without
    the probabilities needed.
    """
    if cache is None:
        estimate = scorer.model.likelihood_estimate if isinstance(scorer.model, ScoresSentences) else None
        score = score_of(corpus, scorer.mode, -scorer.total(corpus))
        return dataclasses.replace(score, likelihood_estimate=estimate)
    if isinstance(corpus, DependencyCorpus):
        raise InputError("a neural cache reads a text from left to right; a dependency-tree model cannot use one")
    with_cache, without = log_probs_with_cache(scorer, corpus, cache)
    score = score_of(corpus, scorer.mode, -with_cache)
    return CachedScore(**vars(score), cache=cache, without_cache=score_of(corpus, scorer.mode, -without))


def score_of(corpus: Corpus, mode: TextMode, nats: float) -> LanguageModelScore:
    """The score of a corpus whose negative log-probability is known."""
    given_trees = isinstance(corpus, DependencyCorpus)
    text = corpus.text if isinstance(corpus, DependencyCorpus) else corpus
    return LanguageModelScore(
        nats=nats,
        tokens=text.word_count + len(text) * (mode.predict_eos and not given_trees),
        sentences=len(text),
        unknown=text.unknown_count,
        characters=text.character_count,
        mode=mode,
        given_trees=given_trees,
        source=text.source,
    )


def evaluate_text(
    bundle: ModelBundle, path: str | Path, mode: TextMode | None = None, cache: CacheSettings | None = None
) -> LanguageModelScore:
    """The score of a stored model on a text file, one sentence per line; "-" is standard input.

    Of a dependency-tree model, on dependency trees: a file, a folder or a pattern.
    mode: how the text is read; None: as the model was trained. cache: of the neural cache; then a `CachedScore`.
    Raises InputError for a file that is not text, or not of trees, for a mode with a dependency-tree model, and with a
    cache for a model without hidden states.
    """
    if cache is not None:
        bundle.require(HasHiddenStates, "a neural cache")
    scorer = Scorer.of(bundle, mode)
    if bundle.labels is not None:
        if mode is not None:
            raise InputError(f"a {bundle.name} model reads dependency trees; leave out how text is read ({mode})")
        trees = DependencyCorpus.read(path, bundle.normaliser, bundle.vocabulary, bundle.labels)
        return _usable(evaluate_language_model(scorer, trees, cache), bundle)
    with EncodedCorpus.encode(path, bundle.normaliser, bundle.vocabulary) as corpus:
        return _usable(evaluate_language_model(scorer, corpus, cache), bundle)


def _usable(score: LanguageModelScore, bundle: ModelBundle) -> LanguageModelScore:
    if math.isnan(score.nats):
        raise unusable(bundle.name)
    return score
