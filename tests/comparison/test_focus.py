"""Parse-focusing: span weights from the trees of other parsers, and the command."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pytest
import torch

from syntaxlm.comparison.focus import AGREEMENT, FocusOptions, _plan_parsers, focus
from syntaxlm.core.errors import InputError
from syntaxlm.core.files import locked
from syntaxlm.core.yaml_files import yaml_text
from syntaxlm.data.treebanks import read_treebank
from syntaxlm.evaluation.agreement import Agreement
from syntaxlm.models.abilities import TextCounts
from syntaxlm.models.batches import TokenBatch
from syntaxlm.models.pcfg.grammars import SimplePCFGConfig
from syntaxlm.models.registry import build_model
from syntaxlm.parsing.options import ParseOptions
from syntaxlm.parsing.parse import parse_lines, parse_text
from syntaxlm.storage.bundled import bundled_folder
from syntaxlm.storage.folder import read_model
from syntaxlm.text.options import AS_WRITTEN
from syntaxlm.training.recipe import read_recipe, recipe_from
from syntaxlm.training.result import CHECKPOINT
from syntaxlm.training.run import train
from syntaxlm.trees.spans import union
from syntaxlm.trees.tree import read_brackets
from tests.trees.enumeration import spans_of_lists

PCFG = {"name": "simple-pcfg", "nonterminals": 6, "preterminals": 8, "embedding_size": 8, "end_bias": 1.0}


def watching(recipe):
    return nullcontext(lambda event: None)


@pytest.fixture
def recipe(few):
    data = few.recipe_data("lstm", batches={"token_budget": 64}, schedule={"epochs": 1}) | {"model": PCFG}
    return recipe_from(data, "recipe.yaml")


def focused_model(strength: float):
    torch.manual_seed(0)
    model = build_model(
        SimplePCFGConfig(nonterminals=3, preterminals=4, embedding_size=5, focus=strength), vocabulary_size=9
    ).double()
    ones = torch.ones(9, dtype=torch.int64)
    model.setup(TextCounts(ones, first_words=ones, final_words=ones, one_word_sentences=ones * 0))
    return model


def batch(spans=None) -> TokenBatch:
    """Two sentences, of four words and of three."""
    tokens = torch.tensor([[1, 1], [3, 4], [5, 6], [7, 8], [4, 2]])
    targets = torch.tensor([[3, 4], [5, 6], [7, 8], [4, 2], [2, 2]])
    return TokenBatch(tokens, targets, torch.tensor([5, 4]), spans=spans)


def test_trees_that_would_be_written_outside_the_folder_are_refused(recipe, tmp_path):
    (tmp_path / "run" / "trees").mkdir(parents=True)
    (tmp_path / "run" / "trees" / "average.mrg").symlink_to(tmp_path / "outside")
    with pytest.raises(InputError, match=r"average\.mrg: is a link"):
        focus(recipe, tmp_path / "run", FocusOptions(seeds=2), watching)
    assert not (tmp_path / "outside").exists()
    assert not (tmp_path / "run" / "parsers").exists()


def test_a_span_costs_by_how_many_parsers_lack_it():
    """In the first sentence, words 0 and 1 are a span of both parsers, words 1 to 3 of one; the other has no tree.

    The number of trees of a sentence is that of its whole-sentence spans.
    """
    spans = torch.tensor(
        [[3, 0, 2], [3, 0, 2], [5, 0, 3], [5, 0, 4], [5, 0, 4]]
    )  # step after the last word, column, length
    model = focused_model(4.0)
    found = model._span_weights(model._sentences(batch()), batch(spans))
    expected = torch.full((4, 4), -4.0, dtype=torch.float64)
    expected[0, 1] = 0
    expected[1, 3] = -2
    expected[0, 3] = 0  # the whole sentence
    torch.testing.assert_close(found[0].triu(1), expected.triu(1))
    assert not found[1].any(), "a sentence without trees is not focused"


def test_focusing_is_of_training_alone_and_pulls_toward_the_spans():
    spans = torch.tensor([[3, 0, 2], [5, 0, 2], [3, 1, 2]])
    plain, focused = focused_model(0.0), focused_model(5.0)
    assert plain.loss(batch(spans)).total == plain.loss(batch()).total
    assert focused.train().loss(batch(spans)).total > focused.loss(batch()).total
    assert focused.eval().loss(batch(spans)).total == focused.loss(batch()).total
    before = focused.structure(closed()).values[0, 0, 1]
    optimiser = torch.optim.Adam(focused.parameters(), lr=0.05)
    for _ in range(30):
        optimiser.zero_grad()
        focused.train().loss(batch(spans)).total.backward()
        optimiser.step()
    after = focused.eval().structure(closed()).values[0, 0, 1]
    assert after > max(before, 0.8)


def closed() -> TokenBatch:
    tokens = torch.tensor([[1], [3], [5], [7], [4], [2]])
    return TokenBatch(tokens, tokens, torch.tensor([6]))


def test_sets_of_spans_are_joined_sentence_by_sentence():
    one = spans_of_lists([[(0, 2)], [], [(1, 3)]], [3, 2, 4])
    other = spans_of_lists([[(0, 2), (1, 3)], [], [(0, 2)]], [3, 2, 4])
    found = union([one, other])
    assert np.diff(found.offsets).tolist() == [3, 0, 2]
    assert found.starts.tolist() == [0, 0, 1, 1, 0]
    assert found.ends.tolist() == [2, 2, 3, 3, 2]


def test_the_command_goes_from_text_to_a_focused_grammar_and_resumes(recipe, few, tmp_path):
    folder = tmp_path / "focused"
    stop = []

    def stopping(one):
        def watch(event):
            if not stop and event.kind == "step":
                stop.append(event)
                signal.raise_signal(signal.SIGTERM)

        return nullcontext(watch)

    assert "Resume with the same command" in str(focus(recipe, folder, FocusOptions(seeds=2), stopping))
    result = focus(recipe, folder, FocusOptions(seeds=2), watching)
    assert result.parsers == ["seed-1", "seed-2"]
    lines = (few / "train.txt").read_text().splitlines()
    trees = (folder / "trees" / "average.mrg").read_text().splitlines()
    assert result.average == folder / "average"
    assert trees == parse_lines(read_model(result.average), lines).brackets()
    parsers = [read_model(folder / "parsers" / name) for name in result.parsers]
    read_as_is = ParseOptions(**AS_WRITTEN)
    assert trees == [
        line for parses in parse_text(parsers, few / "train.txt", read_as_is) for line in parses.brackets()
    ]
    assert json.loads((folder / AGREEMENT).read_text())["models"] == ["seed-1", "seed-2"]
    assert read_model(folder / "focused").settings.model.focus == 5.0
    assert result.focused.valid.source == str(few / "valid.txt")
    made = {path: path.stat().st_mtime_ns for path in folder.rglob("*.mrg")}
    said = []
    again = focus(recipe, folder, FocusOptions(seeds=2), watching, said.append)
    assert [line.startswith("agreement in unlabelled F1") for line in said].count(True) == 1
    assert [line for line in said if line.endswith("finished")] == [
        f"{path}: finished" for path in (*(folder / "parsers" / name for name in result.parsers), folder / "focused")
    ]
    assert str(again) == f"{again.focused}\naverage: {folder / 'average'}"
    assert again.focused.valid == result.focused.valid
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*.mrg")} == made, "nothing is parsed twice"
    with pytest.raises(InputError, match=r"holds a run with other settings(.|\n)*move .*focused away first"):
        focus(recipe, folder, FocusOptions(seeds=2, strength=3.0), watching)
    (folder / "trees" / "average.json").unlink()  # of a killed process: the trees are written again, the same
    focus(recipe, folder, FocusOptions(seeds=2), watching)
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*.mrg")}.keys() == made.keys()
    made = {path: path.stat().st_mtime_ns for path in folder.rglob("*.mrg")}
    (folder / "focused").rename(tmp_path / "earlier")
    assert focus(recipe, folder, FocusOptions(seeds=2, strength=3.0), watching).focused.valid != result.focused.valid
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*.mrg")} == made


def is_free(folder) -> bool:
    """Return whether no process trains in a folder."""
    try:
        with locked(folder):
            return True
    except InputError:
        return False


@pytest.mark.long
@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
@pytest.mark.parametrize("number", [signal.SIGTERM, getattr(signal, "SIGKILL", 0)])
def test_a_signal_to_the_command_alone_stops_the_trainings_in_its_processes_and_starts_no_further_one(
    few, tmp_path, number
):
    data = few.recipe_data("lstm", batches={"token_budget": 64}, schedule={"epochs": 100_000}) | {"model": PCFG}
    (tmp_path / "recipe.yaml").write_text(yaml_text(data))
    options = ["recipe.yaml", "-o", "run", "--seeds", "3", "--jobs", "2"]
    command = [sys.executable, "-m", "syntaxlm", "focus", *options]
    first, second, third = (tmp_path / "run" / "parsers" / f"seed-{seed}" for seed in (1, 2, 3))

    def wait_for(condition) -> None:
        deadline = time.monotonic() + 60
        while not condition():
            assert time.monotonic() < deadline, "nothing happened"
            time.sleep(0.1)

    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as process:
        try:
            wait_for(lambda: all((run / CHECKPOINT).exists() for run in (first, second)))
            process.send_signal(number)
            assert process.wait(60) == (-number if number == signal.SIGKILL else 128 + number)
            wait_for(lambda: is_free(first) and is_free(second))
            assert "Traceback" not in process.stderr.read()
        finally:
            process.kill()
    assert not third.exists()


@pytest.mark.long
def test_further_models_take_part(recipe, few, tmp_path):
    train(few.recipe("prpn", schedule={"epochs": 1}), tmp_path / "prpn")
    train(few.recipe("prpn", schedule={"epochs": 1}, run={"seed": 2}), tmp_path / "other" / "seed-1")
    also = [tmp_path / "prpn", tmp_path / "other" / "seed-1"]
    result = focus(recipe, tmp_path / "focused", FocusOptions(seeds=1, also=also), watching)
    assert result.parsers == ["seed-1", "prpn", str(also[1])]
    assert result.average is None, "distances cannot be combined with a grammar in one model"
    assert (tmp_path / "focused" / "trees" / "average.mrg").exists()


@pytest.mark.long
def test_variants_may_have_fewer_seeds_than_the_recipe(recipe, tmp_path, monkeypatch):
    groups = []
    monkeypatch.setattr(Agreement, "reasons_to_omit", lambda self, of_kind: groups.extend(of_kind) or {})
    options = FocusOptions(seeds=3, variants=[{"model.end_bias": 0.0}, {"model.nonterminals": 4}], variant_seeds=1)
    result = focus(recipe, tmp_path / "run", options, watching)
    assert result.parsers == ["seed-1", "seed-2", "seed-3", "variant-1-seed-1", "variant-2-seed-1"]
    assert groups == [[0, 1, 2], [3], [4]]


@pytest.mark.long
def test_variants_are_trained_several_at_a_time_within_the_minutes(recipe, tmp_path):
    variants = [{"model.end_bias": 0.0}, [("model.nonterminals", "4"), ("run.seed", "7")]]
    options = FocusOptions(seeds=1, variants=variants, jobs=2, minutes=30)
    result = focus(recipe, tmp_path / "run", options, watching)
    assert result.parsers == ["seed-1", "variant-1-seed-1", "variant-2-seed-7"]
    trained = [read_recipe(tmp_path / "run" / "parsers" / name / "recipe.yaml") for name in result.parsers]
    assert [one.model.end_bias for one in trained] == [1, 0, 1]
    assert [one.model.nonterminals for one in trained] == [6, 6, 4]
    assert [one.schedule.minutes for one in trained] == pytest.approx([30 * 0.85 / 3] * 3)
    assert len(read_model(result.average).settings.model.parsers) == 3
    message = r"seed-1: already holds a run with other settings: schedule\.minutes(.|\n)*follows from --minutes, --jobs"
    with pytest.raises(InputError, match=message):
        focus(recipe, tmp_path / "run", replace(options, minutes=20), watching)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"variant_seeds": 2}, "--variant-seeds: found without --variant"),
        ({"variants": [{"run.seed": 3}]}, "variant 1 has the same settings as the recipe"),
        (
            {"variants": [{"model.nonterminals": 4}, {"model.nonterminals": 4, "run.seed": 2}]},
            "variant 2 has the same settings",
        ),
        ({"variants": [{"text.train": "other.txt"}]}, "found text.train"),
        ({"seeds": 0}, "found 0 parsers"),
    ],
)
def test_options_that_train_the_same_or_nothing_are_refused(recipe, tmp_path, options, message):
    with pytest.raises(InputError, match=message):
        focus(recipe, tmp_path / "run", FocusOptions(**options), watching)
    assert not (tmp_path / "run").exists()


def test_parsers_that_are_trained_further_are_refused(recipe, tmp_path):
    further = replace(recipe, text=replace(recipe.text, weights="en-fast"))
    with pytest.raises(InputError, match=r"text\.weights: found en-fast; expected null, because the parsers of focus"):
        focus(further, tmp_path / "run", FocusOptions(), watching)


@pytest.mark.long
def test_very_long_sentences_get_a_flat_tree(recipe, few, tmp_path):
    lines = (few / "train.txt").read_text(encoding="utf-8").splitlines()
    long = "the ( cat " * 60
    text = tmp_path / "long.txt"
    text.write_text("\n".join([*lines[:3], long, "", *lines[3:]]), encoding="utf-8")
    said = []
    recipe = replace(recipe, text=replace(recipe.text, train=str(text)))
    result = focus(recipe, tmp_path / "run", FocusOptions(seeds=2), watching, said.append)
    assert not result.stopped, "the focused grammar reads the trees beside the text"
    trees = read_brackets(tmp_path / "run" / "trees" / "average.mrg")
    assert len(trees) == len(lines) + 1
    assert trees[3].words == tuple(long.split())
    assert len(trees[3].constituents) == 1
    assert max(len(tree.constituents) for tree in trees[4:]) > 1
    assert any("1 sentence of more than 150 words are not parsed" in line for line in said)


@pytest.fixture
def student():
    small = {"model.embedding_size": 8, "model.hidden_size": 8, "model.layers": 1, "schedule.epochs": 1}
    return read_recipe("span-parser-text", small)


def test_a_student_learns_from_the_average_and_is_resumed_with_the_other_parsers(recipe, few, student, tmp_path):
    folder, options = tmp_path / "run", FocusOptions(seeds=2, student=student)
    result = focus(recipe, folder, options, watching)
    assert str(result.student) in str(result)
    bundle = read_model(folder / "student")
    assert bundle.normaliser == read_model(folder / "focused").normaliser
    (parse,) = parse_lines(bundle, ["the dog sleeps in the house"])
    assert len(parse.tree) == 6
    text = read_recipe(folder / "student" / "recipe.yaml").text
    assert (text.focus, text.focus_valid) == tuple(
        (str(folder / "trees" / name),) for name in ("average.mrg", "average-valid.mrg")
    )
    assert result.student.criterion.value > 0
    assert read_model(result.learned).settings.model.parsers[1] == bundle.settings.model
    assert str(result.learned) in str(result)
    assert focus(recipe, folder, options, watching).student.criterion == result.student.criterion


def test_the_student_is_trained_on_the_device_of_the_command(refused, tmp_path, monkeypatch):
    asked = []

    def stop(recipe, folder, options, *others):
        asked.append((recipe, options.student))
        raise InputError("enough")

    monkeypatch.setattr("syntaxlm.comparison.focus.focus", stop)
    words = ["focus", "simple-pcfg-text", "--student", "span-parser-text", "--device", "cpu"]
    assert "enough" in refused(*words, "-o", tmp_path / "run")
    assert [each.run.accelerator for each in asked[0]] == ["cpu", "cpu"]


def test_a_language_model_learns_from_text_and_the_trees_of_the_average(recipe, few, tmp_path):
    """It reads a word that the parsers drop, so that their trees must have it."""
    normaliser = replace(recipe.text.normaliser, drop_words=("not",))
    normaliser = replace(normaliser, splitting="punctuation")
    recipe = replace(recipe, text=replace(recipe.text, normaliser=normaliser, test=str(few / "valid.txt")))
    settings = {"model.embedding_size": 8, "model.hidden_size": 8, "model.layers": 1, "schedule.epochs": 1}
    student = read_recipe("lstm-trees-text", settings | {"text.normaliser": {"numbers": "whole"}})
    result = focus(recipe, tmp_path / "run", FocusOptions(seeds=2, student=student), watching)
    assert result.learned is None, "a language model has no place in a combination of parsers"
    bundle = read_model(result.student.folder)
    assert bundle.settings.normaliser == replace(student.text.normaliser, splitting="punctuation")
    assert bundle.normaliser != read_model(tmp_path / "run" / "focused").normaliser
    (parse,) = parse_lines(bundle, ["the dog sleeps in the house"])
    assert len(parse.tree) == 6
    trees = read_treebank(tmp_path / "run" / "trees" / "average.mrg", "none")
    lines = (few / "train.txt").read_text().splitlines()
    assert ["".join(sentence.words) for sentence in trees] == [line.replace(" ", "") for line in lines]
    assert any("not" in line for line in lines)
    assert not (tmp_path / "run" / "trees" / "average-valid.mrg").exists()
    assert result.student.test.source == str(few / "valid.txt")


@pytest.mark.long
def test_seeds_of_a_parser_that_is_no_grammar_have_an_average_and_a_student(few, student, tmp_path):
    recipe = few.recipe("prpn", schedule={"epochs": 1})
    result = focus(recipe, tmp_path / "run", FocusOptions(seeds=2), watching)
    assert (result.focused, result.average, result.stopped) == (None, None, False)
    assert str(result) == f"average: {tmp_path / 'run' / 'trees' / 'average.mrg'}"
    again = focus(recipe, tmp_path / "run", FocusOptions(seeds=2, student=student), watching)
    assert again.student.folder == tmp_path / "run" / "student"


@pytest.mark.long
def test_an_outlier_is_omitted_unless_all_parsers_are_kept(recipe, tmp_path, monkeypatch):
    monkeypatch.setattr(Agreement, "reasons_to_omit", lambda self, groups: {1: "it is odd"})
    said = []
    result = focus(recipe, tmp_path / "two", FocusOptions(seeds=3), watching, said.append)
    assert result.to_dict()["omitted"] == {"seed-2": "it is odd"}
    assert "seed-2: omitted, it is odd" in said
    assert len(read_model(result.average).settings.model.parsers) == 2
    stored = [(path, path.read_bytes()) for path in (tmp_path / "two").rglob("*") if path.is_file()]
    with pytest.raises(
        InputError, match=r"two/focused: was trained on the trees of other parsers\. Move this folder away"
    ):
        focus(recipe, tmp_path / "two", FocusOptions(seeds=3, keep_all=True), watching)
    assert all(path.read_bytes() == content for path, content in stored)


@pytest.mark.long
def test_more_parsers_than_the_focused_grammar_has_learned_from_are_refused_before_training(recipe, tmp_path):
    focus(recipe, tmp_path, FocusOptions(seeds=2), watching)
    with pytest.raises(InputError, match="focused: was trained on the trees of other parsers"):
        focus(recipe, tmp_path, FocusOptions(seeds=3), watching)
    assert not (tmp_path / "parsers" / "seed-3").exists()
    (tmp_path / "focused").rename(tmp_path / "earlier")
    assert len(focus(recipe, tmp_path, FocusOptions(seeds=3, keep_all=True), watching).parsers) == 3


def test_a_parser_is_the_same_under_another_path(recipe, tmp_path):
    link = tmp_path / "link"
    link.symlink_to(bundled_folder("en-fast"))
    with pytest.raises(InputError, match=r"--also: found .*link twice; expected each parser once"):
        focus(recipe, tmp_path / "new", FocusOptions(seeds=1, also=["en-fast", link]), watching)
    assert not (tmp_path / "new").exists()


def test_a_parser_with_the_name_of_a_seed_has_its_path_as_its_name(recipe, tmp_path, monkeypatch):
    (tmp_path / "seed-1").symlink_to(bundled_folder("en-fast"))
    monkeypatch.chdir(tmp_path)
    plan = _plan_parsers(recipe, tmp_path / "new", FocusOptions(seeds=1, also=["seed-1"]))
    assert list(plan.folders) == ["seed-1", str(tmp_path / "seed-1")]


def test_what_cannot_be_focused_is_refused_before_anything_is_trained(recipe, few, tmp_path):
    folder = tmp_path / "new"
    with pytest.raises(InputError, match="found 1 parser; expected two or more"):
        focus(recipe, folder, FocusOptions(seeds=1), watching)
    with pytest.raises(InputError, match=r"model\.name: lstm models do not parse; expected a parser"):
        focus(few.recipe("lstm"), folder, FocusOptions(seeds=2), watching)
    with pytest.raises(
        InputError, match="--student: prpn models with these settings do not learn from trees; expected"
    ):
        focus(recipe, folder, FocusOptions(seeds=2, student=few.recipe("prpn")), watching)
    with pytest.raises(InputError, match=r"--also: found .*new/parsers/seed-1 twice"):
        focus(recipe, folder, FocusOptions(seeds=1, also=[folder / "parsers" / "seed-1"]), watching)
    missing = replace(recipe, text=replace(recipe.text, valid=str(tmp_path / "missing.txt")))
    with pytest.raises(InputError, match=r"missing\.txt: cannot be read: No such file"):
        focus(missing, folder, FocusOptions(seeds=2), watching)
    empty = tmp_path / "empty.txt"
    empty.write_text("\n")
    with pytest.raises(InputError, match=r"empty\.txt: found no sentence"):
        focus(replace(recipe, text=replace(recipe.text, valid=str(empty))), folder, FocusOptions(seeds=2), watching)
    with pytest.raises(InputError, match="--strength: prpn models are not focused; omit it"):
        focus(few.recipe("prpn"), folder, FocusOptions(seeds=2, strength=1.0), watching)
    with pytest.raises(InputError, match="--variant: variant 1 has the same settings as the recipe"):
        focus(recipe, folder, FocusOptions(seeds=1, variants=[[]]), watching)
    with pytest.raises(InputError, match=r"model\.name: span-parser models learn from the trees of others"):
        focus(read_recipe("span-parser-text"), folder, FocusOptions(seeds=2), watching)
    train(few.recipe("lstm", schedule={"epochs": 1}), tmp_path / "lstm")
    with pytest.raises(InputError, match="this lstm model with these settings does not parse"):
        focus(recipe, folder, FocusOptions(seeds=1, also=[tmp_path / "lstm"]), watching)
    assert not folder.exists()


@pytest.mark.parametrize(
    ("model", "text", "fault"),
    [
        (
            {},
            {"focus_valid": ["a.mrg"]},
            r"text.focus_valid: found 1 files; expected none, because simple-pcfg models validate on text",
        ),
        ({"focus": 2.0}, {}, "model.focus: found 2.0; expected 0, or text.focus to learn from"),
        ({}, {"focus": ["a.mrg"]}, r"model.focus: found 0.0; expected .* to learn from text.focus \(\['a.mrg'\]\)"),
    ],
)
def test_strength_and_trees_belong_together(few, model, text, fault):
    data = few.recipe_data("lstm", text=text) | {"model": PCFG | model}
    with pytest.raises(InputError, match=fault):
        recipe_from(data, "recipe.yaml")


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ({"focus": [], "focus_valid": []}, "text.focus: found no files; expected trees of text.train, from which"),
        (
            {"focus_valid": ["a.mrg", "b.mrg"]},
            "text.focus_valid: found 2 files; expected 1, one for each of text.focus",
        ),
    ],
)
def test_a_span_parser_needs_trees_of_both_texts(text, fault):
    with pytest.raises(InputError, match=fault):
        read_recipe("span-parser-text", {"text": text})
