"""Induced symbols named after the phrases that their constituents resemble."""

from __future__ import annotations

from collections import Counter

import pytest

from syntaxlm.data.toy import english_fragment
from syntaxlm.evaluation.phrases import affinity, phrase_names, profile_of


def constituents(label: str) -> Counter[tuple[str, ...]]:
    """The constituents of a gold label in sentences that are not those of the profiles."""
    sentences = english_fragment().sample(600, seed=5)
    return Counter(
        sentence.words[start:end]
        for sentence in sentences
        for name, start, end in sentence.tree.constituents
        if name == label and end - start > 1
    )


def test_gold_constituents_have_the_name_of_their_label():
    labels = ["PP", "S", "NP", "SBAR", "VP"]
    assert phrase_names(dict(enumerate(map(constituents, labels)))) == dict(enumerate(labels))


def test_a_noun_phrase_without_determiner_is_nominal():
    nominal = Counter(
        {("old", "man"): 5, ("small", "houses"): 4, ("teacher", "from", "paris"): 2, ("dogs", "near", "the", "sea"): 1}
    )
    assert phrase_names({3: nominal, 0: constituents("PP")}) == {3: "NOM", 0: "PP"}


def test_what_resembles_nothing_has_no_name():
    broken = Counter({("the", "in"): 3, ("of", "she"): 2})
    assert phrase_names({1: broken}) == {}


def test_nothing_is_named_in_other_languages():
    german = Counter({("der", "alte", "Mann"): 5, ("im", "Haus"): 3})
    assert phrase_names({1: german}) == {}
    assert phrase_names({}) == {}


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ({("The", "dogs"): 2}, ({"the": 2}, {"-s": 2}, {"2": 2})),
        ({("walked", "quickly", "to", "the", "running"): 1}, ({"-ed": 1}, {"-ing": 1}, {"6": 1})),
    ],
)
def test_a_profile_counts_types_of_words_and_lengths(words, expected):
    assert profile_of(words) == tuple(map(Counter, expected))


def test_affinity_is_one_for_equal_distributions_and_zero_without_overlap():
    profile = profile_of({("the", "dogs"): 2, ("a", "man"): 1})
    assert affinity(profile, profile_of({("the", "dogs"): 4, ("a", "man"): 2})) == pytest.approx(1)
    assert affinity(profile, profile_of({("in", "dogs"): 1})) == 0
