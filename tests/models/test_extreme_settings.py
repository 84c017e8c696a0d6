"""Extreme values of every numeric setting: an error that names the setting, or a model that fits in memory."""

from __future__ import annotations

import copy
import json
import typing
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

import pytest

from syntaxlm.core.errors import InputError
from syntaxlm.core.settings import members_of, override, read_settings
from syntaxlm.models.registry import MODELS, model_shapes
from syntaxlm.storage.folder import CONFIG, FORMAT, ModelSettings, read_config
from syntaxlm.training.recipe import (
    OptimiserSettings,
    PairRecipe,
    RunSettings,
    ScheduleSettings,
    SentenceBatchSettings,
    StreamBatchSettings,
    VocabularySettings,
)
from syntaxlm.training.recipe import recipe_from as read_recipe

NEVER = [10**400, float("nan"), float("inf"), -1e300, "3", {}, [[]]]
"""Values that no numeric setting has."""

SOMETIMES = [2**31 - 1, 65_536, 100, -1, 0, True, None, 1.5, 1e9, 1e-320]
"""Values that are too large, too small or of the wrong type for some settings."""

SECTIONS = {
    "text.vocabulary": VocabularySettings,
    "batches": SentenceBatchSettings,
    "batches, stream": StreamBatchSettings,
    "optimiser": OptimiserSettings,
    "schedule": ScheduleSettings,
    "run": RunSettings,
}


def numbers(kind: Any) -> Iterator[str]:
    """The names of the numeric settings of a section, lists of numbers included."""
    hints = typing.get_type_hints(kind, include_extras=True)
    for field in fields(kind):
        parts = [
            part for option in members_of(hints[field.name]) for part in (option, *map(_inner, typing.get_args(option)))
        ]
        if int in parts or float in parts:
            yield field.name


def _inner(part: Any) -> Any:
    return members_of(part)[0]


def recipe_of(model: str) -> dict[str, Any]:
    section = "trees" if model == "tree-rnn" else "text"
    return {"model": {"name": model}, section: {"train": "a.txt", "valid": "b.txt"}}


def put(data: dict[str, Any], key: str, value: object) -> dict[str, Any]:
    data = copy.deepcopy(data)
    place = data
    *path, last = key.split(".")
    for part in path:
        place = place.setdefault(part, {})
    place[last] = value
    return data


def error_of(read: Any, *arguments: Any) -> str:
    """The message of the InputError, at most a few lines; "" if there is none. Other errors fail the test."""
    message = ""
    try:
        read(*arguments)
    except InputError as error:
        message = str(error)
    assert len(message) < 2500
    return message


def read_from_command_line(data: dict[str, Any], key: str, value: object) -> None:
    data = copy.deepcopy(data)
    override(data, [(key, json.dumps(value))])
    read_recipe(data, "recipe.yaml")


SHORT = ("prpn", "simple-pcfg", "transformer")


@pytest.mark.parametrize(
    "model", [pytest.param(model, marks=() if model in SHORT else pytest.mark.long) for model in MODELS]
)
def test_extreme_model_settings_are_refused_by_name_or_fit_in_memory(model, tmp_path):
    names = [*numbers(MODELS[model].config)]
    assert names
    for key, value in ((name, value) for name in names for value in NEVER + SOMETIMES):
        name = f"model.{key}"
        data = put(recipe_of(model), name, value)
        messages = [
            error_of(read_recipe, data, "recipe.yaml"),
            error_of(read_from_command_line, recipe_of(model), name, value),
        ]
        if value == value and value not in (float("inf"), -float("inf")):  # JSON has no such numbers
            content = {"model": data["model"], "normaliser": {}, "format": FORMAT}
            (tmp_path / CONFIG).write_text(json.dumps(content))
            messages.append(error_of(read_config, ModelSettings, tmp_path / CONFIG, FORMAT))
        if value in NEVER or value != value:
            assert all(f"{name}" in message for message in messages), (name, value, messages)
        if not messages[-1]:
            error_of(model_shapes, read_settings(ModelSettings, content, "config").model, 1000)


