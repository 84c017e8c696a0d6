"""Settings: typed dataclasses with limits for each field, read from YAML or JSON or created in Python.

    @dataclass(frozen=True)
    class EncoderSettings(Settings, section="encoder"):
        hidden_size: Size = 400  # features of the hidden state
        dropout: Fraction = 0.2  # rate at the input of the first layer

        def contradictions(self) -> list[str]: ...

Limits are `Annotated` types of pydantic, such as those below. All errors of a file are reported together.
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

from syntaxlm.core.errors import InputError, shortened
from syntaxlm.core.files import read_text

T = TypeVar("T")
Overrides: TypeAlias = Mapping[str, Any] | Sequence[tuple[str, str]]
"""Settings that override those of a file: dicts, or pairs such as ("model.layers", "3") with values in YAML."""

# Common limits. Upper limits are far above useful values: they reject a mistyped number before memory is allocated.
Count = Annotated[int, Field(ge=1, le=2**31 - 1)]  # number of words, epochs, steps
Size = Annotated[int, Field(ge=1, le=65_536)]  # one dimension of a tensor
Layers = Annotated[int, Field(ge=1, le=100)]  # number of stacked layers
Seed = Annotated[int, Field(ge=0, le=2**32 - 1)]  # seed of a random generator
Fraction = Annotated[float, Field(ge=0, lt=1)]  # dropout rates, decay rates
# Numbers outside these limits overflow in the computations, or vanish.
Positive = Annotated[float, Field(ge=1e-30, le=1e9)]
NonNegative = Annotated[float, Field(ge=0, le=1e9)]
Finite = Annotated[float, Field(ge=-1e9, le=1e9)]

_STRICT = pydantic.ConfigDict(strict=True)  # no conversion of types, such as "yes" to true
_MOST_VALUES = 20_000  # in a file of settings
_MOST_FAULTS = 10  # shown in a message
_LONGEST_VALUE = 60  # characters shown of a wrong value
_MOST_BITS = 4096  # of an integer in a YAML file; Python does not print integers of over 14,000 bits


LARGEST_COUNT, LARGEST_SEED = 2**31 - 1, 2**32 - 1


def check_number(name: str, value: int, least: int, most: int = LARGEST_COUNT) -> None:
    """Raise InputError if an argument is below least or above most. name: of the argument, for the message."""
    if not least <= value <= most:
        shown = f"{value:,}" if abs(value) < 10**12 else f"{float(value):.3g}" if abs(value) < 10**300 else "too much"
        raise InputError(f"{name}: found {shown}; expected {least:,} to {most:,}")


class SettingsError(InputError):
    """Settings that are out of range or contradict each other.

    faults: one line per fault, starting with the name of the setting.
    """

    def __init__(self, faults: Sequence[str], section: str = "") -> None:
        self.faults = list(faults)
        super().__init__("\n".join(_dotted(section, fault) for fault in faults))


class Settings:
    """Base class of frozen dataclasses of settings.

    Types and limits, then `contradictions`, are checked when an instance is created.

    section: the section of a recipe with these settings; in messages a prefix of their names, "model.hidden_size".
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
        """Return a line for each contradiction: "chunk_size: found 3; expected a divisor of every layer's size".

        Called only if every setting is within its own limits.
        """
        return []


@cache
def _field_readers(kind: Any) -> dict[str, pydantic.TypeAdapter[Any]]:
    """Return a validator for each field of a dataclass, except nested dataclasses, which check themselves."""
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
        faults = [{**fault, "loc": (name, *fault["loc"])} for fault in _first_faults(error)]
        more = _further(error)
        return [line for fault in faults for line in _lines(kind, fault)] + [f"{name}: and {more:,} more"] * (more > 0)
    return []


def _first_faults(error: pydantic.ValidationError) -> list[Any]:
    return error.errors(include_url=False)[:_MOST_FAULTS]


