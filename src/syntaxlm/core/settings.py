"""Settings: typed dataclasses with limits for each field, read from YAML or JSON or created in Python.

    @dataclass(frozen=True)
    class EncoderSettings(Settings, section="encoder"):
        '''Settings of the encoder.

        Attributes:
            hidden_size: features of the hidden state
            dropout: rate at the input of the first layer
        '''

        hidden_size: Size = 400
        dropout: Fraction = 0.2

        def contradictions(self) -> list[str]: ...

Limits are `Annotated` types of pydantic, such as those below. All errors of a file are reported together.
"""

from __future__ import annotations

import dataclasses
import datetime
import json
import os
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, TypeAlias, TypeVar

import pydantic
from pydantic_core import InitErrorDetails, ValidationError, core_schema

from syntaxlm.core.declarations import (  # noqa: F401 - the types are for settings
    LARGEST_COUNT,
    LARGEST_SEED,
    Bounds,
    Count,
    Finite,
    Fraction,
    Layers,
    NonNegative,
    Positive,
    Seed,
    Size,
    expected_number,
    limits_of,
    members_of,
    range_of,
    validator_of,
)
from syntaxlm.core.errors import InputError, closest_match, shortened
from syntaxlm.core.yaml_files import MOST_VALUES, parse_yaml

T = TypeVar("T")
_PLAIN = (str, int, float, type(None), datetime.date, os.PathLike)  # dates and paths become text
Overrides: TypeAlias = Mapping[str, Any] | Sequence[tuple[str, str]]
"""Settings that override those of a file: dicts, or pairs such as ("model.layers", "3") with values in YAML."""

_MOST_FAULTS = 10  # shown in a message
_LONGEST_VALUE = 60  # characters shown of a wrong value


def check_number(name: str, value: int, least: int, most: int = LARGEST_COUNT) -> None:
    """Raise InputError if an argument is below least or above most.

    Args:
        name: the name of the argument, for the message.
    """
    if not least <= value <= most:
        shown = f"{value:,}" if abs(value) < 10**12 else f"{float(value):.3g}" if abs(value) < 10**300 else "too much"
        raise InputError(f"{name}: found {shown}; expected {least:,} to {most:,}")


class SettingsError(InputError):
    """Settings that are out of range or contradict each other.

    Attributes:
        faults: one line per fault, starting with the name of the setting.
    """

    def __init__(self, faults: Sequence[str], section: str = "") -> None:
        self.faults = list(faults)
        super().__init__("\n".join(_dotted(section, fault) for fault in faults))


class Settings:
    """Base class of frozen dataclasses of settings.

    Types and limits, then `contradictions`, are checked when an instance is created.

    A subclass names its `section` of a recipe, which messages put before the name of a setting: "model.hidden_size".
    """

    _section = ""

    def __init_subclass__(cls, section: str = "") -> None:
        super().__init_subclass__()
        cls._section = section

    def __post_init__(self) -> None:
        faults: list[str] = []
        for name, reader in _field_readers(typing.cast(typing.Hashable, type(self))).items():
            try:
                reader.validate_python(getattr(self, name))
            except pydantic.ValidationError as error:
                lines, more = _described(type(self), error, (name,))
                faults += [*lines, *[f"{name}: and {more:,} more"] * (more > 0)]
        faults = faults or self.contradictions()
        if faults:
            raise SettingsError(faults, self._section)

    def contradictions(self) -> list[str]:
        """Return a line for each contradiction: "chunk_size: found 3; expected a divisor of every layer's size".

        Called only if every setting is within its own limits.
        """
        return []


