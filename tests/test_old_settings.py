"""Settings, options and decoders of the first edition are accepted with one warning per file."""

from __future__ import annotations

import dataclasses
import json
import shutil
import warnings
from functools import reduce
from pathlib import Path
from typing import Any

import pytest
import yaml

from syntaxlm.app.cli import build_parser, main
from syntaxlm.app.cli.parser import Parser
from syntaxlm.core import old_settings
from syntaxlm.core.errors import InputError, OldSettingWarning
from syntaxlm.core.old_settings import (
    OLD_COMMANDS,
    OLD_DECODERS,
    OLD_MODES,
    OLD_OPTIONS,
    OLD_SETTINGS,
    rename_old_options,
    rename_old_settings,
)
from syntaxlm.core.settings import override
from syntaxlm.models.batches import TextMode
from syntaxlm.storage.folder import (
    CLASSIFIER,
    CLASSIFIER_FORMAT,
    CONFIG,
    VOCABULARY,
    ModelSettings,
    PairClassifierSettings,
    read_config,
    read_model,
    write_model,
)
from syntaxlm.training.pair_classifier import read_pair_recipe
from syntaxlm.training.recipe import read_recipe, recipe_from
from syntaxlm.training.trainer import RECIPE, read_run_recipe
from syntaxlm.trees.decoding import SPAN_RULES

VALUES: dict[str, Any] = {  # of every old name, one that is not the default
    "model.initial_spread": 0.25,
    "model.activation": 3.5,
    "model.slowness": 4.5,
    "model.activation_after_dropout": True,
    "text.trees_clean_up": "ptb-drop",
    "batches.steps": 7,
    "batches.random_steps": True,
    "optimiser.mean_over": "sentences",
    "optimiser.clip": 0.125,
    "optimiser.averaged_rate": 30.0,
    "schedule.plateau_of": "train",
    "training.clip": 0.125,
}
IN_RECIPES = [old for old in VALUES if not old.startswith("training.")]
IN_CONFIGS = [old for old in VALUES if old.startswith("model.")]


def put(data: dict[str, Any], key: str, value: Any) -> dict[str, Any]:
    *path, last = key.split(".")
    reduce(lambda place, part: place.setdefault(part, {}), path, data)[last] = value
    return data


def get(settings: Any, key: str) -> Any:
    return reduce(getattr, key.split("."), settings)


def recipe_with(old: str) -> dict[str, Any]:
    """A recipe that the setting fits, with its old name."""
    data: dict[str, Any] = {"model": {"name": "on-lstm"}, "text": {"train": "a.txt", "valid": "b.txt"}}
    if old == "batches.random_steps":
        put(data, "batches.carry_state", True)
    if old == "optimiser.averaged_rate":
        put(data, "optimiser.average_patience", 5)
    return put(data, old, VALUES[old])


def warned(read: Any, *arguments: Any) -> tuple[Any, str]:
    """What a call returns, and its one warning."""
    with pytest.warns(OldSettingWarning) as caught:
        result = read(*arguments)
    assert len(caught) == 1
    return result, str(caught[0].message)


def test_every_old_setting_is_tested():
    assert {*VALUES, "mode", "batches.mode"} == set(OLD_SETTINGS)


@pytest.mark.parametrize("old", IN_RECIPES)
def test_an_old_setting_of_a_recipe_is_read_with_a_warning(tmp_path, old):
    path = tmp_path / "old.yaml"
    path.write_text(yaml.safe_dump(recipe_with(old)))
    recipe, warning = warned(read_recipe, path)
    assert get(recipe, OLD_SETTINGS[old]) == VALUES[old]
    assert warning.startswith(f"{path}: old names, accepted for now: {old} is now {OLD_SETTINGS[old]}")


def test_the_old_setting_of_a_recipe_of_logical_inference_is_read_with_a_warning(tmp_path):
    path = tmp_path / "old.yaml"
    data = {"model": {"name": "on-lstm", "activation": 3.5}, "pairs": {"train": "a", "valid": "b"}}
    path.write_text(yaml.safe_dump(put(data, "training.clip", 0.125)))
    recipe, warning = warned(read_pair_recipe, path)
    assert (recipe.training.gradient_clip, recipe.model.ar) == (0.125, 3.5)
    assert "training.clip is now training.gradient_clip" in warning


