"""The settings of recipes, from the dataclasses in the code, their limits and their docstrings."""

from __future__ import annotations

import dataclasses
import json
import types
import typing
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from laboratory.pages.markdown import plain, table
from syntaxlm.core.declarations import docstring_of, help_texts
from syntaxlm.core.settings import limits_of, range_of
from syntaxlm.models.registry import MODELS, BaseConfig, ModelConfig
from syntaxlm.training.recipe import PairRecipe, SentenceBatchSettings, StreamBatchSettings, TextRecipe, TreeRecipe

_UNLIMITED = 2**31 - 1  # an upper limit that is only there to refuse mistyped numbers
_NAMES = {int: "whole number", float: "number", str: "text", bool: "`true` or `false`", type(None): "`null`"}
_NAMES |= {BaseConfig: "settings of a model"}


@dataclass(frozen=True)
class Setting:
    """One setting. name: dotted, as a recipe or the command line has it; takes, default: Markdown."""

    name: str
    takes: str
    default: str
    meaning: str


def settings_of(kind: type, prefix: str = "") -> Iterator[Setting]:
    """The settings of a dataclass; a section inside it is replaced by its settings."""
    hints = typing.get_type_hints(kind, include_extras=True)
    texts = help_texts(kind)
    for field in dataclasses.fields(kind):
        name, hint = f"{prefix}{field.name}", hints[field.name]
        if hint == ModelConfig:
            continue  # models have tables of their own
        if dataclasses.is_dataclass(hint):
            yield from settings_of(typing.cast(type, hint), f"{name}.")
        elif not _is_tag(field.name, hint):
            yield Setting(name, _taken(hint), _default(field), texts.get(field.name, ""))


def sections() -> dict[str, type]:
    """The sections of recipes except the model: dataclasses by heading."""
    by_heading: dict[str, type] = {}
    for recipe, name in ((TextRecipe, "text"), (TreeRecipe, "trees"), (PairRecipe, "pairs")):
        hints = typing.get_type_hints(recipe)
        by_heading[name] = hints[name]
        if recipe is TextRecipe:
            by_heading["batches, context: reset"] = SentenceBatchSettings
            by_heading["batches, context: carry"] = StreamBatchSettings
        else:
            by_heading[f"batches, with {name}"] = hints["batches"]
        if recipe is PairRecipe:
            by_heading["classifier"] = hints["classifier"]
    return by_heading | {name: hints[name] for name in ("optimiser", "schedule", "run")}


def all_settings() -> list[Setting]:
    """Every setting that a recipe can have."""
    of_models = [
        setting
        for name, model in MODELS.items()
        if model.is_trained or model.encoder
        for setting in model_settings(name)
    ]
    return of_models + [setting for name, kind in sections().items() for setting in settings_of(kind, _prefix(name))]


def model_settings(name: str) -> list[Setting]:
    """The settings of one model, `model.` before each."""
    return list(settings_of(MODELS[name].config, "model."))


def settings_table(settings: typing.Iterable[Setting]) -> str:
    rows = ([f"`{setting.name}`", setting.takes, setting.default, plain(setting.meaning)] for setting in settings)
    return table(["setting", "values", "default", "meaning"], rows)


def listed_settings() -> dict[str, list[Setting]]:
    """The settings of each section of a recipe but the model, as the page lists them, by heading.

    The settings of an inner section that several sections have, such as `normaliser`, are listed once. The other
    sections have one row for them, which refers to the first.
    """
    listed: dict[type, str] = {}  # the first name of each inner section
    return {heading: _listed(kind, _prefix(heading), listed) for heading, kind in sections().items()}


def _listed(kind: type, prefix: str, listed: dict[type, str]) -> list[Setting]:
    """Return the settings of a section. An inner section in `listed` becomes one row; others are added to `listed`."""
    settings = list(settings_of(kind, prefix))
    for name, inner in typing.get_type_hints(kind).items():
        if not (isinstance(inner, type) and dataclasses.is_dataclass(inner)):
            continue
        section = f"{prefix}{name}"
        first = listed.setdefault(inner, section)
        if first != section:
            places = [place for place, setting in enumerate(settings) if setting.name.startswith(f"{section}.")]
            reference = f"as [`{first}`](#{first.partition('.')[0]})"
            meaning = f"all settings of `{first}`, such as `{settings[places[0]].name}`"
            settings[places[0] : places[-1] + 1] = [Setting(section, reference, "the same", meaning)]
    return settings


def section_tables() -> str:
    """A heading and a table for each section of a recipe except the model."""
    parts = []
    for heading, settings in listed_settings().items():
        summary = plain(docstring_of(sections()[heading]).summary)
        parts.append(f"## `{heading}`\n\n{summary}\n\n{settings_table(settings)}")
    return "\n".join(parts)


def _prefix(heading: str) -> str:
    """What stands before the names of the settings of a section."""
    return heading.partition(",")[0] + "."


def _is_tag(name: str, hint: Any) -> bool:
    """Whether a field only names the model that its section belongs to."""
    return name == "name" and typing.get_origin(hint) is typing.Literal


def _taken(hint: Any) -> str:
    """The values that a type accepts, as Markdown."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        limits = limits_of(hint)
        if arguments[0] is int and limits.get("le", _UNLIMITED) == _UNLIMITED:
            return f"whole number, {limits['ge']:,} or more"
        limits_in_words = range_of(hint).removeprefix("a ")
        if arguments[0] is int and limits_in_words:
            return f"whole number, {limits_in_words}"
        return limits_in_words or _taken(arguments[0])
    if origin is typing.Literal:
        return ", ".join(f"`{value}`" for value in arguments)
    if origin in (typing.Union, types.UnionType):
        choices = list(map(_taken, arguments))
        return (", or " if any(", " in choice for choice in choices) else " or ").join(choices)
    if origin in (tuple, frozenset, list):
        return "list of texts" if str in arguments else f"list, each a {_taken(arguments[0])}"
    if dataclasses.is_dataclass(hint):
        return f"settings of `{typing.cast(Any, hint).name}`"
    return _NAMES[hint]


def _default(field: dataclasses.Field[Any]) -> str:
    """The default as YAML has it."""
    if field.default is not dataclasses.MISSING:
        value = field.default
    elif field.default_factory is not dataclasses.MISSING:
        value = field.default_factory()
    else:
        return "required"
    if isinstance(value, (tuple, frozenset)):
        value = sorted(value) if isinstance(value, frozenset) else list(value)
    if any(map(dataclasses.is_dataclass, [value, *(value if isinstance(value, list) else [])])):
        return "written by `combine`"
    return f"`{value if isinstance(value, str) and value else json.dumps(value)}`"
