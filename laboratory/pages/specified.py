"""Tables that are specified as YAML: which stored runs are their lines, and which values their columns.

tables.yaml has the tables by the name of their block. A table has `columns` and `lines`. A column has a heading and the
name of a value, or it takes the next of the line's `cells`. The facts of a cell are those of the table, of the column
and of the line, later ones first:

    experiment, run, factors, facts: the stored runs
    scored_on: a name in EVALUATION_SETS; of several, the first that is stored
    decoder: of F1; without one, that of the reports; of several, the values are separated by slashes
    part: of the text of perplexity, valid or test
    key: of a number in a report
    format, unit: of a number

A line or a column with `each_seed` stands for one for each seed. A line can have values that it is `without` or that
it has `only`, values that stand `instead` of others ({f1: right_branching}), `fixed` texts of values, or only `texts`.
Cells with the fact `optional` are empty if nothing is stored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from laboratory.pages.markdown import table
from laboratory.pages.stored_results import (
    Figure,
    Runs,
    baselines,
    of_baseline,
    parsed,
    percent,
    perplexity,
    short,
    trained,
    untrained,
)
from laboratory.results.store import stored_report

SPECIFICATIONS = Path(__file__).with_name("tables.yaml")
Facts = Mapping[str, Any]


@cache
def specifications() -> dict[str, dict[str, Any]]:
    """Return the specifications of all tables, by name."""
    read: dict[str, dict[str, Any]] = yaml.safe_load(SPECIFICATIONS.read_text(encoding="utf-8"))
    return read


def specified_table(name: str) -> str:
    """Return a table as Markdown.

    Args:
        name: of its specification.
    """
    return render(specifications()[name])


def render(specification: Facts) -> str:
    """Return the table of a specification as Markdown."""
    shared = {name: value for name, value in specification.items() if name not in ("columns", "lines")}
    lines = [each for line in specification["lines"] for each in _lines(line, shared)]
    columns = [each for column in specification["columns"] for each in _columns(column, {**shared, **lines[0]})]
    return table([column["heading"] for column in columns], (_cells(line, columns, shared) for line in lines))


def _lines(line: Facts, shared: Facts) -> Iterator[Facts]:
    """Yield a line, or one for each seed of its trainings, which is its last text."""
    if not line.get("each_seed"):
        yield line
        return
    for seed in _training({**shared, **line}).seeds:
        yield {**line, "cells": [*line.get("cells", ()), str(seed)], "seed": seed}


def _columns(column: Facts, first: Facts) -> Iterator[Facts]:
    """Yield a column, or one for each seed of the first line."""
    if not column.get("each_seed"):
        yield column
        return
    for seed in _scored({**first, **column}).seeds:
        yield {**column, "heading": str(seed), "seed": seed, "optional": True}


def _cells(line: Facts, columns: Sequence[Facts], shared: Facts) -> list[str]:
    """Return the cells of a line."""
    if "texts" in line:
        return list(line["texts"])
    texts = iter(line.get("cells", ()))
    return [
        _cell(column["value"], {**shared, **column, **line}) if "value" in column else next(texts, "")
        for column in columns
    ]


def _cell(name: str, facts: Facts) -> str:
    """Return the value of a column for a line, or what the line has instead of it."""
    if name in facts.get("fixed", ()):
        return str(facts["fixed"][name])
    if name in facts.get("without", ()) or name not in facts.get("only", [name]):
        return ""
    names = facts.get("instead", {}).get(name, name)
    return " / ".join(_value(each, facts) for each in (names if isinstance(names, list) else [names]))


def _value(name: str, facts: Facts) -> str:
    """Return a value as text; "" for an optional one that is not stored."""
    if isinstance(facts.get("decoder"), list) and name in ("f1", "decoder"):
        return " / ".join(_value(name, {**facts, "decoder": decoder}) for decoder in facts["decoder"])
    try:
        return VALUES[name](facts)
    except KeyError:
        if facts.get("optional"):
            return ""
        raise


def _scored(facts: Facts) -> Runs:
    """Return the runs whose trees were scored; those of a seed if there is one among the facts."""
    experiment, name, factors = facts["experiment"], facts.get("run", ""), facts.get("factors", {})
    *others, last = facts["scored_on"] if isinstance(facts["scored_on"], list) else [facts["scored_on"]]
    for on in others:
        try:
            return _of_seed(parsed(experiment, on, name, facts.get("decoder"), **factors), facts)
        except KeyError:
            continue
    return _of_seed(parsed(experiment, last, name, facts.get("decoder"), **factors), facts)


def _training(facts: Facts) -> Runs:
    return _of_seed(trained(facts["experiment"], facts.get("run", ""), **facts.get("factors", {})), facts)


def _of_seed(runs: Runs, facts: Facts) -> Runs:
    return runs if "seed" not in facts else Runs(runs.name, {facts["seed"]: runs.by_seed[facts["seed"]]})


def _f1(facts: Facts) -> Figure:
    runs = _scored(facts)
    return runs.f1_by(facts["decoder"]) if facts.get("decoder") else runs.f1


def _baseline(name: str) -> Callable[[Facts], str]:
    return lambda facts: percent(of_baseline(_scored(facts).first, name).mean)


def _gold_baseline(facts: Facts, name: str) -> Figure:
    """Return F1 of a baseline from the report of the gold trees: of random trees, with its standard deviation."""
    return of_baseline(baselines(facts["scored_on"]), name)


def _random_distances(facts: Facts) -> Figure:
    """Return F1 of random distances by the same decoder; of random trees for other structures."""
    return _gold_baseline(facts, "random_biased" if facts["decoder"] == "biased" else "random")


def _without_training(facts: Facts) -> str:
    """Return F1 of random distances or trees, and of models with random weights, by the same decoder."""
    figures = _random_distances(facts), untrained(facts["experiment"], facts["decoder"])
    return " / ".join(percent(figure.mean) for figure in figures)


def _evaluated(facts: Facts) -> str:
    """Return the treebank with the number of its sentences, and the protocol."""
    report = _scored(facts).first
    return f"{facts['treebank']} ({report['sentences']:,}), `{report['protocol']}`"


def _shown(number: float, facts: Facts, usual_format: str = "") -> str:
    """Return a number in the format of a cell, with its unit."""
    unit = f" {facts['unit']}" if "unit" in facts else ""
    return f"{number:{facts.get('format', usual_format)}}{unit}"


def _report(facts: Facts) -> Facts:
    """Return the report of the only run with the facts of a cell."""
    return stored_report(facts["experiment"], run=facts["run"], **facts["facts"], **facts.get("factors", {}))


def _unknown_words(facts: Facts) -> str:
    report = _report(facts)
    return f"{report['unknown'] / report['tokens']:.1%}"


def _epochs(facts: Facts) -> str:
    epochs = Figure.of(float(report["epochs"]) for report in _training(facts).reports.values())
    return _shown(epochs.mean, facts, ".0f")


def _perplexity(facts: Facts) -> str:
    """Return the perplexity of trainings on a text, or that of a report, and its unit."""
    is_of_report = "facts" in facts
    value = Figure(_report(facts)["perplexity"]) if is_of_report else _training(facts).perplexity(facts["part"])
    return f"{perplexity(value)} {facts['unit']}" if "unit" in facts else perplexity(value)


def _beside(facts: Facts) -> str:
    """Return the perplexity of another model, after its label."""
    other = facts["beside"]
    shown = _perplexity({"part": facts["part"], **other}) + other.get("mark", "")
    return f"{other['label']} {shown}" if "label" in other else shown


def _perplexity_by_seed(facts: Facts) -> str:
    return ", ".join(f"{value:.1f}" for value in _training(facts).perplexity(facts["part"]).values)


def _perplexity_difference(facts: Facts) -> str:
    """Return the differences to the perplexities of a baseline with the same seeds, signed; "" without a baseline."""
    if "baseline" not in facts:
        return ""
    own, beside = (trained(facts["experiment"], facts[name]).perplexity(facts["part"]) for name in ("run", "baseline"))
    return ", ".join(f"{value - other:+.1f}" for value, other in zip(own.values, beside.values, strict=True))


def _agreement(facts: Facts) -> str:
    """Return the agreement of a seed's trees with those of the other seeds."""
    report = stored_report(facts["experiment"], what="agreement")
    return percent(report["with_others"][trained(facts["experiment"]).seeds.index(facts["seed"])])


