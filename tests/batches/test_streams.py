"""Batches of a text as one stream: predictions, processes, and resuming."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from syntaxlm.batches import StreamBatches
from syntaxlm.core.errors import InputError
from syntaxlm.data.corpora import EncodedCorpus
from tests.batches.corpora import LENGTHS, ONE_MARK, VOCABULARY, corpus_of, plain, stream_of


def columns_of(batches):
    """The columns of stream batches, joined: (read, predicted) for each."""
    joined = {}
    for batch in batches:
        for column in range(batch.tokens.shape[1]):
            real = batch.mask()[:, column]
            tokens, targets = joined.setdefault(column, ([], []))
            tokens.extend(batch.tokens[real, column].tolist())
            targets.extend(batch.targets[real, column].tolist())
    return list(joined.values())


@given(LENGTHS, st.integers(1, 40), st.integers(1, 20), st.sampled_from([VOCABULARY, ONE_MARK]))
def test_every_token_of_the_stream_is_predicted_exactly_once_after_the_one_before_it(lengths, size, steps, vocabulary):
    corpus = corpus_of(lengths)
    stream = stream_of(corpus, vocabulary)
    batches = StreamBatches(corpus, vocabulary, size, steps)
    found = list(batches)
    assert len(found) == len(batches)
    assert batches.carries_state
    assert sum(batch.token_count() for batch in found) == len(stream) == batches.token_count
    columns = columns_of(found)
    assert [word for _, targets in columns for word in targets] == stream
    assert [word for tokens, _ in columns for word in tokens] == [vocabulary.begin_id, *stream[:-1]]
    sizes = [len(targets) for _, targets in columns]
    assert len(sizes) == min(size, len(stream))
    assert max(sizes) - min(sizes) <= 1


@given(LENGTHS, st.integers(1, 40), st.integers(1, 20))
def test_stream_batches_are_full_except_the_last_and_have_no_empty_column(lengths, size, steps):
    batches = list(StreamBatches(corpus_of(lengths), VOCABULARY, size, steps))
    for batch in batches[:-1]:
        assert batch.tokens.shape[0] == steps
        assert batch.lengths is None
    last = batches[-1]
    assert last.tokens.shape == last.targets.shape
    assert last.tokens.dtype == last.targets.dtype == torch.int64
    assert 1 <= last.tokens.shape[0] <= steps + 1
    assert last.lengths is None or int(last.lengths.min()) >= 1
    assert [batch.carries for batch in batches] == [False] + [True] * (len(batches) - 1)


@given(LENGTHS, st.integers(4, 40), st.integers(1, 20), st.integers(2, 4))
def test_processes_share_the_columns_of_a_stream(lengths, size, steps, ranks):
    corpus = corpus_of(lengths)
    stream = stream_of(corpus, VOCABULARY)
    if len(stream) < ranks:
        with pytest.raises(InputError, match="expected at least one column for each process"):
            StreamBatches(corpus, VOCABULARY, size, steps, 0, ranks)
        return
    shares = [list(StreamBatches(corpus, VOCABULARY, size, steps, rank, ranks)) for rank in range(ranks)]
    assert len({len(share) for share in shares}) == 1
    whole = list(StreamBatches(corpus, VOCABULARY, size, steps))
    for number, batch in enumerate(whole):
        together = torch.cat([share[number].tokens for share in shares], dim=1)
        masks = torch.cat([share[number].mask() for share in shares], dim=1)
        assert torch.equal(masks, batch.mask())
        assert torch.equal(together[masks], batch.tokens[masks])


@given(LENGTHS, st.integers(1, 10), st.integers(1, 10), st.integers(0, 30))
def test_a_stream_resumes_from_any_batch(lengths, size, steps, start):
    batches = StreamBatches(corpus_of(lengths), VOCABULARY, size, steps)
    assert plain(list(batches.iterate(0, start))) == plain(list(batches)[start:])


@given(LENGTHS, st.integers(1, 40), st.integers(1, 20), st.integers(0, 5), st.sampled_from([VOCABULARY, ONE_MARK]))
def test_random_steps_predict_every_token_exactly_once(lengths, size, steps, epoch, vocabulary):
    corpus = corpus_of(lengths)
    stream = stream_of(corpus, vocabulary)
    batches = StreamBatches(corpus, vocabulary, size, steps, variable_bptt=True, seed=3)
    found = list(batches.iterate(epoch))
    assert len(found) == batches.count(epoch)
    assert [batch.carries for batch in found] == [False] + [True] * (len(found) - 1)
    columns = columns_of(found)
    assert [word for _, targets in columns for word in targets] == stream
    assert [word for tokens, _ in columns for word in tokens] == [vocabulary.begin_id, *stream[:-1]]
    assert all(5 <= batch.tokens.shape[0] <= steps + 10 for batch in found[:-1])
    assert 1 <= found[-1].tokens.shape[0] <= steps + 11
    assert all(batch.lengths is None for batch in found[:-1])
    assert found[-1].lengths is None or int(found[-1].lengths.min()) >= 1


@given(LENGTHS, st.integers(2, 10), st.integers(1, 10), st.integers(0, 30), st.integers(0, 5))
def test_random_steps_are_those_of_seed_and_epoch_in_every_process_and_from_any_batch(
    lengths, size, steps, start, epoch
):
    corpus = corpus_of([*lengths, 3])

    def made(start=0, rank=0, ranks=1):
        return list(StreamBatches(corpus, VOCABULARY, size, steps, rank, ranks, True, 7).iterate(epoch, start))

    whole = made()
    assert plain(made(start)) == plain(whole[start:])
    for rank in (0, 1):
        assert [batch.tokens.shape[0] for batch in made(0, rank, 2)] == [batch.tokens.shape[0] for batch in whole]


@pytest.mark.long
def test_random_steps_are_drawn_around_the_steps_and_in_one_of_twenty_batches_around_half():
    corpus = EncodedCorpus.from_sentences([[3] * 999] * 1000)

    def drawn(seed, epoch):
        batches = StreamBatches(corpus, VOCABULARY, 1, 70, variable_bptt=True, seed=seed)
        return [batch.tokens.shape[0] for batch in batches.iterate(epoch)][:-1]

    lengths = np.array(drawn(0, 0))
    near = lengths[lengths > 52]
    assert len(near) / len(lengths) == pytest.approx(0.95, abs=0.01)
    assert near.mean() == pytest.approx(
        69.5, abs=0.3
    )  # integer part of a normal variable with mean 70, truncated at 80
    assert near.std() == pytest.approx(4.9, abs=0.3)
    assert lengths[lengths <= 52].mean() == pytest.approx(34.5, abs=0.8)
    assert near.max() == 80
    assert drawn(0, 0) == drawn(0, 0)
    assert drawn(0, 1)[:50] != drawn(0, 0)[:50] != drawn(1, 0)[:50]


def test_invalid_sizes_raise_an_error_with_their_names():
    corpus = corpus_of([3])
    with pytest.raises(InputError, match=r"^batch_size: found 0; .*\nbptt: found -1; .*\nseed: found -1; expected 0"):
        StreamBatches(corpus, VOCABULARY, 0, -1, seed=-1)
    with pytest.raises(InputError, match="rank: found 2; expected 0 to 1"):
        StreamBatches(corpus, VOCABULARY, 10, 1, rank=2, ranks=2)
