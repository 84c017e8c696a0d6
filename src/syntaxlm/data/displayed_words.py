"""The words of a reading experiment as displayed: their tables and reading times.

A table of words has a header line and one row per displayed word, in the order in which readers saw them. A displayed
word may have punctuation or be several tokens ("don't," is read as "do n't ,"). Its surprisal is the sum of the
surprisals of its tokens. Ends of sentences do not count. `word_table` gives a table with one row per displayed word for
regressions in other programs.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, chain, islice, pairwise

import numpy as np

from syntaxlm.core.arrays import Flags, Integers, Numbers
from syntaxlm.core.errors import InputError, listed, shortened, warn_caller
from syntaxlm.core.option_names import option_name
from syntaxlm.core.reading import ReadingReport, Remarks, announce
from syntaxlm.data.input_table import InputTable
from syntaxlm.data.reading_measures import reading_measure
from syntaxlm.data.reading_order import (
    check_groups_together,
    check_order,
    check_sentences_together,
    sorted_rows,
    ungrouped,
    warn_of_unused_columns,
)
from syntaxlm.text.normaliser import word_spans

LEARNT = 5_000  # words of a table from which abbreviations are learned; in a smaller one, "bed." looks like one

MOST_UNMATCHED = 0.05  # share of the rows of times that may belong to no displayed word
LARGE_TIME = 20  # times the median, above which a time is probably a mistake

_SHOWN = 3  # keys in a message
_LONGEST_SAMPLE = 200  # characters of a sentence in a report


@dataclass(frozen=True)
class DisplayedWords:
    """The n words of an experiment in the order in which readers saw them.

    Attributes:
        words: as displayed.
        rows: row of each word in `table`.
        groups: number of its group (story), from 0, ascending.
        sentences: number of its sentence, from 0, ascending; a sentence is within one group.
        columns: names of the table's columns that are repeated for every word.
        group_column: the column of groups that was given; several names are joined.
        sentence_column: the column of sentences that was given.
        attached: (n,) whether each word follows the word before it without a space; None: no word does.
    """

    table: InputTable
    words: tuple[str, ...]
    rows: Integers
    groups: Integers
    sentences: Integers
    columns: tuple[str, ...]
    group_column: str | None = None
    sentence_column: str | None = None
    attached: Flags | None = None

    def __len__(self) -> int:
        return len(self.words)

    def line(self, first: int, end: int, attaches: bool = False) -> tuple[str, list[int]]:
        """Return the text of the words [first, end), and where each of them begins in it.

        Args:
            attaches: whether `attached` words have no space before them.
        """
        words = self.words[first:end]
        if self.attached is None or not attaches:
            return " ".join(words), list(accumulate((len(word) + 1 for word in words[:-1]), initial=0))
        spaces = ["", *("" if is_attached else " " for is_attached in self.attached[first + 1 : end])]
        begins = accumulate(map(len, chain.from_iterable(zip(words, spaces[1:], strict=False))), initial=0)
        text = "".join(chain.from_iterable(zip(spaces, words, strict=True)))
        return text, list(begins)[::2][: len(words)]

    def spans(self, of: Integers) -> list[tuple[int, int]]:
        """Return the (first, end) of the words of each group or sentence."""
        starts = np.flatnonzero(np.r_[True, of[1:] != of[:-1]]).tolist()
        return list(pairwise([*starts, len(self)]))

    def position_in(self, of: Integers) -> Integers:
        """Return the position of each word in its group or sentence, from 1."""
        return np.concatenate([np.arange(1, end - first + 1) for first, end in self.spans(of)])


def displayed_words(
    table: InputTable,
    column: str = "word",
    group: str | Sequence[str] | None = None,
    sentence: str | None = None,
    is_text: bool = False,
    order: str | None = None,
) -> DisplayedWords:
    """Return the displayed words of a table.

    Args:
        column: the column with the words, one per row (a region of several words counts as one); with `is_text`, the
            column with running text, whose words are separated by white space, and whose rows also end sentences.
        group: the column, or several, that change where a new text (story, item) starts; None: all rows are one text.
        sentence: the column that changes where a new sentence starts; None: sentences end at final punctuation, and
            abbreviations are learned from tables of LEARNT words or more.
        order: the column of numbers by which the rows of a group are sorted; None: they are in the order of reading.

    Raises:
        InputError: for missing columns, an empty word, group or sentence, if the rows of a group are not together, and
            if the numbers in a column show that the rows are in another order, see `check_order`.
    """
    groups_by = [group] if isinstance(group, str) else list(group or ())
    group_cells: list[tuple[str, ...]] = [()] * len(table.rows)
    if groups_by:
        group_cells = list(zip(*(_names(table, name, "--group") for name in groups_by), strict=True))
        if empty := [row for row, cells in enumerate(group_cells) if not any(cells)]:
            raise InputError(f"{table.emptiness(empty[0], groups_by[0])}; expected the name of the group in every row")
    elif not is_text and (name := ungrouped(table)):
        warn_caller(
            f"{table.source}: without {option_name('--group')}, all {len(table.rows):,} rows are one passage, although"
            f" the column {name} changes. Values of previous words then come from another {name}. Expected"
            f" {option_name('--group', name)}"
        )
    if order is not None:
        place_of = {cells: place for place, cells in enumerate(dict.fromkeys(group_cells))}
        table = sorted_rows(table, order, group_cells)
        group_cells = sorted(group_cells, key=place_of.__getitem__)
    texts = table.column(column, "--column" if is_text else "--word-column")
    words: list[str] = []
    rows: list[int] = []
    for row, text in enumerate(texts):
        split = [text[begin:end] for begin, end in word_spans(text)]
        if not split:
            raise InputError(f"{table.emptiness(row, column)}; expected {'text' if is_text else 'the displayed word'}")
        split = split if is_text else [" ".join(split)]
        words += split
        rows += [row] * len(split)
    places = np.array(rows, np.int64)
    starts_group = _starts(group_cells)
    check_groups_together(table, group_cells, starts_group, groups_by)
    if order is None:
        check_order(table, starts_group, column, groups_by)
    groups = np.cumsum(starts_group)[places] - 1
    if sentence is not None:
        cells = _names(table, sentence, "--sentence-column")
        if empty := [row for row, cell in enumerate(cells) if not cell]:
            raise InputError(f"{table.emptiness(empty[0], sentence)}; expected the sentence of the word in every row")
        starts_sentence = _starts(cells) | starts_group
        check_sentences_together(table, cells, starts_sentence, np.cumsum(starts_group), sentence)
        sentences = np.cumsum(starts_sentence)[places] - 1
    else:
        sentences = np.cumsum(_sentence_starts(words, places if is_text else groups)) - 1
    if sentence is None and not is_text:
        warn_of_unused_columns(table, groups_by, bool(sentences[-1] == groups[-1]))
    columns = tuple(name for name in table.names if not (is_text and name == column))
    joined = ", ".join(groups_by) or None
    displayed = DisplayedWords(table, tuple(words), places, groups, sentences, columns, joined, sentence)
    announce(table.report(_report(displayed, is_text, order)))
    return displayed


def _report(words: DisplayedWords, is_text: bool, order: str | None) -> ReadingReport:
    """Return how a table of displayed words was read."""
    spans = words.spans(words.sentences)
    sample = tuple(shortened(" ".join(words.words[first:end]), _LONGEST_SAMPLE) for first, end in spans[:2])
    form = "running text" if is_text else "displayed words, one per row"
    counts = {"words": len(words), "sentences": len(spans)}
    evidence = []
    if words.group_column is not None:
        counts["groups"] = int(words.groups[-1]) + 1
        evidence.append(f"groups are those of {words.group_column}")
    evidence.append(
        "sentences end at final punctuation"
        if words.sentence_column is None
        else f"sentences start where {words.sentence_column} changes"
    )
    form += f", sorted by {order}" if order else ""
    shown = f"first sentence: {sample[0]}"
    return ReadingReport(words.table.source, form, counts, "; ".join(evidence), sample=sample, shown=shown)


def _names(table: InputTable, column: str, option: str) -> list[str]:
    """Return the cells of a column, without spaces around them and with single ones inside."""
    return [" ".join(cell.split()) for cell in table.column(column, option)]


def _starts(cells: Sequence[object]) -> Flags:
    """Return whether each cell differs from the one before it; true for the first."""
    return np.array([True, *(cell != before for before, cell in pairwise(cells))])


def _sentence_starts(words: Sequence[str], texts: Integers) -> Flags:
    """Return whether each word starts a sentence, from final punctuation.

    Args:
        texts: number of the text of each word, at whose end a sentence ends in any case.
    """
    from syntaxlm.data.sentence_splitter import Splitter  # imports nltk, which takes long

    starts = np.diff(texts, prepend=-1) != 0
    spans = list(pairwise([*np.flatnonzero(starts).tolist(), len(words)]))
    splitter = Splitter.learn([[" ".join(words[first:end]) for first, end in spans]], fewest_words=LEARNT)
    for first, end in spans:
        # The splitter may add spaces, so sentences are found in the text without any.
        written = ["".join(word.split()) for word in words[first:end]]
        text, position = "".join(written), 0
        begins = accumulate(map(len, written[:-1]), initial=0)
        word_at = {begin: first + number for number, begin in enumerate(begins)}
        for sentence in map(str.split, splitter(" ".join(words[first:end]))):
            position = text.find("".join(sentence), position)
            if position in word_at:
                starts[word_at[position]] = True
            position += sum(map(len, sentence))
    return starts


@dataclass(frozen=True)
class Times:
    """The mean reading time of each displayed word.

    Attributes:
        values: (n,), in the unit of the table, or their natural logarithms; NaN without time. Of a binary measure, the
            share of 1.
        counts: (n,) times averaged.
        source: the table of the times.
        column: the column of the times.
        left_out: number of times below the minimum or above the maximum.
        unmatched: number of rows whose key is not that of a word.
        missing: number of rows without a time.
        repeated: number of rows that are equal to an earlier row in all cells.
        outlier: the largest time and its place, if it is more than LARGE_TIME times the median of times above 0; ""
            otherwise.
        table: the table of the times.
        kept: (m,) the rows of the table whose times count.
        places: (m,) the displayed word of each of these rows.
        is_binary: whether the column has only 0 and 1, such as whether a word was skipped. Such values have neither
            limits nor logarithms.
    """

    values: Numbers
    counts: Integers
    source: str
    column: str
    key: tuple[str, ...]
    left_out: int = 0
    unmatched: int = 0
    missing: int = 0
    repeated: int = 0
    outlier: str = ""
    table: InputTable | None = None
    kept: Integers = field(default_factory=lambda: np.zeros(0, np.int64))
    places: Integers = field(default_factory=lambda: np.zeros(0, np.int64))
    is_binary: bool = False

    @property
    def what(self) -> str:
        """What the column has."""
        return "values" if self.is_binary else "times"

    @property
    def notes(self) -> list[str]:
        """What was left out of the times, or is odd about them, with counts."""
        counts = {
            "outside the limits": self.left_out,
            "missing": self.missing,
            "of no displayed word": self.unmatched,
            "in a row that repeats an earlier one (kept)": self.repeated,
        }
        return [f"{what}: {count:,}" for what, count in counts.items() if count]


def join_times(
    words: DisplayedWords,
    times: InputTable | None,
    column: str,
    key: Sequence[str] | None = None,
    log: bool = False,
    minimum: float | None = None,
    maximum: float | None = None,
    word_column: str = "word",
    allow_unmatched: bool = False,
) -> Times:
    """Return the reading time of each displayed word; several times of a word, such as those of participants, are
    averaged.

    If both have `word_column`, its letters and digits must agree. A column of 0 and 1 is a binary measure, to which
    limits and logarithms do not apply.

    Args:
        times: a table with a column of times; None: the table of the words has it.
        key: columns of both tables that together identify a word; None: all columns that both have, except
            `word_column` and `column`.
        log: average and return natural logarithms.
        minimum: smaller times are left out first.
        maximum: larger times are left out first.
        word_column: the column of words.
        allow_unmatched: whether more than MOST_UNMATCHED of the rows may belong to no displayed word.

    Raises:
        InputError: for missing columns, for a key that several words share, for different words with the same key, if
            more than MOST_UNMATCHED of the rows match no word, for a time that is negative or, with `log`, 0, for
            rates of skipping, and for a column of 0 or 1 alone.
    """
    source = words.table if times is None else times
    read, inside, is_binary = _read_times(source, column, log, minimum, maximum)

    # The row of the words of each row of times.
    keys: tuple[str, ...] = ()
    rows = len(words.table.rows)
    of_row = np.arange(rows)
    if times is not None:
        shared = (name for name in words.table.names if name in times.names and name not in (column, word_column))
        keys = tuple(shared if key is None else key)
        of_row = _matched_rows(words.table, times, keys, word_column, allow_unmatched)

    # The mean time of each word.
    kept = inside & (of_row >= 0)
    values = np.log(read[kept]) if log and not is_binary else read[kept]
    counts = np.bincount(of_row[kept], minlength=rows)
    sums = np.bincount(of_row[kept], weights=values, minlength=rows)
    means = np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)
    place_of_row = np.zeros(rows, np.int64)
    place_of_row[words.rows] = np.arange(len(words))
    kept_rows = np.flatnonzero(kept)
    missing = int(np.isnan(read).sum())
    return Times(
        means[words.rows],
        counts[words.rows].astype(np.int64),
        source.source,
        column,
        keys,
        left_out=len(read) - missing - int(inside.sum()),
        unmatched=int((of_row < 0).sum()),
        missing=missing,
        repeated=len(source.rows) - len(set(source.rows)),
        outlier="" if is_binary else _outlier(source, column, read, kept_rows),
        table=source,
        kept=kept_rows,
        places=place_of_row[of_row[kept_rows]],
        is_binary=is_binary,
    )


def _read_times(
    table: InputTable, column: str, log: bool, minimum: float | None, maximum: float | None
) -> tuple[Numbers, Flags, bool]:
    """Return the time of each row, NaN without one, whether it is within the limits, and whether the column is binary.

    A column of 0 and 1 has no limits. Times of 0 are announced.

    Raises:
        InputError: for a time that is negative or, with `log`, 0, for rates of skipping, and for a column of 0 or 1
            alone.
    """
    remarks = Remarks()
    times = table.numbers(column, "--time-column", remarks)
    is_time = ~np.isnan(times)
    distinct = np.unique(times[is_time])
    if np.array_equal(distinct, [0, 1]):
        form = f"0 and 1 in column {column}"
        announce(ReadingReport(table.source, form, {"values": int(is_time.sum())}, "", remarks.all()))
        return times, is_time, True
    if reading_measure(column) == "skip" and not np.isin(distinct, [0, 1]).all():
        row = int(np.flatnonzero(is_time & ~np.isin(times, [0, 1]))[0])
        raise InputError(
            f"{table.place(row)}: found {times[row]:g} in column {column}, whether a word was skipped; expected 0 or 1,"
            " in a row per reader and word. A rate does not say of how many readers it is"
        )
    if len(distinct) == 1 and distinct[0] in (0, 1) and is_time.sum() > 1:
        what = ", whether a word was skipped," if reading_measure(column) == "skip" else ""
        raise InputError(
            f"{table.source}: all {int(is_time.sum()):,} values of the column {column}{what} are {distinct[0]:g};"
            " expected times, or both 0 and 1, because a regression needs values that differ. Choose another column"
            f" with {option_name('--time-column')}"
        )
    if len(distinct) and distinct[0] >= 0 and distinct[-1] <= 1:
        warn_caller(
            f"{table.source}: all values of the column {column} are from 0 to 1 and are read as times. If they are"
            " rates, such as shares of readers, expected a row per reader and word with 0 or 1"
        )
    inside = is_time & ~(times < (-np.inf if minimum is None else minimum))
    inside &= ~(times > (np.inf if maximum is None else maximum))
    least = option_name("--min-time", 1)
    skipped = f"times of 0, which tables of eye movements have for skipped words ({least} omits them)"
    for row in np.flatnonzero(inside & (times == 0)).tolist():
        remarks.add(skipped, table.line(row))

    wrong = np.flatnonzero(inside & ((times <= 0) if log else (times < 0)))
    if len(wrong):
        row = int(wrong[0])
        advice = f"; leave such times out with {option_name('--min-time')}" if times[row] == 0 else ""
        raise InputError(
            f"{table.place(row)}: found the time {times[row]:g} in column {column}; expected a"
            f" {'positive number' if log else 'number of 0 or more'}{advice}"
        )
    form = f"reading times in column {column}"
    announce(ReadingReport(table.source, form, {"times": int(is_time.sum())}, "", remarks.all()))
    return times, inside, False


def _check_words(words: InputTable, times: InputTable, key: Sequence[str], word_column: str, matched: Integers) -> None:
    """Raise InputError if both tables have words, and those of a row differ.

    Args:
        matched: the row of the words of each row of times, -1 for none.
    """
    if word_column not in words.names or word_column not in times.names or word_column in key:
        return
    shown = words.column(word_column, "")
    read = times.column(word_column, "")
    for row, place in enumerate(matched.tolist()):
        if place >= 0 and _letters(shown[place]) != _letters(read[row]):
            raise InputError(
                f"{times.place(row)}: found the word {read[row]!r}, but {words.place(place)}, has"
                f" {shown[place]!r} with the same {listed(key)}; expected the same words"
            )


def _check_matched(
    words: InputTable, times: InputTable, keys: Sequence[str], of_row: Integers, allow_unmatched: bool
) -> None:
    """Raise InputError if more than MOST_UNMATCHED of the rows of times belong to no word, unless this is allowed.

    Args:
        of_row: the row of the words of each row of times, -1 for none.
    """
    unmatched = np.flatnonzero(of_row < 0)
    if len(unmatched) > MOST_UNMATCHED * len(of_row) and not allow_unmatched:
        raise InputError(
            f"{times.place(int(unmatched[0]))}: found values of {listed(keys)} that no word of {words.source} has, as"
            f" in {len(unmatched):,} of {len(of_row):,} rows ({len(unmatched) / len(of_row):.0%}); expected at most"
            f" {MOST_UNMATCHED:.0%} such rows. Check the columns that identify a word ({option_name('--key')}), or add"
            f" {option_name('--allow-unmatched')}"
        )


def _outlier(table: InputTable, column: str, times: Numbers, rows: Integers) -> str:
    """Return the largest time and its place, if it is so large that it is probably a mistake; "" otherwise."""
    rows = rows[times[rows] > 0]  # without skipped words
    if not len(rows) or times[rows].max() <= LARGE_TIME * np.median(times[rows]):
        return ""
    largest = int(rows[times[rows].argmax()])
    return (
        f"{table.place(largest)}: the time {times[largest]:,.0f} in column {column} is more than {LARGE_TIME} times the"
        f" median, {np.median(times[rows]):,.0f}: is it a mistake? Longer times are left out with"
        f" {option_name('--max-time')}"
    )


def _matched_rows(
    words: InputTable, times: InputTable, key: tuple[str, ...], word_column: str, allow_unmatched: bool
) -> Integers:
    """Return the row of `words` of each row of `times`, -1 for none. Raises InputError, see `join_times`."""
    if not key:
        raise InputError(
            f"{times.source}: shares no column with {words.source} that identifies a word. Found {listed(times.names)},"
            f" and {listed(words.names)}. Choose the columns with {option_name('--key')}"
        )

    def cells_of(table: InputTable) -> list[tuple[str, ...]]:
        return list(zip(*(_names(table, name, "--key") for name in key), strict=True))

    def examples(cells: Iterable[tuple[str, ...]]) -> str:
        return ", ".join(repr(" ".join(key)) for key in islice(cells, _SHOWN)) + ", ..."

    rows: dict[tuple[str, ...], int] = {}
    for row, cells in enumerate(cells_of(words)):
        if cells in rows:
            raise InputError(
                f"{words.place(row)}: has the same {listed(key)} ({listed(cells)}) as"
                f" {words.place(rows[cells])}; expected columns that identify each word"
                f" ({option_name('--key')})"
            )
        rows[cells] = row
    rows.pop(("",) * len(key), None)  # empty cells identify no word
    times_cells = cells_of(times)
    matched = np.array([rows.get(cells, -1) for cells in times_cells], np.int64)
    if (matched < 0).any():
        _refuse_shifted(words, times, key, rows, times_cells)
    if (matched < 0).all():
        raise InputError(
            f"{times.source}: no row has the {listed(key)} of a word of {words.source}; found"
            f" {examples(times_cells)}; expected {examples(rows)}"
        )
    _check_words(words, times, key, word_column, matched)
    _check_matched(words, times, key, matched, allow_unmatched)
    return matched


def _refuse_shifted(
    words: InputTable,
    times: InputTable,
    key: tuple[str, ...],
    rows: Mapping[tuple[str, ...], int],
    times_cells: Sequence[tuple[str, ...]],
) -> None:
    """Raise InputError if all rows of times would match with 1 more or less in a column of the key."""
    for place, name in enumerate(key):
        column = [cells[place] for cells in times_cells]
        if not all(map(str.isdecimal, column)):
            continue
        for shift in (1, -1):
            shifted = ((*cells[:place], str(int(cells[place]) + shift), *cells[place + 1 :]) for cells in times_cells)
            if all(cells in rows for cells in shifted):
                first, other = (min(int(cells[place]) for cells in of) for of in (times_cells, rows))
                raise InputError(
                    f"{times.source}: the numbers in column {name} start at {first}, but at {other} in {words.source};"
                    f" expected the same numbers for the same words. Add {shift} to the numbers of {times.source}"
                )


def _letters(word: str) -> str:
    return "".join(filter(str.isalnum, unicodedata.normalize("NFC", word))).casefold()
