"""Settings: typed dataclasses read from YAML and JSON, every fault of a file told at once."""

from __future__ import annotations

import dataclasses
import difflib
import json
import re
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
        settings: Settings = _reader(typing.cast(typing.Hashable, kind)).validate_json(
            json.dumps(data, default=str)  # YAML reads 2024-01-31 as a date; as a file's name it is text
        )
    except pydantic.ValidationError as error:
        raise InputError("\n".join(_fault(kind, fault, source) for fault in error.errors())) from None
    except (TypeError, ValueError, RecursionError, InputError) as error:
        raise InputError(f"{source}: {error}") from None
    return settings


def _fault(kind: type, fault: Any, source: str) -> str:
    place = [str(part) for part in fault["loc"]]
    if fault["type"] in ("unexpected_keyword_argument", "extra_forbidden"):
        path, section = _followed(kind, place[:-1])
        names = list(dict.fromkeys(name for option in _flat(section) for name in _hints(option)))
        close = difflib.get_close_matches(place[-1], names, n=1, cutoff=0.5)
        hint = f"Did you mean {'.'.join([*path, close[0]])}?" if close else f"There are: {', '.join(names)}."
        return f"{source}: {'.'.join([*path, place[-1]])}: no such setting. {hint}"
    path, section = _followed(kind, place)
    key = ".".join(path)
    if fault["type"] in ("union_tag_invalid", "union_tag_not_found"):
        tags = ", ".join(str(tag) for option in _flat(section) for tag in _tags(option))
        if "name" not in fault["input"]:
            return f"{source}: {key}.name: missing; expected one of {tags}"
        return f"{source}: {key}.name: found {_shown(fault['input']['name'])}; expected one of {tags}"
    if fault["type"] in ("missing", "missing_argument"):
        return f"{source}: {key}: missing"
    if fault["type"] == "value_error":  # of a section's own check, which names the setting
        return f"{source}: {key}: {fault['msg'].removeprefix('Value error, ')}"
    options = [option for option in _flat(section) if dataclasses.is_dataclass(option)]
    if options:
        names = list(dict.fromkeys(name for option in options for name in _hints(option)))
        expected = f"expected a section with the settings {', '.join(names)}"
    else:
        expected = fault["msg"].replace("Input should be ", "expected ")
    return f"{source}: {key + ': ' if key else ''}found {_shown(fault['input'])}; {expected}"


def _shown(value: Any) -> str:
    text = json.dumps(value, default=str, ensure_ascii=False)
    return text if len(text) <= 60 else text[:60] + " ..."


def _followed(kind: Any, place: list[str]) -> tuple[list[str], Any]:
    """The dotted path that a fault's place means, without unions' tags, and the kind of what is expected there."""
    path = []
    for part in place:
        inner = next((_hints(option)[part] for option in _flat(kind) if part in _hints(option)), None)
        tagged = next((option for option in _flat(kind) if part in _tags(option)), None)
        if inner is None and tagged is not None:
            kind = tagged
        else:
            path.append(part)
            kind = inner
    return path, kind


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
        return _yaml_value(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        place = f", line {mark.line + 1}" if mark else ""
        raise InputError(f"{path}{place}: not YAML: {getattr(error, 'problem', None) or error}") from None


class _Loader(yaml.SafeLoader):
    """YAML with 1e-3 as a number (PyYAML reads it as text) and without a key twice."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.tag != "tag:yaml.org,2002:merge":
                if key.value in seen:
                    raise yaml.constructor.ConstructorError(None, None, f"{key.value}: given twice", key.start_mark)
                seen.add(key.value)
        return super().construct_mapping(node, deep)


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?\d+(\.\d*)?[eE][-+]?\d+$"), list("-+0123456789")
)


def _yaml_value(text: str) -> Any:
    return yaml.load(text, _Loader)


def override(data: Any, assignments: list[tuple[str, str]]) -> None:
    """Puts dotted assignments, ("model.layers", "3"), into nested dicts; values are read as YAML."""
    for key, text in assignments:
        place = data
        *path, last = key.split(".")
        for part in path:
            inner = place.get(part)
            if inner is None:  # not there, or nothing under it
                inner = place[part] = {}
            if not isinstance(inner, dict):
                raise InputError(f"--{key}: {part} is a single setting, not a section")
            place = inner
        try:
            place[last] = _yaml_value(text)
        except (yaml.YAMLError, ValueError, RecursionError):
            raise InputError(f"--{key}: {text!r} is not a value YAML can read") from None
