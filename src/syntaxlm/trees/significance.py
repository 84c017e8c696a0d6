"""Comparison of models by bootstrap over seeds and sentences, and statistics over seeds."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from syntaxlm.core.errors import InputError
from syntaxlm.trees import bounds
from syntaxlm.trees.scoring import Fractions, ParsingScores, Protocol, score
from syntaxlm.trees.spans import SpanSets

FEWEST = 6  # items of a bootstrap
_DRAWN = 2_000_000  # sampled sentences in memory at a time


@dataclass(frozen=True)
class BootstrapResult:
    """Difference of two scores, first minus second (fractions), its 95% interval and two-sided p-value.

    low, high, p_value: NaN for fewer than FEWEST items, which no bootstrap can tell apart.  measure: name of the score.
    seeds: number of runs of each model that were resampled; one run is not resampled.
    """

    difference: float
    low: float
    high: float
    p_value: float
    measure: str = "F1"
    seeds: tuple[int, int] = (1, 1)

    @classmethod
    def of(
        cls, difference: float, drawn: Fractions, items: int, measure: str = "F1", seeds: tuple[int, int] = (1, 1)
    ) -> BootstrapResult:
        """Return the result from the measured difference and those of all bootstrap samples, (samples,).

        items: number of the items that were drawn.
        The p-value is the share of samples whose difference is at least as far from the measured one as that is from 0.
        Efron & Tibshirani 1993.
        """
        if items < FEWEST:
            return cls(difference, math.nan, math.nan, math.nan, measure, seeds)
        # A small tolerance, so that rounding does not separate equal differences.
        extreme = np.count_nonzero(np.abs(drawn - difference) >= abs(difference) - 1e-12)
        low, high = np.quantile(drawn, [0.025, 0.975]).tolist()
        return cls(difference, low, high, (1 + extreme) / (1 + len(drawn)), measure, seeds)

    def to_dict(self) -> dict[str, Any]:
        """Return the values as fractions, None for NaN; the numbers of seeds if any are resampled."""
        values = {name: getattr(self, name) for name in ("difference", "low", "high", "p_value")}
        seeds = {} if self.seeds == (1, 1) else {"seeds": list(self.seeds)}
        return {name: None if math.isnan(value) else value for name, value in values.items()} | seeds

    def __str__(self) -> str:
        if math.isnan(self.p_value):
            few = f"(too few items for an interval: expected {FEWEST} or more)"
            return f"{self.measure} difference {100 * self.difference:+.1f}  {few}"
        interval = f"95% interval {100 * self.low:+.1f} to {100 * self.high:+.1f}"
        return f"{self.measure} difference {100 * self.difference:+.1f}  {interval}  p = {self.p_value:.4f}"


@dataclass(frozen=True, eq=False)
class RunScores:
    """The scores of one or more runs of a model, its seeds, on the same n items.

    parts, wholes: (runs, n).  The score of a run is the sum of its parts over items, divided by that of its wholes: for
    a mean over items, the wholes are 1; for F1 of pooled counts, the parts are 2 * matched and the wholes are predicted
    plus gold spans. It is 1 if the wholes sum to 0.
    """

    parts: Fractions
    wholes: Fractions

    @classmethod
    def of_means(cls, values: Fractions) -> RunScores:
        """Return scores that are means over items.  values: (runs, n)."""
        values = np.asarray(values, np.float64)
        return cls(values, np.ones_like(values))

    @classmethod
    def of_trees(cls, runs: Sequence[ParsingScores]) -> RunScores:
        """Return F1, averaged by the scores' protocol.  Raises InputError if protocols or sentences differ."""
        first = runs[0]
        for other in runs[1:]:
            if first.protocol != other.protocol:
                raise InputError(f"found scores under {first.protocol} and {other.protocol}, expected one protocol")
            if not np.array_equal(first.by_sentence.indices, other.by_sentence.indices):
                raise InputError(
                    f"found scores of {first.sentences} and {other.sentences} sentences, expected the same sentences"
                )
        rows = [run.by_sentence for run in runs]
        if first.protocol.average == "sentence":
            return cls.of_means(np.array([run.f1 for run in rows]))
        parts = np.array([2.0 * run.matched_spans for run in rows])
        return cls(parts, np.array([run.predicted_spans + run.gold_spans for run in rows], np.float64))

    def __len__(self) -> int:
        """Return the number of runs."""
        return len(self.parts)

    @property
    def values(self) -> Fractions:
        """(runs,), the score of each run."""
        scores: Fractions = self.of_samples(np.ones((1, self.parts.shape[1])))[0]
        return scores

    def of_samples(self, counts: Fractions) -> Fractions:
        """Return the runs' scores of bootstrap samples: (B, n), how often each item was drawn -> (B, runs)."""
        parts, wholes = counts @ self.parts.T, counts @ self.wholes.T
        return np.where(wholes > 0, parts / np.where(wholes > 0, wholes, 1), 1.0)


