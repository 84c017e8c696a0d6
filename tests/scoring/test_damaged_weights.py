"""Weights that are damaged, but finite: log-probabilities agree with surprisals, and no surprisal is infinite or below
0.
"""

from __future__ import annotations

import math

import pytest
import torch

from syntaxlm.core.errors import InputError
from syntaxlm.evaluation.perplexity import evaluate_text
from syntaxlm.models.abilities import ScoresTokens
from syntaxlm.scoring.engine import Scorer
from syntaxlm.scoring.surprisal import surprisals
from tests.fresh_models import every_model, fresh
from tests.grammar_models import grammar
from tests.models.variants import SENTENCE_VARIANTS, names_with

LINES = ["the cat sees a dog", "a dog", "the old dog sees the cat"]
GRAMMARS = [name for name in names_with(ScoresTokens, among=list(SENTENCE_VARIANTS)) if "pcfg" in name]


def scaled(bundle, factor):
    """The same model in float32, all weights multiplied by a factor."""
    bundle.model.float()
    with torch.no_grad():
        for weights in bundle.model.parameters():
            weights.mul_(factor)
    return bundle


def bits_of(bundle):
    return [[row.surprisal for row in rows] for rows in surprisals(bundle, LINES)]


@pytest.mark.parametrize("name", GRAMMARS)
@pytest.mark.parametrize("factor", [1.0, 30.0, 100.0, 300.0, 1000.0])
def test_log_probabilities_of_sentences_agree_with_the_surprisals_of_words(name, factor):
    bundle = scaled(grammar(name), factor)
    try:
        bits = bits_of(bundle)
    except InputError as error:
        if factor == 1 or "unusable" not in str(error):
            raise
        return
    log_probs = Scorer.of(bundle).sentences([line.split() for line in LINES])
    assert [-math.log(2) * sum(of_line) for of_line in bits] == pytest.approx(log_probs.tolist(), rel=1e-3)
    assert all(0 <= value < math.inf for of_line in bits for value in of_line)


def test_probabilities_that_are_too_small_for_the_precision_of_the_model_agree_with_the_surprisals_too():
    bundle = grammar("tensor-pcfg")
    bundle.model.float()
    with torch.no_grad():
        bundle.model.grammar.symbols.mul_(100)
    log_probs = Scorer.of(bundle).sentences([line.split() for line in LINES])
    assert -1e4 < log_probs.min() < -1e3
    assert [-math.log(2) * sum(of_line) for of_line in bits_of(bundle)] == pytest.approx(log_probs.tolist(), rel=1e-6)


@pytest.mark.parametrize("name", GRAMMARS)
def test_a_probability_of_0_is_refused_in_every_result(name, tmp_path):
    bundle = grammar(name)
    log_probs, prefixes = bundle.model._log_probs, bundle.model._prefixes
    bundle.model._log_probs = lambda *arguments: log_probs(*arguments) - math.inf
    bundle.model._prefixes = lambda *arguments: [values - math.inf for values in prefixes(*arguments)]
    (tmp_path / "text.txt").write_text("\n".join(LINES))
    found = f"^{bundle.name}: the model returned (a probability of 0|NaN); its weights are unusable"
    with pytest.raises(InputError, match=found):
        Scorer.of(bundle).sentences([line.split() for line in LINES])
    with pytest.raises(InputError, match=found):
        evaluate_text(bundle, tmp_path / "text.txt")
    with pytest.raises(InputError, match=found):
        bits_of(bundle)


def test_a_sentence_without_words_has_the_probability_0_in_a_grammar():
    assert Scorer.of(grammar("simple-pcfg")).sentences([[], ["cat"]]).tolist() == [-math.inf, pytest.approx(-4, abs=4)]


@every_model
@pytest.mark.parametrize("factor", [1e3, 1e6])
def test_surprisals_are_never_below_0(name, factor):
    bundle = fresh(name)
    if name != "ngram":
        scaled(bundle, factor)
    try:
        bits = bits_of(bundle)
    except InputError as error:
        if "unusable" not in str(error):
            raise
    else:
        assert all(value >= 0 for of_line in bits for value in of_line)


def test_log_probabilities_above_0_by_rounding_are_0():
    scorer = Scorer.of(fresh("lstm"))
    checked = scorer._checked(torch.tensor([1e-4, -1.0, 0.0]))
    assert checked.tolist() == [0.0, -1.0, 0.0]


def test_an_n_gram_model_may_give_the_probability_0():
    """Its back-off weight is 0 if all words that follow a context in the text have all the probability."""
    bundle = fresh("ngram")
    for level in bundle.model.levels:
        level.back_offs.fill_(-math.inf)
    assert math.inf in [value for of_line in bits_of(bundle) for value in of_line]
