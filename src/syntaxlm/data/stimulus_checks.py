"""Refuses tables of stimuli of another form, and warns of what is probably not meant.

Each of these gives a full table of means that says nothing: another sign between regions, a row for each region instead
of each sentence, regions that were left out or are in another order, conditions with typing errors.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, pairwise, product
from math import prod
from statistics import median

from syntaxlm.core.errors import InputError, amount, listed, shortened, warn_caller
from syntaxlm.core.option_names import option_name
from syntaxlm.core.reading import Remarks
from syntaxlm.data.input_table import InputTable
from syntaxlm.data.region_rows import ends_like_sentence, starts_like_sentence
from syntaxlm.data.table_form import MISSING
from syntaxlm.text.doubts import REGION_MARKS

_WIDTH = 60  # characters of a cell in a message
_EXAMPLES = 3
_SIGNS = (*REGION_MARKS, "/", "\\", "#", "^", "~", "*", "+", "@", "=")  # that may separate regions
_SPACED_SIGNS = (" - ", " -- ", " – ", " — ", " ; ", " : ")  # that separate regions only if each sentence has several
_JOINED = re.compile(r"\w_\w")
_RARE = 8  # a level is rare if others have so many times its rows
_MOST_CELLS = 256  # combinations of levels, above which the factors are probably not meant to be crossed
_MANY_LEVELS = 50  # of which no pairs are compared


def check_separator(table: InputTable, cells: Sequence[str], sign: str, is_given: bool) -> None:
    """Raise InputError if the sentences probably have another sign between regions.

    Args:
        cells: the sentences.
        sign: between regions.
        is_given: whether the user chose it.
    """
    if any(sign in cell for cell in cells):
        _refuse_second_sign(table, cells, sign)
        return
    in_all = [other for other in _SIGNS if other != sign and all(other in cell for cell in cells)]
    in_all += [spaced_sign for spaced_sign in _SPACED_SIGNS if all(cell.count(spaced_sign) > 1 for cell in cells)]
    example = f"such as {shortened(cells[0], _WIDTH)!r}"
    if in_all:
        raise InputError(
            f"{table.source}: found no {sign!r} between regions, but {in_all[0].strip()!r} in every sentence,"
            f" {example}; expected {sign!r}, or sentences of words. If it separates regions, add"
            f" {option_name('--separator', in_all[0].strip())}; otherwise give the regions in columns"
            f" ({option_name('--region')})"
        )
    if all(map(_JOINED.search, cells)):
        raise InputError(
            f"{table.source}: found '_' between the words of every sentence, {example}; expected spaces between words,"
            f" and {sign!r} between regions. Replace spaces by ' {sign} ' and then '_' by spaces"
        )
    if is_given:
        raise InputError(
            f"{table.source}: found {sign!r} in no sentence, {example}; expected it between regions. To read each word"
            f" as a region, omit {option_name('--separator')}"
        )


def _refuse_second_sign(table: InputTable, cells: Sequence[str], sign: str) -> None:
    """Raise InputError if the sign between regions is always doubled, or if a sentence also has another one."""
    if all(sign not in cell.replace(sign * 2, "") for cell in cells if sign in cell):
        raise InputError(
            f"{table.source}: found {sign * 2!r} between regions; expected {sign!r}. Choose it with"
            f" {option_name('--separator', sign * 2)}"
        )
    for row, cell in enumerate(cells):
        for mark in REGION_MARKS:
            if mark in cell.replace(sign, ""):
                raise InputError(
                    f"{table.place(row)}: found {mark!r} and {sign!r} in one sentence; expected one sign between"
                    f" regions: {option_name('--separator', mark)} or {option_name('--separator', sign)}"
                )


def refuse_marks_in_regions(table: InputTable, regions: Sequence[str]) -> None:
    """Raise InputError for a region that is given twice, and for marks between regions in columns of regions."""
    if twice := [name for name, count in Counter(regions).items() if count > 1]:
        raise InputError(
            f"{option_name('--region', twice[0])}: is given twice; expected each region once, in the order of reading"
        )
    for name in regions:
        for row, cell in enumerate(table.column(name, "--region")):
            if mark := next(filter(cell.__contains__, REGION_MARKS), None):
                raise InputError(
                    f"{table.place(row)}: found {mark!r} in the region {name}, {shortened(cell, _WIDTH)!r}; it would be"
                    " read as a word. Expected regions either in columns, or separated in a column of sentences"
                    f" ({option_name('--column')}). Remove it"
                )


def warn_of_split_words(table: InputTable, texts: Sequence[Sequence[str]], separator: str) -> None:
    """Warn of words that separators split: with spaces beside some separators, but not beside all."""
    ends = [
        (row, before, after)
        for row, row_texts in enumerate(texts)
        for before, after in pairwise(row_texts)
        if before.strip() and after.strip()
    ]
    split = [(row, before, after) for row, before, after in ends if not (before[-1] + after[0]).count(" ")]
    if split and len(split) < len(ends):
        row, before, after = split[0]
        word = shortened(f"{before.split()[-1]}{separator}{after.split()[0]}", _WIDTH)
        warn_caller(
            f"{table.place(row)}: the separator {separator!r} in {word!r} has no space beside it, as others have. If it"
            f" is inside a word, choose another sign with {option_name('--separator')}"
        )


def check_fragments(
    table: InputTable, texts: Sequence[str], items: Sequence[str], conditions: Sequence[str], used: Sequence[str]
) -> None:
    """Raise InputError if the rows are the regions, or words, of sentences, instead of sentences.

    Evidence: most pairs of item and condition have several rows with different texts. Either only the last of these
    ends like a sentence, or only the first starts like one; or they are short, and a column numbers or names them in
    the same way in each pair.

    Args:
        texts: the texts of the rows.
        used: the columns of items and conditions.
    """
    rows_of: dict[tuple[str, str], list[int]] = defaultdict(list)
    for row, cell in enumerate(zip(items, conditions, strict=True)):
        rows_of[cell].append(row)
    several = [rows for rows in rows_of.values() if len({texts[row] for row in rows}) > 1]
    if 2 * len(several) <= len(rows_of):
        return
    names = _numbering(table, several, used)
    lengths = [len(texts[row].split()) for rows in several for row in rows]
    shaped = sum(map(_look_like_parts_of_one_sentence, ([texts[row] for row in rows] for rows in several)))
    if not (2 * shaped > len(several) or (names and sum(lengths) < 4 * len(lengths))):
        return
    rows = several[0]
    parts = ", ".join(repr(shortened(texts[row], _WIDTH)) for row in rows[:_EXAMPLES])
    by = names[0] if names else "REGION"
    raise InputError(
        f"{table.place(rows[0])}: found {len(rows)} rows of item {items[rows[0]]}, condition {conditions[rows[0]]},"
        f" which are parts of one sentence: {parts}{', ...' if len(rows) > _EXAMPLES else ''}; expected one row per"
        f" sentence, with its regions separated by | or in columns ({option_name('--region')}). If each row is a"
        f" region, add {option_name('--region-rows', by)}, the column of their names, and {option_name('--column')},"
        " the column of their text. For words that were displayed one by one, use score --words"
    )


def _numbering(table: InputTable, cells: Sequence[Sequence[int]], used: Sequence[str]) -> list[str]:
    """Return the columns that number or name the rows of most pairs of item and condition in the same way."""
    result = []
    for place, name in enumerate(table.names):
        if name in used:
            continue
        values = [[table.rows[row][place] for row in rows] for rows in cells]
        unique = [tuple(value) for value in values if len(set(value)) == len(value)]
        if unique and 2 * max(Counter(unique).values()) > len(cells) > 1:
            result.append(name)
    return result


def _look_like_parts_of_one_sentence(texts: Sequence[str]) -> bool:
    """Return whether only the last of several texts ends like a sentence, or only the first starts like one."""
    ends = list(map(ends_like_sentence, texts))
    starts = [starts_like_sentence(text) for text in texts if text.strip()]
    return (ends[-1] and not any(ends[:-1])) or (bool(starts) and starts[0] and not any(starts[1:]))


def check_conditions(
    table: InputTable,
    levels: Mapping[str, Sequence[str]],
    conditions: Sequence[str],
    items: Sequence[str],
    remarks: Remarks,
) -> None:
    """Warn of conditions that are probably typing errors, of missing combinations, and of a first condition with few
    items.

    Args:
        levels: the values of each column of conditions.
        conditions: the conditions of each row.
        remarks: where such conditions are counted.
    """
    for name, values in levels.items():
        for rare, message in _likely_errors(values):
            row = values.index(rare)
            warn_caller(f"{table.place(row)}: column {name}: {message}")
            remarks.add("conditions that may be typing errors", table.line(row), rare)
    if len(levels) > 1:
        _warn_of_missing_combinations(table, levels)

    numbers = {condition: len(set(own_items)) for condition, own_items in _by_name(conditions, items).items()}
    first, *others = numbers.values()
    if others and first * 4 <= median(others):
        warn_caller(
            f"{table.place(0)}: the first condition, {conditions[0]!r}, has sentences of {amount(first, 'item')};"
            f" other conditions have up to {max(others)}. All differences are differences to the first condition."
            " Correct its name, or put another condition into the first row"
        )


def _warn_of_missing_combinations(table: InputTable, levels: Mapping[str, Sequence[str]]) -> None:
    """Warn if some combinations of levels have no sentence, unless so many lack one that no design is crossed.

    Args:
        levels: the values of each column of conditions.
    """
    different = [list(dict.fromkeys(values)) for values in levels.values()]
    expected = prod(map(len, different))
    present = set(zip(*levels.values(), strict=True))
    if not len(present) < expected <= _MOST_CELLS:
        return
    missing = [
        " / ".join(f"{name} {level}" for name, level in zip(levels, combination, strict=True))
        for combination in product(*different)
        if combination not in present
    ]
    warn_caller(
        f"{table.source}: the factors {listed(levels)} are not crossed, because no sentence has {listed(missing)}"
        f" ({len(present)} of {expected} combinations are there). Contrasts that need it are omitted"
    )


def _by_name(names: Sequence[str], values: Sequence[str]) -> dict[str, list[str]]:
    """Return the values of the rows of each name."""
    result: dict[str, list[str]] = {}
    for name, value in zip(names, values, strict=True):
        result.setdefault(name, []).append(value)
    return result


def _likely_errors(values: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield each value that may be a typing error, with a message on it."""
    counts = Counter(values)
    if len(counts) > _MANY_LEVELS:
        return
    reported: set[str] = set()
    for (common, more), (rare, fewer) in combinations(counts.most_common(), 2):
        rows = f"{rare!r} in {amount(fewer, 'row')} and {common!r} in {more}"
        if _folded(rare) == _folded(common):
            reported.add(rare)
            yield rare, f"found {rows}, which differ only in capitals, spaces or signs; they are two conditions"
        elif rare not in reported and 4 * fewer <= more and _differ_in_one_letter(rare, common):
            reported.add(rare)
            yield rare, f"found {rows}, which differ in one letter: is it a typing error? They are two conditions"
    for rare, fewer in counts.items():
        others = [count for value, count in counts.items() if value != rare]
        if rare not in reported and others and _RARE * fewer <= median(others):
            yield rare, f"found {rare!r} in {amount(fewer, 'row')} only, the others in {min(others)} or more"


