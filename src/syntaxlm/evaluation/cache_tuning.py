"""Tuning of a neural cache: lambda and theta are chosen on a text other than the test text.

The model reads the text once. Each theta then takes one pass over the decoder's inputs. For a given theta, the text's
log-probability is a concave function of lambda, so the best lambda is where its derivative is zero.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from syntaxlm.core.progress import progress_bar
from syntaxlm.core.reading import keeps_readings
from syntaxlm.data.corpora import EncodedCorpus
from syntaxlm.evaluation.perplexity import LanguageModelScore, perplexity_of, score_of
from syntaxlm.models.abilities import HasHiddenStates
from syntaxlm.reports.report import HasReport, Report
from syntaxlm.reports.tables import Column, Columns, ReportTable
from syntaxlm.scoring.cache import CACHE_SIZE, CacheSettings, NeuralCache
from syntaxlm.scoring.engine import ScoredTokens, Scorer
from syntaxlm.scoring.options import PerplexityOptions
from syntaxlm.storage.folder import ModelBundle

WEIGHTS = (0.05, 0.1, 0.2, 0.3, 0.4)  # lambdas in the table
THETAS = (0.0, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)  # tried first
FACTORS = (1.5, 1.2)  # then the best theta is multiplied and divided by these, as long as this improves it
LARGEST_THETA = 1000.0
MOST_WEIGHT = 0.999


@dataclass(frozen=True)
class CacheTrial:
    """Results for one theta.

    Attributes:
        weight: its best lambda, with its perplexity.
        perplexities: for each of WEIGHTS.
    """

    theta: float
    weight: float
    perplexity: float
    perplexities: tuple[float, ...]

    def to_dict(self) -> dict[str, Any]:
        by_weight = {str(weight): value for weight, value in zip(WEIGHTS, self.perplexities, strict=True)}
        return dataclasses.asdict(self) | {"perplexities": by_weight}


CACHE_TRIALS = Columns(
    "neural cache weights",
    "pair of theta and weight that was tried",
    {
        "theta": Column("number", "strength of the preference for words that followed a similar state"),
        "weight": Column("number", "share of the cache's probability"),
        "perplexity": Column("number", "perplexity per token"),
        "best_weight": Column("boolean", "whether this is the best weight for this theta"),
    },
)


@dataclass(frozen=True)
class CacheTuning(HasReport):
    """Results of tuning on a text.

    Attributes:
        trials: by increasing theta.
    """

    size: int
    without_cache: LanguageModelScore
    trials: tuple[CacheTrial, ...]

    @property
    def best_trial(self) -> CacheTrial:
        return min(self.trials, key=_perplexity)

    @property
    def best(self) -> CacheSettings:
        return CacheSettings(self.best_trial.weight, self.best_trial.theta, self.size)

    def report(self) -> Report:
        """Return the perplexity of every pair of theta and weight."""
        without, best = self.without_cache, self.best_trial
        rows = [
            {"theta": trial.theta, "weight": weight, "perplexity": perplexity, "best_weight": weight == trial.weight}
            for trial in self.trials
            for weight, perplexity in [
                *zip(WEIGHTS, trial.perplexities, strict=True), (trial.weight, trial.perplexity)
            ]
        ]  # fmt: skip
        shown = [
            [trial.theta, *trial.perplexities, trial.weight, trial.perplexity, "*" if trial is best else ""]
            for trial in self.trials
        ]
        weights = {f"weight {weight:g}": ".2f" for weight in WEIGHTS}
        headings = {"theta": "g", **weights, "best weight": ".3f", "perplexity": ".2f", " ": ""}
        figures = {"cache": self.best, "perplexity": best.perplexity, "without_cache": without, "trials": self.trials}
        return Report(
            CACHE_TRIALS,
            rows,
            figures,
            {f"{without.source}: perplexity {without.perplexity:.2f} without a cache": ""},
            without.report().explanation,
            [ReportTable(headings, shown)],
            [f"best: {self.best}: perplexity {best.perplexity:.2f}"],
        )


@torch.no_grad()
@keeps_readings
def tune_cache(
    bundle: ModelBundle,
    path: str | Path,
    options: PerplexityOptions = PerplexityOptions(),
    size: int = CACHE_SIZE,
) -> CacheTuning:
    """Tune a cache of this size on a text file with one sentence per line; "-" is standard input.

    All inputs of the decoder are kept in memory, 4 bytes per feature.

    Raises:
        InputError: for a size under 1, a file that is not text, and a model without hidden states.

    Examples:
        >>> tuning = syntaxlm.tune_cache(trained, "corpus/valid.txt", size=50)
        >>> tuning.best.size
        50
    """
    CacheSettings(0.0, 0.0, size)
    if not isinstance(bundle, ModelBundle):
        raise TypeError(f"bundle: found {bundle!r}; expected a loaded model: syntaxlm.load(...)")
    bundle.require(HasHiddenStates, "tune cache")
    scorer = Scorer.of(bundle, options.mode(bundle.mode))
    with EncodedCorpus.encode(path, bundle.normaliser, bundle.vocabulary, style=options) as corpus:
        tokens = scorer.tokens(corpus, hidden=True)
        parts = list(progress_bar(tokens, "scoring", corpus.word_count, lambda part: len(part.tokens), percent=True))
        nats = -sum(float(part.log_probs.sum(dtype=torch.float64)) for part in parts)
        without = score_of(corpus, scorer.mode, nats)
    trials = _trials(parts, size, THETAS)
    for factor in FACTORS:
        while True:
            best = min(trials, key=_perplexity)
            tried = {trial.theta for trial in trials}
            near = [float(f"{theta:.2g}") for theta in (best.theta / factor, best.theta * factor)]
            nearby = [theta for theta in near if theta not in tried and theta <= LARGEST_THETA]
            trials += _trials(parts, size, nearby) if nearby else []
            if not nearby or min(trials, key=_perplexity) is best:
                break
    return CacheTuning(size, without, tuple(sorted(trials, key=lambda trial: trial.theta)))


def _perplexity(trial: CacheTrial) -> float:
    return trial.perplexity


def _trials(parts: Sequence[ScoredTokens], size: int, thetas: Sequence[float]) -> list[CacheTrial]:
    cache = NeuralCache(size)
    shown = progress_bar(parts, "trying values of theta, parts")
    cache_probs = torch.cat([cache.probs(part, thetas) for part in shown]).double()
    log_probs = torch.cat([part.log_probs for part in parts]).double()
    # p(w) = p_model(w) (1 + lambda gain).
    gains = cache_probs * torch.exp(-log_probs)[:, None] - 1
    return [_trial(theta, log_probs, gain) for theta, gain in zip(thetas, gains.unbind(1), strict=True)]


def _trial(theta: float, log_probs: Tensor, gain: Tensor) -> CacheTrial:
    def perplexity(weight: float) -> float:
        nats = -float((log_probs + torch.log1p(weight * gain)).mean())
        return perplexity_of(nats)

    def slope(weight: float) -> float:
        """Return the derivative of the sum of log(1 + lambda gain), which decreases."""
        return float((gain / (1 + weight * gain)).sum())

    low, high = 0.0, MOST_WEIGHT if slope(0.0) > 0 else 0.0
    while high - low > 1e-4:
        middle = (low + high) / 2
        low, high = (middle, high) if slope(middle) > 0 else (low, middle)
    weight = round((low + high) / 2, 3)
    return CacheTrial(theta, weight, perplexity(weight), tuple(map(perplexity, WEIGHTS)))
