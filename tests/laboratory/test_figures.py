"""The figures of the papers: what they draw, from models with fresh weights and from stored files."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from laboratory.figures import (
    completion_curve,
    generated_trees,
    induced_trees,
    learning_curves,
    logical_inference,
    on_lstm_gates,
    palm_splits,
    prpn_characters,
    shared,
    stop_classifiers,
)
from laboratory.results.store import select

from syntaxlm.core.errors import InputError
from syntaxlm.models.batches import TokenBatch
from syntaxlm.training.recipe import read_recipe
from tests.docs.examples import ROOT
from tests.drawing.reading import assert_same_plot, drawn, of_role, read_svg, styled_roles, tooltip, used_roles
from tests.fresh_models import fresh, layered
from tests.generation.growing_models import grown

WORDS = ["the", "cat", "sees", "a", "dog"]
GOLD = "(S (NP (DT the) (NN cat)) (VP (VBZ sees) (NP (DT a) (NN dog))) (. .))\n"


def texts(document: str) -> list[str]:
    root = read_svg(document)
    return [drawn(element) for element in root.iter() if element.tag.endswith("text")]


@pytest.fixture
def treebank(tmp_path: Path) -> str:
    path = tmp_path / "gold.mrg"
    path.write_text(GOLD + "(S (NP (DT the) (NN dog)) (VP (VBZ sees)))\n")
    return str(path)


def test_the_gates_of_the_figure_have_the_means_that_the_model_reports():
    model = layered()
    gates = on_lstm_gates.master_gates(model, WORDS)
    ids = torch.tensor([[model.vocabulary.begin_id, *model.vocabulary.encode(WORDS)]]).T
    with torch.no_grad():
        read = model.model.read(TokenBatch(ids, ids))
    distances = read.distances[:, 1:, 0].numpy()
    np.testing.assert_allclose([1 - layer.forget.mean(1) for layer in gates], distances, atol=1e-6)
    written = read.maps.units["input master gate by layer"][1:, 0].T.numpy()
    np.testing.assert_allclose([layer.write.mean(1) for layer in gates], written, atol=1e-6)
    assert all((np.diff(layer.forget) >= 0).all() and (np.diff(layer.write) <= 1e-6).all() for layer in gates)


def test_the_figure_of_gates_has_each_layer_and_the_words():
    shown = texts(on_lstm_gates.picture(layered(), " ".join(WORDS), layer=3).svg())
    assert {"layer 1", "layer 2", "layer 3", "Forget master gate, layer 3", *WORDS} <= set(shown)
    with pytest.raises(InputError, match="expected an ON-LSTM"):
        on_lstm_gates.master_gates(fresh("prpn"), WORDS)


def test_bars_between_characters_are_coloured_by_their_place():
    model = fresh("prpn", units="characters")
    document = prpn_characters.picture(model, ["the cat"]).svg()
    root = read_svg(document)
    roles = ("area-0", "area-2", "bar")
    assert [sum(bool(tooltip(bar)) for bar in of_role(root, role)) for role in roles] == [1, 1, 4]
    assert tooltip(next(bar for bar in of_role(root, "area-0") if tooltip(bar))).startswith("e | _")
    assert "Memory gates: which of the last 4 characters can be read" in texts(document)
    assert used_roles(document) <= styled_roles(document)
    with pytest.raises(InputError, match="does not read characters"):
        prpn_characters.picture(fresh("prpn"), ["the cat"])


def test_induced_trees_are_of_the_first_sentences_of_the_lengths_asked_for(treebank):
    (tree,) = induced_trees.chosen_trees(treebank, "ptb-keep", 1, range(4, 6))
    assert list(tree.words) == WORDS
    shown = texts(induced_trees.picture(fresh("prpn"), [tree]).svg())
    assert {"induced", "gold", *WORDS} <= set(shown)
    with pytest.raises(InputError, match="found 1 sentences of 4 to 5 words; expected at least 2"):
        induced_trees.chosen_trees(treebank, "ptb-keep", 2, range(4, 6))


@pytest.mark.long
def test_splits_are_those_of_the_trees(treebank):
    models = [("trained", fresh("palm"))], [("untrained", fresh("palm"))]
    series = palm_splits.points(*models, treebank, 2, "wsj40")
    assert [len(points) for points in series.values()] == [2, 1, 1]
    # Of the three gold spans of three words or more, one separates the first word (VP), one the last (second S).
    assert series["gold trees"] == [(pytest.approx(100 / 3), pytest.approx(100 / 3))]
    assert all(0 <= left + right <= 100 + 1e-9 for points in series.values() for left, right in points)
    assert series == palm_splits.points(*models, treebank, 2, "wsj40")
    assert "untrained, 2 seeds" in texts(palm_splits.picture(series).svg())
    with pytest.raises(InputError, match="expected a PaLM"):
        palm_splits.points([("prpn", fresh("prpn"))], [], treebank, 2, "wsj40")


def test_an_untrained_model_has_the_settings_of_its_recipe_and_the_words_of_the_text(tmp_path):
    (tmp_path / "text.txt").write_text("the cat sees the dog\nthe cat sees\n")
    model = palm_splits.untrained("palm-gum-small", str(tmp_path / "text.txt"))
    assert model.settings.model == read_recipe("palm-gum-small").model
    assert set(model.vocabulary.tokens) - {"<unk>", "<eos>"} == {"the", "cat", "sees"}


@pytest.mark.long
def test_generated_trees_have_the_lengths_asked_for_and_labels_if_the_model_reads_them():
    sampled = {
        name: generated_trees.sampled(*grown(name), 3, 3, 8, temperature=1.0, seed=1) for name in ("tanh", "labelled")
    }
    assert all(3 <= len(tree) <= 8 for trees in sampled.values() for tree in trees)
    assert [any(tree.labels) for trees in sampled.values() for tree in trees] == [False] * 3 + [True] * 3
    assert {"tanh", "labelled", *sampled["labelled"][0].words} <= set(texts(generated_trees.picture(sampled).svg()))
    with pytest.raises(InputError, match=r"found 0 of 1,000 sampled trees with 9 words or more; expected 1"):
        generated_trees.sampled(*grown("tanh"), 1, 9, 8, temperature=1.0, seed=1)


@pytest.mark.long
def test_charts_of_stop_classifiers_show_the_stored_accuracies():
    scores = {question: {"accuracy": 0.9, "always_stop": 0.65} for question in stop_classifiers.QUESTIONS}
    series = stop_classifiers.series({"reads": "states", "test": {"every_word": scores}})
    assert series == {"always stop": [65.0] * 4, "states": [90.0] * 4}
    shown = texts(stop_classifiers.picture({"GUM": series}).svg())
    assert {"GUM", "65", "90", "84.2", "published, Penn Treebank"} <= set(shown)


def write_metrics(folder: Path, perplexities: list[float]) -> Path:
    rows = [
        {"event": "valid", "step": 100 * number, "seconds": 60.0 * number, "valid_perplexity": value}
        for number, value in enumerate(perplexities, 1)
    ]
    folder.mkdir()
    lines = [json.dumps(row) + "\n" for row in [{"event": "step", "step": 50}, *rows]]
    (folder / "metrics.jsonl").write_text("".join(lines) + '{"event": "val')
    return folder


@pytest.mark.long
def test_learning_curves_are_drawn_against_updates_and_minutes(tmp_path):
    curve = learning_curves.read_curve(write_metrics(tmp_path / "run", [400.0, 200.0]))
    assert curve == learning_curves.Curve((100, 200), (1.0, 2.0), (400.0, 200.0))
    plot = learning_curves.picture({"a": [curve, curve], "b": [curve]}, "Title", {"published": 150.0})
    seeds = [ax.lines[0].get_xdata() for ax in plot.axes]
    np.testing.assert_array_equal(seeds, [[100, 200, np.nan] * 2, [1, 2, np.nan] * 2])
    assert {"updates", "minutes", "published"} <= set(texts(plot.svg()))
    with pytest.raises(InputError, match="found no validation"):
        learning_curves.read_curve(write_metrics(tmp_path / "empty", []))


def test_accuracy_is_drawn_by_model_and_number_of_novels():
    results = completion_curve.results_by_model(select("completion"))
    assert list(results) == ["kn5", "lstm", "on-lstm", "simple-pcfg"]
    assert {tuple(result.novels for result in curve) for curve in results.values()} == {(1, 2, 4, 8, 17)}
    line = completion_curve.picture(results, 20.0).axes[0].lines[0]
    assert line.get_xdata().tolist() == [1, 2, 4, 8, 17]
    assert line.get_ydata().tolist() == [result.accuracy for result in results["kn5"]]


def test_accuracy_on_logical_inference_is_the_mean_over_seeds():
    def report(values):
        cells = {str(count): {"accuracy": value, "majority": 0.4} for count, value in enumerate(values, 1)}
        return {"test": {"maximum_operators_trained": 1, "by_operators": cells, "longer": {"accuracy": values[1]}}}

    reports = {"lstm": [report((0.9, 0.5)), report((0.7, 0.5))], "prpn": [report((0.8, 0.6))]}
    ordered = logical_inference.by_accuracy(reports)
    assert list(ordered) == ["prpn", "lstm"]
    line = logical_inference.picture(ordered).axes[0].lines[1]
    assert (line.get_xdata().tolist(), line.get_ydata().tolist()) == ([1, 2], [pytest.approx(80), pytest.approx(50)])


def test_a_figure_is_written_in_the_format_of_its_extension(tmp_path, monkeypatch):
    write_metrics(tmp_path / "run", [400.0, 200.0])

    def draw(output: Path) -> None:
        monkeypatch.setattr(sys, "argv", ["learning_curves", f"ON-LSTM={tmp_path / 'run'}", "-o", str(output)])
        shared.run(learning_curves.main)

    draw(tmp_path / "curves.svg")
    read_svg((tmp_path / "curves.svg").read_text())
    draw(tmp_path / "curves.png")
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(SystemExit, match=r"expected one of \.svg, \.pdf, \.png, \.html"):
        draw(tmp_path / "curves.gif")


@pytest.mark.parametrize("figure", [completion_curve, logical_inference, palm_splits, stop_classifiers])
def test_a_picture_of_the_documentation_is_that_of_the_stored_results(figure, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["figure", "-o", str(tmp_path / "new.svg")])
    shared.run(figure.main)
    name = figure.__name__.rpartition(".")[2].replace("_", "-")
    assert_same_plot(ROOT / "docs" / "images" / f"{name}.svg", (tmp_path / "new.svg").read_text())


def test_the_pictures_of_the_page_are_small_and_follow_the_theme():
    names = re.findall(r"\]\(images/([a-z-]+\.svg)\)", (ROOT / "docs" / "figures.md").read_text())
    assert len(names) == 12
    for name in names:
        document = (ROOT / "docs" / "images" / name).read_text()
        assert len(document.encode()) < 100_000
        assert "prefers-color-scheme:dark" in document
        assert used_roles(document) <= styled_roles(document)  # of pictures that matplotlib has not drawn
