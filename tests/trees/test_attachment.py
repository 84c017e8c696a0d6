"""Attachment scores: counts of heads and labels, punctuation, comparison of sets of trees."""

from __future__ import annotations

import numpy as np
import pytest

from syntaxlm.core.errors import InputError
from syntaxlm.trees.matching import ALL_WORDS, AttachmentScores, attachment, compare_attachment, is_punctuation
from syntaxlm.trees.tree import DependencyTree


def tree(heads, labels="det nsubj root punct", tags="DET NOUN VERB PUNCT", words="the cat sleeps ."):
    return DependencyTree(tuple(words.split()), tuple(tags.split()), tuple(heads), tuple(labels.split()), "s1")


GOLD = tree((2, 3, 0, 3))


def test_heads_and_labels_are_counted_with_punctuation_and_without():
    assert attachment(GOLD, GOLD).tolist() == [[3, 3, 3], [4, 4, 4]]
    assert attachment(tree((3, 3, 0, 1)), GOLD).tolist() == [[3, 2, 2], [4, 2, 2]]
    relabelled = tree((2, 1, 0, 3), "det nsubj parataxis dep")
    assert attachment(relabelled, GOLD).tolist() == [[3, 2, 1], [4, 3, 1]]


def test_a_correct_label_with_a_wrong_head_does_not_count_and_labels_include_subtypes():
    assert attachment(tree((2, 1, 0, 3)), GOLD)[0].tolist() == [3, 2, 2]
    assert attachment(tree((2, 3, 0, 3), "det nsubj:pass root punct"), GOLD)[0].tolist() == [3, 3, 2]


@pytest.mark.parametrize(
    ("word", "tag", "expected"),
    [
        (".", "PUNCT", True), ("etc.", "PUNCT", True), (".", "SYM", False), ("cat", "NOUN", False),
        (".", "", True), ("...", ".", True), ("¿", "", True), ("’", "''", True), ("n't", "RB", False),
        ("$", "$", False), ("3", "CD", False),
    ],
)  # fmt: skip
def test_punctuation_is_recognised_by_universal_tags_or_else_by_characters(word, tag, expected):
    assert is_punctuation(word, tag) == expected


def test_gold_tags_determine_punctuation():
    predicted = tree((2, 3, 0, 1), tags="PUNCT PUNCT PUNCT X")
    assert attachment(predicted, GOLD).tolist() == [[3, 3, 3], [4, 3, 3]]


def test_different_words_raise_an_error_with_their_location():
    with pytest.raises(InputError) as error:
        attachment(tree((2, 3, 0, 3), words="the dog sleeps ."), GOLD, "out.conllu, line 3", "gold.conllu, sentence 1")
    expected = "out.conllu, line 3: found 'dog' as word 2; expected 'cat' as in gold.conllu, sentence 1"
    assert str(error.value) == expected
    shorter = tree((2, 0), "det root", "DET NOUN", "the cat")
    with pytest.raises(InputError, match="sentence s1: found 2 words; expected 4 as in the gold sentence s1"):
        attachment(shorter, GOLD)


def test_scores_are_over_the_words_of_all_sentences():
    long, short = tree((3, 1, 0, 3)), tree((0,), "root", "INTJ", "yes")
    scores = AttachmentScores(np.stack([attachment(long, GOLD), attachment(short, short)]))
    assert scores.uas() == pytest.approx(2 / 4)
    assert scores.uas(ALL_WORDS) == pytest.approx(3 / 5)
    assert (scores.words(), scores.words(ALL_WORDS)) == (4, 5)
    assert scores.to_dict()["las_all_words"] == pytest.approx(3 / 5)


def test_there_is_no_score_without_words_and_no_las_without_labels():
    mark = tree((0,), "root", "PUNCT", "!")
    scores = AttachmentScores(attachment(mark, mark)[None])
    assert (scores.uas(), scores.uas(ALL_WORDS)) == (None, 1.0)
    unlabelled = AttachmentScores(attachment(GOLD, GOLD)[None], labelled=False)
    assert (unlabelled.uas(), unlabelled.las()) == (1.0, None)
    with pytest.raises(InputError, match="found only punctuation"):
        compare_attachment(scores, scores)


def test_a_clear_gain_is_significant_and_an_even_one_is_not():
    generator = np.random.default_rng(4)
    words = np.full(200, 10.0)

    def scores(right):
        rows = np.stack([words, right, right], axis=1)
        return AttachmentScores(np.stack([rows, rows], axis=1))

    base = generator.integers(3, 7, 200).astype(float)
    better = compare_attachment(scores(base + 1), scores(base))
    assert better.difference == pytest.approx(0.1)
    assert better.low == pytest.approx(0.1)
    noise = np.tile([1.0, -1.0], 100)
    even = compare_attachment(scores(base + noise), scores(base))
    assert even.low < even.difference == 0 < even.high
    assert "UAS difference +0.0" in str(even)
    with pytest.raises(InputError, match="expected the same sentences"):
        compare_attachment(scores(base), AttachmentScores(scores(base).counts[:5]))
