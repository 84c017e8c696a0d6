"""Single seeds of PRPN, ON-LSTM, PaLM-S and its LSTM: F1 by decoder, perplexity, agreement; models near convergence."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from laboratory.pages.experiments import short
from laboratory.pages.markdown import table
from laboratory.pages.stored_results import (
    Figure,
    Runs,
    all_parsed,
    parsed,
    percent,
    perplexity,
    trained,
    untrained,
)
from laboratory.results.store import stored_report
from syntaxlm.evaluation.agreement import outlier


@dataclass(frozen=True)
class Seeds:
    """A table of the seeds of several recipes.

    models: name and experiment of each.  decoders: columns of F1.  sets: evaluation set and title of each treebank.
    """

    models: Sequence[tuple[str, str]]
    decoders: Sequence[str]
    sets: Sequence[tuple[str, str]]

    def markdown(self) -> str:
        """One line per seed, and the mean of each model; trees averaged over seeds, where they are stored."""
        titles = [f"{title}, `{decoder}`" for _, title in self.sets for decoder in self.decoders]
        heads = ["model", "seed", *titles, "validation perplexity", "test perplexity"]
        lines = [line for model, recipe in self.models for line in self._lines(model, recipe)]
        return table(heads, [*lines, self._right_branching()])

    def _lines(self, model: str, recipe: str) -> Iterator[list[str]]:
        training, scored = trained(recipe), [self._parsed(recipe, on) for on, _ in self.sets]
        for seed, report in training.reports.items():
            f1 = (percent(one.reports[seed]["f1_by_decoder"][name]) for one, name in self._columns(scored))
            perplexities = (f"{report[part]['perplexity']:.1f}" for part in ("valid", "test"))
            yield [model, str(seed), *(f1 if scored[0] else self._empty), *perplexities]
        means = (percent(one.f1_by(name)) for one, name in self._columns(scored))
        perplexities = (perplexity(training.perplexity(part)) for part in ("valid", "test"))
        yield [f"{model}, mean", "", *(means if scored[0] else self._empty), *perplexities]
        averages = [self._parsed(recipe, on, "averaged-trees") for on, _ in self.sets]
        if any(averages):
            shown = (
                percent(one.first["f1_by_decoder"][name]) if one and name in one.first["f1_by_decoder"] else ""
                for one in averages
                for name in self.decoders
            )
            yield [f"{model}, trees averaged", "", *shown, "", ""]

    @property
    def _empty(self) -> list[str]:
        """The cells of a model that gives no trees."""
        return [""] * len(self.sets) * len(self.decoders)

    def _columns(self, scored: Sequence[Runs | None]) -> Iterator[tuple[Runs, str]]:
        return ((one, name) for one in scored if one for name in self.decoders)

    def _parsed(self, recipe: str, on: str, name: str = "") -> Runs | None:
        return next(iter(all_parsed(recipe, on, run=name)), None)

    def _right_branching(self) -> list[str]:
        recipe = self.models[0][1]
        figures = (percent(parsed(recipe, on).right_branching) for on, _ in self.sets for _ in self.decoders)
        return ["right branching", "", *figures, "", ""]


DISTANCES = Seeds(
    [("PRPN", "prpn-ptb-parsing"), ("ON-LSTM, layer 2", "on-lstm-ptb-words-small")],
    ("biased", "unbiased"),
    [("wsj", "all (3,901)"), ("wsj-second-half", "test half (1,987)"), ("wsj10", "up to 10 words (542)")],
)
PALM = Seeds(
    [("PaLM-S", "palm-s-gum-small"), ("AWD-LSTM", "awd-lstm-gum-small")],
    ("greedy-sum", "greedy-right"),
    [("gum", "GUM test, silver trees (1,397)"), ("wsj", "WSJ sample (3,901)")],
)


_CONVERGED = {  # a title, and the baseline of the same sizes
    "prpn": ("PRPN", "prpn-lstm"),
    "prpn-no-parsing": ("PRPN without parsing network", "prpn-lstm"),
    "prpn-lstm": ("LSTM, PRPN's sizes", ""),
    "on-lstm": ("ON-LSTM", "lstm"),
    "lstm": ("LSTM, ON-LSTM's sizes", ""),
}


def near_convergence() -> str:
    """Test perplexity of the small models that were trained nearly to convergence."""
    rows = []
    for name, (title, baseline) in _CONVERGED.items():
        runs = trained("converged", name)
        epochs = Figure.of(report["epochs"] for report in runs.reports.values())
        size = runs.first_run.parameters
        figure = runs.perplexity("test")
        beside = trained("converged", baseline).perplexity("test").values if baseline else ()
        less = ", ".join(f"{own - other:+.1f}" for own, other in zip(figure.values, beside, strict=bool(beside)))
        by_seed = ", ".join(f"{value:.1f}" for value in figure.values)
        rows.append([title, short(size) if size else "", f"{epochs.mean:.0f}", by_seed, perplexity(figure), less])
    heads = (
        "model, PTB as a stream",
        "parameters",
        "epochs",
        "test perplexity by seed",
        "mean",
        "difference to the LSTM",
    )
    return table(heads, rows)


_DISTANCE_MODELS = {"PRPN": "prpn-ptb-parsing", "ON-LSTM": "on-lstm-ptb-words-small"}


def decoder_gain() -> str:
    """What the biased decoder adds to the unbiased one, for trained and untrained models of distances."""
    sentences = []
    for model, recipe in _DISTANCE_MODELS.items():
        scored = parsed(recipe, "wsj")
        gains = [
            100 * (scored.f1_by("biased").mean - scored.f1_by("unbiased").mean),
            100 * (untrained(recipe, "biased").mean - untrained(recipe, "unbiased").mean),
        ]
        sentences.append(f"{model} {gains[0]:.1f} points, untrained {gains[1]:.1f}")
    return f"Gain of `biased` over `unbiased` in F1: {'; '.join(sentences)}. Most of it needs a trained model.\n"


def agreement() -> str:
    """Agreement of each seed of PRPN with the others, in one line."""
    found = stored_report("prpn-ptb-parsing", what="agreement")
    names = (model.rpartition("-")[2] for model in found["models"])
    shown = (f"seed {name} {percent(value)}" for name, value in zip(names, found["with_others"], strict=True))
    return f"{', '.join(shown)}; outlier: seed {found['odd_one_out'].rpartition('-')[2]}.\n"


def agreeing_seeds() -> str:
    """F1 of all choices of three seeds of PRPN, and of those that `focus` would keep."""
    reports = parsed("prpn-ptb-parsing", "wsj").reports
    matrix = np.array(stored_report("prpn-ptb-parsing", what="agreement")["agreement"])
    rows = []
    for decoder in ("biased", "unbiased"):
        scores = [reports[seed]["f1_by_decoder"][decoder] for seed in sorted(reports)]
        threes = list(combinations(range(len(scores)), 3))
        kept = [[seed for seed in three if seed != outlier(matrix, three)] for three in threes]
        means = [[Figure.of(scores[seed] for seed in chosen).mean for chosen in choice] for choice in (threes, kept)]
        lowest = [100 * min(scores[seed] for chosen in choice for seed in chosen) for choice in (threes, kept)]
        names = "all three", "those that agree"
        for name, mean, low in zip(names, means, lowest, strict=True):
            rows.append([f"`{decoder}`", name, percent(Figure.of(mean)), f"{low:.1f}"])
    return table(["decoder", "seeds", "F1, mean of a choice", "lowest seed"], rows)


def on_lstm_focus() -> str:
    """F1 of three small ON-LSTMs that `focus` trained and kept, and of their averaged trees."""
    reports = parsed("on-lstm-focus", "wsj").reports
    found, decoders = stored_report("on-lstm-focus", what="agreement"), ("biased", "unbiased")
    if found["stands_apart"] or found["collapsed"]:
        raise ValueError("on-lstm-focus: not all seeds are kept, as the page says")
    rows = []
    for seed, others in zip(reports, found["with_others"], strict=True):
        scores = [percent(reports[seed]["f1_by_decoder"][decoder]) for decoder in decoders]
        rows.append([str(seed), percent(others), *scores])
    means = [Figure.of(one["f1_by_decoder"][decoder] for one in reports.values()) for decoder in decoders]
    average = parsed("on-lstm-focus", "wsj", "average").first["f1_by_decoder"]
    rows.append(["mean", "", *map(percent, means)])
    rows.append(["trees averaged", "", *(percent(average[decoder]) for decoder in decoders)])
    return table(["seed", "agreement with the others", *(f"F1, `{decoder}`" for decoder in decoders)], rows)
