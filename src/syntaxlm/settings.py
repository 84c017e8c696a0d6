"""Settings: typed dataclasses with limits for each field, read from YAML and JSON or made in Python.

    @dataclass(frozen=True)
    class EncoderSettings(Settings, section="encoder"):
        hidden_size: Size = 400  # features of a state
        dropout: Fraction = 0.2  # rate on what the first layer reads

        def contradictions(self) -> list[str]: ...

A limit is an `Annotated` type of pydantic, such as those below. All faults of a file are reported together.
"""

from __future__ import annotations

import dataclasses
import difflib
import json
import re
import types
import typing
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Annotated, Any, TypeAlias, TypeVar

import pydantic
import yaml
from pydantic import Field
from pydantic.fields import FieldInfo

from syntaxlm.errors import InputError
from syntaxlm.files import read_text
from syntaxlm.old_settings import rename_old_assignments, rename_old_settings

T = TypeVar("T")
Overrides: TypeAlias = Mapping[str, Any] | Sequence[tuple[str, str]]
"""Settings that replace those of a file: dicts, or pairs such as ("model.layers", "3") with values in YAML."""

# The limits that most settings share. Upper limits are far above what is useful: they stop a mistyped number before
# memory is allocated for it.
Count = Annotated[int, Field(ge=1, le=2**31 - 1)]  # how many: words, epochs, steps
Size = Annotated[int, Field(ge=1, le=65_536)]  # of one dimension of a tensor
Layers = Annotated[int, Field(ge=1, le=100)]  # stacked
Seed = Annotated[int, Field(ge=0, le=2**32 - 1)]  # of a random generator
Fraction = Annotated[float, Field(ge=0, lt=1)]  # dropout rates, decay rates
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NonNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Finite = Annotated[float, Field(allow_inf_nan=False)]

_STRICT = pydantic.ConfigDict(strict=True)  # no 4 for 3.5, no "yes" for true
_MOST_VALUES = 100_000  # of a YAML file
_MOST_BITS = 4096  # of an integer in a YAML file; Python refuses to print one of over 14,000


LARGEST_COUNT, LARGEST_SEED = 2**31 - 1, 2**32 - 1


def check_number(name: str, value: int, least: int, most: int = LARGEST_COUNT) -> None:
    """Raises InputError for an argument outside least to most. name: as messages have it."""
    if not least <= value <= most:
        shown = f"{value:,}" if abs(value) < 10**12 else f"{float(value):.3g}" if abs(value) < 10**300 else "too much"
        raise InputError(f"{name}: found {shown}; expected {least:,} to {most:,}")


class SettingsError(InputError):
    """Settings that are out of range or contradict each other.

    faults: one line each, which begins with the name of the setting.
    """

    def __init__(self, faults: Sequence[str], section: str = "") -> None:
        self.faults = list(faults)
        super().__init__("\n".join(_dotted(section, fault) for fault in faults))


class Settings:
    """Base of frozen dataclasses of settings, which are checked when one is made: types and limits, then
    `contradictions`.

    section: where a recipe has these settings; messages put it before their names, "model.hidden_size".
    """

    _section = ""

    def __init_subclass__(cls, section: str = "") -> None:
        super().__init_subclass__()
        cls._section = section

    def __post_init__(self) -> None:
        faults = [
            fault
            for name, reader in _field_readers(typing.cast(typing.Hashable, type(self))).items()
            for fault in _faults_of_field(type(self), name, reader, getattr(self, name))
        ]
        faults = faults or self.contradictions()
        if faults:
            raise SettingsError(faults, self._section)

    def contradictions(self) -> list[str]:
        """Settings that do not fit each other: "chunk_size: found 3; expected a divisor of every layer's size".

        Asked only once every setting is within its own limits.
        """
        return []


@cache
def _field_readers(kind: Any) -> dict[str, pydantic.TypeAdapter[Any]]:
    """What checks each field of a dataclass, those aside that are dataclasses: they have checked themselves."""
    hints = _hints(kind)
    return {
        name: pydantic.TypeAdapter(hint, config=_STRICT)
        for name, hint in hints.items()
        if not any(dataclasses.is_dataclass(option) for option in _flat(hint))
    }


def _faults_of_field(kind: type, name: str, reader: pydantic.TypeAdapter[Any], value: Any) -> list[str]:
    try:
        reader.validate_python(value)
    except pydantic.ValidationError as error:
        return [line for fault in error.errors() for line in _lines(kind, {**fault, "loc": (name, *fault["loc"])})]
    return []