@pytest.mark.parametrize("old", IN_CONFIGS)
def test_an_old_setting_of_a_model_folder_is_read_with_a_warning(tmp_path, old):
    data: dict[str, Any] = {"model": {"name": "on-lstm"}, "normaliser": {}, "carry_state": True, "format": 1}
    path = tmp_path / CONFIG
    path.write_text(json.dumps(put(data, old, VALUES[old])))
    settings, warning = warned(read_config, ModelSettings, path, 2)
    assert get(settings, OLD_SETTINGS[old]) == VALUES[old]
    assert settings.format == 2
    assert warning == f"{path}: old names, accepted for now: {old} is now {OLD_SETTINGS[old]}"


@pytest.mark.parametrize("mode", OLD_MODES)
def test_an_old_mode_becomes_two_settings_in_recipes_and_model_folders(tmp_path, mode):
    model = "tree-rnn" if mode == "trees" else "lstm"
    data = {"model": {"name": model}, "text": {"train": "a", "valid": "b"}, "batches": {"mode": mode}}
    recipe, warning = warned(recipe_from, data, "my.yaml")
    assert recipe.mode == TextMode(**OLD_MODES[mode])
    assert f"batches.mode: {mode} is " in warning
    path = tmp_path / CONFIG
    path.write_text(json.dumps({"model": {"name": model}, "normaliser": {}, "mode": mode, "format": 1}))
    settings, warning = warned(read_config, ModelSettings, path, 2)
    assert settings.mode == TextMode(**OLD_MODES[mode])
    assert f"mode: {mode} is now carry_state: " in warning
    with pytest.raises(InputError, match=r"batches\.mode: found \"streams\"; expected one of sentences, open"):
        recipe_from(data | {"batches": {"mode": "streams"}}, "my.yaml")


@pytest.mark.parametrize("old", IN_CONFIGS)
def test_an_old_setting_of_a_classifier_folder_is_read_with_a_warning(tmp_path, old):
    data: dict[str, Any] = {"model": {"name": "on-lstm"}, "classifier": {}, "format": 1}
    path = tmp_path / CLASSIFIER
    path.write_text(json.dumps(put(data, old, VALUES[old])))
    settings, warning = warned(read_config, PairClassifierSettings, path, CLASSIFIER_FORMAT)
    assert get(settings, OLD_SETTINGS[old]) == VALUES[old]
    assert f"{old} is now {OLD_SETTINGS[old]}" in warning


def test_all_old_settings_of_a_file_are_reported_in_one_warning():
    data: dict[str, Any] = {"model": {"name": "palm"}, "text": {"train": "a", "valid": "b"}}
    for old in ("model.slowness", "optimiser.clip", "batches.steps"):
        put(data, old, VALUES[old])
    recipe, warning = warned(recipe_from, data, "my.yaml")
    assert (recipe.model.tar, recipe.optimiser.gradient_clip, recipe.batches.bptt) == (4.5, 0.125, 7)
    assert all(f"{old} is now {OLD_SETTINGS[old]}" in warning for old in ("model.slowness", "batches.steps"))
    assert data["batches"] == {"steps": 7}  # what was given stays as it is


@pytest.mark.parametrize("old", IN_RECIPES)
def test_a_setting_given_by_both_its_names_is_refused(old):
    new = OLD_SETTINGS[old]
    with pytest.raises(InputError) as caught:
        recipe_from(put(recipe_with(old), new, VALUES[old]), "my.yaml")
    assert str(caught.value) == f"my.yaml: {old} is the old name of {new}: found both; give {new} only"


def test_the_value_of_an_old_setting_is_checked_under_its_current_name():
    data = {"model": {"name": "lstm", "initial_spread": -1.0}, "text": {"train": "a", "valid": "b"}}
    with pytest.warns(OldSettingWarning), pytest.raises(InputError) as caught:
        recipe_from(data, "my.yaml")
    assert str(caught.value) == "my.yaml: model.init_range: found -1.0; expected a positive number"


