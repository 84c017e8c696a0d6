"""Comparison of models by a bootstrap over runs (seeds) and items (sentences)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from syntaxlm.core.arrays import Numbers
from syntaxlm.core.errors import InputError

FEWEST = 6  # items of a bootstrap
_ITEMS_AT_A_TIME = 2_000_000  # drawn items of the samples that are in memory together


@dataclass(frozen=True)
class BootstrapResult:
    """Difference of two scores, first minus second (fractions), its 95% interval and two-sided p-value.

    Attributes:
        low: lower end of the interval; NaN for fewer than FEWEST items, which no bootstrap can tell apart.
        high: upper end of the interval; NaN likewise.
        p_value: NaN likewise.
        measure: name of the score.
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
        cls, difference: float, drawn: Numbers, items: int, measure: str = "F1", seeds: tuple[int, int] = (1, 1)
    ) -> BootstrapResult:
        """Return the result from the measured difference and those of all bootstrap samples, (samples,).

        The p-value is the share of samples whose difference is at least as far from the measured one as that is from 0.
        Efron & Tibshirani 1993.

        Args:
            items: number of the items that were drawn.
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

    The score of a run is the sum of its parts over items, divided by that of its wholes: for a mean over items, the
    wholes are 1; for F1 of pooled counts, the parts are 2 * matched and the wholes are predicted plus gold spans. It is
    1 if the wholes sum to 0.

    Attributes:
        parts: (runs, n), numerators of the items.
        wholes: (runs, n), denominators of the items.
    """

    parts: Numbers
    wholes: Numbers

    @classmethod
    def of_means(cls, values: Numbers) -> RunScores:
        """Return scores that are means over items.

        Args:
            values: (runs, n).
        """
        values = np.asarray(values, np.float64)
        return cls(values, np.ones_like(values))

    def __len__(self) -> int:
        """Return the number of runs."""
        return len(self.parts)

    @property
    def values(self) -> Numbers:
        """(runs,), the score of each run."""
        scores: Numbers = self.of_samples(np.ones((1, self.parts.shape[1])))[0]
        return scores

    def of_samples(self, counts: Numbers) -> Numbers:
        """Return the runs' scores of bootstrap samples: (B, n), how often each item was drawn -> (B, runs)."""
        parts = counts @ self.parts.T
        wholes = counts @ self.wholes.T
        return np.where(wholes > 0, parts / np.where(wholes > 0, wholes, 1), 1.0)


def compare_runs(
    first: RunScores, second: RunScores, measure: str = "F1", samples: int = 10_000, seed: int = 0
) -> BootstrapResult:
    """Compare two models by a hierarchical bootstrap: their runs (seeds) and the items are drawn with replacement.

    Both models are scored on the same drawn items; their runs are drawn independently. The difference is that of the
    means over runs. With one run per model, this is the paired bootstrap over items, which says nothing about seeds.

    Davison & Hinkley 1997, "Bootstrap methods and their application", section 3.8.

    Args:
        samples: number of bootstrap samples.
        seed: the seed of the random numbers.
        measure: name of the score.

    Raises:
        InputError: if the numbers of items differ.
    """
    items = first.parts.shape[1]
    if second.parts.shape[1] != items:
        raise InputError(f"found scores of {items} and {second.parts.shape[1]} items; expected the same items")
    if samples < 1:
        raise ValueError("a bootstrap needs at least one sample")
    generator = np.random.default_rng(seed)
    drawn = []
    step = max(1, _ITEMS_AT_A_TIME // max(1, items))
    for low in range(0, samples, step):
        size = min(step, samples - low)
        # Draw items for each sample, and count how often each item is in it: (size, items).
        places = generator.integers(items, size=(size, items), dtype=np.int32) + items * np.arange(size)[:, None]
        counts = np.bincount(places.ravel(), minlength=size * items).reshape(size, items).astype(np.float64)
        # Draw the runs of each model, then take their mean.
        means = []
        for runs in (first, second):
            scores = runs.of_samples(counts)
            if len(runs) > 1:
                scores = np.take_along_axis(scores, generator.integers(len(runs), size=scores.shape), axis=1)
            means.append(scores.mean(1))
        drawn.append(means[0] - means[1])
    difference = float(first.values.mean() - second.values.mean())
    return BootstrapResult.of(difference, np.concatenate(drawn), items, measure, (len(first), len(second)))
