"""Log-probabilities of trees in memory, scored one by one or together."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from syntaxlm.core.errors import InputError
from syntaxlm.scoring.reading_summary import ReadingSummary
from syntaxlm.scoring.surprisal import log_probs_of_trees, tree_surprisals
from syntaxlm.storage.folder import ModelBundle
from syntaxlm.text.normaliser_settings import NormaliserSettings
from syntaxlm.text.options import TextOptions
from syntaxlm.trees.conllu import write_conllu
from tests.models.tree_variants import SENTENCE, TREES, built, by_word, tree
from tests.tree_models import tree_model


@pytest.mark.parametrize("variant", ["tanh", "labelled"])
def test_tree_log_probabilities_are_sums_over_words_in_the_given_order(variant):
    trees = [*TREES, TREES[1], TREES[0]]
    expected = [math.fsum(words) for words in by_word(built(variant), *trees)]
    assert log_probs_of_trees(tree_model(variant), trees) == pytest.approx(expected)


def test_trees_that_the_model_cannot_distinguish_have_exactly_equal_scores():
    unknown = [
        replace(SENTENCE, words=("zebra", *SENTENCE.words[1:])),
        replace(SENTENCE, words=("gnu", *SENTENCE.words[1:])),
    ]
    upper = replace(SENTENCE, words=tuple(map(str.upper, SENTENCE.words)))
    relabelled = replace(SENTENCE, labels=("root",) * len(SENTENCE))
    moved = replace(SENTENCE, heads=(2, *SENTENCE.heads[1:]))
    trees = [SENTENCE, *unknown, upper, relabelled, moved]
    known, zebra, gnu, shouted, labels, other = log_probs_of_trees(tree_model(), trees)
    assert (zebra, shouted, labels) == (gnu, known, known)
    assert len({known, zebra, other}) == 3
    known, *_, labels, _ = log_probs_of_trees(tree_model("labelled"), trees)
    assert labels != known


def test_unsuitable_trees_and_models_raise_an_error(lstm):
    cyclic = replace(tree("the cat", (2, 1)), name="q-7")
    with pytest.raises(InputError, match=r"^k\.conllu, sentence q-7: words 1, 2 have no path to a root"):
        log_probs_of_trees(tree_model(), [SENTENCE, cyclic], "k.conllu")
    with pytest.raises(InputError, match="this lstm model does not generate dependency trees, so scoring of"):
        log_probs_of_trees(lstm, TREES)
    bare = [replace(one, labels=("",) * len(one)) for one in TREES]
    with pytest.raises(InputError, match="found no label of an edge"):
        log_probs_of_trees(tree_model("labelled"), bare)
    broken = tree_model()
    with torch.no_grad():
        broken.model.embedding.weight.fill_(math.nan)
    with pytest.raises(InputError, match="the model returned NaN; its weights are unusable"):
        log_probs_of_trees(broken, TREES)


def test_the_summary_of_trees_counts_the_marks_that_have_rows(tmp_path):
    stored = tree_model()
    settings = replace(stored.settings, normaliser=NormaliserSettings(lower_case=True, drop_punctuation=True))
    model = ModelBundle(stored.model, settings, stored.vocabulary, stored.labels)
    write_conllu([replace(tree("the zebra !", (2, 0, 2)), name="")], tmp_path / "a.conllu")
    summary = ReadingSummary(model, TextOptions())
    for rows in tree_surprisals(model, tmp_path / "a.conllu"):
        assert [row.in_vocabulary for row in rows] == [True, False, False]
        summary.add(rows)
    assert summary.counts()[1:6] == (3, 2, 1, 0, 0)
