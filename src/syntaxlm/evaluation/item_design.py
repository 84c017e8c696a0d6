"""Means and contrasts of a factorial design over items, for one model or several."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from typing import Any, Literal, NamedTuple

import numpy as np

from syntaxlm.core.arrays import Flags, Integers, Numbers
from syntaxlm.core.declarations import Coding
from syntaxlm.data.tables import names_beside
from syntaxlm.reports.tables import Column, Columns
from syntaxlm.statistics.contrasts import Contrast, TTest, contrast_values, factorial_contrasts, t_test
from syntaxlm.statistics.intervals import Interval, intervals_within_units, mean_interval

Levels = tuple[str, ...]
Words = Literal["all", "words_known"]
PLANNED = "planned"  # name of the contrasts of formulas
MOST_CELLS = 256  # combinations of levels whose contrasts are computed

_WORDS = Column("text", "which items count: all, or words_known (without an unknown word up to the region)")
_BEFORE_FACTORS: Mapping[str, Column] = {
    "model": Column("text", "name of the model"),
    "measure": Column("text", "what was measured, such as surprisal"),
    "region": Column("text", "name of the region"),
}
_VALUES: Mapping[str, Column] = {
    "words": _WORDS,
    "n_items": Column("integer", "number of items"),
    "n_unknown": Column("integer", "number of these items whose sentence has an unknown word in the region or before"),
    "mean": Column("number", "mean over items, in the unit of the measure", ".2f"),
    "low": Column("number", "lower end of its 95% t interval over items", ".2f"),
    "high": Column("number", "upper end", ".2f"),
    "within_low": Column(
        "number",
        "lower end of its 95% interval within items (Cousineau-Morey), over the items with all conditions; missing if"
        " fewer than 2 items have all conditions, for example if each item has only one level of a factor",
        ".2f",
    ),
    "within_high": Column("number", "upper end", ".2f"),
    "difference": Column("number", "mean difference to the baseline, over items that have both conditions", ".2f"),
    "difference_low": Column("number", "lower end of its 95% t interval", ".2f"),
    "difference_high": Column("number", "upper end", ".2f"),
}
MEANS = Columns("means", "condition of a region, measure and model", {**_BEFORE_FACTORS, **_VALUES})
CONTRASTS = Columns(
    "contrasts",
    "contrast of a region, measure and model",
    {
        "model": _BEFORE_FACTORS["model"],
        "minus": Column("text", "the model whose contrast is subtracted, item by item; empty for none"),
        "measure": _BEFORE_FACTORS["measure"],
        "region": _BEFORE_FACTORS["region"],
        "words": _WORDS,
        "contrast": Column(
            "text", "the compared factors: one for a main effect, several for an interaction; planned for a formula"
        ),
        "levels": Column("text", "their compared levels, or the formula"),
        "estimate": Column("number", "mean of the contrast over items", ".2f"),
        "low": Column("number", "lower end of its 95% t interval", ".2f"),
        "high": Column("number", "upper end", ".2f"),
        "t": Column("number", "t of the test; missing if there is none", ".2f"),
        "df": Column(
            "number", "degrees of freedom: the number of items minus 1, or for Welch's test an estimate", ".2f"
        ),
        "p": Column("number", "two-sided p value", ".4f"),
        "n_items": Column("integer", "number of items that have all cells of the contrast"),
        "test": Column(
            "text",
            "paired (over the items' contrasts), Welch (between groups of items), or why there is no test: no variation"
            " (except for rounding errors) or too few items",
        ),
    },
)


class ItemCell(NamedTuple):
    """The mean of a region in a condition.

    Attributes:
        levels: of the condition.
        mean: with its t interval over items.
        within: with its interval within items.
        difference: to the baseline; None for the baseline itself, and without items that have both.
        n_unknown: number of the items whose sentence has an unknown word in the region or before it.
    """

    model: str
    measure: str
    region: str
    condition: str
    levels: Levels
    words: Words
    n_items: int
    n_unknown: int
    mean: Interval
    within: Interval
    difference: Interval | None


class ItemContrast(NamedTuple):
    """A contrast of a region.

    Attributes:
        minus: the model whose contrast is subtracted, "" for none.
        contrast: the compared factors, such as "head x attractor", or `PLANNED`.
        levels: the compared levels, such as "(pl - sg) x (pl - sg)", or the formula.
    """

    model: str
    minus: str
    measure: str
    region: str
    words: Words
    contrast: str
    levels: str
    test: TTest


class WeightedContrast(NamedTuple):
    """A contrast of the conditions of a design.

    Attributes:
        name: as in `ItemContrast`.
        levels: as in `ItemContrast`.
        weights: (C,) of the conditions; an item needs those with its own levels of the factors between items.
        grouping: the factors between items whose levels make groups of items, which are compared.
    """

    name: str
    levels: str
    weights: Numbers
    grouping: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class ItemDesign:
    """The values of items, R regions, C conditions and I items, and what follows from them.

    Attributes:
        values: (R, C, I) by model and measure; NaN for an item without the region or condition.
        unknown: (R, C, I) by model, whether the sentence has an unknown word in the region or before it.
        regions: the names of the regions.
        conditions: the levels of each condition by its name, the baseline first.
        factors: the levels of each factor, the baseline first.
        excluding: the regions for which there are means without items that have an unknown word.
        coding: how factors with more than two levels are compared; None for no contrasts of factors.
        formulas: (C,), the weights of further contrasts, by formula.
    """

    values: Mapping[str, Mapping[str, Numbers]]
    unknown: Mapping[str, Flags]
    regions: Sequence[str]
    conditions: Mapping[str, Levels]
    factors: Mapping[str, Levels]
    excluding: frozenset[str]
    coding: Coding | None = "treatment"
    formulas: Mapping[str, Numbers] = field(default_factory=dict)

    @property
    def several(self) -> bool:
        """Whether there are several conditions."""
        return len(self.conditions) > 1

    @cached_property
    def _is_there(self) -> Flags:
        """(C, I), whether an item has a sentence of a condition."""
        values = next(iter(next(iter(self.values.values())).values()))
        is_there: Flags = np.logical_or.reduce(~np.isnan(values))
        return is_there

    @cached_property
    def between(self) -> list[str]:
        """The factors of which each item has one level only, so that they cannot be compared within items."""
        levels = np.array(list(self.conditions.values()))
        names = []
        for place, (name, factor_levels) in enumerate(self.factors.items()):
            item_levels = [set(levels[has_condition, place]) for has_condition in self._is_there.T]
            if len(factor_levels) > 1 and all(len(item) < 2 for item in item_levels):
                names.append(name)
        return names

    @property
    def has_within(self) -> bool:
        """Whether there may be intervals within items, for which an item has all of several conditions."""
        return self.several and not self.between

    def complete_items(self, model: str, measure: str, region: str) -> int:
        """Return how many items have all conditions of a region: intervals within items are computed from these."""
        is_there: Flags = ~np.isnan(self.values[model][measure][self.regions.index(region)])
        return int(is_there[is_there.any(1)].all(0).sum())

    @cached_property
    def compared(self) -> list[str]:
        """The factors of contrasts: those that vary within items, or have two items or more of each level."""
        levels = np.array(list(self.conditions.values()))
        fewest = {
            name: min(self._is_there[levels[:, place] == level].any(0).sum() for level in self.factors[name])
            for place, name in enumerate(self.factors)
        }
        return [
            name
            for name, factor_levels in self.factors.items()
            if len(factor_levels) > 1 and (name not in self.between or fewest[name] > 1)
        ]

    @property
    def cells_missing(self) -> list[Levels]:
        """The combinations of levels that no condition has, if there are at most `MOST_CELLS`."""
        sizes = list(map(len, self.factors.values()))
        if math.prod(sizes) > MOST_CELLS:
            return []
        every = list(product(*self.factors.values()))
        return [levels for levels in every if levels not in set(self.conditions.values())]

    @cached_property
    def cells(self) -> tuple[ItemCell, ...]:
        """The means of all models, measures, regions and conditions that have items."""
        cells: list[ItemCell] = []
        for model, by_measure in self.values.items():
            for measure, values in by_measure.items():
                for place, region in enumerate(self.regions):
                    for words, kept in self._item_sets([model], place).items():
                        cells += self._cells_of(model, measure, region, words, values[place][:, kept], kept)
        return tuple(cells)

    def _item_sets(self, models: Sequence[str], region: int) -> dict[Words, Flags]:
        """Return which items count: all, and if others remain, those without an unknown word up to the region."""
        unknown: Flags = np.logical_or.reduce([self.unknown[model][region].any(0) for model in models])
        sets: dict[Words, Flags] = {"all": np.ones(len(unknown), np.bool_)}
        if self.regions[region] in self.excluding and unknown.any() and not unknown.all():
            sets["words_known"] = ~unknown
        return sets

    def _cells_of(
        self, model: str, measure: str, region: str, words: Words, values: Numbers, kept: Flags
    ) -> Iterator[ItemCell]:
        """Yield the means of a region.

        Args:
            values: (C, I) of the items that count.
            kept: which items count.
        """
        is_there: Flags = ~np.isnan(values)
        has_items: Flags = np.logical_or.reduce(is_there, axis=1)
        unknown = self.unknown[model][self.regions.index(region)][:, kept] & is_there
        within = iter(intervals_within_units(values[has_items])) if has_items.any() else iter(())
        for place, (condition, levels) in enumerate(self.conditions.items()):
            if not has_items[place]:
                continue
            condition_values = values[place][is_there[place]]
            differences = values[place] - values[0]
            differences = differences[~np.isnan(differences)]
            difference = mean_interval(differences) if place and len(differences) else None
            yield ItemCell(
                model,
                measure,
                region,
                condition,
                levels,
                words,
                n_items=len(condition_values),
                n_unknown=int(unknown[place].sum()),
                mean=mean_interval(condition_values),
                within=next(within),
                difference=difference,
            )

    @cached_property
    def contrasts(self) -> tuple[ItemContrast, ...]:
        """The contrasts of each model, then those of other models minus those of the first, item by item."""
        contrasts: list[ItemContrast] = []
        for model, by_measure in self.values.items():
            contrasts += self._contrasts_of(model, "", by_measure)
        (first, first_values), *others = self.values.items()
        for model, by_measure in others:
            differences = {measure: values - first_values[measure] for measure, values in by_measure.items()}
            contrasts += self._contrasts_of(model, first, differences)
        return tuple(contrasts)

    @cached_property
    def _planned(self) -> list[WeightedContrast]:
        """The contrasts of all compared factors, without those of missing conditions, and those of formulas."""
        factors = {name: self.factors[name] for name in self.compared}
        is_possible = self.coding is not None and math.prod(map(len, factors.values())) <= MOST_CELLS
        crossed = factorial_contrasts(factors, self.coding or "treatment") if is_possible else []
        weighted = [self._weighted(contrast, factors) for contrast in crossed]
        planned = [contrast for contrast in weighted if contrast is not None]
        between = tuple(self.between)
        for formula, weights in self.formulas.items():
            planned.append(WeightedContrast(PLANNED, formula, weights, between))
        return planned

    def _weighted(self, contrast: Contrast, factors: Mapping[str, Levels]) -> WeightedContrast | None:
        """Return a contrast of factors with the weights of conditions, or None if a condition of it is missing.

        Args:
            factors: the factors of the cells of the contrast.
        """
        order = [list(self.factors).index(name) for name in factors]
        levels_of = [tuple(levels[place] for place in order) for levels in self.conditions.values()]
        cells = dict(zip(product(*factors.values()), contrast.weights.ravel().tolist(), strict=True))
        weights = np.array([cells[levels] for levels in levels_of])
        between = tuple(name for name in factors if name in self.between)
        if set(contrast.factors).isdisjoint(between):
            # An item has one level of a factor between items, which is not averaged. Items whose level lacks a
            # condition of the contrast do not count: the sum of their other conditions is no difference.
            averaged = math.prod(len(factors[name]) for name in between)
            groups, _ = self._groups(self.between)
            present = np.bincount(groups, weights != 0)[groups]
            weights = np.where(present == np.count_nonzero(contrast.weights) // averaged, averaged * weights, 0.0)
            between = ()
        elif not all(levels in levels_of for levels, weight in cells.items() if weight):
            return None
        return WeightedContrast(contrast.name, contrast.levels, weights, between) if weights.any() else None

    def _groups(self, factors: Sequence[str]) -> tuple[Integers, Integers]:
        """Return the groups of conditions, (C,), and of items, (I,): those with the same levels of factors.

        Args:
            factors: of which each item has one level.
        """
        places = [list(self.factors).index(name) for name in factors]
        combinations = [tuple(levels[place] for place in places) for levels in self.conditions.values()]
        numbers = {levels: number for number, levels in enumerate(dict.fromkeys(combinations))}
        condition_groups = np.array([numbers[levels] for levels in combinations])
        return condition_groups, condition_groups[self._is_there.argmax(0)]

    def _contrasts_of(self, model: str, minus: str, by_measure: Mapping[str, Numbers]) -> Iterator[ItemContrast]:
        """Yield the contrasts of one model, or of a difference between two."""
        models = [model, minus] if minus else [model]
        for measure, values in by_measure.items():
            for place, region in enumerate(self.regions):
                largest = max(_largest(self.values[compared][measure][place]) for compared in models)
                for words, kept in self._item_sets(models, place).items():
                    for contrast in self._planned:
                        if groups := self._values_of(contrast, values[place], kept):
                            test = t_test(*groups, largest=largest)
                            name, levels = contrast.name, contrast.levels
                            yield ItemContrast(model, minus, measure, region, words, name, levels, test)

    def _values_of(self, contrast: WeightedContrast, values: Numbers, kept: Flags) -> list[Numbers]:
        """Return the values of a contrast of the items of each group; none if one group has no items.

        Args:
            values: (C, I).
            kept: (I,) which items count.
        """
        # An item needs the conditions with its own levels of the factors between items.
        condition_groups, item_groups = self._groups(self.between)
        weights = contrast.weights[:, None] * (condition_groups[:, None] == item_groups)
        contrasts = contrast_values(values, weights)

        is_used = kept & ~np.isnan(contrasts)
        _, item_groups = self._groups(contrast.grouping)
        needed = np.unique(item_groups[weights.any(0)]).tolist()
        groups = [contrasts[is_used & (item_groups == number)] for number in needed]
        return groups if all(map(len, groups)) else []

    def columns(self) -> Columns:
        """Return the columns of `mean_rows`: factors are between the region and the values."""
        names = names_beside(list(MEANS), list(self.factors))
        factors = {name: Column("text", "level of a factor") for name in names}
        return Columns(MEANS.name, MEANS.row, {**_BEFORE_FACTORS, **factors, **_VALUES})

    def mean_rows(self) -> list[dict[str, Any]]:
        """Return the means as rows, with a column for each factor."""
        names = names_beside(list(MEANS), list(self.factors))
        rows = []
        for cell in self.cells:
            difference = cell.difference or Interval(math.nan, math.nan, math.nan)
            factors = dict(zip(names, cell.levels, strict=True))
            named = {"model": cell.model, "measure": cell.measure, "region": cell.region, **factors}
            counts = {"words": cell.words, "n_items": cell.n_items, "n_unknown": cell.n_unknown}
            numbers = [*cell.mean, *cell.within[1:], *difference]
            rows.append(named | counts | dict(zip(list(_VALUES)[3:], map(_number, numbers), strict=True)))
        return rows

    def contrast_rows(self) -> list[dict[str, Any]]:
        """Return the contrasts as rows."""
        rows = []
        for contrast in self.contrasts:
            row = contrast._asdict()
            test = row.pop("test")._asdict()
            test["n_items"] = test.pop("n")
            rows.append(row | {name: value if name == "test" else _number(value) for name, value in test.items()})
        return rows


def _largest(values: Numbers) -> float:
    """Return the largest absolute value, 0 if there is none."""
    return float(np.nanmax(np.abs(values))) if np.isfinite(values).any() else 0.0


def _number(value: float) -> float | None:
    """Return a number for a row: None for NaN."""
    return None if math.isnan(value) else value
