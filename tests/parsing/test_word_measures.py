"""Measures of words from the best tree of their sentence."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syntaxlm.core.errors import InputError
from syntaxlm.evaluation.options import RegressionSettings
from syntaxlm.parsing.parse import parse_lines
from syntaxlm.parsing.result import Parse
from syntaxlm.parsing.word_measures import tree_measures, word_measures
from syntaxlm.scoring.options import ScoreOptions
from syntaxlm.scoring.surprisal import word_columns
from syntaxlm.trees.tree import Tree, parse_brackets
from tests.fresh_models import fresh

TREES = ["constituents_ended", "depth", "distance"]


def parse_of(brackets: str) -> Parse:
    (tree,) = parse_brackets(brackets)
    return Parse(1, list(tree.words), list(tree.words), tree)


def test_measures_of_a_tree_by_hand():
    measures = tree_measures(parse_of("(X (X (X the) (X (X old) (X dog))) (X (X sees) (X (X a) (X cat))))"))
    assert measures == {
        "constituents_ended": [0, 0, 2, 0, 0, 3],  # (old dog), (the old dog); (a cat), (sees a cat), the sentence
        "depth": [2, 3, 3, 2, 3, 3],
        "distance": [0, 2, 1, 3, 2, 1],
    }


def test_flat_constituents_and_one_word():
    flat = Tree(("a", "b", "c"), ("X",) * 3, parse_brackets("(X (X a) (X b) (X c))")[0].constituents[:1])
    assert tree_measures(Parse(1, ["a", "b", "c"], ["a", "b", "c"], flat)) == {
        "constituents_ended": [0, 0, 1], "depth": [1, 1, 1], "distance": [0, 1, 1],
    }  # fmt: skip
    assert tree_measures(parse_of("(X a)")) == {name: [0] for name in TREES}


@given(st.integers(2, 9), st.randoms(use_true_random=False))
def test_the_distances_rebuild_the_tree_and_every_constituent_ends_once(size, random):
    spans = []

    def split(start: int, end: int) -> str:
        if end - start == 1:
            return f"(X w{start})"
        spans.append((start, end))
        at = random.randint(start + 1, end - 1)
        return f"(X {split(start, at)} {split(at, end)})"

    measures = tree_measures(parse_of(split(0, size)))
    distance = measures["distance"]

    def rebuilt(start: int, end: int) -> list[tuple[int, int]]:
        if end - start == 1:
            return []
        at = max(range(start + 1, end), key=lambda place: distance[place])
        return [(start, end), *rebuilt(start, at), *rebuilt(at, end)]

    assert sorted(rebuilt(0, size)) == sorted(spans)
    assert sum(measures["constituents_ended"]) == len(spans)
    assert sum(measures["depth"]) == sum(end - start for start, end in spans)


@pytest.mark.parametrize("name", ["prpn", "simple-pcfg"])
def test_rows_have_the_measures_of_the_parse_of_their_line(name):
    stored = fresh(name)
    lines = ["the old dog sees a cat", "", "cat", "a dog"]
    options = ScoreOptions(measures=[*TREES, "prefix_surprisal"])
    rows = list(word_measures(stored, lines, options))
    for words, parse in zip(rows, parse_lines(stored, lines), strict=True):
        expected = tree_measures(parse)
        for place, word in enumerate(words[:-1]):
            found = word.measures
            assert [found["constituents_ended"], found["depth"]] == [expected[key][place] for key in TREES[:2]]
            assert found["distance"] == (expected["distance"][place] if place else None)
            assert list(word.row()) == [*word_columns(ScoreOptions()), "prefix_surprisal", *TREES]
        if words:
            assert {words[-1].measures[key] for key in TREES} == {None}  # the end of the sentence


@pytest.mark.parametrize("name", ["prpn", "simple-pcfg"])
def test_the_tree_of_a_line_that_continues_a_given_beginning_has_both(name):
    stored = fresh(name)
    options = ScoreOptions(given="the old  dog", measures=TREES)
    lines = [" sees a cat", "", "N"]
    rows = list(word_measures(stored, lines, options))
    for words, line in zip(rows, lines, strict=True):
        (whole,) = word_measures(stored, [f"the old dog {line}"], ScoreOptions(measures=TREES))
        assert [word.measures for word in words] == ([word.measures for word in whole[3:]] if line else [])


def test_a_written_word_of_two_tokens_has_the_constituents_that_end_in_it():
    stored = fresh("simple-pcfg", splitting="punctuation")
    options = ScoreOptions(measures=TREES, punctuation="keep")
    (words,) = word_measures(stored, ["the dog."], options)
    (parse,) = parse_lines(stored, ["the dog ."])
    expected = tree_measures(parse)
    assert words[1].measures["constituents_ended"] == sum(expected["constituents_ended"][1:])
    assert words[1].measures["distance"] == expected["distance"][1]


def test_a_model_without_trees_is_refused():
    with pytest.raises(InputError, match="measures of trees"):
        word_measures(fresh("lstm"), ["the cat"], ScoreOptions(measures=["depth"]))


def test_one_name_is_a_list_of_it_and_other_values_are_named():
    assert ScoreOptions(measures="rank") == ScoreOptions(measures=["rank"])
    assert RegressionSettings(predictors="zone", measures="entropy").predictors == ("zone",)
    for wrong in ("entropi", ["rank", "entropi"]):
        with pytest.raises(InputError, match="measures: found 'entropi'; expected a list of: entropy"):
            ScoreOptions(measures=wrong)
    with pytest.raises(InputError, match="measures: found 5; expected a list of"):
        ScoreOptions(measures=5)
