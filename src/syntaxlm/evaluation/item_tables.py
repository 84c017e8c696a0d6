"""The means and contrasts of items as tables for reading, and as JSON."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Any

from syntaxlm.core.errors import listed, shortened
from syntaxlm.evaluation.item_design import PLANNED, ItemCell, ItemContrast, ItemDesign
from syntaxlm.reports.tables import RIGHT, ReportTable
from syntaxlm.scoring.regions import combination
from syntaxlm.scoring.surprisal import MEASURES
from syntaxlm.statistics.intervals import Interval

_REGION_CHARACTERS = 40  # characters of a region in a table
_SMALLEST_P = 0.001  # smaller p values are not shown
_CELLS_NAMED = 5
_FORMULA_CHARACTERS = 80


def explain(design: ItemDesign) -> list[str]:
    """Return sentences on what the tables show."""
    others = [name for name in next(iter(design.values.values())) if name != "surprisal"]
    lines = [
        "Surprisal in bits, summed over the words of a region; ends of sentences are not included. Means over items,"
        " with 95% t intervals (2 items or more)" + ("; differences are within items." if design.several else ".")
    ]
    for how, what in (("sum", "summed over the words"), ("first", "of the first word"), ("last", "of the last word")):
        if names := [name for name in others if combination(name) == how]:
            lines.append(f"{', '.join(names)}: {what} of a region.")
    lines += _explain_contrasts(design)
    if missing := design.cells_missing:
        lines.append(
            f"The factors are not crossed: no sentence has {listed(map(' / '.join, missing), _CELLS_NAMED)}. Contrasts"
            f" that need it are omitted{', or leave out the items of its group' if design.between else ''}."
        )
    return lines


def _explain_contrasts(design: ItemDesign) -> list[str]:
    """Return sentences on what the contrasts compare, and on those that are missing."""
    lines = []
    factorial = {contrast.contrast for contrast in design.contrasts} - {PLANNED}
    tests = {contrast.test.test for contrast in design.contrasts}
    if design.contrasts:
        averaged = further = ""
        if len(factorial) > 1:
            averaged = ", averaged over other factors, and for interactions differences of differences"
        if factorial and any(len(levels) > 2 for levels in design.factors.values()):
            reference = "the first level" if design.coding == "treatment" else "the level before it"
            further = f" Further levels are compared with {reference}."
        lines.append(f"Contrasts: mean differences of levels{averaged}, with t tests over items.{further}")
    if "no variation" in tests:
        lines.append(
            "No variation: the contrast has the same value in all items, except for rounding errors, so there is no"
            " test."
        )

    # Factors between items.
    if compared := [name for name in design.between if name in design.compared and "Welch" in tests]:
        lines.append(
            f"Each item has one level of {' and '.join(compared)}, so contrasts of it compare groups of items"
            " (Welch's t test)."
        )
    if (others := [name for name in design.between if name not in design.compared]) and design.several:
        lines.append(
            f"Each item has one level of {' and '.join(others)}, and a level has one item only, so there are no"
            " contrasts of it."
        )
    if design.between and design.several:
        lines.append(
            f"Each item has one level of {' and '.join(design.between)}, so there are no intervals within items"
            " (within_low and within_high are empty). Bars of a picture are the 95% t intervals over items."
        )
    shown = {contrast.levels for contrast in design.contrasts}
    lines += [
        f"No item has all conditions of {shortened(formula, _FORMULA_CHARACTERS)}, so it is omitted."
        for formula in design.formulas
        if formula not in shown
    ]
    return lines


def design_tables(design: ItemDesign, labels: Mapping[str, str], label: Callable[[str], str]) -> list[ReportTable]:
    """Return tables of the means and contrasts of each model and measure, then of differences between models.

    Args:
        labels: what is shown of each region, by its name.
        label: returns what is shown of a condition.
    """
    shown = {name: shortened(text, _REGION_CHARACTERS) for name, text in labels.items()}
    tables = []
    for (model, measure), cells in groupby(design.cells, lambda cell: (cell.model, cell.measure)):
        title = model if measure == "surprisal" else f"{model}: {measure}"
        tables.append(_means(design, list(cells), shown, label, title))
        contrasts = [
            contrast
            for contrast in design.contrasts
            if (contrast.model, contrast.minus, contrast.measure) == (model, "", measure)
        ]
        tables.append(_contrasts(contrasts, shown, f"{title}, contrasts"))

    differences = [contrast for contrast in design.contrasts if contrast.minus]
    keys = attrgetter("model", "minus", "measure")
    for (model, minus, measure), of_models in groupby(differences, keys):
        title = f"{model} minus {minus}" + (f": {measure}" if measure != "surprisal" else "")
        tables.append(_contrasts(list(of_models), shown, f"{title}, contrasts"))
    return tables


def _means(
    design: ItemDesign, cells: Sequence[ItemCell], shown: Mapping[str, str], label: Callable[[str], str], title: str
) -> ReportTable:
    """Return the table of means of a model and measure."""
    has_known = any(cell.words != "all" for cell in cells)
    has_unknown = any(cell.n_unknown for cell in cells)
    measure = cells[0].measure
    form = "." + MEASURES[measure].format[1:] if measure in MEASURES and MEASURES[measure].format else ".2f"
    columns: list[tuple[str, str, list[Any]]] = [("region", "", [shown[cell.region] for cell in cells])]
    columns += [(name, "", [cell.levels[place] for cell in cells]) for place, name in enumerate(design.factors)]
    columns += [("words", "", [_words(cell.words) for cell in cells])] if has_known else []
    columns += [("items", ",", [cell.n_items for cell in cells])]
    columns += [("with unknown words", ",", [cell.n_unknown for cell in cells])] if has_unknown else []
    columns += [
        (measure, form, [cell.mean.value for cell in cells]),
        ("95%", "", [cell.mean.ends() for cell in cells]),
    ]
    if design.several:
        baseline = label(next(iter(design.conditions)))
        columns += [
            (f"minus {baseline}", form, [cell.difference and cell.difference.value for cell in cells]),
            ("95%", "", [cell.difference.ends() if cell.difference else "" for cell in cells]),
        ]
    return _table(columns, title)


def _contrasts(contrasts: Sequence[ItemContrast], shown: Mapping[str, str], title: str) -> ReportTable:
    """Return the table of contrasts of a model, or of the difference between two."""
    tests = [contrast.test for contrast in contrasts]
    has_known = any(contrast.words != "all" for contrast in contrasts)
    columns: list[tuple[str, str, list[Any]]] = [
        ("region", "", [shown[contrast.region] for contrast in contrasts]),
        ("contrast", "", [contrast.contrast for contrast in contrasts]),
        ("levels", "", [contrast.levels for contrast in contrasts]),
    ]
    columns += [("words", "", [_words(contrast.words) for contrast in contrasts])] if has_known else []
    columns += [
        ("items", ",", [test.n for test in tests]),
        ("estimate", ".2f", [test.estimate for test in tests]),
        ("95%", "", [Interval(*test[:3]).ends() for test in tests]),
        ("t", ".2f", [test.t for test in tests]),
        ("df", RIGHT, [_degrees(test.df) for test in tests]),
        ("p", RIGHT, [_p_value(test.p) for test in tests]),
    ]
    columns += [("test", "", [test.test for test in tests])] if {test.test for test in tests} != {"paired"} else []
    return _table(columns, title)


def _table(columns: Iterable[tuple[str, str, list[Any]]], title: str) -> ReportTable:
    """Return a table from its columns: heading, format and values. Equal headings get a space."""
    headings: dict[str, str] = {}
    lists = []
    for heading, form, values in columns:
        while heading in headings:
            heading += " "
        headings[heading] = form
        lists.append(values)
    return ReportTable(headings, list(zip(*lists, strict=True)), title)


def _words(words: str) -> str:
    return "all" if words == "all" else "known"


def _degrees(df: float) -> str:
    """Return degrees of freedom, which are not a whole number in Welch's test."""
    if math.isnan(df):
        return "-"
    return f"{df:,.0f}" if df.is_integer() else f"{df:,.2f}"


def _p_value(p: float) -> str:
    if math.isnan(p):
        return "-"
    return f"< {_SMALLEST_P}" if p < _SMALLEST_P else f"{p:.3f}"


def figures_of(design: ItemDesign) -> dict[str, Any]:
    """Return the means, differences and contrasts for JSON."""
    means, differences = [], []
    baseline = next(iter(design.conditions))
    for cell in design.cells:
        named = {
            "model": cell.model, "measure": cell.measure, "region": cell.region, "condition": cell.condition,
            "levels": dict(zip(design.factors, cell.levels, strict=True)), "words": cell.words,
        }  # fmt: skip
        within = {"within_low": cell.within.low, "within_high": cell.within.high}
        means.append({**named, "items": cell.n_items, "unknown": cell.n_unknown, **cell.mean._asdict(), **within})
        if cell.difference is not None:
            differences.append({**named, "minus": baseline, **cell.difference._asdict()})
    return {"means": means, "differences": differences, "contrasts": design.contrast_rows()}
