"""Tuning a cache: the best pair, with the same perplexity as in evaluation."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import torch

from syntaxlm import cli
from syntaxlm.core.errors import InputError
from syntaxlm.evaluation.cache_tuning import THETAS, WEIGHTS, tune_cache
from syntaxlm.evaluation.perplexity import evaluate_text
from syntaxlm.scoring.cache import CacheSettings, NeuralCache, mixed_log_probs
from syntaxlm.scoring.engine import ScoredTokens, Scorer
from tests.fresh_models import SENTENCES, STREAM, reading


@pytest.fixture
def repeated(toy, tmp_path):
    """A text in which a cache helps: each of some sentences a few times."""
    lines = (toy / "valid.txt").read_text().splitlines()[:6]
    path = tmp_path / "repeated.txt"
    path.write_text("\n".join(lines * 4) + "\n")
    return path


@pytest.mark.parametrize("mode", [SENTENCES, STREAM], ids=["sentences", "stream"])
def test_every_perplexity_of_the_table_equals_that_of_evaluating_with_the_pair(lstm, repeated, mode):
    tuning = tune_cache(lstm, repeated, reading(mode), size=60)
    measured = evaluate_text(lstm, repeated, reading(mode), tuning.best)
    assert measured.perplexity == pytest.approx(tuning.best_trial.perplexity, rel=1e-6)
    assert measured.without_cache.perplexity == pytest.approx(tuning.without_cache.perplexity, rel=1e-9)
    for trial in tuning.trials[::6]:
        for weight, perplexity in list(zip(WEIGHTS, trial.perplexities, strict=True))[::3]:
            settings = CacheSettings(weight, trial.theta, 60)
            assert evaluate_text(lstm, repeated, reading(mode), settings).perplexity == pytest.approx(
                perplexity, rel=1e-6
            )


@pytest.fixture
def pointing(monkeypatch):
    """Replaces the model's hidden states by rows of a given length that mostly point to the next word."""

    def pointing(length: float) -> ScoredTokens:
        random = torch.Generator().manual_seed(0)
        words = torch.randint(8, (600,), generator=random)
        noise = torch.randn(600, 8, generator=random, dtype=torch.float64)
        hidden = length * (torch.eye(8, dtype=torch.float64)[words] + 0.5 * noise)
        part = ScoredTokens(words, torch.full((600,), -math.log(8), dtype=torch.float64), hidden)
        monkeypatch.setattr(Scorer, "tokens", lambda *given, **named: iter([part]))
        return part

    return pointing


def test_no_pair_of_a_fine_grid_is_better(lstm, repeated, pointing):
    part = pointing(1.0)
    tuning = tune_cache(lstm, repeated, size=60)
    best = tuning.best_trial

    assert best.perplexity < 0.8 * 8
    assert all(best.perplexity <= value for trial in tuning.trials for value in (trial.perplexity, *trial.perplexities))
    for theta in (best.theta, 0.0, *np.geomspace(0.05, 20, 30)):
        cache_probs = NeuralCache(60).probs(part, [theta])[:, 0]
        for weight in (best.weight, *np.arange(0, 1, 0.05)):
            perplexity = math.exp(-mixed_log_probs(part.log_probs, cache_probs, weight).mean().item())
            if (weight, theta) == (best.weight, best.theta):
                assert best.perplexity == pytest.approx(perplexity)
            assert best.perplexity <= perplexity * 1.003


def test_theta_is_searched_around_the_best_and_beyond_the_table(lstm, repeated, pointing):
    pointing(1.0)
    tuning = tune_cache(lstm, repeated, size=60)
    assert {trial.theta for trial in tuning.trials} > set(THETAS)
    pointing(0.1)  # scores a hundredth as large
    further = tune_cache(lstm, repeated, size=60)
    assert further.best.theta > THETAS[-1]
    assert further.best.theta == pytest.approx(100 * tuning.best.theta, rel=0.2)
    assert further.best.weight == pytest.approx(tuning.best.weight, abs=0.02)
    for one in (tuning, further):
        assert [trial.theta for trial in one.trials] == sorted({trial.theta for trial in one.trials})


def test_the_model_reads_the_text_once(lstm, repeated, monkeypatch):
    read = []
    tokens = Scorer.tokens
    monkeypatch.setattr(Scorer, "tokens", lambda *given, **named: read.append(1) or tokens(*given, **named))
    tune_cache(lstm, repeated, size=60)
    assert len(read) == 1


def test_the_best_weight_is_0_if_a_cache_does_not_help(lstm, toy, tmp_path):
    words = sorted({word for line in (toy / "valid.txt").read_text().splitlines() for word in line.split()})
    words = [word for word in words if lstm.vocabulary.knows(word)]
    (tmp_path / "text.txt").write_text(" ".join(words) + "\n")  # no word twice
    tuning = tune_cache(lstm, tmp_path / "text.txt", size=60)
    assert tuning.best.weight == 0
    assert tuning.best_trial.perplexity == pytest.approx(tuning.without_cache.perplexity, rel=1e-9)


@pytest.mark.parametrize("style", [[], ["--punctuation", "auto", "--contractions", "split"]], ids=["plain", "split"])
def test_the_command_prints_the_table_and_the_command_to_evaluate_it(trained, repeated, capsys, style):
    tune = ["tune", "cache", str(trained.lstm), str(repeated), "--cache-size", "60", *style]
    assert cli.main(tune) == 0
    *table, command = capsys.readouterr().out.splitlines()
    assert sum(line.endswith(" *") for line in table) == 1
    assert " ".join(style) in command
    words = [str(repeated) if word == "TEXT" else word for word in command.split()]
    assert cli.main([*words[1:], "--json"]) == 0
    measured = json.loads(capsys.readouterr().out)
    assert cli.main([*tune, "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["command"] == command
    assert printed["cache"] == measured["cache"]
    assert printed["perplexity"] == pytest.approx(measured["perplexity"], rel=1e-6)
    assert printed["without_cache"]["perplexity"] == pytest.approx(measured["without_cache"]["perplexity"], rel=1e-9)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--cache-weight", "0.1"], "--cache-theta is missing"),
        (["--cache-theta", "0.1"], "--cache-weight is missing"),
        (["--cache-size", "10"], "--cache-weight is missing"),
    ],
)
def test_invalid_settings_raise_an_error(trained, repeated, capsys, arguments, message):
    assert cli.main(["evaluate", "perplexity", str(trained.lstm), str(repeated), *arguments]) == 2
    assert message in capsys.readouterr().err


def test_tuning_refuses_a_size_of_0(lstm, repeated):
    with pytest.raises(InputError, match=r"cache\.size: found 0"):
        tune_cache(lstm, repeated, size=0)
