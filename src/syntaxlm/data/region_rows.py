"""Tables of stimuli with one row for each region of a sentence, as PCIbex, Ibex and Linger have them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations, pairwise
from typing import NamedTuple

from syntaxlm.core.errors import InputError, amount, listed
from syntaxlm.core.option_names import option_name
from syntaxlm.data.input_table import InputTable


class WrittenRegion(NamedTuple):
    """A region of a sentence as a table has it.

    Attributes:
        name: of its column, its number, or the name in its row.
        row: the row of the table, from 0.
    """

    name: str
    text: str
    row: int


def regions_of_rows(
    table: InputTable,
    column: str,
    names: Sequence[str],
    texts: Sequence[str],
    items: Sequence[str],
    conditions: Sequence[str],
) -> list[list[WrittenRegion]]:
    """Return the regions of each sentence, which are the rows of one item and condition, in their order.

    Args:
        table: the table, for messages.
        column: the column of the names of regions.
        names: the name of the region of each row; those of one sentence differ.
        texts: the text of each row.
        items: the item of each row.
        conditions: the condition of each row.

    Raises:
        InputError: for two rows with one item, condition and region, for rows in another order than that of reading,
            and if no sentence has several rows.
    """
    sentences: dict[tuple[str, str], list[WrittenRegion]] = {}
    first_rows: dict[tuple[str, str, str], int] = {}
    for row, (item, condition, name, text) in enumerate(zip(items, conditions, names, texts, strict=True)):
        first = first_rows.setdefault((item, condition, name), row)
        if first != row:
            raise InputError(
                f"{table.place(row)}: found region {name} of item {item}, condition {condition} again, after"
                f" {table.unit} {table.row_numbers[first]}; expected one row for each region of a sentence. If the"
                " table has the rows of several participants, keep those of one"
            )
        sentences.setdefault((item, condition), []).append(WrittenRegion(name, text, row))
    found = list(sentences.values())
    if all(len(regions) == 1 for regions in found):
        raise InputError(
            f"{table.source}: found one row for each of {amount(len(found), 'sentence')}; expected a row for each"
            f" region ({option_name('--region-rows', column)}). Omit this option if the rows are sentences"
        )
    _check_order(table, column, found)
    return found


def _check_order(table: InputTable, column: str, sentences: Sequence[Sequence[WrittenRegion]]) -> None:
    """Raise InputError for numbered regions that do not ascend, and for regions in different orders."""
    orders: dict[tuple[str, str], WrittenRegion] = {}
    for regions in sentences:
        numbered = all(region.name.isdecimal() for region in regions)
        for before, after in pairwise(regions):
            if numbered and int(before.name) > int(after.name):
                raise InputError(
                    f"{table.place(after.row)}: found region {after.name} after region {before.name} in column"
                    f" {column}; expected the order of reading. Sort the rows of each sentence by this number"
                )
        for before, after in combinations(regions, 2):
            orders.setdefault((before.name, after.name), after)
            other = orders.get((after.name, before.name))
            if other is not None:
                raise InputError(
                    f"{table.place(after.row)}: found region {after.name} after region {before.name}, but before it in"
                    f" {table.place(other.row)}; expected the order of reading in each sentence"
                )


def merged_order(sentences: Iterable[Iterable[str]]) -> list[str]:
    """Return the names of regions in the order of reading, also of those that the first sentences lack."""
    order: list[str] = []
    for names in sentences:
        place = 0
        for name in names:
            if name not in order:
                order.insert(place, name)
            place = order.index(name) + 1
    return order


def without_rows(sentences: Sequence[Sequence[WrittenRegion]]) -> list[tuple[int, str]]:
    """Return the regions that sentences lack and others have, each with the first row of its sentence."""
    names = merged_order([region.name for region in regions] for regions in sentences)
    return [
        (regions[0].row, name)
        for regions in sentences
        for name in names
        if name not in {region.name for region in regions}
    ]


def check_options(given: dict[str, object], region_rows: str) -> None:
    """Raise InputError for options that contradict `--region-rows`.

    Args:
        given: the values of other options, by name.
        region_rows: the column of the names of regions.
    """
    if extra := [name for name, value in given.items() if value]:
        raise InputError(
            f"{listed(extra)}: found with {option_name('--region-rows', region_rows)}; expected"
            f" {option_name('--column')} alone, the column with the text of each region"
        )