@cache
def _reader(kind: Any) -> pydantic.TypeAdapter[Any]:
    _refuse_unknown_keys(kind)
    return pydantic.TypeAdapter(kind)


def _refuse_unknown_keys(kind: Any) -> None:
    """Makes a dataclass, and those inside it, strict: unknown keys are refused, and 4 for 3.5, and "yes" for true."""
    if dataclasses.is_dataclass(kind):
        setattr(kind, "__pydantic_config__", pydantic.ConfigDict(extra="forbid", strict=True))  # noqa: B010
        for hint in typing.get_type_hints(kind).values():
            _refuse_unknown_keys(hint)
    for part in typing.get_args(kind):
        _refuse_unknown_keys(part)


def read_settings(kind: type[T], data: Any, source: str) -> T:
    """`data` (nested dicts as YAML or JSON gives them) as the dataclass `kind`.

    Old names of settings are accepted with a warning, see `syntaxlm.old_settings`.
    Raises InputError naming the source, with one line per fault: dotted key, what was found, what was expected; for an
    unknown key, the closest match.
    """
    data = rename_old_settings(data, source)
    try:
        settings: T = _reader(typing.cast(typing.Hashable, kind)).validate_json(
            json.dumps(data, default=str)  # a date of YAML's, 2024-01-31, is text
        )
    except pydantic.ValidationError as error:
        lines = [line for fault in error.errors() for line in _lines(kind, fault)]
        raise InputError(_listed(source, lines)) from None
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(f"{source}: {error}") from None
    return settings


def _listed(source: str, faults: Sequence[str]) -> str:
    """Faults of one source, a line for each."""
    if len(faults) == 1:
        return f"{source}: {faults[0]}"
    return "\n".join([f"{source}: {len(faults)} settings cannot be used", *(f"  {fault}" for fault in faults)])


def _lines(kind: type, fault: Any) -> list[str]:
    """A fault that pydantic found, as one line, or as several where settings contradict each other."""
    place = fault["loc"]
    if fault["type"] in ("unexpected_keyword_argument", "extra_forbidden"):
        path, section = _followed(kind, place[:-1])
        names = list(dict.fromkeys(name for option in _flat(section) for name in _hints(option)))
        close = difflib.get_close_matches(str(place[-1]), names, n=1, cutoff=0.5)
        hint = f"Did you mean {_dotted(path, close[0])}?" if close else f"There are: {', '.join(names)}."
        return [f"{_dotted(path, str(place[-1]))}: no such setting. {hint}"]
    key, hint = _followed(kind, place)
    if fault["type"] in ("union_tag_invalid", "union_tag_not_found"):
        tags = ", ".join(str(tag) for option in _flat(hint) for tag in _tags(option))
        if "name" not in fault["input"]:
            return [f"{key}.name: missing; expected one of {tags}"]
        return [f"{key}.name: found {_shown(fault['input']['name'])}; expected one of {tags}"]
    if fault["type"] in ("missing", "missing_argument"):
        return [f"{key}: missing"]
    if fault["type"] == "value_error":  # from a section's own check
        error = fault["ctx"]["error"]
        return [_dotted(key, line) for line in (error.faults if isinstance(error, SettingsError) else [str(error)])]
    return [f"{key + ': ' if key else ''}found {_shown(fault['input'])}; expected {_expected(fault, hint)}"]


def _expected(fault: Any, hint: Any) -> str:
    """What was expected according to pydantic, with the limits of the setting if it is outside them."""
    options = [option for option in _flat(hint) if dataclasses.is_dataclass(option)]
    if options:
        names = list(dict.fromkeys(name for option in options for name in _hints(option)))
        return f"a section with the settings {', '.join(names)}"
    limits = limits_of(hint)
    if fault["type"] == "greater_than_equal" and int in _flat(hint):
        return f"{limits['ge']:,} or more"
    if fault["type"] in ("greater_than", "greater_than_equal", "less_than", "less_than_equal", "finite_number"):
        return range_of(hint) or "a finite number"
    if fault["type"] in ("too_short", "too_long"):
        least, most = limits.get("min_length", 0), limits.get("max_length")
        return f"{least} or more entries" if most is None else f"{least} to {most} entries"
    if fault["type"] == "string_too_short":
        return "text that is not empty"
    if fault["type"] in ("float_type", "float_parsing"):
        return range_of(hint) or "a finite number"
    if fault["type"] in ("int_type", "int_parsing", "int_from_float"):
        return f"an integer, {range_of(hint)}" if range_of(hint) else "an integer"
    expected = str(fault["msg"]).removeprefix("Input should be ")
    if fault["type"] == "string_type" and isinstance(fault["input"], bool | int | float):
        expected += "; put it in quotes"  # to YAML, NO and 007 are not text
    return expected


