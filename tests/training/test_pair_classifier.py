"""Logical inference: training, model selection, folder, evaluation, commands."""

from __future__ import annotations

import dataclasses
import json

import pytest
import torch

import syntaxlm
from syntaxlm import cli
from syntaxlm.core.errors import InputError
from syntaxlm.data.labelled_pairs import RELATIONS, LabelledPair, read_formula_pairs, write_formula_pairs, write_logic
from syntaxlm.evaluation.pair_classification import InferenceReport, answers, evaluate_inference
from syntaxlm.storage.folder import (
    CLASSIFIER,
    WEIGHTS,
    ClassifierBundle,
    PairClassifierSettings,
    logic_vocabulary,
    read_classifier,
)
from syntaxlm.text.normaliser_settings import NormaliserSettings
from syntaxlm.training.recipe import read_recipe
from syntaxlm.training.recipe_files import bundled_recipes
from syntaxlm.training.result import METRICS, RECIPE
from syntaxlm.training.run import resume, train
from tests.training.runs import stop_at

RECIPES = sorted((bundled_recipes() / "logic").glob("*.yaml"))


@pytest.fixture(scope="module")
def logic(tmp_path_factory):
    """Formula pairs of every length for testing, and a few short ones for training."""
    folder = tmp_path_factory.mktemp("logic")
    write_logic(folder, 300, seed=1)
    pairs = [pair for part in ("train", "valid", "test") for pair in read_formula_pairs(folder / f"{part}.tsv")]
    write_formula_pairs([pair for pair in pairs if pair.operators <= 2][:60], folder / "short.tsv")
    return folder


def small(logic, cell="on-lstm", **settings):
    layers = {"on-lstm": "[30]", "lstm": "[31]"}[cell]
    overrides = {
        "pairs.train": logic / "short.tsv", "pairs.valid": logic / "short.tsv", "pairs.test": logic / "test.tsv",
        "model.cell": cell, "model.embedding_size": 12, "model.layer_sizes": layers, "classifier.dropout": 0,
        "classifier.hidden_size": 32, "batches.batch_size": 10, "optimiser.learning_rate": 0.02,
        "run.accelerator": "cpu", "schedule.epochs": 10, **settings,
    }  # fmt: skip
    return read_recipe("logic/on-lstm-tiny", [(key, str(value)) for key, value in overrides.items()])


def untrained(recipe):
    """A classifier of formulas with random weights."""
    settings = PairClassifierSettings(
        recipe.model, recipe.classifier, "logic", tuple(RELATIONS), NormaliserSettings(), 4
    )
    vocabulary = logic_vocabulary()
    return ClassifierBundle(settings.build(len(vocabulary)), settings, vocabulary)


def test_a_learning_rate_far_too_high_stops_training_and_names_the_setting(logic, tmp_path):
    recipe = small(logic, **{"optimiser.learning_rate": "1e9"})
    with pytest.raises(InputError, match=r"training diverged at step \d(?s:.*)a lower optimiser\.learning_rate"):
        train(recipe, tmp_path / "run")
    assert not (tmp_path / "run" / WEIGHTS).exists()


@pytest.mark.parametrize("cell", ["on-lstm", pytest.param("lstm", marks=pytest.mark.long)])
def test_accuracy_rises_above_the_majority_class_and_the_folder_has_the_best_weights(logic, tmp_path, cell):
    events = []
    result = train(small(logic, cell), tmp_path / "run", events.append)
    pairs = read_formula_pairs(logic / "short.tsv")
    stored = read_classifier(tmp_path / "run")
    report = evaluate_inference(stored, logic / "short.tsv")
    score = report.score()
    assert score.correct >= score.majority + 6  # of 60
    events = [event.values for event in events if event.kind == "valid"]
    assert result.criterion.value == score.correct / len(pairs) == max(event["valid_accuracy"] for event in events)
    assert [event["best"] for event in events].count(True) >= 2
    assert events[-1]["train_loss"] < events[0]["train_loss"]
    assert len((tmp_path / "run" / METRICS).read_text().splitlines()) == len(events) == 10
    (panel,) = result.plot().axes
    assert [line.get_ydata().tolist() for line in panel.lines] == [[event["train_loss"] for event in events]]
    assert panel.get_ylabel() == "loss in nats per pair"
    assert result.answers is not None
    assert [score.pairs for score in result.answers.groupings["operators"].values()] == [3] * 12


