"""Every shipped recipe is read, and runs a few steps."""

from __future__ import annotations

import json

import pytest
import yaml

from syntaxlm.training.recipe import find_recipe, read_recipe, shipped_recipes
from syntaxlm.training.trainer import METRICS, train

RECIPES = sorted(shipped_recipes().glob("*.yaml"))
SMALL = {
    "embedding_size": "12", "hidden_size": "16", "memory_slots": "4", "token_budget": "256", "batch_size": "4",
    "bptt": "10", "log_steps": "1", "epochs": "1", "layer_sizes": "[16, 12]", "chunk_size": "2",
}  # fmt: skip


def test_there_are_recipes():
    assert {"prpn-toy", "prpn-ptb-parsing"} <= {path.stem for path in RECIPES}


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_every_recipe_is_read_as_it_stands(path):
    recipe = read_recipe(path)
    assert recipe.model.name == yaml.safe_load(path.read_text())["model"]["name"]


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_the_first_line_of_every_recipe_says_what_it_is(path):
    first = path.read_text(encoding="utf-8").splitlines()[0]
    assert first.startswith("# ")
    assert len(first.split()) > 4


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_every_recipe_trains_once_its_sizes_are_small(path, toy, tmp_path):
    whole = read_recipe(path)
    suffix = "conllu" if whole.batches.mode == "trees" else "txt"
    overrides = [(f"text.{part}", str(toy / f"{part}.{suffix}")) for part in ("train", "valid", "test")]
    overrides.append(("run.accelerator", "cpu"))
    if whole.text.trees is not None:
        overrides.append(("text.trees", str(toy / "train.mrg")))
    for section in ("model", "batches", "schedule", "run"):
        names = [name for name in SMALL if hasattr(getattr(whole, section), name)]
        overrides += [(f"{section}.{name}", SMALL[name]) for name in names]
    small = read_recipe(path, overrides)
    result = train(small, tmp_path / "run")
    if result.counted is not None:  # in one step
        assert result.valid.perplexity < 300
        return
    assert result.steps >= 5
    losses = [json.loads(line)["train_loss"] for line in (tmp_path / "run" / METRICS).read_text().splitlines()]
    assert losses[-1] < losses[0]


def test_a_shipped_recipe_is_found_by_name_and_an_unknown_one_lists_them(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert find_recipe("prpn-toy") in RECIPES
    with pytest.raises(Exception, match=r"prpn-tyo: no such recipe file\. Did you mean prpn-toy\?"):
        find_recipe("prpn-tyo")


@pytest.mark.parametrize("name", sorted(path.stem for path in shipped_recipes().glob("*ptb-*.yaml")))
def test_recipes_of_penn_treebank_text_read_other_text_as_that_is_written(name):
    """That text has no capitals; models of it must not meet every sentence with an unknown word."""
    tokens = read_recipe(name).text.normaliser.tokens("The Dogs")
    assert "".join(tokens).replace("_", "") == "thedogs"