def _folded(level: str) -> str:
    return "".join(filter(str.isalnum, level)).casefold() or level


def _differ_in_one_letter(first: str, second: str) -> bool:
    """Return whether two names differ in one letter, one more letter, or two that changed places; not in a digit."""
    short, long = sorted((first.casefold(), second.casefold()), key=len)
    if len(long) - len(short) > 1 or len(long) < 2:
        return False
    start = next((place for place, pair in enumerate(zip(short, long, strict=False)) if pair[0] != pair[1]), len(short))
    if len(short) < len(long):
        return short[start:] == long[start + 1 :] and not long[start].isdigit()
    if short[start:] == long[start + 1 : start + 2] + long[start : start + 1] + long[start + 2 :]:
        return True
    are_digits = short[start : start + 1].isdigit() and long[start : start + 1].isdigit()
    return short[start + 1 :] == long[start + 1 :] and not are_digits


def check_columns(table: InputTable, regions: Sequence[str], used: Sequence[str]) -> None:
    """Warn of columns of regions in another order than in the table, and of text between them that is left out.

    Args:
        used: the columns of items and conditions.
    """
    places = [table.names.index(name) for name in regions]
    if not places:
        return
    in_table = [table.names[place] for place in sorted(places)]
    is_alphabetical = in_table == sorted(in_table)  # as in tables that were reshaped: no evidence of an order
    if list(regions) != in_table and not is_alphabetical:
        warn_caller(
            f"{table.source}: reads the regions in the order {', '.join(regions)}; the table has the columns in the"
            f" order {', '.join(in_table)}. Expected the order of reading"
        )
    sentences = [" ".join(row[place] for place in places).split() for row in table.rows]
    written = [" ".join(words) for words in sentences]
    for place, name in enumerate(table.names):
        cells = [row[place] for row in table.rows if row[place].strip() not in MISSING]
        if name in (*used, *regions) or not cells or not all(map(_has_words, cells)):
            continue
        starts_late = not any(text[:1].isupper() for text in written)
        lacks_start = starts_late and all(cell.strip()[0].isupper() for cell in cells)
        lacks_end = not any(map(ends_like_sentence, written)) and all(map(ends_like_sentence, cells))
        holds_sentences = all(
            _contains(row, place, sentence) for row, sentence in zip(table.rows, written, strict=True)
        )
        if (min(places) < place < max(places) or lacks_start or lacks_end) and not holds_sentences:
            warn_caller(
                f"{table.source}: the column {name}, such as {shortened(cells[0], _WIDTH)!r}, is not read, so the first"
                f" sentence is {shortened(written[0], _WIDTH)!r}. If it has a region, add it with"
                f" {option_name('--region')}"
            )


def _has_words(cell: str) -> bool:
    return any(map(str.isalpha, cell))


def _contains(row: Sequence[str], place: int, sentence: str) -> bool:
    """Return whether a cell has all words of a sentence, as a column beside the regions may."""
    return set(sentence.split()) <= set(row[place].split())


def check_sentences(
    table: InputTable,
    sentences: Sequence[str],
    items: Sequence[str],
    conditions: Sequence[str],
    regions: Sequence[str],
) -> None:
    """Warn if most items have the same sentence in all conditions, which therefore cannot differ."""
    sentences_of = _by_name(items, sentences)
    conditions_of = _by_name(items, conditions)
    several = [item for item, names in conditions_of.items() if len(set(names)) > 1]
    same = [item for item in several if len(set(sentences_of[item])) == 1]
    if not same or 2 * len(same) < len(several):
        return
    chosen = option_name("--region" if regions else "--column")
    advice = f"Were regions left out ({chosen})?" if regions else f"Is it the right column ({chosen})?"
    warn_caller(
        f"{table.source}: the sentence is the same in all conditions of {len(same):,} of"
        f" {amount(len(several), 'item')}, such as {shortened(sentences_of[same[0]][0], _WIDTH)!r} in item {same[0]}."
        f" {advice}"
    )
