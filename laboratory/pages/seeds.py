"""Comparisons of seeds of PRPN and ON-LSTM: the gain of a decoder, the agreement of their trees, and F1 by loss."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import pearsonr

from laboratory.pages.markdown import table
from laboratory.pages.stored_results import (
    Figure,
    all_parsed,
    all_runs,
    parsed,
    percent,
    untrained,
)
from laboratory.results.store import select
from syntaxlm.evaluation.agreement import outlier

_PRPN = "prpn-ptb-parsing"
PRPN_RUNS = {
    "resolution-0.1": "PRPN, resolution 0.1 (released)",
    "resolution-0.5": "PRPN, resolution 0.5",
    "paper-form": "PRPN, `form: paper`",
    "": "PRPN, resolution 0.5, one residual block",
}
_EPOCHS = range(1, 6)
_DECODERS = ("biased", "unbiased")


def decoder_gain() -> str:
    """What the biased decoder adds to the unbiased one, for trained and untrained models of distances."""
    # The distances of the paper's form are equal, so both decoders agree.
    runs = {run: name for run, name in PRPN_RUNS.items() if run != "paper-form" and all_parsed(_PRPN, "wsj", run=run)}
    models = {(_PRPN, run): name for run, name in runs.items()}
    models["on-lstm-ptb-words-small", ""] = "ON-LSTM"
    rows = []
    for (experiment, run), model in models.items():
        scored = parsed(experiment, "wsj", run)
        gains = [
            100 * (scored.f1_by("biased").mean - scored.f1_by("unbiased").mean),
            100 * (untrained(experiment, "biased").mean - untrained(experiment, "unbiased").mean),
        ]
        rows.append([model, *(f"{gain:.1f}" for gain in gains)])
    heads = ["model", "F1, `biased` minus `unbiased`, trained", "untrained"]
    conclusion = "The decoder `biased` raises F1 more than twice as much for trained models as for untrained models."
    return f"{conclusion}\n\n{table(heads, rows)}"


def agreement() -> str:
    """Agreement of each seed of PRPN with the others, a row for each setting of which it is stored."""
    rows = []
    for run, report in _agreements():
        agreements = (f"seed {seed} {percent(value)}" for seed, value in enumerate(report["with_others"], 1))
        outlier_of_run = report["odd_one_out"]
        outlier_seed = "none" if outlier_of_run is None else f"seed {report['models'].index(outlier_of_run) + 1}"
        rows.append([PRPN_RUNS[run], ", ".join(agreements), outlier_seed])
    return table(["model", "mean F1 against the trees of the other seeds", "outlier"], rows)


def agreeing_seeds() -> str:
    """F1 of all choices of three seeds of PRPN, and of those that `focus` would keep."""
    rows = []
    for run, report in _agreements():
        matrix, reports = np.array(report["agreement"]), parsed(_PRPN, "wsj", run).reports
        for decoder in _DECODERS:
            scores = [reports[seed]["f1_by_decoder"][decoder] for seed in sorted(reports)]
            threes = list(combinations(range(len(scores)), 3))
            kept = [[seed for seed in three if seed != outlier(matrix, three)] for three in threes]
            for name, choices in (("all three", threes), ("those that agree", kept)):
                mean = Figure.of(Figure.of(scores[seed] for seed in chosen).mean for chosen in choices)
                lowest = min(scores[seed] for chosen in choices for seed in chosen)
                rows.append([PRPN_RUNS[run], f"`{decoder}`", name, percent(mean), percent(lowest)])
    return table(["model", "decoder", "seeds", "F1, mean over subsets", "lowest seed"], rows)


def _agreements() -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the runs of PRPN with the report of the agreement of their seeds, where one is stored."""
    for run in PRPN_RUNS:
        for stored in select(_PRPN, what="agreement", run=run):
            yield run, stored.report


class _Points(NamedTuple):
    """Validation losses and F1 by decoder of the same models.

    Attributes:
        model: name of their setting.
        over: in what they differ, "seeds" or "epochs".
        title: which seeds or epochs.
    """

    model: str
    over: str
    title: str
    losses: list[float]
    f1: dict[str, list[float]]

    def correlations(self) -> dict[str, tuple[float, float, float]]:
        """Return Pearson's correlation by decoder with its 95% interval.

        A correlation is not defined if all trees are equal, and not informative for fewer than four points.
        """
        correlations = {}
        for decoder, scores in self.f1.items() if len(self.losses) > 3 else ():
            if len(set(scores)) == 1:
                continue
            correlation = pearsonr(self.losses, scores)
            interval = correlation.confidence_interval()
            correlations[decoder] = (correlation.statistic, interval.low, interval.high)
        return correlations


def loss_and_f1() -> str:
    """Correlation of PRPN's validation loss and F1, over the seeds of each setting and over the epochs of a seed."""
    rows = []
    correlations: dict[str, list[tuple[float, float, float]]] = {}  # over seeds, and over epochs
    for run in PRPN_RUNS:
        for points in (*_over_seeds(run), *_over_epochs(run)):
            if by_decoder := points.correlations():
                cells = (f"{value:+.2f} ({low:+.2f} to {high:+.2f})" for value, low, high in by_decoder.values())
                rows.append([points.model, points.title, *cells])
                correlations.setdefault(points.over, []).extend(by_decoder.values())
    heads = ["model", "over", *(f"correlation with F1, `{decoder}`" for decoder in _DECODERS)]

    sentences = []
    for over, intervals in correlations.items():
        negative = sum(value < 0 for value, _, _ in intervals)
        clear = sum(high < 0 or low > 0 for _, low, high in intervals)
        of = f"of {len(intervals)}"
        sentences.append(
            f"Over {over}, {negative} {of} correlations are negative, and {clear} {of} intervals exclude 0."
        )
    return f"{table(heads, rows)}\n{' '.join(sentences)}\n"


def _over_seeds(run: str) -> Iterator[_Points]:
    """Yield the points of the seeds of a run after the last epoch, if trainings and trees are stored."""
    trainings = all_runs(_PRPN, what="training", run=run)
    scored = all_parsed(_PRPN, "wsj", run=run)
    if trainings and scored:
        seeds = sorted(trainings[0].by_seed.keys() & scored[0].by_seed.keys())
        losses = [trainings[0].reports[seed]["valid"]["loss"] for seed in seeds]
        reports = [scored[0].reports[seed] for seed in seeds]
        yield _points(run, "seeds", f"{len(seeds)} seeds, last epoch", losses, reports)


def _over_epochs(run: str) -> Iterator[_Points]:
    """Yield the epochs of each seed whose models after every epoch were scored."""
    trees = [all_parsed(_PRPN, "wsj", run=f"{run}/epoch-{epoch}") for epoch in _EPOCHS]
    texts = [all_runs(_PRPN, what="perplexity", run=f"{run}/epoch-{epoch}") for epoch in _EPOCHS]
    if all(trees) and all(texts):
        for seed in sorted(set.intersection(*(set(runs[0].by_seed) for runs in (*trees, *texts)))):
            losses = [runs[0].reports[seed]["loss"] for runs in texts]
            reports = [runs[0].reports[seed] for runs in trees]
            yield _points(run, "epochs", f"{len(_EPOCHS)} epochs of seed {seed}", losses, reports)


def _points(run: str, over: str, title: str, losses: list[float], reports: list[Mapping[str, Any]]) -> _Points:
    """Return the losses and F1 of the same models."""
    f1 = {decoder: [report["f1_by_decoder"][decoder] for report in reports] for decoder in _DECODERS}
    return _Points(PRPN_RUNS[run], over, title, losses, f1)
