"""Stimuli: the sentences of a table with their items, conditions and regions.

A table of stimuli has one row per sentence, with columns that name its item and its condition. The regions of a
sentence are separated in its text ("The old man | the boats"), or they are columns; without regions, each word is one.
A table may also have one row per region, see `syntaxlm.data.region_rows`.
`syntaxlm.data.stimulus_checks` refuses tables of another form, and warns of what is doubtful.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from syntaxlm.core.errors import InputError, listed, shortened, warn_caller
from syntaxlm.core.reading import ReadingReport, Remarks, announce
from syntaxlm.data.displayed_words import DisplayedWords
from syntaxlm.data.input_table import InputTable
from syntaxlm.data.region_rows import (
    WrittenRegion,
    check_options,
    check_whole_sentences,
    merged_order,
    regions_of_rows,
    warn_of_lost_rows,
    warn_of_sorted_regions,
    without_rows,
)
from syntaxlm.data.stimulus_checks import (
    check_columns,
    check_conditions,
    check_fragments,
    check_sentences,
    check_separator,
    refuse_marks_in_regions,
    warn_of_split_words,
)
from syntaxlm.text.normaliser import word_spans

SEPARATOR = "|"
COLUMN = "sentence"
CONDITION = "condition"
BETWEEN = " / "  # the levels of several factors
_SAMPLE_CHARACTERS = 200  # characters
# The start of a region that follows the word before it without a space: closing punctuation, or a contraction.
_CLOSING = re.compile(r"[,;:!?…)\]}%”»]|\.(?!\d)|['’](?:s|re|ve|ll|d|m)\b|n['’]t\b", re.IGNORECASE)


class StimulusRegion(NamedTuple):
    """A region of a sentence: its words are [first, end) among those of all stimuli.

    Attributes:
        name: its column or number.
        row: its row in the table.
    """

    name: str
    text: str
    first: int
    end: int
    row: int


@dataclass(frozen=True)
class Stimuli:
    """The sentences of a table of stimuli, and their regions.

    Attributes:
        words: all words, as the words of texts of one sentence each.
        regions: the regions of each sentence.
        items: the item of each sentence.
        conditions: the condition of each sentence.
        levels: the levels of each sentence, its level of each factor: the cells of the condition columns.
        factors: the levels of each factor in order, the baseline first, by the name of its column.
        are_words: whether the regions are single words, because no sentence has a separator.
    """

    words: DisplayedWords
    regions: tuple[tuple[StimulusRegion, ...], ...]
    items: tuple[str, ...]
    conditions: tuple[str, ...]
    levels: tuple[tuple[str, ...], ...]
    factors: Mapping[str, tuple[str, ...]]
    are_words: bool = False

    @classmethod
    def read(
        cls,
        table: Any,
        column: str | None = None,
        *,
        item: str = "item",
        condition: Sequence[str] = (CONDITION,),
        regions: Sequence[str] = (),
        separator: str | None = None,
        region_rows: str | None = None,
        baseline: str | None = None,
    ) -> Stimuli:
        """Read a table.

        Gives InputWarnings for what is doubtful.

        Args:
            table: a file or data frame, see `InputTable.read`.
            column: the column of the sentences; None: "sentence", unless there are `regions`.
            item: the column of items.
            condition: the column of conditions, or several, whose values are joined.
            regions: columns with the regions, instead of `column`; an empty cell is a region without words.
            separator: sign between the regions in a sentence; if no sentence has it, each word is a region; None: "|".
            region_rows: the column with the name or number of the region of each row, if each row has one region, and
                `column` its text.
            baseline: the condition whose levels are the first ones of their factors; None: the first levels of
                categorical columns of data frames, and otherwise those of the first row.

        Raises:
            InputError: for missing columns, empty cells of items and conditions, a sentence without words, a sentence
                without the separator of the others, an empty separator, options that contradict each other, and a table
                of another form, see `syntaxlm.data.stimulus_checks`.
        """
        read = InputTable.unannounced(table)
        _check_options(column, condition, regions, separator, region_rows)
        remarks = Remarks()
        tidied = {item: "--item", **dict.fromkeys(condition, "--condition")}
        read = _without_spaces(read, tidied | ({region_rows: "--region-rows"} if region_rows else {}), remarks)
        items = _names(read, item, "--item")
        levels = {factor: _names(read, factor, "--condition") for factor in condition}
        by_row = list(zip(*levels.values(), strict=True))
        _check_levels(condition, by_row, read)
        conditions = list(map(BETWEEN.join, by_row))

        # The regions of each sentence.
        are_words = False
        if region_rows is not None:
            written = _of_rows(read, region_rows, column or COLUMN, items, conditions, remarks)
        elif regions:
            written = _of_columns(read, regions)
        else:
            written, are_words = _separated(read, column or COLUMN, separator)
        if region_rows is None and (regions or are_words):
            sentences = [" ".join(region.text for region in row_regions) for row_regions in written]
            check_fragments(read, sentences, items, conditions, (item, *condition))

        # Sentences in place of rows.
        firsts = [row_regions[0].row for row_regions in written]
        items_of = [items[row] for row in firsts]
        levels_of = [by_row[row] for row in firsts]
        attached = _attached(written, remarks, read) if not are_words else frozenset()
        factors = _ordered(levels, read, _baseline_levels(baseline, conditions, by_row))
        stimuli = cls._of_regions(read, written, items_of, levels_of, factors, are_words, attached)

        _warn_of_placeholders(read, stimuli.regions)
        check_conditions(read, levels, conditions, items, remarks)
        check_columns(read, regions, (item, *condition))
        check_sentences(read, stimuli.sentences, items_of, stimuli.conditions, regions)
        form, evidence = _form(regions, separator or SEPARATOR, are_words, region_rows)
        announce(read.report(stimuli._report(form, evidence, remarks, with_order=region_rows is not None)))
        return stimuli

    @classmethod
    def _of_regions(
        cls,
        table: InputTable,
        written: Sequence[Sequence[WrittenRegion]],
        items: Sequence[str],
        levels: Sequence[tuple[str, ...]],
        factors: Mapping[str, tuple[str, ...]],
        are_words: bool,
        attached: Set[int],
    ) -> Stimuli:
        """Return the stimuli with the regions of each sentence.

        Args:
            attached: number of each region without a space before it, counted over all sentences.
        """
        words: list[str] = []
        rows: list[int] = []
        sentences: list[int] = []
        firsts: list[int] = []
        stimulus_regions: list[tuple[StimulusRegion, ...]] = []
        for sentence, written_regions in enumerate(written):
            regions = []
            for name, text, row in written_regions:
                split = [text[begin:end] for begin, end in word_spans(text)]
                regions.append(StimulusRegion(name, " ".join(split), len(words), len(words) + len(split), row))
                firsts.append(len(words))
                words += split
                rows += [row] * len(split)
                sentences += [sentence] * len(split)
            if not any(region.text for region in regions):
                place = table.place(regions[0].row)
                raise InputError(f"{place}: the sentence has no words; expected a sentence in every row")
            stimulus_regions.append(tuple(regions))
        flags = np.isin(np.arange(len(words)), [firsts[number] for number in attached]) if attached else None
        numbers = np.array(sentences, np.int64)
        displayed = DisplayedWords(
            table, tuple(words), np.array(rows, np.int64), numbers, numbers, table.names, attached=flags
        )
        conditions = tuple(map(BETWEEN.join, levels))
        return cls(displayed, tuple(stimulus_regions), tuple(items), conditions, tuple(levels), factors, are_words)

    @property
    def levels_by_condition(self) -> dict[str, tuple[str, ...]]:
        """The level of each factor, by condition, in the order of the levels, that of the baseline first."""
        order = [{level: place for place, level in enumerate(levels)} for levels in self.factors.values()]

        def places(levels: Sequence[str]) -> list[int]:
            return [factor_order[level] for factor_order, level in zip(order, levels, strict=True)]

        return {BETWEEN.join(levels): levels for levels in sorted(set(self.levels), key=places)}

    def label(self, condition: str) -> str:
        """Return a condition with the names of its factors: "head sg / attractor pl"."""
        return self.label_of(self.levels_by_condition[condition])

    def label_of(self, levels: Sequence[str]) -> str:
        """Return levels with the names of their factors; a factor that is called condition has none."""
        named = zip(self.factors, levels, strict=True)
        return BETWEEN.join(level if name == CONDITION else f"{name} {level}" for name, level in named)

    @property
    def region_names(self) -> list[str]:
        """The names of all regions, in the order of reading."""
        return merged_order([region.name for region in regions] for regions in self.regions)

    @property
    def sentences(self) -> list[str]:
        """Each sentence, with its regions separated."""
        return [
            f" {SEPARATOR} ".join(filter(None, (region.text for region in row_regions))) for row_regions in self.regions
        ]

    def _report(self, form: str, evidence: str, remarks: Remarks, with_order: bool) -> ReadingReport:
        """Return how the table was read.

        Args:
            with_order: whether the order of regions, unless they are numbered, is shown.
        """
        table = self.words.table
        sample = [shortened(sentence, _SAMPLE_CHARACTERS) for sentence in self.sentences[:2]]
        for row_regions in self.regions:
            for region in row_regions:
                if not region.text:
                    remarks.add("regions without words", table.line(region.row))
        counts = {
            "sentences": len(self.items),
            "items": len(set(self.items)),
            "conditions": len(set(self.conditions)),
            "regions": len(self.region_names),
        }
        if self.are_words:
            del counts["regions"]
        shown = f"first sentence: {sample[0]}"
        names = self.region_names
        if with_order and not all(map(str.isdecimal, names)):
            shown = f"order of the regions: {', '.join(names)}; {shown}"
        return ReadingReport(table.source, form, counts, evidence, remarks.all(), tuple(sample), shown)


def _check_options(
    column: str | None, condition: Sequence[str], regions: Sequence[str], separator: str | None, region_rows: str | None
) -> None:
    """Raise InputError for options without a value, and for those that contradict each other."""
    if not condition:
        raise InputError("condition: found no column; expected one or more")
    if separator == "":
        raise InputError('separator: found nothing; expected a sign such as "|"')
    given = {"--column": column, "--separator": separator}
    if region_rows is not None:
        check_options({"--region": regions, "--separator": separator}, region_rows)
    elif extra := [f"{name} {value}" for name, value in given.items() if value is not None and regions]:
        raise InputError(
            f"{' and '.join(extra)}: found with --region {', '.join(regions)}; expected either a column of"
            " sentences, with separators between their regions, or columns of regions. Omit one of them"
        )


def _form(regions: Sequence[str], separator: str, are_words: bool, region_rows: str | None) -> tuple[str, str]:
    """Return the form of a table and what shows it, for the report."""
    if region_rows is not None:
        return f"stimuli, a row for each region, named in the column {region_rows}", "the option --region-rows"
    if regions:
        return f"stimuli, regions in the columns {listed(regions)}", "columns that the options name"
    form = f"stimuli, regions separated by {separator!r}"
    if are_words:
        form = f"stimuli, each word is a region because no sentence has {separator!r}"
    return form, f"{separator!r} in the sentences"


def _of_rows(
    table: InputTable,
    region_rows: str,
    column: str,
    items: Sequence[str],
    conditions: Sequence[str],
    remarks: Remarks,
) -> list[list[WrittenRegion]]:
    """Return the regions of sentences that have a row for each region.

    Args:
        region_rows: the column of their names.
        column: the column of their texts.
        items: the item of each row.
        conditions: the condition of each row.
        remarks: where sentences that lack a region are counted.
    """
    names = _names(table, region_rows, "--region-rows")
    written = regions_of_rows(table, region_rows, names, table.column(column, "--column"), items, conditions)
    lacking = without_rows(table, written, items, conditions)
    if not check_whole_sentences(table, written, (region_rows, column)):
        warn_of_sorted_regions(table, region_rows, written)
        warn_of_lost_rows(table, written, lacking, items, conditions)
    for row, name in lacking:
        remarks.add("sentences without a row of a region", table.row_numbers[row], name)
    return written


def _of_columns(table: InputTable, regions: Sequence[str]) -> list[list[WrittenRegion]]:
    """Return the regions of sentences that have a column for each region."""
    refuse_marks_in_regions(table, regions)
    rows = zip(*(table.column(name, "--region") for name in regions), strict=True)
    return [
        [WrittenRegion(name, text, row) for name, text in zip(regions, texts, strict=True)]
        for row, texts in enumerate(rows)
    ]


def _separated(table: InputTable, column: str, separator: str | None) -> tuple[list[list[WrittenRegion]], bool]:
    """Return the regions of sentences with a sign between regions, or their words, and whether they are words.

    Args:
        column: the column of the sentences.
        separator: the sign; None: the usual one.

    Raises:
        InputError: for a sentence without the sign, if others have it, and if all have another sign.
    """
    cells, sign = table.column(column, "--column"), separator or SEPARATOR
    are_words = not any(sign in cell for cell in cells)
    check_separator(table, cells, sign, is_given=separator is not None)
    if are_words:
        texts = [[cell[begin:end] for begin, end in word_spans(cell)] or [cell] for cell in cells]
    else:
        texts = [cell.split(sign) for cell in cells]
        warn_of_split_words(table, list(map(tuple, texts)), sign)
        if whole := [row for row, regions in enumerate(texts) if len(regions) == 1]:
            raise InputError(
                f"{table.place(whole[0])}: found no {sign!r} between regions, which other sentences have;"
                " expected it in every sentence"
            )
    written = [
        [WrittenRegion(str(number), text, row) for number, text in enumerate(regions, 1)]
        for row, regions in enumerate(texts)
    ]
    return written, are_words


def _attached(sentences: Sequence[Sequence[WrittenRegion]], remarks: Remarks, table: InputTable) -> frozenset[int]:
    """Return the numbers of regions that follow the word before them without a space, counted over all sentences.

    These are regions that start with closing punctuation or a contraction, and have no space before them as written,
    also if regions without words are between. All other regions are separated by spaces.

    Args:
        remarks: where the regions are counted.
    """
    attached = []
    number = 0
    for regions in sentences:
        before = ""  # the last region with words, and the spaces of empty regions after it
        for region in regions:
            if before.strip() and _CLOSING.match(region.text) and not before[-1].isspace():
                attached.append(number)
                what = "regions that start with punctuation, joined to the word before"
                remarks.add(what, table.line(region.row), region.text)
            before = region.text if region.text.strip() else before + region.text
            number += 1
    return frozenset(attached)


def _warn_of_placeholders(table: InputTable, regions: Sequence[Sequence[StimulusRegion]]) -> None:
    """Warn of signs such as - in a region that has words in most sentences: it may stand for a missing region."""
    by_name: dict[str, list[tuple[int, str]]] = {}
    for row_regions in regions:
        for region in row_regions:
            if region.text:
                by_name.setdefault(region.name, []).append((region.row, region.text))
    for name, texts in by_name.items():
        signs = [(row, text) for row, text in texts if not any(map(str.isalnum, text))]
        if signs and 2 * len(signs) <= len(texts):
            row, text = signs[0]
            warn_caller(
                f"{table.place(row)}: region {name} is {text!r}, in {len(signs):,} of {len(texts):,} sentences"
                " without a letter or digit. It counts as a region; leave it empty if the region is missing"
            )


def _without_spaces(table: InputTable, columns: dict[str, str], remarks: Remarks) -> InputTable:
    """Return a table whose cells in some columns have no spaces around and only single ones inside.

    Args:
        columns: names, each with the option that chooses it.
        remarks: where changed cells are counted.
    """
    rows = list(map(list, table.rows))
    values = list(map(list, table.values))
    for name, option in columns.items():
        cells = table.column(name, option)
        place = table.names.index(name)
        for row, cell in enumerate(cells):
            if (tidy := " ".join(cell.split())) != cell:
                remarks.add("cells with spaces that were removed", table.line(row), cell)
                rows[row][place] = tidy
                if isinstance(values[row][place], str):
                    values[row][place] = tidy
    return replace(table, rows=tuple(map(tuple, rows)), values=tuple(map(tuple, values)))


def _baseline_levels(
    baseline: str | None, conditions: Sequence[str], levels: Sequence[tuple[str, ...]]
) -> tuple[str, ...]:
    """Return the levels of the baseline, or of the first row. Raises InputError for a condition that no row has."""
    if baseline is None:
        return ()
    levels_of = dict(zip(conditions, levels, strict=True))
    tidy = BETWEEN.join(" ".join(level.split()) for level in baseline.split(BETWEEN.strip()))
    for name in (baseline, tidy):
        if name in levels_of:
            return levels_of[name]
    names = listed(map(repr, levels_of))
    raise InputError(f"baseline: found {shortened(baseline, _SAMPLE_CHARACTERS)!r}; expected a condition: {names}")


def _ordered(
    levels: Mapping[str, Sequence[str]], table: InputTable, baseline: Sequence[str]
) -> dict[str, tuple[str, ...]]:
    """Return the different levels of each factor: those of the baseline, then in the order of categories or rows.

    Args:
        levels: the level of each row, by factor.
        table: the table, which has the order of the categories of data frames.
        baseline: a level of each factor, or nothing.
    """
    ordered = {}
    for place, (name, cells) in enumerate(levels.items()):
        present = dict.fromkeys(cells)
        first = [baseline[place]] if baseline else []
        categories = [level for level in table.orders.get(name, ()) if level in present]
        ordered[name] = tuple(dict.fromkeys([*first, *categories, *present]))
    return ordered


def _names(table: InputTable, column: str, option: str) -> list[str]:
    """Return the cells of a column, none of which may be empty."""
    cells = table.column(column, option)
    if empty := [row for row, cell in enumerate(cells) if not cell.strip()]:
        raise InputError(f"{table.emptiness(empty[0], column)}; expected a name in every row")
    return cells


def _check_levels(factors: Sequence[str], levels: Sequence[Sequence[str]], table: InputTable) -> None:
    """Raise InputError for a level with the sign that separates levels, because two conditions could have one name."""
    if len(factors) < 2:
        return
    for row, row_levels in enumerate(levels):
        for factor, level in zip(factors, row_levels, strict=True):
            if BETWEEN in level:
                raise InputError(
                    f"{table.place(row)}: found the level {level!r} of {factor}; expected a level without"
                    f" {BETWEEN!r}, which separates the levels of several factors"
                )
