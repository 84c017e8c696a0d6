"""Sentences so long that span-based models take minutes, or do not fit in memory."""

from __future__ import annotations

import itertools

import pytest

from syntaxlm.core.errors import InputError, InputWarning
from syntaxlm.evaluation.perplexity import evaluate_text
from syntaxlm.parsing import structure
from syntaxlm.parsing.parse import parse_lines
from syntaxlm.scoring import engine, long_sentences
from syntaxlm.scoring.engine import Scorer
from syntaxlm.scoring.options import ScoreOptions
from syntaxlm.scoring.surprisal import surprisals
from tests.fresh_models import fresh
from tests.grammar_models import grammar

LINE = "the cat sees a dog " * 6


def minute_for_five_words(monkeypatch):
    clock = itertools.count(step=60.0)
    monkeypatch.setattr(long_sentences, "TRIED_WORDS", 5)
    monkeypatch.setattr(long_sentences.time, "perf_counter", lambda: next(clock))


def test_a_long_sentence_is_reported_with_the_expected_time(monkeypatch):
    monkeypatch.setattr(structure, "LONG_SENTENCE", 20)
    minute_for_five_words(monkeypatch)
    found = r"^sentence 12: found 30 words \(the cat sees .* \.\.\.\)\. Parsing the sentence takes about 216 minutes"
    with pytest.warns(InputWarning, match=found):
        parse_lines(grammar("simple-pcfg"), ["", "a cat", LINE], first=10)


@pytest.mark.parametrize("model", [grammar("simple-pcfg"), fresh("palm"), fresh("dmv")], ids=lambda model: model.name)
def test_a_sentence_with_too_many_spans_is_refused_before_memory_is_taken(model, monkeypatch):
    corpus_type = model.model.structure_type.corpus
    monkeypatch.setattr(corpus_type, "__init__", lambda *_: pytest.fail("memory was taken"))
    with pytest.raises(
        InputError, match=r"^sentence 12: found 30,000 words \(the cat .* \.\.\.\); expected at most 5,000"
    ):
        parse_lines(model, ["", "a cat", LINE * 1000], first=10)


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("DefaultCPUAllocator: can't allocate memory")])
def test_a_sentence_that_does_not_fit_in_memory_is_reported(error, monkeypatch):
    model = grammar("simple-pcfg")

    def out_of_memory(batch):
        raise error

    monkeypatch.setattr(model.model, "structure", out_of_memory)
    with pytest.raises(InputError, match=r"^sentence 12: found 30 words; .* do not fit in memory\. Split"):
        parse_lines(model, ["", "a cat", LINE], first=10)


def test_other_errors_of_the_model_are_not_reported_as_a_lack_of_memory(monkeypatch):
    model = grammar("simple-pcfg")

    def wrong(batch):
        raise RuntimeError("shapes do not match")

    monkeypatch.setattr(model.model, "structure", wrong)
    with pytest.raises(RuntimeError, match="shapes do not match"):
        parse_lines(model, [LINE])


GRAMMARS = [grammar(name) for name in ("simple-pcfg", "tensor-pcfg", "neural-pcfg", "holographic-pcfg")]
every_grammar = pytest.mark.parametrize("model", GRAMMARS, ids=lambda model: model.name)


@every_grammar
def test_scoring_a_long_sentence_is_reported_with_the_expected_time(model, monkeypatch, tmp_path):
    monkeypatch.setattr(engine, "LONG_SENTENCE", 20)
    found = r"^sentence 3: found 30 words \(the cat sees .* \.\.\.\)\. Scoring the sentence takes about 216 minutes"
    lines = ["", "a cat", LINE]
    (tmp_path / "text.txt").write_text("\n".join(lines))
    for score in (
        lambda: list(surprisals(model, lines)),
        lambda: list(surprisals(model, lines, ScoreOptions(measures=["entropy"]))),
        lambda: Scorer.of(model).sentences([line.split() for line in [*lines, LINE]]),
        lambda: Scorer.of(model).sentences(iter([line.split() for line in lines])),
        lambda: evaluate_text(model, tmp_path / "text.txt"),
    ):
        minute_for_five_words(monkeypatch)
        with pytest.warns(InputWarning, match=found):
            score()


@pytest.mark.parametrize("model", [*GRAMMARS, grammar("compound-pcfg"), fresh("dmv")], ids=lambda model: model.name)
def test_scoring_a_sentence_with_too_many_spans_is_refused(model, tmp_path):
    found = r"^sentence 3: found 30,000 words \(the cat .* \.\.\.\); expected at most 5,000"
    lines = ["", "a cat", LINE * 1000]
    (tmp_path / "text.txt").write_text("\n".join(lines))
    with pytest.raises(InputError, match=found):
        Scorer.of(model).sentences([line.split() for line in lines])
    with pytest.raises(InputError, match=found):
        evaluate_text(model, tmp_path / "text.txt")
    if model in GRAMMARS:
        with pytest.raises(InputError, match=found):
            list(surprisals(model, lines))


@every_grammar
def test_scoring_a_sentence_that_does_not_fit_in_memory_is_refused_before_memory_is_taken(model, monkeypatch):
    monkeypatch.setattr("syntaxlm.models.sizes.memory_size", lambda: 20_000)
    monkeypatch.setattr("syntaxlm.models.pcfg.model.prefix_log_probs", lambda *_: pytest.fail("memory was taken"))
    with pytest.raises(InputError, match=r"a sentence of 30 words, whose chart needs about"):
        list(surprisals(model, [LINE]))


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("DefaultCPUAllocator: can't allocate memory")])
def test_scoring_a_sentence_for_which_memory_is_exhausted_is_reported(error, monkeypatch):
    model = grammar("tensor-pcfg")

    def out_of_memory(*_):
        raise error

    monkeypatch.setattr(model.model, "token_log_probs", out_of_memory)
    with pytest.raises(InputError, match=r"^sentence 2: found 30 words; .* do not fit in memory\. Split"):
        list(surprisals(model, ["", LINE]))


def test_models_that_read_one_word_after_the_other_have_no_limit():
    (rows,) = surprisals(fresh("lstm"), [LINE * 200])
    assert len(rows) == 6001
