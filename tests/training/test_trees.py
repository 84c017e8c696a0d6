"""Dependency-tree models: training, and the commands that use them."""

from __future__ import annotations

import csv
import json
import math
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
import torch

from syntaxlm.api.model_report import write_report
from syntaxlm.cli import main
from syntaxlm.comparison.runs import compare
from syntaxlm.core.errors import InputError
from syntaxlm.core.files import sha256
from syntaxlm.data.dependencies import ROOT, DependencyCorpus
from syntaxlm.data.treebanks import dependency_trees
from syntaxlm.evaluation.perplexity import evaluate_text
from syntaxlm.scoring.engine import Scorer
from syntaxlm.scoring.surprisal import tree_log_probs, tree_surprisals
from syntaxlm.storage.folder import read_model
from syntaxlm.training.recipe import recipe_from
from syntaxlm.training.result import read_result
from syntaxlm.training.run import METRICS, Run, resume, train
from tests.training.runs import TREE_RNN, assert_resumes, stop_at, tree_data, tree_recipe, written
from tests.training.two_processes import in_two_processes

KINDS = {
    "tanh": {},
    "lstm": {"cell": "lstm", "dropout": 0.2},
    "labelled, nce": {"labelled": True, "loss": "nce", "shared_noise": True},
    "fresh noise": {"loss": "nce", "noise_words": 5},
}


@pytest.fixture(scope="module")
def folder(toy, tmp_path_factory) -> Path:
    """Of a trained model."""
    folder = tmp_path_factory.mktemp("trees") / "model"
    train(tree_recipe(toy, model={"labelled": True}, trees={"vocabulary": {"minimum_count": 3}}), folder)
    return folder


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=() if kind == "lstm" else pytest.mark.long) for kind in KINDS]
)
def test_a_run_interrupted_in_an_epoch_ends_bit_for_bit_as_one_that_was_not(toy, tmp_path, kind):
    recipe = tree_recipe(toy, model=KINDS[kind], schedule={"validations_per_epoch": 2})
    assert_resumes(train(recipe, tmp_path / "whole"), recipe, 5, with_optimiser=False)  # plain SGD has no state


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=() if kind == "tanh" else pytest.mark.long) for kind in KINDS]
)
def test_training_lowers_the_perplexity_of_the_softmax_far_under_that_of_chance(larger_toy, tmp_path, kind):
    optimiser = {"kind": "adam", "learning_rate": 0.02, "loss_normalisation": "tokens", "gradient_clip": 1.0}
    result = train(
        tree_recipe(larger_toy, model=KINDS[kind], optimiser=optimiser, schedule={"epochs": 6}), tmp_path / "run"
    )
    words = len(read_model(tmp_path / "run").vocabulary)
    assert result.test.perplexity < words / 3
    assert read_result(tmp_path / "run").test == result.test


def test_figures_are_of_words_without_ends_of_sentences(toy, folder):
    result, trees = read_result(folder), list(dependency_trees(toy / "test.conllu"))
    stored = read_model(folder)
    corpus = DependencyCorpus.read(toy / "test.conllu", stored.normaliser, stored.vocabulary, stored.labels)
    values = Scorer.of(stored).trees(corpus)
    assert result.test.tokens == len(values) == sum(map(len, trees))
    assert result.test.sentences == len(trees)
    assert result.test.nats == pytest.approx(-values.sum(), rel=1e-5)
    assert evaluate_text(stored, toy / "test.conllu").nats == pytest.approx(result.test.nats, rel=1e-5)
    by_tree = tree_log_probs(stored, corpus)
    assert len(by_tree) == len(trees)
    assert by_tree.sum() == pytest.approx(values.sum())
    assert by_tree[1] == pytest.approx(values[len(trees[0]) : len(trees[0]) + len(trees[1])].sum())
    assert "P(S | T)" in str(result.test)


def test_the_model_folder_has_words_and_labels_of_the_trees(toy, folder):
    stored = read_model(folder)
    counts: dict[str, int] = {}
    labels = set()
    for tree in dependency_trees(toy / "train.conllu"):
        labels |= set(tree.labels)
        for word in tree.words:
            counts[word] = counts.get(word, 0) + 1
    assert set(stored.vocabulary.tokens) == {word for word, count in counts.items() if count >= 3} | {ROOT, "<unk>"}
    assert stored.vocabulary.begin == stored.vocabulary.end == ROOT
    assert set(stored.labels.tokens) == labels | {ROOT, "<unk>"}
    assert not stored.settings.carry_state
    assert not stored.settings.predict_eos
    assert stored.trained_on == "dependency trees"
    assert stored.model.label_count == len(stored.labels)


