"""Test suites of targeted syntactic evaluation: sentences in regions, and predictions about the regions' surprisals.

An item is a set of sentences, its conditions, which are divided into the same regions. A prediction compares the
surprisals of regions: `(7;%match%) < (7;%mismatch%)`. Suites are JSON, as on SyntaxGym (Gauthier et al. 2020,
"SyntaxGym: An Online Platform for Targeted Evaluation of Language Models"), or tables with a row for each condition.
"""

from __future__ import annotations

import json
import operator
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import accumulate
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from pydantic import BaseModel, BeforeValidator, ValidationError, model_validator

from syntaxlm.core.arrays import Flags, Numbers
from syntaxlm.core.declarations import Bounds
from syntaxlm.core.errors import InputError, closest_match, shortened
from syntaxlm.core.files import parse_json, visible_entries
from syntaxlm.core.option_names import option_name
from syntaxlm.core.reading import ReadingReport, announce
from syntaxlm.core.text_files import check_encodable, content_suffix, read_whole_text, source_name, uncompressed_name
from syntaxlm.data.stimuli import BETWEEN, CONDITION
from syntaxlm.data.table_form import (
    NA_ADVICE,
    TABLE_SUFFIXES,
    Missing,
    refuse_spreadsheet_error,
    text_of,
    warn_of_missing,
)
from syntaxlm.data.tables import find_column, open_table

OTHER_CIRCUIT = "Other"
_CIRCUITS = {  # by the start of a suite's name; Hu et al. 2020, "A Systematic Assessment of Syntactic Generalization"
    "number": "Agreement",
    "npi": "Licensing",
    "reflexive": "Licensing",
    "mvrr": "Garden-Path Effects",
    "npz": "Garden-Path Effects",
    "subordination": "Gross Syntactic Expectation",
    "center_embed": "Center Embedding",
    "cleft": "Long-Distance Dependencies",
    "fgd": "Long-Distance Dependencies",
}

LONGEST_FORMULA = 10_000  # characters
SIMULATED_ITEMS = 100_000
DEEPEST_FORMULA = 30  # brackets inside each other
_SHOWN, _LONGEST_NAMES = 60, 200  # characters of a wrong entry, and of several names, in a message
_REGION = r"\(\s*(?P<number>[0-9]{1,9}|\*)\s*;\s*%(?P<condition>[^%]+)%\s*\)"
_NUMBER = r"[0-9]{1,9}(?:\.[0-9]{1,9})?"
_TOKEN = re.compile(rf"(?P<region>{_REGION})|(?P<constant>{_NUMBER})|\S")
_LEVELS = ("|", "&", "<>=", "+-")  # operators, from the one that binds least
_CLOSING = {"(": ")", "[": "]"}
ROUNDING = 1e-4  # bits; what a model reads alike in two batches differs by less


def _less(left: Any, right: Any) -> Any:
    return right - left > ROUNDING


_OPERATIONS: Mapping[str, Callable[[Any, Any], Any]] = {
    "|": operator.or_, "&": operator.and_, "<": _less, ">": lambda left, right: _less(right, left),
    "=": partial(np.isclose, rtol=1e-5, atol=1e-3),  # tolerances of the program of SyntaxGym
    "+": operator.add, "-": operator.sub,
}  # fmt: skip


class Region(NamedTuple):
    """A region of a condition in a formula.

    Attributes:
        number: None for all regions, `(*;%condition%)`.
    """

    condition: str
    number: int | None