def test_a_run_is_made_again_by_its_seed_and_its_recipe_and_differs_by_another(logic, tmp_path):
    def weights(name, **settings):
        recipe = small(logic, **{"schedule.epochs": 1, "classifier.dropout": 0.3, **settings})
        train(recipe, tmp_path / name)
        return read_classifier(tmp_path / name).classifier.state_dict()

    first, again, other = weights("first"), weights("again"), weights("other", **{"run.seed": 2})
    assert all(torch.equal(tensor, again[name]) for name, tensor in first.items())
    assert not torch.equal(first["encoder.embedding.weight"], other["encoder.embedding.weight"])
    kept = read_recipe(tmp_path / "first" / "recipe.yaml")
    assert kept == small(logic, **{"schedule.epochs": 1, "classifier.dropout": 0.3})


def test_long_pairs_are_left_out_of_training_and_time_ends_it(logic, tmp_path):
    settings = {"pairs.train": logic / "test.tsv", "pairs.valid": logic / "test.tsv", "pairs.maximum_operators": 2}
    result = train(small(logic, **settings, **{"schedule.minutes": 1e-9}), tmp_path / "run")
    assert result.epochs <= 1
    assert "trained on up to 2 operators" in str(result)
    assert result.answers is not None
    trained, longer = result.answers.groupings["lengths"].values()
    assert (trained.pairs, longer.pairs) == (6, 30)


