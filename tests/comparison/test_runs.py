"""Comparisons: every run is trained once, despite interruptions, and a table shows the results."""

from __future__ import annotations

import dataclasses
import json
import shutil
import signal
import statistics
from contextlib import nullcontext
from pathlib import Path

import pytest
import torch

from syntaxlm.comparison import runs
from syntaxlm.comparison import treebank as treebank_module
from syntaxlm.comparison.report import Comparison, RecipeRuns, _seeds
from syntaxlm.comparison.runs import COMPARISON, compare, read_recipes, train_seeds, with_tagged_text
from syntaxlm.comparison.treebank import BASELINES, TREES, TreebankEvaluation, TreebankScore, stored_scores
from syntaxlm.core.errors import InputError
from syntaxlm.core.files import UNFINISHED, locked
from syntaxlm.core.yaml_files import yaml_text
from syntaxlm.drawing.seed_plot import plot_seeds
from syntaxlm.evaluation.trees import evaluate_parsing
from syntaxlm.storage.folder import read_model
from syntaxlm.training.language_model import TextTask
from syntaxlm.training.recipe import with_overrides
from syntaxlm.training.result import RESULT, CriterionValue, read_result
from syntaxlm.training.run import RECIPE, Event, resume, train
from syntaxlm.trees.f1 import PROTOCOLS
from tests.training.runs import stop_at


def watching(recipe):
    return nullcontext(lambda event: None)


@pytest.fixture
def trainings(monkeypatch):
    """Records the folders for which `train` and `resume` are called, in order."""
    called = []

    def counted(kind, action):
        def call(*arguments):
            called.append((kind, *(argument.name for argument in arguments if hasattr(argument, "name"))))
            return action(*arguments)

        return call

    monkeypatch.setattr(runs, "train", counted("train", train))
    monkeypatch.setattr(runs, "resume", counted("resume", resume))
    return called


@pytest.fixture
def two(few):
    return {
        "prpn": few.recipe("prpn", schedule={"epochs": 1}),
        "lstm": few.recipe("lstm", schedule={"epochs": 1}, run={"seed": 3}),
    }


def test_every_recipe_is_trained_with_every_seed_and_the_table_is_of_their_results(two, tmp_path, trainings):
    folder = tmp_path / "out"
    comparison = compare(two, folder, 2, watching)
    assert trainings == [("train", name) for name in ("seed-1", "seed-2", "seed-3", "seed-4")]
    assert not comparison.faults
    for row, numbers in zip(comparison.recipes, ((1, 2), (3, 4)), strict=True):
        results = [json.loads((folder / row.name / f"seed-{seed}" / RESULT).read_text()) for seed in numbers]
        for text in ("valid", "test"):
            values = [result[text]["perplexity"] for result in results]
            figure = row.figure(text, "perplexity")
            assert (figure.mean, figure.count) == (pytest.approx(statistics.mean(values)), 2)
            assert figure.std == pytest.approx(statistics.stdev(values))
        model = read_model(folder / row.name / f"seed-{numbers[0]}").model
        assert row.parameters == sum(weight.numel() for weight in model.parameters())
        assert row.figures["epochs"].mean == 1
        speeds = [row.epoch_tokens / result["seconds"] for result in results]
        assert row.figures["tokens_per_second"].mean == pytest.approx(statistics.mean(speeds))
    stored = json.loads((folder / COMPARISON).read_text())
    assert stored.pop("run")["command"] is None, "it was called from Python"
    assert stored == json.loads(json.dumps(comparison.to_dict()))
    lines = str(comparison).splitlines()
    assert [line.split()[0] for line in lines] == ["recipe", "prpn", "lstm"]
    assert lines[1].endswith("2 of 2")

    (panel,) = comparison.plot().axes
    dots = [line.get_xdata().tolist() for line in panel.lines]
    assert dots == [[score.perplexity for score in row.scores("test")] for row in comparison.recipes]
    assert panel.get_xlabel() == "test perplexity; one dot per seed, mean"
    with pytest.raises(InputError, match="measure: found 'f1', which no finished run has"):
        comparison.plot("f1")


