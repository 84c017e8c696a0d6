"""Training of models that read whole sentences: counts, end bias, curriculum, exact resuming."""

from __future__ import annotations

import json
import math
import warnings
from typing import Any

import numpy as np
import pytest
import torch

from syntaxlm.api.model_report import page_of, read_run
from syntaxlm.comparison.report import Comparison, RecipeRuns
from syntaxlm.comparison.runs import SeedsResult
from syntaxlm.core.errors import InputError, InputWarning
from syntaxlm.evaluation.perplexity import evaluate_text
from syntaxlm.models.abilities import TrainsByGradient
from syntaxlm.models.pcfg.sentence_pcfg import SentencePCFG
from syntaxlm.models.registry import MODELS
from syntaxlm.storage.folder import read_model
from syntaxlm.training.language_model import TextTask
from syntaxlm.training.recipe import Recipe, recipe_from
from syntaxlm.training.result import RESULT
from syntaxlm.training.run import train
from tests.conftest import Toy
from tests.models.variants import SENTENCE_VARIANTS, config_of
from tests.training.runs import assert_resumes, metrics

PCFG = {
    "name": "simple-pcfg", "nonterminals": 8, "preterminals": 16, "embedding_size": 12, "end_bias": 1.0,
    "end_bias_epochs": 1.5,
}  # fmt: skip


def recipe(few: Toy, model: dict[str, Any] | None = None, /, **sections: dict[str, Any]) -> Recipe:
    """Seconds of training."""
    sections["batches"] = {"token_budget": 64} | sections.get("batches", {})
    data = few.recipe_data("lstm", **sections) | {"model": PCFG | (model or {})}
    return recipe_from(data, "recipe.yaml")


GRADED = {"curriculum": [4, 5], "maximum_words": 7}
RUNS = [
    pytest.param({}, {"precision": "bf16-mixed"}, id="simple-bf16"),
    pytest.param(
        {"name": "compound-pcfg", "nonterminals": 4, "preterminals": 6, "latent_size": 3, "encoder_size": 4},
        {"precision": "32"},
        id="compound-32",
        marks=pytest.mark.long,
    ),
]


def test_models_of_whole_sentences_do_not_read_joined_ones(few):
    with pytest.raises(
        InputError, match=r"batches\.joined: found 2; expected 1, because simple-pcfg models read whole sent"
    ):
        recipe(few, batches={"joined": 2})


@pytest.mark.parametrize(("model", "run"), RUNS)
def test_a_run_interrupted_around_a_change_of_limit_ends_bit_for_bit_as_one_that_was_not(few, tmp_path, model, run):
    """Interrupted in the middle of an epoch, at the end of the first two epochs with a limit, and just after."""
    settings = recipe(
        few,
        model,
        batches=GRADED,
        run=run | {"log_steps": 1},
        optimiser={"warmup_steps": 5},
        schedule={"epochs": 3, "decay": "linear", "decay_from": 0.5, "keep": "last"},
    )
    finished = train(settings, tmp_path / "whole")
    first, second, last = (line["step"] for line in metrics(finished.folder, "valid"))
    assert first < second - first < last - second, "longer sentences are more batches"
    assert_resumes(finished, settings, 1, first, second, second + 1, last - 1)


def test_epochs_have_the_longest_sentences_of_the_curriculum(few, tmp_path, monkeypatch):
    longest: dict[int, int] = {}
    loss = SentencePCFG.loss

    def watched(self, batch, state=None):
        epoch = len(validated)
        longest[epoch] = max(longest.get(epoch, 0), int(batch.lengths.max()) - 1)
        return loss(self, batch, state)

    validated: list[int] = []
    monkeypatch.setattr(SentencePCFG, "loss", watched)

    def count(event):
        if event.kind == "valid":
            validated.append(event.trainer.epoch)

    train(recipe(few, batches=GRADED, schedule={"epochs": 4}), tmp_path / "run", count)
    assert longest == {0: 4, 1: 5, 2: 7, 3: 7}


