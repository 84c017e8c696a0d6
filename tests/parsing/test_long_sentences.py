"""Sentences so long that span-based models take minutes, or do not fit in memory."""

from __future__ import annotations

import itertools

import pytest

from syntaxlm.core.errors import InputError, InputWarning
from syntaxlm.parsing import structure
from syntaxlm.parsing.parse import parse_lines
from tests.fresh_models import fresh
from tests.grammar_models import grammar

LINE = "the cat sees a dog " * 6


def test_a_long_sentence_is_reported_with_the_expected_time(monkeypatch):
    monkeypatch.setattr(structure, "LONG_SENTENCE", 20)
    monkeypatch.setattr(structure, "TRIED_WORDS", 5)
    clock = itertools.count(step=60.0)
    monkeypatch.setattr(structure.time, "perf_counter", lambda: next(clock))  # a minute for the first words
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