def range_of(hint: Any) -> str:
    """The range of a number with limits, in words: "1 to 65,536", "a number from 0 to under 1"; "" without limits."""
    limits = {name: value for name, value in limits_of(hint).items() if name in ("gt", "ge", "lt", "le")}
    if not limits:
        return ""
    if int in _flat(hint):
        return f"{limits['ge']:,} to {limits['le']:,}" if "le" in limits else f"{limits['ge']:,} or more"
    if limits == {"gt": 0}:
        return "a positive number"
    if limits.keys() == {"ge"}:
        return f"a finite number, {limits['ge']:g} or more"
    lower = f"from {limits['ge']:g}" if "ge" in limits else f"above {limits['gt']:g} and" if "gt" in limits else ""
    upper = f"to {limits['le']:g}" if "le" in limits else f"under {limits['lt']:g}" if "lt" in limits else ""
    between = " to" if "ge" in limits and "lt" in limits else " up" if "gt" in limits and "le" in limits else ""
    return f"a number {lower}{between} {upper}"


def limits_of(hint: Any) -> dict[str, Any]:
    """What `Field` was given for a setting: {"ge": 1, "le": 65536}. Of a union, all of its parts' limits."""
    found: dict[str, Any] = {}
    for part in typing.get_args(hint):
        if isinstance(part, FieldInfo):
            for limit in part.metadata:
                found |= {
                    name: value
                    for name in ("gt", "ge", "lt", "le", "min_length", "max_length")
                    if (value := getattr(limit, name, None)) is not None
                }
        elif typing.get_origin(hint) in (typing.Union, types.UnionType, typing.Annotated):
            found |= limits_of(part)
    return found


def _dotted(*parts: str) -> str:
    return ".".join(part for part in parts if part)


def _shown(value: Any) -> str:
    text = repr(value) if isinstance(value, float) else json.dumps(value, default=str, ensure_ascii=False)
    return text if len(text) <= 60 else text[:60] + " ..."


def _followed(kind: Any, place: Sequence[str | int]) -> tuple[str, Any]:
    """The dotted key that a fault's place means, without the tags of unions, and the type of what is expected there."""
    path = []
    for part in place:
        inner = next((_hints(option)[part] for option in _flat(kind) if part in _hints(option)), None)
        tagged = next((option for option in _flat(kind) if part in _tags(option)), None)
        if inner is None and tagged is not None:
            kind = tagged
        else:
            path.append(str(part))
            if inner is None and isinstance(part, int):  # an entry of a list
                inner = next((argument for option in _flat(kind) for argument in typing.get_args(option)), None)
            kind = inner
    return ".".join(path), kind


def _flat(kind: Any) -> list[Any]:
    """A type, or the types of a union, without their limits."""
    if typing.get_origin(kind) is typing.Annotated:
        return _flat(typing.get_args(kind)[0])
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        return [option for argument in typing.get_args(kind) for option in _flat(argument)]
    return [kind]


def _hints(kind: Any) -> dict[str, Any]:
    """The types of a dataclass's fields, with their limits; nothing for other types."""
    if not dataclasses.is_dataclass(kind):
        return {}
    hints = typing.get_type_hints(kind, include_extras=True)
    return {field.name: hints[field.name] for field in dataclasses.fields(kind)}


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
        raise InputError(f"{path}, line {line}: not YAML: found {found}, which YAML does not allow unescaped") from None
    except RecursionError:
        raise InputError(f"{path}: nested too deeply") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        # Not mark.line: YAML ends lines at U+2028 as well, and no editor does.
        place = f", line {text.count(chr(10), 0, mark.index) + 1}" if mark else ""
        raise InputError(f"{path}{place}: not YAML: {getattr(error, 'problem', None) or error}") from None