def test_a_limit_below_the_shortest_sentence_is_reported(few, tmp_path):
    with pytest.raises(InputError, match=r"train\.txt: found only sentences of more than 1 words \(80 sentences\)"):
        train(recipe(few, batches={"curriculum": [5, 1]}), tmp_path / "run")


@pytest.mark.long
def test_the_end_bias_falls_to_0_and_validation_ignores_it(few, tmp_path, monkeypatch):
    weights: list[float] = []
    in_validation: list[float] = []
    log_probs = SentencePCFG._log_probs

    def watched(self, sentences, span_weights=None):
        if self.training:
            weights.append(self._bias * self.config.end_bias)
            assert (span_weights is None) == (not weights[-1])
        else:
            in_validation.append(span_weights)
        return log_probs(self, sentences, span_weights)

    monkeypatch.setattr(SentencePCFG, "_log_probs", watched)
    result = train(recipe(few, {"end_bias": 2.0}, schedule={"epochs": 3}), tmp_path / "run")
    epoch = len(weights) // 3
    expected = [2 * max(0.0, 1 - step / epoch / 1.5) for step in range(len(weights))]
    assert weights == pytest.approx(expected)
    assert weights[0] == 2
    assert not any(weights[-epoch:])
    assert in_validation
    assert all(one is None for one in in_validation)
    assert evaluate_text(read_model(tmp_path / "run"), few / "valid.txt").nats == pytest.approx(
        result.valid.nats, rel=1e-6
    )


@pytest.mark.long
def test_a_run_without_the_bias_ends_in_other_weights(few, tmp_path):
    nats = {bias: train(recipe(few, {"end_bias": bias}), tmp_path / str(bias)).valid.nats for bias in (0.0, 3.0)}
    assert nats[0.0] != nats[3.0]


@pytest.mark.parametrize(
    "name",
    ["holographic-pcfg", *(pytest.param(name, marks=pytest.mark.long) for name in ("tensor-pcfg", "compound-pcfg"))],
)
def test_training_lowers_the_loss_and_an_estimate_is_reported_as_one(few, tmp_path, name):
    sizes = {"holographic-pcfg": {}, "tensor-pcfg": {"rank": 8}, "compound-pcfg": {"latent_size": 3, "encoder_size": 6}}
    model = {"name": name, "end_bias": 0.0, "nonterminals": 4, "preterminals": 8, **sizes[name]}
    result = train(recipe(few, model, schedule={"epochs": 3}), tmp_path / "run")
    losses = [line["train_loss"] for line in metrics(tmp_path / "run", "valid")]
    assert losses[-1] < losses[0]
    estimate = "ELBO at the mean of q(z|x), approximate" if name == "compound-pcfg" else None
    assert json.loads((tmp_path / "run" / RESULT).read_text())["valid"]["likelihood_estimate"] == estimate
    label = f"perplexity ({estimate})" if estimate else "perplexity"
    assert f"valid: {label} {result.valid.perplexity:.2f} " in str(result)
    assert f"valid {label} " in str(SeedsResult([result]))
    row = RecipeRuns("grammar", recipe(few, model), (result,))
    assert Comparison(tmp_path, [row], 1).notes == ([f"grammar: figures are estimates, {estimate}"] if estimate else [])
    page = page_of(read_model(tmp_path / "run"), read_run(tmp_path / "run"), None).html()
    assert (f"figures are estimates: {estimate}" in page) == bool(estimate)


