"""Settings: typed dataclasses read from YAML and JSON, every fault of a file told at once."""

from __future__ import annotations

import dataclasses
import difflib
import json
import re
import types
import typing
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import pydantic
import yaml

from syntaxlm.errors import InputError
from syntaxlm.files import read_text

Settings = TypeVar("Settings")
Limits = Mapping[str, tuple[str, Callable[[Any], bool]]]
"""What a setting may be, by its name: in words, and as a test."""

_MOST_VALUES = 100_000  # of a YAML file


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
        if fault["type"] == "string_type" and isinstance(fault["input"], bool | int | float):
            expected += "; in quotes, it is one"  # to YAML, NO and 007 are no text
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
    return parse_yaml(read_text(path), path)


def parse_yaml(text: str, path: str | Path) -> Any:
    """The content of a YAML text. Raises InputError naming the file it is of, and the line."""
    try:
        return _yaml_value(text)
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        found = f"the character U+{ord(text[error.position]):04X}"
        raise InputError(f"{path}, line {line}: not YAML: found {found}, which may not stand there as such") from None
    except RecursionError:
        raise InputError(f"{path}: nested too deeply") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        # Not mark.line: YAML ends lines at U+2028 as well, and no editor does.
        place = f", line {text.count(chr(10), 0, mark.index) + 1}" if mark else ""
        raise InputError(f"{path}{place}: not YAML: {getattr(error, 'problem', None) or error}") from None


class _Loader(yaml.SafeLoader):
    """YAML with 1e-3 as a number (PyYAML reads it as text), without a key twice or values by the million."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._values = 0  # met so far, those that an alias stands for among them
        self._sizes: dict[int, int] = {}  # by node, the values in it

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        alias, before = self.check_event(yaml.AliasEvent), self._values
        node = super().compose_node(parent, index)
        self._values += self._sizes.get(id(node), 0) if alias else 1
        self._sizes.setdefault(id(node), self._values - before)
        if self._values > _MOST_VALUES:  # aliases of aliases double with every line
            found = f"over {_MOST_VALUES:,} values, those that aliases stand for among them"
            raise yaml.composer.ComposerError(None, None, found, node.start_mark if node else None)
        return node

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        try:
            return super().construct_object(node, deep)
        except (AttributeError, LookupError, TypeError, ValueError):  # PyYAML's own, of 2024-99-99 or !!int x
            kind = node.tag.rpartition(":")[2]
            raise yaml.constructor.ConstructorError(
                None, None, f"found {_shown(node.value)}, which is no {kind}", node.start_mark
            ) from None

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value if isinstance(node, yaml.MappingNode) else ():
            if isinstance(key, yaml.ScalarNode) and key.tag != "tag:yaml.org,2002:merge":
                if key.value in seen:
                    raise yaml.constructor.ConstructorError(None, None, f"{key.value}: given twice", key.start_mark)
                seen.add(key.value)
        return super().construct_mapping(node, deep)


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?\d+(\.\d*)?[eE][-+]?\d+$"), list("-+0123456789")
)


def _yaml_value(text: str) -> Any:
    """Raises yaml.YAMLError or RecursionError."""
    return yaml.load(text, _Loader)


def read_sections(path: Path, overrides: list[tuple[str, str]], expected: str) -> dict[str, Any]:
    """The nested dicts of a YAML file, dotted assignments put into them (`override`). expected: some of its sections.

    Raises InputError.
    """
    data = read_yaml(path)
    if not isinstance(data, dict):
        raise InputError(f"{path}: found {type(data).__name__}; expected the sections {expected}, ...")
    override(data, overrides)
    return data


def range_faults(limits: Limits, value_of: Callable[[str], Any], prefix: str = "") -> list[str]:
    """Settings that are out of range: "model.hidden_size: found 0; expected 1 or more".

    value_of: a setting by its name among the limits; None where it is unset, or there is none of the name.
    """
    return [
        f"{prefix}{name}: found {list(value) if isinstance(value, tuple) else value}; expected {expected}"
        for name, (expected, right) in limits.items()
        if (value := value_of(name)) is not None and not right(value)
    ]


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
        except (yaml.YAMLError, RecursionError):
            raise InputError(f"--{key}: {text!r} is not a value YAML can read") from None
