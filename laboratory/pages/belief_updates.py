"""Belief updates in garden paths and reading times: the tables of this experiment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from laboratory.pages.markdown import table
from laboratory.results.store import select, stored_report

EXPERIMENT = "belief-updates"
CONSTRUCTIONS = {"npz": "NP/Z", "nps": "NP/S", "mvrr": "MV/RR"}
NULLS = ("right branching", "random trees", "words exchanged", "untrained")
MEASURES = {
    "surprisal": "surprisal",
    "belief_update": "belief update, order 1/2",
    "belief_update_kl": "belief update, order 1 (Kullback and Leibler)",
    "structural_surprisal": "structural surprisal",
}


def garden_paths() -> str:
    """The differences of the trained grammar by measure and construction, and those at equal surprisal."""
    lines = []
    for row in _of_items(grammar="trained"):
        beyond = "" if row["measure"] == "surprisal" else _interval(row["beyond_surprisal"])
        numbers = [_interval(row["difference"]), f"{row['positive']} of {row['items']}", beyond]
        lines.append([MEASURES[row["measure"]], CONSTRUCTIONS[row["construction"]], *numbers])
    heads = ["measure, bits", "construction", "ambiguous - unambiguous", "items above 0", "at equal surprisal"]
    return table(heads, lines)


def garden_path_nulls() -> str:
    """The differences of belief updates of the null grammars."""
    lines: dict[tuple[str, int | None], list[str]] = {}
    for row in _of_items(measure="belief_update"):
        if row["grammar"] != "trained":
            beyond = _interval(row["beyond_surprisal"]) if row["beyond_surprisal"] else "-"
            cells = lines.setdefault((row["grammar"], row["seed"]), [])
            cells += [f"{_interval(row['difference'])}; {beyond}"]
    names = {(grammar, seed): grammar + (f", seed {seed}" if seed else "") for grammar, seed in lines}
    rows = [[names[null], *lines[null]] for null in sorted(lines, key=lambda null: NULLS.index(null[0]))]
    return table(["null grammar", *CONSTRUCTIONS.values()], rows)


def first_analyses() -> str:
    """The belief in the analysis that the critical word excludes, before and after it."""
    rows = stored_report(EXPERIMENT, data="garden-path-constructions")["first_analysis"]
    lines = [
        [CONSTRUCTIONS[row["construction"]], row["reading"], _interval(row["before"]), _interval(row["after"])]
        for row in rows
        if row["construction"] != "mvrr"  # where both analyses have this constituent
    ]
    return table(["construction", "sentence", "before the critical word", "after it"], lines)


def reading_times() -> str:
    """The gains in predicting reading times, and the difference of each null grammar's gain to the trained one's."""
    runs = select(EXPERIMENT, data="natural-stories")
    if not runs:
        return "Not computed yet.\n"
    lines = []
    for row in runs[0].report["measures"]:
        gain = _interval(row["gain"], 1000)
        difference = "" if row["grammar"] == "trained" else _interval(row["trained_minus_this"], 1000)
        lines.append([row["grammar"], MEASURES[row["measure"]], gain, difference])
    heads = [
        "grammar",
        "measure",
        "gain beyond surprisal, 10^-3 nats/word",
        "gain of the trained grammar minus this gain",
    ]
    return table(heads, lines)


def _of_items(**facts: str) -> Sequence[Mapping[str, Any]]:
    rows = stored_report(EXPERIMENT, data="garden-path-constructions")["differences"]
    return [row for row in rows if all(row[name] == value for name, value in facts.items())]


def _interval(interval: Mapping[str, float], factor: float = 1) -> str:
    """Return a value times a factor with its 95% interval; what rounds to -0.00 becomes 0.00."""
    value, low, high = (f"{round(factor * interval[name], 2) + 0.0:.2f}" for name in ("value", "low", "high"))
    return f"{value} ({low} to {high})"
