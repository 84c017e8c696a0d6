"""Generation: sampled sentences, whose surprisals equal those of scoring them."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
import torch

from syntaxlm.core.errors import InputError
from syntaxlm.generation import sentences as generation
from syntaxlm.generation.options import SamplingOptions, TreeSamplingOptions
from syntaxlm.generation.sentences import choose, generate
from syntaxlm.models.batches import TokenBatch
from syntaxlm.models.registry import build_model
from syntaxlm.scoring.options import ScoreOptions
from syntaxlm.scoring.surprisal import surprisals
from syntaxlm.text.normaliser import as_text
from tests.fresh_models import OPEN, SENTENCES, STREAM, every_model, fresh
from tests.models.mixture import MixtureOfUnigrams
from tests.models.variants import WORDS, log_probs
from tests.normalisers import normaliser_with


@every_model
@pytest.mark.parametrize(
    ("mode", "prompt"), [(SENTENCES, None), (STREAM, "the xyzzy cat")], ids=["sentences", "stream"]
)
def test_the_surprisals_are_those_of_reading_the_sentence_at_once(name, mode, prompt, monkeypatch):
    monkeypatch.setattr(generation, "SAMPLED_TOGETHER", 3)
    stored = fresh(name, mode)
    sentences = list(generate(stored, 5, prompt, SamplingOptions(max_words=12, seed=4)))
    assert [sentence.number for sentence in sentences] == [1, 2, 3, 4, 5]
    assert len({sentence.text for sentence in sentences}) > 1
    for sentence in sentences:
        (rows,) = surprisals(stored, [sentence.text], ScoreOptions(context="reset"))
        expected = [row.surprisal for row in rows][: None if sentence.ended else -1]
        assert sentence.surprisals == pytest.approx(expected, abs=1e-9)


def test_unknown_words_of_a_prompt_are_named(recwarn):
    list(generate(fresh("lstm"), 1, "the xyzzy cat", SamplingOptions(max_words=5)))
    (warning,) = recwarn
    assert str(warning.message) == "prompt: not in the vocabulary of lstm, and read as unknown: xyzzy"
    recwarn.clear()
    list(generate(fresh("lstm"), 1, "the cat", SamplingOptions(max_words=5)))
    assert not recwarn


@every_model
def test_at_temperature_0_each_token_is_the_most_probable(name):
    stored = fresh(name)
    vocabulary = stored.vocabulary
    (sentence,) = generate(stored, 1, "the dog", SamplingOptions(temperature=0, max_words=6, keep_unknown=True))
    ids = [vocabulary.begin_id, *vocabulary.encode(sentence.tokens)]
    for place in range(3, len(ids)):
        read = torch.tensor(ids[:place])[:, None].repeat(1, len(vocabulary))
        with torch.no_grad():
            values = log_probs(stored.model, TokenBatch(read, torch.arange(len(vocabulary)).expand(place, -1)))
        allowed = values[-1].clone()
        allowed[vocabulary.begin_id] = -math.inf
        assert ids[place] == int(allowed.argmax())


def test_a_sentence_depends_only_on_the_seed_and_its_number(monkeypatch):
    stored = fresh("prpn")
    few = [sentence.text for sentence in generate(stored, 3, options=SamplingOptions(seed=1, max_words=9))]
    monkeypatch.setattr(generation, "SAMPLED_TOGETHER", 2)
    assert [sentence.text for sentence in generate(stored, 5, options=SamplingOptions(seed=1, max_words=9))][:3] == few
    assert [sentence.text for sentence in generate(stored, 3, options=SamplingOptions(seed=2, max_words=9))] != few


@pytest.mark.parametrize("mode", [SENTENCES, STREAM], ids=["sentences", "stream"])
def test_special_tokens_are_not_sampled_and_every_sentence_has_a_word(mode):
    stored = fresh("lstm", mode)
    with torch.no_grad():
        stored.model.decoder.bias[:3] = 3.0  # would be sampled often
    sentences = list(generate(stored, 40, options=SamplingOptions(max_words=4)))
    drawn = {token for sentence in sentences for token in sentence.tokens}
    assert not drawn & {"<unk>", "<s>", "</s>", "<eos>"}
    assert {len(sentence.tokens) for sentence in sentences} <= {1, 2, 3, 4}
    assert {sentence.ended for sentence in sentences} == {True, False}
    assert all(len(one.surprisals) == len(one.tokens) + one.ended for one in sentences)
    kept = generate(stored, 40, options=SamplingOptions(keep_unknown=True, max_words=4))
    assert "<unk>" in {token for sentence in kept for token in sentence.tokens}


def test_tokens_are_sampled_with_their_probabilities():
    log_probs = np.log(np.array([[0.5, 0.0, 0.3, 0.2]], dtype=np.float64) + 1e-300)
    log_probs[0, 1] = -np.inf
    uniform = (np.arange(1000) + 0.5) / 1000
    many = log_probs.repeat(1000, 0)

    def shares(**settings: object) -> list[float]:
        return (np.bincount(choose(many, uniform, SamplingOptions(**settings)), minlength=4) / 1000).tolist()

    assert shares() == pytest.approx([0.5, 0, 0.3, 0.2], abs=2e-3)
    assert shares(top_k=2) == pytest.approx([0.625, 0, 0.375, 0], abs=2e-3)
    assert shares(top_k=1) == shares(temperature=0) == shares(temperature=1e-310) == [1, 0, 0, 0]
    squared = [0.25 / 0.38, 0, 0.09 / 0.38, 0.04 / 0.38]
    assert shares(temperature=0.5) == pytest.approx(squared, abs=2e-3)


def test_impossible_tokens_are_not_chosen_at_the_boundaries():
    log_probs = np.log(np.array([[1e-300, 0.1, 0.2, 0.7, 1e-300]]))
    log_probs[0, [0, 4]] = -np.inf
    ends = np.array([0.0, np.nextafter(1.0, 0)])
    assert choose(log_probs.repeat(2, 0), ends, SamplingOptions()).tolist() == [1, 3]


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_probabilities_that_are_nan_raise_an_error(temperature):
    with pytest.raises(InputError, match="the model returned NaN; its weights are unusable"):
        choose(np.array([[-1.0, float("nan")]]), np.array([0.5]), SamplingOptions(temperature=temperature))


def test_characters_become_text_that_reads_as_they_do():
    stored = fresh("prpn", STREAM, units="characters")
    for sentence in generate(stored, 5, "the _", SamplingOptions(max_words=30)):
        assert sentence.text.startswith("the _")
        assert len(sentence.text) == len(sentence.tokens) <= 35
        assert sentence.text.count(" ") == sentence.tokens.count("_")
    tokens = ["t", "_", "\\_", "a"]
    assert as_text(stored.normaliser, tokens) == "t _a"
    assert stored.normaliser.tokens("t _a") == tokens
    assert as_text(normaliser_with("characters", space=None), ["t", "_"]) == "t_"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"temperature": -1.0}, "temperature: found -1.0"),
        ({"temperature": math.nan}, "temperature: found nan"),
        ({"temperature": math.inf}, "temperature: found inf"),
        ({"top_k": 0}, "top_k: found 0"),
        ({"seed": -1}, "seed: found -1"),
        ({"max_words": 0}, "max_words: found 0"),
        ({"keep_unknown": "no"}, "keep_unknown: found 'no'; expected bool"),
        ({"max_depth": 0}, "max_depth: found 0"),
    ],
)
def test_options_out_of_range_are_refused(settings, message):
    with pytest.raises(InputError, match=message):
        TreeSamplingOptions(**settings)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"count": 0}, "count: found 0"),
        ({"prompt": " "}, "prompt: found ' ', which has no word"),
        ({"prompt": ""}, "prompt: found '', which has no word"),
    ],
)
def test_wrong_arguments_raise_an_error_before_sampling(lstm, arguments, message):
    with pytest.raises(InputError, match=message):
        generate(lstm, **arguments)


def test_a_model_that_does_not_predict_the_next_token_raises_an_error():
    stored = dataclasses.replace(fresh("lstm"), model=MixtureOfUnigrams(2, WORDS))
    with pytest.raises(InputError, match="does not predict the next token, so generate cannot use it") as raised:
        list(generate(stored))
    assert {"prpn", "compound-pcfg", "dmv"} <= set(str(raised.value).rstrip(".").replace(": ", ", ").split(", "))


@every_model
def test_a_model_that_does_not_predict_eos_never_samples_it(name):
    """Every sentence has the maximal length; its surprisals equal those of scoring it."""
    stored = fresh(name, OPEN)
    for sentence in generate(stored, 6, "the", SamplingOptions(max_words=9, seed=2)):
        assert not sentence.ended
        assert len(sentence.tokens) == 10
        (rows,) = surprisals(stored, [sentence.text])
        assert sentence.surprisals == pytest.approx([row.surprisal for row in rows], abs=1e-9)


def test_a_vocabulary_without_known_words_raises_an_error():
    stored = fresh("lstm")
    vocabulary = type(stored.vocabulary)(["<unk>", "<s>", "</s>"])
    settings = dataclasses.replace(stored.settings.model, embedding_size=4, hidden_size=4, layers=1)
    empty = dataclasses.replace(stored, model=build_model(settings, 3), vocabulary=vocabulary)
    with pytest.raises(InputError, match="found no word in the model's vocabulary except the unknown word"):
        list(generate(empty))
