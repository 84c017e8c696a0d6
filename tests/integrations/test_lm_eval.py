"""The model `syntaxlm` of lm-evaluation-harness, with the parts of its base classes that a model uses."""

from __future__ import annotations

import importlib
import json
import math
import sys
from types import ModuleType, SimpleNamespace

import pytest
import torch

import syntaxlm
from syntaxlm.core.errors import InputError, InputWarning
from syntaxlm.storage.folder import write_model
from tests.fresh_models import fresh
from tests.storage.small_transformers import write_transformer


class LM:
    """The harness's base class, which has no state that a model depends on."""


@pytest.fixture
def harness(monkeypatch):
    """The adapter's class, as the harness's registry gets it."""
    registered = {}

    def register_model(name):
        return lambda model: registered.setdefault(name, model)

    stubs = {
        "lm_eval": {},
        "lm_eval.api": {},
        "lm_eval.api.model": {"LM": LM},
        "lm_eval.api.registry": {"register_model": register_model},
    }
    for name, contents in stubs.items():
        module = ModuleType(name)
        vars(module).update(contents)
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.delitem(sys.modules, "syntaxlm.lm_eval", raising=False)
    importlib.import_module("syntaxlm.lm_eval")
    monkeypatch.delitem(sys.modules, "syntaxlm.lm_eval")
    return registered["syntaxlm"]


def requests(*arguments):
    return [SimpleNamespace(args=arguments) for arguments in arguments]


def test_decisions_on_minimal_pairs_are_those_of_evaluate_pairs(harness, trained, toy, tmp_path):
    sentences = (toy / "test.txt").read_text().splitlines()[:6]
    items = [{"better": line.capitalize(), "worse": " ".join(reversed(line.split()))} for line in sentences]
    path = tmp_path / "pairs.jsonl"
    path.write_text("".join(json.dumps(item) + "\n" for item in items))
    (expected,) = syntaxlm.load(trained.lstm).evaluate_pairs(path).models

    adapter = harness(str(trained.lstm), device="cuda:0", batch_size=1)
    answers = adapter.loglikelihood(requests(*(("", f" {item['better']}") for item in items)))
    worse = adapter.loglikelihood(requests(*(("", item["worse"]) for item in items)))
    assert [value for value, _ in answers] == expected.better.tolist()
    assert [value for value, _ in worse] == expected.worse.tolist()


def test_a_continuation_has_the_probability_of_its_words_alone(harness, trained, toy):
    sentence = (toy / "test.txt").read_text().splitlines()[0].split()
    rows = syntaxlm.load(trained.lstm).surprisal(" ".join(sentence))
    context, continuation = " ".join(sentence[:2]), " " + " ".join(sentence[2:])
    whole = ("", " ".join(sentence))
    answers = harness(str(trained.lstm)).loglikelihood(requests((context, continuation), whole))
    of_words = -math.log(2) * sum(row.surprisal for row in list(rows)[2 : len(sentence)])
    of_sentence = -math.log(2) * sum(row.surprisal for row in rows)
    assert [value for value, _ in answers] == pytest.approx([of_words, of_sentence])


def test_white_space_before_a_continuation_of_characters_is_read_with_it(harness, tmp_path):
    write_model(tmp_path, fresh("lstm", units="characters", space="_"))
    bits = [row.surprisal for row in syntaxlm.load(tmp_path).surprisal("the cat")]
    expected = -math.log(2) * sum(bits[3:-1])
    answers = harness(str(tmp_path)).loglikelihood(requests(("the", " cat"), ("the ", "cat"), ("the c", "at")))
    assert [value for value, _ in answers] == pytest.approx([expected, expected, -math.log(2) * sum(bits[5:-1])])


def test_texts_of_the_most_probable_tokens_are_greedy(harness, trained):
    adapter = harness(str(trained.lstm))
    model, vocabulary = adapter.language_model.model, adapter.language_model.vocabulary

    def greedy(*texts):
        return [is_greedy for _, is_greedy in adapter.loglikelihood(requests(*texts))]

    # EOS becomes less probable, until "the" and then EOS are the most probable tokens.
    with torch.no_grad():
        for _ in range(30):
            model.decoder.bias[vocabulary.end_id] -= 0.1
            if [row.measures["rank"] for row in adapter.language_model.surprisal("the", measures=["rank"])] == [1, 1]:
                break
    assert greedy(("", "the"), ("", "the cat"), ("", "a"), ("the", "the")) == [True, False, False, False]

    # And then "the" at every place.
    with torch.no_grad():
        model.decoder.bias[vocabulary.id("the")] += 100
    assert greedy(("", "the"), ("the", "the the"), ("the", "the a")) == [False, True, False]


def test_a_rolling_text_has_the_probability_that_perplexity_measures(harness, trained, toy):
    lines = (toy / "test.txt").read_text().splitlines()[:3]
    text = f"{lines[0]}\n\n{lines[1]}\n{lines[2]}\n"
    expected = syntaxlm.load(trained.prpn).perplexity(lines, punctuation="auto", contractions="auto").nats
    values = harness(str(trained.prpn)).loglikelihood_rolling(requests((text,), ("\n",)))
    assert values == pytest.approx([-expected, 0])


def test_what_the_models_cannot_do_is_refused(harness, trained):
    adapter = harness(str(trained.lstm))
    with pytest.raises(InputError, match="continuation: ' ' has no words that the model reads"):
        adapter.loglikelihood(requests(("", " ")))
    with pytest.raises(InputError, match="expected tasks of the types multiple_choice, loglikelihood"):
        adapter.generate_until(requests(("the", {})))


@pytest.mark.long
def test_models_without_a_next_token_are_reported_and_nothing_is_greedy_for_them(harness, tmp_path):
    write_transformer("bytes", tmp_path)
    with pytest.warns(InputWarning, match="a transformers model does not predict the next token, so is_greedy is"):
        adapter = harness(f"hf:{tmp_path}")
    answers = adapter.loglikelihood(requests(("", "the cat"), ("the", " cat")))
    alone, whole = syntaxlm.load(f"hf:{tmp_path}").log_prob(["the", "the cat"])
    assert [is_greedy for _, is_greedy in answers] == [False, False]
    assert [value for value, _ in answers] == pytest.approx([whole, whole - alone])
