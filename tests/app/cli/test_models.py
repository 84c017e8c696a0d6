"""`models` and `recipes`."""

from __future__ import annotations

import json
from pathlib import Path

import yaml

from syntaxlm.app import cli
from syntaxlm.training.recipe_files import bundled_recipes, recipe_names

STORED = Path(__file__).parents[2] / "stored_models" / "models"


def figures(capsys, *words: object) -> dict:
    assert cli.main([*map(str, words), "--json"]) == 0
    out, error = capsys.readouterr()
    assert not error
    return json.loads(out)


def test_models_are_listed_with_their_abilities_and_a_damaged_one_with_the_reason(capsys, trained, tmp_path):
    root = trained.prpn.parent
    found = figures(capsys, "models", "list", root)
    prpn, lstm = sorted(found["models"], key=lambda one: one["model_type"], reverse=True)
    assert found["schema_version"] == 1
    assert (prpn["folder"], prpn["model_type"]) == (str(trained.prpn), "prpn")
    assert prpn["bytes"] == (trained.prpn / "weights.safetensors").stat().st_size
    assert prpn["trained_on"].endswith("train.txt")
    assert "parsing" in prpn["abilities"]
    assert "parsing" not in lstm["abilities"]
    assert {"surprisal", "sentence scores", "generation"} <= set(lstm["abilities"])
    assert cli.main(["models", "list", str(root)]) == 0
    assert capsys.readouterr().out.splitlines()[0].split()[:2] == ["model", "type"]
    for name in ("config.json", "weights.safetensors"):
        (tmp_path / name).write_text("{")
    assert "damaged" in figures(capsys, "models", "list", tmp_path)["models"][0]["error"]
    assert cli.main(["models", "list", str(tmp_path / "none")]) == 2


def test_classifiers_and_n_gram_models_are_listed_without_a_warning(capsys):
    found = {Path(one["folder"]).name: one for one in figures(capsys, "models", "list", STORED)["models"]}
    assert found["logic-lstm"]["abilities"] == ["logical inference"]
    assert found["ngram"]["parameters"] is None
    assert "generation" in found["tree-rnn-lstm"]["abilities"]


def test_a_model_is_described_with_settings_decoders_and_perplexities(capsys, trained, tmp_path):
    found = figures(capsys, "models", "info", trained.prpn)
    assert found["decoders"] == ["biased", "unbiased"]
    assert found["settings"]["hidden_size"] == 16
    result = json.loads((trained.prpn / "result.json").read_text())
    assert found["perplexity"]["test"] == result["test"]["perplexity"]
    assert cli.main(["models", "info", str(trained.prpn), "-o", str(tmp_path / "info.txt")]) == 0
    assert "carry state: no\n" in (tmp_path / "info.txt").read_text()
    assert cli.main(["models", "info", str(tmp_path)]) == 2
    assert "not a model folder: config.json is missing" in capsys.readouterr().err


def test_recipes_are_listed_and_shown(capsys, tmp_path):
    listed = figures(capsys, "recipes", "list")["recipes"]
    assert [one["name"] for one in listed] == recipe_names()
    assert {one["name"]: one["model_type"] for one in listed}["simple-pcfg-toy"] == "simple-pcfg"
    assert all(one["purpose"] for one in listed)
    assert cli.main(["recipes", "list"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == len(listed) + 1
    assert cli.main(["recipes", "show", "logic/lstm"]) == 0
    assert capsys.readouterr().out == (bundled_recipes() / "logic" / "lstm.yaml").read_text()
    assert cli.main(["recipes", "show", "prpn-toy", "-o", str(tmp_path / "mine.yaml")]) == 0
    assert yaml.safe_load((tmp_path / "mine.yaml").read_text())["model"]["name"] == "prpn"
    assert cli.main(["recipes", "show", "prpn-tyo"]) == 2
    assert "Did you mean prpn-toy?" in capsys.readouterr().err
