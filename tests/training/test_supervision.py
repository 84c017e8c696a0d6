"""Training with trees of the text: PaLM-S, TreeReg, distances that are ranked."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from rich.console import Console

import syntaxlm
from syntaxlm.batches import SentenceBatches, StreamBatches
from syntaxlm.core.errors import InputError
from syntaxlm.data.corpora import EncodedCorpus
from syntaxlm.data.supervision import read_supervision
from syntaxlm.models.backbone import BackboneOutput, with_tree_states
from syntaxlm.models.batches import TokenBatch
from syntaxlm.models.structures import SpanScores
from syntaxlm.storage.folder import read_model
from syntaxlm.training import loop
from syntaxlm.training.language_model import TextTask
from syntaxlm.training.progress import ProgressDisplay
from syntaxlm.training.recipe import Recipe, StreamBatchSettings, read_recipe, recipe_from
from syntaxlm.training.result import RESULT, read_result
from syntaxlm.training.run import Event, Run, train
from syntaxlm.trees.spans import SpanSets
from tests.training.runs import assert_resumes, metrics, written
from tests.training.two_processes import in_two_processes

PALM = {
    "name": "palm", "embedding_size": 12, "layer_sizes": [16, 16, 12], "span_size": 8, "scorer_size": 8,
    "maximum_span": 5, "supervision": 1.0, "ar": 0.0, "tar": 0.0,
}  # fmt: skip
WITHOUT_DROPOUT = dict.fromkeys(("dropout", "layer_dropout", "input_dropout", "embedding_dropout", "weight_drop"), 0.0)


def data_of(toy, **sections) -> dict:
    data = toy.recipe_data("lstm", **{"text": {"trees": str(toy / "train.mrg")}} | sections)
    return data | {
        "model": (PALM if "name" not in sections.get("model", {}) else {"supervision": 1.0}) | sections.get("model", {})
    }


def recipe_of(toy, **sections) -> Recipe:
    return recipe_from(data_of(toy, **sections), "recipe.yaml")


STREAM = {"context": "carry", "batch_size": 16}


@pytest.mark.long
@pytest.mark.parametrize("batches", [pytest.param({}, marks=pytest.mark.long), STREAM], ids=["sentences", "stream"])
def test_the_loss_of_gold_spans_falls(larger_toy, tmp_path, monkeypatch, batches):
    forward, losses = loop.LossModule.forward, []

    def telling(self, *inputs):
        found = forward(self, *inputs)
        losses.append(float(found[1]["spans"].detach()))
        return found

    monkeypatch.setattr(loop.LossModule, "forward", telling)
    train(recipe_of(larger_toy, batches=batches, model=WITHOUT_DROPOUT, schedule={"epochs": 3}), tmp_path / "run")
    third = len(losses) // 3
    first, last = sum(losses[:third]), sum(losses[-third:])
    assert 0 < last < 0.9 * first


@pytest.mark.long
def test_in_text_never_seen_the_most_attended_span_is_a_constituent(larger_toy, tmp_path):
    """At four of five steps that follow one; in half of them it has two words, which is all that lengths alone tell."""
    sizes = {"embedding_size": 24, "layer_sizes": [32, 32, 24], "span_size": 24, "scorer_size": 16, "maximum_span": 15}
    train(
        recipe_of(larger_toy, model=sizes | WITHOUT_DROPOUT, schedule={"epochs": 12, "plateau_patience": 9}),
        tmp_path / "run",
    )
    stored = read_model(tmp_path / "run")
    text = EncodedCorpus.encode(larger_toy / "test.txt", stored.normaliser, stored.vocabulary)
    gold = read_supervision(larger_toy / "test.mrg", "ptb-keep", text, stored.normaliser, stored.vocabulary)
    right: dict[tuple[int, int, int], bool] = {}
    for number, batch in enumerate(
        SentenceBatches(text, stored.vocabulary, 512, False, 0, spans=gold.spans).iterate(0)
    ):
        with torch.no_grad():
            most = stored.model.structure(batch).values.argmax(-1) + 1
        for step, column, length in batch.spans.tolist():
            place = number, step, column
            right[place] = right.get(place, False) or int(most[step, column]) == length
    assert len(right) > 40
    assert sum(right.values()) > 0.8 * len(right)


@pytest.mark.long
@pytest.mark.parametrize(
    "batches",
    [pytest.param({"context": "reset"}, marks=pytest.mark.long), STREAM | {"variable_bptt": True}],
    ids=str,
)
def test_an_interrupted_run_with_trees_ends_bit_for_bit_as_one_that_was_not(toy, tmp_path, batches):
    recipe = recipe_of(toy, batches=batches, optimiser={"parser_learning_rate": 0.001})
    finished = train(recipe, tmp_path / "whole")
    assert_resumes(finished, recipe, 4, finished.steps // 2 + 3)


def test_weights_that_only_score_spans_have_an_adam_of_their_own_until_weights_are_averaged(toy, tmp_path):
    """In its first step, Adam moves every weight by the learning rate, whatever the gradient."""
    optimiser = {"kind": "sgd", "learning_rate": 0.5, "weight_decay": 0.0, "gradient_clip": 1e-9}
    averaged = {"parser_learning_rate": 0.01, "average_from_epoch": 1}
    steps = []

    def watch(event: Event) -> None:
        if event.kind == "step":
            steps.append({name: weight.detach().clone() for name, weight in run.task.model.named_parameters()})

    run = Run(recipe_of(toy, batches=STREAM, optimiser=optimiser | averaged, schedule={"epochs": 2}), tmp_path, watch)
    with run.start():
        before = {name: weight.detach().clone() for name, weight in run.task.model.named_parameters()}
        run.train()
    ends = run.loop.epoch_batches - 1
    for name in before:
        first, later = (steps[0][name] - before[name]).abs(), (steps[-1][name] - steps[ends][name]).abs()
        expected = 0.01 if name.startswith("backbone.attention.") and name.count(".") == 2 else 0.0
        assert float(first.max()) == pytest.approx(expected, rel=1e-3, abs=1e-6), name
        assert float(later.max()) < 1e-6, name


def test_a_second_optimiser_needs_weights_that_only_score_spans(toy, tmp_path):
    with pytest.raises(
        InputError, match=r"parser_learning_rate: found 0\.01; expected null, because this model has no weights"
    ):
        train(toy.recipe("lstm", optimiser={"parser_learning_rate": 0.01}), tmp_path / "run")


def test_the_run_reports_how_many_sentences_have_trees_and_which_differ(toy, tmp_path):
    lines = (toy / "train.txt").read_text().splitlines(True)
    (tmp_path / "train.txt").write_text("".join([*lines[:6], "something else\n", *lines[7:]]))
    recipe = recipe_of(toy, text={"train": str(tmp_path / "train.txt"), "trees": str(toy / "train.mrg")})
    console = Console(record=True, width=60)
    events: list[Event] = []

    def watch(event: Event) -> None:
        events.append(event)
        display(event)

    with ProgressDisplay(recipe, console) as display:
        result = train(recipe, tmp_path / "run", watch)
    assert [event.kind for event in events].index("trees") == 0
    printed = console.export_text()
    assert f"{toy.folder}/train.mrg: trees of 149 of 150 training sentences\n" in printed
    assert f"{tmp_path}/train.txt, line 7 and {toy.folder}/train.mrg, tree 7 differ from word 1 on\n" in printed
    assert {line["supervised"] for line in metrics(tmp_path / "run") if line["event"] == "valid"} == {149}
    assert "149 of 150 training sentences have a tree" in str(result)
    assert json.loads((tmp_path / "run" / RESULT).read_text())["supervised"] == {"sentences": 149, "of": 150}
    assert read_result(tmp_path / "run") == result


def test_a_run_without_trees_reports_none(toy, tmp_path):
    result = train(toy.recipe("lstm", schedule={"epochs": 1}), tmp_path / "run")
    assert read_result(tmp_path / "run") == result
    assert result.to_dict()["supervised"] is None
    assert "gold trees" not in str(result)
    assert not any("supervised" in line for line in metrics(tmp_path / "run"))


def test_trees_of_another_text_leave_the_folder_free_for_another_try(toy, tmp_path):
    with pytest.raises(InputError, match=r"valid\.mrg: found 15 trees for the 150 sentences of .*train\.txt"):
        train(recipe_of(toy, text={"trees": str(toy / "valid.mrg")}), tmp_path / "run")
    train(recipe_of(toy, schedule={"epochs": 1}), tmp_path / "run")
    assert read_model(tmp_path / "run").model.structure_type is SpanScores


def test_trees_without_a_model_that_learns_from_them_are_refused_and_the_other_way_round(toy):
    expected = r"model\.supervision: found 0\.0; expected a number above 0, to learn from text\.trees \(.*train\.mrg\)"
    with pytest.raises(InputError, match=expected):
        toy.recipe("lstm", text={"trees": str(toy / "train.mrg")})
    with pytest.raises(InputError, match=r"text\.trees: found .*; expected null, or a model type with"):
        recipe_from(toy.recipe_data(text={"trees": "train.mrg"}) | {"model": {"name": "simple-pcfg"}}, "recipe.yaml")
    with pytest.raises(InputError, match=expected):
        recipe_of(toy, model={"supervision": 0.0})
    with pytest.raises(InputError, match=r"model\.supervision: found 1\.0; expected 0, or text\.trees to learn from"):
        recipe_of(toy, text={"trees": None})


@pytest.mark.long
@pytest.mark.parametrize("batches", [{}, STREAM | {"batch_size": 4}], ids=["sentences", "stream"])
def test_two_processes_learn_from_the_trees_of_their_own_shares(larger_toy, tmp_path: Path, batches):
    """Without dropout, in stream mode: the gradient of both together is that of one process."""
    data = data_of(larger_toy, batches=batches, model=WITHOUT_DROPOUT, schedule={"epochs": 1})
    recipe, gradients = written(tmp_path, data), []

    def watch(event: Event) -> None:
        if event.trainer.steps == 1 and event.kind == "step":
            gradients.append({name: p.grad.clone() for name, p in run.task.model.named_parameters()})

    output = in_two_processes(tmp_path, recipe, tmp_path / "two")
    first, second = ((output / f"weights-{rank}").read_text().splitlines() for rank in (0, 1))
    assert first == second
    if batches:
        one = read_recipe(recipe)
        run = Run(one, tmp_path / "one", watch)
        with run.start():
            run.train()
        for name, gradient in torch.load(output / "gradient-0").items():
            torch.testing.assert_close(gradient, gradients[0][name], rtol=1e-4, atol=1e-6)


LEARNERS = {
    "lstm": {"model.embedding_size": 24, "model.hidden_size": 48},
    "transformer": {"model.embedding_size": 48, "model.heads": 2},
    "on-lstm": {"model.embedding_size": 24, "model.layer_sizes": [40, 40, 24], "model.chunk_size": 4},
    "prpn": {"model.embedding_size": 24, "model.hidden_size": 48},
}
"""Recipes of the built-in corpus whose models learn from trees by their states or distances, and sizes."""


def learner(name: str, toy, **overrides) -> Recipe:
    text = {f"text.{part}": str(toy / f"{part}.txt") for part in ("train", "valid", "test")}
    weights = {"model.supervision": 1.0, "text.trees": str(toy / "train.mrg")}
    return read_recipe(f"{name}-toy", LEARNERS[name] | text | weights | overrides)


LEARNED = [(name, False) for name in LEARNERS] + [("lstm", True)]


@pytest.mark.parametrize(
    ("name", "stream"), [pytest.param(*one, marks=() if one == LEARNED[0] else pytest.mark.long) for one in LEARNED]
)
def test_models_that_learn_from_trees_parse_like_them(name, stream, larger_toy, tmp_path):
    """Their decoder is the first; without trees it would be another one or none."""
    recipe = learner(name, larger_toy, **{"schedule.epochs": 12, "schedule.plateau_factor": 1.0})
    if stream:
        recipe = replace(recipe, batches=StreamBatchSettings(batch_size=4))
    train(recipe, tmp_path / "run")
    report = syntaxlm.load(tmp_path / "run").evaluate_parsing(larger_toy / "train.mrg")
    assert report.chosen == ("unbiased" if name in ("on-lstm", "prpn") else "greedy-sum")
    assert report.scores[report.chosen].f1 > report.baselines.right.f1 + 0.05


@pytest.mark.long
@pytest.mark.parametrize("name", ["transformer", pytest.param("prpn", marks=pytest.mark.long)])
def test_an_interrupted_run_with_few_trees_ends_bit_for_bit_as_one_that_was_not(name, toy, tmp_path):
    recipe = learner(name, toy, **{"schedule.epochs": 2, "text.trees_interval": 2, "text.trees_share": 0.5})
    finished = train(recipe, tmp_path / "whole")
    assert_resumes(finished, recipe, 1, finished.steps // 2 + 1)
    assert finished.supervised == (75, 150)


def test_a_stream_has_the_loss_of_the_sentences_in_it(toy):
    """The states are given: in a stream, those of the words are between those of EOS, which count for nothing."""
    text = {"trees": str(toy / "train.mrg")}
    batches = {"context": "carry", "batch_size": 1, "bptt": 65_536}
    recipe = recipe_of(toy, model={"name": "lstm", "supervision": 1.0}, batches=batches, text=text)
    task = TextTask(recipe, torch.device("cpu"))
    (stream,) = task.batches(0, 1).iterate(0)
    states = torch.randn(*stream.tokens.shape, 8, dtype=torch.float64)

    def loss(batch, hidden):
        output = BackboneOutput(hidden.flatten(0, 1), None)
        return with_tree_states(output, hidden, batch, 1.0, training=True).penalties["trees"]

    sentences = []
    places = [*torch.nonzero(stream.ends[:, 0])[:, 0].tolist(), len(stream.tokens)]  # BOS is an EOS, too
    for begin, end in pairwise(places):
        inside = (stream.spans[:, 0] > begin) & (stream.spans[:, 0] <= end)
        spans = stream.spans[inside] - torch.tensor([begin, 0, 0])
        tokens, counted = stream.tokens[begin:end], int((spans[:, 2] > 2).sum())
        one = TokenBatch(tokens, tokens, spans=spans)
        sentences.append((counted, loss(one, states[begin:end]) if counted else 0.0))
    assert len(sentences) == len(task.train)
    total = sum(count for count, _ in sentences)
    expected = sum(count * of_sentence for count, of_sentence in sentences) / total
    # The lengths of states, which cancel in the stream, are equal but for the 1e-6 in their norm.
    torch.testing.assert_close(loss(stream, states), expected, rtol=1e-5, atol=0)


@pytest.mark.parametrize("setting", [{"trees_share": 0.5}, {"trees_interval": 2}], ids=str)
def test_settings_of_trees_are_refused_without_trees(setting, toy):
    with pytest.raises(InputError, match=r"text\.trees_.*: found .*; expected 1, or text\.trees"):
        toy.recipe("lstm", text=setting)


@pytest.mark.parametrize("interval", [1, 3])
@pytest.mark.parametrize("batches", [{}, STREAM], ids=["sentences", "stream"])
def test_one_batch_in_an_interval_has_trees(batches, interval, toy):
    recipe = recipe_of(toy, batches=batches, text={"trees": str(toy / "train.mrg"), "trees_interval": interval})
    task = TextTask(recipe, torch.device("cpu"))
    with_trees = [batch.spans is not None for batch in task.batches(0, 1).iterate(0)]
    assert len(with_trees) > 3
    assert with_trees == [number % interval == 0 for number in range(len(with_trees))]
    assert [batch.spans is not None for batch in task.batches(0, 1).iterate(0, 2)] == with_trees[2:]


def test_whole_sentences_and_last_constituents_are_learned(toy):
    task = TextTask(learner("transformer", toy), torch.device("cpu"))
    batch = next(iter(task.batches(0, 1).iterate(0)))
    spans = {tuple(span) for span in batch.span_steps().tolist()}
    for column, steps in enumerate(batch.lengths.tolist()):
        if steps > 2:
            assert (column, 1, steps - 1) in spans


def test_a_model_of_decisions_needs_a_tree_of_every_training_sentence(toy):
    model = {"name": "tree-transformer"}
    with pytest.raises(InputError, match=r"text\.trees: found null; expected trees of text\.train, from which tree-tr"):
        recipe_of(toy, model=model, text={"trees": None})
    with pytest.raises(
        InputError, match=r"text\.trees_interval: found 2; expected 1, because tree-transformer models learn"
    ):
        recipe_of(toy, model=model, text={"trees_interval": 2})
    with pytest.raises(
        InputError, match=r"optimiser\.loss_normalisation: found sentences; expected tokens, because the"
    ):
        recipe_of(toy, model=model, optimiser={"loss_normalisation": "sentences"})


def given_trees(toy, **sections) -> Recipe:
    """A recipe whose model predicts words given the trees of all three texts."""
    names = {"trees": "train", "valid_trees": "valid", "test_trees": "test"}
    trees = {setting: str(toy / f"{name}.mrg") for setting, name in names.items()}
    defaults = {"batches": STREAM, "model": {"supervision": 0.0, "scores": "trees"}}
    return recipe_of(toy, **defaults | sections | {"text": trees | sections.get("text", {})})


def test_words_are_predicted_given_trees_in_training_and_evaluation(toy, tmp_path):
    recipe = given_trees(toy, schedule={"epochs": 1})
    result = train(recipe, tmp_path / "run")
    assert result.test.given_trees
    assert "P(S | T), words given their trees" in str(result)

    # The same perplexity, in one column, from the trees; other trees change it.
    stored = read_model(tmp_path / "run")
    text = EncodedCorpus.encode(toy / "test.txt", stored.normaliser, stored.vocabulary)
    gold = read_supervision(toy / "test.mrg", "ptb-keep", text, stored.normaliser, stored.vocabulary).spans
    none = SpanSets(text.lengths, np.zeros(len(text) + 1, np.int64), gold.starts[:0], gold.ends[:0])
    losses = []
    for spans in (gold, none):
        (batch,) = StreamBatches(text, stored.vocabulary, 1, 65_536, spans=spans).iterate(0)
        losses.append(-stored.model.token_log_probs(batch).log_probs.mean().item())
    assert result.test.loss == pytest.approx(losses[0], rel=1e-5)
    assert abs(losses[1] - losses[0]) > 1e-4
    with pytest.raises(InputError, match=r"found text without trees; expected both"):
        syntaxlm.load(tmp_path / "run").perplexity(toy / "test.txt")


@pytest.mark.parametrize("setting", ["trees", "valid_trees", "test_trees"])
def test_a_sentence_that_differs_from_its_tree_is_refused_if_the_model_reads_trees(toy, tmp_path, setting):
    name = {"trees": "train", "valid_trees": "valid", "test_trees": "test"}[setting]
    lines = (toy / f"{name}.mrg").read_text().splitlines()
    changed = tmp_path / "changed.mrg"
    changed.write_text("\n".join([*lines[:-1], "(S (NP (N other)) (VP (V words)))"]) + "\n")
    with pytest.raises(InputError, match=r"found 1 of [\d,]+ sentences that differ from their trees; expected a tree"):
        TextTask(given_trees(toy, text={setting: str(changed)}), torch.device("cpu"))


def test_a_part_of_the_text_has_its_part_of_the_trees(toy):
    task = TextTask(given_trees(toy), torch.device("cpu"))
    whole = task.valid.spans
    task.limit_evaluation(40)
    assert len(task.valid) < 15
    assert task.valid.spans.lengths.tolist() == task.valid.lengths.tolist()
    assert task.valid.spans.ends.tolist() == whole.select(range(len(task.valid))).ends.tolist()


def test_a_model_of_given_trees_needs_those_of_every_text_in_a_stream(toy):
    with pytest.raises(InputError, match=r"text\.valid_trees: found null; expected trees of text\.valid") as caught:
        given_trees(toy, batches={}, text={"valid_trees": None, "test": None, "trees_interval": 2})
    assert "text.test_trees: found" in str(caught.value)
    assert "text.trees_interval: found 2; expected 1: the model reads trees in every batch" in str(caught.value)
    assert "batches.context: found reset; expected carry" in str(caught.value)
    with pytest.raises(InputError, match=r"text\.test_trees: found .*; expected null: the model does not read trees"):
        recipe_of(toy, text={"test_trees": str(toy / "test.mrg")})
