"""Sentences so long that span-based models take minutes, or do not fit in memory."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

from syntaxlm.core.errors import InputError, InputWarning
from syntaxlm.evaluation.perplexity import evaluate_text
from syntaxlm.models.abilities import ScoresSentences
from syntaxlm.models.registry import MODELS, build_model
from syntaxlm.ops.inside import posteriors
from syntaxlm.parsing import structure
from syntaxlm.parsing.options import ParseOptions
from syntaxlm.parsing.parse import parse_lines
from syntaxlm.scoring import engine, long_sentences
from syntaxlm.scoring.engine import Scorer
from syntaxlm.scoring.options import ScoreOptions
from syntaxlm.scoring.surprisal import surprisals
from tests.fresh_models import fresh
from tests.grammar_models import grammar

LINE = "the cat sees a dog " * 6


def cubic_time(monkeypatch):
    clock = itertools.cycle([0.0, 60.0, 0.0, 480.0])  # a minute for five words, eight for ten
    monkeypatch.setattr(long_sentences, "TRIED_WORDS", 5)
    monkeypatch.setattr(long_sentences.time, "perf_counter", lambda: next(clock))


def test_a_long_sentence_is_reported_with_the_expected_time(monkeypatch):
    monkeypatch.setattr(structure, "LONG_SENTENCE", 20)
    cubic_time(monkeypatch)
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


@pytest.mark.parametrize(("also", "marks"), [(["on-lstm"], "auto"), ([], "end")])
def test_a_sentence_that_is_too_long_for_an_average_is_named_by_its_line(also, marks):
    models = [fresh(name) for name in ("prpn", *also)]
    with pytest.raises(InputError, match=r"^sentence 13: found 5,002 words; expected at most 5,000"):
        parse_lines(models, ["", "a cat", "", "a dog , " + "a " * 4999], ParseOptions(marks=marks), first=10)


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
        cubic_time(monkeypatch)
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


@every_grammar
@pytest.mark.parametrize("measure", [None, "expected_open", "belief_update", "derivation_entropy"])
def test_the_memory_of_charts_is_bounded_by_a_setting(model, measure, monkeypatch):
    options = ScoreOptions(measures=[measure] if measure else [])
    (expected,) = surprisals(model, ["the cat sees"], options)
    monkeypatch.setenv("SYNTAXLM_CHART_MEMORY", "0.001")
    monkeypatch.setattr("syntaxlm.models.pcfg.model.OUTSIDE_TOGETHER", 1)
    assert next(surprisals(model, ["the cat sees"], options)) == expected
    monkeypatch.setenv("SYNTAXLM_CHART_MEMORY", "1e-5")
    for refused in (lambda: list(surprisals(model, [LINE], options)), lambda: parse_lines(model, [LINE])):
        with pytest.raises(
            InputError,
            match=r"a sentence of 30 words, whose chart needs about .* GiB, but SYNTAXLM_CHART_MEMORY=1e-5 limits",
        ):
            refused()


def test_charts_of_a_batch_stay_within_the_setting_and_change_nothing(monkeypatch):
    model, sizes = grammar("simple-pcfg"), []
    lines = [LINE, "the cat", "a dog sees the cat", LINE + "the cat"] * 3

    def posteriors_of(rules, emissions, words, layout, **options):
        sizes.append(layout.rows)
        return posteriors(rules, emissions, words, layout, **options)

    monkeypatch.setattr("syntaxlm.models.pcfg.sentence_pcfg.posteriors", posteriors_of)
    expected = parse_lines(model, lines).spans
    limit = 24 * model.model.nonterminal_count * 600
    monkeypatch.setenv("SYNTAXLM_CHART_MEMORY", str(limit / 2**30))
    before = max(sizes)
    sizes.clear()
    found = parse_lines(model, lines).spans
    assert np.array_equal(found.starts, expected.starts)
    assert np.array_equal(found.ends, expected.ends)
    assert max(sizes) <= 600 < before


def test_the_memory_of_a_chart_grows_with_the_factors_of_the_rules(monkeypatch):
    """A tensor PCFG may have many more factors than nonterminals, and a span has three values of each."""
    sizes = {"nonterminals": 4, "preterminals": 8, "embedding_size": 6, "rank": 400}
    model = build_model(MODELS["tensor-pcfg"].config(**sizes), 11)
    assert isinstance(model, ScoresSentences)
    chart = 30 * 31 // 2 * 3 * 400 * torch.float32.itemsize
    monkeypatch.setenv("SYNTAXLM_CHART_MEMORY", str(chart / 2**30))
    model.check_length(2)
    with pytest.raises(InputError, match="a sentence of 30 words, whose chart needs about"):
        model.check_length(30)


@pytest.mark.parametrize("name", ["neural-pcfg", "compound-pcfg"])
def test_the_memory_of_marginals_under_a_full_table_is_that_of_all_splits(name, monkeypatch):
    model = grammar(name)
    children = 30 * (30**2 - 1) // 6 * 2 * model.model.nonterminal_count * torch.float32.itemsize
    monkeypatch.setenv("SYNTAXLM_CHART_MEMORY", str(children / 2**30))
    assert Scorer.of(model).sentences([LINE.split()]) < 0, "without gradients, they are not in memory together"
    parse_lines(model, ["the cat sees a dog"])
    with pytest.raises(InputError, match="a sentence of 30 words, whose chart needs about"):
        parse_lines(model, [LINE])


@pytest.mark.parametrize("value", ["much", "0", "-1", "nan", "1e30"])
def test_a_setting_of_the_memory_of_charts_that_is_no_size_is_reported(value, monkeypatch):
    monkeypatch.setenv("SYNTAXLM_CHART_MEMORY", value)
    with pytest.raises(InputError, match=rf"SYNTAXLM_CHART_MEMORY='{value}'; expected a number of GiB"):
        parse_lines(grammar("simple-pcfg"), ["the cat sees a dog"])


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
