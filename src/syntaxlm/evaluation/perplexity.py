"""Perplexity of a text: every token is counted once, whatever the batches."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from syntaxlm.core.errors import InputError, amount, warn_caller
from syntaxlm.core.option_names import option_name
from syntaxlm.data.corpora import PART, EncodedCorpus
from syntaxlm.data.dependencies import DependencyCorpus
from syntaxlm.models.abilities import HasHiddenStates, ScoresSentences
from syntaxlm.models.batches import TextMode
from syntaxlm.reports.report import HasReport, Report
from syntaxlm.reports.tables import Column, Columns
from syntaxlm.scoring.cache import CacheSettings, log_probs_with_cache
from syntaxlm.scoring.engine import Scorer, unusable
from syntaxlm.scoring.options import PerplexityOptions
from syntaxlm.storage.folder import ModelBundle
from syntaxlm.text.doubts import DOUBTFUL_UNKNOWN_SHARE, DOUBTFUL_UNKNOWN_WORDS

Corpus = EncodedCorpus | DependencyCorpus


def perplexity_text(perplexity: float) -> str:
    """Return the perplexity with two decimals, or three digits if it is so large that training must have diverged."""
    return f"{perplexity:.2f}" if perplexity < 1e6 else f"{perplexity:.3g}"


PERPLEXITIES = Columns(
    "perplexity",
    "text; with a neural cache, two rows, with and without the cache",
    {
        "source": Column("text", "file of the text"),
        "cache": Column("boolean", "whether a neural cache was used"),
        "perplexity": Column("number", "perplexity per token"),
        "bits_per_token": Column("number", "mean surprisal of a token in bits"),
        "bits_per_character": Column("number", "total surprisal in bits, divided by the number of characters"),
        "nats": Column("number", "total negative log-probability in nats"),
        "tokens": Column("integer", "number of predicted tokens"),
        "sentences": Column("integer", "number of sentences"),
        "unknown": Column("integer", "number of unknown tokens"),
        "characters": Column(
            "integer", "number of characters of the text, with one for each end of a sentence that is predicted"
        ),
        "carry_state": Column("boolean", "whether the text was read as one stream"),
        "predict_eos": Column("boolean", "whether the ends of sentences are counted"),
        "given_trees": Column("boolean", "whether words are predicted given their trees"),
        "likelihood_estimate": Column("text", "the estimate that replaces exact probabilities; missing if exact"),
    },
)


def perplexity_of(loss: float) -> float:
    """Return exp(loss) of a loss in nats per token. Infinite if a token has probability 0, and beyond float64."""
    try:
        return math.exp(loss)
    except OverflowError:
        return math.inf


@dataclass(frozen=True)
class LanguageModelScore(HasReport):
    """Language model results on a text.

    Attributes:
        nats: total negative log-probability; for dependency-tree models that of the words given the trees, P(S | T).
        tokens: number of predicted tokens, including ends of sentences if these are predicted.
        unknown: number of unknown tokens.
        characters: number of characters of the original text: white space between two words counts as one, and so does
            the end of a sentence if it is predicted; characters dropped by the normaliser count as none.
        mode: how the text was read.
        given_trees: whether words are predicted given their trees.
        likelihood_estimate: description of the estimate that replaces exact log-probabilities; None if they are exact.
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
        """Return the inverse of `to_dict`. Raises KeyError if a value is missing."""
        names = {field.name for field in dataclasses.fields(LanguageModelScore)} - {"mode"}
        mode = TextMode(bool(figures["carry_state"]), bool(figures["predict_eos"]))
        return LanguageModelScore(**{name: figures[name] for name in names}, mode=mode)

    @property
    def loss(self) -> float:
        """Nats per token."""
        return self.nats / self.tokens

    @property
    def perplexity(self) -> float:
        return perplexity_of(self.loss)

    @property
    def perplexity_title(self) -> str:
        """The word "perplexity", with the estimate that it is based on, if any."""
        return f"perplexity ({self.likelihood_estimate})" if self.likelihood_estimate else "perplexity"

    @property
    def bits_per_token(self) -> float:
        return self.loss / math.log(2)

    @property
    def bits_per_character(self) -> float:
        """Comparable between models with different vocabularies if no word is unknown to or dropped by either.

        For a character-level model this is bits per token (BPC), unless its normaliser changes the number of characters
        (for example by replacing a number with one N).
        """
        return self.nats / math.log(2) / max(1, self.characters)

    def report(self) -> Report:
        """Return perplexity, bits and counts of the text."""
        derived = {name: getattr(self, name) for name in ("perplexity", "loss", "bits_per_token", "bits_per_character")}
        counts = {field.name: getattr(self, field.name) for field in dataclasses.fields(LanguageModelScore)}
        mode = dataclasses.asdict(counts.pop("mode"))
        figures = derived | counts | mode
        row = {name: {**figures, "cache": False}[name] for name in PERPLEXITIES}
        facts = {
            self.perplexity_title: perplexity_text(self.perplexity),
            "bits per token": f"{self.bits_per_token:.3f}",
        }
        if self.given_trees:
            facts["P(S | T), words given their trees"] = ""
        else:
            facts["bits per character"] = f"{self.bits_per_character:.3f}"
        return Report(PERPLEXITIES, [row], figures, facts, [self._counts()])

    def _counts(self) -> str:
        unknown = f"{self.unknown:,} unknown ({100 * self.unknown / self.tokens:.1f}%)"
        if self.given_trees and not self.mode.predict_eos:
            counts = f"{amount(self.tokens, 'word')} of {amount(self.sentences, 'tree')}"
            return f"{counts}, ends of sentences excluded; {unknown}"
        reset = "state carried through the text" if self.mode.carry_state else "state reset at each sentence"
        ends = "included" if self.mode.predict_eos else "excluded"
        counts = f"{amount(self.tokens, 'token')}, ends of {amount(self.sentences, 'sentence')}"
        _, part, rest = self.source.partition(PART)
        return f"{counts} {ends}; {unknown}; {reset}" + (f"; only the first {rest.removesuffix(')')}" if part else "")


