"""Listing the most probable rules and words of a grammar."""

from __future__ import annotations

import pytest
import torch

from syntaxlm.models.abilities import HasGrammar
from syntaxlm.models.pcfg import derivations
from syntaxlm.models.pcfg.grammars import CompoundGrammar
from syntaxlm.ops.inside import FactoredRules
from tests.grammar_models import every_grammar, grammar


@every_grammar
@pytest.mark.parametrize("together", [1, 24, 1 << 20])
def test_the_top_rules_are_those_of_the_full_table(name, together, monkeypatch):
    monkeypatch.setattr(derivations, "_PAIRS_TOGETHER", together)
    model = grammar(name).model
    assert isinstance(model, HasGrammar)
    table = model._all_tables()[0].table()
    for symbol in range(model.nonterminal_count):
        rules = model.top_rules(symbol, 5)
        expected = table[symbol].flatten().sort(descending=True).values[:5]
        assert [rule.probability for rule in rules] == pytest.approx(expected.tolist(), abs=1e-12)
        assert [float(table[symbol, rule.left, rule.right]) for rule in rules] == pytest.approx(expected.tolist())
        assert len({rule[:2] for rule in rules}) == 5


@every_grammar
def test_all_rules_and_all_words_of_a_symbol_have_probability_one(name):
    model = grammar(name).model
    symbols = len(model.labels)
    assert sum(rule.probability for rule in model.top_rules(1, symbols**2)) == pytest.approx(1)
    assert len(model.top_rules(1, 10 * symbols**2)) == symbols**2
    words = model.top_words(symbols - 1, 100)
    assert sum(word.probability for word in words) == pytest.approx(1)
    assert sorted(word.word for word in words) == [0, *range(3, model.vocabulary_size)]
    assert [word.probability for word in words] == sorted((word.probability for word in words), reverse=True)
    assert float(model.start_probabilities().sum()) == pytest.approx(1)


def test_the_rules_of_a_compound_grammar_are_those_at_z_zero():
    model = grammar("compound-pcfg").model
    assert isinstance(model.grammar, CompoundGrammar)
    assert "z = 0" in model.rules_note
    assert not grammar("neural-pcfg").model.rules_note
    rules, emissions = model.grammar.all_tables(torch.zeros(2))
    assert model.top_rules(0, 1)[0].probability == pytest.approx(rules.binary[0].max().item())
    assert model.top_words(4, 1)[0].probability == pytest.approx(emissions[:, 0].max().exp().item())


def test_listing_a_grammar_with_thousands_of_symbols_needs_no_table():
    """Its table would take 70 GiB."""
    nonterminals, symbols = 2048, 3072
    generator = torch.Generator().manual_seed(0)
    left, right = (torch.softmax(torch.randn(nonterminals, symbols, generator=generator), 1) for _ in range(2))
    rules = FactoredRules(torch.full((nonterminals,), 1 / nonterminals), left, right)
    (best, *_) = derivations.top_rules(rules, 7, 3)
    assert best.probability == pytest.approx(float(left[7].max().double() * right[7].max().double()))
    assert (best.left, best.right) == (int(left[7].argmax()), int(right[7].argmax()))
