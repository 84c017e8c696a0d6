"""Speed on one core.  Tests are repeated in case the machine is busy."""

import time
from collections.abc import Callable

import numpy as np
import pytest

from syntaxlm.trees.averaging import average
from syntaxlm.trees.baselines import baseline_scores
from syntaxlm.trees.bounds import biased_upper_bound, random_trees
from syntaxlm.trees.decoding import DECODING_RULES, SPAN_RULES, SpanTable, decode, decode_spans
from syntaxlm.trees.f1 import PROTOCOLS, score
from syntaxlm.trees.tree import parse_brackets

pytestmark = pytest.mark.long

WORDS, CHANCES = 23, 8


def best_seconds(work: Callable[[], object]) -> float:
    seconds = []
    for _ in range(CHANCES):
        begin = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - begin)
    return min(seconds)


@pytest.mark.parametrize("rule", DECODING_RULES)
def test_fifty_thousand_sentences_are_decoded_and_scored_in_a_second(rule):
    lengths = np.full(50_000, WORDS)
    gold = random_trees(lengths, 0)
    distances = np.random.default_rng(1).random(lengths.sum(), np.float32)
    protocol = PROTOCOLS["wsj-test"]
    assert best_seconds(lambda: score(decode(distances, lengths, rule), gold, protocol, details=False)) < 1


def test_twenty_thousand_sentences_have_their_baselines_in_a_second():
    gold = random_trees(np.full(20_000, WORDS), 0)
    assert best_seconds(lambda: baseline_scores(gold, PROTOCOLS["wsj-test"], biased_bound=False)) < 1


def test_the_biased_bound_of_a_treebank_takes_seconds():
    gold = random_trees(np.random.default_rng(0).integers(1, 45, 3900), 0)
    assert best_seconds(lambda: biased_upper_bound(gold)) < 5


def test_a_thousand_sentences_of_seven_parsers_are_averaged_in_a_second():
    predictions = [random_trees(np.full(1000, WORDS), seed) for seed in range(7)]
    assert best_seconds(lambda: average(predictions)) < 1


def test_the_span_probabilities_of_three_models_are_averaged_at_a_thousand_sentences_in_a_second():
    lengths = np.full(1000, WORDS)
    values = np.random.default_rng(0).random((3, 1000 * WORDS * (WORDS + 1) // 2), np.float32)
    predictions = [*(SpanTable(lengths, one) for one in values), random_trees(lengths, 0)]
    assert best_seconds(lambda: average(predictions)) < 1


def test_three_hundred_thousand_words_are_read_in_a_second():
    sentence = "(S (NP (DT the) (JJ old) (NN cat)) (VP (VBD sat) (PP (IN on) (NP (DT the) (NN mat)))) (. .))\n"
    text = sentence * (300_000 // 9)
    assert best_seconds(lambda: parse_brackets(text)) < 1


@pytest.mark.parametrize("rule", SPAN_RULES)
def test_a_thousand_sentences_are_decoded_from_span_scores_in_a_second(rule):
    scores = np.random.default_rng(8).standard_normal(1000 * WORDS * (WORDS + 1) // 2)
    assert best_seconds(lambda: decode_spans(SpanTable(np.full(1000, WORDS), scores), rule)) < 1
