"""Tables of stimuli with one row for each region of a sentence, as PCIbex, Ibex and Linger have them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, combinations, pairwise
from typing import NamedTuple

from syntaxlm.core.errors import InputError, amount, listed, shortened, warn_caller
from syntaxlm.core.option_names import option_name
from syntaxlm.data.input_table import InputTable
from syntaxlm.data.reading_order import DECIMAL, Key, number_keys

# Usual names of columns: lower case, letters and digits only.
_ITEMS = ("item", "itemid", "itemnumber", "itemnum", "itemno", "stimulus", "stimulusid", "sentenceid", "sentencenumber")
_REGIONS = (
    "region", "regionname", "regionnumber", "regionid", "zone", "roi", "segment", "chunk", "position", "wordnumber",
    "wordnum", "wordposition", "iaid",
)  # fmt: skip
_TEXTS = (
    "text", "regiontext", "words", "word", "content", "string", "phrase", "ialabel", "segment", "chunk", "sentence"
)  # fmt: skip
_SUBJECTS = ("subject", "participant")
_MOST_LEVELS = 8  # of a column that is taken for a factor
_FEWEST_SORTED = 4  # regions of a sentence that are hardly in the order of the alphabet by chance
_FINAL = re.compile(r"[.?!…][\W_]*$")
_NUMBERED = re.compile(r"(\D*)(\d+)(\D*)")
_WIDTH = 60  # characters of a sentence in a message


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
        is_repeated: whether a region of a sentence has several rows, such as those of several participants.
    """

    item: str
    factors: tuple[str, ...]
    region: str
    text: str
    is_repeated: bool

    @property
    def options(self) -> list[str]:
        """The options of the command items for this table, without those that have their default values."""
        factors = self.factors or ("NAME",)
        options = ["--region-rows", self.region, "--column", self.text]
        if self.item != "item":
            options += ["--item", self.item]
        if factors != ("condition",):
            options += chain.from_iterable(("--condition", name) for name in factors)
        return options


def find_region_columns(table: InputTable) -> RegionColumns | None:
    """Return the columns of a table that has, by the usual names of its columns, a row for each region; otherwise None.

    Without a column "condition", factors are columns with few values, one for each sentence and several for most items.
    """
    names = {"".join(filter(str.isalnum, name)).casefold(): name for name in table.names}
    item = next((names[name] for name in _ITEMS if name in names), None)
    region = next((names[name] for name in _REGIONS if name in names), None)
    text = next((names[name] for name in _TEXTS if name in names and names[name] != region), None)
    if item is None or region is None or text is None:
        return None
    columns = dict(zip(table.names, zip(*table.rows, strict=True), strict=True))
    condition = names.get("condition")
    others = [name for name in table.names if name.casefold() not in _SUBJECTS and name not in (item, region, text)]
    factors = [condition] if condition else _factors(columns, item, region, others)
    sentences = list(zip(columns[item], *(columns[name] for name in factors), strict=True))
    rows = list(zip(sentences, columns[region], strict=True))
    if len(set(rows)) < 2 * len(set(sentences)):
        return None
    return RegionColumns(item, tuple(factors), region, text, len(set(rows)) < len(rows))


def _factors(columns: Mapping[str, Sequence[str]], item: str, region: str, names: Sequence[str]) -> list[str]:
    """Return the columns that may be factors.

    Args:
        columns: the cells of each column.
        item: the column of items.
        region: the column of regions; a sentence ends where one of its regions comes again, or another item.
        names: the columns among which factors are.
    """
    starts, seen = [], set[str]()
    for row, (item_name, name) in enumerate(zip(columns[item], columns[region], strict=True)):
        if not row or name in seen or item_name != columns[item][row - 1]:
            starts.append(row)
            seen = set()
        seen.add(name)

    factors = []
    ends = [*starts[1:], len(columns[item])]
    items = len(set(columns[item]))
    for name in names:
        cells = columns[name]
        is_constant = all(len(set(cells[start:end])) == 1 for start, end in zip(starts, ends, strict=True))
        pairs = set(zip(columns[item], cells, strict=True))
        if is_constant and 1 < len(set(cells)) <= _MOST_LEVELS and 2 * len(pairs) >= 3 * items:
            factors.append(name)
    return factors


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
    if all(len(regions) == 1 for regions in sentences.values()):
        raise InputError(
            f"{table.source}: found one row for each of {amount(len(sentences), 'sentence')}; expected a row for each"
            f" region ({option_name('--region-rows', column)}). Omit this option if the rows are sentences"
        )
    written = list(sentences.values())
    _check_order(table, column, written)
    return written