@dataclasses.dataclass(frozen=True)
class ByName:
    """Marks a section whose class follows from one of its entries: Annotated[Any, ByName(names, find)].

    Like a union discriminated by `key`, but only the class of the given name is imported.

    Attributes:
        names: returns all names, for messages.
        find: returns the dataclass of a name; None for an unknown name.
        key: the entry with the name.
        default: the name of a section without the entry; None: the entry is needed.
    """

    names: Callable[[], Sequence[str]]
    find: Callable[[str], Callable[..., Any] | None]
    key: str = "name"
    default: str | None = None

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        return core_schema.no_info_plain_validator_function(self._validated)

    def _validated(self, value: Any) -> Any:
        """Return the settings of a section, or the value itself if it is such settings already."""
        if dataclasses.is_dataclass(value):  # has checked itself
            return value
        if not isinstance(value, Mapping):
            raise _fault("dataclass_type", value, class_name="section")
        name: Any = value.get(self.key, self.default)
        if name is None:
            raise _fault("union_tag_not_found", value, discriminator=self.key)
        section: Any = self.find(name) if isinstance(name, str) else None
        if section is None:
            raise _fault("union_tag_invalid", value, discriminator=self.key, tag=str(name), expected_tags="")
        try:
            return _reader(section).validate_json(json.dumps(value))
        except pydantic.ValidationError as error:
            faults: Any = [{**fault, "loc": (str(name), *fault["loc"])} for fault in error.errors(include_url=False)]
            raise ValidationError.from_exception_data("", faults) from None


def _fault(reason: str, value: Any, **context: str) -> ValidationError:
    return ValidationError.from_exception_data("", [InitErrorDetails(type=reason, input=value, ctx=context)])


def _by_name(hint: Any) -> ByName | None:
    """Return the mark of a section whose class follows from its name."""
    return next((part for part in typing.get_args(hint) if isinstance(part, ByName)), None)


@cache
def _field_readers(settings: Any) -> dict[str, pydantic.TypeAdapter[Any]]:
    """Return a validator for each field of a dataclass, except nested dataclasses, which check themselves."""
    return {
        name: validator_of(hint)
        for name, hint in _hints(settings).items()
        if not any(map(dataclasses.is_dataclass, members_of(hint)))
    }


@cache
def _reader(settings: Any) -> pydantic.TypeAdapter[Any]:
    _refuse_unknown_keys(settings)
    return pydantic.TypeAdapter(settings)


def _refuse_unknown_keys(settings: Any) -> None:
    """Make a dataclass and its nested dataclasses strict: unknown keys and conversions of types are errors."""
    if dataclasses.is_dataclass(settings):
        setattr(settings, "__pydantic_config__", pydantic.ConfigDict(extra="forbid", strict=True))  # noqa: B010
        for hint in typing.get_type_hints(settings).values():
            _refuse_unknown_keys(hint)
    for part in typing.get_args(settings):
        _refuse_unknown_keys(part)


def read_settings(
    settings: type[T],
    data: Any,
    source: str,
    advice: Mapping[str, str] = types.MappingProxyType({}),
    most: int = MOST_VALUES,
) -> T:
    """Convert nested dicts from YAML or JSON to a dataclass of settings, or to a model of pydantic.

    Args:
        settings: the dataclass or model.
        data: the dicts.
        source: the file, for messages.
        advice: what to do about unknown keys, by dotted key, instead of the closest match.
        most: largest number of values.

    Raises:
        InputError: with one line per fault: the dotted key, the value found, and the value expected or, for an unknown
            key, the closest match.
    """
    count, waiting = 0, [("", data)]
    while waiting:
        key, value = waiting.pop()
        inner = []
        if isinstance(value, Mapping):
            inner = [(_dotted(key, str(name)), entry) for name, entry in value.items()]
        elif isinstance(value, list | tuple):
            inner = [(key, entry) for entry in value]
        elif not isinstance(value, _PLAIN):
            found = f"{type(value).__module__}.{type(value).__qualname__}".removeprefix("builtins.")
            raise InputError(f"{source}: {key}: found an object of type {found}; expected text, a number or a list")
        waiting += inner
        count += len(inner)
        if count > most:
            raise InputError(f"{source}: found over {most:,} values; expected settings")
    try:
        text = json.dumps(data, default=str)  # a YAML date, such as 2024-01-31, becomes text
        return typing.cast(T, _reader(typing.cast(typing.Hashable, settings)).validate_json(text))
    except pydantic.ValidationError as error:
        lines, more = _described(settings, error, known=advice)
        if len(lines) == 1:
            raise InputError(f"{source}: {lines[0]}") from None
        rest = [f"and {more:,} more"] * (more > 0)
        head = f"{source}: {len(lines) + more} settings cannot be used"
        raise InputError("\n  ".join([head, *lines, *rest])) from None
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(f"{source}: {error}") from None