def test_the_loss_may_be_a_mean_over_sentences_or_over_words(toy, tmp_path, monkeypatch):
    """One step of plain SGD without clipping: the gradients differ by the number of words per sentence."""
    steps = {}
    for loss_normalisation in ("tokens", "sentences"):
        optimiser = {"loss_normalisation": loss_normalisation, "gradient_clip": 1e9, "learning_rate": 1e-3}
        run = Run(tree_recipe(toy, optimiser=optimiser), tmp_path / loss_normalisation)
        with run.start():
            model = run.task.model
            batch = next(iter(run.loop.batches.iterate()))
            before = model.decoder.decoders[0].weight.detach().clone()
            run.loop._started = 0.0
            run.loop._step(batch)
            steps[loss_normalisation] = model.decoder.decoders[0].weight.detach() - before
    words = batch.token_count() / batch.sentence_count()
    assert words > 3
    torch.testing.assert_close(steps["sentences"], steps["tokens"] * words, rtol=1e-2, atol=1e-7)


def test_surprisals_of_words_stand_in_the_order_of_the_sentence_and_add_up_to_the_tree(toy, folder, tmp_path):
    stored, trees = read_model(folder), list(dependency_trees(toy / "test.conllu"))
    corpus = DependencyCorpus.from_trees(trees, stored.normaliser, stored.vocabulary, stored.labels)
    expected = tree_log_probs(stored, corpus) / -math.log(2)
    rows = list(tree_surprisals(stored, toy / "test.conllu"))
    for number, (tree, words, bits) in enumerate(zip(trees, rows, expected, strict=True), 1):
        assert tuple(row.word for row in words) == tree.words
        line = " ".join(tree.words)
        assert all(line[row.begin : row.end] == row.word and row.sentence == number for row in words)
        assert sum(row.surprisal for row in words) == pytest.approx(bits, rel=1e-5)
        assert all(row.in_vocabulary == (row.token != "<unk>") for row in words)
    assert any(not row.in_vocabulary for words in rows for row in words)
    output = tmp_path / "scores.tsv"
    assert main(["score", str(folder), str(toy / "test.conllu"), "-o", str(output)]) == 0
    with open(output, encoding="utf-8", newline="") as file:
        printed = [float(row["surprisal"]) for row in csv.DictReader(file, delimiter="\t")]
    np.testing.assert_allclose(printed, [row.surprisal for words in rows for row in words], atol=1e-5)


