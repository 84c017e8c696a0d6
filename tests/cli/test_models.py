"""`models` and `recipes`."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from syntaxlm.core.yaml_files import read_yaml
from syntaxlm.storage.folder import read_model
from syntaxlm.storage.hub import CardFacts, write_card
from syntaxlm.storage.model_index import DataSet, EvaluatedTask, Metric, Result
from syntaxlm.training.recipe_files import RECIPE_GROUPS, bundled_recipes, recipe_names

STORED = Path(__file__).parents[1] / "stored_models" / "models"


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
    models = {one["model_type"]: one for one in found["models"]}
    assert len(found["models"]) == len(models) == 3
    prpn, lstm = models["prpn"], models["lstm"]
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


def test_a_model_whose_weights_are_cut_short_is_listed_as_damaged(figures, run, trained, tmp_path):
    shutil.copytree(trained.lstm, tmp_path / "cut")
    weights = tmp_path / "cut" / "weights.safetensors"
    os.truncate(weights, weights.stat().st_size - 100)
    assert "weights.safetensors: damaged or cut short" in figures("models", "list", tmp_path)["models"][0]["error"]
    assert "damaged or cut short" in run("models", "list", tmp_path)[1]


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


@pytest.fixture
def carded(trained, tmp_path):
    """Returns a model folder with a card."""
    folder = shutil.copytree(trained.prpn, tmp_path / "mine")
    metrics = [
        Metric(type="f1", value=63.0, args={"decoder": "mbr"}),
        Metric(type="f1", value=64.25, name="F1 with marks"),
    ]
    data = DataSet(type="wsj", name="WSJ", args={"sentences": 1500})
    results = [Result(task=EvaluatedTask(type="constituency-parsing"), dataset=data, metrics=metrics)]
    facts = CardFacts("mit", ["en", "no"], "Novels.\n\n| a |\n|---|", "Small.\n\n## Limits\n\nMany.", results)
    write_card(folder, read_model(folder), "mine", facts)
    return folder


def test_a_model_is_described_with_what_its_card_states(figures, run, carded):
    found = figures("models", "info", carded)
    assert [found[name] for name in ("licence", "language", "description")] == ["mit", "en, no", "Small."]
    (result,) = found["results"]
    assert result["dataset"] == {"type": "wsj", "name": "WSJ", "args": {"sentences": 1500}}
    assert [metric["value"] for metric in result["metrics"]] == [63.0, 64.25]
    assert found["data"] == "Novels.\n\n| a |\n|---|"
    out = run("models", "info", carded)[1]
    assert "licence: mit\n" in out
    table = "  data   sentences     f1   F1 with marks\n  WSJ        1,500   63.0            64.2\n"
    assert f"results:\n  decoder mbr:\n{table}" in out
    assert figures("models", "info", "en")["licence"] == "mit"
    english = run("models", "info", "en")[1]
    assert "CC BY 4.0" in english
    assert "  parsers 2:\n    name: span-parser\n" in english
    assert "{" not in english
    (listed,) = figures("models", "list", carded)["models"]
    assert listed["licence"] == "mit"
    assert listed["trained_on"].endswith("train.txt")
    assert "results" not in listed
    (carded / "recipe.yaml").unlink()
    assert figures("models", "list", carded)["models"][0]["trained_on"] == "Novels"


def test_bundled_models_are_listed_with_their_training_text(figures, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    texts = {one["folder"]: one["trained_on"] for one in figures("models", "list")["models"]}
    assert texts["en"] == texts["en-fast"] == "Textbooks, novels, speeches and MASC, 10 million words"
    assert texts["is"].startswith("Icelandic Parsed Historical Corpus")


# Merging the mappings of this front matter would double their size 88 times.
BOMB = "a0: &a0 {b: c}\n" + "".join(f"a{k}: &a{k} {{<<: [*a{k - 1}, *a{k - 1}]}}\n" for k in range(1, 89))


@pytest.mark.parametrize(
    ("card", "said"),
    [
        ("---\nlicense: [\n---\n", "card: {}: the front matter, line 3: not YAML"),
        ('---\nlicense: "\\U00110000"\n---\n', "card: {}: the front matter: not YAML"),
        ("---\n" + "[" * 600 + "\n---\n", "card: {}: the front matter: nested too deeply"),
        ("---\n" + "a: b\n" * 4000 + "---\n", "card: {}: the front matter is too long"),
        ("x" * (1 << 20), "card: {}: found 1,048,576 bytes; expected at most"),
        ("# A page without front matter\n", None),
        ("---\n3\n---\n## Training data\n\n| a | a |\n", "data:\n  | a | a |"),
        (
            "---\nlicense: [3]\nlanguage: {a: b}\nmodel-index: 3\n---\n",
            "model-index: Input should be a valid list; expected",
        ),
        (
            "---\nmodel-index: [{name: a, results: [{task: {type: b}}]}]\n---\n",
            "model-index.0.results.0.dataset: Field required",
        ),
        (
            '---\nlicense: "mit\\e[31m"\nlanguage: ["e\\u202en"]\n---\nA \x1b]0;title\x07 model.\n\n## Training data\n'
            "| a\x1b[2J | b |\n|-|-|\n| \x9b1m | 2 |\n",
            "language: e n",
        ),
        (f"---\n{BOMB}license: mit\n---\n", "the front matter, line 12: not YAML: over 20,000 values"),
    ],
)
def test_a_damaged_or_hostile_card_does_not_stop_the_description_or_reach_the_terminal(run, carded, card, said):
    (carded / "README.md").write_text(card)
    for words in (["info", carded], ["list", carded], ["info", carded, "--json"], ["list", carded, "--format", "tsv"]):
        code, out, error = run("models", *words)
        assert (code, error) == (0, "")
        assert all(line.isprintable() for line in out.replace("\t", " ").splitlines())
        if said is not None and words == ["info", carded]:
            assert said.format(carded / "README.md") in out
    assert "prpn" in out


def test_recipes_are_listed_and_shown(figures, run, refused, tmp_path):
    listed = figures("recipes", "list")["recipes"]
    assert sorted(one["name"] for one in listed) == sorted(recipe_names())
    assert {one["name"]: one["model_type"] for one in listed}["simple-pcfg-toy"] == "simple-pcfg"
    lines = run("recipes", "list")[1].splitlines()
    assert len(lines) < 70  # two screens
    assert all(len(line) <= 100 for line in lines)
    assert [name for name, heading in RECIPE_GROUPS.items() if heading in lines] == list(RECIPE_GROUPS)
    assert run("recipes", "show", "logic/on-lstm")[1] == (bundled_recipes() / "logic" / "on-lstm.yaml").read_text()
    assert run("recipes", "show", "prpn-toy", "-o", tmp_path / "mine.yaml")[0] == 0
    assert read_yaml(tmp_path / "mine.yaml")["model"]["name"] == "prpn"
    assert "Did you mean prpn-toy?" in refused("recipes", "show", "prpn-tyo")
