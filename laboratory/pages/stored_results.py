"""The stored results as tables show them: runs of several seeds together, and how their figures are written."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from laboratory.results.store import StoredRun, select, stored_report


class EvaluationSet(NamedTuple):
    """The sentences that trees are scored on, and the protocol.

    Attributes:
        data: name of the treebank, or of a part of it.
        protocol: name of the protocol.
        max_words: longest sentence, by the protocol or the option `--max-words`; None: all lengths.
    """

    data: str
    protocol: str = "wsj-test"
    max_words: int | None = None


EVALUATION_SETS = {
    "wsj": EvaluationSet("wsj"),
    "wsj-first-half": EvaluationSet("wsj-first-half"),
    "wsj-second-half": EvaluationSet("wsj-second-half"),
    "wsj-second-half10": EvaluationSet("wsj-second-half", "wsj10", 10),
    "wsj-second-half40": EvaluationSet("wsj-second-half", "wsj40", 40),
    "prpn": EvaluationSet("wsj", "prpn"),
    "wsj10": EvaluationSet("wsj", max_words=10),
    "prpn10": EvaluationSet("wsj", "prpn", 10),
    "kleinmanning10": EvaluationSet("wsj", "wsj10", 10),
    "evalb10": EvaluationSet("wsj", "evalb", 10),
    "wsj40": EvaluationSet("wsj", "wsj40", 40),
    "gum": EvaluationSet("gum-test"),
    "gum10": EvaluationSet("gum-test", max_words=10),
    "craft40": EvaluationSet("craft-dev", max_words=40),
    "icepahc": EvaluationSet("icepahc-test"),
    "icepahc10": EvaluationSet("icepahc-test", max_words=10),
    "ordinary": EvaluationSet("ordinary-sentences"),
    "ordinary-2": EvaluationSet("ordinary-sentences-2"),
    "floresta": EvaluationSet("floresta-test"),
    "floresta10": EvaluationSet("floresta-test", max_words=10),
}  # fmt: skip


@dataclass(frozen=True)
class Figure:
    """A quantity, or its mean over seeds and sample standard deviation. values: by seed, where they are known."""

    mean: float
    std: float | None = None
    values: tuple[float, ...] = ()

    @classmethod
    def of(cls, values: Iterable[float]) -> Figure:
        values = tuple(values)
        return cls(statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else None, values)

    def times(self, factor: float) -> Figure:
        """Return the same quantity in another unit."""
        std = None if self.std is None else factor * self.std
        return Figure(factor * self.mean, std, tuple(factor * value for value in self.values))

    def __format__(self, form: str) -> str:
        return f"{self.mean:{form}}" + (f" ± {self.std:{form}}" if self.std is not None else "")


def percent(figure: Figure | float) -> str:
    """A fraction as percent with one decimal place, with the standard deviation where there is one."""
    if isinstance(figure, float):
        return f"{100 * figure:.1f}"
    return f"{figure.times(100):.1f}"


def perplexity(figure: Figure) -> str:
    """A perplexity with one decimal place, or without one if the standard deviation is 5 or more."""
    places = 0 if figure.std is not None and figure.std >= 5 else 1
    return f"{figure:.{places}f}"


def short(number: float) -> str:
    """Return a number of parameters or tokens, in millions from 100,000 on."""
    return f"{number:,.0f}" if number < 1e5 else f"{number / 1e6:.1f} M"


def baselines(evaluation_set: str) -> Mapping[str, Any]:
    """Return the report of `evaluate trees` on a treebank against itself, of which the baselines are used.

    Args:
        evaluation_set: a name in EVALUATION_SETS.
    """
    return stored_report("baselines", what="trees", **EVALUATION_SETS[evaluation_set]._asdict())


def untrained(recipe: str, decoder: str) -> Figure:
    """Return F1 of models of a recipe with random weights: `random_weights` of `evaluate parse`."""
    score = stored_report("baselines", what="untrained", run=recipe)["random_weights"]["f1_by_decoder"][decoder]
    return Figure(score["mean"], score["std"])


def of_baseline(report: Mapping[str, Any], name: str) -> Figure:
    """Return F1 of a baseline of a report; for random trees, with the standard deviation over seeds."""
    score = report["baselines"][name]
    return Figure(score["mean"], score["std"]) if isinstance(score, dict) else Figure(score)


@dataclass(frozen=True)
class Runs:
    """The stored runs of one model on the same data, of several seeds or of one.

    Attributes:
        name: name of the runs in their experiment.
        by_seed: the runs by seed; 0 for a run without a seed.
    """

    name: str
    by_seed: Mapping[int, StoredRun]

    @cached_property
    def reports(self) -> dict[int, Mapping[str, Any]]:
        """The reports by seed."""
        return {seed: run.report for seed, run in self.by_seed.items()}

    @property
    def first_run(self) -> StoredRun:
        return next(iter(self.by_seed.values()))

    @property
    def first(self) -> Mapping[str, Any]:
        return self.first_run.report

    @property
    def seeds(self) -> list[int]:
        return [seed for seed in self.by_seed if seed]

    @property
    def count(self) -> int:
        """The number of seeds, or of the members of an average."""
        return self.first.get("averaged_models") or len(self.by_seed)

    @property
    def shown_seeds(self) -> str:
        """The cell of a table: "5", or "5, averaged" for one tree per sentence of all of them."""
        return f"{self.count}, averaged" if "averaged_models" in self.first else str(self.count)

    @property
    def f1(self) -> Figure:
        return Figure.of(report["f1"] for report in self.reports.values())

    def f1_by(self, decoder: str) -> Figure:
        return Figure.of(report["f1_by_decoder"][decoder] for report in self.reports.values())

    @property
    def right_branching(self) -> float:
        return float(self.first["baselines"]["right"])

    def perplexity(self, part: str) -> Figure:
        """Return the perplexity of a text.

        Args:
            part: "valid" or "test"; the runs are trainings.
        """
        return Figure.of(report[part]["perplexity"] for report in self.reports.values())

    @property
    def reading(self) -> str:
        """How the test text of trainings was read: as a stream, or sentence by sentence."""
        return "stream" if self.first["test"]["carry_state"] else "sentences"

    @property
    def shown_minutes(self) -> str:
        """The shortest and the longest training: "16 to 20"; "16" if they are equal."""
        minutes = [report["seconds"] / 60 for report in self.reports.values()]
        return " to ".join(dict.fromkeys(f"{value:.0f}" for value in (min(minutes), max(minutes))))


def all_runs(experiment: str, **facts: Any) -> list[Runs]:
    """Return the stored runs with these facts, grouped by name, sorted by name and seed.

    Raises:
        ValueError: two runs have the same name and seed.
    """
    names: dict[str, dict[int, StoredRun]] = {}
    for run in select(experiment, **facts):
        seeds = names.setdefault(run.run, {})
        if (run.seed or 0) in seeds:
            raise ValueError(f"{experiment}: a second run {run.run!r} with the seed {run.seed} and {facts}")
        seeds[run.seed or 0] = run
    return [Runs(name, dict(sorted(seeds.items()))) for name, seeds in sorted(names.items())]


def all_parsed(experiment: str, evaluation_set: str, **facts: Any) -> list[Runs]:
    """Return the runs whose trees were scored on an evaluation set, see `all_runs`.

    Args:
        experiment: name of its file.
        evaluation_set: a name in EVALUATION_SETS.
        facts: further facts about the runs.
    """
    return all_runs(experiment, what="trees", **EVALUATION_SETS[evaluation_set]._asdict(), **facts)


def parsed(experiment: str, evaluation_set: str, name: str = "", decoder: str | None = None, **facts: Any) -> Runs:
    """Return the runs of one name whose trees were scored on an evaluation set.

    Args:
        experiment: name of its file.
        evaluation_set: a name in EVALUATION_SETS.
        name: name of the runs in their experiment.
        decoder: which evaluation to return if a run was evaluated once for each decoder.
        facts: further facts about the runs.

    Raises:
        KeyError: nothing is stored of it.
    """
    runs = all_parsed(experiment, evaluation_set, run=name, decoder=decoder, **facts) if decoder else []
    return _named(runs or all_parsed(experiment, evaluation_set, run=name, **facts), experiment, name)


def trained(experiment: str, name: str = "", **facts: Any) -> Runs:
    """Return the trainings of one name.

    Raises:
        KeyError: nothing is stored of it.
    """
    return _named(all_runs(experiment, what="training", run=name, **facts), experiment, name)


def trained_of(scored: Runs, experiment: str, name: str = "") -> Runs:
    """Return the trainings of the models that were scored, not those of other seeds.

    Raises:
        KeyError: the training of a seed is not stored.
    """
    trainings = trained(experiment, name)
    return Runs(name, {seed: trainings.by_seed[seed] for seed in scored.by_seed})


def _named(runs: Sequence[Runs], experiment: str, name: str) -> Runs:
    if not runs:
        raise KeyError(f"{experiment}: nothing is stored of the run {name!r}")
    return runs[0]


@dataclass(frozen=True)
class Trees:
    """F1 with what it depends on. seeds: as a table shows them."""

    f1: Figure
    right_branching: float
    sentences: int
    protocol: str
    decoder: str
    seeds: str


_EVALUATED_ON = {"WSJ sample": "wsj", "GUM test": "gum"}


def trees(experiment: str, treebank: str, decoder: str, name: str = "") -> Trees:
    """Return F1 over all lengths.

    Raises:
        KeyError: nothing is stored of it.
    """
    runs = parsed(experiment, _EVALUATED_ON[treebank], name)
    sentences, protocol = runs.first["sentences"], runs.first["protocol"]
    return Trees(runs.f1_by(decoder), runs.right_branching, sentences, protocol, decoder, runs.shown_seeds)
