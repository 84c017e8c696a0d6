"""Tables of displayed words and of reading times.

Tables have a header line and cells separated by tabs, commas or semicolons, or are data frames. Words are in the order
in which readers saw them.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from syntaxlm.data.tables import separated, wrong_number_of_cells
from syntaxlm.errors import InputError
from syntaxlm.text.normaliser import word_spans
from syntaxlm.text_files import read_lines, source_name

Integers = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.float64]

MISSING = frozenset(["", "NA", "NaN", "nan", "N/A", "null", "None", "."])  # cells without a number
LARGEST = 1e9  # number in a table: far above any time in milliseconds, and safe in sums of squares
_SHOWN = 3  # keys or columns in a message


@dataclass(frozen=True)
class Table:
    """A table of text cells.

    source: the file, for messages.  names: of the columns.  rows: their cells.  lines: line number of each row; empty
    for a data frame, whose rows are numbered from 1.
    """

    source: str
    names: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    lines: tuple[int, ...] = ()

    @classmethod
    def read(cls, table: Any) -> Table:
        """Reads a file (which may be compressed; "-" is standard input), or takes a pandas or polars data frame.

        The header decides the separator: tabs, commas if it has no tab, or semicolons if it has neither.
        Raises InputError for a file without header or rows, for a repeated column name, for rows with more or fewer
        cells than the header, and as `read_lines` does.
        """
        if hasattr(table, "columns") and not isinstance(table, str | Path):
            return cls._of_dataframe(table)
        source = source_name(table)
        rows = separated(read_lines(table), source)
        line, header = next(rows, (1, [""]))
        if not any(header):
            raise InputError(
                f"{source}, line 1: no header; expected column names, separated by tabs, commas or semicolons"
            )
        twice = sorted({name for name in header if header.count(name) > 1})
        if twice:
            raise InputError(
                f"{source}, line {line}: more than one column is named {twice[0]!r}; expected unique names"
            )
        kept, lines = [], []
        before = header
        for line, cells in rows:
            if cells in ([], [""]) and len(header) > 1:
                continue  # an empty line
            if len(cells) != len(header):
                raise wrong_number_of_cells(source, line, cells, before, header)
            before = cells
            kept.append(tuple(cells))
            lines.append(line)
        if not kept:
            raise InputError(f"{source}: found only a header; expected at least one row below it")
        return cls(source, tuple(header), tuple(kept), tuple(lines))

    @classmethod
    def _of_dataframe(cls, frame: Any) -> Table:
        rows = frame.iter_rows() if hasattr(frame, "iter_rows") else frame.itertuples(index=False, name=None)
        kept = tuple(tuple(map(_cell_of, row)) for row in rows)
        if not kept:
            raise InputError("the data frame has no rows; expected at least one")
        names = tuple(map(str, frame.columns))
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise InputError(f"the data frame: more than one column is named {twice[0]!r}; expected unique names")
        return cls("the data frame", names, kept)

    def place(self, row: int) -> str:
        """The place of a row (from 0) for messages."""
        return f"{self.source}, line {self.lines[row]}" if self.lines else f"{self.source}, row {row + 1}"

    def column(self, name: str, option: str) -> list[str]:
        """The cells of a column. option: how the user chooses it. Raises InputError if there is none."""
        if name not in self.names:
            nearest = difflib.get_close_matches(name, self.names, 1)
            hint = f" Did you mean {nearest[0]}?" if nearest else ""
            raise InputError(
                f"{self.source}: no column {name!r}; found {', '.join(self.names)}.{hint} Choose one with {option}"
            )
        place = self.names.index(name)
        return [row[place] for row in self.rows]

    def numbers(self, name: str, option: str) -> Numbers:
        """The numbers of a column, NaN for missing cells. Raises InputError, with the row, for anything else."""
        found = np.full(len(self.rows), np.nan)
        for row, cell in enumerate(self.column(name, option)):
            if cell.strip() in MISSING:
                continue
            try:
                found[row] = float(cell)
            except ValueError:
                found[row] = np.inf
            if not abs(found[row]) <= LARGEST:
                limit = f" up to {LARGEST:,.0f}" if math.isfinite(found[row]) else ""
                raise InputError(
                    f"{self.place(row)}: found {cell!r} in column {name}; expected a number{limit}, or NA if it is"
                    " missing"
                )
        return found


def _cell_of(value: Any) -> str:
    if value is None or value != value:
        return ""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))  # an integer column with missing values, which pandas stores as floats
    return str(value)


# ---- displayed words


@dataclass(frozen=True)
class DisplayedWords:
    """The n words of an experiment in the order in which readers saw them.

    words: as displayed.  rows: row of each word in `table`.  groups: number of its group (story), from 0, ascending.
    sentences: number of its sentence, from 0, ascending; a sentence is within one group.
    columns: names of the table's columns that are repeated for every word.
    group_column, sentence_column: the columns that were given.  is_text: whether the table has running text.
    """

    table: Table
    words: tuple[str, ...]
    rows: Integers
    groups: Integers
    sentences: Integers
    columns: tuple[str, ...]
    group_column: str | None = None
    sentence_column: str | None = None
    is_text: bool = False

    def __len__(self) -> int:
        return len(self.words)

    def spans(self, of: Integers) -> list[tuple[int, int]]:
        """The (first, end) of the words of each group or sentence."""
        starts = np.flatnonzero(np.r_[True, of[1:] != of[:-1]]).tolist()
        return list(pairwise([*starts, len(self)]))

    def place(self, word: int) -> str:
        return self.table.place(int(self.rows[word]))

    @property
    def in_sentence(self) -> Integers:
        """Position of each word in its sentence, from 1."""
        return _positions(self.sentences)

    @property
    def in_group(self) -> Integers:
        """Position of each word in its group, from 1."""
        return _positions(self.groups)

    def repeated_columns(self) -> dict[str, list[str]]:
        """The cells of the table's columns, for every word."""
        rows = [self.table.rows[row] for row in self.rows.tolist()]
        places = [self.table.names.index(name) for name in self.columns]
        return {name: [row[place] for row in rows] for name, place in zip(self.columns, places, strict=True)}