@pytest.mark.parametrize("section", SECTIONS)
def test_extreme_settings_of_the_other_sections_are_refused_by_name(section):
    names = [*numbers(SECTIONS[section])]
    assert names
    for key, value in ((name, value) for name in names for value in NEVER + SOMETIMES):
        name = f"{section.removesuffix(', stream')}.{key}"
        recipe = recipe_of("lstm") | ({"batches": {"context": "carry"}} if "stream" in section else {})
        messages = [
            error_of(read_recipe, put(recipe, name, value), "recipe.yaml"),
            error_of(read_from_command_line, recipe, name, value),
        ]
        if value in NEVER or value != value:
            assert all(name in message for message in messages), (name, value, messages)


def test_extreme_settings_of_pair_classifiers_are_refused_by_name():
    base = {"model": {"name": "lstm"}, "pairs": {"train": "a", "valid": "b"}}
    hints = typing.get_type_hints(PairRecipe)
    names = [f"{part}.{key}" for part in ("pairs", "classifier", "batches") for key in numbers(hints[part])]
    assert len(names) >= 4
    assert all(is_dataclass(hints[name.partition(".")[0]]) for name in names)
    for name, value in ((name, value) for name in names for value in NEVER + SOMETIMES):
        message = error_of(read_settings, PairRecipe, put(base, name, value), "recipe.yaml")
        assert name in message or (value in SOMETIMES and value == value), (name, value)


@pytest.mark.parametrize("count", [5000, 100_000])
@pytest.mark.parametrize(
    ("model", "key"),
    [
        ("lstm", "text.focus"), ("lstm", "text.normaliser.drop_words"), ("lstm", "batches.curriculum"),
        ("on-lstm", "model.layer_sizes"), ("combination", "model.parsers"),
    ],
)  # fmt: skip
def test_long_lists_of_wrong_values_are_refused_in_a_short_message(model, key, count):
    message = error_of(read_recipe, put(recipe_of(model), key, [-1] * count), "recipe.yaml")
    if count > 20_000:
        assert message == "recipe.yaml: found over 20,000 values; expected settings"
    else:
        assert key in message
        assert len(message.splitlines()) <= 12


ADVICE = r", or model\.name simple-pcfg, which needs no full table"


@pytest.mark.parametrize(
    ("model", "settings", "found", "size", "advice"),
    [
        ("simple-pcfg", {}, "nonterminals: found 65536 with 65536 preterminals", "8,589,934,592", ""),
        (
            "tensor-pcfg",
            {"rank": 65_536, "nonterminals": 250},
            "rank: found 65536 with 250 nonterminals and 65536 preterminals",
            "4,311,351,296",
            "",
        ),
        ("neural-pcfg", {"preterminals": 60}, "nonterminals: found 65536 with 60 preterminals", "[0-9,]{19}", ADVICE),
        ("compound-pcfg", {"preterminals": 60}, "nonterminals: found 65536 with 60 preterminals", "[0-9,]{19}", ADVICE),
    ],
)
def test_tables_that_grammars_compute_from_their_weights_have_a_limit(model, settings, found, size, advice):
    fault = rf"^model\.{found}, a table of {size} rules; expected at most 268,435,456{advice}$"
    with pytest.raises(InputError, match=fault):
        MODELS[model].config(**{"nonterminals": 65_536, "preterminals": 65_536} | settings)


def test_probabilities_of_words_that_do_not_fit_in_memory_are_refused(monkeypatch):
    monkeypatch.setattr("syntaxlm.models.pcfg.sentence_pcfg.memory_size", lambda: 1 << 20)
    config = MODELS["simple-pcfg"].config(nonterminals=2, preterminals=500)
    fault = (
        r"found 500, for which the probabilities of 998 words need 0\.0 GiB, but this machine has 0\.0 GiB of memory"
    )
    with pytest.raises(InputError, match=rf"model\.preterminals: {fault}"):
        model_shapes(config, 1000)