def _further(error: pydantic.ValidationError) -> int:
    """Return the number of faults that are not shown, such as those of the other entries of a long list."""
    return max(0, error.error_count() - _MOST_FAULTS)


@cache
def _reader(kind: Any) -> pydantic.TypeAdapter[Any]:
    _refuse_unknown_keys(kind)
    return pydantic.TypeAdapter(kind)


def _refuse_unknown_keys(kind: Any) -> None:
    """Make a dataclass and its nested dataclasses strict: unknown keys and conversions of types are errors."""
    if dataclasses.is_dataclass(kind):
        setattr(kind, "__pydantic_config__", pydantic.ConfigDict(extra="forbid", strict=True))  # noqa: B010
        for hint in typing.get_type_hints(kind).values():
            _refuse_unknown_keys(hint)
    for part in typing.get_args(kind):
        _refuse_unknown_keys(part)


def read_settings(kind: type[T], data: Any, source: str, advice: Mapping[str, str] = types.MappingProxyType({})) -> T:
    """Convert nested dicts from YAML or JSON to the dataclass `kind`.

    advice: what to do about unknown keys, by dotted key, instead of the closest match.
    Raises InputError naming the source, with one line per fault: the dotted key, the value found, the value expected;
    for an unknown key, the closest match.
    """
    if not _is_small(data):
        raise InputError(f"{source}: found over {_MOST_VALUES:,} values; expected settings")
    try:
        settings: T = _reader(typing.cast(typing.Hashable, kind)).validate_json(
            json.dumps(data, default=str)  # a YAML date, such as 2024-01-31, becomes text
        )
    except pydantic.ValidationError as error:
        lines = [line for fault in _first_faults(error) for line in _lines(kind, fault, advice)]
        raise InputError(_listed(source, lines, _further(error))) from None
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(f"{source}: {error}") from None
    return settings


def _is_small(data: Any) -> bool:
    """Return whether nested dicts and lists have at most `_MOST_VALUES` values."""
    count, waiting = 0, [data]
    while waiting and count <= _MOST_VALUES:
        one = waiting.pop()
        inner = list(one.values()) if isinstance(one, Mapping) else one if isinstance(one, list | tuple) else ()
        count += len(inner)
        waiting += inner
    return count <= _MOST_VALUES


def _listed(source: str, faults: Sequence[str], more: int = 0) -> str:
    """Format the faults of one source, one line per fault. more: number of further faults."""
    if len(faults) == 1:
        return f"{source}: {faults[0]}"
    rest = [f"  and {more:,} more"] * (more > 0)
    return "\n".join(
        [f"{source}: {len(faults) + more} settings cannot be used", *(f"  {one}" for one in faults), *rest]
    )


def _lines(kind: type, fault: Any, advice: Mapping[str, str] = types.MappingProxyType({})) -> list[str]:
    """Format an error of pydantic as one line, or as several if settings contradict each other.

    advice: see `read_settings`.
    """
    place = fault["loc"]
    if fault["type"] in ("unexpected_keyword_argument", "extra_forbidden"):
        path, section = _followed(kind, place[:-1])
        key = _dotted(path, str(place[-1]))
        if key in advice:
            return [f"{key}: no such setting. {advice[key]}"]
        names = list(dict.fromkeys(name for option in _flat(section) for name in _hints(option)))
        close = difflib.get_close_matches(str(place[-1]), names, n=1, cutoff=0.5)
        hint = f"Did you mean {_dotted(path, close[0])}?" if close else f"There are: {', '.join(names)}."
        return [f"{key}: no such setting. {hint}"]
    key, hint = _followed(kind, place)
    if fault["type"] in ("union_tag_invalid", "union_tag_not_found"):
        tags = ", ".join(str(tag) for option in _flat(hint) for tag in _tags(option))
        name = fault["ctx"]["discriminator"].strip("'")
        if name not in fault["input"]:
            return [f"{key}.{name}: missing; expected one of {tags}"]
        return [f"{key}.{name}: found {_shown(fault['input'][name])}; expected one of {tags}"]
    if fault["type"] in ("missing", "missing_argument"):
        return [f"{key}: missing"]
    if fault["type"] == "value_error":  # from a section's own check
        error = fault["ctx"]["error"]
        return [_dotted(key, line) for line in (error.faults if isinstance(error, SettingsError) else [str(error)])]
    return [f"{key + ': ' if key else ''}found {_shown(fault['input'])}; expected {_expected(fault, hint)}"]


