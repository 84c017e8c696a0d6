"""The functions for training, comparing and reranking, with recipes by name and overrides as dictionaries."""

from __future__ import annotations

import dataclasses
import json
import logging
import signal
from types import SimpleNamespace

import pytest

import syntaxlm
from syntaxlm.comparison import runs
from syntaxlm.core.errors import InputError
from syntaxlm.core.yaml_files import yaml_text
from syntaxlm.evaluation.reranking import evaluate_reranking
from syntaxlm.training import run
from syntaxlm.training.recipe import Recipe
from tests.training.runs import assert_same_run, stop_at
from tests.tree_models import tree_model

TEXT = {"train": "train.txt", "valid": "valid.txt", "test": None}
SAME = [
    {"text": TEXT, "schedule": {"epochs": 3}, "model": {"layers": 1}},
    {"text.train": "train.txt", "text": {"valid": "valid.txt", "test": None}, "schedule.epochs": 3, "model.layers": 1},
    [("text.train", "train.txt"), ("text.valid", "valid.txt"), ("text.test", "null"), ("schedule.epochs", "3"),
     ("model.layers", "1")],
]  # fmt: skip


@pytest.mark.parametrize("overrides", SAME)
def test_overrides_are_nested_dotted_or_pairs(overrides):
    plain = syntaxlm.read_recipe("prpn-toy")
    recipe = syntaxlm.read_recipe("prpn-toy", overrides)
    assert (recipe.text.train, recipe.text.valid, recipe.text.test) == ("train.txt", "valid.txt", None)
    assert recipe.model == dataclasses.replace(plain.model, layers=1)
    assert recipe.schedule == dataclasses.replace(plain.schedule, epochs=3)
    assert recipe.text.normaliser == plain.text.normaliser
    assert (recipe.optimiser, recipe.run) == (plain.optimiser, plain.run)


def test_overrides_make_sections_and_an_empty_one_changes_nothing():
    plain = syntaxlm.read_recipe("prpn-toy")
    assert syntaxlm.read_recipe("prpn-toy", {"schedule": {}, "optimiser": {}}) == plain
    changed = syntaxlm.read_recipe("prpn-toy", {"text": {"vocabulary": {"minimum_count": 2}}})
    assert changed.text.vocabulary.minimum_count == 2
    assert changed.text.train == plain.text.train


def test_values_are_taken_as_they_are(tmp_path):
    assert syntaxlm.read_recipe("prpn-toy", {"text.train": tmp_path / "a"}).text.train == str(tmp_path / "a")
    assert syntaxlm.read_recipe("prpn-toy", {"text.train": "null"}).text.train == "null"
    with pytest.raises(InputError, match=r'schedule\.epochs: found "3"; expected an integer'):
        syntaxlm.read_recipe("prpn-toy", {"schedule": {"epochs": "3"}})


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"model": {"hiden_size": 3}}, r"and overrides: model\.hiden_size: no such setting\. Did you mean model\.hid"),
        ({"schedule": 3}, "schedule: found 3; expected a section"),
        ({"model.layers": 1, "model": {"layers": 2}}, r"overrides: model\.layers is given twice; expected one value"),
        ({"model": 1, "model.layers": 2}, r"model is given twice \(as model and model\.layers\)"),
        ("run.seed", "overrides: found 'run.seed'; expected a dict of settings"),
        ({3: 4}, "overrides: found the key 3; expected the name of a setting"),
        ({"model": {"": 4}}, "found the key '' in model; expected"),
        ({"schedule.epochs.x": 1}, r"overrides: schedule\.epochs\.x: epochs is a single setting, not a section"),
    ],
)
def test_wrong_overrides_are_reported(overrides, message):
    with pytest.raises(InputError, match=message):
        syntaxlm.read_recipe("prpn-toy", overrides)


FINISHED = SimpleNamespace(stopped=False)  # instead of a result


