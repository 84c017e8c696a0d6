"""Batches of sentences: every sentence read once and whole, deterministic, little padding."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from syntaxlm.batches import SentenceBatches, StreamBatches
from syntaxlm.core.errors import InputError
from syntaxlm.data.corpora import EncodedCorpus, count_tokens
from syntaxlm.models.batches import TokenBatch
from syntaxlm.text.normaliser import Normaliser
from syntaxlm.text.vocabulary import Vocabulary
from tests.batches.corpora import LENGTHS, ONE_MARK, VOCABULARY, corpus_of
from tests.shared_data import DATA


@given(
    LENGTHS,
    st.integers(1, 100),
    st.booleans(),
    st.booleans(),
    st.sampled_from([VOCABULARY, ONE_MARK]),
)
def test_every_sentence_is_read_once_within_the_budget(lengths, budget, shuffle, closed, vocabulary):
    corpus = corpus_of(lengths)
    batches = SentenceBatches(corpus, vocabulary, budget, shuffle, 0, closed=closed)
    seen = Counter()
    for batch in batches.iterate(5):
        steps, columns = batch.tokens.shape
        assert columns == 1 or steps * columns <= budget
        assert not batch.carries
        assert int(batch.lengths.max()) == steps
        assert batch.lengths.tolist() == sorted(batch.lengths.tolist(), reverse=True)
        for column, index in enumerate(batch.indices.tolist()):
            seen[index] += 1
            words = corpus.sentence(index)
            length = int(batch.lengths[column])
            end = [vocabulary.end_id]
            assert batch.tokens[:length, column].tolist() == [vocabulary.begin_id, *words] + (end if closed else [])
            assert batch.targets[:length, column].tolist() == words + end + (end if closed else [])
            assert set(batch.tokens[length:, column].tolist()) <= set(end)
            assert set(batch.targets[length:, column].tolist()) <= set(end)
    assert seen == Counter(range(len(corpus)))


@pytest.mark.parametrize("mixed", [False, True], ids=["", "mixed"])
def test_the_longest_sentences_of_epochs_follow_the_curriculum(mixed):
    corpus = corpus_of([3, 9, 4, 10, 5, 20, 1, 3, 15])
    limits = {"maximum_words": 15, "curriculum": (4, 9, 5)}
    batches = SentenceBatches(corpus, VOCABULARY, 20, True, 0, mixed=mixed, **limits)
    for epoch, limit in enumerate((4, 9, 5, 15, 15, 15)):
        found = sorted(index for batch in batches.epoch(epoch) for index in batch.tolist())
        assert found == [index for index, length in enumerate(corpus.lengths) if length <= limit]
        assert batches.count(epoch) == len(batches.epoch(epoch))
    assert batches.skipped == 1, "only those that no epoch has"
    without_end = SentenceBatches(corpus, VOCABULARY, 20, True, 0, curriculum=(4,))
    assert without_end.skipped == 0
    assert sum(map(len, without_end.epoch(1))) == len(corpus)


def test_a_curriculum_changes_nothing_in_the_epochs_after_it():
    corpus = corpus_of(np.random.default_rng(0).integers(1, 30, 300))
    plain, graded = (SentenceBatches(corpus, VOCABULARY, 128, True, 3, curriculum=c) for c in ((), (10, 20)))
    assert [batch.tolist() for batch in plain.epoch(2)] == [batch.tolist() for batch in graded.epoch(2)]
    assert [batch.tolist() for batch in plain.epoch(1)] != [batch.tolist() for batch in graded.epoch(1)]


@pytest.mark.parametrize("curriculum", [(2, 9), (9, 2), (9, 9, 2)], ids=str)
def test_a_limit_below_the_shortest_sentence_raises_an_error(curriculum):
    corpus = corpus_of([3, 9, 4, 10])
    with pytest.raises(InputError, match=r"found only sentences of more than 2 words \(4 sentences\)"):
        SentenceBatches(corpus, VOCABULARY, 100, True, 0, maximum_words=9, curriculum=curriculum)


def test_mixed_batches_have_every_sentence_once_and_mostly_fill_the_budget():
    random = np.random.default_rng(0)
    corpus = EncodedCorpus.from_sentences([[3] * int(n) for n in random.integers(1, 40, 2000)])
    vocabulary = Vocabulary(["<unk>", "<s>", "</s>", "w"])
    batches = SentenceBatches(corpus, vocabulary, 512, shuffle=True, seed=1, mixed=True)
    first, second = batches.epoch(0), batches.epoch(1)
    assert sorted(np.concatenate(first).tolist()) == list(range(2000))
    assert [batch.tolist() for batch in first] != [batch.tolist() for batch in second]
    tokens = [int((corpus.lengths[batch] + 1).sum()) for batch in first]
    assert max(tokens) <= 512
    assert np.mean(np.array(tokens) == 512) > 0.8
    spread = [np.ptp(corpus.lengths[batch]) for batch in first[:-3]]
    assert np.mean(spread) > 25
    assert all((np.diff(corpus.lengths[batch]) <= 0).all() for batch in first)


def test_mixed_batches_keep_their_budget():
    corpus = EncodedCorpus.from_sentences([[3] * n for n in (1, 2, 3, 50, 2, 2, 1, 9)])
    vocabulary = Vocabulary(["<unk>", "<s>", "</s>", "w"])
    batches = SentenceBatches(corpus, vocabulary, 8, shuffle=True, seed=1, mixed=True)
    every = batches.epoch(0)
    assert sorted(np.concatenate(every).tolist()) == list(range(8))
    assert all(len(batch) == 1 or (corpus.lengths[batch] + 1).sum() <= 8 for batch in every)


@pytest.mark.parametrize("ends", [True, False], ids=["ends", "no ends"])
def test_places_map_batches_back_to_text_order_with_or_without_ends(ends):
    sentences = [[3], [4, 5, 6], [7, 8], [9, 3, 4, 5]]
    corpus, vocabulary = EncodedCorpus.from_sentences(sentences), Vocabulary([*"uvabcdefgh"], "u", "v", "v")
    batches = SentenceBatches(corpus, vocabulary, 6, shuffle=False, seed=0, predict_eos=ends)
    before, words = np.full((2, corpus.word_count + ends * len(corpus)), -1)
    for batch in batches.iterate(0):
        assert batch.mask().sum(0).tolist() == (corpus.lengths[batch.indices.numpy()] + ends).tolist()
        before[batches.places(batch)] = batch.tokens[batch.mask()]
        words[batches.places(batch)] = batch.targets[batch.mask()]
    end = [vocabulary.end_id] * ends
    assert words.tolist() == [token for sentence in sentences for token in [*sentence, *end]]
    inputs = [[vocabulary.begin_id, *sentence, *end][: len(sentence) + ends] for sentence in sentences]
    assert before.tolist() == [token for sentence in inputs for token in sentence]


@pytest.mark.long
@pytest.mark.skipif(not (DATA / "ptb").is_dir(), reason=f"the Penn Treebank text is not in {DATA}")
def test_penn_treebank_batches_are_padded_by_less_than_5_percent_and_predict_its_929589_tokens():
    path = DATA / "ptb" / "ptb.train.txt"
    normaliser = Normaliser()
    vocabulary = Vocabulary.build(count_tokens(path, normaliser), begin="<eos>", end="<eos>")
    assert len(vocabulary) == 10_000
    corpus = EncodedCorpus.encode(path, normaliser, vocabulary)
    assert sum(batch.token_count() for batch in StreamBatches(corpus, vocabulary, 20, 70)) == 929_589
    positions = real = 0
    for batch in SentenceBatches(corpus, vocabulary, 2048, True, 0).iterate(0):
        positions += batch.tokens.numel()
        real += batch.token_count()
    assert real == 929_589
    assert 1 - real / positions < 0.05


def test_last_rows_are_those_of_each_columns_last_real_step():
    tokens = torch.arange(6).view(3, 2)
    whole, ragged = TokenBatch(tokens, tokens), TokenBatch(tokens, tokens, torch.tensor([3, 1]))
    assert tokens[whole.mask()][whole.last_rows()].tolist() == [4, 5]
    assert tokens[ragged.mask()][ragged.last_rows()].tolist() == [4, 1]
