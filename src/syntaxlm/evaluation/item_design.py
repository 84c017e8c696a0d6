"""Means and contrasts of a factorial design over items, for one model or several."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any, Literal, NamedTuple

import numpy as np

from syntaxlm.core.arrays import Flags, Numbers
from syntaxlm.core.declarations import Coding
from syntaxlm.data.tables import names_beside
from syntaxlm.reports.tables import Column, Columns
from syntaxlm.statistics.contrasts import Contrast, TTest, contrast_values, factorial_contrasts, t_test
from syntaxlm.statistics.intervals import Interval, intervals_within_units, mean_interval

Levels = tuple[str, ...]
Words = Literal["all", "words_known"]
MOST_CELLS = 256  # combinations of levels whose contrasts are computed

_WORDS = Column("text", "items that are counted: all, or words_known, those without an unknown word up to the region")
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
    "within_low": Column("number", "lower end of its 95% interval within items (Cousineau-Morey)", ".2f"),
    "within_high": Column("number", "upper end", ".2f"),
    "difference": Column("number", "mean difference to the baseline, over items that have both", ".2f"),
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
        "contrast": Column("text", "the compared factors: one for a main effect, several for an interaction"),
        "levels": Column("text", "their compared levels"),
        "estimate": Column("number", "mean of the contrast over items", ".2f"),
        "low": Column("number", "lower end of its 95% t interval", ".2f"),
        "high": Column("number", "upper end", ".2f"),
        "t": Column("number", "t of a one-sample test over items; missing if the items do not vary", ".2f"),
        "df": Column("integer", "degrees of freedom, the number of items minus 1"),
        "p": Column("number", "two-sided p value; missing if the items do not vary", ".4f"),
        "n_items": Column("integer", "number of items that have all cells of the contrast"),
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
        contrast: the compared factors, such as "head x attractor".
        levels: the compared levels, such as "(pl - sg) x (pl - sg)".
    """

    model: str
    minus: str
    measure: str
    region: str
    words: Words
    contrast: str
    levels: str
    test: TTest


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
        coding: how factors with more than two levels are compared.
    """

    values: Mapping[str, Mapping[str, Numbers]]
    unknown: Mapping[str, Flags]
    regions: Sequence[str]
    conditions: Mapping[str, Levels]
    factors: Mapping[str, Levels]
    excluding: frozenset[str]
    coding: Coding = "treatment"

    @property
    def several(self) -> bool:
        """Whether there are several conditions."""
        return len(self.conditions) > 1

    @cached_property
    def between(self) -> list[str]:
        """The factors of which each item has one level only, so that they cannot be compared within items."""
        values = next(iter(next(iter(self.values.values())).values()))
        is_there = np.logical_or.reduce(~np.isnan(values))  # (C, I)
        levels = np.array(list(self.conditions.values()))
        return [
            name
            for place, name in enumerate(self.factors)
            if len(self.factors[name]) > 1 and all(len(set(levels[of_item, place])) < 2 for of_item in is_there.T)
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
        return tuple(
            cell
            for model, by_measure in self.values.items()
            for measure, values in by_measure.items()
            for place, region in enumerate(self.regions)
            for words, kept in self._item_sets([model], place).items()
            for cell in self._cells_of(model, measure, region, words, values[place][:, kept], kept)
        )

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
            own = values[place][is_there[place]]
            differences = values[place] - values[0]
            differences = differences[~np.isnan(differences)]
            difference = mean_interval(differences) if place and len(differences) else None
            counts = len(own), int(unknown[place].sum())
            yield ItemCell(
                model, measure, region, condition, levels, words, *counts, mean_interval(own), next(within), difference
            )

    @cached_property
    def contrasts(self) -> tuple[ItemContrast, ...]:
        """The contrasts of each model, then those of other models minus those of the first, item by item."""
        (first, of_first), *others = self.values.items()
        found = [one for model, values in self.values.items() for one in self._contrasts_of(model, "", values)]
        for model, by_measure in others:
            differences = {measure: values - of_first[measure] for measure, values in by_measure.items()}
            found += self._contrasts_of(model, first, differences)
        return tuple(found)

    @cached_property
    def _planned(self) -> list[Contrast]:
        """The contrasts of all factors that vary within items."""
        if math.prod(map(len, self._within.values())) > MOST_CELLS:
            return []
        return factorial_contrasts(self._within, self.coding)

    @cached_property
    def _within(self) -> dict[str, Levels]:
        """The factors that vary within items."""
        between = self.between
        return {name: levels for name, levels in self.factors.items() if name not in between and len(levels) > 1}

    def _contrasts_of(self, model: str, minus: str, by_measure: Mapping[str, Numbers]) -> Iterator[ItemContrast]:
        """Yield the contrasts of one model, or of a difference between two."""
        models = [model, minus] if minus else [model]
        for measure, values in by_measure.items() if self._planned else ():
            for place, region in enumerate(self.regions):
                crossed = self._crossed(values[place])
                for words, kept in self._item_sets(models, place).items():
                    for contrast in self._planned:
                        of_items = contrast_values(crossed, contrast.weights.ravel())[kept]
                        of_items = of_items[~np.isnan(of_items)]
                        if len(of_items):
                            named = contrast.name, contrast.levels
                            yield ItemContrast(model, minus, measure, region, words, *named, t_test(of_items))

    def _crossed(self, values: Numbers) -> Numbers:
        """Return the cells of the factors that vary within items, (C, I) -> (cells, I); NaN where there is none.

        Cells that differ only in other factors are averaged; an item has one of them.
        """
        sizes = list(map(len, self._within.values()))
        levels = [dict(zip(self.factors, own, strict=True)) for own in self.conditions.values()]
        places = [[each.index(of[name]) for of in levels] for name, each in self._within.items()]
        index = np.ravel_multi_index(tuple(map(np.array, places)), sizes)
        cells = np.full((math.prod(sizes), values.shape[1]), np.nan)
        for cell in np.unique(index):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", RuntimeWarning)  # items without any of these
                cells[cell] = np.nanmean(values[index == cell], 0)
        return cells

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
        for one in self.contrasts:
            named = one._asdict()
            test = named.pop("test")._asdict()
            test["n_items"] = test.pop("n")
            rows.append(named | {name: _number(value) for name, value in test.items()})
        return rows


def _number(value: float) -> float | None:
    """Return a number for a row: None for NaN."""
    return None if math.isnan(value) else value
