"""Tables that are specified as YAML: which stored runs are their lines, and which values their columns.

tables.yaml has the tables by the name of their block. A table has `columns` and `lines`. A column has a heading and the
name of a value, or it takes the next of the line's `cells`. The facts of a cell are those of the table, of the column
and of the line, later ones first:

    experiment, run, factors, facts: the stored runs
    scored_on: a name in EVALUATION_SETS; of several, the first that is stored
    decoder: of F1; without one, that of the reports; of several, the values are separated by slashes
    part: of the text of perplexity, valid or test
    key: place of a value in a report, such as test.perplexity; of several, the values are separated by `between`
    format, times, unit: of a number
    names: of values, for readers

A line or a column with `each_seed` stands for one for each seed, a line with `each_run` for one for each stored run
with these facts, and a line with `each` for one for each item at this place of the report. A line can have values that
it is `without` or that it has `only`, values that stand `instead` of others ({f1: right_branching}), `fixed` texts of
values, or only `texts`. Cells with the fact `optional` are empty if nothing is stored; a line with `if_stored` is left
out if its run has no stored results.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

from laboratory.pages.markdown import table
from laboratory.pages.table_values import VALUES, Facts, at, report_of, scored_of, training_of
from laboratory.results.store import select
from syntaxlm.core.yaml_files import read_yaml

SPECIFICATIONS = Path(__file__).with_name("tables.yaml")


@cache
def specifications() -> dict[str, dict[str, Any]]:
    """Return the specifications of all tables, by name."""
    read: dict[str, dict[str, Any]] = read_yaml(SPECIFICATIONS)
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
    lines = list(chain.from_iterable(_lines(line, shared) for line in specification["lines"]))
    first = {**shared, **lines[0]}
    columns = list(chain.from_iterable(_columns(column, first) for column in specification["columns"]))
    return table([column["heading"] for column in columns], (_cells(line, columns, shared) for line in lines))


def _lines(line: Facts, shared: Facts) -> Iterator[Facts]:
    """Yield a line, or one for each seed of its trainings, which is its last text, or for each run or item."""
    facts = {**shared, **line}
    if line.get("if_stored") and not select(facts["experiment"], run=facts["run"]):
        return
    if line.get("each_seed"):
        for seed in training_of(facts).seeds:
            yield {**line, "cells": [*line.get("cells", ()), str(seed)], "seed": seed}
        return
    lines: list[Facts] = [line]
    if "each_run" in line:
        runs = select(facts["experiment"], **line["each_run"])
        lines = [{**line, "run": run.run, "report": run.report} for run in runs]
    for run_line in lines:
        if "each" in line:
            items = at(report_of({**shared, **run_line}), line["each"])
            yield from ({**run_line, "report": item, "number": number} for number, item in enumerate(items, 1))
        else:
            yield run_line


def _columns(column: Facts, first: Facts) -> Iterator[Facts]:
    """Yield a column, or one for each seed of the first line."""
    if not column.get("each_seed"):
        yield column
        return
    for seed in scored_of({**first, **column}).seeds:
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
    replacement = facts.get("instead", {}).get(name, name)
    names = replacement if isinstance(replacement, list) else [replacement]
    return " / ".join(_value(each_name, facts) for each_name in names)


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