def test_counts_of_a_text_are_those_of_its_words_last_words_and_one_word_sentences(tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("a b a\nb\nc b\na a a a\nb\nrare b\na\n")
    data = {
        "model": {"name": "simple-pcfg"},
        "text": {"train": str(text), "valid": str(text), "vocabulary": {"minimum_count": 2}},
        "batches": {"maximum_words": 2},
    }
    task = TextTask(recipe_from(data, "recipe.yaml"), torch.device("cpu"))
    text_counts, words = task._counts(), task.vocabulary
    assert words.encode(["rare", "c", "b", "a"]) == [0, 0, *words.encode(["b", "a"])]

    def of(counts) -> dict[str, int]:
        assert counts.shape == (len(words),)
        assert counts.dtype == torch.int64
        return {word: int(counts[number]) for word, number in zip("?ab", words.encode([*"?ab"]), strict=True)}

    # Sentences that are too long for training are counted, too; unknown words count as one word.
    assert of(text_counts.words) == {"?": 2, "a": 7, "b": 5}
    assert of(text_counts.first_words) == {"?": 2, "a": 2, "b": 0}
    assert of(text_counts.final_words) == {"?": 0, "a": 2, "b": 2}
    assert of(text_counts.one_word_sentences) == {"?": 0, "a": 1, "b": 2}
    assert text_counts.labels == 0


def of_text(tmp_path, content: str, **sections: object) -> Recipe:
    """The recipe of a PCFG that is trained and validated on a text."""
    (tmp_path / "text.txt").write_text(content)
    text = {"train": str(tmp_path / "text.txt"), "valid": str(tmp_path / "text.txt")}
    data = {"model": PCFG, "text": text, "run": {"accelerator": "cpu"}, "schedule": {"epochs": 1}}
    return recipe_from(data | sections, "recipe.yaml")


def test_the_share_of_one_word_sentences_is_in_the_model_folder(tmp_path):
    train(of_text(tmp_path, "a b a\nb\nc b\n" * 5), tmp_path / "run")
    model = read_model(tmp_path / "run").model
    assert isinstance(model, SentencePCFG)
    assert float(model.one_word_share) == pytest.approx(5.5 / 16)
    np.testing.assert_allclose(model.unigrams.exp().sum(), 1, rtol=1e-6)


def test_a_text_of_one_word_sentences_is_refused(tmp_path):
    with pytest.raises(InputError, match="found no training sentence of two or more words"):
        train(of_text(tmp_path, "a\nb\n"), tmp_path / "run")


def test_a_sentence_that_takes_minutes_is_reported_unless_it_is_left_out(tmp_path):
    text, short = tmp_path / "text.txt", tmp_path / "short.txt"
    text.write_text("a b\n" + "a b " * 250 + "\n")
    short.write_text("a b\n")
    data = {"model": PCFG, "text": {"train": str(text), "valid": str(short)}, "batches": {"maximum_words": None}}
    with pytest.warns(InputWarning, match=r"text\.txt, line 2: the sentence has 500 words\. .* 1,953 times the time"):
        TextTask(recipe_from(data, "recipe.yaml"), torch.device("cpu"))
    with pytest.warns(
        InputWarning, match=r"text\.txt: 1 of 2 sentences have more than 150 words .* left out"
    ) as warned:
        TextTask(recipe_from(data | {"batches": {"maximum_words": 150}}, "recipe.yaml"), torch.device("cpu"))
    assert len(warned) == 1


@pytest.mark.parametrize("model", [PCFG, {"name": "dmv"}])
def test_a_validation_sentence_that_does_not_fit_in_memory_is_refused_before_training(model, tmp_path, monkeypatch):
    monkeypatch.setattr("syntaxlm.models.sizes.memory_size", lambda: 2**20)
    text, long = tmp_path / "text.txt", tmp_path / "long.txt"
    text.write_text("a b\n")
    long.write_text("a b\n" + "a b " * 300 + "\n")
    data = {"model": model, "text": {"train": str(text), "valid": str(long)}}
    with pytest.raises(InputError, match=r"long\.txt, line 2: found a sentence of 600 words, whose chart needs"):
        TextTask(recipe_from(data, "recipe.yaml"), torch.device("cpu"))


def test_long_sentences_are_left_out_of_the_validation_text_of_models_without_scores(tmp_path):
    text, long = tmp_path / "text.txt", tmp_path / "long.txt"
    text.write_text("a b\n")
    long.write_text("a b\n" + "a b " * 250 + "\n")
    structformer = {"name": "structformer", "embedding_size": 8, "layers": 1, "heads": 2}
    data = {"text": {"train": str(text), "valid": str(long), "test": str(long)}, "batches": {"maximum_words": 150}}
    for model, messages in (
        (
            structformer,
            ["long.txt: not evaluated, because structformer", "long.txt: 1 of 2 sentences have more than 150"],
        ),
        (PCFG, ["long.txt, line 2: the sentence has 500 words"] * 2),
    ):
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            TextTask(recipe_from({"model": model} | data, "recipe.yaml"), torch.device("cpu"))
        assert [message in str(one.message) for one, message in zip(warned, messages, strict=True)] == [True, True]
        assert not any("maximum_words does" in str(one.message) for one in warned)


@pytest.mark.long
def test_training_begins_with_the_embeddings_of_another_model(few, tmp_path):
    vectors = few.recipe_data("lstm", schedule={"epochs": 1})
    vectors["model"] = {"name": "lstm", "embedding_size": 6, "hidden_size": 5}
    train(recipe_from(vectors, "vectors.yaml"), tmp_path / "vectors")
    settings = few.recipe_data("lstm", batches={"token_budget": 64}, schedule={"epochs": 1})
    settings["model"] = {"name": "diora", "embedding_size": 6, "hidden_size": 5, "negatives": 0}
    settings["text"] = settings["text"] | {"embeddings": str(tmp_path / "vectors")}
    task = TextTask(recipe_from(settings, "diora.yaml"), torch.device("cpu"))
    stored = read_model(tmp_path / "vectors")
    word = task.vocabulary.tokens[-1]
    own = task.model.embedding.weight[task.vocabulary.id(word)].detach()
    theirs = stored.model.embedding.weight[stored.vocabulary.id(word)].detach()
    assert torch.cosine_similarity(own, theirs, 0) == pytest.approx(1, abs=1e-5)
    assert not torch.allclose(own, theirs)
    train(recipe_from(settings, "diora.yaml"), tmp_path / "diora")
    settings["model"] = settings["model"] | {"embedding_size": 7}
    with pytest.raises(InputError, match=r"model\.embedding_size: found 7; expected 6, as in text\.embeddings"):
        TextTask(recipe_from(settings, "diora.yaml"), torch.device("cpu"))
    settings["model"] = {"name": "lstm", "embedding_size": 6, "hidden_size": 5, "cutoffs": [5]}
    with pytest.raises(InputError, match=r"model\.cutoffs: found 5; expected none with text\.embeddings"):
        TextTask(recipe_from(settings, "lstm.yaml"), torch.device("cpu"))
    settings["text"] = settings["text"] | {"embeddings": str(tmp_path / "diora")}
    settings["model"] = {"name": "simple-pcfg", "nonterminals": 3, "preterminals": 4, "embedding_size": 6}
    with pytest.raises(InputError, match=r"text\.embeddings: simple-pcfg has no embeddings of words"):
        TextTask(recipe_from(settings, "pcfg.yaml"), torch.device("cpu"))


def test_a_masked_model_draws_the_same_masks_after_an_interruption_and_validates_with_fixed_ones(few, tmp_path):
    model = {"name": "structformer", "embedding_size": 8, "layers": 1, "heads": 2, "parser_layers": 1}
    data = few.recipe_data("lstm", batches={"token_budget": 64}, schedule={"epochs": 2, "validations_per_epoch": 2})
    masked = recipe_from(data | {"model": model}, "structformer.yaml")
    finished = train(masked, tmp_path / "whole")
    assert str(finished.criterion).startswith("masked negative log-likelihood ")
    assert str(finished.criterion).endswith(" nats per masked word")
    assert_resumes(finished, masked, 3, finished.steps // 2 + 2)
    task = TextTask(masked, torch.device("cpu"))
    assert task.validate().cost == task.validate().cost


def test_a_masked_model_is_not_validated_on_a_text_without_known_words(few, tmp_path):
    (tmp_path / "valid.txt").write_text("zzz\n")
    data = few.recipe_data("lstm") | {"model": {"name": "structformer", "embedding_size": 8, "heads": 2, "layers": 1}}
    data["text"] = data["text"] | {"valid": str(tmp_path / "valid.txt")}
    task = TextTask(recipe_from(data, "structformer.yaml"), torch.device("cpu"))
    with pytest.raises(InputError, match=r"valid\.txt: found nothing to validate on; expected more known words"):
        task.validate()


@pytest.mark.parametrize("model", [{"name": "span-parser", "dropout": 0.0}, PCFG | {"focus": 5.0, "end_bias": 0.0}])
def test_a_parser_without_a_tree_of_a_sentence_does_not_count_for_it(few, tmp_path, model):
    """The second parser has the tree of another sentence at one place, so one tree is left there, and two elsewhere."""
    text = tmp_path / "text.txt"
    text.write_text("a b c d\nb c d a\nc d a b\n")
    trees = {
        "first": "((a b) (c d))\n((b c) (d a))\n(c (d (a b)))\n",
        "second": "((a b) (c d))\n(((b c) d) a)\n((a b) c)\n",
    }
    for name, lines in trees.items():
        (tmp_path / name).write_text(lines)

    def losses(*names):
        files = [str(tmp_path / name) for name in names]
        data = few.recipe_data("lstm", text={"train": str(text), "valid": str(text), "test": None, "focus": files})
        data["text"]["focus_valid"] = files if model["name"] == "span-parser" else []
        torch.manual_seed(0)
        task = TextTask(recipe_from(data | {"model": model}, "recipe.yaml"), torch.device("cpu"))
        batches = task.batches(0, 1)
        return [float(task.model.train().loss(batches.batch(np.array([place]))).total) for place in range(3)]

    both, alone = losses("first", "second"), losses("first")
    assert both[2] == pytest.approx(alone[2], rel=1e-5)
    assert both[1] != pytest.approx(alone[1], rel=1e-3)


def test_the_loss_of_a_tree_with_wide_nodes_is_a_negative_log_likelihood(few, tmp_path):
    """Otherwise lower scores of all spans would lower the loss without end."""
    text, trees = tmp_path / "text.txt", tmp_path / "trees"
    text.write_text("a b c d e\n")
    trees.write_text("(S (X a b) c d e)\n")
    files = {"focus": [str(trees)], "focus_valid": [str(trees)]}
    data = few.recipe_data("lstm", text={"train": str(text), "valid": str(text), "test": None} | files)
    task = TextTask(recipe_from(data | {"model": {"name": "span-parser"}}, "recipe.yaml"), torch.device("cpu"))
    with torch.no_grad():
        task.model.score.weight.fill_(-100)
    loss = task.model.eval().loss(task.batches(0, 1).batch(np.array([0])))
    assert loss.total > 0
    assert task.validate().value == pytest.approx(loss.total.item() / 5)


ONE_WORD = ["the dog"] * 3 + ["dog"] * 9
"""Sentences as in dialogue: with six tokens to a batch, most batches have only sentences of one word."""


IN_SHORT = ("simple-pcfg", "span-parser", "tree-transformer", "dmv")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in IN_SHORT else pytest.mark.long) for name in SENTENCE_VARIANTS]
)
def test_batches_of_one_word_sentences_are_trained_on_and_resumed(few, tmp_path, name):
    text, trees = tmp_path / "train.txt", tmp_path / "train.mrg"
    text.write_text("".join(f"{line}\n" for line in ONE_WORD))
    trees.write_text("".join(f"(S {' '.join(f'(X {word})' for word in line.split())})\n" for line in ONE_WORD))
    data = few.recipe_data(
        "lstm", text={"train": str(text), "valid": str(text), "test": None}, batches={"token_budget": 6}
    )
    if name == "span-parser":
        data["text"] |= {"focus": [str(trees)], "focus_valid": [str(trees)]}
    if name == "tree-transformer":
        data["text"] |= {"trees": str(trees), "trees_preprocessing": "none"}
    settings = recipe_from(data | {"model": vars(config_of(name))}, "recipe.yaml")
    result = train(settings, tmp_path / "run")
    score = result.criterion if result.valid is None else result.valid
    assert math.isfinite(score.value if result.valid is None else score.nats)
    if MODELS[SENTENCE_VARIANTS[name][0]].has(TrainsByGradient):
        assert result.steps > 8, "a batch without gradient is a step, too, so that resumed runs read the same batches"
        assert_resumes(result, settings, 1, 3, result.steps - 1)