def _described(
    settings: Any, error: pydantic.ValidationError, place: tuple[str, ...] = (), known: Mapping[str, str] | None = None
) -> tuple[list[str], int]:
    """Return lines about the first faults that pydantic found, and the number of the others.

    Args:
        place: the part of the settings that was validated.
        known: see `advice` of `read_settings`.
    """
    faults = [{**fault, "loc": (*place, *fault["loc"])} for fault in error.errors(include_url=False)]
    lines = [line for fault in faults[:_MOST_FAULTS] for line in _lines(settings, fault, known or {})]
    return lines, max(0, len(faults) - _MOST_FAULTS)


def _lines(settings: type, fault: Any, known: Mapping[str, str]) -> list[str]:
    """Format an error of pydantic as one line, or as several if settings contradict each other.

    Args:
        known: see `advice` of `read_settings`.
    """
    reason = fault["type"]
    place = fault["loc"]
    value = fault["input"]
    if reason in ("unexpected_keyword_argument", "extra_forbidden"):
        section, hint = _followed(settings, place[:-1])
        names = list(dict.fromkeys(name for option in members_of(hint) for name in _hints(option)))
        key = _dotted(section, str(place[-1]))
        others = f"There are: {', '.join(names)}."
        advice = known.get(key) or closest_match(place[-1], names, others, f"{section}." if section else "")
        return [f"{key}: no such setting. {advice}"]
    key, hint = _followed(settings, place)
    if reason in ("union_tag_invalid", "union_tag_not_found"):
        by_name = _by_name(hint)
        expected = ", ".join(by_name.names() if by_name else ())
        tag = by_name.key if by_name else "name"
        found = f"found {_shown(value[tag])}" if tag in value else "missing"
        return [f"{key}.{tag}: {found}; expected one of {expected}"]
    if reason in ("missing", "missing_argument"):
        return [f"{key}: missing"]
    if reason == "value_error":  # from a section's own check
        error = fault["ctx"]["error"]
        return [_dotted(key, line) for line in (error.faults if isinstance(error, SettingsError) else [str(error)])]
    return [f"{key}{': ' if key else ''}found {_shown(value)}; expected {_expected(fault, hint)}"]


_OUT_OF_RANGE = ("greater_than", "greater_than_equal", "less_than", "less_than_equal")


def _expected(fault: Any, hint: Any) -> str:
    """Describe the expected value: the limits of the setting if it has any, otherwise as pydantic does."""
    if _by_name(hint):
        return "a section with the entry name"
    reason = fault["type"]
    expected = str(fault["msg"]).removeprefix("Input should be ")
    members = members_of(hint)
    if names := dict.fromkeys(name for option in members for name in _hints(option)):
        return f"a section with the settings {', '.join(names)}"
    match reason:
        case "too_short" | "too_long":
            limits = limits_of(hint)
            most = f" to {limits['max_length']}" if "max_length" in limits else " or more"
            return f"{limits.get('min_length', 0)}{most} entries"
        case "less_than_equal" if limits_of(hint) == limits_of(Positive):
            return f"a number up to {fault['ctx']['le']:g}"
        case "tuple_type" | "list_type" | "frozen_set_type":
            return "a list"
        case "bool_type":
            return "true or false"
        case "string_too_short":
            return "text that is not empty"
        case "string_type" if isinstance(fault["input"], bool | int | float):
            return f"{expected}; put it in quotes"  # YAML reads true and 007 as a boolean and a number
        case "finite_number":
            return range_of(hint) or "a finite number"
    is_number = reason in _OUT_OF_RANGE or reason.startswith(("float_", "int_"))
    return expected_number(hint, fault["input"]) if is_number else expected


def _dotted(*parts: str) -> str:
    return ".".join(filter(None, parts))