def compare_runs(
    first: RunScores, second: RunScores, measure: str = "F1", samples: int = 10_000, seed: int = 0
) -> BootstrapResult:
    """Compare two models by a hierarchical bootstrap: their runs (seeds) and the items are drawn with replacement.

    Both models are scored on the same drawn items; their runs are drawn independently. The difference is that of the
    means over runs. With one run per model, this is the paired bootstrap over items, which says nothing about seeds.
    samples: number of bootstrap samples.  seed: of the random numbers.  measure: name of the score.
    Raises InputError if the numbers of items differ.
    Davison & Hinkley 1997, "Bootstrap methods and their application", section 3.8.
    """
    items = first.parts.shape[1]
    if second.parts.shape[1] != items:
        raise InputError(f"found scores of {items} and {second.parts.shape[1]} items, expected the same items")
    if samples < 1:
        raise ValueError("a bootstrap needs at least one sample")
    generator = np.random.default_rng(seed)
    drawn = []
    step = max(1, _DRAWN // max(1, items))
    for low in range(0, samples, step):
        size = min(step, samples - low)
        places = generator.integers(items, size=(size, items), dtype=np.int32) + items * np.arange(size)[:, None]
        # How often each item is in each sample: (size, items).
        counts = np.bincount(places.ravel(), minlength=size * items).reshape(size, items).astype(np.float64)
        means = []
        for runs in (first, second):
            scores = runs.of_samples(counts)
            if len(runs) > 1:
                scores = np.take_along_axis(scores, generator.integers(len(runs), size=scores.shape), axis=1)
            means.append(scores.mean(1))
        drawn.append(means[0] - means[1])
    difference = float(first.values.mean() - second.values.mean())
    return BootstrapResult.of(difference, np.concatenate(drawn), items, measure, (len(first), len(second)))


def paired_bootstrap(
    first: ParsingScores, second: ParsingScores, samples: int = 10_000, seed: int = 0
) -> BootstrapResult:
    """Return `compare_runs` of two sets of trees of the same sentences: over sentences only.

    F1 is averaged by the scores' protocol.  Raises InputError if protocols or sentences differ.
    """
    both = RunScores.of_trees([first, second])
    first_run, second_run = (RunScores(both.parts[[row]], both.wholes[[row]]) for row in (0, 1))
    return compare_runs(first_run, second_run, "F1", samples, seed)


@dataclass(frozen=True)
class SeedScores:
    """F1 (fractions) over several runs; std: the sample standard deviation, 0 for a single run."""

    mean: float
    std: float
    max: float
    count: int

    def to_dict(self) -> dict[str, float]:
        return asdict(self)

    def __str__(self) -> str:
        if self.count == 1:
            return f"{100 * self.mean:.1f} (1 seed)"
        return f"{100 * self.mean:.1f} ± {100 * self.std:.1f}, max {100 * self.max:.1f} ({self.count} seeds)"


def over_seeds(scores: Sequence[ParsingScores]) -> SeedScores:
    """Return mean, standard deviation and maximum of F1 over runs.

    Raises InputError without runs or if protocols differ.
    """
    if not scores:
        raise InputError("found no scores, expected those of at least one seed")
    if any(run.protocol != scores[0].protocol for run in scores):
        raise InputError("found scores under different protocols, expected one protocol")
    f1 = np.array([run.f1 for run in scores])
    std = float(f1.std(ddof=1)) if len(f1) > 1 else 0.0
    return SeedScores(float(f1.mean()), std, float(f1.max()), len(f1))


@dataclass(frozen=True)
class BaselineScores:
    """F1 of baselines and upper bounds on the same sentences.

    biased_bound: None unless requested.
    random: trees that are uniform over splits, which are also the trees of random distances by the `unbiased` decoder.
    random_biased: the trees of the same random distances by the `biased` decoder.
    random_binary: trees that are uniform over binary trees.
    """

    left: ParsingScores
    right: ParsingScores
    balanced: ParsingScores
    binary_bound: ParsingScores
    biased_bound: ParsingScores | None
    random: SeedScores
    random_biased: SeedScores
    random_binary: SeedScores

    def to_dict(self) -> dict[str, object]:
        """Return F1 (fractions) by name; for random trees, statistics over seeds."""
        result: dict[str, object] = {}
        for name, scores in vars(self).items():
            result[name] = scores.to_dict() if isinstance(scores, SeedScores) else scores and scores.f1
        return result

    def random_rows(self) -> dict[str, SeedScores]:
        """Return the random baselines by title, for tables."""
        return {
            "random trees, uniform over splits (random distances, unbiased)": self.random,
            "random distances, biased": self.random_biased,
            "random trees, uniform over binary trees": self.random_binary,
        }

    def __str__(self) -> str:
        parts = [f"right branching {100 * self.right.f1:.1f}", f"left {100 * self.left.f1:.1f}"]
        parts.append(f"balanced {100 * self.balanced.f1:.1f}")
        parts += [f"{title} {scores}" for title, scores in self.random_rows().items()]
        parts.append(f"binary upper bound {100 * self.binary_bound.f1:.1f}")
        if self.biased_bound:
            parts.append(f"reachable by the biased decoder {100 * self.biased_bound.f1:.1f}")
        return "   ".join(parts)


def baseline_scores(
    gold: SpanSets, protocol: Protocol, seeds: Iterable[int] = range(5), biased_bound: bool = True
) -> BaselineScores:
    """Score all baselines and bounds on the gold sentences.  biased_bound: whether that bound is computed."""
    gold = gold.select(protocol.scored(gold.lengths))
    lengths = gold.lengths

    def scored(predicted: SpanSets) -> ParsingScores:
        return score(predicted, gold, protocol, details=False)

    seeds = list(seeds)
    return BaselineScores(
        scored(bounds.left(lengths)),
        scored(bounds.right(lengths)),
        scored(bounds.balanced(lengths)),
        scored(bounds.binary_upper_bound(gold)),
        scored(bounds.biased_upper_bound(gold)) if biased_bound else None,
        over_seeds([scored(bounds.random_trees(lengths, seed)) for seed in seeds]),
        over_seeds([scored(bounds.random_trees(lengths, seed, "biased")) for seed in seeds]),
        over_seeds([scored(bounds.random_binary_trees(lengths, seed)) for seed in seeds]),
    )
