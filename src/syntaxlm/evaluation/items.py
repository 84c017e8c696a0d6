"""Surprisals of stimuli: sums by region of each item, and means by condition over items, for one model or several.

How a table of stimuli is read: see `Stimuli`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeVar, get_args

import numpy as np

from syntaxlm.core.arrays import Flags, Numbers
from syntaxlm.core.declarations import Coding, ItemTable
from syntaxlm.core.errors import InputError, listed
from syntaxlm.core.reading import keeps_readings
from syntaxlm.core.settings import check_number
from syntaxlm.data.arguments import check_names, check_table, models_by_name, names_of, suggests_parameters
from syntaxlm.data.frequencies import Frequencies, FrequencySource
from syntaxlm.data.stimuli import Stimuli, StimulusRegion
from syntaxlm.data.tables import input_columns, names_beside
from syntaxlm.drawing.plot import Plot
from syntaxlm.evaluation.contrast_formulas import read_contrasts
from syntaxlm.evaluation.item_design import CONTRASTS, ItemCell, ItemDesign
from syntaxlm.evaluation.item_plot import (
    PictureKind,
    PlottedDesign,
    check_plotted_regions,
    plot_contrasts,
    plot_means,
)
from syntaxlm.evaluation.item_tables import design_tables, explain, figures_of
from syntaxlm.evaluation.item_warnings import unknown_words, warnings_of
from syntaxlm.parsing.word_measures import word_scorer
from syntaxlm.reports.report import HasReport, Report
from syntaxlm.reports.tables import Column, Columns, Row
from syntaxlm.reports.writers import dataframe
from syntaxlm.scoring.options import MOST_SPILLOVER, Measure, ScoreOptions
from syntaxlm.scoring.regions import combined
from syntaxlm.scoring.surprisal import MEASURES
from syntaxlm.scoring.word_table import (
    WordScores,
    check_scores_words,
    previous_name,
    score_words,
    with_previous,
    word_properties,
)
from syntaxlm.statistics.intervals import Interval
from syntaxlm.storage.folder import ModelBundle
from syntaxlm.text.options import Contractions, Punctuation

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Value = TypeVar("Value")

REGION_COLUMNS: Mapping[str, Column] = {
    "region": Column("integer", "number of the region in the sentence, from 1"),
    "region_name": Column("text", "name of the region's column; its number if regions are separated in the text"),
    "region_text": Column("text", "its words"),
    "words": Column("integer", "number of its words"),
    "unknown": Column("integer", "number of its words that the vocabulary does not have"),
    "not_read": Column("integer", "number of its words of which the model reads nothing, such as a dash"),
    "surprisal": Column("number", "sum of the surprisals of its words, in bits; missing if nothing is read", ".2f"),
    "surprisal_word": Column(
        "number", "the part of the surprisal that is not of punctuation marks; missing if only marks are read", ".2f"
    ),
    "surprisal_marks": Column("number", "the part of its punctuation marks; missing if nothing is read", ".2f"),
    "tokens": Column("integer", "number of its tokens; if the model splits tokens into sub-tokens, of these"),
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
        measures: what was measured in addition to surprisal.
        coding: how factors with more than two levels are compared; None for no contrasts of factors.
        formulas: the weights of further contrasts of conditions, by formula.
    """

    stimuli: Stimuli
    scores: Mapping[str, WordScores]
    frequencies: Frequencies | None = None
    spillover: int = 0
    critical: str | None = None
    measures: tuple[Measure, ...] = ()
    coding: Coding | None = "treatment"
    formulas: Mapping[str, Numbers] = field(default_factory=dict)

    def report(self, table: ItemTable = "regions") -> Report:
        """Return the means and contrasts.

        Args:
            table: what the rows of files and data frames are.
        """
        columns, rows = self._table(table)
        items = len(dict.fromkeys(self.stimuli.items))
        facts = {
            "stimuli": f"{self.stimuli.words.table.source}, {len(self.stimuli.items):,} sentences",
            "items": f"{items:,}", "conditions": f"{len(self.design.conditions):,}",
        }  # fmt: skip
        figures = {
            "models": list(self.scores), "items": items, "conditions": list(self.design.conditions),
            "factors": self.design.factors,
            **figures_of(self.design),
            "unknown_words": {
                model: unknown_words(self.stimuli, scores, self.critical) for model, scores in self.scores.items()
            },
        }  # fmt: skip
        tables = design_tables(self.design, self.labels, self.stimuli.label)
        explanation = explain(self.design)
        name = "Surprisal by region and condition"
        return Report(columns, rows, figures, facts, explanation, tables, warnings=self.warnings, name=name)

    def _table(self, table: ItemTable) -> tuple[Columns, list[Row]]:
        """Return the columns and rows of a table. Raises InputError for another name."""
        if table == "regions":
            return self.columns, list(self._rows())
        if table == "means":
            return self.design.columns(), list(self.design.mean_rows())
        if table == "contrasts":
            return CONTRASTS, list(self.design.contrast_rows())
        raise InputError(f"table: found {table!r}; expected one of {', '.join(get_args(ItemTable))}")

    def to_dataframe(self, table: ItemTable = "regions") -> Any:
        """Return a table as a pandas.DataFrame or, if pandas is not installed, a polars.DataFrame.

        Args:
            table: "regions", a row for each region of each sentence; "means", a row for each mean, with a column for
                each factor; or "contrasts", a row for each main effect and interaction.

        Raises:
            InputError: for another name of a table.
        """
        columns, rows = self._table(table)
        return dataframe(rows, columns)

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
        added |= {name: MEASURES[name]._replace(type="number") for name in self.measures}
        for lag in range(1, self.spillover + 1):
            place = "the word before the region" if lag == 1 else f"the word {lag} words before"
            for name in ("surprisal", "length", "log_frequency"):
                if name in added:
                    kind = added[name].type
                    added[previous_name(name, lag)] = Column(kind, f"{name.replace('_', ' ')} of {place}")
        return {"model": Column("text", "name of the model")} | added

    def _rows(self) -> list[Row]:
        words = self.stimuli.words
        added = self._added()
        names = names_beside(list(added), words.table.names)
        properties = word_properties(words, self.frequencies)
        rows: list[Row] = []
        for model, scores in self.scores.items():
            shifted = with_previous({"surprisal": scores.surprisal, **properties}, words, self.spillover)
            previous = {name: column for name, column in shifted.items() if name not in ("surprisal", *properties)}
            is_read = {name: scores.read_for(name) for name in scores.measures}
            for regions in self.stimuli.regions:
                for number, region in enumerate(regions, 1):
                    row = {"model": model, "region": number, **_region_values(region, scores, properties)}
                    place = slice(region.first, region.end)
                    row |= {
                        name: _number(combined(name, of_measure[place], is_read[name][place]), added[name])
                        for name, of_measure in scores.measures.items()
                    }
                    row |= {
                        name: _number(column[region.first], added[name]) if region.text else None
                        for name, column in previous.items()
                    }
                    others = zip(names, words.table.values[region.row], strict=True)
                    rows.append(row | dict(others))
        return rows

    @cached_property
    def labels(self) -> dict[str, str]:
        """What tables and pictures show of each region: its name, and its text if all sentences have the same."""
        texts: dict[str, set[str]] = {}
        for region in chain.from_iterable(self.stimuli.regions):
            texts.setdefault(region.name, set()).add(region.text)
        shown = {name: f"{name} {' '.join(each)}".strip() if len(each) == 1 else name for name, each in texts.items()}
        return {name: shown[name] for name in self.stimuli.region_names}

    @cached_property
    def design(self) -> ItemDesign:
        """The values of items by region and condition, with their means and contrasts."""
        stimuli, conditions = self.stimuli, self.stimuli.levels_by_condition
        axes = [list(self.labels), list(conditions), list(dict.fromkeys(stimuli.items))]
        region_of, condition_of, item_of = ({name: place for place, name in enumerate(names)} for names in axes)
        shape = tuple(map(len, axes))

        # A sentence without words of a region does not count.
        sentences = [
            (region_of[region.name], condition_of[condition], item_of[item], regions[0].first, region.first, region.end)
            for item, condition, regions in zip(stimuli.items, stimuli.conditions, stimuli.regions, strict=True)
            for region in regions
            if region.text
        ]
        *cells, starts, firsts, ends = np.array(sentences).T
        index = np.ravel_multi_index(tuple(cells), shape)

        def cell_means(of_sentences: Sequence[float]) -> Numbers:
            """Return the means over the sentences of each cell that have a value, NaN without one."""
            values = np.array(of_sentences, float)
            has_value = np.isfinite(values)
            counts = np.bincount(index[has_value], minlength=math.prod(shape))
            totals = np.bincount(index[has_value], values[has_value], minlength=math.prod(shape))
            return np.where(counts > 0, totals / np.maximum(counts, 1), np.nan).reshape(shape)

        values, unknown = dict[str, dict[str, Numbers]](), dict[str, Flags]()
        for model, scores in self.scores.items():
            of_words = {"surprisal": scores.surprisal, **scores.measures}
            values[model] = {}
            for measure, words in of_words.items():
                is_read = scores.read_for(measure)
                places = map(slice, firsts, ends)
                values[model][measure] = cell_means([combined(measure, words[at], is_read[at]) for at in places])
            is_unknown = scores.is_read & ~scores.known
            has_unknown = [float(is_unknown[start:end].any()) for start, end in zip(starts, ends, strict=True)]
            unknown[model] = cell_means(has_unknown) > 0
        excluding = frozenset(self.labels if self.critical is None else [self.critical])
        return ItemDesign(values, unknown, axes[0], conditions, stimuli.factors, excluding, self.coding, self.formulas)

    @property
    def sizes(self) -> dict[str, dict[str, int]]:
        """The number of items of each region and condition."""
        first = next(iter(self.scores))
        return self._of_all_items(first, lambda cell: cell.n_items)

    @property
    def means(self) -> dict[str, dict[str, dict[str, Interval]]]:
        """The mean surprisal of each model, region and condition over items."""
        return {model: self._of_all_items(model, lambda cell: cell.mean) for model in self.scores}

    @property
    def differences(self) -> dict[str, dict[str, dict[str, Interval]]]:
        """The mean difference to the first condition, over the items that have both."""
        return {model: self._of_all_items(model, lambda cell: cell.difference) for model in self.scores}

    def _of_all_items(self, model: str, of: Callable[[ItemCell], Value | None]) -> dict[str, dict[str, Value]]:
        """Return a value of each region and condition that has one, of the surprisals of all items."""
        values: dict[str, dict[str, Value]] = {region: {} for region in self.labels}
        for cell in self.design.cells:
            value = of(cell) if (cell.model, cell.measure, cell.words) == (model, "surprisal", "all") else None
            if value is not None:
                values[cell.region][cell.condition] = value
        return values

    @property
    def warnings(self) -> list[str]:
        """A line for each of these: regions and conditions that sentences lack, unknown words, different sentences that
        a model reads as the same words, contrasts that hardly vary between items, and marks that only some models read.
        """
        return warnings_of(self.stimuli, self.scores, self.critical, self.design.contrasts)

    def plot(
        self,
        ax: Axes | Sequence[Axes] | None = None,
        *,
        kind: PictureKind = "points",
        regions: str | Sequence[str] = (),
        measure: str = "surprisal",
    ) -> Plot:
        """Return means with 95% intervals within items, or contrasts with 95% intervals over items, by region.

        If each item has one level of a factor, there are no intervals within items, and those of means are over items.

        Args:
            ax: axes of matplotlib to draw on, one per panel, instead of a new figure
            kind: "points", the means of all conditions; or "contrasts", main effects and interactions
            regions: the regions to draw; by default all
            measure: what is drawn, surprisal or one of `measures`

        Raises:
            InputError: there are too many conditions for one plot, there is no such kind, region or measure, or
                matplotlib is not installed.
        """
        for name, value, choices in (
            ("kind", kind, get_args(PictureKind)),
            ("measure", measure, ["surprisal", *self.measures]),
        ):
            if value not in choices:
                raise InputError(f"{name}: found {value!r}; expected one of {', '.join(choices)}")
        chosen = names_of(regions, "regions")
        check_plotted_regions(chosen, self.stimuli.region_names)
        texts = {name: label.removeprefix(name).strip() for name, label in self.labels.items()}
        drawn = PlottedDesign(self.design, texts, chosen or list(self.labels), self.critical, measure)
        return plot_means(drawn, ax) if kind == "points" else plot_contrasts(drawn, ax)


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
    region_rows: str | None = None,
    critical: str | None = None,
    baseline: str | None = None,
    contrast: str | Sequence[str] = (),
    measures: Sequence[Measure] = (),
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
        region_rows: the column with the name of the region in each row, if each row is a region, not a sentence.
        critical: the region that the question is about, see `StimulusRegion`: unknown words in it or before it are
            reported, and means without their items; None: all regions.
        baseline: the condition with which others are compared, such as "sg / sg"; None: the first one.
        contrast: how a factor with more than two levels is compared: each other level with the first one ("treatment",
            the default), or with the level before it ("successive"). Or the contrasts themselves, one or several, as
            formulas of conditions: "(pl / sg - sg / sg) - (pl / pl - sg / pl)".
        measures: what is measured in addition to surprisal, see `LanguageModel.surprisal`.
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
    options = ScoreOptions(measures=measures, punctuation=punctuation, contractions=contractions)
    for bundle in named.values():
        check_scores_words(bundle, options.measures)
    stimuli = table
    if not isinstance(stimuli, Stimuli):
        stimuli = _read_stimuli(table, column, item, condition, regions, separator, region_rows, baseline)
    if critical is not None and critical not in stimuli.region_names:
        names = listed(stimuli.region_names)
        raise InputError(f"critical: found {critical!r}; expected the name of a region, a string: {names}")
    counts = None if frequencies is None else Frequencies.read(frequencies)
    chosen = names_of(contrast, "contrast")
    coding, formulas = read_contrasts(chosen, list(stimuli.levels_by_condition))
    scores = {name: score_words(bundle, stimuli.words, options, name, word_scorer) for name, bundle in named.items()}
    return ItemsReport(stimuli, scores, counts, spillover, critical, tuple(options.measures), coding, formulas)


