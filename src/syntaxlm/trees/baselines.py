"""Baselines and upper bounds of F1, statistics of F1 over seeds, and the paired bootstrap of two sets of trees."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass

import numpy as np

from syntaxlm.core.arrays import Numbers
from syntaxlm.core.errors import InputError
from syntaxlm.statistics.bootstrap import BootstrapResult, RunScores, compare_runs
from syntaxlm.statistics.intervals import sample_std
from syntaxlm.trees import bounds
from syntaxlm.trees.f1 import ParsingScores, Protocol, score
from syntaxlm.trees.spans import SpanSets


def run_scores(runs: Sequence[ParsingScores]) -> RunScores:
    """Return F1 of several runs, averaged by the scores' protocol.

    Raises:
        InputError: if protocols or sentences differ.
    """
    first = runs[0]
    for run in runs[1:]:
        if first.protocol != run.protocol:
            raise InputError(f"found scores under {first.protocol} and {run.protocol}; expected one protocol")
        if not np.array_equal(first.by_sentence.indices, run.by_sentence.indices):
            raise InputError(
                f"found scores of {first.sentences} and {run.sentences} sentences; expected the same sentences"
            )
    sentences = [run.by_sentence for run in runs]
    if first.protocol.average == "sentence":
        return RunScores.of_means(np.array([run.f1 for run in sentences]))
    parts = np.array([2.0 * run.matched_spans for run in sentences])
    return RunScores(parts, np.array([run.predicted_spans + run.gold_spans for run in sentences], np.float64))


def paired_bootstrap(
    first: ParsingScores, second: ParsingScores, samples: int = 10_000, seed: int = 0
) -> BootstrapResult:
    """Return `compare_runs` of two sets of trees of the same sentences: over sentences only.

    F1 is averaged by the scores' protocol.

    Raises:
        InputError: if protocols or sentences differ.
    """
    runs = run_scores([first, second])
    first_run = RunScores(runs.parts[[0]], runs.wholes[[0]])
    second_run = RunScores(runs.parts[[1]], runs.wholes[[1]])
    return compare_runs(first_run, second_run, "F1", samples, seed)


@dataclass(frozen=True)
class SeedScores:
    """F1 over several runs, as fractions.

    Attributes:
        std: the sample standard deviation; None for a single run.
    """

    mean: float
    std: float | None
    max: float
    count: int

    @classmethod
    def of(cls, f1: Numbers) -> SeedScores:
        """Return the scores of runs with these values of F1."""
        return cls(float(f1.mean()), sample_std(f1), float(f1.max()), len(f1))

    def to_dict(self) -> dict[str, float | None]:
        return asdict(self)

    def __str__(self) -> str:
        if self.std is None:
            return f"{100 * self.mean:.1f} (1 seed)"
        return f"{100 * self.mean:.1f} ± {100 * self.std:.1f}, max {100 * self.max:.1f} ({self.count} seeds)"


def over_seeds(scores: Sequence[ParsingScores]) -> SeedScores:
    """Return mean, standard deviation and maximum of F1 over runs.

    Raises:
        InputError: without runs or if protocols differ.
    """
    if not scores:
        raise InputError("found no scores; expected the scores of one seed or more")
    if any(run.protocol != scores[0].protocol for run in scores):
        raise InputError("found scores under different protocols; expected one protocol")
    return SeedScores.of(np.array([run.f1 for run in scores]))


@dataclass(frozen=True)
class BaselineScores:
    """F1 of baselines and upper bounds on the same sentences.

    Attributes:
        biased_bound: the best trees that the `biased` decoder can give; None unless requested.
        random: trees that are uniform over splits, which are also the trees of random distances by the `unbiased`
            decoder.
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
    """Score all baselines and bounds on the gold sentences.

    Args:
        biased_bound: whether the best trees of the `biased` decoder are scored, too.
    """
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
