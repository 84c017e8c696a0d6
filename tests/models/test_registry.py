"""The registry: declared abilities of model types, and errors for missing ones."""

from __future__ import annotations

import inspect

import pytest

from syntaxlm.core.errors import InputError
from syntaxlm.models import abilities
from syntaxlm.models.abilities import LACKS, NeedsTextCounts, ParsesSentences
from syntaxlm.models.batches import TreeBatch
from syntaxlm.models.registry import MODELS, model_types_with, require
from tests.models.variants import EVERY, batch_for, built, class_of, config_of


def type_of(name: str) -> str:
    return config_of(name).name


@pytest.mark.parametrize("name", EVERY)
def test_each_variant_is_of_a_class_that_its_type_declares(name):
    assert class_of(name) in MODELS[type_of(name)].classes
    assert isinstance(built(name), MODELS[type_of(name)].classes)
    assert built(name).reads == MODELS[type_of(name)].reads
    assert isinstance(batch_for(name), TreeBatch) == (built(name).reads == "trees")


@pytest.mark.parametrize("model_type", MODELS)
def test_each_declared_class_is_tested_by_some_variant(model_type):
    found = {class_of(name) for name in EVERY if type_of(name) == model_type}
    assert found == set(MODELS[model_type].classes)


def test_each_ability_has_a_message_for_models_without_it():
    classes = [one for _, one in inspect.getmembers(abilities, inspect.isclass) if one.__module__ == abilities.__name__]
    abstract = {one for one in classes if inspect.isabstract(one)}
    assert abstract - {NeedsTextCounts} == set(LACKS)


@pytest.mark.parametrize("ability", LACKS, ids=lambda ability: ability.__name__)
@pytest.mark.parametrize("name", EVERY)
def test_a_missing_ability_raises_an_error_with_the_model_types_that_have_it(name, ability):
    model, model_type = built(name), type_of(name)
    if isinstance(model, ability):
        assert require(model, ability, model_type, "a test") is model
        assert model_type in model_types_with(ability)
        return
    with pytest.raises(InputError) as caught:
        require(model, ability, model_type, "a test")
    message, _, types = str(caught.value).partition(" Model types that can: ")
    others = [one for one in model_types_with(ability) if one != model_type]
    under_others = model_type in model_types_with(ability)
    settings = " with these settings" if under_others else ""
    assert message == f"this {model_type} model{settings} {LACKS[ability]}, so a test cannot use it."
    assert types == (f"{', '.join(others)}." if others else "")


@pytest.mark.parametrize("ability", LACKS, ids=lambda ability: ability.__name__)
def test_the_types_listed_are_those_of_which_some_variant_has_the_ability(ability):
    found = {type_of(name) for name in EVERY if isinstance(built(name), ability)}
    assert found == set(model_types_with(ability))


@pytest.mark.parametrize(
    ("name", "message", "others"),
    [
        ("lstm", "this lstm model does not parse, so drawing cannot use it.", {"prpn", "on-lstm", "palm"}),
        (
            "awd-lstm",
            "this on-lstm model with these settings does not parse, so drawing cannot use it.",
            {"prpn", "palm"},
        ),
        (
            "prpn without parsing",
            "this prpn model with these settings does not parse, so drawing cannot use it.",
            {"on-lstm", "palm"},
        ),
    ],
)
def test_the_error_for_a_model_that_does_not_parse_has_its_name_and_settings(name, message, others):
    with pytest.raises(InputError) as caught:
        require(built(name), ParsesSentences, type_of(name), "drawing")
    refusal, _, types = str(caught.value).partition(" Model types that can: ")
    assert refusal == message
    found = set(types.removesuffix(".").split(", "))
    assert found >= others
    assert type_of(name) not in found


def test_variants_are_of_all_model_types():
    assert {type_of(name) for name in EVERY} == set(MODELS)
