"""The registry: model types are imported when needed, have abilities, and name those that have a missing one."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path

import pytest

from syntaxlm.core.errors import InputError
from syntaxlm.models import abilities, registry
from syntaxlm.models.abilities import MISSING_ABILITY, NeedsTextCounts, ParsesSentences
from syntaxlm.models.batches import TreeBatch
from syntaxlm.models.registry import MODELS, model_types_with, require
from tests.models.variants import EVERY, batch_for, built, config_of

STORED = Path(__file__).parents[1] / "stored_models" / "models"
SHARED = {
    "abilities",
    "backbone",
    "batches",
    "classifiers",
    "combination",
    "config",
    "layers",
    "recurrent",
    "registry",
    "sentences",
    "sizes",
    "structures",
}
PARTS = {
    "simple-pcfg": {"pcfg", "pcfg.beliefs", "pcfg.derivations", "pcfg.grammars", "pcfg.networks", "pcfg.sentence_pcfg"},
    "dmv-ccm": {"dmv", "ccm"},
}
"""Modules that a model type needs, besides its own and those shared by all."""


def type_of(name: str) -> str:
    return config_of(name).name


READ_SETTINGS = """
from syntaxlm.core.settings import read_settings
from syntaxlm.training.recipe import TextRecipe
data = {{'model': {{'name': '{name}'}}, 'text': {{'train': 'a', 'valid': 'b'}}}}
assert read_settings(TextRecipe, data, '').model.name == '{name}'
"""
LOAD = "import syntaxlm; syntaxlm.load('{folder}/{name}')"
READ = ["lstm", "on-lstm", "palm", "simple-pcfg", "dmv", "dmv-ccm", "ngram"]
LOADED = ["lstm", "palm", "ngram", "tree-rnn-nce"]
# Each use runs in a process of its own, which has imported what all uses share.
RUN = """
import os, sys
import syntaxlm.api.model, syntaxlm.training.recipe
for code in sys.argv[1:]:
    if not os.fork():
        exec(code)
        print(*(name[16:] for name in sys.modules if name.startswith("syntaxlm.models.")), flush=True)
        os._exit(0)
    assert os.wait()[1] == 0, code
"""


@pytest.fixture(scope="module")
def imported() -> dict[str, set[str]]:
    """The modules of models that are imported by reading the settings of a model or loading it."""
    uses = {f"read {name}": READ_SETTINGS.format(name=name) for name in READ}
    uses |= {f"load {name}": LOAD.format(folder=STORED, name=name) for name in LOADED}
    shown = subprocess.run([sys.executable, "-c", RUN, *uses.values()], capture_output=True, text=True, check=True)
    return dict(zip(uses, (set(line.split()) for line in shown.stdout.splitlines()), strict=True))


@pytest.mark.long
@pytest.mark.parametrize("name", READ)
def test_reading_the_settings_of_a_model_imports_the_modules_of_that_model_only(name, imported):
    expected = {registry._MODULES[name]} | PARTS.get(name, set())
    assert expected <= imported[f"read {name}"] <= expected | SHARED


@pytest.mark.long
@pytest.mark.parametrize("name", LOADED)
def test_loading_a_model_imports_the_module_of_that_model_only(name, imported):
    module = name.removesuffix("-nce").replace("-", "_")
    assert {module} <= imported[f"load {name}"] <= {module} | SHARED


@pytest.mark.parametrize("name", EVERY)
def test_each_variant_is_of_the_class_that_its_type_declares(name):
    model, model_type = built(name), MODELS[type_of(name)]
    assert isinstance(model, model_type.implementation)
    assert model.reads == model_type.reads
    assert isinstance(batch_for(name), TreeBatch) == (model.reads == "trees")


def test_each_ability_has_a_message_for_models_without_it():
    classes = [one for _, one in inspect.getmembers(abilities, inspect.isclass) if one.__module__ == abilities.__name__]
    abstract = {one for one in classes if inspect.isabstract(one)}
    assert abstract - {NeedsTextCounts} == set(MISSING_ABILITY)


@pytest.mark.parametrize("name", EVERY)
def test_a_missing_ability_raises_an_error_with_the_model_types_that_have_it(name):
    model, model_type = built(name), type_of(name)
    for ability in MISSING_ABILITY:
        if isinstance(model, ability):
            assert require(model, ability, model_type, "a test") is model
            assert MODELS[model_type].has(ability)
            continue
        with pytest.raises(InputError) as caught:
            require(model, ability, model_type, "a test")
        message, _, types = str(caught.value).partition(" Model types that can: ")
        others = [one for one in model_types_with(ability) if one != model_type]
        settings = " with these settings" if MODELS[model_type].has(ability) else ""
        reason = model.reasons.get(ability, MISSING_ABILITY[ability])
        assert message == f"this {model_type} model{settings} {reason}, so a test cannot use it."
        assert types == (f"{', '.join(others)}." if others else "")


def test_the_types_listed_are_those_of_which_some_variant_has_the_ability():
    models = {name: built(name) for name in EVERY}
    for ability in MISSING_ABILITY:
        types = {type_of(name) for name, model in models.items() if isinstance(model, ability)}
        assert types == set(model_types_with(ability)), ability


@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("lstm", "lstm model with these settings"),
        ("awd-lstm", "on-lstm model with these settings"),
        ("prpn without parsing", "prpn model with these settings"),
    ],
)
def test_the_error_for_a_model_that_does_not_parse_has_its_name_and_settings(name, model):
    with pytest.raises(InputError, match=f"^this {model} does not parse, so drawing cannot use it. Model types that"):
        require(built(name), ParsesSentences, type_of(name), "drawing")


def test_variants_are_of_all_model_types():
    assert {type_of(name) for name in EVERY} == set(MODELS)