def _expected(fault: Any, hint: Any) -> str:
    """Describe the expected value, including the limits of the setting if the value is outside them."""
    options = [option for option in _flat(hint) if dataclasses.is_dataclass(option)]
    if options:
        names = list(dict.fromkeys(name for option in options for name in _hints(option)))
        return f"a section with the settings {', '.join(names)}"
    limits = limits_of(hint)
    if fault["type"] == "greater_than_equal" and int in _flat(hint):
        return f"{limits['ge']:,} or more"
    if fault["type"] in ("greater_than", "greater_than_equal", "less_than", "less_than_equal", "finite_number"):
        is_positive = isinstance(fault["input"], int | float) and fault["input"] > 0
        return _between(limits) if limits == limits_of(Positive) and is_positive else range_of(hint)
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
        expected += "; put it in quotes"  # YAML reads NO and 007 as a boolean and a number
    return expected


def range_of(hint: Any) -> str:
    """Describe the range of a number: "1 to 65,536", "a number from 0 to under 1"; "" without limits."""
    limits = {name: value for name, value in limits_of(hint).items() if name in ("gt", "ge", "lt", "le")}
    if not limits:
        return ""
    if int in _flat(hint):
        return f"{limits['ge']:,} to {limits['le']:,}" if "le" in limits else f"{limits['ge']:,} or more"
    if limits == limits_of(Positive):
        return "a positive number"
    return _between(limits)


def _between(limits: Mapping[str, float]) -> str:
    lower = f"from {limits['ge']:g}" if "ge" in limits else f"above {limits['gt']:g} and" if "gt" in limits else ""
    upper = f"to {limits['le']:g}" if "le" in limits else f"under {limits['lt']:g}" if "lt" in limits else ""
    between = " to" if "ge" in limits and "lt" in limits else " up" if "gt" in limits and "le" in limits else ""
    return f"a number {lower}{between} {upper}".rstrip()


def limits_of(hint: Any) -> dict[str, Any]:
    """Return the limits in the `Field` of a setting, {"ge": 1, "le": 65536}; for a union, those of all its members."""
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
    return shortened(text, _LONGEST_VALUE)


def _followed(kind: Any, place: Sequence[str | int]) -> tuple[str, Any]:
    """Return the dotted key of the location of an error, without the tags of unions, and the type expected there."""
    path = []
    for part in place:
        name = str(part)
        inner = next((_hints(option)[name] for option in _flat(kind) if name in _hints(option)), None)
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
    """Return a type, or the members of a union, without their limits."""
    if typing.get_origin(kind) is typing.Annotated:
        return _flat(typing.get_args(kind)[0])
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        return [option for argument in typing.get_args(kind) for option in _flat(argument)]
    return [kind]


def _hints(kind: Any) -> Mapping[str, Any]:
    """Return the types of a dataclass's fields, with their limits; an empty dict for other types."""
    return _hints_of_fields(kind) if isinstance(kind, type) and dataclasses.is_dataclass(kind) else {}


@cache
def _hints_of_fields(kind: Any) -> dict[str, Any]:
    hints = typing.get_type_hints(kind, include_extras=True)
    return {field.name: hints[field.name] for field in dataclasses.fields(kind)}


def _tags(kind: Any) -> tuple[Any, ...]:
    """Return the values of the field that names the member of a union: "name" of models, "context" of batches."""
    return typing.get_args(_hints(kind).get("name") or _hints(kind).get("context"))


