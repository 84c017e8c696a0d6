"""Models that read whole sentences, in all commands that score text."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import torch

from syntaxlm.cli import main
from syntaxlm.core.errors import InputError
from syntaxlm.data.pairs import MinimalPair
from syntaxlm.evaluation.pairs import score_pairs
from syntaxlm.evaluation.perplexity import LanguageModelScore, evaluate_text
from syntaxlm.generation.options import SamplingOptions
from syntaxlm.generation.sentences import generate
from syntaxlm.models.abilities import ScoresTokens
from syntaxlm.models.batches import TokenBatch
from syntaxlm.scoring import engine
from syntaxlm.scoring.cache import CacheSettings
from syntaxlm.scoring.engine import Scorer
from syntaxlm.scoring.options import ScoreOptions
from syntaxlm.scoring.surprisal import surprisals
from syntaxlm.storage.folder import ModelBundle, write_model
from tests.fresh_models import OPEN, STREAM, every_sentence_model, fresh, reading
from tests.models.variants import SENTENCE_VARIANTS, names_with

LINES = ["the cat sees a dog", "old", "xyzzy the xyzzy", "the cat sees a dog", "a dog", "old", "the cat sees a cat ."]
EXACT = names_with(ScoresTokens, among=list(SENTENCE_VARIANTS))
every_exact_model = pytest.mark.parametrize("name", EXACT)


def alone(stored: ModelBundle, line: str) -> float:
    """The log-probability of a sentence in its own batch."""
    ids = stored.vocabulary.encode(line.split())
    tokens, targets = ([stored.vocabulary.begin_id, *ids], [*ids, stored.vocabulary.end_id])
    with torch.no_grad():
        batch = TokenBatch(torch.tensor(tokens)[:, None], torch.tensor(targets)[:, None])
        return float(stored.model.sentence_log_probs(batch)[0])


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("\n".join(LINES) + "\n")
    return path


@every_sentence_model
@pytest.mark.parametrize("budget", [1, 12, 8192])
def test_the_perplexity_of_a_text_is_that_of_its_sentences_repeated_ones_included(name, budget, text, monkeypatch):
    stored = fresh(name)
    monkeypatch.setattr(engine, "TOKEN_BUDGET", budget)
    score = evaluate_text(stored, text)
    assert score.nats == pytest.approx(-sum(alone(stored, line) for line in LINES), rel=1e-10)
    assert (score.tokens, score.sentences, score.unknown) == (sum(len(line.split()) + 1 for line in LINES), 7, 2)
    assert score.perplexity == pytest.approx(math.exp(score.nats / score.tokens))
    assert Scorer.of(stored).sentences([line.split() for line in LINES]).tolist() == pytest.approx(
        [alone(stored, line) for line in LINES]
    )


@every_sentence_model
def test_an_estimate_of_the_likelihood_is_printed_and_stored_as_one(name, text):
    score = evaluate_text(fresh(name), text)
    of_compound = "ELBO at the mean of q(z|x), approximate" if name.startswith("compound-pcfg") else None
    estimate = {"tree-transformer": "by a beam of trees"}.get(name, of_compound)
    assert score.likelihood_estimate == score.to_dict()["likelihood_estimate"] == estimate
    label = f"perplexity ({estimate})" if estimate else "perplexity"
    assert str(score).startswith(f"{label} {score.perplexity:.2f} ")
    again = LanguageModelScore.from_dict(json.loads(json.dumps(score.to_dict())))
    assert again == score


@every_exact_model
def test_surprisals_add_up_to_the_log_probability_of_the_sentence(name):
    stored = fresh(name)
    for line, rows in zip(LINES, surprisals(stored, LINES), strict=True):
        assert [row.word for row in rows][:-1] == line.split()
        bits = sum(row.surprisal for row in rows)
        assert bits == pytest.approx(-alone(stored, line) / math.log(2), rel=1e-9)


@every_sentence_model
def test_a_sentence_without_words_has_probability_0_among_others(name):
    stored = fresh(name)
    found = Scorer.of(stored).sentences([["the", "cat"], [], ["old"]])
    assert found[1] == (alone(stored, "") if name == "tree-transformer" else -np.inf)
    assert found[[0, 2]].tolist() == pytest.approx([alone(stored, "the cat"), alone(stored, "old")])


@every_sentence_model
def test_pairs_are_decided_by_sentence_probability(name):
    stored = fresh(name)
    better, worse = sorted(["the cat sees", "the sees cat"], key=lambda line: -alone(stored, line))
    scores = score_pairs(stored, [MinimalPair(better, worse, "case", {}, "file", 1)])
    assert scores.correct.all()
    assert not score_pairs(stored, [MinimalPair(worse, better, "case", {}, "file", 1)]).correct.any()


@every_sentence_model
def test_other_text_modes_raise_an_error_with_the_option_to_omit(name, text):
    stored = fresh(name)
    stream = "one stream, state carried across sentences"
    end = "reads nothing else. Omit context='carry'"
    requests = [
        (stream, lambda: evaluate_text(stored, text, reading(STREAM))),
        (stream, lambda: list(surprisals(stored, LINES, ScoreOptions(context="carry")))),
        ("sentence by sentence, ends of sentences not predicted", lambda: Scorer.of(stored, OPEN)),
    ]
    for mode, ask in requests:
        with pytest.raises(InputError) as caught:
            ask()
        assert str(caught.value) == (
            f"found text read as {mode}; expected sentences that are read by themselves, with their ends, because a"
            f" {SENTENCE_VARIANTS[name][0]} model {end}"
        )
    assert Scorer.of(stored).mode == stored.mode


@pytest.mark.parametrize("command", [["evaluate", "perplexity"], ["score"]])
def test_commands_report_an_unsupported_stream_in_one_line(command, text, tmp_path, capsys):
    stored = fresh("simple-pcfg")
    stored.model.float()
    write_model(tmp_path / "model", stored)
    assert main([*command, str(tmp_path / "model"), str(text), "--context", "carry"]) == 2
    out, message = capsys.readouterr()
    assert not out
    assert message.splitlines()[-1].endswith("reads nothing else. Omit --context carry")
    assert main([*command, str(tmp_path / "model"), str(text), "--context", "reset"]) == 0


def test_the_error_for_token_scores_of_a_bound_lists_the_types_that_have_them(text):
    stored = fresh("compound-pcfg")
    with pytest.raises(InputError, match=r"^this compound-pcfg model gives no token probabilities, so scoring of"):
        list(surprisals(stored, LINES))
    with pytest.raises(InputError, match="does not predict the next token; its sentences are sampled top-down"):
        list(generate(stored, 1, prompt="the"))
    with pytest.raises(InputError, match="gives no hidden states of a text, so a neural cache cannot use it"):
        evaluate_text(stored, text, cache=CacheSettings(0.1, 0.1))


@every_exact_model
@pytest.mark.parametrize("prompt", [None, "the xyzzy cat"])
def test_generated_sentences_have_the_surprisals_of_reading_them(name, prompt):
    stored = fresh(name)
    sentences = list(generate(stored, 3, prompt, SamplingOptions(max_words=6, seed=4)))
    assert len({sentence.text for sentence in sentences}) > 1
    for sentence in sentences:
        (rows,) = surprisals(stored, [sentence.text])
        expected = [row.surprisal for row in rows][: None if sentence.ended else -1]
        assert sentence.surprisals == pytest.approx(expected, abs=1e-9)