def _check_order(table: InputTable, column: str, sentences: Sequence[Sequence[WrittenRegion]]) -> None:
    """Raise InputError for numbered regions that do not ascend, and for regions in different orders."""
    orders: dict[tuple[str, str], WrittenRegion] = {}
    for regions in sentences:
        numbers = _numbers([region.name for region in regions])
        for place, (before, after) in enumerate(pairwise(regions)):
            if numbers and numbers[place] > numbers[place + 1]:
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


def _numbers(names: Sequence[str]) -> list[Key]:
    """Return the numbers of regions such as 1, 2, or -1, 0, or r1, r2; none if names differ in more than a number."""
    if all(map(DECIMAL.fullmatch, names)):
        return number_keys(names)
    matches = [match for match in map(_NUMBERED.fullmatch, names) if match is not None]
    are_alike = len(matches) == len(names) and len({(match[1], match[3]) for match in matches}) == 1
    return [(int(match[2]),) for match in matches] if are_alike else []


def check_whole_sentences(table: InputTable, sentences: Sequence[Sequence[WrittenRegion]], used: Sequence[str]) -> bool:
    """Return whether a column has the whole sentence of each row, which shows that regions are complete and in order.

    A column has the sentences if most of its cells have the letters of the regions of their sentence, in any order.

    Args:
        table: the table.
        sentences: the regions of each sentence.
        used: the columns of the regions.

    Raises:
        InputError: if a sentence in such a column has the letters of its regions in another order, or more letters.
    """
    is_there = False
    for place, name in enumerate(table.names):
        if name in used:
            continue
        pairs = []
        for regions in sentences:
            cells = {table.rows[region.row][place] for region in regions}
            pairs.append((" ".join(region.text for region in regions), cells.pop() if len(cells) == 1 else ""))
        if 2 * sum(sorted(_letters(read)) == sorted(_letters(cell)) for read, cell in pairs) <= len(pairs):
            continue
        is_there = True
        for (read, cell), regions in zip(pairs, sentences, strict=True):
            if _letters(read) != _letters(cell) and Counter(_letters(read)) <= Counter(_letters(cell)):
                raise InputError(
                    f"{table.place(regions[0].row)}: the regions are {shortened(read, _WIDTH)!r}, but the column {name}"
                    f" has {shortened(cell, _WIDTH)!r}; expected a row for each region of the sentence, in the order of"
                    " reading"
                )
    return is_there


def _letters(text: str) -> str:
    return "".join(text.split())