def test_seeds_are_drawn_with_the_interval_of_their_mean():
    plot = plot_seeds("seeds", [_seeds("a", [1.0, 2.0, 6.0]), _seeds("b", [4.0, 5.0])], {"right": 3.0}, "F1")
    interval, *means = [line.get_segments()[0] for line in plot.axes[0].collections]
    assert interval[:, 0] == pytest.approx([3 - 4.302653 * (7 / 3) ** 0.5, 3 + 4.302653 * (7 / 3) ** 0.5])
    assert [mean[0, 0] for mean in means] == [3.0, 4.5]  # two seeds have no interval


def test_the_tokens_of_an_epoch_are_those_that_are_trained_on(toy, tmp_path):
    """Sums the speed over the steps, as training reports it."""
    tokens = []

    def watch(event: Event) -> None:
        tokens.append(event.trainer.loss_count)

    for number, batches in enumerate([{"maximum_words": 8}, {"context": "carry"}, {"maximum_words": 20, "joined": 4}]):
        recipe = toy.recipe("lstm", batches=batches, schedule={"epochs": 1})
        tokens.clear()
        comparison = compare({"one": recipe}, tmp_path / str(number), 1, lambda recipe: nullcontext(watch))
        assert comparison.recipes[0].epoch_tokens == max(tokens) > 0


def test_finished_runs_are_read_and_not_trained_again(two, tmp_path, trainings):
    first = compare(two, tmp_path, 1, watching)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.glob("*/*/*")}
    trainings.clear()
    second = compare(two, tmp_path, 1, watching)
    assert trainings == []
    assert {path: path.stat().st_mtime_ns for path in tmp_path.glob("*/*/*")} == before
    assert second.to_dict() == first.to_dict()
    assert {row["perplexity_std"] for row in first.rows()} == {None}, "one run has no deviation"
    more = compare(two, tmp_path, 2, watching)
    assert trainings == [("train", "seed-2"), ("train", "seed-4")]
    assert [len(row.runs) for row in more.recipes] == [2, 2]


def test_a_text_that_changed_after_a_finished_run_is_reported(two, few, tmp_path):
    texts = {f"text.{part}": shutil.copy(few / f"{part}.txt", tmp_path) for part in ("train", "valid", "test")}
    recipes = {"lstm": with_overrides(two["lstm"], texts)}
    compare(recipes, tmp_path / "out", 1, watching)
    lines = Path(texts["text.valid"]).read_text().splitlines(keepends=True)
    Path(texts["text.valid"]).write_text("".join(lines[::-1]))
    again = compare(recipes, tmp_path / "out", 1, watching)
    (fault,) = again.faults.values()
    assert "valid.txt: changed since the run started (text.valid)" in fault
    assert not again.recipes[0].runs


def test_an_interrupted_run_is_gone_on_with_and_ends_as_if_it_had_not_been(two, tmp_path, trainings):
    whole = compare(two, tmp_path / "whole", 1, watching)
    trainings.clear()
    folder = tmp_path / "cut"

    def stop_at_third_step(event):
        if event.kind == "step" and event.trainer.steps == 3:
            signal.raise_signal(signal.SIGTERM)

    stopped = compare(
        two, folder, 2, lambda recipe: nullcontext(stop_at_third_step) if recipe == two["lstm"] else watching(recipe)
    )
    assert stopped.stopped
    assert "Resume with the same command" in str(stopped)
    assert [len(row.runs) for row in stopped.recipes] == [2, 0]
    assert not (folder / "lstm" / "seed-4").exists()
    assert json.loads((folder / COMPARISON).read_text())["stopped"]
    trainings.clear()
    done = compare(two, folder, 1, watching)
    assert trainings == [("resume", "seed-3")]
    assert not done.stopped
    assert done.recipes[1].runs[0].test.nats == whole.recipes[1].runs[0].test.nats


