"""What single seeds of PRPN and ON-LSTM tell: the gain of a decoder, and the agreement of their trees."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from laboratory.pages.markdown import table
from laboratory.pages.stored_results import (
    Figure,
    parsed,
    percent,
    trained,
    untrained,
)
from laboratory.results.store import stored_report
from syntaxlm.evaluation.agreement import outlier

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
    report, seeds = stored_report("prpn-ptb-parsing", what="agreement"), trained("prpn-ptb-parsing").seeds
    shown = (f"seed {seed} {percent(value)}" for seed, value in zip(seeds, report["with_others"], strict=True))
    outlier_seed = seeds[report["models"].index(report["odd_one_out"])]
    return f"{', '.join(shown)}; outlier: seed {outlier_seed}.\n"


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