@pytest.mark.parametrize("old", IN_RECIPES)
def test_an_old_setting_of_the_command_line_overrides_the_present_one(old):
    new = str(OLD_SETTINGS[old])
    data: dict[str, Any] = put({}, new, "of the file")
    _, warning = warned(override, data, [(old, json.dumps(VALUES[old]))])
    assert data == put({}, new, VALUES[old])
    assert warning == f"the command line: old names, accepted for now: {old} is now {new}"
    with pytest.raises(InputError, match=f"--{old} is the old name of --{new}: found both"):
        override({}, [(old, "1"), (new, "1")])


def test_an_old_setting_in_a_whole_section_of_the_command_line_is_renamed():
    data: dict[str, Any] = {"batches": {"bptt": 3}}
    warned(override, data, [("batches", "{steps: 7}")])
    assert data == {"batches": {"bptt": 7}}


def test_a_setting_that_became_several_is_translated_by_its_value(monkeypatch):
    several = {"stream": {"batches.carry_state": True, "batches.predict_eos": True}, "trees": {}}
    monkeypatch.setattr(old_settings, "OLD_SETTINGS", {"batches.mode": several})
    new, warning = warned(rename_old_settings, {"batches": {"mode": "stream", "bptt": 7}}, "my.yaml")
    assert new == {"batches": {"bptt": 7, "carry_state": True, "predict_eos": True}}
    assert warning.endswith("batches.mode: stream is now batches.carry_state: true, batches.predict_eos: true")
    assert warned(rename_old_settings, {"batches": {"mode": "trees"}}, "my.yaml")[0] == {"batches": {}}
    with pytest.raises(InputError, match=r'my\.yaml: batches\.mode: found "streams"; expected one of stream, trees'):
        rename_old_settings({"batches": {"mode": "streams"}}, "my.yaml")
    with pytest.raises(InputError, match=r"batches\.mode is the old name of batches\.predict_eos: found both"):
        rename_old_settings({"batches": {"mode": "stream", "predict_eos": False}}, "my.yaml")
    data: dict[str, Any] = {}
    warned(override, data, [("batches.mode", "stream")])
    assert data == {"batches": {"carry_state": True, "predict_eos": True}}


@pytest.fixture
def old_folder(trained, tmp_path) -> Path:
    """A run folder as the first edition wrote it."""
    folder = shutil.copytree(trained.lstm, tmp_path / "run")
    config = json.loads((folder / CONFIG).read_text())
    config["model"]["initial_spread"] = config["model"].pop("init_range")
    (folder / CONFIG).write_text(json.dumps(config | {"format": 1}))
    recipe = yaml.safe_load((folder / RECIPE).read_text())
    for old in IN_RECIPES:
        section, name = str(OLD_SETTINGS[old]).split(".")
        if name in recipe[section]:
            put(recipe, old, recipe[section].pop(name))
    (folder / RECIPE).write_text(yaml.safe_dump(recipe))
    return folder


def test_old_run_and_model_folders_are_read_as_before_and_rewritten(trained, old_folder, tmp_path):
    recipe, warning = warned(read_run_recipe, old_folder)
    assert recipe == read_run_recipe(trained.lstm)
    assert warning.count(" is now ") == len(IN_RECIPES) - 3  # ar, tar and ar_after_dropout are of other models
    stored, _ = warned(read_model, old_folder)
    assert stored.settings == read_model(trained.lstm).settings
    write_model(tmp_path / "new", stored)
    assert json.loads((tmp_path / "new" / CONFIG).read_text()) == json.loads((trained.lstm / CONFIG).read_text())
    assert json.loads((tmp_path / "new" / CONFIG).read_text())["format"] == 2
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read_model(tmp_path / "new").settings == dataclasses.replace(stored.settings)
    assert (tmp_path / "new" / VOCABULARY).exists()


