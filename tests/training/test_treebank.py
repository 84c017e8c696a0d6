"""F1 on a treebank during training: what is measured, where it is shown, and that it changes nothing else."""

from __future__ import annotations

import re
from types import SimpleNamespace

import pytest

from syntaxlm.api.model_report import read_run, training_section
from syntaxlm.core.errors import InputError
from syntaxlm.evaluation.treebank_f1 import TreebankF1
from syntaxlm.evaluation.trees import evaluate_parsing
from syntaxlm.reports.page import Page
from syntaxlm.storage.folder import read_model
from syntaxlm.training import loop, task
from syntaxlm.training.learning_curves import read_metrics, terminal_curves
from syntaxlm.training.progress import validation_line
from syntaxlm.training.recipe import Recipe, recipe_from
from syntaxlm.training.result import METRICS
from syntaxlm.training.run import resume, train
from tests.conftest import MODELS, Toy
from tests.training.runs import assert_resumes, content, metrics, stop_at

PCFG = {"name": "simple-pcfg", "nonterminals": 4, "preterminals": 8, "embedding_size": 8}
PARSERS = ("prpn", "pcfg", "counted")
SLOW = pytest.param("pcfg", marks=pytest.mark.long)
MODEL_SETTINGS = {
    "prpn": MODELS["prpn"],
    "pcfg": PCFG,
    "counted": {"name": "dmv", "smoothing": 0.01},
    "lstm": MODELS["lstm"],
    "ngram": {"name": "ngram"},
}
NAMES = ("treebank_f1", "treebank_right_branching", "treebank_left_branching")


def recipe(toy: Toy, model: str, with_treebank: bool = True, **sections: dict) -> Recipe:
    """Seconds of training on sentences of up to 10 words."""
    text = {"treebank": str(toy / "valid.mrg")} if with_treebank else {}
    sections = {name: sections.get(name, {}) for name in ("text", "batches", "optimiser", "schedule")}
    sections["text"] = text | sections["text"]
    sections["batches"] = {"maximum_words": 10} | sections["batches"]
    data = toy.recipe_data("lstm", **sections)
    return recipe_from(data | {"model": MODEL_SETTINGS[model]}, "recipe.yaml")


@pytest.mark.parametrize("model", PARSERS)
def test_f1_is_that_of_the_present_weights_beside_branching_trees(toy, tmp_path, model):
    events = []
    train(recipe(toy, model, schedule={"epochs": 1, "keep": "last"}), tmp_path / "run", events.append)
    line = metrics(tmp_path / "run")[-1]
    report = evaluate_parsing(read_model(tmp_path / "run"), toy / "valid.mrg", "wsj40")
    expected = report.scores[report.chosen].f1, report.baselines.right.f1, report.baselines.left.f1
    assert tuple(line[name] for name in NAMES) == pytest.approx(expected)
    assert expected[1] != expected[2]

    # Callbacks and the line of a validation have the numbers, too.
    (event,) = [event for event in events if event.kind in ("valid", "round")]
    assert {name: event.values[name] for name in NAMES} == {name: line[name] for name in NAMES}
    percent = [f"{100 * value:.1f}%" for value in expected]
    assert "treebank F1 {} (right branching {}, left branching {})".format(*percent) in validation_line(event)


@pytest.mark.parametrize("model", ["prpn", SLOW, "counted"])
def test_a_treebank_changes_neither_weights_nor_their_choice_nor_other_numbers(toy, tmp_path, model):
    schedule = {"epochs": 2, "validations_per_epoch": 2, "stop_patience": 1}
    optimiser = {"average_from_epoch": 1} if model == "prpn" else {}
    for name, with_treebank in (("with", True), ("without", False)):
        train(recipe(toy, model, with_treebank, schedule=schedule, optimiser=optimiser), tmp_path / name)
    (tensors, progress), (others, other_progress) = content(tmp_path / "with"), content(tmp_path / "without")
    assert progress == other_progress
    assert tensors.keys() == others.keys()
    assert all(tensor.equal(others[name]) for name, tensor in tensors.items())
    weights = [(tmp_path / name / "weights.safetensors").read_bytes() for name in ("with", "without")]
    assert weights[0] == weights[1]
    lines = metrics(tmp_path / "with")
    assert any("treebank_f1" in line for line in lines)
    other = [{key: value for key, value in line.items() if key not in NAMES} for line in lines]
    assert other == metrics(tmp_path / "without")


