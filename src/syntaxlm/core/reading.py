"""What was read from the files of a user: the form of each file, its counts, and what was dropped or is odd.

A reader decides the form of a file once, from its name or content, and never reads it as something else afterwards.
What it decided is a `ReadingReport`, which it announces when the file is read. Commands print each report as one line;
results of evaluations hold the reports of their files; `syntaxlm inspect` shows them with examples.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from syntaxlm.core.errors import listed

LINES_NAMED = 5  # line numbers in the remark of a report
_PLURAL = re.compile(r"\b(\w{2,}?)(ies|s)\b(?<!ss)")

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Remark:
    """Something in a file that was dropped, changed, or does not fit the form of the file.

    Attributes:
        what: a noun phrase in the plural that follows the count, such as "words with unknown tags".
        count: how often it occurs.
        lines: line numbers of the first occurrences, from 1; () if they are not known.
        examples: the first occurrences as written; () if they would not help.
    """

    what: str
    count: int = 1
    lines: tuple[int, ...] = ()
    examples: tuple[str, ...] = ()

    def __str__(self) -> str:
        text = f"{self.count:,} {_PLURAL.sub(_singular, self.what, count=1) if self.count == 1 else self.what}"
        if self.examples:
            text += f": {listed(map(repr, self.examples), LINES_NAMED)}"
        if self.lines:
            noun = "line" if self.count == 1 else "lines"
            rest = ", ..." if self.count > len(self.lines[:LINES_NAMED]) else ""
            text += f" ({noun} {', '.join(f'{line}' for line in self.lines[:LINES_NAMED])}{rest})"
        return text

    def to_dict(self) -> dict[str, Any]:
        """Return the remark for JSON."""
        return {
            "what": self.what,
            "count": self.count,
            "lines": list(self.lines),
            "examples": list(self.examples),
        }


@dataclass(frozen=True)
class ReadingReport:
    """How a file, or another source, was read.

    Attributes:
        source: name of the file, folder or pattern, or "standard input".
        form: what the file is, such as "labelled trees" or "text, one sentence per line".
        counts: numbers of what was read, by the plural noun: {"sentences": 3, "words": 25}.
        evidence: why the file was taken to be of this form, such as "suffix .mrg"; "" if no other form was possible.
        remarks: what was dropped, changed or is odd.
        sample: the first two sentences or rows, as read.
        shown: what the line shows of the sample, such as "first sentence: The key | to the cabinets"; "" for nothing.
        files: the files of a folder or a pattern; () if the source is one file.
    """

    source: str
    form: str
    counts: Mapping[str, int] = field(default_factory=dict)
    evidence: str = ""
    remarks: tuple[Remark, ...] = ()
    sample: tuple[str, ...] = ()
    shown: str = ""
    files: tuple[str, ...] = ()

    @property
    def contents(self) -> str:
        """The counts with their nouns: "3 sentences, 25 words"."""
        return ", ".join(map(_amount, self.counts, self.counts.values()))

    def __str__(self) -> str:
        """Return the report on one line, without evidence, and of the sample only what is to be shown."""
        read = ", ".join(filter(None, [self.form, self.contents]))
        return "; ".join(filter(None, [f"{self.source}: {read}", *map(str, self.remarks), self.shown]))

    def to_dict(self) -> dict[str, Any]:
        """Return the report for JSON."""
        return {
            "source": self.source,
            "form": self.form,
            "counts": dict(self.counts),
            "evidence": self.evidence,
            "remarks": [remark.to_dict() for remark in self.remarks],
            "sample": list(self.sample),
        }


def _amount(noun: str, number: int) -> str:
    """Return a count with its noun, which is in the plural: "1 sentence", "25 words"."""
    return f"{number:,} {_PLURAL.sub(_singular, noun, count=1) if number == 1 else noun}"


def _singular(plural: re.Match[str]) -> str:
    return f"{plural[1]}y" if plural[2] == "ies" else plural[1]


class Remarks:
    """Remarks that a reader collects while it reads: counts, with the first lines and examples of each."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self._lines: dict[str, list[int]] = {}
        self._examples: dict[str, list[str]] = {}

    def add(self, what: str, line: int | None = None, example: str | None = None, count: int = 1) -> None:
        """Count an occurrence.

        Args:
            what: see `Remark`.
            line: its line number, from 1.
            example: the text, as written; repeated ones are kept once.
            count: number of occurrences in this line.
        """
        self._counts[what] = self._counts.get(what, 0) + count
        lines = self._lines.setdefault(what, [])
        examples = self._examples.setdefault(what, [])
        if line is not None and len(lines) < LINES_NAMED and line not in lines:
            lines.append(line)
        if example is not None and len(examples) < LINES_NAMED and example not in examples:
            examples.append(example)

    def __bool__(self) -> bool:
        return bool(self._counts)

    def all(self) -> tuple[Remark, ...]:
        """Return the remarks in the order of their first occurrences."""
        return tuple(
            Remark(what, count, tuple(self._lines[what]), tuple(self._examples[what]))
            for what, count in self._counts.items()
        )


_collections: ContextVar[tuple[list[ReadingReport], ...]] = ContextVar("collections", default=())


def announce(report: ReadingReport) -> None:
    """Give a report to all blocks `collected()` around this call. A report that they already have is not repeated."""
    for reports in _collections.get():
        if report not in reports:
            reports.append(report)


@contextmanager
def collected(
    show: Callable[[ReadingReport], None] | None = None, isolated: bool = False
) -> Iterator[list[ReadingReport]]:
    """Return the list of the reports that are announced in the block.

    Args:
        show: called with each of them at once.
        isolated: whether blocks around this one do not get the reports.
    """
    reports: list[ReadingReport] = [] if show is None else _Shown(show)
    token = _collections.set((reports,) if isolated else (*_collections.get(), reports))
    try:
        yield reports
    finally:
        _collections.reset(token)


def readings() -> tuple[ReadingReport, ...]:
    """Return the reports that were announced so far in the innermost block `collected()` around this call."""
    collections = _collections.get()
    return tuple(collections[-1]) if collections else ()


class _Shown(list[ReadingReport]):
    """A list that calls a function with each report that is appended."""

    def __init__(self, show: Callable[[ReadingReport], None]) -> None:
        super().__init__()
        self._show = show

    def append(self, report: ReadingReport) -> None:
        super().append(report)
        self._show(report)


def keeps_readings(evaluate: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Give the result of a function the attribute `readings`: the reports of the files that it read."""

    @wraps(evaluate)
    def with_readings(*arguments: Parameters.args, **options: Parameters.kwargs) -> Result:
        with collected() as reports:
            result = evaluate(*arguments, **options)
        if hasattr(result, "__dict__"):
            vars(result)["readings"] = tuple(reports)
        return result

    return with_readings