@dataclass(frozen=True)
class Prediction:
    """A prediction about the surprisals of an item's regions.

    Attributes:
        formula: as written.
        steps: its regions, numbers and operators in postfix order, so that no recursion is needed.
    """

    formula: str
    steps: tuple[Region | float | str, ...]

    @classmethod
    def parse(cls, formula: str, place: str) -> Prediction:
        """Read a formula: regions `(2;%condition%)` or `(*;%condition%)`, numbers, + - < > = & |, and brackets.

        Args:
            place: the place of the formula, for messages.

        Raises:
            InputError: the message has the position of the first fault.
        """
        return cls(formula, _FormulaParser(formula, place).parse())

    @property
    def regions(self) -> list[Region]:
        """The distinct regions of the formula."""
        return list(dict.fromkeys(step for step in self.steps if isinstance(step, Region)))

    def holds(self, surprisal: Callable[[Region], Numbers]) -> Flags:
        """Return for which items the prediction is true: (n,).

        `<` and `>` require a difference of more than `ROUNDING`; `=` allows 0.001 bits and a share of 0.00001.

        Args:
            surprisal: returns a region's surprisals in all items, (n,), in bits.
        """
        stack: list[Any] = []
        with np.errstate(invalid="ignore"):  # infinite surprisals
            for step in self.steps:
                if isinstance(step, str):
                    right, left = stack.pop(), stack.pop()
                    stack.append(_OPERATIONS[step](left, right))
                else:
                    stack.append(surprisal(step) if isinstance(step, Region) else step)
        return np.asarray(stack.pop(), np.bool_)


class _FormulaParser:
    """Reads a formula by recursive descent, one method call for each level of `_LEVELS`; see `Prediction.parse`."""

    def __init__(self, formula: str, place: str) -> None:
        if len(formula) > LONGEST_FORMULA:
            raise InputError(f"{place}: found {len(formula):,} characters; expected at most {LONGEST_FORMULA:,}")
        self._place, self._end = place, len(formula)
        self._tokens = list(_TOKEN.finditer(formula))[::-1]  # the next one is the last
        self._steps: list[Region | float | str] = []

    def parse(self) -> tuple[Region | float | str, ...]:
        is_comparison = self._operation(0, 0)
        if self._tokens:
            raise self._fault("an operator (< > = & | + -) or the end")
        if not is_comparison or not any(isinstance(step, Region) for step in self._steps):
            raise InputError(f"{self._place}: found no comparison of regions; expected (2;%a%) < (2;%b%), for example")
        return tuple(self._steps)

    def _operation(self, level: int, depth: int) -> bool:
        """Read operands and the operators of a level. Returns whether they have a truth value, not a number."""
        if level == len(_LEVELS):
            return self._operand(depth)
        is_true_or_false = self._operation(level + 1, depth)
        while (sign := self._next) and sign in _LEVELS[level]:
            fault = self._fault(f"{'comparisons' if level < 2 else 'numbers or regions'} on both sides")
            self._tokens.pop()
            operands = {is_true_or_false, self._operation(level + 1, depth)}
            if operands != {level < 2}:
                raise fault
            self._steps.append(sign)
            is_true_or_false = level < 3
        return is_true_or_false

    def _operand(self, depth: int) -> bool:
        """Read a region, a number or an expression in brackets. Returns as `_operation` does."""
        opening = self._next
        if opening in _CLOSING and depth == DEEPEST_FORMULA:
            raise self._fault(f"at most {DEEPEST_FORMULA} brackets inside each other")
        if opening in _CLOSING:
            self._tokens.pop()
            is_true_or_false = self._operation(0, depth + 1)
            if self._next != _CLOSING[opening]:
                raise self._fault(f"an operator or {_CLOSING[opening]}")
            self._tokens.pop()
            return is_true_or_false
        if not self._tokens or self._tokens[-1].lastgroup is None:
            raise self._fault("a region, such as (2;%condition%), a number or a bracket")
        token = self._tokens.pop()
        if token["constant"]:
            self._steps.append(float(token["constant"]))
        else:
            number = None if token["number"] == "*" else int(token["number"])
            self._steps.append(Region(token["condition"].strip(), number))
        return False

    @property
    def _next(self) -> str:
        """The next token; "" at the end."""
        return self._tokens[-1][0] if self._tokens else ""

    def _fault(self, expected: str) -> InputError:
        position = self._tokens[-1].start() if self._tokens else self._end
        found = repr(self._next) if self._tokens else "the end"
        return InputError(f"{self._place}, character {position + 1}: found {found}; expected {expected}")