def test_seeds_are_resumed_by_the_same_call_and_finished_runs_are_not_repeated(few, tmp_path, trainings):
    recipe = few.recipe("lstm", schedule={"epochs": 1})
    whole = train_seeds(recipe, tmp_path / "whole", 2, watching)
    trainings.clear()

    def stop_second(of_seed):
        return nullcontext(stop_at(2) if of_seed.run.seed == 2 else lambda event: None)

    stopped = train_seeds(recipe, tmp_path / "cut", 3, stop_second)
    assert [run.stopped for run in stopped.runs] == [False, True]
    assert f"test perplexity {stopped.runs[0].test.perplexity:.2f} (1 seed)" in str(stopped), "without a deviation"
    assert trainings == [("train", "seed-1"), ("train", "seed-2")]
    trainings.clear()
    done = train_seeds(recipe, tmp_path / "cut", 2, watching)
    assert trainings == [("resume", "seed-2")]
    assert [run.test.nats for run in done.runs] == [run.test.nats for run in whole.runs]
    trainings.clear()
    assert str(train_seeds(recipe, tmp_path / "cut", 2, watching)) == str(done)
    assert trainings == []


def test_seeds_with_other_settings_or_in_a_run_are_refused_before_training(few, tmp_path, trainings):
    recipe = few.recipe("lstm", schedule={"epochs": 1})
    train_seeds(recipe, tmp_path, 1, watching)
    trainings.clear()
    with pytest.raises(InputError, match=r"seed-1: already holds a run with other settings: model\.hidden_size"):
        train_seeds(few.recipe("lstm", model={"hidden_size": 8}), tmp_path, 3, watching)
    with pytest.raises(InputError, match="seed-1: already holds a run"):
        train_seeds(recipe, tmp_path / "seed-1", 2, watching)
    assert trainings == []


def test_a_half_written_file_of_a_finished_run_is_removed(two, tmp_path):
    compare(two, tmp_path, 1, watching)
    half = tmp_path / "prpn" / "seed-1" / f".trees.json.0123{UNFINISHED}"
    half.write_text("{")
    compare(two, tmp_path, 1, watching)
    assert not half.exists()


