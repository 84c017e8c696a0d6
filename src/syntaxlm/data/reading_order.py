"""The order of the rows of a table of displayed words: that of reading, or sorted by a column of numbers.

R's `merge` and other programs sort numbers as text: 1, 10, 11, 2. Surprisals in this order have other words as context,
so a table whose numbers contradict its order is refused.

The cells of a column of order are decimal numbers (0.5 or 0,5 is after 0.25 or 0,25), whole numbers, or names with
whole numbers, such as i1_w10 and 1.10, the tenth word of sentence 1. See `number_keys`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from syntaxlm.core.arrays import Flags, Integers
from syntaxlm.core.errors import InputError, listed, warn_caller
from syntaxlm.core.option_names import option_name

if TYPE_CHECKING:
    from syntaxlm.data.input_table import InputTable

_READERS = re.compile(r"subj|participant|reader|workerid|respondent")  # in the name of a column, in small letters
FEWEST_WORDS = 10  # that are in alphabetical order: fewer may be so by chance
MOST_GAPS = 0.2  # of the steps in a column of numbers that counts words
FEWEST_PAIRS = 5  # rows and their next ones that are all in text order: fewer may be so by chance
_NUMBER = re.compile(r"\d+")
DECIMAL = re.compile(r"[-+]?\d{1,12}(?:[.,](\d{1,12}))?")
_WITH_NUMBER = re.compile(r"[^\d]*(?:\d{1,12}[^\d]*)+")
_USUAL_GROUPS = frozenset(["item", "story", "passage", "trial", "document", "item_id", "text_id"])


Key = tuple[float, ...]
Group = tuple[str, ...]
"""The cells of the columns of groups in a row."""


def sorted_rows(table: InputTable, order: str, groups: Sequence[Group]) -> InputTable:
    """Return a table whose rows are sorted by a column of numbers within groups, which keep their order.

    Args:
        order: the column, with numbers, or with names that differ only in their numbers.
        groups: the group of each row.

    Raises:
        InputError: for a missing number, and for two rows of a group with the same one.
    """
    cells = [cell.strip() for cell in table.column(order, "--order")]
    numbers: list[Any] = number_keys(cells)
    if not _is_numbered(cells):
        numbers = table.numbers(order, "--order").tolist()
        if missing := [row for row, number in enumerate(numbers) if number != number]:
            raise InputError(f"{table.place(missing[0])}: column {order} is empty; expected a number in every row")
    first_rows: dict[Group, int] = {}
    for row, group in enumerate(groups):
        first_rows.setdefault(group, row)
    rows = sorted(range(len(groups)), key=lambda row: (first_rows[groups[row]], numbers[row]))
    for before, row in pairwise(rows):
        if groups[before] == groups[row] and numbers[before] == numbers[row]:
            raise InputError(
                f"{table.place(row)}: has the same {order} ({cells[row]}) as {table.place(before)}; expected"
                " numbers that differ within a group. Choose the columns that name the group, such as an item, with"
                f" {option_name('--group')}"
            )
    return replace(
        table,
        rows=tuple(table.rows[row] for row in rows),
        values=tuple(table.values[row] for row in rows),
        row_numbers=tuple(table.row_numbers[row] for row in rows),
    )


def check_order(table: InputTable, starts: Flags, words: str, groups: Sequence[str]) -> None:
    """Raise InputError if a column shows that the rows are not in the order of reading.

    Evidence: the numbers of each group are 1, 2, 3, ... (or another unbroken sequence), but in another order; or names
    with numbers are sorted as text ("1", "10", "2") within all groups; or the words are in alphabetical order. Without
    columns of groups, any column whose values repeat may be one.

    Args:
        starts: whether each row starts a group.
        words: the column of words, or of text.
        groups: the columns of groups.
    """
    column = {name: [row[place].strip() for row in table.rows] for place, name in enumerate(table.names)}
    spans = [range(*span) for span in pairwise([*np.flatnonzero(starts).tolist(), len(table.rows)])]
    # Negative numbers say nothing: they may count from the end.
    keys = {
        name: number_keys(cells)
        for name, cells in column.items()
        if name not in (words, *groups) and _is_numbered(cells) and cells[0][0] != "-"
    }
    disorders = {name: _first_disorder(column[name], keys[name], spans) for name in keys}
    wrong = {name: row for name, row in disorders.items() if row}
    if not groups:
        wrong = _disorders_of_pairs(column, keys, words) | wrong
    if wrong:
        name, row = next(iter(wrong.items()))
        advice = _order_advice(column, list(wrong), has_groups=bool(groups))
        raise InputError(
            f"{table.place(row)}: found {name} {column[name][row]!r} after {column[name][row - 1]!r}; expected the rows"
            f" in the order of reading, but the numbers in {listed(wrong)} are in another order, such as the order of"
            f" text (1, 10, 2), in which R's merge sorts them. Add {advice}; or sort the table by these numbers"
        )
    folded = list(map(str.casefold, column[words]))
    if len(folded) >= FEWEST_WORDS and folded == sorted(folded) and len(set(folded)) > 2:
        raise InputError(
            f"{table.source}: the cells of the column {words} are in alphabetical order, from {column[words][0]!r} to"
            f" {column[words][-1]!r}; expected the order of reading. Add {option_name('--order')} with a"
            f" column of numbers, and {option_name('--group')}"
        )
    _warn_of_gaps(table, column, keys, spans)


def _order_advice(column: Mapping[str, Sequence[str]], wrong: Sequence[str], has_groups: bool) -> str:
    """Return the options that order a table.

    Args:
        column: the cells of each column.
        wrong: the columns of numbers that are not in order. One whose numbers mostly repeat names groups.
        has_groups: whether columns of groups were chosen.
    """
    rows = len(column[wrong[0]])
    repeated = [name for name in wrong if 2 * sum(map(str.__eq__, column[name], column[name][1:])) > rows]
    orders = [name for name in wrong if name not in repeated]
    options = [option_name("--order", name) for name in orders[-1:]]
    options += [option_name("--group", name) for name in repeated]
    advice = " and ".join(options)
    if orders and not repeated and not has_groups:
        advice += f", and {option_name('--group')} for the columns that name the text or item of a row"
        advice += ", if there are several"
    return advice


def _warn_of_gaps(
    table: InputTable, column: Mapping[str, Sequence[str]], keys: Mapping[str, Sequence[Key]], spans: Sequence[range]
) -> None:
    """Warn of a number that is left out or doubled in a column that otherwise counts the words of each group.

    Args:
        column: the cells of each column.
        keys: of the columns that may number the rows of a group, see `number_keys`.
    """
    for name, numbers in keys.items():
        if len(numbers[0]) != 1:
            continue
        cells = column[name]
        steps = {row: numbers[row][0] - numbers[row - 1][0] for span in spans for row in span[1:]}
        odd = [row for row, step in steps.items() if step != 1]
        if odd and len(odd) <= MOST_GAPS * len(steps) and all(steps[row] >= 0 for row in odd):
            row = odd[0]
            warn_caller(
                f"{table.place(row)}: found {name} {cells[row]!r} after {cells[row - 1]!r}; expected numbers"
                f" without gaps, as in {1 - len(odd) / len(steps):.0%} of the rows. A word that is missing or"
                " doubled changes the surprisals of the words after it"
            )
            return


def _is_numbered(cells: Sequence[str]) -> bool:
    """Return whether all cells are numbers, or are names that differ only in their numbers."""
    return bool(_WITH_NUMBER.fullmatch(cells[0])) and len({_NUMBER.sub("0", cell) for cell in cells}) == 1


def number_keys(cells: Sequence[str]) -> list[Key]:
    """Return what orders the cells of a column: their values if all are decimal numbers, otherwise their whole numbers.

    1.9 and 1.10 are two whole numbers each: programs write decimals without a 0 at the end, or all with as many digits.
    """
    matches = [match for match in map(DECIMAL.fullmatch, cells) if match is not None]
    decimals = {match[1] or "" for match in matches}
    has_one_length = len(set(map(len, decimals))) == 1
    if len(matches) == len(cells) and (has_one_length or not any(re.fullmatch(r"\d+0", digits) for digits in decimals)):
        return [(float(cell.replace(",", ".")),) for cell in cells]
    return [tuple(map(int, _NUMBER.findall(cell))) for cell in cells]


def _disorders_of_pairs(
    column: Mapping[str, Sequence[str]], keys: Mapping[str, Sequence[Key]], words: str
) -> dict[str, int]:
    """Return columns of numbers with their first row that is not in order, if another column may name groups.

    Two columns that order the rows, of which one names groups, are not in disorder because of a third.

    Args:
        column: the cells of each column.
        keys: of the columns that may number the rows of a group, see `number_keys`.
        words: the column of words.
    """
    wrong: dict[str, int] = {}
    in_order: set[str] = set()
    for group, values in column.items():
        rows = [] if group == words else _rows_by_value(values)
        for name in keys if rows else ():
            row = None if name == group else _first_disorder(column[name], keys[name], rows)
            if row is None:
                continue
            if row == 0:
                in_order |= {name, group}
            else:
                wrong.setdefault(name, row)
    return {name: row for name, row in wrong.items() if name not in in_order}


def _rows_by_value(cells: Sequence[str]) -> list[list[int]]:
    """Return the rows of each value of a column; nothing if all values are the same, or most differ."""
    rows: dict[str, list[int]] = {}
    for row, cell in enumerate(cells):
        rows.setdefault(cell, []).append(row)
    return list(rows.values()) if 1 < len(rows) <= len(cells) / 2 else []


def _first_disorder(cells: Sequence[str], keys: Sequence[Key], groups: Sequence[Sequence[int]]) -> int | None:
    """Return the first row that does not follow the row before it, 0 if all do; None if the numbers do not show it.

    Args:
        keys: what orders the cells, see `number_keys`.
        groups: the rows of each group.
    """
    is_sequence, is_text_order = True, True
    wrong: list[int] = []
    longest = pairs = 0
    for rows in groups:
        runs = [(name, list(same)) for name, same in groupby(rows, cells.__getitem__)]
        names = [name for name, _ in runs]
        run_keys = [keys[run[0]] for _, run in runs]
        numbers = [key[-1] for key in run_keys]
        if len(set(names)) < len(names):
            return None
        is_sequence &= len(run_keys[0]) == 1 and len(runs) == len(rows) and max(numbers) - min(numbers) + 1 == len(runs)
        is_sequence &= all(number == int(number) for number in numbers)
        is_text_order &= names == sorted(names)
        if not (is_sequence or is_text_order):
            return None
        longest, pairs = max(longest, len(runs)), pairs + len(runs) - 1
        falls = [key < before for before, key in pairwise(run_keys)]
        wrong += [run[0] for (_, run), is_fall in zip(runs[1:], falls, strict=True) if is_fall]
    if is_sequence and longest > 2:
        wrong += [row for rows in groups for before, row in pairwise(rows) if row > before + 1]
        return min(wrong, default=0)
    return min(wrong, default=None) if is_text_order and pairs >= FEWEST_PAIRS else None


def ungrouped(table: InputTable) -> str:
    """Return the column that probably names the text or item of a row, if no column of groups is given; "" for none."""
    for place, name in enumerate(table.names):
        if name.casefold() in _USUAL_GROUPS and len({row[place] for row in table.rows}) > 1:
            return name
    return ""


def check_groups_together(table: InputTable, cells: Sequence[Group], starts: Flags, groups: Sequence[str]) -> None:
    """Raise InputError if a group continues after the rows of another one.

    Args:
        cells: the group of each row.
        starts: whether each row starts a group.
        groups: the columns of groups.
    """
    first_rows: dict[Group, int] = {}
    for row in np.flatnonzero(starts).tolist():
        if cells[row] in first_rows:
            raise InputError(
                f"{table.place(row)}: {', '.join(groups)} {', '.join(cells[row])} continues after other rows (it"
                f" started at {table.place(first_rows[cells[row]])}); expected the rows in the order in which readers"
                f" saw the words. If a column has their numbers, add {option_name('--order')} with its name"
            )
        first_rows[cells[row]] = row


def check_sentences_together(
    table: InputTable, cells: Sequence[str], starts: Flags, groups: Integers, column: str
) -> None:
    """Raise InputError if most sentences continue after another sentence of the same group.

    Args:
        cells: the names of sentences.
        starts: whether each row starts a sentence.
        groups: number of the group of each row.
    """
    first_rows: dict[tuple[int, str], int] = {}
    returns = []
    rows = np.flatnonzero(starts).tolist()
    for row in rows:
        key = int(groups[row]), cells[row]
        returns += [(row, first_rows[key])] if key in first_rows else []
        first_rows.setdefault(key, row)

    # Fewer of them are numbers that start again at 1 in each text.
    if returns and 2 * len(returns) >= len(rows):
        row, first = returns[0]
        raise InputError(
            f"{table.place(row)}: {column} {cells[row]} continues after other rows (it started at"
            f" {table.place(first)}); expected the rows in the order in which readers saw the words"
        )


def warn_of_unused_columns(table: InputTable, groups: Sequence[str], has_no_ends: bool) -> None:
    """Warn of columns of sentences and of readers that were not chosen, where this changes the context of words.

    Args:
        groups: the columns of groups.
        has_no_ends: whether no sentence ends inside a group.
    """
    names = {name: re.sub(r"[^a-z]", "", name.lower()) for name in table.names}
    sentence = next((name for name, plain in names.items() if plain.startswith("sent")), None)
    if has_no_ends and sentence is not None and len({*table.column(sentence, "")}) > 1:
        warn_caller(
            f"{table.source}: no sentence ends inside a group, because no word has final punctuation. Add"
            f" {option_name('--sentence-column', sentence)}"
        )
    reader = next((name for name, plain in names.items() if _READERS.match(plain) and name not in groups), None)
    if reader is not None and len({*table.column(reader, "")}) > 1:
        warn_caller(
            f"{table.source}: has rows of several readers (column {reader}), which are read as one text. Expected"
            " one row per displayed word; give the times of readers as a table of their own, or average them"
        )