@dataclass(frozen=True)
class Condition:
    """A sentence of an item.

    Attributes:
        regions: their text by number; a region may be empty.
        sentence: the regions that are not empty, with one space between words, as the program of SyntaxGym joins them.
        starts: position in the sentence, in code points, of every region that is not empty.
    """

    regions: Mapping[int, str]
    sentence: str
    starts: Mapping[int, int]

    @classmethod
    def of(cls, regions: Mapping[int, str], place: str) -> Condition:
        """Join regions. Raises InputError for a sentence without words, or with text that no file can contain."""
        regions = {number: " ".join(text.split()) for number, text in regions.items()}
        filled = {number: text for number, text in regions.items() if text}
        if not filled:
            raise InputError(f"{place}: found no words in any region; expected a sentence")
        starts = accumulate((len(text) + 1 for text in filled.values()), initial=0)
        sentence = " ".join(filled.values())
        check_encodable(sentence, place)
        return cls(regions, sentence, dict(zip(filled, starts, strict=False)))


@dataclass(frozen=True)
class SuiteItem:
    """An item: its name or number, and its conditions by name."""

    name: str
    conditions: Mapping[str, Condition]


@dataclass(frozen=True)
class Suite:
    """A test suite.

    Attributes:
        source: its file.
    """

    name: str
    items: tuple[SuiteItem, ...]
    predictions: tuple[Prediction, ...]
    source: str

    @property
    def circuit(self) -> str:
        """The group of suites to which it belongs by its name, as in Hu et al. 2020; otherwise `OTHER_CIRCUIT`."""
        return next((name for start, name in _CIRCUITS.items() if self.name.startswith(start)), OTHER_CIRCUIT)

    @cached_property
    def chance(self) -> float:
        """The share of items for which all predictions hold if all regions have independent surprisals of one
        distribution, by simulation.
        """
        generator = np.random.default_rng(0)
        regions = {region for prediction in self.predictions for region in prediction.regions}
        bits = {region: generator.normal(10, 5, SIMULATED_ITEMS) for region in sorted(regions, key=str)}
        return float(
            np.mean(np.logical_and.reduce([prediction.holds(bits.__getitem__) for prediction in self.predictions]))
        )


def read_suites(
    paths: Sequence[str | Path],
    formulas: Sequence[str] = (),
    condition: Sequence[str] = (),
    regions: Sequence[str] = (),
) -> list[Suite]:
    """Return the suites of files, in order.

    Raises InputError, naming the file and the place in it, for invalid suites and formulas, for an item without a
    condition or region that a formula names, for two suites of one name, and for tables without formulas.

    Args:
        paths: JSON files of SyntaxGym, tables (.csv, .tsv), or folders, of which all .json files are read.
        formulas: the predictions of tables. A table has the columns `item`, `condition`, and then one for each region;
            formulas number the regions from 1.
        condition: the column of conditions of tables, or several, whose levels are joined: "sg / pl"; none: condition.
        regions: the columns of the regions of tables; none: all others.
    """
    suites: dict[str, Suite] = {}
    files = [file for path in paths for file in _files(path)]
    given = {"predictions": formulas, "condition": condition, "regions": regions}
    if not any(map(_is_table, files)) and (names := [name for name, values in given.items() if values]):
        raise InputError(f"{names[0]}: found no table (.csv, .tsv); JSON suites contain their own {names[0]}")
    for file in files:
        suite = _read_table(file, formulas, condition, regions) if _is_table(file) else _read_json(file)
        _check_references(suite)
        _announce(suite, file)
        if suite.name in suites:
            other = suites[suite.name].source
            raise InputError(
                f"{suite.source}: found the name {suite.name!r}, which {other} also has; expected different names of"
                " suites"
            )
        suites[suite.name] = suite
    if not suites:
        raise InputError("found no file of a test suite; expected one or more")
    return list(suites.values())