def test_commands_print_a_warning_for_old_names_once(old_folder, toy, capsys):
    arguments = ["evaluate", "perplexity", str(old_folder), str(toy / "valid.txt"), "--json", "--cache-weight", "0.1"]
    assert main([*arguments, "--cache-flatness", "0.2"]) == 0
    out, said = capsys.readouterr()
    assert said.splitlines() == [
        "syntaxlm: warning: the command line: old names, accepted for now: --cache-flatness is now --cache-theta",
        f"syntaxlm: warning: {old_folder / CONFIG}: old names, accepted for now: model.initial_spread is now"
        " model.init_range",
    ]
    assert main([*arguments, "--cache-theta=0.2"]) == 0
    assert capsys.readouterr().out == out
    assert main([*arguments, "--cache-flatness=0.2", "--cache-theta", "0.2"]) == 2
    assert "--cache-flatness is the old name of --cache-theta: found both" in capsys.readouterr().err


def leaf(command: str) -> Parser:
    parser = build_parser()
    for name in command.split():
        parser = parser.commands[name]
    return parser


def test_every_old_option_command_and_decoder_has_a_current_name():
    leaves = list(build_parser().leaves())
    for key, new in OLD_OPTIONS.items():
        *command, old = key.split()
        parsers = [leaf(" ".join(command))] if command else leaves
        options = {name for parser in parsers for name in parser._option_string_actions}
        assert old not in options or not command
        for name in filter(None, [new] if isinstance(new, str) else [one for many in new.values() for one in many]):
            assert name in options, key
    for old, new in OLD_COMMANDS.items():
        assert leaf(" ".join(new))
        with pytest.raises(KeyError):
            leaf(" ".join(old))
    assert set(OLD_DECODERS.values()) == set(SPAN_RULES)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("evaluate lm M T", "evaluate perplexity M T"),
        ("logic train R --resume D", "train R --resume D"),
        ("parse M --clean-up=x", "parse M --preprocessing=x"),
        ("score M T --context carry", "score M T --carry-state"),
        ("evaluate lm M T --context=reset", "evaluate perplexity M T --no-carry-state"),
        ("tune cache M T --mode open-sentences", "tune cache M T --no-carry-state --no-predict-eos"),
        ("evaluate pairs M --model A F --model=B", "evaluate pairs M --also A F --also=B"),
        ("quickstart --model prpn", "quickstart --model-type prpn"),
        ("data sentences a --valid v", "data sentences a --valid-output v"),
        (
            "evaluate completion M Q A --weight 0.1 --weight 0.2",
            "evaluate completion M Q A --weights 0.1 --weights 0.2",
        ),
        ("grammar M --text F -o x.html", "grammar M F -o x.html"),
        ("grammar M --text=F", "grammar M F"),
        ("generate M --count 3 --maximum-words 9", "generate M --sentences 3 --max-words 9"),
    ],
)
def test_an_old_command_line_is_translated_with_one_warning(old, new):
    found, warning = warned(rename_old_options, old.split())
    assert " ".join(found) == new
    assert warning.startswith("the command line: old names, accepted for now: ")


@pytest.mark.parametrize(
    "words", ["tune stops M T --valid V", "rerank M C --weight 0.5", "parse M --text x", "parse M -- --clean-up"]
)
def test_options_that_are_old_only_for_other_commands_are_unchanged(words):
    assert rename_old_options(words.split()) == words.split()


def test_an_invalid_value_of_an_old_option_is_refused():
    with pytest.raises(InputError, match="--context: found 'kept'; expected one of reset, carry"):
        rename_old_options(["score", "M", "--context", "kept"])


@pytest.mark.parametrize("old", OLD_DECODERS)
def test_an_old_decoder_is_accepted_with_a_warning(trained, toy, capsys, old):
    arguments = ["parse", str(trained.prpn), str(toy / "valid.txt"), "--decoder"]
    codes = [main([*arguments, name]) for name in (old, OLD_DECODERS[old])]
    lines = capsys.readouterr().err.splitlines()
    assert f"--decoder {old} is now --decoder {OLD_DECODERS[old]}" in lines[0]
    assert codes == [2, 2]  # a model without span scores refuses either
    assert lines[1] == lines[2]