def _read_stimuli(
    table: Any,
    column: str | None,
    item: str,
    condition: str | Sequence[str],
    regions: str | Sequence[str],
    separator: str | None,
    region_rows: str | None,
    baseline: str | None,
) -> Stimuli:
    """Read a table of stimuli. The parameters are those of `evaluate_items`."""
    check_table(table, "table")
    check_names(column=column, item=item, separator=separator, region_rows=region_rows, baseline=baseline)
    conditions = names_of(condition, "condition")
    columns = names_of(regions, "regions")
    return Stimuli.read(
        table, column, item=item, condition=conditions, regions=columns, separator=separator, region_rows=region_rows,
        baseline=baseline,
    )  # fmt: skip


def _region_values(region: StimulusRegion, scores: WordScores, properties: Mapping[str, Numbers]) -> dict[str, Any]:
    """Return the columns of a region that are of its own words, without further measures.

    Args:
        properties: of all words, see `word_properties`.
    """
    words = slice(region.first, region.end)
    is_read = scores.is_read[words]
    row = {
        "region_name": region.name,
        "region_text": region.text,
        "words": region.end - region.first,
        "unknown": int((is_read & ~scores.known[words]).sum()),
        "not_read": int((~is_read).sum()),
    }
    for name in ("surprisal", "surprisal_word", "surprisal_marks"):
        value = combined(name, getattr(scores, name)[words], is_read)
        row[name] = _number(value, REGION_COLUMNS[name])
    row |= {"tokens": int(scores.token_counts[words].sum()), "length": int(properties["length"][words].sum())}
    if "log_frequency" in properties:
        frequencies = properties["log_frequency"][words]
        column = REGION_COLUMNS["log_frequency"]
        row["log_frequency"] = _number(frequencies.mean(), column) if region.text else None
    return row


def _number(value: float, column: Column) -> float | None:
    """Return the value of a column for a row: None for NaN, a whole number in a column of integers."""
    return None if np.isnan(value) else int(value) if column.type == "integer" else round(float(value), 6)