def test_the_time_of_the_measurement_is_no_time_of_training(toy, tmp_path, monkeypatch):
    now = [0.0]
    clock = SimpleNamespace(monotonic=lambda: now[0])
    monkeypatch.setattr(loop, "time", clock)
    monkeypatch.setattr(task, "time", clock)
    measure = TreebankF1.figures

    def slow(*given):
        now[0] += 10_000.0
        return measure(*given)

    monkeypatch.setattr(TreebankF1, "figures", slow)
    result = train(recipe(toy, "prpn", schedule={"epochs": 2, "minutes": 1.0}), tmp_path / "run")
    assert (result.epochs, result.seconds) == (2, 0)
    assert now == [20_000]


@pytest.mark.long
@pytest.mark.parametrize("model", ["prpn", SLOW])
def test_a_resumed_run_has_the_same_numbers(toy, tmp_path, model):
    chosen = recipe(toy, model, schedule={"validations_per_epoch": 2})
    finished = train(chosen, tmp_path / "whole")
    assert_resumes(finished, chosen, 4, finished.steps // 2 + 3)


def test_a_changed_treebank_is_named_when_a_run_is_resumed(toy, tmp_path):
    copy = tmp_path / "gold.mrg"
    copy.write_text((toy / "valid.mrg").read_text())
    train(recipe(toy, "prpn", text={"treebank": str(copy)}), tmp_path / "run", stop_at(2))
    copy.write_text((toy / "test.mrg").read_text())
    with pytest.raises(InputError, match=r"gold\.mrg: changed since the run started \(text\.treebank\)"):
        resume(tmp_path / "run")


def test_the_learning_curves_show_f1(toy, tmp_path):
    result = train(recipe(toy, "prpn", schedule={"validations_per_epoch": 2}), tmp_path / "run")
    lines = read_metrics(tmp_path / "run" / METRICS)
    losses, f1 = terminal_curves(lines, 80).split("training loss\n")
    assert "● validation loss" in losses
    assert "● F1 on the treebank   · right branching   × left branching" in f1
    validations = [line for line in lines if line["event"] == "valid"]
    values = [validations[0][name] for name in NAMES[1:]] + [line["treebank_f1"] for line in validations]
    assert f1.startswith(f"{max(values):.2f} │")

    plot = result.plot()
    assert len(plot.axes) == 2
    (curve, *_) = plot.axes[1].lines
    assert list(curve.get_ydata()) == [100 * line["treebank_f1"] for line in validations]
    assert {text.get_text() for text in plot.axes[1].texts} == {"right branching", "left branching"}
    assert len(result.plot(ax=plot.axes[0]).axes) == 1
    page = training_section(read_run(tmp_path / "run"), "text")
    assert "F1 on the treebank in percent" in Page("report", (page,)).html()


def refusal(toy: Toy, tmp_path, model: str, **text: object) -> str:
    with pytest.raises(InputError) as error:
        train(recipe(toy, model, text=text), tmp_path / "run")
    assert not (tmp_path / "run").exists()
    return str(error.value)


def test_a_treebank_that_cannot_be_scored_is_refused_before_training(toy, tmp_path):
    one_word = tmp_path / "short.mrg"
    one_word.write_text("(S (NN cat))\n")
    found = refusal(toy, tmp_path, "prpn", treebank=str(one_word))
    assert re.search(r"short\.mrg: found no sentence of 2 to 40 words; expected some to score", found)
    found = refusal(toy, tmp_path, "prpn", treebank=str(toy / "valid.conllu"))
    assert "expected constituency trees" in found
    other = tmp_path / "other.mrg"
    other.write_text("(S (NN xyzzy) (VB plugh))\n")
    assert "2 of 2 words are unknown to the model, which reads words" in refusal(
        toy, tmp_path, "prpn", treebank=str(other)
    )
    missing = tmp_path / "missing.mrg"
    assert "missing.mrg: no such file" in refusal(toy, tmp_path, "prpn", treebank=str(missing))


@pytest.mark.parametrize("model", ["lstm", "ngram"])
def test_a_treebank_for_a_model_that_does_not_parse_is_refused(toy, tmp_path, model):
    assert f"this {model} model" in (found := refusal(toy, tmp_path, model))
    assert "does not parse, so text.treebank cannot use it" in found
