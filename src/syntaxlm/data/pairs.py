"""Minimal pairs: two sentences of which one is better, from JSON lines or tables.

Each line or row is one item. Its entries are those of a `_PairLayout`, or, in JSON, `sentences`, best first (Marvin &
Linzen 2018: negative polarity items have three). Each sentence and the next one are a pair; other pairs of an item
follow from these, so they only count in a group of their own.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, combinations
from pathlib import Path
from typing import Any

from syntaxlm.core.errors import InputError, shortened, warn_caller
from syntaxlm.core.files import visible_entries, without_repetition
from syntaxlm.core.reading import ReadingReport, Remarks, announce
from syntaxlm.core.text_files import STANDARD_INPUT, content_suffix, read_lines, source_name, uncompressed_name
from syntaxlm.data.table_form import TABLE_SUFFIXES, refuse_spreadsheet_error, text_of
from syntaxlm.data.tables import open_table

_GROUPINGS = ("field", "linguistics_term", "group")  # entries that name the group of an item


@dataclass(frozen=True)
class _PairLayout:
    """The entries of a file's items.

    Attributes:
        better: the entries that make up the better text, in order.
        worse: the entries that make up the worse text.
        case: the entries that together name the case, in files without `UID` and `case`.
        groups: the entries that name further groups, by type of grouping.
    """

    better: tuple[str, ...]
    worse: tuple[str, ...]
    case: tuple[str, ...] = ()
    groups: dict[str, str] = field(default_factory=dict)

    @property
    def sentences(self) -> tuple[str, ...]:
        """The entries of both texts."""
        return tuple(dict.fromkeys((*self.better, *self.worse)))


_LAYOUTS = (
    _PairLayout(("sentence_good",), ("sentence_bad",)),  # BLiMP, and most suites after it
    _PairLayout(("better",), ("worse",)),
    _PairLayout(  # MultiBLiMP, Jumelet, Weissweiler, Bisazza 2025
        ("sen",), ("wrong_sen",), ("lang", "phenomenon"), {"language": "lang", "phenomenon": "phenomenon"}
    ),
    _PairLayout(  # EWoK, Ivanova et al. 2024, as the BabyLM evaluation of 2025 compares it: two targets, one context
        ("Context1", "Target1"),
        ("Context1", "Target2"),
        ("Domain",),
        {"context_type": "ContextType", "context_contrast": "ContextDiff", "target_contrast": "TargetDiff"},
    ),
)
_ENTRIES = (
    "sentence_good and sentence_bad, better and worse, those of MultiBLiMP (sen, wrong_sen) or EWoK (Context1, Target1,"
    " Target2)"
)
_ENTRIES_CHARACTERS = 200  # characters of entries in a message
_OPTIONAL = (
    "UID", "case", *_GROUPINGS, *(name for layout in _LAYOUTS for name in (*layout.case, *layout.groups.values()))
)  # fmt: skip
_BLANK = re.compile(r"\s*")
_SAMPLE_CHARACTERS = 300  # characters
_ENTRY_CHARACTERS = 60  # characters of a faulty entry

# The cases of Marvin & Linzen's files, animate and inanimate together, as in the table of Shen et al. 2019 (ON-LSTM):
# the distance is long where a phrase or clause separates the two words in question.
_MARVIN_LINZEN = {
    "simple_agrmt": ("agreement", "short", "simple"),
    "sent_comp": ("agreement", "short", "in a sentential complement"),
    "vp_coord": ("agreement", "short", "short VP coordination"),
    "obj_rel_within": ("agreement", "short", "in an object relative clause"),
    "obj_rel_no_comp_within": ("agreement", "short", "in an object relative clause without that"),
    "simple_reflexives": ("reflexives", "short", "simple"),
    "reflexive_sent_comp": ("reflexives", "short", "in a sentential complement"),
    "simple_npi": ("polarity", "short", "simple"),
    "long_vp_coord": ("agreement", "long", "long VP coordination"),
    "prep": ("agreement", "long", "across a prepositional phrase"),
    "subj_rel": ("agreement", "long", "across a subject relative clause"),
    "obj_rel_across": ("agreement", "long", "across an object relative clause"),
    "obj_rel_no_comp_across": ("agreement", "long", "across an object relative clause without that"),
    "reflexives_across": ("reflexives", "long", "across a relative clause"),
    "npi_across": ("polarity", "long", "across a relative clause"),
}
_POLARITY = ("grammatical", "intrusive", "ungrammatical")  # the sentences of an item with a negative polarity item


@dataclass(frozen=True)
class MinimalPair:
    """Two sentences, as written, the first of which is better.

    Attributes:
        case: the phenomenon: `UID` or `case` of the item, otherwise the file's name.
        groups: its groups, by type of grouping: {"field": "syntax", "linguistics_term": "island_effects"}.
        source: its file.
        line: its line, from 1.
        adjacent: whether the item has no sentence between the two. Other pairs count only in the groups that they have.
    """

    better: str
    worse: str
    case: str
    groups: dict[str, str] = field(default_factory=dict)
    source: str = ""
    line: int = 0
    adjacent: bool = True

    @property
    def place(self) -> str:
        return f"{self.source}, line {self.line}"

    @property
    def is_identical(self) -> bool:
        """Whether both sentences are the same, so that no model can be correct."""
        return self.better == self.worse


def read_pairs(paths: Sequence[str | Path]) -> list[MinimalPair]:
    """Return the pairs of files, in order; a folder means all files in it, sorted by name; "-" is standard input.

    Raises InputError, naming file and line, for invalid items and for files without items.
    """
    pairs: list[MinimalPair] = []
    for file in (file for path in paths for file in _files(path)):
        before, source = len(pairs), source_name(file)
        for number, item in _items(file, source):
            pairs += _pairs_of_item(item, source, number)
        sentences = [(pair.better, pair.worse) for pair in pairs[before:]]
        if repeated := len(sentences) - len(set(sentences)):
            warn_caller(
                f"{source}: {repeated:,} of {len(sentences):,} pairs repeat an earlier pair and are counted again"
            )
        if len(pairs) == before:
            raise InputError(
                f"{source}: found no minimal pairs; expected JSON lines with one item per line, or a table (.tsv, .csv)"
                " with one item per row"
            )
    if not pairs:
        raise InputError("found no file of minimal pairs; expected one or more")
    return pairs


def _files(path: str | Path) -> list[str | Path]:
    if str(path) == STANDARD_INPUT or not os.path.isdir(path):
        return [path]
    files: list[str | Path] = [file for file in visible_entries(path) if file.is_file()]
    if not files:
        raise InputError(f"{path}: the folder contains no files; expected files of minimal pairs")
    return files


def _items(file: str | Path, source: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the items of a file with their lines: the rows of a table, or JSON lines."""
    if content_suffix(file) in TABLE_SUFFIXES:
        table = open_table(file)
        _layout_of(table.names, f"{source}, line 1", "columns", _ENTRIES)
        for number, cells in table.rows:
            for name, cell in zip(table.names, cells, strict=False):
                refuse_spreadsheet_error(cell, f"{source}, line {number}", name)
            if cells:
                yield number, dict(zip(table.names, map(text_of, cells), strict=True))
        return
    lines = ((number, line) for number, line in read_lines(file) if line.strip())
    first = next(lines, None)
    if first is None:
        return
    is_array = first[1].lstrip().startswith("[")
    count = 0
    sample = list[str]()
    remarks = Remarks()
    items = (
        _items_of_array(chain([first], lines), source) if is_array else _items_of_lines(chain([first], lines), source)
    )
    for number, item in items:
        place = f"{source}, line {number}"
        if not isinstance(item, dict):
            raise InputError(f"{place}: found {_short(item)}; expected an object with sentence_good and sentence_bad")
        for name in _OPTIONAL:
            if name in item and _is_null(item[name]):
                del item[name]
                remarks.add(f"items with null for {name}, read as absent", number)
            elif type(item.get(name)) in (int, float):
                item[name] = f"{item[name]:.15g}" if isinstance(item[name], float) else str(item[name])
                remarks.add(f"items with a number for {name}, read as text", number, item[name])
        if count < 2:
            sample.append(shortened(json.dumps(item, ensure_ascii=False), _SAMPLE_CHARACTERS))
        count += 1
        yield number, item
    form, evidence = ("a JSON array", "[ at the start") if is_array else ("JSON lines", "one JSON object per line")
    announce(ReadingReport(source, f"minimal pairs, {form}", {"items": count}, evidence, remarks.all(), tuple(sample)))


