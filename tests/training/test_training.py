"""Training runs: best weights, schedule, limits, seeds, errors."""

from __future__ import annotations

import dataclasses
import json
import math
import re
import statistics
import threading
import time
from contextlib import nullcontext, suppress
from io import StringIO
from pathlib import Path

import pytest
import torch
from rich.console import Console
from torch import nn

from syntaxlm.comparison.runs import SeedsResult, train_seeds
from syntaxlm.core.errors import InputError
from syntaxlm.core.files import locked
from syntaxlm.evaluation.perplexity import evaluate_text
from syntaxlm.models.config import TRAINING_SETTINGS
from syntaxlm.models.layers import AdaptiveEmbedding
from syntaxlm.models.registry import MODELS
from syntaxlm.storage.folder import read_model
from syntaxlm.training import language_model, loop, task
from syntaxlm.training.checkpoint import Plateau, TrainerState, read_trainer_state
from syntaxlm.training.loop import TRAINING_SHARE, build_optimisers
from syntaxlm.training.progress import Event, ProgressDisplay
from syntaxlm.training.recipe import OptimiserSettings, ScheduleSettings, recipe_from
from syntaxlm.training.result import CHECKPOINT, RESULT
from syntaxlm.training.run import METRICS, RECIPE, Run, read_run_recipe, resume, train
from tests.training.runs import assert_resumes, metrics


@pytest.mark.parametrize("model", ["prpn", "lstm"])
@pytest.mark.parametrize("context", ["reset", "carry"])
def test_the_training_loss_falls(toy, tmp_path, model, context):
    train(toy.recipe(model, batches={"context": context}, schedule={"epochs": 3}), tmp_path / "run")
    losses = [line["train_loss"] for line in metrics(tmp_path / "run", "valid")]
    assert losses[0] > losses[1] > losses[2]


def test_a_model_of_joined_sentences_reads_them_by_themselves_and_after_others(toy, tmp_path):
    result = train(toy.recipe("lstm", batches={"joined": 4}, schedule={"epochs": 3}), tmp_path / "run")
    losses = [line["train_loss"] for line in metrics(tmp_path / "run", "valid")]
    assert losses[0] > losses[1] > losses[2]
    assert not result.valid.mode.carry_state
    stored = read_model(tmp_path / "run")
    assert stored.mode.carry_state
    assert stored.vocabulary.begin_id == stored.vocabulary.end_id


def test_a_model_is_trained_further_on_another_text_with_its_own_vocabulary(few, tmp_path):
    train(few.recipe("lstm", schedule={"epochs": 1}), tmp_path / "first")
    stored = read_model(tmp_path / "first")
    (tmp_path / "new.txt").write_text("zebra " + (few / "valid.txt").read_text("utf-8"), "utf-8")
    data = few.recipe_data("lstm", batches={"token_budget": 64}, model={"dropout": 0.0})
    data["text"] |= {"train": str(tmp_path / "new.txt"), "weights": str(tmp_path / "first")}
    further = recipe_from(data, "recipe.yaml")

    task = language_model.TextTask(further, torch.device("cpu"))
    assert task.vocabulary == stored.vocabulary
    for name, weight in stored.model.state_dict().items():
        assert torch.equal(task.model.state_dict()[name], weight)
    before = evaluate_text(stored, data["text"]["valid"]).loss
    assert task.validate().cost == pytest.approx(before, abs=1e-6)

    finished = train(further, tmp_path / "further")
    assert read_model(tmp_path / "further").vocabulary == stored.vocabulary
    assert metrics(tmp_path / "further", "valid")[-1]["train_loss"] < before
    assert_resumes(finished, further, 2, finished.steps - 1)