@dataclass(frozen=True, kw_only=True)
class CachedScore(LanguageModelScore):
    """Language model results on a text with a neural cache.

    Attributes:
        without_cache: results of the model alone on the same stream in one column.
    """

    cache: CacheSettings
    without_cache: LanguageModelScore

    def report(self) -> Report:
        """Return the figures with and without the cache."""
        with_cache = super().report()
        without = self.without_cache.report()
        (row,) = with_cache.rows
        explanation = [f"{without.summary}   without", self._counts(), f"{self.cache}, read in text order"]
        return Report(
            PERPLEXITIES,
            [{**row, "cache": True}, *without.rows],
            {**with_cache.figures, "cache": self.cache, "without_cache": self.without_cache},
            {**with_cache.facts, "with the cache": ""},
            explanation,
        )


def evaluate_language_model(scorer: Scorer, corpus: Corpus, cache: CacheSettings | None = None) -> LanguageModelScore:
    """Return the score of a text or of dependency trees; with a cache, a `CachedScore`.

    Raises:
        InputError: for trees with a cache, for trees without labels if the model reads labels, and for a model without
            the required probabilities.
    """
    if cache is None:
        estimate = scorer.model.likelihood_estimate if isinstance(scorer.model, ScoresSentences) else None
        score = score_of(corpus, scorer.mode, -scorer.total(corpus))
        return dataclasses.replace(score, likelihood_estimate=estimate)
    if isinstance(corpus, DependencyCorpus):
        raise InputError(
            "found a neural cache for a dependency-tree model; expected a model that reads text from left to right, or"
            " no cache"
        )
    with_cache, without = log_probs_with_cache(scorer, corpus, cache)
    score = score_of(corpus, scorer.mode, -with_cache)
    return CachedScore(**vars(score), cache=cache, without_cache=score_of(corpus, scorer.mode, -without))


def score_of(corpus: Corpus, mode: TextMode, nats: float) -> LanguageModelScore:
    """Return the score of a corpus with the given negative log-probability."""
    text = corpus.text if isinstance(corpus, DependencyCorpus) else corpus
    predicts_ends = mode.predict_eos and not isinstance(corpus, DependencyCorpus)
    unpredicted_ends = 0 if predicts_ends else len(text)
    return LanguageModelScore(
        nats=nats,
        tokens=text.word_count + len(text) * predicts_ends,
        sentences=len(text),
        unknown=text.unknown_count,
        characters=max(0, text.character_count - unpredicted_ends),  # 0 for a corpus without text
        mode=mode,
        given_trees=isinstance(corpus, DependencyCorpus) or corpus.spans is not None,
        source=text.source,
    )


def _warn_of_unknown_words(bundle: ModelBundle, corpus: EncodedCorpus) -> None:
    """Warn of a text of which many words are unknown."""
    fewest = max(DOUBTFUL_UNKNOWN_WORDS, DOUBTFUL_UNKNOWN_SHARE * corpus.word_count)
    if bundle.normaliser.units == "words" and corpus.unknown_count >= fewest:
        start = f"{corpus.source}: " if corpus.source else ""
        share = corpus.unknown_count / corpus.word_count
        warn_caller(
            f"{start}{corpus.unknown_count:,} of {corpus.word_count:,} words ({share:.0%}) are not in the"
            " vocabulary of the model; expected text in the language of its training text, and words that are split"
            f" as there. For text as it is usually written, add {option_name('--punctuation', 'auto')} and"
            f" {option_name('--contractions', 'auto')}"
        )


def evaluate_text(
    bundle: ModelBundle,
    text: str | Path | Iterable[str],
    options: PerplexityOptions = PerplexityOptions(),
    cache: CacheSettings | None = None,
) -> LanguageModelScore:
    """Return the score of a stored model on a text.

    Args:
        text: a file with one sentence per line, "-" for standard input; or the sentences. A dependency-tree model is
            scored on dependency trees: a file, a folder or a pattern.
        cache: settings of a neural cache; the result is a `CachedScore`.

    Raises:
        InputError: for a file without text or trees, for options with a dependency-tree model, and for a cache with a
            model without hidden states.
    """
    if cache is not None:
        bundle.require(HasHiddenStates, "a neural cache")
    bundle.require(ScoresSentences, "perplexity")  # before the text is read
    scorer = Scorer.of(bundle, options.mode(bundle.mode))
    if bundle.labels is not None:
        if options != PerplexityOptions():
            raise InputError(
                f"a {bundle.name} model reads dependency trees, so options of reading text do not apply; omit them"
            )
        if not isinstance(text, str | Path):
            raise InputError(f"a {bundle.name} model reads dependency trees; expected a file of trees, not sentences")
        trees = DependencyCorpus.read(text, bundle.normaliser, bundle.vocabulary, bundle.labels)
        score = evaluate_language_model(scorer, trees, cache)
    else:
        if isinstance(text, str | Path):
            encoded = EncodedCorpus.encode(text, bundle.normaliser, bundle.vocabulary, style=options)
        else:
            encoded = EncodedCorpus.of_lines(text, bundle.normaliser, bundle.vocabulary, options)
        with encoded as corpus:
            _warn_of_unknown_words(bundle, corpus)
            score = evaluate_language_model(scorer, corpus, cache)
    if math.isnan(score.nats):
        raise unusable(bundle.name)
    return score