def displayed_words(
    table: Table, column: str = "word", group: str | None = None, sentence: str | None = None, is_text: bool = False
) -> DisplayedWords:
    """The displayed words of a table.

    column: the column with the words, one per row (a region of several words counts as one); with `is_text`, the column
        with running text, whose words are separated by white space, and whose rows also end sentences.
    group: the column that changes where a new text (story, item) starts; None: all rows are one text.
    sentence: the column that changes where a new sentence starts; None: sentences end at final punctuation.
    Raises InputError for missing columns, an empty word, and if the rows of a group are not together.
    """
    texts = table.column(column, "--column" if is_text else "--word-column")
    words: list[str] = []
    rows: list[int] = []
    for row, text in enumerate(texts):
        found = [text[begin:end] for begin, end in word_spans(text)]
        if not found:
            raise InputError(
                f"{table.place(row)}: column {column} is empty; expected {'text' if is_text else 'the displayed word'}"
            )
        words += found if is_text else [" ".join(found)]
        rows += [row] * (len(found) if is_text else 1)
    places = np.array(rows, np.int64)
    groups = np.zeros(len(table.rows), np.int64)
    if group is not None:
        groups = _changes(table.column(group, "--group"))
        _check_together(table, group, groups)
    if sentence is not None:
        starts = np.diff(_changes(table.column(sentence, "--sentence-column")), prepend=-1) != 0
        sentences = np.cumsum(starts | (np.diff(groups, prepend=-1) != 0))[places] - 1
    else:
        ends = places if is_text else groups[places]
        sentences = np.cumsum(_sentence_starts(words, groups[places], ends)) - 1
    columns = tuple(name for name in table.names if not (is_text and name == column))
    return DisplayedWords(
        table, tuple(words), places, groups[places], sentences.astype(np.int64), columns, group, sentence, is_text
    )


