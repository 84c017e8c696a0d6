"""The neural cache: agreement with its equations, and with the model alone at weight 0."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from itertools import product

import pytest
import torch

from syntaxlm.core.errors import InputError
from syntaxlm.data.corpora import EncodedCorpus
from syntaxlm.evaluation.perplexity import CachedScore, evaluate_text
from syntaxlm.scoring import cache, engine
from syntaxlm.scoring.cache import CacheSettings, NeuralCache, mixed_log_probs
from syntaxlm.scoring.engine import ScoredTokens, Scorer
from tests.fresh_models import SENTENCES, STREAM, reading
from tests.scoring.by_hand import read_by_hand

MODES = pytest.mark.parametrize("mode", [SENTENCES, STREAM], ids=["sentences", "stream"])


@pytest.fixture
def text(toy, tmp_path):
    """A few sentences, some of them twice."""
    lines = (toy / "valid.txt").read_text().splitlines()[:3]
    path = tmp_path / "text.txt"
    path.write_text("\n".join([*lines, *lines[1:2]]) + "\n")
    return path


def nats_by_hand(read, settings: CacheSettings) -> float:
    """The equations, token by token, with the cache as a list and its probabilities as a dictionary."""
    held: list[tuple[torch.Tensor, int]] = []
    total = 0.0
    for hidden, token, log_prob in read:
        prob = math.exp(log_prob)
        weights: dict[int, float] = defaultdict(float)
        for earlier, word in held[-settings.size :]:
            weights[word] += math.exp(settings.theta * float(hidden @ earlier))
        if weights:
            prob = (1 - settings.weight) * prob + settings.weight * weights[token] / sum(weights.values())
        total -= math.log(prob)
        held.append((hidden, token))
    return total


@MODES
def test_the_score_is_that_of_the_equations_token_by_token(stored, text, monkeypatch, mode):
    monkeypatch.setattr(cache, "ROWS_TOGETHER", 5)  # many parts, of rows and of the text
    for name, value in (("STREAM_STEPS", 16), ("TOKENS_WITH_STATES", 30), ("TOKEN_BUDGET", 20)):
        monkeypatch.setattr(engine, name, value)
    lines = text.read_text().splitlines()
    read = [token for line in read_by_hand(stored, lines, mode) for token in line]
    for weight, theta, size in [*product([0.3], [0.0, 0.8], [1, 7, 10_000]), (0.0, 0.5, 100)]:
        settings = CacheSettings(weight, theta, size)
        score = evaluate_text(stored, text, reading(mode), settings)
        assert score.nats == pytest.approx(nats_by_hand(read, settings), rel=1e-9), settings
        assert score.without_cache.nats == pytest.approx(-sum(log_prob for *_, log_prob in read), rel=1e-9)
        assert score.tokens == len(read)


@pytest.mark.parametrize(("count", "size"), [(1, 3), (2, 1), (9, 3), (9, 100)])
def test_probabilities_over_the_vocabulary_sum_to_one(lstm, text, count, size):
    corpus = EncodedCorpus.encode(text, lstm.normaliser, lstm.vocabulary)
    lstm.model.double()
    whole = next(iter(Scorer.of(lstm, STREAM).tokens(corpus, hidden=True)))
    hidden, chosen = whole.hidden, whole.tokens
    model_log_probs = torch.log_softmax(lstm.model.decoder(hidden[count - 1]).detach(), dim=0)
    total = 0.0
    for word, log_prob in enumerate(model_log_probs):
        tokens = torch.cat([chosen[: count - 1], torch.tensor([word])])
        part = ScoredTokens(tokens, log_prob.repeat(count), hidden[:count])
        cache_probs = NeuralCache(size).probs(part, [0.7])[:, 0]
        total += mixed_log_probs(part.log_probs, cache_probs, 0.4)[-1].exp().item()
    assert total == pytest.approx(1, abs=1e-12)


def test_a_word_not_in_the_cache_has_cache_probability_0_and_a_large_theta_does_not_overflow():
    hidden = torch.full((4, 4), 50.0)
    part = ScoredTokens(torch.tensor([1, 2, 1, 3]), torch.full((4,), -2.0), hidden)
    cache_probs = NeuralCache(2).probs(part, [1000.0])[:, 0]
    assert cache_probs.tolist() == pytest.approx([math.exp(-2), 0, 0.5, 0])
    assert mixed_log_probs(part.log_probs, cache_probs, 0.5)[3].item() == pytest.approx(-2 + math.log(0.5))


@MODES
def test_a_text_that_repeats_itself_gains_and_more_so_with_a_longer_memory(lstm, toy, tmp_path, mode):
    lines = (toy / "test.txt").read_text().splitlines()[:8]
    (tmp_path / "text.txt").write_text("\n".join(lines * 3) + "\n")
    words = sum(len(line.split()) + 1 for line in lines)
    short, long = (
        evaluate_text(lstm, tmp_path / "text.txt", reading(mode), CacheSettings(0.3, 1.0, size))
        for size in (3, 2 * words)
    )
    assert long.perplexity < short.perplexity
    assert long.perplexity < 0.9 * long.without_cache.perplexity


def test_both_perplexities_and_the_settings_are_printed(prpn, text):
    settings = CacheSettings(0.1, 0.25, 50)
    score = evaluate_text(prpn, text, cache=settings)
    assert isinstance(score, CachedScore)
    assert (score.cache, score.mode) == (settings, SENTENCES)
    data = json.loads(json.dumps(score.to_dict()))
    assert data["perplexity"] == score.perplexity
    assert data["without_cache"]["perplexity"] == pytest.approx(evaluate_text(prpn, text).perplexity, rel=1e-5)
    assert data["cache"] == {"size": 50, "weight": 0.1, "theta": 0.25}
    for part in (f"{score.perplexity:.2f}", f"{score.without_cache.perplexity:.2f}", "cache of 50 words", "weight 0.1"):
        assert part in str(score)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ((0.1, 0.1, 0), "size: found 0"),
        ((1.0, 0.1, 5), "weight: found 1.0"),
        ((-0.1, 0.1, 5), "weight: found -0.1"),
        ((math.nan, 0.1, 5), "weight: found nan"),
        ((0.1, -1.0, 5), "theta: found -1.0"),
        ((0.1, math.inf, 5), "theta: found inf"),
    ],
)
def test_settings_out_of_range_raise_an_error(settings, message):
    with pytest.raises(InputError, match=message):
        CacheSettings(*settings)