def _shown(value: Any) -> str:
    text = repr(value) if isinstance(value, float) else json.dumps(value, default=str, ensure_ascii=False)
    return shortened(text, _LONGEST_VALUE)


def _followed(hint: Any, place: Sequence[str | int]) -> tuple[str, Any]:
    """Return the dotted key of the location of an error, without the names of `ByName`, and the type expected there."""
    path = []
    for part in place:
        by_name = _by_name(hint)
        if by_name is not None:  # part is the name
            hint = by_name.find(str(part))
            continue
        members = members_of(hint)
        inner = next((_hints(member)[str(part)] for member in members if str(part) in _hints(member)), None)
        if isinstance(part, int):  # an entry of a list
            inner = next((argument for member in members for argument in typing.get_args(member)), None)
        path.append(str(part))
        hint = inner
    return ".".join(path), hint


@cache
def _hints(settings: Any) -> Mapping[str, Any]:
    """Return the types of the fields of a dataclass or model, with their limits; an empty dict for other types."""
    if isinstance(settings, type) and dataclasses.is_dataclass(settings):
        names = [field.name for field in dataclasses.fields(settings)]
    elif isinstance(settings, type) and issubclass(settings, pydantic.BaseModel):
        names = list(settings.model_fields)
    else:
        return {}
    hints = typing.get_type_hints(settings, include_extras=True)
    return {name: hints[name] for name in names}


def override(data: dict[str, Any], overrides: Overrides) -> None:
    """Apply overrides to nested dicts in place.

    Args:
        data: the settings.
        overrides: dicts, nested or with dotted keys or both: {"schedule": {"epochs": 3}, "model.layers": 2}, whose
            values are used unchanged; or pairs of dotted names and values in YAML, ("model.layers", "3").

    Raises:
        InputError: for an invalid key, a value that is not YAML, and a setting given twice in dicts.
    """
    is_python = isinstance(overrides, Mapping)
    given: list[str] = []
    if isinstance(overrides, str):
        raise InputError(
            f"overrides: found {overrides!r}; expected a dict of settings, such as {{'schedule.epochs': 3}}"
        )
    for key, value in _leaves(overrides) if isinstance(overrides, Mapping) else overrides:
        place = f"overrides: {key}" if is_python else f"--{key}"
        if is_python:
            twice = next(
                (old for old in given if f"{old}.".startswith(f"{key}.") or f"{key}.".startswith(f"{old}.")), None
            )
            if twice is not None:
                also = f" (as {twice} and {key})" if twice != key else ""
                raise InputError(f"overrides: {min(twice, key, key=len)} is given twice{also}; expected one value")
            given.append(key)
        else:
            try:
                # A value such as *.txt would be an alias in YAML, of which a single value has none.
                value = value if value.startswith("*") else parse_yaml(value, place)
            except InputError:
                found = shortened(repr(value), _LONGEST_VALUE)
                raise InputError(f"{place}: {found} is not a value YAML can read") from None
        *sections, last = key.split(".")
        inner: Any = data
        for section in sections:
            if inner.get(section) is None:  # missing or empty
                inner[section] = {}
            inner = inner[section]
            if not isinstance(inner, dict):
                raise InputError(f"{place}: {section} is a single setting, not a section")
        inner[last] = value


def flat_overrides(overrides: Overrides) -> dict[str, Any]:
    """Return overrides by dotted name, with their values as JSON has them: dates and paths become text.

    Args:
        overrides: as for `override`.
    """
    data: dict[str, Any] = {}
    override(data, overrides)
    flat: dict[str, Any] = json.loads(json.dumps(dict(_leaves(data)), default=str))
    return flat


def _leaves(settings: Mapping[str, Any], section: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the dotted names and values of nested settings."""
    for key, value in settings.items():
        if not isinstance(key, str) or not all(key.split(".")):
            place = f" in {section}" if section else ""
            raise InputError(f"overrides: found the key {key!r}{place}; expected the name of a setting")
        name = _dotted(section, key)
        if isinstance(value, Mapping):
            yield from _leaves(value, name)
        else:
            yield name, value
