"""Settings: typed dataclasses read from YAML and JSON, every fault of a file told at once."""

from __future__ import annotations

import dataclasses
import difflib
import json
import types
import typing
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import pydantic
import yaml

from syntaxlm.errors import InputError

Settings = TypeVar("Settings")


@cache
def _reader(kind: Any) -> pydantic.TypeAdapter[Any]:
    _refuse_unknown_keys(kind)
    return pydantic.TypeAdapter(kind)


def _refuse_unknown_keys(kind: Any) -> None:
    """Marks a dataclass, and those inside it, strict: no unknown key, no 4 for 3.5, no "yes" for true."""
    if dataclasses.is_dataclass(kind):
        setattr(kind, "__pydantic_config__", pydantic.ConfigDict(extra="forbid", strict=True))  # noqa: B010
        for hint in typing.get_type_hints(kind).values():
            _refuse_unknown_keys(hint)
    for part in typing.get_args(kind):
        _refuse_unknown_keys(part)


def read_settings(kind: type[Settings], data: Any, source: str) -> Settings:
    """`data` (nested dicts as YAML or JSON gives them) as the dataclass `kind`.

    Raises InputError with a line for every fault: source, dotted key, what was found, what was expected, and for an
    unknown key the nearest right one.
    """
    try:
        settings: Settings = _reader(typing.cast(typing.Hashable, kind)).validate_json(json.dumps(data))
    except pydantic.ValidationError as error:
        raise InputError("\n".join(_fault(kind, fault, source) for fault in error.errors())) from None
    except TypeError as error:
        raise InputError(f"{source}: {error}") from None
    return settings


def _fault(kind: type, fault: Any, source: str) -> str:
    place = [str(part) for part in fault["loc"]]
    key = ".".join(place)
    if fault["type"] in ("unexpected_keyword_argument", "extra_forbidden"):
        path, names = _nearest_names(kind, place)
        close = difflib.get_close_matches(place[-1], names, n=1, cutoff=0.5)
        hint = f"Did you mean {'.'.join([*path, close[0]])}?" if close else f"There are: {', '.join(names)}."
        return f"{source}: {'.'.join([*path, place[-1]])}: no such setting. {hint}"
    if fault["type"] in ("union_tag_invalid", "union_tag_not_found"):
        found = fault["input"].get("name") if isinstance(fault["input"], dict) else fault["input"]
        return (
            f"{source}: {key}.name: found {found!r}; expected one of {fault['ctx'].get('expected_tags', '')}".rstrip()
        )
    if fault["type"] in ("missing", "missing_argument"):
        return f"{source}: {key}: missing"
    found = json.dumps(fault["input"], default=str, ensure_ascii=False)
    expected = fault["msg"].removeprefix("Value error, ").replace("Input should be ", "expected ")
    return f"{source}: {key + ': ' if key else ''}found {found[:60]}; {expected}"


def _nearest_names(kind: Any, place: list[str]) -> tuple[list[str], list[str]]:
    """The dotted path to the dataclass that refused the last key, without unions' tags, and its settings' names."""
    path = []
    for part in place[:-1]:
        options = [kind, *typing.get_args(kind)]
        inner = next((_hints(option)[part] for option in options if part in _hints(option)), None)
        if inner is not None:
            path.append(part)
            kind = inner
        else:  # the tag of a union: which of its kinds was meant
            kind = next((option for option in _flat(kind) if part in _tags(option)), kind)
    names = [name for option in _flat(kind) for name in _hints(option)]
    return path, list(dict.fromkeys(names))


def _flat(kind: Any) -> list[Any]:
    arguments = typing.get_args(kind)
    if typing.get_origin(kind) in (typing.Union, types.UnionType, typing.Annotated):
        return [option for argument in arguments for option in _flat(argument)]
    return [kind]


def _hints(kind: Any) -> dict[str, Any]:
    return typing.get_type_hints(kind, include_extras=True) if dataclasses.is_dataclass(kind) else {}


def _tags(kind: Any) -> tuple[Any, ...]:
    return typing.get_args(_hints(kind).get("name"))


def read_yaml(path: Path) -> Any:
    """The content of a YAML file. Raises InputError naming file and line."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read: {error}") from None
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f", line {mark.line + 1}" if mark else ""
        raise InputError(f"{path}{place}: not YAML: {getattr(error, 'problem', error)}") from None


def override(data: Any, assignments: list[tuple[str, str]]) -> None:
    """Puts dotted assignments, ("model.layers", "3"), into nested dicts; values are read as YAML."""
    for key, text in assignments:
        place = data
        *path, last = key.split(".")
        for part in path:
            inner = place.setdefault(part, {})
            if not isinstance(inner, dict):
                raise InputError(f"--{key}: {part} is a single setting, not a section")
            place = inner
        try:
            place[last] = yaml.safe_load(text)
        except yaml.YAMLError:
            raise InputError(f"--{key}: {text!r} is not a value YAML can read") from None
