"""Stimuli: the sentences of a table with their items, conditions and regions.

A table of stimuli has one row per sentence, with columns that name its item and its condition. The regions of a
sentence are separated in its text ("The old man | the boats"), or they are columns; without regions, each word is one.
`syntaxlm.data.stimulus_checks` refuses tables of another form, and warns of what is doubtful.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence, Set
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from syntaxlm.core.errors import InputError, InputWarning, listed, shortened
from syntaxlm.core.reading import ReadingReport, Remarks, announce
from syntaxlm.data.displayed_words import DisplayedWords
from syntaxlm.data.input_table import InputTable
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
_BETWEEN = " / "  # the values of several condition columns
_SAMPLE_CHARACTERS = 200  # characters
# The start of a region that follows the word before it without a space: closing punctuation, or a contraction.
_CLOSING = re.compile(r"[,;:!?…)\]}%”»]|\.(?!\d)|['’](?:s|re|ve|ll|d|m)\b|n['’]t\b", re.IGNORECASE)


class StimulusRegion(NamedTuple):
    """A region of a sentence: its words are [first, end) among those of all stimuli.

    Attributes:
        name: its column or number.
    """

    name: str
    text: str
    first: int
    end: int


@dataclass(frozen=True)
class Stimuli:
    """The sentences of a table of stimuli, and their regions.

    Attributes:
        words: all words, as the words of texts of one sentence each; their rows are those of the table.
        regions: the regions of each sentence.
        items: the item of each sentence.
        conditions: the condition of each sentence.
        levels: the levels of each sentence, its level of each factor: the cells of the condition columns.
        are_words: whether the regions are single words, because no sentence has a separator.
    """

    words: DisplayedWords
    regions: tuple[tuple[StimulusRegion, ...], ...]
    items: tuple[str, ...]
    conditions: tuple[str, ...]
    levels: tuple[tuple[str, ...], ...]
    are_words: bool = False

    @classmethod
    def read(
        cls,
        table: Any,
        column: str | None = None,
        *,
        item: str = "item",
        condition: Sequence[str] = ("condition",),
        regions: Sequence[str] = (),
        separator: str | None = None,
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

        Raises:
            InputError: for missing columns, empty cells of items and conditions, a sentence without words, a sentence
                without the separator of the others, an empty separator, options that contradict each other, and a table
                of another form, see `syntaxlm.data.stimulus_checks`.
        """
        read = InputTable.unannounced(table)
        if not condition:
            raise InputError("condition: found no column; expected one or more")
        if separator == "":
            raise InputError('separator: found nothing; expected a sign such as "|"')
        given = {"--column": column, "--separator": separator}
        if extra := [f"{name} {value}" for name, value in given.items() if value is not None and regions]:
            raise InputError(
                f"{' and '.join(extra)}: found with --region {', '.join(regions)}; expected either a column of"
                " sentences, with separators between their regions, or columns of regions. Omit one of them"
            )
        remarks = Remarks()
        read = _without_spaces(read, {item: "--item", **dict.fromkeys(condition, "--condition")}, remarks)
        items = _names(read, item, "--item")
        levels = {one: _names(read, one, "--condition") for one in condition}
        conditions = list(map(_BETWEEN.join, zip(*levels.values(), strict=True)))
        texts = list(zip(*(read.column(name, "--region") for name in regions), strict=True))
        cells = [] if regions else read.column(column or COLUMN, "--column")
        sign = separator or SEPARATOR
        are_words = bool(cells) and not any(sign in cell for cell in cells)
        if regions:
            refuse_marks_in_regions(read, regions)
        else:
            check_separator(read, cells, sign, is_given=separator is not None)
        if regions or are_words:
            check_fragments(read, [" ".join(row) for row in texts] or cells, items, conditions, (item, *condition))
        if are_words:
            texts = [tuple(cell[begin:end] for begin, end in word_spans(cell)) for cell in cells]
        elif cells:
            texts = [tuple(cell.split(sign)) for cell in cells]
            warn_of_split_words(read, texts, sign)
            if whole := [row for row, row_regions in enumerate(texts) if len(row_regions) == 1]:
                raise InputError(
                    f"{read.place(whole[0])}: found no {sign!r} between regions, which other sentences have;"
                    " expected it in every sentence"
                )
        attached = _attached(texts, remarks, read) if not are_words else frozenset()
        by_sentence = list(zip(*levels.values(), strict=True))
        stimuli = cls._of_texts(read, texts, regions, items, by_sentence, are_words, attached)
        _warn_of_placeholders(read, stimuli.regions)
        check_conditions(read, levels, conditions, items, remarks)
        check_columns(read, regions, (item, *condition))
        check_sentences(read, stimuli.sentences, items, conditions, regions)
        announce(read.report(stimuli._report(regions, sign, remarks)))
        return stimuli

    @classmethod
    def _of_texts(
        cls,
        table: InputTable,
        texts: Sequence[Sequence[str]],
        names: Sequence[str],
        items: Sequence[str],
        levels: Sequence[tuple[str, ...]],
        are_words: bool,
        attached: Set[tuple[int, int]],
    ) -> Stimuli:
        """Return the stimuli with the regions `texts` of each row.

        Args:
            names: the names of the regions' columns, if any.
            attached: rows and places of regions without a space before them.
        """
        words: list[str] = []
        rows: list[int] = []
        found: list[tuple[StimulusRegion, ...]] = []
        for row, row_regions in enumerate(texts):
            own = []
            for number, text in enumerate(row_regions):
                split = [text[begin:end] for begin, end in word_spans(text)]
                name = names[number] if names else str(number + 1)
                own.append(StimulusRegion(name, " ".join(split), len(words), len(words) + len(split)))
                words += split
                rows += [row] * len(split)
            if not any(region.text for region in own):
                raise InputError(f"{table.place(row)}: the sentence has no words; expected a sentence in every row")
            found.append(tuple(own))
        places = np.array(rows, np.int64)
        firsts = [found[row][place].first for row, place in attached]
        flags = np.isin(np.arange(len(words)), firsts) if firsts else None
        displayed = DisplayedWords(table, tuple(words), places, places, places, table.names, attached=flags)
        conditions = tuple(map(_BETWEEN.join, levels))
        return cls(displayed, tuple(found), tuple(items), conditions, tuple(levels), are_words)

    @property
    def levels_by_condition(self) -> dict[str, tuple[str, ...]]:
        """The level of each factor, by condition."""
        return dict(zip(self.conditions, self.levels, strict=True))

    @property
    def region_names(self) -> list[str]:
        """The names of all regions."""
        return list(dict.fromkeys(region.name for row_regions in self.regions for region in row_regions))

    @property
    def sentences(self) -> list[str]:
        """Each sentence, with its regions separated."""
        return [
            f" {SEPARATOR} ".join(filter(None, (region.text for region in row_regions))) for row_regions in self.regions
        ]

    def _report(self, regions: Sequence[str], separator: str, remarks: Remarks) -> ReadingReport:
        """Return how the table was read."""
        table = self.words.table
        sample = [shortened(sentence, _SAMPLE_CHARACTERS) for sentence in self.sentences[:2]]
        if regions:
            form = f"stimuli, regions in the columns {listed(regions)}"
        elif self.are_words:
            form = f"stimuli, each word is a region because no sentence has {separator!r}"
        else:
            form = f"stimuli, regions separated by {separator!r}"
        for row, row_regions in enumerate(self.regions):
            for region in row_regions:
                if not region.text:
                    remarks.add("regions without words", table.row_numbers[row] if table.unit == "line" else None)
        counts = {
            "sentences": len(self.items),
            "items": len(set(self.items)),
            "conditions": len(set(self.conditions)),
            "regions": len(self.region_names),
        }
        if self.are_words:
            del counts["regions"]
        evidence = "columns that the options name" if regions else f"{separator!r} in the sentences"
        shown = f"first sentence: {sample[0]}"
        return ReadingReport(table.source, form, counts, evidence, remarks.all(), tuple(sample), shown)