def _attachment(facts: Facts) -> str:
    """Return the attachment score of a model, or of one of its baselines."""
    report = stored_report(facts["experiment"], what="attachment", run=facts["run"])
    scores = report["baselines"][facts["attachment_of"]] if "attachment_of" in facts else report
    return percent(scores[facts["side"]])


def _compared(facts: Facts) -> str:
    """Return a number of a recipe in a comparison of the experiment `compare`; "" if it was not compared."""
    rows = {row["recipe"]: row for row in stored_report("compare", run=facts["compared"])["rows"]}
    number = rows.get(facts["recipe"], {}).get(facts["key"], "")
    return f"{number['mean']:,.0f}" if isinstance(number, dict) else f"{number:,}" if number else ""


VALUES: dict[str, Callable[[Facts], str]] = {
    # of trees
    "f1": lambda facts: percent(_f1(facts)),
    "f1_by_seed": lambda facts: ", ".join(map(percent, _f1(facts).values)),
    "lowest_f1": lambda facts: percent(min(_f1(facts).values)),
    "right_branching": _baseline("right"),
    "left_branching": _baseline("left"),
    "balanced": _baseline("balanced"),
    "random": _baseline("random"),
    "binary_bound": _baseline("binary_bound"),
    "gold_baseline": lambda facts: percent(_gold_baseline(facts, facts["name"])),
    "random_distances": lambda facts: percent(_random_distances(facts)),
    "untrained": lambda facts: percent(untrained(facts["experiment"], facts["decoder"])),
    "without_training": _without_training,
    "evaluated": _evaluated,
    "seeds": lambda facts: _scored(facts).shown_seeds,
    "sentences": lambda facts: f"{_scored(facts).first['sentences']:,}",
    "decoder": lambda facts: f"`{facts['decoder']}`",
    "agreement": _agreement,
    "attachment": _attachment,
    # of trainings
    "trainings": lambda facts: str(_training(facts).count),
    "seeds_of_training": lambda facts: str(len(_training(facts).seeds) or ""),
    "perplexity": _perplexity,
    "beside": _beside,
    "perplexity_by_seed": _perplexity_by_seed,
    "perplexity_difference": _perplexity_difference,
    "epochs": _epochs,
    "minutes": lambda facts: _training(facts).shown_minutes,
    "steps": lambda facts: ", ".join(str(report["steps"]) for report in _training(facts).reports.values()),
    "parameters": lambda facts: short(_training(facts).first_run.parameters or 0),
    # of other reports
    "recipe": lambda facts: f"`{facts['recipe']}`",
    "compared": _compared,
    "report": lambda facts: _shown(_report(facts)[facts["key"]], facts),
    "unknown_words": _unknown_words,
}