def test_words_that_the_model_of_further_training_does_not_know_are_counted_in_a_warning(
    toy, trained, tmp_path, recwarn
):
    data = toy.recipe_data("lstm")
    lines = (toy / "train.txt").read_text("utf-8").splitlines()[:50]
    count = sum(len(line.split()) for line in lines)
    data["text"] |= {"train": str(tmp_path / "new.txt"), "weights": str(trained.lstm)}
    for words, expected in ((count // 10, []), (count // 8, [f"{count // 8:,} of {count + count // 8:,} words"])):
        (tmp_path / "new.txt").write_text("\n".join([*lines, "zebra " * words]) + "\n", encoding="utf-8")
        recwarn.clear()
        language_model.TextTask(recipe_from(data, "recipe.yaml"), torch.device("cpu"))
        warned = [str(one.message) for one in recwarn if "new.txt" in str(one.message)]
        assert [message.partition(": ")[2].partition(" are not")[0] for message in warned] == expected


def test_the_language_model_of_a_combination_is_trained_further(few):
    data = few.recipe_data("lstm", batches={"joined": 4})
    data["model"] = {"name": "lstm", **dataclasses.asdict(read_model("en").settings.model.scorer)}
    data["text"] |= {"weights": "en", "normaliser": {"lower_case": True, "numbers": "whole"}}
    task = language_model.TextTask(recipe_from(data, "recipe.yaml"), torch.device("cpu"))
    for name, weight in read_model("en").model.scorer.state_dict().items():
        assert torch.equal(task.model.state_dict()[name], weight)


@pytest.mark.parametrize(
    ("sections", "fault"),
    [
        (
            {"model": {"hidden_size": 7, "cutoffs": [5]}},
            r"model\.hidden_size: found 7; expected \d+\n  model\.cutoffs: ",
        ),
        ({"model": {"cutoffs": [5, 9]}}, r"  model\.cutoffs: found \[5, 9\]; expected \[\]$"),
        ({"text": {"normaliser": {"lower_case": True}}}, r"text\.normaliser\.lower_case: found true; expected false"),
        ({"batches": {"predict_eos": False}}, r"batches\.predict_eos: found false; expected true"),
        (
            {"batches": {"context": "carry"}},
            r"batches\.context: found \"carry\"; expected \"reset\"$",
        ),
        ({"batches": {"joined": 2}}, r"batches\.joined: found 2; expected 1$"),
        (
            {"text": {"embeddings": "en"}},
            r"text\.embeddings: found en; expected null, because weights, .*lstm, has emb",
        ),
    ],
)
def test_only_a_model_with_the_settings_of_the_recipe_is_trained_further(toy, trained, sections, fault):
    data = toy.recipe_data("lstm", **sections)
    data["text"] |= {"weights": str(trained.lstm)}
    with pytest.raises(InputError, match=fault):
        language_model.TextTask(recipe_from(data, "recipe.yaml"), torch.device("cpu"))


def test_settings_that_may_differ_in_further_training_are_those_of_model_types():
    settings = {name for model in MODELS.values() for name in model.config.__dataclass_fields__}
    assert settings >= TRAINING_SETTINGS


def test_a_model_of_another_type_is_not_trained_further(toy, trained, tmp_path):
    for model, fault in (
        (str(trained.prpn), r"text\.weights: .*prpn is of type prpn; expected lstm, as in model\.name"),
        (
            "no-model",
            "^no-model: no such model folder; expected a folder written by syntaxlm train, .* en, en-fast, is",
        ),
    ):
        data = toy.recipe_data("lstm")
        data["text"] |= {"weights": model}
        with pytest.raises(InputError, match=fault):
            train(recipe_from(data, "recipe.yaml"), tmp_path / "run")
        assert not (tmp_path / "run").exists()


def test_a_grammar_is_trained_further_without_the_trees_that_it_was_focused_on(few):
    config = read_model("en-fast").settings.model
    data = few.recipe_data("lstm") | {"model": dataclasses.asdict(config) | {"focus": 0.0, "end_bias": 1.0}}
    data["text"] |= {"weights": "en-fast", "normaliser": dataclasses.asdict(read_model("en-fast").settings.normaliser)}
    task = language_model.TextTask(recipe_from(data, "recipe.yaml"), torch.device("cpu"))
    for name, weight in read_model("en-fast").model.state_dict().items():
        assert torch.equal(task.model.state_dict()[name], weight)


@pytest.mark.parametrize(
    ("sections", "reason"),
    [
        ({"batches": {"predict_eos": False}}, "ends of sentences are not read"),
        ({"text": {"trees": "train.mrg"}, "model": {"supervision": 1.0}}, "trees are of single sentences"),
    ],
)
def test_sentences_are_joined_only_where_ends_are_read_between_them(toy, sections, reason):
    sections = sections | {"batches": {"joined": 2} | sections.get("batches", {})}
    with pytest.raises(InputError, match=rf"batches\.joined: found 2; expected 1, because .*{reason}"):
        toy.recipe("lstm", **sections)


@pytest.mark.parametrize(
    ("sections", "fault"),
    [
        (
            {"model": {"name": "structformer"}, "text": {"vocabulary": {"unknown_classes": 2}}},
            r"text\.vocabulary\.unknown_classes: found 2; expected 0, because structformer models predict known words",
        ),
        (
            {"model": {"name": "ngram"}, "batches": {"curriculum": [5]}},
            r"batches\.curriculum: found \[5\]; expected \[\], because ngram models count the same sentences",
        ),
    ],
)
def test_settings_of_data_that_a_model_would_read_otherwise_or_not_at_all_are_refused(toy, sections, fault):
    data = toy.recipe_data("lstm", **{name: values for name, values in sections.items() if name != "model"})
    with pytest.raises(InputError, match=fault):
        recipe_from(data | {"model": sections["model"]}, "recipe.yaml")


def test_the_result_is_the_score_of_the_kept_weights(toy, tmp_path):
    result = train(toy.recipe("prpn"), tmp_path / "run")
    stored = read_model(tmp_path / "run")
    assert evaluate_text(stored, toy / "test.txt").nats == pytest.approx(result.test.nats, rel=1e-6)
    assert min(line["valid_loss"] for line in metrics(tmp_path / "run", "valid")) == result.valid.loss
    assert json.loads((tmp_path / "run" / RESULT).read_text()) == json.loads(json.dumps(result.to_dict()))


def test_the_rate_falls_after_patience_validations_without_a_better_loss():
    settings = ScheduleSettings(plateau_patience=2, plateau_factor=0.5)
    plateau, losses = Plateau(), [3.0, 2.0, 2.0, 2.5, 1.0, 1.5, 0.5, 0.6, 0.5, 0.5, 0.5]
    fell = [plateau.seen(loss, settings) for loss in losses]
    assert fell == [False, False, False, True, False, False, False, False, True, False, True]
    assert plateau.scale == 0.125


def test_the_rate_may_fall_after_every_validation_once_the_loss_hardly_improves():
    settings = ScheduleSettings(
        plateau_patience=1, plateau_factor=0.5, plateau_threshold=0.01, plateau_repeats=True, epochs=9
    )
    plateau = Plateau()
    fell = [plateau.seen(loss, settings) for loss in (100.0, 90.0, 89.5, 60.0, 50.0)]
    assert fell == [False, False, True, True, True]  # from 90 to 89.5 is less than 1%
    assert plateau.scale == 0.125
    assert plateau.best == 50
    once = [Plateau().seen(float("inf"), ScheduleSettings()), plateau.seen(float("inf"), ScheduleSettings())]
    assert once == [False, False]


@pytest.mark.parametrize("start", [0.0, 0.5])
def test_a_linear_decay_begins_where_it_is_told_and_reaches_0_at_the_end_of_all_epochs(toy, tmp_path, start):
    schedule = {"epochs": 2, "decay": "linear", "decay_from": start, "validations_per_epoch": 4, "plateau_factor": 1.0}
    train(toy.recipe("lstm", schedule=schedule), tmp_path / "run")
    lines = metrics(tmp_path / "run", "valid")
    expected = [0.01 * min(1, (1 - line["epoch"] / 2) / (1 - start)) for line in lines]
    assert [line["learning_rate"] for line in lines] == pytest.approx(expected, rel=1e-3)
    assert [line["learning_rate"] == 0.01 for line in lines].count(True) == (4 if start else 0)
    assert (lines[-1]["epoch"], lines[-1]["learning_rate"]) == (2, 0)


def test_a_cosine_decay_ends_at_a_tenth_of_the_rate(toy, tmp_path):
    schedule = {"epochs": 2, "decay": "cosine", "validations_per_epoch": 2, "plateau_factor": 1.0}
    train(toy.recipe("lstm", schedule=schedule), tmp_path / "run")
    rates = [line["learning_rate"] for line in metrics(tmp_path / "run", "valid")]
    assert rates == pytest.approx(
        [0.01 * (0.55 + 0.45 * math.cos(math.pi * part / 4)) for part in (1, 2, 3, 4)], rel=0.02
    )
    assert rates[-1] == pytest.approx(0.001)


def test_adamw_decays_matrices_alone_and_apart_from_the_gradient():
    """With a gradient of 0, a weight is multiplied by 1 - rate * decay, or stays."""
    adaptive = AdaptiveEmbedding(vocabulary_size=6, size=4, cutoffs=(3,))
    adaptive.initialise(0.1)
    model = nn.ModuleDict({"embedding": nn.Embedding(3, 2), "linear": nn.Linear(2, 2), "adaptive": adaptive})
    before = {name: weight.detach().clone() for name, weight in model.named_parameters()}
    (optimiser,) = build_optimisers(model, OptimiserSettings(kind="adamw", learning_rate=0.1, weight_decay=0.5))
    for weight in model.parameters():
        weight.grad = torch.zeros_like(weight)
    optimiser.step()
    factors = {"embedding.weight": 1.0, "linear.weight": 0.95, "linear.bias": 1.0}
    factors |= {"adaptive.bands.0": 1.0, "adaptive.bands.1": 1.0, "adaptive.maps.0": 0.95}
    for name, weight in model.named_parameters():
        torch.testing.assert_close(weight.detach(), factors[name] * before[name])


def test_a_warm_up_raises_the_rate_evenly_from_0_in_its_steps(toy, tmp_path):
    recipe = toy.recipe("lstm", optimiser={"warmup_steps": 5}, schedule={"epochs": 1}, run={"log_steps": 1})
    train(recipe, tmp_path / "run")
    rates = [line["learning_rate"] for line in metrics(tmp_path / "run", "step")]
    assert len(rates) > 8
    assert rates == pytest.approx([0.01 * min(1, step / 5) for step in range(1, len(rates) + 1)])


def test_a_validation_in_the_warm_up_logs_the_rate_of_the_next_step(toy, tmp_path):
    train(toy.recipe("lstm", optimiser={"warmup_steps": 1000}, schedule={"epochs": 2}), tmp_path / "run")
    for line in metrics(tmp_path / "run", "valid"):
        assert line["learning_rate"] == pytest.approx(0.01 * (line["step"] + 1) / 1000)


def falsify(monkeypatch, losses):
    """Replaces the validation losses; returns the weights at each validation. Later scores are not changed."""
    evaluate, left, weights = language_model.evaluate_language_model, iter(losses), []

    def falsified(scorer, corpus):
        score, loss = evaluate(scorer, corpus), next(left, None)
        if loss is None:
            return score
        weights.append({name: tensor.clone() for name, tensor in scorer.model.state_dict().items()})
        return dataclasses.replace(score, nats=loss * score.tokens)

    monkeypatch.setattr(language_model, "evaluate_language_model", falsified)
    return weights


def spoil(monkeypatch, step, change):
    """Changes the loss of one step, counted from 1."""
    forward, calls = loop.LossModule.forward, []

    def spoiled(self, *inputs):
        nats, *rest = forward(self, *inputs)
        calls.append(None)
        return change(nats) if len(calls) == step else nats, *rest

    monkeypatch.setattr(loop.LossModule, "forward", spoiled)


@pytest.mark.parametrize(("keep", "kept"), [("best", 1), ("last", 3)])
def test_the_kept_weights_are_the_best_or_the_last(toy, tmp_path, monkeypatch, keep, kept):
    weights = falsify(monkeypatch, [4.0, 2.0, 3.0, 2.5])
    schedule = {"epochs": 2, "validations_per_epoch": 2, "plateau_patience": 9, "keep": keep}
    result = train(toy.recipe("lstm", schedule=schedule), tmp_path / "run")
    bundle = read_model(tmp_path / "run")
    same = [
        all(torch.equal(tensor, of_validation[name]) for name, tensor in bundle.model.state_dict().items())
        for of_validation in weights
    ]
    assert same == [number == kept for number in range(4)]
    lines = metrics(tmp_path / "run", "valid")
    assert [line["best"] for line in lines] == [True, True, False, False], "the best is the best, whatever is kept"
    assert result.valid.nats == pytest.approx(evaluate_text(bundle, toy / "valid.txt").nats)


def test_patience_counts_from_the_lowest_loss_where_the_last_weights_are_kept(toy, tmp_path, monkeypatch):
    falsify(monkeypatch, [4.0, 2.0, 3.0, 2.5, 2.25, 2.1])
    schedule = {"epochs": 3, "validations_per_epoch": 2, "stop_patience": 3, "keep": "last"}
    train(toy.recipe("lstm", schedule=schedule), tmp_path / "run")
    assert [line["best"] for line in metrics(tmp_path / "run", "valid")] == [True, True, False, False, False]


@pytest.mark.parametrize("watched", ["valid", "train"])
def test_the_plateau_is_that_of_the_loss_the_recipe_names(toy, tmp_path, monkeypatch, watched):
    """The validation loss is made to rise while the training loss falls."""
    falsify(monkeypatch, [5.0, 6.0, 7.0])
    schedule = {"epochs": 3, "plateau_loss": watched, "plateau_patience": 1, "plateau_factor": 0.5}
    train(toy.recipe("lstm", schedule=schedule), tmp_path / "run")
    fell = [line["rate_fell"] for line in metrics(tmp_path / "run", "valid")]
    rates = [line["learning_rate"] for line in metrics(tmp_path / "run", "valid")]
    assert fell == ([False, True, True] if watched == "valid" else [False, False, False])
    assert rates == ([0.01, 0.005, 0.0025] if watched == "valid" else [0.01, 0.01, 0.01])


def test_a_limit_of_minutes_ends_a_run_with_a_validation(toy, tmp_path):
    """The time is counted from the start of the command, so that reading the data is within the limit."""
    minutes = 0.01
    began = time.monotonic()
    result = train(toy.recipe("lstm", schedule={"epochs": 10_000, "minutes": minutes}), tmp_path / "run")
    assert time.monotonic() - began >= 60 * minutes * TRAINING_SHARE
    assert not result.stopped
    assert result.seconds < 30
    assert result.epochs < 10_000
    assert result.valid.perplexity > 1
    assert metrics(tmp_path / "run", "valid")[-1]["step"] == result.steps
    again = resume(tmp_path / "run")
    assert (again.steps, again.epochs) == (result.steps, result.epochs)


@pytest.mark.long
def test_minutes_bound_evaluation_to_the_first_sentences_that_fit_also_when_resumed(toy, tmp_path, monkeypatch):
    monkeypatch.setattr(loop, "_VALID_WORDS_PER_TRAINED", 1e-4)
    recipe = toy.recipe("lstm", schedule={"epochs": 10_000, "minutes": 0.02})
    result = train(recipe, tmp_path / "run")
    state = read_trainer_state(tmp_path / "run")
    assert state.valid_words == resumed(tmp_path / "run").log.trainer.valid_words
    for score in (result.valid, result.test):
        assert re.search(r"\.txt \(the first \d+ sentences( of up to \d+ words)?, of \d+\)", score.source)
        assert re.search(r"; only the first \d+ sentences.*, of \d+$", str(score))
        assert score.characters > score.tokens
    whole = train(toy.recipe("lstm", schedule={"epochs": 1}), tmp_path / "whole")
    assert result.valid.tokens < whole.valid.tokens / 4
    assert read_trainer_state(tmp_path / "whole").valid_words is None


def resumed(folder):
    run = Run(read_run_recipe(folder), folder)
    with run.resume():
        return run


@pytest.mark.long
def test_the_rate_falls_by_the_time_that_has_passed_if_it_is_limited(toy, tmp_path):
    schedule = {"epochs": 10_000, "minutes": 0.05, "decay": "linear"}
    train(toy.recipe("lstm", schedule=schedule, run={"log_steps": 1}), tmp_path / "run")
    rates = [line["learning_rate"] for line in metrics(tmp_path / "run", "step")]
    assert rates == sorted(rates, reverse=True)
    assert rates[-1] < 0.2 * rates[0]


def test_the_expected_duration_is_reported_once(toy, tmp_path, monkeypatch):
    monkeypatch.setattr(loop, "_ESTIMATE_AFTER", 0.0)
    events = []
    train(toy.recipe("lstm", schedule={"epochs": 2}), tmp_path / "run", events.append)
    (plan,) = [event.values for event in events if event.kind == "plan"]
    steps = [event for event in events if event.kind == "step"]
    assert plan["steps"] == len(steps) - 1
    assert plan["count"] > 0 < plan["minutes"]


def test_a_duration_that_is_known_only_at_the_last_step_is_reported(toy, tmp_path, monkeypatch):
    monkeypatch.setattr(loop, "_ESTIMATE_AFTER", 0.0)
    events = []
    batches, schedule = {"token_budget": 1_000_000}, {"epochs": 1, "minutes": 5}
    assert train(toy.recipe("lstm", batches=batches, schedule=schedule), tmp_path / "run", events.append).steps == 1
    (plan,) = [event.values for event in events if event.kind == "plan"]
    assert plan == {"steps": 0, "count": 0, "minutes": 0.0}


def test_a_step_that_passes_the_end_of_the_time_is_reported_as_the_last(toy, tmp_path, monkeypatch):
    step, events, out = loop.GradientLoop._step, [], StringIO()

    def slowly(self, batch):
        time.sleep(0.3)
        step(self, batch)

    monkeypatch.setattr(loop.GradientLoop, "_step", slowly)
    monkeypatch.setattr(loop, "_ESTIMATE_AFTER", 0.0)
    recipe = toy.recipe("lstm", schedule={"epochs": 100, "minutes": 0.2 / 60 / TRAINING_SHARE})
    with ProgressDisplay(recipe, Console(file=out)) as display:
        result = train(recipe, tmp_path / "run", lambda event: events.append(event) or display(event))
    (plan,) = [event.values for event in events if event.kind == "plan"]
    assert (result.steps, plan) == (1, {"steps": 0, "count": 0, "minutes": 0.0})
    assert "no more steps: the schedule ends here\n" in out.getvalue()
    assert "about" not in out.getvalue()


def test_the_expected_number_of_tokens_is_right_after_the_first_epoch(toy, tmp_path, monkeypatch):
    events = []

    def watch(event):
        events.append(event)
        if event.kind == "valid":  # the mean loss starts anew
            monkeypatch.setattr(loop, "_ESTIMATE_AFTER", 0.0)

    train(toy.recipe("lstm", schedule={"epochs": 3}), tmp_path / "run", watch)
    (plan,) = [event.values for event in events if event.kind == "plan"]
    tokens = sum(len(line.split()) + 1 for line in (toy / "train.txt").read_text().splitlines())
    steps = sum(event.kind == "step" for event in events) / 3
    assert plan["count"] / plan["steps"] == pytest.approx(tokens / steps, rel=0.1)


@pytest.mark.parametrize(("seconds", "is_slow"), [(0.01, True), (60.0, False)])
def test_a_slow_first_step_is_reported_before_it_ends(toy, tmp_path, monkeypatch, seconds, is_slow):
    monkeypatch.setattr(task, "_REPORT_SLOW_AFTER", seconds)
    step, out, kinds = loop.GradientLoop._step, StringIO(), []

    def slow_at_first(self, batch):
        time.sleep(0 if self.log.trainer.steps else 0.5)
        step(self, batch)

    monkeypatch.setattr(loop.GradientLoop, "_step", slow_at_first)
    recipe = toy.recipe("lstm", schedule={"epochs": 2})
    with ProgressDisplay(recipe, Console(file=out)) as display:
        result = train(recipe, tmp_path / "run", lambda event: kinds.append(event.kind) or display(event))
    after = [kind for kind in kinds if kind != "building"]  # on a busy machine, this is slow as well
    assert [place for place, kind in enumerate(after) if kind == "slow"] == [0] * is_slow
    line = f"the first of about {result.steps:,} steps takes long: the model has {result.parameters:,} parameters"
    assert (line in out.getvalue()) == is_slow


@pytest.mark.parametrize("seconds", [0.2, 60.0])
def test_slow_building_of_weights_is_reported_and_slow_reading_is_not(toy, tmp_path, monkeypatch, seconds):
    def slowly(work):
        return lambda *arguments: time.sleep(0.5) or work(*arguments)

    monkeypatch.setattr(task, "_REPORT_SLOW_AFTER", seconds)
    monkeypatch.setattr(language_model, "check_memory", slowly(language_model.check_memory))
    out, kinds = StringIO(), []
    recipe = toy.recipe("lstm", schedule={"epochs": 1})
    for name in ("quick", "slow"):
        with ProgressDisplay(recipe, Console(file=out)) as display:
            train(recipe, tmp_path / name, lambda event: kinds.append(event.kind) or display(event))
        is_reported = name == "slow" and seconds < 1
        assert ("building" in kinds) == ("building the weights takes long" in out.getvalue()) == is_reported
        monkeypatch.setattr(language_model, "build_model", slowly(language_model.build_model))


def test_no_thread_waits_for_slow_training_after_its_end():
    """A thread that still runs when Python ends can abort it, after Ctrl-C for instance."""
    for _ in range(20):
        before = set(threading.enumerate())
        with suppress(KeyboardInterrupt), loop.if_slow(lambda: None):
            raise KeyboardInterrupt
        assert set(threading.enumerate()) == before


def test_validations_fall_evenly_into_an_epoch_and_on_its_end(toy, tmp_path):
    train(toy.recipe("lstm", schedule={"epochs": 1, "validations_per_epoch": 3}), tmp_path / "run")
    shares = [line["epoch"] for line in metrics(tmp_path / "run", "valid")]
    assert len(shares) == 3
    assert shares[-1] == 1
    assert shares[0] == pytest.approx(1 / 3, abs=0.1)


def test_more_validations_than_batches_are_one_a_batch(toy, tmp_path):
    recipe = toy.recipe("lstm", schedule={"epochs": 1, "validations_per_epoch": 1000})
    assert train(recipe, tmp_path / "run").steps == len(metrics(tmp_path / "run", "valid"))


def test_seeds_make_a_folder_each_and_their_mean_and_deviation(toy, tmp_path):
    recipe = toy.recipe("lstm", schedule={"epochs": 1}, run={"seed": 4})
    result = train_seeds(recipe, tmp_path, 3, lambda one: nullcontext(lambda event: None))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["seed-4", "seed-5", "seed-6"]
    perplexities = [run.test.perplexity for run in result.runs]
    assert len(set(perplexities)) == 3
    figures = result.to_dict()["test_perplexity"]
    assert figures["mean"] == pytest.approx(statistics.mean(perplexities))
    assert figures["std"] == pytest.approx(statistics.stdev(perplexities))
    assert "3 seeds" in str(result)
    single = SeedsResult(result.runs[:1])
    assert single.to_dict()["test_perplexity"] == {"mean": perplexities[0], "std": None}
    assert "±" not in str(single)


def test_the_same_seed_gives_the_same_weights_and_another_seed_others(toy, tmp_path):
    for name, seed in (("one", 1), ("same", 1), ("other", 2)):
        train(toy.recipe("prpn", schedule={"epochs": 1}, run={"seed": seed}), tmp_path / name)
    one, same, other = ((tmp_path / name / "weights.safetensors").read_bytes() for name in ("one", "same", "other"))
    assert one == same
    assert one != other


def test_a_loss_of_nan_stops_the_run_and_the_last_checkpoint_is_kept(toy, tmp_path, monkeypatch):
    recipe = toy.recipe("lstm", run={"checkpoint_seconds": 0.0})
    spoil(monkeypatch, 6, lambda nats: nats * math.nan)
    with pytest.raises(InputError, match=r"diverged at step 5 (?s:.*) the training loss is nan(?s:.*)learning_rate"):
        train(recipe, tmp_path / "run")
    monkeypatch.undo()
    train(recipe, tmp_path / "whole")
    assert resume(tmp_path / "run").steps > 5
    weights = [(tmp_path / name / "weights.safetensors").read_bytes() for name in ("run", "whole")]
    assert weights[0] == weights[1]


def with_infinite_gradient(nats):
    nats.register_hook(lambda grad: grad * math.inf)
    return nats


def test_a_gradient_without_bounds_reaches_no_checkpoint_and_no_kept_weights(toy, tmp_path, monkeypatch):
    """The loss is finite, but its gradient is not; without a check, the next loss would be the first sign."""
    recipe = toy.recipe("lstm", run={"checkpoint_seconds": 0.0})
    spoil(monkeypatch, 4, with_infinite_gradient)
    with pytest.raises(InputError, match=r"at step 4 .*the norm of the gradient is (nan|inf)"):
        train(recipe, tmp_path / "run")
    monkeypatch.undo()
    assert resume(tmp_path / "run").valid.perplexity < 1e4


def test_an_infinite_gradient_of_an_embedding_that_no_later_loss_reads_is_reported(toy, tmp_path, monkeypatch):
    """The word, here the unknown one, is in no validation either. Its embedding has become NaN."""
    update = loop.GradientLoop._update

    def with_infinite_row(training, nats):
        weight = training.task.model.embedding.weight
        hook = weight.register_hook(lambda grad: grad.index_fill(0, torch.tensor([0]), math.inf))
        update(training, nats)
        hook.remove()
        monkeypatch.setattr(loop.GradientLoop, "_update", update)

    monkeypatch.setattr(loop.GradientLoop, "_update", with_infinite_row)
    recipe = toy.recipe("lstm", model={"tied": False}, schedule={"epochs": 1})
    with pytest.raises(InputError, match="the norm of the gradient is inf"):
        train(recipe, tmp_path / "run")
    assert not (tmp_path / "run" / "weights.safetensors").exists()


def test_a_validation_loss_of_nan_is_reported(toy, tmp_path, monkeypatch):
    falsify(monkeypatch, [math.nan])
    with pytest.raises(InputError, match="the validation loss is nan"):
        train(toy.recipe("lstm", schedule={"epochs": 1}), tmp_path / "run")
    assert not (tmp_path / "run" / "weights.safetensors").exists()


def test_metrics_are_json_lines_with_the_same_places(toy, tmp_path):
    train(toy.recipe("lstm", schedule={"epochs": 1}), tmp_path / "run")
    for line in (tmp_path / "run" / METRICS).read_text().splitlines():
        assert {"event", "step", "epoch", "train_loss", "learning_rate", "seconds"} <= json.loads(line).keys()


def test_a_folder_that_another_process_works_in_is_left_alone(toy, tmp_path):
    folder = tmp_path / "run"
    train(toy.recipe("lstm", schedule={"epochs": 1}), folder)
    with locked(folder), pytest.raises(InputError, match="another process"):
        resume(folder)
    assert resume(folder).steps > 0


def test_a_run_without_its_checkpoint_never_starts_over_its_weights(toy, tmp_path):
    folder = tmp_path / "run"
    train(toy.recipe(), folder)
    (folder / CHECKPOINT).unlink()
    weights, metrics = (folder / "weights.safetensors").read_bytes(), (folder / METRICS).read_bytes()
    with pytest.raises(InputError, match="cannot be resumed"):
        resume(folder)
    assert (folder / "weights.safetensors").read_bytes() == weights
    assert (folder / METRICS).read_bytes() == metrics


@pytest.mark.parametrize("model", ["lstm", "prpn", "simple-pcfg"])
def test_a_learning_rate_far_too_high_stops_the_run_before_anything_is_kept(model, toy, tmp_path):
    data = toy.recipe_data("lstm", optimiser={"learning_rate": 1e9}, batches={"maximum_words": 10})
    pcfg = {"name": "simple-pcfg", "nonterminals": 2, "preterminals": 4, "embedding_size": 4}
    data["model"] = pcfg if model == "simple-pcfg" else toy.recipe_data(model)["model"]
    run = tmp_path / "run"
    with pytest.raises(InputError) as caught:
        train(recipe_from(data, "recipe.yaml"), run)
    message = str(caught.value)
    assert message.startswith(f"{run}: training diverged at step 1 (epoch 1, learning rate 1e+09): the training loss")
    assert "Train again with a lower optimiser.learning_rate or optimiser.gradient_clip, into another" in message
    assert not (run / "weights.safetensors").exists()
    assert not (run / "checkpoint.safetensors").exists()


def test_a_loss_that_explodes_stops_the_run_though_it_is_finite(toy, tmp_path):
    with pytest.raises(InputError, match=r"expected at most [\d.]+, 100 times the first loss"):
        train(toy.recipe("lstm", optimiser={"learning_rate": 100.0}), tmp_path / "run")


def test_a_run_that_diverged_resumes_from_its_checkpoint_with_a_lower_rate(toy, tmp_path, monkeypatch):
    run = tmp_path / "run"
    spoil(monkeypatch, 6, lambda nats: nats * 1e6)
    schedule = {"epochs": 1, "validations_per_epoch": 3}
    with pytest.raises(InputError, match=r"diverged at step 5 (?s:.*)Earlier checkpoints are intact\. To resume from"):
        train(toy.recipe("lstm", schedule=schedule), run)
    monkeypatch.undo()
    recipe = run / RECIPE
    recipe.write_text(recipe.read_text().replace("learning_rate: 0.01", "learning_rate: 0.001"))
    assert resume(run).steps > 5
    rates = [line["learning_rate"] for line in metrics(run, "valid")]
    assert (rates[0], rates[-1]) == (0.01, 0.001)


def test_the_bar_of_a_run_with_a_time_limit_shows_the_batches_that_fit_into_it(toy):
    recipe = toy.recipe("lstm", schedule={"minutes": 1.0})
    with ProgressDisplay(recipe, Console(quiet=True)) as display:
        display(Event("step", TrainerState(batch=3, seconds=30.0), 10, {}, Path("run")))
        assert (display._work.done, display._work.total) == (3, 6)
        display(Event("step", TrainerState(batch=3, seconds=1.0), 10, {}, Path("run")))
        assert display._work.total == 20, "no more than all epochs"