class _Loader(yaml.SafeLoader):
    """YAML that reads 1e-3 as a number (PyYAML reads text) and refuses duplicate keys and millions of values."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._values = 0  # read so far, including those of aliases
        self._sizes: dict[int, int] = {}  # by node, the number of values in it

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        alias, before = self.check_event(yaml.AliasEvent), self._values
        node = super().compose_node(parent, index)
        self._values += self._sizes.get(id(node), 0) if alias else 1
        self._sizes.setdefault(id(node), self._values - before)
        if self._values > _MOST_VALUES:  # aliases of aliases double with every line
            found = f"over {_MOST_VALUES:,} values, including those of aliases"
            raise yaml.composer.ComposerError(None, None, found, node.start_mark if node else None)
        return node

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        try:
            value = super().construct_object(node, deep)
            if isinstance(value, int) and value.bit_length() > _MOST_BITS:
                raise ValueError("Python refuses to print such numbers")
            return value
        except (AttributeError, LookupError, TypeError, ValueError):  # PyYAML's own, of 2024-99-99 or !!int x
            kind = node.tag.rpartition(":")[2]
            raise yaml.constructor.ConstructorError(
                None, None, f"found {_shown(node.value)}, which is not a valid {kind}", node.start_mark
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


def read_sections(path: Path, overrides: Overrides, expected: str) -> dict[str, Any]:
    """The nested dicts of a YAML file with overrides put into them.

    overrides: see `override`.
    expected: some of the file's sections, for the message when it has none. Raises InputError.
    """
    data = rename_old_settings(read_yaml(path), str(path))
    if not isinstance(data, dict):
        raise InputError(f"{path}: found {type(data).__name__}; expected the sections {expected}, ...")
    override(data, overrides)
    return data


def override(data: dict[str, Any], overrides: Overrides) -> None:
    """Puts settings into nested dicts. Old names of settings are accepted with a warning.

    overrides: dicts, nested, or with dotted keys, or both: {"schedule": {"epochs": 3}, "model.layers": 2}, whose values
    are taken as they are; or pairs of dotted names and values in YAML, ("model.layers", "3").
    Raises InputError for a key that is not a name, a value that is not YAML, and a setting given twice in dicts.
    """
    if isinstance(overrides, Mapping):
        _override_by_dict(data, overrides, "overrides")
        return
    for key, value in rename_old_assignments([(key, _value_of(key, text)) for key, text in overrides]):
        _put(data, key, value, f"--{key}")


def _override_by_dict(data: dict[str, Any], overrides: Mapping[str, Any], source: str) -> None:
    """source: of the overrides, for messages."""
    given: dict[str, Any] = {}
    for key, value in _leaves(overrides, source):
        twice = next((one for one in given if f"{one}.".startswith(f"{key}.") or f"{key}.".startswith(f"{one}.")), None)
        if twice is not None:
            also = f" (as {twice} and {key})" if twice != key else ""
            raise InputError(f"{source}: {min(twice, key, key=len)} is given twice{also}; expected one value")
        given[key] = value
    nested: dict[str, Any] = {}
    for key, value in given.items():
        _put(nested, key, value, f"{source}: {key}")
    for key, value in _leaves(rename_old_settings(nested, source), source):
        _put(data, key, value, f"{source}: {key}")


def _leaves(settings: Mapping[str, Any], source: str, section: str = "") -> Iterator[tuple[str, Any]]:
    """Dotted names and values of nested settings."""
    for key, value in settings.items():
        if not isinstance(key, str) or not all(key.split(".")):
            place = f" in {section}" if section else ""
            raise InputError(f"{source}: found the key {key!r}{place}; expected the name of a setting")
        name = _dotted(section, key)
        if isinstance(value, Mapping):
            yield from _leaves(value, source, name)
        else:
            yield name, value


def _put(data: dict[str, Any], key: str, value: Any, place_name: str) -> None:
    """Puts the value of one dotted key into nested dicts. place_name: for messages."""
    place = data
    *path, last = key.split(".")
    for part in path:
        inner = place.get(part)
        if inner is None:  # not there, or nothing under it
            inner = place[part] = {}
        if not isinstance(inner, dict):
            raise InputError(f"{place_name}: {part} is a single setting, not a section")
        place = inner
    place[last] = value


def _value_of(key: str, text: str) -> Any:
    try:
        return _yaml_value(text)
    except (yaml.YAMLError, RecursionError):
        raise InputError(f"--{key}: {text!r} is not a value YAML can read") from None