def test_test_pairs_that_can_be_read_only_once_are_refused(logic, tmp_path):
    """They are read before training, to find faults, and after it."""
    recipe = small(logic)
    recipe = dataclasses.replace(recipe, pairs=dataclasses.replace(recipe.pairs, test="-"))
    with pytest.raises(InputError, match=r"pairs\.test: found -, standard input or a pipe, which can be read only"):
        train(recipe, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_the_answer_to_a_pair_does_not_depend_on_its_batch(logic, tmp_path):
    stored = untrained(small(logic))
    pairs = read_formula_pairs(logic / "test.tsv")
    together = answers(stored, pairs)
    assert together == tuple(answers(stored, [pair])[0] for pair in pairs)


def test_the_report_has_scores_by_operators_and_relation_and_the_baseline():
    rows = [("#", "#", 1), ("#", "<", 1), ("<", "<", 2), ("#", "#", 7), ("v", "#", 7)]
    pairs = tuple(LabelledPair("a", "b", relation, number) for relation, _, number in rows)
    report = InferenceReport("file", pairs, tuple(answer for _, answer, _ in rows), maximum_operators=6)
    assert report.majority == "#"
    counts = {number: dataclasses.astuple(score) for number, score in report.groupings["operators"].items()}
    assert counts == {"1": (2, 1, 2), "2": (1, 1, 0), "7": (2, 1, 1)}
    figures = report.to_dict()
    assert (figures["accuracy"], figures["majority"]) == (0.6, 0.6)
    assert (figures["trained_lengths"]["correct"], figures["longer"]["accuracy"]) == (2, 0.5)
    assert figures["by_relation"]["v"] == {"pairs": 1, "correct": 0, "accuracy": 0.0, "majority": 0.0}
    assert figures["by_relation"]["^"]["accuracy"] is None
    lines = [line.split() for line in str(report).splitlines()]
    assert ["7", "2", "50.0", "50.0"] in lines
    assert ["over", "6", "2", "50.0", "50.0"] in lines
    assert ["independence", "#", "3", "66.7", "100.0"] in lines


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_every_bundled_recipe_is_valid_and_described(path):
    assert read_recipe(f"logic/{path.stem}").model
    assert path.read_text().startswith("# Logical inference")


def test_the_recipes_for_logic_in_minutes_have_equal_numbers_of_parameters_to_a_hundredth():
    counts = [
        sum(weight.numel() for weight in untrained(read_recipe(f"logic/{name}")).classifier.parameters())
        for name in ("on-lstm-tiny", "lstm-tiny")
    ]
    assert counts[0] == pytest.approx(counts[1], rel=1e-2)


def test_all_errors_of_a_recipe_are_reported_together(logic):
    with pytest.raises(InputError) as reported:
        small(logic, **{"optimiser.gradient_clip": 0, "classifier.dropout": 1.5, "model.embedding_size": 0})
    said = str(reported.value)
    assert "optimiser.gradient_clip: found 0" in said
    assert "classifier.dropout: found 1.5; expected a number from 0 to under 1" in said
    assert "model.embedding_size: found 0; expected an integer from 1 to 65,536" in said
    with pytest.raises(
        InputError, match=r"pairs\.vocabulary: found settings; expected none, or pairs\.task: sentences"
    ):
        small(logic, **{"pairs.vocabulary.minimum_count": 2})
    with pytest.raises(InputError, match=r"model\.supervision: found 1\.0; expected 0, because pairs have no trees"):
        small(logic, **{"model.supervision": 1.0})
    with pytest.raises(InputError, match=r"schedule\.epoch: no such setting\. Did you mean schedule\.epochs\?"):
        small(logic, **{"schedule.epoch": 3})
    with pytest.raises(InputError, match=r"logic/on-lsmt: no such recipe file\. Did you mean logic/on-lstm\?"):
        read_recipe("logic/on-lsmt")


def test_used_and_damaged_folders_and_long_pairs_are_reported(logic, tmp_path):
    folder = tmp_path / "run"
    with pytest.raises(InputError, match="found no pair with 0 operators or fewer"):
        train(small(logic, **{"pairs.train": logic / "test.tsv", "pairs.maximum_operators": 0}), folder)
    assert not folder.exists()
    with pytest.raises(InputError, match=rf"not a pair classifier: {CLASSIFIER} is missing"):
        read_classifier(tmp_path)
    train(small(logic, **{"schedule.epochs": 1}), folder)
    with pytest.raises(InputError, match="already holds a run"):
        train(small(logic), folder)
    settings = json.loads((folder / CLASSIFIER).read_text())
    settings["classifier"]["hidden_size"] = 33
    (folder / CLASSIFIER).write_text(json.dumps(settings))
    with pytest.raises(InputError, match=rf"{WEIGHTS}: the weights do not fit"):
        read_classifier(folder)
    (folder / CLASSIFIER).write_text("{")
    with pytest.raises(InputError, match="damaged or cut short"):
        read_classifier(folder)


def test_the_commands_make_pairs_train_and_evaluate(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert cli.main(["data", "logic", "-o", "logic", "--pairs", "60", "--json"]) == 0
    assert sum(json.loads(capsys.readouterr().out)["train"]["relations"].values()) == 60
    sizes = ["--model.embedding_size", "6", "--model.layer_sizes", "[10]", "--schedule.epochs", "1"]
    assert cli.main(["train", "logic/on-lstm-tiny", "--output", "run", *sizes, "--json"]) == 0
    out, error = capsys.readouterr()
    trained = json.loads(out)
    read, _, progress = error.partition("epoch 1.00  train loss ")
    assert read.count("labelled pairs of sentences, separated by tabs") == read.count("\n") > 0
    assert progress
    assert cli.main(["evaluate", "logic", "run", "logic/test.tsv", "--json"]) == 0
    evaluated = json.loads(capsys.readouterr().out)
    assert [reading["source"] for reading in evaluated.pop("readings")]
    assert evaluated.pop("run")["command"].startswith("syntaxlm evaluate")
    assert evaluated == trained["test"]


SENTENCES = """model: {{name: {name}, embedding_size: 6, hidden_size: 8, init_range: 1}}
pairs: {{task: sentences, train: pairs.tsv, valid: pairs.tsv, test: pairs.tsv, normaliser: {{lower_case: true}}}}
classifier: {{hidden_size: 8, dropout: 0}}
batches: {{batch_size: 4}}
optimiser: {{learning_rate: 0.02}}
schedule: {{epochs: 2}}
run: {{accelerator: cpu}}
"""


@pytest.mark.parametrize(
    "name", ["gumbel-tree-lstm", *(pytest.param(name, marks=pytest.mark.long) for name in ("rl-spinn", "prpn"))]
)
def test_a_classifier_of_sentence_pairs_is_trained_evaluated_and_parses(capsys, tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    pairs = [f"The {one} dog\ta {one} cat sleeps\t{'yes' if one == 'old' else 'no'}" for one in ("old", "new") * 5]
    (tmp_path / "pairs.tsv").write_text("\n".join(pairs) + "\n")
    (tmp_path / "pairs.yaml").write_text(SENTENCES.format(name=name))
    assert cli.main(["train", "pairs.yaml", "-o", "run", "--json"]) == 0
    trained = json.loads(capsys.readouterr().out)
    assert trained["test"]["by_label"].keys() == {"no", "yes"}
    assert cli.main(["evaluate", "classifier", "run", "pairs.tsv", "--json"]) == 0
    evaluated = json.loads(capsys.readouterr().out)
    assert [reading["source"] for reading in evaluated.pop("readings")]
    assert evaluated.pop("run")["command"].startswith("syntaxlm evaluate")
    assert evaluated == trained["test"]
    assert cli.main(["parse", "run", "The OLD dog sleeps", "--format", "brackets"]) == 0
    assert capsys.readouterr().out.count("(X") == 3
    (tmp_path / "gold.mrg").write_text("(S (NP (DT The) (JJ old) (NN dog)) (VP (VBZ sleeps)))\n")
    assert cli.main(["evaluate", "parse", "run", "gold.mrg", "--json"]) == 0
    assert cli.main(["draw", "run", "The old dog sleeps", "-o", "tree.svg"]) == 0
    assert cli.main(["score", "run", "the old dog"]) == 2
    assert "gives no token probabilities" in capsys.readouterr().err
    assert cli.main(["evaluate", "logic", "run", "pairs.tsv"]) == 2
    assert "Use evaluate classifier" in capsys.readouterr().err
    (tmp_path / "other.tsv").write_text("a dog\ta cat\tmaybe\n")
    assert cli.main(["evaluate", "classifier", "run", "other.tsv"]) == 2
    assert "other.tsv, line 1: found the label 'maybe'" in capsys.readouterr().err


@pytest.fixture
def sentence_pairs(tmp_path, monkeypatch):
    """A recipe for pairs of sentences, with a vocabulary of five of their words."""
    monkeypatch.chdir(tmp_path)
    pairs = [f"the {one} dog\ta {one} cat\t{'yes' if one == 'old' else 'no'}" for one in ("old", "new") * 5]
    (tmp_path / "pairs.tsv").write_text("\n".join(pairs) + "\n")
    (tmp_path / "pairs.yaml").write_text(SENTENCES.format(name="gumbel-tree-lstm"))
    return read_recipe("pairs.yaml", {"pairs.vocabulary.maximum_size": 8, "schedule.epochs": 2})


def test_a_resumed_run_with_other_words_of_as_large_a_vocabulary_is_refused(sentence_pairs, tmp_path):
    assert train(sentence_pairs, tmp_path / "run", stop_at(1)).stopped
    recipe = tmp_path / "run" / RECIPE
    recipe.write_text(recipe.read_text().replace("units: words", "units: characters"))
    with pytest.raises(InputError, match=r"its words differ from those in .*vocabulary\.json"):
        resume(tmp_path / "run")


def test_the_same_call_serves_before_and_after_the_end_of_a_run(sentence_pairs, tmp_path):
    first, again = (syntaxlm.train(sentence_pairs, tmp_path / "run", resume=True) for _ in range(2))
    assert again.to_dict() | {"run": None} == first.to_dict() | {"run": None}


def test_an_encoder_without_a_loss_of_its_own_is_refused_as_a_language_model(tmp_path, capsys):
    (tmp_path / "text.yaml").write_text("model: {name: rl-spinn}\ntext: {train: a.txt, valid: a.txt}\n")
    assert cli.main(["train", str(tmp_path / "text.yaml"), "-o", str(tmp_path / "run")]) == 2
    assert "expected a recipe with a section pairs" in capsys.readouterr().err
