"""The program of the laboratory that measures whether a grammar has collapsed."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from laboratory.measurements import collapse as program
from laboratory.measurements.collapse import collapse, drawn_pairs, expected_counts, mean_divergence

from syntaxlm.models.pcfg.grammars import Sentences, Tables
from syntaxlm.ops.inside import FactoredRules, TableRules, log_partition_reference
from tests.grammar_models import every_grammar, grammar

SENTENCES = [["the", "old", "dog", "sees", "a", "cat"], ["a", "cat", "sleeps"], ["the", "dog", "sees", "unread", "<b>"]]


def divergence(first, second):
    """The definition: mean divergence of both distributions from their mixture, in bits."""
    mixture = (first + second) / 2
    return sum(float((part * (part / mixture).log2()).sum()) for part in (first, second)) / 2


def mean_over_pairs(distributions):
    count = len(distributions)
    pairs = [(first, second) for second in range(count) for first in range(second)]
    return float(np.mean([divergence(distributions[first], distributions[second]) for first, second in pairs]))


@every_grammar
def test_divergences_of_rules_and_of_words_equal_those_of_the_whole_tables(name):
    bundle = grammar(name)
    rules, emissions = bundle.model.grammar.all_tables()
    measured = collapse(bundle, SENTENCES)
    assert measured.rule_divergence == pytest.approx(mean_over_pairs(rules.table().detach()))
    assert measured.emission_divergence == pytest.approx(mean_over_pairs(emissions.detach().exp().T))
    assert 0 < measured.rule_divergence < 1
    assert (measured.rule_pairs, measured.rule_pairs_compared, measured.rule_divergence_error) == (6, 6, 0)
    assert (measured.emission_pairs, measured.emission_pairs_compared) == (28, 28)
    assert measured.emission_divergence_error == 0


@every_grammar
def test_expected_counts_are_the_marginals_of_symbols_by_the_recursion_in_logarithms(name):
    model = grammar(name).model
    words = [[1, 8, 4, 6, 2, 3], [2, 3, 7], [1, 4, 6, 0, 5]]
    nonterminals, preterminals = torch.zeros(2, 8, dtype=torch.float64)
    for sentence in words:
        with torch.no_grad():
            tables = model.grammar.tables(Sentences.of([sentence]))
        rules = tables.rules.of(0) if isinstance(tables.rules, TableRules) else tables.rules
        emissions = tables.emissions[tables.words].requires_grad_()
        weights = torch.zeros(len(sentence), len(sentence), 4, dtype=torch.float64, requires_grad=True)
        log_partition_reference(rules, emissions, weights).backward()
        nonterminals[:4] += weights.grad.sum((0, 1))
        preterminals += emissions.grad.sum(0)

    counts = expected_counts(model.grammar, words)
    torch.testing.assert_close(counts[0], nonterminals[:4])
    torch.testing.assert_close(counts[1], preterminals)
    assert counts[0].sum() == pytest.approx(sum(map(len, words)) - len(words))
    assert counts[1].sum() == pytest.approx(sum(map(len, words)))


@pytest.mark.parametrize("share", [1e-20, 0])
def test_sentences_whose_probability_is_too_small_for_float32_are_counted_in_float64(share):
    left = torch.tensor([[1.0, share]])  # the left child is hardly ever a word
    rules = FactoredRules(torch.ones(1), left, torch.tensor([[0.5, 0.5]]))
    tables = Tables(rules, torch.zeros(1, 1), torch.tensor([0, 0]))
    of_two_words = SimpleNamespace(nonterminal_count=1, preterminal_count=1, tables=lambda sentences: tables)
    if share:
        nonterminals, preterminals = expected_counts(of_two_words, [[0, 0]])
        assert (nonterminals.item(), preterminals.item()) == (pytest.approx(1), pytest.approx(2))
    else:
        with pytest.raises(ValueError, match="probability 0"):
            expected_counts(of_two_words, [[0, 0]])


def test_symbols_with_the_same_rules_do_not_differ_and_symbols_without_a_common_rule_differ_by_a_bit():
    first, second = torch.tensor([[0.5, 0.5, 0], [0, 0, 1]], dtype=torch.float64)
    assert mean_divergence([first, first, first].__getitem__, 3).mean == 0
    assert mean_divergence([first, second].__getitem__, 2).mean == 1
    assert mean_divergence([first, first, second].__getitem__, 3).mean == pytest.approx(2 / 3)
    with pytest.raises(ValueError, match="found one symbol"):
        mean_divergence([first].__getitem__, 1)


def test_of_too_many_pairs_some_are_drawn_and_the_error_of_the_mean_is_stated(monkeypatch):
    torch.manual_seed(1)
    rows = torch.randn(40, 30, dtype=torch.float64).mul(2).softmax(1)
    whole = mean_divergence(rows.__getitem__, 40)
    assert (whole.pairs, whole.compared, whole.standard_error) == (780, 780, 0)
    monkeypatch.setattr(program, "PROBABILITIES_COMPARED", 200 * 30)
    sampled = mean_divergence(rows.__getitem__, 40)
    assert (sampled.pairs, sampled.compared) == (780, 200)
    pairs = drawn_pairs(40, 200)
    assert len(set(map(tuple, pairs.tolist()))) == 200
    values = [divergence(rows[first], rows[second]) for first, second in pairs]
    assert sampled.mean == pytest.approx(np.mean(values))
    assert sampled.standard_error == pytest.approx(np.std(values, ddof=1) / math.sqrt(200) * math.sqrt(1 - 200 / 780))
    assert abs(sampled.mean - whole.mean) < 4 * sampled.standard_error


def test_a_collapsed_grammar_uses_all_symbols_alike_and_its_symbols_do_not_differ():
    bundle = grammar("simple-pcfg", sharpness=0)
    measured = collapse(bundle, SENTENCES)
    assert measured.rule_divergence == pytest.approx(0, abs=1e-9)
    assert measured.emission_divergence == pytest.approx(0, abs=1e-9)
    assert (measured.used_nonterminals, measured.used_preterminals) == (pytest.approx(4), pytest.approx(8))
    assert measured.sentences == 3


def test_the_program_reads_the_first_sentences_of_three_words_and_prints_the_measures(tmp_path, capsys, monkeypatch):
    text = tmp_path / "text.txt"
    text.write_text("the dog\n" + "".join(" ".join(sentence) + "\n" for sentence in SENTENCES))
    bundle = grammar("neural-pcfg")
    monkeypatch.setattr("syntaxlm.load", lambda folder: bundle)
    monkeypatch.setattr("sys.argv", ["collapse", "model", str(text), "--sentences", "2"])
    program.main()
    printed = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert (printed["sentences"], printed["nonterminals"], printed["preterminals"]) == ("2", "4", "8")
    expected = collapse(bundle, SENTENCES[:2]).used_nonterminals
    assert float(printed["used_nonterminals"]) == pytest.approx(expected, abs=0.001)

    text.write_text("the dog\n")
    with pytest.raises(SystemExit):
        program.main()
    assert f"{text}: found no sentence of three words or more" in capsys.readouterr().err