def _announce(suite: Suite, file: str | Path) -> None:
    """Announce a suite, with the first item as a sample."""
    sentences = [condition for item in suite.items for condition in item.conditions.values()]
    counts = {"items": len(suite.items), "sentences": len(sentences), "predictions": len(suite.predictions)}
    first = tuple(" | ".join(condition.regions.values()) for condition in sentences[:2])
    form = f"test suite {suite.name}, {'a table' if _is_table(file) else 'JSON'}"
    announce(ReadingReport(suite.source, form, counts, f"suffix {content_suffix(file)}", sample=first))


def _is_table(path: str | Path) -> bool:
    return content_suffix(path) in TABLE_SUFFIXES


def _files(path: str | Path) -> list[str | Path]:
    if not os.path.isdir(path):
        return [path]
    files: list[str | Path] = [file for file in visible_entries(path) if content_suffix(file) == ".json"]
    if not files:
        raise InputError(f"{path}: the folder contains no .json files; expected test suites")
    return files


class _Entry(BaseModel, strict=True):
    """An object of a suite. null in an entry that has a default is an absent entry."""

    @model_validator(mode="before")
    @classmethod
    def _without_null(cls, entries: Any) -> Any:
        if not isinstance(entries, dict):
            return entries
        optional = {name for name, entry in cls.model_fields.items() if not entry.is_required()}
        return {name: value for name, value in entries.items() if value is not None or name not in optional}


class _RegionEntry(_Entry, strict=True):
    region_number: int
    content: str


_Name = Annotated[str, BeforeValidator(lambda name: str(name) if type(name) is int else name)]


class _ConditionEntry(_Entry, strict=True):
    condition_name: _Name
    regions: list[_RegionEntry]


class _ItemEntry(_Entry, strict=True):
    item_number: _Name
    conditions: Annotated[list[_ConditionEntry], Bounds(min_length=1)]


class _PredictionEntry(_Entry, strict=True):
    type: Literal["formula"] = "formula"
    formula: str


class _MetaEntry(_Entry, strict=True):
    name: _Name = ""
    metric: Any = "sum"


class _SuiteFile(_Entry, strict=True):
    """A suite as JSON. Other entries, such as the names of regions, are ignored."""

    meta: _MetaEntry = _MetaEntry()
    predictions: list[_PredictionEntry]
    items: list[_ItemEntry]


class _SentenceEntry(NamedTuple):
    """A condition of an item, as a file has it.

    Attributes:
        place: for messages.
    """

    item: str
    condition: str
    regions: Sequence[tuple[int, str]]
    place: str


def _read_json(path: str | Path) -> Suite:
    source, text = source_name(path), read_whole_text(path)
    if "\\u0000" in text:
        raise InputError(f"{source}: found a zero byte, \\u0000; expected text")
    try:
        file = _SuiteFile.model_validate(parse_json(text, source))
    except ValidationError as error:
        raise InputError(f"{source}{_described(error)}") from None
    metric = file.meta.metric
    if not {"sum", "all"}.intersection(map(str, metric if isinstance(metric, list) else [metric])):
        raise InputError(f"{source}, meta, metric: found {_shown(metric)}; expected sum")
    sentences = [
        _SentenceEntry(
            item.item_number,
            condition.condition_name,
            sorted((r.region_number, r.content) for r in condition.regions),
            source,
        )
        for item in file.items
        for condition in item.conditions
    ]
    formulas = [entry.formula for entry in file.predictions]
    return _suite(file.meta.name or uncompressed_name(source).stem, sentences, formulas, source)


def _described(error: ValidationError) -> str:
    """Return the place of the first fault (entries of lists are numbered from 1), what was found and was expected."""
    fault = error.errors(include_url=False)[0]
    place = "".join(f" {part + 1}" if isinstance(part, int) else f", {part}" for part in fault["loc"])
    if fault["type"] in ("missing", "too_short"):
        return f"{place}: missing"
    expected = "an object" if fault["type"] == "model_type" else fault["msg"].removeprefix("Input should be ")
    return f"{place}: found {_shown(fault['input'])}; expected {expected}"