def test_a_run_killed_before_its_first_checkpoint_restarts(two, tmp_path, trainings, monkeypatch):
    def killed(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr("syntaxlm.training.run.Run.train", killed)
    with pytest.raises(KeyboardInterrupt):
        compare(two, tmp_path, 1, watching)
    assert (tmp_path / "prpn" / "seed-1" / RECIPE).exists()
    monkeypatch.undo()
    assert [len(row.runs) for row in compare(two, tmp_path, 1, watching).recipes] == [1, 1]


def test_a_run_with_other_settings_is_reported_by_setting_before_training(few, two, tmp_path, trainings):
    compare({"lstm": two["lstm"]}, tmp_path, 1, watching)
    trainings.clear()
    other = few.recipe("lstm", schedule={"epochs": 1}, run={"seed": 3}, model={"hidden_size": 8})
    with pytest.raises(
        InputError, match=r"seed-3: already holds a run with other settings: model\.hidden_size: found 16, expected 8"
    ):
        compare({"prpn": two["prpn"], "lstm": other}, tmp_path, 1, watching)
    assert trainings == []
    with pytest.raises(InputError, match="already holds a run"):
        compare(two, tmp_path / "lstm" / "seed-3", 1, watching)


@pytest.mark.long
def test_a_refused_run_leaves_no_folder(toy, two, tmp_path):
    refused = toy.recipe("lstm", batches={"maximum_words": 1})
    comparison = compare({"refused": refused, "prpn": two["prpn"]}, tmp_path / "out", 2, watching)
    assert len(comparison.faults) == 2
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [COMPARISON, "prpn"]


def test_a_failed_run_is_reported_and_the_others_are_trained(toy, two, tmp_path):
    spoiled = toy.recipe("lstm", optimiser={"learning_rate": 1e9}, schedule={"epochs": 1})
    said = []
    comparison = compare({"spoiled": spoiled} | two, tmp_path, 1, watching, said.append)
    ((place, message),) = comparison.faults.items()
    assert place == str(tmp_path / "spoiled" / "seed-1")
    assert "learning_rate" in message
    assert message in said
    assert [len(row.runs) for row in comparison.recipes] == [0, 1, 1]
    assert str(comparison).splitlines()[1].split()[1:3] == ["-", "-"]
    assert json.loads((tmp_path / COMPARISON).read_text())["faults"] == comparison.faults


@pytest.mark.long
def test_character_level_models_and_those_compared_with_them_have_bits_per_character(toy, tmp_path):
    recipes = {
        "words": toy.recipe("lstm", schedule={"epochs": 1}),
        "characters": toy.recipe("lstm", text={"normaliser": {"units": "characters"}}, schedule={"epochs": 1}),
    }
    comparison = compare(recipes, tmp_path, 1, watching)
    assert comparison.measure == "bits_per_character"
    assert "valid bits per character" in str(comparison)
    expected = comparison.recipes[1].runs[0].valid.bits_per_character
    assert f"{expected:.3f}" in str(comparison).splitlines()[2]


@pytest.mark.long
def test_figures_of_different_tokens_or_states_are_noted(toy, tmp_path):
    recipes = {
        "all": toy.recipe("lstm", schedule={"epochs": 1}),
        "cut": toy.recipe(
            "lstm", schedule={"epochs": 1}, batches={"context": "carry"}, text={"vocabulary": {"maximum_size": 50}}
        ),
    }
    notes = compare(recipes, tmp_path, 1, watching).notes
    assert any("all: sentence by sentence; cut: one stream" in note for note in notes)
    assert any(note.startswith("valid: the recipes predict different tokens: all") for note in notes)
    recipes["open"] = toy.recipe("lstm", schedule={"epochs": 1}, batches={"predict_eos": False})
    notes = compare({name: recipes[name] for name in ("all", "open")}, tmp_path, 1, watching).notes
    assert any(
        "all: sentence by sentence; open: sentence by sentence, ends of sentences not predicted" in n for n in notes
    )
    comparison = compare({"all": recipes["all"]}, tmp_path, 1, watching)
    assert comparison.notes == []

    # With a time limit, a slow run is evaluated on a part of the text.
    (row,) = comparison.recipes
    (run,) = row.runs
    part = dataclasses.replace(run.valid, tokens=20, unknown=1)
    row.runs = (run, dataclasses.replace(run, valid=part))
    whole = f"all {run.valid.tokens:,} ({run.valid.unknown:,} unknown)"
    assert comparison.notes == [f"valid: the runs predict different tokens: {whole}, all 20 (1 unknown)"]


def test_a_truncated_result_is_reported(two, tmp_path):
    compare({"lstm": two["lstm"]}, tmp_path, 1, watching)
    path = tmp_path / "lstm" / "seed-3" / RESULT
    path.write_text(path.read_text()[:-30])
    with pytest.raises(InputError, match=r"result\.json: not a valid training result.*Remove the file"):
        read_result(path.parent)
    assert list(compare({"lstm": two["lstm"]}, tmp_path, 1, watching).faults) == [str(path.parent)]


def test_recipes_are_read_by_name_with_one_budget_and_all_errors_are_reported_together(toy, tmp_path):
    paths = []
    for name in ("one", "two"):
        paths.append(str(tmp_path / f"{name}.yaml"))
        (tmp_path / f"{name}.yaml").write_text(yaml_text(toy.recipe_data("lstm")))
    recipes = read_recipes(paths, [("model.hidden_size", "8")], 0.5)
    assert list(recipes) == ["one", "two"]
    assert {recipe.schedule.minutes for recipe in recipes.values()} == {0.5}
    assert {recipe.model.hidden_size for recipe in recipes.values()} == {8}
    assert read_recipes(paths)["one"].schedule.minutes is None
    with pytest.raises(InputError, match=r"(?s)found two recipes with the name one.*no such recipe file"):
        read_recipes([paths[0], paths[0], "none"])
    with pytest.raises(InputError, match=r"(?s)one\.yaml: text\.test: nowhere\.txt: no such file.*two\.yaml"):
        read_recipes(paths, [("text.test", "nowhere.txt")])


def test_a_folder_that_another_comparison_uses_is_refused(two, tmp_path):
    with locked(tmp_path), pytest.raises(InputError, match="another process is using this folder"):
        compare({"lstm": two["lstm"]}, tmp_path, 1, watching)
    assert not list(tmp_path.iterdir())


def test_several_processes_are_reported(two, tmp_path, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(InputError, match="one process"):
        compare(two, tmp_path, 1, watching)


@pytest.fixture
def parsed(monkeypatch):
    """Records the models that parse the treebank."""
    names, real = [], treebank_module.structure_of

    def counted(stored, *arguments, **named):
        names.append(stored.name)
        return real(stored, *arguments, **named)

    monkeypatch.setattr(treebank_module, "structure_of", counted)
    return names


def test_models_that_parse_are_scored_once_beside_baselines(two, toy, tmp_path, parsed, monkeypatch):
    monkeypatch.setattr(treebank_module, "SENTENCES_AT_ONCE", 4)  # the 15 sentences in several parts
    trees = TreebankEvaluation(toy / "test.mrg")
    first = compare(two, tmp_path / "out", 1, watching, trees=trees)
    assert set(parsed) == {"prpn"}
    folder = tmp_path / "out" / "prpn" / "seed-1"
    for limit, name, column in ((None, "f1", "f1"), (10, "short_f1", "f1_up_to_10")):
        protocol = dataclasses.replace(PROTOCOLS["wsj-test"], max_words=limit)
        report = evaluate_parsing(read_model(folder), toy / "test.mrg", protocol=protocol, random_weights=0)
        assert first.recipes[0].figures[column].mean == report.scores[report.chosen].f1
        for baseline, found in zip(first.baselines, ("left", "right", "random"), strict=True):
            expected = getattr(report.baselines, found)
            assert getattr(baseline, name) == (expected.mean if found == "random" else expected.f1)
    (score,) = first.recipes[0].tree_scores
    assert (score.decoder, score.layer, score.parsed) == ("biased", 1, 15)
    assert score.sentences_per_second == 15 / score.seconds
    assert first.recipes[1].trees == (None,)
    assert first.to_dict()["rows"][1]["treebank"] is None
    # A single run has no standard deviation.
    figures = first.to_dict()["rows"][0]
    assert [figures["treebank"]["f1"]["std"], figures["test"]["perplexity"]["std"]] == [None, None]
    rows = [row for row in first.rows() if row["role"] == "recipe"]
    assert {row[name] for row in rows for name in row if name.endswith("_std")} == {None}
    assert (rows[0]["f1"], rows[0]["runs"]) == (score.f1, 1)
    facts, _, *lines = str(first).splitlines()
    assert facts.startswith(f"F1: {toy / 'test.mrg'}   preprocessing ptb-keep   protocol wsj-test   sentences ")
    assert [line.split()[0] for line in lines[:6]] == ["recipe", "prpn", "lstm", "left", "right", "random"]
    assert lines[2].split()[1:4] == ["-", "-", "-"]
    (panel,) = first.plot().axes
    assert panel.lines[0].get_xdata().tolist() == [100 * score.f1]
    assert panel.get_xlabel() == "unlabelled F1, test.mrg, wsj-test; one dot per seed, mean"

    parsed.clear()
    monkeypatch.setattr(treebank_module, "read_treebank", None)  # nothing is read again
    again = compare(two, tmp_path / "out", 1, watching, trees=TreebankEvaluation(toy / "test.mrg"))
    assert parsed == []
    assert again.to_dict() == first.to_dict()


def test_sentences_over_the_limit_of_the_protocol_are_not_parsed(two, toy, tmp_path):
    protocol = dataclasses.replace(PROTOCOLS["wsj-test"], max_words=8)
    trees = TreebankEvaluation(toy / "test.mrg", protocol)
    found = compare({"prpn": two["prpn"]}, tmp_path / "out", 1, watching, trees=trees)
    report = evaluate_parsing(
        read_model(tmp_path / "out/prpn/seed-1"), toy / "test.mrg", protocol=protocol, random_weights=0
    )
    (score,) = found.recipes[0].tree_scores
    assert score.f1 == report.scores[report.chosen].f1
    assert score.sentences <= score.parsed < 15


def test_a_stored_score_is_used_only_if_all_it_depends_on_is_the_same(two, toy, tmp_path, parsed):
    recipes = {"prpn": two["prpn"]}
    treebank = tmp_path / "gold.mrg"
    treebank.write_text((toy / "test.mrg").read_text())

    def parsings(**settings):
        parsed.clear()
        comparison = compare(recipes, tmp_path / "out", 1, watching, trees=TreebankEvaluation(treebank, **settings))
        assert not comparison.faults
        return len(parsed)

    assert parsings() > 0
    assert parsings() == 0
    assert parsings(preprocessing="none") > 0
    assert parsings(protocol=PROTOCOLS["evalb"]) > 0
    assert parsings() > 0
    (tmp_path / "out" / "prpn" / "seed-1" / TREES).write_text("{")
    (tmp_path / "out" / BASELINES).write_text("[]")
    assert parsings() > 0
    assert parsings() == 0
    treebank.write_text("".join((toy / "test.mrg").read_text().splitlines(keepends=True)[:-1]))
    assert parsings() > 0


@pytest.mark.parametrize(
    "change", [{"f1": "high"}, {"f1": None}, {"seconds": 0.0}, {"sentences": None}, {"unheard": 1}, None, [3]],
)  # fmt: skip
def test_a_stored_score_with_damaged_values_is_computed_again(tmp_path, change):
    calls = []
    right = TreebankScore(0.5, None, 3, 0, "biased", 1, "cpu", 3, 0.1)

    def compute() -> list[TreebankScore]:
        calls.append(1)
        return [right]

    def stored() -> list[TreebankScore]:
        return stored_scores(path, {"a": 1}, TreebankScore, compute)

    path = tmp_path / TREES
    assert stored() == stored() == [right]
    assert len(calls) == 1
    content = json.loads(path.read_text())
    content["scores"] = [content["scores"][0] | change] if isinstance(change, dict) else change
    path.write_text(json.dumps(content))
    assert stored() == stored() == [right]
    assert len(calls) == 2


def test_an_interrupted_evaluation_is_repeated_and_training_is_not(two, toy, tmp_path, trainings, monkeypatch):
    def interrupted(*arguments, **named):
        raise KeyboardInterrupt

    trees = TreebankEvaluation(toy / "test.mrg")
    with monkeypatch.context() as patch:
        patch.setattr(treebank_module, "structure_of", interrupted)
        stopped = compare(two, tmp_path, 1, watching, trees=trees)
    assert stopped.stopped
    assert [len(row.runs) for row in stopped.recipes] == [1, 0]
    done = compare(two, tmp_path, 1, watching, trees=trees)
    assert trainings == [("train", "seed-1"), ("train", "seed-3")]
    assert done.recipes[0].tree_scores


def test_a_treebank_that_a_model_cannot_read_is_a_fault_and_the_run_is_kept(two, tmp_path):
    (tmp_path / "gold.mrg").write_text("(S (NN zzz) (VP (VB yyy) (NN xxx)))\n")
    comparison = compare(two, tmp_path / "out", 1, watching, trees=TreebankEvaluation(tmp_path / "gold.mrg"))
    ((place, message),) = comparison.faults.items()
    assert place.endswith("seed-1")
    assert message.startswith("the model is trained, but its trees were not scored")
    assert "3 of 3 words are unknown to the model" in message
    assert [len(row.runs) for row in comparison.recipes] == [1, 1]


def test_a_treebank_that_cannot_be_read_is_reported_before_training(two, tmp_path, trainings):
    (tmp_path / "gold.mrg").write_text("(S (NN a\n")
    with pytest.raises(InputError, match=r"gold\.mrg"):
        compare(two, tmp_path / "out", 1, watching, trees=TreebankEvaluation(tmp_path / "gold.mrg"))
    with pytest.raises(InputError, match="standard input; expected a file"):
        TreebankEvaluation("-")
    with pytest.raises(InputError, match="missing"):
        TreebankEvaluation(tmp_path / "missing.mrg")
    assert trainings == []
    assert not (tmp_path / "out").exists()


def test_recipes_that_read_tags_have_their_own_text_and_their_own_half_of_the_table(toy, tmp_path):
    tags = toy.recipe("lstm", text={"normaliser": {"units": "tags"}})
    words = toy.recipe("lstm")
    tagged = {"train": "train.tagged", "valid": "valid.tagged"}
    text = with_tagged_text(tags, tagged).text
    assert (text.train, text.valid, text.test) == ("train.tagged", "valid.tagged", None)
    assert with_tagged_text(words, tagged) == words
    with pytest.raises(InputError, match="valid is missing"):
        with_tagged_text(tags, {"train": "train.tagged"})
    comparison = Comparison(
        tmp_path, [RecipeRuns("one", words), RecipeRuns("two", tags), RecipeRuns("three", words)], 1
    )
    assert [line.split("  ")[0] for line in str(comparison).splitlines()] == [
        "recipe (words)", "one", "three", "", "recipe (tags)", "two"
    ]  # fmt: skip
    assert comparison.notes == []


def test_different_texts_are_reported_before_training_by_content(toy, few, tmp_path):
    copy = tmp_path / "copy.txt"
    copy.write_bytes((toy / "train.txt").read_bytes())
    refused = {"batches": {"maximum_words": 1}}
    same = {"one": toy.recipe("lstm", **refused), "two": toy.recipe("lstm", text={"train": str(copy)}, **refused)}
    assert compare(same, tmp_path / "same", 1, watching).text_notes == []
    other = same | {"two": toy.recipe("lstm", text={"train": str(few / "train.txt")}, **refused)}
    with pytest.warns(match=r"different texts \(text\.train\), so neither perplexity nor F1 is comparable: one:"):
        notes = compare(other, tmp_path / "other", 1, watching).notes
    assert len(notes) == 1


def test_models_without_probabilities_have_their_criterion_and_no_perplexity(few, tmp_path, monkeypatch):
    monkeypatch.setattr("syntaxlm.training.language_model.ScoresSentences", CriterionValue)  # no model is an instance
    comparison = compare({"own": few.recipe("prpn", schedule={"epochs": 1})}, tmp_path, 1, watching)
    (row,) = comparison.recipes
    (run,) = row.runs
    assert run.valid is run.test is None
    assert run.criterion == read_result(run.folder).criterion
    assert "negative log-likelihood" in str(run)
    data = row.to_dict()
    assert data["valid"]["perplexity"] is None
    assert data["criterion"]["mean"] == run.criterion.value
    task = TextTask(row.recipe, torch.device("cpu"))
    task.model = read_model(run.folder).model
    assert task.validate().value == pytest.approx(run.criterion.value)
    rows = list(comparison.rows())
    assert [(one["text"], one["perplexity"]) for one in rows] == [("valid", None), ("test", None)]
    assert rows[0]["seconds"] == run.seconds