def _is_null(value: Any) -> bool:
    return value is None or value != value  # NaN


def _items_of_lines(lines: Iterable[tuple[int, str]], source: str) -> Iterator[tuple[int, Any]]:
    for number, line in lines:
        try:
            yield number, json.loads(line, object_pairs_hook=without_repetition)
        except (ValueError, RecursionError) as error:
            found = f"{source}, line {number}: not JSON: {_problem(error, [number])}. Found {_short(line)}"
            raise InputError(f"{found}; expected one item per line, or a table in a file .tsv or .csv") from error


def _items_of_array(lines: Iterable[tuple[int, str]], source: str) -> Iterator[tuple[int, Any]]:
    """Yield the items of an array with the lines on which they start."""
    numbered = list(lines)
    text = "\n".join(line for _, line in numbered)
    decoder = json.JSONDecoder(object_pairs_hook=without_repetition)
    line = start = 0  # of the current item
    position = _next_place(text, text.index("[") + 1)
    while text[position : position + 1] != "]":
        line = line + text.count("\n", start, position)
        start = position
        place = f"{source}, line {numbered[line][0]}"
        try:
            item, position = decoder.raw_decode(text, position)
        except (ValueError, RecursionError) as error:
            problem = _problem(error, [number for number, _ in numbered])
            found = f"{place}: not JSON: {problem}. Found {_short(text[position : position + _ENTRY_CHARACTERS])}"
            raise InputError(f"{found}; expected an item of a JSON array, or one item per line") from error
        yield numbered[line][0], item
        position = _next_place(text, position)
        if text[position : position + 1] == ",":
            position = _next_place(text, position + 1)
        elif text[position : position + 1] != "]":
            found = _short(text[position : position + _ENTRY_CHARACTERS]) if text[position:] else "the end of the file"
            raise InputError(f"{place}: found {found} after this item; expected a comma or ]")
    if rest := text[position + 1 :].strip():
        raise InputError(f"{source}, line {numbered[-1][0]}: found {_short(rest)} after the array; expected its end")