def test_evaluate_lm_reads_trees(toy, folder, capsys):
    assert main(["evaluate", "perplexity", str(folder), str(toy / "test.conllu"), "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["given_trees"] is True
    assert printed["perplexity"] == pytest.approx(read_result(folder).test.perplexity, rel=1e-5)


COMMANDS = {
    "parse": (["parse", "{model}", "{text}"], "does not parse"),
    "evaluate parse": (["evaluate", "parse", "{model}", "{trees}"], "does not parse"),
    "draw": (["draw", "{model}", "a dog sleeps", "-o", "{out}"], "does not parse"),
    "generate": (["generate", "{model}"], "syntaxlm tune stops {model} TRAIN --valid VALID"),
    "evaluate pairs": (["evaluate", "pairs", "{model}", "{pairs}"], "reads dependency trees"),
    "tune cache": (["tune", "cache", "{model}", "{text}"], "tune cache cannot use it"),
    "evaluate boundaries": (["evaluate", "boundaries", "{model}", "{text}"], "characters"),
    "evaluate perplexity, text": (["evaluate", "perplexity", "{model}", "{text}"], "expected a treebank"),
    "evaluate perplexity, stream": (
        ["evaluate", "perplexity", "{model}", "{text}", "--context", "carry"],
        "reads dependency trees",
    ),
    "evaluate perplexity, cache": (
        ["evaluate", "perplexity", "{model}", "{conllu}", "--cache-weight", "0.1", "--cache-theta", "1"],
        "a neural cache cannot use it",
    ),
    "score, text": (["score", "{model}", "{text}"], "expected a treebank"),
    "score, context": (["score", "{model}", "{conllu}", "--context", "carry"], "do not apply; expected only TEXT"),
}  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS)
def test_what_a_dependency_tree_model_cannot_do_is_reported(toy, folder, tmp_path, capsys, command):
    words, said = COMMANDS[command]
    pairs = tmp_path / "pairs.jsonl"
    pairs.write_text('{"sentence_good": "the dog sleeps", "sentence_bad": "the dog sleep"}\n')
    places = {
        "model": folder, "text": toy / "test.txt", "trees": toy / "test.mrg", "conllu": toy / "test.conllu",
        "pairs": pairs, "out": tmp_path / "out.svg",
    }  # fmt: skip
    assert main([word.format(**places) for word in words]) == 2
    error = capsys.readouterr().err
    assert "syntaxlm: error: " in error
    assert said.format(**places) in error


def test_a_model_of_text_reads_no_trees(toy, lstm):
    with pytest.raises(InputError, match=r"\.conllu, a treebank; expected plain text"):
        evaluate_text(lstm, toy / "test.conllu")
    with pytest.raises(InputError, match="this lstm model does not generate dependency trees"):
        list(tree_surprisals(lstm, toy / "test.conllu"))


@pytest.mark.parametrize(
    ("model", "sections", "said"),
    [
        (
            TREE_RNN,
            {"batches": {"context": "carry"}},
            "batches.context: no such setting. It belongs to recipes with batches.context: reset or",
        ),
        (TREE_RNN, {"trees": {"normaliser": {"units": "characters"}}}, "units: found characters; expected words"),
        ({"name": "lstm"}, {}, "model.name: found lstm, which learns from text; expected a section text in place of"),
        (TREE_RNN | {"noise_words": 0}, {}, "model.noise_words: found 0; expected an integer from 1 to 65,536"),
        (TREE_RNN | {"cell": "gru"}, {}, "model.cell"),
    ],
)
def test_contradictions_in_a_recipe_are_reported_before_anything_is_read(toy, model, sections, said):
    with pytest.raises(InputError, match=said):
        recipe_from(tree_data(toy, **sections) | {"model": model}, "recipe.yaml")


@pytest.mark.parametrize("part", ["train", "valid"])
def test_trees_without_labels_are_refused_where_the_model_reads_them_before_training(toy, tmp_path, part):
    lines = (toy / f"{part}.conllu").read_text(encoding="utf-8").splitlines()
    cells = [line.split("\t") for line in lines]
    bare = ["\t".join([*row[:7], "_", *row[8:]]) if len(row) == 10 else row[0] for row in cells]
    (tmp_path / "bare.conllu").write_text("\n".join(bare) + "\n", encoding="utf-8")
    text = {part: str(tmp_path / "bare.conllu")}
    with pytest.raises(InputError, match=r"bare\.conllu: found no label of an edge"):
        train(tree_recipe(toy, model={"labelled": True}, trees=text), tmp_path / "labelled")
    if part == "valid":
        train(tree_recipe(toy, trees=text, schedule={"epochs": 1}), tmp_path / "not")


def test_text_instead_of_trees_is_reported(toy, tmp_path):
    with pytest.raises(InputError, match=r"train\.txt"):
        train(tree_recipe(toy, trees={"train": str(toy / "train.txt")}), tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.long
def test_two_processes_stay_equal_each_with_its_own_trees(larger_toy, tmp_path):
    model, batches = {"labelled": True, "loss": "nce"}, {"batch_size": 8}
    recipe = written(tmp_path, tree_data(larger_toy, model=model, batches=batches, schedule={"epochs": 2}))
    output = in_two_processes(tmp_path, recipe, tmp_path / "run")
    first, second = ((output / f"weights-{rank}").read_text().splitlines() for rank in (0, 1))
    assert first == second
    assert len(first) == len(set(first)) > 20
    numbers, others = ((output / f"mask-{rank}").read_text().split()[1] for rank in (0, 1))
    assert numbers != others, "both processes draw the same noise"


def test_changed_labels_are_reported_when_a_run_is_resumed(toy, tmp_path):
    text = (toy / "train.conllu").read_text(encoding="utf-8")
    (tmp_path / "train.conllu").write_text(text, encoding="utf-8")
    train(tree_recipe(toy, trees={"train": str(tmp_path / "train.conllu")}), tmp_path / "run", stop_at(3))
    (tmp_path / "train.conllu").write_text(text.replace("\tnsubj\t", "\tsubject\t"), encoding="utf-8")
    with pytest.raises(InputError, match=r"train\.conllu: changed since the run started"):
        resume(tmp_path / "run")
    inputs = json.loads((tmp_path / "run" / "inputs.json").read_text())
    (file,) = inputs["sha256"]["trees.train"]
    inputs["sha256"]["trees.train"][file] = sha256([(tmp_path / "train.conllu").read_bytes()])
    (tmp_path / "run" / "inputs.json").write_text(json.dumps(inputs))
    expected = r"changed since the run started: its labels differ from those in .*labels\.json"
    with pytest.raises(InputError, match=expected):
        resume(tmp_path / "run")


@pytest.mark.long
def test_a_report_and_a_comparison_with_a_model_of_text_are_made(toy, tmp_path):
    recipes = {"trees": tree_recipe(toy, schedule={"epochs": 1}), "lstm": toy.recipe("lstm", schedule={"epochs": 1})}
    comparison = compare(recipes, tmp_path / "both", 1, lambda recipe: nullcontext(lambda event: None))
    assert not comparison.faults
    assert comparison.recipes[0].epoch_tokens == sum(map(len, dependency_trees(toy / "train.conllu")))
    assert any("words given their trees" in note for note in comparison.notes)
    report = write_report(tmp_path / "both" / "trees" / "seed-1", tmp_path / "page")
    page = report.path.read_text(encoding="utf-8")
    assert "words given their trees" in page
    assert "dependency trees" in page
    assert (tmp_path / "both" / "trees" / "seed-1" / METRICS).exists()