def _positions(numbers: Integers) -> Integers:
    starts = np.flatnonzero(np.r_[True, numbers[1:] != numbers[:-1]])
    return np.arange(len(numbers)) - np.repeat(starts, np.diff([*starts, len(numbers)])) + 1


def _changes(cells: Sequence[str]) -> Integers:
    """Numbers from 0 that increase where a cell differs from the one before it."""
    changed = [False, *(one != other for one, other in pairwise(cells))]
    return np.cumsum(changed).astype(np.int64)


def _check_together(table: Table, group: str, groups: Integers) -> None:
    cells = table.column(group, "--group")
    starts = np.flatnonzero(np.diff(groups, prepend=-1)).tolist()
    seen: dict[str, int] = {}
    for row in starts:
        if cells[row] in seen:
            raise InputError(
                f"{table.place(row)}: {group} {cells[row]} continues after other rows (it started at"
                f" {table.place(seen[cells[row]])}); expected the rows in the order in which readers saw the words"
            )
        seen[cells[row]] = row


def _sentence_starts(words: Sequence[str], groups: Integers, ends: Integers) -> npt.NDArray[np.bool_]:
    """Whether each word starts a sentence, from final punctuation.

    ends: numbers that change where a sentence ends in any case.
    """
    from syntaxlm.data.sentences import Splitter

    starts = np.diff(ends, prepend=-1) != 0
    bounds = [*np.flatnonzero(starts).tolist(), len(words)]
    texts = {first: " ".join(words[first:end]) for first, end in pairwise(bounds)}
    splitter = Splitter.learn([list(texts.values())])
    for first, text in texts.items():
        begins = {begin: first + number for number, (begin, _) in enumerate(_places(text, words, first))}
        position = 0
        for sentence in splitter(text):
            position = text.find(sentence, position)
            if position in begins:
                starts[begins[position]] = True
            position += len(sentence)
    return starts


def _places(text: str, words: Sequence[str], first: int) -> Iterator[tuple[int, int]]:
    """The (begin, end) in a text of its words, which are words[first], words[first + 1] ..., joined by spaces."""
    begin = 0
    while begin < len(text):
        end = begin + len(words[first])
        yield begin, end
        begin, first = end + 1, first + 1


# ---- reading times


@dataclass(frozen=True)
class Times:
    """The mean reading time of each displayed word.

    values: (n,), in the unit of the table, or their natural logarithms; NaN without time.  counts: (n,) times averaged.
    source, column: where they are from.  left_out: number of times below the minimum or above the maximum.
    unmatched: number of rows whose key is not that of a word.
    """

    values: Numbers
    counts: Integers
    source: str
    column: str
    key: tuple[str, ...]
    is_log: bool = False
    left_out: int = 0
    unmatched: int = 0