def _shown(value: Any) -> str:
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    return shortened(json.dumps(value), _SHOWN)


def _read_table(
    path: str | Path, formulas: Sequence[str], condition: Sequence[str], regions_named: Sequence[str]
) -> Suite:
    table = open_table(path)
    source, names = table.source, table.names
    item, *factors = (find_column(names, name, f"{source}, line 1") for name in ("item", *(condition or [CONDITION])))
    if regions_named:
        columns = [find_column(names, name, f"{source}, line 1") for name in regions_named]
    else:
        columns = [column for column in range(len(names)) if column not in (item, *factors)]
    for number, column in enumerate(columns, 1):
        if names[column].isdecimal() and names[column] != str(number):
            found = f"found the column {names[column]} at the place of region {number}"
            raise InputError(f"{source}, line 1: {found}; expected names, or numbers in order from 1")
    if not formulas:
        raise InputError(
            f"{source}: a table contains no predictions; expected one or more, such as"
            f" {option_name('--prediction', '(2;%a%) < (2;%b%)')}, where 2 is the second column of regions"
        )
    sentences, is_certain = list[_SentenceEntry](), table.is_quoted
    for line, cells in table.rows:
        if not cells:
            continue
        place = f"{source}, line {line}"
        for column in (item, *factors):
            if not text_of(cells[column]).strip():
                found = f"has NA, a missing value{NA_ADVICE}" if cells[column] else "is empty"
                raise InputError(f"{place}: column {names[column]} {found}; expected a name in every row")
        for column in (item, *factors, *columns):
            refuse_spreadsheet_error(cells[column], place, names[column])
        for column in columns:
            if not is_certain and isinstance(cells[column], Missing):
                is_certain = True
                warn_of_missing(place, names[column])
        regions = [(number, text_of(cells[column])) for number, column in enumerate(columns, 1)]
        levels = BETWEEN.join(cells[column] for column in factors)
        sentences.append(_SentenceEntry(cells[item], levels, regions, place))
    return _suite(uncompressed_name(source).stem, sentences, formulas, source)


def _suite(name: str, sentences: Sequence[_SentenceEntry], formulas: Sequence[str], source: str) -> Suite:
    """Return a suite. Raises InputError if it has no items or formulas, for repeated names, and for faulty formulas."""
    check_encodable(name, f"{source}, name")
    predictions = tuple(Prediction.parse(text, f"{source}, prediction {n}") for n, text in enumerate(formulas, 1))
    if not sentences or not predictions:
        raise InputError(f"{source}: found no {'predictions' if sentences else 'items'}; expected one or more")
    items: dict[str, dict[str, Condition]] = {}
    for item, condition, regions, place in sentences:
        place = f"{place}, item {item!r}, condition {condition!r}"
        check_encodable(item + condition, place)
        conditions = items.setdefault(item, {})
        if condition in conditions:
            raise InputError(f"{place}: found twice; expected different conditions and items")
        if len(dict(regions)) < len(regions):
            raise InputError(f"{place}: found a region number twice; expected different numbers")
        conditions[condition] = Condition.of(dict(regions), place)
    return Suite(name, tuple(SuiteItem(name, conditions) for name, conditions in items.items()), predictions, source)


def _check_references(suite: Suite) -> None:
    """Raise InputError if an item lacks a condition or region of a prediction."""
    for number, prediction in enumerate(suite.predictions, 1):
        for condition, region in prediction.regions:
            for item in suite.items:
                place = f"{suite.source}, prediction {number}, item {item.name!r}"
                if condition not in item.conditions:
                    names = shortened(", ".join(item.conditions), _LONGEST_NAMES)
                    hint = closest_match(condition, item.conditions)
                    raise InputError(f"{place}: no condition {condition!r}; found {names}. {hint}".rstrip())
                regions = item.conditions[condition].regions
                if region is not None and region not in regions:
                    found = shortened(", ".join(map(str, regions)), _LONGEST_NAMES)
                    raise InputError(f"{place}: condition {condition!r} has no region {region}; found {found}")