def _attached(texts: Sequence[Sequence[str]], remarks: Remarks, table: InputTable) -> frozenset[tuple[int, int]]:
    """Return the rows and places of regions that follow the region before them without a space.

    These are regions that start with closing punctuation or a contraction, and have no space before them as written.
    All other regions are separated by spaces.

    Args:
        remarks: where the regions are counted.
    """
    attached = []
    for row, row_regions in enumerate(texts):
        for place, (before, after) in enumerate(pairwise(row_regions), 1):
            if before.strip() and _CLOSING.match(after) and not before[-1].isspace():
                attached.append((row, place))
                line = table.row_numbers[row] if table.unit == "line" else None
                remarks.add("regions that start with punctuation, joined to the word before", line, after)
    return frozenset(attached)


def _warn_of_placeholders(table: InputTable, regions: Sequence[Sequence[StimulusRegion]]) -> None:
    """Warn of signs such as - in a region that has words in most sentences: it may stand for a missing region."""
    by_name: dict[str, list[tuple[int, str]]] = {}
    for row, row_regions in enumerate(regions):
        for region in row_regions:
            if region.text:
                by_name.setdefault(region.name, []).append((row, region.text))
    for name, texts in by_name.items():
        signs = [(row, text) for row, text in texts if not any(map(str.isalnum, text))]
        if signs and 2 * len(signs) <= len(texts):
            row, text = signs[0]
            warnings.warn(
                InputWarning(
                    f"{table.place(row)}: region {name} is {text!r}, in {len(signs):,} of {len(texts):,} sentences"
                    " without a letter or digit. It counts as a region; leave it empty if the region is missing"
                ),
                stacklevel=3,
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
                line = table.row_numbers[row] if table.unit == "line" else None
                remarks.add("cells with spaces that were removed", line, cell)
                rows[row][place] = tidy
                if isinstance(values[row][place], str):
                    values[row][place] = tidy
    return replace(table, rows=tuple(map(tuple, rows)), values=tuple(map(tuple, values)))


def _names(table: InputTable, column: str, option: str) -> list[str]:
    """Return the cells of a column, none of which may be empty."""
    cells = table.column(column, option)
    if empty := [row for row, cell in enumerate(cells) if not cell.strip()]:
        raise InputError(f"{table.emptiness(empty[0], column)}; expected a name in every row")
    return cells
