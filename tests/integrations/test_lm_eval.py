"""The model `syntaxlm` of lm-evaluation-harness, with the parts of its base classes that a model uses."""

from __future__ import annotations

import importlib
import json
import math
import sys
from types import ModuleType, SimpleNamespace

import pytest

import syntaxlm
from syntaxlm.core.errors import InputError, InputWarning


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


def test_the_most_probable_words_are_greedy(harness, trained, toy):
    model = syntaxlm.load(trained.lstm)
    (sentence,) = model.generate(1, temperature=0, keep_unknown=True)
    assert sentence.ended

    # A context after which the most probable token is a word, and not the end.
    contexts = (line.split()[:length] for line in (toy / "test.txt").read_text().splitlines() for length in (1, 3, 5))
    for context in contexts:
        (continued,) = model.generate(1, " ".join(context), temperature=0, keep_unknown=True, max_words=3)
        if words := continued.tokens[len(context) :]:
            break
    other = next(word for word in ("the", "a") if word not in (words[0], sentence.tokens[0]))
    texts = [
        ("", sentence.text), (" ".join(context), " ".join(words)),
        ("", f"{sentence.text} {other}"), ("", other), (" ".join(context), " ".join([other, *words[1:]])),
    ]  # fmt: skip
    answers = harness(str(trained.lstm)).loglikelihood(requests(*texts))
    assert [is_greedy for _, is_greedy in answers] == [True, True, False, False, False]


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
    with pytest.warns(InputWarning, match="simple-pcfg model does not predict the next token, so is_greedy is false"):
        grammar = harness("en-fast")
    ((value, is_greedy),) = grammar.loglikelihood(requests(("", "The cat sleeps.")))
    assert value == syntaxlm.load("en-fast").log_prob("The cat sleeps.")
    assert is_greedy is False