def _problem(error: ValueError | RecursionError, numbers: Sequence[int]) -> str:
    """Return why a text is not JSON, with the line of the file.

    Args:
        numbers: of the lines of the text.
    """
    if not isinstance(error, json.JSONDecodeError):
        return str(error)
    return f"{error.msg} in line {numbers[error.lineno - 1]}, column {error.colno}"


def _next_place(text: str, position: int) -> int:
    """Return the position of the next character that is not white space."""
    blank = _BLANK.match(text, position)
    return blank.end() if blank else position


def _pairs_of_item(item: dict[str, Any], source: str, number: int) -> Iterator[MinimalPair]:
    place = f"{source}, line {number}"
    sentences, layout = _sentences(item, place)
    case = _text(item, "UID" if "UID" in item else "case", place)
    case = case or " ".join(filter(None, (_text(item, name, place) for name in layout.case)))
    case = case or uncompressed_name(source).stem
    entries = {**{name: name for name in _GROUPINGS}, **layout.groups}
    groups = {name: group for name, entry in entries.items() if (group := _text(item, entry, place))}
    if "field" in groups:  # BLiMP spells one of them both syntax/semantics and syntax_semantics
        groups["field"] = groups["field"].replace("/", "_")
    known = _MARVIN_LINZEN.get(case.removesuffix("_anim").removesuffix("_inanim")) if "field" not in groups else None
    neighbours_first = sorted(combinations(range(len(sentences)), 2), key=lambda pair: pair[1] - pair[0])
    for better, worse in neighbours_first:
        adjacent = worse == better + 1
        pair_groups = dict(groups) if adjacent else {}
        if known is not None:
            phenomenon, dependency, construction = known
            if adjacent:
                pair_groups |= {"phenomenon": phenomenon, "dependency": dependency}
            contrast = f": {_POLARITY[better]} vs {_POLARITY[worse]}" if len(sentences) == len(_POLARITY) else ""
            pair_groups["construction"] = f"{dependency}, {phenomenon} {construction}{contrast}"
        elif len(sentences) > 2:
            pair_groups["comparison"] = f"{better + 1} vs {worse + 1}"
        yield MinimalPair(sentences[better], sentences[worse], case, pair_groups, source, number, adjacent)


