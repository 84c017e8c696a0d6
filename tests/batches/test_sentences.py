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
from tests.batches.corpora import LENGTHS, ONE_MARK, VOCABULARY, assert_same, corpus_of
from tests.shared_data import DATA


@given(
    LENGTHS,
    st.integers(1, 100),
    st.booleans(),
    st.booleans(),
    st.sampled_from([None, 1, 3]),
    st.sampled_from([VOCABULARY, ONE_MARK]),
)
def test_every_sentence_is_read_once_within_the_budget(lengths, budget, shuffle, closed, most, vocabulary):
    corpus = corpus_of(lengths)
    batches = SentenceBatches(corpus, vocabulary, budget, shuffle, 0, maximum_sentences=most, closed=closed)
    seen = Counter()
    for batch in batches.iterate(5):
        steps, columns = batch.tokens.shape
        assert columns == 1 or steps * columns <= budget
        assert most is None or columns <= most
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


@given(LENGTHS, st.integers(1, 100), st.integers(1, 4), st.booleans())
def test_processes_share_the_batches_of_sentences(lengths, budget, ranks, shuffle):
    corpus = corpus_of(lengths)

    def epoch(rank, ranks):
        return SentenceBatches(corpus, VOCABULARY, budget, shuffle, 3, rank=rank, ranks=ranks).epoch(7)

    whole = epoch(0, 1)
    if shuffle and len(whole) < ranks:
        with pytest.raises(InputError, match="too few"):
            epoch(0, ranks)
        return
    shares = [epoch(rank, ranks) for rank in range(ranks)]
    together = [batch for share in shares for batch in share]
    if shuffle:
        assert {len(share) for share in shares} == {len(whole) // ranks}
    else:
        assert len(together) == len(whole)
    found = {tuple(batch) for batch in together}
    assert found <= {tuple(batch) for batch in whole}
    assert len(found) == len(together)


def many_sentences():
    return corpus_of(np.random.default_rng(0).integers(1, 30, 300))


def test_an_interrupted_epoch_resumes_with_the_same_batches():
    arguments = (many_sentences(), VOCABULARY, 128, True, 11)
    expected = list(SentenceBatches(*arguments).iterate(4))
    again = SentenceBatches(*arguments)
    list(again.iterate(0))
    assert_same(list(again.iterate(4, start=17)), expected[17:])


def test_epochs_and_seeds_differ_in_order_and_composition_of_batches():
    def batches(seed, epoch):
        return {
            frozenset(b.tolist()) for b in SentenceBatches(many_sentences(), VOCABULARY, 128, True, seed).epoch(epoch)
        }

    first = batches(0, 0)
    assert batches(0, 0) == first
    for other in (batches(0, 1), batches(1, 0)):
        assert len(first & other) < len(first) / 4


def test_evaluation_comes_in_the_same_order_longest_first():
    batches = SentenceBatches(many_sentences(), VOCABULARY, 128, False, 0)
    first = [batch.tolist() for batch in batches.epoch(0)]
    assert first == [batch.tolist() for batch in batches.epoch(1)]
    lengths = batches.corpus.lengths[np.concatenate(first)]
    assert (np.diff(lengths) <= 0).all()


def test_long_sentences_are_excluded_and_counted():
    corpus = corpus_of([3, 9, 4, 10])
    batches = SentenceBatches(corpus, VOCABULARY, 100, True, 0, maximum_words=4)
    assert batches.skipped == 2
    assert sorted(np.concatenate(batches.epoch(0)).tolist()) == [0, 2]
    with pytest.raises(InputError, match="all 4 sentences are longer than 2 words"):
        SentenceBatches(corpus, VOCABULARY, 100, True, 0, maximum_words=2)


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
    corpus = many_sentences()
    plain, graded = (SentenceBatches(corpus, VOCABULARY, 128, True, 3, curriculum=c) for c in ((), (10, 20)))
    assert [batch.tolist() for batch in plain.epoch(2)] == [batch.tolist() for batch in graded.epoch(2)]
    assert [batch.tolist() for batch in plain.epoch(1)] != [batch.tolist() for batch in graded.epoch(1)]


def test_an_epoch_of_a_curriculum_resumes_with_the_same_batches():
    arguments = (many_sentences(), VOCABULARY, 128, True, 11)
    expected = list(SentenceBatches(*arguments, curriculum=(10, 20)).iterate(1))
    again = SentenceBatches(*arguments, curriculum=(10, 20))
    list(again.iterate(0))
    assert_same(list(again.iterate(1, start=9)), expected[9:])


def test_processes_share_the_batches_of_a_curriculum():
    arguments = (many_sentences(), VOCABULARY, 128, True, 11)
    limits = {"curriculum": (10, 20)}
    shares = [SentenceBatches(*arguments, rank=rank, ranks=2, **limits).epoch(0) for rank in (0, 1)]
    assert len(shares[0]) == len(shares[1])
    found = {tuple(batch) for share in shares for batch in share}
    assert found <= {tuple(batch) for batch in SentenceBatches(*arguments, **limits).epoch(0)}
    assert len(found) == 2 * len(shares[0])


@pytest.mark.parametrize("curriculum", [(2, 9), (9, 2), (9, 9, 2)], ids=str)
def test_a_limit_below_the_shortest_sentence_raises_an_error(curriculum):
    corpus = corpus_of([3, 9, 4, 10])
    with pytest.raises(InputError, match="all 4 sentences are longer than 2 words"):
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


def test_mixed_batches_keep_their_limits():
    corpus = EncodedCorpus.from_sentences([[3] * n for n in (1, 2, 3, 50, 2, 2, 1, 9)])
    vocabulary = Vocabulary(["<unk>", "<s>", "</s>", "w"])
    batches = SentenceBatches(corpus, vocabulary, 8, shuffle=True, seed=1, mixed=True, maximum_sentences=2)
    every = batches.epoch(0)
    assert sorted(np.concatenate(every).tolist()) == list(range(8))
    assert all(len(batch) <= 2 for batch in every)
    assert all(len(batch) == 1 or (corpus.lengths[batch] + 1).sum() <= 8 for batch in every)


def test_places_map_batches_back_to_text_order():
    sentences = [[3], [4, 5, 6], [7, 8], [9, 3, 4, 5]]
    corpus, vocabulary = EncodedCorpus.from_sentences(sentences), Vocabulary([*"uvabcdefgh"], "u", "v", "v")
    batches = SentenceBatches(corpus, vocabulary, 6, shuffle=False, seed=0)
    read = np.full(corpus.word_count + len(corpus), -1)
    for batch in batches.iterate(0):
        read[batches.places(batch)] = batch.targets[batch.mask()]
    end = vocabulary.end_id
    assert read.tolist() == [token for sentence in sentences for token in [*sentence, end]]


def test_without_ends_every_word_is_predicted_once_and_no_end():
    sentences = [[3], [4, 5, 6], [7, 8], [9, 3, 4, 5]]
    corpus, vocabulary = EncodedCorpus.from_sentences(sentences), Vocabulary([*"uvabcdefgh"], "u", "v", "v")
    batches = SentenceBatches(corpus, vocabulary, 6, shuffle=False, seed=0, predict_eos=False)
    before, words = np.full(corpus.word_count, -1), np.full(corpus.word_count, -1)
    for batch in batches.iterate(0):
        assert batch.mask().sum(0).tolist() == corpus.lengths[batch.indices.numpy()].tolist()
        before[batches.places(batch)] = batch.tokens[batch.mask()]
        words[batches.places(batch)] = batch.targets[batch.mask()]
    assert words.tolist() == [token for sentence in sentences for token in sentence]
    assert before.tolist() == [token for sentence in sentences for token in [vocabulary.begin_id, *sentence[:-1]]]


def test_invalid_sizes_raise_an_error_with_their_names():
    for arguments, message in (
        ({"token_budget": 0}, "^token_budget: found 0; expected 1 or more$"),
        ({"maximum_words": 0, "seed": -1}, r"^maximum_words: found 0; expected 1 or more\nseed: found -1; expected 0"),
        ({"rank": 2, "ranks": 2}, "^rank: found 2; expected 0 to 1$"),
    ):
        with pytest.raises(InputError, match=message):
            SentenceBatches(corpus_of([3]), VOCABULARY, **{"token_budget": 10, "shuffle": True, "seed": 0} | arguments)


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


def test_sentences_carry_no_state():
    assert not SentenceBatches(corpus_of([3]), VOCABULARY, 10, True, 0).carries_state