def read_yaml(path: Path) -> Any:
    """Read a YAML file. Raises InputError with the file and line."""
    return parse_yaml(read_text(path), path)


def parse_yaml(text: str, path: str | Path) -> Any:
    """Parse YAML text. path: for messages. Raises InputError with the path and line."""
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
        # Not mark.line: in YAML, U+2028 also ends a line, but editors do not count it.
        place = f", line {text.count(chr(10), 0, mark.index) + 1}" if mark else ""
        raise InputError(f"{path}{place}: not YAML: {getattr(error, 'problem', None) or error}") from None


class _Loader(yaml.SafeLoader):
    """YAML loader that reads 1e-3 as a number (PyYAML reads text) and rejects duplicate keys and millions of values."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._values = 0  # number of values read, including those of aliases
        self._sizes: dict[int, int] = {}  # number of values in each node

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        alias, before = self.check_event(yaml.AliasEvent), self._values
        node = super().compose_node(parent, index)
        self._values += self._sizes.get(id(node), 0) if alias else 1
        self._sizes.setdefault(id(node), self._values - before)
        if self._values > _MOST_VALUES:  # nested aliases grow exponentially
            found = f"over {_MOST_VALUES:,} values, including those of aliases"
            raise yaml.composer.ComposerError(None, None, found, node.start_mark if node else None)
        return node

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        try:
            value = super().construct_object(node, deep)
            if isinstance(value, int) and value.bit_length() > _MOST_BITS:
                raise ValueError("Python refuses to print such numbers")
            return value
        except (AttributeError, LookupError, TypeError, ValueError):  # raised by PyYAML for 2024-99-99 or !!int x
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
    """Raise yaml.YAMLError or RecursionError."""
    return yaml.load(text, _Loader)


def read_sections(path: Path, overrides: Overrides, expected: str) -> dict[str, Any]:
    """Read a YAML file as nested dicts and applies overrides.

    overrides: see `override`.
    expected: some sections of the file, for the message if the file has none.
    Raises InputError.
    """
    data = read_yaml(path)
    if not isinstance(data, dict):
        raise InputError(f"{path}: found {type(data).__name__}; expected the sections {expected}, ...")
    override(data, overrides)
    return data


def override(data: dict[str, Any], overrides: Overrides) -> None:
    """Apply overrides to nested dicts in place.

    overrides: dicts, nested or with dotted keys or both: {"schedule": {"epochs": 3}, "model.layers": 2}, whose values
    are used unchanged; or pairs of dotted names and values in YAML, ("model.layers", "3").
    Raises InputError for an invalid key, a value that is not YAML, and a setting given twice in dicts.
    """
    if isinstance(overrides, Mapping):
        _override_by_dict(data, overrides, "overrides")
        return
    for key, text in overrides:
        _put(data, key, _value_of(key, text), f"--{key}")


def _override_by_dict(data: dict[str, Any], overrides: Mapping[str, Any], source: str) -> None:
    """source: where the overrides are from, for messages."""
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
    for key, value in _leaves(nested, source):
        _put(data, key, value, f"{source}: {key}")


def _leaves(settings: Mapping[str, Any], source: str, section: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the dotted names and values of nested settings."""
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
    """Set the value of one dotted key in nested dicts. place_name: for messages."""
    place = data
    *path, last = key.split(".")
    for part in path:
        inner = place.get(part)
        if inner is None:  # missing or empty
            inner = place[part] = {}
        if not isinstance(inner, dict):
            raise InputError(f"{place_name}: {part} is a single setting, not a section")
        place = inner
    place[last] = value


def _value_of(key: str, text: str) -> Any:
    try:
        return _yaml_value(text)
    except (yaml.YAMLError, RecursionError):
        raise InputError(f"--{key}: {shortened(repr(text), _LONGEST_VALUE)} is not a value YAML can read") from None
