"""Every bundled recipe is read, and runs a few steps; recipes of the same structure share one run."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from syntaxlm.core.yaml_files import read_yaml
from syntaxlm.data.treebanks import read_treebank, write_words
from syntaxlm.text.normaliser import Normaliser
from syntaxlm.training.recipe import Recipe, read_recipe
from syntaxlm.training.recipe_files import RECIPE_GROUPS, bundled_recipes, find_recipe
from syntaxlm.training.result import TrainingResult
from syntaxlm.training.run import METRICS, train
from tests.conftest import Toy

RECIPES = sorted(bundled_recipes().glob("*.yaml"))
SMALL = {
    "embedding_size": "12", "hidden_size": "16", "memory_slots": "4", "token_budget": "256", "batch_size": "8",
    "bptt": "20", "log_steps": "1", "epochs": "1", "layer_sizes": "[16, 12]", "chunk_size": "2",
    "heads": "2", "validations_per_epoch": "1", "nonterminals": "8", "preterminals": "16",
}  # fmt: skip


def structure(recipe: Recipe) -> str:
    """What decides which code a recipe runs: model and switches, batches, optimiser, averaging; no sizes or rates."""
    data, optimiser = recipe.to_dict(), recipe.optimiser
    return json.dumps(
        {
            "model": {name: _switch(value) for name, value in data["model"].items()},
            "data": [type(recipe).__name__, _option(recipe.data, "trees") is not None, recipe.data.normaliser.units],
            "batches": [
                str(recipe.mode),
                *(bool(_option(recipe.batches, name)) for name in ("variable_bptt", "curriculum")),
            ],
            "optimiser": [optimiser.kind, optimiser.loss_normalisation, recipe.schedule.decay, recipe.schedule.keep],
            "averaging": [one is not None for one in (optimiser.average_patience, optimiser.average_from_epoch)],
        }
    )


def _option(section: object, name: str) -> object:
    """A setting that some types of recipe have."""
    return getattr(section, name, None)


def _switch(value: object) -> object:
    """A switch or a choice as it is, a count as whether it is 0; rates and lists of sizes are no structure."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value > 0
    return None if isinstance(value, (float, list, tuple)) else value


@pytest.fixture(scope="module")
def runs() -> dict[str, tuple[TrainingResult, list[float]]]:
    """By structure of a recipe: how its training ended, and its training losses."""
    return {}


def test_there_are_recipes():
    assert {"prpn-toy", "prpn-ptb-parsing"} <= {path.stem for path in RECIPES}


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_every_recipe_is_valid(path):
    recipe = read_recipe(path)
    assert recipe.model.name == read_yaml(path)["model"]["name"]


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_every_recipe_says_what_it_is_for(path):
    text = path.read_text(encoding="utf-8")
    assert text.startswith("# ")
    about = read_yaml(path)["about"]
    assert about["group"] in RECIPE_GROUPS
    assert 0 < len(about["purpose"]) <= 66


MODEL_TYPE = re.compile(r"^model:.*?\bname: *([\w-]+)", re.MULTILINE | re.DOTALL)
TOY_LAST = sorted(RECIPES, key=lambda path: path.stem.endswith("-toy"))
SHORT = {MODEL_TYPE.search(path.read_text(encoding="utf-8"))[1]: path for path in TOY_LAST}
"""A recipe of each model type, which is trained among the short tests."""


@pytest.mark.parametrize(
    "path",
    [pytest.param(path, id=path.stem, marks=() if path in SHORT.values() else pytest.mark.long) for path in RECIPES],
)
def test_every_recipe_trains_with_small_sizes(path, toy, few, tmp_path, runs):
    whole = read_recipe(path)
    key = structure(whole)
    if key not in runs:
        runs[key] = trained_small(path, whole, few if "pcfg" in whole.model.name else toy, tmp_path / "run")
    result, losses = runs[key]
    if result.counted is not None:  # in one step
        assert result.valid is None or result.valid.perplexity < 400
        return
    assert result.steps >= 5
    assert losses[-1] < losses[0]


def trained_small(path: Path, whole: Recipe, toy: Toy, folder: Path) -> tuple[TrainingResult, list[float]]:
    """A few steps of a recipe with small sizes, on the built-in corpus."""
    section = whole.data_section
    suffix = "conllu" if section == "trees" else "txt"
    overrides = [(f"{section}.{part}", str(toy / f"{part}.{suffix}")) for part in ("train", "valid", "test")]
    if whole.data.normaliser.units == "tags":
        tagged = folder.parent / "train.tagged.txt"
        write_words(read_treebank(toy / "train.mrg"), tagged, 10, with_tags=True)
        overrides = [(f"text.{part}", str(tagged)) for part in ("train", "valid")]
    overrides.append(("run.accelerator", "cpu"))
    if whole.optimiser.warmup_steps:
        overrides.append(("optimiser.warmup_steps", "2"))
    if whole.optimiser.kind != "sgd":  # in a few steps
        overrides.append(("optimiser.learning_rate", "0.01"))
    if whole.data.normaliser.units == "characters":  # a third of the sentences is enough
        lines = (toy / "train.txt").read_text(encoding="utf-8").splitlines(keepends=True)
        (folder.parent / "train.txt").write_text("".join(lines[:50]), encoding="utf-8")
        overrides.append(("text.train", str(folder.parent / "train.txt")))
    if _option(whole.data, "trees") is not None:
        overrides.append(("text.trees", str(toy / "train.mrg")))
    if _option(whole.data, "focus"):
        overrides += [("text.focus", f"[{toy / 'train.mrg'}]"), ("text.focus_valid", f"[{toy / 'valid.mrg'}]")]
    for section in ("model", "batches", "schedule", "run"):
        names = [name for name in SMALL if hasattr(getattr(whole, section), name)]
        overrides += [(f"{section}.{name}", SMALL[name]) for name in names]
    if _option(whole.model, "skip"):
        overrides.append(("model.layer_sizes", "[12, 12]"))
    if "pcfg" in whole.model.name:
        overrides += [("batches.token_budget", "128"), ("schedule.epochs", "2")]
    result = train(read_recipe(path, overrides), folder)
    metrics = [] if result.counted is not None else (folder / METRICS).read_text().splitlines()
    return result, [json.loads(line)["train_loss"] for line in metrics]


def test_only_recipes_that_differ_only_in_sizes_share_a_run():
    large, small, without = (
        structure(read_recipe("prpn-ptb-words", settings))
        for settings in ({}, {"model.hidden_size": 400}, {"model.parsing": False})
    )
    assert large == small != without


def test_a_bundled_recipe_is_found_by_name_and_an_unknown_name_lists_all_recipes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert find_recipe("prpn-toy") in RECIPES
    with pytest.raises(Exception, match=r"prpn-tyo: no such recipe file\. Did you mean prpn-toy\?"):
        find_recipe("prpn-tyo")


@pytest.mark.parametrize("name", sorted(path.stem for path in bundled_recipes().glob("*ptb-*.yaml")))
def test_recipes_for_penn_treebank_text_lower_case_other_text(name):
    """That text has no capitals; models of it must not meet every sentence with an unknown word."""
    tokens = Normaliser(read_recipe(name).text.normaliser).tokens("The Dogs")
    assert "".join(tokens).replace("_", "") == "thedogs"
