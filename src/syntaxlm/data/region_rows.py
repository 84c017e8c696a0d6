"""Tables of stimuli with one row for each region of a sentence, as PCIbex, Ibex and Linger have them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations, pairwise
from typing import NamedTuple

from syntaxlm.core.errors import InputError, amount, listed
from syntaxlm.core.option_names import option_name
from syntaxlm.data.input_table import InputTable

# Usual names of columns, in lower case.
_REGIONS = ("region", "region_name", "region_number", "zone", "roi", "segment", "chunk", "position", "word_number")
_TEXTS = ("text", "region_text", "words", "word", "content", "sentence")
_SUBJECTS = ("subject", "participant")
_MOST_LEVELS = 8  # of a column that is taken for a factor


class WrittenRegion(NamedTuple):
    """A region of a sentence as a table has it.

    Attributes:
        name: of its column, its number, or the name in its row.
        row: the row of the table, from 0.
    """

    name: str
    text: str
    row: int


class RegionColumns(NamedTuple):
    """The columns of a table that seems to have a row for each region.

    Attributes:
        factors: columns of conditions; none if none has a usual name or the values of a factor.
        is_one_list: whether each region of a sentence has one row, so that there are no rows of several participants.
    """

    item: str
    factors: tuple[str, ...]
    region: str
    text: str
    is_one_list: bool

    @property
    def options(self) -> list[str]:
        """The options of the command items for this table, without those that have their default values."""
        factors = self.factors or ("NAME",)
        chosen = [] if factors == ("condition",) else [one for name in factors for one in ("--condition", name)]
        item = [] if self.item == "item" else ["--item", self.item]
        return ["--region-rows", self.region, "--column", self.text, *item, *chosen]


def find_region_columns(table: InputTable) -> RegionColumns | None:
    """Return the columns of a table that has, by the usual names of its columns, a row for each region; otherwise None.

    Without a column "condition", factors are columns with few values, one for each sentence and several for most items.
    """
    names = {name.casefold(): name for name in table.names}
    region = next((names[name] for name in _REGIONS if name in names), None)
    text = next((names[name] for name in _TEXTS if name in names), None)
    if "item" not in names or region is None or text is None:
        return None
    item = names["item"]
    columns = dict(zip(table.names, zip(*table.rows, strict=True), strict=True))
    condition = names.get("condition")
    others = [name for name in table.names if name.casefold() not in _SUBJECTS and name not in (item, region, text)]
    factors = [condition] if condition else _factors(columns, item, region, others)
    sentences = list(zip(columns[item], *(columns[name] for name in factors), strict=True))
    rows = list(zip(sentences, columns[region], strict=True))
    if len(set(rows)) < 2 * len(set(sentences)):
        return None
    return RegionColumns(item, tuple(factors), region, text, bool(factors) and len(set(rows)) == len(rows))


def _factors(columns: Mapping[str, Sequence[str]], item: str, region: str, names: Sequence[str]) -> list[str]:
    """Return the columns that may be factors.

    Args:
        columns: the cells of each column.
        item: the column of items.
        region: the column of regions; a sentence ends where one of its regions comes again, or another item.
        names: the columns among which factors are.
    """
    starts, seen = [], set[str]()
    for row, (own, name) in enumerate(zip(columns[item], columns[region], strict=True)):
        if not row or name in seen or own != columns[item][row - 1]:
            starts.append(row)
            seen = set()
        seen.add(name)

    found = []
    ends = [*starts[1:], len(columns[item])]
    items = len(set(columns[item]))
    for name in names:
        cells = columns[name]
        is_constant = all(len(set(cells[start:end])) == 1 for start, end in zip(starts, ends, strict=True))
        pairs = set(zip(columns[item], cells, strict=True))
        if is_constant and 1 < len(set(cells)) <= _MOST_LEVELS and 2 * len(pairs) >= 3 * items:
            found.append(name)
    return found


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
                " table has the rows of several participants, keep the rows of one participant"
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


def without_rows(
    table: InputTable, sentences: Sequence[Sequence[WrittenRegion]], items: Sequence[str], conditions: Sequence[str]
) -> list[tuple[int, str]]:
    """Return the regions that sentences lack and others have, each with the first row of its sentence.

    A condition may lack a region, such as a comma or a complementiser, and a sentence of numbered words may be shorter
    than others. Any other missing row is probably lost, and all later words of the sentence would be read without it.

    Args:
        table: the table, for messages.
        sentences: the regions of each sentence.
        items: the item of each row.
        conditions: the condition of each row.

    Raises:
        InputError: for a sentence that lacks a region which others of its condition have, except for numbered regions
            at the end of a sentence.
    """
    names = merged_order([region.name for region in regions] for regions in sentences)
    first_with: dict[tuple[str, str], int] = {}
    for regions in sentences:
        for region in regions:
            first_with.setdefault((conditions[region.row], region.name), region.row)

    lacking = []
    for regions in sentences:
        first, last = regions[0].row, regions[-1].name
        for name in names:
            if name in {region.name for region in regions}:
                continue
            other = first_with.get((conditions[first], name))
            is_shorter = name.isdecimal() and last.isdecimal() and int(name) > int(last)
            if other is not None and not is_shorter:
                raise InputError(
                    f"{table.place(first)}: found no row of region {name} in item {items[first]}, condition"
                    f" {conditions[first]}, but in item {items[other]} of this condition, {table.unit}"
                    f" {table.row_numbers[other]}; expected a row for each region of a sentence. Add the row; if the"
                    " sentence does not have this region, with an empty text"
                )
            lacking.append((first, name))
    return lacking


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