@pytest.fixture
def recipes(monkeypatch) -> list[Recipe]:
    """Records the recipes that would be trained, in order."""
    found: list[Recipe] = []
    monkeypatch.setattr(run, "train", lambda recipe, folder, callback: found.append(recipe) or FINISHED)
    return found


def test_a_recipe_is_given_by_name_by_file_or_as_such(recipes, tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(yaml_text(json.loads(json.dumps(syntaxlm.read_recipe("prpn-toy").to_dict()))))
    overrides = {"schedule": {"epochs": 7}}
    for recipe in ("prpn-toy", path, syntaxlm.read_recipe("prpn-toy")):
        syntaxlm.train(recipe, tmp_path / "run", overrides)
        syntaxlm.train(recipe, tmp_path / "run")
    expected = syntaxlm.read_recipe("prpn-toy")
    changed = syntaxlm.read_recipe("prpn-toy", overrides)
    assert recipes == [changed, expected] * 3
    with pytest.raises(InputError, match=r"the recipe and its overrides: schedule\.epochs: found 0"):
        syntaxlm.train(expected, tmp_path / "run", {"schedule.epochs": 0})


def test_recipes_are_trained_and_compared(few, tmp_path):
    overrides = few.recipe_data() | {"schedule": {"epochs": 1}}
    del overrides["model"]
    small = {"model": {"embedding_size": 4, "hidden_size": 4}}
    events = []
    lstm = syntaxlm.read_recipe("lstm-toy", small)
    comparison = syntaxlm.compare({"small": lstm}, tmp_path / "c", 1, overrides, minutes=1, callback=events.append)
    (row,) = comparison.recipes
    (run,) = row.runs
    assert (row.name, row.recipe.schedule.minutes, run.folder) == ("small", 1, tmp_path / "c" / "small" / "seed-1")
    assert run.test.perplexity == syntaxlm.load(run.folder).perplexity(few / "test.txt").perplexity
    assert events
    again = syntaxlm.compare({"small": lstm}, str(tmp_path / "c"), 1, overrides, minutes=1)
    assert again.recipes[0].runs[0].to_dict() == run.to_dict()


def test_recipes_to_compare_are_given_by_name(monkeypatch, few, tmp_path):
    found = []
    monkeypatch.setattr(
        runs, "compare", lambda recipes, folder, seeds, *_, **named: found.append((recipes, seeds)) or FINISHED
    )
    text = few.recipe_data()["text"]
    for overrides in ({"text": text, "run.seed": 3}, [*((f"text.{k}", v) for k, v in text.items()), ("run.seed", "3")]):
        syntaxlm.compare(["prpn-toy", "lstm-toy"], tmp_path, 2, overrides, minutes=0.5)
    assert found[0] == found[1]
    recipes, seeds = found[0]
    assert (list(recipes), seeds) == (["prpn-toy", "lstm-toy"], 2)
    assert {(one.run.seed, one.schedule.minutes) for one in recipes.values()} == {(3, 0.5)}


@pytest.mark.parametrize("recipes", ["prpn-toy", []])
def test_recipes_to_compare_are_a_list(recipes, tmp_path):
    with pytest.raises(InputError, match=r"recipes: found .*; expected a list of names of recipes, or a dict"):
        syntaxlm.compare(recipes, tmp_path / "c")
    assert not (tmp_path / "c").exists()


def test_reranked_trees_are_written_and_do_not_overwrite_the_input(tmp_path):
    candidates = tmp_path / "k.conllu"
    rows = [("1", "the", "2"), ("2", "cat", "0")], [("1", "the", "0"), ("2", "cat", "1")]
    written = ["".join(f"{n}\t{w}\t_\t_\t_\t_\t{h}\tdep\t_\t_\n" for n, w, h in tree) for tree in rows]
    candidates.write_text("\n".join(written) + "\n")
    model, output = tree_model(), tmp_path / "best.conllu"
    report = syntaxlm.rerank(model, candidates, output=output)
    texts: list[str] = []
    figures = report.to_dict()
    assert [reading["source"] for reading in figures.pop("readings")] == [str(candidates)]
    assert figures == evaluate_reranking(model, candidates, write=texts.append).to_dict()
    assert output.read_text() == "".join(texts)
    with pytest.raises(InputError, match="is also an input"):
        syntaxlm.rerank(model, candidates, output=candidates)


def test_a_folder_is_no_training_text(tmp_path):
    (tmp_path / "valid.txt").write_text("a b\n")
    settings = {"text.train": str(tmp_path), "text.valid": str(tmp_path / "valid.txt"), "text.test": None}
    with pytest.raises(InputError, match=r"text\.train: found .*, a folder; expected a file"):
        syntaxlm.train("lstm-toy", tmp_path / "run", settings)


def test_ctrl_c_in_training_saves_and_raises_so_that_no_script_continues(few, tmp_path):
    recipe = few.recipe("lstm")
    whole = syntaxlm.train(recipe, tmp_path / "whole")
    for action in (
        lambda watch: syntaxlm.train(recipe, tmp_path / "cut", callback=watch(2)),
        lambda watch: syntaxlm.resume(tmp_path / "cut", watch(3)),
    ):
        with pytest.raises(KeyboardInterrupt):
            action(lambda step: stop_at(step, number=signal.SIGINT))
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert syntaxlm.resume(tmp_path / "cut").valid == whole.valid
    assert_same_run(tmp_path / "whole", tmp_path / "cut")


def test_a_run_is_resumed_by_the_call_that_started_it(few, tmp_path, caplog):
    caplog.set_level(logging.INFO, "syntaxlm")
    recipe, folder = few.recipe("lstm"), tmp_path / "cut"
    whole = syntaxlm.train(recipe, tmp_path / "whole", resume=True)
    with pytest.raises(KeyboardInterrupt):
        syntaxlm.train(recipe, folder, resume=True, callback=stop_at(2, number=signal.SIGINT))
    assert syntaxlm.train(recipe, folder, resume=True).valid == whole.valid
    assert_same_run(tmp_path / "whole", folder)
    finished = (folder / "result.json").stat().st_mtime_ns
    assert syntaxlm.train(recipe, folder, resume=True).perplexity == whole.perplexity
    assert (folder / "result.json").stat().st_mtime_ns == finished
    with pytest.raises(InputError, match=r"already holds a run with other settings: run\.seed: found .*, expected 9"):
        syntaxlm.train(recipe, folder, {"run.seed": 9}, resume=True)
    with pytest.raises(InputError, match=r"Resume it with syntaxlm\.resume\('.*cut'\), or name"):
        syntaxlm.train(recipe, folder)
    epochs = [line for line in caplog.messages if line.startswith(f"{tmp_path / 'whole'}: epoch ")]
    assert len(epochs) == recipe.schedule.epochs
    assert "valid perplexity" in epochs[0]


def test_sigterm_in_training_has_its_usual_effect_after_saving(few, tmp_path):
    received = []
    before = signal.signal(signal.SIGTERM, lambda number, frame: received.append(number))
    try:
        result = syntaxlm.train(few.recipe("lstm"), tmp_path / "run", callback=stop_at(2))
    finally:
        signal.signal(signal.SIGTERM, before)
    assert received == [signal.SIGTERM]
    assert (result.stopped, result.steps) == (True, 2)


def test_ctrl_c_in_a_comparison_saves_and_raises(few, tmp_path):
    recipes = {"one": few.recipe("lstm", schedule={"epochs": 1})}
    with pytest.raises(KeyboardInterrupt):
        syntaxlm.compare(recipes, tmp_path / "cut", 2, callback=stop_at(2, number=signal.SIGINT))
    assert json.loads((tmp_path / "cut" / "comparison.json").read_text())["stopped"]
    done, whole = syntaxlm.compare(recipes, tmp_path / "cut", 2), syntaxlm.compare(recipes, tmp_path / "whole", 2)
    assert not done.stopped
    assert [run.valid for run in done.recipes[0].runs] == [run.valid for run in whole.recipes[0].runs]
