"""`models` and `recipes`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from syntaxlm.training.recipe_files import bundled_recipes, recipe_names

STORED = Path(__file__).parents[2] / "stored_models" / "models"


@pytest.fixture
def figures(run):
    """Runs a command with --json; returns the figures."""

    def figures(*words: object) -> dict:
        code, out, error = run(*words, "--json")
        assert (code, error) == (0, "")
        return json.loads(out)

    return figures


def test_models_are_listed_with_abilities_and_a_damaged_one_with_the_reason(figures, run, refused, trained, tmp_path):
    root = trained.prpn.parent
    found = figures("models", "list", root)
    prpn, lstm = sorted(found["models"], key=lambda one: one["model_type"], reverse=True)
    assert found["schema_version"] == 1
    assert (prpn["folder"], prpn["model_type"]) == (str(trained.prpn), "prpn")
    assert prpn["bytes"] == (trained.prpn / "weights.safetensors").stat().st_size
    assert prpn["trained_on"].endswith("train.txt")
    assert "parsing" in prpn["abilities"]
    assert "parsing" not in lstm["abilities"]
    assert {"surprisal", "sentence scores", "generation"} <= set(lstm["abilities"])
    assert run("models", "list", root)[1].splitlines()[0].split()[:2] == ["model", "type"]
    for name in ("config.json", "weights.safetensors"):
        (tmp_path / name).write_text("{")
    assert "damaged" in figures("models", "list", tmp_path)["models"][0]["error"]
    refused("models", "list", tmp_path / "none")


def test_classifiers_and_n_gram_models_are_listed_without_a_warning(figures):
    found = {Path(one["folder"]).name: one for one in figures("models", "list", STORED)["models"]}
    assert found["logic-lstm"]["abilities"] == ["logical inference"]
    assert found["ngram"]["parameters"] is None
    assert "generation" in found["tree-rnn-lstm"]["abilities"]


def test_a_model_is_described_with_settings_decoders_and_perplexities(figures, run, refused, trained, tmp_path):
    found = figures("models", "info", trained.prpn)
    assert found["decoders"] == ["biased", "unbiased"]
    assert found["settings"]["hidden_size"] == 16
    result = json.loads((trained.prpn / "result.json").read_text())
    assert found["perplexity"]["test"] == result["test"]["perplexity"]
    assert run("models", "info", trained.prpn, "-o", tmp_path / "info.txt")[0] == 0
    assert "carry state: no\n" in (tmp_path / "info.txt").read_text()
    assert "not a model folder: config.json is missing" in refused("models", "info", tmp_path)


def test_recipes_are_listed_and_shown(figures, run, refused, tmp_path):
    listed = figures("recipes", "list")["recipes"]
    assert [one["name"] for one in listed] == recipe_names()
    assert {one["name"]: one["model_type"] for one in listed}["simple-pcfg-toy"] == "simple-pcfg"
    assert all(one["purpose"] for one in listed)
    assert len(run("recipes", "list")[1].splitlines()) == len(listed) + 1
    assert run("recipes", "show", "logic/lstm")[1] == (bundled_recipes() / "logic" / "lstm.yaml").read_text()
    assert run("recipes", "show", "prpn-toy", "-o", tmp_path / "mine.yaml")[0] == 0
    assert yaml.safe_load((tmp_path / "mine.yaml").read_text())["model"]["name"] == "prpn"
    assert "Did you mean prpn-toy?" in refused("recipes", "show", "prpn-tyo")