def _sentences(item: dict[str, Any], place: str) -> tuple[list[str], _PairLayout]:
    """Return the sentences of an item, best first, and its layout."""
    given = [name for name, value in item.items() if value is not None]
    complete = [layout for layout in _LAYOUTS if set(layout.sentences) <= set(given)]
    if "sentences" in item and not any(set(layout.sentences) <= item.keys() for layout in _LAYOUTS):
        sentences = item["sentences"]
        if not isinstance(sentences, list) or len(sentences) < 2:
            raise InputError(f"{place}: sentences is {_short(sentences)}; expected a list of two or more, best first")
        _check_sentences(sentences, "sentences", place)
        return sentences, _LAYOUTS[0]
    layout = complete[0] if complete else _layout_of(item, place, "entries", f"{_ENTRIES}, or sentences")
    _check_sentences([item[name] for name in layout.sentences], ", ".join(layout.sentences), place)
    return [" ".join(item[name] for name in names) for names in (layout.better, layout.worse)], layout


def _check_sentences(sentences: Sequence[Any], shown: str, place: str) -> None:
    """Raise InputError for what is not a sentence.

    Args:
        sentences: the values of the entries.
        shown: the names of the entries.
        place: the place of the item.
    """
    for sentence in sentences:
        if not isinstance(sentence, str) or not sentence.strip():
            raise InputError(f"{place}: found {_short(sentence)} in {shown}; expected a sentence")
        if any(character == "\0" or "\ud800" <= character <= "\udfff" for character in sentence):
            raise InputError(
                f"{place}: found {json.dumps(sentence)} in {shown}; expected text without zero bytes or surrogates"
            )


def has_pairs(names: Collection[str]) -> bool:
    """Return whether a table with columns of these names has minimal pairs."""
    return any(set(layout.sentences) <= set(names) for layout in _LAYOUTS)


def _layout_of(names: Collection[str], place: str, what: str, expected: str) -> _PairLayout:
    """Return the layout of which most entries are there. Raises InputError if one of its sentences is missing."""
    layout = max(_LAYOUTS, key=lambda layout: sum(name in names for name in layout.sentences))
    if missing := [name for name in layout.sentences if name not in names]:
        shown = shortened(", ".join(map(str, names)), _ENTRIES_CHARACTERS) or "none"
        raise InputError(f"{place}: {' and '.join(missing)} missing; found the {what} {shown}; expected {expected}")
    return layout


def _text(item: dict[str, Any], name: str, place: str) -> str:
    """Return an entry that must be text, "" if it is missing."""
    text = item.get(name, "")
    if not isinstance(text, str):
        raise InputError(f"{place}: {name} is {_short(text)}; expected text")
    return text


def _short(value: Any) -> str:
    return shortened(json.dumps(value, ensure_ascii=False), _ENTRY_CHARACTERS)
