"""Options declared once: dataclasses from which commands, the API, the page and jobs take names, defaults and limits.

    @dataclass(frozen=True, kw_only=True)
    class DecodingOptions:
        '''How trees are decoded.

        layer: layer whose distances are used, from 1
        '''

        layer: Layers | None = None

The line "name: help" of the docstring is the help of the command line and the description in the page's schema.
This module imports neither torch nor pydantic, so `--help` is quick.
"""

from __future__ import annotations

import inspect
import re
import typing
from dataclasses import MISSING, Field, dataclass, fields
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

from annotated_types import Interval

from syntaxlm.core.errors import InputError


@dataclass(frozen=True)
class Shown:
    """How an option is written on the command line, where its name and type do not say it.

    metavar: name of the value in help.  flags: instead of the field's name with two hyphens.
    use: whether it names a file that is read or written, for checks before the command starts and for completion.
    """

    metavar: str | None = None
    flags: tuple[str, ...] = ()
    use: Literal["value", "input", "output"] = "value"
    is_positional: bool = False


Count = Annotated[int, Interval(ge=1, le=2**31 - 1), Shown("N")]
Layers = Annotated[int, Interval(ge=1, le=100), Shown("L")]
Name = Annotated[str, Shown("NAME")]
InputFile = Annotated[str, Shown("FILE", use="input")]
OutputFile = Annotated[Path, Shown("FILE", ("-o", "--output"), "output")]


@dataclass(frozen=True)
class Option:
    """A field of a dataclass of options: its plain type, choices, limits and help."""

    field: Field[Any]
    type: type
    choices: tuple[str, ...]
    limits: Interval | None
    shown: Shown
    is_list: bool
    help: str

    @property
    def default(self) -> Any:
        """Default of the field; `dataclasses.MISSING` for an option that must be given."""
        return self.field.default_factory() if self.field.default_factory is not MISSING else self.field.default


@dataclass(frozen=True)
class Options:
    """Base class of dataclasses of options that are also created in Python. Raises InputError for a wrong choice."""

    def __post_init__(self) -> None:
        for name, option in options_of(typing.cast(typing.Hashable, type(self))).items():
            value = getattr(self, name)
            if option.choices and value not in option.choices and value != option.default:
                *first, last = option.choices
                raise InputError(f"{name}: found {value!r}; expected {', '.join(first)} or {last}")


@cache
def options_of(options: Any) -> dict[str, Option]:
    """Return the options of a dataclass by name, with the help of its docstring and those of its base classes."""
    hints = typing.get_type_hints(options, include_extras=True)
    helps = {name: text for base in reversed(options.__mro__) for name, text in help_texts(base).items()}
    return {one.name: _option(one, hints[one.name], helps.get(one.name, "")) for one in fields(options)}


def help_texts(documented: object) -> dict[str, str]:
    """Return the lines "name: help" of a docstring, each joined with the indented lines below it.

    Empty if Python removed docstrings (-OO).
    """
    lines = re.findall(r"^(\w+): (.+(?:\n +.+)*)", inspect.getdoc(documented) or "", re.MULTILINE)
    return {name: re.sub(r"\s+", " ", text) for name, text in lines}


def _option(one: Field[Any], hint: Any, help_text: str) -> Option:
    marks: list[Any] = []
    choices: tuple[str, ...] = ()
    is_list = False
    while origin := typing.get_origin(hint):
        parts = [part for part in typing.get_args(hint) if part is not type(None)]
        if origin is Literal:
            hint, choices = str, tuple(parts)
            break
        marks += parts[1:] if origin is Annotated else []
        is_list |= origin in (list, tuple)
        hint = parts[0]
    limits = next((mark for mark in marks if isinstance(mark, Interval)), None)
    shown = next((mark for mark in marks if isinstance(mark, Shown)), Shown())
    return Option(one, hint, choices, limits, shown, is_list, help_text)