def warn_of_sorted_regions(table: InputTable, column: str, sentences: Sequence[Sequence[WrittenRegion]]) -> None:
    """Warn if regions are probably not in the order of reading.

    They may have been sorted by name, if they are in the order of the alphabet in all sentences. In any other order,
    also of numbers, most sentences show it: a later region starts like a sentence, and an earlier one ends like one.

    Two regions are so in every second table, and three in every sixth. Three are not warned of if most sentences show
    that this is the order of reading, and two are only warned of if most sentences show that it is not: the text of one
    region starts, or ends, like a sentence. The order of numbered regions is only warned of if the sentences show it.

    Args:
        table: the table.
        column: the column of the names.
        sentences: the regions of each sentence.
    """
    orders = list(dict.fromkeys(tuple(region.name for region in regions) for regions in sentences))
    texts = [[region.text for region in regions if region.text.strip()] for regions in sentences]
    first_read = shortened(" | ".join(texts[0]), _WIDTH)
    are_sorted = all(list(names) == sorted(names) for names in orders)
    if not are_sorted or any(re.search(r"\d", name) for names in orders for name in names):
        if 2 * sum(_starts_late(regions) and _ends_early(regions) for regions in texts) > len(texts):
            warn_caller(
                f"{table.source}: most sentences start after their first region and end before their last one; expected"
                f" the order of reading. The first sentence is read as {first_read!r}. If the rows were sorted by the"
                f" column {column}, restore their order"
            )
        return
    most = max(map(len, orders))
    is_shown = 2 * sum(map(_are_in_order, texts)) > len(texts)
    is_contradicted = 2 * sum(map(_are_out_of_order, texts)) > len(texts)
    if most >= _FEWEST_SORTED or is_contradicted or (most == _FEWEST_SORTED - 1 and not is_shown):
        warn_caller(
            f"{table.source}: the regions of every sentence are in the order of the alphabet, {listed(orders[0])};"
            f" expected the order of reading. The first sentence is read as {first_read!r}. If the rows were sorted by"
            f" the column {column}, restore their order"
        )


def ends_like_sentence(text: str) -> bool:
    """Return whether a text ends in a full stop or a similar mark, perhaps with other marks after it."""
    return _FINAL.search(text) is not None


def starts_like_sentence(text: str) -> bool:
    """Return whether a text starts with a capital, other than that of the word I."""
    return text[:1].isupper() and text.split()[0].rstrip(",.") != "I"


def _are_in_order(texts: Sequence[str]) -> bool:
    """Return whether only the first text starts like a sentence, and only the last one ends like one."""
    starts, ends = [starts_like_sentence(text) for text in texts], [ends_like_sentence(text) for text in texts]
    return starts[:1] == ends[-1:] == [True] and not any(starts[1:] + ends[:-1])


def _are_out_of_order(texts: Sequence[str]) -> bool:
    """Return whether a later text alone starts like a sentence, or an earlier one alone ends like one."""
    return _starts_late(texts) or _ends_early(texts)


def _starts_late(texts: Sequence[str]) -> bool:
    """Return whether a later text starts like a sentence, and the first one does not."""
    starts = [starts_like_sentence(text) for text in texts]
    return any(starts[1:]) and not starts[0]


def _ends_early(texts: Sequence[str]) -> bool:
    """Return whether an earlier text ends like a sentence, and the last one does not."""
    ends = [ends_like_sentence(text) for text in texts]
    return any(ends[:-1]) and not ends[-1]


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


def warn_of_lost_rows(
    table: InputTable,
    sentences: Sequence[Sequence[WrittenRegion]],
    lacking: Sequence[tuple[int, str]],
    items: Sequence[str],
    conditions: Sequence[str],
) -> None:
    """Warn of sentences that may lack a row: the only ones of their condition, and those without a final mark.

    Args:
        table: the table.
        sentences: the regions of each sentence.
        lacking: the regions that sentences lack and others have, see `without_rows`.
        items: the item of each row.
        conditions: the condition of each row.
    """
    condition_counts = Counter(conditions[regions[0].row] for regions in sentences)
    texts = {regions[0].row: [region.text for region in regions if region.text.strip()] for regions in sentences}
    is_final = {row: bool(regions) and ends_like_sentence(regions[-1]) for row, regions in texts.items()}
    most_are_final = 2 * sum(is_final.values()) > len(is_final)
    lost = [
        (row, name)
        for row, name in lacking
        if condition_counts[conditions[row]] == 1 or (most_are_final and not is_final[row])
    ]
    if lost:
        row, name = lost[0]
        others = f" (and {len(lost) - 1:,} more)" if len(lost) > 1 else ""
        warn_caller(
            f"{table.place(row)}: found no row of region {name} in item {items[row]}, condition {conditions[row]}"
            f"{others}; it is read as {shortened(' | '.join(texts[row]), _WIDTH)!r}. Add the row; if the sentence does"
            " not have this region, with an empty text"
        )


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
