"""Comparison of two sets of trees by bootstrap, and statistics over seeds."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass

import numpy as np

from syntaxlm.errors import InputError
from syntaxlm.trees import baselines
from syntaxlm.trees.scoring import Fractions, ParsingScores, Protocol, score
from syntaxlm.trees.spans import SpanSets

FEWEST = 6  # items of a bootstrap
_DRAWN = 2_000_000  # sampled sentences in memory at a time


@dataclass(frozen=True)
class BootstrapResult:
    """Difference of two scores, first minus second (fractions), its 95% interval and two-sided p-value.

    low, high, p_value: NaN for fewer than FEWEST items, which no bootstrap can tell apart.  measure: name of the score.
    """

    difference: float
    low: float
    high: float
    p_value: float
    measure: str = "F1"

    @classmethod
    def of(cls, difference: float, drawn: Fractions, items: int, measure: str = "F1") -> BootstrapResult:
        """The result from the measured difference and those of all bootstrap samples, (samples,), of this many items.

        The p-value is the share of samples whose difference is at least as far from the measured one as that is from 0.
        Efron & Tibshirani 1993.
        """
        if items < FEWEST:
            return cls(difference, math.nan, math.nan, math.nan, measure)
        # A small tolerance, so that rounding does not separate equal differences.
        extreme = np.count_nonzero(np.abs(drawn - difference) >= abs(difference) - 1e-12)
        low, high = np.quantile(drawn, [0.025, 0.975]).tolist()
        return cls(difference, low, high, (1 + extreme) / (1 + len(drawn)), measure)

    def to_dict(self) -> dict[str, float | None]:
        """The values as fractions; None for NaN."""
        values = {name: getattr(self, name) for name in ("difference", "low", "high", "p_value")}
        return {name: None if math.isnan(value) else value for name, value in values.items()}

    def __str__(self) -> str:
        if math.isnan(self.p_value):
            few = f"(too few items for an interval: expected {FEWEST} or more)"
            return f"{self.measure} difference {100 * self.difference:+.1f}  {few}"
        interval = f"95% interval {100 * self.low:+.1f} to {100 * self.high:+.1f}"
        return f"{self.measure} difference {100 * self.difference:+.1f}  {interval}  p = {self.p_value:.4f}"


def paired_bootstrap(
    first: ParsingScores, second: ParsingScores, samples: int = 10_000, seed: int = 0
) -> BootstrapResult:
    """Paired bootstrap over the sentences of two sets of trees.

    F1 is averaged by the scores' protocol.  Raises InputError if protocols or sentences differ.
    """
    if first.protocol != second.protocol:
        raise InputError(f"found scores under {first.protocol} and {second.protocol}, expected one protocol")
    if not np.array_equal(first.by_sentence.indices, second.by_sentence.indices):
        raise InputError(
            f"found scores of {first.sentences} and {second.sentences} sentences, expected the same sentences"
        )
    if samples < 1:
        raise ValueError("a bootstrap needs at least one sample")
    generator = np.random.default_rng(seed)
    size = first.sentences
    step = max(1, _DRAWN // size)
    drawn: list[Fractions] = []
    for low in range(0, samples, step):
        places = generator.integers(size, size=(min(step, samples - low), size), dtype=np.int32)
        drawn.append(_mean_f1(first, places) - _mean_f1(second, places))
    return BootstrapResult.of(first.f1 - second.f1, np.concatenate(drawn), size)


def _mean_f1(scores: ParsingScores, places: np.ndarray) -> Fractions:
    """F1 of each bootstrap sample: (B, S) sampled indices -> (B,)."""
    rows = scores.by_sentence
    if scores.protocol.average == "sentence":
        return rows.f1[places].mean(1)
    matched, spans = rows.matched_spans[places].sum(1), (rows.predicted_spans + rows.gold_spans)[places].sum(1)
    return np.where(spans > 0, 2 * matched / np.maximum(spans, 1), 1.0)


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
        return f"{100 * self.mean:.1f} ± {100 * self.std:.1f}, max {100 * self.max:.1f} ({self.count} seeds)"


def over_seeds(scores: Sequence[ParsingScores]) -> SeedScores:
    """Mean, standard deviation and maximum of F1 over runs.  Raises InputError without runs or if protocols differ."""
    if not scores:
        raise InputError("found no scores, expected those of at least one seed")
    if any(one.protocol != scores[0].protocol for one in scores):
        raise InputError("found scores under different protocols, expected one protocol")
    f1 = np.array([one.f1 for one in scores])
    std = float(f1.std(ddof=1)) if len(f1) > 1 else 0.0
    return SeedScores(float(f1.mean()), std, float(f1.max()), len(f1))


@dataclass(frozen=True)
class BaselineScores:
    """F1 of baselines and upper bounds on the same sentences.  biased_bound: None unless requested."""

    left: ParsingScores
    right: ParsingScores
    balanced: ParsingScores
    random: SeedScores
    binary_bound: ParsingScores
    biased_bound: ParsingScores | None

    def to_dict(self) -> dict[str, object]:
        """F1 (fractions) by name; for random, statistics over seeds."""
        singles = {name: getattr(self, name) for name in ("left", "right", "balanced", "binary_bound", "biased_bound")}
        return {**{name: one.f1 if one else None for name, one in singles.items()}, "random": self.random.to_dict()}

    def __str__(self) -> str:
        parts = [f"right branching {100 * self.right.f1:.1f}", f"left {100 * self.left.f1:.1f}"]
        parts += [f"balanced {100 * self.balanced.f1:.1f}", f"random {self.random}"]
        parts.append(f"binary upper bound {100 * self.binary_bound.f1:.1f}")
        if self.biased_bound:
            parts.append(f"reachable by the biased decoder {100 * self.biased_bound.f1:.1f}")
        return "   ".join(parts)


def baseline_scores(
    gold: SpanSets, protocol: Protocol, seeds: Iterable[int] = range(5), biased_bound: bool = True
) -> BaselineScores:
    """Scores all baselines and bounds on the gold sentences.  biased_bound: slow, cubic in sentence length."""
    gold = gold.select(protocol.scored(gold.lengths))
    lengths = gold.lengths

    def scored(predicted: SpanSets) -> ParsingScores:
        return score(predicted, gold, protocol, details=False)

    return BaselineScores(
        scored(baselines.left(lengths)),
        scored(baselines.right(lengths)),
        scored(baselines.balanced(lengths)),
        over_seeds([scored(baselines.random_trees(lengths, seed)) for seed in seeds]),
        scored(baselines.binary_upper_bound(gold)),
        scored(baselines.biased_upper_bound(gold)) if biased_bound else None,
    )