def join_times(
    words: DisplayedWords,
    times: Table | None,
    column: str,
    key: Sequence[str] | None = None,
    log: bool = False,
    minimum: float | None = None,
    maximum: float | None = None,
    word_column: str = "word",
) -> Times:
    """The reading time of each displayed word; several times of a word, such as those of participants, are averaged.

    times: a table with a column of times; None: the table of the words has it.
    key: columns of both tables that together identify a word; None: all columns that both have, except `word_column`
        and `column`.  If both have `word_column`, its letters and digits must agree.
    log: average and return natural logarithms.  minimum, maximum: times outside are left out first.
    Raises InputError for missing columns, for a key that several words share, for different words with the same key, if
    no row matches, and for a time that is negative or, with `log`, 0.
    """
    own = words.table
    source = own if times is None else times
    found = source.numbers(column, "--time-column")
    inside = ~np.isnan(found)
    if minimum is not None:
        inside &= ~(found < minimum)
    if maximum is not None:
        inside &= ~(found > maximum)
    wrong = np.flatnonzero(inside & ((found <= 0) if log else (found < 0)))
    if len(wrong):
        row = int(wrong[0])
        advice = "; leave such times out with --min-time" if found[row] == 0 else ""
        raise InputError(
            f"{source.place(row)}: found the time {found[row]:g} in column {column}; expected a"
            f" {'positive number' if log else 'number of 0 or more'}{advice}"
        )
    left_out = int((~np.isnan(found)).sum() - inside.sum())
    keys: tuple[str, ...] = ()
    if times is None:
        of_row, unmatched = np.arange(len(own.rows)), 0
    else:
        keys = _key_columns(own, times, column, key, word_column)
        of_row = _matched_rows(own, times, keys, word_column)
        unmatched = int((of_row < 0).sum())
    kept = inside & (of_row >= 0)
    values = np.log(found[kept]) if log else found[kept]
    counts = np.bincount(of_row[kept], minlength=len(own.rows))
    sums = np.bincount(of_row[kept], weights=values, minlength=len(own.rows))
    means = np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)
    return Times(
        means[words.rows], counts[words.rows].astype(np.int64), source.source, column, keys, log, left_out, unmatched
    )


def _key_columns(
    words: Table, times: Table, column: str, key: Sequence[str] | None, word_column: str
) -> tuple[str, ...]:
    if key is None:
        names = tuple(name for name in words.names if name in times.names and name not in (column, word_column))
        if not names:
            raise InputError(
                f"{times.source}: shares no column with {words.source} that identifies a word. Found"
                f" {', '.join(times.names)}, and {', '.join(words.names)}. Choose the columns with --key"
            )
        return names
    for table in (words, times):
        for name in key:
            table.column(name, "--key")
    return tuple(key)


def _matched_rows(words: Table, times: Table, key: tuple[str, ...], word_column: str) -> Integers:
    """The row of `words` of each row of `times`, -1 for none."""
    rows: dict[tuple[str, ...], int] = {}
    for row, cells in enumerate(_cells_of(words, key)):
        if cells in rows:
            raise InputError(
                f"{words.place(row)}: has the same {', '.join(key)} ({', '.join(cells)}) as"
                f" {words.place(rows[cells])}; expected columns that identify each word (--key)"
            )
        rows[cells] = row
    times_cells = list(_cells_of(times, key))
    found = np.array([rows.get(cells, -1) for cells in times_cells], np.int64)
    if (found < 0).all():
        raise InputError(
            f"{times.source}: no row has the {', '.join(key)} of a word of {words.source}; found"
            f" {_examples(times_cells)}, expected {_examples(rows)}"
        )
    if word_column in words.names and word_column in times.names and word_column not in key:
        shown, read = words.column(word_column, ""), times.column(word_column, "")
        for row, place in enumerate(found.tolist()):
            if place >= 0 and _letters(shown[place]) != _letters(read[row]):
                raise InputError(
                    f"{times.place(row)}: found the word {read[row]!r}, but {words.place(place)}, has"
                    f" {shown[place]!r} with the same {', '.join(key)}; expected the same words"
                )
    return found


def _cells_of(table: Table, key: Sequence[str]) -> Iterable[tuple[str, ...]]:
    return zip(*(table.column(name, "--key") for name in key), strict=True)


def _examples(cells: Iterable[tuple[str, ...]]) -> str:
    shown = [" ".join(one) for one, _ in zip(cells, range(_SHOWN), strict=False)]
    return ", ".join(map(repr, shown)) + ", ..."


def _letters(word: str) -> str:
    return "".join(filter(str.isalnum, word)).casefold()


def lagged(values: npt.NDArray[Any], groups: Integers, lag: int) -> Numbers:
    """The value of the word `lag` words before each word, (n,); NaN where the group has no such word."""
    found = np.full(len(values), np.nan)
    same = groups[lag:] == groups[: len(groups) - lag]
    found[lag:][same] = values[: len(values) - lag][same]
    return found
