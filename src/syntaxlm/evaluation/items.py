"""Surprisals of stimuli: sums by region of each item, and means by condition over items, for one model or several.

How a table of stimuli is read: see `Stimuli`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from syntaxlm.core.arrays import Numbers
from syntaxlm.core.errors import InputError, listed, shortened
from syntaxlm.core.reading import keeps_readings
from syntaxlm.core.settings import check_number
from syntaxlm.data.arguments import check_names, check_table, models_by_name, names_of, suggests_parameters
from syntaxlm.data.frequencies import Frequencies, FrequencySource
from syntaxlm.data.stimuli import Stimuli
from syntaxlm.data.tables import input_columns, names_beside
from syntaxlm.drawing.plot import Plot
from syntaxlm.evaluation.item_plot import plot_items
from syntaxlm.reports.report import HasReport, Report
from syntaxlm.reports.tables import Column, Columns, ReportTable, Row
from syntaxlm.scoring.options import MOST_SPILLOVER, ScoreOptions
from syntaxlm.scoring.word_table import WordScores, previous_name, score_words, with_previous, word_properties
from syntaxlm.statistics.intervals import Interval, mean_interval
from syntaxlm.storage.folder import ModelBundle
from syntaxlm.text.options import Contractions, Punctuation, TextOptions

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Value = TypeVar("Value")

_EXAMPLES = 5  # unknown words in a warning
_REGION_CHARACTERS = 40  # characters of a region in tables and pictures

REGION_COLUMNS: Mapping[str, Column] = {
    "region": Column("integer", "number of the region in the sentence, from 1"),
    "region_name": Column("text", "name of the region's column; its number if regions are separated in the text"),
    "region_text": Column("text", "its words"),
    "words": Column("integer", "number of its words"),
    "unknown": Column("integer", "number of its words that the vocabulary does not have"),
    "not_read": Column("integer", "number of its words of which the model reads nothing, such as a dash"),
    "surprisal": Column("number", "sum of the surprisals of its words, in bits", ".2f"),
    "length": Column("integer", "characters of its words"),
    "log_frequency": Column("number", "mean log frequency of its words, on the Zipf scale"),
}


@dataclass(frozen=True, eq=False)
class ItemsReport(HasReport):
    """The surprisals of stimuli by region, item and condition.

    Attributes:
        scores: the scores of each model, by name.
        frequencies: the frequencies of words; None without.
        spillover: number of words before a region.
        critical: name of the region that the question is about; None for all.
    """

    stimuli: Stimuli
    scores: Mapping[str, WordScores]
    frequencies: Frequencies | None = None
    spillover: int = 0
    critical: str | None = None

    def report(self) -> Report:
        conditions = list(dict.fromkeys(self.stimuli.conditions))
        tables = []
        means = []
        differences = []
        for model in self.scores:
            by_region = self.means[model]
            rows = []
            for name in by_region:
                for condition, interval in by_region[name].items():
                    means.append({"model": model, "region": name, "condition": condition, **interval._asdict()})
                    difference = self.differences[model][name].get(condition)
                    if difference is not None:
                        of = {"model": model, "region": name, "condition": condition, "minus": conditions[0]}
                        differences.append({**of, **difference._asdict()})
                    shown = [interval.value, interval.ends()]
                    shown += [None, ""] if difference is None else [difference.value, difference.ends()]
                    rows.append(
                        [
                            shortened(self.labels[name], _REGION_CHARACTERS),
                            condition,
                            self.sizes[name][condition],
                            *shown,
                        ]
                    )
            headings = {"region": "", "condition": "", "items": ",", "surprisal": ".2f", "95%": ""}
            headings |= {f"minus {conditions[0]}": ".2f", "95% ": ""} if len(conditions) > 1 else {}
            tables.append(ReportTable(headings, [row[: len(headings)] for row in rows], model))
        items = len(dict.fromkeys(self.stimuli.items))
        facts = {
            "stimuli": f"{self.stimuli.words.table.source}, {len(self.stimuli.items):,} sentences",
            "items": f"{items:,}", "conditions": f"{len(conditions):,}",
        }  # fmt: skip
        figures = {
            "models": list(self.scores), "items": items, "conditions": conditions, "means": means,
            "differences": differences,
            "unknown_words": {model: self._unknown(model) for model in self.scores},
        }  # fmt: skip
        explanation = (
            "Surprisal in bits, summed over the words of a region; ends of sentences are not included. Means over"
            " items, with 95% t intervals (2 items or more)"
            + ("; differences are within items." if len(conditions) > 1 else "."),
        )
        written = list(self._rows())
        name = "Surprisal by region and condition"
        return Report(self.columns, written, figures, facts, explanation, tables, warnings=self.warnings, name=name)

    @property
    def columns(self) -> Columns:  # type: ignore[override]  # they depend on the input
        """The columns: the model, those of the table, and those of the region."""
        added = self._added()
        table = self.stimuli.words.table
        copied = input_columns(list(added), table.names, table.values)
        return Columns("stimuli", "region of a stimulus, and model", added | copied)

    def _added(self) -> dict[str, Column]:
        added = dict(REGION_COLUMNS)
        if self.frequencies is None:
            del added["log_frequency"]
        for lag in range(1, self.spillover + 1):
            place = "the word before the region" if lag == 1 else f"the word {lag} words before"
            for name in ("surprisal", "length", "log_frequency"):
                if name in added:
                    kind = added[name].type
                    added[previous_name(name, lag)] = Column(kind, f"{name.replace('_', ' ')} of {place}")
        return {"model": Column("text", "name of the model")} | added

    def _rows(self) -> list[Row]:
        words = self.stimuli.words
        names = names_beside(list(self._added()), words.table.names)
        properties = word_properties(words, self.frequencies)
        rows: list[Row] = []
        for model, scores in self.scores.items():
            values = {"surprisal": np.nan_to_num(scores.surprisal), **properties}
            shifted = with_previous(values | {"surprisal": scores.surprisal}, words, self.spillover)
            previous = {name: column for name, column in shifted.items() if name not in values}
            unknown = scores.is_read & ~scores.known
            for cells, regions in zip(words.table.values, self.stimuli.regions, strict=True):
                others = dict(zip(names, cells, strict=True))
                for number, (name, text, first, end) in enumerate(regions, 1):
                    region: dict[str, Any] = {
                        "model": model, "region": number, "region_name": name, "region_text": text,
                        "words": end - first,
                        "unknown": int(unknown[first:end].sum()), "not_read": int((~scores.is_read[first:end]).sum()),
                        "surprisal": round(float(values["surprisal"][first:end].sum()), 6),
                        "length": int(values["length"][first:end].sum()),
                    }  # fmt: skip
                    of_words = {name: column[first] if first < end else np.nan for name, column in previous.items()}
                    if self.frequencies is not None:
                        mean = values["log_frequency"][first:end].mean() if first < end else np.nan
                        of_words = {"log_frequency": mean} | of_words
                    region |= {name: _number(value, name) for name, value in of_words.items()}
                    rows.append(region | others)
        return rows

    @cached_property
    def labels(self) -> dict[str, str]:
        """What tables and pictures show of each region: its name, and its text if all sentences have the same."""
        texts: dict[str, set[str]] = {}
        for region in chain.from_iterable(self.stimuli.regions):
            texts.setdefault(region.name, set()).add(region.text)
        return {name: f"{name} {next(iter(own))}".strip() if len(own) == 1 else name for name, own in texts.items()}

    @cached_property
    def _by_item(self) -> dict[str, Numbers]:
        """The mean surprisal by region, condition and item of each model, (R, C, I); NaN without such a sentence."""
        stimuli = self.stimuli
        axes = [list(dict.fromkeys(names)) for names in (self.labels, stimuli.conditions, stimuli.items)]
        region_of, condition_of, item_of = ({name: place for place, name in enumerate(names)} for names in axes)
        shape = tuple(map(len, axes))

        # A sentence without words of a region does not count.
        sentences = [
            (region_of[region.name], condition_of[condition], item_of[item], region.first, region.end)
            for item, condition, regions in zip(stimuli.items, stimuli.conditions, stimuli.regions, strict=True)
            for region in regions
            if region.text
        ]
        *cells, firsts, ends = np.array(sentences).T
        index = np.ravel_multi_index(tuple(cells), shape)
        counts = np.bincount(index, minlength=math.prod(shape))

        means = {}
        for model, scores in self.scores.items():
            bits = np.nan_to_num(scores.surprisal)
            sums = [bits[first:end].sum() for first, end in zip(firsts, ends, strict=True)]
            totals = np.bincount(index, sums, minlength=math.prod(shape))
            means[model] = np.where(counts > 0, totals / np.maximum(counts, 1), np.nan).reshape(shape)
        return means

    @cached_property
    def sizes(self) -> dict[str, dict[str, int]]:
        """The number of items of each region and condition."""
        return self._by_region(next(iter(self._by_item.values())), len)

    @cached_property
    def means(self) -> dict[str, dict[str, dict[str, Interval]]]:
        """The mean surprisal of each model, region and condition over items."""
        return {model: self._by_region(bits, mean_interval) for model, bits in self._by_item.items()}

    @cached_property
    def differences(self) -> dict[str, dict[str, dict[str, Interval]]]:
        """The mean difference to the first condition, over the items that have both."""
        differences = {}
        for model, bits in self._by_item.items():
            minus_first = bits - bits[:, :1]
            minus_first[:, 0] = np.nan  # the first condition itself
            differences[model] = self._by_region(minus_first, mean_interval)
        return differences

    def _by_region(self, values: Numbers, of_items: Callable[[Numbers], Value]) -> dict[str, dict[str, Value]]:
        """Return a function of the values of the items of each region and condition that have any.

        Args:
            values: (R, C, I), NaN for an item without a value.
            of_items: the function.
        """
        conditions = list(dict.fromkeys(self.stimuli.conditions))
        return {
            region: {
                condition: of_items(row[~np.isnan(row)])
                for condition, row in zip(conditions, rows, strict=True)
                if not np.isnan(row).all()
            }
            for region, rows in zip(self.labels, values, strict=True)
        }

    def _unknown(self, model: str) -> dict[str, list[str]]:
        """Return the unknown words of each item in the critical region, or in all regions."""
        scores, found = self.scores[model], dict[str, list[str]]()
        is_unknown = scores.is_read & ~scores.known
        for item, regions in zip(self.stimuli.items, self.stimuli.regions, strict=True):
            asked = [region for region in regions if self.critical in (None, region.name)]
            places = (place for region in asked for place in range(region.first, region.end) if is_unknown[place])
            if unknown := [self.stimuli.words.words[place] for place in places]:
                found.setdefault(item, []).extend(unknown)
        return {item: list(dict.fromkeys(words)) for item, words in found.items()}

    @property
    def warnings(self) -> list[str]:
        """Lines on regions and conditions that sentences lack, and for each model on unknown words and sentences read
        alike.
        """
        items = len(dict.fromkeys(self.stimuli.items))
        lines = self._uneven()
        for model in self.scores:
            if unknown := self._unknown(model):
                place = "" if self.critical is None else f" in region {self.critical}"
                examples = [f"item {item}: {', '.join(words)}" for item, words in list(unknown.items())[:_EXAMPLES]]
                more = "; ..." if len(unknown) > _EXAMPLES else ""
                lines.append(
                    f"{model}: unknown words{place} in {len(unknown):,} of {items:,} items"
                    f" ({len(unknown) / items:.0%}): {'; '.join(examples)}{more}. The surprisal of an unknown word is"
                    " not informative"
                )
            if alike := self._alike(model):
                lines.append(
                    f"{model}: cannot distinguish sentences of {len(alike):,} of {items:,} items, which differ only in"
                    f" what it does not read or know, such as those of item {alike[0]}"
                )
        return lines

    def _uneven(self) -> list[str]:
        """Return lines on sentences with fewer regions or without a region, and on items without a condition."""
        lines, numbers = [], list(map(len, self.stimuli.regions))
        if len(set(numbers)) > 1 and not self.stimuli.are_words:
            fewest, most = (numbers.index(extreme(numbers)) for extreme in (min, max))
            place = self.stimuli.words.table.place
            lines.append(
                f"sentences have different numbers of regions: {numbers[fewest]} in {place(fewest)}, {numbers[most]} in"
                f" {place(most)}. Regions with the same number are compared"
            )
        empty = [
            item
            for item, regions in zip(self.stimuli.items, self.stimuli.regions, strict=True)
            if any(region.name == self.critical and not region.text for region in regions)
        ]
        if empty:
            lines.append(
                f"region {self.critical} has no words in item {', '.join(empty[:_EXAMPLES])}; not in the means"
            )
        conditions = dict.fromkeys(self.stimuli.conditions)
        pairs = Counter(zip(self.stimuli.items, self.stimuli.conditions, strict=True))
        repeated = [f"item {item}, condition {one}" for (item, one), count in pairs.items() if count > 1]
        if repeated:
            lines.append(f"several sentences are averaged: {'; '.join(repeated[:_EXAMPLES])}")
        for one in conditions:
            lacking = [item for item in dict.fromkeys(self.stimuli.items) if (item, one) not in pairs]
            if lacking:
                shown = ", ".join(lacking[:_EXAMPLES]) + (", ..." if len(lacking) > _EXAMPLES else "")
                lines.append(
                    f"condition {one}: missing in {len(lacking):,} items ({shown}), which are not in the differences"
                )
        return lines

    def _alike(self, model: str) -> list[str]:
        """Return the items with several sentences that differ as written, but not as the model reads them."""
        words, tokens = self.stimuli.words, self.scores[model].tokens
        found: dict[tuple[str, str], set[str]] = {}
        for item, (first, end) in zip(self.stimuli.items, words.spans(words.rows), strict=True):
            read = " ".join(filter(None, tokens[first:end]))
            found.setdefault((item, read), set()).add(" ".join(words.words[first:end]))
        return list(dict.fromkeys(item for (item, _), written in found.items() if len(written) > 1))

    def plot(self, ax: Axes | Sequence[Axes] | None = None) -> Plot:
        """Return the mean surprisals by region and condition with 95% intervals, a panel for each model.

        Args:
            ax: axes of matplotlib to draw on, one per model, instead of a new figure

        Raises:
            InputError: there are too many conditions for one plot, or matplotlib is not installed.
        """
        texts = {name: label.removeprefix(name).strip() for name, label in self.labels.items()}
        return plot_items(self.means, texts, self.stimuli.levels_by_condition, ax)


@suggests_parameters
@keeps_readings
def evaluate_items(
    models: ModelBundle | Mapping[str, ModelBundle],
    table: Any,
    column: str | None = None,
    *,
    item: str = "item",
    condition: str | Sequence[str] = "condition",
    regions: str | Sequence[str] = (),
    separator: str | None = None,
    critical: str | None = None,
    frequencies: FrequencySource | None = None,
    spillover: int = 0,
    punctuation: Punctuation = "auto",
    contractions: Contractions = "auto",
) -> ItemsReport:
    """Sum the surprisals of stimuli by region, each sentence by itself, and average them by condition over items.

    The result has `to_dataframe()`, with a row per region, and `plot()`.

    Args:
        models: one model, or several by name.
        table: a file or data frame with one stimulus per row; or `Stimuli`, which have been read.
        column: the sentences of the table, by default "sentence".
        item: the column of items.
        condition: the column of conditions, or several.
        regions: columns with the regions, instead of `column`.
        separator: the sign between the regions of a sentence, by default "|"; without it, each word is a region.
        critical: the region whose unknown words are reported, see `StimulusRegion`; None: all.
        frequencies: see `syntaxlm.Frequencies.read`; None: no log frequency.
        spillover: number of words before each region whose values are columns.
        punctuation: how punctuation marks are split off before a model reads the text, see `TextOptions`.
        contractions: how contractions are split before a model reads the text, see `TextOptions`.

    Raises:
        InputError: for the reasons of `Stimuli.read` and `score_words`, and if no sentence has the critical region.

    Examples:
        >>> report = syntaxlm.evaluate_items(trained, "stimuli.csv")
        >>> [row["region"] for row in report.rows()]
        [1, 2, 1, 2]
    """
    check_number("spillover", spillover, 0, MOST_SPILLOVER)
    named = models_by_name(models)
    style = TextOptions(punctuation=punctuation, contractions=contractions)
    if isinstance(table, Stimuli):
        stimuli = table
    else:
        check_table(table, "table")
        check_names(column=column, item=item, separator=separator)
        conditions = names_of(condition, "condition")
        columns = names_of(regions, "regions")
        stimuli = Stimuli.read(table, column, item=item, condition=conditions, regions=columns, separator=separator)
    if critical is not None and critical not in stimuli.region_names:
        names = listed(stimuli.region_names)
        raise InputError(f"critical: found {critical!r}; expected the name of a region, a string: {names}")
    counts = None if frequencies is None else Frequencies.read(frequencies)
    options = ScoreOptions(punctuation=style.punctuation, contractions=style.contractions)
    scores = {name: score_words(bundle, stimuli.words, options, name) for name, bundle in named.items()}
    return ItemsReport(stimuli, scores, counts, spillover, critical)


def _number(value: float, name: str) -> float | None:
    """Return the value of a column for a row: None for NaN, a whole number for a length."""
    return None if np.isnan(value) else int(value) if "length" in name else round(float(value), 6)
